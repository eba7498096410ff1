"""Joint densities of samples and a numeric target, and the regression function they imply."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from genmetric._typing import FloatArray
from genmetric.density._gaussian import ClassGaussians


@dataclass(frozen=True)
class JointDensity:
    r"""A Gaussian mixture over (x, y): log-density of x and regression function E[y | x].

    With responsibilities :math:`r_k(x)`, conditional means
    :math:`m_k(x) = \mu_{y,k} + \beta_k^T (x - \mu_{x,k})` and
    :math:`\beta_k = \Sigma_{xx,k}^{-1} \Sigma_{xy,k}`, the regression function is
    :math:`f(x) = \sum_k r_k m_k`. With one component it is linear.

    Attributes
    ----------
    marginal : ClassGaussians
        Gaussians of x, one per component.
    log_weights : ndarray of shape (n_components,)
        Logarithms of the mixing weights.
    slopes : ndarray of shape (n_components, n_features)
        Regression coefficients :math:`\beta_k`.
    targets : ndarray of shape (n_components,)
        Means :math:`\mu_{y,k}` of y.
    """

    marginal: ClassGaussians
    log_weights: FloatArray
    slopes: FloatArray
    targets: FloatArray

    @classmethod
    def from_moments(
        cls, means: FloatArray, covariances: FloatArray, weights: FloatArray | None = None
    ) -> JointDensity:
        """Build the density from moments of (x, y), with y as the last coordinate.

        Parameters
        ----------
        means : ndarray of shape (n_components, n_features + 1)
            Means of the components.
        covariances : ndarray of shape (n_components, n_features + 1, n_features + 1)
            Positive definite covariances of the components.
        weights : ndarray of shape (n_components,), default=None
            Mixing weights; ``None`` is one component.

        Returns
        -------
        JointDensity
            The density.
        """
        marginal = ClassGaussians.from_moments(means[:, :-1], covariances[:, :-1, :-1])
        slopes = np.einsum("kij,kj->ki", marginal.precisions, covariances[:, :-1, -1])
        log_weights = np.zeros(1) if weights is None else np.log(weights)
        return cls(marginal, log_weights, slopes, means[:, -1])

    def gradients(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Compute the gradients of the log-density and of the regression function.

        .. math:: g = \sum_k r_k g_k, \qquad
                  b = \sum_k r_k \beta_k + \sum_k r_k (g_k - g)\, m_k

        with :math:`g_k = -\Sigma_{xx,k}^{-1}(x - \mu_{x,k})`, because
        :math:`\nabla r_k = r_k (g_k - g)`.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        g : ndarray of shape (n_samples, n_features)
            Gradient of log p(x).
        b : ndarray of shape (n_samples, n_features)
            Gradient of E[y | x].
        """
        if len(self.slopes) == 1:
            g = self.marginal.gradient(X)[:, 0]
            return g, np.broadcast_to(self.slopes[0], g.shape)
        r = softmax(self.marginal.log_density(X) + self.log_weights, axis=1)
        g_k = self.marginal.gradient(X)
        g = np.einsum("nk,nkj->nj", r, g_k)
        difference = X[:, None, :] - self.marginal.means
        conditional = self.targets + np.einsum("nkj,kj->nk", difference, self.slopes)
        # Around the regression function: a constant in y must not leave rounding errors.
        conditional -= np.einsum("nk,nk->n", r, conditional)[:, None]
        b = r @ self.slopes + np.einsum("nk,nkj->nj", r * conditional, g_k - g[:, None, :])
        return g, b

    def regression(self, X: FloatArray) -> FloatArray:
        """Compute the regression function E[y | x].

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Conditional means.
        """
        r = softmax(self.marginal.log_density(X) + self.log_weights, axis=1)
        difference = X[:, None, :] - self.marginal.means
        conditional = self.targets + np.einsum("nkj,kj->nk", difference, self.slopes)
        return np.asarray(np.einsum("nk,nk->n", r, conditional))
