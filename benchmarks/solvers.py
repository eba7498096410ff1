"""The resolvent solver against the dense one: time, memory and accuracy."""

import time

import numpy as np
from measure import (
    Table,
    gaussian_classes,
    mnist_pca,
    peak_megabytes,
    progress,
    relative,
    seconds,
    short,
)

from genmetric.datasets import load_letter
from genmetric.density import Coordinates, class_statistics, fit_gaussians
from genmetric.geometry.sums import select_solver, sum_local_metrics

# The time of the dense solver is linear in the number of samples. If it takes minutes, it is
# measured on fewer.
DENSE_ROWS = {164: 1500, 320: 500, 640: 150}
N_ROWS = 4000


def problem(X, y, shrinkage="auto"):
    """Fit the class models on all samples, and return them with their coordinates."""
    coordinates = Coordinates.of(X)
    stats = class_statistics(X, y, int(y.max()) + 1, coordinates=coordinates)
    return fit_gaussians(stats, shrinkage=shrinkage), coordinates


def compare(table, name, X, y, *, shrinkage="auto", tol=1e-2, n_dense=None, n_jobs=1):
    """Add one line to a table: time per sample of both solvers, on the same samples."""
    models, coordinates = problem(X, y, shrinkage)
    rows = X[np.random.default_rng(0).permutation(len(X))[:N_ROWS]]
    few = rows[: n_dense or len(rows)]

    def run(x, solver, jobs=n_jobs):
        return sum_local_metrics(models, x, coordinates, solver=solver, tol=tol, n_jobs=jobs)

    slow = seconds(lambda: run(few, "dense"), 2) / len(few)
    fast = seconds(lambda: run(rows, "resolvent"), 3) / len(rows)
    two = seconds(lambda: run(rows, "resolvent", 2), 3) / len(rows)
    error = relative(run(few, "resolvent").mean(), run(few, "dense").mean())
    memory = peak_megabytes(lambda: run(rows, "resolvent"))
    auto, _ = select_solver(models, *rows.shape)
    table.add(
        name,
        X.shape[1],
        f"{1e6 * slow:.0f}",
        f"{1e6 * fast:.0f}",
        f"**{short(slow / fast)}x**",
        f"{fast / two:.2f}x",
        f"{error:.1e}",
        f"{memory:.0f}",
        auto,
    )


COLUMNS = [
    "data",
    "D",
    "dense, µs per sample",
    "resolvent, µs per sample",
    "faster by",
    "two threads",
    "error of M",
    "peak MB",
    "auto selects",
]


def two_classes():
    """Two Gaussian classes, D from 10 to 640."""
    table = Table(f"Two classes, {N_ROWS} samples, one thread", COLUMNS)
    for D in (10, 20, 40, 80, 164, 320, 640):
        progress(f"two classes, D = {D}")
        X, y = gaussian_classes(2, D, max(N_ROWS, 6 * D))
        compare(table, "Gaussian", X, y, n_dense=DENSE_ROWS.get(D))
    return table


def ten_classes():
    """Ten classes of MNIST, or of Gaussians, and the 26 of Letters."""
    table = Table(f"Ten classes and more, {N_ROWS} samples, one thread, class_tol = 1e-2", COLUMNS)
    for D in (40, 164):
        progress(f"ten classes, D = {D}")
        digits = mnist_pca(D)
        if digits is not None:
            for shrinkage in (None, 0.1):
                name = f"MNIST-PCA, shrinkage {shrinkage}"
                compare(table, name, *digits, shrinkage=shrinkage, n_dense=DENSE_ROWS.get(D))
        X, y = gaussian_classes(10, D, max(N_ROWS, 40 * D))
        compare(table, "Gaussian", X, y, n_dense=DENSE_ROWS.get(D))
    progress("Letters")
    X, y = load_letter(return_X_y=True)
    compare(table, "Letters, 26 classes", X, y)
    return table


def third_classes():
    """Measure samples at which three classes matter: dense path, or a class left out."""
    table = Table(
        "All of MNIST-PCA-40 (60000 samples), one thread",
        ["shrinkage", "class_tol", "seconds", "faster by", "error of M"],
    )
    digits = mnist_pca(40)
    if digits is None:
        return table
    X = digits[0]
    for shrinkage in (None, 0.1):
        models, coordinates = problem(*digits, shrinkage)
        start = time.perf_counter()
        exact = sum_local_metrics(models, X, coordinates, solver="dense").mean()
        slow = time.perf_counter() - start
        for tol in (1e-2, 1e-1, 1.0):
            start = time.perf_counter()
            found = sum_local_metrics(models, X, coordinates, solver="resolvent", tol=tol)
            fast = time.perf_counter() - start
            error = relative(found.mean(), exact)
            table.add(shrinkage, tol, short(fast), f"{short(slow / fast)}x", f"{error:.1e}")
    return table
