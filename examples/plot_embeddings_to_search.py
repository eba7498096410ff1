"""
From embeddings to search
=========================

A language model turns texts into vectors, and search compares them by cosine. The model does not
know which similarities matter to you. :class:`~genmetric.EmbeddingAdapter` learns it from labels: a
linear map after which vectors of one class are closer. This example searches functions of SciPy by
their descriptions, before and after the adapter.
"""

# %%
# Embeddings of a real model
# --------------------------
# The first sentence of the docstring of 796 functions of SciPy 1.17 (BSD licence), embedded by
# all-MiniLM-L6-v2 (384 dimensions). The label of a function is its subpackage. The vectors, rounded
# to 8 bits, are in ``scipy_functions.npz`` in the ``examples`` folder of the repository. These
# lines make such vectors from texts of your own:
#
# .. code-block:: python
#
#     from sentence_transformers import SentenceTransformer
#
#     model = SentenceTransformer("all-MiniLM-L6-v2")
#     vectors = model.encode(texts)
#
# One half of the functions is the gallery that is searched, and the adapter learns from it. The
# other half are queries.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.manifold import TSNE
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from genmetric import EmbeddingAdapter, FaissNeighborsTransformer
from genmetric.metrics import retrieval_scores
from genmetric.plot.palette import COLORS, QUIET, class_style

try:
    from umap import UMAP
except ImportError:
    UMAP = None

file = np.load(Path(sys.argv[0]).parent / "scipy_functions.npz")
vectors = normalize(file["vectors"].astype(np.float32))
labels, names = file["labels"].astype(str), file["names"].astype(str)
gallery, queries = train_test_split(
    np.arange(len(labels)), test_size=0.5, stratify=labels, random_state=0
)
print(f"{len(labels)} functions, {vectors.shape[1]} dimensions, {len(set(labels))} subpackages")

# %%
# The adapter
# -----------
# All searches are about subpackages that it has seen, so ``search_classes="training"``. The outputs
# are unit vectors and can replace the embeddings in any index.

adapter = EmbeddingAdapter(search_classes="training", random_state=0)
adapter.fit(vectors[gallery], labels[gallery])
spaces = {"cosine of the embeddings": vectors, "after the adapter": adapter.transform(vectors)}

# %%
# The queries, before and after
# -----------------------------
# UMAP (or t-SNE, if umap-learn is not installed) of the queries, which the adapter has not seen.

fig, axes = plt.subplots(1, 2, figsize=(10, 6.4), layout="constrained")
for ax, (title, Z) in zip(axes, spaces.items(), strict=True):
    options = {"metric": "cosine", "random_state": 0}
    embedding = TSNE(**options) if UMAP is None else UMAP(n_jobs=1, **options)
    plane = embedding.fit_transform(Z[queries])
    for c, name in enumerate(np.unique(labels)):
        color, marker = class_style(c)
        points = plane[labels[queries] == name]
        ax.plot(*points.T, marker, ms=5, color=color, alpha=0.8, mec="none", label=name)
    ax.set(xticks=[], yticks=[])
    ax.set_title(title, loc="left", fontweight="bold")
handles, legend = axes[0].get_legend_handles_labels()
fig.legend(handles, legend, loc="outside lower center", ncols=6, frameon=False, markerscale=1.3)
if len(sys.argv) > 1:
    fig.savefig(sys.argv[1], dpi=90)
plt.show()

# %%
# Retrieval scores
# ----------------
# Recall@1 is the fraction of queries whose nearest function in the gallery is in their subpackage.
# R-precision counts the functions of the right subpackage among the R nearest, where R is the size
# of the subpackage; mAP@R also counts their order.

titles = {"recall@1": "recall@1", "r_precision": "R-precision", "map_at_r": "mAP@R"}
fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
styles = ((QUIET, ""), (COLORS[0], "//"))
for i, (title, Z) in enumerate(spaces.items()):
    scores = retrieval_scores(
        Z[gallery], labels[gallery], queries=Z[queries], query_labels=labels[queries], k=1
    )
    values = [scores[key] for key in titles]
    color, hatch = styles[i]
    bars = ax.barh(
        np.arange(3) + 0.4 * i, values, 0.36, color=color, hatch=hatch, ec="white", label=title
    )
    ax.bar_label(bars, fmt="%.2f", padding=3)
ax.set_yticks(np.arange(3) + 0.2, labels=list(titles.values()))
ax.invert_yaxis()
ax.set(xlabel="score of the queries", xlim=(0, 1))
ax.spines[["top", "right"]].set_visible(False)
fig.legend(loc="outside upper center", ncols=2, frameon=False)
plt.show()

# %%
# One search
# ----------
# faiss finds the five nearest functions of the query whose neighbours change most. ``index="flat"``
# is exact.

nearest = {}
for title, Z in spaces.items():
    search = FaissNeighborsTransformer(n_neighbors=5, metric="cosine", index="flat").fit(Z[gallery])
    nearest[title] = gallery[search.kneighbors(Z[queries], return_distance=False)]
right = {title: labels[found] == labels[queries][:, None] for title, found in nearest.items()}
before, after = right.values()
query = np.argmax(after.sum(axis=1) - before.sum(axis=1))
print(f"query: {names[queries[query]]}")
for title, found in nearest.items():
    print(f"{title}:")
    for place in found[query]:
        mark = "✓" if labels[place] == labels[queries[query]] else "✗"
        print(f"  {mark} {names[place]}")
change = after.sum(axis=1) - before.sum(axis=1)
print(f"more right neighbours for {np.sum(change > 0)} queries, fewer for {np.sum(change < 0)}")

# %%
# Subpackages that the adapter has not seen
# -----------------------------------------
# The harder case: learn from eight subpackages and search among the other four. The scores are
# means of three draws of the four.

means = {"cosine of the embeddings": 0.0, "after the adapter": 0.0}
for seed in range(3):
    drawn = np.random.default_rng(seed).choice(np.unique(labels), 4, replace=False)
    new = np.isin(labels, drawn)
    adapter = EmbeddingAdapter(search_classes="new", random_state=0)
    adapter.fit(vectors[~new], labels[~new])
    for title, Z in zip(means, (vectors[new], adapter.transform(vectors[new])), strict=True):
        scores = retrieval_scores(Z, labels[new], k=1)
        means[title] += np.array([scores[key] for key in titles]) / 3
for title, values in means.items():
    print(f"{title}: " + ", ".join(map("{} {:.2f}".format, titles.values(), values)))

# %%
# The adapter doubles the fraction of right functions among many results. It hardly changes the
# first result, which is mostly right already, and within a subpackage it may rank distant functions
# first: the labels decide what counts as similar. For subpackages that it has not seen there is
# nothing to gain here. Measure on held-out classes before you use an adapter for new ones.
