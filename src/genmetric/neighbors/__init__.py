"""Classifiers and regressors on metrics, and the search behind them.

`nearest_neighbors` is the exact search in Euclidean distance, and `select_n_neighbors` selects the
number of neighbours by leave-one-out. `LocalMetricClassifier` uses a separate metric for each
query, `EnergyClassifier` compares energies, `KernelRegressor` averages targets, and
`FaissNeighborsTransformer` searches among many samples.
"""

from genmetric._neighbors import nearest_neighbors, select_n_neighbors
from genmetric.neighbors.energy import EnergyClassifier
from genmetric.neighbors.faiss import FaissNeighborsTransformer
from genmetric.neighbors.kernel_regressor import KernelRegressor
from genmetric.neighbors.local import LocalMetricClassifier

__all__ = [
    "EnergyClassifier",
    "FaissNeighborsTransformer",
    "KernelRegressor",
    "LocalMetricClassifier",
    "nearest_neighbors",
    "select_n_neighbors",
]
