"""Steps that decrease the objective J of multiple kernel learning.

:func:`newton_step` uses the second derivatives. :func:`corner_step` uses cutting planes at points
where J is not differentiable.
"""

from __future__ import annotations

import numpy as np

from genmetric._typing import FloatArray
from genmetric.kernels._cuts import CuttingPlanes
from genmetric.kernels._mkl_objective import MKLObjective, MKLPoint, mkl_hessian
from genmetric.kernels._simplex import simplex_quadratic

#: Minimum decrease of a step, relative to the decrease predicted by the slope (Armijo condition).
MIN_DECREASE = 1e-4

#: Maximum number of trial steps on a line.
MAX_TRIALS = 15


def line_search(
    objective: MKLObjective,
    start: MKLPoint,
    direction: FloatArray,
    slope: float,
    tried: MKLPoint,
) -> MKLPoint | None:
    """Find a point on a line with sufficient decrease (Armijo condition), or None.

    Each trial solves the support vector machines once; the combined Gram matrix is linear in the
    step. The next trial is the minimum of the parabola through the value and the slope at the start
    and the value at the last trial, between 0.05 and 0.5 times the last step.

    Parameters
    ----------
    objective : MKLObjective
        The objective J.
    start : MKLPoint
        First point of the line.
    direction : ndarray of shape (n_kernels,)
        Direction of the line; its entries sum to zero.
    slope : float
        Derivative of J along the direction, negative.
    tried : MKLPoint
        The point at step one, on the simplex.

    Returns
    -------
    MKLPoint or None
        The point found; None if no trial step decreases J sufficiently.
    """
    K_direction = tried.K - start.K
    step = 1.0
    for trial in range(MAX_TRIALS):
        rise = tried.value - start.value
        if rise <= MIN_DECREASE * step * slope:
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
    r"""Move towards the minimum of the quadratic model of J on the simplex.

    .. math:: d^+ = \arg\min_x \; g^T (x - d) + \tfrac12 (x - d)^T H (x - d).

    Parameters
    ----------
    objective : MKLObjective
        The objective J.
    point : MKLPoint
        The current weights d and solutions.
    gradient : ndarray of shape (n_kernels,)
        Derivatives g of J at the current weights.
    Ka : ndarray of shape (n_kernels, n_samples, n_problems)
        Products of the kernels with the current solutions.

    Returns
    -------
    MKLPoint or None
        A point with lower J; None if none was found.
    """
    H = mkl_hessian(point.K, Ka, point.solution.coef, objective.C)
    target = simplex_quadratic(H, gradient - H @ point.weights)
    direction = target - point.weights
    slope = float(gradient @ direction)
    if slope >= 0:
        return None
    return line_search(objective, point, direction, slope, objective.at(target))


def corner_step(
    objective: MKLObjective, point: MKLPoint, cuts: CuttingPlanes, *, enough: float, max_rounds: int
) -> MKLPoint | None:
    """Decrease J by cutting planes where it is not differentiable, or show that this is not needed.

    Each iteration solves the support vector machines at the minimum of the model of the planes
    within a radius of the best weights. If J decreases by at least a tenth of the decrease of the
    model, the step is accepted. Otherwise the new plane improves the model, and the radius is
    halved if J increased.

    Parameters
    ----------
    objective : MKLObjective
        The objective J.
    point : MKLPoint
        The best weights so far.
    cuts : CuttingPlanes
        The planes so far; new ones are added, and the lower bound is improved.
    enough : float
        Lower bound at which the search ends.
    max_rounds : int
        Maximum number of iterations.

    Returns
    -------
    MKLPoint or None
        A point with lower J; None if the bound or the maximum number of iterations is reached.
    """
    radius = 0.1
    for _ in range(max_rounds):
        lowest = cuts.lowest(point.weights, radius)
        if lowest is None or cuts.lower >= enough:
            return None
        weights, predicted = lowest
        tried = objective.at(weights)
        cuts.add(tried.solution.total, objective.gradient(tried, objective.products(tried)))
        if tried.value < point.value - 0.1 * (point.value - predicted):
            return tried
        if tried.value > point.value:
            radius = max(radius / 2, 1e-6)
    return None
