"""Totals of samples, by which two passes over a source show that they read the same samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dnrm2

from genmetric._chunks import row_chunks
from genmetric._typing import AnyArray

#: Independent rounding errors of the values that two computations of the same samples may have, in
#: units of the precision of their type, and rounding errors of the totals themselves.
ROUNDING, SUMMATION = 32, 16

#: Totals are of values times this number, a power of two, so that they do not overflow.
UNIT = 2.0**-64


@dataclass(frozen=True)
class SampleTotals:
    r"""Totals of samples, which do not depend on the order of the samples.

    With a fixed weight :math:`w_j` per feature, the totals are :math:`\sum_{ij} w_j x_{ij}` and
    :math:`\sum_{ij} w_j |x_{ij}|`. They cost little next to a covariance. Samples that are computed
    again on another machine may differ in the last bits, so that the totals are compared up to
    rounding.

    Attributes
    ----------
    n_samples : int
        Number of samples.
    total, size : float
        Weighted sum of the values, and of their absolute values.
    norm : float
        Euclidean norm of all values, without weights.
    eps : float
        Precision of the type of the values.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.learners._sample_totals import SampleTotals
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> SampleTotals.of(X).difference(SampleTotals.of(X[::-1])) is None
    True
    >>> SampleTotals.of(X).difference(SampleTotals.of(X + 1))
    'samples with different values in different passes'
    """

    n_samples: int
    total: float
    size: float
    norm: float
    eps: float

    @classmethod
    def of(cls, X: AnyArray) -> SampleTotals:
        """Return the totals of samples, which are float32 or float64."""
        n_samples, n_features = X.shape
        # Between 1 and 2 and without a pattern: a value that moves to another feature shows.
        weights = 1 + np.modf(np.arange(n_features) * np.sqrt(5.0))[0]
        total = size = norm = 0.0
        with np.errstate(under="ignore"):
            for rows in row_chunks(n_samples, 24 * n_features):
                x = UNIT * X[rows].astype(np.float64)
                total += float((x @ weights).sum())
                size += float((np.abs(x) @ weights).sum())
                norm = math.hypot(norm, float(dnrm2(x.ravel())))
        return cls(n_samples, total, size, norm, float(np.finfo(X.dtype).eps))

    def merge(self, other: SampleTotals) -> SampleTotals:
        """Return the totals of the samples of both."""
        return SampleTotals(
            self.n_samples + other.n_samples,
            self.total + other.total,
            self.size + other.size,
            math.hypot(self.norm, other.norm),
            max(self.eps, other.eps),
        )

    def difference(self, later: SampleTotals | None) -> str | None:
        """Return how the samples of a later pass differ from these; None if they do not."""
        n_later = 0 if later is None else later.n_samples
        if later is None or n_later != self.n_samples:
            return f"{self.n_samples} samples the first time and {n_later} the last time"
        tolerance = ROUNDING * max(self.eps, later.eps) * max(
            self.norm, later.norm
        ) + SUMMATION * float(np.finfo(float).eps) * max(self.size, later.size)
        if abs(self.total - later.total) <= tolerance:
            return None
        return "samples with different values in different passes"
