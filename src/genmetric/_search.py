r"""Exact nearest neighbours in Euclidean distance.

One product of matrices in float32 gives a lower bound of every squared distance. With
:math:`\delta` a bound of its relative rounding error and x, y centred,

.. math:: b(x, y) = (1-\delta) \|x\|^2 - 2 x^T y + (1-\delta) \|y\|^2 \le \|x - y\|^2 .

If k samples have a bound of at most t, the k-th smallest squared distance is at most

.. math:: (t + 6 \delta \|x\|^2) / (1 - 4 \delta) ,

because :math:`\|y\|^2 \le 2 \|x\|^2 + 2 \|x-y\|^2`. Only samples whose bound does not exceed this
limit can be neighbours, usually few more than k. Their distances are computed in float64 from the
differences of the coordinates, and these decide. Rounding therefore never changes the answer, and
equal distances stay equal: ties go to the sample with the lower index.

Two searches of this package differ on purpose: :mod:`genmetric.neighbors._local_search`, because
each query has its own metric there, and :mod:`genmetric.neighbors._faiss_search`, which is
approximate for most of its indexes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from genmetric._chunks import CHUNK_BYTES, map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray

#: Queries of one chunk: enough for products of matrices to be efficient.
_QUERIES = 256

#: Columns of one block of bounds, which take five bytes for each pair with a query.
_COLUMNS = CHUNK_BYTES // (5 * _QUERIES)

#: Below this number of coordinates of all pairs, bounds cost more than the distances.
_FEW = 2**16

#: With more candidates than this multiple of k, the bounds are computed again in float64.
_MANY = 16

#: Squared distances that neither underflow nor overflow in any of their terms.
_SMALLEST, _LARGEST = 1e-200, 1e280


class Neighbors(NamedTuple):
    """Nearest reference samples of each query.

    Attributes
    ----------
    distances : ndarray of shape (n_queries, n_neighbors)
        Euclidean distances, ascending.
    indices : ndarray of shape (n_queries, n_neighbors)
        Indices of the reference samples. Equal distances are ordered by index.
    """

    distances: FloatArray
    indices: IntArray

    def merge(self, other: Neighbors, n_neighbors: int, offset: int = 0) -> Neighbors:
        """Combine the results of two searches for the same queries.

        Parameters
        ----------
        other : Neighbors
            Result of a search among samples that follow those of this one.
        n_neighbors : int
            Number of neighbours to keep.
        offset : int, default=0
            Added to the indices of `other`: the number of samples searched before it.

        Returns
        -------
        Neighbors
            The nearest of both, with fewer than `n_neighbors` columns if both have fewer.
        """
        distances = np.hstack([self.distances, other.distances])
        indices = np.hstack([self.indices, other.indices + offset])
        first = np.argsort(distances, axis=1, kind="stable")[:, :n_neighbors]
        return Neighbors(*(np.take_along_axis(a, first, axis=1) for a in (distances, indices)))


def nearest_neighbors(
    references: AnyArray,
    n_neighbors: int,
    *,
    queries: AnyArray | None = None,
    exclude: IntArray | None = None,
    n_jobs: int | None = None,
) -> Neighbors:
    """Find the nearest reference samples of each query, exactly.

    All pairs are considered, in blocks that fit a fixed memory budget. Pass samples in the space of
    a metric (``metric.transform(X)``) to find the neighbours under this metric.

    Parameters
    ----------
    references : ndarray of shape (n_references, n_features)
        Samples to search among, float32 or float64. Distances are computed in float64 for both.
    n_neighbors : int
        Number of neighbours of each query, at most `n_references`, and at most
        ``n_references - 1`` if samples are excluded.
    queries : ndarray of shape (n_queries, n_features), default=None
        Samples whose neighbours are searched. ``None`` searches the neighbours of the references,
        each without itself.
    exclude : ndarray of shape (n_queries,), default=None
        Index of one reference per query that is not a neighbour of it, such as the query itself;
        -1 excludes none.
    n_jobs : int, default=None
        Number of threads; ``None`` is one, -1 uses all cores. The result is the same, bit for bit,
        for every number.

    Returns
    -------
    Neighbors
        Distances and indices, nearest first; ties go to the lower index.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.neighbors import nearest_neighbors
    >>> line = np.array([[0.0], [1.0], [2.0], [5.0]])
    >>> distances, indices = nearest_neighbors(line, 2)
    >>> indices
    array([[1, 2],
           [0, 2],
           [1, 0],
           [2, 1]])
    >>> distances[3]
    array([3., 4.])
    """
    references = _as_rows(references)
    if queries is None:
        queries = references
        exclude = np.arange(len(references)) if exclude is None else exclude
    else:
        queries = _as_rows(queries)
    n_allowed = len(references) - (exclude is not None and bool((exclude >= 0).any()))
    if not 1 <= n_neighbors <= n_allowed:
        raise ValueError(
            f"n_neighbors must be between 1 and {n_allowed}, the number of samples that can be "
            f"neighbours; got {n_neighbors}. Use fewer neighbours or more samples."
        )
    search = _Search(references, len(queries), n_neighbors)

    def of_chunk(chunk: slice) -> Neighbors:
        own = np.full(chunk.stop - chunk.start, -1) if exclude is None else exclude[chunk]
        return search.run(queries[chunk], own)

    # Beyond the block of bounds, whose size is fixed, a query needs its candidates.
    bytes_per_query = 5 * min(len(references), _COLUMNS) + 128 * n_neighbors
    chunks = row_chunks(len(queries), bytes_per_query, max_rows=_QUERIES)
    parts = list(map_chunks(of_chunk, chunks, n_jobs))
    if not parts:
        return Neighbors(np.empty((0, n_neighbors)), np.empty((0, n_neighbors), np.intp))
    distances, indices = zip(*parts, strict=True)
    return Neighbors(np.concatenate(distances), np.concatenate(indices))


def _as_rows(rows: AnyArray) -> AnyArray:
    rows = np.asarray(rows)
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


class _Search:
    """Reference samples prepared for bounds and for distances.

    Parameters
    ----------
    references : ndarray of shape (n_references, n_features)
        Samples to search among.
    n_queries, n_neighbors : int
        Number of queries, and of the neighbours of each.
    """

    def __init__(self, references: AnyArray, n_queries: int, n_neighbors: int) -> None:
        self.references, self.n_neighbors = references, n_neighbors
        low, high = _extremes(references)
        self.center = low / 2 + high / 2
        reach = float(np.max(high / 2 - low / 2, initial=0.0))
        self.unit = _power_of_two(reach)
        # The mean, and not the middle of the range, which one outlier moves away from the rest.
        chunks = row_chunks(len(references), 24 * references.shape[1])
        total = np.sum([self._centered(references[rows]).sum(axis=0) for rows in chunks], axis=0)
        self.center = self.center + self.unit * (total / len(references))
        few = len(references) * n_queries * references.shape[1] <= _FEW
        self.columns = None if few else self._columns(np.float32)
        self._exact_columns: AnyArray | None = None

    def _columns(self, dtype: type) -> AnyArray:
        """Return the references as columns, with a one and the lowered squared norm below."""
        n_references, n_features = self.references.shape
        columns = np.ones((n_features + 2, n_references), dtype)
        lowered = 1 - _rounding(n_features, dtype)
        for rows in row_chunks(n_references, 24 * n_features):
            y = self._centered(self.references[rows])
            columns[:-2, rows] = y.T
            columns[-1, rows] = lowered * np.einsum("ij,ij->i", y, y)
        return columns

    def _centered(self, rows: AnyArray) -> FloatArray:
        y = np.multiply(rows, 1 / self.unit, dtype=float)
        y -= self.center / self.unit
        return y

    def run(self, queries: AnyArray, exclude: IntArray) -> Neighbors:
        """Search for one chunk of queries."""
        if self.columns is None:
            return self._finish(queries, self._all_pairs(queries, exclude))
        found = self._candidates(queries, exclude, self.columns, _MANY)
        if found is None:
            # Tight groups far from each other: float32 cannot separate their members.
            if self._exact_columns is None:
                self._exact_columns = self._columns(np.float64)
            found = self._candidates(queries, exclude, self._exact_columns, None)
        assert found is not None
        return found

    def _all_pairs(self, queries: AnyArray, exclude: IntArray) -> tuple[IntArray, IntArray]:
        query, column = np.divmod(
            np.arange(len(queries) * len(self.references)), len(self.references)
        )
        kept = column != exclude[query]
        return query[kept], column[kept]

    def _candidates(
        self, queries: AnyArray, exclude: IntArray, columns: AnyArray, many: int | None
    ) -> Neighbors | None:
        """Search block by block of references; None if more than `many` times k pairs remain."""
        k, n_references = self.n_neighbors, len(self.references)
        n_features = queries.shape[1]
        delta = _rounding(n_features, columns.dtype.type)
        largest = float(np.finfo(columns.dtype).max)
        with np.errstate(over="ignore"):
            x = self._centered(queries)
            norms = np.einsum("ij,ij->i", x, x)
        left = np.empty((len(x), n_features + 2))
        left[:, :-2] = -2 * x
        left[:, -2] = (1 - delta) * norms
        left[:, -1] = 1.0
        # Bounds of a query this far away overflow; zeros make every sample a candidate.
        left[~(norms < 1e30)] = 0.0
        norms = np.where(norms < 1e30, norms, 0.0)
        left = left.astype(columns.dtype)

        best = Neighbors(np.full((len(x), k), np.inf), np.full((len(x), k), -1, np.intp))
        n_pairs = 0
        for block in row_chunks(n_references, 1, max_rows=_COLUMNS):
            bounds = left @ columns[:, block]
            own = np.flatnonzero((block.start <= exclude) & (exclude < block.stop))
            bounds[own, exclude[own] - block.start] = np.inf
            known = (best.distances[:, -1] / self.unit) ** 2
            limit = np.where(
                np.isfinite(known),
                known,
                (_kth_bound(bounds, k) + 6 * delta * norms) / (1 - 4 * delta),
            )
            # A little more than the limit, for distances equal after the square root and underflow.
            limit = np.minimum(limit * (1 + 1e-6) + 1e-30, largest).astype(columns.dtype)
            inside = bounds <= limit[:, None]
            counts = np.count_nonzero(inside, axis=1)
            n_pairs += int(counts.sum())
            if many is not None and n_pairs > many * len(x) * (k + 8):
                return None
            for part in _balanced(counts):
                query, column = np.divmod(np.flatnonzero(inside[part]), inside.shape[1])
                pairs = query, column + block.start
                so_far = Neighbors(best.distances[part], best.indices[part])
                found = self._finish(queries[part], pairs, so_far)
                best.distances[part], best.indices[part] = found
        return best

    def _finish(
        self, queries: AnyArray, pairs: tuple[IntArray, IntArray], best: Neighbors | None = None
    ) -> Neighbors:
        """Measure candidate pairs, sorted by query and reference, and keep the k nearest."""
        k, n_queries = self.n_neighbors, len(queries)
        query, column = pairs
        distances = self._distances(queries, query, column)
        if best is not None:
            old = np.flatnonzero(best.indices.ravel() >= 0)
            query = np.concatenate([old // k, query])
            column = np.concatenate([best.indices.ravel()[old], column])
            distances = np.concatenate([best.distances.ravel()[old], distances])
        # Stable, and references are in ascending order within a query: ties go to the lower index.
        order = np.lexsort((distances, query))
        if not len(order):
            return Neighbors(np.full((n_queries, k), np.inf), np.full((n_queries, k), -1, np.intp))
        starts = np.searchsorted(query[order], np.arange(n_queries + 1))
        place = starts[:-1, None] + np.arange(k)
        missing = place >= starts[1:, None]
        chosen = order[np.minimum(place, len(order) - 1)]
        return Neighbors(
            np.where(missing, np.inf, distances[chosen]), np.where(missing, -1, column[chosen])
        )

    def _distances(self, queries: AnyArray, query: IntArray, column: IntArray) -> FloatArray:
        """Compute the distances of pairs from differences in float64."""
        out = np.empty(len(query))
        for part in row_chunks(len(query), 24 * queries.shape[1]):
            a, b = queries[query[part]], self.references[column[part]]
            with np.errstate(over="ignore", under="ignore"):
                difference = np.subtract(a, b, dtype=float)
                np.einsum("ij,ij->i", difference, difference, out=out[part])
            odd = np.flatnonzero(~((out[part] > _SMALLEST) & (out[part] < _LARGEST)))
            np.sqrt(out[part], out=out[part])
            if len(odd):
                out[part][odd] = _scaled_norms(a[odd], b[odd])
        return out


def _scaled_norms(a: AnyArray, b: AnyArray) -> FloatArray:
    """Compute |a - b| where its square overflows or underflows; zero is such a case too."""
    difference = a.astype(float) / 4 - b.astype(float) / 4
    largest = np.abs(difference).max(axis=1, initial=0.0)
    # A power of two, so that equal distances stay equal.
    scale = np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1.0))))
    difference /= scale[:, None]
    with np.errstate(over="ignore"):
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", difference, difference)) * scale * 4)


def _rounding(n_features: int, dtype: type) -> float:
    """Bound the relative error of a product of length n_features + 2 of rounded factors."""
    return 4 * (n_features + 10) * float(np.finfo(dtype).eps) / 2


def _extremes(rows: AnyArray) -> tuple[FloatArray, FloatArray]:
    chunks = row_chunks(len(rows), 16 * rows.shape[1])
    low = np.min([rows[part].min(axis=0) for part in chunks], axis=0).astype(float)
    high = np.max([rows[part].max(axis=0) for part in chunks], axis=0).astype(float)
    return low, high


def _power_of_two(size: float) -> float:
    """Return the power of two next to `size`, so that dividing by it does not round."""
    if size == 0:
        return 1.0
    return float(2.0 ** np.clip(np.round(np.log2(size)), -1000, 1000))


def _kth_bound(bounds: AnyArray, k: int) -> FloatArray:
    """Return a number per row that at least k entries of the row do not exceed.

    The k-th least minimum over groups of columns: as many groups have an entry below it. This is
    several times faster than partitioning the row, and little larger than its k-th least entry.
    """
    n_columns = bounds.shape[1]
    if k >= n_columns:
        return np.full(len(bounds), np.inf)
    n_groups = min(max(8 * k, 64), n_columns)
    depth = n_columns // n_groups
    minima = bounds[:, : depth * n_groups].reshape(len(bounds), depth, n_groups).min(axis=1)
    return np.partition(minima, k - 1, axis=1)[:, k - 1].astype(float)


def _balanced(counts: IntArray) -> list[slice]:
    """Cut queries into runs whose candidates fit the memory budget."""
    most = max(CHUNK_BYTES // 64, int(counts.max(initial=0)))
    ends, total = [0], 0
    for i, count in enumerate(counts):
        if total + count > most:
            ends.append(i)
            total = 0
        total += int(count)
    ends.append(len(counts))
    return [slice(a, b) for a, b in pairwise(ends) if b > a]
