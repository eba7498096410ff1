r"""The support vector machines inside multiple kernel learning.

More than two classes are several two-class problems on one Gram matrix. Their dual objectives,

.. math:: \sum_i \beta_i - \tfrac12 \sum_{ij} \beta_i y_i K_{ij} y_j \beta_j, \qquad
          0 \le \beta_i \le C, \quad \sum_i \beta_i y_i = 0,

are maximised one by one by libsvm through :class:`sklearn.svm.SVC` and summed up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from genmetric._chunks import map_chunks
from genmetric._quiet import quiet
from genmetric._typing import FloatArray, IntArray

#: Steps after which libsvm gives up; the duality gap then says how far it came.
MAX_STEPS = 10_000_000


@dataclass(frozen=True)
class BinaryProblem:
    """Two classes, or one class against the rest, out of many.

    Attributes
    ----------
    rows : ndarray of shape (n_problem_rows,)
        Training rows that take part.
    signs : ndarray of shape (n_problem_rows,)
        Their label: +1 or -1.
    positive : int
        Class of the sign +1.
    negative : int
        Class of the sign -1; -1 is all other classes.
    """

    rows: IntArray
    signs: FloatArray
    positive: int
    negative: int


def binary_problems(codes: IntArray, n_classes: int, strategy: str = "ovo") -> list[BinaryProblem]:
    """Two-class problems of a problem with many classes.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,)
        Class of each row, in ``range(n_classes)``.
    n_classes : int
        Number of classes; two give a single problem.
    strategy : "ovo" or "ovr", default="ovo"
        One problem for each pair of classes, on their rows, or one for each class against the
        rest, on all rows.

    Returns
    -------
    list of BinaryProblem
        The problems; for two classes the second is positive.
    """
    if strategy not in ("ovo", "ovr"):
        raise ValueError(f'strategy must be "ovo" or "ovr"; got {strategy!r}.')
    if n_classes == 2 or strategy == "ovo":
        problems = []
        for a, b in combinations(range(n_classes), 2):
            rows = np.flatnonzero((codes == a) | (codes == b))
            problems.append(BinaryProblem(rows, np.where(codes[rows] == b, 1.0, -1.0), b, a))
        return problems
    every = np.arange(len(codes))
    return [BinaryProblem(every, np.where(codes == c, 1.0, -1.0), c, -1) for c in range(n_classes)]


@dataclass(frozen=True)
class SVMSolution:
    r"""Solutions of all problems on one Gram matrix K.

    Attributes
    ----------
    coef : ndarray of shape (n_samples, n_problems)
        :math:`\beta_i y_i`; zero for rows that are no support vectors.
    intercept : ndarray of shape (n_problems,)
        The offset b of the decision :math:`\sum_i \beta_i y_i k(x_i, x) + b`.
    dual : float
        Sum of the dual objectives: the value J of the combined kernel, from below.
    primal : float
        Sum of the primal objectives :math:`\frac12 \|f\|^2 + C \sum_i (1 - y_i f(x_i))_+` of the
        same solutions: J from above. The difference is libsvm's own error.
    """

    coef: FloatArray
    intercept: FloatArray
    dual: float
    primal: float

    @property
    def total(self) -> float:
        r"""Sum of all :math:`\beta_i`."""
        return float(np.abs(self.coef).sum())


def _solve_one(
    K: FloatArray, problem: BinaryProblem, C: float, tol: float
) -> tuple[FloatArray, float, float, float]:
    rows = problem.rows
    own = K if len(rows) == len(K) else K[np.ix_(rows, rows)]
    # libsvm keeps kernel values as float32 and has absolute thresholds: give it a kernel of size
    # one. K/s with C·s has the same decision and s times the multipliers.
    size = float(own.diagonal().mean())
    size = size if size > 0 else 1.0
    svc = SVC(C=C * size, kernel="precomputed", tol=tol, max_iter=MAX_STEPS)
    svc.fit(own / size, problem.signs)
    coef = np.zeros(len(rows))
    coef[svc.support_] = svc.dual_coef_[0] / size
    intercept = float(svc.intercept_[0])
    f = own @ coef
    norm2 = float(coef @ f)
    margins = problem.signs * (f + intercept)
    # libsvm stops with margins up to tol short of one: stretching f by that much may cost less.
    primal = min(
        t * t / 2 * norm2 + C * float(np.maximum(0, 1 - t * margins).sum())
        for t in (1.0, 1 / (1 - min(tol, 0.5)))
    )
    return coef, intercept, float(np.abs(coef).sum()) - norm2 / 2, primal


def solve_svms(
    K: FloatArray,
    problems: Sequence[BinaryProblem],
    C: float,
    *,
    tol: float = 1e-3,
    n_jobs: int | None = None,
) -> SVMSolution:
    """Solve the support vector machines of all problems on one Gram matrix.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples)
        Gram matrix of the training rows.
    problems : sequence of BinaryProblem
        See :func:`binary_problems`.
    C : float
        Bound of the multipliers.
    tol : float, default=1e-3
        libsvm's tolerance.
    n_jobs : int, default=None
        Threads over problems; the answer is the same for every number.

    Returns
    -------
    SVMSolution
        Solutions and the sum of their objectives.
    """
    coef = np.zeros((len(K), len(problems)))
    intercept = np.zeros(len(problems))
    dual = primal = 0.0
    with quiet(ConvergenceWarning):
        solved = map_chunks(lambda problem: _solve_one(K, problem, C, tol), problems, n_jobs)
        for p, (own_coef, own_intercept, own_dual, own_primal) in enumerate(solved):
            coef[problems[p].rows, p] = own_coef
            intercept[p] = own_intercept
            dual += own_dual
            primal += own_primal
    return SVMSolution(coef, intercept, dual, primal)


def class_scores(
    decisions: FloatArray, problems: Sequence[tuple[int, int]], n_classes: int
) -> FloatArray:
    """Scores of the classes from the decisions of two-class problems.

    Parameters
    ----------
    decisions : ndarray of shape (n_samples, n_problems)
        Decision values.
    problems : sequence of (int, int)
        Positive and negative class of each problem; -1 is all other classes.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_samples,) or (n_samples, n_classes)
        For two classes the decision itself; for one-against-rest problems the decision of each
        class; for pairs the number of pairs that a class wins plus a part below one half that
        grows with its summed decisions, which breaks ties.
    """
    if n_classes == 2:
        return decisions[:, 0]
    if all(negative < 0 for _, negative in problems):
        return decisions
    votes = np.zeros((len(decisions), n_classes))
    strength = np.zeros_like(votes)
    for value, (positive, negative) in zip(decisions.T, problems, strict=True):
        won = value > 0
        votes[:, positive] += won
        votes[:, negative] += ~won
        strength[:, positive] += value
        strength[:, negative] -= value
    return np.asarray(votes + 0.45 * strength / (1 + np.abs(strength)))
