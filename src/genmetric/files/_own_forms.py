"""How classes of genmetric are written and rebuilt: parameters and fitted attributes."""

from __future__ import annotations

import types
import typing
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from genmetric.files._estimators import EstimatorForm
from genmetric.files._probe import Budget, check_names, check_shapes, try_methods

#: Dimensions of attributes that mean the same in every estimator; see
#: :func:`genmetric.files._probe.check_shapes`.
SHAPES = {
    "components_": "r d",
    "metric_": "d d",
    "classes_": "c",
    "means_": "m d",
    "covariances_": "m d d",
    "cluster_centers_": "k d",
}

#: Kinds of NumPy types that an annotation of an array accepts: any precision is valid.
KINDS_OF: dict[Any, str] = {
    np.float64: "f",
    np.float32: "f",
    np.intp: "iu",
    np.bool_: "b",
    np.complex128: "c",
}


class OwnEstimator(EstimatorForm):
    """Estimators of genmetric: parameters, and the attributes that `fit` has set.

    Parameters
    ----------
    cells : bool, default=False
        Whether the estimator takes cells of a table, such as strings, instead of numbers.
    """

    def __init__(self, *, cells: bool = False) -> None:
        self._cells = cells

    def fitted(self, value: Any) -> dict[str, Any]:
        """Return the attributes that are not parameters, with arrays of any library in NumPy."""
        from genmetric._array_api import as_numpy, namespace

        parameters = value.get_params(deep=False)
        return {
            name: item if namespace(item) is np else as_numpy(item)
            for name, item in value.__getstate__().items()
            if name not in parameters
            and (name.startswith("_") or name.endswith("_"))
            and not name.startswith("_sklearn")
        }

    def restore(self, estimator: Any, fitted: dict[str, Any], budget: Budget) -> None:
        """Set the attributes, after a check that parameters are valid and methods can be called."""
        from genmetric._parameters import check_parameters

        if hasattr(estimator, "_parameter_rules"):
            check_parameters(estimator)
        arrays = {n: v for n, v in fitted.items() if not hasattr(v, "get_params")}
        check_shapes(arrays, {n: s for n, s in SHAPES.items() if arrays.get(n) is not None})
        check_names(fitted)
        for name, item in fitted.items():
            private, public = name.startswith("_"), name.endswith("_")
            if (
                not name.isidentifier()
                or name.startswith("__")
                or not (private or public)
                or callable(getattr(type(estimator), name, None))
            ):
                raise ValueError(f"{type(estimator).__name__} has no attribute {name[:40]!r}")
            setattr(estimator, name, item)
        if "n_features_in_" in fitted:
            means = fitted.get("means_")
            try_methods(estimator, budget, cells=self._cells)
            if isinstance(means, np.ndarray) and means.ndim == 2:
                try_methods(estimator, budget, np.array(means[:3], dtype=float))


class OwnRecord:
    """Dataclasses and named tuples of genmetric: their fields."""

    def parts(self, value: Any) -> dict[str, Any]:
        """Return the fields."""
        if is_dataclass(value):
            return {field.name: getattr(value, field.name) for field in fields(value)}
        return dict(value._asdict())

    def rebuild(self, cls: type, parts: dict[str, Any], budget: Budget) -> Any:
        """Return an object with the fields, after a check of their types."""
        if not is_dataclass(cls):
            return cls(**parts)
        expected = {field.name for field in fields(cls)}
        if set(parts) != expected:
            raise ValueError(f"{cls.__name__} has the fields {sorted(parts)}")
        hints = _hints(cls)
        for name, value in parts.items():
            if not conforms(value, hints.get(name, Any)):
                raise ValueError(f"{cls.__name__}.{name} has the type {type(value).__name__}")
        made = cls(**{field.name: parts[field.name] for field in fields(cls) if field.init})
        for field in fields(cls):
            if not field.init:
                object.__setattr__(made, field.name, parts[field.name])
        return made


def _hints(cls: type) -> dict[str, Any]:
    """Return the types of the fields; none if a name of them exists only for type checkers."""
    try:
        return typing.get_type_hints(cls)
    except NameError:
        return {}


def conforms(value: Any, hint: Any) -> bool:
    """Return whether a value has the type of a hint, for the hints that files need.

    Parameters
    ----------
    value : object
        Value of a field.
    hint : object
        Type, union, or alias of an array type. Other hints accept every value.

    Returns
    -------
    bool
        Whether the value has the type.

    Examples
    --------
    >>> from genmetric.files._own_forms import conforms
    >>> conforms(1, float | None), conforms("1", float | None)
    (True, False)
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(conforms(value, argument) for argument in arguments)
    if hint is float:
        return isinstance(value, float | int | np.floating) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if hint is type(None):
        return value is None
    if hint in (bool, str, slice):
        return isinstance(value, (hint, np.bool_) if hint is bool else hint)
    if origin is np.ndarray:
        scalar = typing.get_args(arguments[-1])
        kinds = KINDS_OF.get(scalar[0] if scalar else Any)
        return isinstance(value, np.ndarray) and (kinds is None or value.dtype.kind in kinds)
    if origin in (list, tuple, dict):
        return isinstance(value, origin)
    if isinstance(hint, type) and hint.__module__.startswith("genmetric") and is_dataclass(hint):
        return isinstance(value, hint)
    return True
