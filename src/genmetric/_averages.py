"""Averages of the targets of nearest neighbours, and their number selected by leave-one-out."""

from __future__ import annotations

from typing import Any

import numpy as np

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._votes import N_NEIGHBORS, NeighborSelection, other_neighbors, select_by_error


def average_errors(targets: FloatArray, truth: FloatArray, n_neighbors: IntArray) -> FloatArray:
    """Compute the squared error of the average of the first k neighbours, for several k.

    Parameters
    ----------
    targets : ndarray of shape (n_queries, n_found)
        Target of each neighbour, nearest first.
    truth : ndarray of shape (n_queries,)
        Target of each query.
    n_neighbors : ndarray of shape (n_numbers,)
        Numbers k of neighbours, at most `n_found`.

    Returns
    -------
    ndarray of shape (n_queries, n_numbers)
        Squared errors.
    """
    ks = np.asarray(n_neighbors)
    return np.asarray((np.cumsum(targets, axis=1)[:, ks - 1] / ks - truth[:, None]) ** 2)


def select_n_neighbors_to_average(
    Z: AnyArray,
    y: FloatArray,
    candidates: Any = N_NEIGHBORS,
    *,
    max_queries: int = 5000,
    max_references: int = 50_000,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> NeighborSelection:
    """Select the number of neighbours whose average has the lowest leave-one-out error.

    The counterpart of :func:`genmetric.neighbors.select_n_neighbors` for numeric targets.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Samples in the space of the metric.
    y : ndarray of shape (n_samples,)
        Numeric targets.
    candidates, max_queries, max_references, random_state, n_jobs
        As of :func:`genmetric.neighbors.select_n_neighbors`.

    Returns
    -------
    NeighborSelection
        The selected number, the candidates and their errors: the mean squared leave-one-out error
        divided by the variance of `y`, that is 1 - R².

    Examples
    --------
    >>> from genmetric._averages import select_n_neighbors_to_average
    >>> from sklearn.datasets import load_diabetes
    >>> found = select_n_neighbors_to_average(*load_diabetes(return_X_y=True), [1, 15])
    >>> found.n_neighbors
    15
    """
    center = np.mean(y)
    variance = float(np.var(y))
    residuals = (y - center) / (np.sqrt(variance) if variance > 0 else 1.0)

    def judge(queries: IntArray, references: IntArray, ks: IntArray) -> FloatArray:
        found = other_neighbors(Z, queries, references, int(ks.max()), n_jobs=n_jobs)
        return np.asarray(average_errors(residuals[found], residuals[queries], ks).mean(axis=0))

    return select_by_error(
        judge, len(Z), candidates, max_queries, max_references, random_state=random_state
    )
