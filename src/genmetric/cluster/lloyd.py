"""k-means that depends on the set of rows alone: not on their order, not on threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import ThreadpoolController

from genmetric._chunks import map_chunks, row_chunks
from genmetric._quiet import quiet
from genmetric._typing import FloatArray, IntArray
from genmetric.density.frame import Frame

#: Passes of one k-means; it ends earlier where labels stand still, as they nearly always do.
MAX_PASSES = 300

T = TypeVar("T")


@cache
def _openmp() -> Any:
    """The OpenMP libraries of the process; looking for them takes longer than a small k-means."""
    return ThreadpoolController().select(user_api="openmp")


def canonical_order(X: FloatArray) -> IntArray:
    """Order of the rows by a projection that no two different rows share, for practical purposes.

    The draws of k-means++ walk along cumulated weights. In this order equal rows are neighbours,
    so that a row of weight 2 and the row given twice take the same draw, and rows in another order
    the same start.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.

    Returns
    -------
    ndarray of shape (n_samples,)
        Indices that sort the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.cluster import canonical_order
    >>> X = np.array([[1.0, 2.0], [0.0, 3.0], [1.0, 2.0]])
    >>> shuffled = X[[1, 2, 0]]
    >>> bool(np.array_equal(X[canonical_order(X)], shuffled[canonical_order(shuffled)]))
    True
    """
    # Cosines of whole numbers are irrational: rows of whole numbers do not collide.
    direction = np.cos(np.arange(1.0, X.shape[1] + 1))
    key = np.empty(len(X))
    for rows in row_chunks(len(X), 8 * X.shape[1]):
        # Not BLAS, whose rounding depends on the place of a row in its block.
        key[rows] = (X[rows] * direction).sum(axis=1)
    return np.argsort(key, kind="stable")


def center_distances(
    X: FloatArray,
    centers: FloatArray,
    factor: FloatArray,
    *,
    frame: Frame | None = None,
    reduce: Callable[[FloatArray], T] | None = None,
    n_jobs: int | None = None,
) -> list[FloatArray | T]:
    r"""Squared distances :math:`(x - c)^T M (x - c)`, :math:`M = L^T L`, chunk by chunk.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    centers : ndarray of shape (n_clusters, n_features)
        Centres, in the coordinates of `frame`.
    factor : ndarray of shape (n_features, n_features)
        The factor L.
    frame : Frame, default=None
        Coordinates of the centres; ``None`` are those of the rows.
    reduce : callable, default=None
        What to keep of the (n_chunk, n_clusters) distances of a chunk; ``None`` keeps them.
    n_jobs : int, default=None
        Threads; the answer is the same for every number.

    Returns
    -------
    list
        One entry a chunk, in order.
    """
    mapped = centers @ factor.T

    def of_chunk(rows: slice) -> FloatArray | T:
        x = np.asarray(X[rows], float) if frame is None else frame.inward(X[rows])
        # By differences: the expanded square loses half the digits near a centre.
        d2 = cdist(x @ factor.T, mapped, "sqeuclidean")
        return d2 if reduce is None else reduce(d2)

    chunks = row_chunks(len(X), 8 * (3 * X.shape[1] + 3 * len(centers)))
    return list(map_chunks(of_chunk, chunks, n_jobs))


def lloyd(
    X: FloatArray, init: FloatArray, sample_weight: FloatArray | None = None
) -> tuple[IntArray, float]:
    """Run k-means from given centres until no label changes, on one thread.

    :class:`sklearn.cluster.KMeans` with ``tol=0``; its OpenMP threads add up in no fixed order, so
    they are held at one. An empty cluster takes the row farthest from its centre. Fewer different
    rows than centres leave clusters empty, without a warning.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows, float64.
    init : ndarray of shape (n_clusters, n_features)
        Centres to start from.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequencies.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        Cluster of each row.
    inertia : float
        Weighted sum of the squared distances to the nearest centre.
    """
    kmeans = KMeans(len(init), init=init, n_init=1, tol=0.0, max_iter=MAX_PASSES)
    # Limits of OpenMP hold for the thread that sets them, so they are set here.
    with _openmp().limit(limits=1), quiet(ConvergenceWarning):
        kmeans.fit(X, sample_weight=sample_weight)
    return np.asarray(kmeans.labels_, np.intp), float(kmeans.inertia_)


def best_start(
    X: FloatArray,
    n_clusters: int,
    seeds: IntArray,
    *,
    sample_weight: FloatArray | None = None,
    n_jobs: int | None = None,
) -> tuple[IntArray, float]:
    """Of several runs of Euclidean k-means, each from a k-means++ start, the one of least inertia.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows, in :func:`canonical_order`.
    n_clusters : int
        Number of clusters.
    seeds : ndarray of shape (n_init,)
        One seed a start.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequencies.
    n_jobs : int, default=None
        Threads over the starts; the answer is the same for every number.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        Cluster of each row.
    inertia : float
        Weighted sum of the squared distances to the nearest centre.
    """

    def run(seed: int) -> tuple[IntArray, float]:
        start, _ = kmeans_plusplus(
            X, n_clusters, sample_weight=sample_weight, random_state=int(seed)
        )
        return lloyd(X, start, sample_weight)

    # The first of equals, to rounding: rows in another order must not choose another run.
    best: tuple[IntArray, float] | None = None
    for labels, inertia in map_chunks(run, list(seeds), n_jobs):
        if best is None or inertia < best[1] * (1 - 1e-9):
            best = labels, inertia
    assert best is not None
    return best
