"""Distances, pairs and the contract of metric-learn."""

import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier

from genmetric import GenerativeMetric

X, Y = load_iris(return_X_y=True)


@pytest.fixture(scope="module", params=[None, 2], ids=["full", "two components"])
def fitted(request):
    return GenerativeMetric(n_components=request.param).fit(X, Y)


@pytest.fixture
def pairs(rng):
    return X[rng.integers(0, 150, size=(40, 2))]


def test_one_distance_in_many_forms(fitted, pairs):
    M = fitted.get_mahalanobis_matrix()
    np.testing.assert_allclose(M, fitted.metric_, rtol=1e-12)
    metric = fitted.get_metric()
    distances = fitted.pair_distance(pairs)
    for (u, v), distance in zip(pairs, distances, strict=True):
        # SciPy's takes the inverse covariance, which is the metric.
        np.testing.assert_allclose(distance, mahalanobis(u, v, M), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(metric(u, v), distance, rtol=1e-12)
        np.testing.assert_allclose(metric(u, v, squared=True), distance**2, rtol=1e-12)
        z = fitted.transform([u, v])
        np.testing.assert_allclose(np.linalg.norm(z[0] - z[1]), distance, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(fitted.pair_score(pairs), -distances)


def test_a_metric_is_a_metric(fitted, rng):
    metric = fitted.get_metric()
    for u, v, w in X[rng.integers(0, 150, size=(50, 3))]:
        assert metric(u, v) == metric(v, u)
        assert metric(u, u) == 0
        assert metric(u, w) <= metric(u, v) + metric(v, w) + 1e-12


def test_get_metric_outlives_a_refit():
    estimator = GenerativeMetric().fit(X, Y)
    metric, M = estimator.get_metric(), estimator.get_mahalanobis_matrix()
    before = metric(X[0], X[60])
    estimator.components_ *= 2
    assert metric(X[0], X[60]) == before
    estimator.set_params(interpolation=0.2).fit(X, Y)
    assert metric(X[0], X[60]) == before
    assert estimator.get_metric()(X[0], X[60]) != before
    np.testing.assert_allclose(np.sqrt((X[0] - X[60]) @ M @ (X[0] - X[60])), before)


def test_get_mahalanobis_matrix_is_a_copy(fitted):
    M = fitted.get_mahalanobis_matrix()
    M[:] = 0
    assert fitted.get_mahalanobis_matrix().any()


def test_the_metric_in_a_scikit_learn_estimator(fitted):
    by_metric = KNeighborsClassifier(3, metric=fitted.get_metric()).fit(X[::2], Y[::2])
    by_space = KNeighborsClassifier(3).fit(fitted.transform(X[::2]), Y[::2])
    np.testing.assert_allclose(
        by_metric.kneighbors(X[1::4])[0], by_space.kneighbors(fitted.transform(X[1::4]))[0]
    )


@pytest.mark.parametrize("shapes", [(3, 3), (4, 3), (5, 5)])
def test_metric_refuses_samples_of_another_length(fitted, shapes):
    u, v = (np.zeros(n) for n in shapes)
    with pytest.raises(ValueError, match=r"two samples of 4 features; got shapes"):
        fitted.get_metric()(u, v)


def test_preprocessor_as_array_and_as_function(rng):
    index = np.arange(150)
    expected = GenerativeMetric().fit(X, Y)
    index_pairs = rng.integers(0, 150, size=(10, 2))
    for preprocessor in (X, X.tolist(), lambda indices: X[indices]):
        estimator = GenerativeMetric(preprocessor=preprocessor).fit(index, Y)
        np.testing.assert_array_equal(estimator.metric_, expected.metric_)
        np.testing.assert_array_equal(estimator.transform(index[:9]), expected.transform(X[:9]))
        distances = expected.pair_distance(X[index_pairs])
        np.testing.assert_array_equal(estimator.pair_distance(index_pairs), distances)
        # Rows still pass as rows.
        np.testing.assert_array_equal(estimator.transform(X[:9]), expected.transform(X[:9]))
        np.testing.assert_array_equal(estimator.pair_distance(X[index_pairs]), distances)


@pytest.mark.parametrize("indices", [[0, 150], [0.5, 1.0]])
def test_preprocessor_without_these_indices(indices):
    estimator = GenerativeMetric(preprocessor=X).fit(X, Y)
    with pytest.raises(ValueError, match=r"preprocessor has 150 samples.*integers below 150"):
        estimator.transform(indices)


def test_points_and_tuples_of_wrong_shape(fitted):
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        fitted.transform(X[0])
    with pytest.raises(ValueError, match=r"\(n_tuples, 2, n_features\); got shape \(150, 4\)"):
        fitted.pair_distance(X)
    with pytest.raises(ValueError, match=r"\(n_tuples, 2, n_features\); got shape \(5, 3, 4\)"):
        fitted.pair_distance(np.zeros((5, 3, 4)))
    with pytest.raises(ValueError, match=r"pairs have 3 features.*expecting 4 features"):
        fitted.pair_distance(np.zeros((5, 2, 3)))
    with pytest.raises(ValueError, match="NaN"):
        fitted.pair_distance(np.full((5, 2, 4), np.nan))


@pytest.mark.parametrize("size", [1e-90, 1e90])
def test_distances_of_any_size(fitted, size):
    pairs = size * X[[[0, 60], [3, 120]]]
    distances = fitted.pair_distance(pairs)
    np.testing.assert_allclose(distances / size, fitted.pair_distance(pairs / size), rtol=1e-9)
    assert (distances > 0).all()


def test_equal_samples_have_distance_zero(fitted):
    assert not fitted.pair_distance(X[[[3, 3], [7, 7]]]).any()


def test_inverse_transform(fitted):
    Z = fitted.transform(X)
    if Z.shape[1] < 4:
        with pytest.raises(
            ValueError, match=r"\(2, 4\): 2 dimensions were dropped.*n_components=None"
        ):
            fitted.inverse_transform(Z)
        return
    np.testing.assert_allclose(fitted.inverse_transform(Z), X, rtol=1e-9)
    with pytest.raises(ValueError, match=r"X has 3 columns, but the learned space has 4"):
        fitted.inverse_transform(Z[:, :3])


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("transform", [X]),
        ("inverse_transform", [X]),
        ("pair_distance", [X[:, None]]),
        ("pair_score", [X[:, None]]),
        ("get_metric", []),
        ("get_mahalanobis_matrix", []),
        ("local_metrics", [X]),
        ("curvature", [X]),
        ("bias", [X]),
        ("get_feature_names_out", []),
    ],
)
def test_before_fit(method, arguments):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(GenerativeMetric(), method)(*arguments)
