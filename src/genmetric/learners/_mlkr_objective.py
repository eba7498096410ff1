"""The objective of MLKR: the leave-one-out error of kernel regression and its gradient."""

from __future__ import annotations

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import FloatArray

#: Squared scales of the initial factor to select from, relative to the inverse of the mean squared
#: distance.
_SCALES = 2.0 ** np.arange(-2, 13)
#: Number of samples that the initial scale is selected on.
_SCALE_SAMPLES = 1000


@np.errstate(under="ignore")
def mlkr_objective(
    L: FloatArray,
    X: FloatArray,
    y: FloatArray,
    *,
    sample_weight: FloatArray | None = None,
    n_jobs: int | None = None,
) -> tuple[float, FloatArray]:
    r"""Compute the leave-one-out squared error of kernel regression and its gradient.

    With :math:`d_{ij} = \|L(x_i - x_j)\|^2` and sample weights w,

    .. math::
        E(L) = \sum_i w_i (\hat y_i - y_i)^2, \qquad
        \hat y_i = \sum_j s_{ij} y_j, \qquad
        s_{ij} \propto (w_j - \delta_{ij})_+ \, e^{-d_{ij}}, \quad \sum_j s_{ij} = 1 .

    A sample of weight 2 equals a repeated sample, whose copy is among the samples that predict it.
    The derivative with respect to :math:`d_{ij}` is
    :math:`a_{ij} = -2 w_i (\hat y_i - y_i) s_{ij} (y_j - \hat y_i)`. The rows of A sum to zero, so
    the gradient is :math:`2 L X^T (D - A - A^T) X` with D the diagonal matrix of the column sums
    of A. It is computed for chunks of samples; no array of n_samples² entries is held.

    Parameters
    ----------
    L : ndarray of shape (n_components, n_features)
        Factor of the metric.
    X : ndarray of shape (n_samples, n_features)
        Samples, centred near the origin.
    y : ndarray of shape (n_samples,)
        Targets.
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive frequency weights; ``None`` weights all samples by one.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    value : float
        The weighted sum of squared errors.
    gradient : ndarray of shape (n_components, n_features)
        Derivative of the value.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.learners import mlkr_objective
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> value, gradient = mlkr_objective(np.eye(1), X, np.array([0.0, 1.0, 1.0]))
    >>> round(value, 3)
    1.907
    """
    w = np.ones(len(X)) if sample_weight is None else sample_weight
    Z = X @ L.T
    norms = np.einsum("ij,ij->i", Z, Z)
    with np.errstate(divide="ignore"):
        log_w, log_copies = np.log(w), np.log(np.maximum(w - 1, 0.0))

    def of_chunk(rows: slice) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        own = np.arange(rows.start, rows.stop)
        local = np.arange(len(own))
        s = 2 * Z[rows] @ Z.T
        s -= norms
        s -= norms[rows, None]
        np.minimum(s, 0.0, out=s)
        if sample_weight is not None:
            s += log_w
        # Without copies the sample itself does not contribute.
        s[local, own] = log_copies[own]
        s -= s.max(axis=1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=1, keepdims=True)
        predicted = s @ y
        residuals = predicted - y[rows]
        s *= y - predicted[:, None]
        s *= (-2 * w[rows] * residuals)[:, None]
        s[local, own] = 0.0  # a distance of zero for every L
        value = float(w[rows] @ residuals**2)
        # The sums of the rows vanish only with the copies of the sample included.
        return value, s.sum(axis=1), s.sum(axis=0), np.vstack([s @ Z, s.T @ Z[rows]])

    total, diagonal, product = 0.0, np.zeros(len(X)), np.zeros_like(Z)
    chunks = row_chunks(len(X), 40 * len(X))
    for rows, found in zip(chunks, map_chunks(of_chunk, chunks, n_jobs), strict=True):
        value, row_sums, column_sums, products = found
        total += value
        diagonal += column_sums
        diagonal[rows] += row_sums
        n_rows = rows.stop - rows.start
        product[rows] += products[:n_rows]
        product += products[n_rows:]
    gradient = 2 * (diagonal[:, None] * Z - product).T @ X
    return total, gradient


def best_bandwidth_scale(
    L: FloatArray, X: FloatArray, y: FloatArray, sample_weight: FloatArray | None = None
) -> float:
    """Select the number s with the lowest leave-one-out error of s·L from a grid.

    Parameters
    ----------
    L : ndarray of shape (n_components, n_features)
        Factor of the metric.
    X : ndarray of shape (n_samples, n_features)
        Samples, centred near the origin; 1000 evenly spaced ones are used.
    y : ndarray of shape (n_samples,)
        Targets.
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive frequency weights.

    Returns
    -------
    float
        The scale s, positive. Larger values make the kernel narrower.
    """
    kept = np.unique(np.linspace(0, len(X) - 1, min(_SCALE_SAMPLES, len(X))).astype(int))
    x, targets = X[kept], y[kept]
    weights = None if sample_weight is None else sample_weight[kept]
    Z = x @ L.T
    Z = Z - np.average(Z, axis=0, weights=weights)
    unit = 2 * float(np.average(np.einsum("ij,ij->i", Z, Z), weights=weights))
    scales = np.sqrt(_SCALES / (unit if unit > 0 else 1.0))
    errors = [mlkr_objective(s * L, x, targets, sample_weight=weights)[0] for s in scales]
    return float(scales[int(np.argmin(errors))])
