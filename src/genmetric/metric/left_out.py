"""Errors of nearest neighbours on rows left out, and the folds that leave them out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density.frame import Frame
from genmetric.density.statistics import ClassStatistics, class_statistics, merge_statistics

#: Rows that the average of a candidate on a fold runs over at least, where there are so many.
FEWEST_AVERAGED = 256


def nearest_others(
    Z: FloatArray,
    queries: IntArray,
    references: IntArray,
    n_neighbors: int,
    n_jobs: int | None = None,
) -> IntArray:
    """The nearest references of some rows, the row itself left out.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Rows in the space where nearness is Euclidean, centred and of size about one.
    queries : ndarray of shape (n_queries,)
        Rows whose neighbours are sought.
    references : ndarray of shape (n_references,)
        Rows that may be neighbours, ascending; queries may be among them.
    n_neighbors : int
        How many, at most ``n_references - 1``.
    n_jobs : int, default=None
        Threads; the answer is the same for every number.

    Returns
    -------
    ndarray of shape (n_queries, n_neighbors)
        Indices of rows, nearest first.
    """
    near = Z[references]
    half_square = np.einsum("ij,ij->i", near, near) / 2
    place = np.minimum(np.searchsorted(references, queries), len(references) - 1)
    is_reference = references[place] == queries

    def of_chunk(rows: slice) -> IntArray:
        # Half the squared distance, less what is the same for all references of a query.
        d = half_square - Z[queries[rows]] @ near.T
        own = np.flatnonzero(is_reference[rows])
        d[own, place[rows][own]] = np.inf
        least = np.argpartition(d, n_neighbors - 1, axis=1)[:, :n_neighbors]
        order = np.take_along_axis(d, least, axis=1).argsort(axis=1, kind="stable")
        return np.asarray(references[np.take_along_axis(least, order, axis=1)])

    chunks = row_chunks(len(queries), 24 * len(references), max_rows=256)
    return np.concatenate(list(map_chunks(of_chunk, chunks, n_jobs)))


def vote_errors(
    labels: IntArray, truth: IntArray, n_classes: int, n_neighbors: IntArray
) -> FloatArray:
    """Mean error of the majority vote of the first k labels, for several k.

    Where m classes share the most votes the vote is right with probability 1/m if the true class
    is among them, so that the error does not depend on the order of the classes.

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

    Returns
    -------
    ndarray of shape (n_numbers,)
        Errors in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.metric.left_out import vote_errors
    >>> labels, truth = np.array([[1, 0, 0], [1, 1, 0]]), np.array([0, 1])
    >>> vote_errors(labels, truth, 2, np.array([1, 2, 3]))
    array([0.5 , 0.25, 0.  ])
    """
    wrong = np.zeros(len(n_neighbors))
    for rows in row_chunks(len(labels), 16 * n_classes):
        own = truth[rows]
        every = np.arange(len(own))
        votes = np.zeros((len(own), n_classes), np.intp)
        for position in range(int(n_neighbors.max())):
            votes[every, labels[rows, position]] += 1
            for place in np.flatnonzero(n_neighbors == position + 1):
                most = votes.max(axis=1)
                right = (votes[every, own] == most) / (votes == most[:, None]).sum(axis=1)
                wrong[place] += len(own) - right.sum()
    return wrong / max(len(labels), 1)


def deal_folds(codes: IntArray, n_folds: int, rng: np.random.RandomState) -> IntArray:
    """Deal rows into folds at random, each class spread over the folds as evenly as it goes.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,)
        Class of each row.
    n_folds : int
        Number of folds.
    rng : RandomState
        Source of chance.

    Returns
    -------
    ndarray of shape (n_samples,)
        Fold of each row, in ``range(n_folds)``. Sizes differ by at most one.
    """
    shuffled = rng.permutation(len(codes))
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    folds = np.empty(len(codes), np.intp)
    folds[by_class] = np.arange(len(codes)) % n_folds
    return folds


@dataclass(frozen=True)
class Part:
    """Rows a metric is fitted on, and rows it is judged by.

    Attributes
    ----------
    train : ndarray of int
        Rows of the class models.
    averaged : ndarray of int
        Rows of `train` whose local metrics are averaged.
    queries : ndarray of int
        Rows whose neighbours' vote is compared with their class.
    stats : ClassStatistics
        Moments of the classes over `train`; a class without rows there counts zero.
    """

    train: IntArray
    averaged: IntArray
    queries: IntArray
    stats: ClassStatistics


def split_parts(
    x: AnyArray,
    codes: IntArray,
    n_classes: int,
    frame: Frame,
    *,
    cv: int | None,
    max_queries: int,
    rng: np.random.RandomState,
    n_jobs: int | None = None,
) -> list[Part]:
    """Rows to fit on and rows to judge by, with class statistics that are computed once.

    The statistics of a fold's complement are merged from those of the other folds: one pass over
    the rows serves all parts and all candidates. Its local metrics are averaged over as many rows
    as a fold has, so that all folds together cost one candidate as much as one fit; but over
    :data:`FEWEST_AVERAGED` at least, where there are so many.

    Parameters
    ----------
    x : ndarray of shape (n_samples, n_features)
        Rows.
    codes : ndarray of shape (n_samples,)
        Class of each row.
    n_classes : int
        Number of classes.
    frame : Frame
        Coordinates of the statistics.
    cv : int or None
        Folds; ``None`` fits on all rows and judges by the same.
    max_queries : int
        Most rows to judge by; beyond it a sample of them, and averages over as many rows.
    rng : RandomState
        Source of chance.
    n_jobs : int, default=None
        Threads.

    Returns
    -------
    list of Part
        One, or one a fold. The lone row of a class is in every `train` and never a query: without
        it the class is not there.
    """
    n_rows = len(x)
    counts = np.bincount(codes, minlength=n_classes)
    queries = np.flatnonzero(counts[codes] > 1)
    if not len(queries):
        raise ValueError(
            "Every class has a single row, so no row has a neighbour of its own class to choose a "
            "metric by. Use GenerativeMetric with parameters of your choice, or gather more rows."
        )
    if len(queries) > max_queries:
        queries = np.sort(rng.choice(queries, max_queries, replace=False))
    every = np.arange(n_rows)

    def draw(rows: IntArray, n_draws: int) -> IntArray:
        n_draws = max(n_draws, FEWEST_AVERAGED)
        return np.sort(rng.choice(rows, n_draws, replace=False)) if n_draws < len(rows) else rows

    if cv is None:
        stats = class_statistics(x, codes, n_classes, frame=frame, n_jobs=n_jobs)
        return [Part(every, draw(every, max_queries), queries, stats)]
    n_folds = min(cv, int(counts.max()))
    folds = deal_folds(codes, n_folds, rng)
    folds[counts[codes] == 1] = n_folds
    statistics = [
        class_statistics(x[folds == f], codes[folds == f], n_classes, frame=frame, n_jobs=n_jobs)
        for f in range(n_folds + 1)
        if f < n_folds or (folds == f).any()
    ]
    parts = []
    for f in range(n_folds):
        train = np.flatnonzero(folds != f)
        own = queries[folds[queries] == f]
        averaged = draw(train, min(n_rows, max_queries) // n_folds)
        others = merge_statistics(s for g, s in enumerate(statistics) if g != f)
        if len(own):
            parts.append(Part(train, averaged, own, others))
    return parts
