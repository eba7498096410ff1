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

from dataclasses import dataclass

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import FloatArray, IntArray
from genmetric.density._low_rank import LowRankGaussians, SinglePrecision
from genmetric.geometry._dense_solver import dense_bytes_per_row
from genmetric.geometry._local import Normalization, local_metric_factors, sign_rule
from genmetric.geometry._metric_sum import MetricSum, SumProblem
from genmetric.geometry._phi import curvature_weights, phi_weights, rounding_level

#: Numbers of vectors are rounded up to a multiple of this, so that samples can share a batch.
RANK_STEP = 4

#: Bytes of one chunk of log-densities: long products are faster.
SCREEN_BYTES = 96 * 2**20

#: All classes that are not candidates have together at most exp(-SLACK) times the tolerance of the
#: largest weight. Samples whose two leading log-densities differ by less than the gap are compared
#: with all classes.
SLACK, MIN_GAP = 10.0, 1e-2


@dataclass(frozen=True)
class SparseWeights:
    """Weights of the classes that matter at each sample, in compressed rows.

    Attributes
    ----------
    classes : ndarray of shape (n_entries,)
        Classes, sample by sample.
    values : ndarray of shape (n_entries,)
        Their weights in Phi; the sum over each sample is zero.
    starts : ndarray of shape (n_samples + 1,)
        First entry of each sample.
    """

    classes: IntArray
    values: FloatArray
    starts: IntArray

    def take(self, samples: IntArray) -> SparseWeights:
        """Return the weights of some of the samples."""
        counts = np.diff(self.starts)[samples]
        starts = np.concatenate([[0], np.cumsum(counts)])
        entries = np.repeat(self.starts[samples] - starts[:-1], counts) + np.arange(starts[-1])
        return SparseWeights(self.classes[entries], self.values[entries], starts)

    def dense(self, n_classes: int) -> FloatArray:
        """Return the weights as an array of shape (n_samples, n_classes)."""
        out = np.zeros((len(self.starts) - 1, n_classes))
        out[np.repeat(np.arange(len(out)), np.diff(self.starts)), self.classes] = self.values
        return out


def sparse_weights(weights: FloatArray, tol: float) -> SparseWeights:
    """Keep the classes that matter at each sample.

    The classes of the largest and the most negative weight always matter, others if their absolute
    weight exceeds `tol`. The smaller of the two leading weights takes up the weights left out, so
    that two classes have the weights 1 and -1.

    Parameters
    ----------
    weights : ndarray of shape (n_samples, n_classes)
        Weights of the classes in Phi, with largest absolute value one and sum zero.
    tol : float
        Absolute weight up to which a class is left out. Larger values keep fewer classes.

    Returns
    -------
    SparseWeights
        The weights that are left.
    """
    every = np.arange(len(weights))
    high, low = weights.argmax(axis=1), weights.argmin(axis=1)
    keep = np.abs(weights) > tol
    keep[every, high] = keep[every, low] = True
    kept = np.where(keep, weights, 0.0)
    smaller = np.where(weights[every, high] < -weights[every, low], high, low)
    kept[every, smaller] = 0.0
    kept[every, smaller] = -kept.sum(axis=1)
    samples, classes = np.nonzero(keep)
    starts = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
    return SparseWeights(classes, kept[samples, classes], starts)


def candidate_weights(
    models: LowRankGaussians,
    single: SinglePrecision,
    X: FloatArray,
    tol: float,
    log_priors: FloatArray | None = None,
) -> SparseWeights:
    r"""Find the classes that matter at each sample from log-densities in float32.

    The candidates are evaluated again in float64. In the notation of
    :func:`~genmetric.geometry._phi.curvature_weights` the largest weight is at least
    :math:`\delta_{(2)} = 1 - p_{(2)}/p_{(1)}`, which is small if the two leading densities nearly
    agree. With C classes, those that are not candidates have

    .. math:: p_c \le \varepsilon\,\delta_{(2)}\,p_{(2)} / C, \qquad
              \varepsilon = \mathrm{tol}\,e^{-10},

    so that leaving them out changes a weight :math:`w` of :func:`sparse_weights` of all classes by
    at most about :math:`\varepsilon\,(2 + |w|)`.

    Parameters
    ----------
    models : LowRankGaussians
        Class models.
    single : SinglePrecision
        The same models in float32.
    X : ndarray of shape (n_samples, n_features)
        Samples in the coordinates of the models.
    tol : float
        See :func:`sparse_weights`; positive.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors.

    Returns
    -------
    SparseWeights
        Weights of the classes that matter.
    """
    rough, error = models.screen(single, X)
    if log_priors is not None:
        rough += log_priors.astype(np.float32)
    every = np.arange(len(X))
    first = rough.argmax(axis=1)
    top = rough[every, first].copy()
    rough[every, first] = -np.inf
    second = rough.max(axis=1)
    rough[every, first] = top
    gap = np.asarray(top - second - 2 * error, float)  # a lower bound
    delta = -np.expm1(-np.maximum(gap, MIN_GAP))
    level = second - (SLACK + np.log(models.n_classes) - np.log(tol * delta) + 2 * error)
    candidate = rough >= level[:, None]
    # Close to a tie of the two leading classes the weights of all others matter.
    candidate[(gap < MIN_GAP) | ~np.isfinite(second)] = True
    # One-dimensional search: np.nonzero of a matrix is several times slower.
    samples, classes = np.divmod(np.flatnonzero(candidate), models.n_classes)
    counts = candidate.sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(counts)])
    log_joint = np.empty(len(classes))
    per_pair = 8 * X.shape[1] * (int(models.ranks.max(initial=0)) + 2)
    for part in row_chunks(len(classes), per_pair, budget=SCREEN_BYTES):
        log_joint[part] = models.pair_log_density(X, samples[part], classes[part])
    if log_priors is not None:
        log_joint += log_priors[classes]
    # Missing candidates of a sample have a density, and so a weight, of zero.
    place = np.arange(len(classes)) - starts[samples]
    lowest = np.minimum.reduceat(log_joint, starts[:-1])
    padding = lowest - 1e4 - 1e-3 * np.abs(lowest)  # far below even if the candidates are far apart
    padded = np.repeat(padding[:, None], counts.max(), 1)
    padded[samples, place] = log_joint
    kept = sparse_weights(curvature_weights(padded), tol)
    owner = np.repeat(every, np.diff(kept.starts))
    return SparseWeights(classes[starts[owner] + kept.classes], kept.values, kept.starts)


def leading_weights(problem: SumProblem, models: LowRankGaussians) -> SparseWeights:
    """Find the classes that matter at each sample, chunk by chunk; see :func:`sparse_weights`."""
    screens = problem.tol > 0 and models.n_classes > 2
    single = SinglePrecision.of(models) if screens else None

    def of_chunk(rows: slice) -> SparseWeights:
        x = problem.samples(rows)
        if single is not None:
            return candidate_weights(models, single, x, problem.tol, problem.log_priors)
        return sparse_weights(phi_weights(models, x, problem.log_priors), problem.tol)

    if screens:
        per_row = 4 * (len(models.axes) + 6 * models.n_classes) + 32 * problem.n_features
    else:
        per_row = 8 * (2 * len(models.axes) + 12 * models.n_classes + 4 * problem.n_features)
    chunks = row_chunks(len(problem.X), per_row, max_rows=256, budget=SCREEN_BYTES)
    parts = list(map_chunks(of_chunk, chunks, problem.n_jobs))
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    return SparseWeights(
        np.concatenate([part.classes for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([[0], np.cumsum(counts)]),
    )


def span_sizes(models: LowRankGaussians, weights: SparseWeights) -> IntArray:
    """Return the number of vectors that Phi of each sample is made of, rounded up."""
    sizes = np.add.reduceat(models.ranks[weights.classes] + 1, weights.starts[:-1])
    return np.asarray(-(-sizes // RANK_STEP) * RANK_STEP)


def _terms(
    models: LowRankGaussians, X: FloatArray, weights: SparseWeights, size: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return vectors, their coefficients and the multiple of the identity in Phi of each sample.

    The vectors have shape (n_samples, size, n_features). Samples with fewer terms have vectors of
    coefficient zero: an axis of Phi = gamma I, which changes nothing.
    """
    n_samples, n_features = X.shape
    sample = np.repeat(np.arange(n_samples), np.diff(weights.starts))
    c, w = weights.classes, weights.values
    inverse = w / models.isotropic[c]
    gamma = -np.asarray(np.bincount(sample, inverse, minlength=n_samples), float)
    vectors = np.zeros((n_samples, size, n_features))
    coefficients = np.zeros((n_samples, size))
    # Places of the terms of each entry (sample and class): one residual, then the axes.
    lengths = models.ranks[c] + 1
    ends = np.cumsum(lengths)
    places = (
        ends - lengths - np.repeat((ends - lengths)[weights.starts[:-1]], np.diff(weights.starts))
    )
    entry = np.repeat(np.arange(len(c)), lengths - 1)
    within = np.arange(len(entry)) - np.repeat(np.cumsum(lengths - 1) - (lengths - 1), lengths - 1)
    axes = models.axes[models.starts[models.blocks[c]][entry] + within]
    vectors[sample[entry], places[entry] + 1 + within] = axes
    coefficients[sample[entry], places[entry] + 1 + within] = inverse[entry]
    e = X[sample] - models.means[c]
    along = np.einsum("ij,ij->i", axes, e[entry])
    for i in range(len(c)):
        rows = slice(ends[i] - lengths[i] - i, ends[i] - i - 1)
        e[i] -= along[rows] @ axes[rows]
    vectors[sample, places] = e / models.isotropic[c][:, None]
    coefficients[sample, places] = w
    return vectors, coefficients, gamma


def low_rank_metric_sum(
    models: LowRankGaussians,
    X: FloatArray,
    weights: FloatArray,
    class_weights: SparseWeights,
    size: int,
    normalization: Normalization = "determinant",
) -> tuple[FloatArray, float]:
    """Sum local metrics of samples whose Phi is a multiple of the identity plus low rank.

    Parameters
    ----------
    models : LowRankGaussians
        Class models.
    X : ndarray of shape (n_samples, n_features)
        Samples in the coordinates of the models.
    weights : ndarray of shape (n_samples,)
        Weight of each sample, positive.
    class_weights : SparseWeights
        Weights of the classes in Phi.
    size : int
        Number of vectors per sample, at least that of :func:`span_sizes` and below the number of
        features.
    normalization : {"determinant", "trace"}, default="determinant"
        Scale of the local metrics; see :func:`~genmetric.geometry.sign_rule`.

    Returns
    -------
    total : ndarray of shape (n_features, n_features)
        Weighted sum of the metrics.
    square : float
        Weighted sum of the squared Frobenius norms of the metrics.
    """
    n_features = X.shape[1]
    vectors, coefficients, gamma = _terms(models, X, class_weights, size)
    Q, R = np.linalg.qr(vectors.transpose(0, 2, 1))
    small = (R * coefficients[:, None, :]) @ R.transpose(0, 2, 1)
    theta, Y = np.linalg.eigh((small + small.transpose(0, 2, 1)) / 2)
    eigenvalues = np.column_stack([theta + gamma[:, None], gamma])
    multiplicities = np.ones(size + 1)
    multiplicities[-1] = n_features - size
    sizes = np.abs(class_weights.values) / models.isotropic[class_weights.classes]
    terms = np.add.reduceat(sizes, class_weights.starts[:-1])
    m = sign_rule(
        eigenvalues,
        rounding=rounding_level(np.abs(eigenvalues).max(axis=1), terms),
        normalization=normalization,
        multiplicities=multiplicities,
    )
    outside = m[:, -1]
    rows = (Y.transpose(0, 2, 1) @ Q.transpose(0, 2, 1)).reshape(-1, n_features)
    factor = (weights[:, None] * (m[:, :-1] - outside[:, None])).ravel()
    total = np.diag(np.full(n_features, float(weights @ outside)))
    for sign in (1, -1):
        some = sign * factor > 0
        part = rows[some] * np.sqrt(np.abs(factor[some]))[:, None]
        total += sign * (part.T @ part)
    return total, float(weights @ (m**2 @ multiplicities))


def dense_low_rank_sum(
    models: LowRankGaussians,
    X: FloatArray,
    weights: FloatArray,
    class_weights: SparseWeights,
    normalization: Normalization = "determinant",
) -> tuple[FloatArray, float]:
    """Sum local metrics of samples whose Phi has full rank, by one eigendecomposition per sample.

    The parameters and results are those of :func:`low_rank_metric_sum`.
    """
    dense = class_weights.dense(models.n_classes)
    phi = models.weighted_curvature(X, dense)
    phi = (phi + phi.transpose(0, 2, 1)) / 2
    size = np.abs(phi).max(axis=(1, 2))
    rounding = rounding_level(size, models.precision_size(dense))
    m, U = local_metric_factors(phi, normalization, rounding)
    U *= np.sqrt(m * weights[:, None])[:, None, :]
    wide = U.transpose(1, 0, 2).reshape(X.shape[1], -1)
    return wide @ wide.T, float(weights @ (m**2).sum(axis=1))


def low_rank_bytes_per_row(n_features: int, size: int) -> int:
    """Return the bytes of temporary arrays per sample in :func:`low_rank_metric_sum`."""
    return 8 * (8 * size * n_features + 4 * size**2)


def sum_low_rank(problem: SumProblem) -> MetricSum:
    """Sum the local metrics of samples by the low-rank solver.

    A sample whose leading classes span more than half of the features needs a full
    eigendecomposition. This depends on the sample and the class models only, so that batches and
    chunks change rounding errors only.
    """
    models, n_features = problem.models, problem.n_features
    assert isinstance(models, LowRankGaussians)
    class_weights = leading_weights(problem, models)
    sizes = span_sizes(models, class_weights)
    sizes[2 * sizes > n_features] = 0
    tasks: list[tuple[IntArray, int]] = []
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        per_row = low_rank_bytes_per_row(n_features, size)
        if not size:
            per_row = dense_bytes_per_row(n_features, 4) + 8 * models.n_classes
        tasks += [(rows[chunk], size) for chunk in row_chunks(len(rows), per_row)]

    def work(task: tuple[IntArray, int]) -> MetricSum:
        rows, size = task
        x, weights, kept = problem.samples(rows), problem.weights[rows], class_weights.take(rows)
        if size:
            total, square = low_rank_metric_sum(
                models, x, weights, kept, size, problem.normalization
            )
        else:
            total, square = dense_low_rank_sum(models, x, weights, kept, problem.normalization)
        return MetricSum(total, float(weights.sum()), square)

    found = problem.zero()
    for part in map_chunks(work, tasks, problem.n_jobs):
        found = found.merge(part)
    return found
