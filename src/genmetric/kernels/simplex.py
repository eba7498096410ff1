r"""Directions on the simplex of kernel weights, :math:`d_m \ge 0`, :math:`\sum_m d_m = 1`.

:func:`reduced_gradient` is the direction of SimpleMKL; :func:`simplex_quadratic` minimises a
quadratic model, which is the Newton direction.
"""

from __future__ import annotations

import numpy as np

from genmetric._typing import FloatArray, IntArray

#: Share by which the diagonal of a quadratic is raised, so that duplicates stay solvable.
RIDGE = 1e-10


def reduced_gradient(gradient: FloatArray, weights: FloatArray) -> tuple[FloatArray, int]:
    r"""Direction of descent on the simplex (Rakotomamonjy et al. 2008, eq. 12).

    The largest weight :math:`\mu` is the base variable that keeps the sum at one,

    .. math:: D_m = \partial_\mu J - \partial_m J \; (m \ne \mu), \qquad
              D_\mu = -\sum_{m \ne \mu} D_m,

    and :math:`D_m = 0` where a weight of zero would have to become negative.

    Parameters
    ----------
    gradient : ndarray of shape (n_kernels,)
        Partial derivatives of J.
    weights : ndarray of shape (n_kernels,)
        Weights on the simplex.

    Returns
    -------
    direction : ndarray of shape (n_kernels,)
        Of sum zero.
    base : int
        The base variable.
    """
    base = int(np.argmax(weights))
    direction = gradient[base] - gradient
    direction[(weights <= 0) & (direction < 0)] = 0.0
    direction[base] = 0.0
    direction[base] = -direction.sum()
    return direction, base


def largest_step(weights: FloatArray, direction: FloatArray) -> tuple[float, int]:
    """Step at which the first weight reaches zero along a direction, and which weight it is.

    Parameters
    ----------
    weights : ndarray of shape (n_kernels,)
        Weights on the simplex.
    direction : ndarray of shape (n_kernels,)
        Direction of sum zero.

    Returns
    -------
    step : float
        Zero where no weight falls: the direction is zero.
    index : int
        The weight, or -1.
    """
    falling = np.flatnonzero(direction < 0)
    if not len(falling):
        return 0.0, -1
    steps = weights[falling] / -direction[falling]
    first = int(np.argmin(steps))
    return float(steps[first]), int(falling[first])


def simplex_quadratic(H: FloatArray, c: FloatArray) -> FloatArray:
    r"""Minimise :math:`\frac12 x^T H x + c^T x` over the simplex, by active sets.

    Starts at the best corner, lets in the variable whose derivative promises most, solves for the
    variables that are in, and puts out those that would turn negative; the objective falls in
    every round. The answer has few non-zeros, and exact zeros.

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
    c = c - c.mean()  # a constant changes nothing on the simplex, and small numbers round less
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
        if entering not in inside:  # rounding: it cannot get in
            break
    return x


def _settle(H: FloatArray, c: FloatArray, x: FloatArray, inside: IntArray) -> IntArray:
    """Minimise over the variables inside, in place in x; return those that stay."""
    while True:
        # The bordered system, not elimination: H alone may be far closer to singular.
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
