"""Datasets and random splits of the protocol."""

import numpy as np
import pytest

from genmetric.datasets import CATALOGUE, load_dataset
from genmetric.reproduction import problems
from genmetric.reproduction.problems import (
    LARGE,
    PROBLEMS,
    SMALL,
    Problem,
    load_problem,
    split_parts,
    split_rows,
)

#: Classes of the datasets that are not bundled.
COUNTS = {"heart": [150, 120], "german": [700, 300]}


def classes(name):
    if name in COUNTS:
        return np.repeat(np.arange(2), COUNTS[name])
    return load_dataset(PROBLEMS[name].dataset).target


@pytest.mark.parametrize(
    ("name", "n_test"),
    [
        ("iris", 30),
        ("wine", 37),
        ("heart", 54),
        ("vehicle", 171),
        ("ionosphere", 71),
        ("german", 200),
    ],
)
def test_number_of_test_samples(name, n_test):
    # The paper's errors are whole numbers of mistakes out of 30 test sets of these sizes.
    parts = split_rows(classes(name), PROBLEMS[name], 0)
    assert [len(part) for part in parts[1:]] == [n_test, n_test]


@pytest.mark.parametrize("name", ["vehicle", "letters-scaled"])
def test_parts_are_disjoint_complete_and_follow_the_seed(name):
    y, problem = classes(name), PROBLEMS[name]
    parts = split_rows(y, problem, 5)
    assert sorted(np.concatenate(parts)) == list(range(len(y)))
    again, other = (split_rows(y, problem, seed) for seed in (5, 6))
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not np.array_equal(parts[2], other[2])


def test_parts_have_a_fifth_of_each_class_rounded_up():
    y = np.repeat([0, 1, 2], [11, 20, 23])
    parts = split_rows(y, Problem("p", "P", "iris"), 0)
    assert [np.bincount(y[rows]).tolist() for rows in parts] == [[5, 12, 13], [3, 4, 5], [3, 4, 5]]


def test_the_test_samples_of_mnist_are_the_standard_ones():
    for seed in (0, 1):
        train, validation, test = split_rows(np.zeros(70_000), PROBLEMS["mnist-40"], seed)
        assert test.tolist() == list(range(60_000, 70_000))
        assert sorted(np.concatenate([train, validation])) == list(range(60_000))


def test_large_problems_have_the_sizes_of_the_paper():
    assert {*SMALL, *LARGE} < set(PROBLEMS)
    for name in LARGE:
        problem = PROBLEMS[name]
        n = CATALOGUE[problem.dataset].n_samples
        sizes = [len(part) for part in split_rows(np.zeros(n), problem, 0)]
        expected = [55_000, 5_000, 10_000] if "mnist" in name else [12_000, 2_000, 6_000]
        assert sizes == expected


def test_parts_have_matching_samples():
    X = np.arange(40.0)[:, None] * [1, 2]
    for rows, y in split_parts(X, np.arange(40), PROBLEMS["iris"], 1).values():
        assert np.array_equal(rows[:, 0], y)


def test_scaling():
    X, y = load_problem(PROBLEMS["vehicle"])
    assert X.min(axis=0) == pytest.approx(np.full(18, -1.0))
    assert X.max(axis=0) == pytest.approx(np.full(18, 1.0))
    assert np.array_equal(y, load_dataset("vehicle").target)
    X, _ = load_problem(PROBLEMS["letters-original"])
    assert np.array_equal(X, load_dataset("letter").data)


def test_components_of_images_and_their_cache(tmp_path, monkeypatch):
    # 8 x 8 digits in place of MNIST: 64 pixels have no 164 components.
    monkeypatch.setattr(problems, "_MOST_COMPONENTS", 20)
    problem = Problem("d", "D", "digits", n_components=5)
    load_problem.cache_clear()
    X, y = load_problem(problem, None, str(tmp_path))
    files = sorted(path.name for path in tmp_path.iterdir())
    load_problem.cache_clear()
    again, _ = load_problem(problem, None, str(tmp_path))
    plain, _ = load_problem(problem, None, None)
    load_problem.cache_clear()
    assert files == ["digits_pca20_X.npy", "digits_pca20_y.npy"]
    assert X.shape == (1797, 5)
    assert np.array_equal(y, load_dataset("digits").target)
    assert np.array_equal(X, again)
    assert np.abs(plain) == pytest.approx(np.abs(X), abs=1e-6)
    assert (np.diff(X.var(axis=0)) < 0).all()
