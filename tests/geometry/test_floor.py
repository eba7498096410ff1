"""The floor of the sign rule: metrics of ill-conditioned classes against 60 digits of mpmath."""

import numpy as np
import pytest

from genmetric.density import ClassGaussians, class_statistics, fit_gaussians
from genmetric.geometry._dense_solver import sample_metrics
from genmetric.geometry._local import FLOOR, ZERO_LEVEL, sign_rule
from genmetric.geometry._phi import phi_and_rounding

mp = pytest.importorskip("mpmath")


def exact_metric(means, covariances, x, normalization):
    """The local metric of one sample in 60 digits, and the smallest relative eigenvalue of Phi."""
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
            if smallest < 3 * ZERO_LEVEL:
                continue
            below_old_floor += smallest < 1e-10
            models = ClassGaussians.from_moments(means, covariances)
            found = sample_metrics(models, x[None], normalization=normalization)[0]
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
    matrices, rounding = phi_and_rounding(models, X)
    m = sign_rule(np.linalg.eigvalsh(matrices), rounding=rounding)
    floored = np.isclose(m, FLOOR * m.max(axis=1, keepdims=True))
    np.testing.assert_array_equal(floored.sum(axis=1), n_zero)
