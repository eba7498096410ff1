"""How scikit-learn's ColumnTransformer is written and rebuilt."""

from __future__ import annotations

from typing import Any

import numpy as np

from genmetric.files._estimators import EstimatorForm
from genmetric.files._probe import Budget, check_names
from genmetric.files._sklearn_forms import COMMON, public, set_common


class FittedColumns(EstimatorForm):
    """ColumnTransformer: fitted on a table of zeros with stand-ins for its fitted transformers."""

    def parts(self, value: Any) -> dict[str, Any]:
        """Return the parts; a callable that selects columns is replaced by the columns."""
        parts = super().parts(value)
        if "fitted" in parts:
            columns = {name: where for name, _, where in value.transformers_}
            parts["parameters"]["transformers"] = [
                (name, transformer, columns[name]) for name, transformer, _ in value.transformers
            ]
        return parts

    def fitted(self, value: Any) -> dict[str, Any]:
        """Return the fitted transformers and the width of their output."""
        if not hasattr(value, "transformers_"):
            return {}
        named = value.named_transformers_
        given = {name: transformer for name, transformer, _ in value.transformers}
        given["remainder"] = value.remainder
        return {
            **public(value, COMMON),
            "sparse_output": bool(value.sparse_output_),
            "fitted_transformers": {
                name: named[name]
                for name, transformer in given.items()
                if name in named and not isinstance(transformer, str)
            },
            "widths": {
                name: where.stop - where.start for name, where in value.output_indices_.items()
            },
        }

    def restore(self, estimator: Any, fitted: dict[str, Any], budget: Budget) -> None:
        """Fit on a table of zeros, and replace the stand-ins by the fitted transformers."""
        check_names(fitted)
        d, widths = fitted["n_features_in_"], fitted["widths"]
        ready = fitted["fitted_transformers"]
        if any(not isinstance(n, int) or n < 0 for n in (d, *widths.values())):
            raise ValueError("a ColumnTransformer has an invalid number of columns")
        budget.use_memory(64 * (d + sum(widths.values())))
        if any(not hasattr(transformer, "transform") for transformer in ready.values()):
            raise ValueError("a ColumnTransformer has a step that is not a transformer")
        parameters = estimator.get_params(deep=False)
        if not isinstance(parameters["transformers"], list):
            raise ValueError("a ColumnTransformer has no list of transformers")
        stand_in = _stand_in()
        names = fitted.get("feature_names_in_")
        positions = {} if names is None else {name: i for i, name in enumerate(names)}
        transformers = [
            (
                name,
                stand_in(widths[name]) if name in ready else given,
                _positions(where, positions),
            )
            for name, given, where in parameters["transformers"]
        ]
        remainder = parameters["remainder"]
        if "remainder" in ready:
            remainder = stand_in(widths["remainder"])
        estimator.set_params(transformers=transformers, remainder=remainder, n_jobs=None)
        estimator.fit(np.zeros((1, d)))
        estimator.set_params(**parameters)
        columns = {name: where for name, _, where in parameters["transformers"]}
        estimator.transformers_ = [
            (name, ready.get(name, fitted_one), columns.get(name, where))
            for name, fitted_one, where in estimator.transformers_
        ]
        set_common(estimator, fitted)
        estimator.sparse_output_ = bool(fitted["sparse_output"])


def _positions(where: Any, positions: dict[str, int]) -> Any:
    """Return the columns of a transformer as positions, whether they are given so or by name."""
    if isinstance(where, str):
        return positions[where]
    if isinstance(where, slice):
        start, stop = (
            positions[end] if isinstance(end, str) else end for end in (where.start, where.stop)
        )
        # As in pandas, a slice of names includes its end.
        return slice(start, stop + 1 if isinstance(where.stop, str) else stop, where.step)
    if isinstance(where, list | np.ndarray):
        return [positions[item] if isinstance(item, str) else item for item in where]
    return where


def _stand_in() -> Any:
    """Return the class of transformers with an output of given width.

    It is made when it is needed, because importing scikit-learn takes a second.
    """
    from sklearn.base import BaseEstimator, TransformerMixin

    class StandIn(TransformerMixin, BaseEstimator):
        """Transformer whose output is zero."""

        def __init__(self, width: int = 0) -> None:
            self.width = width

        def fit(self, X: Any, y: Any = None) -> Any:
            """Do nothing."""
            self.fitted_ = True
            return self

        def transform(self, X: Any) -> Any:
            """Return zeros."""
            return np.zeros((len(X), self.width))

        def get_feature_names_out(self, input_features: Any = None) -> Any:
            """Return names that are not used."""
            return np.array([f"x{i}" for i in range(self.width)], dtype=object)

    return StandIn
