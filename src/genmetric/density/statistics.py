"""Coordinates of a fit, and class statistics: mergeable sums that make Gaussian class models.

Local metrics are normalised, so they do not change if all features are shifted or multiplied by one
number. In coordinates in which the samples have mean zero and size about one, squares and inverses
are accurate for data of size 1e-100 or 1e100 and for offsets of 1e10.

A Gaussian class model needs only sums over samples. Batches from disk, chunks in threads and blocks
on a cluster are therefore processed in the same way: the statistics of each part, merged. Moments
are centred at the class means, because sums of ``x`` and ``x xᵀ`` lose all digits if the data have
a large offset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy.sparse import csr_array

from genmetric._parallel import map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import rows_by_class

#: Largest absolute value, and smallest root mean square spread: squares of other values, times a
#: few powers of ten, would overflow or underflow.
MAX_VALUE, MIN_SPREAD = 1e100, 1e-140

#: Largest entry of a factor L, whose squares make the metric.
MAX_FACTOR = 1e150


@dataclass(frozen=True)
class Coordinates:
    """A shift, a scale and possibly a linear map: ``(x - center) / scale @ axes``.

    Attributes
    ----------
    center : ndarray of shape (n_features,)
        Subtracted from every sample.
    scale : float
        A power of two, so the division is exact.
    axes : ndarray of shape (n_features, n_features), default=None
        The linear map; ``None`` for the identity. See
        :func:`~genmetric.density.gaussian.pooled_whitening`.
    inverse : ndarray of shape (n_features, n_features), default=None
        Inverse of `axes`.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.density import Coordinates
    >>> X = 1e10 + np.array([[1.0, 2.0], [3.0, 6.0]])
    >>> Coordinates.of(X).apply(X)
    array([[-0.5, -1. ],
           [ 0.5,  1. ]])
    """

    center: FloatArray
    scale: float
    axes: FloatArray | None = None
    inverse: FloatArray | None = None

    @classmethod
    def of(cls, X: AnyArray) -> Coordinates:
        """Compute the coordinates of samples: their mean, and a power of two near their spread.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Finite samples.

        Returns
        -------
        Coordinates
            Without axes. Values beyond 1e100, or a spread below 1e-140, raise a ValueError.
        """
        low, high = X.min(axis=0).astype(float), X.max(axis=0).astype(float)
        largest = max(high.max(), -low.min())
        if largest > MAX_VALUE:
            raise ValueError(
                f"X has values up to {largest:.1e}, whose squares overflow float64; expected at most "
                f"{MAX_VALUE:g}. Divide X by a constant first."
            )
        middle = low / 2 + high / 2
        reach = float((high / 2 - low / 2).max())
        if reach == 0:
            return cls(middle, 1.0)
        total, square = np.zeros(X.shape[1]), 0.0
        for rows in row_chunks(len(X), 16 * X.shape[1]):
            e = np.subtract(X[rows], middle, dtype=float) / reach
            total += e.sum(axis=0)
            square += float(np.einsum("ij,ij->", e, e))
        mean = total / len(X)
        spread = reach * np.sqrt(max(square / len(X) - mean @ mean, 0.0) / X.shape[1])
        if spread < MIN_SPREAD:
            raise ValueError(
                f"The features have a spread of about {spread:.1e}, and squares of values this small "
                f"underflow float64; expected at least {MIN_SPREAD:g}. Multiply X by a constant first."
            )
        return cls(middle + reach * mean, float(2.0 ** np.round(np.log2(spread))))

    def apply(self, X: AnyArray) -> FloatArray:
        """Return samples in these coordinates, float64."""
        x: FloatArray = np.subtract(X, self.center, dtype=float)
        x /= self.scale
        return x if self.axes is None else x @ self.axes

    def restore(self, Z: FloatArray) -> FloatArray:
        """Return points of these coordinates in input space."""
        inside = Z if self.inverse is None else Z @ self.inverse
        return np.asarray(self.center + self.scale * inside)

    def restore_covariances(self, covariances: FloatArray) -> FloatArray:
        """Return covariances of these coordinates in input space."""
        if self.inverse is not None:
            covariances = self.inverse.T @ covariances @ self.inverse
        return np.asarray(self.scale**2 * covariances)

    def restore_metrics(self, metrics: FloatArray) -> FloatArray:
        r"""Return metrics in input space: :math:`A M A^T`, with the scale in A.

        Without axes they do not change, since a common scale of all features does not matter.
        """
        if self.axes is None:
            return metrics
        axes = self.axes / self.scale
        restored = axes @ metrics @ axes.T
        return np.asarray((restored + np.swapaxes(restored, -1, -2)) / 2)  # exactly symmetric

    def restore_factor(self, factor: FloatArray) -> FloatArray:
        """Return the factor L of a metric in input space."""
        if self.axes is None:
            return factor
        with np.errstate(over="ignore", invalid="ignore"):
            restored = factor @ (self.axes / self.scale).T
            size = float(np.abs(restored).max())
        if not size < MAX_FACTOR:
            raise ValueError(
                "The metric overflows float64 in the units of X: the spread of some feature within "
                "the classes is too small. Multiply X, or this feature, by a constant first."
            )
        return np.asarray(restored)

    def apply_metric(self, metric: FloatArray) -> FloatArray:
        """Return a metric of input space in these coordinates."""
        if self.inverse is None:
            return metric
        inverse = self.inverse * self.scale
        return np.asarray(inverse @ metric @ inverse.T)

    @property
    def unit(self) -> float:
        """Distance in input space of one unit of these coordinates, under a metric learned here."""
        return self.scale if self.axes is None else 1.0

    @property
    def log_unit(self) -> float:
        """Logarithm of the unit of length in the bias.

        The bias has the dimension of a density times a curvature, length to the power -(D + 2).
        """
        log_scale = float(np.log(self.scale))
        if self.axes is None:
            return log_scale
        n_features = len(self.axes)
        log_det = float(np.linalg.slogdet(self.axes)[1])
        return (n_features * log_scale - log_det) / (n_features + 2)


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
        Sum of ``e eᵀ``. In pooled statistics, which leave out `third` and `fourth`, one matrix: the
        sum over all classes, of shape (1, n_features, n_features).
    third : ndarray of shape (n_classes, n_features)
        Sum of ``|e|² e``; needed to merge `fourth`.
    fourth : ndarray of shape (n_classes,)
        Sum of ``|e|⁴``, which the Ledoit-Wolf shrinkage needs.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.density import class_statistics
    >>> X, codes = np.random.default_rng(0).normal(size=(6, 2)), np.array([0, 1, 0, 1, 0, 1])
    >>> first, second = class_statistics(X[:3], codes[:3], 2), class_statistics(X[3:], codes[3:], 2)
    >>> bool(np.allclose(first.merge(second).scatter, class_statistics(X, codes, 2).scatter))
    True
    """

    count: FloatArray
    mean: FloatArray
    scatter: FloatArray
    third: FloatArray
    fourth: FloatArray

    @property
    def is_pooled(self) -> bool:
        """Whether there is one scatter of all classes together."""
        return len(self.third) < len(self.count)

    def merge(self, other: ClassStatistics) -> ClassStatistics:
        """Return the statistics of the samples of both, of the same classes and coordinates."""
        count = self.count + other.count
        share = np.divide(other.count, count, out=np.zeros_like(count), where=count > 0)
        difference = other.mean - self.mean
        mean = self.mean + share[:, None] * difference
        if self.is_pooled:
            e = difference * np.sqrt(self.count * share)[:, None]
            scatter = self.scatter + other.scatter + e.T @ e
            return ClassStatistics(count, mean, scatter, self.third, self.fourth)
        moments = zip(self._moments_about(mean), other._moments_about(mean), strict=True)
        return ClassStatistics(count, mean, *(a + b for a, b in moments))

    def _moments_about(self, center: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return scatter, third and fourth moments about a centre other than the mean."""
        d = np.where(self.count[:, None] > 0, self.mean - center, 0.0)
        d2 = np.einsum("cj,cj->c", d, d)
        spread = np.trace(self.scatter, axis1=1, axis2=2)
        scatter_d = np.einsum("cij,cj->ci", self.scatter, d)
        scatter = self.scatter + self.count[:, None, None] * d[:, :, None] * d[:, None, :]
        third = self.third + 2 * scatter_d + (spread + self.count * d2)[:, None] * d
        along = np.einsum("cj,cj->c", self.third + scatter_d, d)
        return scatter, third, self.fourth + 4 * along + 2 * d2 * spread + self.count * d2**2

    def take(self, classes: IntArray) -> ClassStatistics:
        """Return the statistics of some classes; pooled ones lose classes without samples only."""
        return self._for_each(lambda values: values[classes])

    def place(self, places: IntArray, n_classes: int) -> ClassStatistics:
        """Embed these statistics in a larger set of classes; other classes get count zero."""

        def placed(values: FloatArray) -> FloatArray:
            wide = np.zeros((n_classes, *values.shape[1:]))
            wide[places] = values
            return wide

        return self._for_each(placed)

    def _for_each(self, function: Callable[[FloatArray], FloatArray]) -> ClassStatistics:
        """Apply a function to each array that has one entry per class."""
        arrays = [self.count, self.mean, self.scatter, self.third, self.fourth]
        n_arrays = 2 if self.is_pooled else len(arrays)
        return ClassStatistics(*map(function, arrays[:n_arrays]), *arrays[n_arrays:])

    def moved(self, source: Coordinates, target: Coordinates) -> ClassStatistics:
        """Return the statistics in other coordinates.

        If `target` has axes, the third and fourth moments do not follow from those before the map
        and are zero: see :func:`fourth_moments`.

        Parameters
        ----------
        source : Coordinates
            Coordinates of these statistics, without axes.
        target : Coordinates
            Coordinates of the result.

        Returns
        -------
        ClassStatistics
            Statistics of the same samples.
        """
        moments = [self.mean, self.scatter, self.third, self.fourth]
        for k in range(4):
            # One factor at a time: its fourth power may overflow where the moment is zero.
            moments[k:] = [moment * (source.scale / target.scale) for moment in moments[k:]]
        mean, scatter, third, fourth = moments
        shift = (source.center - target.center) / target.scale
        mean = np.where(self.count[:, None] > 0, mean + shift, 0.0)
        if target.axes is not None:
            mean, scatter = mean @ target.axes, target.axes.T @ scatter @ target.axes
            third, fourth = np.zeros_like(third), np.zeros_like(fourth)
        return ClassStatistics(self.count, mean, scatter, third, fourth)

    @property
    def covariances(self) -> FloatArray:
        """Maximum-likelihood covariances, shape (n_classes, n_features, n_features)."""
        return self.scatter / np.maximum(self.count, np.finfo(float).tiny)[:, None, None]

    @property
    def moments(self) -> FloatArray:
        """Count, trace and squared norm of the covariance, fourth moment; shape (4, n_classes)."""
        cov = self.covariances
        traces, squares = np.einsum("cii->c", cov), np.einsum("cij,cij->c", cov, cov)
        return np.stack([self.count, traces, squares, self.fourth])

    @property
    def pooled_covariance(self) -> FloatArray:
        """Within-class covariance of all classes together, shape (n_features, n_features)."""
        return np.asarray(self.scatter.sum(axis=0) / self.count.sum())

    @property
    def total_covariance(self) -> FloatArray:
        """Covariance of all samples about their common mean, shape (n_features, n_features)."""
        e = self.mean - (self.count @ self.mean) / self.count.sum()
        between = (e * self.count[:, None]).T @ e / self.count.sum()
        return np.asarray(self.pooled_covariance + between)


def class_statistics(
    X: AnyArray,
    codes: IntArray,
    n_classes: int,
    *,
    coordinates: Coordinates | None = None,
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
    coordinates : Coordinates, default=None
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
    inside = Coordinates(np.zeros(n_features), 1.0) if coordinates is None else coordinates

    def of_chunk(rows: slice) -> ClassStatistics:
        x, some = inside.apply(X[rows]), codes[rows]
        shapes: tuple[tuple[int, ...], ...] = ((), x.shape[1:], 2 * x.shape[1:], x.shape[1:], ())
        stats = ClassStatistics(*(np.zeros((n_classes, *shape)) for shape in shapes))
        for c, own in enumerate(rows_by_class(some, n_classes)):
            w = np.ones(len(own)) if sample_weight is None else sample_weight[rows][own]
            total = w.sum()
            if total <= 0:
                continue
            e = x.take(own, axis=0)
            for _ in range(2):  # the second step removes the mean that rounding leaves
                shift = (w @ e) / total
                stats.mean[c] += shift
                e -= shift
            norm2 = np.einsum("ij,ij->i", e, e)
            stats.count[c] = total
            # Without weights the product with its own transpose, at half the cost.
            stats.scatter[c] = (e if sample_weight is None else e * w[:, None]).T @ e
            stats.third[c] = (w * norm2) @ e
            stats.fourth[c] = w @ norm2**2
        return stats

    # A chunk should stay in the cache; but a merge costs one pass over the scatters, so it should
    # be longer than all of them.
    chunks = row_chunks(len(X), 32 * n_features, budget=max(2**23, 128 * n_classes * n_features**2))
    return reduce(ClassStatistics.merge, map_chunks(of_chunk, chunks, n_jobs))


def pooled_statistics(
    X: AnyArray,
    codes: IntArray,
    n_classes: int,
    *,
    coordinates: Coordinates | None = None,
    sample_weight: FloatArray | None = None,
    n_jobs: int | None = None,
) -> ClassStatistics:
    """Compute class statistics with one scatter of all classes together, in O(C·D + D²) memory.

    Parameters
    ----------
    X, codes, n_classes, coordinates, sample_weight, n_jobs
        As of :func:`class_statistics`.

    Returns
    -------
    ClassStatistics
        Pooled statistics, without third and fourth moments.
    """
    n_features = X.shape[1]
    inside = Coordinates(np.zeros(n_features), 1.0) if coordinates is None else coordinates
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    chunks = row_chunks(len(X), 24 * n_features, budget=2**23)
    count = np.bincount(codes, weight, minlength=n_classes).astype(float)
    share = weight / np.maximum(count, np.finfo(float).tiny)[codes]

    def means_of_chunk(rows: slice) -> FloatArray:
        c = codes[rows]
        averaging = csr_array((share[rows], (c, np.arange(len(c)))), (n_classes, len(c)))
        return np.asarray(averaging @ inside.apply(X[rows]))

    mean = reduce(np.add, map_chunks(means_of_chunk, chunks, n_jobs))

    def scatter_of_chunk(rows: slice) -> FloatArray:
        e = (inside.apply(X[rows]) - mean[codes[rows]]) * np.sqrt(weight[rows])[:, None]
        return np.asarray(e.T @ e)

    scatter = reduce(np.add, map_chunks(scatter_of_chunk, chunks, n_jobs))
    return ClassStatistics(count, mean, scatter[None], mean[:0], count[:0])


def fourth_moments(
    X: AnyArray,
    codes: IntArray,
    means: FloatArray,
    coordinates: Coordinates,
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
        Class means in `coordinates`.
    coordinates : Coordinates
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
        e = coordinates.apply(X[rows]) - means[codes[rows]]
        fourth = np.einsum("ij,ij->i", e, e) ** 2
        if sample_weight is not None:
            fourth *= sample_weight[rows]
        return np.bincount(codes[rows], fourth, minlength=len(means)).astype(float)

    chunks = row_chunks(len(X), 48 * X.shape[1], budget=2**23)
    return reduce(np.add, map_chunks(of_chunk, chunks, n_jobs))
