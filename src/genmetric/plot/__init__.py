"""Figures of metrics, in the form of scikit-learn's Displays.

They require matplotlib (extra ``report``), which is imported when the first one is drawn.
"""

from genmetric.plot._combination import WeightPathDisplay
from genmetric.plot._embedding import EmbeddingDisplay
from genmetric.plot._errors import ComparisonDisplay, ErrorByKDisplay
from genmetric.plot._local import LocalMetricsDisplay
from genmetric.plot._metric import FeatureWeightsDisplay, MetricHeatmapDisplay, SpectrumDisplay
from genmetric.plot._neighbors import NeighborsDisplay
from genmetric.plot._times import TimesDisplay

__all__ = [
    "ComparisonDisplay",
    "EmbeddingDisplay",
    "ErrorByKDisplay",
    "FeatureWeightsDisplay",
    "LocalMetricsDisplay",
    "MetricHeatmapDisplay",
    "NeighborsDisplay",
    "SpectrumDisplay",
    "TimesDisplay",
    "WeightPathDisplay",
]
