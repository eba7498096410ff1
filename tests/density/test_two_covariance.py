"""Pooled moments and the two-covariance model, against their formulas one sample at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genmetric.density._two_covariance import PooledMoments, TwoCovariances


@pytest.fixture
def samples():
    """Return 60 samples of five classes, one of them with a single sample, and their classes."""
    rng = np.random.default_rng(0)
    codes = np.r_[np.zeros(1), np.repeat([1, 2, 3], 15), np.full(14, 4)].astype(np.intp)
    return rng.normal(size=(5, 4))[codes] + rng.normal(size=(60, 4)) + 100, codes


def naive_moments(X, codes, weight):
    """Return counts, means and the scatter by loops over samples."""
    count, mean = np.zeros(5), np.zeros((5, X.shape[1]))
    for x, c, w in zip(X, codes, weight, strict=True):
        count[c] += w
        mean[c] += w * x
    mean /= count[:, None]
    scatter = sum(
        w * np.outer(x - mean[c], x - mean[c]) for x, c, w in zip(X, codes, weight, strict=True)
    )
    return count, mean, scatter


@pytest.mark.parametrize("weighted", [False, True])
def test_moments(weighted, samples):
    X, codes = samples
    weight = 1 + np.arange(60) % 3 if weighted else np.ones(60)
    found = PooledMoments.of(X, codes, 5, sample_weight=weight.astype(float) if weighted else None)
    for value, expected in zip(
        (found.count, found.mean, found.scatter), naive_moments(X, codes, weight), strict=True
    ):
        np.testing.assert_allclose(value, expected, rtol=1e-10)
    assert found.degrees_of_freedom == weight.sum() - 5


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 59), st.integers(0, 2**32 - 1))
def test_moments_of_batches_merge(cut, seed):
    rng = np.random.default_rng(seed)
    X, codes = rng.normal(size=(60, 3)) + 1e4, rng.integers(6, size=60)
    whole = PooledMoments.of(X, codes, 6)
    parts = [PooledMoments.of(X[rows], codes[rows], 6) for rows in (slice(cut), slice(cut, None))]
    merged = parts[0].merge(parts[1])
    np.testing.assert_allclose(merged.count, whole.count)
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(merged.scatter, whole.scatter, rtol=1e-6, atol=1e-6)


def test_moments_of_new_classes(samples):
    X, codes = samples
    few = PooledMoments.of(X[codes < 3], codes[codes < 3], 3).spread(np.array([0, 1, 2]), 5)
    rest = PooledMoments.of(X[codes >= 3], codes[codes >= 3], 5)
    whole = PooledMoments.of(X, codes, 5)
    np.testing.assert_allclose(few.merge(rest).scatter, whole.scatter, rtol=1e-9)
    np.testing.assert_allclose(few.merge(rest).mean, whole.mean, rtol=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_do_not_change_a_bit(n_jobs):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(40_000, 20)), rng.integers(50, size=40_000)
    one, other = (PooledMoments.of(X, codes, 50, n_jobs=n) for n in (None, n_jobs))
    assert np.array_equal(one.mean, other.mean)
    assert np.array_equal(one.scatter, other.scatter)


def test_estimates_are_unbiased():
    """The mean of the estimates over many draws is the truth; naive covariances are not."""
    rng = np.random.default_rng(0)
    W, B = np.diag([1.0, 2.0, 0.5]), np.diag([0.5, 0.1, 1.0])
    counts = np.array([1, 2, 3, 3, 5, 9, 1, 4])
    codes = np.repeat(np.arange(8), counts)
    found = []
    for _ in range(2000):
        means = rng.normal(size=(8, 3)) * np.sqrt(np.diag(B))
        X = means[codes] + rng.normal(size=(len(codes), 3)) * np.sqrt(np.diag(W))
        two = TwoCovariances.of(PooledMoments.of(X, codes, 8))
        found.append([two.within, two.between])
    within, between = np.mean(found, axis=0)
    np.testing.assert_allclose(within, W, atol=0.05)
    np.testing.assert_allclose(between, B, atol=0.06)


def test_shrunk_covariances(samples):
    two = TwoCovariances.of(PooledMoments.of(*samples, 5))
    within, between = two.regularised(1.0, 0.0)
    s = two.shrinkage
    target = np.trace(two.within) / 4 * np.eye(4)
    np.testing.assert_allclose(within, (1 - s) * two.within + s * target)
    np.testing.assert_allclose(between, two.between)
    stronger, total = two.regularised(1e9, 1.0)
    np.testing.assert_allclose(stronger, target, rtol=1e-6, atol=1e-6)
    T = two.within + two.between
    np.testing.assert_allclose(total, T * np.trace(two.between) / np.trace(T))


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_degenerate_samples_have_positive_definite_covariances(offset):
    """All samples equal, or equal within each class, or a single sample per class."""
    codes = np.repeat(np.arange(3), 4)
    X = offset * np.eye(3)[codes]
    for x, c in ((X, codes), (X[::4], codes[::4])):
        two = TwoCovariances.of(PooledMoments.of(x, c, 3))
        within, between = two.regularised(4.0, 0.5)
        assert np.linalg.eigvalsh(within).min() > 0
        assert np.isfinite(between).all()
