"""Metric learners: estimators that learn a Mahalanobis metric from labelled samples."""

from genmetric.metric._combination import GaussianMixtureWeights, KernelDensityWeights
from genmetric.metric._embedding import EmbeddingAdapter
from genmetric.metric._generative import GenerativeMetric
from genmetric.metric._lmnn import LMNN, lmnn_objective, target_neighbors
from genmetric.metric._mahalanobis import LinearMapMixin, MahalanobisMixin
from genmetric.metric._mlkr import MLKR
from genmetric.metric._mlkr_objective import mlkr_objective
from genmetric.metric._regression_cv import GenerativeRegressionMetricCV
from genmetric.metric._regression_metric import GenerativeRegressionMetric
from genmetric.metric._selection import GenerativeMetricCV
from genmetric.metric._slices import default_n_slices, quantile_edges, slice_targets

__all__ = [
    "LMNN",
    "MLKR",
    "EmbeddingAdapter",
    "GaussianMixtureWeights",
    "GenerativeMetric",
    "GenerativeMetricCV",
    "GenerativeRegressionMetric",
    "GenerativeRegressionMetricCV",
    "KernelDensityWeights",
    "LinearMapMixin",
    "MahalanobisMixin",
    "default_n_slices",
    "lmnn_objective",
    "mlkr_objective",
    "quantile_edges",
    "slice_targets",
    "target_neighbors",
]
