"""Target neighbours: the rows of its own class that a row is to keep near."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from genmetric._chunks import one_blas_thread, row_chunks
from genmetric._typing import FloatArray, IntArray
from genmetric.density.frame import Frame

#: Classes up to this size are searched by all their distances: a search of scikit-learn starts
#: threads, which for many small classes takes longer than all else.
SMALL = 256


def target_neighbors(Z: FloatArray, codes: IntArray, n_neighbors: int) -> IntArray:
    """The nearest rows of the same class, each row's own left out.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Rows in the space where nearness is Euclidean.
    codes : ndarray of shape (n_samples,)
        Class of each row.
    n_neighbors : int
        How many targets a row has.

    Returns
    -------
    ndarray of shape (n_samples, n_neighbors)
        Indices of rows, nearest first. A row whose class has too few others has its own index in
        the places left over.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.lmnn import target_neighbors
    >>> target_neighbors(np.array([[0.0], [1.0], [3.0], [9.0]]), np.array([0, 0, 0, 1]), 1)
    array([[1],
           [0],
           [1],
           [3]])
    """
    targets = np.repeat(np.arange(len(Z), dtype=np.intp)[:, None], n_neighbors, axis=1)
    with one_blas_thread():
        for c in np.unique(codes):
            rows = np.flatnonzero(codes == c)
            k = min(n_neighbors, len(rows) - 1)
            if k > 0:
                # About the mean of the class: between classes far apart digits would get lost.
                z = Frame.of(Z[rows]).inward(Z[rows])
                if len(z) <= SMALL:
                    d = cdist(z, z, "sqeuclidean")
                    np.fill_diagonal(d, np.inf)
                    nearest = np.argsort(d, axis=1, kind="stable")[:, :k]
                else:
                    search = NearestNeighbors(n_neighbors=k).fit(z)
                    nearest = search.kneighbors(return_distance=False)
                targets[rows, :k] = rows[nearest]
    return targets


def target_scatter(X: FloatArray, targets: IntArray) -> FloatArray:
    r"""Scatter of the differences between rows and their targets.

    .. math:: S = \sum_i \sum_{j \in x_i^+} (x_i - x_j)(x_i - x_j)^T,

    so that the pull of eq. eLMNN is trace(L S Lᵀ).

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    targets : ndarray of shape (n_samples, n_neighbors)
        Indices of their targets.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        Symmetric positive semidefinite matrix.
    """
    total = np.zeros((X.shape[1], X.shape[1]))
    for rows in row_chunks(len(X), 16 * X.shape[1]):
        for column in targets[rows].T:
            e = X[rows] - X[column]
            total += e.T @ e
    return total
