"""Pictures of metrics, as scikit-learn's Displays: ``from_estimator``, ``plot``, ``ax_``.

They need matplotlib, which ``pip install "genmetric[report]"`` brings; it is imported when the
first of them is drawn.
"""

from genmetric.plot.combination import WeightPathDisplay
from genmetric.plot.embedding import EmbeddingDisplay
from genmetric.plot.errors import ComparisonDisplay, ErrorByKDisplay
from genmetric.plot.local import LocalMetricsDisplay
from genmetric.plot.metric import FeatureWeightsDisplay, MetricHeatmapDisplay, SpectrumDisplay
from genmetric.plot.neighbors import NeighborsDisplay
from genmetric.plot.times import TimesDisplay

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
