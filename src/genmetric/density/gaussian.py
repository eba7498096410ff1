"""Gaussian class models: log-density, its gradient, and the curvature of the density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._rollback import all_or_nothing
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import check_weights, refuse_lazy
from genmetric.density.covariance import (
    EIGENVALUE_FLOOR,
    Shrinkage,
    check_shrinkage,
    class_covariances,
    estimated_covariance,
    replace_degenerate,
    stand_in_covariance,
)
from genmetric.density.frame import Frame
from genmetric.density.statistics import ClassStatistics, class_statistics

if TYPE_CHECKING:
    from genmetric.density.models import DensityModel


@dataclass(frozen=True)
class ClassGaussians:
    """One Gaussian a class, stored by what evaluating them needs.

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
        """Gaussians of given moments, covariance eigenvalues raised to `floor` where below."""
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
                "estimator whose result is."
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
        r"""Log-density of each class at each row, shape (n_samples, n_classes)."""
        out = np.empty((len(X), self.n_classes))
        for c in range(self.n_classes):
            white = (X - self.means[c]) @ self.whiteners[c]
            out[:, c] = self.log_scales[c] - 0.5 * np.einsum("ij,ij->i", white, white)
        return out

    def pulls(self, X: FloatArray) -> FloatArray:
        r"""The vectors :math:`v_c = P_c(x - \mu_c)`, shape (n_samples, n_classes, n_features)."""
        out = np.empty((len(X), *self.means.shape))
        for c in range(self.n_classes):
            out[:, c] = (X - self.means[c]) @ self.precisions[c]
        return out

    def gradient(self, X: FloatArray) -> FloatArray:
        r"""Gradient of the log-densities, :math:`-v_c`, shape (n_samples, n_classes, n_features)."""
        return -self.pulls(X)

    def weighted_curvature(self, X: FloatArray, weights: FloatArray) -> FloatArray:
        r"""Sum over classes of :math:`w_c G_c`, with :math:`G_c = v_c v_c^T - P_c`.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Rows.
        weights : ndarray of shape (n_samples, n_classes)
            The weights w_c of each row.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            One symmetric matrix a row.
        """
        v = self.pulls(X)
        n_features = X.shape[1]
        base = weights @ self.precisions.reshape(self.n_classes, -1)
        outer = (v * weights[:, :, None]).transpose(0, 2, 1) @ v
        return np.asarray(outer - base.reshape(-1, n_features, n_features))

    def precision_size(self, weights: FloatArray) -> FloatArray:
        """Largest entry of each precision, weighted and summed, shape (n_samples,)."""
        return np.asarray(np.abs(weights) @ np.abs(self.precisions).max(axis=(1, 2)))


def fit_gaussians(
    stats: ClassStatistics, *, shrinkage: Shrinkage = "auto", classes: AnyArray | None = None
) -> ClassGaussians:
    """Gaussians of all classes from their statistics.

    Eigenvalues of a class covariance below 1e-8 of the mean pooled variance are raised to that,
    whatever the shrinkage; a class with one row or no scatter takes the pooled covariance, shrunk
    in the same way.

    Parameters
    ----------
    stats : ClassStatistics
        Moments of the classes.
    shrinkage : None, "auto" or float, default="auto"
        See :func:`~genmetric.density.covariance.class_covariances`.
    classes : ndarray of shape (n_classes,), default=None
        Class names for warnings.

    Returns
    -------
    ClassGaussians
        The class models.
    """
    covariances = class_covariances(stats, shrinkage)
    return gaussians_of_covariances(stats, covariances, shrinkage=shrinkage, classes=classes)


def gaussians_of_covariances(
    stats: ClassStatistics,
    covariances: FloatArray,
    *,
    shrinkage: Shrinkage = "auto",
    classes: AnyArray | None = None,
) -> ClassGaussians:
    """Gaussians with given covariances, made safe to invert: see :func:`fit_gaussians`."""
    covariances = replace_degenerate(covariances, stats, shrinkage, classes)
    floor = EIGENVALUE_FLOOR * float(np.trace(stand_in_covariance(stats))) / stats.mean.shape[1]
    return ClassGaussians.from_moments(stats.mean, covariances, floor)


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
        """The single Gaussian of class `c`."""
        fields = (getattr(gaussians, name) for name in gaussians.__dataclass_fields__)
        return cls(ClassGaussians(*(field[c : c + 1] for field in fields)), np.zeros(1))

    def _log_joint(self, X: FloatArray) -> FloatArray:
        return self.gaussians.log_density(X) + self.log_weights

    def log_density(self, X: FloatArray) -> FloatArray:
        """Log-density, shape (n_samples,)."""
        return np.asarray(logsumexp(self._log_joint(X), axis=1))

    def gradient(self, X: FloatArray) -> FloatArray:
        """Gradient of the log-density, shape (n_samples, n_features)."""
        responsibility = softmax(self._log_joint(X), axis=1)
        return np.asarray(np.einsum("nk,nkj->nj", responsibility, self.gaussians.gradient(X)))

    def curvature(self, X: FloatArray) -> FloatArray:
        """Hessian of the density over the density, shape (n_samples, n_features, n_features)."""
        return self.gaussians.weighted_curvature(X, softmax(self._log_joint(X), axis=1))


class GaussianDensityMixin:
    """Density methods of an estimator that keeps a `_density` in a `_frame`."""

    _density: DensityModel
    _frame: Frame

    def _rows(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        refuse_lazy(X)
        return self._frame.inward(validate_data(self, X, dtype=np.float64, reset=False))

    def log_density(self, X: ArrayLike) -> FloatArray:
        """Log-density at each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            log p(x).
        """
        x = self._rows(X)
        log_volume = x.shape[1] * float(np.log(self._frame.scale))
        return np.asarray(self._density.log_density(x) - log_volume)

    def gradient(self, X: ArrayLike) -> FloatArray:
        """Gradient of the log-density at each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The gradient of log p.
        """
        return self._density.gradient(self._rows(X)) / self._frame.scale

    def curvature(self, X: ArrayLike) -> FloatArray:
        """Hessian of the density divided by the density, at each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            The matrices G.
        """
        return self._density.curvature(self._rows(X)) / self._frame.scale**2


class GaussianModel(GaussianDensityMixin, BaseEstimator):
    r"""One Gaussian as the density of a class.

    For :math:`p = \mathcal N(\mu, \Sigma)`, :math:`P = \Sigma^{-1}` and :math:`v = P(x - \mu)`, the
    gradient of the log-density is :math:`-v` and the curvature :math:`\nabla\nabla p / p` is
    :math:`v v^T - P`.

    Parameters
    ----------
    shrinkage : None, "auto" or float, default="auto"
        ``None`` is maximum likelihood, ``"auto"`` the shrinkage of Ledoit and Wolf, a number s in
        [0, 1] gives (1-s)·S + s·(trace S/D)·I. Eigenvalues below 1e-8 of the mean variance are
        raised to that, with ``None`` too.
    covariance_estimator : estimator, default=None
        An estimator with ``fit`` and ``covariance_``, as in :mod:`sklearn.covariance`; it replaces
        ``"auto"``.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The mean.
    covariance_ : ndarray of shape (n_features, n_features)
        The covariance.
    n_features_in_ : int
        Number of features seen in `fit`.

    See Also
    --------
    GaussianMixtureModel : Several Gaussians as the density of a class.
    GenerativeMetric : Uses one such model a class.

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

    @all_or_nothing
    def fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> GaussianModel:
        """Estimate the mean and the covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of one class.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies of the rows.

        Returns
        -------
        self : GaussianModel
            The fitted model.
        """
        shrinkage = check_shrinkage(self.shrinkage, self.covariance_estimator)
        refuse_lazy(X)
        x = validate_data(self, X, dtype=np.float64)
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))
        frame = Frame.of(x)
        codes = np.zeros(len(x), np.intp)
        stats = class_statistics(x, codes, 1, frame=frame, sample_weight=weight)
        if self.covariance_estimator is None:
            gaussians = fit_gaussians(stats, shrinkage=shrinkage)
        else:
            cov = estimated_covariance(self.covariance_estimator, frame.inward(x), weight)
            gaussians = gaussians_of_covariances(stats, cov[None])
        self._frame, self._density = frame, GaussianDensity.of_class(gaussians, 0)
        self.mean_ = frame.center + frame.scale * gaussians.means[0]
        self.covariance_ = frame.scale**2 * gaussians.covariances[0]
        return self
