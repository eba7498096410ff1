"""
Feature contributions, heat map and spectrum of a metric
========================================================

A learned metric can be interpreted. The mean share of each feature in squared distances, with the
correlations of the features taken into account, shows which features matter. The entries off the
diagonal show which features act together, and the eigenvalues show the number of directions that
determine distances.
"""

import matplotlib.pyplot as plt
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric.datasets import load_wine
from genmetric.inspection import learned_metric
from genmetric.plot import FeatureWeightsDisplay, MetricHeatmapDisplay
from genmetric.plot.palette import COLORS, QUIET

X, y = load_wine(return_X_y=True, as_frame=True)
model = make_pipeline(StandardScaler(), GenerativeMetric()).fit(X, y)

# %%
# Contributions
# -------------
# The shares sum to 100%. A share can be negative when correlated features offset each other.

fig, ax = plt.subplots(figsize=(7, 5.2), layout="constrained")
FeatureWeightsDisplay.from_estimator(model, X, ax=ax)
plt.show()

# %%
# Spectrum
# --------
# The eigenvalues of the metric, for features of unit variance, divided by their mean. All are one
# for the Euclidean distance (dashed). The effective rank is the exponential of their entropy.

metric = learned_metric(model, X)
values = metric.eigenvalues
fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
numbers = range(1, len(values) + 1)
ax.semilogy(numbers, values, "o-", color=COLORS[0], label="learned metric")
ax.axhline(1.0, color=QUIET, linestyle="--", zorder=0, label="Euclidean distance")
ax.set(xlabel="number of the eigenvalue", ylabel="eigenvalue / mean", xticks=numbers)
ax.legend(frameon=False)
ax.set_title(f"Effective rank {metric.effective_rank:.1f} of {len(values)}")
plt.show()

# %%
# The matrix
# ----------
# A negative entry means that two features offset each other: wines that differ in both with
# the same sign are nearer than the two differences suggest. For a positive entry they are farther.

fig, ax = plt.subplots(figsize=(9, 7.6), layout="constrained")
MetricHeatmapDisplay.from_estimator(model, X, ax=ax)
ax.tick_params(labelsize=11)
plt.show()

# %%
# These figures describe the *distance*. They do not say which features a classifier needs: a
# feature with a small share may still separate two classes.
