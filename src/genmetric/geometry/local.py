"""Local metrics: the closed-form solution of eq. eLocalSDP at each point."""

from __future__ import annotations

import numpy as np

from genmetric._typing import FloatArray

#: An eigenvalue of Phi below this share of the largest is rounding: it gets this share as metric.
FLOOR = 1e-10


def sign_rule(eigenvalues: FloatArray, floor: float = FLOOR) -> FloatArray:
    r"""Eigenvalues of the local metric from those of Phi (eq. eLocal).

    With :math:`d_+` positive and :math:`d_-` negative eigenvalues :math:`\lambda_i` of Phi,

    .. math:: m_i \propto d_+ \lambda_i \text{ if } \lambda_i > 0, \qquad
              m_i \propto d_- |\lambda_i| \text{ if } \lambda_i < 0, \qquad \prod_i m_i = 1.

    Then trace(M⁻¹ Phi) = 0 wherever both signs occur; with one sign only, the same rule stands.
    Eigenvalues below `floor` times the largest are rounding errors of zero: they count for neither
    sign and get `floor` times the largest :math:`m`. Where Phi is zero the metric is the identity.

    Parameters
    ----------
    eigenvalues : ndarray of shape (..., n_features)
        Eigenvalues of Phi.
    floor : float, default=1e-10
        Relative level of the floor.

    Returns
    -------
    ndarray of shape (..., n_features)
        Positive, with product one.
    """
    size = np.abs(eigenvalues)
    level = floor * size.max(axis=-1, keepdims=True)
    positive, negative = eigenvalues > level, eigenvalues < -level
    n_positive = positive.sum(axis=-1, keepdims=True)
    n_negative = negative.sum(axis=-1, keepdims=True)
    m = size * np.where(positive, n_positive, np.where(negative, n_negative, 0))
    top = m.max(axis=-1, keepdims=True)
    m = np.where(top > 0, np.maximum(m, floor * top), 1.0)
    log_m = np.log(m)
    return np.asarray(np.exp(log_m - log_m.mean(axis=-1, keepdims=True)))


def local_metric_factors(phi: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues m and eigenvectors U of the local metrics of a stack of Phi.

    Parameters
    ----------
    phi : ndarray of shape (..., n_features, n_features)
        Symmetric matrices.

    Returns
    -------
    m : ndarray of shape (..., n_features)
        Eigenvalues, of product one.
    U : ndarray of shape (..., n_features, n_features)
        Eigenvectors in columns.
    """
    # Only ratios count: a size of one keeps LAPACK away from overflow.
    size = np.abs(phi).max(axis=(-2, -1), keepdims=True)
    if not np.isfinite(size).all():
        raise ValueError("Phi is not finite. Check X and the class models for NaN.")
    eigenvalues, U = np.linalg.eigh(phi / np.where(size > 0, size, 1.0))
    return sign_rule(eigenvalues), U


def local_metrics(phi: FloatArray) -> FloatArray:
    r"""Local metrics of a stack of Phi: :math:`M = U\,\mathrm{diag}(m)\,U^T` (eq. eLocal).

    Parameters
    ----------
    phi : ndarray of shape (..., n_features, n_features)
        Symmetric matrices.

    Returns
    -------
    ndarray of shape (..., n_features, n_features)
        Symmetric positive definite matrices of determinant one.
    """
    m, U = local_metric_factors(phi)
    half = U * np.sqrt(m)[..., None, :]
    return np.asarray(half @ np.swapaxes(half, -1, -2))


def interpolate(metric: FloatArray, interpolation: float) -> FloatArray:
    r"""Mix with the identity: :math:`(1-\lambda) I + \lambda M`.

    Parameters
    ----------
    metric : ndarray of shape (..., n_features, n_features)
        Metrics M.
    interpolation : float
        The weight lambda of M, in [0, 1].

    Returns
    -------
    ndarray of shape (..., n_features, n_features)
        Interpolated metrics.
    """
    return (1 - interpolation) * np.eye(metric.shape[-1]) + interpolation * metric
