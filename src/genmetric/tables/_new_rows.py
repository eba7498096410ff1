"""New rows for a fitted preprocessor: unreadable cells and unknown categories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from genmetric._optional import import_optional
from genmetric._typing import AnyArray
from genmetric.tables._cells import FALSE_WORDS, TRUE_WORDS, cell_texts, column_array
from genmetric.tables._columns import LARGEST_NUMBER
from genmetric.tables._dates import parse_date
from genmetric.tables._encoders import (
    OTHER_CATEGORY,
    BooleanParser,
    CategoryPooler,
    NumberParser,
)
from genmetric.tables._errors import TableError, quoted
from genmetric.tables._expanders import DateEncoder
from genmetric.tables._numbers import NumberFormat
from genmetric.tables._plan import nearest_names
from genmetric.tables._table_file import TableFile


@dataclass(frozen=True)
class Unreadable:
    """A cell that a preprocessor cannot read.

    Attributes
    ----------
    row : int
        Position in the frame.
    column : str
        Name of the column.
    text : str
        The cell.
    expected : str
        What was expected, such as "a number".
    """

    row: int
    column: str
    text: str
    expected: str


def number_columns(names: Sequence[str]) -> ColumnTransformer:
    """Return the fitted preprocessor of a model that takes numbers in columns of these names.

    Parameters
    ----------
    names : sequence of str
        Columns in the order of the features.

    Returns
    -------
    ColumnTransformer
        Reads numbers; missing values are not imputed.
    """
    pd = import_optional("pandas", "cli")
    read = Pipeline([("read", NumberParser())])
    columns = ColumnTransformer([("number", read, list(names))], verbose_feature_names_out=False)
    return columns.fit(pd.DataFrame([[0.0] * len(names)], columns=list(names)))


def groups(columns: Any) -> Iterator[tuple[Any, list[str]]]:
    """Yield the first transformer of each group of a preprocessor, and its columns."""
    for _, pipeline, names in columns.transformers_:
        if hasattr(pipeline, "steps"):
            yield pipeline.steps[0][1], list(names)


def used_columns(columns: Any) -> list[str]:
    """Return the columns that a fitted preprocessor reads."""
    return [name for _, names in groups(columns) for name in names]


def text_columns(columns: Any) -> list[str]:
    """Return the columns whose cells must be read as the file writes them.

    Those are all except plain numbers and vectors: a category "007" is not the number 7.
    """
    return [
        name
        for transformer, names in groups(columns)
        for name in names
        if isinstance(transformer, (CategoryPooler, BooleanParser, DateEncoder))
        or (isinstance(transformer, NumberParser) and _format(transformer) != NumberFormat())
    ]


def _format(parser: Any) -> NumberFormat:
    return NumberFormat(parser.decimal, parser.thousands, parser.percent, parser.unit)


def check_columns(columns: Any, names: Sequence[str], label: str) -> None:
    """Raise TableError if a table lacks columns that a preprocessor reads."""
    absent = [name for name in used_columns(columns) if name not in names]
    if len(absent) == 1:
        raise TableError(
            f"{label}: no column {absent[0]!r}, which the model was fitted on. "
            f"{nearest_names(absent[0], names)}"
        )
    if absent:
        raise TableError(
            f"{label}: columns {quoted(absent)} are missing, which the model was fitted on."
        )


def without_unreadable(
    columns: Any, frame: Any, table: TableFile, first_row: int = 0
) -> tuple[Any, list[Unreadable]]:
    """Replace cells that a preprocessor cannot read by missing values.

    Parameters
    ----------
    columns : ColumnTransformer
        Fitted, as :func:`make_preprocessor` built it.
    frame : pandas.DataFrame
        New rows.
    table : TableFile
        The file they come from, for errors.
    first_row : int, default=0
        Number of the first row in the file.

    Returns
    -------
    frame : pandas.DataFrame
        The rows; `frame` itself if every cell can be read.
    cells : list of Unreadable
        The cells that were replaced.

    Raises
    ------
    TableError
        If a number is infinite or too large.
    """
    replaced: dict[str, Any] = {}
    cells: list[Unreadable] = []
    for transformer, names in groups(columns):
        for j, name in enumerate(names):
            array = column_array(frame, name)
            if array.dtype.kind in "fiu":
                _check_size(array, name, table, first_row)
            if array.dtype != object or not hasattr(transformer, "missing_words"):
                continue
            texts = cell_texts(array, transformer.missing_words)
            expected, is_readable = _reader(transformer, j)
            known = {text: text is None or is_readable(text) for text in set(texts)}
            bad = [i for i, text in enumerate(texts) if not known[text]]
            if bad:
                cells += [Unreadable(i, name, str(texts[i]), expected) for i in bad]
                array = array.copy()
                array[bad] = None
                replaced[name] = array
    return (frame.assign(**replaced) if replaced else frame), cells


def _check_size(array: AnyArray, name: str, table: TableFile, first_row: int) -> None:
    wrong = np.flatnonzero(np.abs(array) > LARGEST_NUMBER)
    if len(wrong):
        raise TableError(
            f"{table.label}: {table.row_label(first_row + int(wrong[0]))}, column {name!r}: "
            f"{array[wrong[0]]:g} is infinite or beyond {LARGEST_NUMBER:g}. Correct the value or "
            "remove the row."
        )


def _reader(transformer: Any, j: int) -> tuple[str, Any]:
    """Return what a transformer expects in column `j`, and a function that checks a text."""
    if isinstance(transformer, NumberParser):
        format_ = _format(transformer)
        return "a number", lambda text: format_.parse_new(text) is not None
    if isinstance(transformer, BooleanParser):
        return "true or false", lambda text: text.lower() in (*TRUE_WORDS, *FALSE_WORDS)
    if isinstance(transformer, DateEncoder):
        date_format = str(transformer.formats_[j]) or "iso"
        return "a date", lambda text: parse_date(text, date_format) is not None
    return "a category", lambda _: True


def replacements_of_unknown(columns: Any) -> dict[str, str]:
    """Return the value that unknown categories are replaced by, for columns of two values."""
    return {
        name: str(category)
        for transformer, names in groups(columns)
        if isinstance(transformer, CategoryPooler)
        for name, category in zip(names, transformer.unknown_categories_, strict=True)
        if category != OTHER_CATEGORY
    }


def unknown_categories(columns: Any, frame: Any) -> dict[str, set[str]]:
    """Return the categories of new rows that have no feature, not even the pooled one.

    Parameters
    ----------
    columns : ColumnTransformer
        Fitted, as :func:`make_preprocessor` built it.
    frame : pandas.DataFrame
        New rows.

    Returns
    -------
    dict of str to set of str
        Unknown categories by column.
    """
    unknown: dict[str, set[str]] = {}
    for _, pipeline, names in columns.transformers_:
        if not hasattr(pipeline, "steps") or not isinstance(pipeline.steps[0][1], CategoryPooler):
            continue
        pooler, encoder = pipeline.steps[0][1], pipeline.steps[1][1]
        for name, kept, encoded in zip(names, pooler.categories_, encoder.categories_, strict=True):
            if OTHER_CATEGORY in encoded.tolist():
                continue
            texts = set(cell_texts(column_array(frame, name), pooler.missing_words)) - {None}
            strange = {str(text) for text in texts} - set(kept.tolist())
            if strange:
                unknown[name] = strange
    return unknown
