"""Kernels of learned metrics, and their combination by multiple kernel learning.

Layer four: a metric becomes a kernel, and many kernels become one. `metric_kernel` and `regional`
make kernels of metrics; `gram` holds their Gram matrices, `svm` solves the machines on them,
`mkl_objective`, `simplex` and `mkl_steps` find the weights for `simplemkl`, and
`simplemkl_classifier` is the estimator.
"""

from genmetric.kernels.gram import combine, stack_bytes
from genmetric.kernels.metric_kernel import MetricKernel, metric_kernel
from genmetric.kernels.regional import RegionalKernels, regional_metrics
from genmetric.kernels.simplemkl import MKLResult, MKLStep, simplemkl
from genmetric.kernels.simplemkl_classifier import SimpleMKLClassifier
from genmetric.kernels.svm import BinaryProblem, binary_problems, solve_svms

__all__ = [
    "BinaryProblem",
    "MKLResult",
    "MKLStep",
    "MetricKernel",
    "RegionalKernels",
    "SimpleMKLClassifier",
    "binary_problems",
    "combine",
    "metric_kernel",
    "regional_metrics",
    "simplemkl",
    "solve_svms",
    "stack_bytes",
]
