r"""The matrix Phi: class-density Hessians weighted by the posterior of each class.

For any number of classes the first-order bias of the nearest-neighbour error is the trace of

.. math:: \Phi = \sum_c w_c G_c, \qquad G_c = \nabla\nabla p_c / p_c, \qquad
          w_c = p_c \Big(\sum_{c' \ne c} p_{c'}^2 - p_c \sum_{c' \ne c} p_{c'}\Big),

and the weights sum to zero. A local metric does not change with the scale or the sign of Phi, so
only ratios of the weights matter, and densities are never formed.

The functions that a fit needs compute in the array namespace of their arguments: NumPy, or that of
another library under scikit-learn's array API dispatch.
"""

from __future__ import annotations

import numpy as np

from genmetric._array_api import computed_like, namespace, set_entries
from genmetric._typing import FloatArray
from genmetric.density._models import ClassModels
from genmetric.geometry._local import ZERO_LEVEL

#: Eigenvalues of Phi below this fraction of the precisions that it is a difference of are rounding
#: errors. The second value holds if Phi is below `CANCELLATION` of them: the rounding errors of
#: the covariances themselves are left then.
ROUNDING, CANCELLED_ROUNDING, CANCELLATION = 1e-14, 1e-12, 1e-6


def curvature_weights(log_joint: FloatArray) -> FloatArray:
    r"""Compute the weight :math:`w_c` of each class in Phi, divided by the largest weight.

    With :math:`r_c = p_c/p_{(1)}` and :math:`s_c = p_c/p_{(2)}` relative to the two largest
    densities and :math:`\delta_c = 1 - r_c`, dividing by :math:`p_{(1)}^2 p_{(2)}` leaves

    .. math:: w_{(1)} = -\sum_{c \ne (1)} s_c \delta_c, \qquad
              w_c = s_c \Big(\delta_c + \delta_c \sum_{c'} r_{c'} - \sum_{c'} r_{c'}
              \delta_{c'}\Big),

    with sums over all classes but the first. The weights are finite if one posterior is one to
    machine precision, and there is no cancellation if densities nearly agree. If all weights
    vanish, the two leading classes get the weights +1 and -1.

    Parameters
    ----------
    log_joint : ndarray of shape (n_samples, n_classes)
        Log-densities, plus log-priors if the classes have priors.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Weights with largest absolute value one and sum zero.
    """
    xp = namespace(log_joint)
    if not bool(xp.all(xp.isfinite(log_joint))):
        raise ValueError(
            "The log-density of a class is not finite, because a sample is very far from every class "
            "or a class model returns NaN. Check X for outliers."
        )
    first, top = xp.argmax(log_joint, axis=1), xp.max(log_joint, axis=1, keepdims=True)
    masked = set_entries(xp.asarray(log_joint, copy=True), first, -np.inf)
    below_first = log_joint - top
    r, delta = set_entries(xp.exp(below_first), first, 0.0), -xp.expm1(below_first)
    s = xp.exp(masked - xp.max(masked, axis=1, keepdims=True))  # zero for the first class
    rest = xp.sum(r * delta, axis=1, keepdims=True)
    w = s * (delta * (1 + xp.sum(r, axis=1, keepdims=True)) - rest)
    w = set_entries(w, first, -xp.sum(s * delta, axis=1))
    largest = xp.max(xp.abs(w), axis=1, keepdims=True)
    tied = largest == 0
    if bool(xp.any(tied)):
        pair = set_entries(xp.asarray(w, copy=True), first, -1.0)
        pair = set_entries(pair, xp.argmax(masked, axis=1), 1.0)
        w = xp.where(tied, pair, w)
    weights: FloatArray = w / xp.where(tied, 1.0, largest)
    return weights


def two_class_weights(n_samples: int) -> FloatArray:
    """Return the weights of two classes: Phi is G_2 - G_1 up to sign at every sample."""
    return np.tile([-1.0, 1.0], (n_samples, 1))


def phi_weights(
    models: ClassModels, X: FloatArray, log_priors: FloatArray | None = None
) -> FloatArray:
    """Compute the weight of each class in Phi at each sample.

    Parameters
    ----------
    models : ClassModels
        Class models.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` for equal priors.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        See :func:`curvature_weights`; no density is evaluated for two classes.
    """
    if models.n_classes == 2:
        weights: FloatArray = computed_like(two_class_weights(X.shape[0]), X)
        return weights
    log_joint = models.log_density(X)
    return curvature_weights(log_joint if log_priors is None else log_joint + log_priors)


def clear_rounding(matrices: FloatArray, rounding: FloatArray) -> FloatArray:
    """Set to zero the eigenvalues that are rounding errors of the terms of a difference.

    If columns are collinear, every class has a precision of 1e8 in the same direction. The
    difference of the precisions vanishes there up to rounding, and the sign rule would use the
    sign of a rounding error.

    Parameters
    ----------
    matrices : ndarray of shape (n_samples, n_features, n_features)
        Symmetric matrices.
    rounding : ndarray of shape (n_samples,)
        Absolute level of rounding errors; see :func:`phi_and_rounding`.

    Returns
    -------
    ndarray of shape (n_samples, n_features, n_features)
        The matrices, with eigenvalues up to `rounding` set to zero.
    """
    # Elsewhere the floor of the sign rule is above the rounding errors.
    rows = np.flatnonzero(rounding > ZERO_LEVEL * np.abs(matrices).max(axis=(1, 2)))
    if len(rows):
        eigenvalues, U = np.linalg.eigh(matrices[rows])
        small = np.abs(eigenvalues) <= rounding[rows, None]
        touched = small.any(axis=1)
        rows, U = rows[touched], U[touched]
        eigenvalues = np.where(small, 0.0, eigenvalues)[touched]
        cleared = (U * eigenvalues[:, None, :]) @ U.transpose(0, 2, 1)
        matrices = matrices.copy()
        matrices[rows] = (cleared + cleared.transpose(0, 2, 1)) / 2
    return matrices


def rounding_level(size: FloatArray, terms: FloatArray) -> FloatArray:
    """Return the absolute size of rounding errors in the eigenvalues of each Phi.

    Parameters
    ----------
    size : ndarray of shape (n_samples,)
        Largest absolute entry or eigenvalue of each Phi.
    terms : ndarray of shape (n_samples,)
        Size of the precisions that each is a difference of.

    Returns
    -------
    ndarray of shape (n_samples,)
        Eigenvalues up to this level are rounding errors.
    """
    cancelled = size < CANCELLATION * terms
    level: FloatArray = namespace(terms).where(
        cancelled, terms * CANCELLED_ROUNDING, terms * ROUNDING
    )
    return level


def phi_and_rounding(
    models: ClassModels, X: FloatArray, log_priors: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Compute Phi at each sample and the level of its rounding errors.

    Parameters
    ----------
    models : ClassModels
        Class models.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` means equal priors.

    Returns
    -------
    phi : ndarray of shape (n_samples, n_features, n_features)
        Symmetric matrices, up to scale and sign.
    rounding : ndarray of shape (n_samples,)
        Eigenvalues of Phi up to this absolute value are rounding errors of the precisions that Phi
        is a difference of.
    """
    xp, weights = namespace(X), phi_weights(models, X, log_priors)
    matrices = models.weighted_curvature(X, weights)
    if not bool(xp.all(xp.isfinite(matrices))):
        raise ValueError(
            "Phi is not finite: samples are so far from the classes that squares overflow. Check X "
            "for outliers."
        )
    matrices = (matrices + xp.matrix_transpose(matrices)) / 2
    size = xp.max(xp.abs(matrices), axis=(1, 2))
    return matrices, rounding_level(size, models.precision_size(weights))


def phi(models: ClassModels, X: FloatArray, log_priors: FloatArray | None = None) -> FloatArray:
    """Compute Phi at each sample, up to scale and sign.

    Parameters
    ----------
    models : ClassModels
        Class models.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` means equal priors.

    Returns
    -------
    ndarray of shape (n_samples, n_features, n_features)
        Symmetric matrices, free of eigenvalues that are rounding errors.
    """
    return clear_rounding(*phi_and_rounding(models, X, log_priors))
