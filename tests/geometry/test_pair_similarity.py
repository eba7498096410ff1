"""Maps for pairs of samples: joint diagonalisation, weights and their optimality."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh

from genmetric.geometry._pair_similarity import (
    WEIGHTINGS,
    discriminant_axes,
    similarity_factor,
    similarity_weights,
)


def covariances(seed, n_features=6):
    """Return a positive definite matrix and a symmetric one."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n_features, n_features))
    return a @ a.T + 0.1 * np.eye(n_features), b @ b.T - 0.5 * np.eye(n_features)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_axes_diagonalise_both(seed):
    within, between = covariances(seed)
    axes, ratios = discriminant_axes(within, between)
    np.testing.assert_allclose(axes @ within @ axes.T, np.eye(6), atol=1e-8)
    expected = eigh(between, within, eigvals_only=True)[::-1]
    np.testing.assert_allclose(ratios, np.maximum(expected, 0), atol=1e-7 * expected.max())
    np.testing.assert_allclose(
        axes @ between @ axes.T, np.diag(expected), atol=1e-7 * abs(expected).max()
    )
    assert (axes[np.arange(6), np.abs(axes).argmax(axis=1)] > 0).all()


def test_weights_by_their_formulas():
    ratios = np.array([0.0, 0.5, 3.0])
    for name, expected in {
        "whitening": [1, 1, 1],
        "reliability": [0, 1 / 3, 3 / 4],
        "detection": [0, 0.5 / 1.5**2, 3 / 16],
    }.items():
        np.testing.assert_allclose(similarity_weights(ratios, name), expected)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_detection_separates_pairs_best(seed):
    """No other weights have a larger difference of means relative to the standard deviation."""
    rng = np.random.default_rng(seed)
    ratios = rng.exponential(size=8)

    def separation(g):
        return g @ ratios / np.sqrt(g**2 @ (1 + ratios) ** 2)

    best = separation(similarity_weights(ratios, "detection"))
    assert best >= separation(rng.exponential(size=8)) - 1e-12
    assert best >= separation(similarity_weights(ratios, "reliability")) - 1e-12


def test_moments_of_the_similarity_of_pairs():
    """Simulated pairs have the mean and the variance that the weights assume."""
    rng = np.random.default_rng(0)
    within, between = covariances(1, 3)
    between += np.eye(3)  # positive definite
    axes, ratios = discriminant_axes(within, between)
    n = 200_000
    classes = rng.multivariate_normal(np.zeros(3), between, size=(2, n))
    x, y = (m + rng.multivariate_normal(np.zeros(3), within, size=n) for m in classes)
    same = classes[0] + rng.multivariate_normal(np.zeros(3), within, size=n)
    g = similarity_weights(ratios, "detection")
    different, equal = (((x @ axes.T) * (z @ axes.T)) @ g for z in (y, same))
    assert abs(different.mean()) < 0.02
    np.testing.assert_allclose(equal.mean(), g @ ratios, rtol=0.02)
    np.testing.assert_allclose(different.var(), g**2 @ (1 + ratios) ** 2, rtol=0.05)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("n_components", [None, 2])
def test_factor(weighting, n_components):
    within, between = covariances(2)
    axes, ratios = discriminant_axes(within, between)
    L = similarity_factor(axes, ratios, weighting, n_components)
    k = n_components or 6
    assert L.shape == (k, 6)
    x, y = np.random.default_rng(0).normal(size=(2, 6))
    g = similarity_weights(ratios, weighting)
    similarity = sum(g[i] * (axes[i] @ x) * (axes[i] @ y) for i in range(k))
    size = sum(g[i] * (1 + ratios[i]) for i in range(k))
    np.testing.assert_allclose((L @ x) @ (L @ y), similarity / size)


def test_classes_that_do_not_differ_are_whitened():
    axes, ratios = discriminant_axes(np.eye(3), np.zeros((3, 3)))
    L = similarity_factor(axes, ratios, "detection")
    np.testing.assert_allclose(L.T @ L, np.eye(3) / 3)
