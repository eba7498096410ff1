r"""Quadratic programs on the simplex of kernel weights: non-negative, with sum one."""

from __future__ import annotations

import numpy as np

from genmetric._typing import FloatArray, IntArray

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
