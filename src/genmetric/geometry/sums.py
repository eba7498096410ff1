"""Sums of local metrics: the choice of the solver, and its time."""

from __future__ import annotations

from typing import Any

import numpy as np

from genmetric._typing import AnyArray, FloatArray
from genmetric.density import ClassGaussians, ClassModels, Coordinates, LowRankGaussians
from genmetric.geometry.dense import dense_sum
from genmetric.geometry.local import MetricSum, Normalization, check_normalization
from genmetric.geometry.low_rank import low_rank_sum
from genmetric.geometry.resolvent import resolvent_sum

__all__ = [
    "MetricSum",
    "choose_solver",
    "estimated_seconds",
    "select_solver",
    "sum_local_metrics",
]


def estimated_seconds(
    solver: str, n_samples: float, n_features: int, n_classes: int, rank: float = 0.0
) -> float:
    """Estimate the time of a sum of local metrics on one thread.

    The constants were measured by ``benchmarks/crossover.py`` and ``benchmarks/many_classes.py``.

    Parameters
    ----------
    solver : {"dense", "resolvent", "low-rank"}
        Name of the solver.
    n_samples : float
        Number of samples. The time is proportional to it, but for the pairs of classes of the
        resolvent solver.
    n_features, n_classes : int
        Numbers of features and classes.
    rank : float, default=0.0
        Mean rank of low-rank class models.

    Returns
    -------
    float
        Seconds.
    """
    D, C = float(n_features), float(n_classes)
    dense = 0.1 * D**2
    if solver == "low-rank":
        # One product with the axes of all classes. The rest depends on the leading classes only.
        size = 2 * (rank + 1)
        densities = C * (1e-4 * D * (rank + 1) + 0.01)
        small = 30 + 1e-4 * size * D * (D + 10 * size)
        per_sample = densities + (dense + 4e-4 * D**3 if 2 * size > D else small)
        return 1e-6 * n_samples * per_sample
    # The log-densities of all classes, unless there are two, and the sum of their precisions.
    densities = C * (0.2 + 1.5e-4 * D**2) if C > 2 else 0.0
    if solver == "dense":
        return 1e-6 * n_samples * (dense + densities)
    # With more than two classes about a third of the samples is left to the dense solver. Pairs of
    # classes cost little if the features are few, but then the dense solver is exact and fast.
    left = 0.0 if C == 2 else 0.35 * dense
    n_pairs = min(C * (C - 1) / 2, n_samples)
    per_sample = 4.5 + 0.003 * D**2 + densities + left
    return 1e-6 * (n_samples * per_sample + n_pairs * (5500 + 4e-4 * D**3))


def choose_solver(n_samples: float, n_features: int, n_classes: int) -> str:
    """Return the faster solver for full Gaussian class models, "dense" or "resolvent"."""
    sizes = n_samples, n_features, n_classes
    return min(("dense", "resolvent"), key=lambda solver: estimated_seconds(solver, *sizes))


def select_solver(models: ClassModels, n_samples: float, n_features: int) -> str:
    """Return the fastest solver for class models, "dense", "resolvent" or "low-rank".

    `n_samples` is the number of samples of the whole fit, so that batches use the same solver.
    """
    if isinstance(models, LowRankGaussians):
        return "low-rank"  # the dense solver evaluates all classes and is never faster
    if isinstance(models, ClassGaussians):
        return choose_solver(n_samples, n_features, models.n_classes)
    return "dense"


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
    check_normalization(normalization)
    n_samples, n_features = X.shape
    if not n_samples:
        return MetricSum.zero(n_features)
    w = np.ones(n_samples) if weights is None else weights
    if solver == "auto":
        solver = select_solver(models, n_samples, n_features)
    options: dict[str, Any] = {
        "log_priors": log_priors,
        "normalization": normalization,
        "n_jobs": n_jobs,
    }
    if solver == "dense":
        return dense_sum(models, X, coordinates, w, np.arange(n_samples), **options)
    if solver == "resolvent" and isinstance(models, ClassGaussians):
        return resolvent_sum(models, X, coordinates, w, tol=tol, **options)
    if solver == "low-rank" and isinstance(models, LowRankGaussians):
        return low_rank_sum(models, X, coordinates, w, tol=tol, **options)
    required = {"resolvent": "ClassGaussians", "low-rank": "LowRankGaussians"}.get(solver)
    if required is None:
        raise ValueError(
            f'solver must be "auto", "dense", "resolvent" or "low-rank"; got {solver!r}.'
        )
    raise ValueError(
        f"solver={solver!r} requires Gaussian class models ({required}); got "
        f'{type(models).__name__}. Use solver="dense".'
    )
