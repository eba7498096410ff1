"""Errors of nearest neighbours by class model: ``python benchmarks/class_models.py``.

Writes the tables of docs/dev/class_models.md; ``--splits N`` runs fewer splits and writes nothing.
"""

import argparse
import platform

import numpy as np
import scipy
import sklearn
from measure import REPOSITORY, Table, progress
from sklearn.datasets import make_circles, make_moons
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from tuning import load

from genmetric import GaussianMixtureModel, GenerativeMetric

PAGE = REPOSITORY / "docs" / "dev" / "class_models.md"
K = 5
N_TRAIN, N_TEST, N_NOISE = 300, 2000, 4

CURVED = {
    "two moons": lambda n, seed: make_moons(n, noise=0.15, random_state=seed),
    "one circle in another": lambda n, seed: make_circles(
        n, noise=0.12, factor=0.5, random_state=seed
    ),
}
#: Datasets with many samples per class, and numbers of training samples.
LONG = [("vehicle", 500), ("ionosphere", 250), ("segment", 1000)]

GAUSSIANS = {
    "Euclidean": lambda: GenerativeMetric(interpolation=0.0),
    "Gaussian": GenerativeMetric,
    "Gaussian, no shrinkage": lambda: GenerativeMetric(shrinkage=None),
}


def mixture(n_components):
    return lambda: GenerativeMetric(
        class_model=GaussianMixtureModel(n_components, n_init=3, random_state=0)
    )


MIXTURES = GAUSSIANS | {
    "mixture of 2": mixture(2),
    "mixture of 3": mixture(3),
    "mixture of 4": mixture(4),
    "mixture by BIC": mixture("bic"),
}


def curved(make, seed):
    """Training and test samples: two informative features and four of noise, rotated."""
    n_features = 2 + N_NOISE
    rotation = np.linalg.qr(np.random.default_rng(99).normal(size=(n_features, n_features)))[0]
    parts = []
    for n, s in ((N_TRAIN, seed), (N_TEST, 1000 + seed)):
        X, y = make(n, s)
        noise = np.random.default_rng(s).normal(size=(n, N_NOISE))
        parts += [np.column_stack([X / X.std(axis=0), noise]) @ rotation, y]
    train, y_train, test, y_test = parts
    return train, test, y_train, y_test


def part_of(X, y, n_train, seed):
    """Make a stratified split with features standardised on the training samples."""
    train, test, y_train, y_test = train_test_split(
        X, y, train_size=n_train, stratify=y, random_state=seed
    )
    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(test), y_train, y_test


def compare(table, name, methods, make, n_splits):
    """Add one line to a table: errors of all methods over the splits."""
    errors = {method: [] for method in methods}
    for seed in range(n_splits):
        train, test, y_train, y_test = make(seed)
        for method, metric in methods.items():
            fitted = metric().fit(train, y_train)
            neighbors = KNeighborsClassifier(K, algorithm="brute")
            neighbors.fit(fitted.transform(train), y_train)
            errors[method].append(100 * (1 - neighbors.score(fitted.transform(test), y_test)))
    shape = f"{len(train)} x {train.shape[1]}"
    cells = [
        f"{np.mean(e):.1f} ± {np.std(e, ddof=1) / np.sqrt(n_splits):.1f}" for e in errors.values()
    ]
    table.add(name, shape, *cells)


def real_sets(table, cases, methods, n_splits):
    for name, n_train in cases:
        data = load(name)
        if data is None:
            progress(f"{name} is not on this machine: left out")
            continue
        compare(table, name, methods, lambda s, d=data, n=n_train: part_of(*d, n, s), n_splits)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    options = parser.parse_args()
    tables = [
        Table(
            "Curved classes, four features of noise: error in %",
            ["dataset", "training samples", *MIXTURES],
        )
    ]
    for name, make in CURVED.items():
        compare(tables[0], name, MIXTURES, lambda s, m=make: curved(m, s), options.splits)
    tables.append(
        Table(
            "Mixtures on real datasets: error in %",
            ["dataset", "training samples", *MIXTURES],
        )
    )
    real_sets(tables[-1], LONG, MIXTURES, options.splits)
    if options.splits != 10:
        return  # a part of the tables does not replace the page
    head = PAGE.read_text("utf-8").split("<!-- tables -->")[0]
    versions = (
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}."
    )
    body = "\n".join(str(table) for table in tables)
    PAGE.write_text(f"{head}<!-- tables -->\n\n{versions}\n\n{body}", "utf-8")


if __name__ == "__main__":
    main()
