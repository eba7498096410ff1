"""Gaussian class models: shrinkage, stand-ins, floor, derivatives, extremes, custom models."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.covariance import OAS, GraphicalLasso, LedoitWolf, ledoit_wolf
from sklearn.decomposition import PCA

from genmetric import GaussianMixtureModel, GaussianModel, GenerativeMetric
from genmetric.density import (
    ClassGaussians,
    Coordinates,
    SeparateModels,
    class_statistics,
    fit_gaussians,
)
from genmetric.density.models import fit_models


@pytest.fixture
def X(rng):
    return rng.normal(size=(60, 4)) @ rng.normal(size=(4, 4)) + [1, 2, 3, 4]


@pytest.fixture
def gaussians(rng):
    A = rng.normal(size=(3, 4, 4))
    return ClassGaussians.from_moments(rng.normal(size=(3, 4)), A @ A.transpose(0, 2, 1))


def covariances_of(X, codes, **options):
    return fit_gaussians(class_statistics(X, codes, codes.max() + 1), **options).covariances


# Densities


def test_log_density_gradient_and_curvature(gaussians, X, naive, rng):
    log_density, gradient = gaussians.log_density(X), gaussians.gradient(X)
    for c, (mean, S) in enumerate(zip(gaussians.means, gaussians.covariances, strict=True)):
        expected = multivariate_normal(mean, S).logpdf(X)
        np.testing.assert_allclose(log_density[:, c], expected, rtol=1e-9)
        expected = -np.linalg.solve(S, (X - mean).T).T
        np.testing.assert_allclose(gradient[:, c], expected, rtol=1e-7, atol=1e-8)
    w = rng.normal(size=(len(X), 3))
    w[:9, 0] = w[:5] = 0.0
    for x, w_i, G in zip(X, w, gaussians.weighted_curvature(X, w), strict=True):
        moments = zip(w_i, gaussians.means, gaussians.covariances, strict=True)
        expected = sum(
            w_c * naive.hessian(x, mean, S) / naive.density(x, mean, S) for w_c, mean, S in moments
        )
        np.testing.assert_allclose(G, expected, rtol=1e-7, atol=1e-8 * np.abs(expected).max())
    # Weights may be tiny together: only their ratios matter.
    np.testing.assert_allclose(
        gaussians.weighted_curvature(X, 1e-200 * w),
        1e-200 * gaussians.weighted_curvature(X, w),
        rtol=1e-9,
        atol=0,
    )


def test_many_classes_equal_few_at_a_time(rng):
    means, A = rng.normal(size=(300, 3)), rng.normal(size=(300, 3, 3))
    many = ClassGaussians.from_moments(means, A @ A.transpose(0, 2, 1) + np.eye(3))
    X, w = rng.normal(size=(40, 3)), rng.normal(size=(40, 300))
    parts = [
        ClassGaussians.from_moments(many.means[s], many.covariances[s])
        for s in np.array_split(np.arange(300), 7)
    ]
    found = many.log_density(X)
    np.testing.assert_allclose(np.hstack([p.log_density(X) for p in parts]), found, rtol=1e-9)
    total = sum(
        p.weighted_curvature(X, w[:, s])
        for p, s in zip(parts, np.array_split(np.arange(300), 7), strict=True)
    )
    np.testing.assert_allclose(
        many.weighted_curvature(X, w), total, rtol=1e-8, atol=1e-9 * np.abs(total).max()
    )


@pytest.mark.parametrize("shrinkage", [None, "auto", 0.3])
def test_derivatives_against_differences(X, naive, shrinkage):
    model = GaussianModel(shrinkage=shrinkage).fit(X)
    assert naive.gradient_error(model, X[:20] + 0.1) < 1e-7
    assert naive.curvature_error(model, X[:20] + 0.1) < 1e-7


def test_distant_samples_are_finite(X):
    model = GaussianModel(shrinkage=None).fit(X)
    far = model.mean_ + 1e4 * np.sqrt(np.linalg.eigvalsh(model.covariance_)[-1]) * np.eye(4)
    for values in (model.log_density(far), model.gradient(far), model.curvature(far)):
        assert np.isfinite(values).all()
    expected = multivariate_normal(model.mean_, model.covariance_).logpdf(far)
    np.testing.assert_allclose(model.log_density(far), expected, rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-138, 1e-30, 1e30, 1e99])
def test_result_follows_the_scale_of_X(X, scale):
    X = (X - X.mean(axis=0)) / X.std()
    one, other = GaussianModel().fit(X), GaussianModel().fit(scale * X)
    expected = one.log_density(X) - 4 * np.log(scale)
    np.testing.assert_allclose(other.log_density(scale * X), expected, rtol=1e-10)
    np.testing.assert_allclose(
        scale * other.gradient(scale * X), one.gradient(X), rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(
        scale**2 * other.curvature(scale * X), one.curvature(X), rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(other.covariance_ / scale**2, one.covariance_, rtol=1e-10)


def test_overflow(rng):
    X = rng.normal(size=(40, 3))
    model = GaussianModel().fit(X)
    for name in ("gradient", "curvature"):
        with pytest.raises(ValueError, match=f"The {name}s of the density of some samples"):
            getattr(GaussianModel().fit(1e-138 * X), name)([[0.0, 0, 0], [1e80, 0, 0]])
    with pytest.raises(ValueError, match="X has values up to"):
        GaussianModel().fit(1e101 * X)
    with np.errstate(all="raise"):
        assert np.isfinite(model.curvature(X)).all()


# Covariances


@given(st.integers(2, 60), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_auto_is_the_ledoit_wolf_of_scikit_learn(n, D, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(5, size=(n, D)) @ rng.normal(size=(D, D)) + 30 * rng.normal(size=D)
    expected = ledoit_wolf(X)[0]
    # Two samples are not shrunk, and the floor of the eigenvalues takes the place of zeros.
    found = GaussianModel().fit(X).covariance_
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=2e-8 * np.trace(expected))


def test_moments_by_kind_of_shrinkage(X):
    S = np.cov(X.T, bias=True)
    plain = GaussianModel(shrinkage=None).fit(X)
    np.testing.assert_allclose(plain.mean_, X.mean(axis=0))
    np.testing.assert_allclose(plain.covariance_, S)
    half = GaussianModel(shrinkage=0.5).fit(X).covariance_
    np.testing.assert_allclose(half, S / 2 + np.trace(S) / 8 * np.eye(4))


def test_weights_are_frequencies(X, rng):
    times = rng.integers(0, 3, len(X))
    weighted = GaussianModel().fit(X, sample_weight=times)
    repeated = GaussianModel().fit(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(weighted.mean_, repeated.mean_)
    np.testing.assert_allclose(weighted.covariance_, repeated.covariance_)
    # Weights that sum to one do not make a class degenerate.
    codes = rng.integers(0, 2, len(X))
    stats = class_statistics(X, codes, 2, sample_weight=np.full(len(X), 1 / len(X)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_gaussians(stats, shrinkage=None)
    with pytest.raises(ValueError, match="sample_weight has negative entries"):
        GaussianModel().fit(X, sample_weight=-np.ones(len(X)))


@pytest.mark.parametrize("bad", [-0.1, 1.5, np.nan, "none", True, [0.1]])
def test_bad_shrinkage(X, bad):
    with pytest.raises(ValueError, match=r"shrinkage must be None, 'auto' or a number in \[0, 1\]"):
        GaussianModel(shrinkage=bad).fit(X)


@pytest.mark.parametrize("estimator", [OAS(), LedoitWolf(), GraphicalLasso(alpha=0.05)])
def test_covariance_estimator_gets_scaled_samples(X, estimator):
    coordinates = Coordinates.of(X)
    model = GaussianModel(covariance_estimator=estimator).fit(X)
    expected = coordinates.scale**2 * estimator.fit(coordinates.apply(X)).covariance_
    np.testing.assert_allclose(model.covariance_, expected, rtol=1e-6, atol=1e-8)
    times = np.array([1, 2] * 30)
    weighted = GaussianModel(covariance_estimator=estimator).fit(X, sample_weight=times)
    repeated = GaussianModel(covariance_estimator=estimator).fit(np.repeat(X, times, axis=0))
    if not isinstance(estimator, GraphicalLasso):  # whose penalty depends on the scale
        np.testing.assert_allclose(weighted.covariance_, repeated.covariance_, rtol=1e-6)
    with pytest.raises(ValueError, match=r"fit does not accept sample_weight.*integers"):
        GaussianModel(covariance_estimator=estimator).fit(X, sample_weight=times + 0.5)


class Fixed(BaseEstimator):
    """A covariance estimator that does not look at the samples."""

    def __init__(self, covariance=None):
        self.covariance = covariance

    def fit(self, X):
        self.covariance_ = self.covariance


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"covariance_estimator": PCA()}, r"PCA\(\) must set covariance_ .* got shape \(\)"),
        ({"covariance_estimator": Fixed(np.eye(2))}, r"shape \(4, 4\) in fit.* got shape \(2, 2\)"),
        ({"covariance_estimator": Fixed(np.diag([1, np.nan, 1, 1]))}, "finite matrix"),
        ({"covariance_estimator": "oas"}, "covariance_estimator must be None or an object with"),
        ({"covariance_estimator": Fixed(-np.eye(4)), "shrinkage": 0.1}, "Leave shrinkage at"),
    ],
)
def test_bad_covariance_estimator(X, params, message):
    with pytest.raises(ValueError, match=message):
        GaussianModel(**params).fit(X)


def test_covariance_estimator_of_a_metric(rng):
    X, y = rng.normal(size=(41, 3)) * [1, 2, 3], np.r_[np.arange(40) % 2, 2]
    model = GaussianModel(covariance_estimator=OAS())
    with pytest.warns(UserWarning, match=r"Classes \[2\] have a single sample"):
        metric = GenerativeMetric(class_model=model).fit(X, y)
    for c in (0, 1):
        expected = OAS().fit(X[y == c]).covariance_
        np.testing.assert_allclose(metric.covariances_[c], expected, rtol=1e-7, atol=1e-9)


def test_floor_of_the_eigenvalues(rng):
    A = rng.normal(size=(4, 2))
    singular = (A @ A.T)[None]
    found = ClassGaussians.from_moments(np.zeros((1, 4)), singular, floor=1e-3)
    before, after = (np.linalg.eigvalsh(S[0]) for S in (singular, found.covariances))
    np.testing.assert_allclose(after, np.maximum(before, 1e-3), rtol=1e-8)
    with pytest.raises(ValueError, match=r"not positive definite. Use shrinkage"):
        ClassGaussians.from_moments(np.zeros((1, 2)), np.zeros((1, 2, 2)))
    with pytest.raises(ValueError, match=r"not positive definite|not converge"):
        ClassGaussians.from_moments(np.zeros((1, 2)), np.full((1, 2, 2), np.nan))
    X, codes = rng.normal(size=(50, 3)), rng.integers(0, 2, 50)
    X = np.column_stack([X, X.sum(axis=1)])
    level = 1e-8 * np.trace(class_statistics(X, codes, 2).pooled_covariance) / 4
    for S in covariances_of(X, codes, shrinkage=None):
        np.testing.assert_allclose(np.linalg.eigvalsh(S)[0], level, rtol=1e-4)


def test_degenerate_classes_are_named_and_replaced(rng):
    X = np.r_[rng.normal(size=(20, 3)), rng.normal(size=(1, 3)), np.full((5, 3), 0.1)]
    codes = np.repeat([0, 1, 2], [20, 1, 5])
    stats, names = class_statistics(X, codes, 3), np.array(["a", "b", "c"])
    W = stats.pooled_covariance
    shrunk = W / 2 + np.trace(W) / 6 * np.eye(3)
    for options, expected in (
        ({"shrinkage": None}, W),
        ({"shrinkage": 0.5}, shrunk),
        ({"shrinkage": 0.5, "whitened": True}, np.eye(3)),
    ):
        with pytest.warns(UserWarning, match=r"Classes \['b', 'c'\] have a single sample or no"):
            found = fit_gaussians(stats, classes=names, **options).covariances
        np.testing.assert_allclose(found[1:], [expected, expected], rtol=1e-9, atol=1e-12)
    # No scatter within classes: the total variance. No scatter at all: one.
    with pytest.warns(UserWarning, match="single sample"):
        two = covariances_of(X[:2], np.array([0, 1]))
    np.testing.assert_allclose(two[0], np.trace(np.cov(X[:2].T, bias=True)) / 3 * np.eye(3))
    for equal in (np.ones((1, 3)), np.ones((6, 3))):
        with pytest.warns(UserWarning, match="single sample or no variance"):
            model = GaussianModel().fit(equal)
        np.testing.assert_array_equal(model.covariance_, np.eye(3))
        assert np.isfinite(model.log_density(equal)).all()


@pytest.mark.parametrize("kind", ["few samples", "constant", "collinear", "indicator", "shrunk"])
def test_one_warning_if_the_floor_replaces_much(rng, kind):
    X, codes, shrinkage = rng.normal(size=(60, 12)), np.repeat([0, 1, 2], 20), None
    if kind == "few samples":
        message = (
            r"The covariances of 2 of 3 classes are nearly singular: up to 7 of 12 eigenvalues "
            r'were raised to 1e-08 .* Use more shrinkage, .* base="pooled" or fewer features'
        )
        with pytest.warns(UserWarning, match=message) as found:
            covariances_of(X, np.repeat([0, 1, 2], [6, 6, 48]), shrinkage=None)
        assert len(found) == 1
        return
    if kind == "constant":
        X[:, :5] = 1.0
    elif kind == "collinear":
        X[:, :5] = X[:, 5:10]
    elif kind == "indicator":
        X[:, :2] = rng.integers(0, 2, (60, 2))
        X[codes == 1, :2] = 0
    else:
        X, codes, shrinkage = X[:12], np.repeat([0, 1, 2], 4), "auto"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        covariances_of(X, codes, shrinkage=shrinkage)


class TestSmallClasses:
    """Classes with 2 to 9 samples share one shrinkage in whitened coordinates."""

    def fit(self, rng, n_classes, n_per_class, deviations):
        codes = np.repeat(np.arange(n_classes), n_per_class)
        X = rng.normal(size=(n_classes, len(deviations)))[codes]
        X = X + rng.normal(size=X.shape) * deviations
        stats = class_statistics(X, codes, n_classes)
        return stats, fit_gaussians(stats, whitened=True).covariances

    @pytest.mark.parametrize("n_per_class", [2, 3, 5, 9])
    def test_the_best_shrinkage(self, rng, n_per_class):
        """It has the least squared distance to the covariance of all classes."""
        stats, found = self.fit(rng, 400, n_per_class, np.geomspace(4, 0.5, 6))
        W, factor = stats.pooled_covariance, n_per_class / (n_per_class - 1)
        factor *= (stats.count.sum() - 400) / stats.count.sum()
        target = np.trace(W) / 6 * np.eye(6)
        A = factor * stats.covariances
        best = np.sum((W - A) * (target - A)) / np.sum((target - A) ** 2)
        off = ~np.eye(6, dtype=bool)
        plain = stats.covariances[:, off]
        own = np.sum(found[:, off] * plain) / np.sum(plain**2)
        assert own == pytest.approx((1 - best) * factor, abs=0.02)
        # Part of the scale of each class is kept; the mean over the classes is that of the target.
        isotropic = np.trace(found - own * stats.covariances, axis1=1, axis2=2) / 6
        assert isotropic.mean() == pytest.approx(best * target[0, 0], rel=0.05)
        assert isotropic.std() > 0

    def test_spherical_classes_shrink_fully(self, rng):
        stats, found = self.fit(rng, 300, 2, np.ones(20))
        expected = 0.7 * stats.moments[1].mean() / 20 + 0.3 * stats.moments[1] / 20
        np.testing.assert_allclose(np.trace(found, axis1=1, axis2=2) / 20, expected, rtol=0.03)
        assert np.abs(found[:, ~np.eye(20, dtype=bool)]).max() < 0.1

    def test_large_classes_and_too_few_samples_do_not_share(self, rng):
        X, codes = rng.normal(size=(75, 4)), np.repeat(np.arange(6), [3, 2, 9, 10, 20, 31])
        found = covariances_of(X, codes, whitened=True)
        expected = [ledoit_wolf(X[codes == c])[0] for c in range(6)]
        np.testing.assert_allclose(found[3:], expected[3:], rtol=1e-8, atol=1e-10)
        assert (np.abs(found[:3] - expected[:3]).max(axis=(1, 2)) > 1e-3).all()
        for n_classes, shares in ((19, False), (20, True)):
            stats, found = self.fit(rng, n_classes, 3, np.ones(20))
            own = fit_gaussians(stats).covariances
            assert np.allclose(found, own) != shares


# Models of any kind


class StudentModel(BaseEstimator):
    """Independent Student-t features: a density with heavy tails, in a user's own code."""

    def __init__(self, nu=4.0):
        self.nu = nu

    def fit(self, X, y=None):
        self.mean_, self.scale_ = X.mean(axis=0), X.std(axis=0)
        return self

    def _terms(self, X):
        u = (X - self.mean_) / self.scale_
        return u, self.nu + u**2

    def log_density(self, X):
        return (student.logpdf(self._terms(X)[0], self.nu) - np.log(self.scale_)).sum(axis=1)

    def gradient(self, X):
        u, b = self._terms(X)
        return -(self.nu + 1) * u / b / self.scale_

    def curvature(self, X):
        u, b = self._terms(X)
        g = self.gradient(X)
        slope = -(self.nu + 1) * (self.nu - u**2) / b**2 / self.scale_**2
        return g[:, :, None] * g[:, None, :] + slope[:, :, None] * np.eye(X.shape[1])


class PlainModel:
    """The same density without scikit-learn: no get_params, and a fit that returns nothing."""

    def fit(self, X):
        own = StudentModel().fit(X)
        self.log_density, self.gradient, self.curvature = (
            own.log_density,
            own.gradient,
            own.curvature,
        )

    def log_density(self, X): ...
    def gradient(self, X): ...
    def curvature(self, X): ...


@pytest.fixture
def data(rng):
    X = np.r_[rng.normal(size=(40, 3)), rng.normal(size=(50, 3)) * [1, 2, 3] + 1]
    return X, np.repeat([0, 1], [40, 50])


@pytest.mark.parametrize("model", [StudentModel(), PlainModel()])
def test_custom_class_model(data, naive, model):
    X, y = data
    one, two = (StudentModel().fit(X[y == c]) for c in range(2))
    assert naive.gradient_error(one, X) < 1e-7
    assert naive.curvature_error(one, X) < 1e-7
    metric = GenerativeMetric(class_model=model).fit(X, y)
    # With two classes Phi is the difference of the curvatures, up to scale and sign.
    Phi, found = two.curvature(X) - one.curvature(X), metric.curvature(X)
    scale = np.einsum("nij,nij->n", found, Phi) / np.einsum("nij,nij->n", Phi, Phi)
    np.testing.assert_allclose(found, scale[:, None, None] * Phi, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(metric.metric_, metric.local_metrics(X).mean(axis=0), rtol=1e-10)


def test_separate_gaussian_models_are_the_gaussians(data, rng):
    X, codes = data
    together = fit_gaussians(class_statistics(X, codes, 2))
    apart = SeparateModels([GaussianModel().fit(X[codes == c]) for c in range(2)])
    np.testing.assert_allclose(apart.log_density(X), together.log_density(X), rtol=1e-9)
    w = rng.normal(size=(len(X), 2))
    w[:5, 0] = 0
    np.testing.assert_allclose(
        apart.weighted_curvature(X, w), together.weighted_curvature(X, w), rtol=1e-7, atol=1e-9
    )


def test_class_model_gaussian_is_the_default(data):
    X, y = data

    class Derived(GaussianModel):
        pass

    plain = GenerativeMetric(shrinkage=0.1).fit(X, y).metric_
    for model in (GaussianModel(shrinkage=0.1), Derived(shrinkage=0.1)):
        found = GenerativeMetric(class_model=model).fit(X, y).metric_
        np.testing.assert_allclose(found, plain, rtol=1e-9)
    mixture = GaussianMixtureModel(1, pooling=0, reg_covar=1e-12)
    one = GenerativeMetric(class_model=mixture).fit(X, y).metric_
    plain = GenerativeMetric(shrinkage=None).fit(X, y).metric_
    np.testing.assert_allclose(one, plain, rtol=1e-6, atol=1e-6)


def test_weights_seeds_and_single_samples(data, rng):
    X, codes = data

    def fitted(model, X, codes, weight=None):
        rng = np.random.RandomState(5)
        options = {"class_model": model, "shrinkage": "auto", "rng": rng}
        return fit_models(X, codes, np.unique(codes), weight, **options)

    times = rng.integers(1, 3, len(X)).astype(float)
    coordinates, *_, weighted = fitted(StudentModel(), X, codes, times)
    repeated = StudentModel().fit(np.repeat(X[codes == 1], times[codes == 1].astype(int), axis=0))
    np.testing.assert_allclose(coordinates.restore(weighted.models[1].mean_), repeated.mean_)
    one, two = (fitted(GaussianMixtureModel(3), X, codes)[-1] for _ in range(2))
    np.testing.assert_array_equal(one.models[0].means_, two.models[0].means_)
    kept = fitted(GaussianMixtureModel(3, random_state=1), X, codes)[-1]
    assert kept.models[0].random_state == 1
    # A class with one distinct sample has no density of the custom kind.
    X, codes = np.r_[X, np.tile(X[0], (3, 1))], np.r_[codes, [2, 2, 2]]
    with pytest.warns(UserWarning, match=r"Classes \[2\]"):
        coordinates, _, gaussians, models = fitted(StudentModel(), X, codes)
    z = coordinates.apply(X)
    np.testing.assert_allclose(models.log_density(z)[:, 2], gaussians.log_density(z)[:, 2])


def test_errors_of_class_models(data):
    X, y = data

    class NoCurvature:
        def fit(self, X): ...
        def log_density(self, X): ...
        def gradient(self, X): ...

    class Fussy(StudentModel):
        def fit(self, X):
            if len(X) == 50:
                raise RuntimeError("no")
            return super().fit(X)

    with pytest.raises(TypeError, match=r"class_model=.*no method curvature"):
        GenerativeMetric(class_model=NoCurvature()).fit(X, y)
    with pytest.raises(RuntimeError, match="no") as caught:
        GenerativeMetric(class_model=Fussy()).fit(X, np.array(["a", "b"])[y])
    assert "on class np.str_('b')" in caught.value.__notes__[0]
