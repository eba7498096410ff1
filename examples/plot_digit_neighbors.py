"""
Nearest neighbours of digits, before and after
==============================================

Images of digits with their nearest images by pixels and by a metric learned from other images. The
example shows images that have wrong neighbours under one of the two.
"""

# %%
# Images
# ------
# The 8 x 8 images of scikit-learn. The metric is learned from 900 of them, in 30 principal
# components, and neighbours are searched among these; the queries are the other 897.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors

from genmetric import GenerativeMetric
from genmetric.datasets import load_digits

X, y = load_digits(return_X_y=True)
y = np.asarray(y).astype(int)
train, test, y_train, y_test = train_test_split(X, y, train_size=900, stratify=y, random_state=0)
pca = PCA(30).fit(train)
metric = GenerativeMetric().fit(pca.transform(train), y_train)

K = 6
found = {}
for name, space in {
    "pixels": pca.transform,
    "learned": lambda rows: metric.transform(pca.transform(rows)),
}.items():
    index = NearestNeighbors(n_neighbors=K).fit(space(train))
    found[name] = index.kneighbors(space(test), return_distance=False)
right = {name: y_train[rows] == y_test[:, None] for name, rows in found.items()}
for name, hits in right.items():
    print(
        f"{name:<8} neighbours of another digit: {100 * (1 - hits[:, 0].mean()):4.1f} % of the "
        f"nearest, {100 * (1 - hits.mean()):4.1f} % of the {K} nearest"
    )

# %%
# Queries on which the two disagree
# ---------------------------------
# The four queries with the largest gain and the two with the largest loss. Green frames mark
# neighbours of the same digit, red frames others.

change = right["learned"].sum(axis=1) - right["pixels"].sum(axis=1)
order = np.argsort(change, kind="stable")
better, worse = order[::-1][:4], order[:2]
counts = [np.count_nonzero(change > 0), np.count_nonzero(change < 0)]
print(f"more neighbours of the same digit for {counts[0]} images, fewer for {counts[1]}")

fig = plt.figure(figsize=(11, 5.6), layout="constrained")
grid = fig.add_gridspec(6, 2 * K + 3, width_ratios=[1, 0.5] + K * [1] + [0.5] + K * [1])
for i, query in enumerate([*better, *worse]):
    cells = [(0, test[query], None)]
    for name, first in (("pixels", 2), ("learned", K + 3)):
        images, good = train[found[name][query]], right[name][query]
        cells.extend(zip(range(first, first + K), images, good, strict=True))
    for column, image, good in cells:
        ax = fig.add_subplot(grid[i, column])
        ax.imshow(image.reshape(8, 8), cmap="gray_r")
        ax.set(xticks=[], yticks=[])
        color = "black" if good is None else "#2e9e5b" if good else "#d6455d"
        for spine in ax.spines.values():
            spine.set(color=color, linewidth=2.2)
        if i == 0 and column in (0, 2, K + 3):
            titles = {0: "query", 2: "nearest by pixels", K + 3: "nearest by the metric"}
            ax.set_title(titles[column], loc="left", fontsize=10)
        if column == 0:
            ax.set_ylabel("better" if i < 4 else "worse", fontsize=9)
plt.show()
