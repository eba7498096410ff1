"""Gaussians whose covariance is low-rank plus diagonal, for more features than samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmetric._typing import FloatArray


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
