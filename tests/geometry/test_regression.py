"""Local metrics for regression against the sign rule of the dense path and finite differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from genmetric.density import JointDensity
from genmetric.geometry import (
    average_regression_metrics,
    local_metrics,
    regression_local_metrics,
)


def gradients(seed, n=30, d=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(n, d)) * np.exp(rng.normal(size=(n, 1)))


def bias_matrices(g, b):
    return b[:, :, None] * g[:, None, :] + g[:, :, None] * b[:, None, :]


@given(st.integers(0, 10**6), st.integers(2, 7))
@settings(max_examples=40, deadline=None)
def test_the_first_order_bias_is_removed(seed, d):
    g, b = gradients(seed, d=d)
    B = bias_matrices(g, b)
    M = regression_local_metrics(g, b)
    trace = np.trace(np.linalg.solve(M, B), axis1=1, axis2=2)
    np.testing.assert_allclose(trace / np.linalg.norm(B, axis=(1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(np.trace(M, axis1=1, axis2=2), d)
    assert (np.linalg.eigvalsh(M) > 0).all()


@given(st.integers(0, 10**6), st.integers(2, 7))
@settings(max_examples=40, deadline=None)
def test_closed_form_equals_the_sign_rule(seed, d):
    g, b = gradients(seed, d=d)
    expected = local_metrics(bias_matrices(g, b), normalization="trace")
    np.testing.assert_allclose(regression_local_metrics(g, b), expected, atol=1e-6 * d)


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_average_equals_a_loop(seed):
    g, b = gradients(seed)
    g[3], b[5] = 0, 0
    weights = np.random.default_rng(seed).uniform(0, 2, len(g))
    stack = regression_local_metrics(g, b)
    expected = np.einsum("n,nij->ij", weights / weights.sum(), stack)
    mean, found = average_regression_metrics(g, b, weights)
    np.testing.assert_allclose(mean, expected, atol=1e-8)
    w = weights / weights.sum()
    spread = w @ np.sum((stack - expected) ** 2, axis=(1, 2))
    stderr = np.sqrt(spread / weights.sum()) / np.linalg.norm(expected)
    assert found == pytest.approx(stderr, rel=1e-6)


@pytest.mark.parametrize(
    ("scale_g", "scale_b"), [(1e-200, 1), (1, 1e200), (1e150, 1e-150), (1, -1)]
)
def test_only_directions_matter(scale_g, scale_b):
    g, b = gradients(0)
    plain = regression_local_metrics(g, b)
    np.testing.assert_allclose(regression_local_metrics(scale_g * g, scale_b * b), plain, atol=1e-9)


def test_degenerate_gradients():
    g, b = gradients(0, n=3, d=3)
    np.testing.assert_array_equal(regression_local_metrics(0 * g, b), np.stack([np.eye(3)] * 3))
    parallel = regression_local_metrics(g, 2 * g)
    u = g / np.linalg.norm(g, axis=1)[:, None]
    np.testing.assert_allclose(parallel, 3 * u[:, :, None] * u[:, None, :], atol=1e-6)


@pytest.mark.parametrize("n_components", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_gradients_equal_finite_differences(n_components, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n_components, 4, 4))
    covariances = A @ A.transpose(0, 2, 1) + np.eye(4)
    means, weights = rng.normal(size=(n_components, 4)), rng.dirichlet(np.ones(n_components))
    density = JointDensity.from_moments(means, covariances, weights)
    X = rng.normal(size=(10, 3))
    g, b = density.gradients(X)

    def parts(x):
        """Weighted densities of the components, and their conditional means."""
        found = []
        for weight, mean, S in zip(weights, means, covariances, strict=True):
            marginal = multivariate_normal(mean[:3], S[:3, :3])
            slope = np.linalg.solve(S[:3, :3], S[:3, 3])
            found.append((weight * marginal.pdf(x), mean[3] + (x - mean[:3]) @ slope))
        return np.transpose(found)

    def log_density(x):
        return np.log(parts(x)[0].sum())

    def regression(x):
        p, m = parts(x)
        return p @ m / p.sum()

    for i, x in enumerate(X):
        for j, e in enumerate(1e-5 * np.eye(3)):
            slope = (regression(x + e) - regression(x - e)) / 2e-5
            assert b[i, j] == pytest.approx(slope, rel=1e-5, abs=1e-6)
            gradient = (log_density(x + e) - log_density(x - e)) / 2e-5
            assert g[i, j] == pytest.approx(gradient, rel=1e-5, abs=1e-6)


def test_one_gaussian_is_linear_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X @ [1.0, -2, 0.5] + 0.1 * rng.normal(size=200)
    table = np.column_stack([X, y])
    density = JointDensity.from_moments(table.mean(axis=0)[None], np.cov(table.T)[None])
    coefficients = np.linalg.lstsq(np.column_stack([np.ones(200), X]), y, rcond=None)[0]
    np.testing.assert_allclose(density.gradients(X)[1], np.tile(coefficients[1:], (200, 1)))
