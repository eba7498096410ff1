"""A Gaussian mixture as the density of a class, for classes that are curved or in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.mixture import GaussianMixture
from sklearn.utils.validation import validate_data

from genmetric._typing import ArrayLike
from genmetric.density.frame import Frame
from genmetric.density.gaussian import ClassGaussians, GaussianDensity, GaussianDensityMixin


class GaussianMixtureModel(GaussianDensityMixin, BaseEstimator):
    r"""Several Gaussians as the density of a class.

    For :math:`p = \sum_k \pi_k \mathcal N_k` with responsibilities :math:`r_k(x)`, the gradient of
    the log-density is :math:`-\sum_k r_k v_k` and the curvature :math:`\nabla\nabla p / p` is
    :math:`\sum_k r_k (v_k v_k^T - P_k)`, each :math:`v_k = P_k (x - \mu_k)`.

    Parameters
    ----------
    n_components : int, default=2
        Gaussians in the mixture; a class with fewer distinct rows gets as many as it has.
    reg_covar : float, default=1e-6
        Added to the diagonal of the covariances, as a share of the mean variance of a feature.
    n_init : int, default=1
        Starts of the EM algorithm; the best is kept.
    max_iter : int, default=200
        Rounds of the EM algorithm.
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
    n_features_in_ : int
        Number of features seen in `fit`.

    See Also
    --------
    GaussianModel : One Gaussian as the density of a class.
    sklearn.mixture.GaussianMixture : Fits the mixture.

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
        reg_covar: float = 1e-6,
        n_init: int = 1,
        max_iter: int = 200,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.reg_covar = reg_covar
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> GaussianMixtureModel:
        """Fit the mixture by EM.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of one class.
        y : None
            Ignored.

        Returns
        -------
        self : GaussianMixtureModel
            The fitted model.
        """
        x = validate_data(self, X, dtype=np.float64)
        if not isinstance(self.n_components, int | np.integer) or self.n_components < 1:
            raise ValueError(
                f"n_components must be a whole number of at least 1; got {self.n_components!r}."
            )
        frame = Frame.of(x)
        inside = frame.inward(x)
        mixture = GaussianMixture(
            min(self.n_components, len(np.unique(inside, axis=0))),
            # In the frame the mean variance of a feature is about one.
            reg_covar=self.reg_covar,
            n_init=self.n_init,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        # A mixture needs two rows; a lone one twice is still a lone one.
        mixture.fit(inside if len(inside) > 1 else np.repeat(inside, 2, axis=0))
        gaussians = ClassGaussians.from_moments(
            mixture.means_, mixture.covariances_, floor=self.reg_covar
        )
        with np.errstate(divide="ignore"):  # a component may end with weight zero
            log_weights = np.log(mixture.weights_)
        self._frame, self._density = frame, GaussianDensity(gaussians, log_weights)
        self.weights_ = mixture.weights_
        self.means_ = frame.center + frame.scale * mixture.means_
        self.covariances_ = frame.scale**2 * gaussians.covariances
        return self
