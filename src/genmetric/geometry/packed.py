"""Local metrics kept in memory, half of each: for sums with one set of weights after another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray
from genmetric.density.frame import Frame
from genmetric.density.models import ClassModels
from genmetric.geometry.local import local_metrics
from genmetric.geometry.phi import phi
from genmetric.geometry.summation import MetricSum, dense_bytes_per_row

#: Bytes that local metrics kept for later rounds may take.
KEPT_BYTES = 512 * 2**20


@dataclass(frozen=True)
class PackedMetrics:
    """The upper triangles of symmetric matrices, one a row.

    Attributes
    ----------
    triangles : ndarray of shape (n_samples, n_features * (n_features + 1) / 2)
        Entries on and above the diagonal, row by row.
    square : ndarray of shape (n_samples,)
        Squared Frobenius norms.
    n_features : int
        Side of the matrices.
    """

    triangles: FloatArray
    square: FloatArray
    n_features: int

    @staticmethod
    def fits(n_rows: int, n_features: int) -> bool:
        """Whether so many metrics may be kept."""
        return 4 * n_rows * n_features * (n_features + 1) <= KEPT_BYTES

    def sum(self, weights: FloatArray) -> MetricSum:
        """The sum of the metrics with weights, one product of a vector with a matrix."""
        total = np.zeros((self.n_features, self.n_features))
        upper = np.triu_indices(self.n_features)
        total[upper] = weights @ self.triangles
        total.T[upper] = total[upper]
        return MetricSum(total, float(weights.sum()), float(weights @ self.square))


def packed_local_metrics(
    models: ClassModels,
    X: AnyArray,
    frame: Frame,
    *,
    log_priors: FloatArray | None = None,
    n_jobs: int | None = None,
) -> PackedMetrics:
    """The local metrics of all rows (eq. eLocal), one eigendecomposition each.

    Parameters
    ----------
    models : ClassModels
        Class models, in the coordinates of `frame`.
    X : ndarray of shape (n_samples, n_features)
        Rows as they came.
    frame : Frame
        Coordinates of the models.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` is equal priors.
    n_jobs : int, default=None
        Threads; the answer is the same for every number.

    Returns
    -------
    PackedMetrics
        One matrix a row.
    """
    n_features = X.shape[1]
    upper = np.triu_indices(n_features)
    # The full matrix has each entry off the diagonal twice.
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)

    def of_chunk(rows: slice) -> tuple[FloatArray, FloatArray]:
        metrics = local_metrics(phi(models, frame.inward(X[rows]), log_priors))
        triangles = metrics[:, upper[0], upper[1]]
        return triangles, triangles**2 @ twice

    chunks = row_chunks(len(X), 2 * dense_bytes_per_row(n_features, models.n_classes))
    parts = list(map_chunks(of_chunk, chunks, n_jobs))
    return PackedMetrics(
        np.concatenate([triangles for triangles, _ in parts]),
        np.concatenate([square for _, square in parts]),
        n_features,
    )
