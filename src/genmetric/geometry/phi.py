r"""The matrix Phi: class-density Hessians weighted by the posterior of each class.

For any number of classes the first-order bias of the nearest-neighbour error is the trace of

.. math:: \Phi = \sum_c w_c G_c, \qquad G_c = \nabla\nabla p_c / p_c, \qquad
          w_c = p_c \Big(\sum_{c' \ne c} p_{c'}^2 - p_c \sum_{c' \ne c} p_{c'}\Big),

and the weights sum to zero. A local metric does not change with the scale or the sign of Phi, so
only ratios of the weights matter, and densities are never formed.
"""

from __future__ import annotations

import numpy as np

from genmetric._typing import FloatArray
from genmetric.density import ClassModels
from genmetric.geometry.local import ZERO_LEVEL


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

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.geometry import curvature_weights
    >>> curvature_weights(np.log([[0.8, 0.1, 0.1]]))
    array([[-1. ,  0.5,  0.5]])
    """
    if not np.isfinite(log_joint).all():
        raise ValueError(
            "The log-density of a class is not finite, because a sample is very far from every class "
            "or a class model returns NaN. Check X for outliers."
        )
    every, first = np.arange(len(log_joint)), log_joint.argmax(axis=1)
    below_first = log_joint - log_joint.max(axis=1, keepdims=True)
    others = log_joint.copy()
    others[every, first] = -np.inf
    with np.errstate(under="ignore"):
        r, delta = np.exp(below_first), -np.expm1(below_first)
        r[every, first] = 0.0
        s = np.exp(others - others.max(axis=1, keepdims=True))  # zero for the first class
        rest = (r * delta).sum(axis=1, keepdims=True)
        w = s * (delta * (1 + r.sum(axis=1, keepdims=True)) - rest)
        w[every, first] = -(s * delta).sum(axis=1)
        largest = np.abs(w).max(axis=1)
        tied = np.flatnonzero(largest == 0)
        w[tied, first[tied]], w[tied, others[tied].argmax(axis=1)] = -1.0, 1.0
        largest[tied] = 1.0
        return np.asarray(w / largest[:, None])


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
        See :func:`curvature_weights`. Two classes have the weights -1 and 1 at every sample, and no
        density is evaluated.
    """
    if models.n_classes == 2:
        return np.tile([-1.0, 1.0], (len(X), 1))
    log_joint = models.log_density(X)
    return curvature_weights(log_joint if log_priors is None else log_joint + log_priors)


def rounding_level(size: FloatArray, terms: FloatArray) -> FloatArray:
    """Return the absolute size of rounding errors in the eigenvalues of each Phi.

    `size` is the largest absolute entry or eigenvalue of each Phi, and `terms` the size of the
    precisions that it is a difference of. If they cancel to a large part, the rounding errors of
    the covariances themselves are left.
    """
    return np.where(size < 1e-6 * terms, 1e-12, 1e-14) * terms


def phi_and_rounding(
    models: ClassModels, X: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return Phi of each sample for given class weights, and the level of its rounding errors."""
    matrices = models.weighted_curvature(X, weights)
    if not np.isfinite(matrices).all():
        raise ValueError(
            "Phi is not finite: samples are so far from the classes that squares overflow. Check X "
            "for outliers."
        )
    matrices = (matrices + matrices.transpose(0, 2, 1)) / 2
    size = np.abs(matrices).max(axis=(1, 2))
    return matrices, rounding_level(size, models.precision_size(weights))


def phi(models: ClassModels, X: FloatArray, log_priors: FloatArray | None = None) -> FloatArray:
    """Compute Phi at each sample, up to scale and sign.

    If columns are collinear, every class has a precision of 1e8 in the same direction. The
    difference of the precisions vanishes there up to rounding, and the sign rule would use the sign
    of a rounding error: such eigenvalues are set to zero.

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
    matrices, rounding = phi_and_rounding(models, X, phi_weights(models, X, log_priors))
    # Elsewhere the floor of the sign rule is above the rounding errors.
    rows = np.flatnonzero(rounding > ZERO_LEVEL * np.abs(matrices).max(axis=(1, 2)))
    if len(rows):
        eigenvalues, U = np.linalg.eigh(matrices[rows])
        small = np.abs(eigenvalues) <= rounding[rows, None]
        touched = small.any(axis=1)
        cleared = U * np.where(small, 0.0, eigenvalues)[:, None, :] @ U.transpose(0, 2, 1)
        cleared = (cleared + cleared.transpose(0, 2, 1)) / 2
        matrices[rows[touched]] = cleared[touched]
    return matrices
