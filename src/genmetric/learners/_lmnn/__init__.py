"""LMNN: keeps target neighbours close and separates samples of other classes by a margin.

`targets` and `impostors` find the pairs, `objective` sums over them, `initial` computes the start,
`solver` minimises, `early_stopping` selects the number of iterations, `training` runs these steps,
`estimator` is the public class.
"""

from genmetric.learners._lmnn.estimator import LMNN
from genmetric.learners._lmnn.impostors import ImpostorSearch
from genmetric.learners._lmnn.initial import best_scale, initial_metric, whitening
from genmetric.learners._lmnn.objective import Evaluation, Objective, Problem, lmnn_objective
from genmetric.learners._lmnn.solver import Solution, minimize_objective
from genmetric.learners._lmnn.targets import target_neighbors, target_scatter

__all__ = [
    "LMNN",
    "Evaluation",
    "ImpostorSearch",
    "Objective",
    "Problem",
    "Solution",
    "best_scale",
    "initial_metric",
    "lmnn_objective",
    "minimize_objective",
    "target_neighbors",
    "target_scatter",
    "whitening",
]
