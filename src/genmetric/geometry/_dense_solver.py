"""The dense solver: one eigendecomposition per sample, for class models of any kind."""

from __future__ import annotations

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import FloatArray, IntArray
from genmetric.density._models import ClassModels
from genmetric.geometry._local import Normalization, count_floored
from genmetric.geometry._metric_sum import MetricSum, SumProblem
from genmetric.geometry._sample_metrics import sample_metric_factors


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
    m, U = sample_metric_factors(models, X, log_priors, normalization)
    U *= np.sqrt(m * weights[:, None])[:, None, :]
    wide = U.transpose(1, 0, 2).reshape(X.shape[1], -1)
    return MetricSum(
        wide @ wide.T,
        float(weights.sum()),
        float(weights @ (m**2).sum(axis=1)),
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
    """Sum the local metrics of samples by the dense solver; `rows` selects some of them."""
    models, total = problem.models, problem.zero()
    rows = np.arange(len(problem.X)) if rows is None else rows

    def work(chunk: IntArray) -> MetricSum:
        return dense_metric_sum(
            models,
            problem.samples(chunk),
            problem.weights[chunk],
            problem.log_priors,
            problem.normalization,
        )

    chunks = dense_chunks(rows, problem.n_features, models.n_classes)
    for part in map_chunks(work, chunks, problem.n_jobs):
        total = total.merge(part)
    return total
