"""Votes of nearest neighbours, and the number of neighbours selected by leave-one-out.

Ties are resolved as in scikit-learn's KNeighborsClassifier: of classes with equal votes the first
in sorted order is predicted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from genmetric._chunks import row_chunks
from genmetric._search import nearest_neighbors
from genmetric._typing import AnyArray, FloatArray, IntArray

#: Numbers of neighbours to select from. Odd ones: two classes cannot tie.
N_NEIGHBORS = (1, 3, 5, 7, 9, 11, 15, 21)


def neighbor_weights(
    distances: FloatArray, weights: str | Callable[[FloatArray], Any] | None = "uniform"
) -> FloatArray | None:
    """Compute the weights of the votes of neighbours, as in scikit-learn.

    Parameters
    ----------
    distances : ndarray of shape (n_queries, n_neighbors)
        Distances of the neighbours.
    weights : {"uniform", "distance"}, callable or None, default="uniform"
        ``"uniform"`` and ``None`` count every neighbour once. ``"distance"`` weights a neighbour by
        the inverse of its distance; if some neighbours of a query are at distance zero, only these
        vote. A callable maps the distances to weights of the same shape.

    Returns
    -------
    ndarray of shape (n_queries, n_neighbors) or None
        Weights; ``None`` if all are one.
    """
    if weights is None or (isinstance(weights, str) and weights == "uniform"):
        return None
    if callable(weights):
        return np.asarray(weights(distances), float)
    if weights != "distance":
        raise ValueError(
            f'weights must be "uniform", "distance", None or a callable; got {weights!r}.'
        )
    zero = distances == 0
    with np.errstate(divide="ignore", over="ignore"):
        inverse = 1 / distances
    inverse = np.minimum(inverse, np.finfo(float).max)
    return np.where(zero.any(axis=1, keepdims=True), zero, inverse)


def count_votes(labels: IntArray, n_classes: int, weights: FloatArray | None = None) -> FloatArray:
    """Count the votes for each class.

    Parameters
    ----------
    labels : ndarray of shape (n_queries, n_neighbors)
        Class of each neighbour, in ``range(n_classes)``.
    n_classes : int
        Number of classes.
    weights : ndarray of shape (n_queries, n_neighbors), default=None
        Weight of each vote; ``None`` counts one each.

    Returns
    -------
    ndarray of shape (n_queries, n_classes)
        Sums of the weights.
    """
    cells = labels + n_classes * np.arange(len(labels))[:, None]
    flat = None if weights is None else weights.ravel()
    votes = np.bincount(cells.ravel(), flat, minlength=len(labels) * n_classes)
    return np.asarray(votes.reshape(len(labels), n_classes), float)


def class_probabilities(
    labels: IntArray, n_classes: int, weights: FloatArray | None = None
) -> FloatArray:
    """Compute the fraction of the votes for each class.

    Parameters
    ----------
    labels : ndarray of shape (n_queries, n_neighbors)
        Class of each neighbour, in ``range(n_classes)``.
    n_classes : int
        Number of classes.
    weights : ndarray of shape (n_queries, n_neighbors), default=None
        Weight of each vote; ``None`` counts one each.

    Returns
    -------
    ndarray of shape (n_queries, n_classes)
        Rows sum to one, or are zero if all weights of a query are zero.
    """
    if weights is not None:
        # The largest weight is one, so that sums of votes of tiny distances stay finite.
        top = weights.max(axis=1, keepdims=True, initial=0.0)
        weights = weights / np.where(top > 0, top, 1.0)
    votes = count_votes(labels, n_classes, weights)
    total = votes.sum(axis=1, keepdims=True)
    return np.asarray(votes / np.where(total == 0, 1.0, total))


def majority_vote(labels: IntArray, n_classes: int, weights: FloatArray | None = None) -> IntArray:
    """Find the class with the most votes for each query; ties go to the first class.

    Parameters
    ----------
    labels : ndarray of shape (n_queries, n_neighbors)
        Class of each neighbour, in ``range(n_classes)``.
    n_classes : int
        Number of classes.
    weights : ndarray of shape (n_queries, n_neighbors), default=None
        Weight of each vote; ``None`` counts one each.

    Returns
    -------
    ndarray of shape (n_queries,)
        Class codes.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.neighbors import majority_vote
    >>> majority_vote(np.array([[2, 1, 1], [2, 1, 0]]), 3)
    array([1, 0])
    """
    if 0 < labels.shape[1] < n_classes:
        ranks, ranked = _rank_labels(labels)
        winners = class_probabilities(ranks, labels.shape[1], weights).argmax(axis=1)
        return np.asarray(ranked[np.arange(len(labels)), winners])
    return np.asarray(class_probabilities(labels, n_classes, weights).argmax(axis=1))


def _rank_labels(labels: IntArray) -> tuple[IntArray, IntArray]:
    """Replace the classes in each row by their ranks, so that votes need no array over all classes.

    Parameters
    ----------
    labels : ndarray of shape (n_queries, n_neighbors)
        Class of each neighbour.

    Returns
    -------
    ranks : ndarray of shape (n_queries, n_neighbors)
        Rank of each class among the different classes of its row.
    ranked : ndarray of shape (n_queries, n_neighbors)
        Class of each rank; the entries beyond the last rank are zero.
    """
    order = np.argsort(labels, axis=1, kind="stable")
    ascending = np.take_along_axis(labels, order, axis=1)
    steps = np.diff(ascending, axis=1, prepend=ascending[:, :1]) != 0
    sorted_ranks = np.cumsum(steps, axis=1, dtype=np.intp)
    ranks, ranked = np.empty_like(sorted_ranks), np.zeros_like(sorted_ranks)
    np.put_along_axis(ranks, order, sorted_ranks, axis=1)
    np.put_along_axis(ranked, sorted_ranks, ascending.astype(np.intp), axis=1)
    return ranks, ranked


def majority_votes(labels: IntArray, n_classes: int) -> IntArray:
    """Find the class with the most votes among the first 1, 2, ... neighbours of each query.

    Parameters
    ----------
    labels : ndarray of shape (n_queries, n_neighbors)
        Class of each neighbour, nearest first.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_queries, n_neighbors)
        Column k - 1 is the majority vote of k neighbours; ties go to the first class.
    """
    if 0 < labels.shape[1] < n_classes:
        ranks, ranked = _rank_labels(labels)
        return np.take_along_axis(ranked, majority_votes(ranks, labels.shape[1]), axis=1)
    winners = np.empty(labels.shape, np.intp)
    for rows in row_chunks(len(labels), 8 * n_classes):
        own = labels[rows]
        every = np.arange(len(own))
        votes = np.zeros((len(own), n_classes), np.int32)
        best = np.zeros(len(own), np.intp)
        for k, voted in enumerate(own.T):
            votes[every, voted] += 1
            # Only the class that got a vote can take the lead.
            gain = votes[every, voted] - votes[every, best]
            ahead = (gain > 0) | ((gain == 0) & (voted < best))
            best = np.where(ahead, voted, best) if k else voted.astype(np.intp)
            winners[rows, k] = best
    return winners


def vote_errors(
    labels: IntArray,
    truth: IntArray,
    n_classes: int,
    n_neighbors: IntArray,
    *,
    sample_weight: FloatArray | None = None,
) -> FloatArray:
    """Compute the error rate of the majority vote of the first k neighbours, for several k.

    Parameters
    ----------
    labels : ndarray of shape (n_queries, n_found)
        Class of each neighbour, nearest first.
    truth : ndarray of shape (n_queries,)
        Class of each query.
    n_classes : int
        Number of classes.
    n_neighbors : ndarray of shape (n_numbers,)
        Numbers k of neighbours, at most `n_found`.
    sample_weight : ndarray of shape (n_queries,), default=None
        Weight of each query in the error rate; ``None`` weights all by one.

    Returns
    -------
    ndarray of shape (n_numbers,)
        Error rates in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.neighbors import vote_errors
    >>> labels, truth = np.array([[1, 0, 0], [1, 1, 0]]), np.array([0, 1])
    >>> vote_errors(labels, truth, 2, np.array([1, 2, 3]))
    array([0.5, 0. , 0. ])
    """
    n_neighbors = np.asarray(n_neighbors)
    winners = majority_votes(labels[:, : int(n_neighbors.max())], n_classes)
    wrong = (winners != truth[:, None])[:, n_neighbors - 1]
    if sample_weight is not None:
        return np.asarray(np.average(wrong, axis=0, weights=sample_weight))
    return np.asarray(wrong.sum(axis=0) / max(len(labels), 1))


class NeighborSelection(NamedTuple):
    """Number of neighbours selected by leave-one-out.

    Attributes
    ----------
    n_neighbors : int
        The selected number.
    candidates : ndarray of shape (n_candidates,)
        The numbers compared.
    errors : ndarray of shape (n_candidates,)
        Leave-one-out error rate of each; NaN if there are too few samples to compare any.
    """

    n_neighbors: int
    candidates: IntArray
    errors: FloatArray


def select_n_neighbors(
    Z: AnyArray,
    y: AnyArray,
    candidates: Any = N_NEIGHBORS,
    *,
    max_queries: int = 5000,
    max_references: int = 50_000,
    random_state: int = 0,
    n_jobs: int | None = None,
    sample_weight: FloatArray | None = None,
) -> NeighborSelection:
    """Select the number of neighbours with the lowest leave-one-out error; ties go to the smaller.

    Each sample is classified by the votes of its nearest neighbours, itself excluded. The error is
    too low as an estimate for a metric that was fitted to the same samples.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Samples in the space of the metric.
    y : ndarray of shape (n_samples,)
        Class labels.
    candidates : array-like of int, default=(1, 3, 5, 7, 9, 11, 15, 21)
        Numbers of neighbours to compare; those that exceed the number of other samples are
        skipped. If all are skipped the result is 1.
    max_queries : int, default=5000
        Largest number of samples to classify; beyond it a random subset. Larger values make the
        estimate more precise and slower.
    max_references : int, default=50000
        Largest number of samples to search among; beyond it a random subset. Larger values make
        the estimate more precise and slower.
    random_state : int, default=0
        Seed of the random subsets.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.
    sample_weight : ndarray of shape (n_samples,), default=None
        Weight of each sample in the error; in a vote every neighbour counts once.

    Returns
    -------
    NeighborSelection
        The selected number, the candidates and their errors.

    Examples
    --------
    >>> from genmetric.neighbors import select_n_neighbors
    >>> from sklearn.datasets import load_iris
    >>> found = select_n_neighbors(*load_iris(return_X_y=True), [1, 9, 75])
    >>> found.n_neighbors
    9
    """
    _, codes = np.unique(y, return_inverse=True)

    def judge(queries: IntArray, references: IntArray, ks: IntArray) -> FloatArray:
        weight = None if sample_weight is None else sample_weight[queries]
        return leave_one_out_vote_errors(
            Z, codes, queries, references, ks, n_jobs=n_jobs, sample_weight=weight
        )

    return select_by_error(
        judge, len(Z), candidates, max_queries, max_references, random_state=random_state
    )


def select_by_error(
    judge: Callable[[IntArray, IntArray, IntArray], FloatArray],
    n_samples: int,
    candidates: Any,
    max_queries: int,
    max_references: int,
    *,
    random_state: int = 0,
) -> NeighborSelection:
    """Select the number of neighbours with the lowest error; ties go to the smaller.

    Parameters
    ----------
    judge : callable
        ``judge(queries, references, n_neighbors)`` returns the leave-one-out error of each number
        for the samples `queries`, predicted from the samples `references`.
    n_samples : int
        Number of samples.
    candidates, max_queries, max_references, random_state
        As of :func:`select_n_neighbors`.

    Returns
    -------
    NeighborSelection
        The selected number, the candidates and their errors.
    """
    rng = np.random.default_rng(random_state)
    references = np.arange(n_samples)
    if len(references) > max_references:
        references = np.sort(rng.choice(references, max_references, replace=False))
    queries = references
    if len(queries) > max_queries:
        queries = np.sort(rng.choice(queries, max_queries, replace=False))
    ks = np.asarray(candidates, np.intp)
    ks = ks[ks < len(references)]
    if not len(ks):
        return NeighborSelection(1, np.array([1]), np.array([np.nan]))
    errors = judge(queries, references, ks)
    return NeighborSelection(int(ks[np.lexsort((ks, errors))[0]]), ks, errors)


def leave_one_out_vote_errors(
    Z: AnyArray,
    codes: IntArray,
    queries: IntArray,
    references: IntArray,
    n_neighbors: IntArray,
    *,
    n_jobs: int | None = None,
    sample_weight: FloatArray | None = None,
) -> FloatArray:
    """Compute the error rates of votes among reference samples, excluding the query itself.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Samples in the space of the metric.
    codes : ndarray of shape (n_samples,)
        Class codes 0, 1, ...
    queries : ndarray of shape (n_queries,)
        Indices of the samples to classify.
    references : ndarray of shape (n_references,)
        Indices of the samples that vote, ascending; queries may be among them.
    n_neighbors : ndarray of shape (n_numbers,)
        Numbers of neighbours, less than `n_references`.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.
    sample_weight : ndarray of shape (n_queries,), default=None
        Weight of each query in the error rates; ``None`` weights all by one.

    Returns
    -------
    ndarray of shape (n_numbers,)
        Error rates in [0, 1].
    """
    found = other_neighbors(Z, queries, references, int(np.max(n_neighbors)), n_jobs=n_jobs)
    n_classes = int(codes.max()) + 1
    return vote_errors(
        codes[found], codes[queries], n_classes, n_neighbors, sample_weight=sample_weight
    )


def other_neighbors(
    Z: AnyArray, queries: IntArray, references: IntArray, k: int, *, n_jobs: int | None = None
) -> IntArray:
    """Find the nearest reference samples of some samples, excluding the sample itself.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Samples in the space of the metric.
    queries : ndarray of shape (n_queries,)
        Indices of the samples whose neighbours are searched.
    references : ndarray of shape (n_references,)
        Indices of the samples to search among, ascending; queries may be among them.
    k : int
        Number of neighbours, less than `n_references`.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    ndarray of shape (n_queries, k)
        Indices of the neighbours, nearest first.
    """
    place = np.minimum(np.searchsorted(references, queries), len(references) - 1)
    exclude = np.where(references[place] == queries, place, -1)
    found = nearest_neighbors(Z[references], k, queries=Z[queries], exclude=exclude, n_jobs=n_jobs)
    return np.asarray(references[found.indices])
