"""How scikit-learn's classes are written and rebuilt: by public parameters, data and `fit`.

A file holds no private state of scikit-learn. Where the public attributes of a class make up what
it has learned, they are set again; where they do not, the class is fitted again on a small table
that leads to the same result (encoders, imputers). Nearest neighbours are in
:mod:`genmetric.files._neighbor_forms`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from genmetric.files._estimators import EstimatorForm
from genmetric.files._probe import Budget, check_names, check_shapes, try_methods

#: Attributes of every fitted estimator.
COMMON = ("n_features_in_", "feature_names_in_")

#: Largest number of categories that are Python objects: each takes some hundred bytes of memory,
#: many times its bytes in a file.
MAX_CATEGORIES = 100_000


def public(estimator: Any, names: Any) -> dict[str, Any]:
    """Return the attributes among `names` that an estimator has."""
    return {name: getattr(estimator, name) for name in names if name in vars(estimator)}


def set_common(estimator: Any, fitted: dict[str, Any]) -> None:
    """Set the names of the features after a fit on an array without names."""
    check_names(fitted)
    if "feature_names_in_" in fitted:
        estimator.feature_names_in_ = fitted["feature_names_in_"]


class ParametersOnly(EstimatorForm):
    """Estimators whose parameters are everything: pipelines of fitted steps, frozen estimators."""

    def rebuild(self, cls: type, parts: dict[str, Any], budget: Budget) -> Any:
        """Return an estimator with the parameters; a pipeline has estimators as steps."""
        parts = {name: part for name, part in parts.items() if name != "output"}
        estimator = super().rebuild(cls, parts, budget)
        for step in getattr(estimator, "steps", [("", getattr(estimator, "estimator", None))]):
            name, inner = step
            if not isinstance(name, str) or not (
                hasattr(inner, "get_params") or inner in ("passthrough", None)
            ):
                raise ValueError(f"{cls.__name__} has a step that is not an estimator")
        if not getattr(estimator, "steps", [True]):
            raise ValueError(f"{cls.__name__} has no steps")
        for _, inner in getattr(estimator, "steps", [])[:-1]:
            if inner not in ("passthrough", None) and not hasattr(inner, "transform"):
                raise ValueError(f"{cls.__name__} has a step that is not a transformer")
        return estimator


class PublicAttributes(EstimatorForm):
    """Estimators whose documented attributes are all that they have learned.

    Parameters
    ----------
    shapes : dict
        Dimensions by attribute; see :func:`genmetric.files._probe.check_shapes`.
    """

    def __init__(self, shapes: dict[str, str]) -> None:
        self._shapes = shapes

    def fitted(self, value: Any) -> dict[str, Any]:
        """Return the attributes."""
        return public(value, (*self._shapes, *COMMON))

    def restore(self, estimator: Any, fitted: dict[str, Any], budget: Budget) -> None:
        """Set the attributes, after a check of their shapes and that methods can be called."""
        if not set(fitted) <= {*self._shapes, *COMMON} or "n_features_in_" not in fitted:
            raise ValueError(f"{type(estimator).__name__} has the attributes {sorted(fitted)}")
        check_shapes(fitted, self._shapes)
        check_names(fitted)
        for name, item in fitted.items():
            setattr(estimator, name, item)
        try_methods(estimator, budget)


class LinearDiscriminant(PublicAttributes):
    """LinearDiscriminantAnalysis: its attributes, after a fit on a small table.

    The fit sets the number of components, which is not a public attribute.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "classes_": "c",
                "priors_": "c",
                "means_": "c d",
                "coef_": "m d",
                "intercept_": "m",
                "scalings_": "d k",
                "xbar_": "d",
                "explained_variance_ratio_": "e",
                "covariance_": "d d",
            }
        )

    def restore(self, estimator: Any, fitted: dict[str, Any], budget: Budget) -> None:
        """Fit on a small table, and set the attributes."""
        from sklearn.base import clone

        sizes = check_shapes(fitted, self._shapes)
        n_components = min(sizes["c"] - 1, sizes["d"])
        if n_components < 1:
            raise ValueError("a discriminant analysis has fewer than two classes")
        # The smallest table with this number of components: its memory is a fraction of that
        # of the attributes.
        budget.use_memory(64 * n_components * (n_components + 2))
        codes = np.arange(n_components + 2) % (n_components + 1)
        table = np.random.RandomState(0).standard_normal((n_components + 2, n_components))
        # The default solver is fast and takes any table; the number of components does not
        # depend on the solver.
        stand_in = clone(estimator).set_params(
            solver="svd", shrinkage=None, covariance_estimator=None, priors=None
        )
        fitted_parameters = estimator.get_params(deep=False)
        estimator.__dict__.update(vars(stand_in.fit(table, codes)))
        estimator.set_params(**fitted_parameters)
        for name in self._shapes:
            if name not in fitted and hasattr(estimator, name):
                delattr(estimator, name)
        super().restore(estimator, fitted, budget)


class CategoryEncoder(EstimatorForm):
    """OneHotEncoder and OrdinalEncoder: their categories, on which they are fitted again."""

    def fitted(self, value: Any) -> dict[str, Any]:
        """Return the categories."""
        if value.min_frequency is not None or value.max_categories is not None:
            raise TypeError(
                f"A {type(value).__name__} that groups infrequent categories (min_frequency, "
                "max_categories) cannot be saved in a model file. Group them before, or use skops."
            )
        fitted = public(value, ("categories_", *COMMON))
        n_objects = sum(len(c) for c in fitted.get("categories_", ()) if c.dtype.kind == "O")
        if n_objects > MAX_CATEGORIES:
            raise ValueError(
                f"{type(value).__name__} has {n_objects} categories that are Python objects; a "
                f"model file holds at most {MAX_CATEGORIES}. Group rare categories before, or use "
                "skops."
            )
        return fitted

    def restore(self, estimator: Any, fitted: dict[str, Any], budget: Budget) -> None:
        """Fit on one sample, with all categories given."""
        categories = fitted["categories_"]
        if not isinstance(categories, list) or len(categories) != fitted["n_features_in_"]:
            raise ValueError("an encoder does not have categories for each feature")
        for each in categories:
            _check_categories(each)
            # Checks and `fit` build sets of the categories.
            budget.use_memory((6 if each.dtype.kind == "O" else 2) * each.nbytes)
        given = estimator.categories
        dtypes = {each.dtype for each in categories}
        dtype = dtypes.pop() if len(dtypes) == 1 else np.dtype(object)
        table = np.empty((1, len(categories)), dtype)
        for j, each in enumerate(categories):
            table[0, j] = each[0]
        estimator.set_params(categories=categories).fit(table)
        # Mixed types become objects in one table.
        estimator.set_params(categories=given).categories_ = categories
        try_methods(estimator, budget, table)
        set_common(estimator, fitted)


def _check_categories(values: Any) -> None:
    """Check that categories are distinct, and sorted if they are searched by bisection."""
    if not isinstance(values, np.ndarray) or values.ndim != 1 or not len(values):
        raise ValueError("the categories of a feature are not a list of values")
    if values.dtype.kind == "O":
        if not all(item is None or isinstance(item, str | int | float | bool) for item in values):
            raise ValueError("a category is not a string or a number")
        names = values.tolist()
        if not all(isinstance(item, str) for item in names):
            names = [repr(item) for item in names]  # 1 and True are different categories
        if len(set(names)) != len(values):
            raise ValueError("the categories of a feature are not distinct")
    elif not np.array_equal(np.unique(values), values, equal_nan=values.dtype.kind == "f"):
        raise ValueError("the categories of a feature are not sorted")


class Imputer(EstimatorForm):
    """SimpleImputer: its statistics, on which it is fitted again."""

    def fitted(self, value: Any) -> dict[str, Any]:
        """Return the statistics and the features with missing values."""
        fitted = public(value, ("statistics_", *COMMON))
        if fitted and value.indicator_ is not None:
            fitted["missing"] = value.indicator_.features_
        return fitted

    def restore(self, estimator: Any, fitted: dict[str, Any], budget: Budget) -> None:
        """Fit on two samples: the statistics, and the same with gaps."""
        statistics = fitted["statistics_"]
        shape = (fitted["n_features_in_"],)
        if not isinstance(statistics, np.ndarray) or statistics.shape != shape:
            raise ValueError("the statistics of an imputer are not one value per feature")
        budget.use_memory(8 * statistics.nbytes)
        values = statistics
        if all(isinstance(value, int | float) for value in statistics):
            # A constant is stored as an object, whatever type the samples had.
            values = statistics.astype(float)
        table = _table_with_gaps(values, fitted.get("missing", ()), estimator.missing_values)
        estimator.fit(table)
        if not _same_values(estimator.statistics_, statistics):
            raise ValueError("the statistics of an imputer do not match its parameters")
        estimator.statistics_ = statistics
        set_common(estimator, fitted)


class Indicator(EstimatorForm):
    """MissingIndicator: the features with missing values, on which it is fitted again."""

    def fitted(self, value: Any) -> dict[str, Any]:
        """Return the features."""
        return public(value, ("features_", *COMMON))

    def restore(self, estimator: Any, fitted: dict[str, Any], budget: Budget) -> None:
        """Fit on two samples with gaps in the features."""
        d = int(fitted["n_features_in_"])
        budget.use_memory(64 * max(d, 0))
        missing = estimator.missing_values
        text = isinstance(missing, str) or missing is None
        values = np.full(d, "a", dtype=object) if text else np.zeros(d)
        if not text and missing == 0:
            values += 1
        estimator.fit(_table_with_gaps(values, fitted["features_"], missing))
        set_common(estimator, fitted)
        try_methods(estimator, budget, _table_with_gaps(values, (), missing))


def _table_with_gaps(values: Any, missing: Any, marker: Any) -> Any:
    """Return a table of two equal samples, with gaps in the second one."""
    table = np.stack([values, values])
    table[1, np.asarray(missing, dtype=np.intp)] = marker
    return table


def _same_values(a: Any, b: Any) -> bool:
    """Return whether two arrays are equal, where missing values equal each other."""
    return a.shape == b.shape and all(
        x is y or x == y or (x != x and y != y)  # noqa: PLR0124
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    )
