"""Class statistics of streams with many classes: scatter matrices of the large classes only.

The scatter of a class with fewer samples than features is the product of a matrix of few rows with
itself: its centred samples. Two such classes are merged by joining their rows and one more for the
difference of the means. A class with more rows than features has a scatter matrix instead, so that
all classes together need O(min(n, C·D)·D) memory, not O(C·D²), without any approximation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from genmetric._memory import check_memory
from genmetric._typing import AnyArray, BoolArray, FloatArray, IntArray
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import (
    CHECKED_BYTES,
    ClassStatistics,
    class_statistics,
    higher_moments_about,
)

#: Entries of all scatter matrices (32 MB) from which factors are considered.
MIN_SCATTER_ENTRIES = 2**22


def scatters_are_large(n_classes: int, n_features: int) -> bool:
    """Return whether one scatter matrix per class takes more memory than is spent without need."""
    return n_classes * n_features**2 >= MIN_SCATTER_ENTRIES


@dataclass(frozen=True)
class MixedStatistics:
    r"""Weighted count, mean and centred moments of each class; the scatter in one of two forms.

    With ``e = x - mean`` for the samples of a class, each counted with its weight:

    Attributes
    ----------
    count : ndarray of shape (n_classes,)
        Sum of the weights.
    mean : ndarray of shape (n_classes, n_features)
        Class means; zero for a class without samples.
    third : ndarray of shape (n_classes, n_features)
        Sum of ``|e|² e``; needed to merge `fourth`.
    fourth : ndarray of shape (n_classes,)
        Sum of ``|e|⁴``, which the Ledoit-Wolf shrinkage needs.
    factors : ndarray of shape (n_factors, n_features)
        Rows :math:`F_c` of the small classes, class by class, with :math:`F_c^T F_c` the scatter of
        the class. A class has at most as many rows as there are features.
    starts : ndarray of shape (n_classes + 1,)
        First row of each class in `factors`.
    large : ndarray of shape (n_large,)
        Classes that have a scatter matrix instead of rows, ascending.
    scatters : ndarray of shape (n_large, n_features, n_features)
        Their scatter matrices, the sums of ``e eᵀ``.
    """

    count: FloatArray
    mean: FloatArray
    third: FloatArray
    fourth: FloatArray
    factors: FloatArray
    starts: IntArray
    large: IntArray
    scatters: FloatArray

    @classmethod
    def of(
        cls,
        X: AnyArray,
        codes: IntArray,
        n_classes: int,
        *,
        frame: Scaling,
        sample_weight: FloatArray | None = None,
        n_jobs: int | None = None,
    ) -> MixedStatistics:
        """Compute the statistics of samples.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Samples in input space.
        codes : ndarray of shape (n_samples,)
            Class of each sample, in ``range(n_classes)``.
        n_classes : int
            Number of classes.
        frame : Scaling
            Coordinates of the statistics.
        sample_weight : ndarray of shape (n_samples,), default=None
            Frequencies: weight 2 equals repeating the sample.
        n_jobs : int, default=None
            Number of threads; the result is the same for every number.

        Returns
        -------
        MixedStatistics
            The statistics. The factor of a class is made of its centred samples times the roots of
            their weights.
        """
        n_features = X.shape[1]
        order = np.argsort(codes, kind="stable")
        if sample_weight is not None:
            order = order[sample_weight[order] > 0]
        sizes = np.bincount(codes[order], minlength=n_classes)
        is_large = sizes > n_features
        small = order[~is_large[codes[order]]]
        w = np.ones(len(small)) if sample_weight is None else sample_weight[small]
        e, own = frame.apply(X[small]), codes[small]
        present = np.flatnonzero((sizes > 0) & ~is_large)
        edges = np.concatenate([[0], np.cumsum(sizes[present])])
        count = np.asarray(np.bincount(own, w, minlength=n_classes), float)
        mean, third = np.zeros((n_classes, n_features)), np.zeros((n_classes, n_features))
        # The second step removes the mean that the rounding of a large offset leaves.
        for _ in range(2 if len(present) else 0):
            shift = np.add.reduceat(e * w[:, None], edges[:-1]) / count[present, None]
            mean[present] += shift
            e -= np.repeat(shift, sizes[present], axis=0)
        norm2 = np.einsum("ij,ij->i", e, e)
        fourth = np.asarray(np.bincount(own, w * norm2**2, minlength=n_classes), float)
        if len(present):
            third[present] = np.add.reduceat(e * (w * norm2)[:, None], edges[:-1])
        if sample_weight is not None:
            e *= np.sqrt(w)[:, None]
        # A single sample is its own mean: its row is zero.
        single = sizes[own] == 1
        if single.any():
            e = e[~single]
        large = np.flatnonzero(is_large)
        scatters = _empty_scatters(len(large), n_features)
        ends = np.cumsum(sizes)
        for i, c in enumerate(large.tolist()):
            rows = order[ends[c] - sizes[c] : ends[c]]
            weight = None if sample_weight is None else sample_weight[rows]
            zeros = np.zeros(len(rows), np.intp)
            stats = class_statistics(
                X[rows], zeros, 1, frame=frame, sample_weight=weight, n_jobs=n_jobs
            )
            count[c], mean[c], scatters[i] = stats.count[0], stats.mean[0], stats.scatter[0]
            third[c], fourth[c] = stats.third[0], stats.fourth[0]
        starts = _starts(np.where(is_large | (sizes == 1), 0, sizes))
        return cls(count, mean, third, fourth, e, starts, large, scatters)

    @classmethod
    def of_scatters(cls, stats: ClassStatistics) -> MixedStatistics:
        """Return statistics without weights in this form.

        The scatter of n samples has at most n - 1 eigenvalues above zero; the factor is
        made of their eigenvectors times the roots of the eigenvalues.
        """
        n_features = stats.mean.shape[1]
        is_large = stats.count > n_features
        sizes = np.where(is_large, 0, np.maximum(stats.count - 1, 0)).astype(np.intp)
        starts = _starts(sizes)
        factors = np.empty((starts[-1], n_features))
        for c in np.flatnonzero(sizes).tolist():
            factors[starts[c] : starts[c + 1]] = scatter_root(stats.scatter[c])[-sizes[c] :]
        large = np.flatnonzero(is_large)
        return cls(
            stats.count,
            stats.mean,
            stats.third,
            stats.fourth,
            factors,
            starts,
            large,
            stats.scatter[large],
        )

    def to_scatters(self) -> ClassStatistics:
        """Return the statistics with a scatter matrix for each class."""
        n_classes, n_features = self.mean.shape
        scatter = _empty_scatters(n_classes, n_features)
        for c in range(n_classes):
            scatter[c] = self.scatter_of(c)
        return ClassStatistics(self.count, self.mean, scatter, self.third, self.fourth)

    def scatter_of(self, c: int) -> FloatArray:
        """Return the scatter matrix of a class."""
        i = int(np.searchsorted(self.large, c))
        if i < len(self.large) and self.large[i] == c:
            return np.asarray(self.scatters[i])
        F = self.factors[self.starts[c] : self.starts[c + 1]]
        return F.T @ F

    def merge(self, other: MixedStatistics) -> MixedStatistics:
        r"""Return the statistics of the samples of both.

        For counts n and m the scatter is that of the rows of both and of one more row,
        :math:`\sqrt{nm/(n + m)}\,(\mu - \nu)`.
        """
        n_features = self.mean.shape[1]
        count = self.count + other.count
        share = np.divide(other.count, count, out=np.zeros_like(count), where=count > 0)
        difference = other.mean - self.mean
        mean = self.mean + share[:, None] * difference
        both = (self.count > 0) & (other.count > 0)
        weight = share * self.count
        sizes = np.diff(self.starts) + np.diff(other.starts) + both
        is_large = self._is_large() | other._is_large() | (sizes > n_features)
        starts = _starts(np.where(is_large, 0, sizes))
        factors = np.empty((starts[-1], n_features))
        place = starts[:-1].copy()
        for part in (self, other):
            part._copy_rows(factors, place, is_large)
        apart = np.flatnonzero(both & ~is_large)
        factors[place[apart]] = np.sqrt(weight[apart])[:, None] * difference[apart]
        large = np.flatnonzero(is_large)
        scatters = _empty_scatters(len(large), n_features)
        for i, c in enumerate(large.tolist()):
            np.add(self.scatter_of(c), other.scatter_of(c), out=scatters[i])
            if both[c]:
                scatters[i] += weight[c] * np.outer(difference[c], difference[c])
        third, fourth = self.third + other.third, self.fourth + other.fourth
        shared = np.flatnonzero(both)
        moved = [part._higher_moments_about(mean[shared], shared) for part in (self, other)]
        third[shared], fourth[shared] = (a + b for a, b in zip(*moved, strict=True))
        return MixedStatistics(count, mean, third, fourth, factors, starts, large, scatters)

    def _is_large(self) -> BoolArray:
        """Return whether each class has a scatter matrix."""
        found = np.zeros(len(self.count), bool)
        found[self.large] = True
        return found

    def _copy_rows(self, target: FloatArray, place: IntArray, is_large: BoolArray) -> None:
        """Copy the rows of the classes that are not large to their places, which then move on."""
        kept = np.flatnonzero((np.diff(self.starts) > 0) & ~is_large)
        sizes = np.diff(self.starts)[kept]
        into, rows = _ranges(place[kept], sizes), _ranges(self.starts[kept], sizes)
        # Without a copy in between if all rows are kept.
        target[into] = self.factors if len(rows) == len(self.factors) else self.factors[rows]
        place[kept] += sizes

    def _higher_moments_about(
        self, center: FloatArray, classes: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return third and fourth moments of some classes about centres other than their means."""
        d = self.mean[classes] - center
        sizes = np.diff(self.starts)[classes]
        F = self.factors[_ranges(self.starts[classes], sizes)]
        owner = np.repeat(np.arange(len(classes)), sizes)
        squares = np.einsum("ij,ij->i", F, F)
        spread = np.asarray(np.bincount(owner, squares, minlength=len(classes)), float)
        scatter_d = np.zeros_like(d)
        filled = np.flatnonzero(sizes)
        if len(filled):
            F *= np.einsum("ij,ij->i", F, d[owner])[:, None]
            scatter_d[filled] = np.add.reduceat(F, (np.cumsum(sizes) - sizes)[filled])
        for i in np.flatnonzero(np.isin(classes, self.large)).tolist():
            scatter = self.scatter_of(int(classes[i]))
            spread[i], scatter_d[i] = np.trace(scatter), scatter @ d[i]
        return higher_moments_about(
            d, self.count[classes], spread, scatter_d, self.third[classes], self.fourth[classes]
        )

    def take(self, classes: IntArray) -> MixedStatistics:
        """Return the statistics of some of the classes, which must be ascending."""
        if len(classes) == len(self.count):
            return self
        sizes = np.diff(self.starts)[classes]
        chosen = np.isin(self.large, classes)
        return MixedStatistics(
            self.count[classes],
            self.mean[classes],
            self.third[classes],
            self.fourth[classes],
            self.factors[_ranges(self.starts[classes], sizes)],
            _starts(sizes),
            np.searchsorted(classes, self.large[chosen]),
            self.scatters[chosen],
        )

    def spread(self, places: IntArray, n_classes: int) -> MixedStatistics:
        """Embed these statistics in a larger set of classes; missing classes get count zero."""
        if n_classes == len(self.count):
            return self

        def wide(values: AnyArray) -> AnyArray:
            out = np.zeros((n_classes, *values.shape[1:]), values.dtype)
            out[places] = values
            return out

        return replace(
            self,
            count=wide(self.count),
            mean=wide(self.mean),
            third=wide(self.third),
            fourth=wide(self.fourth),
            starts=_starts(wide(np.diff(self.starts))),
            large=places[self.large],
        )

    def rescaled(self, factor: float) -> MixedStatistics:
        """Return the statistics of the samples times a factor; exact for a power of two."""
        if factor == 1:
            return self
        # One factor at a time: its fourth power may overflow where the moment is zero.
        return replace(
            self,
            mean=self.mean * factor,
            factors=self.factors * factor,
            scatters=self.scatters * factor * factor,
            third=self.third * factor * factor * factor,
            fourth=self.fourth * factor * factor * factor * factor,
        )

    @property
    def is_zero(self) -> bool:
        """Whether all samples are at the origin."""
        return not (self.mean.any() or self.factors.any() or self.scatters.any())

    @property
    def total_variance(self) -> float:
        """Trace of the covariance of all samples about their common mean."""
        e = self.mean - (self.count @ self.mean) / self.count.sum()
        within = np.einsum("ij,ij->", self.factors, self.factors)
        within += np.trace(self.scatters, axis1=1, axis2=2).sum()
        between = self.count @ np.einsum("ij,ij->i", e, e)
        return float((within + between) / self.count.sum())


#: Statistics that batches of a stream are merged in.
MergeableStatistics: TypeAlias = ClassStatistics | MixedStatistics


def mergeable_statistics(
    X: AnyArray,
    codes: IntArray,
    n_classes: int,
    *,
    frame: Scaling,
    n_jobs: int | None = None,
) -> MergeableStatistics:
    """Compute the statistics of a batch, in the form for this number of classes and features.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples in input space.
    codes : ndarray of shape (n_samples,)
        Class of each sample, in ``range(n_classes)``.
    n_classes : int
        Number of classes.
    frame : Scaling
        Coordinates of the statistics.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    ClassStatistics or MixedStatistics
        The statistics.
    """
    if scatters_are_large(n_classes, X.shape[1]):
        return MixedStatistics.of(X, codes, n_classes, frame=frame, n_jobs=n_jobs)
    return class_statistics(X, codes, n_classes, frame=frame, n_jobs=n_jobs)


def merge_classes(
    parts: tuple[MergeableStatistics, MergeableStatistics],
    places: tuple[IntArray, IntArray],
    n_classes: int,
) -> MergeableStatistics:
    """Merge the statistics of two batches that may have different classes.

    Parameters
    ----------
    parts : tuple of ClassStatistics or MixedStatistics
        Statistics of the batches, in the same coordinates.
    places : tuple of ndarray
        Indices of the classes of each batch among the classes of both.
    n_classes : int
        Number of classes of both.

    Returns
    -------
    ClassStatistics or MixedStatistics
        Statistics of the samples of both, in the form for this number of classes.
    """
    left, right = parts
    small = not scatters_are_large(n_classes, left.mean.shape[1])
    if small and isinstance(left, ClassStatistics) and isinstance(right, ClassStatistics):
        return left.spread(places[0], n_classes).merge(right.spread(places[1], n_classes))
    mixed = [
        (MixedStatistics.of_scatters(part) if isinstance(part, ClassStatistics) else part).spread(
            where, n_classes
        )
        for part, where in zip(parts, places, strict=True)
    ]
    return mixed[0].merge(mixed[1])


def scatter_root(scatter: FloatArray) -> FloatArray:
    """Return a square matrix F with FᵀF the scatter: its eigenvectors, the largest one last."""
    variances, axes = np.linalg.eigh(scatter)
    return np.asarray((axes * np.sqrt(np.maximum(variances, 0.0))).T)


def _starts(sizes: IntArray) -> IntArray:
    """Return the first row of each block, and the number of all rows."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)


def _ranges(firsts: IntArray, sizes: IntArray) -> IntArray:
    """Return the integers of several ranges, one after the other."""
    ends = np.cumsum(sizes)
    return np.repeat(firsts - (ends - sizes), sizes) + np.arange(sizes.sum())


def _empty_scatters(n_classes: int, n_features: int) -> FloatArray:
    """Allocate scatter matrices, after a check of the available memory."""
    n_bytes = 8 * n_classes * n_features**2
    if n_bytes > CHECKED_BYTES:
        check_memory(
            n_bytes,
            f"The scatter matrices of {n_classes} classes of {n_features} features",
            "Use fewer classes or features (PCA).",
        )
    return np.empty((n_classes, n_features, n_features))
