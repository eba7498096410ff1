r"""
A million vectors: a learned metric in front of faiss
=====================================================

A metric changes which vectors are neighbours, and an index finds them fast. The metric of
:class:`~genmetric.GenerativeMetric` is a linear map, so the vectors are mapped once and any index
for Euclidean distance can be used. This example classifies queries by their ten nearest vectors, in
the input space and after the learned map, and compares three indexes of
:class:`~genmetric.FaissNeighborsTransformer` (extra ``ann``) by time and recall.

Run it as ``python examples/million_vectors.py 1000000``; without a number it uses 50,000 vectors.
"""

# %%
# Vectors
# -------
# Ten classes in 32 dimensions. Each class is a Gaussian with its own covariance. The directions of
# largest variance do not separate the classes.

import sys
import time

import matplotlib.pyplot as plt
import numpy as np

from genmetric import FaissNeighborsTransformer, GenerativeMetric
from genmetric.plot.palette import class_style

N_ROWS = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 50_000
N_FEATURES, N_CLASSES, N_QUERIES, K = 32, 10, 2_000, 10


def make_vectors(n, rng, means, factors):
    labels = rng.integers(N_CLASSES, size=n)
    X = rng.standard_normal((n, N_FEATURES), dtype=np.float32)
    for c in range(N_CLASSES):
        rows = np.flatnonzero(labels == c)
        X[rows] = X[rows] @ factors[c] + means[c]
    return X, labels


rng = np.random.default_rng(0)
spread = np.geomspace(8, 0.5, N_FEATURES)
means = 0.6 * rng.standard_normal((N_CLASSES, N_FEATURES)) * (np.arange(N_FEATURES) >= 20)
factors = spread * (
    np.eye(N_FEATURES) + 0.15 * rng.standard_normal((N_CLASSES, N_FEATURES, N_FEATURES))
)
means, factors = means.astype(np.float32), factors.astype(np.float32)
X, y = make_vectors(N_ROWS, rng, means, factors)
queries, truth = make_vectors(N_QUERIES, rng, means, factors)

# %%
# The metric
# ----------
# The class covariances use all vectors. The local metrics are averaged over 20,000 of them, and
# `metric_stderr_` is the standard error of this average.

begin = time.perf_counter()
metric = GenerativeMetric(max_samples=20_000, random_state=0).fit(X, y)
seconds = time.perf_counter() - begin
print(
    f"{N_ROWS} vectors of {N_FEATURES} features; metric in {seconds:.1f} s, "
    f"relative standard error {metric.metric_stderr_:.1%}"
)
begin = time.perf_counter()
Z = metric.transform(X)
print(f"transform in {time.perf_counter() - begin:.2f} s")

# %%
# The indexes
# -----------
# The flat index is exact; recall is measured relative to it.


def vote(labels):
    return np.array([np.bincount(row, minlength=N_CLASSES).argmax() for row in labels])


def search(index, rows, asked, **options):
    begin = time.perf_counter()
    model = FaissNeighborsTransformer(K, index=index, random_state=0, **options).fit(rows)
    built = time.perf_counter() - begin
    begin = time.perf_counter()
    found = model.kneighbors(asked, return_distance=False)
    return found, built, len(asked) / (time.perf_counter() - begin)


def report(name, found, exact, built, rate):
    hits = sum(len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True))
    recall, wrong = hits / exact.size, np.mean(vote(y[found]) != truth)
    print(
        f"{name:24s} build {built:7.1f} s  {rate:8.0f} queries/s  recall {recall:.3f}"
        f"  error {wrong:.3f}"
    )
    return recall, wrong


exact, built, rate = search("flat", X, queries)
report("input space, flat", exact, exact, built, rate)
asked = metric.transform(queries)
exact, built, rate = search("flat", Z, asked)
table = [("flat", rate, *report("metric, flat", exact, exact, built, rate))]
for name, index, options in [
    ("ivf, 4 probes", "ivf", {"n_probe": 4}),
    ("ivf, 16 probes", "ivf", {"n_probe": 16}),
    ("ivf", "ivf", {}),
    ("hnsw", "hnsw", {}),
]:
    found, built, rate = search(index, Z, asked, **options)
    table.append((name, rate, *report(f"metric, {name}", found, exact, built, rate)))

# %%
# Speed against recall
# --------------------
# An approximate index trades recall for speed, and hardly any of the gain of the metric.

fig, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
for i, (name, rate, recall, wrong) in enumerate(table):
    color, marker = class_style(i)
    label = f"{name}: error {100 * wrong:.1f} %"
    ax.semilogx(rate, recall, marker, ms=12, color=color, label=label)
ax.set(
    xlabel="queries per second (log scale)", ylabel="recall of the ten nearest", ylim=(None, 1.02)
)
ax.xaxis.set_minor_formatter("")
ax.legend(frameon=False, loc="lower left", title=f"{N_ROWS:,} vectors, learned metric")
ax.spines[["top", "right"]].set_visible(False)
if len(sys.argv) > 2:
    fig.savefig(sys.argv[2], dpi=80)
else:
    plt.show()

# sphinx_gallery_thumbnail_path = "_static/million_vectors.png"

# %%
# The index does not help a bad metric: its neighbours are those of the metric at best. With fewer
# than about ten thousand vectors the flat index is fast enough.
