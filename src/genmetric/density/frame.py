"""The frame: rows centred and divided by one number before any arithmetic.

Local metrics have unit determinant, so they do not change when all features are shifted or
multiplied by one number. Working in a frame where the rows have mean zero and size about one
costs nothing and keeps squares and inverses of data at 1e-150, 1e150 or an offset of 1e10 exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmetric._chunks import row_chunks
from genmetric._typing import AnyArray, FloatArray

#: Sizes (root mean square of a feature's spread) whose square is still an ordinary float64.
SMALLEST, LARGEST = 1e-151, 1e151


@dataclass(frozen=True)
class Frame:
    """A shift and a scale: ``(x - center) / scale``.

    Attributes
    ----------
    center : ndarray of shape (n_features,)
        Subtracted from every row.
    scale : float
        A power of two, so that dividing by it rounds nothing.
    """

    center: FloatArray
    scale: float

    @classmethod
    def of(cls, X: AnyArray) -> Frame:
        """Frame of the rows of `X`: their mean, and a power of two near their spread."""
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
    def around(cls, center: FloatArray, spread: float) -> Frame:
        """Frame of rows with this mean and this root mean square of a feature's spread."""
        if not SMALLEST <= spread <= LARGEST:
            raise ValueError(
                f"The features have a spread of about {spread:.1e}, and the covariances of such "
                "numbers are no float64 numbers any more. Multiply X by a constant first: the "
                "metric does not depend on it."
            )
        return cls(center, float(2.0 ** np.round(np.log2(spread))))

    def inward(self, X: AnyArray) -> FloatArray:
        """Rows in the frame, float64."""
        x = np.subtract(X, self.center, dtype=float)
        x /= self.scale
        return np.asarray(x)
