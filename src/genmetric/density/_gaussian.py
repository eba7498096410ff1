"""Gaussian class models: log-density, its gradient, and the curvature of the density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._array_api import namespace, squared_norms
from genmetric._parameters import ParameterRules, check_parameters
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import check_weights, refuse_lazy
from genmetric.density._covariance import (
    EIGENVALUE_FLOOR,
    SHRINKAGE_RULES,
    Shrinkage,
    check_shrinkage,
    class_covariances,
    estimated_covariance,
    replace_degenerate,
    stand_in_covariance,
    warn_floored,
)
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import ClassStatistics, class_statistics

if TYPE_CHECKING:
    from genmetric.density._models import DensityModel


@dataclass(frozen=True)
class ClassGaussians:
    """One Gaussian per class, stored in the form needed for evaluation.

    The arrays can be those of another library; samples must then be arrays of the same library.

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
        return int(self.means.shape[0])

    def log_density(self, X: FloatArray) -> FloatArray:
        r"""Return the log-density of each class at each sample, shape (n_samples, n_classes)."""
        out = self._empty(X.shape[0], self.n_classes)
        for c in range(self.n_classes):
            white = (X - self.means[c, :]) @ self.whiteners[c, :, :]
            out[:, c] = self.log_scales[c] - 0.5 * squared_norms(white)
        return out

    def scaled_residuals(self, X: FloatArray) -> FloatArray:
        r"""Compute :math:`v_c = P_c(x - \mu_c)`, of shape (n_samples, n_classes, n_features)."""
        out = self._empty(X.shape[0], *self.means.shape)
        for c in range(self.n_classes):
            out[:, c, :] = (X - self.means[c, :]) @ self.precisions[c, :, :]
        return out

    def _empty(self, *shape: int) -> FloatArray:
        """Allocate an array in the namespace of the models."""
        xp = namespace(self.means)
        out: FloatArray = xp.empty(shape, dtype=self.means.dtype, device=self.means.device)
        return out

    def gradient(self, X: FloatArray) -> FloatArray:
        r"""Return the gradients :math:`-v_c` of the log-densities of all classes.

        The result has shape (n_samples, n_classes, n_features).
        """
        return -self.scaled_residuals(X)

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
        xp, v = namespace(X), self.scaled_residuals(X)
        n_features = X.shape[1]
        base = weights @ xp.reshape(self.precisions, (self.n_classes, -1))
        outer = xp.matrix_transpose(v * weights[:, :, None]) @ v
        total: FloatArray = outer - xp.reshape(base, (-1, n_features, n_features))
        return total

    def precision_size(self, weights: FloatArray) -> FloatArray:
        """Return the largest entry of each precision, weighted and summed, shape (n_samples,)."""
        xp = namespace(weights)
        size: FloatArray = xp.abs(weights) @ xp.max(xp.abs(self.precisions), axis=(1, 2))
        return size


def fit_gaussians(
    stats: ClassStatistics,
    *,
    shrinkage: Shrinkage = "auto",
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
        See :func:`~genmetric.density._covariance.class_covariances`.
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
    """
    covariances = class_covariances(stats, shrinkage, whitened=stand_in is not None)
    return gaussians_of_covariances(
        stats, covariances, shrinkage=shrinkage, classes=classes, stand_in=stand_in
    )


def gaussians_of_covariances(
    stats: ClassStatistics,
    covariances: FloatArray,
    *,
    shrinkage: Shrinkage = "auto",
    classes: AnyArray | None = None,
    stand_in: FloatArray | None = None,
) -> ClassGaussians:
    """Return Gaussians with given covariances, made invertible as in :func:`fit_gaussians`."""
    covariances = replace_degenerate(covariances, stats, shrinkage, classes, stand_in)
    pooled = stand_in_covariance(stats)
    floor = EIGENVALUE_FLOOR * float(np.trace(pooled)) / stats.mean.shape[1]
    gaussians = ClassGaussians.from_moments(stats.mean, covariances, floor)
    # A column of a whitener has the squared norm of one over the eigenvalue.
    top = np.einsum("cij,cij->cj", gaussians.whiteners, gaussians.whiteners)
    warn_floored(np.count_nonzero(top * floor > 1 - 1e-9, axis=1), pooled)
    return gaussians


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
        fields = (getattr(gaussians, name) for name in gaussians.__dataclass_fields__)
        return cls(ClassGaussians(*(field[c : c + 1] for field in fields)), np.zeros(1))

    def _log_joint(self, X: FloatArray) -> FloatArray:
        return self.gaussians.log_density(X) + self.log_weights

    @np.errstate(under="ignore")
    def log_density(self, X: FloatArray) -> FloatArray:
        """Return the log-density, shape (n_samples,)."""
        return np.asarray(logsumexp(self._log_joint(X), axis=1))

    @np.errstate(under="ignore")
    def gradient(self, X: FloatArray) -> FloatArray:
        """Return the gradient of the log-density, shape (n_samples, n_features)."""
        responsibility = softmax(self._log_joint(X), axis=1)
        return np.asarray(np.einsum("nk,nkj->nj", responsibility, self.gaussians.gradient(X)))

    @np.errstate(under="ignore")
    def curvature(self, X: FloatArray) -> FloatArray:
        """Return the Hessian of the density divided by the density, one matrix per sample."""
        return self.gaussians.weighted_curvature(X, softmax(self._log_joint(X), axis=1))


class GaussianDensityMixin:
    """Density methods of an estimator that keeps a `_density` in a `_frame`."""

    _density: DensityModel
    _frame: Scaling

    def _rows(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        refuse_lazy(X)
        return self._frame.apply(validate_data(self, X, dtype=np.float64, reset=False))

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
        log_volume = x.shape[1] * float(np.log(self._frame.scale))
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
            return _check_range(self._density.gradient(x) / self._frame.scale, "gradient")

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
            inside = self._density.curvature(x) / self._frame.scale
            return _check_range(inside / self._frame.scale, "curvature")


def _check_range(values: FloatArray, name: str) -> FloatArray:
    """Return `values` if all are finite; raise otherwise."""
    finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"The {name} of the density overflows float64 at {np.count_nonzero(~finite)} of "
            f"{len(values)} samples. Multiply X by a constant before fit, and check X for outliers."
        )
    return values


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

    # `covariance_estimator` is checked with its results, by `estimated_covariance`.
    _parameter_rules: ClassVar[ParameterRules] = {"shrinkage": SHRINKAGE_RULES}

    def __init__(self, *, shrinkage: Any = "auto", covariance_estimator: Any = None) -> None:
        self.shrinkage = shrinkage
        self.covariance_estimator = covariance_estimator

    @restore_on_error
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
        check_parameters(self)
        shrinkage = check_shrinkage(self.shrinkage, self.covariance_estimator)
        refuse_lazy(X)
        x = validate_data(self, X, dtype=np.float64)
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))
        frame = Scaling.of(x)
        codes = np.zeros(len(x), np.intp)
        stats = class_statistics(x, codes, 1, frame=frame, sample_weight=weight)
        if self.covariance_estimator is None:
            gaussians = fit_gaussians(stats, shrinkage=shrinkage)
        else:
            cov = estimated_covariance(self.covariance_estimator, frame.apply(x), weight)
            gaussians = gaussians_of_covariances(stats, cov[None])
        self._frame, self._density = frame, GaussianDensity.of_class(gaussians, 0)
        self.mean_ = frame.center + frame.scale * gaussians.means[0]
        self.covariance_ = frame.scale**2 * gaussians.covariances[0]
        return self
