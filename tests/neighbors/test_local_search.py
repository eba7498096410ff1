"""Neighbours in a metric of the query's own: the pruned search against a loop over all rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric.neighbors import SearchRows, metric_neighbors
from genmetric.neighbors._local_search import (
    N_LEADING,
    bound_coefficients,
    lower_bounds,
    squared_distances,
)


def loop(queries, a, U, rows, k, exclude=None):
    """Squared distances and rows, nearest first, equal distances by row."""
    found = []
    for i, x in enumerate(queries):
        A = U[i] @ np.diag(a[i]) @ U[i].T
        pairs = [
            ((row - x) @ A @ (row - x), j)
            for j, row in enumerate(rows)
            if exclude is None or j != exclude[i]
        ]
        found.append(sorted(pairs)[:k])
    return np.array([[d for d, _ in pairs] for pairs in found]), [
        [j for _, j in pairs] for pairs in found
    ]


def metrics(rng, n, n_features, spread):
    """Random eigenvectors; eigenvalues over `spread` powers of ten, of product one."""
    U = np.linalg.qr(rng.normal(size=(n, n_features, n_features)))[0]
    log_a = rng.uniform(-spread / 2, spread / 2, size=(n, n_features))
    return 10 ** (log_a - log_a.mean(axis=1, keepdims=True)), U


problems = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "n_rows": st.integers(1, 300),
        "n_features": st.integers(1, 24),
        "spread": st.sampled_from([0.0, 1.0, 4.0, 10.0]),
        "far": st.sampled_from([0.0, 1.0, 30.0, 1e6, 1e14, 1e30]),
        "outlier": st.sampled_from([1.0, 1e3]),
        "crowd": st.sampled_from([0.0, 1e-3, 1e-7]),
    }
)


def make(problem):
    rng = np.random.default_rng(problem["seed"])
    n_features = problem["n_features"]
    rows = rng.normal(size=(problem["n_rows"], n_features))
    rows[0] *= problem["outlier"]
    queries = problem["far"] * rng.normal(size=(4, n_features))
    queries[0] = rows[0]
    if problem["crowd"]:  # many rows in one place off the centre, and a query among them
        place = 3 * rng.normal(size=n_features)
        half = len(rows) // 2
        rows[:half] = place + problem["crowd"] * rng.normal(size=(half, n_features))
        queries[1] = place + problem["crowd"] * rng.normal(size=n_features)
    a, U = metrics(rng, len(queries), n_features, problem["spread"])
    return rng, rows, queries, a, U


@given(problems)
def test_bounds_are_never_above_the_distance(problem):
    _, rows, queries, a, U = make(problem)
    bounds = lower_bounds(bound_coefficients(queries, a, U), SearchRows.of(rows).columns)
    for i, x in enumerate(queries):
        exact = squared_distances(x, U[i] * np.sqrt(a[i]), rows)
        assert (bounds[i] <= exact * (1 + 1e-6) + 1e-30).all()


def test_bounds_are_tight_with_all_eigenvectors(rng):
    rows, queries = rng.normal(size=(50, N_LEADING)), rng.normal(size=(6, N_LEADING))
    a, U = metrics(rng, 6, N_LEADING, 2.0)
    bounds = lower_bounds(bound_coefficients(queries, a, U), SearchRows.of(rows).columns)
    for i, x in enumerate(queries):
        exact = squared_distances(x, U[i] * np.sqrt(a[i]), rows)
        np.testing.assert_allclose(bounds[i], exact, rtol=5e-3, atol=1e-3)


@given(problems, st.integers(1, 12), st.booleans())
def test_neighbours_are_those_of_the_loop(problem, k, exclude_some):
    rng, rows, queries, a, U = make(problem)
    exclude = rng.integers(len(rows), size=len(queries)) if exclude_some else None
    k = min(k, len(rows) - exclude_some)
    if k == 0:
        return
    found = metric_neighbors(queries, a, U, SearchRows.of(rows), k, exclude=exclude)
    squared, indices = loop(queries, a, U, rows, k, exclude)
    # What the loop itself rounds away: it forms the metric, and differences to far queries.
    size = a.max(axis=1) * np.array([((rows - x) ** 2).sum(axis=1).max() for x in queries])
    np.testing.assert_allclose(found.squared, squared, rtol=1e-9, atol=1e-13 * size.max())
    if problem["far"] <= 30 and problem["spread"] <= 4 and not problem["crowd"]:
        assert found.indices.tolist() == indices


def test_neighbours_beyond_the_first_candidates_are_found(rng):
    # Twelve large eigenvalues, four of them in the bound: it ranks the rows badly.
    n_features = 24
    rows, queries = rng.normal(size=(2000, n_features)), rng.normal(size=(20, n_features))
    a, U = metrics(rng, 20, n_features, 0.2)
    a[:, :12] *= 30
    found = metric_neighbors(queries, a, U, SearchRows.of(rows), 1)
    squared, indices = loop(queries, a, U, rows, 1)
    assert found.indices.tolist() == indices
    np.testing.assert_allclose(found.squared, squared, rtol=1e-9)
    bounds = lower_bounds(bound_coefficients(queries, a, U), SearchRows.of(rows).columns)
    rank = [(b < b[j]).sum() for b, (j,) in zip(bounds, indices, strict=True)]
    assert max(rank) > 16  # so that the first candidates alone would have missed one


def test_equal_distances_are_ordered_by_index():
    rows = np.repeat(np.eye(3), 40, axis=0)
    rows -= rows.mean(axis=0)
    a, U = np.ones((1, 3)), np.eye(3)[None]
    found = metric_neighbors(rows[40:41], a, U, SearchRows.of(rows), 50)
    assert found.indices[0, :40].tolist() == list(range(40, 80))
    assert found.indices[0, 40:].tolist() == list(range(10))


def test_most_samples_are_excluded(rng):
    n_features = 20
    rows = rng.normal(size=(5000, n_features))
    a, U = metrics(rng, 30, n_features, 1.0)
    a[:, :2] *= 100
    found = metric_neighbors(rng.normal(size=(30, n_features)), a, U, SearchRows.of(rows), 5)
    assert found.n_examined < 0.1 * 30 * 5000


@pytest.mark.parametrize("k", [1, 7])
def test_a_query_too_far_for_float32_still_gets_its_neighbours(rng, k):
    rows = rng.normal(size=(500, 6))
    queries = np.zeros((1, 6))
    queries[0, 0] = 1e17  # all rows look alike from there, but for their first coordinates
    a, U = np.full((1, 6), 0.5), np.eye(6)[None]
    found = metric_neighbors(queries, a, U, SearchRows.of(rows), k)
    np.testing.assert_allclose(found.squared, 0.5 * 1e34)
