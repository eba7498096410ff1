"""The sum of local metrics over rows: the second accumulator of the fit.

The uniform combination (eq. eUniform) is a mean, and a mean is a sum and a count: chunks in
threads, batches from disk and blocks on a cluster each make a :class:`MetricSum`, and
:meth:`MetricSum.merge` puts them together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray
from genmetric.density.frame import Frame
from genmetric.density.models import ClassModels
from genmetric.geometry.local import local_metric_factors
from genmetric.geometry.phi import phi


@dataclass(frozen=True)
class MetricSum:
    """Sum of local metrics, and what the standard error of their mean needs.

    Attributes
    ----------
    total : ndarray of shape (n_features, n_features)
        Sum of w_i M_i.
    weight : float
        Sum of w_i.
    square : float
        Sum of w_i times the squared Frobenius norm of M_i.
    """

    total: FloatArray
    weight: float
    square: float

    def merge(self, other: MetricSum) -> MetricSum:
        """The sum over the rows of both."""
        return MetricSum(
            self.total + other.total, self.weight + other.weight, self.square + other.square
        )

    def mean(self) -> FloatArray:
        """The weighted mean of the local metrics, exactly symmetric."""
        return np.asarray((self.total + self.total.T) / (2 * self.weight))

    def relative_stderr(self, population: float = np.inf) -> float:
        r"""Standard error of the mean of sampled metrics, relative to its Frobenius norm.

        For n metrics drawn without replacement out of N,

        .. math:: \mathrm{se}^2 = \frac{1 - n/N}{n - 1}
                  \left(\frac1n\sum_i \|M_i\|_F^2 - \|\bar M\|_F^2\right).

        Parameters
        ----------
        population : float, default=inf
            The number N of rows the sample was drawn from.

        Returns
        -------
        float
            Zero when every row was used.
        """
        mean = self.mean()
        norm2 = float(np.einsum("ij,ij->", mean, mean))
        if self.weight <= 1:
            return float("inf") if population > self.weight else 0.0
        variance = max(self.square / self.weight - norm2, 0.0)
        share = max(1 - self.weight / population, 0.0)
        return float(np.sqrt(share * variance / (self.weight - 1) / norm2))


def dense_metric_sum(
    models: ClassModels,
    X: FloatArray,
    weights: FloatArray,
    log_priors: FloatArray | None = None,
) -> MetricSum:
    r"""Sum of local metrics by one eigendecomposition a row.

    The metrics themselves are never formed: with :math:`M_i = U_i \mathrm{diag}(m_i) U_i^T` the
    sum is one product of a wide matrix, the columns :math:`\sqrt{w_i m_{ik}} u_{ik}`, with its
    transpose.

    Parameters
    ----------
    models : ClassModels
        Class models.
    X : ndarray of shape (n_samples, n_features)
        Rows; a chunk that fits the memory budget.
    weights : ndarray of shape (n_samples,)
        Weight of each row.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors.

    Returns
    -------
    MetricSum
        Over these rows.
    """
    m, U = local_metric_factors(phi(models, X, log_priors))
    U *= np.sqrt(m * weights[:, None])[:, None, :]
    wide = U.transpose(1, 0, 2).reshape(X.shape[1], -1)
    return MetricSum(wide @ wide.T, float(weights.sum()), float(weights @ (m**2).sum(axis=1)))


def dense_bytes_per_row(n_features: int, n_classes: int) -> int:
    """Bytes of temporary arrays that a row needs on the dense path."""
    return 8 * (6 * n_features**2 + 3 * n_classes * (n_features + 4))


def sum_local_metrics(
    models: ClassModels,
    X: AnyArray,
    frame: Frame,
    *,
    weights: FloatArray | None = None,
    log_priors: FloatArray | None = None,
    n_jobs: int | None = None,
) -> MetricSum:
    """Sum of the local metrics of all rows, in chunks.

    Parameters
    ----------
    models : ClassModels
        Class models, in the coordinates of `frame`.
    X : ndarray of shape (n_samples, n_features)
        Rows as they came.
    frame : Frame
        Coordinates of the models.
    weights : ndarray of shape (n_samples,), default=None
        Weight of each row; ``None`` is one each.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` is equal priors.
    n_jobs : int, default=None
        Threads; the answer is the same for every number.

    Returns
    -------
    MetricSum
        Over all rows.
    """
    w = np.ones(len(X)) if weights is None else weights
    n_features = X.shape[1]

    def of_chunk(rows: slice) -> MetricSum:
        return dense_metric_sum(models, frame.inward(X[rows]), w[rows], log_priors)

    total = MetricSum(np.zeros((n_features, n_features)), 0.0, 0.0)
    chunks = row_chunks(len(X), dense_bytes_per_row(n_features, models.n_classes))
    for part in map_chunks(of_chunk, chunks, n_jobs):
        total = total.merge(part)
    return total
