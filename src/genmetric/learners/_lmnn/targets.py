"""Target neighbours: nearby samples of the same class that the metric keeps close."""

from __future__ import annotations

import numpy as np

from genmetric._chunks import row_chunks
from genmetric._search import nearest_neighbors
from genmetric._typing import FloatArray, IntArray

#: Classes of at most this size are searched many at a time: a search of its own takes longer to
#: start than to run.
SMALL_CLASS = 16


def target_neighbors(Z: FloatArray, codes: IntArray, n_neighbors: int) -> IntArray:
    """Find the nearest samples of the same class, excluding the sample itself.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Samples in the space of the initial metric.
    codes : ndarray of shape (n_samples,)
        Class of each sample.
    n_neighbors : int
        Number of targets per sample.

    Returns
    -------
    ndarray of shape (n_samples, n_neighbors)
        Indices of samples, nearest first. If the class has too few other samples, the remaining
        entries are the index of the sample itself.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.learners import target_neighbors
    >>> target_neighbors(np.array([[0.0], [1.0], [3.0], [9.0]]), np.array([0, 0, 0, 1]), 1)
    array([[1],
           [0],
           [1],
           [3]])
    """
    targets = np.repeat(np.arange(len(Z), dtype=np.intp)[:, None], n_neighbors, axis=1)
    order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes[sizes > 1]).tolist():
        k = min(n_neighbors, size - 1)
        # Classes of one size, shape (n_classes, size).
        members = order[starts[sizes == size, None] + np.arange(size)]
        if size <= SMALL_CLASS:
            for part in row_chunks(len(members), 16 * size**2 * Z.shape[1]):
                own = members[part]
                near = np.take_along_axis(own[:, None], _nearest_of_own(Z[own], k), axis=2)
                targets[own, :k] = near
        else:
            for rows in members:
                targets[rows, :k] = rows[nearest_neighbors(Z[rows], k).indices]
    return targets


def _nearest_of_own(Z: FloatArray, k: int) -> IntArray:
    """Find the k nearest members of every class, excluding the member itself.

    Parameters
    ----------
    Z : ndarray of shape (n_classes, size, n_components)
        Members of classes of one size.
    k : int
        Number of neighbours, less than `size`.

    Returns
    -------
    ndarray of shape (n_classes, size, k)
        Positions of members, nearest first.
    """
    e = Z[:, :, None] - Z[:, None]
    distances = np.einsum("cijd,cijd->cij", e, e)
    diagonal = np.arange(Z.shape[1])
    distances[:, diagonal, diagonal] = np.inf
    return np.argsort(distances, axis=2, kind="stable")[:, :, :k]


def target_scatter(
    X: FloatArray, targets: IntArray, weights: FloatArray | None = None
) -> FloatArray:
    r"""Compute the scatter of the differences between samples and their targets.

    .. math:: S = \sum_i w_i \sum_{j \in x_i^+} (x_i - x_j)(x_i - x_j)^T,

    so that the sum of squared distances to the targets is trace(L S Lᵀ).

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    targets : ndarray of shape (n_samples, n_neighbors)
        Indices of their targets.
    weights : ndarray of shape (n_samples,), default=None
        Sample weights w; ``None`` weights all samples by one.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        Symmetric positive semidefinite matrix.
    """
    total = np.zeros((X.shape[1], X.shape[1]))
    for rows in row_chunks(len(X), 16 * X.shape[1]):
        for column in targets[rows].T:
            e = X[rows] - X[column]
            total += e.T @ e if weights is None else (e * weights[rows, None]).T @ e
    return total
