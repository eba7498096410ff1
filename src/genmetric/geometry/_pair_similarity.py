"""Linear maps whose inner products tell pairs of one class from pairs of two classes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from genmetric._typing import FloatArray

Weighting = Literal["whitening", "reliability", "detection"]

#: All weightings.
WEIGHTINGS: tuple[Weighting, ...] = ("whitening", "reliability", "detection")


def discriminant_axes(within: FloatArray, between: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Diagonalise two covariances at once.

    Parameters
    ----------
    within : ndarray of shape (n_features, n_features)
        Covariance W within classes, positive definite.
    between : ndarray of shape (n_features, n_features)
        Covariance B between classes, symmetric.

    Returns
    -------
    axes : ndarray of shape (n_features, n_features)
        Rows a with :math:`a_i^T W a_j = \delta_{ij}` and
        :math:`a_i^T B a_j = \psi_i \delta_{ij}`. The largest entry of each is positive.
    ratios : ndarray of shape (n_features,)
        The ratios :math:`\psi` of the variance between classes to that within, descending;
        negative ones are set to zero.
    """
    variances, vectors = np.linalg.eigh(within)
    root = vectors / np.sqrt(variances)
    inside = root.T @ between @ root
    ratios, rotation = np.linalg.eigh((inside + inside.T) / 2)
    axes = (root @ rotation).T[::-1]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return axes * np.where(largest < 0, -1.0, 1.0), np.maximum(ratios[::-1], 0.0)


def similarity_weights(ratios: FloatArray, weighting: Weighting) -> FloatArray:
    r"""Return the weight g of each axis in an inner product of two samples.

    On the axes of :func:`discriminant_axes` the samples of a pair have the variance
    :math:`1+\psi`, and the covariance :math:`\psi` if they are of one class and zero otherwise:

    - "whitening": :math:`g = 1`, which treats all axes alike;
    - "reliability": :math:`g = \psi/(1+\psi)`, the correlation of two samples of one class. It
      drops axes on which classes do not differ;
    - "detection": :math:`g = \psi/(1+\psi)^2`. It maximises the difference of the mean of
      :math:`\sum_i g_i x_i y_i` between pairs of one class and of two, relative to its
      standard deviation over pairs of two classes:
      :math:`\sum_i g_i \psi_i / (\sum_i g_i^2 (1+\psi_i)^2)^{1/2}`. It also keeps a
      few axes with large differences of classes from dominating the angle.

    Parameters
    ----------
    ratios : ndarray of shape (n_features,)
        Ratios :math:`\psi` of the variance between classes to that within.
    weighting : {"whitening", "reliability", "detection"}
        Which weights to return.

    Returns
    -------
    ndarray of shape (n_features,)
        Weights, not negative.
    """
    if weighting == "whitening":
        return np.ones_like(ratios)
    reliability = ratios / (1 + ratios)
    return np.asarray(reliability if weighting == "reliability" else reliability / (1 + ratios))


def similarity_factor(
    axes: FloatArray, ratios: FloatArray, weighting: Weighting, n_components: int | None = None
) -> FloatArray:
    r"""Return the map L with inner products :math:`(Lx)^T Ly = \sum_i g_i (a_i^T x)(a_i^T y)`.

    Parameters
    ----------
    axes : ndarray of shape (n_features, n_features)
    ratios : ndarray of shape (n_features,)
        See :func:`discriminant_axes`.
    weighting : {"whitening", "reliability", "detection"}
        See :func:`similarity_weights`.
    n_components : int, default=None
        Number of axes to keep, in the order of their ratios; ``None`` keeps all.

    Returns
    -------
    ndarray of shape (n_components, n_features)
        The map, scaled so that the mean squared length of centred training samples is one.
    """
    g = similarity_weights(ratios, weighting)[:n_components]
    size = float(g @ (1 + ratios[:n_components]))
    if size <= 0:  # classes do not differ along any axis
        g, size = np.ones_like(g), float((1 + ratios[:n_components]).sum())
    return np.asarray(axes[:n_components] * np.sqrt(g / size)[:, None])
