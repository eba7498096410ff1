"""Steps that lower the objective of multiple kernel learning.

:func:`gradient_step` is a round of SimpleMKL, :func:`newton_step` goes by the second derivatives.
J is convex, so both lead to the same minimum; the latter in a tenth of the rounds. Where J has a
corner and both fail, :func:`corner_step` goes by cutting planes.
"""

from __future__ import annotations

import numpy as np

from genmetric._typing import FloatArray
from genmetric.kernels.cuts import CuttingPlanes
from genmetric.kernels.mkl_objective import MKLObjective, MKLPoint, mkl_hessian
from genmetric.kernels.simplex import largest_step, reduced_gradient, simplex_quadratic

#: Share of the promised decrease that a step has to keep.
ARMIJO = 1e-4

#: Trial steps on a line.
MAX_TRIALS = 15


def line_search(
    objective: MKLObjective,
    start: MKLPoint,
    direction: FloatArray,
    K_direction: FloatArray,
    slope: float,
    *,
    step: float,
    tried: MKLPoint,
) -> MKLPoint | None:
    """A point on a line that keeps a share of the decrease its slope promises, or None.

    A trial costs one solution of the machines: the combined Gram matrix is linear in the step. The
    next one is the minimum of the parabola through value and slope at the start and the value at
    the last trial, between a twentieth and a half of the last step.

    Parameters
    ----------
    objective : MKLObjective
        J.
    start : MKLPoint
        Where the line begins.
    direction : ndarray of shape (n_kernels,)
        Where it goes.
    K_direction : ndarray of shape (n_samples, n_samples)
        The Gram matrices combined by the direction.
    slope : float
        Derivative of J along the direction, below zero.
    step : float
        First trial, at most the largest step on the simplex.
    tried : MKLPoint
        The point at that trial.

    Returns
    -------
    MKLPoint or None
        None where a step of any use does not lower J.
    """
    for trial in range(MAX_TRIALS):
        rise = tried.value - start.value
        if rise <= ARMIJO * step * slope:
            return tried
        if trial == MAX_TRIALS - 1:
            break
        step *= min(max(-slope * step / (2 * (rise - slope * step)), 0.05), 0.5)
        weights = np.maximum(start.weights + step * direction, 0.0)
        tried = objective.at(weights, start.K + step * K_direction)
    return None


def newton_step(
    objective: MKLObjective, point: MKLPoint, gradient: FloatArray, Ka: FloatArray
) -> MKLPoint | None:
    r"""Towards the minimum over the simplex of the quadratic model of J.

    .. math:: d^+ = \arg\min_x \; g^T (x - d) + \tfrac12 (x - d)^T H (x - d).

    Parameters
    ----------
    objective : MKLObjective
        J.
    point : MKLPoint
        Where we are.
    gradient : ndarray of shape (n_kernels,)
        The derivatives g there.
    Ka : ndarray of shape (n_kernels, n_samples, n_problems)
        Products of the kernels with the solutions there.

    Returns
    -------
    MKLPoint or None
        A point of lower J; None where there is none on the way.
    """
    H = mkl_hessian(point.K, Ka, point.solution.coef, objective.C)
    target = simplex_quadratic(H, gradient - H @ point.weights)
    direction = target - point.weights
    slope = float(gradient @ direction)
    if slope >= 0:
        return None
    tried = objective.at(target)
    return line_search(objective, point, direction, tried.K - point.K, slope, step=1.0, tried=tried)


def gradient_step(
    objective: MKLObjective, point: MKLPoint, gradient: FloatArray
) -> MKLPoint | None:
    """A round of SimpleMKL (Rakotomamonjy et al. 2008, algorithm 1).

    As long as J falls all the way to where a weight reaches zero, go there, take that weight out
    of the direction, let the base variable absorb its share, and go on. Then search the line up
    to the next zero.

    Parameters
    ----------
    objective : MKLObjective
        J.
    point : MKLPoint
        Where we are.
    gradient : ndarray of shape (n_kernels,)
        The derivatives there.

    Returns
    -------
    MKLPoint or None
        A point of lower J; None where there is none on the way.
    """
    direction, base = reduced_gradient(gradient, point.weights)
    step, first = largest_step(point.weights, direction)
    if first < 0:
        return None
    K_direction = objective.combine(direction)
    here, slope = point, float(gradient @ direction)
    while True:
        weights = here.weights + step * direction
        # All that reach zero together, of which rounding would leave some a little above.
        gone = (direction < 0) & (weights <= 1e-12 * here.weights)
        gone[first] = True
        weights[gone] = 0.0
        edge = objective.at(weights, here.K + step * K_direction)
        if edge.value >= here.value:
            break
        here = edge
        if gone[base]:
            return here
        change = np.where(gone, -direction, 0.0)
        change[base] = -change.sum()
        direction = np.where(gone, 0.0, direction + change)
        step, first = largest_step(here.weights, direction)
        if first < 0:
            return here
        K_direction = K_direction + objective.combine(change)
        slope = np.nan
    if np.isnan(slope):
        slope = float(objective.gradient(here, objective.products(here)) @ direction)
    found = None
    if slope < 0:
        found = line_search(objective, here, direction, K_direction, slope, step=step, tried=edge)
    if found is not None:
        return found
    return None if here is point else here


def corner_step(
    objective: MKLObjective, point: MKLPoint, cuts: CuttingPlanes, *, enough: float, max_rounds: int
) -> MKLPoint | None:
    """Out of a corner of J by cutting planes, or the proof that this is not worth while.

    Each round solves the machines where the model of the planes is lowest, no further from the
    best weights than a radius. A point that keeps a tenth of the promise is the step; another one
    is a plane more, and halves the radius where it is worse than the best.

    Parameters
    ----------
    objective : MKLObjective
        J.
    point : MKLPoint
        The best weights so far.
    cuts : CuttingPlanes
        Planes so far; new ones are added, and the lower bound is sharpened.
    enough : float
        A lower bound that ends the search.
    max_rounds : int
        Largest number of rounds.

    Returns
    -------
    MKLPoint or None
        A point of lower J; None where the bound is reached or rounds are used up.
    """
    radius = 0.1
    for _ in range(max_rounds):
        lowest = cuts.lowest(point.weights, radius)
        if lowest is None or cuts.lower >= enough:
            return None
        weights, promise = lowest
        tried = objective.at(weights)
        cuts.add(tried.solution.total, objective.gradient(tried, objective.products(tried)))
        if tried.value < point.value - 0.1 * (point.value - promise):
            return tried
        if tried.value > point.value:
            radius = max(radius / 2, 1e-6)
    return None
