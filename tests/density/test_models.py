"""Models of any kind side by side, and how they are fitted, seeded and refused."""

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.base import BaseEstimator

from genmetric import GaussianMixtureModel, GaussianModel, GenerativeMetric
from genmetric.density import ClassStatistics, SeparateModels, fit_class_models, fit_gaussians
from genmetric.density._diagnostics import curvature_error, gradient_error


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
        u, _ = self._terms(X)
        return (student.logpdf(u, self.nu) - np.log(self.scale_)).sum(axis=1)

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
        self._own = StudentModel().fit(X)

    def log_density(self, X):
        return self._own.log_density(X)

    def gradient(self, X):
        return self._own.gradient(X)

    def curvature(self, X):
        return self._own.curvature(X)


@pytest.fixture
def data(rng):
    X = np.r_[rng.normal(size=(40, 3)), rng.normal(size=(50, 3)) * [1, 2, 3] + 1]
    return X, np.repeat([0, 1], [40, 50])


def gaussians_of(X, codes):
    return fit_gaussians(ClassStatistics.from_rows(X, codes, codes.max() + 1))


def test_custom_model_passes_the_diagnostics(data):
    X, _ = data
    model = StudentModel().fit(X)
    assert gradient_error(model, X) < 1e-7
    assert curvature_error(model, X) < 1e-7


@pytest.mark.parametrize("model", [StudentModel(3.0), PlainModel()])
def test_custom_model_as_class_model(data, model):
    X, y = data
    metric = GenerativeMetric(class_model=model).fit(X, y)
    models = [type(model)() for _ in range(2)]
    if isinstance(model, StudentModel):
        models = [StudentModel(3.0), StudentModel(3.0)]
    for c, own in enumerate(models):
        own.fit(X[y == c])
    # With two classes Phi is the difference of the curvatures, and the metric its sign rule.
    Phi = models[1].curvature(X) - models[0].curvature(X)
    found = metric.curvature(X)
    scale = np.einsum("nij,nij->n", found, Phi) / np.einsum("nij,nij->n", Phi, Phi)
    np.testing.assert_allclose(found, scale[:, None, None] * Phi, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(scale, scale[0])
    np.testing.assert_allclose(metric.metric_, metric.local_metrics(X).mean(axis=0), rtol=1e-10)
    assert np.linalg.eigvalsh(metric.metric_)[0] > 0


def test_separate_gaussian_models_are_the_gaussians(data, rng):
    X, codes = data
    together = gaussians_of(X, codes)
    apart = SeparateModels([GaussianModel().fit(X[codes == c]) for c in range(2)])
    assert apart.n_classes == 2
    np.testing.assert_allclose(apart.log_density(X), together.log_density(X), rtol=1e-9)
    w = rng.normal(size=(len(X), 2))
    w[:5, 0] = 0
    np.testing.assert_allclose(
        apart.weighted_curvature(X, w), together.weighted_curvature(X, w), rtol=1e-7, atol=1e-9
    )
    assert not apart.precision_size(w).any()


def test_class_model_gaussian_is_the_default(data):
    X, y = data
    plain = GenerativeMetric(shrinkage=0.1).fit(X, y)
    named = GenerativeMetric(class_model=GaussianModel(shrinkage=0.1)).fit(X, y)
    np.testing.assert_array_equal(named.metric_, plain.metric_)

    class Derived(GaussianModel):
        pass

    derived = GenerativeMetric(class_model=Derived(shrinkage=0.1)).fit(X, y)
    np.testing.assert_allclose(derived.metric_, plain.metric_, rtol=1e-9)


def test_a_mixture_of_one_is_nearly_a_gaussian(data):
    X, y = data
    one = GenerativeMetric(class_model=GaussianMixtureModel(1, pooling=0, reg_covar=1e-12)).fit(
        X, y
    )
    plain = GenerativeMetric(shrinkage=None).fit(X, y)
    np.testing.assert_allclose(one.metric_, plain.metric_, rtol=1e-6, atol=1e-6)


def test_sample_weights_are_frequencies(data, rng):
    X, codes = data
    times = rng.integers(1, 3, len(X))
    stats = ClassStatistics.from_rows(X, codes, 2, times.astype(float))
    weighted = fit_class_models(
        StudentModel(), X, codes, fit_gaussians(stats), sample_weight=times.astype(float)
    )
    repeated = StudentModel().fit(np.repeat(X[codes == 1], times[codes == 1], axis=0))
    np.testing.assert_allclose(weighted.models[1].mean_, repeated.mean_)


def test_class_with_one_distinct_sample_is_a_gaussian(data):
    X, codes = data
    X, codes = np.r_[X, np.tile(X[0], (3, 1))], np.r_[codes, [2, 2, 2]]
    with pytest.warns(UserWarning, match=r"Classes \[2\]"):
        gaussians = gaussians_of(X, codes)
    models = fit_class_models(StudentModel(), X, codes, gaussians)
    np.testing.assert_allclose(models.log_density(X)[:, 2], gaussians.log_density(X)[:, 2])
    assert isinstance(models.models[0], StudentModel)


def test_seeds(data):
    X, codes = data
    gaussians = gaussians_of(X, codes)
    runs = [
        fit_class_models(
            GaussianMixtureModel(3), X, codes, gaussians, rng=np.random.RandomState(seed)
        )
        for seed in (5, 5)
    ]
    np.testing.assert_array_equal(*(run.models[0].means_ for run in runs))
    kept = fit_class_models(
        GaussianMixtureModel(3, random_state=1), X, codes, gaussians, rng=np.random.RandomState(5)
    )
    assert kept.models[0].random_state == 1


def test_missing_method_is_named(data):
    X, y = data

    class NoCurvature:
        def fit(self, X): ...
        def log_density(self, X): ...
        def gradient(self, X): ...

    with pytest.raises(TypeError, match=r"class_model=.*no method curvature"):
        GenerativeMetric(class_model=NoCurvature()).fit(X, y)
    with pytest.raises(TypeError, match=r"class_model='kde' has no method fit, log_density"):
        GenerativeMetric(class_model="kde").fit(X, y)


def test_error_inside_a_model_names_the_class(data):
    X, y = data

    class Fussy(StudentModel):
        def fit(self, X):
            if len(X) == 50:
                raise RuntimeError("no")
            return super().fit(X)

    with pytest.raises(RuntimeError, match="no") as caught:
        GenerativeMetric(class_model=Fussy()).fit(X, np.array(["a", "b"])[y])
    assert "on class np.str_('b')" in caught.value.__notes__[0]
