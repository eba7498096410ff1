r"""SimpleMKL: joint optimisation of kernel weights and of support vector machines.

Multiple kernel learning finds the convex combination of kernels, equation (14) of the paper, for
which the objective of the support vector machine is smallest,

.. math:: \min_{d \ge 0,\, \sum_m d_m = 1} J(d), \qquad
          J(d) = \max_\beta \; \beta^T e - \tfrac12 \sum_m d_m a^T K_m a, \quad a_i = \beta_i y_i.

Any feasible :math:`\beta` gives the lower bound :math:`\beta^T e - \max_m \frac12 a^T K_m a` of the
minimum, and any decision function gives an upper bound of J(d), its regularised hinge loss. The
difference, the duality gap, bounds the distance of J(d) to the minimum including the error of
libsvm. The optimisation converges only if the gap is small enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from genmetric._chunks import one_blas_thread
from genmetric._logging import log_progress
from genmetric._typing import AnyArray, FloatArray
from genmetric.kernels._mkl_objective import MKLObjective, MKLPoint
from genmetric.kernels._mkl_steps import CuttingPlanes, corner_step, newton_step
from genmetric.kernels._svm import BinaryProblem, SVMSolution

#: Fraction of the tolerated gap that the error of libsvm may use.
SVM_ERROR_FRACTION = 0.1


class MKLStep(NamedTuple):
    """State of the optimisation at one iteration.

    Attributes
    ----------
    objective : float
        J at the weights.
    duality_gap : float
        Relative duality gap.
    n_active : int
        Number of kernels with non-zero weight.
    n_svm : int
        Number of times that the support vector machines were solved.
    """

    objective: float
    duality_gap: float
    n_active: int
    n_svm: int


@dataclass(frozen=True)
class MKLResult:
    """Result of :func:`simplemkl`.

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
        One entry per iteration, the first at the initial weights.
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


def _is_slow(history: list[MKLStep]) -> bool:
    """Return whether the last ten iterations reduced the gap by less than a tenth."""
    if len(history) <= 10:
        return False
    decrease = history[-11].objective - history[-1].objective
    return decrease < 0.1 * history[-1].duality_gap * history[-1].objective


def simplemkl(
    stack: AnyArray,
    problems: Sequence[BinaryProblem],
    *,
    C: float = 1.0,
    factors: FloatArray | None = None,
    start: FloatArray | None = None,
    tol: float = 0.01,
    max_iter: int = 200,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> MKLResult:
    """Learn the weights of kernels from a stack of their Gram matrices.

    Each iteration minimises a quadratic model of the objective from its second derivatives
    (Chapelle and Rakotomamonjy 2008). The minimum is the one of the reduced gradient method of
    SimpleMKL (Rakotomamonjy et al. 2008), which solves many times more support vector machines.
    Cutting planes replace the quadratic model at points where the objective is not differentiable.

    Parameters
    ----------
    stack : ndarray of shape (n_kernels, n_samples, n_samples)
        Gram matrices of the training samples, float64 or float32. They are not copied.
    problems : sequence of BinaryProblem
        Two-class problems that share the weights: see :func:`~genmetric.kernels.binary_problems`.
    C : float, default=1.0
        Penalty of errors, as in :class:`sklearn.svm.SVC`. Smaller values regularise more.
    factors : ndarray of shape (n_kernels,), default=None
        Scale of each kernel: the kernels are ``factors[m] * stack[m]``. ``None`` does not scale.
    start : ndarray of shape (n_kernels,), default=None
        Initial weights; ``None`` uses equal weights.
    tol : float, default=0.01
        Relative duality gap at which the optimisation stops. Smaller values are more accurate and
        slower.
    max_iter : int, default=200
        Maximum number of iterations.
    n_jobs : int, default=None
        Number of threads. Results are bit-identical for every value.
    verbose : int, default=0
        Whether to print each iteration.

    Returns
    -------
    MKLResult
        Weights, support vector machines, objective and duality gap.

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
    use_cuts = False  # from the first point that Newton steps do not leave
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
                log_progress("simplemkl", f"{len(history) - 1}: {history[-1]}")
            # The multipliers at these weights give the bound, unless they are ambiguous.
            bound = cuts.lower if use_cuts else own_bound
            if upper - bound <= tol * value or len(history) > max_iter:
                break
            error = (upper - value) / value
            if error > SVM_ERROR_FRACTION * tol and objective.tighten(
                0.5 * SVM_ERROR_FRACTION * tol / error
            ):
                point = objective.at(point.weights, point.K)
                continue
            use_cuts = use_cuts or _is_slow(history)
            moved = None if use_cuts else newton_step(objective, point, gradient, Ka)
            use_cuts = use_cuts or moved is None
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
