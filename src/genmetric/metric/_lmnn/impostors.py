"""Impostors: samples of other classes that are closer than the targets plus the margin.

Samples are sorted by class, so that the samples of other classes are the columns before and after
a block. The squared distances between a chunk of samples and all columns are one matrix product,
in float32 if that is accurate enough. They are rounded down, so that the search misses no impostor
and returns a few extra pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from genmetric._chunks import CHUNK_BYTES, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray

#: Largest error of a squared distance in float32, relative to the margin of one.
_MAX_DISTANCE_ERROR = 0.05
#: Number of pairs processed at a time.
_PAIRS_PER_PIECE = 2**17


def class_chunks(starts: IntArray, bytes_per_row: int, *, budget: int | None = None) -> list[slice]:
    """Split samples sorted by class into chunks: parts of one class, or several whole classes.

    Parameters
    ----------
    starts : ndarray of shape (n_classes + 1,)
        Index of the first sample of each class, followed by the number of samples.
    bytes_per_row : int
        Bytes of temporary arrays per sample.
    budget : int, default=None
        Bytes per chunk; ``None`` uses the budget of :func:`genmetric._chunks.row_chunks`.

    Returns
    -------
    list of slice
        Adjacent slices that cover all samples.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.metric._lmnn.impostors import class_chunks
    >>> class_chunks(np.array([0, 1, 3, 9]), 1, budget=4)
    [slice(0, 3, None), slice(3, 6, None), slice(6, 9, None)]
    """
    budget = CHUNK_BYTES if budget is None else budget
    size = max(1, budget // max(1, bytes_per_row))
    chunks: list[slice] = []
    first = 0  # first sample of the next chunk
    for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        if stop - first <= size:
            continue
        if start > first:
            chunks.append(slice(first, start))
        first = start
        if stop - start > size:
            parts = row_chunks(stop - start, bytes_per_row, budget=budget)
            chunks += [slice(start + part.start, start + part.stop) for part in parts]
            first = stop
    if first < starts[-1]:
        chunks.append(slice(first, int(starts[-1])))
    return chunks


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


@dataclass(frozen=True)
class Pairs:
    """Pairs of a sample and a sample of another class, for a range of samples.

    Attributes
    ----------
    span : slice
        The range of samples.
    rows : ndarray of shape (n_pairs,)
        Index of the first sample of each pair, in ascending order.
    others : ndarray of shape (n_pairs,)
        Index of the sample of another class, in ascending order for each first sample.
    """

    span: slice
    rows: AnyArray
    others: AnyArray

    def packed(self) -> Pairs:
        """Return the pairs with 32-bit indices, in half the memory."""
        return Pairs(self.span, self.rows.astype(np.int32), self.others.astype(np.int32))

    def pieces(self) -> Iterator[Pairs]:
        """Split the pairs by ranges of samples into pieces that are processed at a time."""
        start, n_pairs = self.span.start, len(self.rows)
        while n_pairs > _PAIRS_PER_PIECE and start < self.span.stop:
            begin = int(np.searchsorted(self.rows, start))
            if n_pairs - begin <= _PAIRS_PER_PIECE:
                break
            # All pairs of a sample stay together, so a piece has at least one sample.
            stop = max(start + 1, int(self.rows[begin + _PAIRS_PER_PIECE]))
            end = int(np.searchsorted(self.rows, stop))
            yield Pairs(slice(start, stop), self.rows[begin:end], self.others[begin:end])
            start = stop
        begin = int(np.searchsorted(self.rows, start))
        if start < self.span.stop:
            yield Pairs(slice(start, self.span.stop), self.rows[begin:], self.others[begin:])


def join_pairs(parts: list[Pairs]) -> Pairs:
    """Concatenate the pairs of adjacent ranges of samples."""
    return Pairs(
        slice(parts[0].span.start, parts[-1].span.stop),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.others for part in parts]),
    )


class ImpostorSearch:
    """Search for all samples of other classes within a radius of each sample.

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
        # The rounding error of a product of n terms is at most n roundings of the sum of their
        # absolute values. Norms reduced by this amount give a lower bound of the distance.
        error = {t: (2 * Z.shape[1] + 8) * float(np.finfo(t).eps) for t in (np.float32, np.float64)}
        largest = 2 * float(norm2.max(initial=0.0))
        dtype = np.float32 if error[np.float32] * largest < _MAX_DISTANCE_ERROR else np.float64
        norm2 *= 1 - error[dtype]
        # Filled in place: stacking would copy Z in float64 first.
        n_samples, n_components = Z.shape
        self._left = np.empty((n_samples, n_components + 2), dtype)
        self._left[:, :-2], self._left[:, -2], self._left[:, -1] = Z, norm2, 1
        self._right = np.empty((n_components + 2, n_samples), dtype)
        self._right[:-2], self._right[-2], self._right[-1] = Z.T, 1, norm2
        self._right[:-2] *= -2

    def within(self, chunks: list[slice], radius2: FloatArray) -> Iterator[Pairs]:
        """Yield the pairs within a radius per sample, and a few just beyond it.

        Parameters
        ----------
        chunks : list of slice
            Adjacent chunks returned by :func:`class_chunks`.
        radius2 : ndarray of shape (n_samples,)
            Squared radius around each sample.

        Yields
        ------
        Pairs
            Pairs of one or several chunks.
        """
        most = max(chunk.stop - chunk.start for chunk in chunks)
        # Reused by all chunks: allocating memory takes as long as the product that fills it.
        near = np.empty(most * self.n_rows, self._left.dtype)
        hit = np.empty(most * self.n_rows, bool)
        found: list[Pairs] = []
        for chunk in chunks:
            found.append(self._of_chunk(chunk, radius2, near, hit))
            if sum(len(pairs.rows) for pairs in found) > _PAIRS_PER_PIECE:
                yield join_pairs(found)
                found = []
        if found:
            yield join_pairs(found)

    def _of_chunk(self, chunk: slice, radius2: FloatArray, near: AnyArray, hit: AnyArray) -> Pairs:
        starts = self.starts
        c0, c1 = np.searchsorted(starts, [chunk.start, chunk.stop - 1], side="right") - 1
        low, high = (int(starts[c0]), int(starts[c0 + 1])) if c0 == c1 else (0, 0)
        n_rows, n_columns = chunk.stop - chunk.start, self.n_rows - (high - low)
        near = near[: n_rows * n_columns].reshape(n_rows, n_columns)
        hit = hit[: n_rows * n_columns].reshape(n_rows, n_columns)
        np.matmul(self._left[chunk], self._right[:, :low], out=near[:, :low])
        np.matmul(self._left[chunk], self._right[:, high:], out=near[:, low:])
        if c0 != c1:  # several whole classes: exclude the pairs within a class
            for own in map(slice, starts[c0 : c1 + 1].tolist(), starts[c0 + 1 : c1 + 2].tolist()):
                near[own.start - chunk.start : own.stop - chunk.start, own] = np.inf
        # Rounded up, because the norms are rounded down.
        bound = np.nextafter(radius2[chunk].astype(near.dtype), np.asarray(np.inf, near.dtype))
        np.less(near, bound[:, None], out=hit)
        rows, others = np.divmod(np.flatnonzero(hit), max(1, n_columns))
        rows += chunk.start
        others[others >= low] += high - low
        return Pairs(chunk, rows, others)
