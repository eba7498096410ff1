"""Coordinates of a fit: samples are centred, scaled by one number and, with a base, whitened.

Local metrics are normalised, so they do not change if all features are shifted or multiplied by one
number. In coordinates in which the samples have mean zero and size about one, squares and inverses
are accurate for data of size 1e-100 or 1e100 and for offsets of 1e10.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmetric._parallel import row_chunks
from genmetric._typing import AnyArray, FloatArray

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
        A power of two, so that the division is exact.
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
        chunks = row_chunks(len(X), 16 * X.shape[1])
        low = np.min([X[rows].min(axis=0) for rows in chunks], axis=0).astype(float)
        high = np.max([X[rows].max(axis=0) for rows in chunks], axis=0).astype(float)
        if max(high.max(), -low.min()) > MAX_VALUE:
            raise ValueError(
                f"X has values up to {max(high.max(), -low.min()):.1e}, whose squares overflow "
                f"float64; expected at most {MAX_VALUE:g}. Divide X by a constant first."
            )
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
    def around(cls, center: FloatArray, spread: float) -> Coordinates:
        """Return the coordinates of samples with this mean and this root mean square spread."""
        if spread < MIN_SPREAD:
            raise ValueError(
                f"The features have a spread of about {spread:.1e}, and squares of values this small "
                f"underflow float64; expected at least {MIN_SPREAD:g}. Multiply X by a constant first."
            )
        return cls(center, float(2.0 ** np.round(np.log2(spread))))

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
