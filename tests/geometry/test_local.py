"""The sign rule and the local metrics made of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric.density import ClassGaussians, class_statistics, fit_gaussians
from genmetric.geometry import interpolate, local_metrics, phi, sign_rule

FLOOR = 1e-10


def rotation(D, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(D, D)))[0]


@st.composite
def spectra(draw, decades=4.0, min_size=1):
    """Eigenvalues of either sign over some decades, none of them small enough for the floor."""
    n = draw(st.integers(min_size, 7))
    size = draw(st.lists(st.floats(-decades / 2, decades / 2), min_size=n, max_size=n))
    sign = draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=n, max_size=n))
    return np.array(sign) * 10.0 ** np.array(size)


seeds = st.integers(0, 2**32 - 1)


@given(spectra(decades=9))
def test_sign_rule_is_that_of_the_paper(eigenvalues):
    m = sign_rule(eigenvalues)
    n_positive, n_negative = (eigenvalues > 0).sum(), (eigenvalues < 0).sum()
    expected = np.where(eigenvalues > 0, n_positive, n_negative) * np.abs(eigenvalues)
    np.testing.assert_allclose(m / m[0], expected / expected[0], rtol=1e-10)
    np.testing.assert_allclose(np.log(m).sum(), 0, atol=1e-12)
    if n_positive and n_negative:
        terms = eigenvalues / m
        assert abs(terms.sum()) < 1e-12 * np.abs(terms).sum()


@given(spectra(), seeds)
def test_trace_of_local_metrics_is_that_of_the_identity(naive, eigenvalues, seed):
    U = rotation(len(eigenvalues), seed)
    Phi = (U * eigenvalues) @ U.T
    M = local_metrics(Phi, normalization="trace")
    reference = naive.local_metric(Phi)
    reference *= len(Phi) / np.trace(reference)
    np.testing.assert_allclose(M, reference, rtol=1e-8, atol=1e-9 * np.abs(M).max())
    np.testing.assert_array_equal(local_metrics(np.zeros((3, 3)), normalization="trace"), np.eye(3))


@given(spectra(), seeds)
def test_local_metric_solves_the_problem(naive, eigenvalues, seed):
    """Equation (7): positive definite, determinant one, trace(M⁻¹ Phi) = 0."""
    U = rotation(len(eigenvalues), seed)
    Phi = (U * eigenvalues) @ U.T
    M = local_metrics(Phi)
    np.testing.assert_array_equal(M, M.T)
    assert np.linalg.eigvalsh(M)[0] > 0
    np.testing.assert_allclose(np.linalg.slogdet(M)[1], 0, atol=1e-9)
    if (eigenvalues > 0).any() and (eigenvalues < 0).any():
        terms = np.linalg.eigvals(np.linalg.solve(M, Phi)).real
        assert abs(terms.sum()) < 1e-9 * np.abs(terms).sum()
    np.testing.assert_allclose(M, naive.local_metric(Phi), rtol=1e-8, atol=1e-9 * np.abs(M).max())


@given(spectra(), seeds, st.floats(-150, 150), st.sampled_from([-1, 1]))
def test_local_metric_ignores_scale_and_sign(eigenvalues, seed, exponent, sign):
    U = rotation(len(eigenvalues), seed)
    Phi = (U * eigenvalues) @ U.T
    M = local_metrics(Phi)
    other = local_metrics(sign * 10.0**exponent * Phi)
    np.testing.assert_allclose(other, M, rtol=1e-9, atol=1e-10 * np.abs(M).max())


@given(spectra(), seeds, seeds)
def test_local_metric_is_equivariant_to_rotations(eigenvalues, seed, other_seed):
    U, R = (rotation(len(eigenvalues), s) for s in (seed, other_seed))
    Phi = (U * eigenvalues) @ U.T
    M = local_metrics(Phi)
    turned = local_metrics(R @ Phi @ R.T)
    np.testing.assert_allclose(R.T @ turned @ R, M, rtol=1e-8, atol=1e-9 * np.abs(M).max())


def test_zero_phi_gives_the_identity():
    np.testing.assert_array_equal(local_metrics(np.zeros((2, 3, 3))), np.tile(np.eye(3), (2, 1, 1)))
    np.testing.assert_array_equal(sign_rule(np.zeros((4, 3))), np.ones((4, 3)))


def test_zero_eigenvalues_get_the_floor_and_count_for_no_sign():
    m = sign_rule(np.array([-1.0, 1e-17, 0.0, 3.0, 5.0]))
    np.testing.assert_allclose(m / m.max(), [0.1, FLOOR, FLOOR, 0.6, 1])
    np.testing.assert_allclose(np.log(m).sum(), 0, atol=1e-12)


@pytest.mark.parametrize("D", [3, 10, 40])
def test_rank_two(rng, D):
    """Equal covariances leave Phi = a aᵀ - b bᵀ: two directions, and the floor in all others."""
    a, b = rng.normal(size=(2, D))
    M = local_metrics(np.outer(a, a) - np.outer(b, b))
    assert np.isfinite(M).all()
    lam = np.linalg.eigvalsh(np.outer(a, a) - np.outer(b, b))[[0, -1]]
    m = np.abs(lam)
    m = np.sort(np.r_[m, np.full(D - 2, FLOOR * m.max())])
    m /= np.exp(np.log(m).mean())
    # The matrix has this spectrum up to rounding of its largest eigenvalue.
    np.testing.assert_allclose(np.linalg.eigvalsh(M), m, rtol=1e-10, atol=1e-14 * m[-1])


def test_one_feature_has_only_one_metric(rng):
    np.testing.assert_allclose(local_metrics(rng.normal(size=(7, 1, 1))), np.ones((7, 1, 1)))


@pytest.mark.parametrize("lam", [0, 0.25, 1])
def test_interpolate(rng, lam):
    M = rng.normal(size=(4, 3, 3))
    for found, M_i in zip(interpolate(M, lam), M, strict=True):
        np.testing.assert_array_equal(found, (1 - lam) * np.eye(3) + lam * M_i)


def exact_metric(means, covariances, x, normalization):
    """The local metric of one sample in 60 digits, and the smallest relative eigenvalue of Phi."""
    mp = pytest.importorskip("mpmath")
    with mp.workdps(60):
        hessians, logs = [], []
        for mean, S in zip(means, covariances, strict=True):
            S = mp.matrix(S.tolist())  # noqa: PLW2901
            d = mp.matrix([mp.mpf(float(a)) - mp.mpf(float(b)) for a, b in zip(x, mean)])  # noqa: B905
            P = S**-1
            v = P * d
            hessians.append(v * v.T - P)
            logs.append(-(d.T * v)[0] / 2 - mp.log(mp.det(S)) / 2)
        p = [mp.exp(value - max(logs)) for value in logs]
        phi = mp.zeros(len(x))
        for c, G in enumerate(hessians):
            others = p[:c] + p[c + 1 :]
            phi += p[c] * (sum(q**2 for q in others) - p[c] * sum(others)) * G
        eigenvalues, U = mp.eigsy(phi)
        n_positive = sum(1 for value in eigenvalues if value > 0)
        n_negative = len(x) - n_positive
        m = [n_positive * e if e > 0 else -n_negative * e for e in eigenvalues]
        if normalization == "trace":
            scale = sum(m) / len(m)
        else:
            scale = mp.exp(sum(map(mp.log, m)) / len(m))
        M = U * mp.diag([value / scale for value in m]) * U.T
        size = [abs(value) for value in eigenvalues]
        return np.array(M.tolist(), float), float(min(size) / max(size))


def ill_conditioned(rng, n_classes, n_features, condition):
    """Means and covariances of a given condition number, and a sample of the first class."""
    covariances = []
    for _ in range(n_classes):
        Q = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0]
        variances = np.geomspace(1, 1 / condition, n_features) * rng.uniform(0.5, 2, n_features)
        S = (Q * variances) @ Q.T
        covariances.append((S + S.T) / 2)
    means = 0.3 * rng.normal(size=(n_classes, n_features))
    x = means[0] + np.linalg.cholesky(covariances[0]) @ rng.normal(size=n_features)
    return means, np.array(covariances), x


@pytest.mark.parametrize("normalization", ["determinant", "trace"])
@pytest.mark.parametrize(("condition", "limit"), [(1e6, 1e-6), (2e7, 1e-3), (1e8, 5e-3)])
def test_ill_conditioned_classes_against_mpmath(rng, condition, limit, normalization):
    errors, below_old_floor = [], 0
    for n_classes in (2, 3):
        for _ in range(8):
            means, covariances, x = ill_conditioned(rng, n_classes, 4, condition)
            expected, smallest = exact_metric(means, covariances, x, normalization)
            if smallest < 3e-14:
                continue
            below_old_floor += smallest < 1e-10
            models = ClassGaussians.from_moments(means, covariances)
            found = local_metrics(phi(models, x[None]), normalization=normalization)[0]
            errors.append(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    assert len(errors) >= 12
    assert np.median(errors) < 2e-5
    assert np.max(errors) < limit
    # A floor of 1e-10 would change some of these metrics by tens of percent.
    assert condition < 1e7 or below_old_floor > 0


@pytest.mark.parametrize("kind", ["equal covariances", "collinear", "constant"])
@pytest.mark.parametrize("n_features", [4, 40])
def test_rounding_errors_stay_below_the_level(rng, kind, n_features):
    n = 4 * n_features
    X = rng.normal(size=(n, n_features)) @ rng.normal(size=(n_features, n_features))
    if kind == "equal covariances":
        X, n_zero = np.concatenate([X, X + rng.normal(size=n_features)]), n_features - 2
    else:
        other = X @ rng.normal(size=(n_features, n_features)) / np.sqrt(n_features)
        X, n_zero = np.concatenate([X, other]), 1
        X[:, 0] = X[:, 1] - X[:, 2] if kind == "collinear" else 1.0
    stats = class_statistics(X, np.repeat([0, 1], n), 2)
    models = fit_gaussians(stats, shrinkage="auto" if n_zero > 1 else None)
    m = sign_rule(np.linalg.eigvalsh(phi(models, X)))
    floored = np.isclose(m, FLOOR * m.max(axis=1, keepdims=True))
    np.testing.assert_array_equal(floored.sum(axis=1), n_zero)
