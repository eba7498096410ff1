r"""
t-SNE, UMAP and Isomap after the metric
=======================================

Embeddings depend on neighbours. After ``transform`` the learned distance is the Euclidean distance,
so t-SNE, UMAP and Isomap can be used on the transformed samples, directly or at the end of a
pipeline. This example embeds the vehicle dataset (18 features, 4 classes) before and after.

A plot of the training samples would be too optimistic, because the metric was fitted to their
labels. Here the metric is learned from one half of the samples and the other half is plotted.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.manifold import TSNE, Isomap
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric.datasets import load_vehicle
from genmetric.plot.palette import class_style

try:
    from umap import UMAP
except ImportError:
    UMAP = None
    print("umap-learn is not installed: the figure does not show UMAP")

data = load_vehicle()
learn, draw, y_learn, y = train_test_split(
    data.data, np.asarray(data.target), train_size=0.5, stratify=data.target, random_state=0
)
scaler = StandardScaler().fit(learn)
metric = GenerativeMetric(shrinkage=None).fit(scaler.transform(learn), y_learn)
before = scaler.transform(draw)
after = metric.transform(before)

# %%
# Embeddings
# ----------
# The captions give the fraction of samples whose nearest neighbour in the plane is of another
# class.

embeddings = {"t-SNE": TSNE(init="pca", random_state=0)}
if UMAP is not None:
    embeddings["UMAP"] = UMAP(random_state=0, n_jobs=1)
embeddings["Isomap"] = Isomap(n_neighbors=10)


def neighbour_error(plane):
    """Fraction of samples whose nearest neighbour has another label, in %."""
    nearest = NearestNeighbors(n_neighbors=1).fit(plane).kneighbors(return_distance=False)[:, 0]
    return 100 * np.mean(y[nearest] != y)


fig, axes = plt.subplots(
    2, len(embeddings), figsize=(4 * len(embeddings), 7.4), layout="constrained"
)
for column, (name, embedding) in zip(axes.T, embeddings.items(), strict=True):
    for ax, space, rows in zip(
        column, ("standardised", "learned metric"), (before, after), strict=True
    ):
        plane = embedding.fit_transform(rows)
        for c, label in enumerate(data.target_names):
            color, marker = class_style(c)
            ax.plot(*plane[y == c].T, marker, ms=4, color=color, alpha=0.8, mec="none", label=label)
        ax.set(xticks=[], yticks=[])
        ax.set_title(f"{name}, {space}", loc="left", fontweight="bold")
        ax.set_xlabel(f"nearest neighbour of another class: {neighbour_error(plane):.1f} %")
handles, names = axes[0, 0].get_legend_handles_labels()
fig.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, markerscale=1.5)
plt.show()

# %%
# In a pipeline
# -------------
# One estimator that scales, learns and embeds. Isomap can also embed new samples.

pipeline = make_pipeline(StandardScaler(), GenerativeMetric(), Isomap(n_neighbors=10))
pipeline.fit(learn, y_learn)
print("shape of the embedded new samples:", pipeline.transform(draw).shape)

# %%
# All three embeddings inherit the gain of the metric. They do not add to it: opel and saab, whose
# silhouettes are similar, stay mixed under every one of them.
