"""Input validation that scikit-learn does not cover."""

from __future__ import annotations

import reprlib
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._labels import check_class_labels, warn_about_quantities
from genmetric._typing import AnyArray, FloatArray, IntArray

#: Supported range of the sum of weights; products and quotients of sums stay finite.
SMALLEST_TOTAL, LARGEST_TOTAL = 1e-100, 1e100

#: Largest absolute value of a numeric target; sums of squares stay finite.
MAX_TARGET = 1e140


def refuse_lazy(X: Any, name: str = "X") -> None:
    """Raise on inputs that scikit-learn would silently load into memory or unmask.

    Parameters
    ----------
    X : object
        Input as passed by the user.
    name : str, default="X"
        Name of the input in the error.
    """
    if hasattr(X, "__dask_graph__"):
        raise TypeError(
            f"{name} is a dask collection, which this estimator would load into memory. Pass "
            f"{name}.compute() if it fits, or use genmetric.dask.DaskGenerativeMetric, which works "
            "block by block."
        )
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose mask would be dropped. Pass {name}.filled(...), or "
            "drop the samples with masked entries."
        )
    if type(X).__name__ == "LazyFrame" and hasattr(X, "collect"):
        raise TypeError(f"{name} is a lazy frame. Pass {name}.collect().")
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if kind == "T":
        raise TypeError(
            f"{name} has NumPy's StringDType, which scikit-learn does not support. Pass "
            f"{name}.astype(str)."
        )
    if kind in ("m", "M") and X.ndim == 2:
        raise TypeError(
            f"{name} contains dates or durations ({X.dtype}), whose unit and missing values would "
            "become numbers. Pass numbers, such as days since a fixed date."
        )


def as_number(value: Any) -> float | None:
    """Return `value` as float, or None if it is not a real number (bools are rejected)."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return None
    return float(value)


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


def check_fraction(value: Any, name: str) -> float:
    """Return `value` if it is a number in [0, 1]; raise otherwise."""
    number = as_number(value)
    if number is None or not 0 <= number <= 1:
        raise ValueError(f"{name} must be a number in [0, 1]; got {value!r}.")
    return number


def check_count(value: Any, name: str) -> int:
    """Return `value` if it is an integer of at least 1; raise otherwise."""
    number = as_number(value)
    if isinstance(value, Integral) and number is not None and number >= 1:
        return int(number)
    raise ValueError(f"{name} must be an integer of at least 1; got {value!r}.")


def check_n_components(n_components: Any, n_features: int) -> int | None:
    """Return `n_components` if it is None or an integer in [1, n_features]; raise otherwise."""
    if n_components is None:
        return None
    number = as_number(n_components)
    if isinstance(n_components, Integral) and number is not None and 1 <= number <= n_features:
        return int(number)
    raise ValueError(
        f"n_components must be None or an integer in [1, {n_features}]; got {n_components!r}."
    )


def check_weights(
    values: Any, n_samples: int, name: str = "sample_weight", *, allow_zero_sum: bool = False
) -> FloatArray:
    """Return weights as float64; raise if any is negative or not finite, or if all are zero.

    Parameters
    ----------
    values : array-like of shape (n_samples,) or float
        Weights as passed; a single number is used for all samples.
    n_samples : int
        Number of samples.
    name : str, default="sample_weight"
        Name of the weights in errors.
    allow_zero_sum : bool, default=False
        Whether all weights may be zero.

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
            f"{name} must have one number per sample, shape ({n_samples},); got shape "
            f"{weights.shape}."
        )
    if not np.isfinite(weights).all():
        raise ValueError(f"{name} has NaN or infinite entries. Pass finite weights.")
    if (weights < 0).any():
        raise ValueError(
            f"{name} has negative entries (the smallest is {weights.min():g}). Weights are "
            "frequencies: weight 2 equals repeating the sample, 0 equals dropping it."
        )
    if not allow_zero_sum and not weights.any():
        raise ValueError(f"{name} is zero for all samples. At least one weight must be positive.")
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if total and not SMALLEST_TOTAL <= total <= LARGEST_TOTAL:
        raise ValueError(
            f"{name} sums to {total:g}, outside the supported range [{SMALLEST_TOTAL:g}, "
            f"{LARGEST_TOTAL:g}]. Multiply the weights by a constant."
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


def check_groups(groups: Any, cv: Any, n_samples: int) -> AnyArray | None:
    """Return the groups of the samples as an array; raise if `cv` would divide them.

    Parameters
    ----------
    groups : array-like of shape (n_samples,) or None
        Group labels as passed.
    cv : int, splitter, iterable or None
        Splits as passed.
    n_samples : int
        Number of samples.

    Returns
    -------
    ndarray of shape (n_samples,) or None
        Group labels.
    """
    if groups is None:
        return None
    if cv is None or isinstance(cv, int | np.integer):
        raise ValueError(
            f"groups needs a cv that keeps groups together; got cv={cv!r}, whose folds would divide "
            "them. Pass a splitter, such as cv=GroupKFold(5)."
        )
    labels = np.asarray(groups)
    if labels.shape != (n_samples,):
        raise ValueError(
            f"groups must have one label per sample, shape ({n_samples},); got shape "
            f"{labels.shape}."
        )
    return labels


def encode_classes(y: AnyArray, name: str) -> tuple[AnyArray, IntArray]:
    """Return the sorted class names and the class index of each sample; raise for one class.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels of any type that can be sorted.
    name : str
        Name of the estimator in the error.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        Class names, sorted.
    codes : ndarray of shape (n_samples,)
        Indices into `classes`.
    """
    classes, codes = np.unique(y, return_inverse=True)
    if classes.dtype.kind == "M" and np.isnat(classes).any():
        raise ValueError("y has missing dates (NaT). Drop these samples, or label them.")
    if len(classes) < 2:
        only = classes[0] if classes.dtype.kind == "M" else classes.tolist()[0]
        raise ValueError(
            f"{name} needs samples of at least 2 classes; got 1 class, {only!r}. Check y (and "
            "sample_weight, since samples of weight zero are dropped)."
        )
    return classes, codes


def codes_among(classes: AnyArray, labels: AnyArray, name: str, advice: str) -> IntArray:
    """Return the class index of each label; raise on labels that are not among the classes.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Class names, ascending.
    labels : ndarray of shape (n_samples,)
        Labels.
    name, advice : str
        Name of the labels, and advice, in the error.

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
            f"{name} has labels {strange.tolist()} that are not among the classes "
            f"{classes.tolist()}. {advice}"
        )
    return np.asarray(codes, np.intp)


def rows_by_class(codes: IntArray, n_classes: int) -> list[IntArray]:
    """Return the indices of the samples of each class, ascending, in one sort for all classes.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric._validation import rows_by_class
    >>> rows_by_class(np.array([0, 2, 0]), 3)
    [array([0, 2]), array([], dtype=int64), array([1])]
    """
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=n_classes))
    return np.split(order, ends[:-1])


def weighted_rows(
    estimator: BaseEstimator, X: Any, sample_weight: Any
) -> tuple[FloatArray, FloatArray]:
    """Validate samples and weights; drop samples of weight zero. Default weights are one.

    Parameters
    ----------
    estimator : estimator
        Estimator that stores the number and names of the features.
    X : array-like of shape (n_samples, n_features)
        Samples.
    sample_weight : array-like of shape (n_samples,) or None
        Frequency weights.

    Returns
    -------
    x : ndarray of shape (n_kept, n_features)
        Samples of positive weight, float64.
    weight : ndarray of shape (n_kept,)
        Their weights.
    """
    refuse_lazy(X)
    x = validate_data(estimator, X, dtype=np.float64)
    if sample_weight is None:
        return x, np.ones(len(x))
    weight = check_weights(sample_weight, len(x))
    return x[weight > 0], weight[weight > 0]


def query_rows(estimator: BaseEstimator, X: Any, name: str = "X") -> AnyArray:
    """Validate the samples of a prediction by a fitted estimator; keep float32 and float64."""
    check_is_fitted(estimator)
    refuse_lazy(X, name)
    x = validate_data(estimator, X, dtype=[np.float64, np.float32], reset=False)
    return np.asarray(x)


def labelled_rows(
    estimator: BaseEstimator, X: Any, y: Any, **options: Any
) -> tuple[AnyArray, AnyArray, AnyArray, IntArray]:
    """Validate the samples and class labels of a `fit`; keep float32 and float64.

    Parameters
    ----------
    estimator : estimator
        Estimator that stores the number and names of the features.
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,)
        Class labels.
    **options : dict
        Passed to :func:`sklearn.utils.validation.validate_data`.

    Returns
    -------
    x : ndarray of shape (n_samples, n_features)
        Samples.
    labels : ndarray of shape (n_samples,)
        Labels.
    classes, codes
        As :func:`encode_classes` returns.
    """
    refuse_lazy(X)
    refuse_lazy(y, "y")
    x, labels = validate_data(estimator, X, y, dtype=[np.float64, np.float32], **options)
    name = type(estimator).__name__
    check_class_labels(labels, name)
    warn_about_quantities(labels, name)
    return x, labels, *encode_classes(labels, name)


def form_points(X: Any, preprocessor: Any, estimator: object, *, per_tuple: int = 0) -> Any:
    """Return the samples of `X`; look them up with a preprocessor if `X` has indices.

    Parameters
    ----------
    X : array-like
        Samples of shape (n, n_features) or, with a preprocessor, indices of shape (n,). Tuples of
        samples have one more axis.
    preprocessor : array-like, callable or None
        Maps a 1D array of indices to samples.
    estimator : object
        Estimator whose name is in the errors.
    per_tuple : int, default=0
        Number of samples in a tuple; 0 for samples.

    Returns
    -------
    array-like
        `X` itself if it has samples, else the samples that were looked up.
    """
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
    # Other shapes of samples are left to scikit-learn's validation.
    if per_tuple and (len(shape) != n_dims or shape[1] != per_tuple):
        raise ValueError(
            f"{type(estimator).__name__} expected an array of shape (n_tuples, {per_tuple}, "
            f"n_features); got shape {tuple(shape)}. Pass tuples of {per_tuple} samples, or indices "
            "of shape (n_tuples, "
            f"{per_tuple}) together with a preprocessor."
        )
    return X


def numeric_targets(estimator: BaseEstimator, X: Any, y: Any) -> tuple[AnyArray, FloatArray]:
    """Validate the samples and numeric targets of a regression `fit`.

    Parameters
    ----------
    estimator : estimator
        Estimator that stores the number and names of the features.
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,)
        Targets.

    Returns
    -------
    x : ndarray of shape (n_samples, n_features)
        Samples, float32 or float64.
    targets : ndarray of shape (n_samples,)
        Targets, float64.
    """
    refuse_lazy(X)
    _check_numbers(estimator, y)
    x, targets = validate_data(
        estimator, X, y, dtype=[np.float64, np.float32], y_numeric=True, ensure_min_samples=2
    )
    return x, _check_size(np.asarray(targets, dtype=float))


def batch_targets(estimator: Any, y: Any) -> FloatArray:
    """Validate the numeric targets of a batch, which may be empty.

    Parameters
    ----------
    estimator : estimator
        Estimator that errors name.
    y : array-like of shape (n_samples,)
        Targets.

    Returns
    -------
    ndarray of shape (n_samples,)
        Targets, float64.
    """
    _check_numbers(estimator, y)
    name = type(estimator).__name__
    options: Any = {"ensure_2d": False, "ensure_min_samples": 0, "input_name": "y"}
    targets = check_array(y, dtype=np.float64, estimator=name, **options)
    return _check_size(column_or_1d(targets))


def _check_numbers(estimator: Any, y: Any) -> None:
    """Raise a ValueError that names the estimators for classes if targets are not numbers."""
    refuse_lazy(y, "y")
    values = np.asarray(y)
    # Text, dates and categories, but not Python numbers.
    numeric = values.dtype.kind in "iufbc" or y is None
    if values.dtype.kind == "O" and not any(isinstance(v, str | bytes) for v in values.flat):
        with suppress(TypeError, ValueError):
            numeric = np.asarray(y, dtype=float) is not None
    if not numeric:
        raise ValueError(
            f"{type(estimator).__name__} expects numeric targets; got y = {reprlib.repr(y)}. Convert "
            "numbers that are text with y.astype(float). For class labels use "
            "genmetric.GenerativeMetric and a classifier."
        )


def _check_size(targets: FloatArray) -> FloatArray:
    """Raise a ValueError if the squares of targets overflow; return them."""
    size = float(np.abs(targets).max(initial=0.0))
    if size > MAX_TARGET:
        raise ValueError(
            f"y has values up to {size:.1e}, whose squares overflow float64. Divide y by a constant."
        )
    return targets
