"""A Gaussian with a few factors as the density of a class with fewer samples than features."""

from __future__ import annotations

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
from genmetric.experimental._low_rank import LowRankGaussian, factor_analysis, principal_factors

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
