"""Neighbours among the blocks of a dask collection, against all distances at once."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genmetric.dask import DaskGenerativeMetric
from genmetric.datasets import load_iris

X, Y = load_iris(return_X_y=True)


def fitted(x=X):
    return DaskGenerativeMetric().fit(
        da.from_array(x, chunks=(40, -1)), da.from_array(Y, chunks=40)
    )


METRIC = fitted()


def naive(L, queries, rows, k):
    """All differences, a stable sort."""
    distances = np.linalg.norm((queries[:, None] - rows) @ L.T, axis=2)
    indices = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, indices, axis=1), indices


@settings(max_examples=40)
@given(
    chunks=st.lists(st.integers(0, 60), min_size=1, max_size=20),
    k=st.integers(1, 30),
    grid=st.sampled_from([0.0, 0.5, 4.0]),
)
def test_equals_all_distances(chunks, k, grid):
    rng = np.random.default_rng(len(chunks))
    rows = rng.normal(size=(sum(chunks), 4))
    # On a coarse grid there are many rows at the same distance: the first of them count.
    rows = rows if grid == 0 else np.round(rows / grid) * grid
    queries = rows[:5] if len(rows) >= 5 else np.round(rng.normal(size=(3, 4)))
    metric = METRIC
    reference = da.from_array(rows, chunks=(tuple(chunks), -1)) if len(rows) else None
    if len(rows) < k:
        if reference is not None:
            with pytest.raises(ValueError, match=f"n_neighbors={k}, but there are {len(rows)}"):
                metric.kneighbors(queries, k, reference=reference)
        return
    distances, indices = metric.kneighbors(queries, k, reference=reference)
    expected, order = naive(metric.components_, queries, rows, k)
    np.testing.assert_allclose(distances, expected, rtol=1e-12, atol=1e-13)
    if grid == 0:
        np.testing.assert_array_equal(indices, order)
    # Whatever rounding made of equal distances: equal rows are in order of their numbers.
    for found in indices:
        _, group = np.unique(rows[found], axis=0, return_inverse=True)
        for g in np.unique(group):
            assert (np.diff(found[group.ravel() == g]) > 0).all()


def test_training_samples_are_the_default_reference():
    metric = fitted()
    distances, indices = metric.kneighbors(X, 4)
    expected, order = naive(metric.components_, X, X, 4)
    np.testing.assert_allclose(distances, expected, atol=1e-13)
    different = indices != order
    np.testing.assert_allclose(distances[different], expected[different], rtol=1e-14)
    np.testing.assert_array_equal(metric.kneighbors(X, 4, return_distance=False), indices)


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_offsets_and_scales(scale, offset):
    # Quarters: the offset rounds nothing away.
    x = np.round(4 * X) / 4
    moved = scale * (x + offset)
    # Equal metrics, so that only the search differs.
    metric, plain = fitted(moved), fitted(x)
    distances, indices = metric.kneighbors(moved[:20], 9)
    expected, order = plain.kneighbors(x[:20], 9)
    np.testing.assert_allclose(distances / scale, expected, rtol=1e-6, atol=1e-12)
    # Where the neighbours before and after are at other distances, the row is known.
    apart = np.diff(expected, axis=1, prepend=-1) > 1e-6
    known = np.column_stack([apart[:, :-1] & apart[:, 1:], np.zeros(20, bool)])
    assert known.mean() > 0.1
    np.testing.assert_array_equal(indices[known], order[known])


def test_queries_with_names_and_fewer_components():
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=list("abcd"))
    lazy = dd.from_pandas(frame.assign(y=Y), npartitions=4)
    metric = DaskGenerativeMetric(n_components=2).fit(lazy[list("abcd")], lazy["y"])
    distances, _ = metric.kneighbors(frame.iloc[:7], 3)
    expected, _ = naive(metric.components_, X[:7], X, 3)
    np.testing.assert_allclose(distances, expected, atol=1e-13)


def test_invalid_queries():
    metric = fitted()
    with pytest.raises(ValueError, match="n_neighbors must be an integer"):
        metric.kneighbors(X, 0)
    with pytest.raises(TypeError, match="X is a dask collection"):
        metric.kneighbors(da.from_array(X), 2)
    with pytest.raises(ValueError, match="features"):
        metric.kneighbors(X[:, :3], 2)
    broken = da.from_array(np.where(np.arange(150)[:, None] == 100, np.nan, X), chunks=(40, -1))
    with pytest.raises(ValueError, match=r"In block 2: .*NaN"):
        metric.kneighbors(X, 2, reference=broken)


def test_distances_with_the_pooled_base():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(90, 4)) * [1, 10, 100, 1000]
    x = da.from_array(rows, chunks=(40, -1))
    metric = DaskGenerativeMetric(base="pooled").fit(x, da.from_array(np.arange(90) % 3, chunks=40))
    distances, indices = metric.kneighbors(rows[:7], 4)
    expected, order = naive(metric.components_, rows[:7], rows, 4)
    np.testing.assert_allclose(distances, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(indices, order)
