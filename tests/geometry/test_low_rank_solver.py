"""Sums of local metrics under low-rank class models, against full eigendecompositions."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import genmetric._chunks
from genmetric.density import Scaling, class_statistics, fit_gaussians
from genmetric.density._factored_statistics import FactoredStatistics
from genmetric.density._low_rank import SinglePrecision, fit_low_rank_gaussians
from genmetric.geometry import sum_local_metrics
from genmetric.geometry._low_rank_solver import SLACK, candidate_weights, sparse_weights
from genmetric.geometry._phi import phi_weights
from genmetric.geometry._summation import SOLVERS, select_solver

pytestmark = pytest.mark.filterwarnings("ignore:Classes .* have a single sample:UserWarning")


def problem(seed, n_features, sizes, spread=1.0):
    """Samples of small classes, and both kinds of class models."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(codes), n_features)) * rng.uniform(0.5, 2, n_features)
    X += spread * rng.normal(size=(len(sizes), n_features))[codes]
    frame = Scaling.of(X)
    return X, codes, frame


def models_of(X, codes, frame, **options):
    n_classes = codes.max() + 1
    dense = fit_gaussians(class_statistics(X, codes, n_classes, frame=frame), **options)
    factored = FactoredStatistics.of(X, codes, n_classes, frame=frame)
    return dense, fit_low_rank_gaussians(factored, **options)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 40),
    st.lists(st.integers(1, 8), min_size=2, max_size=7),
    st.sampled_from(["auto", 0.1, 0.9]),
    st.sampled_from(["determinant", "trace"]),
    st.booleans(),
)
@example(0, 24, [1, 1, 1, 1], "auto", "determinant", True)
def test_sum_equals_the_dense_solver(seed, n_features, sizes, shrinkage, normalization, identity):
    # Ledoit-Wolf shrinkage of two samples is zero: the floor leaves a condition number of 1e8.
    sizes = [3 if size == 2 else size for size in sizes]
    sizes[0] = max(sizes[0], 3)
    X, codes, frame = problem(seed, n_features, sizes)
    stand_in = np.eye(n_features) if identity else None
    dense, low_rank = models_of(X, codes, frame, shrinkage=shrinkage, stand_in=stand_in)
    weights = np.random.default_rng(seed).uniform(0.5, 2, len(X))
    options = {"weights": weights, "normalization": normalization}
    # Selected shrinkage can make all covariances equal. Phi then has rank two, and its other
    # eigenvalues, which are rounding errors, scale the metrics of determinant one.
    limit = 1e-3 if shrinkage == "auto" and normalization == "determinant" else 1e-5
    expected = sum_local_metrics(dense, X, frame, solver="dense", **options)
    for solver in ("dense", "low-rank"):
        found = sum_local_metrics(low_rank, X, frame, solver=solver, tol=0.0, **options)
        error = np.linalg.norm(found.total - expected.total) / np.linalg.norm(expected.total)
        assert error < limit
        np.testing.assert_allclose(found.square, expected.square, rtol=10 * limit)
        assert found.weight == pytest.approx(expected.weight)


def test_well_conditioned_classes_agree_to_rounding():
    X, codes, frame = problem(0, 60, [5] * 12)
    dense, low_rank = models_of(X, codes, frame, shrinkage=0.3)
    expected = sum_local_metrics(dense, X, frame, solver="dense")
    found = sum_local_metrics(low_rank, X, frame, solver="low-rank", tol=0.0)
    np.testing.assert_allclose(
        found.total, expected.total, rtol=1e-9, atol=1e-9 * np.abs(expected.total).max()
    )


def test_tolerance_leaves_out_small_classes():
    X, codes, frame = problem(1, 30, [4] * 20, spread=0.3)
    _, low_rank = models_of(X, codes, frame, shrinkage=0.5)
    exact, close, pair = (
        sum_local_metrics(
            low_rank, X, frame, solver="low-rank", tol=tol, normalization="trace"
        ).total
        for tol in (0.0, 1e-2, 1.0)
    )
    size = np.linalg.norm(exact)
    assert 0 < np.linalg.norm(close - exact) < 0.02 * size
    assert np.linalg.norm(close - exact) < np.linalg.norm(pair - exact)


def test_result_independent_of_chunks_and_n_jobs(monkeypatch):
    X, codes, frame = problem(2, 40, [3] * 30)
    _, low_rank = models_of(X, codes, frame)
    whole = sum_local_metrics(low_rank, X, frame, solver="low-rank")
    monkeypatch.setattr(genmetric._chunks, "CHUNK_BYTES", 2**17)
    runs = [sum_local_metrics(low_rank, X, frame, solver="low-rank", n_jobs=k) for k in (1, 2)]
    np.testing.assert_allclose(
        runs[0].total, whole.total, rtol=1e-9, atol=1e-10 * np.abs(whole.total).max()
    )
    np.testing.assert_array_equal(runs[0].total, runs[1].total)


@pytest.mark.parametrize("tol", [0.0, 0.05, 1.0])
def test_sparse_weights(rng, tol):
    w = rng.normal(size=(200, 9)) * 10.0 ** rng.uniform(-4, 0, (200, 9))
    w -= w.mean(axis=1, keepdims=True)
    w /= np.abs(w).max(axis=1, keepdims=True)
    kept = sparse_weights(w, tol)
    dense = kept.dense(9)
    np.testing.assert_allclose(dense.sum(axis=1), 0, atol=1e-14)
    for row, full in zip(dense, w, strict=True):
        matter = {int(full.argmax()), int(full.argmin()), *np.flatnonzero(np.abs(full) > tol)}
        assert set(np.flatnonzero(row)) == matter
    largest = np.abs(w).argmax(axis=1)
    np.testing.assert_array_equal(dense[np.arange(200), largest], w[np.arange(200), largest])
    some = np.array([5, 3, 3, 100])
    np.testing.assert_array_equal(kept.take(some).dense(9), dense[some])
    if tol == 1:
        assert (np.count_nonzero(dense, axis=1) == 2).all()


def test_selection_and_requirements():
    X, codes, frame = problem(3, 12, [4] * 3)
    dense, low_rank = models_of(X, codes, frame)
    assert select_solver(low_rank, 1e6, 12) == "low-rank"
    assert select_solver(dense, 1e6, 12) == "resolvent"
    assert select_solver(dense, 10, 12) == "dense"
    assert select_solver(object(), 1e6, 12) == "dense"
    with pytest.raises(ValueError, match=r"solver='low-rank' requires low-rank Gaussian"):
        sum_local_metrics(dense, X, frame, solver="low-rank")
    with pytest.raises(ValueError, match=r"solver='resolvent' requires Gaussian class models; got"):
        sum_local_metrics(low_rank, X, frame, solver="resolvent")
    assert set(SOLVERS) == {"dense", "resolvent", "low-rank"}


@given(
    st.integers(0, 2**32 - 1),
    st.integers(3, 40),
    st.lists(st.sampled_from([1, 3, 4, 5]), min_size=3, max_size=30),
    st.sampled_from([1e-3, 1e-2, 0.3, 1.0]),
    st.sampled_from([0.0, 0.1, 1.0, 10.0]),
    st.booleans(),
)
# The two leading densities of a sample differ by 4%, which multiplies the weights left out by 24.
@example(
    3868984464,
    11,
    [3, 3, 1, 1, 1, 3, 3, 5, 3, 4, 3, 4, 1, 4, 5, 4, 3, 3, 1, 5, 5, 4, 5, 5, 1],
    0.3,
    0.1,
    True,
)
@example(3687063700, 6, [3, 5, 5, 5, 5, 5, 4, 5, 1, 3, 1], 0.3, 0.1, True)
def test_screening_in_single_precision_changes_nothing(seed, D, sizes, tol, spread, priors):
    sizes[0] = 3
    X, codes, frame = problem(seed, D, sizes, spread)
    _, models = models_of(X, codes, frame, shrinkage=0.3)
    rng = np.random.default_rng(seed)
    log_priors = np.log(rng.dirichlet(np.ones(len(sizes)))) if priors else None
    x = frame.apply(X)
    x[0] = x[1]
    weights = phi_weights(models, x, log_priors)
    expected = sparse_weights(weights, tol).dense(len(sizes))
    found = candidate_weights(models, SinglePrecision.of(models), x, tol, log_priors)
    # Notation of curvature_weights: r and s are densities over those of the first and the second
    # class, delta = 1 - r, and W are the weights before the division by the largest, L. The classes
    # left out have s of sum at most eps delta_2 with eps = tol exp(-SLACK), and r <= s. Then
    # 1. L >= |W_1| = sum of s delta >= delta_2, and W_1 changes by at most eps delta_2;
    # 2. other W_c change by s_c times the sum of r (delta_c - delta) over the classes left out, at
    #    most s_c eps delta_2; so L changes by at most eps L;
    # 3. the sum of the changes of 2 is at most eps delta_2 times the sum of s, so at most eps L.
    # The weight that takes up the rest changes by 1 and 3, and all by the division by L, together
    # at most eps (2 + |w|). 1e-7 is for the float64 rounding of nearly equal densities.
    eps = tol * np.exp(-SLACK)
    limit = 1e-7 + 2.01 * eps
    # A weight this close to the tolerance can be kept or left out.
    clear = (np.abs(np.abs(weights) - tol) > 2 * limit).all(axis=1)
    np.testing.assert_allclose(
        found.dense(len(sizes))[clear], expected[clear], rtol=limit, atol=limit
    )


def test_screening_of_equal_classes():
    X, codes, frame = problem(0, 10, [4] * 6)
    X[codes == 1] = X[codes == 0]  # a tie: the weights of all other classes matter
    _, models = models_of(X, codes, frame, shrinkage=0.3)
    x = frame.apply(X)
    expected = sparse_weights(phi_weights(models, x), 1e-2).dense(6)
    found = candidate_weights(models, SinglePrecision.of(models), x, 1e-2).dense(6)
    some = codes > 1  # at a tie rounding decides
    np.testing.assert_allclose(found[some], expected[some], rtol=1e-6, atol=1e-6)
