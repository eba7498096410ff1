"""A Gaussian mixture as the density of a class, for curved or multimodal classes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from genmetric._parameters import RANDOM_STATE, Interval, ParameterRules, check_parameters
from genmetric._rollback import restore_on_error
from genmetric._typing import ArrayLike
from genmetric._validation import weighted_rows
from genmetric.density._expectation import MixtureFit, fit_mixture
from genmetric.density._gaussian import GaussianDensityMixin
from genmetric.density._scaling import Scaling


class GaussianMixtureModel(GaussianDensityMixin, BaseEstimator):
    r"""Several Gaussians as the density of a class.

    For :math:`p = \sum_k \pi_k \mathcal N_k` with responsibilities :math:`r_k(x)`, the gradient of
    the log-density is :math:`-\sum_k r_k v_k` and the curvature :math:`\nabla\nabla p / p` is
    :math:`\sum_k r_k (v_k v_k^T - P_k)`, each :math:`v_k = P_k (x - \mu_k)`.

    Parameters
    ----------
    n_components : int or "bic", default=2
        Number of Gaussians, at most the number of distinct samples. More components describe
        curved or multimodal classes and need more samples. ``"bic"`` fits 1, 2, ...
        `max_components` and selects the number with the smallest Bayesian information criterion.
    max_components : int, default=8
        Largest number of components that ``"bic"`` tries. Larger values take longer.
    pooling : float, default=None
        Number of samples of the pooled covariance that are added to those of each component;
        ``None`` is D + 2. Larger values make the components more alike and keep components with few
        samples from collapsing; zero is maximum likelihood. The pooled covariance itself gets the
        same number of samples of a prior: the shrunk covariance of the class divided by K^(2/D),
        the size that K equal parts of the class have.
    reg_covar : float, default=1e-6
        Number added to the diagonal of the covariances, as a fraction of the mean variance of the
        features. Larger values make the components rounder.
    n_init : int, default=1
        Number of starts of the EM algorithm; the result with the largest likelihood is kept. More
        starts take longer and depend less on the random state.
    max_iter : int, default=200
        Maximum number of EM iterations.
    tol : float, default=1e-4
        The EM algorithm stops when the mean log-likelihood increases by less than this number.
        Smaller values take more iterations.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts.

    Attributes
    ----------
    mixing_weights_ : ndarray of shape (n_components,)
        Mixing weights of the components; their sum is one.
    means_ : ndarray of shape (n_components, n_features)
        Means of the components.
    covariances_ : ndarray of shape (n_components, n_features, n_features)
        Covariances of the components.
    n_components_ : int
        Number of components.
    bic_ : ndarray of shape (n_tried,)
        Bayesian information criterion of 1, 2, ... components; only for ``n_components="bic"``.
    n_features_in_ : int
        Number of features seen during fit.

    See Also
    --------
    GaussianModel : One Gaussian as the density of a class.
    sklearn.mixture.GaussianMixture : Mixtures for clustering, without weights of samples.

    References
    ----------
    C. Fraley and A. E. Raftery, Bayesian regularization for normal mixture estimation and
    model-based clustering, Journal of Classification 24 (2007): the prior.

    Examples
    --------
    >>> from genmetric import GaussianMixtureModel, GenerativeMetric
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianMixtureModel(n_components=2, random_state=0)
    >>> GenerativeMetric(class_model=model).fit(X, y).metric_.shape
    (4, 4)
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "n_components": ["bic", Interval(int, 1)],
        "max_components": [Interval(int, 1)],
        "pooling": [None, Interval(float, 0)],
        "reg_covar": [Interval(float, 0)],
        "n_init": [Interval(int, 1)],
        "max_iter": [Interval(int, 1)],
        "tol": [Interval(float, 0)],
        "random_state": RANDOM_STATE,
    }

    def __init__(
        self,
        n_components: Any = 2,
        *,
        max_components: int = 8,
        pooling: float | None = None,
        reg_covar: float = 1e-6,
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.max_components = max_components
        self.pooling = pooling
        self.reg_covar = reg_covar
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @restore_on_error
    def fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> GaussianMixtureModel:
        """Fit the mixture by EM.

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
        self : GaussianMixtureModel
            The fitted model.
        """
        check_parameters(self)
        x, weight = weighted_rows(self, X, sample_weight)
        frame = Scaling.of(x)
        inside = frame.apply(x)
        rng = check_random_state(self.random_state)
        n_distinct = len(np.unique(inside, axis=0))

        def best_of(n_components: int) -> MixtureFit:
            starts = [
                fit_mixture(
                    inside,
                    weight,
                    n_components,
                    pooling=self.pooling,
                    reg_covar=self.reg_covar,
                    max_iter=self.max_iter,
                    tol=self.tol,
                    rng=rng,
                )
                for _ in range(self.n_init)
            ]
            return max(starts, key=lambda start: start.log_likelihood)

        self.__dict__.pop("bic_", None)
        if isinstance(self.n_components, str):
            tried = [best_of(k + 1) for k in range(min(self.max_components, n_distinct))]
            self.bic_ = np.array([fit.bayesian_information(weight.sum()) for fit in tried])
            # The likelihood of samples in input space, not of those in these coordinates.
            self.bic_ += 2 * weight.sum() * x.shape[1] * np.log(frame.scale)
            found = tried[int(self.bic_.argmin())]
        else:
            found = best_of(min(self.n_components, n_distinct))
        gaussians = found.density.gaussians
        self._frame, self._density = frame, found.density
        self.mixing_weights_ = np.exp(found.density.log_weights)
        self.n_components_ = len(self.mixing_weights_)
        self.means_ = frame.center + frame.scale * gaussians.means
        self.covariances_ = frame.scale**2 * gaussians.covariances
        return self
