"""Pure functions on stacks of matrices: Phi, local metrics, their sums and their roots.

`_phi` combines the curvatures of the classes, `_local` computes the metric of each sample,
`_summation` holds the solvers of their sum, `_factor` takes roots, and `_risk` estimates the error
of a nearest neighbour.
"""

from genmetric.geometry._factor import rank_limited_factor, symmetric_root, unit_determinant
from genmetric.geometry._local import interpolate, local_metrics, sign_rule
from genmetric.geometry._phi import curvature_weights, phi, phi_weights
from genmetric.geometry._regression import (
    RegressionMetricSum,
    average_regression_metrics,
    regression_local_metrics,
)
from genmetric.geometry._risk import asymptotic_error, bias_per_row, finite_sample_error
from genmetric.geometry._summation import MetricSum, sum_local_metrics

__all__ = [
    "MetricSum",
    "RegressionMetricSum",
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
