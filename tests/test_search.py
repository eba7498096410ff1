"""The exact search: against all pairs, ties, scales, blocks and threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

import genmetric._search as search_module
from genmetric.neighbors import Neighbors, nearest_neighbors


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


@pytest.fixture(params=["distances", "bounds", "bounds in blocks"])
def path(request, monkeypatch):
    """Small sets go through every path: all distances, bounds, several blocks of references."""
    if request.param != "distances":
        monkeypatch.setattr(search_module, "_FEW", 0)
    if request.param == "bounds in blocks":
        monkeypatch.setattr(search_module, "_COLUMNS", 7)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 3, 20])
def test_matches_all_pairs(dtype, k):
    rng = np.random.default_rng(k)
    references = rng.normal(size=(40, 3)).astype(dtype)
    queries = rng.normal(size=(9, 3)).astype(dtype)
    found = nearest_neighbors(references, k, queries=queries)
    distances, rows = naive_neighbors(references, queries, k)
    np.testing.assert_array_equal(found.indices, rows)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-14)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 60),
    st.integers(1, 4),
    st.sampled_from([1.0, 1e-160, 1e155, 1e-30, 1e30]),
    st.sampled_from([0.0, 1.0, 1e9]),
    st.booleans(),
)
def test_matches_all_pairs_on_grids(seed, n, n_features, scale, offset, blocks):
    """Integer coordinates have many ties; offsets and scales of a power of two keep them exact."""
    rng = np.random.default_rng(seed)
    grid = rng.integers(0, 4, (n, n_features)) + offset
    k = int(rng.integers(1, n))
    _, rows = naive_neighbors(grid, grid, k, np.arange(n))
    scale = 2.0 ** round(np.log2(scale))
    before = search_module._FEW, search_module._COLUMNS
    try:
        search_module._FEW = 0
        search_module._COLUMNS = 11 if blocks else before[1]
        found = nearest_neighbors(grid * scale, k)
    finally:
        search_module._FEW, search_module._COLUMNS = before
    np.testing.assert_array_equal(found.indices, rows)
    assert np.isfinite(found.distances).all()
    assert (np.diff(found.distances, axis=1) >= 0).all()


@pytest.mark.usefixtures("path")
def test_ties_go_to_the_lower_index():
    references = np.zeros((30, 2))
    found = nearest_neighbors(references, 4)
    np.testing.assert_array_equal(found.indices[0], [1, 2, 3, 4])
    np.testing.assert_array_equal(found.indices[2], [0, 1, 3, 4])
    np.testing.assert_array_equal(found.distances, 0.0)


@pytest.mark.usefixtures("path")
def test_tight_groups_far_apart_are_separated():
    """float32 cannot separate the members of a group; the answer comes from float64."""
    rng = np.random.default_rng(0)
    groups = np.repeat([[0.0, 0.0], [1e6, 0.0], [0.0, 1e6]], 60, axis=0)
    X = groups + 1e-4 * rng.normal(size=groups.shape)
    _, rows = naive_neighbors(X, X, 5, np.arange(len(X)))
    np.testing.assert_array_equal(nearest_neighbors(X, 5).indices, rows)


@pytest.mark.usefixtures("path")
def test_one_outlier_does_not_change_the_neighbors_of_others():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    X[7] = 1e12
    _, rows = naive_neighbors(X, X, 3, np.arange(80))
    np.testing.assert_array_equal(nearest_neighbors(X, 3).indices, rows)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("far", [1e16, 1e40, 1e200, 1e300])
def test_queries_far_away(far):
    references = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = nearest_neighbors(references, 2, queries=np.array([[far, 0.0], [0.9, 0.0]]))
    assert np.isfinite(found.distances).all()
    np.testing.assert_allclose(found.distances[0], far)
    np.testing.assert_array_equal(found.indices[1], [1, 0])


@pytest.mark.usefixtures("path")
def test_excluded_samples_are_not_neighbors():
    rng = np.random.default_rng(2)
    references, queries = rng.normal(size=(30, 2)), rng.normal(size=(6, 2))
    exclude = np.array([3, -1, 0, 29, -1, 12])
    found = nearest_neighbors(references, 29, queries=queries, exclude=exclude)
    _, rows = naive_neighbors(references, queries, 29, exclude)
    np.testing.assert_array_equal(found.indices, rows)


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_result_is_independent_of_n_jobs(n_jobs):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 6))
    one, many = nearest_neighbors(X, 4), nearest_neighbors(X, 4, n_jobs=n_jobs)
    np.testing.assert_array_equal(one.distances, many.distances)
    np.testing.assert_array_equal(one.indices, many.indices)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matches_scikit_learn_on_many_samples(dtype):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30_000, 8)).astype(dtype)
    queries = rng.normal(size=(300, 8)).astype(dtype)
    found = nearest_neighbors(X, 7, queries=queries)
    distances, rows = NearestNeighbors(n_neighbors=7).fit(X.astype(float)).kneighbors(queries)
    np.testing.assert_array_equal(found.indices, rows)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-12)


def test_blocks_of_references_merge_to_one_search():
    rng = np.random.default_rng(5)
    X, queries = rng.integers(0, 5, (50, 2)).astype(float), rng.normal(size=(8, 2))
    best, start = Neighbors(np.empty((8, 0)), np.empty((8, 0), np.intp)), 0
    for part in np.array_split(X, [3, 20, 21]):
        found = nearest_neighbors(part, min(6, len(part)), queries=queries)
        best = best.merge(found, 6, offset=start)
        start += len(part)
    whole = nearest_neighbors(X, 6, queries=queries)
    np.testing.assert_array_equal(best.indices, whole.indices)
    np.testing.assert_array_equal(best.distances, whole.distances)


def test_no_queries():
    found = nearest_neighbors(np.eye(3), 2, queries=np.empty((0, 3)))
    assert found.distances.shape == found.indices.shape == (0, 2)


@pytest.mark.parametrize(("k", "queries", "most"), [(3, None, 2), (4, np.eye(3), 3), (0, None, 2)])
def test_invalid_number_of_neighbors(k, queries, most):
    with pytest.raises(ValueError, match=f"n_neighbors must be between 1 and {most}, .* got {k}"):
        nearest_neighbors(np.eye(3), k, queries=queries)
