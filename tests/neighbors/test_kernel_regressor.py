"""Kernel regression against loops over pairs of samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator

from genmetric import KernelRegressor


def data(seed=0, n=40, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)


def naive(x, X, y, h, weight=None):
    d = np.array([sum((x - xi) ** 2) for xi in X])
    k = np.exp(-(d - d.min()) / (2 * h**2)) * (1 if weight is None else weight)
    return float(np.dot(k, y) / np.sum(k))


def naive_error(X, y, h):
    """Mean squared error of leaving each sample out."""
    others = [np.delete(np.arange(len(X)), i) for i in range(len(X))]
    return np.mean([(naive(X[i], X[o], y[o], h) - y[i]) ** 2 for i, o in enumerate(others)])


@given(st.integers(0, 10**6), st.floats(0.3, 10))
@settings(max_examples=25)
def test_predictions_equal_a_loop(seed, h):
    X, y = data(seed)
    queries = X[:5] + 0.1
    weight = np.random.default_rng(seed).uniform(0.5, 3, len(X))
    expected = [naive(q, X, y, h, weight) for q in queries]
    model = KernelRegressor(bandwidth=h).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.predict(queries), expected, rtol=1e-9, atol=1e-9)
    assert model.bandwidth_ == pytest.approx(h)
    assert not hasattr(model, "loo_error_")


@given(st.integers(0, 10**6))
@settings(max_examples=4)
def test_the_bandwidth_has_the_smallest_leave_one_out_error(seed):
    X, y = data(seed, n=25)
    model = KernelRegressor().fit(X, y)
    assert model.loo_error_ == pytest.approx(naive_error(X, y, model.bandwidth_), rel=1e-8)
    candidates = np.geomspace(model.bandwidth_ / 30, model.bandwidth_ * 30, 30)
    # Golden section refines the best bandwidth of the grid; another dip may be a little deeper.
    assert model.loo_error_ <= min(naive_error(X, y, h) for h in candidates) * 1.01


def test_a_weight_of_two_is_the_sample_twice():
    X, y = data()
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    repeated = np.repeat(np.arange(len(X)), weight)
    a = KernelRegressor().fit(X, y, sample_weight=weight)
    b = KernelRegressor().fit(X[repeated], y[repeated])
    assert a.bandwidth_ == pytest.approx(b.bandwidth_, rel=1e-6)
    assert a.loo_error_ == pytest.approx(b.loo_error_, rel=1e-8)
    np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-6, atol=1e-9)


def test_limits_of_the_bandwidth():
    X, y = data()
    new = X[:7] + 1e-3
    nearest = KernelRegressor(bandwidth=1e-300).fit(X, y).predict(new)
    np.testing.assert_allclose(nearest, y[:7])
    mean = KernelRegressor(bandwidth=1e300).fit(X, y).predict(new)
    np.testing.assert_allclose(mean, y.mean())
    equal = KernelRegressor().fit(np.ones((5, 2)), np.arange(5.0))
    np.testing.assert_allclose(equal.predict(np.ones((1, 2))), [2.0])


def test_many_samples_and_threads():
    X, y = data(n=1200)  # several chunks
    one, three = (KernelRegressor(n_jobs=jobs).fit(X, y) for jobs in (1, 3))
    np.testing.assert_array_equal(one.predict(X), three.predict(X))
    assert one.bandwidth_ == three.bandwidth_
    assert one.loo_error_ == three.loo_error_


@pytest.mark.parametrize("scale", [1e-90, 1e90])
def test_scales_of_the_samples(scale):
    X, y = data()
    plain = KernelRegressor().fit(X, y)
    scaled = KernelRegressor().fit(scale * X, y)
    np.testing.assert_allclose(scaled.predict(scale * X), plain.predict(X), rtol=1e-6)
    assert scaled.bandwidth_ == pytest.approx(scale * plain.bandwidth_, rel=1e-6)


@pytest.mark.parametrize(("shift", "scale"), [(1e6, 1.0), (0.0, 1e-100), (-3.0, 1e100)])
def test_shift_and_scale_of_the_targets(shift, scale):
    X, y = data()
    plain = KernelRegressor().fit(X, y)
    moved = KernelRegressor().fit(X, shift + scale * y)
    assert moved.bandwidth_ == pytest.approx(plain.bandwidth_, rel=1e-3)
    np.testing.assert_allclose(moved.predict(X), shift + scale * plain.predict(X), rtol=1e-5)


def test_a_metric_is_cloned_and_fitted():
    X, y = data()
    metric = PCA(2)
    fitted = KernelRegressor(metric).fit(X, y)
    assert not hasattr(metric, "components_")
    z = fitted.metric_estimator_.transform(X)
    np.testing.assert_allclose(fitted.predict(X), KernelRegressor().fit(z, y).predict(z))
    frozen = KernelRegressor(FrozenEstimator(PCA(2).fit(X))).fit(X, y)
    np.testing.assert_allclose(frozen.predict(X), fitted.predict(X))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array(["a", "b"] * 20), "expects numeric targets.*GenerativeMetric"),
        (np.r_[np.nan, np.ones(39)], "Input y contains NaN"),
        (np.full(40, 1e200), "squares overflow float64. Divide y"),
        (None, "requires y to be passed"),
    ],
)
def test_invalid_targets(y, message):
    with pytest.raises(ValueError, match=message):
        KernelRegressor().fit(data()[0], y)


@pytest.mark.parametrize("bandwidth", [0, -1.0, np.nan, np.inf, "auto", True])
def test_invalid_parameters(bandwidth):
    with pytest.raises(ValueError, match="bandwidth must be None or a number > 0; got"):
        KernelRegressor(bandwidth=bandwidth).fit(*data())
    with pytest.raises(ValueError, match="metric must be None or an object with the methods fit"):
        KernelRegressor(metric="euclidean").fit(*data())


@pytest.mark.parametrize("far", [1e154, 1e300])
def test_queries_very_far_away_are_an_error(far):
    X, y = data()
    model = KernelRegressor().fit(X, y)
    with np.errstate(all="raise"):
        assert np.isfinite(model.predict(np.full((1, X.shape[1]), 1e90))).all()
        with pytest.raises(ValueError, match=r"spreads away .* Check X for outliers"):
            model.predict(np.full((1, X.shape[1]), far))
