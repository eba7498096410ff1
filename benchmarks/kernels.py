"""Multiple kernel learning: what a fit costs, and what it gains on Vehicle.

``python benchmarks/kernels.py time`` fits 150 kernels on 600 rows with each solver.
``python benchmarks/kernels.py vehicle [SPLITS]`` compares the Euclidean baseline, the uniform
metric and regional metrics with a single Gaussian kernel, C (and the kernel) by validation error;
the class covariances are plain maximum likelihood, as in the paper.
"""

import argparse
import resource
import sys
from time import perf_counter

import numpy as np
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC

from genmetric.datasets import load_dataset
from genmetric.kernels import RegionalKernels, SimpleMKLClassifier

C_GRID = 2.0 ** np.arange(-3, 12)


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


def by_validation(candidates, y_val, y_test):
    """Test error of the first candidate of least validation error; asks each before the next."""
    best = None
    for predict_val, predict_test in candidates:
        error = np.mean(predict_val() != y_val)
        if best is None or error < best[0]:
            best = error, np.mean(predict_test() != y_test)
    return 100 * best[1]


def mkl_candidates(stacks, y):
    """One machine for each C, from the stacks of training, validation and test rows."""
    model = SimpleMKLClassifier("precomputed", warm_start=True)
    for C in C_GRID:
        model.set_params(C=C).fit(stacks[0], y)
        yield lambda: model.predict(stacks[1]), lambda: model.predict(stacks[2])


def single_candidates(stacks, y):
    """One machine for each C and each single kernel."""
    for C in C_GRID:
        for K, K_val, K_test in zip(*stacks, strict=True):
            model = SVC(C=C, kernel="precomputed").fit(K, y)
            yield lambda m=model, K=K_val: m.predict(K), lambda m=model, K=K_test: m.predict(K)


def vehicle_errors(n_splits):
    X, y = scaled("vehicle")
    columns: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    for seed in range(n_splits):
        train, val, test = parts(len(X), seed)
        for n_regions in (0, 1, 5, 10):
            start = perf_counter()
            kernels = RegionalKernels(n_regions, shrinkage=None, random_state=seed)
            kernels.fit(X[train], y[train])
            stacks = [kernels.gram(X[rows], X[train]) for rows in (train, val, test)]
            error = by_validation(mkl_candidates(stacks, y[train]), y[val], y[test])
            columns.setdefault(f"MKL, {n_regions} regions", []).append(error)
            seconds.setdefault(f"MKL, {n_regions} regions", []).append(perf_counter() - start)
            if n_regions < 2:
                start = perf_counter()
                name = f"one kernel, {'uniform metric' if n_regions else 'Euclidean'}"
                error = by_validation(single_candidates(stacks, y[train]), y[val], y[test])
                columns.setdefault(name, []).append(error)
                seconds.setdefault(name, []).append(perf_counter() - start)
        print(
            seed,
            {name: round(float(errors[-1]), 1) for name, errors in columns.items()},
            flush=True,
        )
    print(f"\n| Vehicle, {n_splits} splits | test error | standard error | seconds a split |")
    print("|---|--:|--:|--:|")
    for name, errors in columns.items():
        spread = np.std(errors, ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else np.nan
        print(f"| {name} | {np.mean(errors):.2f} | {spread:.2f} | {np.mean(seconds[name]):.1f} |")
    print(f"\npeak memory {peak_memory():.0f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["time", "vehicle"])
    parser.add_argument("number", nargs="?", type=int, default=3, help="repeats, or splits")
    arguments = parser.parse_args()
    {"time": fit_times, "vehicle": vehicle_errors}[arguments.what](arguments.number)


if __name__ == "__main__":
    main()
