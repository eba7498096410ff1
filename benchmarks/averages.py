"""Error rates of nearest neighbours for several averages of the same local metrics.

    python benchmarks/averages.py --store averages.jsonl --splits 10 --minutes 60

The datasets, training fractions and splits are those of robustness.py. For each split the local
metrics of the training samples are computed once and averaged in several ways, in the units of the
data and after whitening by the within-class covariance. Prints one table per base: the average rank
of each average over the datasets at each training fraction, and the mean error rate.
"""

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from robustness import FRACTIONS, SETS, WithinClassWhitening, load, records, splits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric.geometry import sign_rule
from genmetric.neighbors import select_n_neighbors
from genmetric.reproduction.ranks import rank_methods

#: Largest ratio of two eigenvalues of a clipped local metric.
CONDITIONS = (10.0, 100.0, 1000.0)

#: Iterations of the geometric median, which has converged to three digits by then.
MEDIAN_ITERATIONS = 30


def unit_trace(m):
    return m / m.mean(axis=1, keepdims=True)


def unit_determinant(m):
    return np.exp(np.log(m) - np.log(m).mean(axis=1, keepdims=True))


def clipped(m, condition):
    return np.maximum(m, m.max(axis=1, keepdims=True) / condition)


def weighted_sum(m, U, weights=None):
    """Return the mean of ``U diag(m) U^T``, weighted."""
    w = np.full(len(m), 1 / len(m)) if weights is None else weights / weights.sum()
    wide = (U * np.sqrt(w[:, None] * m)[:, None, :]).transpose(1, 0, 2).reshape(U.shape[1], -1)
    return wide @ wide.T


def log_euclidean(m, U):
    """Return the exponential of the mean logarithm."""
    half = np.einsum("nik,nk,njk->ij", U, np.log(m), U, optimize=True) / len(m)
    values, axes = np.linalg.eigh(half)
    return (axes * np.exp(values)) @ axes.T


def harmonic(m, U):
    """Return the inverse of the mean inverse."""
    return np.linalg.inv(weighted_sum(1 / m, U))


def geometric_median(m, U):
    """Return the matrix with the smallest sum of Frobenius distances (Weiszfeld's iteration)."""
    center = weighted_sum(m, U)
    for _ in range(MEDIAN_ITERATIONS):
        inner = np.einsum("nik,ij,njk,nk->n", U, center, U, m, optimize=True)
        distance2 = (m**2).sum(axis=1) - 2 * inner + (center**2).sum()
        center = weighted_sum(m, U, 1 / np.sqrt(np.maximum(distance2, 1e-12)))
    return center


#: From eigenvalues (n_samples, n_features) and eigenvectors of the local metrics to one metric.
AVERAGES = {
    "determinant (paper)": lambda m, U: weighted_sum(unit_determinant(m), U),
    "trace (default)": lambda m, U: weighted_sum(unit_trace(m), U),
    "log-Euclidean": lambda m, U: log_euclidean(unit_determinant(m), U),
    "harmonic, determinant": lambda m, U: harmonic(unit_determinant(m), U),
    "geometric median, trace": lambda m, U: geometric_median(unit_trace(m), U),
} | {
    f"{name}, condition {c:g}": lambda m, U, scale=scale, c=c: weighted_sum(scale(clipped(m, c)), U)
    for name, scale in (("determinant", unit_determinant), ("trace", unit_trace))
    for c in CONDITIONS
}


def local_spectra(A, y):
    """Return eigenvalues and eigenvectors of the local metrics of all samples."""
    metric = GenerativeMetric(max_samples=2).fit(A, y)
    values, axes = np.linalg.eigh(metric.curvature(A))
    return sign_rule(values), axes


def errors(X, y, train, test, base):
    """Yield the name and the error rate of each average."""
    scaler = StandardScaler().fit(X[train])
    A, B = scaler.transform(X[train]), scaler.transform(X[test])
    if base == "pooled":
        whitening = WithinClassWhitening().fit(A, y[train])
        A, B = whitening.transform(A), whitening.transform(B)
    m, U = local_spectra(A, y[train])
    for name, average in AVERAGES.items():
        values, axes = np.linalg.eigh(average(m, U))
        L = np.sqrt(np.maximum(values, 0))[:, None] * axes.T
        k = select_n_neighbors(A @ L.T, y[train]).n_neighbors
        knn = KNeighborsClassifier(min(k, len(A))).fit(A @ L.T, y[train])
        yield name, float(np.mean(knn.predict(B @ L.T) != y[test]))


def run(store, n_splits, minutes):
    """Add scores to the store until all are there or the time is over."""
    done = {(r["set"], r["fraction"], r["split"], r["base"]) for r in records(store)}
    start = time.monotonic()
    data = {name: found for name in SETS if (found := load(name)) is not None}
    with store.open("a") as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for split in range(n_splits):
            for name, found in data.items():
                X, y = np.asarray(found[0], float), np.asarray(found[1])
                for fraction in FRACTIONS:
                    train, test = list(splits(X, y, fraction, 20))[split]
                    for base in ("identity", "pooled"):
                        if (name, fraction, split, base) in done:
                            continue
                        if time.monotonic() - start > 60 * minutes:
                            return
                        key = {"set": name, "fraction": fraction, "split": split, "base": base}
                        record = key | {"errors": dict(errors(X, y, train, test, base))}
                        stream.write(json.dumps(record) + "\n")
                        stream.flush()


def print_tables(store):
    """Print ranks and mean error rates of each average, per base and training fraction."""
    scores = defaultdict(list)
    for record in records(store):
        for name, error in record["errors"].items():
            scores[record["base"], record["fraction"], record["set"], name].append(error)
    for base in ("identity", "pooled"):
        columns = []
        for fraction in FRACTIONS:
            sets = [s for s in SETS if scores.get((base, fraction, s, "trace (default)"))]
            means = [[np.mean(scores[base, fraction, s, name]) for name in AVERAGES] for s in sets]
            columns += [rank_methods(means, list(AVERAGES)).ranks, 100 * np.mean(means, axis=0)]
        title = [f"rank, {100 * f:.0f} % | error" for f in FRACTIONS]
        print(f"\nBase {base}\n\n| average | " + " | ".join(title) + " |")
        print("| --- " * (1 + 2 * len(FRACTIONS)) + "|")
        for name, row in zip(AVERAGES, np.transpose(columns), strict=True):
            print(f"| {name} | " + " | ".join(f"{v:.2f}" for v in row) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, default=Path("averages.jsonl"))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=60)
    arguments = parser.parse_args()
    run(arguments.store, arguments.splits, arguments.minutes)
    print_tables(arguments.store)


if __name__ == "__main__":
    main()
