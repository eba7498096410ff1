"""Contributions of features to squared distances: of pairs of samples, and on average."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from genmetric._typing import ArrayLike, FloatArray
from genmetric.inspection._linear_map import LinearMap, feature_scales, linear_map


def pair_contributions(differences: ArrayLike, metric: ArrayLike) -> FloatArray:
    r"""Return the contribution of each feature to squared distances.

    The squared distance of two samples with difference d is :math:`d^T M d = \sum_i d_i (M d)_i`.
    Feature i contributes :math:`d_i (M d)_i`.

    Parameters
    ----------
    differences : array-like of shape (..., n_features)
        Differences between the samples of each pair.
    metric : array-like of shape (n_features, n_features)
        The metric M, in the same units as the differences.

    Returns
    -------
    ndarray of shape (..., n_features)
        Contributions; their sum over the features is the squared distance. A contribution is
        negative if the differences in other features compensate for that in this one.

    Examples
    --------
    >>> from genmetric.inspection import pair_contributions
    >>> pair_contributions([1.0, 2.0], [[1.0, 0.0], [0.0, 3.0]])
    array([ 1., 12.])
    """
    d = np.asarray(differences, float)
    return np.asarray(d * (d @ np.asarray(metric, float)))


def factored_contributions(differences: FloatArray, factor: FloatArray) -> FloatArray:
    """Return :func:`pair_contributions` for M = LᵀL, without overflow of the entries of M.

    Parameters
    ----------
    differences : ndarray of shape (..., n_features)
        Differences between the samples of each pair.
    factor : ndarray of shape (n_components, n_features)
        The factor L.

    Returns
    -------
    ndarray of shape (..., n_features)
        Contributions.
    """
    return np.asarray(differences * ((differences @ factor.T) @ factor))


def feature_contributions(
    estimator: Any, X: ArrayLike | None = None, *, covariance: ArrayLike | None = None
) -> Mapping[str, float]:
    r"""Return the mean share of each feature in the squared distance between two samples.

    Averaged over all pairs of samples, feature i contributes
    :math:`2 \sum_j M_{ij} C_{ij}` to the squared distance, with M the metric and C the covariance
    of the features. Its share is

    .. math:: s_i = \sum_j M_{ij} C_{ij} \Big/ \sum_{ij} M_{ij} C_{ij}.

    The shares do not depend on the units of the features. They sum to one, and a share is negative
    if correlated features compensate for that feature.

    Parameters
    ----------
    estimator : object
        Any fitted estimator that :func:`linear_map` accepts.
    X : array-like of shape (n_samples, n_features), default=None
        Samples, in the form the estimator was fitted on.
    covariance : array-like of shape (n_features, n_features), default=None
        Covariance C of the features of the map, instead of samples.

    Returns
    -------
    dict of str to float
        Share of each feature by name, in the order of the features.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.inspection import feature_contributions
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> shares = feature_contributions(GenerativeMetric().fit(X, y), X)
    >>> round(sum(shares.values()), 6)
    1.0
    """
    if (X is None) == (covariance is None):
        raise ValueError("Pass either X or covariance, not both.")
    into = linear_map(estimator, X)
    if X is not None:
        features = into.prepare(X)
        shares = mean_shares(features, scaled_factor(into.matrix, feature_scales(features)))
    else:
        shares = _shares_from_covariance(into, np.asarray(covariance, float))
    return dict(zip(into.feature_names_in, map(float, shares), strict=True))


def _shares_from_covariance(into: LinearMap, covariance: FloatArray) -> FloatArray:
    n = into.matrix.shape[1]
    if covariance.shape != (n, n):
        raise ValueError(
            f"covariance must have shape {(n, n)}, one row per feature; got {covariance.shape}."
        )
    scale = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    unit = np.where(scale > 0, scale, 1.0)
    factor = scaled_factor(into.matrix, scale)
    parts = ((factor.T @ factor) * (covariance / unit / unit[:, None])).sum(axis=1)
    return _normalized(parts)


def scaled_factor(matrix: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the matrix of a map for features in units of their scale, with largest entry one."""
    # Relative scales: the squares of features at the scale 1e160 overflow.
    factor = matrix * (scale / (scale.max(initial=0.0) or 1.0))
    return np.asarray(factor / (np.abs(factor).max(initial=0.0) or 1.0))


def mean_shares(features: FloatArray, factor: FloatArray) -> FloatArray:
    """Return the mean share of each feature in squared distances, without forming a covariance.

    Parameters
    ----------
    features : ndarray of shape (n_samples, n_features)
        Features of the map.
    factor : ndarray of shape (n_components, n_features)
        A factor of the metric for features in units of their scale, as of :func:`scaled_factor`.

    Returns
    -------
    ndarray of shape (n_features,)
        Shares with sum one; zeros if all distances are zero.
    """
    scale = feature_scales(features)
    centred = (features - features.mean(axis=0)) / np.where(scale > 0, scale, 1.0) * (scale > 0)
    # (M * C).sum(axis=1), with C = centredᵀ centred / n.
    return _normalized(np.einsum("ni,ni->i", centred, (centred @ factor.T) @ factor))


def _normalized(parts: FloatArray) -> FloatArray:
    total = parts.sum()
    return np.asarray(parts / total if total > 0 else np.zeros_like(parts))
