r"""
A shared neighbour graph: faiss, then Isomap
============================================

Isomap, DBSCAN, spectral clustering and others start from the graph of nearest neighbours.
:class:`~genmetric.FaissNeighborsTransformer` (extra ``ann``) computes it once, and later estimators
use it with ``metric="precomputed"``. Here Isomap embeds images of digits in the plane, with
neighbours in the space of pixels and in the space of a metric learned from labels of other images.
"""

# %%
# Digits and a metric
# -------------------
# The metric is learned from a third of scikit-learn's digits. The other samples are embedded; their
# labels are used only for the colours. Pixels at the edge, which are nearly always dark, are left
# out.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import DBSCAN
from sklearn.feature_selection import VarianceThreshold
from sklearn.manifold import Isomap
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from genmetric import FaissNeighborsTransformer, GenerativeMetric
from genmetric.datasets import load_digits
from genmetric.plot.palette import class_style

X, y = load_digits(return_X_y=True)
X, y = VarianceThreshold(0.5).fit_transform(X), np.asarray(y).astype(int)
order = np.random.default_rng(0).permutation(len(X))
lend, show = order[:600], order[600:]
metric = GenerativeMetric(shrinkage=0.3).fit(X[lend], y[lend])
spaces = {"pixels": X[show], "learned metric": metric.transform(X[show])}

# %%
# One graph, two uses
# -------------------
# The transformer stores the 30 nearest neighbours of every sample. Isomap uses 12 of them; a
# classifier could use five from the same graph.

graphs = {
    name: FaissNeighborsTransformer(n_neighbors=30).fit_transform(rows)
    for name, rows in spaces.items()
}
fig, axes = plt.subplots(1, 2, figsize=(9, 5.4), layout="constrained")
for ax, (name, graph) in zip(axes, graphs.items(), strict=True):
    plane = Isomap(n_neighbors=12, metric="precomputed").fit_transform(graph)
    half = len(show) // 2
    knn = KNeighborsClassifier(5).fit(plane[:half], y[show[:half]])
    error = 1 - knn.score(plane[half:], y[show[half:]])
    span, placed = np.ptp(plane, axis=0), []
    for digit in range(10):
        points = plane[y[show] == digit]
        color, marker = class_style(digit)
        ax.plot(*points.T, marker, ms=3, color=color, alpha=0.35, mec="none")
        box = {"boxstyle": "circle,pad=0.2", "fc": "white", "ec": color, "lw": 1.5, "alpha": 0.9}
        middle = np.median(points, axis=0)
        # A label that would cover another one moves up.
        while any(np.hypot(*(middle - other) / span) < 0.05 for other in placed):
            middle[1] += 0.02 * span[1]
        placed.append(middle)
        ax.text(*middle, str(digit), ha="center", va="center", weight="bold", bbox=box)
    ax.set(xticks=[], yticks=[], xlabel=f"5-NN error in the plane {100 * error:.0f} %")
    ax.set_title(name, loc="left", fontweight="bold")
    print(f"{name}: error of 5 nearest neighbours in the plane {error:.3f}")
plt.show()

# %%
# The same transformer in a pipeline
# ----------------------------------
# DBSCAN uses the graph too. Its radius is set so that half of the samples have ten neighbours
# within it.

for name, rows in spaces.items():
    tenth = FaissNeighborsTransformer().fit(rows).kneighbors(n_neighbors=10)[0][:, -1]
    model = make_pipeline(
        FaissNeighborsTransformer(n_neighbors=50),
        DBSCAN(eps=np.median(tenth), min_samples=10, metric="precomputed"),
    )
    labels = model.fit_predict(rows)
    print(
        f"{name}: DBSCAN finds {labels.max() + 1} clusters, adjusted Rand index "
        f"{adjusted_rand_score(y[show], labels):.2f}"
    )

# %%
# The graph in the learned space gives a better plane and better clusters. faiss does not change the
# result: it pays from about ten thousand samples on, and on small data scikit-learn's
# ``KNeighborsTransformer`` does the same.
