r"""
The resolvent solver against eigendecompositions
================================================

The paper uses one eigendecomposition per sample, O(D³). ``solver="resolvent"`` sums the same local
metrics in O(D²) per sample (see :doc:`/dev/solver`). This example measures the time of both, and
the error of the resolvent solver, for two classes and an increasing number of features on one
thread.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

from genmetric import GenerativeMetric
from genmetric.plot.palette import COLORS, MARKERS

rng = np.random.default_rng(0)


def draw(n_rows, n_features):
    """Draw samples of two Gaussian classes with different covariances."""
    y = np.arange(n_rows) % 2
    factors = rng.normal(size=(2, n_features, n_features)) / np.sqrt(n_features)
    factors += np.diag(rng.uniform(0.3, 2.0, n_features))
    rows = rng.normal(size=(n_rows, n_features))
    return np.where(y[:, None] == 0, rows @ factors[0], rows @ factors[1] + 0.3), y


# %%
# Time of a fit
# -------------
# Time of the whole fit, including the class covariances; the best of two.

n_rows = 800
features = np.array([5, 10, 20, 40, 80, 160])
seconds = {solver: [] for solver in ("dense", "resolvent")}
differences = []
for n_features in features:
    X, y = draw(n_rows, n_features)
    metrics = []
    for solver, times in seconds.items():
        runs = []
        for _ in range(2):
            start = perf_counter()
            metric = GenerativeMetric(solver=solver, n_jobs=1).fit(X, y)
            runs.append(perf_counter() - start)
        times.append(min(runs))
        metrics.append(metric.metric_)
    differences.append(np.linalg.norm(metrics[1] - metrics[0]) / np.linalg.norm(metrics[0]))

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.8), layout="constrained")
for (solver, times), color, marker in zip(seconds.items(), COLORS[1::-1], MARKERS, strict=False):
    micro = 1e6 * np.array(times) / n_rows
    left.loglog(features, micro, marker=marker, color=color, label=f'solver="{solver}"')
for i in (2, 4, 5):
    ratio = seconds["dense"][i] / seconds["resolvent"][i]
    middle = 1e6 / n_rows * np.sqrt(seconds["dense"][i] * seconds["resolvent"][i])
    left.text(features[i], middle, f"{ratio:.0f}x", ha="center", va="center", color="0.3")
left.set(ylabel="fit time per sample (µs)", xlabel="features D")
left.legend(frameon=False)
right.loglog(features, differences, marker="o", color="black")
right.set(ylabel="relative difference of the two metrics", xlabel="features D", ylim=(1e-9, 1e-3))
for ax in (left, right):
    ax.set_xticks(features, labels=features)
    ax.set_xticks([], minor=True)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# ``solver="auto"``, the default, selects the faster of the two: dense for few features, few samples
# or very many classes. With more than two classes ``class_tol`` sets which classes are neglected
# (:doc:`/results/index`).
