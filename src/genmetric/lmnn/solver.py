"""L-BFGS over the factor L, in coordinates where the pull is a sum of squares."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize

from genmetric._chunks import one_blas_thread
from genmetric._typing import FloatArray
from genmetric.lmnn.objective import Evaluation, Objective, Problem

#: Least variance of a direction that is made round, against the mean.
_FLOOR = 1e-8
#: The first step of L-BFGS has length one; so long is the start.
_START_LENGTH = 4.0
#: Width over which the kinks of the hinges are rounded, against the margin of one.
_WIDTH = 3e-3
#: Error of a value that L-BFGS does not notice, against its tolerance.
_NEGLIGIBLE = 0.1


@dataclass(frozen=True)
class Solution:
    """Where a minimisation ended.

    Attributes
    ----------
    L : ndarray of shape (n_components, n_features)
        The factor of the metric.
    value : float
        The objective, over all triplets.
    n_triplets : int
        Violated triplets.
    n_iter : int
        Iterations of L-BFGS.
    n_evaluations, n_searches : int
        Evaluations of the objective, and how many of them searched all pairs of rows.
    reason : "converged", "max_iter" or "callback"
        What ended it.
    """

    L: FloatArray
    value: float
    n_triplets: int
    n_iter: int
    n_evaluations: int
    n_searches: int
    reason: Literal["converged", "max_iter", "callback"]


#: How a run of L-BFGS ends, by SciPy's numbers; and minus one for our own reason.
_CONVERGED, _ABNORMAL, _STALE = 0, 2, -1


class _Stale(Exception):
    """Violated triplets were outside the active set, so the last values were too low."""


def minimize_objective(
    problem: Problem,
    L: FloatArray,
    *,
    max_iter: int = 200,
    tol: float = 1e-6,
    n_jobs: int | None = None,
    callback: Callable[[int, Evaluation, FloatArray], Any] | None = None,
) -> Solution:
    r"""Minimise the objective of LMNN over L, from a start.

    L-BFGS runs on an active set of impostors. Where it ends, all impostors are searched; if a
    violated triplet was outside the set, it runs again with that one in. With
    :math:`S = \sum_{ij} (x_i - x_j)(x_i - x_j)^T` over targets it works on :math:`L S^{1/2}`,
    in which the pull is a sum of squares: the minimum is the same, and features of unequal
    variance do not slow it down. The kink of each hinge is rounded over 0.003 of the margin, since
    L-BFGS may stop at a kink that few triplets share; values are those of the plain hinge.

    Parameters
    ----------
    problem : Problem
        Rows and targets.
    L : ndarray of shape (n_components, n_features)
        The start.
    max_iter : int, default=200
        Most iterations.
    tol : float, default=1e-6
        Ends when an iteration lowers the objective by less than this share of its start.
    n_jobs : int, default=None
        Threads; the answer is the same for every number.
    callback : callable, default=None
        Called after each iteration with its number, the evaluation and L; a true answer ends it.

    Returns
    -------
    Solution
        Its objective is no higher than that of the start.
    """
    with one_blas_thread():
        variance, U = np.linalg.eigh(problem.scatter)
        mean = variance.mean()
        variance = np.maximum(variance / mean, _FLOOR) if mean > 0 else np.ones_like(variance)
        to, back = ((U * variance**p) @ U.T for p in (-0.5, 0.5))
        scatter = to @ problem.scatter @ to
        round_problem = replace(problem, X=problem.X @ to, scatter=(scatter + scatter.T) / 2)
        objective = Objective(round_problem, width=_WIDTH, n_jobs=n_jobs)
        return _minimize(objective, L @ back, to, max_iter, tol, callback)


def _minimize(
    objective: Objective,
    start: FloatArray,
    to: FloatArray,
    max_iter: int,
    tol: float,
    callback: Callable[[int, Evaluation, FloatArray], Any] | None,
) -> Solution:
    unit = float(np.linalg.norm(start)) / _START_LENGTH
    first = objective.exact(start)
    # The last iterate and its evaluation; the last evaluation, of a trial perhaps.
    best, at, last = start, first, first
    scale = first.value
    n_iter, converged, stopped = 0, scale == 0, False

    def value_and_gradient(x: FloatArray) -> tuple[float, FloatArray]:
        nonlocal at, last
        L = unit * x.reshape(start.shape)
        seen = objective.active(L)
        if seen is None and not at.exact:
            # Before the set is left behind: was it right about the last iterate?
            believed, at = at, objective.exact(best)
            if at.value - believed.value > _NEGLIGIBLE * tol * scale:
                objective.trust /= 2
                raise _Stale
            seen = objective.active(L)
        last = objective.exact(L) if seen is None else seen
        return last.smooth / scale, last.gradient.ravel() * (unit / scale)

    def after_iteration(xk: FloatArray) -> None:
        nonlocal n_iter, stopped, best, at
        n_iter += 1
        best, at = unit * xk.reshape(start.shape), last
        if callback is not None and callback(n_iter, at, best @ to):
            stopped = True
            raise StopIteration

    while n_iter < max_iter and not (converged or stopped):
        options: Any = {"maxiter": max_iter - n_iter, "maxcor": 20, "ftol": tol, "gtol": 0.0}
        status, before = _STALE, at.smooth
        with suppress(_Stale):
            status = minimize(
                value_and_gradient,
                best.ravel() / unit,
                method="L-BFGS-B",
                jac=True,
                callback=after_iteration,
                options=options,
            ).status
        believed = at
        if not at.exact:
            at = objective.exact(best)
        # Where the line search fails at a kink of the hinge, a fresh start may still get on.
        done = status == _CONVERGED or (status == _ABNORMAL and before - at.smooth <= tol * scale)
        converged = done and at.n_triplets == believed.n_triplets
    if at.value > first.value:  # an active set cut off by max_iter was too kind
        best, at = start, first
    return Solution(
        best @ to,
        at.value,
        at.n_triplets,
        n_iter,
        objective.n_evaluations,
        objective.n_searches,
        "callback" if stopped else "converged" if converged else "max_iter",
    )
