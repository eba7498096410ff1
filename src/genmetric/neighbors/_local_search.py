r"""Exact nearest neighbours if every query has its own metric.

The metric of a query x is :math:`A = U\,\mathrm{diag}(a)\,U^T` with all :math:`a_r > 0`. Each
distance costs a product with a D x D matrix, so most samples are excluded by a cheaper bound: with
:math:`a_{\min}` the least eigenvalue and :math:`u_1, \dots, u_R` the leading eigenvectors,

.. math:: d_A^2(x, x') \ge a_{\min} \|x - x'\|^2
          + \sum_{r=1}^R (a_r - a_{\min}) \big(u_r^T(x - x')\big)^2 .

The first term is the bound by the identity part of an interpolated metric. It excludes four in ten
samples of MNIST (40 dimensions, interpolation 0.5); with R = 4 all but one in 4000 are excluded,
since a local metric has a few large eigenvalues: Phi is a fixed matrix plus two outer products. The
bound is one product of matrices for all queries of a chunk and all samples, in float32, lowered by
its largest rounding error. It selects the candidates; their distances are float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import FloatArray, IntArray
from genmetric.density._models import ClassModels
from genmetric.geometry._local import local_metric_factors
from genmetric.geometry._phi import phi
from genmetric.geometry._summation import dense_bytes_per_row

#: Number of leading eigenvectors in the lower bound.
N_LEADING = 4

#: Number of samples in a block of bounds, so that the parts of a bound stay in the cache.
_BLOCK = 2048

_ROUNDING = float(np.finfo(np.float32).eps) / 2


@dataclass(frozen=True)
class SearchRows:
    """Training samples in the two representations that the search needs.

    Attributes
    ----------
    rows : ndarray of shape (n_samples, n_features)
        Samples of mean zero and size about one, float64.
    columns : ndarray of shape (n_features + 2, n_samples)
        The same as columns, with a one and the squared norm below them, float32.
    """

    rows: FloatArray
    columns: npt.NDArray[np.float32]

    @classmethod
    def of(cls, rows: FloatArray) -> SearchRows:
        """Compute both representations of `rows`."""
        columns = np.ones((rows.shape[1] + 2, len(rows)), np.float32)
        columns[:-2] = rows.T
        columns[-1] = np.einsum("ij,ij->i", rows, rows)
        return cls(rows, columns)


class LocalNeighbors(NamedTuple):
    """Nearest samples of each query.

    Attributes
    ----------
    squared : ndarray of shape (n_queries, n_neighbors)
        Squared distances, ascending.
    indices : ndarray of shape (n_queries, n_neighbors)
        Indices of samples; equal distances are ordered by index.
    n_examined : int
        Number of pairs of a query and a sample whose distance was computed.
    """

    squared: FloatArray
    indices: IntArray
    n_examined: int


def bound_coefficients(
    queries: FloatArray, a: FloatArray, U: FloatArray, n_leading: int = N_LEADING
) -> npt.NDArray[np.float32]:
    r"""Compute coefficients that map :attr:`SearchRows.columns` to lower bounds of distances.

    With :math:`h_r` the product of the r-th row of coefficients and a column, the bound is
    :math:`h_0 + \sum_{r \ge 1} h_r^2`. In exact arithmetic :math:`h_0 = a_{\min} \|x - x'\|^2` and
    :math:`h_r = \sqrt{a_r - a_{\min}}\, u_r^T (x' - x)`. A product of length n in float32 is off by
    at most :math:`c = 2(n+6)\epsilon` times the sum of the sizes of its terms, and

    .. math:: h^2 \ge \tilde h^2/(1+\eta) - (\tilde h - h)^2/\eta ,

    so lowering the coefficients of :math:`\|x\|^2 + \|x'\|^2` in :math:`h_0` by
    :math:`4 c\, a_{\min} + 2 (c^2/\eta) \sum_r (a_r - a_{\min})` and dividing :math:`h_r` by
    :math:`\sqrt{1+\eta}` makes the computed number a lower bound, whatever the rounding.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, n_features)
        Queries x, in the coordinates of the samples.
    a : ndarray of shape (n_queries, n_features)
        Eigenvalues of the metrics, positive.
    U : ndarray of shape (n_queries, n_features, n_features)
        Eigenvectors in columns.
    n_leading : int, default=4
        The number R of leading eigenvectors, at most the number of features.

    Returns
    -------
    ndarray of shape (1 + R, n_queries, n_features + 2)
        Coefficients; zero for a query so far away that its bounds overflow float32.
    """
    n_queries, n_features = queries.shape
    n_leading = min(n_leading, n_features)
    leading = np.argsort(-a, axis=1, kind="stable")[:, :n_leading]
    least = a.min(axis=1)
    excess = np.take_along_axis(a, leading, axis=1) - least[:, None]
    norms = np.einsum("ij,ij->i", queries, queries)
    c, eta = 2 * (n_features + 8) * _ROUNDING, 1e-3
    loss = 4 * c * least + 2 * c**2 / eta * excess.sum(axis=1)

    axes = np.take_along_axis(U, leading[:, None, :], axis=2)
    axes = axes * np.sqrt(excess / (1 + 2 * eta))[:, None, :]
    out = np.zeros((1 + n_leading, n_queries, n_features + 2))
    out[0, :, :-2] = -2 * least[:, None] * queries
    out[0, :, -2] = (least - loss) * norms
    out[0, :, -1] = least - loss
    out[1:, :, :-2] = axes.transpose(2, 0, 1)
    out[1:, :, -2] = -np.einsum("qjr,qj->rq", axes, queries)
    out[:, ~(a.max(axis=1) * norms < 1e30)] = 0.0
    return out.astype(np.float32)


def lower_bounds(
    coefficients: npt.NDArray[np.float32], columns: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Compute lower bounds of the squared distances of all queries to all samples.

    Parameters
    ----------
    coefficients : ndarray of shape (1 + R, n_queries, n_features + 2)
        From :func:`bound_coefficients`.
    columns : ndarray of shape (n_features + 2, n_samples)
        From :class:`SearchRows`.

    Returns
    -------
    ndarray of shape (n_queries, n_samples)
        Bounds, float32.
    """
    n_parts, n_queries, length = coefficients.shape
    bounds = np.empty((n_queries, columns.shape[1]), np.float32)
    flat = coefficients.reshape(n_parts * n_queries, length)
    for start in range(0, columns.shape[1], _BLOCK):
        block = slice(start, start + _BLOCK)
        parts = (flat @ columns[:, block]).reshape(n_parts, n_queries, -1)
        np.square(parts[1:], out=parts[1:])
        parts.sum(axis=0, out=bounds[:, block])
    return bounds


def squared_distances(query: FloatArray, root: FloatArray, rows: FloatArray) -> FloatArray:
    """Compute squared distances of one query to samples in the metric root·rootᵀ."""
    out = np.empty(len(rows))
    for block in row_chunks(len(rows), 16 * rows.shape[1]):
        mapped = (rows[block] - query) @ root
        np.einsum("ij,ij->i", mapped, mapped, out=out[block])
    return out


def metric_neighbors(
    queries: FloatArray,
    a: FloatArray,
    U: FloatArray,
    index: SearchRows,
    n_neighbors: int,
    *,
    exclude: IntArray | None = None,
) -> LocalNeighbors:
    r"""Find the nearest samples of each query in its metric :math:`U\,\mathrm{diag}(a)\,U^T`.

    The distances of the samples with the smallest lower bounds are computed first. The k-th of them
    is at least the k-th of all, so only samples whose lower bound does not exceed it can be
    neighbours. Their distances are computed too, and the k nearest are returned.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, n_features)
        Queries, in the coordinates of the samples; a chunk that fits the memory budget.
    a : ndarray of shape (n_queries, n_features)
        Eigenvalues of the metrics, positive.
    U : ndarray of shape (n_queries, n_features, n_features)
        Eigenvectors in columns.
    index : SearchRows
        The samples.
    n_neighbors : int
        Number of neighbours, at most the number of samples (one less with `exclude`).
    exclude : ndarray of shape (n_queries,), default=None
        Index of a sample that is not a neighbour of the query, such as the query itself.

    Returns
    -------
    LocalNeighbors
        Squared distances and indices.
    """
    rows = index.rows
    roots = U * np.sqrt(a)[:, None, :]
    bounds = lower_bounds(bound_coefficients(queries, a, U), index.columns)
    if exclude is not None:
        bounds[np.arange(len(queries)), exclude] = np.inf
    n_allowed = len(rows) - (exclude is not None)
    n_first = min(4 * n_neighbors + 12, n_allowed)
    squared = np.empty((len(queries), n_neighbors))
    indices = np.empty((len(queries), n_neighbors), np.intp)
    n_examined = 0
    for i, (query, root, bound) in enumerate(zip(queries, roots, bounds, strict=True)):
        first = np.argpartition(bound, n_first - 1)[:n_first]
        reach = np.partition(squared_distances(query, root, rows[first]), n_neighbors - 1)
        # A little more than the k-th distance, for float32 and for distances that underflow.
        limit = np.float32(min(reach[n_neighbors - 1] * (1 + 1e-6) + 1e-30, 1e38))
        near = np.flatnonzero(bound <= limit)
        d = squared_distances(query, root, rows[near])
        kept = np.flatnonzero(d <= np.partition(d, n_neighbors - 1)[n_neighbors - 1])
        order = kept[np.argsort(d[kept], kind="stable")[:n_neighbors]]
        squared[i], indices[i] = d[order], near[order]
        n_examined += len(first) + len(near)
    return LocalNeighbors(squared, indices, n_examined)


def local_neighbors(
    models: ClassModels,
    queries: FloatArray,
    index: SearchRows,
    n_neighbors: int,
    *,
    interpolation: float = 0.5,
    log_priors: FloatArray | None = None,
    itself: bool = False,
    n_jobs: int | None = None,
) -> LocalNeighbors:
    r"""Find the nearest samples of each query x in the interpolated local metric of x.

    The metric is :math:`(1-\lambda) I + \lambda M_x` with :math:`M_x` the generative local metric
    at x: the eigenvectors are those of :math:`M_x`, the eigenvalues :math:`1-\lambda + \lambda
    m_r`.

    Parameters
    ----------
    models : ClassModels
        Class models, in the coordinates of the samples.
    queries : ndarray of shape (n_queries, n_features)
        Queries, in the coordinates of the samples.
    index : SearchRows
        The samples.
    n_neighbors : int
        Number of neighbours.
    interpolation : float, default=0.5
        The weight lambda of the local metric, in [0, 1].
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` is equal priors.
    itself : bool, default=False
        Whether query i is sample i, which is then not a neighbour of itself.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    LocalNeighbors
        Squared distances and indices.
    """
    n_samples, n_features = index.rows.shape

    def of_chunk(chunk: slice) -> LocalNeighbors:
        x = queries[chunk]
        m, U = local_metric_factors(phi(models, x, log_priors))
        a = 1 - interpolation + interpolation * m
        exclude = np.arange(chunk.start, chunk.stop) if itself else None
        return metric_neighbors(x, a, U, index, n_neighbors, exclude=exclude)

    n_parts = 1 + min(N_LEADING, n_features)
    bytes_per_row = 4 * (n_samples + n_parts * (min(n_samples, _BLOCK) + 3 * n_features))
    bytes_per_row += dense_bytes_per_row(n_features, models.n_classes) + 16 * n_neighbors
    parts = list(map_chunks(of_chunk, row_chunks(len(queries), bytes_per_row), n_jobs))
    squared, indices, n_examined = zip(*parts, strict=True)
    return LocalNeighbors(np.concatenate(squared), np.concatenate(indices), sum(n_examined))
