"""
What the metric looks at: feature weights, heat map, spectrum
=============================================================

A learned metric can be read. Its diagonal, times the variances, says what share of a squared distance
each feature makes up; its other entries say which features act together; its spectrum, in how many
directions it measures at all. The Displays of :mod:`genmetric.plot` draw all three.
"""

import matplotlib.pyplot as plt
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric.datasets import load_wine
from genmetric.plot import FeatureWeightsDisplay, MetricHeatmapDisplay, SpectrumDisplay

X, y = load_wine(return_X_y=True, as_frame=True)
model = make_pipeline(StandardScaler(), GenerativeMetric()).fit(X, y)

# %%
# Weights and spectrum
# --------------------
# The intensity of its colour, proline and flavanoids tell the grower of a wine; magnesium hardly does.
# All 13 features keep some weight, and two directions have most of it.

fig, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
FeatureWeightsDisplay.from_estimator(model, X, ax=left)
SpectrumDisplay.from_estimator(model, X, ax=right)
plt.show()

# %%
# The matrix
# ----------
# A negative entry says that two features make up for each other: wines that differ in both, in the
# same sense, are nearer than the two differences alone would make them. Flavanoids and the intensity of
# the colour are such a pair.

MetricHeatmapDisplay.from_estimator(model, X)
plt.show()

# %%
# The weights say what the *distance* uses. They are not importances of features to a classifier: a
# feature that another one repeats can have a large weight of its own, cancelled by a negative
# entry beside it.
