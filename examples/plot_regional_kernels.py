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
colors = ListedColormap(["#3b7dd8", "#d9730d", "#2e9e5b"])
low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
mesh = np.meshgrid(*np.linspace(low, high, 150).T)
plane = np.column_stack([axis.ravel() for axis in mesh])

fig, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained", sharey=True)
for ax, (name, kernels) in zip(axes, models.items(), strict=True):
    model = SimpleMKLClassifier(kernels, C=10).fit(X, y)
    ax.pcolormesh(*mesh, model.predict(plane).reshape(mesh[0].shape), cmap=colors, alpha=0.3)
    ax.scatter(*X.T, c=y, cmap=colors, s=26, edgecolors="white", linewidths=0.6)
    error = 100 * (1 - model.score(X_test, y_test))
    used = np.count_nonzero(model.weights_ > 1e-6)
    ax.set(title=f"{name}: error {error:.1f} %", xticks=[], yticks=[])
    ax.set_xlabel(f"{used} of {len(model.weights_)} kernels, duality gap {model.duality_gap_:.3f}")
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
# learned kernels: see :doc:`/results/nonlinear`.

fig, ax = plt.subplots(figsize=(7, 2.4), layout="constrained")
table = model.weights_.reshape(3, -1)
image = ax.imshow(table, cmap="Blues", aspect="auto")
fig.colorbar(image, ax=ax, label="weight")
exponents = np.log2(model.kernels_.scales_).astype(int)
ax.set_xticks(range(len(exponents)), labels=exponents)
ax.set(xlabel=r"inverse bandwidth $\log_2 \tau$", ylabel="region", title="Kernel weights")
plt.show()
