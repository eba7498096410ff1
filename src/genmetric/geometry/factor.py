"""Factors L of a metric M = LᵀL, from its spectrum."""

from __future__ import annotations

import numpy as np

from genmetric._typing import FloatArray


def _spectrum(metric: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvalues, not negative, and eigenvectors of symmetric matrices."""
    if not np.isfinite(metric).all():
        raise ValueError(
            "The metric is not finite. Check X for numbers near the limits of float64."
        )
    eigenvalues, vectors = np.linalg.eigh((metric + np.swapaxes(metric, -1, -2)) / 2)
    return np.maximum(eigenvalues, 0.0), vectors


def symmetric_root(metric: FloatArray) -> FloatArray:
    """Compute the symmetric square root L of a metric, M = L L = LᵀL.

    Parameters
    ----------
    metric : ndarray of shape (..., n_features, n_features)
        Symmetric positive semidefinite matrices.

    Returns
    -------
    ndarray of shape (..., n_features, n_features)
        Symmetric positive semidefinite roots.
    """
    eigenvalues, U = _spectrum(metric)
    quarter = U * np.sqrt(np.sqrt(eigenvalues))[..., None, :]
    return np.asarray(quarter @ np.swapaxes(quarter, -1, -2))


def rank_limited_factor(
    metric: FloatArray, n_components: int, covariance: FloatArray | None = None
) -> FloatArray:
    r"""Compute the best factor of given rank: it minimises the average loss in squared distance.

    Without a covariance the rows are the leading eigenvectors of M times the roots of their
    eigenvalues, so that :math:`L^T L` is the closest matrix to M of that rank. With the covariance
    S of the data they are the leading principal components of the data in the space of the metric,
    :math:`L = V^T M^{1/2}` with V the leading eigenvectors of :math:`M^{1/2} S M^{1/2}`, so that
    the squared distances between samples lose the least on average.

    Parameters
    ----------
    metric : ndarray of shape (n_features, n_features)
        Symmetric positive semidefinite matrix.
    n_components : int
        Number of rows of the factor.
    covariance : ndarray of shape (n_features, n_features), default=None
        Covariance of the data.

    Returns
    -------
    ndarray of shape (n_components, n_features)
        The factor.
    """
    if covariance is None:
        eigenvalues, U = _spectrum(metric)
        return (U * np.sqrt(eigenvalues)).T[::-1][:n_components]
    root = symmetric_root(metric)
    _, V = _spectrum(root @ covariance @ root)
    return np.asarray(V.T[::-1][:n_components] @ root)


def unit_determinant(metric: FloatArray) -> FloatArray:
    """Scale metrics to determinant one.

    Parameters
    ----------
    metric : ndarray of shape (..., n_features, n_features)
        Symmetric positive definite matrices.

    Returns
    -------
    ndarray of shape (..., n_features, n_features)
        The same metrics up to a factor.
    """
    _, log_det = np.linalg.slogdet(metric)
    return np.asarray(metric * np.exp(-log_det / metric.shape[-1])[..., None, None])
