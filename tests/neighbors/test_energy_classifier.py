"""EnergyClassifier as an estimator: metrics, margins, scales, bad input."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from genmetric import GenerativeMetric, _chunks
from genmetric.datasets import load_iris, load_vehicle, load_wine
from genmetric.neighbors import EnergyClassifier

X, Y = load_iris(return_X_y=True)
TRAIN, TEST = slice(0, None, 2), slice(1, None, 2)
BINARY = Y > 0


def energies_loop(A, y, x, k, margin, push):
    """Energies of one row in every class; classes of more than k rows only."""
    d = ((A - x) ** 2).sum(axis=1)
    found = []
    for c in np.unique(y):
        near = np.sort(d[y == c])[:k]
        total = (1 - push) * near.sum()
        total += push * sum(np.maximum(margin + j - d[y != c], 0).sum() for j in near)
        for i in np.flatnonzero(y != c):
            same = ((A[(y == y[i]) & (np.arange(len(y)) != i)] - A[i]) ** 2).sum(axis=1)
            total += push * np.maximum(margin + np.sort(same)[:k] - d[i], 0).sum()
        found.append(total)
    return np.array(found)


def gamma(A, y):
    gaps = []
    for i in range(len(A)):
        d = ((A - A[i]) ** 2).sum(axis=1)
        d[i] = np.inf
        gaps.append(d[y != y[i]].min() - d[y == y[i]].min())
    return abs(np.median(gaps))


@pytest.mark.parametrize("metric", [None, GenerativeMetric(shrinkage=0.1), StandardScaler()])
@pytest.mark.parametrize(("k", "scale", "push"), [(3, 1.0, 0.5), (1, 0.3, 0.9), (5, 3.0, 0.1)])
def test_energies_are_those_of_the_formula(metric, k, scale, push):
    model = EnergyClassifier(metric, n_neighbors=k, margin_scale=scale, push=push)
    model.fit(X[TRAIN], Y[TRAIN])
    fitted = None if metric is None else clone(metric).fit(X[TRAIN], Y[TRAIN])
    A, B = (Z if fitted is None else fitted.transform(Z) for Z in (X[TRAIN], X[TEST]))
    assert model.margin_ == pytest.approx(scale * gamma(A, Y[TRAIN]))
    expected = np.array([energies_loop(A, Y[TRAIN], x, k, model.margin_, push) for x in B])
    np.testing.assert_allclose(model.decision_function(X[TEST]), -expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(model.predict(X[TEST]), expected.argmin(axis=1))


def test_a_margin_as_a_number_is_taken_as_it_is():
    model = EnergyClassifier(margin=0.7, margin_scale=5.0).fit(X[TRAIN], Y[TRAIN])
    assert model.margin_ == 0.7
    expected = [energies_loop(X[TRAIN], Y[TRAIN], x, 3, 0.7, 0.5) for x in X[TEST]]
    np.testing.assert_allclose(-model.decision_function(X[TEST]), expected, rtol=1e-8)


def test_difference_form():
    model = EnergyClassifier(energy="difference", n_neighbors=4).fit(X[TRAIN], Y[TRAIN])
    expected = []
    for x in X[TEST]:
        d = ((X[TRAIN] - x) ** 2).sum(axis=1)
        expected.append(
            [
                np.sort(d[Y[TRAIN] == c])[:4].sum() - np.sort(d[Y[TRAIN] != c])[:4].sum()
                for c in range(3)
            ]
        )
    np.testing.assert_allclose(-model.decision_function(X[TEST]), expected, atol=1e-10)
    np.testing.assert_array_equal(model.predict(X[TEST]), np.argmin(expected, axis=1))
    assert not hasattr(model, "margin_")
    model.set_params(energy="three-term").fit(X, Y)
    assert hasattr(model, "margin_")
    assert not hasattr(model.set_params(energy="difference").fit(X, Y), "margin_")


@pytest.mark.parametrize("energy", ["three-term", "difference"])
def test_two_classes_have_one_decision_value(energy):
    two = EnergyClassifier(energy=energy).fit(X, BINARY)
    values = two.decision_function(X + 0.05)
    assert values.shape == (150,)
    np.testing.assert_array_equal(two.predict(X + 0.05), values > 0)
    # A third class far away, whose rows neither invade nor are invaded, changes no other energy.
    if energy == "three-term":
        three = EnergyClassifier(margin=two.margin_).fit(
            np.r_[X, X[:9] + 1e4], np.r_[BINARY.astype(int), np.full(9, 2)]
        )
        scores = three.decision_function(X + 0.05)
        np.testing.assert_allclose(scores[:, 1] - scores[:, 0], values, atol=1e-4)


def test_one_neighbour_and_no_push_is_the_nearest_neighbour():
    Z, y = load_vehicle(return_X_y=True)
    Z = StandardScaler().fit_transform(Z)
    ours = EnergyClassifier(n_neighbors=1, push=0.0).fit(Z[:600], y[:600])
    theirs = KNeighborsClassifier(1, algorithm="brute").fit(Z[:600], y[:600])
    np.testing.assert_array_equal(ours.predict(Z[600:]), theirs.predict(Z[600:]))


def test_energies_beat_votes_on_vehicle():
    Z, y = load_vehicle(return_X_y=True)
    Z = StandardScaler().fit_transform(Z)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:560], order[560:]
    names = np.array(["bus", "opel", "saab", "van"])[y]
    metric = GenerativeMetric(shrinkage=None)
    votes = make_pipeline(clone(metric), KNeighborsClassifier(3)).fit(Z[train], names[train])
    model = EnergyClassifier(metric).fit(Z[train], names[train])
    assert model.classes_.tolist() == ["bus", "opel", "saab", "van"]
    assert not hasattr(metric, "components_")  # the clone was fitted
    assert model.metric_.components_.shape == (18, 18)
    assert model.score(Z[test], names[test]) >= votes.score(Z[test], names[test])


def test_a_frozen_metric_is_used_as_it_is():
    frame = pd.DataFrame(X, columns=list("abcd"))
    metric = GenerativeMetric().fit(frame[:100], Y[:100])
    components = metric.components_.copy()
    model = EnergyClassifier(FrozenEstimator(metric)).fit(frame, Y)
    np.testing.assert_array_equal(metric.components_, components)
    same = EnergyClassifier().fit(X @ components.T, Y)
    np.testing.assert_allclose(
        model.decision_function(frame + 0.1), same.decision_function((X + 0.1) @ components.T)
    )
    assert model.feature_names_in_.tolist() == list("abcd")


def test_metrics_of_other_shapes():
    reduced = EnergyClassifier(PCA(2)).fit(X, Y)
    assert reduced.score(X, Y) > 0.9
    in_frames = PCA(2).set_output(transform="pandas")
    np.testing.assert_array_equal(
        EnergyClassifier(in_frames).fit(X, Y).predict(X), reduced.predict(X)
    )
    chain = make_pipeline(StandardScaler(), GenerativeMetric(n_components=2))
    assert EnergyClassifier(chain).fit(X, Y).score(X, Y) > 0.9


def test_small_classes_stand_with_the_rows_they_have():
    # Three rows at distances 1, 2, 3 of one class against a lone row: it counts three times.
    rows, y = np.array([[1.0], [2.0], [3.0], [-2.0]]), np.array([0, 0, 0, 1])
    model = EnergyClassifier(push=0.0).fit(rows, y)
    assert model.decision_function([[0.0]])[0] == pytest.approx(1 + 4 + 9 - 3 * 4)
    # The lone row has no targets: nobody can invade its margin.
    model = EnergyClassifier(push=1.0, margin=100.0, n_neighbors=1).fit(rows, y)
    first = sum(100 + 1 - d for d in [4])  # class 0: target at 1, invader at -2
    second = sum(100 + 4 - d for d in [1, 4, 9])  # class 1: target at -2, three invaders
    third = sum(100 + 1 - d for d in [1, 4, 9])  # and their margins invaded
    assert model.decision_function([[0.0]])[0] == pytest.approx(first - second - third)
    every_row_alone = EnergyClassifier().fit([[0.0], [1.0], [5.0]], ["a", "b", "c"])
    assert every_row_alone.margin_ == 0.0
    assert every_row_alone.predict([[0.4], [0.6], [9.0]]).tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("energy", ["three-term", "difference"])
@pytest.mark.parametrize("metric", [None, GenerativeMetric(shrinkage=0.1)])
@pytest.mark.parametrize("scale", [2.0**-498, 2.0**498])
def test_any_scale(energy, metric, scale):
    plain = EnergyClassifier(metric, energy=energy).fit(X[TRAIN], Y[TRAIN])
    scaled = EnergyClassifier(metric, energy=energy).fit(scale * X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(scaled.predict(scale * X[TEST]), plain.predict(X[TEST]))
    np.testing.assert_allclose(
        scaled.decision_function(scale * X[TEST]) / scale / scale,
        plain.decision_function(X[TEST]),
        rtol=1e-8,
        atol=1e-8,
    )


@pytest.mark.parametrize("metric", [None, GenerativeMetric(shrinkage=0.1)])
def test_a_large_offset(metric):
    Z = np.round(X * 2**8) / 2**8  # exact with the offset too
    plain = EnergyClassifier(metric).fit(Z[TRAIN], Y[TRAIN])
    moved = EnergyClassifier(metric).fit(Z[TRAIN] + 1e10, Y[TRAIN])
    np.testing.assert_allclose(
        moved.decision_function(Z[TEST] + 1e10),
        plain.decision_function(Z[TEST]),
        rtol=1e-4,
        atol=1e-4,
    )


def test_duplicates_constants_and_float32():
    Z = np.c_[np.repeat(X, 2, axis=0), np.ones(300)].astype(np.float32)
    y = np.repeat(Y, 2)
    model = EnergyClassifier(GenerativeMetric()).fit(np.asfortranarray(Z), y)
    assert model.score(Z, y) > 0.97
    same = EnergyClassifier().fit(np.ones((6, 2)), [0, 0, 0, 1, 1, 1])
    assert same.margin_ == 0
    assert same.predict(np.ones((2, 2))).tolist() == [0, 0]


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_the_answer_does_not_depend_on_n_jobs(monkeypatch, n_jobs):
    monkeypatch.setattr(_chunks, "CHUNK_BYTES", 2**16)
    one = EnergyClassifier(n_jobs=1).fit(X, Y)
    many = EnergyClassifier(n_jobs=n_jobs).fit(X, Y)
    assert one.margin_ == many.margin_
    np.testing.assert_array_equal(one.decision_function(X + 0.1), many.decision_function(X + 0.1))
    np.testing.assert_array_equal(one.predict(X + 0.1), many.predict(X + 0.1))


def test_pipelines_and_grids():
    Z, y = load_wine(return_X_y=True)
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), EnergyClassifier(GenerativeMetric())),
        {
            "energyclassifier__metric__shrinkage": [None, "auto", 0.1],
            "energyclassifier__margin_scale": [0.3, 1.0],
            "energyclassifier__n_neighbors": [1, 3],
        },
        cv=3,
    ).fit(Z, y)
    assert grid.best_score_ > 0.95
    swap = GridSearchCV(EnergyClassifier(), {"metric": [None, PCA(2), GenerativeMetric()]}, cv=3)
    assert swap.fit(Z, y).best_params_["metric"] is not None


BAD = [
    ({"n_neighbors": 0}, ValueError, "n_neighbors must be a whole number of at least 1; got 0"),
    ({"n_neighbors": "3"}, ValueError, "n_neighbors must be a whole number"),
    ({"margin": -1}, ValueError, 'margin must be "auto" or a finite number of at least 0; got -1'),
    ({"margin": "wide"}, ValueError, 'margin must be "auto" or a finite number'),
    ({"margin": np.nan}, ValueError, 'margin must be "auto" or a finite number'),
    ({"margin_scale": np.inf}, ValueError, "margin_scale must be a finite number of at least 0"),
    ({"margin_scale": None}, ValueError, "margin_scale must be a finite number"),
    ({"push": 1.1}, ValueError, "push must be a number from 0 to 1; got 1.1"),
    ({"energy": "both"}, ValueError, r"energy must be one of \['three-term', 'difference'\]"),
    ({"energy": ["difference"]}, ValueError, "energy must be one of"),
    ({"metric": "euclidean"}, TypeError, "metric must be None or a transformer.*'euclidean'"),
    ({"metric": GenerativeMetric}, TypeError, "metric must be None or a transformer"),
    ({"metric": KNeighborsClassifier()}, TypeError, "metric must be None or a transformer"),
    ({"metric": FunctionTransformer(lambda Z: Z[:3])}, ValueError, "returned 3 rows for 150 rows"),
    ({"metric": FunctionTransformer(np.log)}, ValueError, "NaN|infinity"),
]


@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value) encountered:RuntimeWarning")
@pytest.mark.parametrize(("parameters", "error", "message"), BAD)
def test_bad_parameters(parameters, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        EnergyClassifier(**parameters).fit(X - 5, Y)


def test_bad_input():
    with pytest.raises(ValueError, match="at least 2 classes; got 1 class"):
        EnergyClassifier().fit(X, np.zeros(150))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        EnergyClassifier().fit(np.where(X > 7, np.nan, X), Y)
    with pytest.raises(TypeError, match="X is a masked array"):
        EnergyClassifier().fit(np.ma.masked_array(X, X > 7), Y)
    with pytest.raises(TypeError, match="y is a masked array"):
        EnergyClassifier().fit(X, np.ma.masked_array(Y, Y > 1))
    model = EnergyClassifier().fit(X, Y)
    for method in (model.predict, model.decision_function):
        with pytest.raises(TypeError, match="X is a masked array"):
            method(np.ma.masked_array(X, X > 7))
        with pytest.raises(ValueError, match="X has 3 features, but EnergyClassifier"):
            method(X[:, :3])


def test_far_rows():
    model = EnergyClassifier().fit(X, Y)
    far = 1e9 * (X[:100:99] - X.mean(axis=0))  # of classes 0 and 1, seen from the middle
    assert model.predict(far).tolist() == KNeighborsClassifier(1).fit(X, Y).predict(far).tolist()
    for size in (1e17, 1e300):
        with pytest.raises(ValueError, match=r"lies .* times the spread.*Check X for outliers"):
            model.predict(size * X)
