"""GenerativeRegressionMetric: what it learns, its invariances, batches and refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.neighbors import KNeighborsRegressor

from genmetric import (
    GaussianMixtureModel,
    GaussianModel,
    GenerativeMetric,
    GenerativeRegressionMetric,
    KernelRegressor,
)
from genmetric.learners import default_n_slices, quantile_edges, slice_targets

METHODS = ["combined", "kernel", "slices"]


def problem(seed=0, n=200, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.4 * rng.normal(size=(d, d)))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def unit(metric):
    return metric / np.trace(metric)


def naive_gradients(X, y):
    """Gradients of log-density and regression function of one Gaussian, sample by sample."""
    scale = np.sqrt(np.var(X, axis=0).mean() / np.var(y))
    model = GaussianModel().fit(np.column_stack([X, scale * y]))
    S, mean = model.covariance_, model.mean_
    d = X.shape[1]
    b = np.linalg.solve(S[:d, :d], S[:d, d])
    return [(-np.linalg.solve(S[:d, :d], x - mean[:d]), b) for x in X]


class TestSlices:
    def test_edges_have_equal_counts(self):
        y = np.random.default_rng(0).permutation(np.arange(300.0))
        codes = slice_targets(y, quantile_edges(y, 5))
        np.testing.assert_array_equal(np.bincount(codes), [60] * 5)

    @given(st.lists(st.integers(0, 5), min_size=3, max_size=60), st.integers(2, 8))
    def test_equal_targets_are_in_one_slice(self, values, n_slices):
        y = np.array(values, float)
        edges = quantile_edges(y, n_slices)
        codes = slice_targets(y, edges)
        for value in np.unique(y):
            assert len(np.unique(codes[y == value])) == 1
        if len(np.unique(y)) > 1:
            assert len(np.unique(codes)) == len(edges) + 1 >= 2

    @given(st.integers(0, 10**6))
    def test_weights_are_frequencies(self, seed):
        rng = np.random.default_rng(seed)
        y, weight = rng.normal(size=30), rng.integers(1, 5, 30)
        np.testing.assert_array_equal(
            quantile_edges(y, 4, weight), quantile_edges(np.repeat(y, weight), 4)
        )

    def test_default_number(self):
        assert [default_n_slices(n) for n in (3, 100, 160, 10**6)] == [2, 2, 4, 6]

    @pytest.mark.parametrize("base", ["identity", "pooled"])
    @pytest.mark.parametrize("interpolation", [0.7, 1.0])
    def test_metric_is_that_of_the_slices_as_classes(self, base, interpolation):
        X, y = problem()
        options = {"base": base, "interpolation": interpolation, "shrinkage": 0.2}
        found = GenerativeRegressionMetric("slices", n_slices=3, **options).fit(X, y)
        edges = quantile_edges(y, 3)
        np.testing.assert_array_equal(found.slice_edges_, edges)
        classes = GenerativeMetric(**options).fit(X, slice_targets(y, edges))
        np.testing.assert_array_equal(found.metric_, classes.metric_)
        np.testing.assert_array_equal(found.local_metrics(X), classes.local_metrics(X))

    @pytest.mark.parametrize("method", METHODS)
    def test_two_values_are_two_classes(self, method):
        X, y = problem()
        y = np.where(y > 1, 3.0, -2.0)
        found = GenerativeRegressionMetric(method).fit(X, y)
        np.testing.assert_array_equal(found.slice_edges_, [-2])
        if method == "slices":
            classes = GenerativeMetric(base="pooled").fit(X, y.astype(int))
            assert relative(found.metric_, classes.metric_) < 1e-12
        assert np.linalg.eigvalsh(found.metric_)[0] > 0


class TestKernel:
    @pytest.mark.parametrize("model", [None, GaussianMixtureModel(2, random_state=0)], ids=str)
    @pytest.mark.parametrize("method", ["kernel", "combined"])
    def test_metric_is_the_mean_of_the_local_metrics(self, method, model):
        X, y = problem()
        metric = GenerativeRegressionMetric(method, density_model=model).fit(X, y)
        assert relative(metric.local_metrics(X).mean(axis=0), metric.metric_) < 1e-6

    def test_equals_a_loop(self):
        X, y = problem()
        metric = GenerativeRegressionMetric("kernel", base="identity", interpolation=0.8).fit(X, y)
        total = np.zeros((4, 4))
        for g, b in naive_gradients(X, y):
            eigenvalues, U = np.linalg.eigh(np.outer(b, g) + np.outer(g, b))
            absolute = (U * np.abs(eigenvalues)) @ U.T
            total += 4 * absolute / np.trace(absolute)
        expected = 0.8 * total / len(X) + 0.2 * np.eye(4)
        assert relative(unit(metric.metric_), unit(expected)) < 1e-6

    def test_the_bias_of_a_gaussian_problem_is_removed(self):
        """trace(M⁻¹ B) vanishes for every local metric without interpolation."""
        X, y = problem()
        metric = GenerativeRegressionMetric("kernel", base="identity").fit(X, y)
        for M, (g, b) in zip(metric.local_metrics(X), naive_gradients(X, y), strict=True):
            B = np.outer(b, g) + np.outer(g, b)
            assert abs(np.trace(np.linalg.solve(M, B))) < 1e-4 * np.linalg.norm(B)

    def test_combined_is_the_mean_of_both(self):
        X, y = problem()
        parts = [
            GenerativeRegressionMetric(m, base="identity", n_slices=3).fit(X, y)
            for m in ("kernel", "slices")
        ]
        both = GenerativeRegressionMetric(base="identity", n_slices=3).fit(X, y)
        mean = np.mean([unit(part.metric_) for part in parts], axis=0)
        assert relative(unit(both.metric_), mean) < 1e-8

    def test_mixtures_are_seeded(self):
        X, y = problem()
        metric = GenerativeRegressionMetric(density_model=GaussianMixtureModel(2), random_state=0)
        np.testing.assert_array_equal(metric.fit(X, y).metric_, clone(metric).fit(X, y).metric_)


@pytest.mark.parametrize("method", METHODS)
class TestAllMethods:
    @given(seed=st.integers(0, 10**6), shift=st.floats(-100, 100), scale=st.floats(1e-3, 1e3))
    @settings(max_examples=8, deadline=None)
    def test_shift_and_scale_of_the_target(self, method, seed, shift, scale):
        X, y = problem(seed, n=80)
        plain = GenerativeRegressionMetric(method).fit(X, y)
        moved = GenerativeRegressionMetric(method).fit(X, shift + scale * y)
        assert relative(moved.metric_, plain.metric_) < 1e-6

    def test_pooled_base_ignores_the_scales_of_the_features(self, method):
        X, y = problem()
        scales = np.array([1e-3, 1.0, 50.0, 1e4])
        plain = GenerativeRegressionMetric(method).fit(X, y)
        scaled = GenerativeRegressionMetric(method).fit(X * scales, y)
        back = scaled.metric_ * scales * scales[:, None]
        assert relative(unit(back), unit(plain.metric_)) < 1e-6

    def test_a_weight_of_two_is_the_sample_twice(self, method):
        X, y = problem(n=90)
        weight = np.random.default_rng(0).integers(0, 3, len(X))
        repeated = np.repeat(np.arange(len(X)), weight)
        a = GenerativeRegressionMetric(method, n_slices=3).fit(X, y, sample_weight=weight)
        b = GenerativeRegressionMetric(method, n_slices=3).fit(X[repeated], y[repeated])
        assert relative(a.metric_, b.metric_) < 1e-6

    def test_order_of_the_samples_does_not_matter(self, method):
        X, y = problem()
        order = np.random.default_rng(0).permutation(len(X))
        a = GenerativeRegressionMetric(method).fit(X, y)
        b = GenerativeRegressionMetric(method).fit(X[order], y[order])
        assert relative(a.metric_, b.metric_) < 1e-8

    def test_interpolation_zero_is_the_base(self, method):
        X, y = problem()
        metric = GenerativeRegressionMetric(method, base="identity", interpolation=0.0).fit(X, y)
        np.testing.assert_allclose(unit(metric.metric_), np.eye(4) / 4, atol=1e-12)

    def test_it_helps_on_friedman(self, method):
        X, y = make_friedman1(700, noise=0.5, random_state=0)
        train, test = slice(0, 400), slice(400, 700)
        metric = GenerativeRegressionMetric(method).fit(X[train], y[train])
        Z = metric.transform(X)
        plain = KNeighborsRegressor(7).fit(X[train], y[train]).score(X[test], y[test])
        assert KNeighborsRegressor(7).fit(Z[train], y[train]).score(Z[test], y[test]) > plain + 0.05

    def test_n_components(self, method):
        X, y = problem()
        metric = GenerativeRegressionMetric(method, n_components=2).fit(X, y)
        assert metric.components_.shape == (2, 4)
        assert metric.transform(X).shape == (200, 2)

    def test_n_jobs(self, method):
        X, y = problem()
        a, b = (GenerativeRegressionMetric(method, n_jobs=n).fit(X, y) for n in (1, 2))
        np.testing.assert_array_equal(a.metric_, b.metric_)


class TestBatches:
    def test_fit_batches_equals_fit(self):
        X, y = problem()

        def batches():
            for rows in np.array_split(np.arange(len(X)), 5):
                yield X[rows], y[rows]

        for base in ("identity", "pooled"):
            metric = GenerativeRegressionMetric("slices", base=base)
            whole = clone(metric).fit(X, y)
            streamed = clone(metric).fit_batches(batches)
            assert relative(streamed.metric_, whole.metric_) < 1e-8
            assert relative(streamed.local_metrics(X[:3]), whole.local_metrics(X[:3])) < 1e-8

    def test_partial_fit_keeps_the_first_edges(self):
        X, y = problem(n=400)
        metric = GenerativeRegressionMetric("slices", n_slices=3)
        metric.partial_fit(X[:200], y[:200])
        edges = metric.slice_edges_
        metric.partial_fit(X[200:], y[200:])
        np.testing.assert_array_equal(metric.slice_edges_, edges)
        whole = GenerativeMetric(base="pooled", normalization="trace").fit(
            X, slice_targets(y, edges)
        )
        assert relative(unit(metric.metric_), unit(whole.metric_)) < 0.05

    @pytest.mark.parametrize("method", ["combined", "kernel"])
    def test_other_methods_need_all_samples(self, method):
        X, y = problem()
        metric = GenerativeRegressionMetric(method)
        assert not hasattr(metric, "partial_fit")
        with pytest.raises(AttributeError) as raised:
            metric.fit_batches(lambda: [(X, y)])
        assert 'require method="slices"; got' in str(raised.value.__cause__)

    @pytest.mark.parametrize("sizes", [[1, 0, 199], [120, 80], [2] * 100])
    def test_any_sizes_of_batches(self, sizes):
        X, y = problem()

        def batches():
            for rows in np.split(np.arange(200), np.cumsum(sizes)[:-1]):
                yield X[rows], y[rows]

        whole = GenerativeRegressionMetric("slices").fit(X, y)
        streamed = GenerativeRegressionMetric("slices").fit_batches(batches)
        np.testing.assert_array_equal(streamed.slice_edges_, whole.slice_edges_)
        assert relative(unit(streamed.metric_), unit(whole.metric_)) < 1e-8

    def test_names_of_features(self):
        pd = pytest.importorskip("pandas")
        X, y = problem()
        frame = pd.DataFrame(X, columns=list("abcd"))
        for metric in (
            GenerativeRegressionMetric("slices").fit_batches(lambda: [(frame, y)]),
            GenerativeRegressionMetric("slices").partial_fit(frame, y),
        ):
            assert list(metric.feature_names_in_) == list("abcd")

    @pytest.mark.parametrize(
        ("y", "message"),
        [
            (np.full(200, 3.0), "expects targets that vary"),
            (np.array(["a", "b"] * 100), "expects numeric targets.*GenerativeMetric"),
            (np.r_[np.arange(199), np.nan], "Input y contains NaN"),
            (np.r_[np.arange(199), np.inf], "Input y contains infinity"),
            (np.arange(199.0), "inconsistent numbers of samples"),
        ],
    )
    def test_invalid_targets(self, y, message):
        X = problem()[0]
        metric = GenerativeRegressionMetric("slices")
        with pytest.raises(ValueError, match=message):
            metric.fit_batches(lambda: [(X, y)])
        with pytest.raises(ValueError, match=message):
            clone(metric).partial_fit(X, y)

    def test_invalid_targets_of_a_later_batch(self):
        X, y = problem()
        metric = GenerativeRegressionMetric("slices").partial_fit(X, y)
        with pytest.raises(ValueError, match="Input y contains NaN"):
            metric.partial_fit(X, np.where(np.arange(200) == 7, np.nan, y))
        with pytest.raises(ValueError, match="Input y contains NaN") as raised:
            metric.fit_batches(lambda: [(X, y), (X, y * np.nan)])
        assert "in batch 1 of make_batches()" in raised.value.__notes__

    def test_no_batches(self):
        with pytest.raises(ValueError, match="returned no samples"):
            GenerativeRegressionMetric("slices").fit_batches(list)
        with pytest.raises(TypeError, match="make_batches must be a function"):
            GenerativeRegressionMetric("slices").fit_batches([])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ones(200), "expects targets that vary; all values of y are 1"),
        (np.array(["a", "b", "c", "d"] * 50), "expects numeric targets.*GenerativeMetric"),
        (np.arange(200).astype("datetime64[D]"), "expects numeric targets"),
        (np.r_[np.nan, np.arange(199)], "Input y contains NaN"),
        (np.r_[np.inf, np.arange(199)], "Input y contains infinity"),
        (None, "requires y to be passed"),
    ],
)
def test_invalid_targets(y, message):
    with pytest.raises(ValueError, match=message):
        GenerativeRegressionMetric().fit(problem()[0], y)


def test_numbers_as_objects():
    X, y = problem()
    expected = GenerativeRegressionMetric().fit(X, y).metric_
    for targets in (y.astype(object), list(y), y.astype(str)):
        found = GenerativeRegressionMetric().fit(X, targets).metric_
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "slice"}, "method must be 'combined', 'kernel' or 'slices'; got 'slice'"),
        ({"n_slices": 1}, "n_slices must be None or an integer >= 2; got 1"),
        (
            {"density_model": "gaussian"},
            "must be None, a GaussianModel or a GaussianMixtureModel; got 'gaussian'",
        ),
        ({"interpolation": 1.5}, r"interpolation must be a number in \[0, 1\]; got 1.5"),
        ({"n_components": 9}, r"n_components"),
    ],
)
def test_invalid_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        GenerativeRegressionMetric(**parameters).fit(*problem())


def test_in_kernel_regression():
    X, y = load_diabetes(return_X_y=True)
    model = KernelRegressor(GenerativeRegressionMetric()).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.4
