"""Base class of the transformers that read the cells of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import validate_data

from genmetric._typing import AnyArray
from genmetric.tables._cells import column_array, is_frame, plain_array


class CellTransformer(TransformerMixin, BaseEstimator):
    """Base class that checks columns, not their cells."""

    def _columns(self, X: Any, *, reset: bool) -> list[tuple[str, AnyArray]]:
        """Check the shape and the names of `X`, and return its columns."""
        if not is_frame(X) and getattr(X, "ndim", 2) != 2:
            raise ValueError(
                f"Expected a data frame or a 2D array, got an array with {X.ndim} dimension(s)."
            )
        validate_data(self, X, skip_check_array=True, reset=reset)
        if is_frame(X):
            return [(str(name), column_array(X, name)) for name in X.columns]
        X = np.asarray(X, dtype=None if hasattr(X, "dtype") else object)
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(X.shape[1])])
        return [(str(name), plain_array(X[:, j])) for j, name in enumerate(names)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.no_validation = True
        return tags


def feature_names(transformer: Any, input_features: Any) -> list[str]:
    """Return the names of the input features of a fitted transformer."""
    if input_features is not None:
        return [str(name) for name in input_features]
    default = [f"x{j}" for j in range(transformer.n_features_in_)]
    return [str(name) for name in getattr(transformer, "feature_names_in_", default)]
