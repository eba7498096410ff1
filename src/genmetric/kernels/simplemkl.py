r"""SimpleMKL: joint optimisation of kernel weights and of support vector machines.

Multiple kernel learning finds the convex combination of kernels, equation (14) of the paper, for
which the objective of the support vector machine is smallest,

.. math:: \min_{d \ge 0,\, \sum_m d_m = 1} J(d), \qquad
          J(d) = \max_\beta \; \beta^T e - \tfrac12 \sum_m d_m a^T K_m a, \quad a_i = \beta_i y_i.

J is convex. At the solution of the support vector machine its derivatives are
:math:`\partial_m J = -\frac12 a^T K_m a`, since a small change of :math:`\beta` changes nothing in
first order. With more than two classes, J is the sum over two-class problems that share d.

Any feasible :math:`\beta` gives the lower bound :math:`\beta^T e - \max_m \frac12 a^T K_m a` of the
minimum, and any decision function gives an upper bound of J(d), its regularised hinge loss. The
difference, the duality gap, bounds the distance of J(d) to the minimum including the error of
libsvm. The optimisation converges only if the gap is small enough.

Each iteration minimises a quadratic model of J from its second derivatives (Chapelle and
Rakotomamonjy 2008). The minimum is the one of the reduced gradient method of SimpleMKL
(Rakotomamonjy et al. 2008), which solves many times more support vector machines. Cutting planes
replace the quadratic model at points where J is not differentiable.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, solve_triangular
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from genmetric._parallel import map_chunks, one_blas_thread, row_chunks
from genmetric._text import print_progress
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import rows_by_class

#: Smallest tolerance of libsvm.
MIN_SVM_TOL = 1e-7


class BinaryProblem(NamedTuple):
    """A two-class problem: samples, their signs, and the two classes."""

    rows: IntArray
    signs: FloatArray
    positive: int
    negative: int


class Point(NamedTuple):
    """Kernel weights, their combined Gram matrix, and the support vector machines solved on it."""

    weights: FloatArray
    K: FloatArray
    #: Multiplier times sign of each sample, shape (n_samples, n_problems).
    coef: FloatArray
    intercept: FloatArray
    #: Sums of the dual and primal objectives, lower and upper bounds of J.
    dual: float
    primal: float


def pair_problems(codes: IntArray, n_classes: int) -> list[BinaryProblem]:
    """Return one problem per pair of classes."""
    problems, of_class = [], rows_by_class(codes, n_classes)
    for a, b in combinations(range(n_classes), 2):
        rows = np.sort(np.concatenate([of_class[a], of_class[b]]))
        problems.append(BinaryProblem(rows, np.where(codes[rows] == b, 1.0, -1.0), b, a))
    return problems


def solve_svm(
    K: FloatArray, problem: BinaryProblem, C: float, tol: float
) -> tuple[FloatArray, float, float, float]:
    """Solve one support vector machine: multipliers, intercept, dual and primal objective."""
    rows, signs = problem.rows, problem.signs
    own = K if len(rows) == len(K) else K[np.ix_(rows, rows)]
    # libsvm keeps kernel values as float32 and has absolute thresholds, so the kernel is scaled to
    # a mean diagonal of one. K/s with C·s has the same decision and s times the multipliers.
    size = float(own.diagonal().mean())
    size = size if size > 0 else 1.0
    svc = SVC(C=C * size, kernel="precomputed", tol=tol, max_iter=10_000_000).fit(own / size, signs)
    coef = np.zeros(len(rows))
    coef[svc.support_] = svc.dual_coef_[0] / size
    intercept = float(svc.intercept_[0])
    f = own @ coef
    norm2 = float(coef @ f)
    margins = signs * (f + intercept)
    # libsvm stops with margins up to tol below one: scaling f by as much can lower the objective.
    primal = min(
        t * t / 2 * norm2 + C * float(np.maximum(0, 1 - t * margins).sum())
        for t in (1.0, 1 / (1 - min(tol, 0.5)))
    )
    return coef, intercept, float(np.abs(coef).sum()) - norm2 / 2, primal


@np.errstate(under="ignore")
def combine(stack: AnyArray, weights: FloatArray) -> FloatArray:
    """Sum Gram matrices with weights, equation (14); those of weight zero are not read."""
    out = np.zeros(stack.shape[1:])
    # Blocks of the sum stay in the cache of a core while the kernels are added.
    for rows in row_chunks(stack.shape[1], 8 * stack.shape[2], budget=2**18):
        for m in np.flatnonzero(weights):
            out[rows] += np.multiply(stack[m, rows], weights[m], dtype=float)
    return out


@dataclass
class Objective:
    """The objective J of the kernels ``factors[m] * stack[m]``; the stack is not copied."""

    stack: AnyArray
    factors: FloatArray
    problems: Sequence[BinaryProblem]
    C: float
    n_jobs: int | None
    #: Tolerance of libsvm: initially its default, smaller when its error matters.
    tol: float = 1e-3

    def at(self, weights: FloatArray, K: FloatArray | None = None) -> Point:
        """Solve the support vector machines at `weights`, whose Gram matrix is K if given."""
        if K is None:
            K = combine(self.stack, weights * self.factors)
        coef = np.zeros((len(K), len(self.problems)))
        solved = map_chunks(lambda p: solve_svm(K, p, self.C, self.tol), self.problems, self.n_jobs)
        coefs, intercepts, duals, primals = zip(*solved, strict=True)
        for p, problem in enumerate(self.problems):
            coef[problem.rows, p] = coefs[p]
        return Point(weights, K, coef, np.array(intercepts), sum(duals), sum(primals))

    def products(self, point: Point) -> FloatArray:
        """Compute the vectors K_m a, of shape (n_kernels, n_samples, n_problems)."""
        chunks = row_chunks(len(self.stack), 8 * self.stack[0].size)
        parts = map_chunks(lambda kernels: self.stack[kernels] @ point.coef, chunks, self.n_jobs)
        out = np.concatenate(list(parts))
        out *= self.factors[:, None, None]
        return out

    def tighten(self, factor: float = 0.1) -> bool:
        """Multiply the tolerance of libsvm by `factor`; return False if it is already minimal."""
        if self.tol <= MIN_SVM_TOL:
            return False
        self.tol = max(MIN_SVM_TOL, self.tol * min(max(factor, 1e-3), 0.1))
        return True


def gradient_of(Ka: FloatArray, coef: FloatArray) -> FloatArray:
    """Compute the derivatives of J by the weights from the products of the kernels with a."""
    return np.asarray(-0.5 * np.einsum("mip,ip->m", Ka, coef))


def hessian_of(K: FloatArray, Ka: FloatArray, coef: FloatArray, C: float) -> FloatArray:
    r"""Compute the second derivatives of J (Chapelle and Rakotomamonjy 2008).

    As long as the set F of multipliers strictly between their bounds does not change,

    .. math:: \partial_l \partial_m J = q_l^T S q_m, \qquad q_m = (K_m a)_F, \qquad
              S = K_{FF}^{-1} - \frac{K_{FF}^{-1} e e^T K_{FF}^{-1}}{e^T K_{FF}^{-1} e},

    summed over problems.
    """
    H = np.zeros((len(Ka), len(Ka)))
    for p, a in enumerate(coef.T):
        size = np.abs(a)
        free = np.flatnonzero((size > 1e-6 * C) & (size < (1 - 1e-6) * C))
        own = K[np.ix_(free, free)]
        diagonal = float(own.diagonal().mean()) if len(free) else 0.0
        if len(free) < 2 or diagonal <= 0:
            continue
        level = 1e-9
        while True:
            try:
                factor, _ = cho_factor(own + level * diagonal * np.eye(len(free)), lower=True)
                break
            except LinAlgError:  # more free vectors than the rank of the kernel, and rounding
                level *= 100
        sides = np.column_stack([Ka[:, free, p].T, np.ones(len(free))])
        Z = solve_triangular(factor, sides, lower=True)
        ones, Q = Z[:, -1], Z[:, :-1]
        Q = Q - np.outer(ones, (ones @ Q) / (ones @ ones))
        H += Q.T @ Q
    return H


def newton_step(
    objective: Objective, point: Point, gradient: FloatArray, Ka: FloatArray
) -> Point | None:
    """Move towards the minimum of the quadratic model of J on the simplex; None if J does not fall.

    The combined Gram matrix is linear in the step. The next trial step is the minimum of the
    parabola through the value and the slope at the start and the value at the last trial, between
    0.05 and 0.5 times the last step.
    """
    H = hessian_of(point.K, Ka, point.coef, objective.C)
    target = simplex_quadratic(H, gradient - H @ point.weights)
    direction = target - point.weights
    slope = float(gradient @ direction)
    if slope >= 0:
        return None
    tried = objective.at(target)
    K_direction, step = tried.K - point.K, 1.0
    for trial in range(15):
        rise = tried.dual - point.dual
        if rise <= 1e-4 * step * slope:  # Armijo's condition
            return tried
        if trial < 14:
            step *= min(max(-slope * step / (2 * (rise - slope * step)), 0.05), 0.5)
            weights = np.maximum(point.weights + step * direction, 0.0)
            tried = objective.at(weights, point.K + step * K_direction)
    return None


def simplex_quadratic(H: FloatArray, c: FloatArray) -> FloatArray:
    """Minimise x'Hx/2 + c'x over the simplex by active sets; most entries of x are zero.

    The method starts at the best vertex. Each iteration adds the variable with the most negative
    derivative, solves for the added variables, and removes those that would become negative. The
    objective decreases in every iteration.
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
        inside = _settle(H, c, x, np.append(inside, entering))
        if entering not in inside:  # removed again because of rounding
            break
    return x


def _settle(H: FloatArray, c: FloatArray, x: FloatArray, inside: IntArray) -> IntArray:
    """Minimise over the variables `inside`, in place in x; return those that remain positive."""
    while True:
        # The bordered system, not elimination, because H itself may be nearly singular; the ridge
        # makes it regular if kernels are equal.
        own = H[np.ix_(inside, inside)]
        ridge = 1e-10 * own.diagonal() + 1e-20 * own.diagonal().max() + 1e-12
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


class CuttingPlanes:
    r"""Planes below the objective J, from the support vector machines solved so far.

    The multipliers :math:`\beta_t` of each solved support vector machine give a plane below J,

    .. math:: J(d) \ge e^T \beta_t + g_t^T d, \qquad g_{tm} = -\tfrac12 a_t^T K_m a_t,

    so every convex combination of planes, with weights :math:`\lambda`, bounds the minimum of J:

    .. math:: \min_d J(d) \ge \sum_t \lambda_t\, e^T \beta_t + \min_m \sum_t \lambda_t\, g_{tm} .

    The maximum of the planes is a model of J. If kernels of low rank leave the multipliers
    ambiguous, J is not differentiable, and the multipliers of one solution neither give a direction
    of descent nor a tight bound. The model, which combines several solutions, gives both.
    """

    def __init__(self) -> None:
        self.lower = -np.inf
        self._heights: list[float] = []
        self._gradients: list[FloatArray] = []

    def add(self, point: Point, gradient: FloatArray) -> float:
        """Add the plane of a solution and return its lower bound of the minimum."""
        height = float(np.abs(point.coef).sum())
        self._heights.append(height)
        self._gradients.append(gradient)
        bound = height + float(gradient.min())
        self.lower = max(self.lower, bound)
        return bound

    def lowest(self, center: FloatArray, radius: float) -> tuple[FloatArray, float] | None:
        """Minimise the model within a radius of given weights, and improve `lower`."""
        planes, heights = np.array(self._gradients), np.array(self._heights)
        n_planes, n_kernels = planes.shape
        # Shifted and scaled to numbers near one.
        size = float(np.abs(planes).max()) or 1.0
        found = []
        for reach in (1.0, radius):
            low, high = np.maximum(center - reach, 0.0), np.minimum(center + reach, 1.0)
            program = linprog(
                np.append(np.zeros(n_kernels), 1.0),
                A_ub=np.column_stack([planes / size, np.full(n_planes, -1.0)]),
                b_ub=(heights.max() - heights) / size,
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


def corner_step(
    objective: Objective, point: Point, cuts: CuttingPlanes, enough: float
) -> Point | None:
    """Decrease J where it is not differentiable; None if the lower bound reaches `enough` first.

    Each iteration solves the support vector machines at the minimum of the model of the planes
    within a radius of the best weights. If J decreases by at least a tenth of the decrease of the
    model, the step is accepted. Otherwise the new plane improves the model, and the radius is
    halved if J increased.
    """
    radius = 0.1
    for _ in range(20 + 10 * len(point.weights)):
        lowest = cuts.lowest(point.weights, radius)
        if lowest is None or cuts.lower >= enough:
            return None
        weights, predicted = lowest
        tried = objective.at(weights)
        cuts.add(tried, gradient_of(objective.products(tried), tried.coef))
        if tried.dual < point.dual - 0.1 * (point.dual - predicted):
            return tried
        if tried.dual > point.dual:
            radius = max(radius / 2, 1e-6)
    return None


def simplemkl(
    objective: Objective, start: FloatArray, *, tol: float, max_iter: int, verbose: int = 0
) -> tuple[Point, float, int]:
    """Minimise J over the simplex from `start`, until the relative duality gap is at most `tol`.

    Returns the solution, its duality gap and the number of iterations.
    """
    use_cuts = False  # from the first point that Newton steps do not leave
    values: list[float] = []
    cuts = CuttingPlanes()
    with one_blas_thread(), warnings.catch_warnings():
        # The duality gap includes the error of a support vector machine that did not converge.
        warnings.simplefilter("ignore", ConvergenceWarning)
        point = objective.at(start)
        while True:
            Ka = objective.products(point)
            gradient = gradient_of(Ka, point.coef)
            own_bound = cuts.add(point, gradient)
            values.append(point.dual)
            gap = point.primal - cuts.lower
            if verbose:
                text = f"{len(values) - 1}: objective {point.dual:.6g}, gap {gap / point.dual:.2g}"
                print_progress("simplemkl", text)
            # The multipliers at these weights give the bound, unless they are ambiguous.
            bound = cuts.lower if use_cuts else own_bound
            if point.primal - bound <= tol * point.dual or len(values) > max_iter:
                break
            # The error of libsvm may use a tenth of the tolerated gap.
            error = (point.primal - point.dual) / point.dual
            if error > 0.1 * tol and objective.tighten(0.05 * tol / error):
                point = objective.at(point.weights, point.K)
                continue
            # Slow: the last ten iterations reduced the gap by less than a tenth.
            use_cuts = use_cuts or (len(values) > 10 and values[-11] - values[-1] < 0.1 * gap)
            moved = None if use_cuts else newton_step(objective, point, gradient, Ka)
            if moved is None:
                use_cuts = True
                moved = corner_step(objective, point, cuts, point.primal - tol * point.dual)
            if moved is None:
                if point.primal - cuts.lower <= tol * point.dual or not objective.tighten():
                    break
                moved = objective.at(point.weights, point.K)
            point = moved
    return point, (point.primal - cuts.lower) / point.dual, len(values)
