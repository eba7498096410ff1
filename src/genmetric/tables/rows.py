"""The rows of a table as arrays, whole or batch by batch."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmetric._extras import need
from genmetric._typing import AnyArray, FloatArray
from genmetric.tables.recipe import Recipe, find_column
from genmetric.tables.sniffing import TableError, quoted
from genmetric.tables.sources import Kind, TableFile

#: So many rows are enough to see that a column counts them.
_COUNTED = 20


@dataclass(frozen=True)
class Rows:
    """Rows of a table.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
        Features, Fortran order.
    labels : ndarray of shape (n_rows,) or None
        Classes, as the file writes them.
    ids : ndarray of shape (n_rows,) or None
        Names of the rows, as the file writes them.
    unknown : dict of str to set of str
        Words of categories that the recipe does not know; they are all zeros in `X`.
    kept : dict of str to ndarray of shape (n_rows,)
        Other columns that were asked for: words as the file writes them and None where missing, or
        numbers where the column is a feature as well.
    """

    X: FloatArray
    labels: Any
    ids: Any
    unknown: dict[str, set[str]]
    kept: dict[str, AnyArray]

    def __len__(self) -> int:
        return len(self.X)


def row_batches(
    table: TableFile,
    recipe: Recipe,
    *,
    target: bool = True,
    fill: bool = True,
    id_column: str | None = None,
    keep: Sequence[str] = (),
) -> Iterator[Rows]:
    """The rows of a table, batch by batch.

    Parameters
    ----------
    table : TableFile
        The table; columns are taken by name, and others are ignored.
    recipe : Recipe
        How to make numbers of them, its categories and fillings learned.
    target : bool, default=True
        Whether to read the classes.
    fill : bool, default=True
        Whether to fill in missing values where the recipe imputes; otherwise they stay NaN.
    id_column : str, default=None
        Column that names the rows, where the recipe has none or another.
    keep : sequence of str, default=()
        Other columns to read, as words.

    Yields
    ------
    Rows
        As many as a block of the file holds.

    Raises
    ------
    TableError
        At a missing or infinite value, with its row and column.
    """
    id_column = id_column or recipe.id
    wanted: dict[str, Kind] = {column.name: column.kind for column in recipe.columns}
    _check_columns(table, recipe)
    label_name = recipe.target if target else None
    asked = [(label_name, "--target"), (id_column, "--id"), *((name, "--keep") for name in keep)]
    words = [find_column(table, name, role) for name, role in asked if name is not None]
    for name in words:
        wanted.setdefault(name, "text")
    start = 0
    for batch in table.batches(wanted):
        if len(batch) == 0:
            continue
        columns = dict(zip(wanted, batch.columns, strict=True))
        X, unknown = _features(table, recipe, columns, start, fill)
        labels = ids = None
        if label_name is not None:
            labels = _labels(table, label_name, columns[label_name], start)
        if id_column is not None:
            ids = _values(columns[id_column], wanted[id_column])
        kept = {name: _values(columns[name], wanted[name]) for name in keep}
        yield Rows(X, labels, ids, unknown, kept)
        start += len(batch)
    if start == 0:
        raise TableError(f"{table.path}: there is a header and no row below it.")


def read_rows(table: TableFile, recipe: Recipe, **options: Any) -> Rows:
    """All rows of a table; arguments as for :func:`row_batches`."""
    parts = list(row_batches(table, recipe, **options))
    if len(parts) == 1:
        return parts[0]
    # Column by column, so that the array is in Fortran order as its parts are.
    X = np.concatenate([part.X.T for part in parts], axis=1).T
    unknown: dict[str, set[str]] = {}
    for part in parts:
        for name, words in part.unknown.items():
            unknown.setdefault(name, set()).update(words)

    def joined(name: str) -> AnyArray | None:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)

    kept = {name: np.concatenate([part.kept[name] for part in parts]) for name in parts[0].kept}
    return Rows(X, joined("labels"), joined("ids"), unknown, kept)


def _check_columns(table: TableFile, recipe: Recipe) -> None:
    absent = [c.name for c in recipe.columns if c.name not in table.kinds]
    if len(absent) == 1:
        find_column(table, absent[0], "a feature of the model")
    if absent:
        raise TableError(
            f"{table.path}: columns {quoted(absent)} are missing, which the model was fitted on."
        )
    for column in recipe.columns:
        kind = table.kinds[column.name]
        if column.categories is None and kind != "number":
            raise TableError(
                f"{table.path}: column {column.name!r} holds {table.examples[column.name]}, where "
                "numbers are needed."
            )


def _features(
    table: TableFile, recipe: Recipe, columns: dict[str, Any], start: int, fill: bool
) -> tuple[FloatArray, dict[str, set[str]]]:
    """Features of a batch; missing and infinite values are found here, where rows are known."""
    n_rows = len(next(iter(columns.values())))
    names = recipe.feature_names
    X = np.empty((len(names), n_rows))
    unknown: dict[str, set[str]] = {}
    j = 0
    for column in recipe.columns:
        array = columns[column.name]
        if column.categories is None:
            values = array.to_numpy(zero_copy_only=False)
            finite = np.isfinite(values)
            if not finite.all():
                values = _repaired(table, recipe, column, values, finite, start, fill)
            X[j] = values
            j += 1
            continue
        if not recipe.impute and array.null_count:
            row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
            raise _missing(table, column.name, start + row)
        codes = _codes(array, column.categories)
        if (codes == len(column.categories)).any():
            strange = {
                array[int(i)].as_py() for i in np.flatnonzero(codes == len(column.categories))
            }
            unknown[column.name] = strange
        for code in range(len(column.categories)):
            X[j + code] = codes == code
        j += len(column.categories)
    return X.T, unknown


def _repaired(
    table: TableFile,
    recipe: Recipe,
    column: Any,
    values: AnyArray,
    finite: AnyArray,
    start: int,
    fill: bool,
) -> AnyArray:
    """Numbers with what is missing filled in; refuse what is infinite, or missing unasked."""
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise TableError(
            f"{table.path}: column {column.name!r} is infinite (or above 1.8e308) in data row "
            f"{start + int(infinite[0]) + 1}. Correct the value or take the row out."
        )
    if not recipe.impute:
        raise _missing(table, column.name, start + int(np.flatnonzero(~finite)[0]))
    return np.where(finite, values, column.fill) if fill else values


def _missing(table: TableFile, name: str, row: int) -> TableError:
    return TableError(
        f"{table.path}: column {name!r} has no value in data row {row + 1}. --impute fills in "
        f"missing values, --ignore {shlex.quote(name)} leaves the column out."
    )


def _codes(array: Any, categories: tuple[str, ...]) -> AnyArray:
    """Index of each word among the categories; -1 where missing, their number where unknown."""
    pa, pc = need("pyarrow", "cli"), need("pyarrow.compute", "cli")
    found = pc.index_in(array, pa.array(categories, pa.string()))
    codes = pc.fill_null(found, len(categories)).to_numpy(zero_copy_only=False).copy()
    codes[array.is_null().to_numpy(zero_copy_only=False)] = -1
    return np.asarray(codes)


def _labels(table: TableFile, name: str, array: Any, start: int) -> AnyArray:
    """Classes as an array of strings."""
    if array.null_count:
        row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise TableError(
            f"{table.path}: the target {name!r} has no value in data row {start + row + 1}. Take "
            "rows without a class out of the file."
        )
    encoded = array.dictionary_encode()
    words = np.array(encoded.dictionary.to_pylist(), dtype=str)
    return np.asarray(words[encoded.indices.to_numpy(zero_copy_only=False)])


def _values(array: Any, kind: Kind) -> AnyArray:
    """A column as it is: numbers where it is a feature too, else words with None for gaps."""
    if kind == "number":
        return np.asarray(array.to_numpy(zero_copy_only=False))
    return np.array(array.to_pylist(), dtype=object)


def check_labels(labels: AnyArray, table: TableFile, target: str) -> None:
    """Refuse a target that holds one class, or values that are no classes.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
        The target.
    table : TableFile
        Its table.
    target : str
        Its name.
    """
    classes = np.unique(labels)
    n, k = len(labels), len(classes)
    where = f"{table.path}: the target {target!r}"
    if k == 1:
        raise TableError(f"{where} holds one class, {str(classes[0])!r}. Two are needed.")
    is_number = table.kinds.get(target) == "number"
    fractions = is_number and target not in table.whole_numbers | table.booleans
    if k > 20 and ((fractions and k > n / 20) or (is_number and k > n / 4)):
        raise TableError(
            f"{where} holds {k} different numbers in {n} rows: it looks like a quantity, and "
            "classes are needed. Choose a column of classes, or cut the numbers into ranges."
        )
    if k > n / 2 and n > 10:
        raise TableError(
            f"{where} holds {k} different values in {n} rows: it looks like a name of each row. "
            "Choose a column of classes."
        )


def counting_columns(rows: Rows, table: TableFile, recipe: Recipe) -> list[str]:
    """Columns that number the rows, which a metric should not see.

    Parameters
    ----------
    rows : Rows
        Rows as they stand in the file.
    table : TableFile
        Their table.
    recipe : Recipe
        Their features.

    Returns
    -------
    list of str
        Columns of whole numbers that grow by one from each row to the next.
    """
    if len(rows) < _COUNTED:
        return []
    names = recipe.feature_names
    return [
        names[j]
        for j in range(len(names))
        if names[j] in table.whole_numbers and bool((np.diff(rows.X[:, j]) == 1).all())
    ]
