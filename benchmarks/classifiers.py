"""Classifiers on metrics against brute-force neighbours: ``python benchmarks/classifiers.py``.

Letters (12000 random training samples) and MNIST (60000 training samples, deskewed, 40 principal
components), the averaged metric with plain covariances. All classifiers use all cores. The times of
a table are the best of a few rounds in which the classifiers alternate, so other load affects
all of them. MNIST is skipped without the file ``mnist.npz`` in the directory GENMETRIC_DATA.
"""

import os
import time
from functools import partial
from pathlib import Path

import numpy as np
from measure import Table, progress
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from genmetric import GenerativeMetric
from genmetric.datasets import deskew, load_letter, load_mnist
from genmetric.neighbors import EnergyClassifier, LocalMetricClassifier

N_QUERIES = 2000
ROUNDS = 5


def data_sets():
    """Name, training rows and labels, queries and labels of each set."""
    X, y = load_letter(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:12000], order[12000 : 12000 + N_QUERIES]
    yield "Letters", X[train], y[train], X[test], y[test]
    data_dir = os.environ.get("GENMETRIC_DATA", "data")
    if not (Path(data_dir) / "mnist.npz").exists():
        progress("no MNIST")
        return
    digits = load_mnist(data_dir=data_dir)
    rows = np.r_[:60_000, 60_000 : 60_000 + N_QUERIES]
    images = deskew(digits.data[rows].reshape(-1, 28, 28)).reshape(len(rows), -1) / 255
    Z = PCA(40, svd_solver="covariance_eigh").fit(images[:60_000]).transform(images).astype(float)
    y = np.asarray(digits.target[rows]).astype(int)
    yield "MNIST-PCA-40", Z[:60_000], y[:60_000], Z[60_000:], y[60_000:]


def in_turns(functions):
    """Best wall time of each function, over rounds in which all of them take turns."""
    best = [np.inf] * len(functions)
    for _ in range(ROUNDS):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def energies():
    """Energies against votes in the space of the same metric, k = 3."""
    table = Table(
        "EnergyClassifier against brute-force KNeighborsClassifier",
        ["data", "classifier", "method", "error, %", "µs per query", "relative to votes"],
    )
    for name, X, y, Z, labels in data_sets():
        metric = GenerativeMetric(shrinkage=None, n_jobs=-1).fit(X, y)
        A, B = metric.transform(X), metric.transform(Z)
        votes = KNeighborsClassifier(3, algorithm="brute").fit(A, y)
        runs = [("votes", votes, "predict")]
        for scale in (0.3, 1.0, 3.0):
            model = EnergyClassifier(margin_scale=scale, energy="one-sided", n_jobs=-1).fit(A, y)
            runs += [(f"one-sided energy, margin_scale={scale}", model, "predict")]
            runs += [(f"one-sided energy, margin_scale={scale}", model, "decision_function")]
        times = in_turns([partial(getattr(model, way), B) for _, model, way in runs])
        for (text, model, way), seconds in zip(runs, times, strict=True):
            error = f"{100 * (1 - model.score(B, labels)):.2f}" if way == "predict" else ""
            per_query = f"{1e6 * seconds / len(B):.0f}"
            table.add(name, text, way, error, per_query, f"{seconds / times[0]:.1f}")
    return table


def local():
    """Queries per second with a metric for each, k = 5."""
    table = Table(
        "LocalMetricClassifier", ["data", "interpolation", "error, %", "queries per second"]
    )
    for name, X, y, Z, labels in data_sets():
        for weight in (0.01, 0.1, 0.5, 1.0):
            model = LocalMetricClassifier(interpolation=weight, n_jobs=-1).fit(X, y)
            (seconds,) = in_turns([partial(model.predict, Z)])
            error = f"{100 * (1 - model.score(Z, labels)):.2f}"
            table.add(name, weight, error, f"{len(Z) / seconds:.0f}")
    return table


if __name__ == "__main__":
    energies()
    local()
