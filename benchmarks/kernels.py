"""Measure the time and memory of multiple kernel learning: 150 kernels on 600 samples.

Run ``python benchmarks/kernels.py [REPEATS]``. For the accuracy, run
``genmetric reproduce nonlinear``.
"""

import resource
import sys
from time import perf_counter

import numpy as np
from sklearn.preprocessing import minmax_scale

from genmetric.datasets import load_dataset
from genmetric.kernels import RegionalKernels, SimpleMKLClassifier


def scaled(name):
    """Load samples with every feature scaled to [-1, 1], as in the paper, and labels."""
    X, y = load_dataset(name, return_X_y=True)
    return minmax_scale(X, (-1, 1)), y


def parts(n, seed):
    """Split the indices of n samples into training, validation and test samples, 60/20/20."""
    rows = np.random.default_rng(seed).permutation(n)
    return np.split(rows, [round(0.6 * n), round(0.8 * n)])


def peak_memory():
    """Return the peak resident memory in MB."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (2**20 if sys.platform == "darwin" else 2**10)


def fit_times(repeats):
    """Print a table of fits."""
    X, y = scaled("german")
    train, _, test = parts(len(X), 0)
    print("| C | n_jobs | seconds | gap | iterations | kernels | test error |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for C in (1.0, 2.0**11):
        for n_jobs in (1, 2):
            seconds = []
            for _ in range(repeats):
                kernels = RegionalKernels(10, random_state=0, n_jobs=n_jobs)
                model = SimpleMKLClassifier(kernels, C=C, n_jobs=n_jobs)
                start = perf_counter()
                model.fit(X[train], y[train])
                seconds.append(perf_counter() - start)
            print(
                f"| {C:g} | {n_jobs} | {min(seconds):.2f} | {model.duality_gap_:.4f} | "
                f"{model.n_iter_} | {np.count_nonzero(model.weights_)}/150 | "
                f"{100 * (1 - model.score(X[test], y[test])):.1f} |",
                flush=True,
            )
    print(f"\npeak memory {peak_memory():.0f} MB")


if __name__ == "__main__":
    fit_times(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
