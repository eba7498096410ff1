"""EnergyClassifier as an estimator: metrics, margins, forms, scales, invalid input."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from genmetric import GenerativeMetric, _chunks
from genmetric.datasets import load_iris, load_segment, load_vehicle, load_wine
from genmetric.neighbors import EnergyClassifier

X, Y = load_iris(return_X_y=True)
TRAIN, TEST = slice(0, None, 2), slice(1, None, 2)
BINARY = Y > 0


FORMS = ["one-sided", "three-term", "two-term"]


def energies_loop(A, y, x, k, margin, push, form="three-term"):
    """Energies of one sample in every class; classes of more than k samples only."""
    m2 = {"one-sided": 0.0, "three-term": margin, "two-term": -np.inf}[form]
    d = ((A - x) ** 2).sum(axis=1)
    found = []
    for c in np.unique(y):
        near = np.sort(d[y == c])[:k]
        total = (1 - push) * near.sum()
        total += push * sum(np.maximum(m2 + j - d[y != c], 0).sum() for j in near)
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
@pytest.mark.parametrize("form", FORMS)
def test_energies_are_those_of_the_formula(metric, k, scale, push, form):
    model = EnergyClassifier(metric, n_neighbors=k, margin_scale=scale, push=push, energy=form)
    model.fit(X[TRAIN], Y[TRAIN])
    fitted = None if metric is None else clone(metric).fit(X[TRAIN], Y[TRAIN])
    A, B = (Z if fitted is None else fitted.transform(Z) for Z in (X[TRAIN], X[TEST]))
    assert model.margin_ == pytest.approx(scale * gamma(A, Y[TRAIN]))
    expected = np.array([energies_loop(A, Y[TRAIN], x, k, model.margin_, push, form) for x in B])
    np.testing.assert_allclose(model.decision_function(X[TEST]), -expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(model.predict(X[TEST]), expected.argmin(axis=1))


def test_margin_as_a_number():
    model = EnergyClassifier(margin=0.7, margin_scale=5.0, energy="three-term", n_neighbors=3)
    model.fit(X[TRAIN], Y[TRAIN])
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


@pytest.mark.parametrize("energy", [*FORMS, "difference"])
def test_two_classes_have_one_decision_value(energy):
    two = EnergyClassifier(energy=energy).fit(X, BINARY)
    values = two.decision_function(X + 0.05)
    assert values.shape == (150,)
    np.testing.assert_array_equal(two.predict(X + 0.05), values > 0)
    # A third class far away adds no hinge and changes no other energy.
    if energy != "difference":
        three = EnergyClassifier(margin=two.margin_, energy=energy).fit(
            np.r_[X, X[:9] + 1e4], np.r_[BINARY.astype(int), np.full(9, 2)]
        )
        scores = three.decision_function(X + 0.05)
        np.testing.assert_allclose(scores[:, 1] - scores[:, 0], values, atol=1e-4)


def test_one_neighbor_without_push_is_the_nearest_neighbor():
    Z, y = load_vehicle(return_X_y=True)
    Z = StandardScaler().fit_transform(Z)
    ours = EnergyClassifier(n_neighbors=1, push=0.0).fit(Z[:600], y[:600])
    theirs = KNeighborsClassifier(1, algorithm="brute").fit(Z[:600], y[:600])
    np.testing.assert_array_equal(ours.predict(Z[600:]), theirs.predict(Z[600:]))


@pytest.mark.parametrize("load", [load_vehicle, load_segment])
def test_defaults_do_not_lose_to_votes(load):
    Z, y = load(return_X_y=True)
    Z = StandardScaler().fit_transform(Z)
    scores = []
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = np.split(order, [int(0.6 * len(y))])
        metric = FrozenEstimator(GenerativeMetric().fit(Z[train], y[train]))
        votes = make_pipeline(metric, KNeighborsClassifier(3)).fit(Z[train], y[train])
        energies = EnergyClassifier(metric).fit(Z[train], y[train])
        scores.append([model.score(Z[test], y[test]) for model in (votes, energies)])
    gain = np.diff(scores, axis=1)[:, 0]
    # Within one standard error of the difference: on Vehicle the two are equal on average.
    assert gain.mean() >= -gain.std(ddof=1) / np.sqrt(len(gain))


def test_metric_is_cloned_and_labels_may_be_strings():
    metric, names = GenerativeMetric(), np.array(["a", "b", "c"])[Y]
    model = EnergyClassifier(metric).fit(X, names)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert not hasattr(metric, "components_")
    L = model.metric_estimator_.components_
    np.testing.assert_allclose(model.metric_, L.T @ L)
    assert set(model.predict(X)) == {"a", "b", "c"}


def test_frozen_metric_is_not_refitted():
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


def test_small_classes_use_the_samples_they_have():
    # Three samples at distances 1, 2, 3 of one class against a single one: it counts three times.
    rows, y = np.array([[1.0], [2.0], [3.0], [-2.0]]), np.array([0, 0, 0, 1])
    model = EnergyClassifier(push=0.0, energy="one-sided").fit(rows, y)
    assert model.decision_function([[0.0]])[0] == pytest.approx(1 + 4 + 9 - 3 * 4)
    # The single sample has no targets, so its third term is zero.
    model = EnergyClassifier(push=1.0, margin=100.0, n_neighbors=1, energy="three-term")
    model.fit(rows, y)
    first = sum(100 + 1 - d for d in [4])  # class 0: target at 1, second term from -2
    second = sum(100 + 4 - d for d in [1, 4, 9])  # class 1: target at -2, second term
    third = sum(100 + 1 - d for d in [1, 4, 9])  # and the third term of three samples
    assert model.decision_function([[0.0]])[0] == pytest.approx(first - second - third)
    every_row_alone = EnergyClassifier(energy="one-sided")
    every_row_alone.fit([[0.0], [1.0], [5.0]], ["a", "b", "c"])
    assert every_row_alone.margin_ == 0.0
    assert every_row_alone.predict([[0.4], [0.6], [9.0]]).tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("energy", [*FORMS, "difference"])
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
    same = EnergyClassifier(energy="one-sided").fit(np.ones((6, 2)), [0, 0, 0, 1, 1, 1])
    assert same.margin_ == 0
    assert same.predict(np.ones((2, 2))).tolist() == [0, 0]


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_result_is_independent_of_n_jobs(monkeypatch, n_jobs):
    monkeypatch.setattr(_chunks, "CHUNK_BYTES", 2**16)
    one = EnergyClassifier(energy="one-sided", n_jobs=1).fit(X, Y)
    many = EnergyClassifier(energy="one-sided", n_jobs=n_jobs).fit(X, Y)
    assert one.margin_ == many.margin_
    np.testing.assert_array_equal(one.decision_function(X + 0.1), many.decision_function(X + 0.1))
    np.testing.assert_array_equal(one.predict(X + 0.1), many.predict(X + 0.1))


def test_pipelines_and_grids():
    Z, y = load_wine(return_X_y=True)
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), EnergyClassifier(GenerativeMetric())),
        {
            "energyclassifier__metric__shrinkage": [None, "auto", 0.1],
            "energyclassifier__energy": ["difference", "one-sided"],
            "energyclassifier__margin_scale": [0.3, 1.0],
            "energyclassifier__n_neighbors": [1, 3],
        },
        cv=3,
    ).fit(Z, y)
    assert grid.best_score_ > 0.95
    swap = GridSearchCV(EnergyClassifier(), {"metric": [None, PCA(2), GenerativeMetric()]}, cv=3)
    assert swap.fit(Z, y).best_params_["metric"] is not None


INVALID = [
    ({"n_neighbors": 0}, r"n_neighbors must be an integer >= 1; got 0\."),
    ({"n_neighbors": "3"}, r"n_neighbors must be an integer >= 1; got '3'\."),
    ({"n_neighbors": 10**9}, "n_neighbors=1000000000 is more than the 150 training samples"),
    ({"n_neighbors": 10**400}, "n_neighbors=1000.* is more than the 150 training samples"),
    ({"margin": -1}, r"margin must be 'auto' or a number >= 0; got -1\."),
    ({"margin": "wide"}, r"margin must be 'auto' or a number >= 0; got 'wide'\."),
    ({"margin": np.nan}, r"margin must be 'auto' or a number >= 0; got nan\."),
    ({"margin_scale": np.inf}, r"margin_scale must be a number >= 0; got inf\."),
    ({"margin_scale": None}, r"margin_scale must be a number >= 0; got None\."),
    ({"push": 1.1}, r"push must be a number in \[0, 1\]; got 1\.1\."),
    ({"energy": "both"}, "energy must be 'difference', 'one-sided', 'three-term' or 'two-term'"),
    ({"energy": ["difference"]}, r"energy must be 'difference', .*; got \['difference'\]\."),
    ({"metric": "euclidean"}, "metric must be None or an object with the methods fit, transform"),
    ({"metric": GenerativeMetric}, "metric must be None or an object with the methods fit"),
    ({"metric": KNeighborsClassifier()}, "metric must be None or an object with the methods fit"),
    ({"metric": FunctionTransformer(lambda Z: Z[:3])}, "returned 3 samples for 150 samples"),
    ({"metric": FunctionTransformer(np.log)}, "NaN|infinity"),
]


@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value) encountered:RuntimeWarning")
@pytest.mark.parametrize(("parameters", "message"), INVALID)
def test_invalid_parameters(parameters, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        EnergyClassifier(**parameters).fit(X - 5, Y)


def test_invalid_input():
    with pytest.raises(ValueError, match="at least 2 classes; got 1 class"):
        EnergyClassifier().fit(X, np.zeros(150))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        EnergyClassifier().fit(np.where(X > 7, np.nan, X), Y)
    with pytest.raises(TypeError, match="X is a masked array"):
        EnergyClassifier().fit(np.ma.masked_array(X, X > 7), Y)
    with pytest.raises(TypeError, match="y is a masked array"):
        EnergyClassifier().fit(X, np.ma.masked_array(Y, Y > 1))
    model = EnergyClassifier().fit(X, Y)
    for method in (model.predict, model.decision_function, model.predict_proba):
        with pytest.raises(TypeError, match="X is a masked array"):
            method(np.ma.masked_array(X, X > 7))
        with pytest.raises(ValueError, match="X has 3 features, but EnergyClassifier"):
            method(X[:, :3])


def test_distant_samples():
    model = EnergyClassifier().fit(X, Y)
    far = 1e9 * (X[:100:99] - X.mean(axis=0))  # of classes 0 and 1, seen from the middle
    assert model.predict(far).tolist() == KNeighborsClassifier(1).fit(X, Y).predict(far).tolist()
    for size in (1e17, 1e300):
        with pytest.raises(ValueError, match=r"is .* times the spread.*Check X for outliers"):
            model.predict(size * X)


@pytest.mark.parametrize("energy", [*FORMS, "difference"])
@pytest.mark.parametrize("y", [Y, BINARY])
def test_probabilities_are_the_softmax_of_minus_the_energies(energy, y):
    model = EnergyClassifier(energy=energy, n_neighbors=3).fit(X[TRAIN], y[TRAIN])
    p, scores = model.predict_proba(X[TEST]), model.decision_function(X[TEST])
    if scores.ndim == 1:
        scores = np.c_[-scores / 2, scores / 2]
    np.testing.assert_allclose(p, softmax(scores, axis=1), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X[TEST]))


@pytest.mark.parametrize("scale", [2.0**-498, 2.0**498])
def test_probabilities_at_any_scale(scale):
    model = EnergyClassifier().fit(scale * X, Y)
    p = model.predict_proba(scale * X[:9])
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (p >= 0).all()


def test_metric_is_a_matrix_or_absent():
    np.testing.assert_array_equal(EnergyClassifier().fit(X, Y).metric_, np.eye(4))
    model = EnergyClassifier(GenerativeMetric()).fit(X, Y)
    np.testing.assert_array_equal(model.metric_, model.metric_estimator_.get_mahalanobis_matrix())
    assert not hasattr(model.set_params(metric=PCA(2)).fit(X, Y), "metric_")


class DuringFit(GenerativeMetric):
    """Calls a function in the middle of `fit`, as another thread could."""

    call = None

    def fit(self, X, y):
        if DuringFit.call is not None:
            DuringFit.call()
        return super().fit(X, y)


@pytest.mark.parametrize("energy", [*FORMS, "difference"])
def test_predictions_during_a_refit_are_those_of_the_old_fit(monkeypatch, energy):
    model = EnergyClassifier(DuringFit(), energy="three-term", n_neighbors=3).fit(X, Y)
    before = model.decision_function(X[TEST]), model.predict(X[TEST])
    seen = []

    def predict():
        seen.append((model.decision_function(X[TEST]), model.predict(X[TEST])))

    monkeypatch.setattr(DuringFit, "call", predict)
    model.set_params(energy=energy, n_neighbors=1).fit(X[:, ::-1], 2 - Y)
    assert len(seen) == 1
    for found, expected in zip(seen[0], before, strict=True):
        np.testing.assert_array_equal(found, expected)
