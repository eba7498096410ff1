"""
From a table to a model
=======================

A table with numbers, a category, a date and missing values: compare metrics on it, read the
recommendation, write the report, fit the recommended method, save it, and predict with the loaded
model.
"""

# %%
# The table
# ---------
# Silhouettes of vehicles, with three additions that are common in tables: a category, a date that
# says nothing about the vehicle, and missing values.

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

import genmetric
from genmetric.datasets import load_vehicle
from genmetric.inspection import feature_contributions
from genmetric.plot import ComparisonDisplay
from genmetric.report import write_report

rng = np.random.default_rng(0)
data = load_vehicle()
table = pd.DataFrame(data.data, columns=data.feature_names)
table["camera"] = rng.choice(["left", "right"], len(table))
table["taken"] = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 300, len(table)), "D")
table.loc[rng.choice(len(table), 60, replace=False), "circularity"] = np.nan
table["vehicle"] = np.asarray(data.target_names)[data.target]
train, test = train_test_split(table, stratify=table["vehicle"], random_state=0)
train.head()

# %%
# The comparison
# --------------
# All methods are evaluated on the same folds. Columns are encoded inside each fold, so nothing is
# learned from the test samples. In a notebook the result is displayed as a table with the
# recommendation.

methods = ["standardized", "lda", "generative", "generative-cv", "logistic"]
found = genmetric.compare_metrics(train, target="vehicle", methods=methods, title="vehicles")
found  # noqa: B018

# %%
# The same numbers as a DataFrame, and as a figure:

found.to_frame()

# %%

display = ComparisonDisplay.from_comparison(found)
display.figure_.set_size_inches(8, 4.8)

# %%
# The report
# ----------
# One self-contained HTML file with all figures, the confusion matrix and a summary of the columns.

folder = Path(tempfile.mkdtemp())
report = write_report(found, folder / "vehicles.html")
print(f"{report.name}: {report.stat().st_size / 1000:.0f} kB")

# %%
# The model
# ---------
# The recommended method as a scikit-learn pipeline, fitted on the table. It accepts the columns of
# the table, encodes them, and classifies by the nearest neighbours under the metric.

model = found.best_estimator()
print(f"recommended: {found.recommended}")
print(f"test accuracy: {model.score(test.drop(columns='vehicle'), test['vehicle']):.3f}")

# %%
# Contributions of the columns to squared distances, largest first. They sum to one.

shares = feature_contributions(model, train.drop(columns="vehicle"))
pd.Series(shares).sort_values(key=np.abs, ascending=False).head(8).round(3)

# %%
# Save and load
# -------------
# A model file is an archive of skops; loading it runs no code from the file.

path = folder / "vehicles.skops"
genmetric.save(model, path)
loaded = genmetric.load(path)
same = loaded.predict(test.drop(columns="vehicle")) == model.predict(test.drop(columns="vehicle"))
print(f"equal predictions: {same.all()}")

# %%
# On this table a metric pays: nearest neighbours are better after it than logistic regression,
# which has no distances to search with. It would not pay on a table of mostly categories, where the
# encoded columns are far from Gaussian, nor if only predictions count: compare with gradient
# boosting (``"boosting"``) first.
