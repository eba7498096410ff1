r"""Cutting planes: lower bounds of the objective from the support vector machines solved so far.

The multipliers :math:`\beta_t` of each solved support vector machine give a plane below J,

.. math:: J(d) \ge e^T \beta_t + g_t^T d, \qquad g_{tm} = -\tfrac12 a_t^T K_m a_t,

so every convex combination of planes, with weights :math:`\lambda`, bounds the minimum of J:

.. math:: \min_d J(d) \ge \sum_t \lambda_t\, e^T \beta_t + \min_m \sum_t \lambda_t\, g_{tm} .

The maximum of the planes is a model of J. If kernels of low rank leave the multipliers ambiguous, J
is not differentiable, and the multipliers of one solution neither give a direction of descent nor a
tight bound. The model, which combines several solutions, gives both.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from genmetric._typing import FloatArray


class CuttingPlanes:
    """Planes below the objective J.

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
