"""Inspection of fitted estimators: linear map, learned metric, contributions, neighbours."""

from genmetric.inspection._contributions import feature_contributions, pair_contributions
from genmetric.inspection._learned_metric import LearnedMetric, effective_rank, learned_metric
from genmetric.inspection._linear_map import LinearMap, linear_map
from genmetric.inspection._neighbors import (
    NeighborExplanation,
    explain_neighbors,
    nearest_in_batches,
)
from genmetric.inspection._transformer import map_samples, metric_transformer

__all__ = [
    "LearnedMetric",
    "LinearMap",
    "NeighborExplanation",
    "effective_rank",
    "explain_neighbors",
    "feature_contributions",
    "learned_metric",
    "linear_map",
    "map_samples",
    "metric_transformer",
    "nearest_in_batches",
    "pair_contributions",
]
