"""Class statistics without a scatter matrix per class, from which low-rank models are fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import numpy as np

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density._mixed_statistics import (
    MergeableStatistics,
    MixedStatistics,
    scatter_root,
    scatters_are_large,
)
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import ClassStatistics

#: Number of classes from which large scatter matrices are always replaced by factors.
MANY_CLASSES = 500


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
        class; see :class:`~genmetric.density._mixed_statistics.MixedStatistics`. A class with a
        scatter matrix there has the square root of it here.
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
    def saves_memory(counts: AnyArray, n_features: int) -> bool:
        """Return whether scatter matrices are large, and factors need at most half of their memory.

        With many classes the factors save memory in any case, because covariances, precisions and
        their roots are not stored. `counts` are the numbers of samples of the classes.
        """
        n_classes = len(counts)
        smaller = 2 * int(np.minimum(counts, n_features).sum()) <= n_classes * n_features
        large = scatters_are_large(n_classes, n_features)
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
        mixed = MixedStatistics.of(
            X, codes, n_classes, frame=frame, sample_weight=sample_weight, n_jobs=n_jobs
        )
        return cls.of_mixed(mixed)

    @classmethod
    def of_mixed(cls, stats: MixedStatistics) -> FactoredStatistics:
        """Return statistics with rows for each class."""
        factors, starts = stats.factors, stats.starts
        if len(stats.large):
            blocks = [factors[starts[c] : starts[c + 1]] for c in range(len(stats.count))]
            for c, scatter in zip(stats.large.tolist(), stats.scatters, strict=True):
                blocks[c] = scatter_root(scatter)
            factors = np.concatenate(blocks)
            starts = np.concatenate([[0], np.cumsum([len(block) for block in blocks])])
        return cls(stats.count, stats.mean, factors, starts, stats.fourth)

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


def model_statistics(stats: MergeableStatistics, *, allow_factors: bool) -> AnyStatistics:
    """Return the merged statistics of a stream in the form that class models are fitted from.

    Parameters
    ----------
    stats : ClassStatistics or MixedStatistics
        Statistics of all samples.
    allow_factors : bool
        Whether the models can be fitted from factors.

    Returns
    -------
    ClassStatistics or FactoredStatistics
        Factors if they are allowed and save memory, as in a fit of samples in memory.
    """
    if isinstance(stats, ClassStatistics):
        return stats
    if allow_factors and FactoredStatistics.saves_memory(stats.count, stats.mean.shape[1]):
        return FactoredStatistics.of_mixed(stats)
    return stats.to_scatters()
