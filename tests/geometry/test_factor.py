"""Roots and factors of a metric."""

import numpy as np
import pytest

from genmetric.geometry import rank_limited_factor, symmetric_root


@pytest.fixture
def metric(rng):
    A = rng.normal(size=(5, 5))
    return A @ A.T


def test_symmetric_root(rng):
    A = rng.normal(size=(3, 4, 4))
    M = A @ A.transpose(0, 2, 1)
    L = symmetric_root(M)
    np.testing.assert_allclose(L @ L, M, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(L, L.transpose(0, 2, 1), atol=1e-14)
    assert (np.linalg.eigvalsh(L) > 0).all()
    np.testing.assert_allclose(symmetric_root(np.eye(3)), np.eye(3), atol=1e-15)


def test_root_of_a_singular_metric(rng):
    a = rng.normal(size=4)
    L = symmetric_root(np.outer(a, a))
    np.testing.assert_allclose(L @ L, np.outer(a, a), atol=1e-7)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_factor_with_data_loses_least_of_the_distances(metric, rng, k):
    X = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 5))
    root = symmetric_root(metric)
    E = (X[:, None] - X[None, :]).reshape(-1, 5)

    def lost(L):
        return np.mean(np.einsum("ij,jk,ik->i", E, metric, E) - ((E @ L.T) ** 2).sum(axis=1))

    L = rank_limited_factor(metric, k, np.cov(X.T, bias=True))
    assert L.shape == (k, 5)
    assert lost(L) > -1e-9
    # Against other projections of the metric's space on k dimensions.
    for _ in range(50):
        Q = np.linalg.qr(rng.normal(size=(5, 5)))[0][:, :k]
        assert lost(Q.T @ root) >= lost(L) - 1e-9
    if k == 5:
        np.testing.assert_allclose(L.T @ L, metric, rtol=1e-9, atol=1e-9)


def test_leading_components_come_first(metric, rng):
    S = np.cov(rng.normal(size=(50, 5)).T)
    three, two = (rank_limited_factor(metric, k, S) for k in (3, 2))
    np.testing.assert_array_equal(three[:2], two)
    variance = np.diag(three @ S @ three.T)
    assert (np.diff(variance) < 0).all()


@pytest.mark.parametrize(
    "function", [symmetric_root, lambda M: rank_limited_factor(M, 1, np.eye(2))]
)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_metric_that_is_not_finite(function, bad):
    with pytest.raises(ValueError, match=r"metric is not finite.*limits of float64"):
        function(np.diag([1.0, bad]))
