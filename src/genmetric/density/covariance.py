"""Covariances of the classes: shrunk, floored, and with a stand-in where a class has none."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import clone

from genmetric._typing import AnyArray, FloatArray
from genmetric._validation import as_number
from genmetric.density.statistics import ClassStatistics

Shrinkage: TypeAlias = Literal["auto"] | float | None

#: Eigenvalues of a class covariance below this share of the mean pooled variance are raised to it.
EIGENVALUE_FLOOR = 1e-8


def check_shrinkage(shrinkage: Any, covariance_estimator: Any = None) -> Shrinkage:
    """Return `shrinkage` if it is None, "auto" or a number in [0, 1]; raise otherwise."""
    number = as_number(shrinkage)
    if number is not None and 0 <= number <= 1:
        if covariance_estimator is not None:
            raise ValueError(
                f"shrinkage={shrinkage!r} and covariance_estimator={covariance_estimator!r} both "
                'say how to estimate the covariance. Leave shrinkage at "auto" to use the estimator.'
            )
        return number
    if shrinkage is None:
        return None
    if isinstance(shrinkage, str) and shrinkage == "auto":
        return "auto"
    raise ValueError(f'shrinkage must be None, "auto" or a number from 0 to 1; got {shrinkage!r}.')


def ledoit_wolf_shrinkage(stats: ClassStatistics) -> FloatArray:
    r"""Ledoit-Wolf shrinkage of each class, from its moments alone.

    With :math:`S` the covariance of n centred rows :math:`e_i` in D dimensions and
    :math:`\mu = \mathrm{tr} S / D`, the estimated best weight of :math:`\mu I` is

    .. math:: s = \min\left(1, \frac{\frac1n\left(\frac1n\sum_i |e_i|^4 - \|S\|_F^2\right)}
                                    {\|S - \mu I\|_F^2}\right),

    the same number as :func:`sklearn.covariance.ledoit_wolf` finds from the rows.

    Parameters
    ----------
    stats : ClassStatistics
        Moments of the classes.

    Returns
    -------
    ndarray of shape (n_classes,)
        Shrinkage in [0, 1]; zero where the covariance is a multiple of the identity already.

    References
    ----------
    O. Ledoit and M. Wolf, A well-conditioned estimator for large-dimensional covariance
    matrices, Journal of Multivariate Analysis 88 (2004).
    """
    n_features = stats.mean.shape[1]
    cov = stats.covariances
    n = np.maximum(stats.count, np.finfo(float).tiny)
    mu = np.trace(cov, axis1=1, axis2=2) / n_features
    square = np.einsum("cij,cij->c", cov, cov)
    off_identity = square - n_features * mu**2
    noise = (stats.fourth / n - square) / n
    # Below rounding of the difference the matrix is the identity already, as in one dimension.
    known = off_identity > 1e-14 * square
    share = np.divide(noise, off_identity, out=np.zeros_like(mu), where=known)
    return np.asarray(np.clip(share, 0.0, 1.0))


def shrink(covariances: FloatArray, shrinkage: FloatArray | float) -> FloatArray:
    r"""Shrink towards the identity: :math:`(1-s) S + s (\mathrm{tr} S/D) I`.

    Parameters
    ----------
    covariances : ndarray of shape (..., n_features, n_features)
        Covariance matrices S.
    shrinkage : float or ndarray of shape (...)
        The weight s of the identity.

    Returns
    -------
    ndarray of shape (..., n_features, n_features)
        Shrunk matrices.
    """
    s = np.asarray(shrinkage)[..., None, None]
    n_features = covariances.shape[-1]
    mu = np.trace(covariances, axis1=-2, axis2=-1)[..., None, None] / n_features
    return np.asarray((1 - s) * covariances + s * mu * np.eye(n_features))


def class_covariances(stats: ClassStatistics, shrinkage: Shrinkage = "auto") -> FloatArray:
    """Covariance of each class: maximum likelihood, Ledoit-Wolf, or a given shrinkage.

    Parameters
    ----------
    stats : ClassStatistics
        Moments of the classes.
    shrinkage : None, "auto" or float, default="auto"
        None is maximum likelihood, "auto" Ledoit-Wolf, a number the shrinkage itself.

    Returns
    -------
    ndarray of shape (n_classes, n_features, n_features)
        Covariances.
    """
    cov = stats.covariances
    if shrinkage is None:
        return cov
    return shrink(cov, ledoit_wolf_shrinkage(stats) if shrinkage == "auto" else shrinkage)


def fit_weighted(estimator: Any, X: AnyArray, sample_weight: FloatArray | None) -> Any:
    """Fit an estimator on rows with frequencies, whether or not it knows of weights.

    An estimator whose ``fit`` takes no ``sample_weight`` gets the row as often as its weight says;
    that needs whole numbers.
    """
    if sample_weight is None or np.all(sample_weight == 1):
        estimator.fit(X)
        return estimator
    if "sample_weight" in inspect.signature(estimator.fit).parameters:
        estimator.fit(X, sample_weight=sample_weight)
        return estimator
    times = np.rint(sample_weight)
    if not np.array_equal(times, sample_weight):
        raise ValueError(
            f"{type(estimator).__name__}.fit takes no sample_weight, so weights have to be whole "
            "numbers (the row is repeated). Round them, or use a model that takes weights."
        )
    estimator.fit(np.repeat(X, times.astype(np.intp), axis=0))
    return estimator


def estimated_covariance(
    estimator: Any, X: FloatArray, sample_weight: FloatArray | None = None
) -> FloatArray:
    """Covariance of the rows of one class by a scikit-learn covariance estimator."""
    if not callable(getattr(estimator, "fit", None)):
        raise TypeError(
            f"covariance_estimator={estimator!r} has no method fit. Use an estimator such as those "
            "of sklearn.covariance."
        )
    n_features = X.shape[1]
    fitted = fit_weighted(clone(estimator, safe=False), X, sample_weight)
    covariance = getattr(fitted, "covariance_", None)
    if covariance is None:
        raise ValueError(
            f"covariance_estimator={estimator!r} has no covariance_ after fit. Use an estimator "
            "such as those of sklearn.covariance."
        )
    covariance = np.asarray(covariance, float)
    if covariance.shape != (n_features, n_features) or not np.isfinite(covariance).all():
        raise ValueError(
            f"covariance_estimator={estimator!r} returned a covariance of shape {covariance.shape}"
            f"{'' if np.isfinite(covariance).all() else ' that is not finite'}; expected a finite "
            f"matrix of shape {(n_features, n_features)}."
        )
    return np.asarray((covariance + covariance.T) / 2)


def stand_in_covariance(stats: ClassStatistics, shrinkage: Shrinkage = None) -> FloatArray:
    """Pooled within-class covariance, shrunk; where it is zero, isotropic of the total spread."""
    pooled: FloatArray = class_covariances(stats.pooled(), shrinkage)[0]
    if np.trace(pooled) > 0:
        return pooled
    n_features = len(pooled)
    total = float(np.trace(stats.total_covariance)) / n_features
    return np.eye(n_features) * (total if total > 0 else 1.0)


def replace_degenerate(
    covariances: FloatArray,
    stats: ClassStatistics,
    shrinkage: Shrinkage = None,
    classes: AnyArray | None = None,
) -> FloatArray:
    """Give classes of one row or without scatter the pooled covariance, and say which.

    Parameters
    ----------
    covariances : ndarray of shape (n_classes, n_features, n_features)
        Covariances as estimated.
    stats : ClassStatistics
        Moments of the classes.
    shrinkage : None, "auto" or float, default=None
        Shrinkage of the pooled covariance.
    classes : ndarray of shape (n_classes,), default=None
        Class names for the warning.

    Returns
    -------
    ndarray of shape (n_classes, n_features, n_features)
        Covariances, all of positive trace.
    """
    # Rounding leaves a scatter near eps² of the coordinates even when all rows are one row.
    size = np.trace(stats.total_covariance) + np.einsum("cj,cj->c", stats.mean, stats.mean)
    spread = np.trace(stats.covariances, axis1=1, axis2=2)
    flat = spread <= 1e-30 * size
    if not flat.any():
        return covariances
    names = np.arange(len(flat)) if classes is None else classes
    warnings.warn(
        f"Classes {names[flat].tolist()} have a single row or no scatter: they take the pooled "
        "within-class covariance. Merge or drop classes this small for a metric that knows them.",
        UserWarning,
        stacklevel=2,
    )
    covariances = covariances.copy()
    covariances[flat] = stand_in_covariance(stats, shrinkage)
    return covariances
