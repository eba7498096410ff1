"""Verification: decide by the distance of two samples whether they have the same label."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric.metrics._retrieval import Gallery, Metric, check_gallery

#: Bins of one pass over all pairs, and pairs that may be sorted in the last one.
N_BINS, MAX_SORTED = 2**14, 2**20

#: Number of passes after which the remaining distances are equal up to rounding.
MAX_PASSES = 12


class Window(NamedTuple):
    """Range of squared distances that contains the threshold of equal errors.

    Attributes
    ----------
    low, high : float
        The range.
    below : ndarray of shape (2,)
        Number of pairs of different and of equal labels with smaller distances.
    """

    low: float
    high: float
    below: IntArray


def equal_error_rate(
    X: ArrayLike,
    y: ArrayLike,
    *,
    queries: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
    metric: Metric = "euclidean",
    n_jobs: int | None = None,
) -> float:
    r"""Compute the equal error rate of verification by distance.

    Two samples are accepted as having the same label if their distance is at most a threshold t.
    The false acceptance rate grows with t and the false rejection rate falls; the equal error rate
    is their mean at the threshold where they differ least. All pairs are used, in blocks: a few
    passes narrow the range of the threshold until the pairs in it can be sorted.

    Parameters
    ----------
    X : array-like of shape (n_references, n_features)
        References.
    y : array-like of shape (n_references,)
        Labels of the references.
    queries : array-like of shape (n_queries, n_features), default=None
        Queries; the pairs are then those of a query and a reference. ``None`` uses all pairs of
        two references.
    query_labels : array-like of shape (n_queries,), default=None
        Labels of the queries.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance; "cosine" scales all samples to unit length.
    n_jobs : int, default=None
        Number of threads.

    Returns
    -------
    float
        Equal error rate, between 0 (perfect) and about 0.5 (labels unrelated to distances).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genmetric.metrics import equal_error_rate
    >>> X, y = load_iris(return_X_y=True)
    >>> round(equal_error_rate(X, y), 2)
    0.14
    """
    gallery = check_gallery(X, y, queries, query_labels, metric)
    totals = _pair_counts(gallery)
    if not totals.all():
        kind = "different labels" if totals[0] == 0 else "the same label"
        raise ValueError(
            f"There is no pair of samples with {kind}. Verification needs pairs of both kinds."
        )
    pairs = _PairDistances(gallery, n_jobs)
    window = Window(-1.0, pairs.bound, np.zeros(2, np.int64))
    for _ in range(MAX_PASSES):
        window, n_inside = _narrow(pairs, window, totals)
        if n_inside <= MAX_SORTED:
            return _equal_error(pairs, window, totals)
    # With millions of equal distances both ends of the range are the same threshold.
    before, after = window.below, window.below + pairs.histogram(window.low, window.high, 1)[:, 0]
    return float(min(_rates(before, totals), _rates(after, totals), key=_gap).mean())


def _gap(rates: FloatArray) -> float:
    return float(abs(rates[0] - rates[1]))


def _pair_counts(gallery: Gallery) -> IntArray:
    """Return the number of pairs of different labels and of equal labels."""
    n_classes = 1 + max(gallery.reference_codes.max(), gallery.query_codes.max())
    references = np.bincount(gallery.reference_codes, minlength=n_classes)
    if gallery.own is None:
        queries = np.bincount(gallery.query_codes, minlength=n_classes)
        total, same = len(gallery.references) * len(gallery.queries), int(references @ queries)
    else:
        n = len(gallery.references)
        total, same = n * (n - 1) // 2, int((references * (references - 1) // 2).sum())
    return np.array([total - same, same])


def _rates(accepted: AnyArray, totals: IntArray) -> FloatArray:
    """Return false acceptance and false rejection rates of numbers of accepted pairs."""
    return np.stack([accepted[0] / totals[0], 1 - accepted[1] / totals[1]])


class _PairDistances:
    """Squared distances of all pairs, block by block, the same in every pass."""

    def __init__(self, gallery: Gallery, n_jobs: int | None) -> None:
        self.gallery, self.n_jobs = gallery, n_jobs
        center = gallery.references.mean(axis=0, dtype=float)
        self.references = np.subtract(gallery.references, center, dtype=float)
        self.queries = np.subtract(gallery.queries, center, dtype=float)
        # One unit for all: squares of samples near 1e200 or 1e-200 leave float64.
        reach = max(np.abs(self.references).max(), np.abs(self.queries).max())
        if reach > 0:
            self.references /= reach
            self.queries /= reach
        self.squares = np.einsum("ij,ij->i", self.references, self.references)
        norms = np.einsum("ij,ij->i", self.queries, self.queries)
        self.bound = 1.01 * float(np.sqrt(self.squares.max()) + np.sqrt(norms.max())) ** 2 + 1e-300

    def map(self, function: Callable[[FloatArray, AnyArray], FloatArray]) -> list[FloatArray]:
        """Apply `function(distances, same label)` to every block of pairs."""

        def of_block(chunk: slice) -> FloatArray:
            queries = self.queries[chunk]
            distances = -2 * (queries @ self.references.T)
            distances += np.einsum("ij,ij->i", queries, queries)[:, None]
            distances += self.squares
            np.maximum(distances, 0, out=distances)
            codes = self.gallery.query_codes[chunk, None]
            same = codes == self.gallery.reference_codes
            if self.gallery.own is not None:
                later = np.arange(len(self.references)) > self.gallery.own[chunk, None]
                return function(distances[later], same[later])
            return function(distances.ravel(), same.ravel())

        chunks = row_chunks(len(self.queries), 48 * len(self.references))
        return list(map_chunks(of_block, chunks, self.n_jobs))

    def histogram(self, low: float, high: float, n_bins: int) -> IntArray:
        """Count pairs with low < d <= high in equal bins: different labels, equal labels."""

        def count(distances: FloatArray, same: AnyArray) -> FloatArray:
            inside = (distances > low) & (distances <= high)
            bins = bin_of(distances[inside], low, high, n_bins)
            pairs = bins + n_bins * same[inside]
            return np.bincount(pairs, minlength=2 * n_bins).reshape(2, n_bins).astype(float)

        return np.asarray(np.sum(self.map(count), axis=0), np.int64)

    def between(self, low: float, high: float) -> tuple[FloatArray, AnyArray]:
        """Return the distances with low < d <= high, and whether the labels are equal."""

        def inside(distances: FloatArray, same: AnyArray) -> FloatArray:
            kept = (distances > low) & (distances <= high)
            return np.stack([distances[kept], same[kept]])

        distances, same = np.concatenate(self.map(inside), axis=1)
        return distances, same.astype(bool)


def bin_of(distances: FloatArray, low: float, high: float, n_bins: int) -> IntArray:
    """Return the index of the bin of each distance; monotone in the distance.

    Parameters
    ----------
    distances : ndarray of shape (n_pairs,)
        Numbers between `low` and `high`.
    low, high : float
        Ends of the range.
    n_bins : int
        Number of equal bins.

    Returns
    -------
    ndarray of shape (n_pairs,)
        Indices from 0 to ``n_bins - 1``.
    """
    bins = ((distances - low) * (n_bins / (high - low))).astype(np.intp)
    return np.minimum(bins, n_bins - 1, out=bins)


def _narrow(pairs: _PairDistances, window: Window, totals: IntArray) -> tuple[Window, int]:
    """Return a part of the window with the crossing of both rates, and the pairs in it."""
    low, high, below = window
    counts = pairs.histogram(low, high, N_BINS)
    accepted = below[:, None] + np.cumsum(counts, axis=1)
    acceptance, rejection = _rates(accepted, totals)
    crossing = int(np.argmax(acceptance >= rejection))
    width = (high - low) / N_BINS
    # One bin more on both sides: the edges of bins are rounded. The threshold before the crossing,
    # which may be the better one, accepts the pairs below the window.
    new_low, new_high = low + (crossing - 1) * width, min(low + (crossing + 2) * width, high)
    n_inside = int(counts[:, max(crossing - 1, 0) : crossing + 2].sum())
    if not low < new_low < new_high:
        return Window(low, new_high, below), n_inside
    skipped = pairs.histogram(low, new_low, 1)[:, 0]
    return Window(new_low, new_high, below + skipped), n_inside


def _equal_error(pairs: _PairDistances, window: Window, totals: IntArray) -> float:
    """Return the mean of both rates at the threshold in the window where they differ least."""
    distances, same = pairs.between(window.low, window.high)
    order = np.argsort(distances, kind="stable")
    distances, same = distances[order], same[order]
    accepted = window.below[:, None] + np.stack([np.cumsum(~same), np.cumsum(same)])
    # A threshold accepts all pairs of equal distance.
    last = np.append(distances[1:] > distances[:-1], True)
    accepted = np.column_stack([window.below, accepted[:, last]])
    rates = _rates(accepted, totals)
    return float(rates[:, np.argmin(np.abs(rates[0] - rates[1]))].mean())
