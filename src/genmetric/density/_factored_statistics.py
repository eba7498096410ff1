"""Class statistics of samples in memory, without a scatter matrix per class.

The scatter of a class with fewer samples than features is the product of its centred samples with
themselves, so the samples take its place. All classes together need O(n·D) memory, not O(C·D²).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import numpy as np

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import ClassStatistics, class_statistics

#: Entries of all scatter matrices (32 MB) from which factors are considered, and the number of
#: classes from which they are always used.
MIN_SCATTER_ENTRIES, MANY_CLASSES = 2**22, 500


@dataclass(frozen=True)
class FactoredStatistics:
    r"""Weighted count, mean and factored scatter of each class.

    Attributes
    ----------
    count : ndarray of shape (n_classes,)
        Sum of the sample weights.
    mean : ndarray of shape (n_classes, n_features)
        Class means; zero for a class without samples.
    factors : ndarray of shape (n_factors, n_features)
        Rows :math:`F_c` of all classes, class by class, with :math:`F_c^T F_c` the scatter of the
        class: its centred samples times the roots of their weights, or, for a class with more
        samples than features, the square root of its scatter.
    starts : ndarray of shape (n_classes + 1,)
        First row of each class in `factors`.
    fourth : ndarray of shape (n_classes,)
        Sum of ``|e|⁴`` over the centred samples, which the Ledoit-Wolf shrinkage needs.
    """

    count: FloatArray
    mean: FloatArray
    factors: FloatArray
    starts: IntArray
    fourth: FloatArray

    @staticmethod
    def saves_memory(codes: IntArray, n_classes: int, n_features: int) -> bool:
        """Return whether scatter matrices are large, and factors need at most half of their memory.

        With many classes the factors save memory in any case, because covariances, precisions and
        their roots are not stored.
        """
        counts = np.bincount(codes, minlength=n_classes)
        smaller = 2 * int(np.minimum(counts, n_features).sum()) <= n_classes * n_features
        large = n_classes * n_features**2 >= MIN_SCATTER_ENTRIES
        return large and (smaller or n_classes >= MANY_CLASSES)

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
    ) -> FactoredStatistics:
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
        FactoredStatistics
            The statistics.
        """
        n_features = X.shape[1]
        order = np.argsort(codes, kind="stable")
        if sample_weight is not None:
            order = order[sample_weight[order] > 0]
        sizes = np.bincount(codes[order], minlength=n_classes)
        large = sizes > n_features
        small = order[~large[codes[order]]]
        w = np.ones(len(small)) if sample_weight is None else sample_weight[small]
        e, own = frame.apply(X[small]), codes[small]
        present = np.flatnonzero((sizes > 0) & ~large)
        edges = np.concatenate([[0], np.cumsum(sizes[present])])
        count = np.asarray(np.bincount(own, w, minlength=n_classes), float)
        mean = np.zeros((n_classes, n_features))
        # The second step removes the mean that the rounding of a large offset leaves.
        for _ in range(2 if len(present) else 0):
            shift = np.add.reduceat(e * w[:, None], edges[:-1]) / count[present, None]
            mean[present] += shift
            e -= np.repeat(shift, sizes[present], axis=0)
        norm2 = np.einsum("ij,ij->i", e, e)
        fourth = np.asarray(np.bincount(own, w * norm2**2, minlength=n_classes), float)
        if sample_weight is not None:
            e *= np.sqrt(w)[:, None]
        if not large.any():
            starts = np.concatenate([[0], np.cumsum(sizes)])
            return cls(count, mean, e, starts, fourth)
        parts = {c: e[edges[i] : edges[i + 1]] for i, c in enumerate(present.tolist())}
        ends = np.cumsum(sizes)
        for c in np.flatnonzero(large).tolist():
            rows = order[ends[c] - sizes[c] : ends[c]]
            weight = None if sample_weight is None else sample_weight[rows]
            zeros = np.zeros(len(rows), np.intp)
            stats = class_statistics(
                X[rows], zeros, 1, frame=frame, sample_weight=weight, n_jobs=n_jobs
            )
            count[c], mean[c], fourth[c] = stats.count[0], stats.mean[0], stats.fourth[0]
            variances, axes = np.linalg.eigh(stats.scatter[0])
            parts[c] = (axes * np.sqrt(np.maximum(variances, 0.0))).T
        empty = np.zeros((0, n_features))
        blocks = [parts.get(c, empty) for c in range(n_classes)]
        starts = np.concatenate([[0], np.cumsum([len(block) for block in blocks])])
        return cls(count, mean, np.concatenate(blocks), starts, fourth)

    def mapped(self, axes: FloatArray) -> FactoredStatistics:
        """Return the statistics of ``x @ axes``, without fourth moments."""
        return replace(
            self,
            mean=self.mean @ axes,
            factors=self.factors @ axes,
            fourth=np.zeros_like(self.fourth),
        )

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.count)

    @property
    def traces(self) -> FloatArray:
        """Trace of the maximum-likelihood covariance of each class, shape (n_classes,)."""
        norms = np.einsum("ij,ij->i", self.factors, self.factors)
        filled = np.diff(self.starts) > 0
        out = np.zeros(self.n_classes)
        if filled.any():
            out[filled] = np.add.reduceat(norms, self.starts[:-1][filled])
        return out / np.maximum(self.count, np.finfo(float).tiny)

    @property
    def squares(self) -> FloatArray:
        r"""Squared Frobenius norm of the covariance of each class, shape (n_classes,).

        The norm of :math:`F^T F` is that of the small matrix :math:`F F^T`.
        """
        out = np.zeros(self.n_classes)
        for c in range(self.n_classes):
            F = self.factors[self.starts[c] : self.starts[c + 1]]
            gram = F @ F.T if len(F) <= F.shape[1] else F.T @ F
            out[c] = np.einsum("ij,ij->", gram, gram)
        return np.asarray(out / np.maximum(self.count, np.finfo(float).tiny) ** 2)

    def pooled(self) -> ClassStatistics:
        """Return the statistics of all classes as one, each sample about the mean of its class."""
        n_features = self.mean.shape[1]
        return ClassStatistics(
            self.count.sum(keepdims=True),
            np.zeros((1, n_features)),
            (self.factors.T @ self.factors)[None],
            np.zeros((1, n_features)),
            self.fourth.sum(keepdims=True),
        )

    @property
    def pooled_covariance(self) -> FloatArray:
        """Within-class covariance of all classes together, shape (n_features, n_features)."""
        return np.asarray(self.pooled().covariances[0])

    @property
    def total_covariance(self) -> FloatArray:
        """Covariance of all samples about their common mean, shape (n_features, n_features)."""
        e = self.mean - (self.count @ self.mean) / self.count.sum()
        between = (e * self.count[:, None]).T @ e / self.count.sum()
        return np.asarray(self.pooled_covariance + between)


#: Statistics of the classes in either form.
AnyStatistics: TypeAlias = ClassStatistics | FactoredStatistics
Statistics = TypeVar("Statistics", bound=AnyStatistics)
