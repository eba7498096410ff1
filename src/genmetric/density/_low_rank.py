"""Gaussians of many small classes: an isotropic part plus the centred samples of each class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density._covariance import (
    EIGENVALUE_FLOOR,
    Shrinkage,
    covariance_terms,
    stand_in_covariance,
    warn_degenerate,
    warn_floored,
)
from genmetric.density._factored_statistics import FactoredStatistics

#: Eigenvalues of a scatter below this fraction of its largest one are rounding errors of zero.
RANK_TOL = 1e-13

#: Numbers of axes per class up to which the sums over them are unrolled.
FEW_AXES = 4


@dataclass(frozen=True)
class SinglePrecision:
    """Arrays of :class:`LowRankGaussians` in float32, to find the leading classes of a sample.

    Attributes
    ----------
    means, axes, offsets, log_scales : ndarray
        As in :class:`LowRankGaussians`.
    half_precision : ndarray of shape (n_classes,)
        Minus half of the inverse of the isotropic variances.
    reach : float
        Largest norm of a class mean.
    """

    means: AnyArray
    axes: AnyArray
    offsets: AnyArray
    log_scales: AnyArray
    half_precision: AnyArray
    reach: float

    @classmethod
    def of(cls, models: LowRankGaussians) -> SinglePrecision:
        """Convert models to float32."""
        reach = float(np.sqrt(np.einsum("ij,ij->i", models.means, models.means).max()))
        return cls(
            models.means.astype(np.float32),
            models.axes.astype(np.float32),
            models.offsets.astype(np.float32),
            models.log_scales.astype(np.float32),
            (-0.5 / models.isotropic).astype(np.float32),
            reach,
        )


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

        With :math:`e = x - \mu_c` the exponent is
        :math:`-\frac{1}{2\alpha_c}(|e|^2 - |K_c e|^2)`.
        """
        square = self._squared_distances(X, self.means, self.axes, self.offsets)
        return np.asarray(self.log_scales - 0.5 * np.maximum(square, 0.0) / self.isotropic)

    def _squared_distances(
        self, X: AnyArray, means: AnyArray, axes: AnyArray, offsets: AnyArray
    ) -> AnyArray:
        """Return |e|² - |K e|² of each sample and class, in the precision of the arguments."""
        shared = self._shared_classes()
        square = np.einsum("ij,ij->i", means, means) - 2 * (X @ means.T)
        square += np.einsum("ij,ij->i", X, X)[:, None]
        n_own = self.starts[-2] if len(shared) else self.starts[-1]
        if n_own:
            along = X @ axes[:n_own].T
            along -= offsets[:n_own]
            along *= along
            own = np.ones(self.n_classes, bool)
            own[shared] = False
            filled = np.flatnonzero(own & (self.ranks > 0))
            filled = filled[np.argsort(self.blocks[filled], kind="stable")]
            # Without a copy of `square` if all classes have axes.
            whole = np.array_equal(filled, np.arange(self.n_classes))
            target = slice(None) if whole else filled
            rank = n_own // len(filled)
            if rank <= FEW_AXES and (self.ranks[filled] == rank).all():
                for k in range(rank):  # sums of short segments are slow
                    square[:, target] -= along[:, k::rank]
            else:
                square[:, target] -= np.add.reduceat(
                    along, self.starts[self.blocks[filled]], axis=1
                )
        if len(shared) and n_own < len(axes):
            K = axes[n_own:]
            x, mu = X @ K.T, means[shared] @ K.T
            inside = np.einsum("ij,ij->i", x, x)[:, None] + np.einsum("ij,ij->i", mu, mu)
            square[:, shared] -= inside - 2 * (x @ mu.T)
        return np.asarray(square)

    def screen(self, single: SinglePrecision, X: FloatArray) -> tuple[AnyArray, FloatArray]:
        r"""Return log-densities in float32, and a bound on their error for each sample.

        A product of length D in float32 has a relative error of about :math:`\sqrt D\,\epsilon`.

        Parameters
        ----------
        single : SinglePrecision
            The same models in float32.
        X : ndarray of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        log_density : ndarray of shape (n_samples, n_classes), dtype float32
            Log-densities.
        error : ndarray of shape (n_samples,)
            Bound on their absolute error.
        """
        x = X.astype(np.float32)
        square = self._squared_distances(x, single.means, single.axes, single.offsets)
        np.maximum(square, 0.0, out=square)
        square *= single.half_precision
        square += single.log_scales
        reach = np.sqrt(np.einsum("ij,ij->i", X, X)) + single.reach
        unit = 4 * np.sqrt(X.shape[1]) * float(np.finfo(np.float32).eps)
        return square, unit * reach**2 / float(self.isotropic.min())

    def pair_log_density(self, X: FloatArray, samples: IntArray, classes: IntArray) -> FloatArray:
        """Return the log-densities of pairs of a sample and a class, shape (n_pairs,)."""
        e = X[samples] - self.means[classes]
        square = np.einsum("ij,ij->i", e, e)
        ranks = self.ranks[classes]
        pair = np.repeat(np.arange(len(classes)), ranks)
        first = np.repeat(self.starts[self.blocks[classes]], ranks)
        within = np.arange(len(pair)) - np.repeat(np.cumsum(ranks) - ranks, ranks)
        along = np.einsum("ij,ij->i", self.axes[first + within], e[pair])
        square -= np.bincount(pair, along**2, minlength=len(classes))
        scale = self.isotropic[classes]
        return np.asarray(self.log_scales[classes] - 0.5 * np.maximum(square, 0.0) / scale)

    def _shared_classes(self) -> IntArray:
        """Return the classes of the last block if there are several, otherwise none."""
        last = np.flatnonzero(self.blocks == len(self.starts) - 2)
        return last if len(last) > 1 else last[:0]

    def scaled_residuals(self, X: FloatArray, c: int) -> FloatArray:
        r"""Return the vectors :math:`P_c(x - \mu_c)` of one class, one per sample."""
        e, K = X - self.means[c], self.class_axes(c)
        return np.asarray((e - (e @ K.T) @ K) / self.isotropic[c])

    def weighted_curvature(self, X: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the sum over classes of w_c G_c, shape (n_samples, n_features, n_features).

        Classes of weight zero cost nothing.
        """
        n_features = X.shape[1]
        total = np.zeros((len(X), n_features, n_features))
        diagonal = np.einsum("nii->ni", total)
        for c in np.flatnonzero(weights.any(axis=0)).tolist():
            rows = np.flatnonzero(weights[:, c])
            w = weights[rows, c]
            v, K = self.scaled_residuals(X[rows], c), self.class_axes(c)
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


def fit_low_rank_gaussians(
    stats: FactoredStatistics,
    *,
    shrinkage: Shrinkage = "auto",
    classes: AnyArray | None = None,
    stand_in: FloatArray | None = None,
) -> LowRankGaussians:
    r"""Fit one Gaussian per class from factored statistics.

    The covariances are those of :func:`~genmetric.density.fit_gaussians`, :math:`b_c I + a_c F_c^T
    F_c / n_c` with the numbers of :func:`~genmetric.density._covariance.covariance_terms`, with the
    same floor, and the same stand-in for classes with a single sample.

    Parameters
    ----------
    stats : FactoredStatistics
        Moments of the classes.
    shrinkage : None, "auto" or float, default="auto"
        See :func:`~genmetric.density.fit_gaussians`.
    classes : ndarray of shape (n_classes,), default=None
        Class names for warnings.
    stand_in : ndarray of shape (n_features, n_features), default=None
        Covariance of classes with a single sample or no scatter; None for the pooled within-class
        covariance, shrunk as those of the classes. A matrix states that the pooled covariance is
        known, the identity of whitened coordinates: classes with few samples shrink towards it.

    Returns
    -------
    LowRankGaussians
        The class models.
    """
    n_classes, n_features = stats.mean.shape
    if not (np.isfinite(stats.mean).all() and np.isfinite(stats.factors).all()):
        raise ValueError(
            "A class mean or covariance is not finite. Check X for values near the limits of its "
            "dtype."
        )
    own, isotropic = covariance_terms(stats, shrinkage, whitened=stand_in is not None)
    pooled = stand_in_covariance(stats)
    floor = EIGENVALUE_FLOOR * float(np.trace(pooled)) / n_features
    alpha = np.maximum(isotropic, floor)
    flat = warn_degenerate(stats, classes)
    raised = np.zeros(n_classes, np.intp)
    blocks, log_det = np.zeros(n_classes, np.intp), np.zeros(n_classes)
    rows: list[FloatArray] = []
    for c in np.flatnonzero(~flat):
        F = stats.factors[stats.starts[c] : stats.starts[c + 1]]
        _, singular, vectors = np.linalg.svd(F, full_matrices=False)
        spread = own[c] / stats.count[c] * singular**2
        raised[c] = np.count_nonzero(isotropic[c] + spread < floor)
        raised[c] += (n_features - len(spread)) * (isotropic[c] < floor)
        variances = np.maximum(isotropic[c] + spread, floor)
        K, log_det[c] = _scaled_axes(vectors, variances, alpha[c])
        blocks[c] = len(rows)
        rows.append(K)
    warn_floored(raised, pooled)
    if flat.any():
        covariance = stand_in_covariance(stats, shrinkage) if stand_in is None else stand_in
        variances, columns = np.linalg.eigh(covariance)
        variances = np.maximum(variances, floor)
        alpha[flat] = variances[0]
        K, log_det[flat] = _scaled_axes(columns.T, variances, variances[0])
        blocks[flat] = len(rows)
        rows.append(K)
    sizes = [len(block) for block in rows]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    log_det += n_features * np.log(alpha)
    log_scales = -0.5 * (n_features * np.log(2 * np.pi) + log_det)
    axes = np.concatenate(rows)
    owner = np.zeros(len(sizes), np.intp)
    owner[blocks] = np.arange(n_classes)
    offsets = np.concatenate([K @ stats.mean[c] for K, c in zip(rows, owner, strict=True)])
    return LowRankGaussians(stats.mean, axes, starts, blocks, alpha, log_scales, offsets)


def _scaled_axes(
    vectors: FloatArray, variances: FloatArray, isotropic: float
) -> tuple[FloatArray, float]:
    """Return the rows of the matrix K, and the log-determinant relative to the isotropic part."""
    gain = (variances - isotropic) / variances
    some = gain > RANK_TOL
    K = vectors[some] * np.sqrt(gain[some])[:, None]
    return K, float(np.log(variances / isotropic).sum())
