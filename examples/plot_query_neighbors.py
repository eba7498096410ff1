"""
A query and its neighbours, before and after
============================================

A metric changes which samples are neighbours, and :func:`~genmetric.inspection.explain_neighbors`
says which features are responsible. This example follows one test sample of the vehicle dataset:
its five nearest training samples by Euclidean distance, its five nearest by the learned metric, and
the features that pushed the wrong neighbours away.
"""

# %%
# Two distances
# -------------
# Both are pipelines on standardised features. With ``interpolation=0`` the metric is the identity,
# so the first one is the Euclidean distance.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric.datasets import load_vehicle
from genmetric.inspection import explain_neighbors
from genmetric.plot import NeighborsDisplay
from genmetric.plot.palette import COLORS, QUIET, class_style

data = load_vehicle(as_frame=True)
names = np.array(data.target_names)
X_train, X_test, y_train, y_test = train_test_split(
    data.data, np.asarray(data.target), test_size=0.5, stratify=data.target, random_state=0
)
models = {
    "Euclidean distance": make_pipeline(StandardScaler(), GenerativeMetric(interpolation=0.0)),
    "learned metric": make_pipeline(StandardScaler(), GenerativeMetric(base="pooled")),
}
found = {
    title: explain_neighbors(model.fit(X_train, y_train), X_test, X_train)
    for title, model in models.items()
}
same = {title: y_train[near.indices] == y_test[:, None] for title, near in found.items()}
for title, hits in same.items():
    print(f"{title}: {hits.mean():.0%} of the five nearest training samples share the class")

# %%
# The sample that gains most
# --------------------------
# The bars explain the change: how far the Euclidean neighbours of a wrong class are from the query,
# feature by feature, before and after. Squared distances are in % of the median squared
# distance to a training sample, so the two metrics can be compared. A negative bar means that the
# feature offsets another one.

gain = same["learned metric"].sum(axis=1) - same["Euclidean distance"].sum(axis=1)
query = gain.argmax()
wrong = found["Euclidean distance"].indices[query][~same["Euclidean distance"][query]]
bars = {}
for title, model in models.items():
    one = X_test.iloc[[query]]
    everyone = explain_neighbors(model, one, X_train, n_neighbors=len(X_train))
    scale = 100 / np.median(everyone.distances) ** 2
    pairs = explain_neighbors(model, one, X_train.iloc[wrong], n_neighbors=len(wrong))
    bars[title] = scale * pairs.contributions[0].mean(axis=0)
change = bars["learned metric"] - bars["Euclidean distance"]
top = np.argsort(-change)[:6]

fig, (upper, lower) = plt.subplots(
    2, 1, figsize=(8, 6), layout="constrained", height_ratios=[1, 1.6]
)
for row, near in enumerate(found.values()):
    for column, c in enumerate(y_train[near.indices[query]]):
        color, marker = class_style(c)
        right = c == y_test[query]
        face = color if right else "white"
        upper.plot(column, row, marker, ms=17, mfc=face, mec=color, mew=2)
        upper.text(column, row + 0.42, f"{'✓' if right else '✗'} {names[c]}", ha="center")
upper.set_title(
    f"Query: {names[y_test[query]]}. Its five nearest training samples", loc="left", weight="bold"
)
upper.set_yticks([0, 1], labels=list(found))
upper.set(xticks=[], xlim=(-0.6, 4.6), ylim=(1.75, -0.45))
upper.tick_params(length=0)
upper.spines[:].set_visible(False)

place = np.arange(len(top))
styles = {"Euclidean distance": (QUIET, ""), "learned metric": (COLORS[0], "//")}
for shift, (title, (color, hatch)) in zip((-0.2, 0.2), styles.items(), strict=True):
    lower.barh(
        place + shift, bars[title][top], 0.38, color=color, hatch=hatch, ec="white", label=title
    )
lower.set_yticks(place, labels=data.data.columns[top])
lower.invert_yaxis()
lower.set_xlabel(
    "share in the squared distance to the wrong neighbours (% of the median distance²)"
)
lower.axvline(0, color="black", lw=0.8)
lower.spines[["top", "right", "left"]].set_visible(False)
lower.legend(frameon=False, loc="lower right")
plt.show()

# %%
# Twelve more queries
# -------------------
# One query proves nothing. :class:`~genmetric.plot.NeighborsDisplay` draws the neighbours of twelve
# test samples, evenly spaced from the largest gain to the largest loss. Filled marks share the
# class of the query, outlined marks do not.

model = models["learned metric"]
NeighborsDisplay.from_estimator(
    model, X_test, y_test, X_reference=X_train, y_reference=y_train, class_names=list(names)
)
plt.show()

# %%
# The learned metric moves samples of other classes away along the features in which they differ
# from the query, even if these features hardly count in the Euclidean distance. The last rows of
# the second figure show queries that lose neighbours: a metric helps on average, not for every
# sample.
