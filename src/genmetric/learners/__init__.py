"""Metric learners: estimators that learn a Mahalanobis metric from labelled samples."""

from genmetric.learners._lmnn import LMNN, lmnn_objective, target_neighbors
from genmetric.learners._mlkr import MLKR
from genmetric.learners._mlkr_objective import mlkr_objective
from genmetric.learners._regression_cv import GenerativeRegressionMetricCV
from genmetric.learners._regression_metric import GenerativeRegressionMetric
from genmetric.learners._selection import GenerativeMetricCV
from genmetric.learners._slices import default_n_slices, quantile_edges, slice_targets
from genmetric.learners.embedding import EmbeddingAdapter
from genmetric.learners.generative import GenerativeMetric
from genmetric.learners.mahalanobis import LinearMapMixin, MahalanobisMixin
from genmetric.learners.pairs import PairClassifier
from genmetric.learners.weights import GaussianMixtureWeights, KernelDensityWeights

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
    "PairClassifier",
    "default_n_slices",
    "lmnn_objective",
    "mlkr_objective",
    "quantile_edges",
    "slice_targets",
    "target_neighbors",
]
