"""Scaling: samples are centred and divided by one number before other computations.

Local metrics are normalised, so they do not change if all features are shifted or multiplied by one
number. In coordinates in which the samples have mean zero and size about one, squares and inverses
are accurate for data of size 1e-150 or 1e150 and for offsets of 1e10.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmetric._array_api import namespace
from genmetric._chunks import row_chunks
from genmetric._typing import AnyArray, FloatArray

#: Range of the root mean square spread of the features; squares outside of it are not accurate.
MIN_SPREAD, MAX_SPREAD = 1e-151, 1e151


@dataclass(frozen=True)
class Scaling:
    """A shift and a scale: ``(x - center) / scale``.

    Attributes
    ----------
    center : ndarray of shape (n_features,)
        Subtracted from every sample.
    scale : float
        A power of two, so that the division is exact.
    """

    center: FloatArray
    scale: float

    @classmethod
    def of(cls, X: AnyArray) -> Scaling:
        """Compute the scaling of samples: their mean, and a power of two near their spread."""
        chunks = row_chunks(len(X), 16 * X.shape[1])
        # Extremes first: a mean of numbers near the float64 maximum would overflow.
        low = np.min([X[rows].min(axis=0) for rows in chunks], axis=0).astype(float)
        high = np.max([X[rows].max(axis=0) for rows in chunks], axis=0).astype(float)
        middle = low / 2 + high / 2
        reach = float(np.max(high / 2 - low / 2, initial=0.0))
        if reach == 0:
            return cls(middle, 1.0)
        total, square = np.zeros(X.shape[1]), 0.0
        for rows in chunks:
            e = (np.asarray(X[rows], float) - middle) / reach
            total += e.sum(axis=0)
            square += float(np.einsum("ij,ij->", e, e))
        mean = total / len(X)
        spread = reach * np.sqrt(max(square / len(X) - mean @ mean, 0.0) / X.shape[1])
        return cls.around(middle + reach * mean, spread)

    @classmethod
    def around(cls, center: FloatArray, spread: float) -> Scaling:
        """Compute the scaling of samples with this mean and this root mean square spread."""
        if not MIN_SPREAD <= spread <= MAX_SPREAD:
            raise ValueError(
                f"The features have a spread of about {spread:.1e}; covariances of values this large "
                "or small overflow or underflow float64. Multiply X by a constant first: the metric "
                "does not depend on it."
            )
        return cls(center, float(2.0 ** np.round(np.log2(spread))))

    def apply(self, X: AnyArray) -> FloatArray:
        """Return samples in these coordinates, float64, in the namespace of both."""
        xp = namespace(X)
        x: FloatArray
        if xp is np:
            x = np.subtract(X, self.center, dtype=float)
        else:
            x = xp.astype(X, self.center.dtype) - self.center
        x /= self.scale
        return x

    @property
    def unit(self) -> float:
        """Distance in input space of one unit of these coordinates, under a metric learned here."""
        return self.scale

    @property
    def log_unit(self) -> float:
        """Logarithm of the unit of length in the bias.

        The bias has the dimension of a density times a curvature, length to the power -(D + 2).
        """
        return float(np.log(self.scale))

    def restore(self, Z: FloatArray) -> FloatArray:
        """Return points of these coordinates in input space."""
        return np.asarray(self.center + self.scale * Z)

    def restore_covariances(self, covariances: FloatArray) -> FloatArray:
        """Return covariances of these coordinates in input space."""
        return np.asarray(self.scale**2 * covariances)

    def restore_metrics(self, metrics: FloatArray) -> FloatArray:
        """Return metrics in input space: a common scale of all features does not change them."""
        return metrics

    def restore_factor(self, factor: FloatArray) -> FloatArray:
        """Return the factor L of a metric in input space."""
        return factor

    def apply_metric(self, metric: FloatArray) -> FloatArray:
        """Return a metric of input space in these coordinates."""
        return metric
