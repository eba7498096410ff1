"""Excel and NumPy files as Arrow tables in memory."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genmetric._optional import import_optional
from genmetric._typing import AnyArray
from genmetric.tables._cells import cell_text
from genmetric.tables._columnar_files import check_table, with_texts
from genmetric.tables._decoded import BATCH_BYTES
from genmetric.tables._errors import TableError
from genmetric.tables._format import unique_names
from genmetric.tables._table_file import TableFile, show_bytes
from genmetric.tables._text_files import arrow_column


@dataclass(frozen=True)
class MemoryTable(TableFile):
    """A table that is read as a whole: Excel sheets, NumPy arrays and JSON arrays.

    Attributes
    ----------
    table : pyarrow.Table
        The rows.
    first_row : int
        Number of the first row in the file, counted from 1.
    """

    table: Any = None
    first_row: int = 1

    def _tables(self, names: list[str], text: Collection[str]) -> Generator[Any, None, None]:
        """Yield the table in parts."""
        chosen = with_texts(self.table.select(names), text)
        row_bytes = max(1, chosen.nbytes // max(1, chosen.num_rows))
        step = max(64, BATCH_BYTES // row_bytes)
        for start in range(0, chosen.num_rows, step):
            yield chosen.slice(start, step)

    def row_label(self, row: int) -> str:
        """Return the number of a row in the file."""
        return f"row {row + self.first_row}"


def memory_table(
    columns: dict[str, Any],
    path: Path,
    label: str,
    *,
    first_row: int = 1,
    notes: Sequence[str] = (),
) -> MemoryTable:
    """Return columns of equal length as a table.

    Parameters
    ----------
    columns : dict of str to pyarrow.Array
        The columns.
    path : Path
        The file they come from.
    label : str
        Its name in messages.
    first_row : int, default=1
        Number of the first row in the file.
    notes : sequence of str, default=()
        Remarks.

    Returns
    -------
    MemoryTable
        The table.
    """
    pa = import_optional("pyarrow", "cli")
    table = pa.table(columns)
    check_table(list(columns), table.num_rows, label)
    return MemoryTable(path, label, tuple(columns), table, first_row, notes=tuple(notes))


def open_excel(path: Path, label: str, budget: int) -> MemoryTable:
    """Read the first sheet of an Excel workbook that has cells.

    Parameters
    ----------
    path : Path
        The file.
    label : str
        Its name in messages.
    budget : int
        Bytes that the uncompressed workbook may have.

    Returns
    -------
    MemoryTable
        The sheet.
    """
    calamine = import_optional("python_calamine", "cli,excel")
    _check_archive(path, label, budget)
    try:
        book = calamine.CalamineWorkbook.from_path(str(path))
        sheets = {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names}
    except (calamine.CalamineError, OSError) as error:
        raise TableError(f"{label}: corrupted Excel workbook ({error}). Re-create it.") from error
    filled = {name: rows for name, rows in sheets.items() if len(rows) > 1}
    if not filled:
        raise TableError(f"{label}: no sheet of the workbook has a header and data rows.")
    name, rows = next(iter(filled.items()))
    notes = [f"sheet {name!r} of {len(sheets)} is read."] if len(sheets) > 1 else []
    start = _first_full_row(rows)
    if start:
        notes.append(f"{start} row{'s' if start > 1 else ''} above the header skipped.")
    names, remark = unique_names(cell_text(cell) or "" for cell in rows[start])
    body = [row for row in rows[start + 1 :] if any(cell != "" for cell in row)]
    columns = {
        n: arrow_column([None if row[j] == "" else row[j] for row in body])
        for j, n in enumerate(names)
    }
    return memory_table(columns, path, label, first_row=start + 2, notes=[*notes, *remark])


def _first_full_row(rows: Sequence[Sequence[Any]]) -> int:
    """Return the first row that is filled as far as most others: rows above it are titles."""
    filled = [sum(cell != "" for cell in row) for row in rows[:50]]
    usual = sorted(filled)[len(filled) // 2]
    return next((i for i, n in enumerate(filled) if n >= max(1, usual - 1)), 0)


def _check_archive(path: Path, label: str, budget: int) -> None:
    """Refuse archives whose members would not fit the memory."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError):
        return
    if size > budget:
        raise TableError(
            f"{label}: {show_bytes(size)} uncompressed, more than the memory budget of "
            f"{show_bytes(budget)} (--memory). Save the table as Parquet, which is read in parts."
        )


def open_numpy(path: Path, label: str, budget: int) -> MemoryTable:
    """Read a .npy or .npz file.

    One-dimensional arrays are columns. A two-dimensional array is a column of vectors in a .npz
    file, and the columns x0, x1, ... in a .npy file.

    Parameters
    ----------
    path : Path
        The file.
    label : str
        Its name in messages.
    budget : int
        Bytes that the arrays may have.

    Returns
    -------
    MemoryTable
        The arrays as columns.
    """
    with path.open("rb") as file:
        is_archive = file.read(2) == b"PK"
    if is_archive:
        _check_archive(path, label, budget)
    elif path.stat().st_size > budget:
        raise TableError(
            f"{label}: larger than the memory budget of {show_bytes(budget)} (--memory)."
        )
    try:
        loaded = np.load(path, allow_pickle=False)
        arrays = dict(loaded) if is_archive else {"x": loaded}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, KeyError) as error:
        raise TableError(
            f"{label}: not a NumPy file of plain arrays ({str(error).splitlines()[0]})."
        ) from error
    columns: dict[str, Any] = {}
    lengths = {}
    for name, array in arrays.items():
        if array.ndim == 0:
            continue
        if array.ndim > 2:
            raise TableError(
                f"{label}: array {name!r} has {array.ndim} dimensions; expected 1 or 2."
            )
        lengths[name] = len(array)
        columns |= _array_columns(name, array, expand=not is_archive)
    if len(set(lengths.values())) > 1:
        raise TableError(f"{label}: arrays of different lengths: {lengths}.")
    if not columns:
        raise TableError(f"{label}: the file does not contain arrays with rows.")
    return memory_table(columns, path, label)


def _array_columns(name: str, array: AnyArray, *, expand: bool) -> dict[str, Any]:
    pa = import_optional("pyarrow", "cli")
    if array.dtype.names:
        return {field: arrow_column(array[field].tolist()) for field in array.dtype.names}
    if array.dtype.kind == "S":
        array = array.astype(str)
    if array.ndim == 1:
        return {name: pa.array(array.tolist() if array.dtype.kind == "U" else array)}
    if expand:
        return {f"{name}{j}": pa.array(array[:, j]) for j in range(array.shape[1])}
    flat = pa.array(np.ascontiguousarray(array).reshape(-1))
    return {name: pa.FixedSizeListArray.from_arrays(flat, array.shape[1])}
