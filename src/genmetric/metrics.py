"""Scores of embeddings and metrics for search, recognition and verification.

Retrieval scores take samples in a space where distances are Euclidean, such as
``metric.transform(X)``, and never hold a matrix of all pairs. Scores of pairs take the truth and
the score or the probability of each pair, as in scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_curve
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import column_or_1d

from genmetric._neighbors import directions, nearest_neighbors, squared_distances
from genmetric._parallel import map_chunks, row_chunks
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import FLOATS, Interval, check_parameter, refuse_lazy

__all__ = [
    "det_points",
    "equal_error_rate",
    "expected_calibration_error",
    "mean_average_precision_at_r",
    "mean_reciprocal_rank",
    "miss_rate_at",
    "ndcg_at_k",
    "r_precision",
    "recall_at_k",
    "retrieval_scores",
]


class Gallery(NamedTuple):
    """Validated references and queries of a search, and the class of each."""

    references: AnyArray
    reference_codes: IntArray
    queries: AnyArray
    query_codes: IntArray
    #: Whether the queries are the references, each searched among the others.
    leave_one_out: bool

    @property
    def n_relevant(self) -> IntArray:
        """Number of references of the class of each query, without the query itself."""
        n_classes = 1 + max(self.reference_codes.max(), self.query_codes.max())
        counts = np.bincount(self.reference_codes, minlength=n_classes)[self.query_codes]
        return np.asarray(counts - self.leave_one_out)


def _check_gallery(
    X: Any, y: Any, *, queries: Any = None, query_labels: Any = None, metric: Any = "euclidean"
) -> Gallery:
    """Validate the samples and labels of a search; for the cosine, scale samples to unit length."""
    check_parameter(metric, "metric", ["euclidean", "cosine"])
    if (queries is None) != (query_labels is None):
        raise ValueError("queries and query_labels must be passed together; got only one of them.")
    samples, labels = [], []
    for rows, row_labels, name in ((X, y, "X"), (queries, query_labels, "queries")):
        if rows is not None:
            refuse_lazy(rows, name)
            x = check_array(rows, dtype=FLOATS, input_name=name)
            samples.append(directions(x, name) if metric == "cosine" else x)
            labels.append(column_or_1d(row_labels))
            check_consistent_length(x, labels[-1])
    if samples[-1].shape[1] != samples[0].shape[1]:
        raise ValueError(
            f"queries have {samples[-1].shape[1]} features, but X has {samples[0].shape[1]}. "
            "Transform both by the same metric."
        )
    codes = np.unique(np.concatenate(labels), return_inverse=True)[1]
    n, m = len(labels[0]), len(labels[-1])
    return Gallery(samples[0], codes[:n], samples[-1], codes[-m:], queries is None)


def _matches(gallery: Gallery, depth: int, n_jobs: int | None) -> Iterator[tuple[Any, Any]]:
    """Yield numbers of relevant references, and which of the `depth` nearest are relevant.

    Queries without a relevant reference are left out.
    """
    n_relevant = gallery.n_relevant
    asked = np.flatnonzero(n_relevant > 0)
    if not len(asked):
        raise ValueError(
            "No query has a reference of its class. Retrieval scores need at least two samples of "
            "one class, or queries whose labels occur in y."
        )
    depth = min(depth, len(gallery.references) - gallery.leave_one_out)
    for chunk in row_chunks(len(asked), 32 * depth, budget=64 * 2**20):
        rows = asked[chunk]
        queries, own = gallery.queries[rows], rows if gallery.leave_one_out else None
        found = nearest_neighbors(
            gallery.references, depth, queries=queries, exclude=own, n_jobs=n_jobs
        )
        own_class = gallery.query_codes[rows, None]
        yield n_relevant[rows], gallery.reference_codes[found.indices] == own_class


def retrieval_scores(
    X: ArrayLike,
    y: ArrayLike,
    *,
    queries: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
    k: int | Sequence[int] = (1, 10),
    metric: str = "euclidean",
    n_jobs: int | None = None,
) -> dict[str, float]:
    r"""Compute recall at k, R-precision and mAP@R with one search.

    For a query with R relevant references (references of its class) let :math:`r_i` be 1 if its
    i-th nearest reference is relevant and 0 otherwise:

    .. math:: \text{recall@}k = \max_{i \le k} r_i, \quad
              \text{R-precision} = \frac1R \sum_{i \le R} r_i, \quad
              \text{mAP@R} = \frac1R \sum_{i \le R} r_i \, \frac1i \sum_{j \le i} r_j ,

    each averaged over the queries that have a relevant reference.

    Parameters
    ----------
    X : array-like of shape (n_references, n_features)
        References, in a space where distances are Euclidean, such as ``metric.transform(X)``.
    y : array-like of shape (n_references,)
        Labels of the references.
    queries : array-like of shape (n_queries, n_features), default=None
        Queries. ``None`` uses each reference as a query among all others.
    query_labels : array-like of shape (n_queries,), default=None
        Labels of the queries.
    k : int or sequence of int, default=(1, 10)
        Numbers of neighbours of recall at k.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance; "cosine" scales all samples to unit length.
    n_jobs : int, default=None
        Number of threads.

    Returns
    -------
    dict of str to float
        ``"recall@k"`` for each k, ``"r_precision"`` and ``"map_at_r"``.

    References
    ----------
    K. Musgrave, S. Belongie and S.-N. Lim, A metric learning reality check, ECCV 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genmetric.metrics import retrieval_scores
    >>> X, y = load_iris(return_X_y=True)
    >>> scores = retrieval_scores(X, y, k=1)
    >>> round(scores["recall@1"], 3)
    0.96
    """
    ks = [k] if np.ndim(k) == 0 else list(k)  # type: ignore[arg-type]
    for value in ks:
        check_parameter(value, "k", [Interval(int, 1)])
    gallery = _check_gallery(X, y, queries=queries, query_labels=query_labels, metric=metric)
    depth = max(int(gallery.n_relevant.max(initial=0)), *ks, 1)
    totals, n_queries = np.zeros(len(ks) + 2), 0
    for n_relevant, match in _matches(gallery, depth, n_jobs):
        n_queries += len(match)
        totals[: len(ks)] += [match[:, :value].any(axis=1).sum() for value in ks]
        totals[len(ks) :] += precision_sums(match, n_relevant)
    names = [f"recall@{value}" for value in ks] + ["r_precision", "map_at_r"]
    return dict(zip(names, (totals / n_queries).tolist(), strict=True))


def precision_sums(match: AnyArray, n_relevant: IntArray) -> FloatArray:
    """Return the sums over queries of R-precision and of average precision at R."""
    ranks = np.arange(1, match.shape[1] + 1)
    within = match & (ranks <= n_relevant[:, None])
    precision = np.cumsum(match, axis=1, dtype=np.float32 if len(ranks) < 2**20 else float) / ranks
    average = np.einsum("ij,ij->i", within, precision, dtype=float) / n_relevant
    return np.array([(within.sum(axis=1) / n_relevant).sum(), average.sum()])


def recall_at_k(
    X: ArrayLike, y: ArrayLike, *, k: int = 1, n_jobs: int | None = None, **options: Any
) -> float:
    """Compute the fraction of queries with a reference of their class among the k nearest.

    Parameters
    ----------
    X : array-like of shape (n_references, n_features)
        References.
    y : array-like of shape (n_references,)
        Labels of the references.
    k : int, default=1
        Number of neighbours. The score grows with k.
    n_jobs : int, default=None
        Number of threads.
    **options
        `queries`, `query_labels` and `metric`, as in :func:`retrieval_scores`.

    Returns
    -------
    float
        Recall at k, between 0 and 1. Queries without any reference of their class are left out.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genmetric.metrics import recall_at_k
    >>> X, y = load_iris(return_X_y=True)
    >>> round(recall_at_k(X, y, k=5), 3)
    0.987
    """
    check_parameter(k, "k", [Interval(int, 1)])
    found = _matches(_check_gallery(X, y, **options), k, n_jobs)
    return float(np.concatenate([match.any(axis=1) for _, match in found]).mean())


def r_precision(X: ArrayLike, y: ArrayLike, **options: Any) -> float:
    """Compute the mean R-precision: of the R nearest references, the fraction that is relevant.

    R is the number of references of the query's class, so a perfect space has R-precision one.

    Parameters
    ----------
    X : array-like of shape (n_references, n_features)
        References.
    y : array-like of shape (n_references,)
        Labels of the references.
    **options
        `queries`, `query_labels`, `metric` and `n_jobs`, as in :func:`retrieval_scores`.

    Returns
    -------
    float
        R-precision, between 0 and 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genmetric.metrics import r_precision
    >>> X, y = load_iris(return_X_y=True)
    >>> round(r_precision(X, y), 3)
    0.82
    """
    return retrieval_scores(X, y, k=1, **options)["r_precision"]


def mean_average_precision_at_r(X: ArrayLike, y: ArrayLike, **options: Any) -> float:
    """Compute the mean average precision at R (mAP@R).

    Like R-precision, but relevant references count more if they are ranked first. R is the number
    of references of the query's class.

    Parameters
    ----------
    X : array-like of shape (n_references, n_features)
        References.
    y : array-like of shape (n_references,)
        Labels of the references.
    **options
        `queries`, `query_labels`, `metric` and `n_jobs`, as in :func:`retrieval_scores`.

    Returns
    -------
    float
        mAP@R, between 0 and 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genmetric.metrics import mean_average_precision_at_r
    >>> X, y = load_iris(return_X_y=True)
    >>> round(mean_average_precision_at_r(X, y), 3)
    0.773
    """
    return retrieval_scores(X, y, k=1, **options)["map_at_r"]


def ndcg_at_k(
    X: ArrayLike, y: ArrayLike, *, k: int = 10, n_jobs: int | None = None, **options: Any
) -> float:
    r"""Compute the normalised discounted cumulative gain of the k nearest references (nDCG@k).

    A relevant reference (of the query's class) at rank i counts :math:`1/\log_2(1+i)`; the sum is
    divided by that of a perfect order, and averaged over the queries with a relevant reference.

    Parameters
    ----------
    X : array-like of shape (n_references, n_features)
        References, in a space where distances are Euclidean.
    y : array-like of shape (n_references,)
        Labels of the references.
    k : int, default=10
        Number of neighbours.
    n_jobs : int, default=None
        Number of threads.
    **options
        `queries`, `query_labels` and `metric`, as in :func:`retrieval_scores`.

    Returns
    -------
    float
        nDCG@k, between 0 and 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genmetric.metrics import ndcg_at_k
    >>> X, y = load_iris(return_X_y=True)
    >>> round(ndcg_at_k(X, y), 3)
    0.943
    """
    check_parameter(k, "k", [Interval(int, 1)])
    scores = []
    for n_relevant, match in _matches(_check_gallery(X, y, **options), k, n_jobs):
        gains = 1 / np.log2(2 + np.arange(match.shape[1]))
        ideal = np.cumsum(gains)[np.minimum(n_relevant, match.shape[1]) - 1]
        scores.append(match @ gains / ideal)
    return float(np.concatenate(scores).mean())


def mean_reciprocal_rank(X: ArrayLike, y: ArrayLike, **options: Any) -> float:
    """Compute the mean reciprocal rank (MRR) of the nearest reference of the query's class.

    Parameters
    ----------
    X : array-like of shape (n_references, n_features)
        References, in a space where distances are Euclidean.
    y : array-like of shape (n_references,)
        Labels of the references.
    **options
        `queries`, `query_labels`, `metric` and `n_jobs`, as in :func:`retrieval_scores`.

    Returns
    -------
    float
        MRR, between 0 and 1: the mean of 1 over one plus the number of references of other classes
        that are nearer, over the queries with a reference of their class.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genmetric.metrics import mean_reciprocal_rank
    >>> X, y = load_iris(return_X_y=True)
    >>> round(mean_reciprocal_rank(X, y), 3)
    0.969
    """

    def ranks(distances: FloatArray, same: AnyArray, _: AnyArray) -> FloatArray:
        nearest = np.where(same, distances, np.inf).min(axis=1)
        nearer = distances < nearest[:, None]
        return np.asarray(1.0 + nearer[np.isfinite(nearest)].sum(axis=1))

    found = np.concatenate(list(_map_pairs(ranks, X, y, **options)))
    if not len(found):
        raise ValueError(_NO_PAIR.format("the same label"))
    return float(np.mean(1 / found))


_NO_PAIR = "There is no pair of samples with {}. This score needs such pairs: check the labels."


def _map_pairs(
    function: Callable[..., FloatArray], X: Any, y: Any, n_jobs: int | None = None, **options: Any
) -> Iterator[FloatArray]:
    """Apply `function` to blocks of queries: squared distances, same label, pair not yet seen."""
    gallery = _check_gallery(X, y, **options)
    center = gallery.references.mean(axis=0, dtype=float)
    z, references = gallery.queries - center, gallery.references - center
    unit = max(np.abs(z).max(), np.abs(references).max()) or 1.0  # squares of 1e-200 underflow
    z, references = z / unit, references / unit

    def of_block(chunk: slice) -> FloatArray:
        distances = squared_distances(z[chunk], references)
        same = gallery.query_codes[chunk, None] == gallery.reference_codes
        new = np.ones(same.shape, bool)
        if gallery.leave_one_out:
            new = np.arange(chunk.start, chunk.stop)[:, None] < np.arange(len(references))
            np.fill_diagonal(distances[:, chunk], np.inf)
        return function(distances, same, new)

    return map_chunks(of_block, row_chunks(len(z), 64 * len(references)), n_jobs)


def equal_error_rate(X: ArrayLike, y: ArrayLike, **options: Any) -> float:
    r"""Compute the equal error rate of verification by distance.

    Two samples are accepted as having the same label if their distance is at most a threshold t.
    The false acceptance rate grows with t and the false rejection rate falls; the equal error rate
    is their mean at the threshold where they differ least. All pairs are used, in blocks: three
    passes find the threshold, sixteen bits of the number in each. Distances that differ by less
    than 1e-11 of their size are equal.

    Parameters
    ----------
    X : array-like of shape (n_references, n_features)
        References.
    y : array-like of shape (n_references,)
        Labels of the references.
    **options
        `queries`, `query_labels`, `metric` and `n_jobs`, as in :func:`retrieval_scores`. With
        queries, the pairs are those of a query and a reference; without, all of two references.

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
    # Non-negative numbers have the order of their bits: a histogram of the leading bits finds the
    # leading bits of the threshold, and so on. Row 0 counts different labels, row 1 equal ones.
    threshold, below, totals = 0, np.zeros((2, 1)), np.zeros((2, 1))
    for shift in (32, 16, 0):
        histogram = partial(_histogram_of_bits, shift=shift, leading=threshold)
        counts: Any = sum(_map_pairs(histogram, X, y, **options))
        accepted = below + np.cumsum(counts, axis=1)
        totals = accepted[:, -1:] if shift == 32 else totals
        if not totals.all():
            raise ValueError(_NO_PAIR.format("the same label" if totals[0] else "different labels"))
        rates = np.stack([accepted[0] / totals[0], 1 - accepted[1] / totals[1]])
        crossing = int(np.argmax(rates[0] >= rates[1]))
        below = accepted[:, [crossing]] - counts[:, [crossing]]
        threshold = (threshold << 16) + crossing
    # The rates differ least at the crossing, or at the threshold just below it.
    before = np.array([below[0, 0] / totals[0, 0], 1 - below[1, 0] / totals[1, 0]])
    return float(min(before, rates[:, crossing], key=lambda r: abs(r[0] - r[1])).mean())


def _histogram_of_bits(
    distances: FloatArray, same: AnyArray, new: AnyArray, *, shift: int, leading: int
) -> FloatArray:
    """Count pairs by the 16 bits of the distance after these leading bits, (2, 65536)."""
    # No negative zeros, and the 48 leading bits, rounded: equal distances differ in the last ones.
    bits = ((distances[new] + 0.0).view(np.int64) + 2**15) >> (16 + shift)
    inside = bits >> 16 == leading
    cells = (bits[inside] & 0xFFFF) + 2**16 * same[new][inside]
    return np.asarray(np.bincount(cells, minlength=2**17).reshape(2, -1), float)


def det_points(y_true: ArrayLike, y_score: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute the detection error tradeoff (DET) of scored pairs.

    Parameters
    ----------
    y_true : array-like of shape (n_pairs,)
        Whether each pair is of the same entity: 1 if so, and -1 or 0 otherwise.
    y_score : array-like of shape (n_pairs,)
        Scores, larger for pairs that are more likely the same.

    Returns
    -------
    false_match_rate : ndarray of shape (n_thresholds,)
        Fraction of different pairs with a score of at least the threshold, ascending.
    miss_rate : ndarray of shape (n_thresholds,)
        Fraction of same pairs with a smaller score, descending. It starts at 1 with no match.
    thresholds : ndarray of shape (n_thresholds,)
        Thresholds, descending; the first is infinite.

    Examples
    --------
    >>> from genmetric.metrics import det_points
    >>> false_match, miss, thresholds = det_points([1, 1, -1, -1], [0.9, 0.4, 0.6, 0.1])
    >>> false_match, miss
    (array([0. , 0. , 0.5, 0.5, 1. ]), array([1. , 0.5, 0.5, 0. , 0. ]))
    """
    truth, score = column_or_1d(y_true), column_or_1d(y_score)
    if set(np.unique(truth)) not in ({-1, 1}, {0, 1}):
        raise ValueError(
            "y_true must have pairs of both kinds: 1 for the same entity, and -1 or 0 for different "
            f"ones; got the values {np.unique(truth).tolist()}."
        )
    false_match, match, thresholds = roc_curve(truth, score, pos_label=1, drop_intermediate=False)
    return false_match, 1 - match, thresholds


def miss_rate_at(y_true: ArrayLike, y_score: ArrayLike, *, false_match_rate: float = 0.01) -> float:
    """Compute the smallest miss rate among thresholds with at most this false-match rate.

    Parameters
    ----------
    y_true, y_score : array-like of shape (n_pairs,)
        Truth and scores of pairs, as in :func:`det_points`.
    false_match_rate : float, default=0.01
        Largest fraction of different pairs that may be taken for the same. Larger values give
        smaller miss rates.

    Returns
    -------
    float
        Fraction of same pairs that are missed.

    Examples
    --------
    >>> from genmetric.metrics import miss_rate_at
    >>> miss_rate_at([1, 1, -1, -1], [0.9, 0.4, 0.6, 0.1])
    0.5
    """
    check_parameter(false_match_rate, "false_match_rate", [Interval(float, 0, 1)])
    false_match, miss, _ = det_points(y_true, y_score)
    return float(miss[false_match <= false_match_rate].min())


def expected_calibration_error(y_true: ArrayLike, y_prob: ArrayLike, *, n_bins: int = 10) -> float:
    """Compute the mean difference of predicted probability and observed fraction, over bins.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Truth: 1 if the event occurred, such as a pair of the same entity, and -1 or 0 otherwise.
    y_prob : array-like of shape (n_samples,)
        Predicted probabilities of the event.
    n_bins : int, default=10
        Number of equal bins of the probability. More bins resolve more and are noisier.

    Returns
    -------
    float
        Absolute difference of the mean probability and the fraction of events in each bin, averaged
        with the number of samples in the bin: 0 if calibrated, at most 1.

    Examples
    --------
    >>> from genmetric.metrics import expected_calibration_error
    >>> expected_calibration_error([1, 1, 1, 0], [0.75, 0.75, 0.75, 0.75])
    0.0
    """
    check_parameter(n_bins, "n_bins", [Interval(int, 1)])
    event, p = column_or_1d(y_true) == 1, column_or_1d(y_prob).astype(float)
    check_consistent_length(event, p)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("y_prob must be probabilities between 0 and 1. Use predict_proba.")
    bins = np.minimum((p * n_bins).astype(np.intp), n_bins - 1)
    return float(np.abs(np.bincount(bins, p - event)).sum() / len(p))
