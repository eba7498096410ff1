"""Figures of metrics, in the form of scikit-learn's Displays.

They require matplotlib (extra ``report``), which is imported when the first one is drawn.
"""

from genmetric.plot.comparison import ComparisonDisplay, ErrorByKDisplay
from genmetric.plot.match import MatchDisplay
from genmetric.plot.metric import FeatureWeightsDisplay, MetricHeatmapDisplay
from genmetric.plot.samples import EmbeddingDisplay, LocalMetricsDisplay, NeighborsDisplay

__all__ = [
    "ComparisonDisplay",
    "EmbeddingDisplay",
    "ErrorByKDisplay",
    "FeatureWeightsDisplay",
    "LocalMetricsDisplay",
    "MatchDisplay",
    "MetricHeatmapDisplay",
    "NeighborsDisplay",
]
