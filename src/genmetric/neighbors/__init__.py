"""Classifiers on metrics, and the search and the vote behind them.

`nearest_neighbors` is the exact search in Euclidean distance. `majority_vote` and related functions
count votes with one tie rule, and `select_n_neighbors` selects the number of neighbours by
leave-one-out. `LocalMetricClassifier` uses a separate metric for each query, `EnergyClassifier`
compares energies, and `FaissNeighborsTransformer` searches among many samples.
"""

from genmetric._nadaraya_watson import kernel_regression
from genmetric._search import Neighbors, nearest_neighbors
from genmetric._votes import (
    NeighborSelection,
    class_probabilities,
    count_votes,
    leave_one_out_vote_errors,
    majority_vote,
    majority_votes,
    neighbor_weights,
    select_n_neighbors,
    vote_errors,
)
from genmetric.neighbors._class_rows import ClassRows, training_neighbors
from genmetric.neighbors._energy import (
    EnergyModel,
    difference_energies,
    margin_energies,
    margin_unit,
)
from genmetric.neighbors._energy_classifier import EnergyClassifier
from genmetric.neighbors._energy_race import least_energies
from genmetric.neighbors._faiss_transformer import FaissNeighborsTransformer
from genmetric.neighbors._kernel_regression import leave_one_out_errors, select_bandwidth
from genmetric.neighbors._kernel_regressor import KernelRegressor
from genmetric.neighbors._local_classifier import LocalMetricClassifier
from genmetric.neighbors._local_search import (
    LocalNeighbors,
    SearchRows,
    local_neighbors,
    metric_neighbors,
)

__all__ = [
    "ClassRows",
    "EnergyClassifier",
    "EnergyModel",
    "FaissNeighborsTransformer",
    "KernelRegressor",
    "LocalMetricClassifier",
    "LocalNeighbors",
    "NeighborSelection",
    "Neighbors",
    "SearchRows",
    "class_probabilities",
    "count_votes",
    "difference_energies",
    "kernel_regression",
    "least_energies",
    "leave_one_out_errors",
    "leave_one_out_vote_errors",
    "local_neighbors",
    "majority_vote",
    "majority_votes",
    "margin_energies",
    "margin_unit",
    "metric_neighbors",
    "nearest_neighbors",
    "neighbor_weights",
    "select_bandwidth",
    "select_n_neighbors",
    "training_neighbors",
    "vote_errors",
]
