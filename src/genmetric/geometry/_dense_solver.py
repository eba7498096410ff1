"""The dense solver: one eigendecomposition per sample, for class models of any kind."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from genmetric._array_api import as_numpy, namespace, take_rows
from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density._models import ClassModels
from genmetric.density._scaling import Scaling
from genmetric.geometry._local import Normalization, count_floored, local_metric_factors
from genmetric.geometry._metric_sum import MetricSum, SumProblem
from genmetric.geometry._phi import phi_and_rounding


def sample_metric_factors(
    models: ClassModels,
    X: FloatArray,
    log_priors: FloatArray | None = None,
    normalization: Normalization = "determinant",
) -> tuple[FloatArray, FloatArray]:
    """Compute eigenvalues m and eigenvectors U of the local metric of each sample.

    Parameters
    ----------
    models : ClassModels
        Class models.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` means equal priors.
    normalization : {"determinant", "trace"}, default="determinant"
        Scale of the metrics; see :func:`~genmetric.geometry.sign_rule`.

    Returns
    -------
    m : ndarray of shape (n_samples, n_features)
        Positive eigenvalues.
    U : ndarray of shape (n_samples, n_features, n_features)
        Eigenvectors in columns.
    """
    matrices, rounding = phi_and_rounding(models, X, log_priors)
    return local_metric_factors(matrices, normalization, rounding)


def sample_metrics(
    models: ClassModels,
    X: FloatArray,
    log_priors: FloatArray | None = None,
    normalization: Normalization = "determinant",
) -> FloatArray:
    """Compute the local metric of each sample, shape (n_samples, n_features, n_features).

    The parameters are those of :func:`sample_metric_factors`.
    """
    m, U = sample_metric_factors(models, X, log_priors, normalization)
    half = U * np.sqrt(m)[..., None, :]
    return np.asarray(half @ np.swapaxes(half, -1, -2))


def dense_metric_sum(
    models: ClassModels,
    X: FloatArray,
    weights: FloatArray,
    log_priors: FloatArray | None = None,
    normalization: Normalization = "determinant",
) -> MetricSum:
    r"""Sum local metrics by one eigendecomposition per sample.

    The metrics themselves are never formed: with :math:`M_i = U_i \mathrm{diag}(m_i) U_i^T` the
    sum is one product of a wide matrix, the columns :math:`\sqrt{w_i m_{ik}} u_{ik}`, with its
    transpose.

    Parameters
    ----------
    models : ClassModels
        Class models.
    X : ndarray of shape (n_samples, n_features)
        Samples; a chunk that fits the memory budget.
    weights : ndarray of shape (n_samples,)
        Weight of each sample.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors.
    normalization : {"determinant", "trace"}, default="determinant"
        Scale of each local metric before it is added: determinant one, as in the paper, or trace
        equal to the number of features; see :func:`~genmetric.geometry.sign_rule`.

    Returns
    -------
    MetricSum
        Sum over these samples.
    """
    xp = namespace(X)
    m, U = sample_metric_factors(models, X, log_priors, normalization)
    U *= xp.sqrt(m * weights[:, None])[:, None, :]
    wide = xp.reshape(xp.permute_dims(U, (1, 0, 2)), (X.shape[1], -1))
    return MetricSum(
        wide @ wide.T,
        float(xp.sum(weights)),
        float(weights @ xp.sum(m**2, axis=1)),
        float(weights @ count_floored(m)),
    )


def dense_bytes_per_row(n_features: int, n_classes: int) -> int:
    """Return the bytes of temporary arrays per sample of the dense solver."""
    return 8 * (6 * n_features**2 + 3 * n_classes * (n_features + 4))


def dense_chunks(rows: IntArray, n_features: int, n_classes: int) -> list[IntArray]:
    """Split samples into chunks that fit the memory budget."""
    chunks = row_chunks(len(rows), dense_bytes_per_row(n_features, n_classes))
    return [rows[chunk] for chunk in chunks]


def sum_dense(problem: SumProblem, rows: IntArray | None = None) -> MetricSum:
    """Sum the local metrics of samples by the dense solver; `rows` selects some of them.

    The computation is in the array namespace of the samples, and the result in NumPy.
    """
    models, total = problem.models, problem.zero()
    rows = np.arange(problem.X.shape[0]) if rows is None else rows

    def work(chunk: IntArray) -> MetricSum:
        return dense_metric_sum(
            models,
            problem.samples(chunk),
            take_rows(problem.weights, chunk),
            problem.log_priors,
            problem.normalization,
        )

    chunks = dense_chunks(rows, problem.n_features, models.n_classes)
    for part in map_chunks(work, chunks, problem.n_jobs):
        total = total.merge(part)
    return replace(total, total=as_numpy(total.total))


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
