"""Gaussian class models: densities against SciPy, derivatives against differences, extremes."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.covariance import OAS, GraphicalLasso, LedoitWolf, ledoit_wolf

from genmetric import GaussianModel
from genmetric.density import ClassGaussians, ClassStatistics, fit_gaussians
from genmetric.density._diagnostics import curvature_error, gradient_error
from genmetric.density._gaussian import GaussianDensity


@pytest.fixture
def X(rng):
    return rng.normal(size=(60, 4)) @ rng.normal(size=(4, 4)) + [1, 2, 3, 4]


@pytest.fixture
def gaussians(rng):
    A = rng.normal(size=(3, 4, 4))
    return ClassGaussians.from_moments(rng.normal(size=(3, 4)), A @ A.transpose(0, 2, 1))


def test_log_density_is_that_of_scipy(gaussians, X):
    found = gaussians.log_density(X)
    for c, (mean, S) in enumerate(zip(gaussians.means, gaussians.covariances, strict=True)):
        np.testing.assert_allclose(found[:, c], multivariate_normal(mean, S).logpdf(X), rtol=1e-9)


def test_precisions_and_scaled_residuals(gaussians, X):
    eye = np.broadcast_to(np.eye(4), (3, 4, 4))
    np.testing.assert_allclose(gaussians.precisions @ gaussians.covariances, eye, atol=1e-9)
    whitened = gaussians.whiteners.transpose(0, 2, 1) @ gaussians.covariances @ gaussians.whiteners
    np.testing.assert_allclose(whitened, eye, atol=1e-9)
    for x, v in zip(X, gaussians.scaled_residuals(X), strict=True):
        for c in range(3):
            expected = np.linalg.solve(gaussians.covariances[c], x - gaussians.means[c])
            np.testing.assert_allclose(v[c], expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(gaussians.gradient(X), -gaussians.scaled_residuals(X))


def test_weighted_curvature_is_a_sum_over_classes(gaussians, naive, rng, X):
    w = rng.normal(size=(len(X), 3))
    found = gaussians.weighted_curvature(X, w)
    for x, w_i, G in zip(X, w, found, strict=True):
        moments = zip(w_i, gaussians.means, gaussians.covariances, strict=True)
        expected = sum(
            w_c * naive.hessian(x, mean, S) / naive.density(x, mean, S) for w_c, mean, S in moments
        )
        np.testing.assert_allclose(G, expected, rtol=1e-7, atol=1e-8 * np.abs(expected).max())


def test_precision_size(gaussians):
    w = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 2.0]])
    largest = np.abs(gaussians.precisions).max(axis=(1, 2))
    expected = [largest[0] + largest[1], 2 * largest[2]]
    np.testing.assert_allclose(gaussians.precision_size(w), expected)


def test_floor(rng):
    A = rng.normal(size=(4, 2))
    singular = (A @ A.T)[None]
    found = ClassGaussians.from_moments(np.zeros((1, 4)), singular, floor=1e-3)
    before, after = (np.linalg.eigvalsh(S[0]) for S in (singular, found.covariances))
    np.testing.assert_allclose(after, np.maximum(before, 1e-3), rtol=1e-8)
    with pytest.raises(ValueError, match=r"not positive definite. Use shrinkage"):
        ClassGaussians.from_moments(np.zeros((1, 2)), np.zeros((1, 2, 2)))
    with pytest.raises(ValueError, match="mean or covariance is not finite"):
        ClassGaussians.from_moments(np.zeros((1, 2)), np.full((1, 2, 2), np.nan))


def test_fit_gaussians_raises_small_eigenvalues_to_the_stated_level(rng):
    X, codes = rng.normal(size=(50, 3)), rng.integers(0, 2, 50)
    X = np.column_stack([X, X.sum(axis=1)])
    stats = ClassStatistics.from_rows(X, codes, 2)
    level = 1e-8 * np.trace(stats.pooled_covariance) / 4
    found = fit_gaussians(stats, shrinkage=None)
    for S in found.covariances:
        np.testing.assert_allclose(np.linalg.eigvalsh(S)[0], level, rtol=1e-4)


@pytest.mark.parametrize("shrinkage", [None, "auto", 0.3])
def test_derivatives_against_differences(X, shrinkage):
    model = GaussianModel(shrinkage=shrinkage).fit(X)
    at = X[:20] + 0.1
    assert gradient_error(model, at) < 1e-7
    assert curvature_error(model, at) < 1e-7


def test_diagnostics_find_an_error(X):
    model = GaussianModel().fit(X)

    class Wrong:
        log_density = model.log_density

        def gradient(self, X):
            return 1.01 * model.gradient(X)

        def curvature(self, X):
            return 1.01 * model.curvature(X)

    assert gradient_error(Wrong(), X) > 1e-3
    assert curvature_error(Wrong(), X) > 1e-3


def test_moments_by_kind_of_shrinkage(X):
    S = np.cov(X.T, bias=True)
    plain = GaussianModel(shrinkage=None).fit(X)
    np.testing.assert_allclose(plain.mean_, X.mean(axis=0))
    np.testing.assert_allclose(plain.covariance_, S)
    np.testing.assert_allclose(GaussianModel().fit(X).covariance_, ledoit_wolf(X)[0])
    half = GaussianModel(shrinkage=0.5).fit(X).covariance_
    np.testing.assert_allclose(half, S / 2 + np.trace(S) / 8 * np.eye(4))
    scipy_log_density = multivariate_normal(X.mean(axis=0), S).logpdf(X)
    np.testing.assert_allclose(plain.log_density(X), scipy_log_density, rtol=1e-10)


@pytest.mark.parametrize("estimator", [OAS(), LedoitWolf(), GraphicalLasso(alpha=0.05)])
def test_covariance_estimator_gets_scaled_samples(X, estimator):
    from genmetric.density import Scaling

    frame = Scaling.of(X)
    model = GaussianModel(covariance_estimator=estimator).fit(X)
    expected = frame.scale**2 * estimator.fit(frame.apply(X)).covariance_
    np.testing.assert_allclose(model.covariance_, expected, rtol=1e-6, atol=1e-8)


def test_weights_are_frequencies(X, rng):
    times = rng.integers(0, 3, len(X))
    weighted = GaussianModel().fit(X, sample_weight=times)
    repeated = GaussianModel().fit(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(weighted.mean_, repeated.mean_)
    np.testing.assert_allclose(weighted.covariance_, repeated.covariance_)
    with pytest.raises(ValueError, match="sample_weight has negative entries"):
        GaussianModel().fit(X, sample_weight=-np.ones(len(X)))


def test_distant_samples_are_finite(X):
    model = GaussianModel(shrinkage=None).fit(X)
    far = model.mean_ + 1e4 * np.sqrt(np.linalg.eigvalsh(model.covariance_)[-1]) * np.eye(4)
    for values in (model.log_density(far), model.gradient(far), model.curvature(far)):
        assert np.isfinite(values).all()
    np.testing.assert_allclose(
        model.log_density(far),
        multivariate_normal(model.mean_, model.covariance_).logpdf(far),
        rtol=1e-10,
    )


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_result_follows_the_scale_of_X(X, scale):
    X = (X - X.mean(axis=0)) / X.std()
    one, other = GaussianModel().fit(X), GaussianModel().fit(scale * X)
    log_scale = np.log(scale)
    np.testing.assert_allclose(
        other.log_density(scale * X), one.log_density(X) - 4 * log_scale, rtol=1e-10
    )
    np.testing.assert_allclose(
        scale * other.gradient(scale * X), one.gradient(X), rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(
        scale**2 * other.curvature(scale * X), one.curvature(X), rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(other.covariance_ / scale**2, one.covariance_, rtol=1e-10)


def test_single_sample_and_samples_without_scatter():
    for X in (np.ones((1, 3)), np.ones((6, 3))):
        with pytest.warns(UserWarning, match="single sample or no scatter"):
            model = GaussianModel().fit(X)
        np.testing.assert_array_equal(model.covariance_, np.eye(3))
        assert np.isfinite(model.log_density(X)).all()


def test_of_class_is_one_of_the_gaussians(gaussians, X):
    density = GaussianDensity.of_class(gaussians, 1)
    np.testing.assert_allclose(density.log_density(X), gaussians.log_density(X)[:, 1])
    np.testing.assert_allclose(density.gradient(X), gaussians.gradient(X)[:, 1])
    w = np.tile([0.0, 1.0, 0.0], (len(X), 1))
    np.testing.assert_allclose(density.curvature(X), gaussians.weighted_curvature(X, w))


@pytest.mark.parametrize("scale", [1e-150, 1e-140, 1e140, 1e150])
def test_gradient_and_curvature_are_finite_or_raise(rng, scale):
    X = rng.normal(size=(40, 3))
    reference, model = GaussianModel().fit(X), GaussianModel().fit(scale * X)
    np.testing.assert_allclose(model.gradient(scale * X) * scale, reference.gradient(X), rtol=1e-9)
    found = model.curvature(scale * X)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found * scale * scale, reference.curvature(X), rtol=1e-8, atol=1e-8)


def test_overflow(rng):
    X = rng.normal(size=(40, 3))
    X[:, 2] = X[:, 0]  # a variance at the floor of 1e-8
    with pytest.raises(ValueError, match=r"curvature of the density overflows float64 at 40 of 40"):
        GaussianModel(shrinkage=None).fit(1e-150 * X).curvature(1e-150 * X + [1e-146, 0, 0])
    with pytest.raises(ValueError, match=r"spread of about \d.\de.154"):
        GaussianModel().fit(1e154 * X)
    model = GaussianModel().fit(X)
    with pytest.raises(ValueError, match=r"curvature of the density overflows float64 at 1 of 2"):
        model.curvature([[0.0, 0, 0], [1e200, 0, 0]])
    with np.errstate(all="raise"):
        assert np.isfinite(model.curvature(X)).all()
