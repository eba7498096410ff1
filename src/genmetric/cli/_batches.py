"""New rows in batches: encoded as the model expects, with the columns to copy."""

from __future__ import annotations

import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import click
import numpy as np

from genmetric.cli._options import stacked, warn_unknown
from genmetric.tables import TableError
from genmetric.tables._cells import cell_texts, column_array
from genmetric.tables._columns import LARGEST_NUMBER
from genmetric.tables._errors import more_cells
from genmetric.tables._plan import nearest_names
from genmetric.tables._reading import frame_batches
from genmetric.tables._target import target_values

#: Columns of the input that are copied to the output.
kept_columns = stacked(
    click.option(
        "--id",
        "id_column",
        metavar="COL",
        help="Column that identifies the rows (default: that of the model).",
    ),
    click.option(
        "--keep",
        multiple=True,
        metavar="COL",
        help="Copy this column to the output. Can be repeated.",
    ),
)


def applied_batches(
    table: Any, model: Any, options: dict[str, Any], advance: Callable[[str, float], None]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield batches of new rows.

    Cells that cannot be read, such as text in a column of numbers, are missing values; one warning
    per column names the first. With --strict they are errors.

    Parameters
    ----------
    table : TableFile
        New rows.
    model : Model
        The model, which encodes them.
    options : dict
        Options of the command, with `id_column`, `keep`, `na` and `strict`.
    advance : callable
        Shows progress.

    Yields
    ------
    X : ndarray of shape (n_rows, n_features)
        Features of a batch.
    columns : dict of str to ndarray
        The names of the rows, if there are any, and the columns to keep, as texts.
    """
    from genmetric.tables._new_rows import (
        check_columns,
        replacements_of_unknown,
        text_columns,
        unknown_categories,
        used_columns,
    )

    check_columns(model.columns, table.names, table.label)
    id_column = options["id_column"]
    if id_column is None and model.id_column in table.names:
        id_column = model.id_column
    named = [] if id_column is None else [id_column]
    copied = list(dict.fromkeys([*named, *options["keep"]]))
    for name in copied:
        if name not in table.names:
            raise TableError(
                f"{table.label}: no column {name!r} to copy. {nearest_names(name, table.names)}"
            )
    used = used_columns(model.columns)
    wanted = list(dict.fromkeys([*used, *copied]))
    text = [*text_columns(model.columns), *(name for name in copied if name not in used)]
    unknown: dict[str, set[str]] = {}
    unreadable = UnreadableCells(table, options)
    seen = 0
    n_features = len(model.columns.get_feature_names_out())
    for frame in frame_batches(table, wanted, text, n_features):
        clean = unreadable.remove(model.columns, frame, seen)
        for name, words in unknown_categories(model.columns, clean).items():
            unknown.setdefault(name, set()).update(words)
        seen += len(frame)
        advance(f"{seen} rows", 0.0)
        columns = {
            name: np.array(cell_texts(column_array(frame, name), [""]), dtype=object)
            for name in copied
        }
        yield model.columns.transform(clean), columns
    unreadable.warn()
    warn_unknown(unknown, replacements_of_unknown(model.columns))
    if seen == 0:
        raise TableError(f"{table.label}: the file has a header but no data rows.")


def labelled_batches(
    training: Any, columns: Any, options: dict[str, Any]
) -> Iterator[tuple[Any, Any]]:
    """Yield all rows of a training table in batches, without those that have no target.

    Parameters
    ----------
    training : TrainingTable
        The plan of the table, made from a sample of its rows.
    columns : ColumnTransformer
        Fitted on the sample.
    options : dict
        Options of the command.

    Yields
    ------
    X : ndarray of shape (n_rows, n_features)
        Features of a batch.
    y : ndarray of shape (n_rows,)
        Classes, as texts, or numbers.
    """
    from genmetric.tables._new_rows import text_columns, used_columns

    # The file as it was read in the end: in another encoding, for example.
    table, target = training.sample.table, training.plan.target.name
    unreadable = UnreadableCells(table, options)
    seen = 0
    wanted, n_features = [*used_columns(columns), target], len(columns.get_feature_names_out())
    for frame in frame_batches(table, wanted, text_columns(columns), n_features):
        clean = unreadable.remove(columns, frame, seen)
        y, present = _targets(column_array(frame, target), training, unreadable, seen)
        seen += len(frame)
        if present.any():
            yield columns.transform(clean[present]), y
    unreadable.warn()


def _targets(
    array: Any, training: Any, unreadable: UnreadableCells, first_row: int
) -> tuple[Any, Any]:
    """Return the targets of a batch that can be used, and a mask of their rows."""
    plan = training.plan
    texts = cell_texts(array, plan.missing_words)
    present = np.array([text is not None for text in texts])
    if not training.is_numeric:
        return np.array([text for text in texts if text is not None], dtype=str), present
    numbers = np.full(len(array), np.nan)
    numbers[present] = target_values(array[present], plan.target, plan.missing_words)
    for row in np.flatnonzero(present & np.isnan(numbers)):
        unreadable.add(plan.target.name, str(texts[row]), "a number", first_row + int(row))
    used = ~np.isnan(numbers)
    large = np.flatnonzero(used & (np.abs(numbers) > LARGEST_NUMBER))
    if len(large):
        table = training.sample.table
        raise TableError(
            f"{table.label}: {table.row_label(first_row + int(large[0]))}: the target "
            f"{plan.target.name!r} is infinite or beyond {LARGEST_NUMBER:g} ({texts[large[0]]}). "
            "Correct the value or remove the row."
        )
    return numbers[used], used


class UnreadableCells:
    """Cells that the transformers of a model cannot read: missing values, and one warning each.

    Parameters
    ----------
    table : TableFile
        The file of the cells.
    options : dict
        Options of the command, with `na` and `strict`.
    """

    def __init__(self, table: Any, options: dict[str, Any]) -> None:
        self._table, self._options = table, options
        self._counts: Counter[str] = Counter()
        self._texts: dict[str, dict[str, None]] = {}
        self._messages: dict[str, str] = {}

    def remove(self, columns: Any, frame: Any, first_row: int) -> Any:
        """Return rows in which cells that cannot be read are missing; with --strict raise.

        Parameters
        ----------
        columns : ColumnTransformer
            The fitted transformer of the model.
        frame : pandas.DataFrame
            The rows.
        first_row : int
            Number of the first row in the file, from 0.

        Returns
        -------
        pandas.DataFrame
            The rows.
        """
        from genmetric.tables._new_rows import without_unreadable

        clean, cells = without_unreadable(columns, frame, self._table, first_row)
        for cell in cells:
            self.add(cell.column, cell.text, cell.expected, first_row + cell.row)
        return clean

    def add(self, column: str, text: str, expected: str, row: int) -> None:
        """Count a cell that cannot be read; with --strict raise.

        Parameters
        ----------
        column : str
            Name of its column.
        text : str
            Its text.
        expected : str
            What was expected, such as "a number".
        row : int
            Number of its row in the file, from 0.
        """
        if text in self._options.get("na", ()):
            return
        self._counts[column] += 1
        texts = self._texts.setdefault(column, {})
        if len(texts) <= 4:
            texts[text] = None
        if column not in self._messages:
            message = f"{self._table.row_label(row)}, column {column!r}: {text!r} is not {expected}"
            if self._options.get("strict"):
                raise TableError(
                    f"{self._table.label}: {message}. Correct the cell, state that it is missing "
                    f"(--na {shlex.quote(text)}), or leave out --strict."
                )
            self._messages[column] = message

    def warn(self) -> None:
        """Warn once per column."""
        for name, message in self._messages.items():
            more = more_cells(self._texts[name], self._counts[name])
            warnings.warn(f"{message}{more}; treated as missing.", UserWarning, stacklevel=2)
