"""The exact search, votes, averages and the selection of k: against loops and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors

from genmetric._neighbors import class_probabilities, majority_votes, vote_errors
from genmetric.neighbors import nearest_neighbors, select_n_neighbors


def naive_neighbors(references, queries, k, exclude=None):
    """Sort all distances of each query, pair by pair; ties go to the lower index."""
    rows, distances = [], []
    for i, x in enumerate(queries.astype(float)):
        d = np.array([np.sqrt(((x - y) ** 2).sum()) for y in references.astype(float)])
        allowed = [j for j in range(len(d)) if exclude is None or j != exclude[i]]
        best = sorted(allowed, key=lambda j: (d[j], j))[:k]
        rows.append(best)
        distances.append(d[best])
    return np.array(distances), np.array(rows)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("k", "n_features"), [(1, 3), (20, 3), (5, 30)])
@pytest.mark.parametrize(("offset", "scale"), [(0.0, 1.0), (1e3, 1.0), (0.0, 1e-30), (0.0, 1e30)])
def test_search_matches_all_pairs(dtype, k, n_features, offset, scale):
    rng = np.random.default_rng(k)
    X = (scale * (rng.normal(size=(49, n_features)) + offset)).astype(dtype)
    references, queries = X[:40], X[40:]
    exclude = np.array([3, -1, 0, 29, -1, 12, 7, 39, -1])
    for excluded in (None, exclude):
        found = nearest_neighbors(references, k, queries=queries, exclude=excluded)
        distances, rows = naive_neighbors(references, queries, k, excluded)
        np.testing.assert_allclose(found.distances, distances, rtol=1e-12)
        np.testing.assert_array_equal(found.indices, rows)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(1, 20))
def test_search_with_many_ties(seed, n, n_features):
    """Distances are those of a sort, of different samples, never the sample itself, in order."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, n_features)).astype(float)
    k = int(rng.integers(1, n))
    found = nearest_neighbors(X, k)
    distances, _ = naive_neighbors(X, X, k, np.arange(n))
    np.testing.assert_allclose(found.distances, distances)
    for i, (d, row) in enumerate(zip(found.distances, found.indices, strict=True)):
        assert i not in row
        assert len(set(row)) == k
        assert list(zip(d, row, strict=True)) == sorted(zip(d, row, strict=True))


def test_search_among_many_samples_and_threads():
    rng = np.random.default_rng(4)
    X, queries = rng.normal(size=(20_000, 8)), rng.normal(size=(300, 8))
    found, again = (nearest_neighbors(X, 7, queries=queries, n_jobs=n) for n in (None, 2))
    np.testing.assert_array_equal(found.distances, again.distances)
    np.testing.assert_array_equal(found.indices, again.indices)
    distances, rows = NearestNeighbors(n_neighbors=7).fit(X).kneighbors(queries)
    np.testing.assert_array_equal(found.indices, rows)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-12)


def test_an_outlier_and_no_queries():
    X = np.random.default_rng(1).normal(size=(80, 3))
    X[7] = 1e8
    _, rows = naive_neighbors(X, X, 3, np.arange(80))
    np.testing.assert_array_equal(nearest_neighbors(X, 3).indices, rows)
    found = nearest_neighbors(np.eye(3), 2, queries=np.empty((0, 3)))
    assert found.distances.shape == found.indices.shape == (0, 2)


@pytest.mark.parametrize(("k", "queries", "most"), [(3, None, 2), (4, np.eye(3), 3), (0, None, 2)])
def test_invalid_number_of_neighbors(k, queries, most):
    with pytest.raises(ValueError, match=f"n_neighbors must be between 1 and {most}, .* got {k}"):
        nearest_neighbors(np.eye(3), k, queries=queries)


@pytest.mark.parametrize("k", [1, 2, 4, 5, 6])
def test_votes_are_those_of_scikit_learn(k):
    """Also in ties, which even k and three classes have many of."""
    rng = np.random.default_rng(k)
    X, y, queries = rng.normal(size=(60, 2)), rng.integers(0, 3, 60), rng.normal(size=(200, 2))
    model = KNeighborsClassifier(k, algorithm="brute").fit(X, y)
    labels = y[nearest_neighbors(X, k, queries=queries).indices]
    np.testing.assert_array_equal(majority_votes(labels, 3)[:, -1], model.predict(queries))
    np.testing.assert_allclose(class_probabilities(labels, 3), model.predict_proba(queries))


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 5))
def test_votes_by_number_of_neighbors(seed, k, n_classes):
    rng = np.random.default_rng(seed)
    labels, truth = rng.integers(0, n_classes, (7, k)), rng.integers(0, n_classes, 7)
    winners = majority_votes(labels, n_classes)
    weight = rng.uniform(size=7)
    ks = np.arange(k, 0, -1)
    errors = vote_errors(labels, truth, n_classes, ks, sample_weight=weight)
    for m, error in zip(ks, errors, strict=True):
        counts = [[np.sum(row[:m] == c) for c in range(n_classes)] for row in labels]
        np.testing.assert_array_equal(winners[:, m - 1], np.argmax(counts, axis=1))
        wrong = np.argmax(counts, axis=1) != truth
        assert error == pytest.approx(np.average(wrong, weights=weight))


def test_votes_among_many_classes_take_little_memory():
    # Counts of all classes would take 400 TB.
    labels = np.random.default_rng(0).integers(0, 4, (500, 6))
    names = np.array([7, 10**3, 10**8, 10**11 - 1])
    np.testing.assert_array_equal(
        majority_votes(names[labels], 10**11), names[majority_votes(labels, 4)]
    )


@pytest.mark.parametrize("average", [False, True])
def test_selection_by_leave_one_out(average):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=50) if average else (X[:, 0] > rng.normal(size=50)) * 1
    found = select_n_neighbors(X, y, [1, 2, 4, 7, 50], average=average)
    np.testing.assert_array_equal(found.candidates, [1, 2, 4, 7])
    for k, error in zip(found.candidates, found.errors, strict=True):
        losses = []
        for i in range(50):
            rest = np.arange(50) != i
            model = (KNeighborsRegressor if average else KNeighborsClassifier)(int(k))
            p = model.fit(X[rest], y[rest]).predict(X[[i]])[0]
            losses.append((p - y[i]) ** 2 / np.var(y) if average else p != y[i])
        assert error == pytest.approx(np.mean(losses))
    assert found.n_neighbors == found.candidates[np.argmin(found.errors)]
    if average:  # the error does not depend on the unit of the target
        moved = select_n_neighbors(X, 1e6 + 1e3 * y, [1, 2, 4, 7], average=True)
        np.testing.assert_allclose(moved.errors, found.errors, rtol=1e-6)


def test_selection_of_ties_few_samples_and_subsets():
    X, y = np.repeat([[0.0], [9.0]], 10, axis=0), np.repeat([0, 1], 10)
    assert select_n_neighbors(X, y, [5, 3, 9, 40]).n_neighbors == 3
    one = select_n_neighbors(np.zeros((1, 2)), np.array([0]))
    assert one.n_neighbors == 1
    assert np.isnan(one.errors).all()
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(400, 2)), rng.integers(0, 2, 400)
    X[:, 0] += 3 * y
    options = {"max_queries": 100, "max_references": 300, "random_state": 3}
    some, again = (select_n_neighbors(X, y, **options) for _ in range(2))
    np.testing.assert_array_equal(some.errors, again.errors)
    assert np.all(np.abs(some.errors - select_n_neighbors(X, y).errors) < 0.1)
