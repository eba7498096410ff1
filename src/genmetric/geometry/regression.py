r"""Local metrics for kernel regression, in closed form.

The Nadaraya-Watson estimate with a small bandwidth h and metric M has the bias

.. math:: h^2 \Big( g^T M^{-1} b + \tfrac12 \mathrm{tr}(M^{-1} \nabla\nabla f) \Big)

with g the gradient of the log-density and b the gradient of the regression function f. The first
term is :math:`\tfrac12 \mathrm{tr}(M^{-1} B)` with :math:`B = b g^T + g b^T`, which has one
positive and one negative eigenvalue, :math:`b^T g \pm \|b\|\|g\|`: a metric exists that removes it.
The sign rule for B gives, with unit vectors :math:`\hat b` and :math:`\hat g`,

.. math:: M \propto |B| = \|b\|\,\|g\|\,(\hat b \hat b^T + \hat g \hat g^T) ,

so the average over samples needs neither eigenvalues nor eigenvectors.
"""

from __future__ import annotations

import numpy as np

from genmetric._typing import BoolArray, FloatArray
from genmetric.geometry.local import FLOOR, local_metrics


def _directions(
    gradient: FloatArray, slope: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return unit vectors of both gradients, and which samples have both."""
    found = []
    for vectors in (gradient, slope):
        # Scaled first by the largest entry: squares of 1e-200 vanish.
        size = np.abs(vectors).max(axis=1, keepdims=True)
        scaled = vectors / np.where(size > 0, size, 1.0)
        norm = np.linalg.norm(scaled, axis=1, keepdims=True)
        found.append(scaled / np.where(norm > 0, norm, 1.0))
    g, b = found
    return g, b, np.asarray(g.any(axis=1) & b.any(axis=1))


def regression_local_metrics(gradient: FloatArray, slope: FloatArray) -> FloatArray:
    r"""Compute the local metric at each sample that removes the first-order bias.

    .. math:: M = \tfrac D2 (\hat b \hat b^T + \hat g \hat g^T) ,

    of trace D, plus a floor of 1e-10 on the orthogonal complement, which makes it positive
    definite and leaves :math:`\mathrm{tr}(M^{-1} B) = 0`. If one of the gradients is zero there is
    no bias to remove and the metric is the identity. If they are parallel B has a single non-zero
    eigenvalue and no metric removes it; the same formula is used.

    Parameters
    ----------
    gradient : ndarray of shape (n_samples, n_features)
        Gradient g of the log-density.
    slope : ndarray of shape (n_samples, n_features)
        Gradient b of the regression function.

    Returns
    -------
    ndarray of shape (n_samples, n_features, n_features)
        Local metrics of trace D.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.geometry import regression_local_metrics
    >>> g, b = np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 2.0, 0.0]])
    >>> M = regression_local_metrics(g, b)[0]
    >>> bool(np.allclose(M, np.diag([1.5, 1.5, 0.0])))
    True
    """
    g, b, both = _directions(gradient, slope)
    outer = b[:, :, None] * g[:, None, :]
    metrics = local_metrics(outer + outer.transpose(0, 2, 1), normalization="trace")
    metrics[~both] = np.eye(g.shape[1])
    return metrics


def average_regression_metrics(
    gradient: FloatArray, slope: FloatArray, weights: FloatArray | None = None
) -> tuple[FloatArray, float]:
    r"""Average the local metrics for regression over samples, with one product per gradient.

    .. math:: \bar M = \tfrac D2 \sum_i w_i (\hat b_i \hat b_i^T + \hat g_i \hat g_i^T)

    Parameters
    ----------
    gradient : ndarray of shape (n_samples, n_features)
        Gradient g of the log-density at each sample.
    slope : ndarray of shape (n_samples, n_features)
        Gradient b of the regression function at each sample.
    weights : ndarray of shape (n_samples,), default=None
        Weights, not negative; they are normalised to sum to one.

    Returns
    -------
    mean : ndarray of shape (n_features, n_features)
        Average metric, of trace D.
    stderr : float
        Its standard error in Frobenius norm, relative to the norm of the average.
    """
    n_samples, n_features = gradient.shape
    w = np.ones(n_samples) if weights is None else weights
    total = float(w.sum())
    w = w / total
    g, b, both = _directions(gradient, slope)
    kept, half = np.where(both, w, 0.0), 0.5 * n_features
    mean = half * ((g.T * kept) @ g + (b.T * kept) @ b)
    mean += (float(w[~both].sum()) + FLOOR) * np.eye(n_features)
    mean *= n_features / np.trace(mean)
    # The squared Frobenius norm of a local metric follows from the angle of its two directions.
    cosine = np.einsum("ij,ij->i", g, b)
    squares = np.where(both, half**2 * (2 + 2 * cosine**2), float(n_features))
    size = float(np.einsum("ij,ij->", mean, mean))
    variance = max(float(w @ squares) - size, 0.0)
    return mean, float(np.sqrt(variance / total / size))
