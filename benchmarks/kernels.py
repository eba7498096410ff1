"""What multiple kernel learning costs: 150 kernels on 600 rows, with each solver.

``python benchmarks/kernels.py [REPEATS]``. What it gains: ``genmetric reproduce nonlinear``.
"""

import resource
import sys
from time import perf_counter

import numpy as np
from sklearn.preprocessing import minmax_scale

from genmetric.datasets import load_dataset
from genmetric.kernels import RegionalKernels, SimpleMKLClassifier


def scaled(name):
    """Rows with every feature in [-1, 1] over the whole set, as in the paper; labels."""
    X, y = load_dataset(name, return_X_y=True)
    return minmax_scale(X, (-1, 1)), y


def parts(n, seed):
    """Training, validation and test rows, 60/20/20."""
    rows = np.random.default_rng(seed).permutation(n)
    return np.split(rows, [round(0.6 * n), round(0.8 * n)])


def peak_memory():
    """Largest resident size so far, in MB."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (2**20 if sys.platform == "darwin" else 2**10)


def fit_times(repeats):
    X, y = scaled("german")
    train, _, test = parts(len(X), 0)
    print("| solver | C | n_jobs | seconds | gap | iterations | machines | kernels | test error |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for solver in ("newton", "gradient"):
        for C in (1.0, 2.0**11):
            for n_jobs in (1, 2):
                seconds = []
                for _ in range(repeats):
                    kernels = RegionalKernels(10, random_state=0, n_jobs=n_jobs)
                    model = SimpleMKLClassifier(kernels, C=C, solver=solver, n_jobs=n_jobs)
                    start = perf_counter()
                    model.fit(X[train], y[train])
                    seconds.append(perf_counter() - start)
                last = model.history_[-1]
                print(
                    f"| {solver} | {C:g} | {n_jobs} | {min(seconds):.2f} | "
                    f"{model.duality_gap_:.4f} | {model.n_iter_} | {last.n_svm} | "
                    f"{last.n_active}/150 | {100 * (1 - model.score(X[test], y[test])):.1f} |",
                    flush=True,
                )
    print(f"\npeak memory {peak_memory():.0f} MB")


if __name__ == "__main__":
    fit_times(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
