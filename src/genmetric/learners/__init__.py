"""Metric learners: estimators that learn a Mahalanobis metric from labelled samples."""

from genmetric.learners.embedding import EmbeddingAdapter
from genmetric.learners.generative import GenerativeMetric
from genmetric.learners.generative_cv import GenerativeMetricCV
from genmetric.learners.lmnn import LMNN
from genmetric.learners.lmnn_loss import lmnn_objective, target_neighbors
from genmetric.learners.mahalanobis import LinearMapMixin, MahalanobisMixin
from genmetric.learners.mlkr import MLKR, mlkr_objective
from genmetric.learners.pairs import PairClassifier
from genmetric.learners.regression import (
    GenerativeRegressionMetric,
    GenerativeRegressionMetricCV,
    default_n_slices,
    quantile_edges,
    slice_targets,
)
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
