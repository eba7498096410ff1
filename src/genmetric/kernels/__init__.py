"""Kernels of learned metrics, and their combination by multiple kernel learning.

:func:`metric_kernel` and :class:`RegionalKernels` make kernels from metrics,
:class:`SimpleMKLClassifier` learns a convex combination of kernels.
"""

from genmetric.kernels._gram import combine
from genmetric.kernels._metric_kernel import MetricKernel, metric_kernel
from genmetric.kernels._regional import RegionalKernels, regional_metrics
from genmetric.kernels._simplemkl import MKLResult, MKLStep, simplemkl
from genmetric.kernels._simplemkl_classifier import SimpleMKLClassifier
from genmetric.kernels._svm import BinaryProblem, binary_problems, solve_svms

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
]
