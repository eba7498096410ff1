"""Mixtures as class models: densities against scikit-learn, derivatives, small classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import make_moons
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsClassifier

from genmetric import GaussianMixtureModel, GenerativeMetric


@pytest.fixture
def X(rng):
    """Two bent pieces far enough apart to need two components."""
    pieces = rng.normal(size=(2, 60, 3)) @ rng.normal(size=(2, 3, 3))
    return np.r_[pieces[0], pieces[1] + [6, 0, -3]]


@pytest.fixture
def model(X):
    return GaussianMixtureModel(n_components=2, random_state=0).fit(X)


def test_log_density_is_the_mixture_of_the_attributes(model, X):
    p = sum(
        w * multivariate_normal(mean, S).pdf(X)
        for w, mean, S in zip(model.mixing_weights_, model.means_, model.covariances_, strict=True)
    )
    np.testing.assert_allclose(model.log_density(X), np.log(p), rtol=1e-9)


def test_derivatives_against_differences(model, X, naive):
    between = np.r_[X[:20], (X[:20] + X[60:80]) / 2]  # where both components matter too
    assert naive.gradient_error(model, between) < 1e-7
    assert naive.curvature_error(model, between) < 1e-6


def test_distant_samples_are_finite(model):
    far = 1e4 * np.abs(model.covariances_).max() ** 0.5 * np.array([[1.0, 1, 1], [-1, 0, 1]])
    for values in (model.log_density(far), model.gradient(far), model.curvature(far)):
        assert np.isfinite(values).all()


# Powers of two: then EM sees the very same numbers.
@pytest.mark.parametrize("scale", [2.0**-450, 2.0**320])
def test_result_follows_the_scale_of_X(X, scale):
    X = (X - X.mean(axis=0)) / X.std()
    one = GaussianMixtureModel(random_state=0).fit(X)
    other = GaussianMixtureModel(random_state=0).fit(scale * X)
    np.testing.assert_allclose(
        other.log_density(scale * X), one.log_density(X) - 3 * np.log(scale), rtol=1e-12
    )
    np.testing.assert_allclose(scale**2 * other.curvature(scale * X), one.curvature(X), rtol=1e-9)
    assert np.isfinite(other.covariances_).all()


def test_number_of_components_is_at_most_the_number_of_samples(rng):
    X = rng.normal(size=(2, 3))
    model = GaussianMixtureModel(n_components=5, random_state=0).fit(np.repeat(X, 3, axis=0))
    assert len(model.mixing_weights_) == 2
    lone = GaussianMixtureModel(n_components=2).fit(X[:1])
    assert np.isfinite(lone.log_density(X)).all()
    np.testing.assert_allclose(lone.means_, X[:1])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_components": 1.5}, "n_components must be 'bic' or an integer >= 1"),
        ({"n_components": "two"}, "n_components must be 'bic' or an integer >= 1"),
        ({"max_components": 0}, "max_components must be"),
        ({"pooling": -1}, "pooling must be None or a number >= 0"),
        ({"reg_covar": "small"}, "reg_covar must be"),
        ({"tol": float("nan")}, "tol must be"),
        ({"n_init": 0}, "n_init must be"),
        ({"max_iter": 2.5}, "max_iter must be"),
    ],
)
def test_bad_parameters(X, params, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixtureModel(**params).fit(X)


def test_nearly_equal_samples():
    X = np.array([[0.0, 1.0], [1e-200, 1.0], [5.0, 2.0], [5.0, 2.0 + 1e-15]])
    assert np.isfinite(GaussianMixtureModel(4, random_state=0).fit(X).curvature(X)).all()


class TestExpectationMaximisation:
    """The fit itself."""

    def test_as_likely_as_that_of_scikit_learn(self, X):
        ours = GaussianMixtureModel(2, pooling=0, tol=1e-9, n_init=3, random_state=0).fit(X)
        peer = GaussianMixture(2, reg_covar=1e-6, tol=1e-9, n_init=3, random_state=0).fit(X)
        np.testing.assert_allclose(ours.log_density(X).mean(), peer.score(X), rtol=1e-4)

    def test_covariances_are_pooled_with_the_prior(self, X):
        """At the fixed point: the scatter of the shares, and D + 2 rows of all shares."""
        model = GaussianMixtureModel(2, tol=0, max_iter=2000, reg_covar=0, random_state=0).fit(X)
        moments = list(zip(model.mixing_weights_, model.means_, model.covariances_, strict=True))
        p = np.column_stack([w * multivariate_normal(m, S).pdf(X) for w, m, S in moments])
        share = p / p.sum(axis=1, keepdims=True)
        scatters = [(X - m).T * r @ (X - m) for r, (_, m, _) in zip(share.T, moments, strict=True)]
        prior = ledoit_wolf(X)[0] / 2 ** (2 / 3)
        within = (sum(scatters) + 5 * prior) / (len(X) + 5)
        for r, (_, mean, S) in zip(share.T, moments, strict=True):
            np.testing.assert_allclose(mean, r @ X / r.sum(), rtol=1e-4, atol=1e-4)
            e = X - mean
            expected = ((e * r[:, None]).T @ e + 5 * within) / (r.sum() + 5)
            np.testing.assert_allclose(S, expected, rtol=1e-3, atol=1e-3)

    def test_weights_are_frequencies(self, X, rng):
        times = rng.integers(0, 3, len(X))
        for n_components in (2, "bic"):
            model = GaussianMixtureModel(n_components, random_state=0)
            weighted = clone(model).fit(X, sample_weight=times)
            repeated = clone(model).fit(np.repeat(X, times, axis=0))
            np.testing.assert_allclose(weighted.means_, repeated.means_, rtol=1e-6)
            np.testing.assert_allclose(weighted.covariances_, repeated.covariances_, rtol=1e-6)

    def test_weights_reach_a_metric(self, X, rng):
        y = np.arange(len(X)) % 2
        times = rng.integers(1, 4, len(X))
        metric = GenerativeMetric(class_model=GaussianMixtureModel(2, random_state=0))
        weighted = clone(metric).fit(X, y, times + 0.5).metric_
        assert np.isfinite(weighted).all()
        np.testing.assert_allclose(
            clone(metric).fit(X, y, times).metric_,
            clone(metric).fit(np.repeat(X, times, axis=0), np.repeat(y, times)).metric_,
            rtol=1e-5,
            atol=1e-8,
        )

    def test_bic_finds_the_number_of_clusters(self, rng):
        for k in (1, 2, 4):
            X = np.concatenate([rng.normal(size=(100, 2)) + 12 * c for c in rng.permutation(k)])
            model = GaussianMixtureModel("bic", random_state=0, n_init=2).fit(X)
            assert model.n_components_ == len(model.mixing_weights_) == k
            assert model.bic_.argmin() == k - 1
            n_free = k * 6 - 1
            expected = n_free * np.log(len(X)) - 2 * model.log_density(X).sum()
            np.testing.assert_allclose(model.bic_[k - 1], expected)

    def test_max_components(self, X):
        assert len(GaussianMixtureModel("bic", max_components=3).fit(X).bic_) == 3
        assert not hasattr(GaussianMixtureModel(2).fit(X), "bic_")

    def test_mixture_is_equivariant_to_rotations(self, X, rng):
        Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        one, other = (GaussianMixtureModel(2, random_state=0).fit(x) for x in (X, X @ Q))
        np.testing.assert_allclose(other.means_, one.means_ @ Q, atol=1e-6)

    def test_few_samples_do_not_collapse(self, rng):
        """More components than rows can carry: the smallest variance stays near the rows' own."""
        X = rng.normal(size=(8, 4))
        pooled = GaussianMixtureModel(4, random_state=0).fit(X)
        plain = GaussianMixtureModel(4, pooling=0, random_state=0).fit(X)
        least = [np.linalg.eigvalsh(m.covariances_).min() for m in (pooled, plain)]
        assert least[0] > 1e-2
        assert least[1] < 1e-4

    @given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 4))
    def test_random_problems_are_finite(self, seed, n_rows, n_features):
        X = np.random.default_rng(seed).integers(-2, 3, (n_rows, n_features)) * 1.0
        model = GaussianMixtureModel("bic", max_components=4, random_state=0).fit(X)
        for values in (model.log_density(X), model.gradient(X), model.curvature(X)):
            assert np.isfinite(values).all()
        assert model.mixing_weights_.sum() == pytest.approx(1)


def test_curved_classes_need_several_gaussians():
    """Two moons among four features of noise: see docs/dev/class_models.md."""
    errors = {1: [], 2: [], "bic": []}
    for seed in range(2):
        parts = []
        for n, s in ((300, seed), (1000, 100 + seed)):
            X, y = make_moons(n, noise=0.15, random_state=s)
            noise = np.random.default_rng(s).normal(size=(n, 4))
            parts += [np.column_stack([X / X.std(axis=0), noise]), y]
        train, y_train, test, y_test = parts
        for n_components, found in errors.items():
            model = GaussianMixtureModel(n_components, n_init=3, random_state=0)
            metric = GenerativeMetric(class_model=model).fit(train, y_train)
            neighbors = KNeighborsClassifier(5).fit(metric.transform(train), y_train)
            found.append(1 - neighbors.score(metric.transform(test), y_test))
    one, two, bic = (np.mean(found) for found in errors.values())
    assert one > 0.06
    assert two < 0.03
    assert bic < 0.03
