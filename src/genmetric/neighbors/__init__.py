"""Classifiers on metrics: local metrics and energies, and the searches behind them.

`local` and `local_search` hold nearest neighbours where each query brings its own metric;
`energy_classifier`, `energy`, `energy_race` and `class_rows` energies in one metric for all;
`faiss_transformer` and `faiss_search` plain neighbours among many rows, by faiss.
"""

from genmetric.neighbors.class_rows import ClassRows, training_neighbors
from genmetric.neighbors.energy import (
    EnergyModel,
    difference_energies,
    margin_unit,
    three_term_energies,
)
from genmetric.neighbors.energy_classifier import EnergyClassifier
from genmetric.neighbors.energy_race import least_energies
from genmetric.neighbors.faiss_transformer import FaissNeighborsTransformer
from genmetric.neighbors.local import LocalMetricClassifier
from genmetric.neighbors.local_search import (
    Neighbors,
    SearchRows,
    local_neighbors,
    metric_neighbors,
)

__all__ = [
    "ClassRows",
    "EnergyClassifier",
    "EnergyModel",
    "FaissNeighborsTransformer",
    "LocalMetricClassifier",
    "Neighbors",
    "SearchRows",
    "difference_energies",
    "least_energies",
    "local_neighbors",
    "margin_unit",
    "metric_neighbors",
    "three_term_energies",
    "training_neighbors",
]
