"""Low-rank Gaussians of many small classes, and sums of local metrics under them."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from genmetric import GenerativeMetric
from genmetric.density import Coordinates, class_statistics, fit_gaussians
from genmetric.density.gaussian import fit_low_rank_gaussians, pooled_whitening, saves_memory
from genmetric.geometry import sum_local_metrics
from genmetric.geometry.low_rank import sparse_weights

pytestmark = pytest.mark.filterwarnings("ignore:Classes .* have a single sample:UserWarning")


def problem(seed, n_features, sizes, spread=1.0):
    """Samples of small classes."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = 5 + rng.normal(size=(len(codes), n_features)) * rng.uniform(0.5, 2, n_features)
    X += spread * rng.normal(size=(len(sizes), n_features))[codes]
    return X, codes, Coordinates.of(X)


def both(X, codes, coordinates, weight=None, **options):
    """The same class models with covariance matrices, and without."""
    n_classes = codes.max() + 1
    stats = class_statistics(X, codes, n_classes, coordinates=coordinates, sample_weight=weight)
    dense = fit_gaussians(stats, **options)
    return dense, fit_low_rank_gaussians(
        X, codes, n_classes, coordinates, sample_weight=weight, **options
    )


# Ledoit-Wolf shrinkage of two samples is zero: the floor leaves a condition number of 1e8.
class_sizes = st.lists(st.sampled_from([1, 3, 4, 5, 8, 15]), min_size=2, max_size=7).map(
    lambda sizes: [max(sizes[0], 3), *sizes[1:]]
)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 40),
    class_sizes,
    st.sampled_from(["auto", 0.1, 0.9]),
    st.sampled_from(["determinant", "trace"]),
    st.booleans(),
    st.booleans(),
)
@example(0, 24, [3, 1, 1, 1], "auto", "determinant", True, False)
def test_equal_to_covariance_matrices(
    seed, n_features, sizes, shrinkage, normalization, whitened, weighted
):
    X, codes, coordinates = problem(seed, n_features, sizes)
    weight = None
    if weighted:
        weight = np.random.default_rng(seed).integers(1, 4, len(X)).astype(float)
    if whitened:
        stats = class_statistics(X, codes, len(sizes), coordinates=coordinates)
        coordinates, _ = pooled_whitening(stats, coordinates)
    dense, low_rank = both(X, codes, coordinates, weight, shrinkage=shrinkage, whitened=whitened)
    # The condition number of a covariance can be 1e8, so that half of the digits are lost.
    size = np.abs(dense.covariances).max()
    np.testing.assert_allclose(low_rank.covariances, dense.covariances, rtol=1e-6, atol=1e-8 * size)
    x = coordinates.apply(X)
    expected = dense.log_density(x)
    np.testing.assert_allclose(
        low_rank.log_density(x), expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max()
    )
    # Selected shrinkage can make all covariances equal. Phi then has rank two, and its other
    # eigenvalues, which are rounding errors, scale the metrics of determinant one.
    limit = 1e-3 if shrinkage == "auto" and normalization == "determinant" else 1e-5
    options = {"weights": weight, "normalization": normalization}
    expected = sum_local_metrics(dense, X, coordinates, solver="dense", **options)
    for solver in ("dense", "low-rank"):
        found = sum_local_metrics(low_rank, X, coordinates, solver=solver, tol=0.0, **options)
        error = np.linalg.norm(found.total - expected.total) / np.linalg.norm(expected.total)
        assert error < limit
        np.testing.assert_allclose(found.square, expected.square, rtol=10 * limit)
        assert found.weight == pytest.approx(expected.weight)


def test_well_conditioned_classes_agree_to_rounding():
    X, codes, coordinates = problem(0, 60, [5] * 12)
    dense, low_rank = both(X, codes, coordinates, shrinkage=0.3)
    expected = sum_local_metrics(dense, X, coordinates, solver="dense").total
    found = sum_local_metrics(low_rank, X, coordinates, tol=0.0).total
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    one, two = (sum_local_metrics(low_rank, X, coordinates, n_jobs=k).total for k in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_floor_and_warnings(rng):
    X, codes = rng.normal(size=(60, 12)), np.repeat([0, 1, 2], [6, 6, 48])
    unit = Coordinates(np.zeros(12), 1.0)
    message = r"covariances of 2 of 3 classes are nearly singular: up to 7 of 12 eigenvalues"
    with pytest.warns(UserWarning, match=message) as found:
        low_rank = fit_low_rank_gaussians(X, codes, 3, unit, shrinkage=None)
    assert len(found) == 1
    with pytest.warns(UserWarning, match=message):
        dense = fit_gaussians(class_statistics(X, codes, 3), shrinkage=None)
    np.testing.assert_allclose(low_rank.covariances, dense.covariances, rtol=1e-5, atol=1e-6)
    X, codes = rng.normal(size=(60, 30)), np.r_[np.arange(40), np.repeat([40, 41], 10)]
    unit = Coordinates(np.zeros(30), 1.0)
    with pytest.warns(UserWarning, match=r"Classes \(40 of 42\) have a single sample") as found:
        models = fit_low_rank_gaussians(X, codes, 42, unit)
    assert len(found) == 1
    # Single samples share the axes of the pooled covariance; the identity needs none.
    assert len(models.axes) <= 30 + 18
    assert len(fit_low_rank_gaussians(X, codes, 42, unit, whitened=True).axes) == 18


def test_when_low_rank_models_save_memory():
    counts = np.full(100, 20)
    assert saves_memory(counts, 300)
    assert not saves_memory(counts, 100)  # covariances are small
    assert not saves_memory(10 * counts, 300)
    assert saves_memory(np.full(2000, 60), 60)


@pytest.mark.parametrize("base", ["identity", "pooled"])
def test_metric_of_many_classes_equals_that_of_covariance_matrices(base):
    X, y, _ = problem(4, 92, [3] * 500, spread=10)
    options = {"base": base, "shrinkage": 0.3, "max_samples": 50, "random_state": 0}
    found = GenerativeMetric(**options, class_tol=1e-6).fit(X, y)
    dense = GenerativeMetric(**options, solver="dense").fit(X, y)
    size = np.abs(dense.metric_).max()
    np.testing.assert_allclose(found.metric_, dense.metric_, rtol=1e-4, atol=1e-5 * size)
    np.testing.assert_allclose(found.covariances_[3], dense.covariances_[3], atol=1e-8)


def test_tolerance_leaves_out_small_classes():
    X, codes, coordinates = problem(1, 30, [4] * 20, spread=0.3)
    _, low_rank = both(X, codes, coordinates, shrinkage=0.5)
    exact, close, pair = (
        sum_local_metrics(low_rank, X, coordinates, tol=tol, normalization="trace").total
        for tol in (0.0, 1e-2, 1.0)
    )
    size = np.linalg.norm(exact)
    assert 0 < np.linalg.norm(close - exact) < 0.02 * size
    assert np.linalg.norm(close - exact) < np.linalg.norm(pair - exact)


@pytest.mark.parametrize("tol", [0.0, 0.05, 1.0])
def test_sparse_weights(rng, tol):
    w = rng.normal(size=(200, 9)) * 10.0 ** rng.uniform(-4, 0, (200, 9))
    w -= w.mean(axis=1, keepdims=True)
    w /= np.abs(w).max(axis=1, keepdims=True)
    kept = sparse_weights(w, tol).toarray()
    np.testing.assert_allclose(kept.sum(axis=1), 0, atol=1e-14)
    for row, full in zip(kept, w, strict=True):
        matter = {int(full.argmax()), int(full.argmin()), *np.flatnonzero(np.abs(full) > tol)}
        assert set(np.flatnonzero(row)) == matter
    largest = np.abs(w).argmax(axis=1)
    np.testing.assert_array_equal(kept[np.arange(200), largest], w[np.arange(200), largest])
