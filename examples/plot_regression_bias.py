r"""
Kernel regression without its first-order bias
==============================================

Kernel regression (Nadaraya-Watson) averages the targets of nearby samples. Where the density of the
samples changes along the slope of the target, there are more neighbours on one side than on the
other, and the average is biased by

.. math:: h^2 \, g^T M^{-1} b

to first order in the squared bandwidth :math:`h^2`, with g the gradient of the log-density, b the
slope of the regression function and M the metric. In the local metric
:math:`M \propto \hat b \hat b^T + \hat g \hat g^T` this term is zero.

Here the samples are Gaussian and the target is linear, so the truth is known: the bias of kernel
regression with infinitely many samples has a closed form for every metric, and no other term of
first order exists.
"""

# %%
# A Gaussian problem
# ------------------
# Points of an ellipse have the same local distance from its centre. The ellipses are long in the
# directions that the first-order bias does not
# see: both gradients change little along them.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse
from scipy.spatial.distance import cdist

from genmetric.density import JointDensity
from genmetric.geometry import regression_local_metrics
from genmetric.plot.palette import COLORS

covariance = np.array([[1.0, 0.6], [0.6, 1.5]])
slope = np.array([1.0, -0.3])
noise = 0.1
cross = covariance @ slope
joint_covariance = np.block([[covariance, cross[:, None]], [cross[None], slope @ cross + noise**2]])
truth = JointDensity.from_moments(np.zeros((1, 3)), joint_covariance[None])

grid = np.stack(np.meshgrid(np.linspace(-2, 2, 7), np.linspace(-2, 2, 7)), axis=-1).reshape(-1, 2)
metrics = regression_local_metrics(*truth.gradients(grid))


def kernel_regression(queries, X, y, h):
    """Average targets with weights that fall with the distance, on the scale of h."""
    weights = np.exp(-cdist(queries, X, "sqeuclidean") / (2 * h**2))
    return weights @ y / weights.sum(axis=1)


def exact_bias(x, metric, h):
    """Bias of kernel regression at x with infinitely many samples."""
    pull = metric / h**2
    return slope @ np.linalg.solve(np.linalg.inv(covariance) + pull, pull @ x) - slope @ x


# %%
# Bias against bandwidth
# ----------------------
# Points are simulated with 40,000 samples and averaged over 60 queries; lines are the theory. The
# squared bias of the Euclidean metric follows its first-order prediction, :math:`h^4 (g^T b)^2`. In
# the local metrics the first-order term is gone and the rest falls faster. The simulated points
# level off at the variance that is left with 40,000 samples.

rng = np.random.default_rng(0)
queries = rng.multivariate_normal(np.zeros(2), covariance, 60)
g, b = truth.gradients(queries)
local = regression_local_metrics(g, b)
# Unit determinant, so a bandwidth means the same neighbourhood size in every metric.
local /= np.sqrt(np.linalg.det(local))[:, None, None]
X = rng.multivariate_normal(np.zeros(2), covariance, 40_000)
y = X @ slope + noise * rng.normal(size=len(X))

bandwidths = np.geomspace(0.15, 0.8, 12)
simulated = {"Euclidean": [], "local metrics": []}
for h in bandwidths:
    plain = kernel_regression(queries, X, y, h) - queries @ slope
    learned = []
    for x, metric in zip(queries, local, strict=True):
        root = np.linalg.cholesky(metric)
        learned.append(kernel_regression(x[None] @ root, X @ root, y, h)[0] - x @ slope)
    simulated["Euclidean"].append(np.mean(plain**2))
    simulated["local metrics"].append(np.mean(np.square(learned)))

predicted = np.mean((bandwidths[:, None] ** 2 * np.einsum("ij,ij->i", g, b)) ** 2, axis=1)
exact = {
    "Euclidean": [np.mean([exact_bias(x, np.eye(2), h) ** 2 for x in queries]) for h in bandwidths],
    "local metrics": [
        np.mean([exact_bias(x, m, h) ** 2 for x, m in zip(queries, local, strict=True)])
        for h in bandwidths
    ],
}

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 5), layout="constrained")
for center, metric in zip(grid, metrics, strict=True):
    eigenvalues, axes = np.linalg.eigh(metric)
    width, height = 0.32 / np.sqrt(np.maximum(eigenvalues, 0.2))
    angle = np.degrees(np.arctan2(axes[1, 0], axes[0, 0]))
    left.add_patch(Ellipse(center, width, height, angle=angle, fill=False, color=COLORS[0]))
edges = np.array([[-2.5, 2.5], [-2.5, 2.5]])
targets = slope[0] * edges[0] + slope[1] * edges[1][:, None]
left.contour(*edges, targets, levels=9, colors="0.8", linewidths=0.8, linestyles="solid")
left.set(xlim=(-2.5, 2.5), ylim=(-2.5, 2.5), aspect="equal", title="Local metrics")
left.set(xlabel="feature 1 (grey lines: equal targets)", ylabel="feature 2")
for (name, values), color in zip(simulated.items(), COLORS[1::-1], strict=True):
    right.loglog(
        bandwidths,
        values,
        "o" if name == "Euclidean" else "s",
        color=color,
        label=f"{name}, simulated",
    )
    right.loglog(bandwidths, exact[name], "-", color=color, label=f"{name}, exact")
right.loglog(bandwidths, predicted, "--", color="0.3", label="Euclidean, first-order prediction")
right.set(xlabel="bandwidth h", ylabel="mean squared bias of the prediction")
right.set_xticks([0.15, 0.2, 0.3, 0.4, 0.6, 0.8])
right.xaxis.set_major_formatter("{x:g}")
right.xaxis.set_minor_formatter("")
right.legend(fontsize=8)
plt.show()

ratio = np.interp(0.4, bandwidths, np.divide(exact["local metrics"], exact["Euclidean"]))
print(f"squared bias at h = 0.4, local metrics over Euclidean: {ratio:.3f}")

# %%
# With a bandwidth of 0.4 the squared bias in the local metrics is a fraction of the Euclidean one.
# On real data the model of the density is only approximate and the variance counts as well; the
# results page on regression says where the metric helps and where it does not.
