"""LocalMetricClassifier: against loops over the paper's formulas, and as an estimator."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone
from sklearn.covariance import OAS
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric import GaussianMixtureModel, GaussianModel, LocalMetricClassifier
from genmetric.datasets import load_iris, load_vehicle, load_wine

X, Y = load_iris(return_X_y=True)
TRAIN, TEST = slice(0, None, 2), slice(1, None, 2)


def loop(naive, classifier, x, priors=None):
    """Distances of one query to all training rows in its own metric, by the formulas."""
    means, covariances = naive.moments(X[TRAIN], Y[TRAIN], classifier.shrinkage)
    M = naive.local_metric(naive.phi(x, means, covariances, priors))
    A = (1 - classifier.interpolation) * np.eye(len(x)) + classifier.interpolation * M
    return np.sqrt([(x - row) @ A @ (x - row) for row in X[TRAIN]])


@pytest.mark.parametrize("interpolation", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("shrinkage", [None, 0.2])
@pytest.mark.parametrize("priors", [None, [1, 2, 7]])
def test_neighbours_are_those_of_the_formulas(naive, interpolation, shrinkage, priors):
    model = LocalMetricClassifier(
        4, interpolation=interpolation, shrinkage=shrinkage, priors=priors
    ).fit(X[TRAIN], Y[TRAIN])
    distances, rows = model.kneighbors(X[TEST])
    shares, labels = model.predict_proba(X[TEST]), model.predict(X[TEST])
    for i, x in enumerate(X[TEST]):
        d = loop(naive, model, x, priors)
        np.testing.assert_allclose(distances[i], np.sort(d)[:4], rtol=1e-6)
        np.testing.assert_allclose(distances[i], d[rows[i]], rtol=1e-6)
        votes = np.bincount(Y[TRAIN][rows[i]], minlength=3)
        np.testing.assert_array_equal(shares[i], votes / 4)
        assert labels[i] == np.argmax(votes)


class FixedCurvature(BaseEstimator):
    """A class model with a given curvature: two classes have the metric of its difference."""

    def __init__(self, curvatures=()):
        self.curvatures = curvatures

    def fit(self, X):
        self.curvature_ = self.curvatures[int(X[:, 0].mean() > 0)]
        return self

    def log_density(self, X):
        return np.zeros(len(X))

    def gradient(self, X):
        return np.zeros(X.shape)

    def curvature(self, X):
        return np.tile(self.curvature_, (len(X), 1, 1))


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(20, 300),
    st.integers(1, 24),
    st.sampled_from([0.0, 1.0, 4.0]),
    st.sampled_from([0.0, 1e-3, 1e-6]),
    st.sampled_from([1.0, 30.0, 1e6]),
    st.sampled_from([0.01, 0.5, 1.0]),
)
def test_search_in_any_metric(naive, seed, n, n_features, spread, crowd, far, interpolation):
    """Eigenvalues over `spread` powers of ten, a crowd of samples in one place, distant queries."""
    rng = np.random.default_rng(seed)
    Z, y = rng.normal(size=(n, n_features)), np.arange(n) % 2
    Z[:, 0] += np.where(y, 9, -9)
    if crowd:
        Z[: n // 2] = Z[:2][y[: n // 2]] + crowd * rng.normal(size=(n // 2, n_features))
    queries = np.r_[Z[:2] + crowd * rng.normal(size=(2, n_features)), far * Z[-2:], Z[3:4]]
    U = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0]
    signs = np.where(rng.random(n_features) < 0.5, -1, 1)
    Phi = (U * (signs * 10 ** rng.uniform(0, spread, n_features))) @ U.T
    curvatures = np.array([np.zeros((n_features, n_features)), (Phi + Phi.T) / 2])
    k = min(int(rng.integers(1, 13)), n - 1)
    model = LocalMetricClassifier(
        k, interpolation=interpolation, class_model=FixedCurvature(curvatures)
    ).fit(Z, y)
    A = (1 - interpolation) * np.eye(n_features) + interpolation * naive.local_metric(curvatures[1])
    for own in (False, True):
        distances, rows = model.kneighbors(None if own else queries)
        for i, x in enumerate((Z if own else queries)[:5]):
            d = np.sqrt([(x - row) @ A @ (x - row) for row in Z])
            # What the loop itself rounds away: it forms the metric, and differences to far queries.
            tolerance = {"rtol": 1e-6, "atol": 1e-7 * d.max()}
            d[i if own else []] = np.inf
            np.testing.assert_allclose(distances[i], np.sort(d)[:k], **tolerance)
            np.testing.assert_allclose(distances[i], d[rows[i]], **tolerance)
            assert len(set(rows[i])) == k


def test_equal_distances_are_ordered_by_index():
    Z = np.repeat(np.eye(3), 40, axis=0)
    model = LocalMetricClassifier(50, interpolation=0.0).fit(Z, np.arange(120) % 2)
    _, rows = model.kneighbors(Z[40:41])
    assert rows[0].tolist() == [*range(40, 80), *range(10)]


def test_without_interpolation_it_is_euclidean():
    Z, y = load_vehicle(return_X_y=True)
    Z = StandardScaler().fit_transform(Z)
    ours = LocalMetricClassifier(7, interpolation=0.0).fit(Z[:600], y[:600])
    theirs = KNeighborsClassifier(7, algorithm="brute").fit(Z[:600], y[:600])
    for a, b in zip(ours.kneighbors(Z[600:]), theirs.kneighbors(Z[600:]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_array_equal(ours.predict(Z[600:]), theirs.predict(Z[600:]))


def test_training_samples_are_not_their_own_neighbours():
    Z = X + 1e-6 * np.random.default_rng(0).normal(size=X.shape)  # no equal samples
    model = LocalMetricClassifier(3).fit(Z, Y)
    distances, rows = model.kneighbors(Z, 8)
    own, rows_own = model.kneighbors(n_neighbors=7)
    np.testing.assert_array_equal(rows[:, 0], np.arange(150))
    np.testing.assert_array_equal(rows_own, rows[:, 1:])
    np.testing.assert_allclose(own, distances[:, 1:], rtol=1e-9)
    votes = np.array([np.bincount(Y[r], minlength=3) for r in rows_own[:, :3]])
    np.testing.assert_array_equal(model.predict_proba(None), votes / 3)
    np.testing.assert_array_equal(model.predict(None), votes.argmax(axis=1))
    np.testing.assert_array_equal(model.kneighbors(Z, return_distance=False), rows[:, :3])
    assert model.kneighbors(n_neighbors=149)[0].shape == (150, 149)


def test_result_does_not_depend_on_n_jobs():
    Z = np.tile(X, (12, 1)) + np.random.default_rng(0).normal(size=(1800, 4))  # several chunks
    one, many = (LocalMetricClassifier(n_jobs=n).fit(Z, np.tile(Y, 12)) for n in (1, 3))
    for a, b in zip(one.kneighbors(), many.kneighbors(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("offset", "scale"), [(0, 2.0**-300), (0, 2.0**300), (1e10, 1.0)])
def test_offsets_and_scales(offset, scale):
    Z = np.round(X * 2**8) / 2**8  # exact with the offset too
    plain = LocalMetricClassifier().fit(Z[TRAIN], Y[TRAIN]).kneighbors(Z[TEST])
    moved = LocalMetricClassifier().fit(scale * (Z[TRAIN] + offset), Y[TRAIN])
    distances, rows = moved.kneighbors(scale * (Z[TEST] + offset))
    np.testing.assert_allclose(distances / scale, plain[0], rtol=1e-6, atol=1e-6)
    if offset == 0:
        np.testing.assert_array_equal(rows, plain[1])


def test_float32_in_float32_out():
    model = LocalMetricClassifier().fit(X[TRAIN].astype(np.float32), Y[TRAIN])
    distances, rows = model.kneighbors(X[TEST].astype(np.float32))
    assert distances.dtype == model.kneighbors()[0].dtype == np.float32
    exact, _ = LocalMetricClassifier().fit(X[TRAIN], Y[TRAIN]).kneighbors(X[TEST])
    np.testing.assert_allclose(distances, exact, rtol=1e-3, atol=1e-5)
    assert rows.dtype == np.intp


def test_class_models():
    by_default = LocalMetricClassifier(shrinkage=0.3).fit(X, Y)
    as_model = LocalMetricClassifier(class_model=GaussianModel(shrinkage=0.3)).fit(X, Y)
    np.testing.assert_allclose(as_model.kneighbors()[0], by_default.kneighbors()[0], rtol=1e-9)
    for c in range(3):
        rows = X[50 * c : 50 * c + 50]
        S = np.cov(rows.T, bias=True)
        expected = 0.7 * S + 0.3 * np.trace(S) / 4 * np.eye(4)
        np.testing.assert_allclose(by_default.covariances_[c], expected, rtol=1e-9)
        np.testing.assert_allclose(by_default.means_[c], rows.mean(axis=0))
    oas = LocalMetricClassifier(class_model=GaussianModel(covariance_estimator=OAS())).fit(X, Y)
    np.testing.assert_allclose(oas.covariances_[0], OAS().fit(X[Y == 0]).covariance_, rtol=1e-9)
    mixture = LocalMetricClassifier(class_model=GaussianMixtureModel(2), random_state=0)
    first, second = mixture.fit(X, Y).kneighbors(), clone(mixture).fit(X, Y).kneighbors()
    np.testing.assert_array_equal(first[0], second[0])
    Z, y = np.c_[X, np.ones(150)], np.r_[3, Y[1:]]
    with pytest.warns(UserWarning, match=r"Classes \[3\] have a single sample"):
        model = LocalMetricClassifier(1).fit(Z, y)
    np.testing.assert_array_equal(model.predict(Z), y)


def test_pipelines_grids_and_frames():
    Z, y = load_wine(return_X_y=True)
    frame = pd.DataFrame(Z).rename(columns=str)
    names = pd.Series(np.array(["red", "rosé", "white"])[y])
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), LocalMetricClassifier()),
        {
            "localmetricclassifier__n_neighbors": [1, 5],
            "localmetricclassifier__interpolation": [0.1, 0.9],
        },
        cv=3,
    ).fit(frame, names)
    assert grid.best_score_ > 0.93
    model = LocalMetricClassifier().fit(frame, names)
    assert model.feature_names_in_.tolist() == list(frame)
    assert model.classes_.tolist() == ["red", "rosé", "white"]


INVALID = [
    ({"n_neighbors": 0}, "n_neighbors must be an integer >= 1; got 0"),
    ({"n_neighbors": 2.5}, "n_neighbors must be an integer >= 1"),
    ({"n_neighbors": 151}, "n_neighbors must be between 1 and 150, .* got 151. Use fewer"),
    ({"interpolation": 1.5}, "interpolation must be a number in .0, 1.; got 1.5"),
    ({"shrinkage": -1}, "shrinkage must be None"),
    ({"priors": [1, 2]}, "priors must be 3 positive numbers"),
    (
        {"class_model": GaussianModel(shrinkage=0.1, covariance_estimator=OAS())},
        "both define the covariance",
    ),
]


@pytest.mark.parametrize(("parameters", "message"), INVALID)
def test_invalid_parameters(parameters, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        LocalMetricClassifier(**parameters).fit(X, Y)


def test_invalid_input():
    with pytest.raises(ValueError, match="at least 2 classes; got 1 class"):
        LocalMetricClassifier().fit(X, np.zeros(150))
    with pytest.raises(TypeError, match=r"class_model=.*has no method"):
        LocalMetricClassifier(class_model=StandardScaler()).fit(X, Y)
    model = LocalMetricClassifier().fit(X, Y)
    with pytest.raises(TypeError, match="X is a masked array"):
        model.predict(np.ma.masked_array(X, X > 7))
    with pytest.raises(ValueError, match="outliers"):
        model.predict(1e200 * X)
    with pytest.raises(ValueError, match=r"n_neighbors must be between 1 and 149, .* got 150\."):
        model.kneighbors(n_neighbors=150)
    with pytest.raises(ValueError, match="n_neighbors must be an integer"):
        model.kneighbors(X, n_neighbors=-1)
