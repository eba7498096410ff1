"""Checks of a class model against finite differences of its own log-density."""

from __future__ import annotations

import numpy as np

from genmetric._typing import FloatArray
from genmetric.density._models import DensityModel


def gradient_error(model: DensityModel, X: FloatArray, step: float = 1e-5) -> float:
    """Compare ``gradient`` with central differences of ``log_density``.

    Parameters
    ----------
    model : DensityModel
        A fitted class model.
    X : ndarray of shape (n_samples, n_features)
        Samples at which to check.
    step : float, default=1e-5
        Step of the differences, in the units of X.

    Returns
    -------
    float
        Largest difference, relative to the largest gradient.
    """
    numeric = np.empty(X.shape)
    for j, e in enumerate(step * np.eye(X.shape[1])):
        numeric[:, j] = (model.log_density(X + e) - model.log_density(X - e)) / (2 * step)
    exact = model.gradient(X)
    return float(np.abs(exact - numeric).max() / np.abs(exact).max())


def curvature_error(model: DensityModel, X: FloatArray, step: float = 1e-5) -> float:
    r"""Compare ``curvature`` with central differences of ``gradient``.

    With :math:`g = \nabla \log p`, the curvature is
    :math:`\nabla\nabla p / p = \nabla g + g g^T`.

    Parameters
    ----------
    model : DensityModel
        A fitted class model.
    X : ndarray of shape (n_samples, n_features)
        Samples at which to check.
    step : float, default=1e-5
        Step of the differences, in the units of X.

    Returns
    -------
    float
        Largest difference, relative to the largest curvature.
    """
    g = model.gradient(X)
    numeric = g[:, :, None] * g[:, None, :]
    for j, e in enumerate(step * np.eye(X.shape[1])):
        numeric[:, j] += (model.gradient(X + e) - model.gradient(X - e)) / (2 * step)
    exact = model.curvature(X)
    return float(np.abs(exact - numeric).max() / np.abs(exact).max())
