"""Rand indices of clusters under the paper's protocol: ``python benchmarks/clustering.py``.

Writes docs/results/clustering.md. Names of data sets as arguments run these alone and write
nothing; ``--splits N`` runs fewer splits.
"""

import argparse
import os
import platform
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import scipy
import sklearn
from measure import REPOSITORY, Table, progress
from sklearn.metrics import adjusted_rand_score, rand_score
from sklearn.preprocessing import minmax_scale, scale

from genmetric import MetricKMeans
from genmetric.datasets import load_dataset

PAGE = REPOSITORY / "docs" / "results" / "clustering.md"

#: Rand index, k-means + Euclidean and k-means + M^UNI, of the paper's table sup-rand-small.
PAPER = {
    "iris": ("0.878 ± 0.009", "0.948 ± 0.006"),
    "wine": ("0.935 ± 0.008", "0.930 ± 0.008"),
    "heart": ("0.654 ± 0.008", "0.643 ± 0.007"),
    "vehicle": ("0.651 ± 0.001", "0.657 ± 0.002"),
    "ionosphere": ("0.565 ± 0.007", "0.569 ± 0.008"),
    "image": ("0.510 ± 0.002", "0.567 ± 0.006"),
    "german": ("0.500 ± 0.0005", "0.500 ± 0.0005"),
}
SHRINKAGES = (0.5, 0.1, 0.01)
INTERPOLATIONS = (0.1, 0.3, 0.5, 0.7, 1.0)
DEFAULT = (0.1, 0.7)
#: Simplest first, so that ties of the validation part go to the metric nearest to Euclidean.
GRID = sorted(product(SHRINKAGES, INTERPOLATIONS), key=lambda p: (p[1], -p[0]))
N_INIT = 5


def load(name):
    """Rows as they come and labels, or None where the set is on this machine nowhere."""
    data_dir = Path(os.environ.get("GENMETRIC_DATA", REPOSITORY.parent / "shared" / "data"))
    if name == "german_ida":  # of no loader: the 20 features of another edition of german
        path = data_dir / "german_ida.csv.gz"
        if not path.is_file():
            return None
        table = np.loadtxt(path, delimiter=",", skiprows=1)
        return table[:, :-1], table[:, -1].astype(int)
    data_dir = data_dir if data_dir.is_dir() else None
    try:
        bunch = load_dataset(name, data_dir=data_dir, download_if_missing=False)
    except FileNotFoundError:
        return None
    return bunch.data, bunch.target


def parts(n_rows, seed):
    """Rows for training, validation and test: 60/20/20, the first two rounded down."""
    order = np.random.default_rng(seed).permutation(n_rows)
    n_train, n_validation = int(0.6 * n_rows), int(0.2 * n_rows)
    return np.split(order, [n_train, n_train + n_validation])


def one_split(X, y, seed, max_iter=20):
    """Rand and adjusted Rand of the test rows: Euclidean, tuned, defaults; and what was chosen."""
    train, validation, test = parts(len(X), seed)
    n_clusters = len(np.unique(y))

    def scores(model):
        clusters = model.predict(X[test])
        return rand_score(y[test], clusters), adjusted_rand_score(y[test], clusters)

    plain = MetricKMeans(n_clusters, interpolation=0.0, n_init=N_INIT, random_state=seed)
    plain.fit(X[train])
    # Every loop begins with this k-means: its centres are handed on instead of drawn again.
    models = {
        (shrinkage, interpolation): MetricKMeans(
            n_clusters,
            shrinkage=shrinkage,
            interpolation=interpolation,
            init=plain.cluster_centers_,
            max_iter=max_iter,
        ).fit(X[train])
        for shrinkage, interpolation in GRID
    }
    validated = {p: rand_score(y[validation], m.predict(X[validation])) for p, m in models.items()}
    chosen = max(GRID, key=validated.get)
    ends = Counter(m.stopped_by_ for m in models.values())
    return [scores(m) for m in (plain, models[chosen], models[DEFAULT])], chosen, ends


def mean_and_error(values):
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


def protocol(names, n_splits):
    """The paper's table: Rand, adjusted Rand, and what the validation part chose."""
    rand = Table(
        f"Rand index of the test rows, mean ± standard error of {n_splits} splits",
        [
            "set",
            "paper: Euclidean",
            "ours: Euclidean",
            "paper: M^UNI",
            "ours: M^UNI, tuned",
            "ours: M^UNI, defaults",
            "M^UNI, tuned - Euclidean",
        ],
    )
    rows = []
    for name in names:
        data = load(name)
        if data is None:
            progress(f"{name} is not on this machine: left out")
            continue
        X, y = minmax_scale(data[0], (-1, 1)), data[1]
        results, chosen, ends = [], Counter(), Counter()
        for seed in range(n_splits):
            scores, params, stops = one_split(X, y, seed)
            results.append(scores)
            chosen[params] += 1
            ends += stops
        r = np.transpose(results, (2, 1, 0))  # index, method, split
        rand.add(
            name,
            PAPER[name][0],
            mean_and_error(r[0, 0]),
            PAPER[name][1],
            mean_and_error(r[0, 1]),
            mean_and_error(r[0, 2]),
            mean_and_error(r[0, 1] - r[0, 0]),
        )
        (shrinkage, interpolation), times = chosen.most_common(1)[0]
        n_fits = sum(ends.values())
        rows.append(
            [
                name,
                *(mean_and_error(values) for values in r[1]),
                f"{shrinkage}, {interpolation} ({times} of {n_splits})",
                *(f"{100 * ends[end] / n_fits:.0f}%" for end in ("labels", "cycle", "max_iter")),
                ends["collapse"],
            ]
        )
    adjusted = Table(
        "Adjusted Rand index of the same clusters, and how the loops ended",
        [
            "set",
            "Euclidean",
            "M^UNI, tuned",
            "M^UNI, defaults",
            "chosen most: shrinkage, interpolation",
            "labels at rest",
            "cycle",
            "20 rounds",
            "collapses",
        ],
    )
    for row in rows:
        adjusted.add(*row)
    return [rand, adjusted]


def asides(names, n_splits):
    """What explains differences from the paper: fewer rounds, and another edition of german."""
    table = Table(
        f"The same with fewer rounds, and another edition of german, {n_splits} splits",
        ["set", "rounds at most", "Euclidean", "M^UNI, tuned", "M^UNI, defaults"],
    )
    cases = [(name, n) for name in ("iris", "wine", "heart") for n in (1, 3)]
    for name, max_iter in [*cases, ("german_ida", 20)]:
        if name.removesuffix("_ida") not in names or (data := load(name)) is None:
            continue
        X, y = minmax_scale(data[0], (-1, 1)), data[1]
        rand = [[r for r, _ in one_split(X, y, s, max_iter)[0]] for s in range(n_splits)]
        table.add(name, max_iter, *(mean_and_error(values) for values in np.transpose(rand)))
    return table


def all_rows(names):
    """Clusters of all rows, nothing tuned: what a user without labels gets."""
    table = Table(
        "Rand (adjusted Rand) of all rows with the defaults, nothing tuned",
        [
            "set",
            "[-1, 1]: k-means",
            "[-1, 1]: MetricKMeans",
            "standardised: k-means",
            "standardised: MetricKMeans",
        ],
    )
    for name in names:
        data = load(name)
        if data is None:
            continue
        X, y = data
        cells = []
        for x in (minmax_scale(X, (-1, 1)), scale(X)):
            for interpolation in (0.0, 0.7):
                model = MetricKMeans(len(np.unique(y)), interpolation=interpolation, random_state=0)
                clusters = model.fit_predict(x)
                cells.append(
                    f"{rand_score(y, clusters):.3f} ({adjusted_rand_score(y, clusters):.3f})"
                )
        table.add(name, *cells)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="set", help=f"of {', '.join(PAPER)}")
    parser.add_argument("--splits", type=int, default=30)
    args = parser.parse_args()
    unknown = set(args.names) - set(PAPER)
    if unknown:
        parser.error(f"no set {', '.join(sorted(unknown))}; there are {', '.join(PAPER)}")
    names = args.names or list(PAPER)
    tables = [*protocol(names, args.splits), asides(names, args.splits), all_rows(names)]
    if args.names or args.splits != 30:
        return  # a part of the page is no page
    head = PAGE.read_text("utf-8").split("<!-- tables -->")[0]
    versions = (
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}."
    )
    body = "\n".join(str(table) for table in tables)
    PAGE.write_text(f"{head}<!-- tables -->\n\n{versions}\n\n{body}", "utf-8")


if __name__ == "__main__":
    main()
