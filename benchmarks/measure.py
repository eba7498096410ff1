"""Times, peaks of memory, data and tables for all benchmarks."""

import csv
import os
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from genmetric.datasets import deskew, load_mnist

REPOSITORY = Path(__file__).parents[1]


def seconds(function, repeats=3, at_least=0.0):
    """Best wall time of a few calls, more of them while they are short."""
    best, spent, calls = np.inf, 0.0, 0
    while calls < repeats or spent < at_least:
        start = time.perf_counter()
        function()
        took = time.perf_counter() - start
        best, spent, calls = min(best, took), spent + took, calls + 1
    return best


def peak_megabytes(function):
    """Largest memory that a call allocates, in MB."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def relative(a, b):
    """Relative Frobenius distance."""
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def gaussian_classes(n_classes, n_features, n_rows, seed=0):
    """Gaussian classes with different covariances and equal numbers of samples, shuffled."""
    rng = np.random.default_rng(seed)
    shape = (n_features, n_features)
    rows = []
    for _ in range(n_classes):
        mix = np.eye(n_features) + 0.5 * rng.normal(size=shape) / np.sqrt(n_features)
        noise = rng.normal(size=(-(-n_rows // n_classes), n_features))
        rows.append(noise @ mix + rng.normal(size=n_features))
    X = np.concatenate(rows)
    y = np.repeat(np.arange(n_classes), len(rows[0]))
    order = rng.permutation(len(X))[:n_rows]
    return X[order], y[order]


def mnist_pca(n_features):
    """Principal components of deskewed MNIST training images, or None if MNIST is missing."""
    data_dir = os.environ.get("GENMETRIC_DATA", "data")
    if not (Path(data_dir) / "mnist.npz").exists():
        return None
    digits = load_mnist(data_dir=data_dir)
    images = deskew(digits.data[:60_000].reshape(-1, 28, 28)).reshape(60_000, -1) / 255
    X = PCA(n_features, svd_solver="covariance_eigh").fit_transform(images)
    return X.astype(float), np.asarray(digits.target[:60_000]).astype(int)


class Table:
    """A Markdown table that is printed row by row and kept."""

    def __init__(self, title, columns):
        self.lines = [f"## {title}", "", _row(columns), _row(["---"] * len(columns))]
        print("\n" + "\n".join(self.lines), flush=True)

    def add(self, *cells):
        self.lines.append(_row(cells))
        print(self.lines[-1], flush=True)

    def __str__(self):
        return "\n".join(self.lines) + "\n"


def _row(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def write_csv(path, markdown):
    """Write the Markdown tables of a text as one CSV file; the first column is the title."""
    title, rows = "", []
    for line in markdown.splitlines():
        if line.startswith("#"):
            title = line.strip("# ")
        elif line.startswith("|") and not set(line) <= set("|-: "):
            cells = line.replace("**", "").replace("`", "").split("|")[1:-1]
            rows.append([title, *(cell.strip() for cell in cells)])
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def short(value):
    """A number in as few digits as it deserves."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2g}"


def progress(text):
    """Tell what is going on, apart from the results."""
    print(f"... {text}", file=sys.stderr, flush=True)
