"""Forms of the energy, numbers of targets and margins, next to votes in the same metric.

``python benchmarks/energies.py [--splits 10] [--data DIR]`` prints errors of every combination
on the embedded sets, on Letters and on part of MNIST in 40 principal components (with Heart from
DIR). Nothing is selected by validation: the study is about defaults. Each cell of the
summary is the geometric mean over the sets of the error divided by the error of 3 votes, after
adding half a test sample to both so that sets without errors count.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric._neighbors import majority_votes, nearest_neighbors
from genmetric.datasets import deskew, load_dataset
from genmetric.neighbors.energy import EnergyModel, least_energies

FORMS = ("one-sided", "three-term", "two-term")
NEIGHBORS = (1, 3, 5, 7)
MARGINS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
SETS = (
    "iris",
    "wine",
    "breast_cancer",
    "digits",
    "vehicle",
    "ionosphere",
    "german",
    "segment",
    "image",
    "three_normal",
    "two_normal",
)
#: Training and test samples, and splits, of the large sets.
LARGE = {"letter": (12_000, 4_000, 3), "mnist": (20_000, 4_000, 2)}


def load(name: str, data: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised samples and class codes; of MNIST, principal components."""
    X, y = load_dataset(name, return_X_y=True, data_dir=data)
    y = np.unique(y, return_inverse=True)[1]
    if name == "mnist":
        images = deskew(X.reshape(-1, 28, 28)).reshape(len(X), -1) / 255
        return PCA(40, svd_solver="covariance_eigh").fit_transform(images), y
    return StandardScaler().fit_transform(X), y


def errors_of(X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> dict:
    """Return the number of errors of every combination on one split."""
    metric = GenerativeMetric().fit(X[train], y[train])
    A, B = metric.transform(X[train]), metric.transform(X[test])
    found = {}
    near = nearest_neighbors(A, max(NEIGHBORS), queries=B).indices
    votes = majority_votes(y[train][near], y.max() + 1)
    for k in NEIGHBORS:
        found["votes", k, 0.0] = int(np.sum(votes[:, k - 1] != y[test]))
    base = EnergyModel.of(A, y[train], max(NEIGHBORS), "one-sided")
    settings = [*product(FORMS, NEIGHBORS, MARGINS), *product(["difference"], NEIGHBORS, [0.0])]
    for form, k, margin in settings:
        model = replace(base, n_neighbors=k, energy=form, margin=margin * base.margin_unit)
        found[form, k, margin] = int(np.sum(least_energies(model, B) != y[test]))
    return found


def study(names: list[str], n_splits: int, data: str | None) -> list[dict]:
    """Run all sets and print one line per set as soon as it is known."""
    records = []
    for name in names:
        X, y = load(name, data)
        n_train, n_test, splits = LARGE.get(name, (int(0.6 * len(X)), None, n_splits))
        totals: dict = {}
        size = 0
        for seed in range(splits):
            order = np.random.default_rng(seed).permutation(len(X))
            test = order[n_train:] if n_test is None else order[n_train : n_train + n_test]
            for key, wrong in errors_of(X, y, order[:n_train], test).items():
                totals[key] = totals.get(key, 0) + wrong
            size += len(test)
        for (form, k, margin), wrong in totals.items():
            records.append(
                {"set": name, "form": form, "k": k, "margin": margin, "wrong": wrong, "n": size}
            )
        shown = {form: totals[form, 3, 0.3] for form in FORMS}
        line = "  ".join(f"{form} {100 * w / size:.2f}" for form, w in shown.items())
        votes = "  ".join(
            f"{k} votes {100 * totals['votes', k, 0.0] / size:.2f}" for k in (1, 3, 5)
        )
        print(f"{name:14} k=3, margin 0.3: {line}  {votes}", flush=True)
    return records


def summarise(records: list[dict]) -> None:
    """Print the mean ratio to 3 votes of each combination, and its worst set."""
    rate = {
        (r["set"], r["form"], r["k"], r["margin"]): (r["wrong"] + 0.5) / r["n"] for r in records
    }
    names = list(dict.fromkeys(r["set"] for r in records))
    table = []
    for key in dict.fromkeys((r["form"], r["k"], r["margin"]) for r in records):
        ratios = {n: rate[(n, *key)] / rate[n, "votes", 3, 0.0] for n in names}
        worst = max(names, key=lambda n: ratios[n])
        table.append(
            (float(np.exp(np.mean(np.log(list(ratios.values()))))), key, worst, ratios[worst])
        )
    print("\nmean ratio to 3 votes, combination (form, k, margin), worst set")
    for mean, (form, k, margin), worst, ratio in sorted(table, key=lambda row: row[0]):
        print(f"{mean:.3f}  {form:11} k={k} margin {margin:3.1f}   {worst} {ratio:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument(
        "--data", help="directory with heart.csv.gz and mnist.npz; without it these are left out"
    )
    parser.add_argument("--output", type=Path, help="write all counts as JSON")
    options = parser.parse_args()
    every = [*SETS, "letter", *(["heart", "mnist"] if options.data else [])]
    counts = study(every, options.splits, options.data)
    summarise(counts)
    if options.output:
        options.output.write_text(json.dumps(counts), encoding="utf-8")
