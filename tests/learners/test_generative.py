"""GenerativeMetric against the paper's formulas, and what must not change its answer."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import OAS, EmpiricalCovariance, GraphicalLasso, LedoitWolf
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import genmetric._parallel
from genmetric import GaussianMixtureModel, GaussianModel, GenerativeMetric

IRIS = load_iris(return_X_y=True)


def random_gaussians(seed, n_classes, D, n=40):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n_classes, D, D)) + np.eye(D)
    X = np.concatenate(
        [rng.normal(size=(n, D)) @ A[c] + rng.normal(size=D) for c in range(n_classes)]
    )
    return X, np.repeat(np.arange(n_classes), n)


def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def difference(a, b):
    """Largest difference, relative to the largest entry."""
    return np.abs(a - b).max() / np.abs(b).max()


DATA = {
    "iris": IRIS,
    "wine": wine(),
    "two classes": random_gaussians(0, 2, 3),
    "four classes": random_gaussians(1, 4, 5),
    "one feature": random_gaussians(2, 3, 1),
}


@pytest.fixture(params=DATA)
def data(request):
    return DATA[request.param]


class TestTheFormulas:
    """Every number of a fit against a loop of the paper's formulas."""

    @pytest.mark.parametrize("shrinkage", [None, 0.2])
    def test_metric(self, data, naive, shrinkage):
        X, y = data
        found = GenerativeMetric(shrinkage=shrinkage, normalization="determinant").fit(X, y).metric_
        assert difference(found, naive.uniform_metric(X, y, shrinkage)) < 1e-10

    def test_auto_is_ledoit_wolf_of_each_class(self, data, naive):
        X, y = data
        fitted = GenerativeMetric(normalization="determinant").fit(X, y)
        covariances = [LedoitWolf().fit(X[y == c]).covariance_ for c in np.unique(y)]
        np.testing.assert_allclose(fitted.covariances_, covariances, rtol=1e-9, atol=1e-10)
        expected = naive.local_metrics(X, fitted.means_, np.array(covariances)).mean(axis=0)
        assert difference(fitted.metric_, expected) < 1e-9

    def test_means_and_covariances(self, data, naive):
        X, y = data
        fitted = GenerativeMetric(shrinkage=None, normalization="determinant").fit(X, y)
        means, covariances = naive.moments(X, y)
        np.testing.assert_allclose(fitted.means_, means, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(fitted.covariances_, covariances, rtol=1e-9, atol=1e-11)

    def test_local_metrics_and_curvature(self, data, naive):
        X, y = data
        fitted = GenerativeMetric(shrinkage=None, normalization="determinant").fit(X, y)
        M = fitted.local_metrics(X)
        assert difference(M, naive.local_metrics(X, *naive.moments(X, y))) < 1e-8
        assert difference(fitted.metric_, M.mean(axis=0)) < 1e-12
        for x, Phi in zip(X[::20], fitted.curvature(X[::20]), strict=True):
            expected = naive.phi(x, *naive.moments(X, y))
            scale = np.sum(Phi * expected) / np.sum(expected**2)
            np.testing.assert_allclose(Phi, scale * expected, atol=1e-8 * np.abs(Phi).max())

    def test_factor(self, data):
        X, y = data
        fitted = GenerativeMetric(normalization="determinant").fit(X, y)
        L = fitted.components_
        assert difference(L.T @ L, fitted.metric_) < 1e-12
        np.testing.assert_allclose(L, L.T, atol=1e-12 * np.abs(L).max())
        np.testing.assert_array_equal(fitted.transform(X), X @ L.T)
        np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(X)), X, atol=1e-9)

    def test_bias_is_the_integrand_of_equation_5(self, naive):
        X, y = random_gaussians(5, 2, 3)
        fitted = GenerativeMetric(shrinkage=None, normalization="determinant").fit(X, y)
        moments = naive.moments(X, y)
        expected = [naive.bias_integrand(x, *moments, fitted.metric_) for x in X]
        np.testing.assert_allclose(fitted.bias(X), expected, rtol=1e-7)

    @pytest.mark.parametrize("far", [1e154, 1e300])
    def test_bias_very_far_from_the_classes_is_an_error(self, far):
        X, y = load_iris(return_X_y=True)
        fitted = GenerativeMetric().fit(X, y)
        with pytest.raises(ValueError, match="very far from every class"):
            fitted.bias(np.full((1, 4), far))

    def test_bias_needs_a_metric_of_full_rank(self):
        X, y = IRIS
        with pytest.raises(ValueError, match="metric is singular"):
            GenerativeMetric(n_components=2).fit(X, y).bias(X)


class TestParameters:
    """What each parameter does to the average."""

    @pytest.mark.parametrize("lam", [0, 0.3, 1])
    def test_interpolation(self, data, lam):
        X, y = data
        plain = GenerativeMetric().fit(X, y)
        fitted = GenerativeMetric(interpolation=lam).fit(X, y)
        eye = np.eye(X.shape[1])
        expected = ((1 - lam) * eye + lam * plain.local_metrics(X)).mean(axis=0)
        np.testing.assert_allclose(fitted.metric_, expected, rtol=1e-10, atol=1e-11)
        assert difference(fitted.local_metrics(X).mean(axis=0), fitted.metric_) < 1e-12

    def test_combination_weights(self, data):
        X, y = data
        w = np.random.default_rng(0).random(len(X))
        w[::3] = 0
        fitted = GenerativeMetric(w).fit(X, y)
        M = GenerativeMetric().fit(X, y).local_metrics(X)
        assert difference(fitted.metric_, np.average(M, axis=0, weights=w)) < 1e-10
        np.testing.assert_allclose(fitted.weights_, w / w.sum())
        np.testing.assert_allclose(fitted.covariances_, GenerativeMetric().fit(X, y).covariances_)

    def test_equal_weights_are_the_uniform_combination(self):
        X, y = IRIS
        weighted = GenerativeMetric(np.full(150, 0.7)).fit(X, y)
        assert difference(weighted.metric_, GenerativeMetric().fit(X, y).metric_) < 1e-12

    def test_combination_times_sample_weight(self):
        X, y = IRIS
        rng = np.random.default_rng(0)
        w, times = rng.random(150), rng.integers(0, 3, 150)
        weighted = GenerativeMetric(w).fit(X, y, times)
        repeated = GenerativeMetric(np.repeat(w, times)).fit(
            np.repeat(X, times, axis=0), np.repeat(y, times)
        )
        assert difference(weighted.metric_, repeated.metric_) < 1e-10
        np.testing.assert_allclose(weighted.weights_, w * times / (w @ times))

    def test_max_samples_averages_over_a_subset(self):
        X, y = random_gaussians(3, 3, 6, n=300)
        whole = GenerativeMetric().fit(X, y)
        M = whole.local_metrics(X)
        claims, errors = [], []
        for seed in range(30):
            part = GenerativeMetric(max_samples=0.2, random_state=seed).fit(X, y)
            np.testing.assert_array_equal(part.covariances_, whole.covariances_)
            claims.append(part.metric_stderr_)
            errors.append(np.linalg.norm(part.metric_ - whole.metric_))
        size = np.linalg.norm(whole.metric_)
        # The error of n = 180 out of N = 900 rows, and what the fit says of it.
        spread = np.mean(np.sum((M - whole.metric_) ** 2, axis=(1, 2)))
        expected = np.sqrt((1 - 0.2) * spread / 180) / size
        np.testing.assert_allclose(np.sqrt(np.mean(np.square(errors))) / size, expected, rtol=0.4)
        np.testing.assert_allclose(np.mean(claims), expected, rtol=0.4)
        assert whole.metric_stderr_ == 0

    @pytest.mark.parametrize("max_samples", [150, 10**9, 1.0])
    def test_max_samples_of_all_samples(self, max_samples):
        X, y = random_gaussians(3, 3, 5, n=50)
        w = np.random.default_rng(0).random(150)
        for weights in (None, w):
            part = GenerativeMetric(max_samples=max_samples, random_state=0).fit(X, y, weights)
            np.testing.assert_array_equal(
                part.metric_, GenerativeMetric().fit(X, y, weights).metric_
            )

    def test_no_sampling_error_with_all_samples(self):
        X, y = random_gaussians(3, 3, 5, n=50)
        assert GenerativeMetric().fit(X, y, np.ones(150)).metric_stderr_ == 0
        assert GenerativeMetric(np.ones(150)).fit(X, y).metric_stderr_ == 0

    def test_max_samples_follows_the_weights(self):
        X, y = random_gaussians(3, 3, 5, n=50)
        w = np.where(np.arange(150) % 2, 1.0, 0.0)
        drawn = GenerativeMetric(w, max_samples=40, random_state=0).fit(X, y)
        M = GenerativeMetric().fit(X, y).local_metrics(X)
        draws = [
            GenerativeMetric(w, max_samples=40, random_state=s).fit(X, y).metric_ for s in range(40)
        ]
        expected = M[1::2].mean(axis=0)
        noise = np.std(draws, axis=0) / np.sqrt(len(draws))
        assert (np.abs(np.mean(draws, axis=0) - expected) < 5 * noise + 1e-12).all()
        assert drawn.metric_stderr_ > 0

    def test_priors(self, naive):
        X, y = DATA["four classes"]
        priors = np.array([0.1, 0.2, 0.3, 0.4])
        fitted = GenerativeMetric(shrinkage=None, priors=priors, normalization="determinant").fit(
            X, y
        )
        assert difference(fitted.metric_, naive.uniform_metric(X, y, priors=priors)) < 1e-10
        plain = GenerativeMetric(shrinkage=None, normalization="determinant").fit(X, y)
        assert difference(fitted.metric_, plain.metric_) > 1e-3
        scaled = GenerativeMetric(
            shrinkage=None, priors=7 * priors, normalization="determinant"
        ).fit(X, y)
        assert difference(scaled.metric_, fitted.metric_) < 1e-12

    def test_priors_of_two_classes_have_no_effect(self):
        X, y = DATA["two classes"]
        found = GenerativeMetric(priors=[0.1, 0.9]).fit(X, y).metric_
        np.testing.assert_array_equal(found, GenerativeMetric().fit(X, y).metric_)

    @pytest.mark.parametrize("k", [1, 2, 4])
    def test_n_components(self, k):
        X, y = IRIS
        full, few = GenerativeMetric().fit(X, y), GenerativeMetric(n_components=k).fit(X, y)
        assert few.components_.shape == (k, 4)
        assert few.transform(X).shape == (150, k)
        assert np.linalg.matrix_rank(few.metric_) == k
        assert difference(few.components_.T @ few.components_, few.metric_) < 1e-12
        # No other k dimensions of the metric's space keep more of the scatter of the rows.
        Z = full.transform(X - X.mean(axis=0))
        kept = np.sum(few.transform(X - X.mean(axis=0)) ** 2)
        np.testing.assert_allclose(kept, np.sum(np.linalg.svd(Z)[1][:k] ** 2), rtol=1e-10)
        if k < 4:
            with pytest.raises(ValueError, match=r"dropped.*n_components=None"):
                few.inverse_transform(few.transform(X))

    @pytest.mark.parametrize("estimator", [OAS(), LedoitWolf(), GraphicalLasso(alpha=0.02)])
    def test_covariance_estimator(self, naive, estimator):
        X, y = IRIS
        fitted = GenerativeMetric(
            class_model=GaussianModel(covariance_estimator=estimator), normalization="determinant"
        ).fit(X, y)
        expected = naive.local_metrics(X, fitted.means_, fitted.covariances_).mean(axis=0)
        assert difference(fitted.metric_, expected) < 1e-9
        if isinstance(estimator, LedoitWolf):
            assert (
                difference(
                    fitted.metric_, GenerativeMetric(normalization="determinant").fit(X, y).metric_
                )
                < 1e-10
            )
        if isinstance(estimator, OAS):
            S = [OAS().fit(X[y == c]).covariance_ for c in range(3)]
            np.testing.assert_allclose(fitted.covariances_, S, rtol=1e-8)

    def test_empirical_covariance_equals_no_shrinkage(self):
        X, y = IRIS
        model = GaussianModel(covariance_estimator=EmpiricalCovariance())
        found = GenerativeMetric(class_model=model, normalization="determinant").fit(X, y)
        plain = GenerativeMetric(shrinkage=None, normalization="determinant").fit(X, y)
        assert difference(found.metric_, plain.metric_) < 1e-10

    def test_shrinkage_ends(self):
        X, y = IRIS
        zero, none = (GenerativeMetric(shrinkage=s).fit(X, y).metric_ for s in (0.0, None))
        np.testing.assert_array_equal(zero, none)
        round_ = GenerativeMetric(shrinkage=1).fit(X, y).covariances_
        np.testing.assert_allclose(round_[0], round_[0, 0, 0] * np.eye(4), atol=1e-12)


class TestWeights:
    """Sample weights are frequencies."""

    @settings(max_examples=30)
    @given(seed=st.integers(0, 2**32 - 1), shrinkage=st.sampled_from([None, "auto", 0.1]))
    def test_integer_weights_equal_repeated_samples(self, seed, shrinkage):
        rng = np.random.default_rng(seed)
        X, y = random_gaussians(seed, 3, 3, n=12)
        times = rng.integers(0, 4, len(X))
        times[::6] = 2  # every class keeps some rows
        weighted = GenerativeMetric(shrinkage=shrinkage).fit(X, y, times)
        repeated = GenerativeMetric(shrinkage=shrinkage).fit(
            np.repeat(X, times, axis=0), np.repeat(y, times)
        )
        assert difference(weighted.metric_, repeated.metric_) < 1e-5
        np.testing.assert_allclose(weighted.means_, repeated.means_, atol=1e-10)

    def test_weights_of_one_equal_no_weights(self):
        X, y = IRIS
        ones = GenerativeMetric().fit(X, y, np.ones(150)).metric_
        assert difference(ones, GenerativeMetric().fit(X, y).metric_) < 1e-12
        single = GenerativeMetric().fit(X, y, sample_weight=1.0).metric_
        assert difference(single, ones) < 1e-12

    def test_with_covariance_estimator_and_class_model(self):
        X, y = IRIS
        times = np.random.default_rng(0).integers(1, 3, 150)
        repeated = np.repeat(X, times, axis=0), np.repeat(y, times)
        model = GaussianMixtureModel(1, random_state=0)
        for class_model in (GaussianModel(covariance_estimator=OAS()), model):
            weighted = GenerativeMetric(class_model=class_model).fit(X, y, times)
            expected = GenerativeMetric(class_model=class_model).fit(*repeated)
            assert difference(weighted.metric_, expected.metric_) < 1e-8

    def test_a_class_of_weight_zero_is_absent(self):
        X, y = IRIS
        fitted = GenerativeMetric().fit(X, y, (y != 1).astype(float))
        np.testing.assert_array_equal(fitted.classes_, [0, 2])
        expected = GenerativeMetric().fit(X[y != 1], y[y != 1])
        assert difference(fitted.metric_, expected.metric_) < 1e-12

    def test_scale_of_the_weights_does_not_matter_without_shrinkage(self):
        X, y = IRIS
        w = np.random.default_rng(0).random(150)
        one, small = (GenerativeMetric(shrinkage=None).fit(X, y, s * w) for s in (1, 1e-3))
        assert difference(small.metric_, one.metric_) < 1e-11


class TestInvariance:
    """What must not change the metric beyond rounding."""

    @pytest.mark.parametrize("shrinkage", [None, "auto"])
    def test_sample_order_class_names_and_rotation(self, data, shrinkage, rng):
        X, y = data
        expected = GenerativeMetric(shrinkage=shrinkage).fit(X, y).metric_
        order = rng.permutation(len(X))
        found = GenerativeMetric(shrinkage=shrinkage).fit(X[order], y[order]).metric_
        assert difference(found, expected) < 1e-9
        names = rng.permutation(["delta", "alpha", "echo", "bravo"])[y]
        found = GenerativeMetric(shrinkage=shrinkage).fit(X, names).metric_
        assert difference(found, expected) < 1e-9
        Q = np.linalg.qr(rng.normal(size=(X.shape[1],) * 2))[0]
        found = GenerativeMetric(shrinkage=shrinkage).fit(X @ Q.T, y).metric_
        assert difference(Q.T @ found @ Q, expected) < 1e-9

    @pytest.mark.parametrize("solver", ["dense", "resolvent"])
    @pytest.mark.parametrize("shrinkage", [None, "auto"])
    def test_collinear_columns(self, shrinkage, solver, rng):
        """Directions without data: rounding there must not become a sign of Phi."""
        X, y = IRIS
        X = np.column_stack([X, X[:, 0] + X[:, 1], X[:, 2], np.full(150, 3.0)])
        estimator = GenerativeMetric(shrinkage=shrinkage, solver=solver)
        expected = estimator.fit(X, y).metric_
        order = rng.permutation(150)
        found = estimator.fit(X[order], y[order]).metric_
        assert difference(found, expected) < 1e-5
        Q = np.linalg.qr(rng.normal(size=(7, 7)))[0]
        found = estimator.fit(X @ Q.T, y).metric_
        assert difference(Q.T @ found @ Q, expected) < 1e-5

    @pytest.mark.parametrize("scale", [1e-60, 1e-9, 1e9, 1e60])
    def test_scale(self, data, scale):
        X, y = data
        X = X / X.std()
        expected = GenerativeMetric().fit(X, y)
        found = GenerativeMetric().fit(scale * X, y)
        assert difference(found.metric_, expected.metric_) < 1e-9
        assert difference(found.covariances_ / scale**2, expected.covariances_) < 1e-10
        assert difference(found.transform(scale * X) / scale, expected.transform(X)) < 1e-9

    def test_offset(self, data):
        X, y = data
        X = np.round(X * 2**10) / 2**10  # exact at the offset, too
        expected = GenerativeMetric().fit(X, y).metric_
        found = GenerativeMetric().fit(X + 1e10, y).metric_
        assert difference(found, expected) < 1e-4  # numbers at 1e10 are spaced by 2e-6

    def test_duplicate_samples_equal_weights(self):
        X, y = IRIS
        twice = GenerativeMetric(shrinkage=None).fit(np.r_[X, X], np.r_[y, y]).metric_
        assert difference(twice, GenerativeMetric(shrinkage=None).fit(X, y).metric_) < 1e-10


class TestChunksAndThreads:
    """The answer does not depend on how the work is cut."""

    @pytest.mark.parametrize("model", [None, GaussianMixtureModel(2, random_state=0)])
    def test_n_jobs_is_bit_identical(self, monkeypatch, model):
        X, y = random_gaussians(4, 3, 4, n=70)
        monkeypatch.setattr(genmetric._parallel, "CHUNK_BYTES", 20_000)
        runs = [GenerativeMetric(class_model=model, n_jobs=n).fit(X, y) for n in (None, 1, 2, 3)]
        for other in runs[1:]:
            np.testing.assert_array_equal(other.metric_, runs[0].metric_)
            np.testing.assert_array_equal(other.components_, runs[0].components_)
            np.testing.assert_array_equal(other.local_metrics(X), runs[0].local_metrics(X))

    def test_chunk_size_changes_rounding_only(self, monkeypatch):
        X, y = random_gaussians(4, 3, 4, n=200)
        whole = GenerativeMetric().fit(X, y)
        local = whole.local_metrics(X)
        for budget in (1, 10_000, 100_000):
            monkeypatch.setattr(genmetric._parallel, "CHUNK_BYTES", budget)
            cut = GenerativeMetric().fit(X, y)
            assert difference(cut.metric_, whole.metric_) < 1e-11
            np.testing.assert_allclose(cut.local_metrics(X), local, rtol=1e-9, atol=1e-10)

    @pytest.mark.parametrize("solver", ["dense", "resolvent"])
    def test_memory_is_bounded(self, solver):
        n, D = 20_000, 30
        X, y = random_gaussians(6, 2, D, n=n // 2)
        GenerativeMetric().fit(X[:100], y[:100] + np.arange(100) % 2)  # first-use imports
        tracemalloc.start()
        GenerativeMetric(solver=solver, n_jobs=1).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < n * D**2 * 8 / 2  # 72 MB, half of one D x D matrix a row
        assert peak < 2 * genmetric._parallel.CHUNK_BYTES

    def test_same_seed_same_result(self):
        X, y = random_gaussians(3, 3, 5, n=50)
        params = {"class_model": GaussianMixtureModel(2), "max_samples": 50}
        runs = [
            GenerativeMetric(**params, random_state=s, n_jobs=n).fit(X, y).metric_
            for s, n in ((3, 1), (3, 2), (4, 1))
        ]
        np.testing.assert_array_equal(runs[0], runs[1])
        assert difference(runs[2], runs[0]) > 1e-6
