"""Class statistics: mergeable sums from which Gaussian class models are computed.

A Gaussian class model needs only sums over samples. Batches from disk, chunks in threads and blocks
on a cluster are therefore processed in the same way: :meth:`ClassStatistics.from_rows` for each
part and :meth:`ClassStatistics.merge` to combine parts. Moments are centred at the class means,
because sums of ``x`` and ``x xᵀ`` lose all digits if the data have a large offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import reduce

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._memory import check_memory
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import rows_by_class
from genmetric.density._scaling import Scaling

#: Size above which it is compared with the available memory.
CHECKED_BYTES = 2**28


@dataclass(frozen=True)
class ClassStatistics:
    """Weighted count, mean and centred moments of each class.

    With ``e = x - mean`` for the samples of a class, each counted with its weight:

    Attributes
    ----------
    count : ndarray of shape (n_classes,)
        Sum of the weights.
    mean : ndarray of shape (n_classes, n_features)
        Class means; zero for a class without samples.
    scatter : ndarray of shape (n_classes, n_features, n_features)
        Sum of ``e eᵀ``.
    third : ndarray of shape (n_classes, n_features)
        Sum of ``|e|² e``; needed to merge `fourth`.
    fourth : ndarray of shape (n_classes,)
        Sum of ``|e|⁴``, which the Ledoit-Wolf shrinkage needs.
    """

    count: FloatArray
    mean: FloatArray
    scatter: FloatArray
    third: FloatArray
    fourth: FloatArray

    @classmethod
    def from_rows(
        cls,
        X: FloatArray,
        codes: IntArray,
        n_classes: int,
        sample_weight: FloatArray | None = None,
    ) -> ClassStatistics:
        """Compute the statistics of the samples of `X`; `codes` has their classes."""
        n_features = X.shape[1]
        stats = cls(
            np.zeros(n_classes),
            np.zeros((n_classes, n_features)),
            np.zeros((n_classes, n_features, n_features)),
            np.zeros((n_classes, n_features)),
            np.zeros(n_classes),
        )
        for c, rows in enumerate(rows_by_class(codes, n_classes)):
            if not len(rows):
                continue
            e = X.take(rows, axis=0)
            w = np.ones(len(e)) if sample_weight is None else sample_weight[rows]
            total = w.sum()
            if total <= 0:
                continue
            mean = (w @ e) / total
            e -= mean
            # One correction step: the rounding of a large common offset leaves a small mean in e.
            shift = (w @ e) / total
            e -= shift
            norm2 = np.einsum("ij,ij->i", e, e)
            stats.count[c] = total
            stats.mean[c] = mean + shift
            # Without weights the product with its own transpose, at half the cost.
            stats.scatter[c] = (e if sample_weight is None else e * w[:, None]).T @ e
            stats.third[c] = (w * norm2) @ e
            stats.fourth[c] = w @ norm2**2
        return stats

    def merge(self, other: ClassStatistics) -> ClassStatistics:
        """Return the statistics of the samples of both."""
        count = self.count + other.count
        share = np.divide(other.count, count, out=np.zeros_like(count), where=count > 0)
        mean = self.mean + share[:, None] * (other.mean - self.mean)
        moved = [s._about(mean) for s in (self, other)]
        scatter, third, fourth = (a + b for a, b in zip(*moved, strict=True))
        return ClassStatistics(count, mean, scatter, third, fourth)

    def take(self, classes: IntArray) -> ClassStatistics:
        """Return the statistics of some of the classes."""
        return ClassStatistics(*(getattr(self, name)[classes] for name in _FIELDS))

    def spread(self, places: IntArray, n_classes: int) -> ClassStatistics:
        """Embed these statistics in a larger set of classes; missing classes get count zero."""
        spread = []
        for name in _FIELDS:
            values = getattr(self, name)
            wide = np.zeros((n_classes, *values.shape[1:]))
            wide[places] = values
            spread.append(wide)
        return ClassStatistics(*spread)

    def mapped(self, axes: FloatArray) -> ClassStatistics:
        """Return the statistics of ``x @ axes``, without third and fourth moments."""
        return ClassStatistics(
            self.count,
            self.mean @ axes,
            axes.T @ self.scatter @ axes,
            np.zeros_like(self.third),
            np.zeros_like(self.fourth),
        )

    def rescaled(self, factor: float) -> ClassStatistics:
        """Return the statistics of the samples times a factor; exact for a power of two."""
        if factor == 1:
            return self
        moments = [getattr(self, name) for name in _FIELDS]
        for k in range(1, len(moments)):
            # One factor at a time: its fourth power may overflow where the moment is zero.
            moments[k:] = [moment * factor for moment in moments[k:]]
        return ClassStatistics(*moments)

    def _about(self, center: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return scatter, third and fourth moments about a centre other than the mean."""
        d = np.where(self.count[:, None] > 0, self.mean - center, 0.0)
        spread = np.trace(self.scatter, axis1=1, axis2=2)
        scatter_d = np.einsum("cij,cj->ci", self.scatter, d)
        scatter = self.scatter + self.count[:, None, None] * d[:, :, None] * d[:, None, :]
        higher = higher_moments_about(d, self.count, spread, scatter_d, self.third, self.fourth)
        return scatter, *higher

    @property
    def covariances(self) -> FloatArray:
        """Maximum-likelihood covariances, shape (n_classes, n_features, n_features)."""
        return self.scatter / np.maximum(self.count, np.finfo(float).tiny)[:, None, None]

    @property
    def traces(self) -> FloatArray:
        """Trace of the maximum-likelihood covariance of each class, shape (n_classes,)."""
        return np.asarray(np.trace(self.covariances, axis1=1, axis2=2))

    @property
    def squares(self) -> FloatArray:
        """Squared Frobenius norm of the covariance of each class, shape (n_classes,)."""
        cov = self.covariances
        return np.asarray(np.einsum("cij,cij->c", cov, cov))

    @property
    def pooled_covariance(self) -> FloatArray:
        """Within-class covariance of all classes together, shape (n_features, n_features)."""
        return np.asarray(self.pooled().covariances[0])

    def pooled(self) -> ClassStatistics:
        """Return the statistics of all classes as one, each sample about the mean of its class."""
        moments = (self.scatter, self.third, self.fourth)
        return ClassStatistics(
            self.count.sum(keepdims=True),
            np.zeros((1, self.mean.shape[1])),
            *(moment.sum(axis=0, keepdims=True) for moment in moments),
        )

    @property
    def total_covariance(self) -> FloatArray:
        """Covariance of all samples about their common mean, shape (n_features, n_features)."""
        e = self.mean - (self.count @ self.mean) / self.count.sum()
        between = (e * self.count[:, None]).T @ e / self.count.sum()
        return np.asarray(self.pooled_covariance + between)

    @property
    def total_variance(self) -> float:
        """Trace of the covariance of all samples about their common mean."""
        return float(np.trace(self.total_covariance))

    @property
    def is_zero(self) -> bool:
        """Whether all samples are at the origin."""
        return not (self.mean.any() or self.scatter.any())


_FIELDS = tuple(field.name for field in fields(ClassStatistics))


def higher_moments_about(
    d: FloatArray,
    count: FloatArray,
    spread: FloatArray,
    scatter_d: FloatArray,
    third: FloatArray,
    fourth: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return third and fourth moments of classes about a centre other than the mean.

    With ``e = x - mean`` they are the sums of ``|e + d|² (e + d)`` and ``|e + d|⁴``, in which the
    sum of e is zero.

    Parameters
    ----------
    d : ndarray of shape (n_classes, n_features)
        Difference of the mean and the centre.
    count : ndarray of shape (n_classes,)
        Sums of the weights.
    spread : ndarray of shape (n_classes,)
        Traces of the scatter matrices.
    scatter_d : ndarray of shape (n_classes, n_features)
        Products of the scatter matrices with `d`.
    third : ndarray of shape (n_classes, n_features)
    fourth : ndarray of shape (n_classes,)
        Moments about the mean.

    Returns
    -------
    third : ndarray of shape (n_classes, n_features)
    fourth : ndarray of shape (n_classes,)
        Moments about the centre.
    """
    d2 = np.einsum("cj,cj->c", d, d)
    moved = third + 2 * scatter_d + (spread + count * d2)[:, None] * d
    fourth = (
        fourth
        + 4 * np.einsum("cj,cj->c", third, d)
        + 4 * np.einsum("cj,cj->c", scatter_d, d)
        + 2 * d2 * spread
        + count * d2**2
    )
    return moved, fourth


def merge_statistics(parts: Iterable[ClassStatistics]) -> ClassStatistics:
    """Merge statistics of the same classes, in order."""
    return reduce(ClassStatistics.merge, parts)


def class_statistics(
    X: AnyArray,
    codes: IntArray,
    n_classes: int,
    *,
    frame: Scaling | None = None,
    sample_weight: FloatArray | None = None,
    n_jobs: int | None = None,
) -> ClassStatistics:
    """Compute the class statistics of an array, chunk by chunk.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples; chunks are converted to float64 one at a time.
    codes : ndarray of shape (n_samples,)
        Class of each sample, in ``range(n_classes)``.
    n_classes : int
        Number of classes.
    frame : Scaling, default=None
        Coordinates of the statistics; ``None`` is input space.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequencies: weight 2 equals repeating the sample, weight 0 removes it.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    ClassStatistics
        Counts, means and centred moments.
    """
    n_features = X.shape[1]
    # Scatters, covariances and their eigenvectors.
    n_bytes = 24 * n_classes * n_features**2
    if n_bytes > CHECKED_BYTES:
        check_memory(
            n_bytes,
            f"The covariances of {n_classes} classes of {n_features} features",
            'Use fewer classes or features (PCA), or GenerativeMetric(base="pooled"), which does not '
            "store covariances of classes with few samples.",
        )

    def of_chunk(rows: slice) -> ClassStatistics:
        w = None if sample_weight is None else sample_weight[rows]
        x = np.asarray(X[rows], float) if frame is None else frame.apply(X[rows])
        return ClassStatistics.from_rows(x, codes[rows], n_classes, w)

    # A chunk should stay in the cache; but a merge costs one pass over the scatters, so it should
    # be longer than all of them.
    chunks = row_chunks(len(X), 32 * n_features, budget=max(2**23, 128 * n_classes * n_features**2))
    return merge_statistics(map_chunks(of_chunk, chunks, n_jobs))
