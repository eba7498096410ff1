"""Statistics of the tables compared with loops and published values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from genmetric.reproduction.experiments import EXPERIMENTS
from genmetric.reproduction.ranks import mean_and_error, rank_methods


def naive_ranks(row):
    """Rank of each entry: how many are smaller, and half of those that are equal."""
    return [sum(b < a for b in row) + (sum(b == a for b in row) + 1) / 2 for a in row]


rows = st.lists(st.sampled_from([0.0, 1.0, 2.5, 3.0]), min_size=4, max_size=4)


@settings(max_examples=20)
@given(st.lists(rows, min_size=2, max_size=6))
def test_average_ranks(rows):
    found = rank_methods(rows, "abcd")
    expected = np.mean([naive_ranks(row) for row in rows], axis=0)
    assert found.ranks == pytest.approx(expected)
    higher = rank_methods(rows, "abcd", higher_is_better=True)
    assert higher.ranks == pytest.approx(5 - expected)


def test_friedman(rng):
    n, k = 8, 6
    scores = rng.normal(size=(n, k)) + np.arange(k)
    found = rank_methods(scores, "abcdef")
    expected = stats.friedmanchisquare(*scores.T)
    assert (found.statistic, found.p_value) == pytest.approx(tuple(expected))
    f = (n - 1) * expected.statistic / (n * (k - 1) - expected.statistic)
    assert found.f_statistic == pytest.approx(f)
    assert found.f_p_value == pytest.approx(stats.f.sf(f, k - 1, (k - 1) * (n - 1)))


def test_nemenyi_against_the_published_table(rng):
    # q of the two-tailed Nemenyi test at the level 0.05, Demsar (2006), table 5.
    for k, q in zip(
        range(3, 11), [2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164], strict=True
    ):
        found = rank_methods(rng.normal(size=(8, k)), "abcdefghij"[:k]).critical_difference
        assert found == pytest.approx(q * np.sqrt(k * (k + 1) / 48), abs=0.0012)


def test_equal_methods_and_perfect_order():
    equal = rank_methods(np.ones((4, 3)), "abc")
    assert equal.ranks.tolist() == [2.0, 2.0, 2.0]
    assert np.isnan(equal.p_value)
    order = rank_methods(np.tile([1.0, 2.0, 3.0], (4, 1)), "abc")
    assert (order.f_statistic, order.f_p_value) == (np.inf, 0.0)


def test_mean_and_error():
    values = [1.0, 4.0, 4.0, 7.0]
    assert mean_and_error(values) == (4.0, pytest.approx(stats.sem(values)))
    assert np.isnan(mean_and_error([2.0])[1])


@pytest.mark.parametrize("name", ["small", "density"])
def test_the_average_ranks_of_the_paper_follow_from_its_errors(name):
    figures, printed = EXPERIMENTS[name].figures, EXPERIMENTS[name].ranked
    means = [[figures[p, m].mean for m in printed] for p in EXPERIMENTS[name].problems]
    # The paper gives equal errors the better rank, we the mean: at most half a rank in one set.
    found = rank_methods(means, list(printed)).ranks
    assert found == pytest.approx(list(printed.values()), abs=0.5 / 8 + 0.01)
