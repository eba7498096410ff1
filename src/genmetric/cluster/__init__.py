"""Clustering in a metric that is learned from the clusters.

`alternate` alternates between k-means and the metric of its clusters, `MetricKMeans` is the
estimator.
"""

from genmetric.cluster._alternate import Alternation, Clustering, alternate, cluster_metric
from genmetric.cluster._metric_kmeans import MetricKMeans

__all__ = [
    "Alternation",
    "Clustering",
    "MetricKMeans",
    "alternate",
    "cluster_metric",
]
