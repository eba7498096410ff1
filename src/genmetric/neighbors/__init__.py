"""Classifiers and regressors on metrics, and the search and the vote behind them.

`nearest_neighbors` is the exact search in Euclidean distance. `majority_vote` and related functions
count votes with one tie rule, and `select_n_neighbors` selects the number of neighbours by
leave-one-out. `LocalMetricClassifier` uses a separate metric for each query, `EnergyClassifier`
compares energies, `KernelRegressor` averages targets, and `FaissNeighborsTransformer` searches
among many samples.
"""

from genmetric._neighbors import (
    Neighbors,
    NeighborSelection,
    class_probabilities,
    majority_vote,
    majority_votes,
    nearest_neighbors,
    select_n_neighbors,
    vote_errors,
)
from genmetric.neighbors.energy import EnergyClassifier
from genmetric.neighbors.energy_model import EnergyModel, energies, least_energies
from genmetric.neighbors.faiss import FaissNeighborsTransformer
from genmetric.neighbors.kernel_regressor import KernelRegressor, kernel_regression
from genmetric.neighbors.local import LocalMetricClassifier

__all__ = [
    "EnergyClassifier",
    "EnergyModel",
    "FaissNeighborsTransformer",
    "KernelRegressor",
    "LocalMetricClassifier",
    "NeighborSelection",
    "Neighbors",
    "class_probabilities",
    "energies",
    "kernel_regression",
    "least_energies",
    "majority_vote",
    "majority_votes",
    "nearest_neighbors",
    "select_n_neighbors",
    "vote_errors",
]
