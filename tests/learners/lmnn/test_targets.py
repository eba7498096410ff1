"""Target neighbours and their scatter against loops."""

import numpy as np
import pytest

from genmetric.learners._lmnn import target_neighbors, target_scatter


def naive_targets(Z, codes, k):
    found = np.repeat(np.arange(len(Z))[:, None], k, axis=1)
    for i in range(len(Z)):
        others = [j for j in range(len(Z)) if codes[j] == codes[i] and j != i]
        others.sort(key=lambda j: np.sum((Z[i] - Z[j]) ** 2))
        found[i, : min(k, len(others))] = others[:k]
    return found


@pytest.mark.parametrize("k", [1, 3, 7])
def test_nearest_of_the_class(rng, k):
    Z, codes = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    np.testing.assert_array_equal(target_neighbors(Z, codes, k), naive_targets(Z, codes, k))


def test_small_classes_point_to_themselves(rng):
    Z, codes = rng.normal(size=(10, 2)), np.array([0] * 7 + [1] * 2 + [2])
    targets = target_neighbors(Z, codes, 3)
    np.testing.assert_array_equal(targets, naive_targets(Z, codes, 3))
    assert targets[9].tolist() == [9, 9, 9]
    assert targets[7].tolist() == [8, 7, 7]


def test_classes_of_many_sizes_in_chunks(rng, monkeypatch):
    # Classes of up to 16 samples are searched together, larger ones one by one.
    monkeypatch.setattr("genmetric._chunks.CHUNK_BYTES", 20_000)
    codes = rng.permutation(np.repeat(np.arange(60), np.repeat(np.arange(1, 21), 3)))
    Z = rng.normal(size=(len(codes), 3))
    np.testing.assert_array_equal(target_neighbors(Z, codes, 4), naive_targets(Z, codes, 4))


def test_classes_far_apart(rng):
    # Squared distances within a class are 1e-18 of those between classes.
    Z, codes = rng.normal(size=(40, 3)), np.repeat([0, 1], 20)
    moved = Z + np.where(codes, 1e9, -1e9)[:, None]
    near = moved - np.where(codes, 1e9, -1e9)[:, None]  # what rounding left of Z
    np.testing.assert_array_equal(target_neighbors(moved, codes, 3), naive_targets(near, codes, 3))


def test_scatter(rng):
    X, codes = rng.normal(size=(30, 4)), rng.integers(0, 2, 30)
    targets = target_neighbors(X, codes, 2)
    expected = sum(np.outer(X[i] - X[j], X[i] - X[j]) for i in range(30) for j in targets[i])
    np.testing.assert_allclose(target_scatter(X, targets), expected, rtol=1e-12)
