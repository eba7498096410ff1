"""Sums of absolute values of matrices that differ by low rank, against eigendecompositions."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from genmetric.density import class_statistics, fit_gaussians
from genmetric.geometry._resolvent import (
    COARSE,
    AbsoluteValues,
    SharedPart,
    bordered_inverse,
    plain_sum,
    rank_one_traces,
    scale_levels,
    spectral_bound,
    square_norms,
    summarize,
)


def matrices(beta, signs, V):
    return np.diag(beta) + np.einsum("k,nki,nkj->nij", signs, V, V)


@st.composite
def problems(draw):
    """Diagonals with gaps, repeats and tiny entries; vectors from negligible to dominating."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_features = draw(st.integers(2, 12))
    signs = np.array(draw(st.sampled_from([[1.0, -1.0], [1.0, -1.0, -1.0], [1.0], [-1.0]])))
    beta = rng.normal(size=n_features) * 10.0 ** rng.uniform(
        -draw(st.integers(0, 4)), 0, n_features
    )
    if draw(st.booleans()):
        beta[rng.integers(n_features)] = beta[0]
    if draw(st.booleans()):
        beta = np.abs(beta)
    beta = np.sort(beta)
    assume(np.abs(beta).min() > 1e-8 * np.abs(beta).max())
    sizes = 10.0 ** rng.uniform(-3, draw(st.integers(-1, 3)), (20, len(signs), 1))
    V = sizes * rng.normal(size=(20, len(signs), n_features))
    if draw(st.booleans()):
        V[:, :, rng.integers(n_features)] = 0
    return beta, signs, V


@given(problems())
def test_inertia_and_determinant(problem):
    eigenvalues = np.linalg.eigvalsh(matrices(*problem))
    size = np.abs(eigenvalues)
    # Where an eigenvalue is within rounding of zero neither number is defined.
    clear = size.min(axis=1) > 1e-7 * size.max(axis=1)
    found = summarize(*problem)
    np.testing.assert_array_equal(found.n_positive[clear], (eigenvalues[clear] > 0).sum(axis=1))
    np.testing.assert_allclose(
        found.log_det[clear], np.log(size[clear]).sum(axis=1), rtol=0, atol=1e-4
    )
    # Rows near the floor of the sign rule, or where too much cancels, are told from the others.
    counts = np.sort([(eigenvalues > 0).sum(axis=1), (eigenvalues < 0).sum(axis=1)], axis=0)
    minor = np.where(counts[0] > 0, counts[0], counts[1])
    span = size.max(axis=1) / np.maximum(size.min(axis=1), 1e-300) * counts[1] / minor
    norm = np.sqrt((size**2).sum(axis=1))
    near = found.bound * size.shape[1] < 2 * 7 * minor * norm
    # Where a row's terms dwarf the shared part its condition is overestimated, which is safe.
    modest = (problem[2] ** 2).sum(axis=2).max(axis=1) < 1e3 * np.abs(problem[0]).min()
    assert found.regular[near & modest & (span < 1e7)].all()
    assert not found.regular[span > 1e11].any()


@given(problems())
def test_bound_holds(problem):
    norm = np.abs(np.linalg.eigvalsh(matrices(*problem))).max(axis=1)
    assert np.all(spectral_bound(*problem) >= norm * (1 - 1e-12))


def test_bound_is_tight_for_gaussian_classes(rng):
    beta = np.sort(rng.normal(size=60))
    V = rng.normal(size=(200, 2, 60)) * rng.uniform(0.1, 2, (200, 2, 1))
    signs = np.array([1.0, -1.0])
    norm = np.abs(np.linalg.eigvalsh(matrices(beta, signs, V))).max(axis=1)
    assert np.median(spectral_bound(beta, signs, V) / norm) < 1.1


@given(problems())
def test_absolute_sum_and_traces(problem):
    beta, signs, V = problem
    size = spectral_bound(beta, signs, V).max()
    problem = beta / size, signs, V / np.sqrt(size)
    eigenvalues, U = np.linalg.eigh(matrices(*problem))
    weights = np.linspace(0.5, 2, len(V))
    expected = np.einsum("n,nij,nj,nkj->ik", weights, U, np.abs(eigenvalues), U)
    absolute = AbsoluteValues.of(*problem)
    total = absolute.sum(weights)
    assert np.abs(total - expected).max() < 2e-5 * weights.sum()
    size = np.abs(eigenvalues)
    np.testing.assert_allclose(absolute.traces, size.sum(axis=1), atol=2e-5 * len(beta))
    np.testing.assert_allclose(rank_one_traces(*problem), eigenvalues.sum(axis=1), atol=1e-10)
    signed = absolute.signed_squares
    np.testing.assert_allclose(signed, (eigenvalues * np.abs(eigenvalues)).sum(axis=1), atol=1e-4)
    np.testing.assert_array_equal(total, total.T)
    coarse = AbsoluteValues.of(*problem, COARSE).sum(weights)
    assert np.abs(coarse - expected).max() < 3e-4 * weights.sum()


@given(problems())
def test_plain_sum_and_norms(problem):
    weights = np.linspace(-1, 2, len(problem[2]))
    phi = matrices(*problem)
    expected = np.tensordot(weights, phi, axes=1)
    np.testing.assert_allclose(
        plain_sum(*problem, weights), expected, atol=1e-12 * np.abs(phi).sum()
    )
    squares = (phi**2).sum(axis=(1, 2))
    parts = (problem[2] ** 2).sum(axis=(1, 2)) ** 2 + (problem[0] ** 2).sum()
    np.testing.assert_allclose(square_norms(*problem), squares, atol=1e-10 * parts.max())


@pytest.mark.parametrize("r", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", [float, complex])
def test_bordered_inverse(rng, r, kind):
    H = rng.normal(size=(r, r, 30)).astype(kind)
    if kind is complex:
        H += 1j * rng.normal(size=(r, r, 30))
    H += H.transpose(1, 0, 2)
    inverse, pivots = bordered_inverse(H)
    expected = np.linalg.inv(H.transpose(2, 0, 1)).transpose(1, 2, 0)
    np.testing.assert_allclose(inverse, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(
        pivots.prod(axis=0), np.linalg.det(H.transpose(2, 0, 1)), rtol=1e-8, atol=1e-12
    )


def test_levels_do_not_depend_on_the_unit_of_the_data():
    bound = np.array([0.3, 1.0, 1.001, 17.0])
    np.testing.assert_allclose(scale_levels(bound, 1.0), [1.0, 1.0, 4.0, 64.0])
    np.testing.assert_allclose(scale_levels(7 * bound, 7.0), 7 * scale_levels(bound, 1.0))


def test_shared_part_reproduces_phi(rng):
    X = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 5))
    y = rng.integers(0, 3, 300)
    X[y == 1] *= 2
    gaussians = fit_gaussians(class_statistics(X, y, 3))
    w = np.array([1.0, -0.7, -0.3])
    shared = SharedPart.of(gaussians, [0, 1, 2], w)
    V = shared.coordinates(X, np.tile(np.abs(w), (len(X), 1)))
    inside = matrices(shared.beta, shared.signs, V)
    expected = gaussians.weighted_curvature(X, np.tile(w, (len(X), 1)))
    np.testing.assert_allclose(shared.Q @ inside @ shared.Q.T, expected, rtol=1e-8, atol=1e-8)


def test_equal_classes_are_not_sound(rng):
    X = rng.normal(size=(300, 4))
    y = np.repeat([0, 1], 150)
    X[150:] = X[:150] + 1  # equal covariances: B is zero up to rounding
    gaussians = fit_gaussians(class_statistics(X, y, 2))
    assert not SharedPart.of(gaussians, [0, 1], np.array([1.0, -1.0])).sound
    X[150:, 0] *= 3  # they differ in one direction only: B has a null space
    gaussians = fit_gaussians(class_statistics(X, y, 2), shrinkage=None)
    assert not SharedPart.of(gaussians, [0, 1], np.array([1.0, -1.0])).sound
