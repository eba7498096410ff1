"""Minimisation of the LMNN objective over the factor L by L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize

from genmetric._chunks import one_blas_thread
from genmetric._typing import FloatArray
from genmetric.learners._lmnn.objective import Evaluation, Objective, Problem

#: Smallest eigenvalue of the target scatter relative to their mean; smaller ones are raised.
_EIGENVALUE_FLOOR = 1e-8
#: Norm of the start in the units of L-BFGS, whose first step has length one.
_START_NORM = 4.0
#: Width of the smoothed part of the hinges, relative to the margin of one.
_SMOOTHING_WIDTH = 3e-3
#: Bounds of the number of steps that L-BFGS remembers, and bytes for these steps and gradients.
_MIN_HISTORY, _MAX_HISTORY, _HISTORY_BYTES = 5, 20, 32 * 2**20
#: Error of a value that does not affect L-BFGS, relative to its tolerance.
_VALUE_RTOL = 0.1

#: Called with the iteration number, the evaluation and L; a true result ends the minimisation.
IterationCallback = Callable[[int, Evaluation, FloatArray], Any]


@dataclass(frozen=True)
class Solution:
    """Result of a minimisation.

    Attributes
    ----------
    L : ndarray of shape (n_components, n_features)
        The factor of the metric.
    value : float
        The objective, evaluated over all triplets.
    n_triplets : int
        Number of violated triplets.
    n_iter : int
        Number of iterations of L-BFGS.
    n_evaluations, n_searches : int
        Number of evaluations of the objective, and of those that searched all pairs of samples.
    reason : "converged", "max_iter" or "callback"
        Why the minimisation ended.
    """

    L: FloatArray
    value: float
    n_triplets: int
    n_iter: int
    n_evaluations: int
    n_searches: int
    reason: Literal["converged", "max_iter", "callback"]


#: Status of a run of L-BFGS: SciPy's codes, and -1 for a stale active set.
_CONVERGED, _ABNORMAL, _STALE = 0, 2, -1


class _StaleActiveSetError(Exception):
    """Violated triplets were missing from the active set, so the last values were too low."""


def minimize_objective(
    problem: Problem,
    L: FloatArray,
    *,
    max_iter: int = 200,
    tol: float = 1e-6,
    coordinates: FloatArray | None = None,
    n_jobs: int | None = None,
    callback: IterationCallback | None = None,
) -> Solution:
    r"""Minimise the LMNN objective over L by L-BFGS.

    L-BFGS runs on an active set of impostors. After it ends, all impostors are searched, and it
    runs again if a violated triplet was missing from the set. It works on A with :math:`L = AF`.
    The coordinates F do not change the minimum, but they determine the path to it. By default, F
    is the root of the target scatter :math:`S = \sum_{ij} (x_i - x_j)(x_i - x_j)^T`, for which the
    pull is the sum of the squared entries of A and convergence is fast if features have unequal
    variances. With F equal to a factor of the initial metric, the first iterations stay close to
    that metric, as early stopping requires: directions in which the samples hardly vary change
    last. Each hinge is smoothed over 0.003 of the margin, because L-BFGS may stop at a kink;
    reported values are those of the plain hinge.

    Parameters
    ----------
    problem : Problem
        Samples and targets.
    L : ndarray of shape (n_components, n_features)
        Initial factor.
    max_iter : int, default=200
        Maximum number of iterations.
    tol : float, default=1e-6
        The minimisation ends if an iteration lowers the objective by less than this fraction of
        its initial value.
    coordinates : ndarray of shape (n_features, n_features), default=None
        Nonsingular matrix F; ``None`` uses the root of the target scatter.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.
    callback : callable, default=None
        Called after each iteration with its number, the evaluation and L; a true result ends the
        minimisation.

    Returns
    -------
    Solution
        The factor whose objective is not higher than the initial one.
    """
    with one_blas_thread():
        if coordinates is None:
            variance, U = np.linalg.eigh(problem.scatter)
            mean = variance.mean()
            floor = np.ones_like(variance)
            variance = np.maximum(variance / mean, _EIGENVALUE_FLOOR) if mean > 0 else floor
            forward, backward = ((U * variance**p) @ U.T for p in (-0.5, 0.5))
        else:
            forward, backward = coordinates, np.linalg.inv(coordinates)
        objective = Objective(problem, width=_SMOOTHING_WIDTH, n_jobs=n_jobs)
        start = L @ backward
        unit = float(np.linalg.norm(start)) / _START_NORM
        return _minimize(objective, start / unit, unit * forward, max_iter, tol, callback)


def _minimize(
    objective: Objective,
    start: FloatArray,
    forward: FloatArray,
    max_iter: int,
    tol: float,
    callback: IterationCallback | None,
) -> Solution:
    first = objective.exact(start @ forward)
    # The last iterate and its evaluation; the last evaluation, which may be of a trial step.
    best, at, last = start, first, first
    scale = first.value
    n_iter, converged, stopped = 0, scale == 0, False

    def evaluate(A: FloatArray) -> Evaluation:
        nonlocal at
        if at.exact and np.array_equal(A, best):
            return at
        L = A @ forward
        seen = objective.active(L)
        if seen is None and not at.exact:
            # Check the value of the last iterate before the active set is replaced.
            believed, at = at, objective.exact(best @ forward)
            if at.value - believed.value > _VALUE_RTOL * tol * scale:
                objective.max_movement /= 2
                raise _StaleActiveSetError
            seen = objective.active(L)
        return objective.exact(L) if seen is None else seen

    def value_and_gradient(x: FloatArray) -> tuple[float, FloatArray]:
        nonlocal last
        last = evaluate(x.reshape(start.shape))
        return last.smooth / scale, (last.gradient @ forward.T).ravel() / scale

    def after_iteration(xk: FloatArray) -> None:
        nonlocal n_iter, stopped, best, at
        n_iter += 1
        best, at = xk.reshape(start.shape).copy(), last
        if callback is not None and callback(n_iter, at, best @ forward):
            stopped = True
            raise StopIteration

    n_history = int(np.clip(_HISTORY_BYTES // (16 * start.size), _MIN_HISTORY, _MAX_HISTORY))
    while n_iter < max_iter and not (converged or stopped):
        options: Any = {"maxiter": max_iter - n_iter, "maxcor": n_history, "ftol": tol, "gtol": 0.0}
        status, before = _STALE, at.smooth
        with suppress(_StaleActiveSetError):
            status = minimize(
                value_and_gradient,
                best.ravel(),
                method="L-BFGS-B",
                jac=True,
                callback=after_iteration,
                options=options,
            ).status
        believed = at
        if not at.exact:
            at = objective.exact(best @ forward)
        # If the line search fails at a kink of a hinge, a restart can still make progress.
        done = status == _CONVERGED or (status == _ABNORMAL and before - at.smooth <= tol * scale)
        converged = done and at.n_triplets == believed.n_triplets
    if at.value > first.value:  # the last active set underestimated the objective
        best, at = start, first
    return Solution(
        best @ forward,
        at.value,
        at.n_triplets,
        n_iter,
        objective.n_evaluations,
        objective.n_searches,
        "callback" if stopped else "converged" if converged else "max_iter",
    )
