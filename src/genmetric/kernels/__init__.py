"""Kernels of learned metrics, and their combination by multiple kernel learning.

:func:`metric_kernel` and :class:`RegionalKernels` make kernels from metrics,
:class:`SimpleMKLClassifier` learns a convex combination of kernels.
"""

from genmetric.kernels.classifier import SimpleMKLClassifier
from genmetric.kernels.metric_kernel import MetricKernel, metric_kernel
from genmetric.kernels.regional import RegionalKernels

__all__ = ["MetricKernel", "RegionalKernels", "SimpleMKLClassifier", "metric_kernel"]
