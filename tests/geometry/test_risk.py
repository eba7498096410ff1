"""Errors of the nearest neighbour: against integrals, the paper's integrand, and simulation."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.spatial import cKDTree

from genmetric.density import ClassGaussians
from genmetric.geometry import asymptotic_error, bias_per_row, finite_sample_error
from genmetric.geometry.risk import density_bias


def draw(models, n, rng, priors=None):
    """Rows and labels from the mixture of the classes."""
    y = rng.choice(models.n_classes, n, p=priors)
    X = np.empty((n, models.means.shape[1]))
    for c in range(models.n_classes):
        rows = y == c
        X[rows] = rng.multivariate_normal(models.means[c], models.covariances[c], rows.sum())
    return X, y


def random_models(rng, n_classes, D):
    A = rng.normal(size=(n_classes, D, D)) + 2 * np.eye(D)
    return ClassGaussians.from_moments(rng.normal(size=(n_classes, D)), A @ A.transpose(0, 2, 1))


@pytest.mark.parametrize("priors", [None, [0.2, 0.8]])
def test_asymptotic_error_in_one_dimension(naive, rng, priors):
    models = ClassGaussians.from_moments(np.array([[0.0], [1.5]]), np.array([[[1.0]], [[0.3]]]))
    q = [0.5, 0.5] if priors is None else priors

    def integrand(x):
        a, b = (
            prior * naive.density(np.array([x]), mean, S)
            for prior, mean, S in zip(q, models.means, models.covariances, strict=True)
        )
        return 2 * a * b / (a + b)

    exact = quad(integrand, -8, 9)[0]
    X, _ = draw(models, 100_000, rng, q)
    found = asymptotic_error(models, X, None if priors is None else np.log(q))
    # The terms of the mean are at most 1/2.
    assert abs(found - exact) < 4 * 0.5 / np.sqrt(len(X))


def test_density_bias_is_the_integrand_of_equation_5(naive, rng):
    models = random_models(rng, 2, 3)
    X, _ = draw(models, 40, rng)
    A = rng.normal(size=(3, 3))
    metric = A @ A.T + np.eye(3)
    found = density_bias(models, X, metric)
    expected = [naive.bias_integrand(x, models.means, models.covariances, metric) for x in X]
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert (found > 0).any()
    assert (found < 0).any()


def test_density_bias_of_several_classes(naive, rng):
    models = random_models(rng, 4, 2)
    X, _ = draw(models, 40, rng)
    metric = np.array([[2.0, 0.5], [0.5, 1.0]])
    found = density_bias(models, X, metric)
    for x, value in zip(X, found, strict=True):
        moments = list(zip(models.means, models.covariances, strict=True))
        total = sum(naive.density(x, mean, S) for mean, S in moments)
        Phi = naive.phi(x, models.means, models.covariances)
        expected = np.trace(np.linalg.inv(metric) @ Phi) / total**2
        np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-12)


def test_bias_per_row_is_the_integrand_over_the_density(naive, rng):
    models = random_models(rng, 2, 3)
    X, _ = draw(models, 40, rng)
    density = [
        np.mean(
            [naive.density(x, m, S) for m, S in zip(models.means, models.covariances, strict=True)]
        )
        for x in X
    ]
    expected = density_bias(models, X, np.eye(3)) / np.array(density) / 2
    np.testing.assert_allclose(bias_per_row(models, X), expected, rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(bias_per_row(models, X, np.eye(3)), expected, rtol=1e-8, atol=1e-14)


def test_priors_enter_as_densities_times_priors(naive, rng):
    models, priors = random_models(rng, 3, 2), np.array([0.2, 0.5, 0.3])
    X, _ = draw(models, 20, rng)
    found = bias_per_row(models, X, None, np.log(priors))
    for x, value in zip(X, found, strict=True):
        Phi = naive.phi(x, models.means, models.covariances, priors)
        p = sum(
            prior * naive.density(x, m, S)
            for prior, m, S in zip(priors, models.means, models.covariances, strict=True)
        )
        np.testing.assert_allclose(value, np.trace(Phi) / p**3, rtol=1e-7, atol=1e-10)


def test_bias_of_distant_samples_is_finite(rng):
    models = random_models(rng, 3, 3)
    far = 1e4 * np.eye(3)
    assert np.isfinite(bias_per_row(models, far)).all()
    assert not density_bias(models, far, np.eye(3)).any()


def test_unit_of_length(rng):
    models = random_models(rng, 2, 3)
    X, _ = draw(models, 20, rng)
    unit = 0.25
    inside = ClassGaussians.from_moments(models.means / unit, models.covariances / unit**2)
    np.testing.assert_allclose(
        density_bias(inside, X / unit, np.eye(3), log_unit=np.log(unit)),
        density_bias(models, X, np.eye(3)),
        rtol=1e-8,
    )


def test_singular_metric(rng):
    models = random_models(rng, 2, 3)
    a = rng.normal(size=(2, 3))
    with pytest.raises(ValueError, match=r"metric is singular.*n_components=None"):
        bias_per_row(models, rng.normal(size=(4, 3)), a.T @ a)


@pytest.fixture(scope="module")
def wide_and_narrow():
    """Two classes whose means differ along one feature, their widths along the others."""
    means, S = np.zeros((2, 3)), np.stack([np.eye(3), np.diag([1.0, 4, 4])])
    means[1, 0] = 1.5
    models = ClassGaussians.from_moments(means, S)
    return models, draw(models, 200_000, np.random.default_rng(0))[0]


@pytest.mark.parametrize("metric", [np.eye(3), np.diag([16, 0.25, 0.25])], ids=["plain", "bad"])
def test_finite_sample_error_against_simulation(wide_and_narrow, metric):
    models, X = wide_and_narrow
    rng, N, runs = np.random.default_rng(1), 400, []
    L = np.sqrt(metric)
    for _ in range(150):
        train, y = draw(models, N, rng)
        test, _ = draw(models, 400, rng)
        neighbour = cKDTree(train @ L).query(test @ L)[1]
        eta = 1 / (1 + np.exp(models.log_density(test) @ [1, -1]))  # posterior of class 1
        error = np.where(y[neighbour] == 1, 1 - eta, eta)
        runs.append(np.mean(error - 2 * eta * (1 - eta)))
    predicted = finite_sample_error(models, X, N, metric) - asymptotic_error(models, X)
    noise = np.std(runs, ddof=1) / np.sqrt(len(runs))
    # 5 % for what is beyond first order.
    assert abs(np.mean(runs) - predicted) < 3 * noise + 0.05 * predicted
    assert predicted > 6 * noise  # so that the agreement says something


def test_finite_sample_error_depends_on_metric_and_n_train_only(wide_and_narrow):
    models, X = wide_and_narrow
    X = X[:2000]
    limit = asymptotic_error(models, X)
    metric = np.diag([4.0, 1, 0.5])
    error = finite_sample_error(models, X, 100, metric)
    np.testing.assert_allclose(finite_sample_error(models, X, 100, 7 * metric), error, rtol=1e-12)
    # c_N falls as N^(-2/D).
    ratio = (finite_sample_error(models, X, 800, metric) - limit) / (error - limit)
    np.testing.assert_allclose(ratio, 8 ** (-2 / 3), rtol=1e-9)
    # The error in z = Lx without a metric is the error in x with it.
    L = np.sqrt(metric)
    in_z = ClassGaussians.from_moments(models.means @ L, L @ models.covariances @ L)
    np.testing.assert_allclose(finite_sample_error(in_z, X @ L, 100), error, rtol=1e-10)


def test_importance_weights(rng):
    models = random_models(rng, 2, 3)
    wide = ClassGaussians.from_moments(models.means, 1.5**2 * models.covariances)
    plain, _ = draw(models, 200_000, rng)
    other, _ = draw(wide, 200_000, rng)
    log_p, log_q = (np.logaddexp(*m.log_density(other).T) for m in (models, wide))
    importance = np.exp(log_p - log_q)
    weighted = asymptotic_error(models, other, sample_weight=importance)
    assert weighted == pytest.approx(asymptotic_error(models, plain), abs=0.002)
    errors = [
        finite_sample_error(models, plain, 500),
        finite_sample_error(models, other, 500, sample_weight=importance),
    ]
    assert errors[1] == pytest.approx(errors[0], abs=0.1 * (errors[0] - weighted) + 0.002)
