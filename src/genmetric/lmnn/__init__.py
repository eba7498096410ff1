"""LMNN: target neighbours pulled near, rows of other classes pushed a margin away.

Layer three, beside `metric`. `targets` and `impostors` find the pairs, `objective` adds them up,
`initial` starts, `solver` minimises, `lmnn` is the estimator.
"""

from genmetric.lmnn.impostors import ImpostorSearch
from genmetric.lmnn.initial import best_length, initial_factor
from genmetric.lmnn.lmnn import LMNN
from genmetric.lmnn.objective import Evaluation, Objective, Problem, lmnn_objective
from genmetric.lmnn.solver import Solution, minimize_objective
from genmetric.lmnn.targets import target_neighbors, target_scatter

__all__ = [
    "LMNN",
    "Evaluation",
    "ImpostorSearch",
    "Objective",
    "Problem",
    "Solution",
    "best_length",
    "initial_factor",
    "lmnn_objective",
    "minimize_objective",
    "target_neighbors",
    "target_scatter",
]
