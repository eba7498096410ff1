"""Impostors: rows of other classes nearer to a row than its targets and the margin allow.

Rows are sorted by class, so that the rows of other classes are the columns before and after a
block. Squared distances of a chunk of rows to all of them are one matrix product, in float32
where that is exact enough; rounded down, so that it misses none and finds a few too many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from genmetric._chunks import CHUNK_BYTES, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray

#: Largest error of a squared distance in float32, against the margin of one.
_TOLERATED = 0.05
#: Pairs that are worked on at a time.
_PAIRS_AT_ONCE = 2**17


def class_chunks(starts: IntArray, bytes_per_row: int, *, budget: int | None = None) -> list[slice]:
    """Chunks of rows sorted by class: parts of one class, or several whole classes.

    Parameters
    ----------
    starts : ndarray of shape (n_classes + 1,)
        First row of each class, and the number of rows.
    bytes_per_row : int
        Bytes of temporary arrays that one row needs.
    budget : int, default=None
        Bytes for one chunk; ``None`` is that of :func:`genmetric._chunks.row_chunks`.

    Returns
    -------
    list of slice
        In order, together all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.lmnn.impostors import class_chunks
    >>> class_chunks(np.array([0, 1, 3, 9]), 1, budget=4)
    [slice(0, 3, None), slice(3, 6, None), slice(6, 9, None)]
    """
    budget = CHUNK_BYTES if budget is None else budget
    size = max(1, budget // max(1, bytes_per_row))
    chunks: list[slice] = []
    first = 0  # of the classes gathered for the next chunk
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
    """Squared distances between the rows ``Z[a]`` and ``Z[b]``, by differences.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Rows.
    a, b : ndarray of shape (n_pairs,)
        Indices of rows.

    Returns
    -------
    ndarray of shape (n_pairs,)
        Squared distances.
    """
    out = np.empty(len(a))
    # An eighth of the usual budget stays in the processor's cache.
    for part in row_chunks(len(a), 16 * Z.shape[1], budget=CHUNK_BYTES // 8):
        e = np.take(Z, a[part], axis=0)
        e -= np.take(Z, b[part], axis=0)
        np.einsum("ij,ij->i", e, e, out=out[part])
    return out


@dataclass(frozen=True)
class Pairs:
    """Pairs of a row and a row of another class, for a range of rows.

    Attributes
    ----------
    span : slice
        The range of rows.
    rows : ndarray of shape (n_pairs,)
        The row of each pair, ascending.
    others : ndarray of shape (n_pairs,)
        Its row of another class, ascending for each row.
    """

    span: slice
    rows: AnyArray
    others: AnyArray

    def packed(self) -> Pairs:
        """The same in half the memory."""
        return Pairs(self.span, self.rows.astype(np.int32), self.others.astype(np.int32))

    def pieces(self) -> Iterator[Pairs]:
        """The same in ranges of rows with no more pairs than are worked on at a time."""
        start, n_pairs = self.span.start, len(self.rows)
        while n_pairs > _PAIRS_AT_ONCE and start < self.span.stop:
            begin = int(np.searchsorted(self.rows, start))
            if n_pairs - begin <= _PAIRS_AT_ONCE:
                break
            # At least one row, whatever its pairs; rows are whole.
            stop = max(start + 1, int(self.rows[begin + _PAIRS_AT_ONCE]))
            end = int(np.searchsorted(self.rows, stop))
            yield Pairs(slice(start, stop), self.rows[begin:end], self.others[begin:end])
            start = stop
        begin = int(np.searchsorted(self.rows, start))
        if start < self.span.stop:
            yield Pairs(slice(start, self.span.stop), self.rows[begin:], self.others[begin:])


def join_pairs(parts: list[Pairs]) -> Pairs:
    """Pairs of adjacent ranges of rows as one."""
    return Pairs(
        slice(parts[0].span.start, parts[-1].span.stop),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.others for part in parts]),
    )


class ImpostorSearch:
    """All rows of other classes within a radius of each row.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Rows in the space of the metric, sorted by class, of mean about zero.
    starts : ndarray of shape (n_classes + 1,)
        First row of each class, and the number of rows.
    """

    def __init__(self, Z: FloatArray, starts: IntArray) -> None:
        self.n_rows, self.starts = len(Z), starts
        norm2 = np.einsum("ij,ij->i", Z, Z)
        # A product of n terms errs by at most n roundings of the sum of their sizes. Norms made
        # smaller by that much turn it into a lower bound of the distance, so no pair is missed.
        error = {t: (2 * Z.shape[1] + 8) * float(np.finfo(t).eps) for t in (np.float32, np.float64)}
        largest = 2 * float(norm2.max(initial=0.0))
        dtype = np.float32 if error[np.float32] * largest < _TOLERATED else np.float64
        norm2 *= 1 - error[dtype]
        self._left = np.column_stack([Z, norm2, np.ones(len(Z))]).astype(dtype)
        self._right = np.vstack([-2 * Z.T, np.ones(len(Z)), norm2]).astype(dtype)

    def within(self, chunks: list[slice], radius2: FloatArray) -> Iterator[Pairs]:
        """Pairs at squared distances below those of a radius a row, and a few just beyond.

        Parameters
        ----------
        chunks : list of slice
            Adjacent chunks of :func:`class_chunks`.
        radius2 : ndarray of shape (n_samples,)
            Squared radius around each row.

        Yields
        ------
        Pairs
            Those of one chunk or several, as many as are worked on at a time.
        """
        most = max(chunk.stop - chunk.start for chunk in chunks)
        # Kept over the chunks: fresh memory costs as much as the product that fills it.
        near = np.empty(most * self.n_rows, self._left.dtype)
        hit = np.empty(most * self.n_rows, bool)
        found: list[Pairs] = []
        for chunk in chunks:
            found.append(self._of_chunk(chunk, radius2, near, hit))
            if sum(len(pairs.rows) for pairs in found) > _PAIRS_AT_ONCE:
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
        if c0 != c1:  # several whole classes: no row is an impostor in its own
            for own in map(slice, starts[c0 : c1 + 1].tolist(), starts[c0 + 1 : c1 + 2].tolist()):
                near[own.start - chunk.start : own.stop - chunk.start, own] = np.inf
        # Rounded up, as the norms were rounded down.
        bound = np.nextafter(radius2[chunk].astype(near.dtype), np.asarray(np.inf, near.dtype))
        np.less(near, bound[:, None], out=hit)
        rows, others = np.divmod(np.flatnonzero(hit), max(1, n_columns))
        rows += chunk.start
        others[others >= low] += high - low
        return Pairs(chunk, rows, others)
