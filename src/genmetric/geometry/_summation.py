"""Solvers of the sum of local metrics: one registry with their requirements and costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from genmetric._array_api import computed_like
from genmetric._typing import AnyArray, FloatArray
from genmetric.density._gaussian import ClassGaussians
from genmetric.density._low_rank import LowRankGaussians
from genmetric.density._models import ClassModels
from genmetric.density._scaling import Scaling
from genmetric.geometry._dense_solver import dense_bytes_per_row, dense_metric_sum, sum_dense
from genmetric.geometry._local import Normalization, check_normalization
from genmetric.geometry._low_rank_solver import sum_low_rank
from genmetric.geometry._metric_sum import MetricSum, SumProblem
from genmetric.geometry._resolvent_solver import sum_resolvent


class Sizes(NamedTuple):
    """Numbers of samples, features and classes, and the mean rank of low-rank class models."""

    n_samples: float
    n_features: int
    n_classes: int
    rank: float = 0.0


@dataclass(frozen=True)
class Solver:
    """A way to sum local metrics.

    Attributes
    ----------
    sum : callable
        From a :class:`~genmetric.geometry._metric_sum.SumProblem` to the sum.
    models : type
        Class models that the solver requires.
    requirement : str
        The same in words, for errors.
    cost : callable
        From :class:`Sizes` to microseconds on one thread.
    """

    sum: Callable[[SumProblem], MetricSum]
    models: type
    requirement: str
    cost: Callable[[Sizes], float]


def _dense_cost(sizes: Sizes) -> float:
    """Estimate the time of the dense solver, measured by ``benchmarks/crossover.py``."""
    return sizes.n_samples * 0.1 * sizes.n_features**2


def _resolvent_cost(sizes: Sizes) -> float:
    """Estimate the time of the resolvent solver, measured by ``benchmarks/crossover.py``.

    With more than two classes about a third of the samples is left to the dense solver.
    """
    n_samples, n_features, n_classes, _ = sizes
    n_pairs = n_classes * (n_classes - 1) / 2
    left = 0.0 if n_classes == 2 else 0.35
    dense = _dense_cost(sizes)
    return n_samples * (4.5 + 0.003 * n_features**2) + 5500 * n_pairs + left * dense


def _low_rank_cost(sizes: Sizes) -> float:
    """Estimate the time of the low-rank solver, measured by ``benchmarks/many_classes.py``.

    The log-densities take one product with the axes of all classes. The rest depends on the rank of
    the leading classes only.
    """
    n_samples, n_features, n_classes, rank = sizes
    size = 2 * (rank + 1)
    densities = n_classes * (1e-4 * n_features * (rank + 1) + 0.01)
    if 2 * size > n_features:
        return n_samples * (densities + 0.1 * n_features**2 + 4e-4 * n_features**3)
    return n_samples * (densities + 30 + 1e-4 * size * n_features * (n_features + 10 * size))


#: Solvers by name.
SOLVERS = {
    "dense": Solver(sum_dense, object, "class models of any kind", _dense_cost),
    "resolvent": Solver(sum_resolvent, ClassGaussians, "Gaussian class models", _resolvent_cost),
    "low-rank": Solver(
        sum_low_rank, LowRankGaussians, "low-rank Gaussian class models", _low_rank_cost
    ),
}


def select_solver(models: ClassModels, n_samples: float, n_features: int) -> str:
    """Return the name of the fastest solver for these class models.

    Parameters
    ----------
    models : ClassModels
        Class models.
    n_samples : float
        Number of samples of the whole fit, so that batches use the same solver.
    n_features : int
        Number of features.

    Returns
    -------
    str
        Key of :data:`SOLVERS`.
    """
    if isinstance(models, LowRankGaussians):
        return "low-rank"  # the dense solver evaluates all classes and is never faster
    if isinstance(models, ClassGaussians):
        return choose_solver(n_samples, n_features, models.n_classes)
    return "dense"


def estimated_seconds(
    solver: str, models: ClassModels, n_samples: float, n_features: int
) -> float | None:
    """Estimate the time of a sum of local metrics on one thread.

    Parameters
    ----------
    solver : str
        Key of :data:`SOLVERS`.
    models : ClassModels
        Class models.
    n_samples : float
        Number of samples.
    n_features : int
        Number of features.

    Returns
    -------
    float or None
        Seconds; None if the solver requires other class models.
    """
    chosen = SOLVERS[solver]
    if not isinstance(models, chosen.models):
        return None
    rank = float(np.mean(models.ranks)) if isinstance(models, LowRankGaussians) else 0.0
    return 1e-6 * chosen.cost(Sizes(n_samples, n_features, models.n_classes, rank))


def sum_local_metrics(
    models: ClassModels,
    X: AnyArray,
    frame: Scaling,
    *,
    weights: FloatArray | None = None,
    log_priors: FloatArray | None = None,
    normalization: Normalization = "determinant",
    solver: str = "dense",
    tol: float = 1e-2,
    n_total: float | None = None,
    n_jobs: int | None = None,
) -> MetricSum:
    """Sum the local metrics of samples, in chunks.

    Parameters
    ----------
    models : ClassModels
        Class models, in the coordinates of `frame`.
    X : ndarray of shape (n_samples, n_features)
        Samples in input space.
    frame : Scaling
        Coordinates of the models.
    weights : ndarray of shape (n_samples,), default=None
        Weight of each sample; ``None`` for equal weights.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` for equal priors.
    normalization : {"determinant", "trace"}, default="determinant"
        Scale of each local metric before it is added: determinant one, as in the paper, or trace
        equal to the number of features; see :func:`~genmetric.geometry.sign_rule`.
    solver : {"auto", "dense", "resolvent", "low-rank"}, default="dense"
        Name in :data:`SOLVERS`, or "auto" for the choice of :func:`select_solver`.
    tol : float, default=1e-2
        For "resolvent" and "low-rank": classes beyond the leading pair are ignored if their weight
        in Phi is at most this fraction of the largest. Zero ignores none; larger values are faster
        and less accurate.
    n_total : float, default=None
        Number of samples of the whole fit if `X` is a batch of it, so that batches change rounding
        errors only.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    MetricSum
        Sum over all samples.
    """
    check_normalization(normalization)
    n_samples, n_features = X.shape
    problem = SumProblem(
        models,
        X,
        frame,
        computed_like(np.ones(n_samples) if weights is None else weights, X),
        log_priors,
        normalization,
        tol,
        n_samples if n_total is None else n_total,
        n_jobs,
    )
    if solver == "auto":
        solver = select_solver(models, problem.n_total, n_features)
    chosen = SOLVERS[solver]
    if not isinstance(models, chosen.models):
        raise ValueError(
            f"solver={solver!r} requires {chosen.requirement}; got {type(models).__name__}. Use "
            'solver="dense".'
        )
    return chosen.sum(problem) if n_samples else problem.zero()


def choose_solver(n_samples: float, n_features: int, n_classes: int) -> str:
    """Return the faster solver for full Gaussian class models, "dense" or "resolvent"."""
    sizes = Sizes(n_samples, n_features, n_classes)
    return min(("dense", "resolvent"), key=lambda name: SOLVERS[name].cost(sizes))


__all__ = [
    "SOLVERS",
    "MetricSum",
    "Solver",
    "choose_solver",
    "dense_bytes_per_row",
    "dense_metric_sum",
    "estimated_seconds",
    "select_solver",
    "sum_local_metrics",
]
