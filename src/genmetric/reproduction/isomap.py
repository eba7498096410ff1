"""The Isomap figure of the paper: small images of digits in Euclidean and learned metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import orthogonal_procrustes
from sklearn.manifold import Isomap
from sklearn.metrics import silhouette_score

from genmetric._neighbors import nearest_neighbors
from genmetric._text import import_optional
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.cluster import MetricKMeans
from genmetric.datasets import load_dataset
from genmetric.learners import GenerativeMetric
from genmetric.plot.palette import COLORS
from genmetric.report import Table

DIGITS = (3, 5, 9)


class DigitImages(NamedTuple):
    """Images of 7 x 7 pixels as rows in [0, 1], and the digit of each.

    `shown` are to be embedded, `lenders` to learn a metric from; `source` says where they are from.
    """

    shown: tuple[FloatArray, IntArray]
    lenders: tuple[FloatArray, IntArray]
    source: str


def digit_images(
    *, data_dir: str | os.PathLike[str] | None = None, n_each: int = 400, seed: int = 0
) -> DigitImages:
    """Load images of the digits 3, 5 and 9, reduced to 7 x 7 pixels as in the paper.

    The images are those of MNIST, averaged over blocks of 4 x 4 pixels, if it is on this machine,
    otherwise the 8 x 8 digits of scikit-learn, averaged over windows of 2 x 2. Nothing is
    downloaded. At most `n_each` images of each digit are to be embedded, and as many others are to
    learn from.
    """
    try:
        data = load_dataset("mnist", data_dir=data_dir, download_if_missing=False)
        images = data.data.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)) / 255
    except FileNotFoundError:
        data = load_dataset("digits")
        windows = np.lib.stride_tricks.sliding_window_view(
            data.data.reshape(-1, 8, 8), (2, 2), axis=(1, 2)
        )
        images = windows.mean(axis=(3, 4)) / 16
    X = images.reshape(len(images), 49).astype(float)
    y = np.asarray(data.target).astype(np.intp)
    rng = np.random.default_rng(seed)
    halves = []
    for digit in DIGITS:
        rows = rng.permutation(np.flatnonzero(y == digit))
        n = min(n_each, len(rows) // 2)
        halves.append((rows[:n], rows[n : 2 * n]))
    first, second = (np.concatenate(half) for half in zip(*halves, strict=True))
    return DigitImages((X[first], y[first]), (X[second], y[second]), str(data.source))


def metric_spaces(images: DigitImages, *, seed: int = 0) -> dict[str, AnyArray]:
    """Return the images in three spaces: of pixels, of a supervised and of a clustering metric."""
    X = images.shown[0]
    learned = GenerativeMetric(normalization="determinant").fit(*images.lenders)
    clusters = MetricKMeans(len(DIGITS), random_state=seed).fit(X)
    return {
        "Euclidean": X,
        "GenerativeMetric, from labels": np.asarray(learned.transform(X)),
        # The transform of a clusterer returns distances to its centres, hence the explicit map.
        "MetricKMeans, without labels": X @ clusters.components_.T,
    }


def embed(spaces: Mapping[str, AnyArray], *, n_neighbors: int = 10) -> dict[str, FloatArray]:
    """Embed each space in the plane by Isomap, scaled to spread one, aligned with the first one."""
    planes: dict[str, FloatArray] = {}
    for name, Z in spaces.items():
        plane = Isomap(n_neighbors=n_neighbors).fit_transform(Z)
        plane = (plane - plane.mean(axis=0)) / plane.std()
        # The orientation of an embedding is arbitrary.
        first = next(iter(planes.values()), plane)
        planes[name] = plane @ orthogonal_procrustes(plane, first)[0]
    return planes


def embedding_scores(plane: AnyArray, y: AnyArray) -> tuple[float, float]:
    """Return the 1-NN error in the embedding, in %, and the silhouette coefficient."""
    nearest = nearest_neighbors(plane, 1).indices[:, 0]
    return float(100 * np.mean(y[nearest] != y)), float(silhouette_score(plane, y))


def draw_embeddings(
    planes: Mapping[str, AnyArray], y: IntArray, *, seed: int = 0, figure: Any = None
) -> Any:
    """Draw the embeddings side by side, coloured by digit, with their scores below.

    `seed` sets the drawing order, so no digit covers the others. A given `figure` must be empty.
    """
    if figure is None:
        figure = import_optional("matplotlib.figure", "report").Figure(figsize=(12, 4.6))
    figure.set_layout_engine("constrained")
    order = np.random.default_rng(seed).permutation(len(y))
    colors = np.asarray(COLORS)[np.searchsorted(DIGITS, y)]
    for ax, (name, plane) in zip(figure.subplots(1, len(planes)), planes.items(), strict=True):
        ax.scatter(*plane[order].T, c=colors[order], s=9, alpha=0.75, linewidths=0)
        for digit, color in zip(DIGITS, COLORS, strict=False):
            box = {"boxstyle": "circle,pad=0.25", "fc": color, "ec": "white"}
            middle = np.median(plane[y == digit], axis=0)
            ax.text(*middle, str(digit), color="white", weight="bold", ha="center", bbox=box)
        error, silhouette = embedding_scores(plane, y)
        below = f"1-NN error {error:.1f} %, silhouette {silhouette:.2f}"
        ax.set(title=name, xlabel=below, xticks=[], yticks=[], aspect="equal", adjustable="datalim")
    figure.suptitle(f"Isomap of {len(y)} images of the digits 3, 5 and 9 at 7 x 7 pixels")
    return figure


def isomap_table(data_dir: str | None = None, n_each: int = 400) -> tuple[Table, Any]:
    """Make the paper's Isomap figure, and a table of its scores."""
    images = digit_images(data_dir=data_dir, n_each=n_each)
    y, planes = images.shown[1], embed(metric_spaces(images))
    scores = {name: embedding_scores(plane, y) for name, plane in planes.items()}
    rows = [[name, f"{error:.1f}", f"{shape:.3f}"] for name, (error, shape) in scores.items()]
    note = f"{len(y)} images of the digits 3, 5 and 9 at 7 x 7 pixels, from {images.source}."
    columns = ["metric", "1-NN error in the plane, %", "silhouette"]
    return Table(columns, rows, "Isomap in learned metrics", note), draw_embeddings(planes, y)
