"""
A metric from dask arrays
=========================

:class:`~genmetric.dask.DaskGenerativeMetric` learns from a dask array or DataFrame block by block,
and finds the same metric as :class:`~genmetric.GenerativeMetric` on all samples. Here dask's
threads do the work; with a ``distributed.Client`` the same code runs on a cluster.
"""

# %%
# Samples generated block by block
# --------------------------------
# Three Gaussian classes in ten dimensions. Two dimensions separate the classes; the other eight are
# noise of large variance. Each block generates its own samples, like a reader of files, so that
# only a few blocks are in memory at any time.

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from genmetric import GenerativeMetric
from genmetric.dask import DaskGenerativeMetric

N_BLOCKS, LENGTH, N_FEATURES = 16, 5_000, 10
SPREAD = np.array([[0.3, 1.0], [1.0, 0.3], [0.6, 0.6]])


def make_block(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=LENGTH)
    X = 4 * rng.normal(size=(LENGTH, N_FEATURES))
    X[:, :2] = SPREAD[y] * rng.normal(size=(LENGTH, 2)) + np.stack([y, y % 2], axis=1)
    return X, y


blocks = [dask.delayed(make_block, nout=2)(seed) for seed in range(N_BLOCKS)]
X = da.concatenate([da.from_delayed(x, (LENGTH, N_FEATURES), float) for x, _ in blocks])
y = da.concatenate([da.from_delayed(labels, (LENGTH,), int) for _, labels in blocks])
print(X)

# %%
# The same metric
# ---------------
# Blocks are merged in order, independent of which finishes first. The result is bit-identical to
# ``fit_batches`` on the same blocks, and equals ``fit`` on all samples up to rounding.

metric = DaskGenerativeMetric(n_components=2).fit(X, y)
whole = GenerativeMetric(n_components=2).fit(*dask.compute(X, y))
difference = np.linalg.norm(metric.metric_ - whole.metric_) / np.linalg.norm(whole.metric_)
print(f"relative difference from fit on all samples: {difference:.0e}")

# %%
# Lazy transform, exact neighbours
# --------------------------------
# ``transform`` returns a lazy dask array; here one block in sixteen is computed. ``kneighbors``
# searches all blocks and merges the results.

Z = metric.transform(X)
shown, labels = dask.compute(Z[:1500], y[:1500])
queries = X[:200].compute()
neighbors = metric.kneighbors(queries, 6, return_distance=False)[:, 1:]
plain = DaskGenerativeMetric(interpolation=0.0).fit(X, y)  # the identity: Euclidean distances
euclidean = plain.kneighbors(queries, 6, return_distance=False)[:, 1:]
all_labels = y.compute()
for name, found in (("Euclidean", euclidean), ("learned", neighbors)):
    agree = (all_labels[found] == all_labels[:200, None]).mean()
    print(f"{name:>9}: {agree:.0%} of the five nearest samples have the class of the query")

# %%
# In the space of the learned metric the eight noise dimensions are suppressed.

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for axis, points, title in (
    (axes[0], X[:1500, [0, 5]].compute(), "two of the ten features"),
    (axes[1], shown, "the plane of the learned metric"),
):
    axis.scatter(*points.T, c=labels, s=6, cmap="viridis")
    axis.set(title=title, xticks=[], yticks=[])
plt.show()
