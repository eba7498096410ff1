"""Pure functions on stacks of matrices: Phi, local metrics, their sums and their roots.

`phi` combines the curvatures of the classes, `local` computes the metric of each sample, `sums`
selects the solver of their sum (`dense`, `resolvent` or `low_rank`), `factor` takes roots, and
`risk` estimates the error of a nearest neighbour.
"""

from genmetric.geometry.factor import rank_limited_factor, symmetric_root, unit_determinant
from genmetric.geometry.local import MetricSum, interpolate, local_metrics, sign_rule
from genmetric.geometry.phi import curvature_weights, phi, phi_weights
from genmetric.geometry.regression import average_regression_metrics, regression_local_metrics
from genmetric.geometry.risk import asymptotic_error, bias_per_row, finite_sample_error
from genmetric.geometry.sums import sum_local_metrics

__all__ = [
    "MetricSum",
    "asymptotic_error",
    "average_regression_metrics",
    "bias_per_row",
    "curvature_weights",
    "finite_sample_error",
    "interpolate",
    "local_metrics",
    "phi",
    "phi_weights",
    "rank_limited_factor",
    "regression_local_metrics",
    "sign_rule",
    "sum_local_metrics",
    "symmetric_root",
    "unit_determinant",
]
