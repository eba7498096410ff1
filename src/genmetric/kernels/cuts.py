r"""Cutting planes: what the machines solved so far say about weights not yet tried.

The multipliers :math:`\beta_t` of every support vector machine solved so far give a plane below J,

.. math:: J(d) \ge e^T \beta_t + g_t^T d, \qquad g_{tm} = -\tfrac12 a_t^T K_m a_t,

so that every convex combination of planes, with weights :math:`\lambda`, bounds the minimum of J:

.. math:: \min_d J(d) \ge \sum_t \lambda_t\, e^T \beta_t + \min_m \sum_t \lambda_t\, g_{tm} .

The largest plane is a model of J. Where kernels of low rank leave the multipliers ambiguous, J has
corners, no derivative shows the way down, and the multipliers found do not prove that there is
none; the model, which sees several of them at once, does both.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from genmetric._typing import FloatArray


class CuttingPlanes:
    """Planes below J.

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
        """Add the plane of a solution, and return the bound that it gives by itself.

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
        """Where the model is lowest, and how low, near given weights; sharpens `lower`.

        Parameters
        ----------
        center : ndarray of shape (n_kernels,)
            Weights on the simplex to stay near.
        radius : float
            Largest change of a weight; 1 allows the whole simplex.

        Returns
        -------
        weights : ndarray of shape (n_kernels,)
            On the simplex.
        value : float
            The model there. None instead of both where the linear program has no solution.
        """
        planes, heights = np.array(self._gradients), np.array(self._constants)
        n_planes, n_kernels = planes.shape
        # About the lowest end of the highest plane, in units of the largest slope.
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
        share = np.maximum(-found[0].ineqlin.marginals, 0.0)
        share /= share.sum()
        self.lower = max(self.lower, float(share @ heights + (share @ planes).min()))
        weights = np.asarray(found[1].x, float)[:-1]
        weights = np.where(weights > 1e-12, weights, 0.0)
        weights /= weights.sum()
        return weights, float((heights + planes @ weights).max())
