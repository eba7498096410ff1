"""1 - R² of nearest neighbours and kernel regression after each metric, on tables with numbers.

Writes the tables docs/results/regression.csv from a store of scores, which a later run continues:

    python benchmarks/regression.py --store scores.jsonl --splits 30 --minutes 60

Each table is split at random, with 70 % and at most 600 samples for training; features are
standardised on the training part. The number of neighbours and the bandwidth are selected by
leave-one-out on the training part in the learned space.
"""

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from measure import write_csv
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import ShuffleSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from genmetric import (
    MLKR,
    GenerativeRegressionMetric,
    GenerativeRegressionMetricCV,
    KernelRegressor,
)
from genmetric.datasets import load_dataset
from genmetric.neighbors import select_n_neighbors
from genmetric.reproduction.ranks import mean_and_error, rank_methods

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "regression.csv"

#: Most training and test samples of a split.
MAX_TRAIN, MAX_TEST = 600, 1000

EMBEDDED = (
    *("concrete", "airfoil", "auto_mpg", "real_estate", "slump", "fish_toxicity"),
    *("aquatic_toxicity", "wine_quality"),
)
GENERATED = {
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "friedman1": lambda: make_friedman1(1000, noise=1.0, random_state=0),
    "friedman2": lambda: make_friedman2(1000, noise=125.0, random_state=0),
    "friedman3": lambda: make_friedman3(1000, noise=0.1, random_state=0),
}
TABLES = (*EMBEDDED, *GENERATED)


class RidgeDirection(TransformerMixin, BaseEstimator):
    """Euclidean distance plus a multiple of the squared distance along the ridge direction.

    The multiple is the one of least leave-one-out error of nearest neighbours.
    """

    weights = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0)

    def fit(self, X, y):
        w = RidgeCV(np.logspace(-2, 4, 13)).fit(X, y).coef_
        direction = w / np.linalg.norm(w)
        found = []
        for weight in self.weights:
            self.components_ = np.vstack([np.eye(len(w)), np.sqrt(weight) * direction])
            found.append(
                (np.min(select_n_neighbors(self.transform(X), y, average=True).errors), weight)
            )
        weight = min(found)[1]
        self.components_ = np.vstack([np.eye(len(w)), np.sqrt(weight) * direction])
        return self

    def transform(self, X):
        return X @ self.components_.T


#: Name in the tables, and how to build the transformer from a seed.
METRICS = {
    "standardised": lambda _: None,
    "ridge direction": lambda _: RidgeDirection(),
    "slices": lambda _: GenerativeRegressionMetric("slices"),
    "kernel": lambda _: GenerativeRegressionMetric("kernel"),
    "combined": lambda _: GenerativeRegressionMetric(),
    "CV": lambda seed: GenerativeRegressionMetricCV(random_state=seed),
    "MLKR": lambda seed: MLKR(random_state=seed),
}
REFERENCES = {
    "ridge": lambda _: RidgeCV(np.logspace(-2, 4, 13)),
    "random forest": lambda seed: RandomForestRegressor(200, random_state=seed),
    "boosting": lambda seed: HistGradientBoostingRegressor(random_state=seed),
}
METHODS = (*METRICS, *REFERENCES)
REGRESSORS = {"kNN": "nearest neighbours", "NW": "kernel regression"}


def load(name):
    return load_dataset(name, return_X_y=True) if name in EMBEDDED else GENERATED[name]()


def split_of(n, split):
    """Return training and test indices; they do not depend on the number of splits."""
    n_train = min(MAX_TRAIN, round(0.7 * n))
    splitter = ShuffleSplit(
        1, train_size=n_train, test_size=min(MAX_TEST, n - n_train), random_state=split
    )
    return next(splitter.split(np.zeros(n)))


def scores(method, X, y, train, test, seed):
    """Return 1 - R² by regressor, and the fit time of the metric or reference."""
    scaler = StandardScaler().fit(X[train])
    A, B = scaler.transform(X[train]), scaler.transform(X[test])
    start = time.process_time()
    if method in REFERENCES:
        model = REFERENCES[method](seed).fit(A, y[train])
        seconds = time.process_time() - start
        return {"": 1 - r2_score(y[test], model.predict(B))}, seconds
    metric = METRICS[method](seed)
    if metric is not None:
        metric.fit(A, y[train])
        A, B = metric.transform(A), metric.transform(B)
    seconds = time.process_time() - start
    selected = getattr(metric, "best_params_", {}).get("n_neighbors")
    k = selected or select_n_neighbors(A, y[train], average=True).n_neighbors
    models = {"kNN": KNeighborsRegressor(k), "NW": KernelRegressor()}
    found = {
        name: 1 - r2_score(y[test], model.fit(A, y[train]).predict(B))
        for name, model in models.items()
    }
    return found, seconds


def records(store):
    if not store.exists():
        return []
    return [json.loads(line) for line in store.read_text().splitlines()]


def run(store, n_splits, minutes, methods, tables):
    """Add scores to the store until all are there or the time is over, split by split."""
    done = {(r["table"], r["method"], r["split"]) for r in records(store)}
    start = time.monotonic()
    data = {name: load(name) for name in tables}
    with store.open("a") as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for split in range(n_splits):
            for name, (X, y) in data.items():
                train, test = split_of(len(y), split)
                for method in methods:
                    if (name, method, split) in done:
                        continue
                    if time.monotonic() - start > 60 * minutes:
                        return
                    found, seconds = scores(method, X, y, train, test, split)
                    record = {"table": name, "method": method, "split": split}
                    record |= {"losses": found, "seconds": seconds}
                    stream.write(json.dumps(record) + "\n")
                    stream.flush()


def table(losses, methods):
    """Return the lines of one table: means with standard errors, geometric mean, average rank."""
    names = [name for name in TABLES if all(losses[name, m] for m in methods)]
    lines, means = [], []
    for name in names:
        cells = [mean_and_error(losses[name, m]) for m in methods]
        best = min(mean for mean, _ in cells)
        row = [f"{m:.3f} ± {e:.3f}" for m, e in cells]
        row = [f"**{r}**" if m == best else r for r, (m, _) in zip(row, cells, strict=True)]
        lines.append(f"| {name} | " + " | ".join(row) + " |")
        means.append([mean for mean, _ in cells])
    geometric = np.exp(np.mean(np.log(means), axis=0))
    ranks = rank_methods(means, list(methods)).ranks
    lines.append("| geometric mean | " + " | ".join(f"{g:.3f}" for g in geometric) + " |")
    lines.append("| average rank | " + " | ".join(f"{r:.2f}" for r in ranks) + " |")
    header = ["| table | " + " | ".join(methods) + " |", "| --- " * (len(methods) + 1) + "|"]
    return [*header, *lines]


def write_page(store):
    """Write the tables."""
    found = records(store)
    # Complete splits only, so all methods are compared on the same samples.
    done = defaultdict(set)
    for record in found:
        done[record["split"]].add((record["table"], record["method"]))
    splits = {s for s, pairs in done.items() if len(pairs) == len(TABLES) * len(METHODS)}
    if not splits:
        print("No split has the scores of all methods on all tables yet; the page is unchanged.")
        return
    lines = []
    for key, title in REGRESSORS.items():
        losses = defaultdict(list)
        for record in found:
            if record["split"] in splits:
                loss = record["losses"].get(key, record["losses"].get(""))
                losses[record["table"], record["method"]].append(loss)
        lines += [f"## {title.capitalize()}", "", f"1 - R², mean of {len(splits)} splits."]
        lines += ["", *table(losses, METHODS), ""]
    seconds = defaultdict(list)
    for record in found:
        seconds[record["method"]].append(record["seconds"])
    lines += ["## Time", "", "CPU seconds per fit, mean over tables and splits.", ""]
    lines += ["| " + " | ".join(METHODS) + " |", "| --- " * len(METHODS) + "|"]
    lines += ["| " + " | ".join(f"{np.mean(seconds[m]):.3f}" for m in METHODS) + " |", ""]
    write_csv(RESULTS, "\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, default=Path("regression.jsonl"))
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--no-run", action="store_true", help="write the page from the store")
    arguments = parser.parse_args()
    if not arguments.no_run:
        methods, tables = arguments.methods.split(","), arguments.tables.split(",")
        run(arguments.store, arguments.splits, arguments.minutes, methods, tables)
    write_page(arguments.store)


if __name__ == "__main__":
    main()
