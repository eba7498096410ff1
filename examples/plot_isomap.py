r"""
Handwritten digits unfolded: Isomap in a learned metric
=======================================================

Isomap lays rows out in the plane so that distances along their neighbour graph are kept. What it
shows depends on who counts as a neighbour, so a metric that tells classes apart gives another
picture. This example embeds images of the digits 3, 5 and 9, shrunk to 7 x 7 pixels, three times:
with Euclidean distances between pixels, with :class:`~genmetric.GenerativeMetric` learned from
labels, and with the metric that :class:`~genmetric.MetricKMeans` learns without any.
"""

# %%
# Images
# ------
# 400 images of each digit are embedded; 400 others lend their labels to the metric, so that what
# the picture shows is not memory. The images are MNIST where a data directory has it (see
# :func:`~genmetric.datasets.load_dataset`), and otherwise the smaller set of scikit-learn, half
# and half. Blocks of pixels are averaged; scikit-learn's 8 x 8 pixels by windows of 2 x 2. Some
# pixels are dark in every image: a constant feature does no harm.

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import orthogonal_procrustes
from sklearn.cluster import KMeans
from sklearn.manifold import Isomap
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.neighbors import NearestNeighbors

from genmetric import GenerativeMetric, MetricKMeans
from genmetric.datasets import load_digits, load_mnist

DIGITS = (3, 5, 9)


def small_images():
    """Images of 7 x 7 pixels as rows, pixels in [0, 1], and their digits."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    data_dir = Path(os.environ.get("GENMETRIC_DATA", beside))
    if (data_dir / "mnist.npz").is_file():
        data = load_mnist(data_dir=data_dir)
        images = data.data.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)) / 255
    else:
        data = load_digits()
        windows = np.lib.stride_tricks.sliding_window_view(
            data.data.reshape(-1, 8, 8), (2, 2), axis=(1, 2)
        )
        images = windows.mean(axis=(3, 4)) / 16
    return images.reshape(len(images), 49), np.asarray(data.target).astype(int)


images, digits = small_images()
rng = np.random.default_rng(0)
shown, lenders = [], []
for digit in DIGITS:
    rows = rng.permutation(np.flatnonzero(digits == digit))
    n = min(400, len(rows) // 2)
    shown.append(rows[:n])
    lenders.append(rows[n : 2 * n])
shown, lenders = np.concatenate(shown), np.concatenate(lenders)
X, y = images[shown], digits[shown]

# %%
# Three spaces
# ------------
# The learned metrics are linear maps, after which distances are Euclidean. (To learn and embed the
# same rows, ``make_pipeline(GenerativeMetric(), Isomap())`` does; t-SNE or UMAP take the place of
# Isomap as they are.) `transform` of a clusterer gives distances to its centres, as
# scikit-learn has it, so the map is written out.

metric = GenerativeMetric().fit(images[lenders], digits[lenders])
clusters = MetricKMeans(len(DIGITS), random_state=0).fit(X)
spaces = {
    "Euclidean": X,
    "GenerativeMetric, from labels": metric.transform(X),
    "MetricKMeans, without labels": X @ clusters.components_.T,
}
plain = KMeans(len(DIGITS), n_init=10, random_state=0).fit(X)
for name, labels in (("k-means", plain.labels_), ("MetricKMeans", clusters.labels_)):
    print(
        f"{name}: adjusted Rand index of clusters and digits {adjusted_rand_score(y, labels):.2f}"
    )

# %%
# Three pictures
# --------------
# Under each, how often the nearest neighbour in the plane is another digit, and the silhouette of
# the digits (1: well apart; 0: on top of each other).


def neighbour_error(Z):
    """Share of rows whose nearest other row has another label."""
    nearest = NearestNeighbors(n_neighbors=1).fit(Z).kneighbors(return_distance=False)[:, 0]
    return np.mean(y[nearest] != y)


planes = {}
for name, Z in spaces.items():
    plane = Isomap(n_neighbors=10).fit_transform(Z)
    # The plane has no scale and no up: each is turned and mirrored to lie like the first.
    planes[name] = plane = (plane - plane.mean(axis=0)) / plane.std()
    planes[name] = plane @ orthogonal_procrustes(plane, planes["Euclidean"])[0]

colors = dict(zip(DIGITS, ("#2a6f97", "#c44e52", "#d9a21b"), strict=True))
order = rng.permutation(len(y))  # no digit on top of the others
fig, axes = plt.subplots(1, 3, figsize=(12, 4.6), layout="constrained")
for ax, (name, plane) in zip(axes, planes.items(), strict=True):
    ax.scatter(*plane[order].T, c=[colors[d] for d in y[order]], s=9, alpha=0.75, linewidths=0)
    for digit in DIGITS:
        place = np.median(plane[y == digit], axis=0)
        ax.text(
            *place,
            str(digit),
            color="white",
            weight="bold",
            ha="center",
            va="center",
            bbox={"boxstyle": "circle,pad=0.25", "facecolor": colors[digit], "edgecolor": "white"},
        )
    error, silhouette = neighbour_error(plane), silhouette_score(plane, y)
    print(f"{name}: 1-NN error {error:.3f}, silhouette {silhouette:.3f}")
    ax.set_title(name)
    ax.set_xlabel(f"1-NN error {100 * error:.1f} %, silhouette {silhouette:.2f}")
    ax.set(xticks=[], yticks=[], aspect="equal", adjustable="datalim")
    ax.spines[["top", "right", "bottom", "left"]].set_color("0.8")
fig.suptitle(f"Isomap of {len(y)} images of the digits 3, 5 and 9 at 7 x 7 pixels")

if len(sys.argv) > 1:
    fig.savefig(sys.argv[1], dpi=150)
else:
    plt.show()

# %%
# With labels the three digits come apart. Without them the picture is worse than the Euclidean one:
# the three clusters that k-means finds in the pixels are not the three digits, and the metric
# sharpens the clusters it is given. That helps where clusters and classes nearly agree to begin
# with, as on iris and wine.
