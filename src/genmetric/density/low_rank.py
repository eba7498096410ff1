"""Gaussians of many small classes: an isotropic part plus the centred samples of each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from genmetric._typing import BoolArray, FloatArray, IntArray

#: What class covariances are made of; see `covariance_rule` in :mod:`.gaussian`.
CovarianceRule: TypeAlias = tuple[FloatArray, FloatArray, BoolArray, FloatArray, float]


@dataclass(frozen=True)
class LowRankGaussians:
    r"""One Gaussian per class, with covariance :math:`\alpha_c I` plus a matrix of low rank.

    With orthonormal axes :math:`u_k` of the centred samples of a class and the variances
    :math:`\sigma_k^2 \ge \alpha_c` along them, the rows of :math:`K_c` are
    :math:`\sqrt{1 - \alpha_c/\sigma_k^2}\,u_k`, and Woodbury's identity gives the precision

    .. math:: P_c = \frac{1}{\alpha_c} \big(I - K_c^T K_c\big).

    A class needs the memory of its samples. The log-densities of a sample under all classes come
    from one product with the axes of all classes. Classes without a covariance of their own share
    the last block of axes.

    Attributes
    ----------
    means : ndarray of shape (n_classes, n_features)
        Class means.
    axes : ndarray of shape (n_axes, n_features)
        The rows of all :math:`K_c`, block by block.
    starts : ndarray of shape (n_blocks + 1,)
        First row of each block in `axes`.
    blocks : ndarray of shape (n_classes,)
        Block of each class. Only the last block can belong to several classes.
    isotropic : ndarray of shape (n_classes,)
        The variances :math:`\alpha_c` outside the span of the axes.
    log_scales : ndarray of shape (n_classes,)
        Log-density at the mean.
    offsets : ndarray of shape (n_axes,)
        The products :math:`K_c \mu_c` of blocks that belong to one class.
    """

    means: FloatArray
    axes: FloatArray
    starts: IntArray
    blocks: IntArray
    isotropic: FloatArray
    log_scales: FloatArray
    offsets: FloatArray

    @classmethod
    def from_spectra(
        cls,
        means: FloatArray,
        spectra: list[tuple[FloatArray, FloatArray]],
        rule: CovarianceRule,
    ) -> tuple[LowRankGaussians, IntArray]:
        """Build Gaussians from the variances and axes of each class.

        Also returns how many eigenvalues of each class were raised to the floor.
        """
        own, isotropic, flat, stand_in, floor = rule
        n_classes, n_features = means.shape
        alpha = np.maximum(isotropic, floor)
        raised, blocks = np.zeros(n_classes, np.intp), np.zeros(n_classes, np.intp)
        log_det = np.zeros(n_classes)
        axes: list[FloatArray] = []
        for c in np.flatnonzero(~flat).tolist():
            variances = isotropic[c] + own[c] * spectra[c][0]
            raised[c] = np.count_nonzero(variances < floor)
            raised[c] += (n_features - len(variances)) * (isotropic[c] < floor)
            blocks[c] = len(axes)
            K, log_det[c] = _scaled_axes(spectra[c][1], np.maximum(variances, floor), alpha[c])
            axes.append(K)
        if flat.any():
            variances, columns = np.linalg.eigh(stand_in)
            variances = np.maximum(variances, floor)
            alpha[flat], blocks[flat] = variances[0], len(axes)
            K, log_det[flat] = _scaled_axes(columns.T, variances, variances[0])
            axes.append(K)
        log_scales = -0.5 * (n_features * np.log(2 * np.pi * alpha) + log_det)
        owner = np.zeros(len(axes), np.intp)
        owner[blocks] = np.arange(n_classes)
        offsets = np.concatenate([K @ means[c] for K, c in zip(axes, owner, strict=True)])
        starts = np.cumsum([0, *map(len, axes)])
        return cls(means, np.concatenate(axes), starts, blocks, alpha, log_scales, offsets), raised

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.means)

    @property
    def ranks(self) -> IntArray:
        """Number of axes of each class, shape (n_classes,)."""
        return np.asarray(np.diff(self.starts)[self.blocks])

    def class_axes(self, c: int) -> FloatArray:
        """Return the rows of the matrix K of a class."""
        block = self.blocks[c]
        return self.axes[self.starts[block] : self.starts[block + 1]]

    def log_density(self, X: FloatArray) -> FloatArray:
        r"""Return the log-density of each class at each sample, shape (n_samples, n_classes).

        With :math:`e = x - \mu_c` the exponent is :math:`-\frac{1}{2\alpha_c}(|e|^2 - |K_c e|^2)`.
        """
        shared = self.blocks == len(self.starts) - 2
        square = np.einsum("ij,ij->i", self.means, self.means) - 2 * (X @ self.means.T)
        square += np.einsum("ij,ij->i", X, X)[:, None]
        n_own = self.starts[-2]
        if n_own:
            along = X @ self.axes[:n_own].T
            along -= self.offsets[:n_own]
            along *= along
            own = (self.ranks > 0) & ~shared
            starts = self.starts[self.blocks[own]]
            square[:, own] -= np.add.reduceat(along, starts, axis=1)
        if n_own < len(self.axes):
            K = self.axes[n_own:]
            x, mu = X @ K.T, self.means[shared] @ K.T
            inside = np.einsum("ij,ij->i", x, x)[:, None] + np.einsum("ij,ij->i", mu, mu)
            square[:, shared] -= inside - 2 * (x @ mu.T)
        np.maximum(square, 0.0, out=square)
        square /= -2 * self.isotropic
        square += self.log_scales
        return np.asarray(square)

    def weighted_curvature(self, X: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the sum over classes of w_c G_c, shape (n_samples, n_features, n_features).

        Classes of weight zero cost nothing.
        """
        n_features = X.shape[1]
        total = np.zeros((len(X), n_features, n_features))
        diagonal = np.einsum("nii->ni", total)
        for c in np.flatnonzero(weights.any(axis=0)).tolist():
            rows = np.flatnonzero(weights[:, c])
            w, K = weights[rows, c], self.class_axes(c)
            e = X[rows] - self.means[c]
            v = (e - (e @ K.T) @ K) / self.isotropic[c]
            part = K.T @ K / self.isotropic[c]
            total[rows] += w[:, None, None] * (v[:, :, None] * v[:, None, :] + part)
            diagonal[rows] -= (w / self.isotropic[c])[:, None]
        return total

    def precision_size(self, weights: FloatArray) -> FloatArray:
        """Return the largest eigenvalue of each precision, weighted and summed, (n_samples,)."""
        return np.asarray(np.abs(weights) @ (1 / self.isotropic))

    @property
    def covariances(self) -> FloatArray:
        """Class covariances, shape (n_classes, n_features, n_features); computed on each access."""
        n_features = self.means.shape[1]
        out = np.empty((self.n_classes, n_features, n_features))
        for c in range(self.n_classes):
            K = self.class_axes(c)
            # A row of squared norm g stands for the variance alpha / (1 - g).
            square = np.einsum("ij,ij->i", K, K)
            out[c] = np.eye(n_features) + (K / (1 - square)[:, None]).T @ K
            out[c] *= self.isotropic[c]
        return out


def _scaled_axes(
    vectors: FloatArray, variances: FloatArray, isotropic: float
) -> tuple[FloatArray, float]:
    """Return the rows of the matrix K, and the log-determinant relative to the isotropic part."""
    gain = (variances - isotropic) / variances
    some = gain > 1e-13  # below, the variance is the isotropic one up to rounding
    K = vectors[some] * np.sqrt(gain[some])[:, None]
    return K, float(np.log(variances / isotropic).sum())
