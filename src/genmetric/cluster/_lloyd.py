"""k-means whose result depends neither on the order of the samples nor on the threads."""

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
from genmetric._typing import FloatArray, IntArray
from genmetric._warnings import suppress_warnings
from genmetric.density._scaling import Scaling

#: Maximum number of passes of one k-means. It nearly always converges earlier.
MAX_PASSES = 300

T = TypeVar("T")


@cache
def _openmp() -> Any:
    """Find the OpenMP libraries once; the search takes longer than a small k-means."""
    return ThreadpoolController().select(user_api="openmp")


def canonical_order(X: FloatArray) -> IntArray:
    """Sort the samples by a projection that is, in practice, different for different samples.

    k-means++ draws from cumulated weights. In this order equal samples are adjacent, so that a
    sample of weight 2 and a sample given twice are drawn alike, and a permutation of the samples
    gives the same initialisation.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.

    Returns
    -------
    ndarray of shape (n_samples,)
        Indices that sort the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.cluster._lloyd import canonical_order
    >>> X = np.array([[1.0, 2.0], [0.0, 3.0], [1.0, 2.0]])
    >>> shuffled = X[[1, 2, 0]]
    >>> bool(np.array_equal(X[canonical_order(X)], shuffled[canonical_order(shuffled)]))
    True
    """
    # Cosines of integers are irrational, so that samples of integers do not collide.
    direction = np.cos(np.arange(1.0, X.shape[1] + 1))
    key = np.empty(len(X))
    for rows in row_chunks(len(X), 8 * X.shape[1]):
        # Not BLAS, whose rounding depends on the position of a row in its block.
        key[rows] = (X[rows] * direction).sum(axis=1)
    return np.argsort(key, kind="stable")


def center_distances(
    X: FloatArray,
    centers: FloatArray,
    factor: FloatArray,
    *,
    frame: Scaling | None = None,
    reduce: Callable[[FloatArray], T] | None = None,
    n_jobs: int | None = None,
) -> list[FloatArray | T]:
    r"""Compute squared distances :math:`(x - c)^T M (x - c)`, :math:`M = L^T L`, in chunks.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    centers : ndarray of shape (n_clusters, n_features)
        Centres, in the coordinates of `frame`.
    factor : ndarray of shape (n_features, n_features)
        The factor L.
    frame : Scaling, default=None
        Scaling of the centres; ``None`` if they have the scale of `X`.
    reduce : callable, default=None
        Function of the (n_chunk, n_clusters) distances of a chunk; ``None`` returns the distances.
    n_jobs : int, default=None
        Number of threads. Results are bit-identical for every value.

    Returns
    -------
    list
        One entry per chunk, in order.
    """
    mapped = centers @ factor.T

    def of_chunk(rows: slice) -> FloatArray | T:
        x = np.asarray(X[rows], float) if frame is None else frame.apply(X[rows])
        # By differences: the expanded square loses half the digits near a centre.
        d2 = cdist(x @ factor.T, mapped, "sqeuclidean")
        return d2 if reduce is None else reduce(d2)

    chunks = row_chunks(len(X), 8 * (3 * X.shape[1] + 3 * len(centers)))
    return list(map_chunks(of_chunk, chunks, n_jobs))


def lloyd(
    X: FloatArray, init: FloatArray, sample_weight: FloatArray | None = None
) -> tuple[IntArray, float]:
    """Run k-means from given centres until no label changes, on one thread.

    This is :class:`sklearn.cluster.KMeans` with ``tol=0`` and one OpenMP thread, because several
    threads sum in no fixed order. An empty cluster takes the sample farthest from its centre. With
    fewer distinct samples than centres some clusters stay empty, without a warning.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples, float64.
    init : ndarray of shape (n_clusters, n_features)
        Initial centres.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequency weights.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        Cluster of each sample.
    inertia : float
        Weighted sum of the squared distances to the nearest centre.
    """
    kmeans = KMeans(len(init), init=init, n_init=1, tol=0.0, max_iter=MAX_PASSES)
    # OpenMP limits are local to the thread that sets them, so they are set here.
    with _openmp().limit(limits=1), suppress_warnings(ConvergenceWarning):
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
    """Run Euclidean k-means from several k-means++ initialisations; keep the smallest inertia.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples, in :func:`canonical_order`.
    n_clusters : int
        Number of clusters.
    seeds : ndarray of shape (n_init,)
        One seed per initialisation.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequency weights.
    n_jobs : int, default=None
        Number of threads over the initialisations. Results are bit-identical for every value.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        Cluster of each sample.
    inertia : float
        Weighted sum of the squared distances to the nearest centre.
    """

    def run(seed: int) -> tuple[IntArray, float]:
        start, _ = kmeans_plusplus(
            X, n_clusters, sample_weight=sample_weight, random_state=int(seed)
        )
        return lloyd(X, start, sample_weight)

    # Ties, up to rounding, go to the first run, so that the order of the samples does not matter.
    best: tuple[IntArray, float] | None = None
    for labels, inertia in map_chunks(run, list(seeds), n_jobs):
        if best is None or inertia < best[1] * (1 - 1e-9):
            best = labels, inertia
    assert best is not None
    return best
