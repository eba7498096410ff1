"""A Gaussian with a few factors as the density of a class with fewer samples than features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from genmetric._parameters import Interval, ParameterRules, check_parameters
from genmetric._rollback import restore_on_error
from genmetric._typing import ArrayLike, FloatArray
from genmetric._validation import weighted_rows
from genmetric.density._gaussian import GaussianDensityMixin
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import ClassStatistics


@dataclass(frozen=True)
class LowRankGaussian:
    r"""A Gaussian of covariance :math:`W W^T + \Psi`, :math:`\Psi` diagonal.

    With the thin singular value decomposition :math:`\Psi^{-1/2} W = U\,\mathrm{diag}(s)\,V^T`,
    Woodbury's identity and the determinant lemma read

    .. math:: P = \Psi^{-1/2}\Big(I - U\,\mathrm{diag}\Big(\frac{s^2}{1+s^2}\Big) U^T\Big)
              \Psi^{-1/2}, \qquad
              \log|W W^T + \Psi| = \sum_j \log \psi_j + \sum_k \log(1 + s_k^2),

    so that no matrix of size D x D is inverted, and no digits are lost if the noise is small
    compared with the loadings.

    Attributes
    ----------
    mean : ndarray of shape (n_features,)
        The mean.
    loadings : ndarray of shape (n_features, n_factors)
        The matrix W; it may have no column.
    noise : ndarray of shape (n_features,)
        The diagonal of Psi, positive.
    axes : ndarray of shape (n_features, n_factors)
        The matrix U.
    shares : ndarray of shape (n_factors,)
        1/(1+s²), the fraction of noise in the variance along each axis.
    log_scale : float
        Log-density at the mean.
    """

    mean: FloatArray
    loadings: FloatArray
    noise: FloatArray
    axes: FloatArray
    shares: FloatArray
    log_scale: float

    @classmethod
    def of(cls, mean: FloatArray, loadings: FloatArray, noise: FloatArray) -> LowRankGaussian:
        """Build the Gaussian from its mean, loadings and noise."""
        axes, s, _ = np.linalg.svd(loadings / np.sqrt(noise)[:, None], full_matrices=False)
        log_det = float(np.log(noise).sum() + np.log1p(s**2).sum())
        log_scale = -0.5 * (len(mean) * np.log(2 * np.pi) + log_det)
        return cls(mean, loadings, noise, axes, 1 / (1 + s**2), log_scale)

    @property
    def covariance(self) -> FloatArray:
        """The covariance, shape (n_features, n_features)."""
        return np.asarray(self.loadings @ self.loadings.T + np.diag(self.noise))

    @property
    def precision(self) -> FloatArray:
        """Its inverse, shape (n_features, n_features)."""
        inner = np.eye(len(self.mean)) - (self.axes * (1 - self.shares)) @ self.axes.T
        root = 1 / np.sqrt(self.noise)
        return np.asarray(root[:, None] * inner * root)

    def _white(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return samples in units of the noise: along the axes, and the remainder."""
        e = (X - self.mean) / np.sqrt(self.noise)
        along = e @ self.axes
        return along, e - along @ self.axes.T

    def log_density(self, X: FloatArray) -> FloatArray:
        """Return the log-density, shape (n_samples,)."""
        along, across = self._white(X)
        square = np.einsum("ij,ij->i", across, across) + along**2 @ self.shares
        return np.asarray(self.log_scale - 0.5 * square)

    def gradient(self, X: FloatArray) -> FloatArray:
        """Return the gradient of the log-density, shape (n_samples, n_features)."""
        along, across = self._white(X)
        return -np.asarray((across + (along * self.shares) @ self.axes.T) / np.sqrt(self.noise))

    def curvature(self, X: FloatArray) -> FloatArray:
        """Return the Hessian of the density divided by the density, one matrix per sample."""
        v = self.gradient(X)
        return np.asarray(v[:, :, None] * v[:, None, :] - self.precision)


def principal_factors(covariance: FloatArray, n_factors: int) -> tuple[FloatArray, FloatArray]:
    r"""Compute loadings and noise of probabilistic principal components in closed form.

    With eigenvalues :math:`\lambda_1 \ge \lambda_2 \ge \dots` and eigenvectors :math:`u_k` of the
    covariance, :math:`\sigma^2` is the mean of all but the q largest eigenvalues and the columns of
    W are :math:`\sqrt{\lambda_k - \sigma^2}\,u_k`: the most likely Gaussian of that form.

    Parameters
    ----------
    covariance : ndarray of shape (n_features, n_features)
        Maximum-likelihood covariance of the samples.
    n_factors : int
        The number q of factors, below the number of features.

    Returns
    -------
    loadings : ndarray of shape (n_features, n_factors)
        The matrix W.
    noise : ndarray of shape (n_features,)
        sigma² for every feature.

    References
    ----------
    M. E. Tipping and C. M. Bishop, Probabilistic principal component analysis, Journal of the Royal
    Statistical Society B 61 (1999).
    """
    eigenvalues, axes = np.linalg.eigh(covariance)
    n_features = len(covariance)
    rest, top = np.split(np.maximum(eigenvalues, 0.0), [n_features - n_factors])
    variance = float(rest.mean())
    loadings = axes[:, n_features - n_factors :] * np.sqrt(np.maximum(top - variance, 0.0))
    return np.asarray(loadings[:, ::-1]), np.full(n_features, variance)


def factor_analysis(
    covariance: FloatArray,
    loadings: FloatArray,
    noise: FloatArray,
    *,
    floor: FloatArray | float,
    max_iter: int = 200,
    tol: float = 1e-4,
) -> tuple[FloatArray, FloatArray]:
    r"""Compute loadings and noise of maximum likelihood factor analysis by EM.

    One iteration, with :math:`\beta = W^T (W W^T + \Psi)^{-1}` by Woodbury's identity:

    .. math:: W \leftarrow S\beta^T (I - \beta W + \beta S \beta^T)^{-1}, \qquad
              \Psi \leftarrow \mathrm{diag}(S - W \beta S).

    Parameters
    ----------
    covariance : ndarray of shape (n_features, n_features)
        Maximum-likelihood covariance S of the samples.
    loadings, noise : ndarray of shape (n_features, n_factors) and (n_features,)
        Initial values, as returned by :func:`principal_factors`.
    floor : float or ndarray of shape (n_features,)
        Smallest noise of a feature. Without one the likelihood has no maximum where there are fewer
        rows than features.
    max_iter : int, default=200
        Maximum number of iterations.
    tol : float, default=1e-4
        Iterations stop if no entry of the noise changes by more than this fraction of the largest.

    Returns
    -------
    loadings : ndarray of shape (n_features, n_factors)
        The matrix W.
    noise : ndarray of shape (n_features,)
        The diagonal of Psi.

    References
    ----------
    D. B. Rubin and D. T. Thayer, EM algorithms for ML factor analysis, Psychometrika 47 (1982).
    """
    noise = np.maximum(noise, floor)
    if not loadings.shape[1]:
        return loadings, np.maximum(np.diag(covariance), floor)
    identity = np.eye(loadings.shape[1])
    for _ in range(max_iter):
        scaled = loadings / noise[:, None]
        beta = np.linalg.solve(identity + loadings.T @ scaled, scaled.T)
        cross = covariance @ beta.T
        second = identity - beta @ loadings + beta @ cross
        loadings = np.asarray(np.linalg.solve((second + second.T) / 2, cross.T).T, float)
        explained = np.einsum("jk,jk->j", loadings, cross)
        last, noise = noise, np.maximum(np.diag(covariance) - explained, floor)
        if np.abs(noise - last).max() <= tol * noise.max():
            break
    return loadings, noise


#: Folds of ``n_components="cv"``.
N_FOLDS = 5


class FactorModel(GaussianDensityMixin, BaseEstimator):
    r"""A Gaussian of low-rank-plus-diagonal covariance as the density of a class.

    The samples are :math:`x = \mu + W z + \varepsilon` with few factors z and independent noise, so
    that :math:`\Sigma = W W^T + \Psi`. This is factor analysis or, with one noise variance for all
    features, probabilistic principal component analysis. It has D·q parameters instead of the D²/2
    of a covariance, which suits classes with fewer samples than features. Density, gradient and
    curvature use Woodbury's identity; no covariance is inverted.

    The model is experimental. It becomes stable if a study shows that, with the number of factors
    and the noise floor selected by cross-validation, it has a lower error than the shrunk Gaussian
    on datasets that were not used to select the defaults.

    Parameters
    ----------
    n_components : int or "cv", default=2
        Number of factors, at most the number of distinct samples minus two and the number of
        features minus one. More factors describe more correlations and need more samples.
        ``"cv"`` selects the number with the largest likelihood in five-fold cross-validation: 0,
        1, 2, ... are tried until three consecutive numbers bring no gain, up to `max_components`.
    noise : {"diagonal", "isotropic"}, default="diagonal"
        ``"diagonal"``: one noise variance per feature (factor analysis by EM, equivariant to the
        units of the features). ``"isotropic"``: one noise variance for all features (probabilistic
        principal components in closed form, equivariant to rotations).
    max_components : int, default=20
        Largest number of factors that ``"cv"`` tries.
    noise_floor : float, default=0.3
        Smallest noise variance of a feature, as a fraction of the mean variance of the features.
        Larger values regularise more. Without it, a few samples suggest features without noise.
    max_iter : int, default=200
        Maximum number of EM iterations.
    tol : float, default=1e-4
        EM stops when the largest relative change of the noise is below this value.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The mean.
    components_ : ndarray of shape (n_components_, n_features)
        The loadings, Wᵀ.
    noise_variance_ : ndarray of shape (n_features,)
        The diagonal of Psi.
    covariance_ : ndarray of shape (n_features, n_features)
        The covariance.
    n_components_ : int
        Number of factors.
    n_features_in_ : int
        Number of features seen during fit.

    See Also
    --------
    GaussianModel : A Gaussian with a full covariance.
    sklearn.decomposition.FactorAnalysis : The same model as a transformer.

    References
    ----------
    M. E. Tipping and C. M. Bishop, Probabilistic principal component analysis, Journal of the Royal
    Statistical Society B 61 (1999).

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.experimental import FactorModel
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 50)) + 0.5 * rng.normal(size=(30, 50))
    >>> model = FactorModel("cv", noise_floor=0.1).fit(X)
    >>> model.n_components_, model.curvature(X).shape
    (2, (30, 50, 50))
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "n_components": ["cv", Interval(int, 0)],
        "noise": ["diagonal", "isotropic"],
        "max_components": [Interval(int, 1)],
        "noise_floor": [Interval(float, 0, 1, closed="right")],
        "max_iter": [Interval(int, 1)],
        "tol": [Interval(float, 0)],
    }

    def __init__(
        self,
        n_components: Any = 2,
        *,
        noise: str = "diagonal",
        max_components: int = 20,
        noise_floor: float = 0.3,
        max_iter: int = 200,
        tol: float = 1e-4,
    ) -> None:
        self.n_components = n_components
        self.noise = noise
        self.max_components = max_components
        self.noise_floor = noise_floor
        self.max_iter = max_iter
        self.tol = tol

    @restore_on_error
    def fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> FactorModel:
        """Estimate mean, loadings and noise.

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
        self : FactorModel
            The fitted model.
        """
        check_parameters(self)
        x, weight = weighted_rows(self, X, sample_weight)
        frame = Scaling.of(x)
        # Equal samples are merged and sorted, so that the folds do not depend on their order.
        inside, copies = np.unique(frame.apply(x), axis=0, return_inverse=True)
        weight = np.asarray(np.bincount(copies.ravel(), weight), float)
        if isinstance(self.n_components, str):
            n_factors = self._choose_factors(inside, weight)
        else:
            n_factors = int(self.n_components)
        gaussian = self._model(inside, weight, n_factors)

        self._frame, self._density = frame, gaussian
        self.n_components_ = gaussian.loadings.shape[1]
        self.mean_ = frame.center + frame.scale * gaussian.mean
        self.components_ = frame.scale * gaussian.loadings.T
        self.noise_variance_ = frame.scale**2 * gaussian.noise
        self.covariance_ = frame.scale**2 * gaussian.covariance
        return self

    def _choose_factors(self, X: FloatArray, weight: FloatArray) -> int:
        """Select the number of factors with the largest likelihood of left-out samples."""
        folds = np.arange(len(X)) % N_FOLDS
        best, chosen = -np.inf, 0
        for q in range(min(self.max_components, _most_factors(X)) + 1):
            likelihood = 0.0
            for f in np.unique(folds) if len(X) > N_FOLDS else ():
                model = self._model(X[folds != f], weight[folds != f], q)
                likelihood += float(weight[folds == f] @ model.log_density(X[folds == f]))
            if likelihood > best:
                best, chosen = likelihood, q
            if q - chosen == 3:
                break
        return chosen

    def _model(self, X: FloatArray, weight: FloatArray, n_factors: int) -> LowRankGaussian:
        """Fit the model of distinct samples with at most `n_factors` factors."""
        stats = ClassStatistics.from_rows(X, np.zeros(len(X), np.intp), 1, weight)
        covariance = stats.covariances[0]
        # A class without scatter has noise only, of the size of these coordinates.
        floor = self.noise_floor * (float(np.trace(covariance)) / X.shape[1] or 1.0)
        loadings, noise = principal_factors(covariance, min(n_factors, _most_factors(X)))
        if self.noise == "diagonal":
            loadings, noise = factor_analysis(
                covariance, loadings, noise, floor=floor, max_iter=self.max_iter, tol=self.tol
            )
        return LowRankGaussian.of(stats.mean[0], loadings, np.maximum(noise, floor))


def _most_factors(X: FloatArray) -> int:
    """Return the largest number of factors that the distinct samples and features allow."""
    return max(0, min(len(X) - 2, int(X.shape[1]) - 1))
