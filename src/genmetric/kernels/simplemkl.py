r"""SimpleMKL: kernel weights and the support vector machine that uses them, learned together.

Multiple kernel learning asks for the convex combination of kernels (eq. eMKL) on which the support
vector machine has the smallest objective,

.. math:: \min_{d \ge 0,\, \sum_m d_m = 1} J(d), \qquad
          J(d) = \max_\beta \; \beta^T e - \tfrac12 \sum_m d_m a^T K_m a, \quad a_i = \beta_i y_i.

Any :math:`\beta` bounds the minimum from below by
:math:`\beta^T e - \max_m \frac12 a^T K_m a`, and any decision function bounds J(d) from above by
its regularised hinge loss. The difference, the duality gap, says how far the weights can be from
the best, libsvm's own error included; nothing else ends the search with success.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from genmetric._chunks import one_blas_thread
from genmetric._typing import AnyArray, FloatArray
from genmetric.kernels.cuts import CuttingPlanes
from genmetric.kernels.mkl_objective import MKLObjective, MKLPoint
from genmetric.kernels.mkl_steps import corner_step, gradient_step, newton_step
from genmetric.kernels.svm import BinaryProblem, SVMSolution

#: Share of the tolerated gap that libsvm's error may take.
OWN_SHARE = 0.1

SOLVERS = ("newton", "gradient")

#: What follows a kind of step that finds no way down, or crawls.
NEXT = {"gradient": "newton", "newton": "corner"}


class MKLStep(NamedTuple):
    """State of the search at one iteration.

    Attributes
    ----------
    objective : float
        J at the weights.
    duality_gap : float
        Relative duality gap.
    n_active : int
        Kernels of non-zero weight.
    n_svm : int
        Solutions of the support vector machines so far.
    """

    objective: float
    duality_gap: float
    n_active: int
    n_svm: int


@dataclass(frozen=True)
class MKLResult:
    """What :func:`simplemkl` found.

    Attributes
    ----------
    weights : ndarray of shape (n_kernels,)
        Weights d on the simplex.
    solution : SVMSolution
        Support vector machines on the combined kernel.
    objective : float
        J at the weights.
    duality_gap : float
        Relative duality gap: upper minus lower bound, over the objective.
    converged : bool
        Whether the gap is at most the tolerance.
    history : list of MKLStep
        One entry an iteration, the first at the start.
    """

    weights: FloatArray
    solution: SVMSolution
    objective: float
    duality_gap: float
    converged: bool
    history: list[MKLStep]


def _state(point: MKLPoint, cuts: CuttingPlanes, objective: MKLObjective) -> MKLStep:
    gap = (point.solution.primal - cuts.lower) / point.value
    return MKLStep(point.value, gap, int(np.count_nonzero(point.weights)), objective.n_svm)


def _crawls(history: list[MKLStep]) -> bool:
    """Whether the last ten steps together gained less than a tenth of what is missing."""
    if len(history) <= 10:
        return False
    gained = history[-11].objective - history[-1].objective
    return gained < 0.1 * history[-1].duality_gap * history[-1].objective


def simplemkl(
    stack: AnyArray,
    problems: Sequence[BinaryProblem],
    *,
    C: float = 1.0,
    factors: FloatArray | None = None,
    start: FloatArray | None = None,
    solver: str = "newton",
    tol: float = 0.01,
    max_iter: int = 200,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> MKLResult:
    """Learn the weights of kernels from a stack of their Gram matrices.

    Parameters
    ----------
    stack : ndarray of shape (n_kernels, n_samples, n_samples)
        Gram matrices of the training rows, float64 or float32; never copied.
    problems : sequence of BinaryProblem
        Two-class problems that share the weights: see
        :func:`~genmetric.kernels.svm.binary_problems`.
    C : float, default=1.0
        Bound of the multipliers, as in :class:`sklearn.svm.SVC`.
    factors : ndarray of shape (n_kernels,), default=None
        Work with ``factors[m] * stack[m]``; ``None`` is one each.
    start : ndarray of shape (n_kernels,), default=None
        First weights; ``None`` is equal weights.
    solver : "newton" or "gradient", default="newton"
        Second derivatives (Chapelle and Rakotomamonjy 2008), or the reduced gradient of SimpleMKL
        (Rakotomamonjy et al. 2008). The minimum is the same. Where the gradient crawls the second
        derivatives take over, and where these do, at corners of J, cutting planes.
    tol : float, default=0.01
        Largest relative duality gap.
    max_iter : int, default=200
        Largest number of steps.
    n_jobs : int, default=None
        Threads; the answer is the same, bit for bit, for every number.
    verbose : int, default=0
        Whether to print each iteration.

    Returns
    -------
    MKLResult
        Weights, machines, objective and duality gap.

    References
    ----------
    A. Rakotomamonjy, F. Bach, S. Canu and Y. Grandvalet, SimpleMKL, Journal of Machine Learning
    Research 9, 2491-2521 (2008).

    O. Chapelle and A. Rakotomamonjy, Second order optimization of kernel parameters, NIPS workshop
    on kernel learning (2008).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> from genmetric.kernels import binary_problems, simplemkl
    >>> X, y = load_iris(return_X_y=True)
    >>> stack = np.array([rbf_kernel(X, gamma=gamma) for gamma in (0.01, 0.1, 1.0)])
    >>> result = simplemkl(stack, binary_problems(y, 3))
    >>> result.converged, round(float(result.weights.sum()), 6)
    (True, 1.0)
    """
    n_kernels = len(stack)
    first = np.full(n_kernels, 1 / n_kernels) if start is None else start / start.sum()
    scale = np.ones(n_kernels) if factors is None else factors
    objective = MKLObjective(stack, problems, C, scale, n_jobs)
    kind, since = solver, 0
    history: list[MKLStep] = []
    cuts = CuttingPlanes()
    with one_blas_thread():
        point = objective.at(first)
        while True:
            value, upper = point.value, point.solution.primal
            Ka = objective.products(point)
            gradient = objective.gradient(point, Ka)
            own_bound = cuts.add(point.solution.total, gradient)
            history.append(_state(point, cuts, objective))
            if verbose:
                print(f"[simplemkl] {len(history) - 1}: {history[-1]}")  # noqa: T201
            # The multipliers at the weights shall prove the gap; in a corner others may have to.
            bound = cuts.lower if kind == "corner" else own_bound
            if upper - bound <= tol * value or len(history) > max_iter:
                break
            error = (upper - value) / value
            if error > OWN_SHARE * tol and objective.tighten(0.5 * OWN_SHARE * tol / error):
                point = objective.at(point.weights, point.K)
                continue
            if kind in NEXT and _crawls(history[since:]):
                kind, since = NEXT[kind], len(history) - 1
            moved = None
            while moved is None and kind in NEXT:
                if kind == "newton":
                    moved = newton_step(objective, point, gradient, Ka)
                else:
                    moved = gradient_step(objective, point, gradient)
                if moved is None:
                    kind, since = NEXT[kind], len(history) - 1
            if moved is None:
                enough, rounds = upper - tol * value, 20 + 10 * n_kernels
                moved = corner_step(objective, point, cuts, enough=enough, max_rounds=rounds)
            if moved is None:
                history[-1] = _state(point, cuts, objective)
                if history[-1].duality_gap <= tol or not objective.tighten():
                    break
                moved = objective.at(point.weights, point.K)
            point = moved
    gap = history[-1].duality_gap
    return MKLResult(point.weights, point.solution, value, gap, bool(gap <= tol), history)
