"""Splits and rows of the protocol."""

import numpy as np
import pytest

from genmetric.datasets import CATALOGUE, load_dataset
from genmetric.reproduction._problems import (
    LARGE,
    PROBLEMS,
    SMALL,
    Problem,
    load_problem,
    split_parts,
    split_rows,
)


def test_sizes_are_those_behind_the_printed_errors():
    # The paper's errors are whole numbers of mistakes out of 30 test sets of these sizes.
    sizes = {n: len(split_rows(n, 0)[2]) for n in (150, 178, 351, 846, 1000, 1500)}
    assert sizes == {150: 30, 178: 37, 351: 71, 846: 170, 1000: 200, 1500: 300}


def test_parts_are_disjoint_and_whole():
    train, val, test = split_rows(351, 5)
    assert sorted(np.r_[train, val, test]) == list(range(351))
    assert (len(train), len(val)) == (210, 70)


def test_splits_differ_and_repeat():
    assert np.array_equal(split_rows(100, 3)[0], split_rows(100, 3)[0])
    assert not np.array_equal(split_rows(100, 3)[0], split_rows(100, 4)[0])


def test_given_sizes():
    assert [len(part) for part in split_rows(20_000, 0, (12_000, 2_000))] == [12_000, 2_000, 6_000]


@pytest.mark.parametrize(("n", "sizes"), [(3, None), (10, (8, 2)), (10, (0, 2))])
def test_too_few_samples(n, sizes):
    with pytest.raises(ValueError, match="leave no test samples"):
        split_rows(n, 0, sizes)


def test_parts_have_matching_samples():
    X = np.arange(40.0)[:, None] * [1, 2]
    parts = split_parts(X, np.arange(40), 1, None)
    for rows, classes in parts.values():
        assert np.array_equal(rows[:, 0], classes)


def test_small_sets_fill_the_cube():
    X, y = load_problem(PROBLEMS["vehicle"])
    assert X.min(axis=0) == pytest.approx(np.full(18, -1.0))
    assert X.max(axis=0) == pytest.approx(np.full(18, 1.0))
    assert np.array_equal(y, load_dataset("vehicle").target)


def test_unscaled_dataset_is_unchanged():
    X, _ = load_problem(PROBLEMS["letters-original"])
    assert np.array_equal(X, load_dataset("letter").data)


def test_every_problem_has_a_dataset_and_test_samples():
    assert {*SMALL, *LARGE} < set(PROBLEMS)
    for problem in PROBLEMS.values():
        n = CATALOGUE[problem.dataset].n_samples
        assert problem.n_samples == n
        train, val = problem.sizes or (int(0.6 * n), int(0.2 * n))
        assert n - train - val == {"mnist": 10_000, "letter": 6_000}.get(
            problem.dataset, n - train - val
        )


def test_components_of_images_and_their_cache(tmp_path):
    # 8 x 8 digits stand in for MNIST: 64 pixels have no 164 components.
    from genmetric.reproduction import _problems as problems

    problem = Problem(name="d", title="D", dataset="digits", n_components=5)
    kept = problems._MOST_COMPONENTS
    problems._MOST_COMPONENTS = 20
    try:
        X, y = load_problem(problem, None, str(tmp_path))
        files = sorted(path.name for path in tmp_path.iterdir())
        load_problem.cache_clear()
        again, _ = load_problem(problem, None, str(tmp_path))
        plain, _ = load_problem(problem, None, None)
    finally:
        problems._MOST_COMPONENTS = kept
        load_problem.cache_clear()
    assert files == ["digits_pca20_X.npy", "digits_pca20_y.npy"]
    assert X.shape == (1797, 5)
    assert np.array_equal(y, load_dataset("digits").target)
    assert np.array_equal(X, again)
    assert np.abs(plain) == pytest.approx(np.abs(X), abs=1e-6)
    variances = X.var(axis=0)
    assert (np.diff(variances) < 0).all()
