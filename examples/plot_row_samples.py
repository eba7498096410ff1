r"""
How many samples the average needs
==================================

The metric is an average over samples and can be estimated from a subset. ``max_samples`` averages
the local metrics of a random subset, while the class covariances still use all samples, and
``metric_stderr_`` estimates the error.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import minmax_scale

from genmetric import GenerativeMetric
from genmetric.datasets import load_letter
from genmetric.plot.palette import COLORS

X, y = load_letter(return_X_y=True)
X = minmax_scale(X, (-1, 1))
train, test = np.split(np.random.default_rng(0).permutation(len(X)), [16_000])

# %%
# Subsets of the letters
# ----------------------
# 16,000 samples, 26 classes. For each subset: the relative distance of its metric from that of all
# samples, the standard error that the fit reports, and the error rate of 3 nearest neighbours on
# 1000 other samples.

whole = GenerativeMetric(shrinkage=None).fit(X[train], y[train])


def error(metric):
    """Error of 3 nearest neighbours, in %."""
    model = KNeighborsClassifier(3).fit(metric.transform(X[train]), y[train])
    return 100 * (1 - model.score(metric.transform(X[test][:1000]), y[test][:1000]))


samples = np.array([50, 100, 200, 400, 800, 1600, 3200, 6400])
table = []
for n in samples:
    start = perf_counter()
    metric = GenerativeMetric(shrinkage=None, max_samples=int(n), random_state=0)
    metric.fit(X[train], y[train])
    seconds = perf_counter() - start
    distance = np.linalg.norm(metric.metric_ - whole.metric_) / np.linalg.norm(whole.metric_)
    table.append((distance, metric.metric_stderr_, error(metric), seconds))
distances, stderrs, errors, seconds = np.transpose(table)
for n, wrong, time in zip(samples, errors, seconds, strict=True):
    print(f"{n:5d} samples: 3-NN test error {wrong:.1f} %, fit {time:.2f} s")
print(f"all samples: 3-NN test error {error(whole):.1f} %")

fig, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
ax.loglog(samples, 100 * distances, "o-", color=COLORS[0], label="distance from the full average")
ax.loglog(samples, 100 * stderrs, "k--", label="metric_stderr_")
ax.set(ylabel="relative error of the metric (%)", xlabel="samples averaged over (max_samples)")
ax.legend(frameon=False)
ax.set_yticks([2, 5, 10, 20, 50], labels=[2, 5, 10, 20, 50])
ax.set_yticks([], minor=True)
ax.set_xticks(samples[::2], labels=samples[::2])
ax.set_xticks([], minor=True)
ax.grid(alpha=0.25)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The error rate is insensitive to errors of the metric: from a few hundred samples on it equals
# that of all samples within its standard error (about half a point with 1000 queries).
# ``max_samples="auto"`` draws samples until ``metric_stderr_`` is 1 %; local metrics of
# letters vary so much that this needs all of them. For samples that do not fit in memory, see
# :doc:`/guide/large_data`.
