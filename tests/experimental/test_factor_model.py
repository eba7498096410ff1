"""Low-rank Gaussians: against full covariances, SciPy, scikit-learn and finite differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from genmetric import GaussianModel, GenerativeMetric
from genmetric.density._diagnostics import curvature_error, gradient_error
from genmetric.experimental import FactorModel
from genmetric.experimental._factor_model import LowRankGaussian, factor_analysis, principal_factors


def few_factors(rng, n_rows, n_features, n_factors, noise=0.5):
    """Rows of few factors and unequal noise."""
    loadings = rng.normal(size=(n_factors, n_features))
    sizes = noise * rng.uniform(0.5, 1.5, n_features)
    return rng.normal(size=(n_rows, n_factors)) @ loadings + sizes * rng.normal(
        size=(n_rows, n_features)
    )


@pytest.fixture
def X(rng):
    return few_factors(rng, 20, 30, 2) + 5


class TestLowRankGaussian:
    """Woodbury against the covariance itself."""

    @given(st.integers(0, 2**32 - 1), st.integers(0, 4))
    def test_against_scipy(self, seed, n_factors):
        rng = np.random.default_rng(seed)
        mean, W = rng.normal(size=5), rng.normal(size=(5, n_factors))
        model = LowRankGaussian.of(mean, W, rng.uniform(0.1, 2, 5))
        X = rng.normal(size=(20, 5))
        exact = multivariate_normal(mean, model.covariance)
        np.testing.assert_allclose(model.log_density(X), exact.logpdf(X), rtol=1e-8, atol=1e-8)
        P = np.linalg.inv(model.covariance)
        np.testing.assert_allclose(model.precision, P, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(model.gradient(X), -(X - mean) @ P, rtol=1e-6, atol=1e-7)

    def test_loadings_of_any_size(self, rng):
        """Noise 1e-8 of the loadings squared: the inverse of the sum would have lost it."""
        axis = np.linalg.qr(rng.normal(size=(6, 6)))[0][:, :1]
        model = LowRankGaussian.of(np.zeros(6), 1e8 * axis, np.ones(6))
        across = rng.normal(size=6)
        across -= axis[:, 0] * (axis[:, 0] @ across)
        there = 3e8 * axis[:, 0] + across
        expected = -0.5 * (6 * np.log(2 * np.pi) + 16 * np.log(10) + 9 + across @ across)
        assert model.log_density(there[None])[0] == pytest.approx(expected, rel=1e-6)


class TestFits:
    """Loadings and noise."""

    def test_principal_factors_are_those_of_scikit_learn(self, rng):
        X = few_factors(rng, 400, 6, 2)
        loadings, noise = principal_factors(np.cov(X.T, bias=True), 2)
        # scikit-learn divides by n - 1.
        expected = PCA(2).fit(X).get_covariance() * 399 / 400
        np.testing.assert_allclose(loadings @ loadings.T + np.diag(noise), expected, rtol=1e-8)

    def test_factor_analysis_is_as_likely_as_that_of_scikit_learn(self, rng):
        X = few_factors(rng, 300, 6, 2)
        S = np.cov(X.T, bias=True)
        found = factor_analysis(S, *principal_factors(S, 2), floor=1e-6, max_iter=5000, tol=1e-9)
        peer = FactorAnalysis(2, max_iter=5000, tol=1e-9, svd_method="lapack").fit(X)
        ours = LowRankGaussian.of(X.mean(axis=0), *found).log_density(X).mean()
        assert ours == pytest.approx(peer.score(X), abs=1e-4)

    def test_likelihood_increases_with_iterations(self, rng):
        X = few_factors(rng, 100, 8, 3)
        S = np.cov(X.T, bias=True)
        start = principal_factors(S, 3)
        likelihoods = [
            LowRankGaussian.of(X.mean(axis=0), *factor_analysis(S, *start, floor=1e-6, max_iter=n))
            .log_density(X)
            .mean()
            for n in (1, 3, 10, 100)
        ]
        assert (np.diff(likelihoods) > -1e-12).all()

    @pytest.mark.parametrize("noise", ["diagonal", "isotropic"])
    def test_the_number_of_factors_is_found(self, rng, noise):
        for q in (0, 1, 3):
            X = few_factors(rng, 60, 80, q)
            assert FactorModel("cv", noise=noise, noise_floor=0.05).fit(X).n_components_ == q

    def test_attributes(self, X):
        model = FactorModel(2).fit(X)
        assert model.components_.shape == (2, 30)
        expected = model.components_.T @ model.components_ + np.diag(model.noise_variance_)
        np.testing.assert_allclose(model.covariance_, expected)
        np.testing.assert_allclose(model.mean_, X.mean(axis=0))
        floor = 0.3 * np.trace(np.cov(X.T, bias=True)) / 30
        assert model.noise_variance_.min() >= floor * (1 - 1e-12)
        exact = multivariate_normal(model.mean_, model.covariance_).logpdf(X)
        np.testing.assert_allclose(model.log_density(X), exact, rtol=1e-8)


class TestModel:
    """A class model among others."""

    @pytest.mark.parametrize("noise", ["diagonal", "isotropic"])
    def test_derivatives_against_differences(self, X, noise):
        model = FactorModel(2, noise=noise).fit(X)
        assert gradient_error(model, X[:8]) < 1e-7
        assert curvature_error(model, X[:8]) < 1e-6

    def test_weights_are_frequencies(self, X, rng):
        times = rng.integers(0, 3, len(X))
        for n_components in (1, "cv"):
            weighted = FactorModel(n_components).fit(X, sample_weight=times)
            repeated = FactorModel(n_components).fit(np.repeat(X, times, axis=0))
            np.testing.assert_allclose(weighted.covariance_, repeated.covariance_, rtol=1e-8)

    def test_order_of_samples_does_not_matter(self, X, rng):
        one, other = (FactorModel("cv").fit(x) for x in (X, X[rng.permutation(len(X))]))
        np.testing.assert_allclose(one.covariance_, other.covariance_, rtol=1e-7)

    def test_a_rotation_turns_principal_factors(self, X, rng):
        Q = np.linalg.qr(rng.normal(size=(30, 30)))[0]
        one, other = (FactorModel(2, noise="isotropic").fit(x) for x in (X, X @ Q))
        np.testing.assert_allclose(other.covariance_, Q.T @ one.covariance_ @ Q, atol=1e-9)

    @pytest.mark.parametrize("scale", [1e-150, 1e150])
    def test_equivariant_to_scale(self, X, scale):
        X = (X - X.mean(axis=0)) / X.std()
        one, other = FactorModel().fit(X), FactorModel().fit(scale * X)
        log_scale = 30 * np.log(scale)
        np.testing.assert_allclose(
            other.log_density(scale * X), one.log_density(X) - log_scale, rtol=1e-8
        )
        np.testing.assert_allclose(other.noise_variance_ / scale**2, one.noise_variance_, rtol=1e-6)

    def test_tiny_classes(self, rng):
        for n in (1, 2, 3, 6):
            for n_components in (5, "cv"):
                X = rng.normal(size=(n, 4))
                model = FactorModel(n_components).fit(X)
                assert model.n_components_ <= max(0, n - 2)
                assert np.isfinite(model.curvature(X)).all()
        assert np.isfinite(FactorModel().fit(np.ones((5, 3))).log_density(np.eye(3))).all()

    def test_dense_solver_takes_it(self, X, rng):
        y = np.arange(20) % 2
        metric = GenerativeMetric(class_model=FactorModel(1)).fit(X, y)
        assert np.linalg.eigvalsh(metric.metric_).min() > 0
        with pytest.raises(ValueError, match="resolvent"):
            GenerativeMetric(class_model=FactorModel(1), solver="resolvent").fit(X, y)

    def test_new_samples_are_more_likely_than_under_a_gaussian(self, rng):
        """Two factors, forty features, fifteen rows: what the model is for."""
        X = few_factors(rng, 1015, 40, 2, noise=1)
        found, plain = (
            m.fit(X[:15]).log_density(X[15:]).mean() for m in (FactorModel(), GaussianModel())
        )
        assert found > plain + 2

    def test_better_neighbours_with_few_samples(self):
        """Ionosphere, about thirty rows a class of 34 features: see docs/class_models.md."""
        from genmetric.datasets import load_ionosphere

        X, y = load_ionosphere(return_X_y=True)
        gains = []
        for seed in range(10):
            train, test, y_train, y_test = train_test_split(
                X, y, train_size=60, stratify=y, random_state=seed
            )
            scaler = StandardScaler().fit(train)
            train, test = scaler.transform(train), scaler.transform(test)
            scores = []
            for model in (None, FactorModel(1)):
                metric = GenerativeMetric(class_model=model).fit(train, y_train)
                neighbors = KNeighborsClassifier(5).fit(metric.transform(train), y_train)
                scores.append(neighbors.score(metric.transform(test), y_test))
            gains.append(scores[1] - scores[0])
        assert np.mean(gains) > 0.015

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"n_components": -1}, "n_components must be 'cv' or an integer >= 0"),
            ({"n_components": 1.5}, "n_components must be"),
            ({"n_components": "bic"}, "n_components must be"),
            ({"n_components": True}, "n_components must be"),
            ({"noise": "full"}, "noise must be"),
            ({"max_components": 0}, "max_components must be"),
            ({"noise_floor": 0}, "noise_floor must be"),
            ({"noise_floor": 2}, "noise_floor must be"),
            ({"max_iter": 0}, "max_iter must be"),
            ({"tol": -1}, "tol must be"),
        ],
    )
    def test_bad_parameters(self, X, params, message):
        with pytest.raises(ValueError, match=message):
            FactorModel(**params).fit(X)
