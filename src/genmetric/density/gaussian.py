"""Gaussian class models: log-density, its gradient, and the curvature of the density.

The class models of a metric, :class:`ClassGaussians`, :class:`SeparateModels` and
:class:`~genmetric.density.low_rank.LowRankGaussians`, have the same methods: `log_density` of all
classes, `weighted_curvature` (the sum over classes of w_c G_c) and `precision_size`, a measure of
the rounding errors of that sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._parallel import row_chunks
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import cast_finite, check_weights, refuse_lazy, rows_by_class
from genmetric.density import covariance
from genmetric.density.coordinates import Coordinates
from genmetric.density.covariance import EIGENVALUE_FLOOR, Shrinkage
from genmetric.density.statistics import ClassStatistics, class_statistics

#: Classes of a smaller absolute weight in Phi, relative to the largest, have no part in it: their
#: curvature would have to be 1e25 times as large.
NEGLIGIBLE = 1e-40


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
        W_c with W_c W_cᵀ = P_c, so that (x - mean) W_c is white.
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
        if not (np.isfinite(means).all() and np.isfinite(covariances).all()):
            raise ValueError(
                "A class mean or covariance is not finite. Check X for numbers near the limits "
                "of its type, and the covariance estimator if one was given."
            )
        n_features = means.shape[1]
        variances, axes = np.linalg.eigh(covariances)
        variances = np.maximum(variances, floor)
        if not (variances > 0).all():
            raise ValueError(
                "A class covariance is not positive definite. Use shrinkage, or a covariance "
                "estimator with positive definite results."
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

    def _blocks(self, X: FloatArray) -> list[slice]:
        """Return classes to treat at once: several if there are few samples; for the cache."""
        return row_chunks(self.n_classes, 8 * X.size, budget=2**19)

    def log_density(self, X: FloatArray) -> FloatArray:
        """Return the log-density of each class at each sample, shape (n_samples, n_classes)."""
        out = np.empty((len(X), self.n_classes))
        for some in self._blocks(X):
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
        n_samples, n_features = X.shape
        size = np.abs(weights)
        relevant = size > NEGLIGIBLE * size.max(axis=1, keepdims=True)
        # The vectors v_c and weights of the relevant classes only, which are few of thousands.
        places = np.cumsum(relevant, axis=1) - 1
        n_places = int(places[:, -1].max(initial=0)) + 1
        v, w = np.zeros((n_samples, n_places, n_features)), np.zeros((n_samples, n_places))
        for some in self._blocks(X):
            rows, own = np.nonzero(relevant[:, some])
            if len(rows):
                at = rows, places[:, some][rows, own]
                v[at] = ((X - self.means[some, None]) @ self.precisions[some])[own, rows]
                w[at] = weights[:, some][rows, own]
        base = weights @ self.precisions.reshape(self.n_classes, -1)
        outer = (v * w[:, :, None]).transpose(0, 2, 1) @ v
        return np.asarray(outer - base.reshape(-1, n_features, n_features))

    def precision_size(self, weights: FloatArray) -> FloatArray:
        """Return the largest entry of each precision, weighted and summed, shape (n_samples,)."""
        return np.asarray(np.abs(weights) @ np.abs(self.precisions).max(axis=(1, 2)))


def fit_gaussians(
    stats: ClassStatistics,
    *,
    shrinkage: Shrinkage = "auto",
    covariances: FloatArray | None = None,
    classes: AnyArray | None = None,
    stand_in: FloatArray | None = None,
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
        None is maximum likelihood, "auto" Ledoit-Wolf, a number s in [0, 1] gives
        (1-s)·S + s·(trace S/D)·I: larger values regularise more.
    covariances : ndarray of shape (n_classes, n_features, n_features), default=None
        Covariances to use in place of the shrunk ones; see :func:`estimate_covariances`.
    classes : ndarray of shape (n_classes,), default=None
        Class names for warnings.
    stand_in : ndarray of shape (n_features, n_features), default=None
        Covariance of classes with a single sample or no scatter; None for the pooled one. A matrix
        states that the pooled covariance is known, the identity of whitened coordinates: classes
        with few samples shrink towards it.

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
    pooled, total = stats.pooled(), stats.total_variance
    if covariances is None:
        covariances = covariance.class_covariances(stats, shrinkage, whitened=stand_in is not None)
    flat = covariance.degenerate_classes(stats.traces, stats.mean, total, classes)
    if flat.any():
        shrunk = (
            covariance.stand_in_covariance(pooled, total, shrinkage)
            if stand_in is None
            else stand_in
        )
        covariances = np.where(flat[:, None, None], shrunk, covariances)
    plain = covariance.stand_in_covariance(pooled, total)
    floor = EIGENVALUE_FLOOR * float(np.trace(plain)) / len(plain)
    gaussians = ClassGaussians.from_moments(stats.mean, covariances, floor)
    # A column of a whitener has the squared norm of one over the eigenvalue.
    top = np.einsum("cij,cij->cj", gaussians.whiteners, gaussians.whiteners)
    covariance.warn_floored(np.count_nonzero(top * floor > 1 - 1e-9, axis=1), plain)
    return gaussians


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
        fitted = covariance.fit_weighted(clone(estimator, safe=False), x, weight)
        found = np.asarray(getattr(fitted, "covariance_", np.nan), float)
        if found.shape != covariances[c].shape or not np.isfinite(found).all():
            raise ValueError(
                f"covariance_estimator={estimator!r} must set covariance_ to a finite matrix of shape "
                f"{covariances[c].shape} in fit, as those of sklearn.covariance do; got shape "
                f"{found.shape}."
            )
        covariances[c] = (found + found.T) / 2
    return covariances


@dataclass(frozen=True)
class GaussianDensity:
    r"""A density made of Gaussians: :math:`p = \sum_k \pi_k \mathcal N_k`.

    With responsibilities :math:`r_k(x)` and :math:`v_k = P_k (x - \mu_k)`, the gradient of the
    log-density is :math:`-\sum_k r_k v_k` and the curvature :math:`\nabla\nabla p / p` is
    :math:`\sum_k r_k (v_k v_k^T - P_k)`.

    Attributes
    ----------
    gaussians : ClassGaussians
        The components.
    log_weights : ndarray of shape (n_components,)
        Logarithms of the mixing weights.
    """

    gaussians: ClassGaussians
    log_weights: FloatArray

    @classmethod
    def of_class(cls, gaussians: ClassGaussians, c: int) -> GaussianDensity:
        """Return the Gaussian of class `c`."""
        return cls(ClassGaussians(*(a[c : c + 1] for a in vars(gaussians).values())), np.zeros(1))

    def log_joint(self, X: FloatArray) -> FloatArray:
        """Return the logarithm of each weighted component, shape (n_samples, n_components)."""
        return self.gaussians.log_density(X) + self.log_weights

    @np.errstate(under="ignore")
    def log_density(self, X: FloatArray) -> FloatArray:
        """Return the log-density, shape (n_samples,)."""
        return np.asarray(logsumexp(self.log_joint(X), axis=1))

    @np.errstate(under="ignore")
    def gradient(self, X: FloatArray) -> FloatArray:
        """Return the gradient of the log-density, shape (n_samples, n_features)."""
        responsibility = softmax(self.log_joint(X), axis=1)
        return np.asarray(np.einsum("nk,nkj->nj", responsibility, self.gaussians.gradient(X)))

    @np.errstate(under="ignore")
    def curvature(self, X: FloatArray) -> FloatArray:
        """Return the Hessian of the density divided by the density, one matrix per sample."""
        return self.gaussians.weighted_curvature(X, softmax(self.log_joint(X), axis=1))


@dataclass(frozen=True)
class SeparateModels:
    """One fitted class model per class, with methods `log_density`, `gradient` and `curvature`.

    Attributes
    ----------
    models : sequence
        In class order.
    """

    models: Sequence[Any]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.models)

    def log_density(self, X: FloatArray) -> FloatArray:
        """Return the log-density of each class at each sample, shape (n_samples, n_classes)."""
        return np.column_stack([model.log_density(X) for model in self.models])

    def weighted_curvature(self, X: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the sum over classes of w_c G_c, shape (n_samples, n_features, n_features)."""
        total = np.zeros((*X.shape, X.shape[1]))
        for model, weight in zip(self.models, weights.T, strict=True):
            rows = np.flatnonzero(weight)
            if len(rows):
                total[rows] += weight[rows, None, None] * model.curvature(X[rows])
        return total

    def precision_size(self, weights: FloatArray) -> FloatArray:
        """Return zeros, shape (n_samples,): general models have no precision matrices."""
        return np.zeros(len(weights))


def fit_class_models(
    class_model: Any,
    X: FloatArray,
    codes: IntArray,
    gaussians: ClassGaussians,
    *,
    sample_weight: FloatArray | None = None,
    classes: AnyArray | None = None,
    rng: np.random.RandomState | None = None,
) -> SeparateModels:
    """Clone and fit a density model on the samples of each class.

    Parameters
    ----------
    class_model : estimator
        Class model with ``fit(X)``, ``log_density``, ``gradient`` and ``curvature``.
    X : ndarray of shape (n_samples, n_features)
        Samples, in the coordinates of the Gaussians.
    codes : ndarray of shape (n_samples,)
        Class of each sample.
    gaussians : ClassGaussians
        One Gaussian per class, used for a class with a single distinct sample.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequencies of the samples.
    classes : ndarray of shape (n_classes,), default=None
        Class names for errors.
    rng : RandomState, default=None
        Draws the seeds of models whose `random_state` is None.

    Returns
    -------
    SeparateModels
        The fitted models.
    """
    methods = ("fit", "log_density", "gradient", "curvature")
    missing = [name for name in methods if not callable(getattr(class_model, name, None))]
    if missing:
        raise TypeError(
            f"class_model={class_model!r} has no method {', '.join(missing)}. A class model needs "
            "fit, log_density, gradient and curvature, like genmetric.GaussianMixtureModel."
        )
    params = class_model.get_params() if hasattr(class_model, "get_params") else {}
    seeded = params.get("random_state", 0) is not None
    fitted: list[Any] = []
    for c, rows in enumerate(rows_by_class(codes, gaussians.n_classes)):
        x = X[rows]
        if (x == x[0]).all():
            fitted.append(GaussianDensity.of_class(gaussians, c))
            continue
        try:
            own = clone(class_model, safe=False)  # a plain object is copied
            if rng is not None and not seeded:
                own.set_params(random_state=rng.randint(2**31 - 1))
            weight = None if sample_weight is None else sample_weight[rows]
            fitted.append(covariance.fit_weighted(own, x, weight))
        except Exception as error:
            name = c if classes is None else classes[c]
            error.add_note(f"while fitting class_model={class_model!r} on class {name!r}")
            raise
    return SeparateModels(fitted)


class GaussianDensityMixin:
    """Density methods of an estimator that keeps a `_density` in its `_coordinates`."""

    _density: GaussianDensity
    _coordinates: Coordinates

    def _rows(self, X: ArrayLike) -> FloatArray:
        """Validate samples, and return them in the coordinates of the density."""
        check_is_fitted(self)
        refuse_lazy(X)
        return self._coordinates.apply(validate_data(self, X, dtype=np.float64, reset=False))

    def log_density(self, X: ArrayLike) -> FloatArray:
        """Compute the log-density at each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            log p(x).
        """
        x = self._rows(X)
        log_volume = x.shape[1] * float(np.log(self._coordinates.scale))
        return np.asarray(self._density.log_density(x) - log_volume)

    def gradient(self, X: ArrayLike) -> FloatArray:
        """Compute the gradient of the log-density at each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The gradient of log p.
        """
        x = self._rows(X)  # first: it raises NotFittedError
        with np.errstate(all="ignore"):
            inside = self._density.gradient(x) / self._coordinates.scale
        return cast_finite(inside, np.float64, "The gradients of the density")

    def curvature(self, X: ArrayLike) -> FloatArray:
        """Compute the Hessian of the density divided by the density, at each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            The Hessian of p divided by p, one matrix per sample.
        """
        x = self._rows(X)
        with np.errstate(all="ignore"):
            inside = self._density.curvature(x) / self._coordinates.scale / self._coordinates.scale
        return cast_finite(inside, np.float64, "The curvatures of the density")


class GaussianModel(GaussianDensityMixin, BaseEstimator):
    r"""One Gaussian as the density of a class.

    For :math:`p = \mathcal N(\mu, \Sigma)`, :math:`P = \Sigma^{-1}` and :math:`v = P(x - \mu)`, the
    gradient of the log-density is :math:`-v` and the curvature :math:`\nabla\nabla p / p` is
    :math:`v v^T - P`.

    Parameters
    ----------
    shrinkage : None, "auto" or float, default="auto"
        ``None`` is maximum likelihood, ``"auto"`` the shrinkage of Ledoit and Wolf, a number s in
        [0, 1] gives (1-s)·S + s·(trace S/D)·I: larger values regularise more. Eigenvalues below
        1e-8 of the mean variance are raised to that level for every shrinkage.
    covariance_estimator : estimator, default=None
        Estimator with ``fit`` and ``covariance_`` from :mod:`sklearn.covariance`, cloned and fitted
        on the samples. It requires ``shrinkage="auto"``, which it replaces.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The mean.
    covariance_ : ndarray of shape (n_features, n_features)
        The covariance.
    n_features_in_ : int
        Number of features seen during fit.

    See Also
    --------
    GaussianMixtureModel : Several Gaussians as the density of a class.
    GenerativeMetric : Uses one model per class.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric import GaussianModel
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = GaussianModel().fit(X)
    >>> model.curvature(X).shape
    (200, 3, 3)
    """

    def __init__(self, *, shrinkage: Any = "auto", covariance_estimator: Any = None) -> None:
        self.shrinkage = shrinkage
        self.covariance_estimator = covariance_estimator

    def fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> GaussianModel:
        """Estimate the mean and the covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples of one class.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies of the samples.

        Returns
        -------
        self : GaussianModel
            The fitted model.
        """
        shrinkage = covariance.check_shrinkage(self.shrinkage, self.covariance_estimator)
        refuse_lazy(X)
        x = validate_data(self, X, dtype=np.float64)
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))
        coordinates = Coordinates.of(x)
        codes = np.zeros(len(x), np.intp)
        stats = class_statistics(x, codes, 1, coordinates=coordinates, sample_weight=weight)
        covariances = None
        if self.covariance_estimator is not None:
            covariances = estimate_covariances(
                self.covariance_estimator, x, codes, stats, coordinates, weight
            )
        gaussians = fit_gaussians(stats, shrinkage=shrinkage, covariances=covariances)
        self._coordinates, self._density = coordinates, GaussianDensity.of_class(gaussians, 0)
        self.mean_ = coordinates.restore(gaussians.means[0])
        self.covariance_ = coordinates.restore_covariances(gaussians.covariances[0])
        return self
