"""EnergyClassifier against the energies written as loops over samples, and as an estimator."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from genmetric import EnergyClassifier, GenerativeMetric
from genmetric.datasets import load_iris, load_segment, load_vehicle
from genmetric.neighbors.energy import EnergyModel, energies, least_energies

X, Y = load_iris(return_X_y=True)
TRAIN, TEST = slice(0, None, 2), slice(1, None, 2)
MARGIN_FORMS = ["one-sided", "three-term", "two-term"]
FORMS = [*MARGIN_FORMS, "difference"]


def nearest(x, rows, k):
    """Squared distances to the k nearest rows, and the weight of each if there are fewer."""
    d = sorted(float(sum((x - row) ** 2)) for row in rows)[:k]
    return d, k / len(d) if d else 0.0


def energy_loop(A, y, x, c, k, margin, push, form):
    """Compute the energy as its equation reads, term by term."""
    inside, times = nearest(x, A[y == c], k)
    if form == "difference":
        outside, often = nearest(x, A[y != c], k)
        return times * sum(inside) - often * sum(outside)
    m2 = {"three-term": margin, "one-sided": 0.0, "two-term": -np.inf}[form]
    others = ((A[y != c] - x) ** 2).sum(axis=1)
    second = times * sum(np.maximum(m2 + j - others, 0).sum() for j in inside)
    third = 0.0
    for i in np.flatnonzero(y != c):
        targets, often = nearest(A[i], A[(y == y[i]) & (np.arange(len(y)) != i)], k)
        third += often * sum(max(margin + j - sum((A[i] - x) ** 2), 0.0) for j in targets)
    return (1 - push) * times * sum(inside) + push * (second + third)


def margin_unit(A, y):
    gaps = []
    for i in range(len(A)):
        same, _ = nearest(A[i], A[(y == y[i]) & (np.arange(len(y)) != i)], 1)
        gaps += [nearest(A[i], A[y != y[i]], 1)[0][0] - d for d in same]
    return abs(np.median(gaps)) if gaps else 0.0


def make(seed, n_classes, n_rows, n_features, grid):
    """Samples of every class, some classes small; on a grid many distances are equal."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(n_classes), rng.integers(n_classes, size=n_rows)]
    y[2:][rng.random(len(y) - 2) < 0.5] = 0
    y = np.unique(y, return_inverse=True)[1]
    A = rng.normal(size=(len(y), n_features)) + 0.5 * y[:, None]
    queries = np.r_[A[:1], rng.normal(size=(4, n_features)) + 0.5]
    return (np.round(A), y, np.round(queries)) if grid else (A, y, queries)


PROBLEMS = st.builds(
    make,
    st.integers(0, 2**32 - 1),
    st.integers(2, 5),
    st.integers(2, 30),
    st.integers(1, 4),
    st.booleans(),
)


@settings(max_examples=80)
@given(
    PROBLEMS,
    st.integers(1, 5),
    st.sampled_from([None, 0.0, 0.1, 5.0, 1e3]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from(FORMS),
)
def test_energies_are_those_of_the_formula(problem, k, margin, push, form):
    A, y, queries = problem
    k = min(k, len(A))
    model = EnergyClassifier(
        n_neighbors=k, margin="auto" if margin is None else margin, push=push, energy=form
    ).fit(A, y)
    if form == "difference":
        assert not hasattr(model, "margin_")
    else:
        margin = 0.1 * margin_unit(A, y) if margin is None else margin
        assert model.margin_ == pytest.approx(margin, rel=1e-9, abs=1e-9)
    classes = range(y.max() + 1)
    expected = np.array(
        [[energy_loop(A, y, x, c, k, margin, push, form) for c in classes] for x in queries]
    )
    scores = model.decision_function(queries)
    tolerance = 1e-9 * (1 + np.abs(expected).max())
    if len(classes) == 2:
        np.testing.assert_allclose(scores, expected[:, 0] - expected[:, 1], atol=tolerance)
        scores = np.c_[-scores / 2, scores / 2]
    else:
        np.testing.assert_allclose(-scores, expected, atol=tolerance)
    # The prediction, which computes few energies, finds the lowest one.
    best = model.predict(queries)
    lowest = expected.min(axis=1)
    np.testing.assert_allclose(expected[np.arange(len(best)), best], lowest, atol=tolerance)
    np.testing.assert_allclose(
        model.predict_proba(queries), softmax(scores, axis=1), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0, 10.0])
def test_predictions_of_many_samples_have_the_lowest_energy(rng, scale, form):
    """Several chunks; the bounds decide most queries at 0.3 and 1, and few at 0 and 10."""
    y = rng.integers(7, size=2000)
    A = rng.normal(size=(2000, 6)) + 1.5 * rng.normal(size=(7, 6))[y]
    options = {"margin_scale": scale, "energy": form}
    models = [EnergyClassifier(**options, n_jobs=n).fit(A[:1500], y[:1500]) for n in (1, 3)]
    scores = [model.decision_function(A[1500:]) for model in models]
    np.testing.assert_array_equal(*scores)
    for model in models:
        np.testing.assert_array_equal(model.predict(A[1500:]), scores[0].argmax(axis=1))


def test_one_model_with_several_parameters():
    """A study of margins and numbers of targets finds the targets once."""
    base = EnergyModel.of(X[TRAIN], Y[TRAIN], 5, "three-term")
    for k, scale, push, form in [(1, 0.3, 0.5, "one-sided"), (5, 2.0, 0.2, "two-term")]:
        model = replace(
            base, n_neighbors=k, margin=scale * base.margin_unit, push=push, energy=form
        )
        one = EnergyClassifier(n_neighbors=k, margin_scale=scale, push=push, energy=form)
        one.fit(X[TRAIN], Y[TRAIN])
        np.testing.assert_allclose(energies(model, X[TEST]), -one.decision_function(X[TEST]))
        np.testing.assert_array_equal(least_energies(model, X[TEST]), one.predict(X[TEST]))


def test_small_classes_use_the_samples_they_have():
    # Three samples at distances 1, 2, 3 of one class against a single one: it counts three times.
    rows, y = np.array([[1.0], [2.0], [3.0], [-2.0]]), np.array([0, 0, 0, 1])
    model = EnergyClassifier(push=0.0, energy="one-sided").fit(rows, y)
    assert model.decision_function([[0.0]])[0] == pytest.approx(1 + 4 + 9 - 3 * 4)
    every_row_alone = EnergyClassifier(energy="one-sided")
    every_row_alone.fit([[0.0], [1.0], [5.0]], ["a", "b", "c"])
    assert every_row_alone.margin_ == 0.0
    assert every_row_alone.predict([[0.4], [0.6], [9.0]]).tolist() == ["a", "b", "c"]
    same = EnergyClassifier(energy="one-sided").fit(np.ones((6, 2)), [0, 0, 0, 1, 1, 1])
    assert same.predict(np.ones((2, 2))).tolist() == [0, 0]


def test_one_neighbor_without_push_is_the_nearest_neighbor():
    Z, y = load_vehicle(return_X_y=True)
    Z = StandardScaler().fit_transform(Z)
    theirs = KNeighborsClassifier(1, algorithm="brute").fit(Z[:600], y[:600]).predict(Z[600:])
    for form in FORMS:
        ours = EnergyClassifier(n_neighbors=1, push=0.0, energy=form).fit(Z[:600], y[:600])
        np.testing.assert_array_equal(ours.predict(Z[600:]), theirs)


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
        ours = EnergyClassifier(metric).fit(Z[train], y[train])
        scores.append([model.score(Z[test], y[test]) for model in (votes, ours)])
    gain = np.diff(scores, axis=1)[:, 0]
    # Within one standard error of the difference: on Vehicle the two are equal on average.
    assert gain.mean() >= -gain.std(ddof=1) / np.sqrt(len(gain))


def test_metric_is_cloned_fitted_and_described():
    frame = pd.DataFrame(X, columns=list("abcd"))
    names = np.array(["x", "y", "z"])[Y]
    metric = GenerativeMetric()
    model = EnergyClassifier(metric).fit(frame, names)
    assert not hasattr(metric, "components_")
    L = model.metric_estimator_.components_
    np.testing.assert_allclose(model.metric_, L.T @ L)
    assert model.feature_names_in_.tolist() == list("abcd")
    same = EnergyClassifier().fit(X @ L.T, names)
    np.testing.assert_array_equal(same.metric_, np.eye(4))
    scores = same.decision_function((X + 0.1) @ L.T)
    np.testing.assert_allclose(model.decision_function(frame + 0.1), scores)
    np.testing.assert_array_equal(model.predict(frame), same.predict(X @ L.T))
    frozen = EnergyClassifier(FrozenEstimator(model.metric_estimator_)).fit(frame[:100], Y[:100])
    np.testing.assert_array_equal(frozen.metric_estimator_.components_, L)
    for other in (PCA(2), PCA(2).set_output(transform="pandas")):
        assert not hasattr(model.set_params(metric=other).fit(X, Y), "metric_")
        assert model.score(X, Y) > 0.9
    assert hasattr(model.set_params(energy="one-sided").fit(X, Y), "margin_")
    assert not hasattr(model.set_params(energy="difference").fit(X, Y), "margin_")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("metric", [None, GenerativeMetric(shrinkage=0.1)])
@pytest.mark.parametrize(("offset", "scale"), [(0, 2.0**-300), (0, 2.0**300), (1e8, 1.0)])
def test_offsets_and_scales(form, metric, offset, scale):
    Z = np.round(X * 2**8) / 2**8  # exact with the offset too
    plain = EnergyClassifier(metric, energy=form).fit(Z[TRAIN], Y[TRAIN])
    moved = EnergyClassifier(metric, energy=form).fit(scale * (Z[TRAIN] + offset), Y[TRAIN])
    queries = scale * (Z[TEST] + offset)
    tolerance = 1e-8 if offset == 0 else 1e-4
    scores = plain.decision_function(Z[TEST])
    np.testing.assert_allclose(
        moved.decision_function(queries) / scale / scale, scores, rtol=tolerance, atol=tolerance
    )
    p = moved.predict_proba(queries)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    if offset == 0:
        np.testing.assert_array_equal(moved.predict(queries), plain.predict(Z[TEST]))


@pytest.mark.parametrize("margin", [1.0, 1e4])
def test_memory_is_bounded(rng, margin):
    y = rng.integers(3, size=3000)  # a full matrix of distances would take 72 MB
    A = rng.normal(size=(3000, 6)) + y[:, None]
    tracemalloc.start()
    model = EnergyClassifier(energy="three-term", margin=margin).fit(A, y)
    model.predict(A)
    model.decision_function(A)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 56 * 2**20


INVALID = [
    ({"n_neighbors": 0}, r"n_neighbors must be an integer >= 1; got 0\."),
    ({"n_neighbors": 10**400}, "n_neighbors must be between 1 and 150, .* got 1000"),
    ({"margin": -1}, r"margin must be 'auto' or a number >= 0; got -1\."),
    ({"margin": "wide"}, r"margin must be 'auto' or a number >= 0; got 'wide'\."),
    ({"margin_scale": np.inf}, r"margin_scale must be a number >= 0; got inf\."),
    ({"push": 1.1}, r"push must be a number in \[0, 1\]; got 1\.1\."),
    ({"energy": "both"}, "energy must be 'difference', 'one-sided', 'three-term' or 'two-term'"),
    ({"metric": "euclidean"}, "metric must be None or an object with the methods fit, transform"),
    ({"metric": KNeighborsClassifier()}, "metric must be None or an object with the methods fit"),
    ({"metric": FunctionTransformer(lambda Z: Z[:3])}, "returned 3 rows for 150 samples"),
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
    with pytest.raises(TypeError, match="y is a masked array"):
        EnergyClassifier().fit(X, np.ma.masked_array(Y, Y > 1))
    model = EnergyClassifier().fit(X, Y)
    far = 1e9 * (X[:100:99] - X.mean(axis=0))  # of classes 0 and 1, seen from the middle
    assert model.predict(far).tolist() == KNeighborsClassifier(1).fit(X, Y).predict(far).tolist()
    for method in (model.predict, model.decision_function, model.predict_proba):
        with pytest.raises(TypeError, match="X is a masked array"):
            method(np.ma.masked_array(X, X > 7))
        with pytest.raises(ValueError, match=r"lies .* spreads away.*Check X for outliers"):
            method(1e17 * X)
