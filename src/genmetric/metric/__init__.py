"""Estimators of a metric: they validate, call the layers below, and store.

Layer three: metrics become scikit-learn estimators.
"""

from genmetric.metric.generative import GenerativeMetric
from genmetric.metric.mahalanobis import MahalanobisMixin
from genmetric.metric.selection import GenerativeMetricCV

__all__ = ["GenerativeMetric", "GenerativeMetricCV", "MahalanobisMixin"]
