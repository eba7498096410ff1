"""Blocks of samples of dask collections, matching blocks of labels, and neighbours among blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from genmetric._optional import import_optional
from genmetric._search import Neighbors, nearest_neighbors
from genmetric._typing import AnyArray, FloatArray, IntArray


@dataclass(frozen=True)
class Blocks:
    """Samples of a dask collection, block by block.

    Attributes
    ----------
    blocks : list of Delayed
        Arrays or frames that are computed later, in order.
    lengths : tuple of float
        Number of samples of each block; NaN if unknown.
    sample : array or frame
        An array or frame without samples, with the features of all blocks.
    dtype : dtype
        Type of the validated samples.
    """

    blocks: list[Any]
    lengths: tuple[float, ...]
    sample: Any
    dtype: Any

    @classmethod
    def of(cls, X: Any, name: str = "X", n_dims: int = 2) -> Blocks:
        """Return the blocks of a dask array, DataFrame or Series; raise for other types."""
        dask = import_optional("dask", "dask")
        if not dask.is_dask_collection(X):
            raise TypeError(
                f"{name} must be a dask array or frame; got {type(X).__name__}. For samples in memory "
                "use genmetric.GenerativeMetric."
            )
        is_array = isinstance(X, import_optional("dask.array", "dask").Array)
        is_frame = (dask.utils.is_series_like, dask.utils.is_dataframe_like)[n_dims - 1](X)
        if not (is_frame or (is_array and X.ndim == n_dims)):
            frame = "DataFrame" if n_dims == 2 else "Series"
            found = f"an array of {X.ndim}" if is_array else type(X).__name__
            raise TypeError(
                f"{name} must be a dask array of {n_dims} dimensions or a dask {frame}; got {found}."
            )
        if is_frame:
            types = {str(kind) for kind in X.dtypes} if n_dims == 2 else set()
            dtype = np.dtype(np.float32 if types == {"float32"} else np.float64)
            return cls(list(X.to_delayed()), (np.nan,) * X.npartitions, X._meta, dtype)
        sample: AnyArray = np.empty(0)
        if n_dims == 2:
            if np.isnan(X.shape[1]):
                raise ValueError(
                    f"{name} has an unknown number of columns: see compute_chunk_sizes."
                )
            X = X.rechunk({1: -1})
            sample = np.empty((0, X.shape[1]))
        dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
        return cls(list(X.to_delayed().ravel()), X.chunks[0], sample, dtype)


def aligned_blocks(X: Any, y: Any) -> tuple[Blocks, Blocks]:
    """Return the blocks of samples and of their labels; raise if they cannot be matched."""
    rows, labels = Blocks.of(X), Blocks.of(y, "y", n_dims=1)
    n_rows, n_labels = sum(rows.lengths), sum(labels.lengths)
    if not np.isnan([n_rows, n_labels]).any():
        if n_rows != n_labels:
            raise ValueError(
                f"X has {n_rows} samples and y {n_labels} labels. Pass one label per sample."
            )
        if rows.lengths != labels.lengths:
            labels = Blocks.of(y.rechunk((rows.lengths,)), "y", n_dims=1)
    elif all(getattr(a, "known_divisions", False) for a in (X, y)) and X.divisions != y.divisions:
        labels = Blocks.of(y.repartition(divisions=X.divisions), "y", n_dims=1)
    if len(rows.blocks) != len(labels.blocks):
        raise ValueError(
            f"X has {len(rows.blocks)} blocks and y {len(labels.blocks)}, of unknown lengths, so "
            "their samples cannot be matched. Take both from one frame, or call compute_chunk_sizes()."
        )
    return rows, labels


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
