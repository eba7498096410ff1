"""Whitening by the pooled within-class covariance: the coordinates of ``base="pooled"``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density._covariance import EIGENVALUE_FLOOR, shrink
from genmetric.density._factored_statistics import AnyStatistics, Statistics
from genmetric.density._scaling import Scaling


@dataclass(frozen=True)
class Whitening(Scaling):
    """A shift, a scale and a linear map: ``(x - center) / scale @ axes``.

    Attributes
    ----------
    axes : ndarray of shape (n_features, n_features)
        The linear map A, so that the pooled within-class covariance of ``z = x A`` is the identity.
    inverse : ndarray of shape (n_features, n_features)
        Inverse of `axes`.
    """

    axes: FloatArray
    inverse: FloatArray

    def apply(self, X: AnyArray) -> FloatArray:
        """Return samples in the whitened coordinates, float64."""
        return super().apply(X) @ self.axes

    @property
    def unit(self) -> float:
        """Distance in input space of one unit of these coordinates: one, since distances agree."""
        return 1.0

    @property
    def log_unit(self) -> float:
        """Logarithm of the unit of length in the bias: see :attr:`Scaling.log_unit`."""
        n_features = len(self.axes)
        log_det = float(np.linalg.slogdet(self.axes)[1])
        return (n_features * float(np.log(self.scale)) - log_det) / (n_features + 2)

    def restore(self, Z: FloatArray) -> FloatArray:
        """Return points of the whitened coordinates in input space."""
        return super().restore(Z @ self.inverse)

    def restore_covariances(self, covariances: FloatArray) -> FloatArray:
        """Return covariances of the whitened coordinates in input space."""
        return super().restore_covariances(self.inverse.T @ covariances @ self.inverse)

    def restore_metrics(self, metrics: FloatArray) -> FloatArray:
        r"""Return metrics in input space: :math:`A M A^T`, with the scale in A."""
        axes = self.axes / self.scale
        restored = axes @ metrics @ axes.T
        return np.asarray((restored + np.swapaxes(restored, -1, -2)) / 2)  # exactly symmetric

    def restore_factor(self, factor: FloatArray) -> FloatArray:
        """Return the factor L of a metric in input space."""
        return np.asarray(factor @ (self.axes / self.scale).T)

    def apply_metric(self, metric: FloatArray) -> FloatArray:
        """Return a metric of input space in the whitened coordinates."""
        inverse = self.inverse * self.scale
        return np.asarray(inverse @ metric @ inverse.T)

    def transform_statistics(self, stats: Statistics) -> Statistics:
        """Return class statistics in these coordinates, without third and fourth moments.

        The fourth moments, which Ledoit-Wolf shrinkage needs, do not follow from the statistics
        before the map: see :func:`fourth_moments`.
        """
        return cast("Statistics", stats.mapped(self.axes))


def correlation_shrinkage(correlation: FloatArray, n_samples: float) -> float:
    r"""Return the Rao-Blackwellised Ledoit-Wolf shrinkage of a correlation matrix.

    For n Gaussian samples with covariance S in D dimensions it is the conditional expectation of
    the Ledoit-Wolf shrinkage given S, so that no fourth moment is needed:

    .. math:: s = \min\left(1, \frac{\frac{n-2}{n} \mathrm{tr} S^2 + (\mathrm{tr} S)^2}
                                    {(n+2)\,(\mathrm{tr} S^2 - (\mathrm{tr} S)^2 / D)}\right).

    Parameters
    ----------
    correlation : ndarray of shape (n_features, n_features)
        The matrix S.
    n_samples : float
        Number n of samples, less the number of class means that were estimated.

    Returns
    -------
    float
        Shrinkage in [0, 1]. It falls as 1/n.

    References
    ----------
    Y. Chen, A. Wiesel, Y. C. Eldar and A. O. Hero, Shrinkage algorithms for MMSE covariance
    estimation, IEEE Transactions on Signal Processing 58 (2010).
    """
    square = float(np.einsum("ij,ij->", correlation, correlation))
    trace2 = float(np.trace(correlation)) ** 2
    off_identity = square - trace2 / len(correlation)
    if n_samples <= 2 or off_identity <= 1e-14 * square:
        return 1.0
    noise = (n_samples - 2) / n_samples * square + trace2
    return min(1.0, noise / ((n_samples + 2) * off_identity))


def pooled_whitening(stats: AnyStatistics, frame: Scaling) -> Whitening:
    r"""Return the whitening of the pooled within-class covariance, shrunk as a correlation.

    With :math:`d_j` the pooled within-class standard deviation of feature j and R the pooled
    correlation matrix, shrunk by :func:`correlation_shrinkage`, the map is
    :math:`A = \mathrm{diag}(1/d)\, R^{-1/2}`. A change of the units of single features changes d
    only, so that ``z = x A`` does not depend on them. A feature that is constant within every class
    has no within-class scale: its total standard deviation takes the place of d.

    Parameters
    ----------
    stats : ClassStatistics
        Moments of the classes, in the coordinates of `frame`.
    frame : Scaling
        Shift and scale that come before the linear map.

    Returns
    -------
    Whitening
        The coordinates.
    """
    pooled, total = stats.pooled_covariance, np.diag(stats.total_covariance)
    variance = np.diag(pooled)
    constant = variance <= EIGENVALUE_FLOOR * total
    deviation = np.sqrt(np.where(constant, total, variance))
    # Rounding leaves about eps of the largest variance in a feature that is constant.
    deviation[total <= 1e-30 * total.max(initial=0.0)] = 1.0
    correlation = pooled / np.outer(deviation, deviation)
    correlation[constant, :] = correlation[:, constant] = 0.0
    correlation[constant, constant] = 1.0
    n_samples = float(stats.count.sum()) - np.count_nonzero(stats.count)
    correlation = shrink(correlation, correlation_shrinkage(correlation, n_samples))
    eigenvalues, vectors = np.linalg.eigh(correlation)
    roots = np.sqrt(np.maximum(eigenvalues, EIGENVALUE_FLOOR))
    axes = (vectors / roots) @ vectors.T / deviation[:, None]
    inverse = (vectors * roots) @ vectors.T * deviation
    return Whitening(frame.center, frame.scale, axes, inverse)


def fourth_moments(
    X: AnyArray,
    codes: IntArray,
    means: FloatArray,
    frame: Scaling,
    *,
    sample_weight: FloatArray | None = None,
    n_jobs: int | None = None,
) -> FloatArray:
    r"""Return the sum of :math:`|e|^4` of each class, with e the distance to its mean.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples in input space.
    codes : ndarray of shape (n_samples,)
        Class of each sample.
    means : ndarray of shape (n_classes, n_features)
        Class means, in the coordinates of `frame`.
    frame : Scaling
        Coordinates in which to measure.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequencies of the samples.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    ndarray of shape (n_classes,)
        Sums over the samples of each class; sums over batches add up.
    """

    def of_chunk(rows: slice) -> FloatArray:
        e = frame.apply(X[rows]) - means[codes[rows]]
        fourth = np.einsum("ij,ij->i", e, e) ** 2
        if sample_weight is not None:
            fourth *= sample_weight[rows]
        return np.bincount(codes[rows], fourth, minlength=len(means)).astype(float)

    chunks = row_chunks(len(X), 48 * X.shape[1], budget=2**23)
    return np.asarray(np.sum(list(map_chunks(of_chunk, chunks, n_jobs)), axis=0))
