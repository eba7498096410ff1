"""Clusters in a metric that is learned from the clusters themselves.

Layer four: what people do with a metric. `lloyd` runs k-means from starts that do not depend on
the order of the rows, `alternate` takes turns between k-means and M^UNI, `metric_kmeans` is the
estimator.
"""

from genmetric.cluster.alternate import Alternation, Clustering, alternate, cluster_metric
from genmetric.cluster.lloyd import best_start, canonical_order, center_distances, lloyd
from genmetric.cluster.metric_kmeans import MetricKMeans

__all__ = [
    "Alternation",
    "Clustering",
    "MetricKMeans",
    "alternate",
    "best_start",
    "canonical_order",
    "center_distances",
    "cluster_metric",
    "lloyd",
]
