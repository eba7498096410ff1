"""Steps that decrease the objective J of multiple kernel learning.

:func:`newton_step` uses the second derivatives. :func:`corner_step` uses cutting planes at points
where J is not differentiable.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from genmetric._typing import FloatArray, IntArray
from genmetric.kernels._mkl_objective import MKLObjective, MKLPoint, mkl_hessian

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


#: Relative increase of the diagonal of the matrix, which makes it regular if kernels are equal.
RIDGE = 1e-10


def simplex_quadratic(H: FloatArray, c: FloatArray) -> FloatArray:
    r"""Minimise :math:`\frac12 x^T H x + c^T x` over the simplex, by active sets.

    The active-set method starts at the best vertex. Each iteration adds the variable with the most
    negative derivative, solves for the added variables, and removes those that would become
    negative. The objective decreases in every iteration. Most entries of the solution are zero.

    Parameters
    ----------
    H : ndarray of shape (n, n)
        Symmetric positive semidefinite matrix.
    c : ndarray of shape (n,)
        Linear term.

    Returns
    -------
    ndarray of shape (n,)
        Point on the simplex.
    """
    n = len(c)
    c = c - c.mean()  # does not change the minimum on the simplex, and reduces rounding
    size = float(np.abs(c).max()) or float(H.diagonal().max()) or 1.0
    H, c = H / size, c / size
    level = 1e-10 + 1e-14 * float(H.diagonal().max())
    start = int(np.argmin(H.diagonal() / 2 + c))
    x = np.zeros(n)
    x[start] = 1.0
    inside = np.array([start])
    for _ in range(3 * n + 30):
        slope = H[:, inside] @ x[inside] + c
        slope -= x[inside] @ slope[inside]
        slope[inside] = 0.0
        entering = int(np.argmin(slope))
        if slope[entering] > -level:
            break
        inside = np.append(inside, entering)
        inside = _settle(H, c, x, inside)
        if entering not in inside:  # removed again because of rounding
            break
    return x


def _settle(H: FloatArray, c: FloatArray, x: FloatArray, inside: IntArray) -> IntArray:
    """Minimise over the variables `inside`, in place in x; return those that remain positive."""
    while True:
        # The bordered system, not elimination, because H itself may be nearly singular.
        own = H[np.ix_(inside, inside)]
        ridge = RIDGE * own.diagonal() + RIDGE**2 * own.diagonal().max() + 1e-12
        size = max(1.0, float(own.diagonal().max()))
        border = np.full((len(inside), 1), size)
        system = np.block([[own + np.diag(ridge), border], [border.T, np.zeros((1, 1))]])
        target = np.linalg.solve(system, np.append(-c[inside], size))[:-1]
        if (target > 0).all():
            x[inside] = target / target.sum()
            return inside
        here = x[inside]
        out = target <= 0
        steps = np.where(out, here / np.where(out, here - target, 1.0), np.inf)
        steps[out & (here == target)] = 0.0
        step = float(steps.min())
        here += step * (target - here)
        here[np.argmin(steps)] = 0.0
        x[inside] = here
        inside = inside[here > 0]
        x[inside] /= x[inside].sum()


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


class CuttingPlanes:
    r"""Planes below the objective J, from the support vector machines solved so far.

    The multipliers :math:`\beta_t` of each solved support vector machine give a plane below J,

    .. math:: J(d) \ge e^T \beta_t + g_t^T d, \qquad g_{tm} = -\tfrac12 a_t^T K_m a_t,

    so every convex combination of planes, with weights :math:`\lambda`, bounds the minimum of J:

    .. math:: \min_d J(d) \ge \sum_t \lambda_t\, e^T \beta_t + \min_m \sum_t \lambda_t\, g_{tm} .

    The maximum of the planes is a model of J. If kernels of low rank leave the multipliers
    ambiguous, J is not differentiable, and the multipliers of one solution neither give a direction
    of descent nor a tight bound. The model, which combines several solutions, gives both.

    Attributes
    ----------
    lower : float
        The best lower bound of the minimum of J found so far.
    """

    def __init__(self) -> None:
        self.lower = -np.inf
        self._constants: list[float] = []
        self._gradients: list[FloatArray] = []

    def add(self, constant: float, gradient: FloatArray) -> float:
        """Add the plane of a solution and return its lower bound of the minimum.

        Parameters
        ----------
        constant : float
            Sum of the multipliers.
        gradient : ndarray of shape (n_kernels,)
            Derivatives of J at the solution.

        Returns
        -------
        float
            Lower bound of the minimum of J.
        """
        self._constants.append(constant)
        self._gradients.append(gradient)
        bound = constant + float(gradient.min())
        self.lower = max(self.lower, bound)
        return bound

    def lowest(self, center: FloatArray, radius: float) -> tuple[FloatArray, float] | None:
        """Minimise the model near given weights, and improve `lower`.

        Parameters
        ----------
        center : ndarray of shape (n_kernels,)
            Weights on the simplex.
        radius : float
            Maximum change of each weight; 1 allows the whole simplex.

        Returns
        -------
        weights : ndarray of shape (n_kernels,)
            Weights on the simplex.
        value : float
            Value of the model. None instead of both if the linear program was not solved.
        """
        planes, heights = np.array(self._gradients), np.array(self._constants)
        n_planes, n_kernels = planes.shape
        # Shifted and scaled to numbers near one.
        size = float(np.abs(planes).max()) or 1.0
        base = float(heights.max())
        found = []
        for reach in (1.0, radius):
            low, high = np.maximum(center - reach, 0.0), np.minimum(center + reach, 1.0)
            program = linprog(
                np.append(np.zeros(n_kernels), 1.0),
                A_ub=np.column_stack([planes / size, np.full(n_planes, -1.0)]),
                b_ub=(base - heights) / size,
                A_eq=np.append(np.ones(n_kernels), 0.0)[None],
                b_eq=[1.0],
                bounds=[*zip(low, high, strict=True), (None, None)],
                method="highs",
            )
            if program.status != 0:
                return None
            found.append(program)
        dual = np.maximum(-found[0].ineqlin.marginals, 0.0)
        dual /= dual.sum()
        self.lower = max(self.lower, float(dual @ heights + (dual @ planes).min()))
        weights = np.asarray(found[1].x, float)[:-1]
        weights = np.where(weights > 1e-12, weights, 0.0)
        weights /= weights.sum()
        return weights, float((heights + planes @ weights).max())
