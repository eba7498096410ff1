"""Class covariances: shrinkage, floor, and a replacement for classes without scatter."""

from __future__ import annotations

import inspect
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone

from genmetric._parameters import Interval, RuleOrValue, check_parameter
from genmetric._typing import AnyArray, BoolArray, FloatArray, IntArray
from genmetric._warnings import warn_user
from genmetric.density._statistics import ClassStatistics

Shrinkage: TypeAlias = Literal["auto"] | float | None

#: Valid values of the parameter `shrinkage`.
SHRINKAGE_RULES: tuple[RuleOrValue, ...] = (None, "auto", Interval(float, 0, 1))

#: Eigenvalues of a class covariance below this fraction of the mean pooled variance are raised to
#: it.
EIGENVALUE_FLOOR = 1e-8

#: Classes with fewer samples share one shrinkage; the second value is the fraction of their own
#: scale that they keep.
SMALL_CLASS, OWN_SCALE = 10, 0.3

#: Up to this number of eigenvalues per class at the floor (or a tenth of them) there is no warning.
FEW_DIRECTIONS = 2

#: Largest number of classes that a warning lists by name.
MAX_NAMES = 10


def check_shrinkage(shrinkage: Any, covariance_estimator: Any = None) -> Shrinkage:
    """Return `shrinkage` if it is None, "auto" or a number in [0, 1]; raise otherwise."""
    check_parameter(shrinkage, "shrinkage", SHRINKAGE_RULES)
    if shrinkage is None:
        return None
    if isinstance(shrinkage, str):
        return "auto"
    if covariance_estimator is not None:
        raise ValueError(
            f"shrinkage={shrinkage!r} and covariance_estimator={covariance_estimator!r} both "
            'define the covariance. Leave shrinkage at "auto" to use the estimator.'
        )
    return float(shrinkage)


class PooledStatistics(Protocol):
    """Statistics of classes in either form: moments, and all classes as one."""

    @property
    def count(self) -> FloatArray:
        """Sum of the sample weights of each class, shape (n_classes,)."""

    @property
    def mean(self) -> FloatArray:
        """Class means, shape (n_classes, n_features)."""

    @property
    def fourth(self) -> FloatArray:
        """Sums of the fourth powers of the norms of the centred samples, shape (n_classes,)."""

    @property
    def traces(self) -> FloatArray:
        """Traces of the class covariances, shape (n_classes,)."""

    @property
    def squares(self) -> FloatArray:
        """Squared Frobenius norms of the class covariances, shape (n_classes,)."""

    @property
    def pooled_covariance(self) -> FloatArray:
        """Within-class covariance of all classes, shape (n_features, n_features)."""

    @property
    def total_covariance(self) -> FloatArray:
        """Covariance of all samples, shape (n_features, n_features)."""

    def pooled(self) -> ClassStatistics:
        """Return the statistics of all classes as one."""


def ledoit_wolf_shrinkage(stats: PooledStatistics) -> FloatArray:
    r"""Compute the Ledoit-Wolf shrinkage of each class from its moments.

    With :math:`S` the covariance of n centred samples :math:`e_i` in D dimensions and
    :math:`\mu = \mathrm{tr} S / D`, the estimated best weight of :math:`\mu I` is

    .. math:: s = \min\left(1, \frac{\frac1n\left(\frac1n\sum_i |e_i|^4 - \|S\|_F^2\right)}
                                    {\|S - \mu I\|_F^2}\right),

    the same number as :func:`sklearn.covariance.ledoit_wolf` finds from the samples.

    Parameters
    ----------
    stats : ClassStatistics or FactoredStatistics
        Moments of the classes.

    Returns
    -------
    ndarray of shape (n_classes,)
        Shrinkage in [0, 1]; zero if the covariance is a multiple of the identity already.

    References
    ----------
    O. Ledoit and M. Wolf, A well-conditioned estimator for large-dimensional covariance
    matrices, Journal of Multivariate Analysis 88 (2004).
    """
    n, traces, square = np.maximum(stats.count, np.finfo(float).tiny), stats.traces, stats.squares
    off_identity = square - traces**2 / stats.mean.shape[1]
    noise = (stats.fourth / n - square) / n
    # Below rounding of the difference the matrix is the identity already, as in one dimension.
    known = off_identity > 1e-14 * square
    share = np.divide(noise, off_identity, out=np.zeros_like(traces), where=known)
    return np.asarray(np.clip(share, 0.0, 1.0))


def covariance_terms(
    stats: PooledStatistics, shrinkage: Shrinkage, *, whitened: bool = False
) -> tuple[FloatArray, FloatArray]:
    r"""Return the numbers a and b of each class covariance :math:`a_c S_c + b_c I`.

    A number s as `shrinkage` gives :math:`a = 1 - s` and :math:`b = s\,\mathrm{tr} S_c / D`, and
    ``"auto"`` the same with the Ledoit-Wolf shrinkage of the class; see
    :func:`small_class_terms` for the exception.

    Parameters
    ----------
    stats : ClassStatistics or FactoredStatistics
        Moments of the classes.
    shrinkage : None, "auto" or float
        None is maximum likelihood.
    whitened : bool, default=False
        Whether the pooled within-class covariance is the identity up to shrinkage. Then classes
        with 2 to 9 samples share one shrinkage if it is ``"auto"`` and there are enough samples for
        a pooled covariance: :math:`\sum_c (n_c - 1) \ge 2D`.

    Returns
    -------
    own, isotropic : ndarray of shape (n_classes,)
        The numbers a and b.
    """
    traces = stats.traces
    if shrinkage is None:
        return np.ones_like(traces), np.zeros_like(traces)
    s = ledoit_wolf_shrinkage(stats) if shrinkage == "auto" else np.full_like(traces, shrinkage)
    own, isotropic = 1 - s, s * traces / stats.mean.shape[1]
    small = (stats.count >= 2) & (stats.count < SMALL_CLASS)
    several = np.count_nonzero(stats.count > 1) > 1
    known = np.maximum(stats.count - 1, 0.0).sum() >= 2 * stats.mean.shape[1]
    if shrinkage == "auto" and whitened and known and several and small.any():
        terms = small_class_terms(stats, small)
        return np.where(small, terms[0], own), np.where(small, terms[1], isotropic)
    return own, isotropic


def small_class_terms(stats: PooledStatistics, small: BoolArray) -> tuple[FloatArray, FloatArray]:
    r"""Return the numbers a and b of classes with few samples, which share one shrinkage.

    The Ledoit-Wolf estimate fails for them: two samples have a shrinkage of exactly zero, and the
    scale :math:`\mathrm{tr} S_c / D` of a class is mostly noise. With W the pooled within-class
    covariance and :math:`t = \mathrm{tr} W / D`, their covariances are

    .. math:: \Sigma_c = (1 - s) A_c + s \big(0.7\,t + 0.3\,\mathrm{tr} A_c / D\big) I, \qquad
              A_c = \frac{n_c}{n_c - 1} \frac{\sum_k (n_k - 1)}{\sum_k n_k} S_c ,

    where the factor gives all :math:`A_c` the expectation W if the classes have equal covariances.
    Covariances of different classes have independent errors, so that their products estimate
    :math:`\|W - tI\|^2` without bias. With :math:`p_c \propto n_c - 1` of sum one,

    .. math:: s = 1 - \frac{\big(\|W - tI\|^2 - \sum_c p_c^2 \|A_c - tI\|^2\big) \big/
                            \big(1 - \sum_c p_c^2\big)}
                           {\sum_{\text{small}} p_c \|A_c - tI\|^2 \big/ \sum_{\text{small}} p_c},

    clipped to [0, 1], estimates the weight of :math:`tI` with the least squared distance to W. A
    part of the scale of each class is kept because equal covariances of all classes would leave
    local metrics of low rank.

    Parameters
    ----------
    stats : ClassStatistics or FactoredStatistics
        Moments of at least two classes with more than one sample.
    small : ndarray of shape (n_classes,)
        Whether each class shares the shrinkage.

    Returns
    -------
    own, isotropic : ndarray of shape (n_classes,)
        The numbers a and b; valid for the small classes.
    """
    traces, n_features = stats.traces, stats.mean.shape[1]
    degrees = np.maximum(stats.count - 1, 0.0)
    share = degrees / degrees.sum()
    pooled = stats.pooled_covariance
    target = float(np.trace(pooled)) / n_features
    factor = np.divide(stats.count, degrees, out=np.zeros_like(traces), where=degrees > 0)
    factor *= degrees.sum() / stats.count.sum()
    deviation = factor**2 * stats.squares - 2 * target * factor * traces + n_features * target**2
    common = float(np.einsum("ij,ij->", pooled, pooled)) - n_features * target**2
    common = (common - float(share**2 @ deviation)) / (1 - float(share @ share))
    observed = float(share[small] @ deviation[small]) / float(share[small].sum())
    s = float(np.clip(1 - common / observed, 0.0, 1.0)) if observed > 0 else 1.0
    scale = (1 - OWN_SCALE) * target + OWN_SCALE * factor * traces / n_features
    return (1 - s) * factor, s * scale


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


def class_covariances(
    stats: ClassStatistics, shrinkage: Shrinkage = "auto", *, whitened: bool = False
) -> FloatArray:
    """Compute the covariance of each class: maximum likelihood, "auto", or a given shrinkage.

    Parameters
    ----------
    stats : ClassStatistics
        Moments of the classes.
    shrinkage : None, "auto" or float, default="auto"
        None is maximum likelihood, "auto" Ledoit-Wolf, a number the shrinkage itself.
    whitened : bool, default=False
        Whether the pooled within-class covariance is the identity; see :func:`covariance_terms`.

    Returns
    -------
    ndarray of shape (n_classes, n_features, n_features)
        Covariances.
    """
    cov = stats.covariances
    if shrinkage is None:
        return cov
    own, isotropic = covariance_terms(stats, shrinkage, whitened=whitened)
    cov *= own[:, None, None]
    return cov + isotropic[:, None, None] * np.eye(cov.shape[-1])


def fit_weighted(estimator: BaseEstimator, X: AnyArray, sample_weight: FloatArray | None) -> Any:
    """Fit an estimator on samples with frequencies, with or without support for weights.

    If ``fit`` does not accept ``sample_weight``, each sample is repeated as often as its weight
    states, which requires integers.
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
            f"{type(estimator).__name__}.fit does not accept sample_weight, so weights must be "
            "integers: each sample is repeated. Round them, or use a model that accepts weights."
        )
    estimator.fit(np.repeat(X, times.astype(np.intp), axis=0))
    return estimator


def estimated_covariance(
    estimator: BaseEstimator, X: FloatArray, sample_weight: FloatArray | None = None
) -> FloatArray:
    """Compute the covariance of the samples of one class by a scikit-learn covariance estimator."""
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


def stand_in_covariance(stats: PooledStatistics, shrinkage: Shrinkage = None) -> FloatArray:
    """Return the shrunk pooled within-class covariance.

    If it is zero, the result is isotropic with the total variance.
    """
    pooled: FloatArray = class_covariances(stats.pooled(), shrinkage)[0]
    if np.trace(pooled) > 0:
        return pooled
    n_features = len(pooled)
    total = float(np.trace(stats.total_covariance)) / n_features
    return np.eye(n_features) * (total if total > 0 else 1.0)


def warn_degenerate(stats: PooledStatistics, classes: AnyArray | None = None) -> BoolArray:
    """Find classes without a covariance of their own, and warn about them once.

    Parameters
    ----------
    stats : ClassStatistics or FactoredStatistics
        Moments of the classes.
    classes : ndarray of shape (n_classes,), default=None
        Class names for the warning.

    Returns
    -------
    ndarray of shape (n_classes,)
        Whether each class has a single sample or no scatter.
    """
    # Rounding leaves a scatter near eps² of the coordinates even if all samples are equal.
    size = np.trace(stats.total_covariance) + np.einsum("cj,cj->c", stats.mean, stats.mean)
    flat = np.asarray(stats.traces <= 1e-30 * size)
    if flat.any():
        names = (np.arange(len(flat)) if classes is None else classes)[flat]
        some = f"({len(names)} of {len(flat)})" if len(names) > MAX_NAMES else f"{names.tolist()}"
        warn_user(
            f"Classes {some} have a single sample or no scatter and take the pooled within-class "
            "covariance. Merge or drop small classes to avoid this.",
        )
    return flat


def warn_floored(raised: IntArray, pooled: FloatArray) -> None:
    """Warn once if the floor of the eigenvalues replaces much of the class covariances.

    Directions in which no class has any scatter (constant or collinear features) and a few others
    (indicators of categories that a class does not have) do not count.

    Parameters
    ----------
    raised : ndarray of shape (n_classes,)
        Number of eigenvalues of each class covariance that were raised to the floor.
    pooled : ndarray of shape (n_features, n_features)
        Pooled within-class covariance.
    """
    few = max(FEW_DIRECTIONS, len(pooled) // 10)
    if not (raised > few).any():
        return
    variances = np.linalg.eigvalsh(pooled)
    beyond = raised - np.count_nonzero(variances <= 1e-13 * variances[-1])
    floored = np.count_nonzero(beyond > few)
    if floored:
        warn_user(
            f"The covariances of {floored} of {len(raised)} classes are nearly singular: up to "
            f"{raised.max()} of {len(pooled)} eigenvalues were raised to {EIGENVALUE_FLOOR:g} of the "
            "mean pooled variance, and the metric depends on this floor. Use more shrinkage, such as "
            'shrinkage=0.5 (also for classes with 2 samples, which "auto" does not shrink), '
            'base="pooled" or fewer features.',
        )


def replace_degenerate(
    covariances: FloatArray,
    stats: ClassStatistics,
    shrinkage: Shrinkage = None,
    classes: AnyArray | None = None,
    stand_in: FloatArray | None = None,
) -> FloatArray:
    """Give classes with one sample or without scatter the pooled covariance, with a warning.

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
    stand_in : ndarray of shape (n_features, n_features), default=None
        Covariance of these classes; None for the shrunk pooled covariance.

    Returns
    -------
    ndarray of shape (n_classes, n_features, n_features)
        Covariances, all of positive trace.
    """
    flat = warn_degenerate(stats, classes)
    if not flat.any():
        return covariances
    covariances = covariances.copy()
    covariances[flat] = stand_in_covariance(stats, shrinkage) if stand_in is None else stand_in
    return covariances
