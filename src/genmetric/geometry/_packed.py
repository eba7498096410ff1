"""Local metrics kept in memory, upper triangles only, for sums with several sets of weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray
from genmetric.density._models import ClassModels
from genmetric.density._scaling import Scaling
from genmetric.geometry._local import Normalization
from genmetric.geometry._sample_metrics import sample_metrics
from genmetric.geometry._summation import MetricSum, dense_bytes_per_row

#: Largest memory, in bytes, of local metrics that are kept for later iterations.
KEPT_BYTES = 512 * 2**20


@dataclass(frozen=True)
class PackedMetrics:
    """Upper triangles of symmetric matrices, one per sample.

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
        """Return whether this number of metrics may be kept."""
        return 4 * n_rows * n_features * (n_features + 1) <= KEPT_BYTES

    def sum(self, weights: FloatArray) -> MetricSum:
        """Return the weighted sum of the metrics: one product of a vector with a matrix."""
        total = np.zeros((self.n_features, self.n_features))
        upper = np.triu_indices(self.n_features)
        total[upper] = weights @ self.triangles
        total.T[upper] = total[upper]
        return MetricSum(total, float(weights.sum()), float(weights @ self.square))


def packed_local_metrics(
    models: ClassModels,
    X: AnyArray,
    frame: Scaling,
    *,
    log_priors: FloatArray | None = None,
    normalization: Normalization = "determinant",
    n_jobs: int | None = None,
) -> PackedMetrics:
    """Compute the local metrics of all samples by one eigendecomposition each.

    Parameters
    ----------
    models : ClassModels
        Class models, in the coordinates of `frame`.
    X : ndarray of shape (n_samples, n_features)
        Samples in input space.
    frame : Scaling
        Coordinates of the models.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` for equal priors.
    normalization : {"determinant", "trace"}, default="determinant"
        Scale of each local metric before it is added: determinant one, as in the paper, or trace
        equal to the number of features; see :func:`~genmetric.geometry.sign_rule`.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    PackedMetrics
        One matrix per sample.
    """
    n_features = X.shape[1]
    upper = np.triu_indices(n_features)
    # The full matrix has each entry off the diagonal twice.
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)

    def of_chunk(rows: slice) -> tuple[FloatArray, FloatArray]:
        metrics = sample_metrics(models, frame.apply(X[rows]), log_priors, normalization)
        triangles = metrics[:, upper[0], upper[1]]
        return triangles, triangles**2 @ twice

    chunks = row_chunks(len(X), 2 * dense_bytes_per_row(n_features, models.n_classes))
    parts = list(map_chunks(of_chunk, chunks, n_jobs))
    return PackedMetrics(
        np.concatenate([triangles for triangles, _ in parts]),
        np.concatenate([square for _, square in parts]),
        n_features,
    )
