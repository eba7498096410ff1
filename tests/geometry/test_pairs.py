"""Rows where two or three classes matter, against one eigendecomposition a row."""

import numpy as np
import pytest

from genmetric.density import class_statistics, fit_gaussians
from genmetric.geometry._local import local_metrics
from genmetric.geometry._pairs import leading_classes, pair_metric_sum, triple_metric_sum


@pytest.fixture
def gaussians(rng):
    X = np.concatenate([rng.normal(size=(200, 8)) @ rng.normal(size=(8, 8)) for _ in range(4)])
    return fit_gaussians(class_statistics(X, np.repeat(np.arange(4), 200), 4))


def naive_leading(w, tol):
    """The classes that matter, as DESIGN puts it, for one row."""
    high, low = int(np.argmax(w)), int(np.argmin(w))
    others = [c for c in range(len(w)) if c not in (high, low)]
    return {high, low}, {c for c in others if abs(w[c]) > tol}


@pytest.mark.parametrize("tol", [0.0, 1e-2, 0.3, 1.0])
def test_leading_classes(rng, tol):
    w = rng.normal(size=(500, 5)) * 10.0 ** rng.uniform(-4, 0, (500, 5))
    w -= w.mean(axis=1, keepdims=True)
    w /= np.abs(w).max(axis=1, keepdims=True)
    found = leading_classes(w, tol)
    for i in range(len(w)):
        pair, others = naive_leading(w[i], tol)
        assert set(found.order[i, :2]) == pair
        if found.n_classes[i] == 3:
            assert others == {found.order[i, 2]}
        else:
            assert (len(others) == 0) == (found.n_classes[i] == 2)
    if tol == 1:
        assert np.all(found.n_classes == 2)


def test_two_classes_always_make_a_pair():
    found = leading_classes(np.array([[-1.0, 1.0], [1.0, -1.0]]), 0.0)
    np.testing.assert_array_equal(found.n_classes, 2)
    np.testing.assert_array_equal(np.sort(found.order[:, :2]), [[0, 1], [0, 1]])


def test_weights_of_three_classes_depend_on_one_number():
    w = np.array([[1.0, -0.8, -0.2], [-1.0, 0.6, 0.4], [-0.1, -0.9, 1.0]])
    found = leading_classes(w, 1e-2)
    np.testing.assert_array_equal(found.n_classes, 3)
    np.testing.assert_array_equal(found.order, [[0, 1, 2], [0, 1, 2], [2, 1, 0]])
    np.testing.assert_allclose(found.tau, [0.2, 0.4, 0.1])


NORMALIZATIONS = pytest.mark.parametrize("normalization", ["determinant", "trace"])


@NORMALIZATIONS
def test_pair_sum(gaussians, rng, normalization):
    X = 2 * rng.normal(size=(300, 8))
    weights = rng.uniform(0.5, 2, 300)
    w = np.tile([0.0, 1.0, 0.0, -1.0], (300, 1))
    metrics = local_metrics(gaussians.weighted_curvature(X, w), normalization=normalization)
    total, square, treated = pair_metric_sum(gaussians, (1, 3), X, weights, normalization)
    assert treated.all()
    expected = np.tensordot(weights, metrics, axes=1)
    assert np.linalg.norm(total - expected) < 1e-5 * np.linalg.norm(expected)
    np.testing.assert_allclose(square, weights @ (metrics**2).sum(axis=(1, 2)), rtol=1e-5)


@NORMALIZATIONS
@pytest.mark.parametrize("tau", [0.0, 0.02, 0.1, 0.5])
def test_triple_sum(gaussians, rng, tau, normalization):
    # At the nodes only the poles are in the way; between them the interpolation.
    X = 2 * rng.normal(size=(400, 8))
    weights = rng.uniform(0.5, 2, 400)
    w = np.tile([-(1 - tau), 1.0, -tau, 0.0], (400, 1))
    metrics = local_metrics(gaussians.weighted_curvature(X, w), normalization=normalization)
    total, square, treated = triple_metric_sum(
        gaussians, (1, 0, 2), X, weights, np.full(400, tau), normalization
    )
    assert treated.all()
    expected = np.tensordot(weights, metrics, axes=1)
    tolerance = 1e-2 if tau == 0.1 else 2e-4
    assert np.linalg.norm(total - expected) < tolerance * np.linalg.norm(expected)
    np.testing.assert_allclose(square, weights @ (metrics**2).sum(axis=(1, 2)), rtol=5 * tolerance)


def test_degenerate_pairs_are_left_to_the_dense_solver(rng):
    X = rng.normal(size=(200, 3))
    X = np.concatenate([X, X + 2])
    gaussians = fit_gaussians(class_statistics(X, np.repeat([0, 1], 200), 2))
    total, square, treated = pair_metric_sum(gaussians, (0, 1), X, np.ones(400))
    assert not treated.any()
    assert square == 0
    assert not total.any()
