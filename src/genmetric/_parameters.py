"""Declarative validation of estimator parameters: one table per estimator.

An estimator lists the valid values of its constructor parameters in a class attribute::

    _parameter_rules: ClassVar[ParameterRules] = {
        "n_neighbors": [Interval(int, 1)],
        "shrinkage": [None, "auto", Interval(float, 0, 1)],
    }

and its ``fit`` calls :func:`check_parameters` first. A parameter that is missing from the table is
not checked. scikit-learn has the same mechanism under private names.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np


@runtime_checkable
class Rule(Protocol):
    """One way in which a parameter value can be valid."""

    def accepts(self, value: Any) -> bool:
        """Return whether `value` is valid."""

    def __str__(self) -> str:
        """Return the description used in error messages."""


@dataclass(frozen=True)
class Interval:
    """Numbers in an interval; booleans, NaN and infinity are never accepted.

    Attributes
    ----------
    kind : type
        ``int`` accepts integers only, ``float`` accepts all real numbers.
    low, high : float
        Ends of the interval.
    closed : {"both", "left", "right", "neither"}
        Ends that belong to the interval.
    """

    kind: type[int] | type[float]
    low: float = -math.inf
    high: float = math.inf
    closed: Literal["both", "left", "right", "neither"] = "both"

    def accepts(self, value: Any) -> bool:
        """Return whether `value` is a number of this kind in the interval."""
        expected = Integral if self.kind is int else Real
        if isinstance(value, bool | np.bool_) or not isinstance(value, expected):
            return False
        number: Any = value
        # Comparing integers directly keeps integers beyond the float64 range exact.
        above = number >= self.low if self.closed in ("both", "left") else number > self.low
        below = number <= self.high if self.closed in ("both", "right") else number < self.high
        return bool(above and below) and (isinstance(number, Integral) or math.isfinite(number))

    def __str__(self) -> str:
        noun = "an integer" if self.kind is int else "a number"
        if math.isinf(self.low) and math.isinf(self.high):
            return noun if self.kind is int else "a finite number"
        if math.isinf(self.high):
            return f"{noun} {'>=' if self.closed in ('both', 'left') else '>'} {self.low:g}"
        left = "[" if self.closed in ("both", "left") else "("
        right = "]" if self.closed in ("both", "right") else ")"
        return f"{noun} in {left}{self.low:g}, {self.high:g}{right}"


@dataclass(frozen=True)
class HasMethods:
    """Objects that have the given methods.

    Attributes
    ----------
    names : tuple of str
        The methods.
    """

    names: tuple[str, ...]

    def accepts(self, value: Any) -> bool:
        """Return whether `value` is an object, not a class, with all the methods."""
        return not isinstance(value, type) and all(
            callable(getattr(value, name, None)) for name in self.names
        )

    def __str__(self) -> str:
        return f"an object with the methods {', '.join(self.names)}"


@dataclass(frozen=True)
class InstanceOf:
    """Instances of a type.

    Attributes
    ----------
    type : type or tuple of type
        The types.
    description : str
        The noun in error messages, with its article: "an array-like".
    """

    type: type | tuple[type, ...]
    description: str

    def accepts(self, value: Any) -> bool:
        """Return whether `value` is an instance of one of the types."""
        return isinstance(value, self.type)

    def __str__(self) -> str:
        return self.description


@dataclass(frozen=True)
class ArrayLike:
    """Arrays, lists and tuples, of any shape: the shape is checked where the data is known."""

    description: str = "an array-like"

    def accepts(self, value: Any) -> bool:
        """Return whether `value` is a list, a tuple or an array of at least one dimension."""
        if isinstance(value, list | tuple):
            return True
        return not isinstance(value, str | bytes | type) and len(getattr(value, "shape", ())) > 0

    def __str__(self) -> str:
        return self.description


@dataclass(frozen=True)
class AnyCallable:
    """Callables."""

    def accepts(self, value: Any) -> bool:
        """Return whether `value` can be called."""
        return callable(value)

    def __str__(self) -> str:
        return "a callable"


#: A rule, or a single valid value: ``None``, a string, a boolean.
RuleOrValue: TypeAlias = "Rule | str | bool | None"
ParameterRules: TypeAlias = Mapping[str, Sequence[RuleOrValue]]

BOOLEAN = InstanceOf((bool, np.bool_), "a bool")
CALLABLE = AnyCallable()
RANDOM_STATE: tuple[RuleOrValue, ...] = (
    None,
    Interval(int, 0, 2**32 - 1),
    InstanceOf(
        (np.random.RandomState, np.random.Generator), "a numpy.random.RandomState or Generator"
    ),
)
VERBOSE: tuple[RuleOrValue, ...] = (Interval(int, 0), BOOLEAN)
#: Negative numbers count cores from the end, as in joblib; zero is checked with `n_jobs` itself.
N_JOBS: tuple[RuleOrValue, ...] = (None, Interval(int))


def is_valid(value: Any, rules: Sequence[RuleOrValue]) -> bool:
    """Return whether `value` satisfies one of the rules.

    Parameters
    ----------
    value : object
        Value of a parameter.
    rules : sequence
        Rules and single valid values.

    Returns
    -------
    bool
        Whether one of them accepts the value.
    """
    for rule in rules:
        if rule is None or isinstance(rule, bool):
            if value is rule:
                return True
        elif isinstance(rule, str):
            if isinstance(value, str) and value == rule:
                return True
        elif rule.accepts(value):
            return True
    return False


def describe(rules: Sequence[RuleOrValue]) -> str:
    """Return the valid values as text for an error message.

    Parameters
    ----------
    rules : sequence
        Rules and single valid values.

    Returns
    -------
    str
        For example "None, 'auto' or a number in [0, 1]".
    """
    parts = [str(rule) if isinstance(rule, Rule) else repr(rule) for rule in rules]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"


def check_parameter(value: Any, name: str, rules: Sequence[RuleOrValue]) -> None:
    """Raise a ValueError if a parameter value is invalid.

    Parameters
    ----------
    value : object
        Value of the parameter.
    name : str
        Name of the parameter.
    rules : sequence
        Rules and single valid values.

    Examples
    --------
    >>> from genmetric._parameters import Interval, check_parameter
    >>> check_parameter(2.0, "shrinkage", [None, "auto", Interval(float, 0, 1)])
    Traceback (most recent call last):
    ValueError: shrinkage must be None, 'auto' or a number in [0, 1]; got 2.0.
    """
    if not is_valid(value, rules):
        raise ValueError(f"{name} must be {describe(rules)}; got {reprlib.repr(value)}.")


def check_parameters(estimator: Any) -> None:
    """Raise a ValueError if a constructor parameter of an estimator is invalid.

    Parameters
    ----------
    estimator : estimator
        An object with ``get_params`` and a class attribute ``_parameter_rules``.
    """
    parameters = estimator.get_params(deep=False)
    for name, rules in estimator._parameter_rules.items():
        check_parameter(parameters[name], name, rules)
