"""Exact nearest neighbours among samples that arrive in blocks."""

from __future__ import annotations

from dataclasses import dataclass

from genmetric._search import Neighbors, nearest_neighbors
from genmetric._typing import FloatArray, IntArray


@dataclass(frozen=True)
class BlockNeighbors:
    """Nearest samples of each query among the blocks searched so far; results can be merged.

    Attributes
    ----------
    n_neighbors : int
        Number of neighbours to find in all blocks together.
    n_rows : int
        Number of samples searched.
    found : Neighbors
        Distances and indices, counted from the start of the first block, with
        ``min(n_neighbors, n_rows)`` columns.
    """

    n_neighbors: int
    n_rows: int
    found: Neighbors

    @classmethod
    def of(cls, queries: FloatArray, rows: FloatArray, n_neighbors: int) -> BlockNeighbors:
        """Search one block.

        Parameters
        ----------
        queries : ndarray of shape (n_queries, n_features)
            Queries, in coordinates where distances are Euclidean.
        rows : ndarray of shape (n_rows, n_features)
            Samples of the block, at least one, in the same coordinates.
        n_neighbors : int
            Number of neighbours to find in all blocks together.

        Returns
        -------
        BlockNeighbors
            Neighbours in this block.
        """
        found = nearest_neighbors(rows, min(n_neighbors, len(rows)), queries=queries)
        return cls(n_neighbors, len(rows), found)

    def merge(self, other: BlockNeighbors) -> BlockNeighbors:
        """Return the nearest of both; the samples of the other follow these."""
        found = self.found.merge(other.found, self.n_neighbors, offset=self.n_rows)
        return BlockNeighbors(self.n_neighbors, self.n_rows + other.n_rows, found)

    @property
    def distances(self) -> FloatArray:
        """Distances, ascending."""
        return self.found.distances

    @property
    def indices(self) -> IntArray:
        """Indices of the samples; equal distances are ordered by index."""
        return self.found.indices
