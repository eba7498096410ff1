"""A scikit-learn ColumnTransformer built from the plan of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from genmetric.tables._cells import MISSING_WORDS
from genmetric.tables._columns import ColumnPlan
from genmetric.tables._encoders import (
    BooleanParser,
    CategoryPooler,
    NumberParser,
)
from genmetric.tables._errors import TableError
from genmetric.tables._expanders import DateEncoder, VectorExpander
from genmetric.tables._plan import TablePlan


def make_preprocessor(plan: TablePlan) -> ColumnTransformer:
    """Build the transformer that turns the columns of a table into features.

    Numbers, booleans, dates and vectors are read and missing values are imputed by the mean, with
    an indicator feature for columns where more than 5% are missing. Categories are one-hot
    encoded, with one feature for two values; rare and unknown ones share the category "other".
    Nothing is scaled.

    Parameters
    ----------
    plan : TablePlan
        As :func:`plan_columns` made it.

    Returns
    -------
    ColumnTransformer
        Not fitted. It takes data frames with the columns of the plan in any order; other columns
        are ignored.

    Examples
    --------
    >>> import pandas as pd
    >>> from genmetric.tables import make_preprocessor, plan_columns
    >>> frame = pd.DataFrame({"size": [1.5, None, 3.5, 2.0], "colour": ["red", "blue"] * 2})
    >>> columns = make_preprocessor(plan_columns(frame))
    >>> columns.fit(frame).get_feature_names_out().tolist()
    ['size', 'missingindicator_size', 'colour_red']
    """
    words = _missing_words(plan)
    groups: dict[tuple[Any, ...], list[str]] = {}
    for column in plan.columns:
        if column.kind != "left out":
            groups.setdefault(_group(column), []).append(column.name)
    if not groups:
        raise TableError("no column is left as a feature.")
    order = sorted(groups, key=lambda group: _KINDS.index(group[0]))
    used: dict[str, int] = {}
    steps = []
    for group in order:
        number = used[group[0]] = used.get(group[0], 0) + 1
        name = group[0] if number == 1 else f"{group[0]}_{number}"
        steps.append((name, _pipeline(group, words), groups[group]))
    return ColumnTransformer(steps, remainder="drop", verbose_feature_names_out=False)


_KINDS = ("number", "boolean", "date", "category", "vector")


def _missing_words(plan: TablePlan) -> list[str] | None:
    """Return the words of missing values with the cells that the plan ignores; None if usual."""
    bad = [word for column in plan.columns for word in column.bad_words]
    if not bad and plan.missing_words is None:
        return None
    usual = MISSING_WORDS if plan.missing_words is None else plan.missing_words
    return list(dict.fromkeys([*usual, *(word.lower() for word in bad)]))


def _group(column: ColumnPlan) -> tuple[Any, ...]:
    """Return what columns must share to go through one transformer."""
    if column.kind == "number":
        f = column.format
        return ("number", column.indicator, f.decimal, f.thousands, f.percent, f.unit)
    if column.kind == "date":
        return ("date", column.indicator, column.date_format)
    if column.kind == "category":
        return ("category", column.indicator, column.binary)
    return (column.kind, column.indicator)


def _pipeline(group: tuple[Any, ...], words: Sequence[str] | None) -> Pipeline:
    kind, indicator, *details = group
    # A column that is empty in one fold of a cross-validation must stay a column.
    impute = SimpleImputer(add_indicator=indicator, keep_empty_features=True)
    if kind == "category":
        # Two features for two values would be each other's negatives and count twice.
        (binary,) = details
        drop = "if_binary" if binary else None
        encode = OneHotEncoder(drop=drop, handle_unknown="ignore", sparse_output=False)
        return Pipeline(
            [
                ("pool", CategoryPooler(binary=binary, missing_words=words)),
                ("encode", encode),
            ]
        )
    if kind == "number":
        decimal, thousands, percent, unit = details
        read: Any = NumberParser(decimal, thousands, percent, unit, missing_words=words)
    elif kind == "boolean":
        read = BooleanParser(missing_words=words)
    elif kind == "date":
        read = DateEncoder(format=details[0] or "auto", missing_words=words)
    else:
        read = VectorExpander()
    return Pipeline([("read", read), ("impute", impute)])
