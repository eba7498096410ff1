"""Errors of GenerativeMetricCV against metrics that are not tuned: ``python benchmarks/tuning.py``.

Prints tables. With names of datasets as arguments only these run; ``--splits N``,
``--first-split N`` (other splits) and ``--shares`` select what is measured.
"""

import argparse
import os
import platform
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import scipy
import sklearn
from measure import Table, progress, seconds, short
from scipy.stats import rankdata
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric, GenerativeMetricCV
from genmetric.datasets import load_dataset

NAMES = [
    "iris",
    "wine",
    "heart",
    "ionosphere",
    "breast_cancer",
    "vehicle",
    "german",
    "segment",
    "digits",
]
SHARES = (0.6, 0.25)


def one_candidate(interpolation):
    """Return a search over k only, for one metric; an interpolation of zero is Euclidean."""
    return GenerativeMetricCV(
        bases="identity",
        normalizations="trace",
        shrinkages="auto",
        interpolations=interpolation,
        n_components=None,
    )


#: Methods to compare: name, metric, and k if the metric does not select it.
METHODS = {
    "Euclidean, k=5": lambda: (GenerativeMetric(interpolation=0.0), 5),
    "Euclidean, k selected": lambda: (one_candidate(0.0), None),
    "GenerativeMetric, k=5": lambda: (GenerativeMetric(), 5),
    "GenerativeMetric, k selected": lambda: (one_candidate(1.0), None),
    "CV": lambda: (GenerativeMetricCV(), None),
}


def load(name):
    """Return samples and labels, or None if the dataset is not on this machine."""
    data_dir = Path(os.environ.get("GENMETRIC_DATA", "data"))
    data_dir = data_dir if data_dir.is_dir() else None
    try:
        bunch = load_dataset(name, data_dir=data_dir, download_if_missing=False)
    except FileNotFoundError:
        return None
    return bunch.data, bunch.target


def split(X, y, share, seed):
    """Make a stratified split, with features standardised on the training samples."""
    train, test, y_train, y_test = train_test_split(
        X, y, train_size=share, stratify=y, random_state=seed
    )
    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(test), y_train, y_test


def test_error(method, data, seed):
    """Return the error on the test samples and the selected parameters."""
    train, test, y_train, y_test = data
    metric, k = METHODS[method]()
    metric.set_params(random_state=seed).fit(train, y_train)
    chosen = getattr(metric, "best_params_", None)
    k = chosen["n_neighbors"] if k is None else k
    neighbors = KNeighborsClassifier(k, algorithm="brute").fit(metric.transform(train), y_train)
    return 1 - neighbors.score(metric.transform(test), y_test), chosen


def selected(params):
    """Return base, shrinkage, interpolation and dimensions of a selection as text."""
    names = [params["base"], f"{params['shrinkage']}", f"{params['interpolation']:g}"]
    if params["interpolation"] == 0:
        names = [params["base"], "0"]
    return ", ".join(names + (["LDA"] if params["n_components"] else []))


def errors_table(names, share, n_splits, first_split):
    """Return the errors of all methods with their mean ranks, and the selected parameters."""
    table = Table(
        f"Error in %, {share:.0%} training samples: mean ± standard error of {n_splits} splits",
        ["dataset", "samples", "features", *METHODS],
    )
    means, chosen = [], {}
    for name in names:
        data = load(name)
        if data is None:
            progress(f"{name} is not on this machine and is left out")
            continue
        errors = {method: [] for method in METHODS}
        picks = Counter()
        for seed in range(first_split, first_split + n_splits):
            parts = split(*data, share, seed)
            for method, found in errors.items():
                error, pick = test_error(method, parts, seed)
                found.append(100 * error)
                if method == "CV":
                    picks[selected(pick)] += 1
        means.append([np.mean(found) for found in errors.values()])
        cells = [
            f"{np.mean(found):.2f} ± {np.std(found, ddof=1) / np.sqrt(n_splits):.2f}"
            for found in errors.values()
        ]
        table.add(name, len(parts[0]), parts[0].shape[1], *cells)
        chosen[name] = "; ".join(f"{what} ({times})" for what, times in picks.most_common(3))
    table.add("**mean**", "", "", *(f"{value:.2f}" for value in np.mean(means, axis=0)))
    ranks = np.mean([rankdata(row) for row in means], axis=0)
    table.add("**mean rank**", "", "", *(f"{value:.2f}" for value in ranks))
    return table, chosen


def times_table(names):
    """Return the time of a fit, and those of the tuned metrics as multiples of it."""
    table = Table(
        "Time of a fit: multiples of one GenerativeMetric, one thread",
        ["dataset", "samples", "features", "GenerativeMetric, ms", "CV"],
    )
    for name in names:
        data = load(name)
        if data is None:
            continue
        X, y = StandardScaler().fit_transform(data[0]), data[1]
        one, folds = (
            seconds(partial(metric.fit, X, y), repeats=3)
            for metric in (GenerativeMetric(), GenerativeMetricCV(random_state=0))
        )
        table.add(name, *X.shape, short(1e3 * one), short(folds / one))
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="set")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first-split", type=int, default=100)
    parser.add_argument("--shares", type=float, nargs="*", default=SHARES)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Classes .* have a single row")
    tables, picks = [], []
    for share in options.shares:
        table, chosen = errors_table(options.names, share, options.splits, options.first_split)
        tables.append(table)
        picks.append(chosen)
    choice = Table(
        "Selected most often: base, shrinkage, interpolation (number of splits)",
        ["dataset", *(f"{share:.0%}" for share in options.shares)],
    )
    for name in picks[0]:
        choice.add(name, *(chosen[name] for chosen in picks))
    tables += [choice, times_table(options.names)]
    versions = (
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}."
    )
    print(versions, *tables, sep="\n\n")


if __name__ == "__main__":
    main()
