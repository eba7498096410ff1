"""Sums of local metrics: the dense solver, and the choice between it and faster ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from genmetric._parallel import map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray
from genmetric.density import ClassGaussians, ClassModels, Coordinates, LowRankGaussians
from genmetric.geometry.local import (
    MetricSum,
    Normalization,
    dense_bytes_per_row,
    phi_weights,
    sample_metrics,
    sum_of_samples,
)
from genmetric.geometry.low_rank import low_rank_sum
from genmetric.geometry.resolvent import resolvent_sum


def select_solver(
    models: ClassModels, n_samples: float, n_features: int, solver: str = "auto"
) -> tuple[str, float]:
    """Return the fastest solver for class models, or the one given, and its time on one thread.

    The constants were measured by ``benchmarks/crossover.py`` and ``benchmarks/many_classes.py``.

    Parameters
    ----------
    models : ClassModels
        Class models.
    n_samples : float
        Number of samples of the whole fit, so batches use the same solver.
    n_features : int
        Number of features.
    solver : {"auto", "dense", "resolvent", "low-rank"}, default="auto"
        The solver, if it is not to be selected.

    Returns
    -------
    solver : {"dense", "resolvent", "low-rank"}
        The solver.
    seconds : float
        Its time, proportional to the number of samples but for the pairs of classes of "resolvent".
    """
    D, C = float(n_features), float(models.n_classes)
    decomposition = 0.1 * D**2
    if isinstance(models, LowRankGaussians) and solver in ("auto", "low-rank"):
        # One product with the axes of all classes. The rest depends on the leading classes only.
        # The dense solver evaluates all classes and is never faster.
        rank = float(models.ranks.mean())
        size = 2 * (rank + 1)
        densities = C * (1e-4 * D * (rank + 1) + 0.01)
        small = 30 + 1e-4 * size * D * (D + 10 * size)
        per_sample = densities + (decomposition + 4e-4 * D**3 if 2 * size > D else small)
        return "low-rank", 1e-6 * n_samples * per_sample
    # The log-densities of all classes, unless there are two, and the sum of their precisions.
    densities = C * (0.2 + 1.5e-4 * D**2) if C > 2 else 0.0
    # With more than two classes about a third of the samples is left to the dense solver. Pairs of
    # classes cost little if the features are few, but then the dense solver is exact and fast.
    left = 0.35 * decomposition if C > 2 else 0.0
    n_pairs = min(C * (C - 1) / 2, n_samples)
    per_sample = 4.5 + 0.003 * D**2 + densities + left
    seconds = {
        "dense": 1e-6 * n_samples * (decomposition + densities),
        "resolvent": 1e-6 * (n_samples * per_sample + n_pairs * (5500 + 4e-4 * D**3)),
    }
    if solver == "auto":
        gaussian = isinstance(models, ClassGaussians)
        solver = "resolvent" if gaussian and seconds["resolvent"] < seconds["dense"] else "dense"
    return solver, seconds.get(solver, seconds["dense"])


def sum_local_metrics(
    models: ClassModels,
    X: AnyArray,
    coordinates: Coordinates,
    *,
    weights: FloatArray | None = None,
    log_priors: FloatArray | None = None,
    normalization: Normalization = "determinant",
    solver: str = "auto",
    tol: float = 1e-2,
    n_jobs: int | None = None,
) -> MetricSum:
    """Sum the local metrics of samples, in chunks.

    Parameters
    ----------
    models : ClassModels
        Class models, in the given coordinates.
    X : ndarray of shape (n_samples, n_features)
        Samples in input space.
    coordinates : Coordinates
        Coordinates of the models.
    weights : ndarray of shape (n_samples,), default=None
        Weight of each sample; ``None`` for equal weights.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` for equal priors.
    normalization : {"determinant", "trace"}, default="determinant"
        Scale of each local metric before it is added: determinant one, as in the paper, or trace
        equal to the number of features; see :func:`~genmetric.geometry.sign_rule`.
    solver : {"auto", "dense", "resolvent", "low-rank"}, default="auto"
        "dense" makes one eigendecomposition per sample and takes class models of any kind.
        "resolvent", for Gaussians, is faster with many features and samples, and accurate to 2e-5.
        "low-rank" is for low-rank Gaussians. "auto" selects the fastest.
    tol : float, default=1e-2
        For "resolvent" and "low-rank": classes beyond the leading pair are ignored if their weight
        in Phi is at most this fraction of the largest. Zero ignores none; larger values are faster
        and less accurate.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    MetricSum
        Sum over all samples.
    """
    n_samples, n_features = X.shape
    w = np.ones(n_samples) if weights is None else weights
    if solver == "auto":
        solver, _ = select_solver(models, n_samples, n_features)
    options = log_priors, normalization, tol, n_jobs
    parts, rows = [], np.arange(n_samples)
    if solver == "low-rank" and isinstance(models, LowRankGaussians):
        return low_rank_sum(models, X, coordinates, w, *options)
    if solver == "resolvent" and isinstance(models, ClassGaussians):
        part, rows = resolvent_sum(models, X, coordinates, w, *options)
        parts = [part]
    elif solver != "dense":
        raise ValueError(
            f'solver="{solver}" requires Gaussian class models; got {type(models).__name__}. Use '
            'solver="auto" or "dense".'
        )

    def of_chunk(chunk: slice) -> MetricSum:
        some = rows[chunk]
        x = coordinates.apply(X[some])
        class_weights = phi_weights(models, x, log_priors)
        return sum_of_samples(models, x, class_weights, w[some], normalization)

    chunks = row_chunks(len(rows), dense_bytes_per_row(n_features, models.n_classes))
    parts += map_chunks(of_chunk, chunks, n_jobs)
    return reduce(MetricSum.merge, parts) if parts else MetricSum.zero(n_features)


def kept_metrics_sum(
    models: ClassModels,
    log_priors: FloatArray | None,
    X: AnyArray,
    coordinates: Coordinates,
    normalization: Normalization,
    n_jobs: int | None = None,
) -> Callable[[FloatArray], MetricSum]:
    """Return a function from weights to the sum of the local metrics of the same samples.

    The local metrics are computed once and kept.
    """
    n_samples, n_features = X.shape

    def of_chunk(rows: slice) -> FloatArray:
        metrics = sample_metrics(models, coordinates.apply(X[rows]), log_priors, normalization)
        return metrics.reshape(len(metrics), -1)

    chunks = row_chunks(n_samples, 2 * dense_bytes_per_row(n_features, models.n_classes))
    metrics = np.concatenate(list(map_chunks(of_chunk, chunks, n_jobs)))
    squares = np.einsum("ij,ij->i", metrics, metrics)

    def weighted(weights: FloatArray) -> MetricSum:
        total = (weights @ metrics).reshape(n_features, n_features)
        return MetricSum(total, float(weights.sum()), float(weights @ squares))

    return weighted
