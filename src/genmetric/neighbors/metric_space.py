"""The metric of a predictor: fitted in `fit`, and applied to every sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_array
from sklearn.utils.validation import has_fit_parameter

from genmetric._typing import AnyArray, FloatArray


def fit_metric(
    metric: Any, X: Any, x: AnyArray, y: AnyArray, sample_weight: FloatArray | None = None
) -> Any:
    """Clone and fit the transformer of a predictor; None is Euclidean distance."""
    if metric is None:
        return None
    options = {}
    if sample_weight is not None and has_fit_parameter(metric, "sample_weight"):
        options = {"sample_weight": sample_weight}
    return clone(metric).fit(_with_names(X, x), y, **options)


def metric_space(metric: Any, X: Any, x: AnyArray) -> AnyArray:
    """Map samples to the space of a fitted metric and check the result."""
    if metric is None:
        return x
    z = check_array(metric.transform(_with_names(X, x)), dtype=[np.float64, np.float32])
    if len(z) != len(x):
        raise ValueError(
            f"metric.transform returned {len(z)} samples for {len(x)} samples of X. A metric must "
            "return one sample for each."
        )
    return np.asarray(z)


def _with_names(X: Any, x: AnyArray) -> Any:
    """Return `X` if it is a data frame, since a metric fitted on names expects them again."""
    return X if hasattr(X, "columns") else x


def refuse_distant(z: FloatArray, farthest: float) -> None:
    """Raise if a query, in units of the spread of the training samples, is too far from them."""
    far = float(np.abs(z).max(initial=0.0))
    if not far < farthest:
        raise ValueError(
            f"A sample of X is {far:.1e} times the spread of the training samples away from them, "
            "where float64 does not distinguish their distances. Check X for outliers."
        )
