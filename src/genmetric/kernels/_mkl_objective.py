r"""The objective of multiple kernel learning as a function of the kernel weights.

.. math:: J(d) = \max_\beta \; \beta^T e - \tfrac12 \sum_m d_m a^T K_m a, \qquad a_i = \beta_i y_i,

is convex in the weights d. At the solution of the support vector machine its derivatives are
:math:`\partial_m J = -\frac12 a^T K_m a`, since a small change of :math:`\beta` changes nothing in
first order. With more than two classes, J is the sum over two-class problems that share d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, solve_triangular

from genmetric._typing import AnyArray, FloatArray
from genmetric.kernels._gram import combine, products
from genmetric.kernels._svm import BinaryProblem, SVMSolution, solve_svms

#: Tolerance of libsvm: initially its default, and the smallest value when its error matters.
INITIAL_SVM_TOL, MIN_SVM_TOL = 1e-3, 1e-7

#: Added to the Gram matrix of free support vectors, relative to its mean diagonal.
RIDGE = 1e-9


@dataclass(frozen=True)
class MKLPoint:
    """Weights with the support vector machines solved at them.

    Attributes
    ----------
    weights : ndarray of shape (n_kernels,)
        Weights d on the simplex.
    K : ndarray of shape (n_samples, n_samples)
        Combined Gram matrix.
    solution : SVMSolution
        Solutions of the support vector machines on K.
    """

    weights: FloatArray
    K: FloatArray
    solution: SVMSolution

    @property
    def value(self) -> float:
        """Objective J at the weights."""
        return self.solution.dual


class MKLObjective:
    """The objective J of a stack of Gram matrices, with a count of its evaluations.

    Parameters
    ----------
    stack : ndarray of shape (n_kernels, n_samples, n_samples)
        Gram matrices of the training samples.
    problems : sequence of BinaryProblem
        Two-class problems, whose objectives are summed.
    C : float
        Bound of the multipliers.
    factors : ndarray of shape (n_kernels,)
        Scale of each kernel: the kernels are ``factors[m] * stack[m]``.
    n_jobs : int, default=None
        Number of threads. Results are bit-identical for every value.
    """

    def __init__(
        self,
        stack: AnyArray,
        problems: Sequence[BinaryProblem],
        C: float,
        factors: FloatArray,
        n_jobs: int | None = None,
    ) -> None:
        self.stack, self.problems, self.C = stack, problems, C
        self.factors, self.n_jobs = factors, n_jobs
        self.tol = INITIAL_SVM_TOL
        self.n_svm = 0

    def combine(self, weights: FloatArray) -> FloatArray:
        """Compute the combined Gram matrix; the weights may be a direction."""
        return combine(self.stack, weights * self.factors, self.n_jobs)

    def at(self, weights: FloatArray, K: FloatArray | None = None) -> MKLPoint:
        """Solve the support vector machines at `weights`, with the Gram matrix K if given."""
        K = self.combine(weights) if K is None else K
        self.n_svm += 1
        solution = solve_svms(K, self.problems, self.C, tol=self.tol, n_jobs=self.n_jobs)
        return MKLPoint(weights, K, solution)

    def products(self, point: MKLPoint) -> FloatArray:
        """Compute the vectors K_m a, of shape (n_kernels, n_samples, n_problems)."""
        out = products(self.stack, point.solution.coef, self.n_jobs)
        out *= self.factors[:, None, None]
        return out

    def gradient(self, point: MKLPoint, Ka: FloatArray) -> FloatArray:
        """Compute the derivatives of J by the weights, of shape (n_kernels,)."""
        return np.asarray(-0.5 * np.einsum("mip,ip->m", Ka, point.solution.coef))

    def tighten(self, factor: float = 0.1) -> bool:
        """Multiply the tolerance of libsvm by `factor`; return False if it is already minimal."""
        if self.tol <= MIN_SVM_TOL:
            return False
        self.tol = max(MIN_SVM_TOL, self.tol * min(max(factor, 1e-3), 0.1))
        return True


def mkl_hessian(
    K: FloatArray, Ka: FloatArray, coef: FloatArray, C: float, ridge: float = RIDGE
) -> FloatArray:
    r"""Compute the second derivatives of J at a solution (Chapelle and Rakotomamonjy 2008).

    As long as the set F of multipliers strictly between their bounds does not change,

    .. math:: \partial_l \partial_m J = q_l^T S q_m, \qquad q_m = (K_m a)_F, \qquad
              S = K_{FF}^{-1} - \frac{K_{FF}^{-1} e e^T K_{FF}^{-1}}{e^T K_{FF}^{-1} e},

    summed over problems.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples)
        Combined Gram matrix.
    Ka : ndarray of shape (n_kernels, n_samples, n_problems)
        Products of each kernel with the solutions.
    coef : ndarray of shape (n_samples, n_problems)
        Solutions a.
    C : float
        Bound of the multipliers.
    ridge : float, default=1e-9
        Added to the diagonal of K, relative to its mean.

    Returns
    -------
    ndarray of shape (n_kernels, n_kernels)
        Positive semidefinite matrix.
    """
    H = np.zeros((len(Ka), len(Ka)))
    for p, a in enumerate(coef.T):
        size = np.abs(a)
        free = np.flatnonzero((size > 1e-6 * C) & (size < (1 - 1e-6) * C))
        own = K[np.ix_(free, free)]
        diagonal = float(own.diagonal().mean()) if len(free) else 0.0
        if len(free) < 2 or diagonal <= 0:
            continue
        level = ridge
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
