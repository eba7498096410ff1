"""Statistics against the obvious loops and published tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import friedmanchisquare

from genmetric.reproduction import _paper as paper
from genmetric.reproduction._ranks import critical_difference, mark, mean_and_error, rank_methods


def naive_ranks(row):
    """Rank of each entry: how many are smaller, and half of those that are equal."""
    return [sum(b < a for b in row) + (sum(b == a for b in row) + 1) / 2 for a in row]


@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 1.0, 2.5, 3.0]), min_size=4, max_size=4),
        min_size=2,
        max_size=6,
    )
)
def test_average_ranks(rows):
    found = rank_methods(rows, "abcd")
    expected = np.mean([naive_ranks(row) for row in rows], axis=0)
    assert found.ranks == pytest.approx(expected)
    assert found.ranks.sum() == pytest.approx(10)
    higher = rank_methods(rows, "abcd", higher_is_better=True)
    assert higher.ranks == pytest.approx(5 - expected)


def test_friedman(rng):
    scores = rng.normal(size=(8, 6)) + np.arange(6)
    found = rank_methods(scores, "abcdef")
    expected = friedmanchisquare(*scores.T)
    assert (found.statistic, found.p_value) == pytest.approx(tuple(expected))
    n, k = 8, 6
    f = (n - 1) * expected.statistic / (n * (k - 1) - expected.statistic)
    assert found.f_statistic == pytest.approx(f)
    assert found.f_p_value < found.p_value


# q of the two-tailed Nemenyi test, Demsar (2006), table 5.
@pytest.mark.parametrize(
    ("level", "values"),
    [
        (0.05, [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]),
        (0.10, [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920]),
    ],
)
def test_nemenyi_against_the_published_table(level, values):
    for k, q in zip(range(2, 11), values, strict=True):
        n = 8
        found = critical_difference(k, n, level=level)
        assert found == pytest.approx(q * np.sqrt(k * (k + 1) / (6 * n)), abs=0.0012)


def test_groups_join_what_does_not_differ():
    scores = np.tile([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], (8, 1))
    ranking = rank_methods(scores, "abcdef")
    assert 2 < ranking.critical_difference < 3
    assert ranking.groups() == [(1.0, 3.0), (2.0, 4.0), (3.0, 5.0), (4.0, 6.0)]


def test_groups_of_equal_methods():
    ranking = rank_methods(np.ones((4, 3)), "abc")
    assert ranking.ranks.tolist() == [2.0, 2.0, 2.0]
    assert np.isnan(ranking.p_value)
    assert ranking.groups() == []


def test_bad_means():
    with pytest.raises(ValueError, match="finite"):
        rank_methods([[1.0, np.nan]], "ab")
    with pytest.raises(ValueError, match="2 methods"):
        rank_methods([[1.0, 2.0, 3.0]], "ab")


def test_mean_and_error():
    values = [1.0, 4.0, 4.0, 7.0]
    mean, error = mean_and_error(values)
    assert mean == 4.0
    assert error == pytest.approx(np.sqrt(sum((v - 4) ** 2 for v in values) / 3) / 2)
    assert np.isnan(mean_and_error([2.0])[1])


@pytest.mark.parametrize(
    ("ours", "higher", "expected"),
    [(1.0, False, "better"), (5.0, False, "worse"), (2.5, False, ""), (5.0, True, "better")],
)
def test_mark(ours, higher, expected):
    # Combined standard error 0.5, so one on either side of 2.5 is not marked.
    assert mark(ours, 0.3, 2.5, 0.4, higher_is_better=higher) == expected
    assert mark(ours, float("nan"), 2.5, 0.4, higher_is_better=higher) == ""


def test_the_papers_average_ranks_follow_from_its_errors():
    for printed in (paper.RANKS_SIX, paper.RANKS_EIGHT):
        sets = sorted({name for name, _ in paper.SMALL})
        means = [[paper.SMALL[name, m].mean for m in printed] for name in sets]
        # The paper gives equal errors the better rank, we the mean: at most half a rank in one set.
        found = rank_methods(means, list(printed)).ranks
        assert found == pytest.approx(list(printed.values()), abs=0.5 / 8 + 0.01)
