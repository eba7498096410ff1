r"""Sums of local metrics under low-rank class models, by one small eigenproblem per sample.

With weights :math:`w_c` of the classes that matter at a sample, :math:`v_c = P_c(x - \mu_c)` and
precisions :math:`P_c = (I - K_c^T K_c)/\alpha_c`,

.. math:: \Phi = \gamma I + \sum_c w_c v_c v_c^T + \sum_c \frac{w_c}{\alpha_c} K_c^T K_c,
          \qquad \gamma = -\sum_c \frac{w_c}{\alpha_c} .

All but a multiple of the identity lies in the span of a few vectors. An orthonormal basis Q of the
span (a QR decomposition, O(D·r²)) reduces Phi to a matrix of size r x r, and :math:`\gamma` is an
eigenvalue of multiplicity D - r. No approximation is involved.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from genmetric._parallel import CHUNK_BYTES, map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density import Coordinates, LowRankGaussians
from genmetric.geometry.local import (
    MetricSum,
    Normalization,
    dense_bytes_per_row,
    phi_weights,
    rounding_level,
    sign_rule,
    sum_of_samples,
)


def sparse_weights(weights: FloatArray, tol: float) -> Any:
    """Keep the weights of the classes that matter at each sample, as a CSR matrix.

    The classes of the largest and the most negative weight always matter, others if their absolute
    weight exceeds `tol`. The smaller of the two leading weights takes up the weights left out, so
    two classes have the weights 1 and -1.
    """
    every = np.arange(len(weights))
    high, low = weights.argmax(axis=1), weights.argmin(axis=1)
    keep = np.abs(weights) > tol
    keep[every, high] = keep[every, low] = True
    kept = np.where(keep, weights, 0.0)
    smaller = np.where(weights[every, high] < -weights[every, low], high, low)
    kept[every, smaller] = 0.0
    kept[every, smaller] = -kept.sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
    return csr_array((kept[keep], np.nonzero(keep)[1], starts), weights.shape)


def _terms(
    models: LowRankGaussians, X: FloatArray, class_weights: Any, size: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return vectors, their coefficients and the multiple of the identity in Phi of each sample.

    The vectors have shape (n_samples, size, n_features). Samples with fewer terms have vectors of
    coefficient zero: an axis of Phi = gamma I, which changes nothing.
    """
    vectors, coefficients = np.zeros((len(X), size, X.shape[1])), np.zeros((len(X), size))
    gamma = -(class_weights @ (1 / models.isotropic))
    for i, (first, last) in enumerate(pairwise(class_weights.indptr)):
        start = 0
        for k in range(first, last):
            c, w = class_weights.indices[k], class_weights.data[k]
            K, e = models.class_axes(c), X[i] - models.means[c]
            stop = start + 1 + len(K)
            vectors[i, start] = (e - (K @ e) @ K) / models.isotropic[c]
            vectors[i, start + 1 : stop] = K
            coefficients[i, start], coefficients[i, start + 1 : stop] = w, w / models.isotropic[c]
            start = stop
    return vectors, coefficients, gamma


def _sum_of_chunk(
    models: LowRankGaussians,
    X: FloatArray,
    class_weights: Any,
    weights: FloatArray,
    size: int,
    normalization: Normalization,
) -> MetricSum:
    """Sum the local metrics of samples whose Phi is a multiple of the identity plus rank `size`."""
    n_features = X.shape[1]
    vectors, coefficients, gamma = _terms(models, X, class_weights, size)
    Q, R = np.linalg.qr(vectors.transpose(0, 2, 1))
    small = (R * coefficients[:, None, :]) @ R.transpose(0, 2, 1)
    theta, Y = np.linalg.eigh((small + small.transpose(0, 2, 1)) / 2)
    eigenvalues = np.column_stack([theta + gamma[:, None], gamma])
    multiplicities = np.ones(size + 1)
    multiplicities[-1] = n_features - size
    sizes = np.abs(class_weights.data) / models.isotropic[class_weights.indices]
    terms = np.add.reduceat(sizes, class_weights.indptr[:-1])
    rounding = rounding_level(np.abs(eigenvalues).max(axis=1), terms)
    eigenvalues[np.abs(eigenvalues) <= rounding[:, None]] = 0.0
    m = sign_rule(eigenvalues, normalization=normalization, multiplicities=multiplicities)
    outside = m[:, -1]
    rows = (Y.transpose(0, 2, 1) @ Q.transpose(0, 2, 1)).reshape(-1, n_features)
    factor = (weights[:, None] * (m[:, :-1] - outside[:, None])).ravel()
    total = np.diag(np.full(n_features, float(weights @ outside)))
    for sign in (1, -1):
        some = sign * factor > 0
        part = rows[some] * np.sqrt(np.abs(factor[some]))[:, None]
        total += sign * (part.T @ part)
    return MetricSum(total, float(weights.sum()), float(weights @ (m**2 @ multiplicities)))


def low_rank_sum(
    models: LowRankGaussians,
    X: AnyArray,
    coordinates: Coordinates,
    weights: FloatArray,
    log_priors: FloatArray | None,
    normalization: Normalization,
    tol: float,
    n_jobs: int | None,
) -> MetricSum:
    """Sum the local metrics of samples.

    A sample whose leading classes span more than half of the features needs a full
    eigendecomposition. This depends on the sample and the class models only, so batches and
    chunks change rounding errors only.
    """
    n_features = X.shape[1]

    def leading(rows: slice) -> Any:
        return sparse_weights(phi_weights(models, coordinates.apply(X[rows]), log_priors), tol)

    # Long products with the axes of all classes are faster: the chunks have three times the bytes.
    per_row = 8 * (2 * len(models.axes) + 12 * models.n_classes + 4 * n_features)
    chunks = row_chunks(len(X), per_row, max_rows=256, budget=3 * CHUNK_BYTES)
    class_weights = vstack(list(map_chunks(leading, chunks, n_jobs)), format="csr")
    # Numbers of vectors of each Phi, rounded up to a multiple of four to share a batch.
    sizes = np.add.reduceat(models.ranks[class_weights.indices] + 1, class_weights.indptr[:-1])
    sizes = -(-sizes // 4) * 4
    sizes[2 * sizes > n_features] = 0
    tasks: list[tuple[IntArray, int]] = []
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        per_row = 8 * (8 * size * n_features + 4 * size**2)
        if not size:
            per_row = dense_bytes_per_row(n_features, 4) + 8 * models.n_classes
        tasks += [(rows[chunk], size) for chunk in row_chunks(len(rows), per_row)]

    def work(task: tuple[IntArray, int]) -> MetricSum:
        rows, size = task
        x, w, kept = coordinates.apply(X[rows]), weights[rows], class_weights[rows]
        if size:
            return _sum_of_chunk(models, x, kept, w, size, normalization)
        return sum_of_samples(models, x, kept.toarray(), w, normalization)

    return reduce(MetricSum.merge, map_chunks(work, tasks, n_jobs), MetricSum.zero(n_features))
