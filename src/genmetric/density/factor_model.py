"""A Gaussian with a few factors as the density of a class that has fewer rows than features."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from genmetric._rollback import all_or_nothing
from genmetric._typing import ArrayLike, FloatArray
from genmetric._validation import as_number, check_count, weighted_rows
from genmetric.density.frame import Frame
from genmetric.density.gaussian import GaussianDensityMixin
from genmetric.density.low_rank import LowRankGaussian, factor_analysis, principal_factors
from genmetric.density.statistics import ClassStatistics

#: Folds of ``n_components="cv"``.
N_FOLDS = 5


class FactorModel(GaussianDensityMixin, BaseEstimator):
    r"""A Gaussian of low-rank-plus-diagonal covariance as the density of a class.

    The rows are :math:`x = \mu + W z + \varepsilon` with few factors z and independent noise, so
    that :math:`\Sigma = W W^T + \Psi`: factor analysis, or with one noise for all features
    probabilistic principal components. It needs D·q numbers where a covariance has D²/2, which
    suits classes with fewer rows than features. Density, gradient and curvature go by Woodbury's
    identity; no covariance is inverted.

    Parameters
    ----------
    n_components : int or "cv", default=2
        Factors, at most two less than distinct rows and one less than features. ``"cv"`` takes the
        number of largest likelihood of left-out rows, in five folds: 0, 1, 2, ... are tried until
        three in a row bring no gain, or `max_components`.
    noise : {"diagonal", "isotropic"}, default="diagonal"
        One noise a feature (factor analysis, by EM; follows a change of units of the features) or
        one for all (probabilistic principal components, in closed form; follows a rotation).
    max_components : int, default=20
        Most factors that ``"cv"`` tries.
    noise_floor : float, default=0.3
        Least noise of a feature, as a share of the mean variance of the features. Without it a
        few rows make believe that some features have none.
    max_iter : int, default=200
        Most rounds of EM.
    tol : float, default=1e-4
        EM ends where the noise changes by less than this share.

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
        Number of features seen in `fit`.

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
    >>> from genmetric import FactorModel
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 50)) + 0.5 * rng.normal(size=(30, 50))
    >>> model = FactorModel("cv", noise_floor=0.1).fit(X)
    >>> model.n_components_, model.curvature(X).shape
    (2, (30, 50, 50))
    """

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

    @all_or_nothing
    def fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> FactorModel:
        """Estimate mean, loadings and noise.

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
        self : FactorModel
            The fitted model.
        """
        self._check_parameters()
        x, weight = weighted_rows(self, X, sample_weight)
        frame = Frame.of(x)
        # Equal rows are one of more weight, in an order of their own: folds follow from the rows.
        inside, copies = np.unique(frame.inward(x), axis=0, return_inverse=True)
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

    def _check_parameters(self) -> None:
        n_components = self.n_components
        whole = isinstance(n_components, Integral) and as_number(n_components) is not None
        if not (whole and n_components >= 0) and not (
            isinstance(n_components, str) and n_components == "cv"
        ):
            raise ValueError(
                f'n_components must be "cv" or a whole number of at least 0; got {n_components!r}.'
            )
        if self.noise not in ("diagonal", "isotropic"):
            raise ValueError(f'noise must be "diagonal" or "isotropic"; got {self.noise!r}.')
        check_count(self.max_components, "max_components")
        check_count(self.max_iter, "max_iter")
        floor, tol = as_number(self.noise_floor), as_number(self.tol)
        if floor is None or not 0 < floor <= 1:
            raise ValueError(
                f"noise_floor must be a number above 0 and at most 1; got {self.noise_floor!r}."
            )
        if tol is None or not tol >= 0:
            raise ValueError(f"tol must be a number of at least 0; got {self.tol!r}.")

    def _choose_factors(self, X: FloatArray, weight: FloatArray) -> int:
        """The number of factors under which left-out rows are most likely."""
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
        """The model of distinct rows with so many factors, or as many as they allow."""
        stats = ClassStatistics.from_rows(X, np.zeros(len(X), np.intp), 1, weight)
        covariance = stats.covariances[0]
        # A class without scatter has noise alone, of the size of the frame.
        floor = self.noise_floor * (float(np.trace(covariance)) / X.shape[1] or 1.0)
        loadings, noise = principal_factors(covariance, min(n_factors, _most_factors(X)))
        if self.noise == "diagonal":
            loadings, noise = factor_analysis(
                covariance, loadings, noise, floor=floor, max_iter=self.max_iter, tol=self.tol
            )
        return LowRankGaussian.of(stats.mean[0], loadings, np.maximum(noise, floor))


def _most_factors(X: FloatArray) -> int:
    """Most factors that so many distinct rows and features allow."""
    return max(0, min(len(X) - 2, int(X.shape[1]) - 1))
