"""Pure functions on stacks of matrices: Phi, local metrics, their sums and their roots.

Layer two: densities become metrics. `phi` weighs the curvatures of the classes, `local` solves
for the metric of each point, `summation` adds the metrics up, `factor` takes the roots, and
`risk` says what error of a nearest neighbour to expect.
"""

from genmetric.geometry.factor import rank_limited_factor, symmetric_root, unit_determinant
from genmetric.geometry.local import interpolate, local_metrics, sign_rule
from genmetric.geometry.phi import curvature_weights, phi, phi_weights
from genmetric.geometry.risk import asymptotic_error, bias_per_row, finite_sample_error
from genmetric.geometry.summation import MetricSum, sum_local_metrics

__all__ = [
    "MetricSum",
    "asymptotic_error",
    "bias_per_row",
    "curvature_weights",
    "finite_sample_error",
    "interpolate",
    "local_metrics",
    "phi",
    "phi_weights",
    "rank_limited_factor",
    "sign_rule",
    "sum_local_metrics",
    "symmetric_root",
    "unit_determinant",
]
