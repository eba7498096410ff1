r"""
How many rows the average needs
===============================

The metric is an average over rows, and an average can be had from a sample. ``max_samples`` averages
the local metrics of some rows only, while the class covariances still see all of them, and
``metric_stderr_`` says how far off that is.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import minmax_scale

from genmetric import GenerativeMetric
from genmetric.datasets import load_letter

X, y = load_letter(return_X_y=True)
X = minmax_scale(X, (-1, 1))
train, test = np.split(np.random.default_rng(0).permutation(len(X)), [16_000])

# %%
# Samples of the letters
# ----------------------
# 16000 rows, 26 classes. Beside each metric from a sample: its distance from that of all rows, relative
# to the norm, the standard error that the fit reports, and the error of 3 neighbours of 1000 other rows.

whole = GenerativeMetric(shrinkage=None).fit(X[train], y[train])


def error(metric):
    """Error of 3 nearest neighbours, in per cent."""
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
print(f"fit on 200 rows {seconds[2]:.3f} s, on 6400 rows {seconds[-1]:.3f} s")

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
left.loglog(samples, 100 * distances, "o-", color="#3b7dd8", label="from the metric of all rows")
left.loglog(samples, 100 * stderrs, "k--", label="metric_stderr_")
left.set(title="Distance of the metric (%)", xlabel="rows averaged over")
left.legend(frameon=False)
right.semilogx(samples, errors, "o-", color="#3b7dd8", label="sample")
right.axhline(error(whole), color="0.4", ls="--", label="all 16000 rows")
right.set(title="Error of 3 nearest neighbours (%)", xlabel="rows averaged over", ylim=(0, None))
right.legend(frameon=False)
left.set_yticks([2, 5, 10, 20, 50], labels=[2, 5, 10, 20, 50])
left.set_yticks([], minor=True)
for ax in (left, right):
    ax.set_xticks(samples[::2], labels=samples[::2])
    ax.set_xticks([], minor=True)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The neighbours do not mind a metric that is a fifth off: from a few hundred rows on, their error is
# that of all rows within its noise (half a per cent, with 1000 queries). ``max_samples="auto"`` draws until
# ``metric_stderr_`` is one per cent; local metrics of letters vary so much that this takes all of them.
# With more rows than fit in memory, see :doc:`/guide/large_data`.
