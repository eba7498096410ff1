import inspect
import math
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

import genmetric
from genmetric._parameters import (
    BOOLEAN,
    CALLABLE,
    RANDOM_STATE,
    ArrayLike,
    HasMethods,
    Interval,
    check_parameter,
    check_parameters,
    describe,
    is_valid,
)


class Example(BaseEstimator):
    _parameter_rules: ClassVar = {
        "k": [Interval(int, 1)],
        "shrinkage": [None, "auto", Interval(float, 0, 1)],
    }

    def __init__(self, k=3, shrinkage="auto", other=None):
        self.k = k
        self.shrinkage = shrinkage
        self.other = other


@pytest.mark.parametrize("value", [None, "auto", 0, 1, 0.5, np.float32(0.5), np.int64(1)])
def test_valid_values_are_accepted(value):
    check_parameters(Example(shrinkage=value, other=object()))


@pytest.mark.parametrize("value", ["Auto", -0.1, 1.1, math.nan, math.inf, True, [0.5], b"auto"])
def test_invalid_values_are_refused(value):
    with pytest.raises(ValueError, match=r"shrinkage must be None, 'auto' or a number in \[0, 1\]"):
        check_parameters(Example(shrinkage=value))


@pytest.mark.parametrize("value", [0, -1, 1.0, 2.5, True, None, "3"])
def test_integers_are_integers(value):
    with pytest.raises(ValueError, match=r"k must be an integer >= 1; got "):
        check_parameters(Example(k=value))


def test_an_integer_beyond_float64_is_compared_exactly():
    assert Interval(int, 1).accepts(10**400)
    assert not Interval(int, 1, 10).accepts(10**400)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_open_and_closed_ends(x):
    assert Interval(float, x, x).accepts(x)
    assert not Interval(float, x, x, "left").accepts(x)
    assert not Interval(float, x, x, "neither").accepts(x)


def test_rules_describe_themselves():
    rules = [None, "a", Interval(float, 0, 1, "right"), BOOLEAN, CALLABLE, ArrayLike()]
    assert describe(rules) == ("None, 'a', a number in (0, 1], a bool, a callable or an array-like")
    assert describe([Interval(int, 1)]) == "an integer >= 1"
    assert describe([Interval(float)]) == "a finite number"
    assert describe([HasMethods(("fit", "transform"))]) == (
        "an object with the methods fit, transform"
    )


def test_array_like():
    assert all(is_valid(v, [ArrayLike()]) for v in ([1], (1,), np.ones(2)))
    assert not any(is_valid(v, [ArrayLike()]) for v in ("ab", 1, np.float64(1), np.ndarray, None))


def test_random_state():
    assert all(is_valid(v, RANDOM_STATE) for v in (None, 0, np.random.RandomState(0)))
    assert not any(is_valid(v, RANDOM_STATE) for v in (-1, 2**32, "0", 0.5))


def test_a_class_is_not_an_estimator():
    with pytest.raises(ValueError, match="an object with the methods fit"):
        check_parameter(Example, "metric", [HasMethods(("fit",))])


def public_estimators():
    names = [name for name in genmetric.__all__ if inspect.isclass(getattr(genmetric, name))]
    return [getattr(genmetric, n) for n in names if hasattr(getattr(genmetric, n), "get_params")]


@pytest.mark.parametrize("estimator", public_estimators(), ids=lambda cls: cls.__name__)
def test_tables_name_parameters_and_accept_defaults(estimator):
    rules = getattr(estimator, "_parameter_rules", {})
    assert rules.keys() <= inspect.signature(estimator).parameters.keys()
    if rules:
        check_parameters(estimator())
