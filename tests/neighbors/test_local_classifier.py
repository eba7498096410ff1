"""LocalMetricClassifier: against loops over the paper's formulas, and as an estimator."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.covariance import OAS
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric import GaussianMixtureModel, GaussianModel, _chunks
from genmetric.datasets import load_iris, load_vehicle, load_wine
from genmetric.neighbors import LocalMetricClassifier

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


def test_without_interpolation_it_is_euclidean():
    Z, y = load_vehicle(return_X_y=True)
    Z = StandardScaler().fit_transform(Z)
    ours = LocalMetricClassifier(7, interpolation=0.0).fit(Z[:600], y[:600])
    theirs = KNeighborsClassifier(7, algorithm="brute").fit(Z[:600], y[:600])
    for a, b in zip(ours.kneighbors(Z[600:]), theirs.kneighbors(Z[600:]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_array_equal(ours.predict(Z[600:]), theirs.predict(Z[600:]))


def test_local_metrics_help_if_class_shapes_differ():
    Z, y = load_wine(return_X_y=True)
    Z = StandardScaler().fit_transform(Z)
    names = np.array(["red", "rosé", "white"])[y]
    model = LocalMetricClassifier(5).fit(Z[::2], names[::2])
    assert model.classes_.tolist() == ["red", "rosé", "white"]
    assert model.score(Z[1::2], names[1::2]) > 0.93


def test_training_samples_are_not_their_own_neighbours(naive):
    model = LocalMetricClassifier(3, shrinkage=0.1).fit(X[TRAIN], Y[TRAIN])
    distances, rows = model.kneighbors()
    for i, x in enumerate(X[TRAIN]):
        d = loop(naive, model, x)
        d[i] = np.inf
        np.testing.assert_allclose(distances[i], np.sort(d)[:3], rtol=1e-6, atol=1e-12)
        assert i not in rows[i]
    votes = np.array([np.bincount(Y[TRAIN][r], minlength=3) for r in rows])
    np.testing.assert_array_equal(model.predict_proba(None), votes / 3)


def test_kneighbors_has_the_arguments_of_scikit_learn():
    model = LocalMetricClassifier(3).fit(X, Y)
    distances, rows = model.kneighbors(X[:5], 8)
    assert distances.shape == rows.shape == (5, 8)
    assert (np.diff(distances, axis=1) >= 0).all()
    np.testing.assert_array_equal(rows[:, 0], np.arange(5))
    np.testing.assert_array_equal(model.kneighbors(X[:5], return_distance=False), rows[:, :3])
    assert model.kneighbors(n_neighbors=149)[0].shape == (150, 149)


@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_result_does_not_depend_on_n_jobs(monkeypatch, n_jobs):
    one = LocalMetricClassifier().fit(X, Y)
    monkeypatch.setattr(_chunks, "CHUNK_BYTES", 2**16)
    many = LocalMetricClassifier(n_jobs=n_jobs).fit(X, Y)
    one = LocalMetricClassifier(n_jobs=1).fit(X, Y)
    for a, b in zip(one.kneighbors(X + 0.1), many.kneighbors(X + 0.1), strict=True):
        np.testing.assert_array_equal(a, b)


def test_chunks_change_rounding_only(monkeypatch):
    whole = LocalMetricClassifier().fit(X, Y).kneighbors(X + 0.1)
    monkeypatch.setattr(_chunks, "CHUNK_BYTES", 1)
    model = LocalMetricClassifier().fit(X, Y)
    np.testing.assert_allclose(model.kneighbors(X + 0.1)[0], whole[0], rtol=1e-9)


@pytest.mark.parametrize("scale", [2.0**-498, 2.0**498])
def test_any_scale(scale):
    plain = LocalMetricClassifier().fit(X[TRAIN], Y[TRAIN]).kneighbors(X[TEST])
    scaled = LocalMetricClassifier().fit(scale * X[TRAIN], Y[TRAIN]).kneighbors(scale * X[TEST])
    np.testing.assert_allclose(scaled[0] / scale, plain[0], rtol=1e-9)
    np.testing.assert_array_equal(scaled[1], plain[1])


def test_a_large_offset():
    Z = np.round(X * 2**8) / 2**8  # exact with the offset too
    plain = LocalMetricClassifier().fit(Z[TRAIN], Y[TRAIN]).kneighbors(Z[TEST])
    moved = LocalMetricClassifier().fit(Z[TRAIN] + 1e10, Y[TRAIN]).kneighbors(Z[TEST] + 1e10)
    np.testing.assert_allclose(moved[0], plain[0], rtol=1e-6, atol=1e-6)


def test_float32_in_float32_out():
    model = LocalMetricClassifier().fit(X[TRAIN].astype(np.float32), Y[TRAIN])
    distances, rows = model.kneighbors(X[TEST].astype(np.float32))
    assert distances.dtype == np.float32
    assert model.kneighbors()[0].dtype == np.float32
    exact, _ = LocalMetricClassifier().fit(X[TRAIN], Y[TRAIN]).kneighbors(X[TEST])
    np.testing.assert_allclose(distances, exact, rtol=1e-3, atol=1e-5)
    assert rows.dtype == np.intp


def test_class_models():
    by_default = LocalMetricClassifier(shrinkage=0.3).fit(X, Y).kneighbors()[0]
    as_model = LocalMetricClassifier(class_model=GaussianModel(shrinkage=0.3)).fit(X, Y)
    np.testing.assert_allclose(as_model.kneighbors()[0], by_default, rtol=1e-9)
    oas = LocalMetricClassifier(class_model=GaussianModel(covariance_estimator=OAS())).fit(X, Y)
    assert oas.covariances_.shape == (3, 4, 4)
    mixture = LocalMetricClassifier(class_model=GaussianMixtureModel(2), random_state=0)
    first, second = mixture.fit(X, Y).kneighbors(), clone(mixture).fit(X, Y).kneighbors()
    np.testing.assert_array_equal(first[0], second[0])


def test_class_of_one_sample_and_constant_features():
    Z = np.c_[X, np.ones(150)]
    y = Y.copy()
    y[0] = 3
    with pytest.warns(UserWarning, match=r"Classes \[3\] have a single sample"):
        model = LocalMetricClassifier(1).fit(Z, y)
    np.testing.assert_array_equal(model.predict(Z), y)


def test_pipelines_grids_and_frames():
    frame = pd.DataFrame(X, columns=list("abcd"))
    names = pd.Series(Y).map({0: "x", 1: "y", 2: "z"})
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), LocalMetricClassifier()),
        {
            "localmetricclassifier__n_neighbors": [1, 5],
            "localmetricclassifier__interpolation": [0.1, 0.9],
            "localmetricclassifier__shrinkage": [None, "auto"],
        },
        cv=3,
    ).fit(frame, names)
    assert grid.best_score_ > 0.93
    assert LocalMetricClassifier().fit(frame, names).feature_names_in_.tolist() == list("abcd")


INVALID = [
    ({"n_neighbors": 0}, "n_neighbors must be an integer >= 1; got 0"),
    ({"n_neighbors": 2.5}, "n_neighbors must be an integer >= 1"),
    ({"n_neighbors": True}, "n_neighbors must be an integer >= 1"),
    ({"n_neighbors": 10**400}, "n_neighbors=1000.*, but only 150 training samples"),
    ({"n_neighbors": 151}, "n_neighbors=151, but only 150 training samples.*Use fewer"),
    ({"interpolation": 1.5}, "interpolation must be a number in .0, 1.; got 1.5"),
    ({"interpolation": "half"}, "interpolation must be a number in .0, 1.; got"),
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
    with pytest.raises(ValueError, match="Input X contains NaN"):
        LocalMetricClassifier().fit(np.where(X > 7, np.nan, X), Y)
    with pytest.raises(TypeError, match="X is a masked array"):
        LocalMetricClassifier().fit(np.ma.masked_array(X, X > 7), Y)
    with pytest.raises(TypeError, match="y is a masked array"):
        LocalMetricClassifier().fit(X, np.ma.masked_array(Y, Y > 1))
    with pytest.raises(TypeError, match=r"class_model=.*has no method"):
        LocalMetricClassifier(class_model=StandardScaler()).fit(X, Y)
    model = LocalMetricClassifier().fit(X, Y)
    with pytest.raises(TypeError, match="X is a masked array"):
        model.predict(np.ma.masked_array(X, X > 7))
    with pytest.raises(ValueError, match="outliers"):
        model.predict(1e200 * X)
    with pytest.raises(ValueError, match="n_neighbors=150, but only 149 training samples"):
        model.kneighbors(n_neighbors=150)
    with pytest.raises(ValueError, match="n_neighbors must be an integer"):
        model.kneighbors(X, n_neighbors=-1)
