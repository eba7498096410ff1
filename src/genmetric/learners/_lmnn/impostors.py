"""Impostors: samples of other classes that are closer than the targets plus the margin.

A pair of samples of different classes is stored once and serves both of them. Samples are sorted by
class, so that the partners of a sample among later samples are the columns after its class. The
squared distances between a chunk of samples and these columns are one matrix product, in float32 if
that is accurate enough. They are rounded down, so that the search misses no impostor and returns a
few extra pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from genmetric._chunks import CHUNK_BYTES, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray

#: Largest error of a squared distance in float32, relative to the margin of one.
_MAX_DISTANCE_ERROR = 0.05
#: Number of samples and of possible impostors whose distances are computed by one product.
_MAX_CHUNK_ROWS, _TILE_COLUMNS = 512, 1024
#: Bytes per pair found in a chunk of the search, with the temporary arrays that sort them.
_BYTES_PER_HIT = 32
#: Number of pairs processed at a time.
_PAIRS_PER_PIECE = 2**17
#: A matrix product over all pairs of a block takes as long as gathering this fraction of them.
_DENSE_FRACTION = 1 / 40
#: Largest error of a squared distance computed from a matrix product in float64.
_MAX_PRODUCT_ERROR = 1e-8


def search_chunks(n_samples: int) -> list[slice]:
    """Split samples into chunks whose tiles of products fit the memory budget.

    Chunks of many samples are fast, because a matrix product reorders its columns once per chunk;
    tiles of few columns stay in the processor's cache until they are compared.

    Parameters
    ----------
    n_samples : int
        Number of samples.

    Returns
    -------
    list of slice
        Adjacent slices that cover all samples.
    """
    # A float32 product and two bools for every pair of a tile.
    n_bytes = 6 * min(n_samples, _TILE_COLUMNS)
    return row_chunks(n_samples, n_bytes, max_rows=_MAX_CHUNK_ROWS, budget=CHUNK_BYTES)


def pair_distances(Z: FloatArray, a: AnyArray, b: AnyArray) -> FloatArray:
    """Compute squared distances between ``Z[a]`` and ``Z[b]`` from their differences.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Samples.
    a, b : ndarray of shape (n_pairs,)
        Indices of samples.

    Returns
    -------
    ndarray of shape (n_pairs,)
        Squared distances.
    """
    out = np.empty(len(a))
    # An eighth of the usual budget fits into the processor's cache.
    for part in row_chunks(len(a), 16 * Z.shape[1], budget=CHUNK_BYTES // 8):
        e = np.take(Z, a[part], axis=0)
        e -= np.take(Z, b[part], axis=0)
        np.einsum("ij,ij->i", e, e, out=out[part])
    return out


def distance_error(Z: FloatArray, dtype: Any) -> float:
    """Bound the error of squared distances computed from products, relative to their norms.

    The rounding error of a product of n terms is at most n roundings of the sum of their absolute
    values.
    """
    return float((2 * Z.shape[1] + 8) * np.finfo(dtype).eps)


@dataclass(frozen=True)
class Pairs:
    """Pairs of a sample and a later sample of another class, for a range of first samples.

    Attributes
    ----------
    span : slice
        The range of first samples.
    edges : ndarray of shape (n_rows + 1,)
        ``others[edges[r]:edges[r + 1]]`` belong to sample ``span.start + r``.
    others : ndarray of shape (n_pairs,)
        Index of the second sample of each pair, in ascending order for each first sample.
    """

    span: slice
    edges: IntArray
    others: AnyArray

    @property
    def rows(self) -> IntArray:
        """Index of the first sample of each pair, shape (n_pairs,)."""
        return np.repeat(np.arange(self.span.start, self.span.stop), np.diff(self.edges))

    @property
    def is_dense(self) -> bool:
        """Whether products over all pairs of the range are faster than gathering these pairs."""
        n_columns: int = self._columns.stop - self._columns.start
        return len(self.others) > _DENSE_FRACTION * (len(self.edges) - 1) * n_columns

    @property
    def _columns(self) -> slice:
        """The range of the second samples."""
        if not len(self.others):
            return slice(0, 0)
        return slice(int(self.others.min()), int(self.others.max()) + 1)

    def select(self, kept: AnyArray) -> Pairs:
        """Return the pairs for which the boolean array `kept` is true."""
        counts = np.concatenate([[0], np.cumsum(kept)])[self.edges]
        return Pairs(self.span, counts, self.others[kept])

    def distances(self, Z: FloatArray, norm2: FloatArray) -> FloatArray:
        """Compute the squared distances of the pairs, shape (n_pairs,).

        Parameters
        ----------
        Z : ndarray of shape (n_samples, n_components)
            Samples in the space of the metric.
        norm2 : ndarray of shape (n_samples,)
            Their squared norms.
        """
        accurate = 2 * distance_error(Z, np.float64) * norm2.max(initial=0.0) < _MAX_PRODUCT_ERROR
        if not (accurate and self.is_dense):
            return pair_distances(Z, self.rows, self.others)
        d = norm2[self.rows] + norm2[self.others]
        for part, columns, block in self._blocks():
            products = Z[part.span] @ Z[columns].T
            d[block] -= 2 * products[part.rows - part.span.start, part.others - columns.start]
        return np.maximum(d, 0.0)

    def product(self, weights: FloatArray, X: FloatArray) -> FloatArray:
        """Compute XᵀBX, where the sparse matrix B has a weight for each of the pairs.

        Parameters
        ----------
        weights : ndarray of shape (n_pairs,)
            Entries of B at the pairs.
        X : ndarray of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            The product.
        """
        if not self.is_dense:
            shape = (len(self.edges) - 1, len(X))
            B = csr_array((weights, self.others, self.edges), shape=shape)
            return np.asarray(X[self.span].T @ (B @ X))
        total = np.zeros((X.shape[1], X.shape[1]))
        for part, columns, block in self._blocks():
            dense = np.zeros((len(part.edges) - 1, columns.stop - columns.start))
            dense[part.rows - part.span.start, part.others - columns.start] = weights[block]
            total += X[part.span].T @ (dense @ X[columns])
        return total

    def _blocks(self) -> Iterator[tuple[Pairs, slice, slice]]:
        """Yield blocks of rows within the memory budget, their columns and their places."""
        columns = self._columns
        n_rows, n_bytes = len(self.edges) - 1, 8 * (columns.stop - columns.start)
        for rows in row_chunks(n_rows, n_bytes, budget=CHUNK_BYTES // 4):
            block = slice(int(self.edges[rows.start]), int(self.edges[rows.stop]))
            yield self._part(rows), columns, block

    def _part(self, rows: slice) -> Pairs:
        """Return the pairs of a slice of the rows of the range."""
        edges = self.edges[rows.start : rows.stop + 1]
        span = slice(self.span.start + rows.start, self.span.start + rows.stop)
        return Pairs(span, edges - edges[0], self.others[edges[0] : edges[-1]])

    def pieces(self) -> Iterator[Pairs]:
        """Split the pairs by ranges of samples into pieces that are processed at a time."""
        start, edges = 0, self.edges
        while start < len(edges) - 1:
            # All pairs of a sample stay together, so a piece has at least one sample.
            end = int(np.searchsorted(edges, edges[start] + _PAIRS_PER_PIECE, side="right")) - 1
            stop = max(start + 1, end)
            yield self._part(slice(start, stop))
            start = stop


def join_pairs(parts: list[Pairs]) -> Pairs:
    """Concatenate the pairs of adjacent ranges of samples."""
    counts = np.concatenate([np.diff(part.edges) for part in parts])
    return Pairs(
        slice(parts[0].span.start, parts[-1].span.stop),
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([part.others for part in parts]),
    )


class ImpostorSearch:
    """Search for all pairs of samples of different classes within the radius of one of them.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Samples in the space of the metric, sorted by class and centred near the origin.
    starts : ndarray of shape (n_classes + 1,)
        Index of the first sample of each class, followed by the number of samples.
    """

    def __init__(self, Z: FloatArray, starts: IntArray) -> None:
        self.n_rows, self.starts = len(Z), starts
        norm2 = np.einsum("ij,ij->i", Z, Z)
        largest = 2 * float(norm2.max(initial=0.0))
        accurate = distance_error(Z, np.float32) * largest < _MAX_DISTANCE_ERROR
        dtype = np.float32 if accurate else np.float64
        # Norms reduced by the error give a lower bound of the distance.
        norm2 *= 1 - distance_error(Z, dtype)
        # The product of (z, 1, -|z|²/2) and (z', -|z'|²/2, 1) is minus half the squared distance.
        # Filled in place: stacking would copy Z in float64 first.
        self._points = np.empty((len(Z), Z.shape[1] + 2), dtype)
        self._points[:, :-2], self._points[:, -2], self._points[:, -1] = Z, -norm2 / 2, 1

    def within(self, chunks: list[slice], radius2: FloatArray) -> Iterator[Pairs]:
        """Yield the pairs within the radius of one of the samples, and a few just beyond it.

        Parameters
        ----------
        chunks : list of slice
            Adjacent chunks, of at most 65536 samples each.
        radius2 : ndarray of shape (n_samples,)
            Squared radius around each sample.

        Yields
        ------
        Pairs
            Pairs of one or several chunks.
        """
        # Rounded down, because the products are rounded up.
        dtype = self._points.dtype
        bound = np.nextafter((-radius2 / 2).astype(dtype), np.asarray(-np.inf, dtype))
        # Reused by all tiles: allocating memory takes as long as the product that fills it.
        size = max(c.stop - c.start for c in chunks) * min(_TILE_COLUMNS, self.n_rows)
        buffers = (np.empty(size, dtype), np.empty(size, bool), np.empty(size, bool))
        found: list[Pairs] = []
        for chunk in chunks:
            for pairs in self._of_chunk(chunk, bound, buffers):
                found.append(pairs)
                if sum(len(pairs.others) for pairs in found) > _PAIRS_PER_PIECE:
                    yield join_pairs(found)
                    found = []
        if found:
            yield join_pairs(found)

    def _of_chunk(
        self, chunk: slice, bound: AnyArray, buffers: tuple[AnyArray, AnyArray, AnyArray]
    ) -> Iterator[Pairs]:
        """Yield the pairs of a chunk, by halves if they are too many for the memory budget."""
        n_rows = chunk.stop - chunk.start
        left = self._points[chunk].copy()
        left[:, -2:] = left[:, :-3:-1]
        # The class of the first sample has no partners before its end.
        first = int(self.starts[np.searchsorted(self.starts, chunk.start, side="right")])
        rows: list[AnyArray] = [np.empty(0, np.uint16)]
        others: list[AnyArray] = [np.empty(0, np.int32)]
        n_hits = 0
        for low in range(first, self.n_rows, _TILE_COLUMNS):
            columns = slice(low, min(low + _TILE_COLUMNS, self.n_rows))
            hit = self._hits_of_tile(left, chunk, columns, bound, buffers)
            n_hits += len(hit)
            if n_hits * _BYTES_PER_HIT > CHUNK_BYTES and n_rows > 1:
                middle = chunk.start + n_rows // 2
                yield from self._of_chunk(slice(chunk.start, middle), bound, buffers)
                yield from self._of_chunk(slice(middle, chunk.stop), bound, buffers)
                return
            row, other = np.divmod(hit, columns.stop - columns.start)
            rows.append(row.astype(np.uint16))
            others.append((other + low).astype(np.int32))
        row = np.concatenate(rows)
        edges = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))])
        # Stable, so that the partners of a sample stay in ascending order.
        yield Pairs(chunk, edges, np.concatenate(others)[np.argsort(row, kind="stable")])

    def _hits_of_tile(
        self,
        left: AnyArray,
        chunk: slice,
        columns: slice,
        bound: AnyArray,
        buffers: tuple[AnyArray, AnyArray, AnyArray],
    ) -> IntArray:
        """Return the flat indices of the pairs of a tile that are within a radius."""
        shape = (len(left), columns.stop - columns.start)
        product, hit, hit_other = (a[: shape[0] * shape[1]].reshape(shape) for a in buffers)
        np.matmul(left, self._points[columns].T, out=product)
        # Exclude the pairs of a sample with its own class and with earlier samples.
        c0, c1 = np.searchsorted(self.starts, [chunk.start, chunk.stop - 1], side="right")
        for low, high in pairwise(self.starts[c0 - 1 : c1 + 1].tolist()):
            rows = slice(max(low - chunk.start, 0), high - chunk.start)
            product[rows, : max(high - columns.start, 0)] = -np.inf
        np.greater(product, bound[chunk, None], out=hit)
        np.greater(product, bound[columns], out=hit_other)
        hit |= hit_other
        return np.flatnonzero(hit)
