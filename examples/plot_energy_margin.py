r"""
Energies instead of votes, and the effect of the margin
=======================================================

:class:`~genmetric.EnergyClassifier` computes an energy of a sample for each class and predicts the
class with the lowest energy. With ``energy="one-sided"`` the energy is a part of the loss of LMNN:
the squared distances to the k nearest samples of the class, plus penalties for samples of other
classes within a margin. The margin is the main parameter of this form; the default form,
``"difference"``, has none. This example shows the effect of the margin on two datasets.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from genmetric import EnergyClassifier, GenerativeMetric
from genmetric.datasets import load_dataset
from genmetric.plot.palette import COLORS, QUIET

# %%
# Error against the margin
# ------------------------
# The margin is ``margin_scale`` times the median difference of the squared distances to the nearest
# sample of another class and of the same class. Dashed: majority vote of the 3 nearest neighbours
# in the same space.

scales = np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
n_splits = 5
styles = {"Euclidean": (QUIET, "s"), "GenerativeMetric": (COLORS[0], "o")}

fig, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
for ax, (name, n_train) in zip(axes, (("vehicle", 500), ("letter", 2000)), strict=True):
    X, y = load_dataset(name, return_X_y=True)
    splits = StratifiedShuffleSplit(n_splits, train_size=n_train, test_size=340, random_state=0)
    energies = {space: np.empty((len(scales), n_splits)) for space in styles}
    votes = {space: np.empty(n_splits) for space in styles}
    for r, (train, test) in enumerate(splits.split(X, y)):
        scaler = StandardScaler().fit(X[train])
        rows = scaler.transform(X[train]), scaler.transform(X[test])
        for space in styles:
            if space != "Euclidean":
                metric = GenerativeMetric(shrinkage=None).fit(rows[0], y[train])
                rows = tuple(metric.transform(part) for part in rows)
            model = KNeighborsClassifier(3).fit(rows[0], y[train])
            votes[space][r] = 1 - model.score(rows[1], y[test])
            for i, scale in enumerate(scales):
                model = EnergyClassifier(margin_scale=scale, energy="one-sided").fit(
                    rows[0], y[train]
                )
                energies[space][i, r] = 1 - model.score(rows[1], y[test])
    for space, (color, marker) in styles.items():
        values = 100 * energies[space]
        noise = values.std(axis=1, ddof=1) / np.sqrt(n_splits)
        ax.errorbar(scales, values.mean(axis=1), yerr=noise, color=color, marker=marker, ms=5,
                    label=f"{space}, energy")  # fmt: skip
        ax.axhline(100 * votes[space].mean(), color=color, ls="--", lw=1, label=f"{space}, votes")
    ax.set(xscale="log", xlabel="margin_scale", ylim=(0, None))
    ax.set_xticks(scales, labels=[f"{s:g}" for s in scales])
    ax.set_title(f"{name}, {n_train} training samples", loc="left")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("test error (%)")
handles, names = axes[0].get_legend_handles_labels()
fig.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
plt.show()

# %%
# With a small margin energies have a lower error than votes in both spaces, by half a point to
# three points, while the metric gains seven points or more. With a large margin the advantage is
# lost, at a value that depends on the dataset: tune ``margin_scale``.
