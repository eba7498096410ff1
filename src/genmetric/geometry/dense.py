"""The dense solver: one eigendecomposition per sample, for class models of any kind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from genmetric._parallel import map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density import ClassModels, Coordinates
from genmetric.geometry.local import (
    MetricSum,
    Normalization,
    local_metric_factors,
)
from genmetric.geometry.phi import phi_and_rounding, phi_weights


def sample_metrics(
    models: ClassModels,
    X: FloatArray,
    log_priors: FloatArray | None = None,
    normalization: Normalization = "determinant",
) -> FloatArray:
    """Return the local metric of each sample, shape (n_samples, n_features, n_features)."""
    matrices, rounding = phi_and_rounding(models, X, phi_weights(models, X, log_priors))
    m, U = local_metric_factors(matrices, normalization, rounding)
    half = U * np.sqrt(m)[..., None, :]
    return np.asarray(half @ np.swapaxes(half, -1, -2))


def sum_of_chunk(
    models: ClassModels,
    X: FloatArray,
    class_weights: FloatArray,
    weights: FloatArray,
    normalization: Normalization,
) -> MetricSum:
    r"""Sum the local metrics of samples, given the weights of the classes in Phi.

    The metrics themselves are never formed: with :math:`M_i = U_i \mathrm{diag}(m_i) U_i^T` the
    sum is one product of a wide matrix, the columns :math:`\sqrt{w_i m_{ik}} u_{ik}`, with its
    transpose.
    """
    matrices, rounding = phi_and_rounding(models, X, class_weights)
    m, U = local_metric_factors(matrices, normalization, rounding)
    U *= np.sqrt(m * weights[:, None])[:, None, :]
    wide = U.transpose(1, 0, 2).reshape(X.shape[1], -1)
    return MetricSum(
        wide @ wide.T,
        float(weights.sum()),
        float(weights @ (m**2).sum(axis=1)),
    )


def dense_bytes_per_row(n_features: int, n_classes: int) -> int:
    """Return the bytes of temporary arrays per sample of the dense solver."""
    return 8 * (6 * n_features**2 + 12 * n_classes + 3 * min(n_classes, 64) * n_features)


def dense_sum(
    models: ClassModels,
    X: AnyArray,
    coordinates: Coordinates,
    weights: FloatArray,
    rows: IntArray,
    *,
    log_priors: FloatArray | None,
    normalization: Normalization,
    n_jobs: int | None,
) -> MetricSum:
    """Sum the local metrics of the samples `rows` of X, in chunks."""

    def work(chunk: slice) -> MetricSum:
        some = rows[chunk]
        x = coordinates.apply(X[some])
        class_weights = phi_weights(models, x, log_priors)
        return sum_of_chunk(models, x, class_weights, weights[some], normalization)

    n_features = X.shape[1]
    chunks = row_chunks(len(rows), dense_bytes_per_row(n_features, models.n_classes))
    return reduce(MetricSum.merge, map_chunks(work, chunks, n_jobs), MetricSum.zero(n_features))


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
        """Return whether this number of metrics may be kept: up to 512 MB."""
        return 4 * n_rows * n_features * (n_features + 1) <= 512 * 2**20

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
    coordinates: Coordinates,
    *,
    log_priors: FloatArray | None = None,
    normalization: Normalization = "determinant",
    n_jobs: int | None = None,
) -> PackedMetrics:
    """Compute the local metrics of all samples, to be summed with several sets of weights."""
    n_features = X.shape[1]
    upper = np.triu_indices(n_features)
    # The full matrix has each entry off the diagonal twice.
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)

    def of_chunk(rows: slice) -> tuple[FloatArray, FloatArray]:
        metrics = sample_metrics(models, coordinates.apply(X[rows]), log_priors, normalization)
        triangles = metrics[:, upper[0], upper[1]]
        return triangles, triangles**2 @ twice

    chunks = row_chunks(len(X), 2 * dense_bytes_per_row(n_features, models.n_classes))
    triangles, squares = zip(*map_chunks(of_chunk, chunks, n_jobs), strict=True)
    return PackedMetrics(np.concatenate(triangles), np.concatenate(squares), n_features)
