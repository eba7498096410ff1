"""Pure functions on stacks of matrices: Phi, local metrics, their sums and their roots.

`local` combines the curvatures of the classes to Phi, computes the metric of each sample and takes
roots, `sums` adds up local metrics, with `resolvent` and `low_rank` as its faster solvers,
`regression` computes the local metrics for numeric targets, and `risk` estimates the error of a
nearest neighbour.
"""

from genmetric.geometry.local import (
    MetricSum,
    curvature_weights,
    interpolate,
    local_metrics,
    phi,
    phi_weights,
    rank_limited_factor,
    sign_rule,
    symmetric_root,
)
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
]
