"""Search in blocks against a sort of all distances."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric.dask._blocks import BlockNeighbors


def naive(queries, rows, k):
    squared = ((queries[:, None] - rows) ** 2).sum(axis=2)
    indices = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return np.sqrt(np.take_along_axis(squared, indices, axis=1)), indices


@given(
    cuts=st.lists(st.integers(1, 79), unique=True, max_size=8),
    k=st.integers(1, 80),
    seed=st.integers(0, 9),
    order=st.sampled_from(["left to right", "right to left"]),
)
def test_blocks_equal_the_whole(cuts, k, seed, order):
    rng = np.random.default_rng(seed)
    # Small integers: sums are exact and most distances occur several times.
    rows = rng.integers(-2, 3, size=(80, 3)).astype(float)
    queries = rng.integers(-2, 3, size=(6, 3)).astype(float)
    edges = [0, *sorted(cuts), 80]
    blocks = [BlockNeighbors.of(queries, rows[a:b], k) for a, b in itertools.pairwise(edges)]
    while len(blocks) > 1:
        at = 0 if order == "left to right" else len(blocks) - 2
        blocks[at : at + 2] = [blocks[at].merge(blocks[at + 1])]
    distances, indices = naive(queries, rows, k)
    np.testing.assert_array_equal(blocks[0].distances, distances)
    np.testing.assert_array_equal(blocks[0].indices, indices)
    assert blocks[0].n_rows == 80


def test_fewer_samples_than_neighbours():
    found = BlockNeighbors.of(np.zeros((2, 3)), np.eye(3), 5)
    assert found.distances.shape == found.indices.shape == (2, 3)
    both = found.merge(BlockNeighbors.of(np.zeros((2, 3)), 2 * np.eye(3), 5))
    np.testing.assert_array_equal(both.indices, [[0, 1, 2, 3, 4]] * 2)
    np.testing.assert_array_equal(both.distances, [[1, 1, 1, 2, 2]] * 2)


@pytest.mark.parametrize("n_queries", [1, 300])
def test_close_samples_are_measured_by_differences(n_queries, rng):
    # Rows 1e-9 apart, far from the centre: products of matrices do not separate them.
    queries = 3.0 + 1e-3 * rng.normal(size=(n_queries, 5))
    rows = np.repeat(queries[:1], 50, axis=0) + 1e-9 * np.arange(50)[::-1, None]
    found = BlockNeighbors.of(queries[:1], rows, 50)
    np.testing.assert_array_equal(found.indices[0], np.arange(50)[::-1])
    distances, indices = naive(queries, rows, 3)
    many = BlockNeighbors.of(queries, rows, 3)
    np.testing.assert_array_equal(many.indices, indices)
    np.testing.assert_allclose(many.distances, distances, rtol=1e-12)
