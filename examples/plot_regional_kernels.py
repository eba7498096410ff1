r"""
Kernels of regional metrics: decision regions of SimpleMKL
==========================================================

A nonlinear combination of local metrics (equation 13): the samples are divided into regions, the
local metrics of each region are averaged, and each average defines Gaussian kernels of many
bandwidths. :class:`~genmetric.SimpleMKLClassifier` learns the weights of these kernels for a
support vector machine (equation 14). Bandwidths need not be tuned.

The samples are generated so that the effect is visible; the results pages show real datasets.
"""

# %%
# Elongated classes, few samples
# ------------------------------
# Three elongated classes with different directions, twenty samples each.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import minmax_scale

from genmetric import RegionalKernels, SimpleMKLClassifier
from genmetric.datasets import load_vehicle
from genmetric.plot.palette import COLORS, class_style

rng = np.random.default_rng(2)


def draw(n_rows):
    """Draw samples of three elongated classes, with their labels."""
    y = np.arange(n_rows) % 3
    along, across = rng.normal(0.0, 1.6, n_rows), rng.normal(0.0, 0.22, n_rows)
    angle = np.deg2rad(np.array([62, 48, 34])[y])
    X = along[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    X += across[:, None] * np.column_stack([-np.sin(angle), np.cos(angle)])
    return X + np.array([[-0.9, 0.9], [0.0, 0.0], [0.9, -0.9]])[y], y


X, y = draw(60)
X_test, y_test = draw(4000)

# %%
# Support vector machines
# -----------------------
# Euclidean kernels (``n_regions=0``, equation 24), those of the average of all local metrics
# (``n_regions=1``), and those of three regions. All have the same 15 bandwidths.

models = {
    "Euclidean kernels": RegionalKernels(n_regions=0),
    "one metric": RegionalKernels(n_regions=1, random_state=0),
    "three regions": RegionalKernels(n_regions=3, random_state=0),
}
colors = ListedColormap(COLORS[:3])
names = ("upper", "middle", "lower")
low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
mesh = np.meshgrid(*np.linspace(low, high, 150).T)
plane = np.column_stack([axis.ravel() for axis in mesh])

fig, axes = plt.subplots(1, 3, figsize=(11, 5), layout="constrained", sharey=True)
for ax, (title, kernels) in zip(axes, models.items(), strict=True):
    model = SimpleMKLClassifier(kernels, C=10).fit(X, y)
    ax.pcolormesh(*mesh, model.predict(plane).reshape(mesh[0].shape), cmap=colors, alpha=0.3)
    for c, name in enumerate(names):
        color, marker = class_style(c)
        ax.plot(*X[y == c].T, marker, color=color, ms=6, mec="white", mew=0.6, label=name)
    error = 100 * (1 - model.score(X_test, y_test))
    used = np.count_nonzero(model.weights_ > 1e-6)
    ax.set_title(f"{title}\ntest error {error:.1f} %", loc="left", fontweight="bold")
    ax.set_xlabel(f"first feature\n{used} of {len(model.weights_)} kernels used")
axes[0].set_ylabel("second feature")
handles, _ = axes[0].get_legend_handles_labels()
fig.legend(handles, names, loc="outside lower center", ncols=3, frameon=False, title="class")
plt.show()

# %%
# A real dataset
# --------------
# The same for vehicle (18 features in [-1, 1], 4 classes), with a third of the samples for
# training.

rows, classes = load_vehicle(return_X_y=True)
split = train_test_split(
    minmax_scale(rows, (-1, 1)), classes, train_size=1 / 3, stratify=classes, random_state=0
)
for name, n_regions in (("Euclidean kernels", 0), ("one metric", 1), ("five regions", 5)):
    kernels = RegionalKernels(n_regions, shrinkage=None, random_state=0)
    vehicle = SimpleMKLClassifier(kernels, C=64).fit(split[0], split[2])
    print(f"vehicle, {name}: error {100 * (1 - vehicle.score(split[1], split[3])):.1f} %")

# %%
# Which kernels
# -------------
# Weights of the last model by region and bandwidth. Most are exactly zero. On vehicle a single
# Euclidean Gaussian kernel, with its bandwidth tuned by validation, has about the same error as the
# learned kernels: see :doc:`/results/index`.

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
table = model.weights_.reshape(3, -1)
image = ax.imshow(table, cmap="Blues", aspect="auto")
fig.colorbar(image, ax=ax, label="weight of the kernel")
exponents = np.log2(model.kernels_.scales_).astype(int)
ax.set_xticks(range(len(exponents)), labels=exponents)
ax.set_yticks(range(3), labels=("1", "2", "3"))
ax.set(xlabel=r"inverse bandwidth $\log_2 \tau$", ylabel="region")
plt.show()

# %%
# With the same bandwidths, kernels of learned metrics have a lower error than Euclidean ones, here
# and on vehicle. Several regions do not improve on one metric in these two cases, and a support
# vector machine has no distances to search with.
