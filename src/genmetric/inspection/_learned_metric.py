"""The matrix of a learned metric in comparable units, and its effective rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import entr

from genmetric._typing import ArrayLike, FloatArray
from genmetric.inspection._contributions import mean_shares, scaled_factor
from genmetric.inspection._linear_map import feature_scales, linear_map


@dataclass(frozen=True)
class LearnedMetric:
    """A metric in the coordinates of the features.

    Attributes
    ----------
    matrix : ndarray of shape (n_features, n_features)
        The metric M, divided by its mean diagonal, so that the identity is the Euclidean
        distance. If `standardized`, it applies to features divided by their standard deviations.
    feature_names : tuple of str
        Names of the features.
    standardized : bool
        Whether samples were available to measure features in standard deviations.
    contributions : ndarray of shape (n_features,) or None
        Mean share of each feature in the squared distance between two samples, see
        :func:`feature_contributions`. None if no samples were available.

    Examples
    --------
    >>> from genmetric.inspection import learned_metric
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, _ = load_iris(return_X_y=True)
    >>> found = learned_metric(StandardScaler().fit(X), X)
    >>> round(found.effective_rank, 6)
    4.0
    """

    matrix: FloatArray
    feature_names: tuple[str, ...]
    standardized: bool
    contributions: FloatArray | None = None

    @property
    def eigenvalues(self) -> FloatArray:
        """Eigenvalues of the matrix in descending order, clipped at 0; shape (n_features,)."""
        return np.clip(np.linalg.eigvalsh(self.matrix)[::-1], 0.0, None)

    @property
    def effective_rank(self) -> float:
        """Number of directions in which the metric measures, see :func:`effective_rank`."""
        return effective_rank(self.eigenvalues)


def effective_rank(eigenvalues: ArrayLike) -> float:
    r"""Return the number of directions in which a metric measures.

    The exponential of the entropy of the normalised eigenvalues,

    .. math:: \exp\Big(-\sum_i p_i \log p_i\Big), \qquad
              p_i = \lambda_i / \textstyle\sum_j \lambda_j.

    Parameters
    ----------
    eigenvalues : array-like of shape (n_features,)
        Eigenvalues of the metric; none may be negative.

    Returns
    -------
    float
        Between 1, if a single direction counts, and n_features, if all count equally; 0 if all
        eigenvalues are zero.

    References
    ----------
    .. [1] O. Roy and M. Vetterli, "The effective rank: a measure of effective dimensionality",
       EUSIPCO 2007.

    Examples
    --------
    >>> from genmetric.inspection import effective_rank
    >>> round(effective_rank([1.0, 1.0, 0.0]), 6)
    2.0
    """
    values = np.asarray(eigenvalues, float)
    if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(
            "eigenvalues must be a vector of finite numbers of at least 0; got "
            f"{np.array2string(values, threshold=5)}."
        )
    largest = values.max(initial=0.0)
    if largest == 0:
        return 0.0
    share = values / largest
    return float(np.exp(entr(share / share.sum()).sum()))


def learned_metric(
    estimator: Any, X: ArrayLike | None = None, *, feature_names: Sequence[Any] | None = None
) -> LearnedMetric:
    """Return the metric of a fitted estimator in comparable units.

    Parameters
    ----------
    estimator : object
        Any fitted estimator that :func:`linear_map` accepts.
    X : array-like of shape (n_samples, n_features), default=None
        Samples, to measure features in standard deviations and to compute contributions. Without
        them the metric is that of the features in their own units.
    feature_names : sequence of length n_features, default=None
        Names of the features of the map; by default those of the fit.

    Returns
    -------
    LearnedMetric
        The metric.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.inspection import learned_metric
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> found = learned_metric(GenerativeMetric().fit(X, y), X)
    >>> found.feature_names[:2]
    ('alcohol', 'malic_acid')
    >>> round(float(found.contributions.sum()), 6)
    1.0
    """
    into = linear_map(estimator, X, feature_names=feature_names)
    if X is None:
        factor, shares = scaled_factor(into.matrix, np.ones(into.matrix.shape[1])), None
    else:
        features = into.prepare(X)
        factor = scaled_factor(into.matrix, feature_scales(features))
        shares = mean_shares(features, factor)
    matrix = factor.T @ factor
    size = np.trace(matrix) / len(matrix)
    if not (np.isfinite(matrix).all() and size > 0):
        raise ValueError("The metric is zero or not finite for these samples.")
    return LearnedMetric(
        (matrix + matrix.T) / (2 * size), into.feature_names_in, X is not None, shares
    )
