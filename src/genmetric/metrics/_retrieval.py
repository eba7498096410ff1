"""Retrieval scores: recall at k, R-precision and mean average precision at R."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import column_or_1d

from genmetric._chunks import row_chunks
from genmetric._parameters import Interval, check_parameter
from genmetric._search import nearest_neighbors
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._unit_vectors import unit_vectors
from genmetric._validation import refuse_lazy

Metric = Literal["euclidean", "cosine"]

#: Bytes of the neighbours of one chunk of queries.
NEIGHBOR_BYTES = 64 * 2**20


class Gallery(NamedTuple):
    """Validated queries and references of a retrieval task.

    Attributes
    ----------
    references : ndarray of shape (n_references, n_features)
        Samples that are searched.
    reference_codes : ndarray of shape (n_references,)
        Class index of each reference.
    queries : ndarray of shape (n_queries, n_features)
        Samples to search for.
    query_codes : ndarray of shape (n_queries,)
        Class index of each query.
    own : ndarray of shape (n_queries,) or None
        Index of each query among the references, which is left out of its neighbours.
    """

    references: AnyArray
    reference_codes: IntArray
    queries: AnyArray
    query_codes: IntArray
    own: IntArray | None

    @property
    def n_relevant(self) -> IntArray:
        """Number of references of the class of each query, without the query itself."""
        n_classes = 1 + max(self.reference_codes.max(), self.query_codes.max())
        counts = np.bincount(self.reference_codes, minlength=n_classes)[self.query_codes]
        return np.asarray(counts - (self.own is not None))


def check_gallery(
    X: ArrayLike,
    y: ArrayLike,
    queries: ArrayLike | None,
    query_labels: ArrayLike | None,
    metric: Any,
) -> Gallery:
    """Validate the samples and labels of a retrieval or verification task.

    Parameters
    ----------
    X : array-like of shape (n_references, n_features)
        References.
    y : array-like of shape (n_references,)
        Their labels.
    queries : array-like of shape (n_queries, n_features) or None
        Queries; ``None`` uses each reference as a query among the others.
    query_labels : array-like of shape (n_queries,) or None
        Labels of the queries.
    metric : {"euclidean", "cosine"}
        Distance; for "cosine" all samples are scaled to unit length.

    Returns
    -------
    Gallery
        The task.
    """
    check_parameter(metric, "metric", ["euclidean", "cosine"])
    if (queries is None) != (query_labels is None):
        raise ValueError("queries and query_labels must be passed together; got only one of them.")
    references, labels = _samples(X, y, "X", "y", metric)
    if queries is None:
        codes = np.unique(labels, return_inverse=True)[1]
        return Gallery(references, codes, references, codes, np.arange(len(references)))
    asked, asked_labels = _samples(queries, query_labels, "queries", "query_labels", metric)
    if asked.shape[1] != references.shape[1]:
        raise ValueError(
            f"queries have {asked.shape[1]} features, but X has {references.shape[1]}. Transform "
            "both by the same metric."
        )
    codes = np.unique(np.concatenate([labels, asked_labels]), return_inverse=True)[1]
    return Gallery(references, codes[: len(labels)], asked, codes[len(labels) :], None)


def _samples(X: Any, y: Any, name: str, label_name: str, metric: str) -> tuple[AnyArray, AnyArray]:
    refuse_lazy(X, name)
    refuse_lazy(y, label_name)
    x = check_array(X, dtype=[np.float64, np.float32], input_name=name)
    labels = column_or_1d(y)
    check_consistent_length(x, labels)
    return unit_vectors(x, name) if metric == "cosine" else x, labels


def _matches(gallery: Gallery, depth: int, n_jobs: int | None) -> Iterator[tuple[Any, Any]]:
    """Yield query indices and whether each of their `depth` nearest references is relevant.

    Queries without a relevant reference are left out.
    """
    asked = np.flatnonzero(gallery.n_relevant > 0)
    if not len(asked):
        raise ValueError(
            "No query has a reference of its class. Retrieval scores need at least two samples of "
            "one class, or queries whose labels occur in y."
        )
    available = len(gallery.references) - (gallery.own is not None)
    depth = min(depth, available)
    for chunk in row_chunks(len(asked), 32 * depth, budget=NEIGHBOR_BYTES):
        rows = asked[chunk]
        own = None if gallery.own is None else gallery.own[rows]
        found = nearest_neighbors(
            gallery.references, depth, queries=gallery.queries[rows], exclude=own, n_jobs=n_jobs
        )
        yield rows, gallery.reference_codes[found.indices] == gallery.query_codes[rows, None]


def retrieval_scores(
    X: ArrayLike,
    y: ArrayLike,
    *,
    queries: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
    k: int | Sequence[int] = (1, 10),
    metric: Metric = "euclidean",
    n_jobs: int | None = None,
) -> dict[str, float]:
    r"""Compute all retrieval scores with one search.

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
    gallery = check_gallery(X, y, queries, query_labels, metric)
    n_relevant = gallery.n_relevant
    depth = max(int(n_relevant.max(initial=0)), *ks, 1)
    totals = np.zeros(len(ks) + 2)
    n_queries = 0
    for rows, match in _matches(gallery, depth, n_jobs):
        n_queries += len(rows)
        first = np.where(match.any(axis=1), match.argmax(axis=1), match.shape[1])
        totals[: len(ks)] += [(first < value).sum() for value in ks]
        totals[len(ks) :] += precision_sums(match, n_relevant[rows])
    totals /= n_queries
    names = [f"recall@{value}" for value in ks] + ["r_precision", "map_at_r"]
    return {name: float(total) for name, total in zip(names, totals, strict=True)}


def precision_sums(match: AnyArray, n_relevant: IntArray) -> FloatArray:
    """Return the sums over queries of R-precision and of average precision at R."""
    ranks = np.arange(1, match.shape[1] + 1)
    within = match & (ranks <= n_relevant[:, None])
    precision = np.cumsum(match, axis=1, dtype=np.float32 if len(ranks) < 2**20 else float) / ranks
    r_precision = within.sum(axis=1) / n_relevant
    average = np.einsum("ij,ij->i", within, precision, dtype=float) / n_relevant
    return np.array([r_precision.sum(), average.sum()])


def recall_at_k(
    X: ArrayLike,
    y: ArrayLike,
    *,
    k: int = 1,
    queries: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
    metric: Metric = "euclidean",
    n_jobs: int | None = None,
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
    queries : array-like of shape (n_queries, n_features), default=None
        Queries. ``None`` uses each reference as a query among all others.
    query_labels : array-like of shape (n_queries,), default=None
        Labels of the queries.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance; "cosine" scales all samples to unit length.
    n_jobs : int, default=None
        Number of threads.

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
    gallery = check_gallery(X, y, queries, query_labels, metric)
    hits, n_queries = 0, 0
    for rows, match in _matches(gallery, k, n_jobs):
        n_queries += len(rows)
        hits += int(match.any(axis=1).sum())
    return hits / n_queries


def r_precision(
    X: ArrayLike,
    y: ArrayLike,
    *,
    queries: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
    metric: Metric = "euclidean",
    n_jobs: int | None = None,
) -> float:
    """Compute the mean R-precision: of the R nearest references, the fraction that is relevant.

    R is the number of references of the query's class, so a perfect space has R-precision one.

    Parameters
    ----------
    X : array-like of shape (n_references, n_features)
        References.
    y : array-like of shape (n_references,)
        Labels of the references.
    queries : array-like of shape (n_queries, n_features), default=None
        Queries. ``None`` uses each reference as a query among all others.
    query_labels : array-like of shape (n_queries,), default=None
        Labels of the queries.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance; "cosine" scales all samples to unit length.
    n_jobs : int, default=None
        Number of threads.

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
    scores = retrieval_scores(
        X, y, queries=queries, query_labels=query_labels, k=1, metric=metric, n_jobs=n_jobs
    )
    return scores["r_precision"]


def mean_average_precision_at_r(
    X: ArrayLike,
    y: ArrayLike,
    *,
    queries: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
    metric: Metric = "euclidean",
    n_jobs: int | None = None,
) -> float:
    """Compute the mean average precision at R (mAP@R).

    Like R-precision, but relevant references count more if they are ranked first. R is the number
    of references of the query's class.

    Parameters
    ----------
    X : array-like of shape (n_references, n_features)
        References.
    y : array-like of shape (n_references,)
        Labels of the references.
    queries : array-like of shape (n_queries, n_features), default=None
        Queries. ``None`` uses each reference as a query among all others.
    query_labels : array-like of shape (n_queries,), default=None
        Labels of the queries.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance; "cosine" scales all samples to unit length.
    n_jobs : int, default=None
        Number of threads.

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
    scores = retrieval_scores(
        X, y, queries=queries, query_labels=query_labels, k=1, metric=metric, n_jobs=n_jobs
    )
    return scores["map_at_r"]
