"""Sums of local metrics: solvers against a loop, pieces, threads, standard error."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import genmetric._parallel
from genmetric import GaussianModel, GenerativeMetric
from genmetric.density import (
    ClassGaussians,
    Coordinates,
    LowRankGaussians,
    SeparateModels,
    class_statistics,
    fit_gaussians,
)
from genmetric.geometry import MetricSum, local_metrics, phi, sum_local_metrics
from genmetric.geometry.resolvent import FINE, FINEST, zolotarev_sign
from genmetric.geometry.sums import kept_metrics_sum, select_solver

NORMALIZATIONS = pytest.mark.parametrize("normalization", ["determinant", "trace"])


@pytest.fixture
def models(rng):
    A = rng.normal(size=(3, 4, 4)) + np.eye(4)
    return ClassGaussians.from_moments(rng.normal(size=(3, 4)), A @ A.transpose(0, 2, 1))


@pytest.fixture
def X(rng):
    return rng.normal(size=(203, 4))


UNIT = Coordinates(np.zeros(4), 1.0)


def relative_error(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@NORMALIZATIONS
def test_dense_sum_equals_a_loop_over_samples(models, X, rng, naive, normalization):
    w, log_priors = rng.random(len(X)), np.log([0.7, 0.2, 0.1])
    for priors in (None, log_priors):
        options = {"weights": w, "log_priors": priors, "normalization": normalization}
        found = sum_local_metrics(models, X, UNIT, solver="dense", **options)
        metrics = naive.local_metrics(
            X, models.means, models.covariances, None if priors is None else np.exp(priors)
        )
        if normalization == "trace":
            metrics *= (4 / np.trace(metrics, axis1=1, axis2=2))[:, None, None]
        np.testing.assert_allclose(found.total, np.tensordot(w, metrics, 1), rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(found.weight, w.sum())
        np.testing.assert_allclose(found.square, w @ (metrics**2).sum(axis=(1, 2)), rtol=1e-7)
        # Kept metrics have the same sums.
        kept = kept_metrics_sum(models, priors, X, UNIT, normalization, n_jobs=2)(w)
        np.testing.assert_allclose(kept.total, found.total, rtol=1e-11, atol=1e-11)
        np.testing.assert_array_equal(kept.total, kept.total.T)
        assert kept.square == pytest.approx(found.square)


def two_classes(rng, n_features, kind):
    """Samples of two classes that are easy, nearly equal, or dominated by single terms."""
    A = rng.normal(size=(2, n_features, n_features)) / np.sqrt(n_features) + np.eye(n_features)
    means = rng.normal(size=(2, n_features))
    X = np.concatenate([rng.normal(size=(60, n_features)) @ a + m for a, m in zip(A, means)])  # noqa: B905
    if kind == "close":
        X[60:] = X[:60] + 0.01 * rng.normal(size=(60, n_features)) + 1
    elif kind == "stretched":
        X[60:] *= np.geomspace(1e-3, 1e3, n_features)
    elif kind == "far":
        X[:10] *= 100
    elif kind == "equal":
        X[60:] = X[:60] + 1  # B is zero up to rounding
    elif kind == "one direction":
        X[60:] = X[:60] + 1
        X[60:, 0] *= 3
    return X, np.repeat([0, 1], 60)


@NORMALIZATIONS
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 30),
    st.sampled_from(["easy", "close", "stretched", "far", "equal", "one direction"]),
    st.sampled_from(["auto", 0.3, 0.02]),
)
@settings(max_examples=60)
def test_resolvent_equals_dense(normalization, seed, n_features, kind, shrinkage):
    rng = np.random.default_rng(seed)
    X, codes = two_classes(rng, n_features, kind)
    coordinates = Coordinates.of(X)
    models = fit_gaussians(
        class_statistics(X, codes, 2, coordinates=coordinates), shrinkage=shrinkage
    )
    options = {"weights": rng.random(len(X)), "normalization": normalization}
    dense, fast = (
        sum_local_metrics(models, X, coordinates, solver=solver, **options)
        for solver in ("dense", "resolvent")
    )
    assert relative_error(fast.total, dense.total) < 2e-5
    assert fast.square == pytest.approx(dense.square, rel=1e-4)
    assert fast.weight == pytest.approx(dense.weight)


@NORMALIZATIONS
def test_resolvent_with_a_third_class(rng, normalization):
    A = rng.normal(size=(4, 6, 6)) + 2 * np.eye(6)
    models = ClassGaussians.from_moments(2 * rng.normal(size=(4, 6)), A @ A.transpose(0, 2, 1))
    X, unit = 3 * rng.normal(size=(2500, 6)), Coordinates(np.zeros(6), 1.0)
    options = {"weights": rng.random(len(X)), "normalization": normalization}
    dense = sum_local_metrics(models, X, unit, solver="dense", **options).total
    exact, close, pairs = (
        sum_local_metrics(models, X, unit, solver="resolvent", tol=tol, **options).total
        for tol in (0.0, 1e-3, 1.0)
    )
    # Without a tolerance only the poles differ.
    assert relative_error(exact, dense) < 1e-5
    assert 1e-9 < relative_error(close, dense) < 1e-2
    assert relative_error(close, dense) < relative_error(pairs, dense)
    # The sum over samples of one pair does not depend on their number.
    some = rng.random(len(X)) < 0.02
    options["weights"] = options["weights"] * some
    few = sum_local_metrics(
        models,
        X[some],
        unit,
        solver="resolvent",
        **{**options, "weights": options["weights"][some]},
    ).total
    many = sum_local_metrics(models, X, unit, solver="resolvent", **options).total
    np.testing.assert_allclose(few, many, rtol=1e-9, atol=1e-9 * np.abs(many).max())


def test_resolvent_of_a_metric(rng):
    X, y = two_classes(rng, 40, "easy")
    dense, fast = (GenerativeMetric(solver=solver).fit(X, y) for solver in ("dense", "resolvent"))
    assert 0 < relative_error(fast.metric_, dense.metric_) < 2e-5


@pytest.mark.parametrize(("n_poles", "smallest"), [FINE, FINEST, (5, 1e-2), (1, 0.5)])
def test_rational_sign_is_the_best(n_poles, smallest):
    # Chebyshev: 2m + 1 extremes of equal size and alternating sign prove the best approximation.
    sigma, a = zolotarev_sign(n_poles, smallest)
    x = np.geomspace(smallest, 1, 200_001)
    error = x * (a / (x[:, None] ** 2 + sigma**2)).sum(axis=1) - 1
    turns = np.flatnonzero(np.diff(np.sign(np.diff(error)))) + 1
    extremes = error[np.concatenate([[0], turns, [len(x) - 1]])]
    assert len(extremes) == 2 * n_poles + 1
    np.testing.assert_allclose(np.abs(extremes), np.abs(error).max(), rtol=1e-3)
    assert np.all(np.sign(extremes[1:]) == -np.sign(extremes[:-1]))


@pytest.mark.parametrize("solver", ["dense", "resolvent"])
def test_result_independent_of_chunks_and_n_jobs(models, X, rng, monkeypatch, solver):
    w = rng.random(len(X))
    coordinates = Coordinates(np.array([1.0, 2, 3, 4]), 2.0)
    raw = coordinates.restore(X)
    whole = sum_local_metrics(models, raw, coordinates, weights=w, solver=solver)
    inside = sum_local_metrics(models, X, UNIT, weights=w, solver=solver)
    np.testing.assert_allclose(whole.total, inside.total, rtol=1e-10)
    monkeypatch.setattr(
        genmetric._parallel.row_chunks, "__kwdefaults__", {"max_rows": None, "budget": 5000}
    )
    runs = [
        sum_local_metrics(models, raw, coordinates, weights=w, solver=solver, n_jobs=k)
        for k in (1, 2, 3)
    ]
    np.testing.assert_allclose(runs[0].mean(), whole.mean(), rtol=1e-9, atol=1e-10)
    for other in runs[1:]:
        np.testing.assert_array_equal(other.total, runs[0].total)
        assert (other.weight, other.square) == (runs[0].weight, runs[0].square)


def test_parts_merge_to_the_whole(models, X):
    whole = sum_local_metrics(models, X, UNIT)
    parts = [sum_local_metrics(models, X[s], UNIT) for s in (slice(0), slice(7), slice(7, 203))]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    np.testing.assert_allclose(merged.mean(), whole.mean(), rtol=1e-12, atol=1e-13)
    assert merged.square == pytest.approx(whole.square)
    assert merged.weight == whole.weight
    np.testing.assert_array_equal(merged.mean(), merged.mean().T)


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
    whole, one = sum_local_metrics(models, X, UNIT), sum_local_metrics(models, X[:1], UNIT)
    assert whole.relative_stderr(len(X)) == one.relative_stderr(1) == 0
    assert whole.relative_stderr() > 0
    assert one.relative_stderr(10) == np.inf


def test_distant_samples_are_finite(models, X):
    far = sum_local_metrics(models, 1e4 * X, UNIT)
    assert np.isfinite(far.total).all()
    assert np.isfinite(far.square)


def test_choice_of_the_solver(models, X):
    separate = SeparateModels([GaussianModel().fit(X), GaussianModel().fit(2 * X)])
    assert select_solver(separate, 1e6, 4)[0] == "dense"
    assert select_solver(models, 100, 4)[0] == "dense"
    assert select_solver(models, 1e6, 60)[0] == "resolvent"
    np.testing.assert_array_equal(
        sum_local_metrics(separate, X, UNIT).total,
        sum_local_metrics(separate, X, UNIT, solver="dense").total,
    )
    with pytest.raises(ValueError, match=r'solver="resolvent" requires .*got SeparateModels'):
        sum_local_metrics(separate, X, UNIT, solver="resolvent")


@pytest.mark.parametrize("solver", ["dense", "resolvent", "low-rank"])
def test_estimated_time_grows_with_every_size(solver):
    def seconds(n_samples, n_features, n_classes):
        means, axes = np.zeros((n_classes, 1)), np.zeros((4 * n_classes, 1))
        if solver == "low-rank":
            starts, scales = np.arange(0, len(axes) + 1, 4), np.ones(n_classes)
            blocks = np.arange(n_classes)
            models = LowRankGaussians(means, axes, starts, blocks, scales, scales, axes[:, 0])
        else:
            models = ClassGaussians.from_moments(means, np.ones((n_classes, 1, 1)))
        return select_solver(models, n_samples, n_features, solver)[1]

    start = seconds(1000, 20, 100)
    assert 0 < start < 100
    assert min(seconds(8000, 20, 100), seconds(1000, 160, 100), seconds(1000, 20, 800)) > start
    # With many classes their log-densities are most of the work.
    assert seconds(1000, 20, 20_000) > 1.3 * seconds(1000, 20, 10_000)
