"""Error rates of k-nearest neighbours after each metric, for small and large training sets.

Writes the ranks of docs/results/robustness.md and all tables, robustness.csv, from a store of
scores, by default robustness.jsonl next to that
page, which a later run continues. The scores of a method whose code changed are computed again
after its lines are removed:

    python benchmarks/robustness.py --splits 20 --minutes 60

Each set is split at random, stratified, with 20, 50 and 80 % for training; features are
standardised on the training part; the number of neighbours is selected by leave-one-out on the
training part in the learned space (`GenerativeMetricCV` selects its own).
"""

import argparse
import json
import os
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from measure import write_csv
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.covariance import ledoit_wolf
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from genmetric import LMNN, GenerativeMetric, GenerativeMetricCV
from genmetric.datasets import deskew, load_dataset
from genmetric.neighbors import select_n_neighbors
from genmetric.reproduction.ranks import mean_and_error, rank_methods

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "results" / "robustness.md"
FRACTIONS = (0.2, 0.5, 0.8)

#: Most samples of a set that a split uses, and most test samples.
MAX_SAMPLES, MAX_TEST = 3000, 1500

SETS = (
    *("iris", "wine", "heart", "vehicle", "ionosphere", "image", "german", "segment", "letter"),
    *("digits", "breast_cancer", "three_normal", "mnist-40", "embeddings-64"),
)


class WithinClassWhitening(TransformerMixin, BaseEstimator):
    """Whitening by the Ledoit-Wolf estimate of the pooled within-class covariance."""

    def fit(self, X, y):
        centered = np.concatenate([X[y == c] - X[y == c].mean(axis=0) for c in np.unique(y)])
        variances, axes = np.linalg.eigh(ledoit_wolf(centered)[0])
        self.components_ = axes.T / np.sqrt(np.maximum(variances, 1e-12))[:, None]
        return self

    def transform(self, X):
        return X @ self.components_.T


def lda():
    return LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")


#: Name in the table, and how to build the transformer from a seed.
METHODS = {
    "Euclidean": lambda _: None,
    "LDA": lambda _: lda(),
    "within-class whitening": lambda _: WithinClassWhitening(),
    "NCA": lambda seed: NeighborhoodComponentsAnalysis(max_iter=50, random_state=seed),
    "LMNN": lambda seed: LMNN(random_state=seed),
    "determinant, identity": lambda _: GenerativeMetric(normalization="determinant"),
    "trace, identity": lambda _: GenerativeMetric(normalization="trace"),
    "determinant, pooled": lambda _: GenerativeMetric(normalization="determinant", base="pooled"),
    "trace, pooled": lambda _: GenerativeMetric(normalization="trace", base="pooled"),
    "GenerativeMetricCV": lambda seed: GenerativeMetricCV(random_state=seed),
}
FOUR = tuple(name for name in METHODS if ", " in name)

#: The methods that GenerativeMetricCV is compared with, and itself.
RANKED = tuple(name for name in METHODS if not name.startswith("determinant"))


def data_dir():
    return os.environ.get("GENMETRIC_DATA")


def load(name):
    """Return samples and labels, or None if the set is not available here."""
    if name.startswith("embeddings-"):
        path = Path(data_dir() or "data") / "embeddings_sections.npz"
        if not path.exists():
            return None
        with np.load(path) as arrays:
            X, y = arrays["X"], arrays["y"]
        return PCA(int(name.partition("-")[2]), random_state=0).fit_transform(X), y
    try:
        if name.startswith("mnist-"):
            X, y = load_dataset("mnist", return_X_y=True, data_dir=data_dir())
            rows = np.random.default_rng(0).permutation(len(X))[:8000]
            images = deskew(X[rows].reshape(-1, 28, 28)).reshape(len(rows), -1) / 255
            n_components = int(name.partition("-")[2])
            return PCA(n_components, random_state=0).fit_transform(images), y[rows]
        return load_dataset(name, return_X_y=True, data_dir=data_dir())
    except (OSError, ValueError):
        return None


def score(method, X, y, train, test, seed):
    """Return the error rate on the test samples and the fit time."""
    scaler = StandardScaler().fit(X[train])
    A, B = scaler.transform(X[train]), scaler.transform(X[test])
    start = time.process_time()
    metric = METHODS[method](seed)
    if metric is not None:
        metric.fit(A, y[train])
        A, B = metric.transform(A), metric.transform(B)
    chosen = getattr(metric, "best_params_", {}).get("n_neighbors")
    k = select_n_neighbors(A, y[train]).n_neighbors if chosen is None else chosen
    seconds = time.process_time() - start
    classifier = KNeighborsClassifier(min(k, len(A))).fit(A, y[train])
    return float(np.mean(classifier.predict(B) != y[test])), seconds


def splits(X, y, fraction, n_splits, seed=0):
    n_samples = min(len(y), MAX_SAMPLES)
    n_test = min(MAX_TEST, n_samples - round(fraction * n_samples))
    splitter = StratifiedShuffleSplit(
        n_splits, train_size=round(fraction * n_samples), test_size=n_test, random_state=seed
    )
    return splitter.split(X, y)


def run(store, n_splits, minutes, methods, sets):
    """Add scores to the store until all are there or the time is over, split by split."""
    done = {(r["set"], r["fraction"], r["method"], r["split"]) for r in records(store)}
    start = time.monotonic()
    data = {name: load(name) for name in sets}
    with store.open("a") as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for split in range(n_splits):
            for name, found in data.items():
                if found is None:
                    continue
                X, y = np.asarray(found[0], float), np.asarray(found[1])
                for fraction in FRACTIONS:
                    missing = [m for m in methods if (name, fraction, m, split) not in done]
                    if not missing:
                        continue
                    train, test = list(splits(X, y, fraction, n_splits))[split]
                    for method in missing:
                        if time.monotonic() - start > 60 * minutes:
                            return
                        error, seconds = score(method, X, y, train, test, split)
                        record = {"set": name, "fraction": fraction, "method": method}
                        record |= {"split": split, "error": error, "seconds": seconds}
                        stream.write(json.dumps(record) + "\n")
                        stream.flush()


def records(store):
    if not store.exists():
        return []
    return [json.loads(line) for line in store.read_text().splitlines()]


def table(scores, names, methods, fraction):
    """Return the lines of one table and its average ranks."""
    means, lines = [], []
    for name in names:
        cells = [mean_and_error(scores[name, fraction, m]) for m in methods]
        best = min(mean for mean, _ in cells)
        row = [f"{100 * m:.1f} ± {100 * e:.1f}" for m, e in cells]
        row = [f"**{r}**" if m == best else r for r, (m, _) in zip(row, cells, strict=True)]
        lines.append(f"| {name} | " + " | ".join(row) + " |")
        means.append([mean for mean, _ in cells])
    ranks = rank_methods(means, list(methods)).ranks
    lines.append("| average rank | " + " | ".join(f"{r:.2f}" for r in ranks) + " |")
    header = ["| set | " + " | ".join(methods) + " |", "| --- " * (len(methods) + 1) + "|"]
    return [*header, *lines], ranks


def ranks_table(scores):
    """Return the lines of a table of average ranks and mean errors of eight methods."""
    columns, titles = [], []
    for fraction in FRACTIONS:
        names = [s for s in SETS if all(scores[s, fraction, m] for m in RANKED)]
        if not names:
            return []
        errors = [[np.mean(scores[s, fraction, m]) for m in RANKED] for s in names]
        columns += [rank_methods(errors, list(RANKED)).ranks, 100 * np.mean(errors, axis=0)]
        titles += [f"rank, {100 * fraction:.0f} %", "error"]
    columns += [np.mean(columns[::2], axis=0), np.mean(columns[1::2], axis=0)]
    titles += ["rank, mean", "error"]
    lines = ["## Average ranks of eight methods", ""]
    lines += ["| method | " + " | ".join(titles) + " |", "| --- " * (len(titles) + 1) + "|"]
    for j, method in enumerate(RANKED):
        name = {"trace, identity": "GenerativeMetric", "trace, pooled": 'base="pooled"'}.get(method)
        lines.append(f"| {name or method} | " + " | ".join(f"{c[j]:.2f}" for c in columns) + " |")
    return [*lines, ""]


def write_page(store):
    """Replace the tables of the page below its marker."""
    scores = defaultdict(list)
    for record in records(store):
        scores[record["set"], record["fraction"], record["method"]].append(record["error"])
    lines = ranks = ranks_table(scores)
    for title, methods in (("The four averages", ("Euclidean", *FOUR)), ("All methods", METHODS)):
        for fraction in FRACTIONS:
            methods_here = list(methods)
            names = [s for s in SETS if all(scores[s, fraction, m] for m in methods_here)]
            if not names:
                continue
            counts = {len(scores[s, fraction, m]) for s in names for m in methods_here}
            lines = [*lines, f"## {title}, {100 * fraction:.0f} % for training", ""]
            found, _ = table(scores, names, methods_here, fraction)
            lines += [
                *found,
                "",
                f"Splits: {min(counts)}."
                if len(counts) == 1
                else f"Splits: {min(counts)} to {max(counts)}.",
                "",
            ]
    marker = "<!-- tables -->"
    PAGE.write_text(PAGE.read_text().partition(marker)[0] + marker + "\n\n" + "\n".join(ranks))
    write_csv(PAGE.with_suffix(".csv"), "\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, default=PAGE.with_suffix(".jsonl"))
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--methods", default=",".join(METHODS).replace(", ", "; "))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--no-run", action="store_true", help="write the page from the store")
    arguments = parser.parse_args()
    methods = [m.replace("; ", ", ") for m in arguments.methods.split(",")]
    if not arguments.no_run:
        sets = arguments.sets.split(",")
        run(arguments.store, arguments.splits, arguments.minutes, methods, sets)
    write_page(arguments.store)


if __name__ == "__main__":
    main()
