"""Many classes of few samples: time and memory as multiples of LDA and within-class whitening."""

import time

import numpy as np
from measure import Table, peak_megabytes, progress, short
from sklearn.covariance import ledoit_wolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from genmetric import EmbeddingAdapter, GenerativeMetric

#: Classes, features and samples per class.
SIZES = [(100, 768, 20), (1000, 768, 5), (5000, 384, 4)]

#: Growth with the number of classes, and with the number of samples per class.
GROWTH = [
    (250, 256, 4),
    (500, 256, 4),
    (1000, 256, 4),
    (2000, 256, 4),
    (500, 256, 8),
    (500, 256, 16),
]


def embeddings(n_classes, n_features, n_per_class, seed=0):
    """Return unit vectors around random class centres, with noise that many classes share."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n_per_class)
    centres = rng.normal(size=(n_classes, n_features))
    noise = rng.normal(size=(len(y), n_features)) * np.geomspace(3, 0.3, n_features)
    X = centres[y] + noise
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X.astype(np.float32), y


def whiten_within_classes(X, y):
    """Return the inverse root of the Ledoit-Wolf covariance of the samples about their class."""
    _, codes = np.unique(y, return_inverse=True)
    means = np.zeros((codes.max() + 1, X.shape[1]))
    np.add.at(means, codes, X)
    means /= np.bincount(codes)[:, None]
    covariance, _ = ledoit_wolf(X - means[codes], assume_centered=True)
    variances, axes = np.linalg.eigh(covariance)
    return (axes / np.sqrt(variances)) @ axes.T


def metric(X, y):
    """Fit the generative metric in the pooled base."""
    return GenerativeMetric(base="pooled", normalization="trace", random_state=0).fit(X, y)


def adapter(X, y):
    """Fit the default map of embeddings, with its selection."""
    return EmbeddingAdapter(random_state=0).fit(X, y)


def lda(X, y):
    """Fit linear discriminant analysis with Ledoit-Wolf shrinkage."""
    return LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(X, y)


METHODS = {
    "GenerativeMetric, pooled": metric,
    "EmbeddingAdapter": adapter,
    "LDA": lda,
    "whitening": whiten_within_classes,
}


def processor_seconds(function):
    """Return the CPU time of a call, which other work on the machine hardly changes."""
    start = time.process_time()
    function()
    return time.process_time() - start


def _compare(title, sizes):
    table = Table(
        title,
        [
            "classes",
            "D",
            "samples per class",
            "method",
            "CPU seconds",
            "peak MB",
            "time / LDA",
            "memory / LDA",
            "time / whitening",
            "memory / whitening",
        ],
    )
    for n_classes, n_features, n_per_class in sizes:
        progress(f"{n_classes} classes, D = {n_features}, {n_per_class} samples each")
        X, y = embeddings(n_classes, n_features, n_per_class)
        found = {
            name: (
                processor_seconds(lambda f=f, X=X, y=y: f(X, y)),
                peak_megabytes(lambda f=f, X=X, y=y: f(X, y)),
            )
            for name, f in METHODS.items()
        }
        for name, ours in found.items():
            multiples = [
                short(a / b)
                for other in ("LDA", "whitening")
                for a, b in zip(ours, found[other], strict=True)
            ]
            table.add(
                n_classes, n_features, n_per_class, name, *(short(v) for v in ours), *multiples
            )
    return table


def batches_of(X, y, length=1000):
    """Return a function that cuts shuffled samples into batches."""
    order = np.random.default_rng(0).permutation(len(X))
    parts = [order[start : start + length] for start in range(0, len(X), length)]
    return lambda: ((X[rows], y[rows]) for rows in parts)


def class_streams():
    """Measure fits of EmbeddingAdapter in batches of 1000 samples."""
    table = Table(
        "EmbeddingAdapter in batches of 1000 samples, one thread",
        [
            *("classes", "D", "samples per class"),
            *("fit_batches, CPU seconds", "peak MB"),
            "partial_fit, per batch",
        ],
    )
    for sizes in SIZES:
        progress(f"batches: {sizes[0]} classes, D = {sizes[1]}, {sizes[2]} samples each")
        batches = batches_of(*embeddings(*sizes))
        whole, online = EmbeddingAdapter(random_state=0), EmbeddingAdapter(random_state=0)
        figures = [
            processor_seconds(lambda whole=whole, batches=batches: whole.fit_batches(batches)),
            peak_megabytes(lambda whole=whole, batches=batches: whole.fit_batches(batches)),
            np.mean(
                [processor_seconds(lambda b=b, m=online: m.partial_fit(*b)) for b in batches()]
            ),
        ]
        table.add(*sizes, *(short(figure) for figure in figures))
    return table


def many_classes():
    """Compare at the sizes of embeddings."""
    return _compare("Many classes of few samples, one thread", SIZES)


def class_growth():
    """Measure the growth with classes and with samples per class."""
    return _compare("Growth with classes and samples per class, one thread", GROWTH)
