"""Checks of what users pass in, where scikit-learn's own would be silent or unclear."""

from __future__ import annotations

import reprlib
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from genmetric._typing import AnyArray, FloatArray, IntArray

#: Sums of weights that leave room for what they multiply and divide.
SMALLEST_TOTAL, LARGEST_TOTAL = 1e-100, 1e100


def refuse_lazy(X: Any, name: str = "X") -> None:
    """Refuse what scikit-learn would quietly load, or strip of its mask.

    Parameters
    ----------
    X : object
        What the user passed.
    name : str, default="X"
        Its name in the error.
    """
    if hasattr(X, "__dask_graph__"):
        raise TypeError(
            f"{name} is a dask collection, which this estimator would load into memory whole. Pass "
            f"{name}.compute() if it fits, or use genmetric.dask.DaskGenerativeMetric, which works "
            "block by block."
        )
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose mask would be dropped. Pass {name}.filled(...), or "
            "drop the rows with masked entries."
        )
    if type(X).__name__ == "LazyFrame" and hasattr(X, "collect"):
        raise TypeError(f"{name} is a lazy frame. Pass {name}.collect().")
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if kind == "T":
        raise TypeError(
            f"{name} has NumPy's StringDType, which scikit-learn does not know. Pass "
            f"{name}.astype(str)."
        )
    if kind in ("m", "M") and X.ndim == 2:
        raise TypeError(
            f"{name} holds dates or durations ({X.dtype}), whose unit and missing values would "
            "become numbers. Pass numbers, such as days since a date of your choice."
        )


def as_number(value: Any) -> float | None:
    """The value as a float, or None where it is no number (a bool is none)."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return None
    return float(value)


def as_numbers(values: Any, name: str) -> FloatArray:
    """The values as a float64 array; an error that gives their name where they are no numbers."""
    refuse_lazy(values, name)
    try:
        if np.asarray(values).dtype.kind != "c":
            return np.asarray(values, dtype=float)
        cause = None
    except (TypeError, ValueError) as error:
        cause = error
    raise ValueError(f"{name} must be real numbers; got {reprlib.repr(values)}.") from cause


def cast_finite(values: FloatArray, dtype: Any, what: str) -> AnyArray:
    """Results as the type of the rows they come from; an error where they are too large for it."""
    with np.errstate(over="ignore"):
        out = values.astype(dtype, copy=False)
    if not np.isfinite(out).all():
        advice = "Multiply" if out.dtype == np.float64 else "Pass X as float64, or multiply"
        raise ValueError(
            f"{what} of some rows of X are beyond the largest {out.dtype}. {advice} X by a constant "
            "before fit."
        )
    return out


def check_fraction(value: Any, name: str) -> float:
    """Return `value` if it is a number in [0, 1]; raise otherwise."""
    number = as_number(value)
    if number is None or not 0 <= number <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1; got {value!r}.")
    return number


def check_count(value: Any, name: str) -> int:
    """Return `value` if it is a whole number of at least 1; raise otherwise."""
    number = as_number(value)
    if isinstance(value, Integral) and number is not None and number >= 1:
        return int(number)
    raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")


def check_n_components(n_components: Any, n_features: int) -> int | None:
    """Return `n_components` if it is None or a whole number in [1, n_features]."""
    if n_components is None:
        return None
    number = as_number(n_components)
    if isinstance(n_components, Integral) and number is not None and 1 <= number <= n_features:
        return int(number)
    # The text metric-learn's users and tests know.
    raise ValueError(f"Invalid n_components, must be in [1, {n_features}]")


def check_weights(
    values: Any, n_samples: int, name: str = "sample_weight", *, allow_zero_sum: bool = False
) -> FloatArray:
    """Return weights as float64 if they are finite, not negative and not all zero.

    Parameters
    ----------
    values : array-like of shape (n_samples,) or float
        Weights as passed; a single number stands for all rows.
    n_samples : int
        How many there have to be.
    name : str, default="sample_weight"
        Their name in errors.
    allow_zero_sum : bool, default=False
        Whether all may be zero.

    Returns
    -------
    ndarray of shape (n_samples,)
        The weights.
    """
    weights = as_numbers(values, name)
    if weights.ndim == 0:
        weights = np.full(n_samples, float(weights))
    if weights.shape != (n_samples,):
        raise ValueError(
            f"{name} must be one number a row, shape ({n_samples},); got shape {weights.shape}."
        )
    if not np.isfinite(weights).all():
        raise ValueError(f"{name} has NaN or infinite entries. Give every row a finite weight.")
    if (weights < 0).any():
        raise ValueError(
            f"{name} has negative entries (the smallest is {weights.min():g}). Weights are "
            "frequencies: 2 is the row twice, 0 is absent."
        )
    if not allow_zero_sum and not weights.any():
        raise ValueError(f"{name} is zero for every row, so there is nothing to learn from.")
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if total and not SMALLEST_TOTAL <= total <= LARGEST_TOTAL:
        raise ValueError(
            f"{name} adds up to {total:g}, too far from one for sums and quotients. Multiply the "
            "weights by a constant."
        )
    return weights


def check_priors(priors: Any, n_classes: int) -> FloatArray | None:
    """Return the logarithms of class priors, or None where they are equal."""
    if priors is None:
        return None
    p = as_numbers(priors, "priors")
    if p.shape != (n_classes,) or not (np.isfinite(p).all() and (p > 0).all()):
        raise ValueError(
            f"priors must be {n_classes} positive numbers, one a class in the order of classes_; "
            f"got {priors!r}."
        )
    return np.asarray(np.log(p / p.sum()))


def encode_classes(y: AnyArray, estimator: Any) -> tuple[AnyArray, IntArray]:
    """Return the sorted class names and the class index of each row; refuse a single class.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels of any kind that sorts.
    estimator : object
        Whose name the error gives.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        Names.
    codes : ndarray of shape (n_samples,)
        Indices into `classes`.
    """
    classes, codes = np.unique(y, return_inverse=True)
    if classes.dtype.kind == "M" and np.isnat(classes).any():
        raise ValueError("y has missing dates (NaT). Drop those rows, or give them a label.")
    if len(classes) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs rows of at least 2 classes; got 1 class, "
            f"{classes[0]!r}. Check y (and sample_weight, which may leave out a class)."
        )
    return classes, codes


def codes_among(classes: AnyArray, labels: AnyArray, name: str, advice: str) -> IntArray:
    """Class index of labels whose classes are known.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Class names, ascending.
    labels : ndarray of shape (n_samples,)
        Labels.
    name, advice : str
        Name of the labels, and what to do, in the error where one is no class.

    Returns
    -------
    ndarray of shape (n_samples,)
        Indices into `classes`.
    """
    codes = np.searchsorted(classes, labels)
    known = classes[np.minimum(codes, len(classes) - 1)] == labels
    if not np.all(known):
        strange = np.unique(labels[~np.asarray(known)])
        raise ValueError(
            f"{name} has labels {strange.tolist()} that are none of the classes "
            f"{classes.tolist()}. {advice}"
        )
    return np.asarray(codes, np.intp)


def weighted_rows(estimator: Any, X: Any, sample_weight: Any) -> tuple[FloatArray, FloatArray]:
    """Validated rows that have a weight, float64, and their weights; one each without any.

    Parameters
    ----------
    estimator : estimator
        Takes the number and the names of the features.
    X : array-like of shape (n_samples, n_features)
        Rows.
    sample_weight : array-like of shape (n_samples,) or None
        Frequencies.

    Returns
    -------
    x : ndarray of shape (n_rows, n_features)
        The rows.
    weight : ndarray of shape (n_rows,)
        Positive.
    """
    refuse_lazy(X)
    x = validate_data(estimator, X, dtype=np.float64)
    if sample_weight is None:
        return x, np.ones(len(x))
    weight = check_weights(sample_weight, len(x))
    return x[weight > 0], weight[weight > 0]


def labelled_rows(
    estimator: Any, X: Any, y: Any, **options: Any
) -> tuple[AnyArray, AnyArray, AnyArray, IntArray]:
    """Validated rows and class labels of a `fit`, float32 or float64.

    Parameters
    ----------
    estimator : estimator
        Takes the number and the names of the features.
    X : array-like of shape (n_samples, n_features)
        Rows.
    y : array-like of shape (n_samples,)
        Class labels.
    **options : dict
        Passed on to :func:`sklearn.utils.validation.validate_data`.

    Returns
    -------
    x : ndarray of shape (n_samples, n_features)
        The rows.
    labels : ndarray of shape (n_samples,)
        The labels.
    classes, codes
        As :func:`encode_classes` returns.
    """
    refuse_lazy(X)
    refuse_lazy(y, "y")
    x, labels = validate_data(estimator, X, y, dtype=[np.float64, np.float32], **options)
    check_classification_targets(labels)
    return x, labels, *encode_classes(labels, estimator)


def form_points(X: Any, preprocessor: Any, estimator: Any, *, per_tuple: int = 0) -> Any:
    """Look up rows by a preprocessor where indices came instead of rows.

    Parameters
    ----------
    X : array-like
        Rows of shape (n, n_features) or, with a preprocessor, indices of shape (n,). For tuples
        one axis more.
    preprocessor : array-like, callable or None
        Maps a 1-D array of indices to rows.
    estimator : object
        Whose name errors give.
    per_tuple : int, default=0
        Points in a tuple; 0 for plain rows.

    Returns
    -------
    array-like
        `X` itself where it holds rows already, the looked-up rows otherwise.
    """
    refuse_lazy(X)
    n_dims, kind = (3, "tuples") if per_tuple else (2, "points")
    # Not ndim: a polars frame has a shape alone.
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
                    f"The preprocessor has no such rows: {error}. Pass whole numbers below "
                    f"{len(table)}, or rows."
                ) from error
        X = rows.reshape(*indices.shape, *rows.shape[1:])
        shape = X.shape
    # Texts as in metric-learn, so that a switch of package keeps working handlers and tests.
    if len(shape) != n_dims and (per_tuple or len(shape) < n_dims):
        raise ValueError(
            f"{n_dims}D array of formed {kind} expected by {type(estimator).__name__}. Found "
            f"{len(shape)}D array instead:\ninput={X}. Reshape your data and/or use a "
            "preprocessor.\n"
        )
    if per_tuple and shape[1] != per_tuple:
        raise ValueError(
            f"Tuples of {per_tuple} element(s) expected by {type(estimator).__name__}. Got tuples "
            f"of {shape[1]} element(s) instead (shape={shape}):\ninput={X}.\n"
        )
    return X
