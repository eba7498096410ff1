"""Local metrics of samples under class models, by one eigendecomposition per sample."""

from __future__ import annotations

import numpy as np

from genmetric._typing import FloatArray
from genmetric.density._models import ClassModels
from genmetric.geometry._local import Normalization, local_metric_factors
from genmetric.geometry._phi import phi_and_rounding


def sample_metric_factors(
    models: ClassModels,
    X: FloatArray,
    log_priors: FloatArray | None = None,
    normalization: Normalization = "determinant",
) -> tuple[FloatArray, FloatArray]:
    """Compute eigenvalues m and eigenvectors U of the local metric of each sample.

    Parameters
    ----------
    models : ClassModels
        Class models.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` means equal priors.
    normalization : {"determinant", "trace"}, default="determinant"
        Scale of the metrics; see :func:`~genmetric.geometry.sign_rule`.

    Returns
    -------
    m : ndarray of shape (n_samples, n_features)
        Positive eigenvalues.
    U : ndarray of shape (n_samples, n_features, n_features)
        Eigenvectors in columns.
    """
    matrices, rounding = phi_and_rounding(models, X, log_priors)
    return local_metric_factors(matrices, normalization, rounding)


def sample_metrics(
    models: ClassModels,
    X: FloatArray,
    log_priors: FloatArray | None = None,
    normalization: Normalization = "determinant",
) -> FloatArray:
    """Compute the local metric of each sample, shape (n_samples, n_features, n_features).

    The parameters are those of :func:`sample_metric_factors`.
    """
    m, U = sample_metric_factors(models, X, log_priors, normalization)
    half = U * np.sqrt(m)[..., None, :]
    return np.asarray(half @ np.swapaxes(half, -1, -2))
