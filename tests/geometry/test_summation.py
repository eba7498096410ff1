"""Sums of local metrics: in one piece, in pieces, in threads, and their standard error."""

import numpy as np
import pytest

import genmetric._chunks
from genmetric.density import ClassGaussians, Scaling
from genmetric.geometry import MetricSum, local_metrics, phi, sum_local_metrics
from genmetric.geometry._summation import dense_metric_sum


@pytest.fixture
def models(rng):
    A = rng.normal(size=(3, 4, 4)) + np.eye(4)
    return ClassGaussians.from_moments(rng.normal(size=(3, 4)), A @ A.transpose(0, 2, 1))


@pytest.fixture
def X(rng):
    return rng.normal(size=(203, 4))


NO_FRAME = Scaling(np.zeros(4), 1.0)


@pytest.mark.parametrize("normalization", ["determinant", "trace"])
def test_dense_sum_equals_a_loop_over_samples(models, X, rng, normalization):
    w = rng.random(len(X))
    found = dense_metric_sum(models, X, w, normalization=normalization)
    total, square = np.zeros((4, 4)), 0.0
    for x, w_i in zip(X, w, strict=True):
        M = local_metrics(phi(models, x[None]), normalization=normalization)[0]
        total += w_i * M
        square += w_i * np.sum(M**2)
    np.testing.assert_allclose(found.total, total, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.weight, w.sum())
    np.testing.assert_allclose(found.square, square, rtol=1e-10)


@pytest.mark.parametrize("normalization", ["determinant", "trace"])
def test_resolvent_equals_dense(rng, normalization):
    A = rng.normal(size=(3, 6, 6)) + 2 * np.eye(6)
    gaussians = ClassGaussians.from_moments(rng.normal(size=(3, 6)), A @ A.transpose(0, 2, 1))
    X, frame = 2 * rng.normal(size=(400, 6)), Scaling(np.zeros(6), 1.0)
    options = {"weights": rng.random(400), "normalization": normalization}
    dense = sum_local_metrics(gaussians, X, frame, **options)
    # Without a tolerance for small classes only the poles differ.
    exact = sum_local_metrics(gaussians, X, frame, solver="resolvent", tol=0.0, **options)
    error = np.linalg.norm(exact.total - dense.total) / np.linalg.norm(dense.total)
    assert error < 1e-5
    np.testing.assert_allclose(exact.square, dense.square, rtol=1e-5)
    fast = sum_local_metrics(gaussians, X, frame, solver="resolvent", tol=1e-3, **options)
    error = np.linalg.norm(fast.total - dense.total) / np.linalg.norm(dense.total)
    assert error < 1e-2
    if normalization == "trace":
        np.testing.assert_allclose(np.trace(fast.mean()), 6, rtol=1e-6)


def test_priors(models, X):
    log_priors = np.log([0.7, 0.2, 0.1])
    found = dense_metric_sum(models, X, np.ones(len(X)), log_priors).mean()
    expected = local_metrics(phi(models, X, log_priors)).mean(axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_parts_merge_to_the_whole(models, X):
    w = np.ones(len(X))
    whole = dense_metric_sum(models, X, w)
    pieces = [dense_metric_sum(models, X[s], w[s]) for s in (slice(0, 7), slice(7, 203))]
    merged = pieces[0].merge(pieces[1])
    np.testing.assert_allclose(merged.mean(), whole.mean(), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(merged.square, whole.square)
    assert merged.weight == whole.weight
    np.testing.assert_array_equal(merged.mean(), merged.mean().T)


def test_result_independent_of_chunks_and_n_jobs(models, X, rng, monkeypatch):
    w = rng.random(len(X))
    frame = Scaling(np.array([1.0, 2, 3, 4]), 2.0)
    raw = frame.center + 2 * X
    whole = sum_local_metrics(models, raw, frame, weights=w)
    np.testing.assert_allclose(whole.mean(), dense_metric_sum(models, X, w).mean(), rtol=1e-10)
    monkeypatch.setattr(genmetric._chunks, "CHUNK_BYTES", 5000)
    runs = [sum_local_metrics(models, raw, frame, weights=w, n_jobs=k) for k in (1, 2, 3)]
    np.testing.assert_allclose(runs[0].mean(), whole.mean(), rtol=1e-12, atol=1e-13)
    for other in runs[1:]:
        np.testing.assert_array_equal(other.total, runs[0].total)
        assert (other.weight, other.square) == (runs[0].weight, runs[0].square)


def test_standard_error_is_that_of_repeated_sampling(models, X, rng):
    M = local_metrics(phi(models, X))
    mean, n = M.mean(axis=0), 40
    errors, claims = [], []
    for _ in range(400):
        rows = rng.choice(len(X), n, replace=False)
        part = MetricSum(M[rows].sum(axis=0), n, float((M[rows] ** 2).sum()))
        errors.append(np.sum((part.mean() - mean) ** 2))
        claims.append((part.relative_stderr(len(X)) * np.linalg.norm(part.mean())) ** 2)
    # The claim is unbiased: the two means agree to their Monte Carlo error.
    noise = np.hypot(np.std(errors), np.std(claims)) / np.sqrt(400)
    assert abs(np.mean(errors) - np.mean(claims)) < 4 * noise
    assert np.mean(errors) > 8 * noise


def test_standard_error_at_its_ends(models, X):
    whole = dense_metric_sum(models, X, np.ones(len(X)))
    assert whole.relative_stderr(len(X)) == 0
    assert whole.relative_stderr() > 0
    one = dense_metric_sum(models, X[:1], np.ones(1))
    assert one.relative_stderr(1) == 0
    assert one.relative_stderr(10) == np.inf


def test_distant_samples_are_finite(models, X):
    far = dense_metric_sum(models, 1e4 * X, np.ones(len(X)))
    assert np.isfinite(far.total).all()
    assert np.isfinite(far.square)
