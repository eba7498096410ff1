"""Compare maps of embeddings for search: seen and unseen classes, all dimensions and 64.

    python benchmarks/embeddings.py                        # all datasets
    python benchmarks/embeddings.py --sets directions --methods adapter,lda

Three of the datasets are computed from a seed or from MNIST; ``sections`` is a file of embeddings
(X, y and is_train). Both files are read from ``--data`` or the environment variable GENMETRIC_DATA,
and datasets without their file are left out. The tables of docs/results/embeddings.md are the
output of this script.
"""

from __future__ import annotations

import argparse
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
from genmetric.datasets import load_mnist
from genmetric.metrics import equal_error_rate, retrieval_scores

#: Number of neighbours that vote.
N_NEIGHBORS = 5

#: Reduced dimension.
N_COMPONENTS = 64


@dataclass(frozen=True)
class Task:
    """Training samples and a search: queries among references, or references among themselves."""

    X: np.ndarray
    y: np.ndarray
    references: np.ndarray
    reference_labels: np.ndarray
    queries: np.ndarray | None = None
    query_labels: np.ndarray | None = None


def _tasks(X, y, test, n_train, n_queries, seed=0):
    """Return the search among the training samples, and among samples of other classes.

    The second task trains on the training samples of two thirds of the classes and searches all
    samples of the other third among themselves.
    """
    rng = np.random.default_rng(seed)
    train = rng.permutation(np.flatnonzero(~test))[:n_train]
    queries = rng.permutation(np.flatnonzero(test))[:n_queries]
    seen = Task(X[train], y[train], X[train], y[train], X[queries], y[queries])
    classes = rng.permutation(np.unique(y))
    held_out = np.isin(y, classes[: len(classes) // 3])
    known = train[~held_out[train]]
    searched = rng.permutation(np.flatnonzero(held_out))[: 2 * n_queries]
    unseen = Task(X[known], y[known], X[searched], y[searched])
    return {"seen": seen, "unseen": unseen}


def sections(data, scale):
    """Load the descriptions of software packages: 45 classes, 256 features, unit length."""
    file = np.load(data / "embeddings_sections.npz", allow_pickle=False)
    return _tasks(file["X"], file["y"], ~file["is_train"], int(6000 * scale), 1000)


def convolutions(data, scale):
    """Compute random convolution features of MNIST: 10 classes, 288 features.

    32 random filters of 5 x 5 pixels with mean zero, the positive part of the result, and averages
    over 3 x 3 regions.
    """
    images, labels = load_mnist(return_X_y=True, data_dir=data)
    rng = np.random.default_rng(0)
    n = int(6000 * scale)
    chosen = np.r_[0:n, 60_000:61_000]
    images = np.asarray(images[chosen], np.float32).reshape(-1, 28, 28) / 255
    labels = labels[chosen]
    filters = rng.normal(size=(32, 5, 5)).astype(np.float32)
    filters -= filters.mean(axis=(1, 2), keepdims=True)
    features = []
    for one in filters:
        response = np.maximum(convolve(images, one[None], mode="constant"), 0)[:, 2:26, 2:26]
        features.append(response.reshape(-1, 3, 8, 3, 8).mean(axis=(2, 4)).reshape(-1, 9))
    X = np.concatenate(features, axis=1).astype(np.float32)
    return _tasks(X, labels, np.arange(len(X)) >= n, n, 1000)


def directions(_, scale):
    """Draw von Mises-Fisher classes: 1000 classes, 128 features, 8 training samples per class.

    The mean directions vary mostly in a few axes; the samples vary equally in all directions.
    """
    rng = np.random.default_rng(0)
    n_classes, n_each = int(1000 * scale), 10
    means = normalize(rng.normal(size=(n_classes, 128)) * np.arange(1, 129) ** -0.4)
    X = np.concatenate(
        [vonmises_fisher(mean, 70.0, seed=rng).rvs(n_each) for mean in means]
    ).astype(np.float32)
    y = np.repeat(np.arange(n_classes), n_each)
    test = np.tile(np.arange(n_each) >= 8, n_classes)
    return _tasks(X, y, test, len(X), 1000)


def correlated(_, scale):
    """Simulate classes whose samples vary along directions that all classes share: 1000 classes."""
    X, y, X_test, y_test = embedding_classes(int(1000 * scale), 256, 6, seed=0)
    test = np.arange(len(X) + len(X_test)) >= len(X)
    return _tasks(np.concatenate([X, X_test]), np.concatenate([y, y_test]), test, len(X), 1000)


SETS = {
    "sections": sections,
    "convolutions": convolutions,
    "directions": directions,
    "correlated": correlated,
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


def _plain(X, y, n_components):
    return (
        GenerativeMetric(n_components=n_components, max_samples="auto", random_state=0)
        .fit(X, y)
        .transform
    )


def _adapter(make_metric: Callable[[int | None], object]):
    """Return the adapter with a metric: unit vectors, centred, mapped, compared by their angle."""

    def method(X, y, n_components):
        metric = make_metric(n_components)
        adapter = EmbeddingAdapter(metric, n_components=n_components, random_state=0)
        return adapter.fit(X, y).transform

    return method


def _selected_metric(n_components):
    """Return a metric that selects the interpolation only: the whole grid takes minutes."""
    return GenerativeMetricCV(
        GenerativeMetric(max_samples="auto"),
        bases="pooled",
        normalizations="trace",
        shrinkages="auto",
        n_components=[n_components],
        cv=3,
        max_queries=600,
    )


#: Name in the table, distance in the space of the map, and the function that fits the map.
METHODS = {
    "euclidean": ("Euclidean", "euclidean", _identity),
    "cosine": ("cosine", "cosine", _cosine),
    "pca": ("PCA whitening, cosine", "cosine", _on_unit_vectors(_pca_whitening)),
    "within": (
        "within-class whitening, cosine",
        "cosine",
        _on_unit_vectors(_within_class_whitening),
    ),
    "lda": ("LDA, cosine", "cosine", _on_unit_vectors(_lda)),
    "metric": ("GenerativeMetric, Euclidean", "euclidean", _on_unit_vectors(_plain)),
    "pooled": (
        "adapter, interpolation=1",
        "cosine",
        _adapter(lambda _: GenerativeMetric(base="pooled", max_samples="auto")),
    ),
    "adapter": ("EmbeddingAdapter", "cosine", _adapter(lambda _: None)),
    "cv": (
        "adapter, GenerativeMetricCV",
        "cosine",
        _adapter(_selected_metric),
    ),
    "lmnn": ("adapter, LMNN", "cosine", _adapter(lambda _: LMNN(init="lda"))),
}

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
    """Return the scores of a map, in per cent."""
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("GENMETRIC_DATA"))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument(
        "--scale", type=float, default=1.0, help="fraction of the training samples or classes"
    )
    parser.add_argument("--searches", default="seen,unseen", help="classes that are searched")
    parser.add_argument("--dimensions", default=f"all,{N_COMPONENTS}")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.sets.split(","):
        try:
            tasks = SETS[name](Path(arguments.data or "."), arguments.scale)
        except FileNotFoundError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        for kind in arguments.searches.split(","):
            task = tasks[kind]
            for dimension in arguments.dimensions.split(","):
                n_components = None if dimension == "all" else int(dimension)
                n_classes = len(np.unique(task.y))
                print(
                    f"\n### {name}, {kind} classes, "
                    f"{dimension} dimensions"
                    f"\n\n{len(task.X)} training samples of {n_classes} classes, "
                    f"{task.X.shape[1]} features; {len(task.references)} references"
                    f"{'' if task.queries is None else f', {len(task.queries)} queries'}.\n"
                )
                print("| map | " + " | ".join(SCORES) + " | seconds |")
                print("| --- |" + " ---: |" * (len(SCORES) + 1), flush=True)
                for method in arguments.methods.split(","):
                    title, metric, fit = METHODS[method]
                    start = time.process_time()
                    transform = fit(task.X, task.y, n_components)
                    seconds = time.process_time() - start
                    cells = " | ".join(f"{v:.1f}" for v in scores(task, transform, metric))
                    print(f"| {title} | {cells} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
