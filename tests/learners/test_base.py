"""The pooled base and the normalization of local metrics, along every path of a fit."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from genmetric import GaussianMixtureModel, GenerativeMetric, GenerativeMetricCV
from genmetric.datasets import load_vehicle
from genmetric.density import Scaling, class_statistics
from genmetric.density._whitening import correlation_shrinkage, fourth_moments, pooled_whitening

IRIS = load_iris(return_X_y=True)
WINE = load_wine(return_X_y=True)


def difference(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def whitened(X, y):
    """Return samples in the coordinates of the pooled base, and the linear map to them."""
    frame = Scaling.of(X)
    stats = class_statistics(X, y, int(y.max()) + 1, frame=frame)
    whitening = pooled_whitening(stats, frame)
    return whitening.apply(X), whitening.axes / frame.scale


class TestWhitening:
    """The coordinates of the pooled base."""

    def test_pooled_covariance_is_nearly_the_identity(self):
        X, y = np.repeat(WINE[0], 50, axis=0), np.repeat(WINE[1], 50)
        Z, A = whitened(X, y)
        centered = Z - np.array([Z[y == c].mean(axis=0) for c in range(3)])[y]
        np.testing.assert_allclose(centered.T @ centered / len(Z), np.eye(13), atol=0.01)
        np.testing.assert_allclose(Z - Z[0], (X - X[0]) @ A, atol=1e-9)

    @pytest.mark.parametrize("n_samples", [30, 300, 3000])
    def test_shrinkage_is_that_of_ledoit_wolf_for_gaussians(self, rng, n_samples):
        X = rng.normal(size=(n_samples, 10)) @ rng.normal(size=(10, 10))
        X /= np.sqrt((X**2).mean(axis=0))
        found = correlation_shrinkage(X.T @ X / n_samples, n_samples)
        expected = ledoit_wolf(X, assume_centered=True)[1]
        assert found == pytest.approx(expected, rel=0.35)

    def test_a_feature_that_is_constant_within_classes(self):
        X = np.column_stack([IRIS[0], IRIS[1], np.full(150, 7.0)])
        Z, A = whitened(X, IRIS[1])
        assert np.isfinite(Z).all()
        # The within-class scale of feature 4 is zero: it gets its total standard deviation.
        assert np.linalg.norm(A[4]) == pytest.approx(1 / IRIS[1].std(), rel=0.1)

    def test_fourth_moments_are_a_plain_sum(self, rng):
        X, y, w = rng.normal(size=(50, 3)), rng.integers(0, 2, 50), rng.random(50)
        means = rng.normal(size=(2, 3))
        found = fourth_moments(X, y, means, Scaling(np.zeros(3), 1.0), sample_weight=w)
        for c in range(2):
            e = X[y == c] - means[c]
            assert found[c] == pytest.approx(w[y == c] @ (e**2).sum(axis=1) ** 2)


class TestPooledBase:
    """The metric is learned on whitened samples and mapped back."""

    @pytest.mark.parametrize("normalization", ["determinant", "trace"])
    @pytest.mark.parametrize("params", [{}, {"shrinkage": None}, {"interpolation": 0.4}], ids=str)
    def test_metric_of_whitened_samples_mapped_back(self, params, normalization):
        X, y = WINE
        Z, A = whitened(X, y)
        inside = GenerativeMetric(normalization=normalization, **params).fit(Z, y)
        found = GenerativeMetric(base="pooled", normalization=normalization, **params).fit(X, y)
        assert difference(found.metric_, A @ inside.metric_ @ A.T) < 1e-8
        assert difference(found.local_metrics(X), A @ inside.local_metrics(Z) @ A.T) < 1e-7
        assert difference(found.components_.T @ found.components_, found.metric_) < 1e-10
        np.testing.assert_allclose(
            found.means_ - X.mean(axis=0),
            (inside.means_ - Z.mean(axis=0)) @ np.linalg.inv(A),
            atol=1e-7,
        )
        B = np.linalg.inv(A)
        np.testing.assert_allclose(
            found.covariances_, B.T @ inside.covariances_ @ B, rtol=1e-6, atol=1e-9
        )
        # A density in input space is the density of z times the determinant of the map.
        expected = inside.bias(Z) * np.abs(np.linalg.det(A))
        np.testing.assert_allclose(found.bias(X), expected, rtol=1e-5, atol=1e-12 * expected.max())
        for P, Q in zip(found.curvature(X[::30]), A @ inside.curvature(Z[::30]) @ A.T, strict=True):
            assert difference(P / np.linalg.norm(P), Q / np.linalg.norm(Q)) < 1e-6

    @settings(max_examples=15)
    @given(
        exponents=st.lists(st.floats(-6, 6), min_size=4, max_size=4),
        combination=st.sampled_from(["uniform", "kde", "gmm"]),
        normalization=st.sampled_from(["determinant", "trace"]),
        shrinkage=st.sampled_from([None, "auto", 0.3]),
        n_components=st.sampled_from([None, 2]),
    )
    def test_units_do_not_matter(
        self, exponents, combination, normalization, shrinkage, n_components
    ):
        X, y = IRIS
        units = 10.0 ** np.array(exponents)
        params = {
            "combination": combination,
            "normalization": normalization,
            "shrinkage": shrinkage,
            "n_components": n_components,
            "base": "pooled",
            "interpolation": 0.7,
            "random_state": 0,
        }
        plain = GenerativeMetric(**params).fit(X, y).transform(X)
        scaled = GenerativeMetric(**params).fit(X * units, y).transform(X * units)
        distances = [np.linalg.norm(Z[:40, None] - Z[None, :40], axis=2) for Z in (plain, scaled)]
        np.testing.assert_allclose(distances[1], distances[0], rtol=1e-5, atol=1e-6)

    def test_strong_shrinkage_is_within_class_whitening(self):
        """Equal round classes in whitened coordinates: the metric tends to the base metric."""
        X, y = np.repeat(IRIS[0], 10, axis=0), np.repeat(IRIS[1], 10)
        # Whitened classes with one common covariance: no class differs from the pooled one.
        X = X - np.array([X[y == c].mean(axis=0) for c in range(3)])[y]
        X = np.concatenate([X + 0.01 * c for c in range(3)])
        y = np.repeat(np.arange(3), len(IRIS[0]) * 10)
        base = GenerativeMetric(base="pooled", interpolation=0).fit(X, y).metric_
        errors = [
            difference(
                GenerativeMetric(
                    base="pooled", shrinkage=s, normalization="trace", interpolation=lam
                )
                .fit(X, y)
                .metric_,
                base,
            )
            for s, lam in ((1.0, 0.5), (1.0, 0.1), (1.0, 0.0))
        ]
        assert errors[0] > errors[1] > errors[2]
        assert errors[2] < 1e-12
        # The class models themselves are those of the whitening.
        strong = GenerativeMetric(base="pooled", shrinkage=1.0).fit(X, y).covariances_
        for covariance in strong:
            assert difference(covariance, np.linalg.inv(base)) < 0.02

    @pytest.mark.parametrize("normalization", ["determinant", "trace"])
    @pytest.mark.parametrize("shrinkage", ["auto", 0.2])
    def test_batches_and_streams(self, shrinkage, normalization):
        X, y = load_vehicle(return_X_y=True)
        params = {"base": "pooled", "shrinkage": shrinkage, "normalization": normalization}
        whole = GenerativeMetric(**params).fit(X, y)
        parts = np.array_split(np.random.default_rng(0).permutation(len(X)), 5)
        batches = GenerativeMetric(**params).fit_batches(lambda: ((X[p], y[p]) for p in parts))
        stream = GenerativeMetric(**params)
        for part in parts:
            stream.partial_fit(X[part], y[part])
        for other in (batches, stream):
            assert difference(other.metric_, whole.metric_) < 1e-8
            assert difference(other.covariances_, whole.covariances_) < 1e-8
            np.testing.assert_allclose(other.transform(X), whole.transform(X), rtol=1e-5, atol=1e-6)

    def test_a_bounded_reservoir_estimates_the_shrinkage(self):
        X, y = load_vehicle(return_X_y=True)
        whole = GenerativeMetric(base="pooled").fit(X, y)
        stream = GenerativeMetric(base="pooled", max_samples=300, random_state=0)
        for part in np.array_split(np.arange(len(X)), 4):
            stream.partial_fit(X[part], y[part])
        assert 0 < difference(stream.covariances_, whole.covariances_) < 0.2
        assert 0 < stream.metric_stderr_ < 0.3

    def test_weights_are_frequencies(self, rng):
        X, y = IRIS
        times = rng.integers(1, 4, 150)
        weighted = GenerativeMetric(base="pooled").fit(X, y, times)
        repeated = GenerativeMetric(base="pooled").fit(
            np.repeat(X, times, axis=0), np.repeat(y, times)
        )
        assert difference(weighted.metric_, repeated.metric_) < 1e-8

    def test_other_class_models(self):
        X, y = IRIS
        model = GaussianMixtureModel(2, random_state=0)
        metric = GenerativeMetric(base="pooled", class_model=model).fit(X, y)
        scaled = GenerativeMetric(base="pooled", class_model=model).fit(X * [1, 10, 0.1, 100], y)
        np.testing.assert_allclose(
            metric.transform(X), scaled.transform(X * [1, 10, 0.1, 100]), rtol=1e-6, atol=1e-8
        )

    @pytest.mark.parametrize("scale", [1e-150, 1e150])
    def test_any_size_of_the_data(self, scale):
        X, y = IRIS
        plain = GenerativeMetric(base="pooled").fit(X, y)
        scaled = GenerativeMetric(base="pooled").fit(scale * X, y)
        np.testing.assert_allclose(scaled.transform(scale * X), plain.transform(X), rtol=1e-8)


class TestNormalization:
    """Equal determinant or equal trace."""

    def test_trace_is_the_average_of_metrics_of_equal_trace(self):
        X, y = StandardScaler().fit_transform(WINE[0]), WINE[1]
        plain = GenerativeMetric().fit(X, y).local_metrics(X)
        metric = GenerativeMetric(normalization="trace").fit(X, y)
        expected = 13 * plain / np.trace(plain, axis1=1, axis2=2)[:, None, None]
        assert difference(metric.local_metrics(X), expected) < 1e-9
        assert difference(metric.metric_, expected.mean(axis=0)) < 1e-9

    @pytest.mark.parametrize("solver", ["dense", "resolvent"])
    def test_standard_error_of_a_sample(self, solver):
        X, y = load_vehicle(return_X_y=True)
        X = StandardScaler().fit_transform(X)
        params = {"normalization": "trace", "solver": solver, "class_tol": 0}
        whole = GenerativeMetric(**params).fit(X, y)
        runs = [
            GenerativeMetric(max_samples=0.2, random_state=s, **params).fit(X, y) for s in range(8)
        ]
        size = np.linalg.norm(whole.metric_)
        errors = [np.linalg.norm(run.metric_ - whole.metric_) / size for run in runs]
        claims = [run.metric_stderr_ for run in runs]
        np.testing.assert_allclose(np.mean(claims), np.sqrt(np.mean(np.square(errors))), rtol=0.5)

    def test_few_samples_do_not_dominate(self):
        """Many small classes: the relative standard error of the average shrinks."""
        rng = np.random.default_rng(0)
        y = np.repeat(np.arange(60), 6)
        X = rng.normal(size=(60, 12))[y] + rng.normal(size=(360, 12)) * rng.gamma(1, 1, (60, 12))[y]
        errors = {
            normalization: GenerativeMetric(
                normalization=normalization, max_samples=180, random_state=0
            )
            .fit(X, y)
            .metric_stderr_
            for normalization in ("determinant", "trace")
        }
        assert errors["trace"] < 0.8 * errors["determinant"]


def test_encoded_categories_do_not_dominate(rng):
    """Classes that take one category only have no variance there, as penguins and their islands."""
    sizes = (150, 68, 123)
    species = np.repeat([0, 1, 2], sizes)
    means = np.array([[-0.9, 0.6, -0.8, -0.6], [0.9, 0.6, -0.4, -0.6], [0.7, -1.1, 1.2, 1.1]])
    body = means[species] + 0.5 * (rng.normal(size=(341, 4)) + 0.8 * rng.normal(size=(341, 1)))
    island = np.concatenate([rng.choice(3, 150), np.full(68, 1), np.zeros(123, int)])
    X = StandardScaler().fit_transform(np.column_stack([body, np.eye(3)[island]]))

    def share(**params):
        metric = GenerativeMetric(**params).fit(X, species).metric_
        # Parts of the mean squared distance, correlations included.
        parts = np.diag(metric @ np.cov(X.T))
        return parts[4:].sum() / parts.sum()

    assert share(normalization="determinant") > 0.9
    assert share(base="pooled", normalization="trace") < 0.55


class TestUnscaledFeatures:
    """One warning if the regularisation is dominated by the units of some features."""

    def test_warning(self):
        X, y = WINE
        for fit in (
            lambda metric: metric.fit(X, y),
            lambda metric: metric.fit_batches(lambda: iter([(X[::2], y[::2]), (X[1::2], y[1::2])])),
        ):
            with pytest.warns(UserWarning, match="differ by a factor of 2.5e.03.*StandardScaler"):
                fit(GenerativeMetric())

    def test_one_warning_of_a_search(self):
        with pytest.warns(UserWarning, match="standard deviations of the features") as record:
            GenerativeMetricCV(bases="identity", interpolations=0.5, n_neighbors=3).fit(*WINE)
        assert len(record) == 1

    @pytest.mark.parametrize(
        "params",
        [
            {"base": "pooled"},
            {"shrinkage": None, "normalization": "determinant"},
            {"shrinkage": 0.0, "normalization": "determinant"},
        ],
        ids=str,
    )
    def test_no_warning_if_units_do_not_matter(self, params):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            GenerativeMetric(**params).fit(*WINE)
            GenerativeMetric(interpolation=0.5).fit(
                np.column_stack([IRIS[0], np.full(150, 1e9)]), IRIS[1]
            )


class TestZeroCurvature:
    """One warning if the floor of the sign rule acts on more than a few samples."""

    @staticmethod
    def samples(rng, kind):
        X = rng.normal(size=(120, 5)) @ rng.normal(size=(5, 5))
        if kind == "equal covariances":
            return np.concatenate([X, X + rng.normal(size=5)]), np.repeat([0, 1], 120)
        X[60:] *= 2.0
        X[:, 0] = X[:, 1] - X[:, 2] if kind == "collinear" else 1.0
        return X, np.repeat([0, 1], 60)

    @pytest.mark.parametrize("base", ["identity", "pooled"])
    @pytest.mark.parametrize("solver", ["dense", "resolvent"])
    def test_warning(self, rng, base, solver):
        X, y = self.samples(rng, "equal covariances")
        GenerativeMetric(base=base, solver=solver).fit(X, y)  # the trace does not depend on it
        metric = GenerativeMetric(base=base, solver=solver, normalization="determinant")
        with pytest.warns(UserWarning, match="rounding errors only in 3 of 5 directions") as found:
            metric.fit(X, y)
        assert len(found) == 1

    @pytest.mark.parametrize("base", ["identity", "pooled"])
    @pytest.mark.parametrize("kind", ["collinear", "constant"])
    def test_quiet_if_no_class_has_scatter(self, rng, base, kind):
        X, y = self.samples(rng, kind)
        GenerativeMetric(base=base).fit(X, y)
        GenerativeMetric(base=base, shrinkage=None, normalization="determinant").fit(X, y)
