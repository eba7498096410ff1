"""A Gaussian mixture as the density of a class, for classes that are curved or in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from genmetric._rollback import all_or_nothing
from genmetric._typing import ArrayLike
from genmetric._validation import as_number, check_count, weighted_rows
from genmetric.density.expectation import MixtureFit, fit_mixture
from genmetric.density.frame import Frame
from genmetric.density.gaussian import GaussianDensityMixin


class GaussianMixtureModel(GaussianDensityMixin, BaseEstimator):
    r"""Several Gaussians as the density of a class.

    For :math:`p = \sum_k \pi_k \mathcal N_k` with responsibilities :math:`r_k(x)`, the gradient of
    the log-density is :math:`-\sum_k r_k v_k` and the curvature :math:`\nabla\nabla p / p` is
    :math:`\sum_k r_k (v_k v_k^T - P_k)`, each :math:`v_k = P_k (x - \mu_k)`.

    Parameters
    ----------
    n_components : int or "bic", default=2
        Gaussians in the mixture; a class with fewer distinct rows gets as many as it has. ``"bic"``
        fits 1, 2, ... `max_components` and takes the number of least Bayesian information
        criterion.
    max_components : int, default=8
        Most components that ``"bic"`` tries.
    pooling : float, default=None
        Rows of the pooled covariance of all components that are added to those of each; ``None`` is
        D + 2. The pooled covariance gets as many rows of a prior, the shrunk covariance of the
        class over K^(2/D), of the size that K equal parts of the class have. That keeps components
        of a few rows from collapsing, and is nothing beside many rows; zero is plain maximum
        likelihood.
    reg_covar : float, default=1e-6
        Added to the diagonal of the covariances, as a share of the mean variance of a feature.
    n_init : int, default=1
        Starts of the EM algorithm; the best is kept.
    max_iter : int, default=200
        Rounds of the EM algorithm.
    tol : float, default=1e-4
        The EM algorithm ends where the mean log-likelihood rises by less.
    random_state : int, RandomState instance or None, default=None
        Seeds the starts.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Mixing weights.
    means_ : ndarray of shape (n_components, n_features)
        Means of the components.
    covariances_ : ndarray of shape (n_components, n_features, n_features)
        Covariances of the components.
    n_components_ : int
        Number of components.
    bic_ : ndarray of shape (n_tried,)
        Bayesian information criterion of 1, 2, ... components; only for ``n_components="bic"``.
    n_features_in_ : int
        Number of features seen in `fit`.

    See Also
    --------
    GaussianModel : One Gaussian as the density of a class.
    sklearn.mixture.GaussianMixture : Mixtures for clustering, without weights of rows.

    References
    ----------
    C. Fraley and A. E. Raftery, Bayesian regularization for normal mixture estimation and
    model-based clustering, Journal of Classification 24 (2007): such a prior.

    Examples
    --------
    >>> from genmetric import GaussianMixtureModel, GenerativeMetric
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianMixtureModel(n_components=2, random_state=0)
    >>> GenerativeMetric(class_model=model).fit(X, y).metric_.shape
    (4, 4)
    """

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

    @all_or_nothing
    def fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> GaussianMixtureModel:
        """Fit the mixture by EM.

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
        self : GaussianMixtureModel
            The fitted model.
        """
        self._check_parameters()
        x, weight = weighted_rows(self, X, sample_weight)
        frame = Frame.of(x)
        inside = frame.inward(x)
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
            # The likelihood of rows as they came, not of those in the frame.
            self.bic_ += 2 * weight.sum() * x.shape[1] * np.log(frame.scale)
            found = tried[int(self.bic_.argmin())]
        else:
            found = best_of(min(self.n_components, n_distinct))
        gaussians = found.density.gaussians
        self._frame, self._density = frame, found.density
        self.weights_ = np.exp(found.density.log_weights)
        self.n_components_ = len(self.weights_)
        self.means_ = frame.center + frame.scale * gaussians.means
        self.covariances_ = frame.scale**2 * gaussians.covariances
        return self

    def _check_parameters(self) -> None:
        if not (isinstance(self.n_components, str) and self.n_components == "bic"):
            try:
                check_count(self.n_components, "n_components")
            except ValueError as error:
                raise ValueError(f'{error} Or "bic", to have it chosen.') from None
        for name in ("max_components", "n_init", "max_iter"):
            check_count(getattr(self, name), name)
        for name in ("reg_covar", "tol", "pooling"):
            number = as_number(getattr(self, name))
            if getattr(self, name) is None and name == "pooling":
                continue
            if number is None or not 0 <= number < np.inf:
                raise ValueError(
                    f"{name} must be a number of at least 0; got {getattr(self, name)!r}."
                )
