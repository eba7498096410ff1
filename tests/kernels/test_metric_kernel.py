import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, minmax_scale
from sklearn.svm import SVC

from genmetric import GenerativeMetric, metric_kernel


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    X = minmax_scale(X, (-1, 1))
    return X, y, GenerativeMetric().fit(X, y)


def naive_kernel(M, X, Y, scale, sigma2):
    return np.array([[np.exp(-scale * (x - y) @ M @ (x - y) / sigma2) for y in Y] for x in X])


def median_square(M, Y):
    return np.median([(Y[i] - Y[j]) @ M @ (Y[i] - Y[j]) for i in range(len(Y)) for j in range(i)])


@pytest.mark.parametrize("sigma2", [None, 3.0])
def test_gaussian_kernel_of_a_metric(wine, sigma2):
    X, _, metric = wine
    kernel = metric_kernel(metric, scale=2.0, sigma2=sigma2)
    unit = median_square(metric.metric_, X[:40]) if sigma2 is None else sigma2
    expected = naive_kernel(metric.metric_, X[40:60], X[:40], 2.0, unit)
    np.testing.assert_allclose(kernel(X[40:60], X[:40]), expected, rtol=1e-8, atol=1e-14)
    own = kernel(X[:40])
    np.testing.assert_array_equal(np.diag(own), 1)
    np.testing.assert_allclose(own, kernel(X[:40], X[:40].copy()), rtol=1e-12)


def test_median_squared_distance_is_the_unit():
    def unit(Z):  # from exp(-d / unit) of the first pair of different samples
        other = np.flatnonzero((Z[0] != Z).any(axis=1))[0]
        d = ((Z[0] - Z[other]) ** 2).sum()
        return -d / np.log(metric_kernel(np.eye(Z.shape[1]))(Z[:1], Z)[0, other])

    rng = np.random.default_rng(0)
    Z = rng.normal(size=(300, 3))
    assert unit(Z) == pytest.approx(median_square(np.eye(3), Z))
    # More than half of the pairs coincide: the mean of the other pairs.
    assert unit(np.repeat([[0.0], [2.0]], [9, 1], axis=0)) == pytest.approx(4.0)
    many = rng.normal(size=(10_000, 2))
    assert unit(many) == pytest.approx(unit(many[::7]), rel=0.1)


def test_linear_kernel_of_a_metric(wine):
    X, _, metric = wine
    expected = X[:5] @ metric.metric_ @ X[5:9].T
    np.testing.assert_allclose(metric_kernel(metric, "linear")(X[:5], X[5:9]), expected)
    by_matrix = metric_kernel(metric.metric_, "linear")
    np.testing.assert_allclose(by_matrix(X[:5], X[5:9]), expected)


def test_matrix_pipeline_and_transformer_agree(wine):
    X, y, metric = wine
    expected = metric_kernel(metric)(X[:9], X)
    np.testing.assert_allclose(metric_kernel(metric.metric_)(X[:9], X), expected, rtol=1e-8)
    pipeline = make_pipeline(StandardScaler(with_std=False), GenerativeMetric()).fit(X, y)
    np.testing.assert_allclose(metric_kernel(pipeline)(X[:9], X), expected, rtol=1e-6)
    # A transformer whose components are not all there is to it.
    white = PCA(3, whiten=True).fit(X)
    Z = white.transform(X)
    unit = median_square(np.eye(3), Z)
    np.testing.assert_allclose(
        metric_kernel(white)(X[:4], X), naive_kernel(np.eye(3), Z[:4], Z, 1.0, unit), rtol=1e-8
    )


@pytest.mark.parametrize("kind", ["rbf", "linear"])
def test_kernel_of_svc(wine, kind):
    X, y, _ = wine
    metric = GenerativeMetric().fit(X[::2], y[::2])
    kernel = metric_kernel(metric, kind)
    svm = SVC(kernel=kernel, C=10).fit(X[::2], y[::2])
    assert svm.score(X[1::2], y[1::2]) > 0.9
    # Equal to a Gaussian or linear SVM on the transformed samples.
    Z = metric.transform(X)
    if kind == "linear":
        plain = SVC(kernel="linear", C=10).fit(Z[::2], y[::2])
    else:
        gamma = 1 / median_square(np.eye(13), Z[::2])
        plain = SVC(gamma=gamma, C=10).fit(Z[::2], y[::2])
    np.testing.assert_array_equal(svm.predict(X[1::2]), plain.predict(Z[1::2]))


def test_search_copy_and_pickle(wine):
    X, y, metric = wine
    kernels = [metric_kernel(metric, scale=scale) for scale in (0.1, 1.0)]
    search = GridSearchCV(SVC(), {"kernel": kernels}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert clone(search.best_estimator_).kernel.scale == search.best_params_["kernel"].scale
    for twin in (copy.deepcopy(kernels[0]), pickle.loads(pickle.dumps(kernels[0]))):
        np.testing.assert_array_equal(twin(X[:3], X), kernels[0](X[:3], X))


def test_kernel_independent_of_later_fits(wine):
    X, y, _ = wine
    metric = GenerativeMetric().fit(X, y)
    kernel = metric_kernel(metric)
    before = kernel(X[:3], X)
    metric.components_ *= 7
    np.testing.assert_array_equal(kernel(X[:3], X), before)


def test_pairs_of_single_samples(wine):
    X, y, metric = wine
    kernel = metric_kernel(metric, sigma2=4.0)
    assert kernel(X[0], X[1]) == pytest.approx(kernel(X[:1], X[1:2])[0, 0])
    assert KernelRidge(kernel=kernel).fit(X[:30], y[:30]).predict(X[:2]).shape == (2,)
    with pytest.raises(ValueError, match="Pass sigma2"):
        metric_kernel(metric)(X[0], X[1])


def test_float32_stays_float32(wine):
    X, _, metric = wine
    single = metric_kernel(metric)(X.astype(np.float32), X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, metric_kernel(metric)(X), atol=1e-4)


@pytest.mark.parametrize("size", [1e-90, 1e90])
def test_invariant_to_scale(wine, size):
    X, _, metric = wine
    found = metric_kernel(metric.metric_)(X[:5] * size, X * size)
    np.testing.assert_allclose(found, metric_kernel(metric)(X[:5], X), rtol=1e-7)


def test_invariant_to_offset():
    X = np.random.default_rng(0).integers(0, 100, size=(20, 3)).astype(float)
    M = np.diag([1.0, 2.0, 3.0])
    np.testing.assert_allclose(metric_kernel(M)(X + 1e10), metric_kernel(M)(X), rtol=1e-12)
    np.testing.assert_array_equal(metric_kernel(M)(np.ones((3, 3))), 1)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        ((np.eye(2), "cubic"), {}, ValueError, "kind must be"),
        ((np.eye(2),), {"scale": 0}, ValueError, "scale must be"),
        ((np.eye(2),), {"sigma2": -1.0}, ValueError, "sigma2 must be"),
        ((np.ones((2, 3)),), {}, TypeError, r"square matrix M; got ndarray of shape \(2, 3\)"),
        ((RBF(),), {}, TypeError, "square matrix M; got RBF"),
        ((np.diag([1.0, np.nan]),), {}, ValueError, "NaN"),
        ((np.diag([1.0, -1.0]),), {}, ValueError, "positive semidefinite"),
        ((np.array([[1.0, 0.5], [0.0, 1.0]]),), {}, ValueError, "symmetric"),
    ],
)
def test_invalid_arguments(arguments, options, error, text):
    with pytest.raises(error, match=text):
        metric_kernel(*arguments, **options)


@pytest.mark.parametrize("metric", [GenerativeMetric(), PCA()])
def test_unfitted_metric(metric):
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        metric_kernel(metric)


def test_invalid_samples(wine):
    X, _, metric = wine
    kernel = metric_kernel(metric)
    with pytest.raises(ValueError, match="X has 2 features, but the metric is expecting 13"):
        kernel(X[:, :2], X)
    with pytest.raises(ValueError, match="NaN"):
        kernel(np.full((1, 13), np.nan), X)
    with pytest.raises(TypeError, match="masked"):
        kernel(np.ma.masked_array(X))
