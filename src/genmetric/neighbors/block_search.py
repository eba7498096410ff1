"""Exact nearest neighbours among rows that come block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import FloatArray, IntArray
from genmetric.neighbors.local_search import Neighbors, SearchRows, metric_neighbors


@dataclass(frozen=True)
class BlockNeighbors:
    """The nearest rows of each query among the rows of some blocks; merges as a sum does.

    Attributes
    ----------
    n_neighbors : int
        How many are wanted.
    n_rows : int
        Rows searched.
    squared : ndarray of shape (n_queries, min(n_neighbors, n_rows))
        Squared distances, ascending.
    indices : ndarray of shape (n_queries, min(n_neighbors, n_rows))
        Row numbers from the start of the first block; of equal distances the first row first.
    """

    n_neighbors: int
    n_rows: int
    squared: FloatArray
    indices: IntArray

    @classmethod
    def of(cls, queries: FloatArray, rows: FloatArray, n_neighbors: int) -> BlockNeighbors:
        """Search one block.

        Parameters
        ----------
        queries : ndarray of shape (n_queries, n_features)
            Queries, in coordinates where distances are Euclidean and sizes are about one.
        rows : ndarray of shape (n_rows, n_features)
            Rows of the block, at least one, in the same coordinates.
        n_neighbors : int
            How many neighbours, in all blocks together.

        Returns
        -------
        BlockNeighbors
            Of this block; found by products of matrices and measured by differences.
        """
        k = min(n_neighbors, len(rows))
        n_features = rows.shape[1]
        index = SearchRows.of(rows)
        identity = np.eye(n_features)

        def of_chunk(chunk: slice) -> Neighbors:
            x = queries[chunk]
            axes = np.broadcast_to(identity, (len(x), n_features, n_features))
            return metric_neighbors(x, np.ones_like(x), axes, index, k, n_leading=0)

        chunks = row_chunks(len(queries), 8 * len(rows) + 16 * n_features**2)
        parts = list(map_chunks(of_chunk, chunks))
        squared = np.concatenate([part.squared for part in parts])
        indices = np.concatenate([part.indices for part in parts])
        return cls(n_neighbors, len(rows), squared, indices)

    def merge(self, other: BlockNeighbors) -> BlockNeighbors:
        """The nearest of both; the other's rows come after these."""
        squared = np.hstack([self.squared, other.squared])
        indices = np.hstack([self.indices, other.indices + self.n_rows])
        first = np.argsort(squared, axis=1, kind="stable")[:, : self.n_neighbors]
        squared, indices = (np.take_along_axis(a, first, axis=1) for a in (squared, indices))
        return BlockNeighbors(self.n_neighbors, self.n_rows + other.n_rows, squared, indices)
