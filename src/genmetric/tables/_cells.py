"""Columns of a data frame as NumPy arrays, whichever library the frame comes from."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from genmetric._typing import AnyArray, FloatArray

#: Texts that stand for a missing value, in lower case; the case of a cell does not matter.
MISSING_WORDS = (
    "",
    "?",
    "-",
    "--",
    ".",
    "na",
    "n/a",
    "#n/a",
    "#na",
    "<na>",
    "nan",
    "-nan",
    "nat",
    "none",
    "null",
    "nil",
    "missing",
    "unknown",
)

#: Words of true and false, in lower case.
TRUE_WORDS = ("true", "yes", "y", "t", "on", "1")
FALSE_WORDS = ("false", "no", "n", "f", "off", "0")


def is_frame(X: Any) -> bool:
    """Return whether `X` is a pandas or polars data frame."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "shape")


def select_rows(X: Any, rows: AnyArray) -> Any:
    """Return the rows of a frame at the given positions or where a mask is True."""
    positions = np.flatnonzero(rows) if rows.dtype == bool else rows
    return X.iloc[positions] if hasattr(X, "iloc") else X[positions.tolist()]


def column_array(X: Any, name: str) -> AnyArray:
    """Return one column of a frame as an array.

    Parameters
    ----------
    X : DataFrame
        A pandas or polars frame.
    name : str
        The column.

    Returns
    -------
    ndarray of shape (n_rows,)
        float64 for numbers (NaN where missing), int64 for integers without missing values, bool
        for true and false without missing values, datetime64 for dates and times (in UTC), and
        objects for everything else, with None where a value is missing.
    """
    series = X[name]
    return plain_array(_pandas_array(series) if hasattr(series, "iloc") else _polars_array(series))


def plain_array(array: AnyArray) -> AnyArray:
    """Return an array with one of the types of :func:`column_array`."""
    if array.dtype.kind in "iuf":
        whole = array.dtype.kind in "iu" and array.dtype.itemsize <= 8 and array.dtype != np.uint64
        return array.astype(np.int64 if whole else np.float64, copy=False)
    if array.dtype.kind in "UST":
        return array.astype(object)
    return _plain_objects(array) if array.dtype == object else array


def _pandas_array(series: Any) -> AnyArray:
    if hasattr(series, "cat"):
        # The values of the categories: text stays text, and numbers stay numbers.
        series = series.astype(
            series.cat.categories.dtype if len(series.cat.categories) else object
        )
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return np.asarray(series.to_numpy())
    kind = getattr(dtype, "kind", "O")
    if getattr(dtype, "tz", None) is not None:
        return np.asarray(series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if kind == "M":
        return np.asarray(series.to_numpy(dtype="datetime64[us]"))
    has_missing = bool(series.isna().any())
    if kind in "iu" and not has_missing:
        return np.asarray(series.to_numpy(dtype=np.int64))
    if kind in "iuf":
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind == "b" and not has_missing:
        return np.asarray(series.to_numpy(dtype=bool))
    return np.asarray(series.to_numpy(dtype=object))


def _polars_array(series: Any) -> AnyArray:
    dtype = str(series.dtype)
    if dtype.startswith(("Categorical", "Enum")):
        return np.array(series.cast(str).to_list(), dtype=object)
    if dtype.startswith(("Array", "List")):
        return _objects(series.to_list())
    if dtype.startswith("Decimal"):
        return np.asarray(series.cast(float).to_numpy())
    if dtype == "Boolean" and series.null_count():
        return np.array(series.to_list(), dtype=object)
    return np.asarray(series.to_numpy())


def _objects(values: Sequence[Any]) -> AnyArray:
    """Return a one-dimensional array of objects; NumPy would make lists into rows."""
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def _plain_objects(array: AnyArray) -> AnyArray:
    """Replace NaN, NaT and NA by None, and give columns of one plain type the type's array."""
    # Most columns are text; looking at every cell would take most of the time of reading a file.
    if set(map(type, array.tolist())) <= {str, type(None)}:
        return array.copy()
    values = [None if type(v) is not str and is_missing(v) else v for v in array]
    present = [type(value) for value in values if value is not None]
    types = set(present)
    if types and all(issubclass(t, (bool, np.bool_)) for t in types):
        return np.array(values, dtype=bool) if len(present) == len(values) else _objects(values)
    if types and all(issubclass(t, (Real, Decimal)) for t in types):
        numbers = np.array([np.nan if v is None else float(v) for v in values])
        whole = len(present) == len(values) and all(issubclass(t, (int, np.integer)) for t in types)
        fits = whole and np.abs(numbers).max() < 2**53
        return numbers.astype(np.int64) if fits else numbers
    if types and all(issubclass(t, dt.date) for t in types):
        return np.array([as_moment(v) for v in values], dtype="datetime64[us]")
    return _objects(values)


def as_moment(value: Any) -> np.datetime64:
    """Return a date or a time stamp of Python as a NumPy time stamp in UTC."""
    if value is None:
        return np.datetime64("NaT")
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return np.datetime64(value, "us")


def is_missing(value: Any) -> bool:
    """Return whether a cell is None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    if isinstance(value, Decimal):
        return value.is_nan()
    return type(value).__name__ in ("NAType", "NaTType")


def cell_text(value: Any) -> str | None:
    """Return a cell as text without spaces around it; integral floats lose their ".0"."""
    if is_missing(value):
        return None
    if isinstance(value, (float, np.floating)):
        number = float(value)
        value = int(number) if number.is_integer() and abs(number) < 2**53 else number
    elif isinstance(value, np.datetime64):
        value = value.item()
    return str(value).strip()


def cell_texts(array: AnyArray, missing_words: Iterable[str] | None = None) -> list[str | None]:
    """Return the cells of a column as texts, None where missing.

    Parameters
    ----------
    array : ndarray of shape (n_rows,)
        As of :func:`column_array`.
    missing_words : iterable of str, default=None
        Texts that stand for a missing value, compared without regard to case. None is
        :data:`MISSING_WORDS`.

    Returns
    -------
    list of str or None
        One entry per row.
    """
    words = missing_set(missing_words)

    def text(value: Any) -> str | None:
        found = cell_text(value)
        return None if found is None or found.lower() in words else found

    values = array.tolist() if array.dtype.kind in "iufb" else list(array)
    try:
        distinct = set(values)
    except TypeError:  # lists, for example, have no hash
        return [text(value) for value in values]
    known = {value: text(value) for value in distinct}
    return list(map(known.__getitem__, values))


def missing_set(words: Iterable[str] | None) -> frozenset[str]:
    """Return the texts of missing values in lower case; None is :data:`MISSING_WORDS`."""
    return frozenset(w.strip().lower() for w in (MISSING_WORDS if words is None else words))


def count_texts(texts: Iterable[str | None]) -> Counter[str]:
    """Count the texts of a column that are not missing."""
    return Counter(text for text in texts if text is not None)


def is_vector(value: Any) -> bool:
    """Return whether a cell is a list, a tuple or an array of numbers."""
    return isinstance(value, (list, tuple, np.ndarray))


def vector_matrix(array: AnyArray, name: str, length: int | None = None) -> FloatArray:
    """Return a column of vectors as a matrix.

    Parameters
    ----------
    array : ndarray of shape (n_rows,)
        Lists, tuples or arrays of numbers; None gives a row of NaN.
    name : str
        Name of the column, for errors.
    length : int, default=None
        Number of entries that every vector must have; None takes that of the first vector.

    Returns
    -------
    ndarray of shape (n_rows, length)
        The vectors.

    Raises
    ------
    ValueError
        If the lengths differ or a vector holds something other than numbers.
    """
    if length is None:
        length = next((len(v) for v in array if v is not None), 0)
    matrix = np.full((len(array), length), np.nan)
    for i, vector in enumerate(array):
        if vector is None:
            continue
        if not is_vector(vector) or len(vector) != length:
            found = f"{len(vector)} entries" if is_vector(vector) else repr(vector)[:40]
            raise ValueError(
                f"column {name!r}: expected vectors of {length} numbers, found {found} in row {i}."
            )
        try:
            matrix[i] = vector
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"column {name!r}: the vector in row {i} contains values that are not numbers."
            ) from error
    return matrix


def auto_min_count(n_samples: int) -> int:
    """Return the count below which categories are pooled: 1% of the samples and at least 2."""
    return max(2, -(-n_samples // 100))


def truth_words(texts: Sequence[str]) -> bool:
    """Return whether the distinct texts of a column are words of true and false.

    "1" and "0" are numbers, and a single word is a constant.
    """
    words = {text.lower() for text in texts}
    numbers = {"1", "0"}
    return (
        len(words) == 2
        and not words & numbers
        and any(words == {t, f} for t, f in zip(TRUE_WORDS, FALSE_WORDS, strict=True))
    )
