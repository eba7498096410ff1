"""Samples in the space of a metric step, for the classifier and the regressor that hold one."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array

from genmetric._typing import AnyArray


def with_names(X: Any, x: AnyArray) -> Any:
    """Return `X` if it is a data frame, since a metric fitted on names expects them again."""
    return X if hasattr(X, "columns") else x


def metric_space(metric: Any, X: Any, x: AnyArray) -> AnyArray:
    """Map samples to the space of the metric and check the result."""
    if metric is None:
        return x
    z = check_array(metric.transform(with_names(X, x)), dtype=[np.float64, np.float32])
    if len(z) != len(x):
        raise ValueError(
            f"metric.transform returned {len(z)} samples for {len(x)} samples of X. A metric must "
            "return one sample for each."
        )
    return np.asarray(z)
