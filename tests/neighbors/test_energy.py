"""Energies: every fast path against the formula written as loops over samples."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric import _chunks
from genmetric.neighbors import (
    ClassRows,
    EnergyModel,
    difference_energies,
    least_energies,
    margin_energies,
    margin_unit,
    training_neighbors,
)
from genmetric.neighbors import _energy as energy
from genmetric.neighbors import _energy_race as energy_race
from genmetric.neighbors._class_rows import least_sorted


def squared(a, b):
    return float(sum((a - b) ** 2))


def nearest(x, rows, k):
    """Squared distances to the k nearest rows, and the weight of each if there are fewer."""
    d = sorted(squared(x, row) for row in rows)[:k]
    return d, k / len(d) if d else 0.0


def hinge(z):
    return max(z, 0.0)


def energy_loop(X, y, x, c, k, margin, push, form):
    """Compute the energy as its equation reads, term by term."""
    inside, outside = X[y == c], X[y != c]
    d, times = nearest(x, inside, k)
    pull = times * sum(d)
    m2 = {"three-term": margin, "one-sided": 0.0, "two-term": -np.inf}[form]
    second = times * sum(hinge(m2 + j - squared(x, other)) for j in d for other in outside)
    third = 0.0
    for i in np.flatnonzero(y != c):
        same = [X[j] for j in np.flatnonzero(y == y[i]) if j != i]
        targets, often = nearest(X[i], same, k)
        third += often * sum(hinge(margin + j - squared(X[i], x)) for j in targets)
    return (1 - push) * pull + push * (second + third)


def difference_loop(X, y, x, c, k):
    inside, times = nearest(x, X[y == c], k)
    outside, often = nearest(x, X[y != c], k)
    return times * sum(inside) - often * sum(outside)


def make(seed, n_classes, n_rows, n_features, grid):
    """Samples of every class, some classes small; on a grid many distances are equal."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(n_classes), rng.integers(n_classes, size=n_rows)]
    y[rng.random(len(y)) < 0.5] = 0
    y = np.unique(y, return_inverse=True)[1]
    X = rng.normal(size=(len(y), n_features)) + 0.5 * y[:, None]
    queries = rng.normal(size=(5, n_features)) + 0.5
    queries[0] = X[0]
    if grid:
        X, queries = np.round(X), np.round(queries)
    return X, y, queries


def model_of(X, y, k, margin, push, form="three-term"):
    rows = ClassRows.of(X, y, y.max() + 1)
    targets, nearest_other = training_neighbors(rows, k)
    return EnergyModel.of(rows, targets, margin, push, form), targets, nearest_other


forms = st.sampled_from(["one-sided", "three-term", "two-term"])

problems = st.builds(
    make,
    st.integers(0, 2**32 - 1),
    st.integers(2, 5),
    st.integers(2, 30),
    st.integers(1, 4),
    st.booleans(),
).filter(lambda problem: problem[1].max() > 0)


@given(
    problems,
    st.integers(1, 5),
    st.sampled_from([0.0, 0.1, 1.0, 5.0, 1e3]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.booleans(),
    forms,
)
def test_energies_of_every_form(problem, k, margin, push, dense, form):
    X, y, queries = problem
    model, *_ = model_of(X, y, k, margin, push, form)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(energy, "_DENSE", -1.0 if dense else 1.0)
        found = margin_energies(model, queries)
    expected = [
        [energy_loop(X, y, x, c, k, margin, push, form) for c in range(y.max() + 1)]
        for x in queries
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * (1 + margin))


@given(problems, st.integers(1, 5))
def test_difference(problem, k):
    X, y, queries = problem
    found = difference_energies(ClassRows.of(X, y, y.max() + 1), queries, k)
    expected = [[difference_loop(X, y, x, c, k) for c in range(y.max() + 1)] for x in queries]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@given(
    problems,
    st.integers(1, 5),
    st.sampled_from([0.0, 0.1, 1.0, 5.0, 1e3]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.01, 1.0]),
    forms,
)
def test_prediction_finds_the_lowest_energy(problem, k, margin, push, crowded, form):
    X, y, queries = problem
    model, *_ = model_of(X, y, k, margin, push, form)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(energy_race, "_CROWDED", crowded)
        best = least_energies(model, queries)
    every = np.arange(len(queries))
    energies = margin_energies(model, queries)
    least = energies.min(axis=1)
    np.testing.assert_allclose(energies[every, best], least, rtol=1e-8, atol=1e-9 * (1 + margin))


@given(
    problems,
    st.integers(1, 5),
    st.sampled_from([0.0, 0.1, 1.0, 5.0]),
    st.sampled_from([0.0, 0.5, 1.0]),
    forms,
)
def test_energy_of_the_nearest_class_and_bounds(problem, k, margin, push, form):
    X, y, queries = problem
    model, *_ = model_of(X, y, k, margin, push, form)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(energy_race, "_CROWDED", 1.0)
        (entries,) = energy_race.relevant_entries([model], queries)
    leading, bound = energy_race.leading_energy(model, entries)
    leader = entries.least.argmin(axis=1)
    energies = margin_energies(model, queries)
    assert (bound <= energies * (1 + 1e-9) + 1e-9).all()
    np.testing.assert_allclose(leading, energies[np.arange(5), leader], rtol=1e-9, atol=1e-9)


def classes(rng, n_rows, n_classes, n_features=6):
    y = rng.integers(n_classes, size=n_rows)
    means = rng.normal(size=(n_classes, n_features))
    return rng.normal(size=(n_rows, n_features)) + 1.5 * means[y], y


@pytest.mark.parametrize("form", ["one-sided", "three-term", "two-term"])
@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0, 10.0])
def test_bounds_decide_most_queries_correctly(rng, scale, form):
    X, y = classes(rng, 3000, 7)
    rows = ClassRows.of(X[:2500], y[:2500], 7)
    targets, nearest_other = training_neighbors(rows, 3)
    margin = scale * margin_unit(targets, nearest_other)
    model = EnergyModel.of(rows, targets, margin, 0.5, form)
    energies = margin_energies(model, X[2500:])
    (leader,), (undecided,) = energy_race.race([model], X[2500:])
    np.testing.assert_array_equal(leader[~undecided], energies.argmin(axis=1)[~undecided])
    if scale in (0.3, 1.0):
        assert undecided.mean() < 0.4
        assert undecided.any()
    np.testing.assert_array_equal(least_energies(model, X[2500:]), energies.argmin(axis=1))


@given(
    problems,
    st.lists(
        st.tuples(st.integers(1, 5), st.sampled_from([0.0, 0.3, 2.0])), min_size=2, max_size=4
    ),
    st.sampled_from([0.01, 0.3, 1.0]),
    forms,
)
def test_several_models_at_once(problem, settings, crowded, form):
    X, y, queries = problem
    most = max(k for k, _ in settings)
    rows = model_of(X, y, most, 1.0, 0.5, form)[0].rows
    targets = training_neighbors(rows, most)[0]
    models = [EnergyModel.of(rows, targets[:, :k], margin, 0.5, form) for k, margin in settings]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(energy_race, "_CROWDED", crowded)
        found = energy_race.least_energies_of_each(models, queries)
    for model, best in zip(models, found, strict=True):
        energies = margin_energies(model, queries)
        least = energies.min(axis=1)
        np.testing.assert_allclose(
            energies[np.arange(len(queries)), best], least, rtol=1e-8, atol=1e-9
        )


@given(problems, st.integers(1, 4))
def test_targets_and_margin(problem, k):
    X, y, _ = problem
    order = np.argsort(y, kind="stable")
    _, targets, nearest_other = model_of(X, y, k, 0.0, 0.5)
    gaps = []
    for place, i in enumerate(order):
        same = [X[j] for j in np.flatnonzero(y == y[i]) if j != i]
        d, _ = nearest(X[i], same, k)
        padded = d + [np.inf] * (k - len(d))
        np.testing.assert_allclose(targets[place], padded, rtol=1e-9, atol=1e-9)
        other = min(squared(X[i], row) for row in X[y != y[i]])
        assert nearest_other[place] == pytest.approx(other, rel=1e-9, abs=1e-9)
        if d:
            gaps.append(other - d[0])
    unit = abs(np.median(gaps)) if gaps else 0.0
    assert margin_unit(targets, nearest_other) == pytest.approx(unit, rel=1e-9, abs=1e-9)
    alone, nothing = training_neighbors(ClassRows.of(X, y, y.max() + 1), k, others=False)
    np.testing.assert_allclose(alone, targets, rtol=1e-9, atol=1e-9)
    assert np.isinf(nothing).all()


def test_unit_of_the_margin_is_an_absolute_median():
    targets = np.array([[5.0, 6.0], [4.0, 9.0], [np.inf, np.inf], [9.0, 9.5]])
    other = np.array([1.0, 2.0, 100.0, 2.0])
    assert margin_unit(targets, other) == 4.0  # gaps -4, -2, -7


def test_least_sorted(rng):
    d = rng.normal(size=(7, 40))
    for k in (1, 5, 39, 40, 60):
        np.testing.assert_array_equal(least_sorted(d, k), np.sort(d, axis=1)[:, :k])


def test_distances_are_overwritten_only_on_request(rng):
    X, y = classes(rng, 60, 3)
    model, *_ = model_of(X, y, 3, 1.0, 0.5)
    d = model.rows.squared_distances(X[:4])
    near, before = model.rows.nearest(d, 3), d.copy()
    first = energy.push_on_queries(model, d, near)
    np.testing.assert_array_equal(d, before)
    np.testing.assert_array_equal(energy.push_on_queries(model, d, near, overwrite=True), first)


@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_result_is_independent_of_n_jobs(rng, monkeypatch, n_jobs):
    monkeypatch.setattr(_chunks, "CHUNK_BYTES", 2**17)
    X, y = classes(rng, 500, 4)
    rows = ClassRows.of(X, y, 4)
    one, many = training_neighbors(rows, 3, n_jobs=1), training_neighbors(rows, 3, n_jobs=n_jobs)
    for a, b in zip(one, many, strict=True):
        np.testing.assert_array_equal(a, b)
    model, Z = EnergyModel.of(rows, one[0], 1.0, 0.5), X + 0.1
    for function in (margin_energies, least_energies):
        np.testing.assert_array_equal(
            function(model, Z, n_jobs=1), function(model, Z, n_jobs=n_jobs)
        )
    np.testing.assert_array_equal(
        difference_energies(rows, Z, 3, n_jobs=1), difference_energies(rows, Z, 3, n_jobs=n_jobs)
    )


@pytest.mark.parametrize("margin", [1.0, 1e4])
def test_memory_is_bounded(rng, margin):
    n = 3000  # a full matrix of distances would take 72 MB
    X, y = classes(rng, n, 3)
    tracemalloc.start()
    model, *_ = model_of(X, y, 3, margin, 0.5)
    least_energies(model, X)
    margin_energies(model, X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 56 * 2**20
