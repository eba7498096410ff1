r"""The support vector machines of multiple kernel learning.

A problem with more than two classes is divided into two-class problems on one Gram matrix. Their
dual objectives,

.. math:: \sum_i \beta_i - \tfrac12 \sum_{ij} \beta_i y_i K_{ij} y_j \beta_j, \qquad
          0 \le \beta_i \le C, \quad \sum_i \beta_i y_i = 0,

are maximised separately by :class:`sklearn.svm.SVC` and summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from genmetric._chunks import map_chunks
from genmetric._typing import FloatArray, IntArray
from genmetric._validation import rows_by_class
from genmetric._warnings import suppress_warnings

#: Maximum number of iterations of libsvm. The duality gap includes the remaining error.
MAX_STEPS = 10_000_000


@dataclass(frozen=True)
class BinaryProblem:
    """A two-class problem: a pair of classes, or one class against the rest.

    Attributes
    ----------
    rows : ndarray of shape (n_problem_rows,)
        Indices of the training samples of the problem.
    signs : ndarray of shape (n_problem_rows,)
        Label of each sample: +1 or -1.
    positive : int
        Class of the sign +1.
    negative : int
        Class of the sign -1; -1 stands for all other classes.
    """

    rows: IntArray
    signs: FloatArray
    positive: int
    negative: int


def n_binary_problems(n_classes: int, strategy: str = "ovo") -> int:
    """Return the number of problems that :func:`binary_problems` makes."""
    one_per_pair = n_classes == 2 or strategy == "ovo"
    return n_classes * (n_classes - 1) // 2 if one_per_pair else n_classes


def binary_problems(codes: IntArray, n_classes: int, strategy: str = "ovo") -> list[BinaryProblem]:
    """Divide a problem with several classes into two-class problems.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,)
        Class of each sample, in ``range(n_classes)``.
    n_classes : int
        Number of classes; two give a single problem.
    strategy : "ovo" or "ovr", default="ovo"
        One problem per pair of classes, on the samples of both, or one per class against the rest,
        on all samples.

    Returns
    -------
    list of BinaryProblem
        The problems; for two classes the second is positive.
    """
    if strategy not in ("ovo", "ovr"):
        raise ValueError(f'strategy must be "ovo" or "ovr"; got {strategy!r}.')
    if n_classes == 2 or strategy == "ovo":
        problems, of_class = [], rows_by_class(codes, n_classes)
        for a, b in combinations(range(n_classes), 2):
            rows = np.sort(np.concatenate([of_class[a], of_class[b]]))
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
        :math:`\beta_i y_i`; zero for samples that are not support vectors.
    intercept : ndarray of shape (n_problems,)
        The offset b of the decision :math:`\sum_i \beta_i y_i k(x_i, x) + b`.
    dual : float
        Sum of the dual objectives, a lower bound of J.
    primal : float
        Sum of the primal objectives :math:`\frac12 \|f\|^2 + C \sum_i (1 - y_i f(x_i))_+` of the
        same solutions, an upper bound of J. The difference is the error of libsvm.
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
    # libsvm keeps kernel values as float32 and has absolute thresholds, so the kernel is scaled to
    # a mean diagonal of one. K/s with C·s has the same decision and s times the multipliers.
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
    # libsvm stops with margins up to tol below one: scaling f by as much can lower the objective.
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
        Gram matrix of the training samples.
    problems : sequence of BinaryProblem
        See :func:`binary_problems`.
    C : float
        Upper bound of the multipliers.
    tol : float, default=1e-3
        Tolerance of libsvm.
    n_jobs : int, default=None
        Number of threads over problems. Results are bit-identical for every value.

    Returns
    -------
    SVMSolution
        Solutions and the sum of their objectives.
    """
    coef = np.zeros((len(K), len(problems)))
    intercept = np.zeros(len(problems))
    dual = primal = 0.0
    with suppress_warnings(ConvergenceWarning):
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
    """Compute scores of the classes from the decisions of two-class problems.

    Parameters
    ----------
    decisions : ndarray of shape (n_samples, n_problems)
        Decision values.
    problems : sequence of (int, int)
        Positive and negative class of each problem; -1 stands for all other classes.
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


def class_probabilities(
    decisions: FloatArray, problems: Sequence[tuple[int, int]], n_classes: int
) -> FloatArray:
    r"""Compute class probabilities from the decisions of two-class problems.

    The logistic function :math:`r = 1 / (1 + e^{-f})` of a decision value f is the probability of
    the positive class. For pairs of classes, the probability of a class is the average of its
    pairwise probabilities, :math:`p_c = \frac{2}{k(k-1)} \sum_{b \ne c} r_{cb}`. For
    one-against-rest problems, the values r are divided by their sum. If the class that wins the
    most pairs is not the most probable one, the two exchange their probabilities, so that the
    prediction is always the most probable class. The slope of the logistic function is not fitted,
    so the probabilities are not calibrated.

    Parameters
    ----------
    decisions : ndarray of shape (n_samples, n_problems)
        Decision values.
    problems : sequence of (int, int)
        Positive and negative class of each problem; -1 stands for all other classes.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Probabilities that sum to one.
    """
    positive = expit(decisions)
    if n_classes == 2:
        return np.column_stack([1 - positive[:, 0], positive[:, 0]])
    total = np.zeros((len(decisions), n_classes))
    for value, (first, second) in zip(positive.T, problems, strict=True):
        total[:, first] += value
        if second >= 0:
            total[:, second] += 1 - value
    total /= total.sum(axis=1, keepdims=True)
    samples, largest = np.arange(len(total)), total.argmax(axis=1)
    winner = class_scores(decisions, problems, n_classes).argmax(axis=1)
    highest = total.max(axis=1)
    total[samples, largest] = total[samples, winner]
    total[samples, winner] = highest
    return total
