"""Validation at the public door: parameters, samples, labels, weights."""

from __future__ import annotations

import inspect
import math
import reprlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._typing import AnyArray, FloatArray, IntArray

#: Samples and weights are float32 or float64.
FLOATS = [np.float64, np.float32]


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning for the line that called the package, however deep the call is."""
    package = str(Path(__file__).parent)
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(package):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


# Parameters: a class attribute `_parameter_rules` lists the valid values of each, and `fit` calls
# `check_parameters` first. scikit-learn has the same mechanism under private names.


class Rule(NamedTuple):
    """A test of the value of a parameter, and the words for it in error messages."""

    accepts: Callable[[Any], bool]
    words: str


def Interval(
    kind: type[int] | type[float],
    low: float = -math.inf,
    high: float = math.inf,
    closed: Literal["both", "left", "right", "neither"] = "both",
) -> Rule:
    """Return the rule of numbers in an interval; never booleans, NaN or infinity."""
    left, right = closed in ("both", "left"), closed in ("both", "right")

    def accepts(value: Any) -> bool:
        expected = Integral if kind is int else Real
        if isinstance(value, bool | np.bool_) or not isinstance(value, expected):
            return False
        number: Any = value
        inside = low <= number <= high and (left or number > low) and (right or number < high)
        return bool(inside) and (isinstance(number, Integral) or math.isfinite(number))

    noun = "an integer" if kind is int else "a number"
    if math.isinf(high):
        return Rule(accepts, noun if math.isinf(low) else f"{noun} {'>=' if left else '>'} {low:g}")
    ends = f"{'[' if left else '('}{low:g}, {high:g}{']' if right else ')'}"
    return Rule(accepts, f"{noun} in {ends}")


def InstanceOf(types: type | tuple[type, ...], words: str) -> Rule:
    """Return the rule of instances of types."""
    return Rule(lambda value: isinstance(value, types), words)


def HasMethods(names: tuple[str, ...]) -> Rule:
    """Return the rule of objects, not classes, that have the given methods."""

    def accepts(value: Any) -> bool:
        has = all(callable(getattr(value, name, None)) for name in names)
        return has and not isinstance(value, type)

    return Rule(accepts, f"an object with the methods {', '.join(names)}")


def ArrayLike(words: str = "an array-like") -> Rule:
    """Return the rule of lists, tuples and arrays of at least one dimension, of any shape."""

    def accepts(value: Any) -> bool:
        shape = () if isinstance(value, str | bytes | type) else getattr(value, "shape", ())
        return isinstance(value, list | tuple) or len(shape) > 0

    return Rule(accepts, words)


RuleOrValue: TypeAlias = Rule | str | bool | None
ParameterRules: TypeAlias = Mapping[str, Sequence[RuleOrValue]]

BOOLEAN = InstanceOf((bool, np.bool_), "a bool")
CALLABLE = InstanceOf(Callable, "a callable")  # type: ignore[arg-type]
VERBOSE: tuple[RuleOrValue, ...] = (Interval(int, 0), BOOLEAN)
RANDOM_STATE: tuple[RuleOrValue, ...] = (
    None,
    Interval(int, 0, 2**32 - 1),
    InstanceOf((np.random.RandomState, np.random.Generator), "a RandomState or Generator of NumPy"),
)
#: Negative numbers count cores from the end, as in joblib.
N_JOBS: tuple[RuleOrValue, ...] = (None, Interval(int, 1), Interval(int, -math.inf, -1))

#: Parameters that have the same valid values in every estimator, unless it has its own rule.
COMMON_RULES: ParameterRules = {
    "max_iter": [Interval(int, 1)],
    "n_jobs": N_JOBS,
    "random_state": RANDOM_STATE,
    "verbose": VERBOSE,
}


def check_parameter(value: Any, name: str, rules: Sequence[RuleOrValue]) -> None:
    """Raise a ValueError if a parameter value satisfies none of the rules.

    Examples
    --------
    >>> from genmetric._validation import Interval, check_parameter
    >>> check_parameter(2.0, "shrinkage", [None, "auto", Interval(float, 0, 1)])
    Traceback (most recent call last):
    ValueError: shrinkage must be None, 'auto' or a number in [0, 1]; got 2.0.
    """
    for rule in rules:
        if isinstance(rule, Rule):
            valid = rule.accepts(value)
        else:
            valid = isinstance(value, type(rule)) and value == rule
        if valid:
            return
    texts = [rule.words if isinstance(rule, Rule) else repr(rule) for rule in rules]
    expected = f"{', '.join(texts[:-1])} or {texts[-1]}" if len(texts) > 1 else texts[0]
    raise ValueError(f"{name} must be {expected}; got {reprlib.repr(value)}.")


def check_parameters(estimator: Any) -> None:
    """Raise a ValueError if a constructor parameter violates `_parameter_rules`."""
    rules = {**COMMON_RULES, **estimator._parameter_rules}
    for name, value in estimator.get_params(deep=False).items():
        if name in rules:
            check_parameter(value, name, rules[name])


def check_count(value: Any, name: str) -> int:
    """Return `value` if it is an integer of at least 1; raise otherwise."""
    check_parameter(value, name, [Interval(int, 1)])
    return int(value)


def check_make_batches(make_batches: Any) -> None:
    """Raise a TypeError if `make_batches` is not a function."""
    if not callable(make_batches):
        raise TypeError(
            "make_batches must be a function that returns a new iterator of (X, y) each time; got "
            f"{type(make_batches).__name__}. The batches are read more than once."
        )


def check_n_components(n_components: Any, n_features: int) -> int | None:
    """Return `n_components` if it is None or an integer in [1, n_features]; raise otherwise."""
    check_parameter(n_components, "n_components", [None, Interval(int, 1, n_features)])
    return None if n_components is None else int(n_components)


# Samples


def refuse_lazy(X: Any, name: str = "X") -> None:
    """Raise on inputs that scikit-learn would silently load into memory, unmask or misread."""
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    advice = None
    if hasattr(X, "__dask_graph__"):
        advice = (
            f"a dask collection, which this estimator would load into memory. Pass {name}.compute() "
            "if it fits, or use genmetric.dask, which works block by block."
        )
    elif isinstance(X, np.ma.MaskedArray):
        advice = f"a masked array, whose mask would be dropped. Pass {name}.filled(...)."
    elif type(X).__name__ == "LazyFrame" and hasattr(X, "collect"):
        advice = f"a lazy frame. Pass {name}.collect()."
    elif kind in ("m", "M") and X.ndim == 2:
        advice = f"dates or durations ({X.dtype}). Pass numbers, such as days since a fixed date."
    if advice is not None:
        raise TypeError(f"{name} is {advice}")


def form_points(X: Any, preprocessor: Any, estimator: object, *, per_tuple: int = 0) -> Any:
    """Return samples, or tuples of `per_tuple` samples; look up indices with a preprocessor."""
    refuse_lazy(X)
    n_dims = 3 if per_tuple else 2
    # Not ndim, which polars DataFrames lack.
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    if preprocessor is not None and len(shape) == n_dims - 1:
        indices = np.asarray(X)
        if callable(preprocessor):
            rows = np.asarray(preprocessor(indices.ravel()))
        else:
            table = np.asarray(preprocessor)
            try:
                rows = table[indices.ravel()]
            except IndexError as error:
                raise ValueError(
                    f"The preprocessor has {len(table)} samples: {error}. Pass integers below "
                    f"{len(table)}, or samples."
                ) from error
        X = rows.reshape(*indices.shape, *rows.shape[1:])
        shape = X.shape
    if per_tuple and (len(shape) != n_dims or shape[1] != per_tuple):
        raise ValueError(
            f"{type(estimator).__name__} expected an array of shape (n_tuples, {per_tuple}, "
            f"n_features); got shape {tuple(shape)}. Pass tuples of {per_tuple} samples, or indices "
            f"of shape (n_tuples, {per_tuple}) together with a preprocessor."
        )
    return X


def query_rows(estimator: BaseEstimator, X: Any, name: str = "X") -> AnyArray:
    """Validate the samples of a prediction by a fitted estimator; keep float32 and float64."""
    check_is_fitted(estimator)
    refuse_lazy(X, name)
    return np.asarray(validate_data(estimator, X, dtype=FLOATS, reset=False))


def labelled_samples(
    estimator: Any, X: Any, y: Any, *, reset: bool = True, **options: Any
) -> tuple[AnyArray, AnyArray]:
    """Validate samples, or indices of samples with a preprocessor, and their class labels."""
    refuse_lazy(X)
    refuse_lazy(y, "y")
    if getattr(estimator, "preprocessor", None) is not None:
        X = form_points(X, estimator.preprocessor, estimator)
    x, labels = validate_data(estimator, X, y, dtype=FLOATS, reset=reset, **options)
    check_class_labels(labels, type(estimator).__name__)
    return x, labels


def labelled_rows(
    estimator: BaseEstimator, X: Any, y: Any, **options: Any
) -> tuple[AnyArray, AnyArray, AnyArray, IntArray]:
    """Validate samples and class labels; return both, the classes, and the class of each sample."""
    x, labels = labelled_samples(estimator, X, y, **options)
    return x, labels, *encode_classes(labels, type(estimator).__name__)


def warn_unscaled(deviations: FloatArray) -> None:
    """Warn if the standard deviations of the features differ so much that some dominate."""
    # Below rounding a feature is constant.
    deviations = deviations[deviations > 1e-12 * deviations.max(initial=0.0)]
    ratio = deviations.max(initial=1.0) / deviations.min(initial=np.inf)
    if ratio > 100:
        warn_user(
            f"The standard deviations of the features differ by a factor of {ratio:.2g}, and "
            "shrinkage and interpolation regularise towards the Euclidean metric in their units. "
            'Scale the features first, for example by StandardScaler, or use base="pooled".'
        )


def cast_finite(values: FloatArray, dtype: Any, what: str) -> AnyArray:
    """Cast results to `dtype`, the type of the input; raise if they overflow it."""
    with np.errstate(over="ignore"):
        out = values.astype(dtype, copy=False)
    if not np.isfinite(out).all():
        advice = "Multiply" if out.dtype == np.float64 else "Pass X as float64, or multiply"
        raise ValueError(
            f"{what} of some samples of X overflow {out.dtype}. {advice} X by a constant before fit."
        )
    return out


# Weights, priors


def as_numbers(values: Any, name: str) -> FloatArray:
    """Return `values` as a float64 array; raise with `name` if they are not real numbers."""
    refuse_lazy(values, name)
    try:
        if np.asarray(values).dtype.kind != "c":
            return np.asarray(values, dtype=float)
        cause = None
    except (TypeError, ValueError) as error:
        cause = error
    raise ValueError(f"{name} must be real numbers; got {reprlib.repr(values)}.") from cause


def check_weights(
    values: Any, n_samples: int, name: str = "sample_weight", *, allow_zero_sum: bool = False
) -> FloatArray:
    """Return weights as float64; raise if any is negative or not finite, or if all are zero."""
    weights = as_numbers(values, name)
    if weights.ndim == 0:
        weights = np.full(n_samples, float(weights))
    if weights.shape != (n_samples,):
        raise ValueError(
            f"{name} must have one number per sample, shape ({n_samples},); got shape "
            f"{weights.shape}."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        worst = "NaN or infinite" if not np.isfinite(weights).all() else "negative"
        raise ValueError(
            f"{name} has {worst} entries. Weights are frequencies: weight 2 equals repeating the "
            "sample, 0 equals dropping it."
        )
    if not weights.any():
        if allow_zero_sum:
            return weights
        raise ValueError(f"{name} is zero for all samples. At least one weight must be positive.")
    if not 1e-100 <= weights.max() <= 1e100:
        raise ValueError(
            f"{name} has weights of up to {weights.max():g}, whose sums leave the range of float64. "
            "Multiply the weights by a constant."
        )
    return weights


def check_priors(priors: Any, n_classes: int) -> FloatArray | None:
    """Return the logarithms of class priors, or None for equal priors."""
    if priors is None:
        return None
    p = as_numbers(priors, "priors")
    if p.shape != (n_classes,) or not (np.isfinite(p).all() and (p > 0).all()):
        raise ValueError(
            f"priors must be {n_classes} positive numbers, one per class in the order of classes_; "
            f"got {priors!r}."
        )
    return np.asarray(np.log(p / p.sum()))


# Class labels

#: Estimators for numeric targets, by the estimators for classes.
FOR_NUMBERS = {
    "GenerativeMetricCV": "GenerativeRegressionMetricCV",
    "LMNN": "MLKR",
    "LocalMetricClassifier": "KernelRegressor",
    "EnergyClassifier": "KernelRegressor",
}


def is_quantity(values: AnyArray) -> bool:
    """Return whether numbers are a quantity: many distinct ones that rarely repeat."""
    distinct = len(np.unique(values))
    whole = bool((values == np.floor(values)).all())
    return distinct > 20 and distinct > len(values) / (4 if whole else 20)


def check_class_labels(labels: AnyArray, name: str) -> None:
    """Raise if labels are not classes, and warn if they look like numeric targets."""
    instead = f"genmetric.{FOR_NUMBERS.get(name, 'GenerativeRegressionMetric')}"
    try:
        check_classification_targets(labels)
    except ValueError as error:
        if not type_of_target(labels).startswith("continuous"):
            raise
        fraction = labels[labels != np.floor(labels)][0]
        # The first words are those of scikit-learn, which its checks of estimators look for.
        raise ValueError(
            f"Unknown label type: continuous. {name} expects class labels; got numbers with "
            f"fractions, such as {fraction:g}. For numeric targets use {instead}. If each number is "
            "the name of a class, pass y.astype(str)."
        ) from error
    # Integers may be identifiers of thousands of classes; floats, such as 151.0, hardly are.
    if labels.dtype.kind == "f" and is_quantity(labels):
        warn_user(
            f"y has {len(np.unique(labels))} distinct numbers in {len(labels)} samples, each of "
            f"which is a class for {name}. For numeric targets use {instead}; if the numbers are "
            "names of classes, pass integers."
        )


def encode_classes(y: AnyArray, name: str) -> tuple[AnyArray, IntArray]:
    """Return the sorted class names and the class index of each sample; raise for one class."""
    classes, codes = np.unique(y, return_inverse=True)
    if classes.dtype.kind == "M" and np.isnat(classes).any():
        raise ValueError("y has missing dates (NaT). Drop these samples, or label them.")
    if len(classes) < 2:
        raise ValueError(
            f"{name} needs samples of at least 2 classes; got 1 class, {classes.tolist()[0]!r}. "
            "Check y (and sample_weight, since samples of weight zero are dropped)."
        )
    return classes, codes


def codes_among(classes: AnyArray, labels: AnyArray, name: str, advice: str) -> IntArray:
    """Return the index of each label among sorted classes; raise on other labels."""
    codes = np.searchsorted(classes, labels)
    known = classes[np.minimum(codes, len(classes) - 1)] == labels
    if not np.all(known):
        strange = np.unique(labels[~np.asarray(known)])
        raise ValueError(
            f"{name} has labels {strange.tolist()} that are not among the classes "
            f"{classes.tolist()}. {advice}"
        )
    return np.asarray(codes, np.intp)


def rows_by_class(codes: IntArray, n_classes: int) -> list[IntArray]:
    """Return the indices of the samples of each class, ascending, in one sort for all classes."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes, minlength=n_classes))[:-1])


# Numeric targets


def numeric_targets(estimator: BaseEstimator, X: Any, y: Any) -> tuple[AnyArray, FloatArray]:
    """Validate the samples and numeric targets of a regression `fit`."""
    refuse_lazy(X)
    if y is not None:
        y = batch_targets(estimator, y)
    x, targets = validate_data(estimator, X, y, dtype=FLOATS, y_numeric=True, ensure_min_samples=2)
    return x, targets


def batch_targets(estimator: Any, y: Any) -> FloatArray:
    """Validate numeric targets, which may be empty."""
    name = type(estimator).__name__
    refuse_lazy(y, "y")
    try:
        values = np.asarray(y)
        if values.dtype.kind in "mM":
            raise TypeError("dates are not numbers")
        # check_array refuses complex numbers, with the error that scikit-learn expects.
        values = values if values.dtype.kind == "c" else values.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} expects numeric targets; got y = {reprlib.repr(y)}. For class labels use "
            "genmetric.GenerativeMetric and a classifier."
        ) from error
    values = check_array(values, ensure_2d=False, ensure_min_samples=0, input_name="y")
    targets: FloatArray = column_or_1d(values, warn=True)
    if np.abs(targets).max(initial=0.0) > 1e140:
        raise ValueError("y has values whose squares overflow float64. Divide y by a constant.")
    return targets
