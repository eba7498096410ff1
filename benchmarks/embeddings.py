"""Compare maps of embeddings for search: seen and unseen classes, all dimensions and 64.

    python benchmarks/embeddings.py --store scores.csv             # all datasets, three splits
    python benchmarks/embeddings.py --sets directions --methods adapter,lda --splits 2
    python benchmarks/embeddings.py --store scores.csv --tables    # tables of stored scores

Most datasets are computed from a seed, from MNIST or from UCI's letters; ``sections`` is a file of
embeddings (X, y and is_train). Files are read from ``--data`` or the environment variable
GENMETRIC_DATA, and datasets without their file are left out. Scores that are in the store are not
computed again, so a run can be interrupted. The tables of docs/results/embeddings.md are the
output of this script.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from few_samples import embedding_classes
from scipy.ndimage import convolve
from scipy.stats import vonmises_fisher
from sklearn.covariance import ledoit_wolf
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import normalize

from genmetric import LMNN, EmbeddingAdapter, GenerativeMetric, GenerativeMetricCV
from genmetric.datasets import load_letter, load_mnist
from genmetric.metrics import equal_error_rate, retrieval_scores

#: Number of neighbours that vote.
N_NEIGHBORS = 5

#: Reduced dimension.
N_COMPONENTS = 64

#: Most queries of a search.
N_QUERIES = 600


@dataclass(frozen=True)
class Task:
    """Training samples and a search: queries among references, or references among themselves."""

    X: np.ndarray
    y: np.ndarray
    references: np.ndarray
    reference_labels: np.ndarray
    queries: np.ndarray | None = None
    query_labels: np.ndarray | None = None


def _tasks(X, y, test, n_train, seed):
    """Return the search among the training samples, and among samples of other classes.

    The second task trains on the training samples of two thirds of the classes and searches
    samples of the other third among themselves.
    """
    rng = np.random.default_rng(seed)
    train = rng.permutation(np.flatnonzero(~test))[:n_train]
    queries = rng.permutation(np.flatnonzero(test))[:N_QUERIES]
    seen = Task(X[train], y[train], X[train], y[train], X[queries], y[queries])
    classes = rng.permutation(np.unique(y))
    held_out = np.isin(y, classes[: len(classes) // 3])
    known = train[~held_out[train]]
    searched = rng.permutation(np.flatnonzero(held_out))[:N_QUERIES]
    unseen = Task(X[known], y[known], X[searched], y[searched])
    return {"seen": seen, "unseen": unseen}


def sections(data, seed):
    """Load the descriptions of software packages: 45 classes, 256 features, unit length."""
    file = np.load(data / "embeddings_sections.npz", allow_pickle=False)
    return _tasks(file["X"], file["y"], ~file["is_train"], 1000, seed)


def convolutions(data, seed, filter_seed=0, size=5):
    """Compute random convolution features of MNIST: 10 classes, 288 features.

    32 random filters with mean zero, the positive part of the result, and averages over 3 x 3
    regions.
    """
    images, labels = load_mnist(return_X_y=True, data_dir=data)
    rng = np.random.default_rng(seed)
    chosen = np.r_[rng.choice(60_000, 700, replace=False), 60_000:61_000]
    images = np.asarray(images[chosen], np.float32).reshape(-1, 28, 28) / 255
    filters = np.random.default_rng(filter_seed).normal(size=(32, size, size)).astype(np.float32)
    filters -= filters.mean(axis=(1, 2), keepdims=True)
    features = []
    for one in filters:
        response = np.maximum(convolve(images, one[None], mode="constant"), 0)[:, 2:26, 2:26]
        features.append(response.reshape(-1, 3, 8, 3, 8).mean(axis=(2, 4)).reshape(-1, 9))
    X = np.concatenate(features, axis=1).astype(np.float32)
    return _tasks(X, labels[chosen], np.arange(len(X)) >= 700, 700, seed)


def other_filters(data, seed):
    """Compute convolution features of MNIST with other filters, of 7 x 7 pixels."""
    return convolutions(data, seed, filter_seed=7, size=7)


def letters(data, seed):
    """Compute 256 random features of printed letters: 26 classes."""
    X, y = load_letter(return_X_y=True, data_dir=data)
    rng = np.random.default_rng(5)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X = np.maximum(X @ rng.normal(size=(16, 256)) + rng.normal(size=256), 0).astype(np.float32)
    test = np.arange(len(X)) >= 16_000
    return _tasks(X, y, test, 1000, seed)


def directions(_, seed, n_classes=300):
    """Draw von Mises-Fisher classes: 128 features, 8 training samples per class.

    The mean directions vary mostly in a few random directions; the samples vary equally in all.
    """
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(128, 128)))[0]
    means = normalize(rng.normal(size=(n_classes, 128)) * np.arange(1, 129) ** -0.4 @ rotation)
    X = np.concatenate([vonmises_fisher(mean, 70.0, seed=rng).rvs(10) for mean in means])
    y = np.repeat(np.arange(n_classes), 10)
    test = np.tile(np.arange(10) >= 8, n_classes)
    return _tasks(X.astype(np.float32), y, test, len(X), seed)


def correlated(_, seed, n_classes=300):
    """Simulate classes whose samples vary along directions that all classes share."""
    X, y, X_test, y_test = embedding_classes(n_classes, 256, 6, seed=seed)
    test = np.arange(len(X) + len(X_test)) >= len(X)
    return _tasks(np.concatenate([X, X_test]), np.concatenate([y, y_test]), test, len(X), seed)


def many_correlated(data, seed):
    """Simulate 1000 classes whose samples vary along shared directions."""
    return correlated(data, seed, 1000)


def network(_, seed, n_classes=400):
    """Simulate a random network: 20 latent variables of the class, 40 of the sample, 256 outputs.

    Classes differ in how much their samples vary, and latent variables have heavy tails.
    """
    rng = np.random.default_rng(100 + seed)
    y = np.repeat(np.arange(n_classes), 9)
    identity = 0.4 * rng.standard_t(4, size=(n_classes, 20))[y]
    spread = rng.uniform(0.5, 1.5, size=(n_classes, 1))[y]
    style = spread * rng.standard_t(4, size=(len(y), 40)) * np.arange(1, 41) ** -0.5
    hidden = np.maximum(np.hstack([identity, style]) @ rng.normal(size=(60, 200)) / 4, 0)
    X = np.tanh(hidden @ rng.normal(size=(200, 256)) / 12) + 0.1 * rng.normal(size=(len(y), 256))
    return _tasks(X.astype(np.float32), y, np.tile(np.arange(9) >= 5, n_classes), len(X), seed)


#: Datasets on which the default map was developed, and datasets that were only measured.
SETS = {
    "sections": sections,
    "convolutions": convolutions,
    "directions": directions,
    "correlated": correlated,
    "1000 correlated": many_correlated,
    "other filters": other_filters,
    "letters": letters,
    "network": network,
}


def _identity(X, _, n_components):
    if n_components is None:
        return lambda Z: Z
    return PCA(n_components, random_state=0).fit(X).transform


def _cosine(X, y, n_components):
    return _identity(normalize(X), y, n_components) if n_components else normalize


def _on_unit_vectors(fit):
    """Return a method that fits a map of unit vectors."""

    def method(X, y, n_components):
        transform = fit(normalize(X), y, n_components)
        return lambda Z: transform(normalize(Z))

    return method


def _centered(X, _, n_components):
    if n_components is not None:
        return PCA(n_components, random_state=0).fit(X).transform
    center = X.mean(axis=0)
    return lambda Z: Z - center


def _pca_whitening(X, _, n_components):
    n_components = min(n_components or X.shape[1], len(X) - 1)
    return PCA(n_components, whiten=True, random_state=0).fit(X).transform


def _within_class_whitening(X, y, n_components):
    codes = np.unique(y, return_inverse=True)[1]
    means = np.zeros((codes.max() + 1, X.shape[1]))
    np.add.at(means, codes, X)
    means /= np.bincount(codes)[:, None]
    variances, axes = np.linalg.eigh(ledoit_wolf(X - means[codes], assume_centered=True)[0])
    whitening, center = axes / np.sqrt(variances), X.mean(axis=0)
    if n_components is not None:
        Z = (X - center) @ whitening
        whitening = whitening @ np.linalg.eigh(Z.T @ Z)[1][:, ::-1][:, :n_components]
    return lambda Z: (Z - center) @ whitening


def _lda(X, y, n_components):
    limit = min(len(np.unique(y)) - 1, X.shape[1])
    lda = LinearDiscriminantAnalysis(
        solver="eigen", shrinkage="auto", n_components=min(n_components or limit, limit)
    )
    return lda.fit(X, y).transform


def _adapter(make_metric: Callable[[int | None], object], search_classes: str = "any"):
    """Return the adapter with a metric: unit vectors, centred, mapped, compared by their angle."""

    def method(X, y, n_components):
        adapter = EmbeddingAdapter(
            make_metric(n_components),
            search_classes=search_classes,
            n_components=n_components,
            random_state=0,
        )
        return adapter.fit(X, y).transform

    return method


def _selected_metric(n_components):
    """Return a metric that selects the interpolation only: the whole grid takes minutes."""
    return GenerativeMetricCV(
        GenerativeMetric(max_samples="auto"),
        bases="pooled",
        normalizations="trace",
        shrinkages="auto",
        interpolations=(0.0, 0.5, 1.0),
        n_components=[n_components],
        cv=3,
        max_queries=600,
    )


#: Name in the table, distance in the space of the map, and the function that fits the map.
METHODS = {
    "euclidean": ("Euclidean", "euclidean", _identity),
    "cosine": ("cosine", "cosine", _cosine),
    "centered": ("cosine after centring", "cosine", _on_unit_vectors(_centered)),
    "pca": ("PCA whitening, cosine", "cosine", _on_unit_vectors(_pca_whitening)),
    "within": (
        "within-class whitening, cosine",
        "cosine",
        _on_unit_vectors(_within_class_whitening),
    ),
    "lda": ("LDA, cosine", "cosine", _on_unit_vectors(_lda)),
    "generative": (
        "adapter, GenerativeMetric",
        "cosine",
        _adapter(lambda _: GenerativeMetric(base="pooled", interpolation=0.5, max_samples="auto")),
    ),
    "cv": ("adapter, GenerativeMetricCV", "cosine", _adapter(_selected_metric)),
    "lmnn": ("adapter, LMNN", "cosine", _adapter(lambda _: LMNN(init="lda"))),
    "adapter": ("EmbeddingAdapter", "cosine", _adapter(lambda _: None)),
    "training": (
        'EmbeddingAdapter, "training"',
        "cosine",
        _adapter(lambda _: None, "training"),
    ),
    "new": ('EmbeddingAdapter, "new"', "cosine", _adapter(lambda _: None, "new")),
}

#: Methods that are run by default: the others take minutes.
FAST = "euclidean,cosine,centered,pca,within,lda,generative,adapter,training,new"

SCORES = ["kNN error", "recall@1", "recall@10", "mAP@R", "equal error rate"]


def knn_error(references, labels, queries, query_labels, metric):
    """Return the error of a majority vote of the nearest neighbours, each sample without itself."""
    from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

    if metric == "cosine":
        references = normalize(references)
        queries = None if queries is None else normalize(queries)
    if queries is not None:
        knn = KNeighborsClassifier(N_NEIGHBORS, algorithm="brute").fit(references, labels)
        return 1 - knn.score(queries, query_labels)
    codes = np.unique(labels, return_inverse=True)[1]
    found = NearestNeighbors(n_neighbors=N_NEIGHBORS, algorithm="brute").fit(references)
    votes = codes[found.kneighbors(return_distance=False)]
    counts = np.zeros((len(votes), codes.max() + 1), np.int32)
    np.add.at(counts, (np.arange(len(votes))[:, None], votes), 1)
    return float(np.mean(counts.argmax(axis=1) != codes))


def scores(task, transform, metric):
    """Return the scores of a map, in %."""
    references = transform(task.references)
    queries = None if task.queries is None else transform(task.queries)
    y, labels = task.reference_labels, task.query_labels
    options = {"queries": queries, "query_labels": labels, "metric": metric}
    found = retrieval_scores(references, y, k=(1, 10), **options)
    values = [
        knn_error(references, y, queries, labels, metric),
        *(found[name] for name in ("recall@1", "recall@10", "map_at_r")),
        equal_error_rate(references, y, **options),
    ]
    return 100 * np.array(values)


KEYS = ["set", "search", "dimensions", "method", "split"]


def read(path):
    """Return the stored scores: a dict from the keys of a run to its scores and seconds."""
    if path is None or not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {tuple(row[: len(KEYS)]): [float(v) for v in row[len(KEYS) :]] for row in rows}


def run(arguments):
    """Compute the scores that are not in the store, one split after the other."""
    known = read(arguments.store)
    if arguments.store is not None and not known:
        arguments.store.write_text(",".join([*KEYS, *SCORES, "seconds"]) + "\n")
    for split in range(arguments.splits):
        for name in arguments.sets.split(","):
            try:
                tasks = SETS[name](Path(arguments.data or "."), split)
            except FileNotFoundError as error:
                print(f"{name} is left out: {error}", file=sys.stderr)
                continue
            for search in arguments.searches.split(","):
                for dimensions in arguments.dimensions.split(","):
                    for method in arguments.methods.split(","):
                        key = (name, search, dimensions, method, str(split))
                        if key in known or {method, search} in NOT_APPLICABLE:
                            continue
                        known[key] = _measure(tasks[search], method, dimensions)
                        if arguments.store is not None:
                            with arguments.store.open("a", newline="") as file:
                                csv.writer(file).writerow([*key, *known[key]])
    return known


#: A map for new classes is not measured on the training classes, and the reverse.
NOT_APPLICABLE = ({"training", "unseen"}, {"new", "seen"})


def _measure(task, method, dimensions):
    """Return the scores of a method and the CPU time of its fit."""
    _, metric, fit = METHODS[method]
    start = time.process_time()
    transform = fit(task.X, task.y, None if dimensions == "all" else int(dimensions))
    seconds = time.process_time() - start
    return [*(round(v, 3) for v in scores(task, transform, metric)), round(seconds, 3)]


#: Maps that the adapter is compared with.
BASELINES = ("euclidean", "cosine", "centered", "pca", "within", "lda")

#: Whether larger values are better, for each score.
LARGER = np.array([False, True, True, True, False])


def _values(known, *key):
    """Return the scores of one dataset, search, dimension and method, by split."""
    return {k[4]: np.array(v) for k, v in known.items() if k[:4] == key}


def print_summary(known, methods):
    """Print the scores of a method next to the best of the baselines, score by score.

    A difference to the advantage of the baseline is in italics, with its standard error over the
    splits if there are several.
    """
    print("| dataset | classes | dimensions | " + " | ".join(SCORES) + " | splits |")
    print("| --- | --- | --- |" + " ---: |" * (len(SCORES) + 1))
    for name in SETS:
        for search, method in methods.items():
            for dimensions in ("all", str(N_COMPONENTS)):
                ours = _values(known, name, search, dimensions, method)
                theirs = [_values(known, name, search, dimensions, b) for b in BASELINES]
                splits = [s for s in ours if all(s in other for other in theirs)]
                if not splits:
                    continue
                cells = []
                for i in range(len(SCORES)):
                    mine = np.array([ours[s][i] for s in splits])
                    others = np.array([[other[s][i] for s in splits] for other in theirs])
                    sign = 1 if LARGER[i] else -1
                    best = others[np.argmax(sign * others.mean(axis=1))]
                    cell = f"{mine.mean():.1f} ({best.mean():.1f})"
                    if sign * (mine - best).mean() <= -0.05:
                        error = (mine - best).std(ddof=1) / len(mine) ** 0.5 if len(mine) > 1 else 0
                        cell = f"*{cell}*" + (f" ± {error:.1f}" if len(mine) > 1 else "")
                    cells.append(cell)
                row = " | ".join([name, search, dimensions, *cells, str(len(splits))])
                print(f"| {row} |", flush=True)


def print_tables(known):
    """Print one table per dataset, search and dimension: means and standard errors."""
    for name in SETS:
        for search in ("seen", "unseen"):
            for dimensions in ("all", str(N_COMPONENTS)):
                rows = {
                    method: np.array(
                        [v for k, v in known.items() if k[:4] == (name, search, dimensions, method)]
                    )
                    for method in METHODS
                }
                rows = {method: values for method, values in rows.items() if len(values)}
                if not rows:
                    continue
                print(f"\n### {name}, {search} classes, {dimensions} dimensions\n")
                print("| map | " + " | ".join(SCORES) + " | seconds | splits |")
                print("| --- |" + " ---: |" * (len(SCORES) + 2))
                for method, values in rows.items():
                    mean, n = values.mean(axis=0), len(values)
                    error = values.std(axis=0, ddof=1) / n**0.5 if n > 1 else np.full(6, np.nan)
                    cells = [
                        f"{m:.1f}" if n == 1 else f"{m:.1f} ± {e:.1f}"
                        for m, e in zip(mean[:-1], error[:-1], strict=True)
                    ]
                    print(
                        f"| {METHODS[method][0]} | {' | '.join(cells)} | {mean[-1]:.1f} | {n} |",
                        flush=True,
                    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("GENMETRIC_DATA"))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--methods", default=FAST)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--searches", default="seen,unseen", help="classes that are searched")
    parser.add_argument("--dimensions", default=f"all,{N_COMPONENTS}")
    parser.add_argument("--store", type=Path, help="CSV file of scores, continued if it exists")
    parser.add_argument("--tables", action="store_true", help="only print stored scores")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    known = read(arguments.store) if arguments.tables else run(arguments)
    print("\n### Default\n")
    print_summary(known, {"seen": "adapter", "unseen": "adapter"})
    print("\n### Known purpose\n")
    print_summary(known, {"seen": "training", "unseen": "new"})
    print_tables(known)


if __name__ == "__main__":
    main()
