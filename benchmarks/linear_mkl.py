"""Linear combination, revisited (section 3.3 of the paper).

The study compares learned with equal weights of a convex combination of metrics. Regional metrics
M_p have linear kernels x'M_p x'; SimpleMKL learns their weights d, and sum_p d_p M_p is a metric.
Figures are errors in % over random splits 60/20/20, with features in [-1, 1]. C (2^-3, 2^-1,
..., 2^11) and the number of neighbours are selected by the validation error:

- a linear support vector machine under the Euclidean, the average and the learned metric;
- nearest neighbours with the same three metrics.

``python benchmarks/linear_mkl.py [SPLITS]`` prints a Markdown table.
"""

import argparse
from time import perf_counter

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC

from genmetric.datasets import load_dataset
from genmetric.geometry import symmetric_root
from genmetric.kernels import RegionalKernels, SimpleMKLClassifier, metric_kernel

NAMES = ("iris", "wine", "vehicle", "ionosphere", "german")
C_GRID = 2.0 ** np.arange(-3, 12, 2)
NEIGHBORS = range(1, 22, 2)
COLUMNS = (
    "SVM Euclidean",
    "SVM average",
    "SVM learned",
    "kNN Euclidean",
    "kNN average",
    "kNN learned",
)


def unit(M, X):
    """Scale the metric to a mean diagonal of one of its linear kernel, as in SimpleMKL."""
    return M / np.einsum("ij,jk,ik->i", X, M, X).mean()


def svm_error(M, X, y, train, val, test):
    """Compute the test error of a linear SVM under a metric, with C selected by validation."""
    kernel = metric_kernel(unit(M, X[train]), "linear")
    best = (np.inf, np.inf)
    for C in C_GRID:
        model = SVC(kernel=kernel, C=C).fit(X[train], y[train])
        error = 1 - model.score(X[val], y[val])
        if error < best[0]:
            best = error, 1 - model.score(X[test], y[test])
    return best[1]


def neighbor_error(M, X, y, train, val, test):
    """Compute the test error of nearest neighbours, with their number selected by validation."""
    Z = X @ symmetric_root(M)
    best = (np.inf, np.inf)
    for k in NEIGHBORS:
        model = KNeighborsClassifier(k).fit(Z[train], y[train])
        error = 1 - model.score(Z[val], y[val])
        if error < best[0]:
            best = error, 1 - model.score(Z[test], y[test])
    return best[1]


def learn(metrics, X, y, train, val, test):
    """Return the test error of SimpleMKL, its metric and its number of non-zero weights."""
    kernels = [metric_kernel(M, "linear") for M in metrics]
    best = None
    for C in C_GRID:
        model = SimpleMKLClassifier(kernels, C=C).fit(X[train], y[train])
        error = 1 - model.score(X[val], y[val])
        if best is None or error < best[0]:
            best = error, model
    weights = best[1].weights_ * best[1].normalization_
    learned = np.tensordot(weights, metrics, 1)
    return 1 - best[1].score(X[test], y[test]), learned, np.count_nonzero(weights)


def one_split(X, y, seed, n_regions):
    rows = np.random.default_rng(seed).permutation(len(X))
    split = np.split(rows, [round(0.6 * len(X)), round(0.8 * len(X))])
    train = split[0]
    X = X - X[train].mean(axis=0)  # a linear SVM with an intercept is invariant to this
    regional = RegionalKernels(n_regions, shrinkage=None, random_state=seed)
    regional.fit(X[train], y[train])
    average = RegionalKernels(1, shrinkage=None).fit(X[train], y[train]).metrics_[0]
    euclidean = np.eye(X.shape[1])
    error, learned, n_used = learn(regional.metrics_, X, y, *split)
    errors = [
        svm_error(euclidean, X, y, *split),
        svm_error(average, X, y, *split),
        error,
        neighbor_error(euclidean, X, y, *split),
        neighbor_error(average, X, y, *split),
        neighbor_error(learned, X, y, *split),
    ]
    return np.array(errors), n_used


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("splits", nargs="?", type=int, default=10)
    parser.add_argument("--regions", type=int, default=5)
    arguments = parser.parse_args()
    print(f"| {arguments.regions} regions | {' | '.join(COLUMNS)} | used | seconds |")
    print("|---|" + "--:|" * (len(COLUMNS) + 2))
    for name in NAMES:
        X, y = load_dataset(name, return_X_y=True)
        X = minmax_scale(X, (-1, 1))
        start = perf_counter()
        results = [one_split(X, y, seed, arguments.regions) for seed in range(arguments.splits)]
        errors = 100 * np.array([errors for errors, _ in results])
        spread = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
        cells = [f"{e:.2f} ± {s:.2f}" for e, s in zip(errors.mean(axis=0), spread, strict=True)]
        used = np.mean([n_used for _, n_used in results])
        seconds = perf_counter() - start
        print(f"| {name} | {' | '.join(cells)} | {used:.1f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
