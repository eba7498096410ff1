"""Gaussians of classes: shrunk covariances, whitening, log-density and curvature.

The class models of a metric (:class:`ClassGaussians`, `LowRankGaussians` and `SeparateModels`) have
the same methods: `log_density` of all classes, `weighted_curvature` (the sum over classes of
w_c G_c) and `precision_size`, a measure of the rounding errors of that sum.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone

from genmetric._parallel import check_memory, row_chunks
from genmetric._typing import AnyArray, BoolArray, FloatArray, IntArray
from genmetric._validation import Interval, RuleOrValue, rows_by_class, warn_user
from genmetric.density.low_rank import CovarianceRule, LowRankGaussians
from genmetric.density.statistics import (
    ClassStatistics,
    Coordinates,
    class_statistics,
    fourth_moments,
    pooled_statistics,
)

Shrinkage: TypeAlias = Literal["auto"] | float | None

#: Valid values of the parameter `shrinkage`.
SHRINKAGE_RULES: tuple[RuleOrValue, ...] = (None, "auto", Interval(float, 0, 1))

#: Eigenvalues of a class covariance below this fraction of the mean pooled variance are raised to
#: it.
EIGENVALUE_FLOOR = 1e-8

# Shrinkage


def covariance_terms(
    moments: FloatArray, pooled: FloatArray, shrinkage: Shrinkage, *, whitened: bool = False
) -> tuple[FloatArray, FloatArray]:
    r"""Return the numbers a and b of each class covariance :math:`a_c S_c + b_c I`.

    A number s as `shrinkage` gives :math:`a = 1 - s` and :math:`b = s\,\mathrm{tr} S_c / D`, and
    ``"auto"`` does the same with the Ledoit-Wolf shrinkage of the class,

    .. math:: s = \min\left(1, \frac{\frac1n\left(\frac1n\sum_i |e_i|^4 - \|S\|_F^2\right)}
                                    {\|S - \mathrm{tr} S / D\, I\|_F^2}\right)

    for n centred samples :math:`e_i`, the same number as :func:`sklearn.covariance.ledoit_wolf`
    finds from the samples (O. Ledoit and M. Wolf, Journal of Multivariate Analysis 88, 2004). If
    the coordinates are `whitened`, so the `pooled` covariance is the identity up to shrinkage,
    classes with 2 to 9 samples share one shrinkage, provided that there are enough samples for a
    pooled covariance: :math:`\sum_c (n_c - 1) \ge 2D`. `moments` are those of
    :attr:`~genmetric.density.ClassStatistics.moments`.
    """
    count, traces, squares, fourth = moments
    n_features = len(pooled)
    if shrinkage != "auto":
        own = np.full(len(count), 1 - (shrinkage or 0.0))
        return own, (1 - own) * traces / n_features
    n = np.maximum(count, np.finfo(float).tiny)
    off_identity = squares - traces**2 / n_features
    noise = (fourth / n - squares) / n
    # Below rounding of the difference the matrix is the identity already, as in one dimension.
    known = off_identity > 1e-14 * squares
    s = np.clip(np.divide(noise, off_identity, out=0 * traces, where=known), 0.0, 1.0)
    own, isotropic = 1 - s, s * traces / n_features
    small = (count >= 2) & (count < 10)
    enough = np.maximum(count - 1, 0.0).sum() >= 2 * n_features
    if whitened and enough and small.any() and np.count_nonzero(count > 1) > 1:
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
    Covariances of different classes have independent errors, so their products estimate
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


def covariance_rule(
    moments: FloatArray,
    means: FloatArray,
    pooled: FloatArray,
    shrinkage: Shrinkage,
    *,
    whitened: bool = False,
    classes: AnyArray | None = None,
) -> CovarianceRule:
    """Return the terms of each class covariance, and what replaces them where they fail.

    A class that is `flat`, with a single sample or no scatter, takes the covariance `stand_in`: the
    pooled one, shrunk in the same way, or the identity of whitened coordinates. Eigenvalues below
    `floor` are raised to it. Flat classes are named in one warning.
    """
    count, traces, _, fourth = moments
    n_features, variance = len(pooled), float(np.trace(pooled))
    e = means - count @ means / count.sum()
    total = variance + float(count @ np.einsum("ij,ij->i", e, e) / count.sum())
    # Rounding leaves a scatter near eps² of the coordinates even if all samples are equal.
    flat = np.asarray(traces <= 1e-30 * (total + np.einsum("cj,cj->c", means, means)))
    if flat.any():
        names = (np.arange(len(flat)) if classes is None else classes)[flat]
        some = f"({len(names)} of {len(flat)})" if len(names) > 10 else f"{names.tolist()}"
        warn_user(
            f"Classes {some} have a single sample or no variance, so the pooled within-class "
            "covariance is used for them. Merge or drop them to avoid this.",
        )
    stand_in = pooled
    if variance == 0:
        variance = total or float(n_features)
        stand_in = variance / n_features * np.eye(n_features)
    elif whitened:
        stand_in = np.eye(n_features)
    elif flat.any():
        sums = count.sum(), variance, np.einsum("ij,ij->", pooled, pooled), fourth.sum()
        own, isotropic = covariance_terms(np.array(sums)[:, None], pooled, shrinkage)
        stand_in = own * pooled + isotropic * np.eye(n_features)
    floor = EIGENVALUE_FLOOR * variance / n_features
    terms = covariance_terms(moments, pooled, shrinkage, whitened=whitened)
    return *terms, flat, stand_in, floor


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


# Whitening


def correlation_shrinkage(correlation: FloatArray, n_samples: float) -> float:
    r"""Return the Rao-Blackwellised Ledoit-Wolf shrinkage of a correlation matrix, in [0, 1].

    For n Gaussian samples with covariance S in D dimensions it is the conditional expectation of
    the Ledoit-Wolf shrinkage given S, so no fourth moment is needed:

    .. math:: s = \min\left(1, \frac{\frac{n-2}{n} \mathrm{tr} S^2 + (\mathrm{tr} S)^2}
                                    {(n+2)\,(\mathrm{tr} S^2 - (\mathrm{tr} S)^2 / D)}\right)

    (Y. Chen, A. Wiesel, Y. C. Eldar and A. O. Hero, Shrinkage algorithms for MMSE covariance
    estimation, IEEE Transactions on Signal Processing 58, 2010). `n_samples` is the number of
    samples minus the number of class means that were estimated.
    """
    square = float(np.einsum("ij,ij->", correlation, correlation))
    trace2 = float(np.trace(correlation)) ** 2
    off_identity = square - trace2 / len(correlation)
    if n_samples <= 2 or off_identity <= 1e-14 * square:
        return 1.0
    noise = (n_samples - 2) / n_samples * square + trace2
    return min(1.0, noise / ((n_samples + 2) * off_identity))


def pooled_whitening(
    stats: ClassStatistics, coordinates: Coordinates
) -> tuple[Coordinates, ClassStatistics]:
    r"""Return the whitening of the pooled within-class covariance, shrunk as a correlation.

    With :math:`d_j` the pooled within-class standard deviation of feature j and R the pooled
    correlation matrix, shrunk by :func:`correlation_shrinkage`, the map is
    :math:`A = \mathrm{diag}(1/d)\, R^{-1/2}`. A change of the units of single features changes d
    only, so ``z = x A`` does not depend on them. A feature that is constant within every class
    has no within-class scale: its total standard deviation takes the place of d.

    Parameters
    ----------
    stats : ClassStatistics
        Moments of the classes, pooled or not, in `coordinates`.
    coordinates : Coordinates
        Shift and scale that come before the linear map.

    Returns
    -------
    coordinates : Coordinates
        The coordinates with axes.
    stats : ClassStatistics
        The moments there.
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
    s = correlation_shrinkage(correlation, n_samples)
    correlation = (1 - s) * correlation + s * np.eye(len(correlation))
    eigenvalues, vectors = np.linalg.eigh(correlation)
    roots = np.sqrt(np.maximum(eigenvalues, EIGENVALUE_FLOOR))
    axes = (vectors / roots) @ vectors.T / deviation[:, None]
    inverse = (vectors * roots) @ vectors.T * deviation
    whitened = Coordinates(coordinates.center, coordinates.scale, axes, inverse)
    return whitened, stats.moved(coordinates, whitened)


# Gaussians of all classes


@dataclass(frozen=True)
class ClassGaussians:
    """One Gaussian per class, stored in the form needed for evaluation.

    Attributes
    ----------
    means : ndarray of shape (n_classes, n_features)
        Class means.
    covariances : ndarray of shape (n_classes, n_features, n_features)
        Class covariances, floored.
    precisions : ndarray of shape (n_classes, n_features, n_features)
        Their inverses P_c.
    whiteners : ndarray of shape (n_classes, n_features, n_features)
        W_c with W_c W_cᵀ = P_c, so (x - mean) W_c is white.
    log_scales : ndarray of shape (n_classes,)
        Log-density at the mean.
    """

    means: FloatArray
    covariances: FloatArray
    precisions: FloatArray
    whiteners: FloatArray
    log_scales: FloatArray

    @classmethod
    def from_moments(
        cls, means: FloatArray, covariances: FloatArray, floor: float = 0.0
    ) -> ClassGaussians:
        """Build Gaussians from moments; raise covariance eigenvalues below `floor` to it."""
        n_features = means.shape[1]
        variances, axes = np.linalg.eigh(covariances)
        variances = np.maximum(variances, floor)
        if not (variances > 0).all():
            raise ValueError(
                "A class covariance is not positive definite. Use shrinkage, or a covariance "
                "estimator with finite and positive definite results."
            )
        whiteners = axes / np.sqrt(variances)[:, None, :]
        log_scales = -0.5 * (n_features * np.log(2 * np.pi) + np.log(variances).sum(axis=1))
        return cls(
            means,
            (axes * variances[:, None, :]) @ axes.transpose(0, 2, 1),
            whiteners @ whiteners.transpose(0, 2, 1),
            whiteners,
            log_scales,
        )

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.means)

    def log_density(self, X: FloatArray) -> FloatArray:
        """Return the log-density of each class at each sample, shape (n_samples, n_classes)."""
        out = np.empty((len(X), self.n_classes))
        # Several classes at once if there are few samples; for the cache.
        for some in row_chunks(self.n_classes, 8 * X.size, budget=2**19):
            white = (X - self.means[some, None]) @ self.whiteners[some]
            out[:, some] = -0.5 * np.einsum("cij,cij->ic", white, white)
        return out + self.log_scales

    def gradient(self, X: FloatArray) -> FloatArray:
        r"""Return the gradients :math:`-P_c(x - \mu_c)`, (n_samples, n_classes, n_features)."""
        out = np.empty((len(X), *self.means.shape))
        for c, (mean, precision) in enumerate(zip(self.means, self.precisions, strict=True)):
            out[:, c] = (mean - X) @ precision
        return out

    def weighted_curvature(self, X: FloatArray, weights: FloatArray) -> FloatArray:
        r"""Return the sum over classes of :math:`w_c G_c`, with :math:`G_c = v_c v_c^T - P_c`.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Samples.
        weights : ndarray of shape (n_samples, n_classes)
            The weights w_c of each sample.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            One symmetric matrix per sample.
        """
        v = self.gradient(X)
        outer = (v * weights[:, :, None]).transpose(0, 2, 1) @ v
        base = weights @ self.precisions.reshape(self.n_classes, -1)
        return np.asarray(outer - base.reshape(outer.shape))

    def precision_size(self, weights: FloatArray) -> FloatArray:
        """Return the largest entry of each precision, weighted and summed, shape (n_samples,)."""
        return np.asarray(np.abs(weights) @ np.abs(self.precisions).max(axis=(1, 2)))


def fit_gaussians(
    stats: ClassStatistics,
    *,
    shrinkage: Shrinkage = "auto",
    covariances: FloatArray | None = None,
    classes: AnyArray | None = None,
    whitened: bool = False,
) -> ClassGaussians:
    """Fit one Gaussian per class from class statistics.

    Eigenvalues of a class covariance below 1e-8 of the mean pooled variance are raised to that
    level, for every shrinkage. A class with one sample or no scatter takes the pooled covariance,
    shrunk in the same way.

    Parameters
    ----------
    stats : ClassStatistics
        Moments of the classes.
    shrinkage : None, "auto" or float, default="auto"
        None uses maximum likelihood, "auto" uses Ledoit-Wolf, a number s in [0, 1] gives
        (1-s)·S + s·(trace S/D)·I: larger values regularise more.
    covariances : ndarray of shape (n_classes, n_features, n_features), default=None
        Covariances to use in place of the shrunk ones.
    classes : ndarray of shape (n_classes,), default=None
        Class names for warnings.
    whitened : bool, default=False
        Whether the pooled covariance is known to be the identity. Classes with few samples then
        share one shrinkage, and classes with a single sample take the identity.

    Returns
    -------
    ClassGaussians
        The class models.

    Examples
    --------
    >>> from genmetric.density import class_statistics, fit_gaussians
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> fit_gaussians(class_statistics(X, y, 3)).log_density(X).shape
    (150, 3)
    """
    pooled = stats.pooled_covariance
    own, isotropic, flat, stand_in, floor = covariance_rule(
        stats.moments, stats.mean, pooled, shrinkage, whitened=whitened, classes=classes
    )
    if covariances is None:
        identity = isotropic[:, None, None] * np.eye(len(pooled))
        covariances = own[:, None, None] * stats.covariances + identity
    covariances[flat] = stand_in
    gaussians = ClassGaussians.from_moments(stats.mean, covariances, floor)
    # A column of a whitener has the squared norm of one over the eigenvalue.
    top = np.einsum("cij,cij->cj", gaussians.whiteners, gaussians.whiteners)
    warn_floored(np.count_nonzero(top * floor > 1 - 1e-9, axis=1), pooled)
    return gaussians


def fit_low_rank_gaussians(
    X: AnyArray,
    codes: IntArray,
    n_classes: int,
    coordinates: Coordinates,
    sample_weight: FloatArray | None = None,
    *,
    shrinkage: Shrinkage = "auto",
    classes: AnyArray | None = None,
    whitened: bool = False,
) -> LowRankGaussians:
    r"""Fit one Gaussian per class from samples in memory, without covariance matrices.

    The covariances are those of :func:`~genmetric.density.fit_gaussians`, :math:`b_c I + a_c F_c^T
    F_c / n_c` with :math:`F_c` the centred samples of a class, with the same floor, and the same
    stand-in for classes with a single sample.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples in input space.
    codes : ndarray of shape (n_samples,)
        Class of each sample; every class has samples.
    n_classes : int
        Number of classes.
    coordinates : Coordinates
        Coordinates of the models.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequencies of the samples.
    shrinkage : "auto" or float, default="auto"
    classes : ndarray of shape (n_classes,), default=None
    whitened : bool, default=False
        See :func:`~genmetric.density.fit_gaussians`.

    Returns
    -------
    LowRankGaussians
        The class models.
    """
    moments, means = np.zeros((4, n_classes)), np.zeros((n_classes, X.shape[1]))
    order = np.argsort(codes, kind="stable")
    weight = np.ones(len(X)) if sample_weight is None else sample_weight[order]
    E = coordinates.apply(X[order])
    edges = np.searchsorted(codes[order], np.arange(n_classes + 1))
    spectra: list[tuple[FloatArray, FloatArray]] = []
    for c, (start, stop) in enumerate(pairwise(edges)):
        e, w = E[start:stop], weight[start:stop]
        for _ in range(2):  # the second step removes the mean that rounding leaves
            shift = w @ e / w.sum()
            means[c] += shift
            e -= shift
        fourth = w @ np.einsum("ij,ij->i", e, e) ** 2
        e *= np.sqrt(w)[:, None]
        if len(e) > X.shape[1]:  # the triangular factor has the same singular values and axes
            e = np.asarray(np.linalg.qr(e, mode="r"))
        _, singular, axes = np.linalg.svd(e, full_matrices=False)
        variances = singular**2 / w.sum()
        moments[:, c] = w.sum(), variances.sum(), variances @ variances, fourth
        spectra.append((variances, axes))
    pooled = E.T @ E / weight.sum()
    rule = covariance_rule(moments, means, pooled, shrinkage, whitened=whitened, classes=classes)
    gaussians, raised = LowRankGaussians.from_spectra(means, spectra, rule)
    warn_floored(raised, pooled)
    return gaussians


def saves_memory(counts: AnyArray, n_features: int) -> bool:
    """Return whether covariances take over 32 MB, and low-rank models at most half of that.

    With 500 classes or more low-rank models save memory in any case, because covariances,
    precisions and their roots are not stored. `counts` are the numbers of samples of the classes.
    """
    n_classes = len(counts)
    smaller = 2 * int(np.minimum(counts, n_features).sum()) <= n_classes * n_features
    return n_classes * n_features**2 >= 2**22 and (smaller or n_classes >= 500)


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


def estimate_covariances(
    estimator: Any,
    X: AnyArray,
    codes: IntArray,
    stats: ClassStatistics,
    coordinates: Coordinates,
    sample_weight: FloatArray | None = None,
) -> FloatArray:
    """Return the class covariances of a scikit-learn estimator, in the coordinates of `stats`."""
    covariances = stats.covariances
    for c, rows in enumerate(rows_by_class(codes, len(covariances))):
        if len(rows) < 2:
            continue
        x = coordinates.apply(X[rows]) - stats.mean[c]
        weight = None if sample_weight is None else sample_weight[rows]
        fitted = fit_weighted(clone(estimator, safe=False), x, weight)
        found = np.asarray(getattr(fitted, "covariance_", np.nan), float)
        if found.shape != covariances[c].shape or not np.isfinite(found).all():
            raise ValueError(
                f"covariance_estimator={estimator!r} must set covariance_ to a finite matrix of shape "
                f"{covariances[c].shape} in fit, as those of sklearn.covariance do; got shape "
                f"{found.shape}."
            )
        covariances[c] = (found + found.T) / 2
    return covariances


#: The Gaussians of all classes, in either form.
Gaussians: TypeAlias = ClassGaussians | LowRankGaussians


def fit_class_gaussians(
    x: AnyArray,
    codes: IntArray,
    classes: AnyArray,
    weight: FloatArray | None = None,
    *,
    base: str = "identity",
    shrinkage: Shrinkage = "auto",
    covariance_estimator: Any = None,
    allow_low_rank: bool = False,
    n_jobs: int | None = None,
) -> tuple[Coordinates, ClassStatistics, Gaussians]:
    """Fit one Gaussian per class to samples in memory.

    Returns the coordinates of the Gaussians, in which the base is the identity, the class
    statistics there, and the Gaussians.
    """
    if covariance_estimator is not None and shrinkage not in (None, "auto"):
        raise ValueError(
            f"shrinkage={shrinkage!r} and covariance_estimator={covariance_estimator!r} both "
            'define the covariance. Leave shrinkage at "auto" to use the estimator.'
        )
    coordinates, n_classes, whitened = Coordinates.of(x), len(classes), base == "pooled"
    small = allow_low_rank and saves_memory(np.bincount(codes), x.shape[1])
    low_rank = small and covariance_estimator is None and shrinkage not in (None, 0)
    n_matrices = 10 if low_rank else 10 + 4 * n_classes  # metric, roots, covariances, precisions
    if n_matrices * x.shape[1] ** 2 > 2**26:
        check_memory(
            8 * n_matrices * x.shape[1] ** 2,
            f"The matrices of {n_classes} classes of {x.shape[1]} features",
            "Reduce the features first, for example by PCA, or use genmetric.EmbeddingAdapter, "
            "which has one covariance for all classes.",
        )
    options: dict[str, Any] = {"sample_weight": weight, "n_jobs": n_jobs}
    count = pooled_statistics if low_rank else class_statistics
    stats = count(x, codes, n_classes, coordinates=coordinates, **options)
    if whitened:
        coordinates, stats = pooled_whitening(stats, coordinates)
    about: dict[str, Any] = {"shrinkage": shrinkage, "classes": classes, "whitened": whitened}
    if low_rank:
        low = fit_low_rank_gaussians(x, codes, n_classes, coordinates, weight, **about)
        return coordinates, stats, low
    if whitened and shrinkage == "auto":
        # Unlike count, mean and scatter they do not follow from those before the whitening.
        stats = replace(stats, fourth=fourth_moments(x, codes, stats.mean, coordinates, **options))
    covariances = None
    if covariance_estimator is not None:
        covariances = estimate_covariances(
            covariance_estimator, x, codes, stats, coordinates, weight
        )
    return coordinates, stats, fit_gaussians(stats, covariances=covariances, **about)
