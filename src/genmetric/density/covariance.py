"""Class covariances: shrinkage, floor, replacement for classes without scatter, and whitening."""

from __future__ import annotations

import inspect
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from genmetric._typing import AnyArray, BoolArray, FloatArray, IntArray
from genmetric._validation import HasMethods, Interval, RuleOrValue, check_parameter, warn_user
from genmetric.density.coordinates import Coordinates
from genmetric.density.statistics import ClassStatistics

Shrinkage: TypeAlias = Literal["auto"] | float | None

#: Valid values of the parameter `shrinkage`.
SHRINKAGE_RULES: tuple[RuleOrValue, ...] = (None, "auto", Interval(float, 0, 1))

#: Eigenvalues of a class covariance below this fraction of the mean pooled variance are raised to
#: it.
EIGENVALUE_FLOOR = 1e-8


def check_shrinkage(shrinkage: Any, covariance_estimator: Any = None) -> Shrinkage:
    """Return `shrinkage` if it is None, "auto" or a number in [0, 1]; raise otherwise."""
    check_parameter(shrinkage, "shrinkage", SHRINKAGE_RULES)
    check_parameter(covariance_estimator, "covariance_estimator", (None, HasMethods(("fit",))))
    if covariance_estimator is not None and shrinkage not in (None, "auto"):
        raise ValueError(
            f"shrinkage={shrinkage!r} and covariance_estimator={covariance_estimator!r} both "
            'define the covariance. Leave shrinkage at "auto" to use the estimator.'
        )
    return shrinkage  # type: ignore[no-any-return]


def ledoit_wolf_shrinkage(moments: FloatArray, n_features: int) -> FloatArray:
    r"""Compute the Ledoit-Wolf shrinkage of each class from its moments, shape (n_classes,).

    With :math:`S` the covariance of n centred samples :math:`e_i` in D dimensions and
    :math:`\mu = \mathrm{tr} S / D`, the estimated best weight of :math:`\mu I` is

    .. math:: s = \min\left(1, \frac{\frac1n\left(\frac1n\sum_i |e_i|^4 - \|S\|_F^2\right)}
                                    {\|S - \mu I\|_F^2}\right),

    the same number as :func:`sklearn.covariance.ledoit_wolf` finds from the samples (O. Ledoit and
    M. Wolf, Journal of Multivariate Analysis 88, 2004). `moments` are those of
    :attr:`~genmetric.density.ClassStatistics.moments`.
    """
    count, traces, squares, fourth = moments
    n = np.maximum(count, np.finfo(float).tiny)
    off_identity = squares - traces**2 / n_features
    noise = (fourth / n - squares) / n
    # Below rounding of the difference the matrix is the identity already, as in one dimension.
    known = off_identity > 1e-14 * squares
    share = np.divide(noise, off_identity, out=0 * traces, where=known)
    return np.asarray(np.clip(share, 0.0, 1.0))


def covariance_terms(
    moments: FloatArray, pooled: FloatArray, shrinkage: Shrinkage, *, whitened: bool
) -> tuple[FloatArray, FloatArray]:
    r"""Return the numbers a and b of each class covariance :math:`a_c S_c + b_c I`.

    A number s as `shrinkage` gives :math:`a = 1 - s` and :math:`b = s\,\mathrm{tr} S_c / D`, and
    ``"auto"`` the same with the Ledoit-Wolf shrinkage of the class. If the coordinates are
    `whitened`, so that the `pooled` covariance is the identity up to shrinkage, classes with 2 to 9
    samples share one shrinkage, provided that there are enough samples for a pooled covariance:
    :math:`\sum_c (n_c - 1) \ge 2D`.
    """
    count, traces, _, _ = moments
    n_features = len(pooled)
    auto = shrinkage == "auto"
    s = (
        ledoit_wolf_shrinkage(moments, n_features)
        if auto
        else np.full(len(count), shrinkage or 0.0)
    )
    own, isotropic = 1 - s, s * traces / n_features
    small = (count >= 2) & (count < 10)
    several = np.count_nonzero(count > 1) > 1
    known = np.maximum(count - 1, 0.0).sum() >= 2 * n_features
    if auto and whitened and known and several and small.any():
        terms = _small_class_terms(moments, pooled, small)
        return np.where(small, terms[0], own), np.where(small, terms[1], isotropic)
    return own, isotropic


def _small_class_terms(
    moments: FloatArray, pooled: FloatArray, small: BoolArray
) -> tuple[FloatArray, FloatArray]:
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
    """
    count, traces, squares, _ = moments
    n_features = len(pooled)
    degrees = np.maximum(count - 1, 0.0)
    share = degrees / degrees.sum()
    target = float(np.trace(pooled)) / n_features
    factor = np.divide(count, degrees, out=np.zeros_like(traces), where=degrees > 0)
    factor *= degrees.sum() / count.sum()
    deviation = factor**2 * squares - 2 * target * factor * traces + n_features * target**2
    common = float(np.einsum("ij,ij->", pooled, pooled)) - n_features * target**2
    common = (common - float(share**2 @ deviation)) / (1 - float(share @ share))
    observed = float(share[small] @ deviation[small]) / float(share[small].sum())
    s = float(np.clip(1 - common / observed, 0.0, 1.0)) if observed > 0 else 1.0
    scale = 0.7 * target + 0.3 * factor * traces / n_features
    return (1 - s) * factor, s * scale


def class_covariances(
    stats: ClassStatistics, shrinkage: Shrinkage = "auto", *, whitened: bool = False
) -> FloatArray:
    """Return the covariance of each class: maximum likelihood, "auto", or a given shrinkage."""
    pooled = stats.pooled_covariance
    own, isotropic = covariance_terms(stats.moments, pooled, shrinkage, whitened=whitened)
    identity = np.eye(len(pooled))
    return own[:, None, None] * stats.covariances + isotropic[:, None, None] * identity


def shrink(covariance: FloatArray, shrinkage: float) -> FloatArray:
    r"""Shrink towards the identity: :math:`(1-s) S + s (\mathrm{tr} S/D) I`."""
    n_features = len(covariance)
    identity = shrinkage * np.trace(covariance) / n_features * np.eye(n_features)
    return np.asarray((1 - shrinkage) * covariance + identity)


def fit_weighted(estimator: BaseEstimator, X: AnyArray, sample_weight: FloatArray | None) -> Any:
    """Fit an estimator on samples with frequencies, with or without support for weights.

    If ``fit`` does not accept ``sample_weight``, each sample is repeated as often as its weight
    states, which requires integers.
    """
    if sample_weight is not None and (sample_weight != 1).any():
        if "sample_weight" in inspect.signature(estimator.fit).parameters:
            estimator.fit(X, sample_weight=sample_weight)
            return estimator
        times = np.rint(sample_weight)
        if not np.array_equal(times, sample_weight):
            raise ValueError(
                f"{type(estimator).__name__}.fit does not accept sample_weight, so weights must be "
                "integers: each sample is repeated. Round them, or use a model that accepts weights."
            )
        X = np.repeat(X, times.astype(np.intp), axis=0)
    estimator.fit(X)
    return estimator


def stand_in_covariance(
    pooled: ClassStatistics, total_variance: float, shrinkage: Shrinkage = None
) -> FloatArray:
    """Return the shrunk covariance of all classes pooled as one.

    If it is zero, the result is isotropic with the total variance, or with one if that is zero too.
    """
    covariance: FloatArray = class_covariances(pooled, shrinkage)[0]
    if np.trace(covariance) > 0:
        return covariance
    n_features = len(covariance)
    return np.eye(n_features) * (total_variance / n_features if total_variance > 0 else 1.0)


def degenerate_classes(
    traces: FloatArray, means: FloatArray, total_variance: float, classes: AnyArray | None
) -> BoolArray:
    """Return which classes have a single sample or no scatter, and warn about them once."""
    # Rounding leaves a scatter near eps² of the coordinates even if all samples are equal.
    size = total_variance + np.einsum("cj,cj->c", means, means)
    flat = np.asarray(traces <= 1e-30 * size)
    if flat.any():
        names = (np.arange(len(flat)) if classes is None else classes)[flat]
        some = f"({len(names)} of {len(flat)})" if len(names) > 10 else f"{names.tolist()}"
        warn_user(
            f"Classes {some} have a single sample or no scatter and take the pooled within-class "
            "covariance. Merge or drop small classes to avoid this.",
        )
    return flat


def warn_floored(raised: IntArray, pooled: FloatArray) -> None:
    """Warn once if the floor of the eigenvalues replaces much of the class covariances.

    `raised` are the numbers of eigenvalues of each class that were raised to the floor. Directions
    in which no class has any scatter (constant or collinear features) and a few others (indicators
    of categories that a class does not have) do not count.
    """
    few = max(2, len(pooled) // 10)
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


def correlation_shrinkage(correlation: FloatArray, n_samples: float) -> float:
    r"""Return the Rao-Blackwellised Ledoit-Wolf shrinkage of a correlation matrix, in [0, 1].

    For n Gaussian samples with covariance S in D dimensions it is the conditional expectation of
    the Ledoit-Wolf shrinkage given S, so that no fourth moment is needed:

    .. math:: s = \min\left(1, \frac{\frac{n-2}{n} \mathrm{tr} S^2 + (\mathrm{tr} S)^2}
                                    {(n+2)\,(\mathrm{tr} S^2 - (\mathrm{tr} S)^2 / D)}\right)

    (Y. Chen, A. Wiesel, Y. C. Eldar and A. O. Hero, Shrinkage algorithms for MMSE covariance
    estimation, IEEE Transactions on Signal Processing 58, 2010). `n_samples` is the number of
    samples less the number of class means that were estimated.
    """
    square = float(np.einsum("ij,ij->", correlation, correlation))
    trace2 = float(np.trace(correlation)) ** 2
    off_identity = square - trace2 / len(correlation)
    if n_samples <= 2 or off_identity <= 1e-14 * square:
        return 1.0
    noise = (n_samples - 2) / n_samples * square + trace2
    return min(1.0, noise / ((n_samples + 2) * off_identity))


def pooled_whitening(stats: ClassStatistics, coordinates: Coordinates) -> Coordinates:
    r"""Return the whitening of the pooled within-class covariance, shrunk as a correlation.

    With :math:`d_j` the pooled within-class standard deviation of feature j and R the pooled
    correlation matrix, shrunk by :func:`correlation_shrinkage`, the map is
    :math:`A = \mathrm{diag}(1/d)\, R^{-1/2}`. A change of the units of single features changes d
    only, so that ``z = x A`` does not depend on them. A feature that is constant within every class
    has no within-class scale: its total standard deviation takes the place of d.

    Parameters
    ----------
    stats : ClassStatistics
        Moments of the classes, pooled or not, in `coordinates`.
    coordinates : Coordinates
        Shift and scale that come before the linear map.

    Returns
    -------
    Coordinates
        The coordinates with axes.
    """
    pooled, total = stats.pooled_covariance, np.diag(stats.total_covariance)
    variance = np.diag(pooled)
    constant = variance <= EIGENVALUE_FLOOR * total
    deviation = np.sqrt(np.where(constant, total, variance))
    # Rounding leaves about eps of the largest variance in a feature that is constant.
    deviation[total <= 1e-30 * total.max(initial=0.0)] = 1.0
    correlation = pooled / np.outer(deviation, deviation)
    correlation[constant, :] = correlation[:, constant] = 0.0
    correlation[constant, constant] = 1.0
    n_samples = float(stats.count.sum()) - np.count_nonzero(stats.count)
    correlation = shrink(correlation, correlation_shrinkage(correlation, n_samples))
    eigenvalues, vectors = np.linalg.eigh(correlation)
    roots = np.sqrt(np.maximum(eigenvalues, EIGENVALUE_FLOOR))
    axes = (vectors / roots) @ vectors.T / deviation[:, None]
    inverse = (vectors * roots) @ vectors.T * deviation
    return Coordinates(coordinates.center, coordinates.scale, axes, inverse)
