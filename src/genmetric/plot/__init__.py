"""Pictures of metrics, as scikit-learn's Displays: ``from_estimator``, ``plot``, ``ax_``.

They need matplotlib, which ``pip install "genmetric[report]"`` brings; it is imported when the
first of them is drawn.
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
