r"""
Error of the nearest neighbour against the number of samples
============================================================

With infinitely many training samples the error of the nearest neighbour is the same under every
metric. With N samples it is larger, by an amount that depends on the metric. This example simulates
the error against N in the space x of the features and after the map z = Lx of
:class:`~genmetric.GenerativeMetric`, and compares it with the theory:

.. math::

    \varepsilon_N \simeq \varepsilon_\infty + \mathrm{const} \cdot N^{-2/D}
    \int \frac{p_1 p_2 (p_2 - p_1)}{(p_1 + p_2)^2} \, \mathrm{Trace}[M^{-1} \Phi] \, dx ,

with the constant (and the density it hides) as in
:func:`~genmetric.geometry.finite_sample_error`.
"""

# %%
# Two classes
# -----------
# Two Gaussians in three dimensions. A narrow direction, oblique to the features, separates them
# best; along the wide directions they differ in variance. A Euclidean neighbour that is near along
# the wide directions may be far along the narrow one.

import sys

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.transform import Rotation

from genmetric import GenerativeMetric
from genmetric.density import ClassGaussians
from genmetric.geometry import asymptotic_error, finite_sample_error
from genmetric.plot.palette import COLORS

R = Rotation.from_euler("xyz", [30, 20, 40], degrees=True).as_matrix()
axes = np.array([np.diag([0.08, 1.0, 3.0]), np.diag([0.12, 3.0, 1.0])])
models = ClassGaussians.from_moments(
    means=np.array([[0.0, 0.0, 0.0], [0.55, 0.0, 0.0]]) @ R.T, covariances=R @ axes @ R.T
)
rng = np.random.default_rng(0)


def draw(n_rows):
    """Draw samples of both classes, equally likely, with their labels."""
    y = rng.integers(0, 2, n_rows)
    white = rng.normal(size=(n_rows, 3))
    roots = np.linalg.cholesky(models.covariances)
    return models.means[y] + np.einsum("nij,nj->ni", roots[y], white), y


def posterior(X):
    """Probability of the second class."""
    return 1 / (1 + np.exp(models.log_density(X) @ [1, -1]))


# %%
# Theory
# ------
# The error with infinitely many samples and the first-order error with N samples are averages over
# samples of the two classes; the metric is learned from many samples. The excess is proportional to
# :math:`N^{-2/D}`, so it is computed for one N. The average needs many samples, because outlying
# samples, whose neighbours are far, have a large effect.

D = 3
metrics = {"x": None, "z": GenerativeMetric(shrinkage=None).fit(*draw(20_000)).metric_}
rows, _ = draw(1_000_000)
limit = asymptotic_error(models, rows)
constant = {
    space: finite_sample_error(models, rows, 1, metric) - limit for space, metric in metrics.items()
}

# %%
# Simulation
# ----------
# Each repetition draws N training samples, fits the metric to them, and finds the neighbour x'
# of each of 2000 new samples x. Given the two samples, their labels differ with probability
# η(x)(1 - η(x')) + η(x')(1 - η(x)), with η the posterior of one class. The mean of this
# probability minus its value at x' = x has a much smaller variance than a count of errors.

sizes = 50 * 2 ** np.arange(9)
simulated = {space: np.empty((len(sizes), 2)) for space in metrics}
for i, N in enumerate(sizes):
    excess = []
    for _ in range(max(20, min(200, 60_000 // N))):
        (train, y), (test, _) = draw(N), draw(2000)
        eta, eta_train = posterior(test), posterior(train)
        L = GenerativeMetric(shrinkage=None).fit(train, y).components_
        neighbours = (KDTree(train @ A.T).query(test @ A.T)[1] for A in (np.eye(D), L))
        excess.append([np.mean((1 - 2 * eta) * (eta_train[near] - eta)) for near in neighbours])
    for space, values in zip(metrics, np.transpose(excess), strict=True):
        simulated[space][i] = np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values))

# %%
# The figure
# ----------
# On the left the error itself, on the right its excess over the limit, where the theory is a
# straight line of slope -2/3. Bars are two standard errors. The theory holds to first order, if
# neighbours are near compared with the widths of the classes; here it is above the simulated excess
# throughout, by at most a third of it.

looks = {
    "x": {"color": COLORS[1], "label": "in x (Euclidean)", "fmt": "o"},
    "z": {"color": COLORS[0], "label": "in z = Lx (GenerativeMetric)", "fmt": "s"},
}
grid = np.geomspace(sizes[0], sizes[-1], 100)
saving = (constant["x"] / constant["z"]) ** (D / 2)

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.8), layout="constrained")
for space, look in looks.items():
    mean, noise = 100 * simulated[space].T
    theory = 100 * constant[space] * grid ** (-2 / D)
    for ax, base in ((left, 100 * limit), (right, 0.0)):
        ax.plot(grid, base + theory, color=look["color"], linewidth=1.5)
        ax.errorbar(sizes, base + mean, yerr=2 * noise, markersize=5, **look)

left.axhline(100 * limit, color="0.4", linestyle="--", linewidth=1)
text = "infinitely many samples, any metric"
left.text(sizes[0], 100 * limit - 0.15, text, va="top", color="0.3")
left.plot([], [], color="0.3", linewidth=1.5, label="theory, to first order")
left.legend(frameon=False)
left.set(xscale="log", ylim=(100 * limit - 1, None), ylabel="1-NN error (%)")

# The same excess with fewer samples: a horizontal step from one line to the other.
N_x = sizes[-3]
N_z, level = N_x / saving, 100 * constant["x"] * N_x ** (-2 / D)
arrow = {"arrowstyle": "<->", "color": "0.3", "shrinkA": 0, "shrinkB": 0}
right.annotate("", (N_z, level), (N_x, level), arrowprops=arrow)
right.text(1.15 * N_x, level, f"{saving:.0f} times\nfewer samples", va="bottom", color="0.3")
right.set(xscale="log", yscale="log", ylabel="excess over infinitely many samples (% points)")
right.yaxis.set_major_formatter("{x:g}")

for ax in (left, right):
    ax.set_xticks(sizes[::2], labels=[f"{N}" for N in sizes[::2]])
    ax.tick_params(which="minor", length=0)
    ax.set_xlabel("training samples N")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25)
if len(sys.argv) > 1:
    fig.savefig(sys.argv[1], dpi=150)
else:
    plt.show()

# %%
# Both errors tend to the same limit at the same rate; the metric changes the constant. By the
# theory, z needs about a fifth of the samples that x needs for the same error. With
# ``shrinkage="auto"`` the metric of a few dozen samples is nearer to the Euclidean one, and the
# first blue points are higher. The metric does not help if the classes overlap so much that the
# limit itself is the problem.
