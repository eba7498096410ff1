"""Files with tables as data frames: whole, as a random sample, or in batches."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from genmetric._optional import import_optional
from genmetric._warnings import warn_user
from genmetric.tables._binary_files import memory_table, open_excel, open_numpy
from genmetric.tables._blocks import compression_of, open_bytes
from genmetric.tables._cells import missing_set
from genmetric.tables._columnar_files import open_arrow, open_parquet
from genmetric.tables._decoded import BATCH_BYTES, row_sizes, without_columns
from genmetric.tables._errors import TableError
from genmetric.tables._format import HEAD_BYTES, fallback_encoding, find_form
from genmetric.tables._table_file import PEAK_FACTOR, TableFile, default_budget, show_bytes
from genmetric.tables._table_sample import MIN_ROWS, TableSample, TooLargeError
from genmetric.tables._text_files import CSVFile, JSONLinesFile, arrow_column, json_records

#: First bytes of files that are not tables, and what to do with them.
FOREIGN = {
    b"\x89HDF": "is an HDF5 file. Save the table as CSV or Parquet",
    b"SQLite format 3": "is an SQLite database. Save the table as CSV",
    b"%PDF": "is a PDF. Save the table as CSV",
}


#: Times the size of a JSON array that its objects take: {"a":1} has 7 bytes, as a dict over 200.
JSON_FACTOR = 32


def open_table(
    path: str | Path,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    missing_words: Iterable[str] | None = None,
    memory: int | None = None,
) -> TableFile:
    """Find out what a file is and which columns it has.

    Parameters
    ----------
    path : path-like
        A CSV, JSON lines, Parquet, Arrow, Excel or NumPy file, recognised by its content. CSV and
        JSON lines may be compressed by gzip, bzip2 or zstd. "-" is the standard input.
    delimiter : str, default=None
        Character between the cells of a CSV file. None detects it.
    encoding : str, default=None
        Encoding of a CSV file. None is UTF-8, UTF-16 with a byte order mark, or Windows-1252.
    missing_words : iterable of str, default=None
        Texts that stand for a missing value. None is the usual ones.
    memory : int, default=None
        Bytes that reading may take. None is a quarter of the memory of the machine.

    Returns
    -------
    TableFile
        The file; its rows are not read yet, except for Excel and NumPy.

    Raises
    ------
    TableError
        If the file is not a table, with what to do.
    """
    label = str(path)
    budget = default_budget() if memory is None else memory
    words = None if missing_words is None else tuple(missing_words)
    if label == "-":
        path, label = _standard_input(), "standard input"
    path = Path(path)
    _check_file(path, label)
    try:
        with path.open("rb") as file:
            first = file.read(64)
        if not first:
            raise TableError(f"{label}: the file is empty.")
        if first.startswith(b"PAR1"):
            return open_parquet(path, label)
        if first.startswith(b"ARROW1"):
            return open_arrow(path, label, budget // PEAK_FACTOR)
        suffix = Path(label).suffix.lower()
        if first.startswith(b"\x93NUMPY") or (first.startswith(b"PK") and suffix == ".npz"):
            return open_numpy(path, label, budget // PEAK_FACTOR)
        if first.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
            return open_excel(path, label, budget // PEAK_FACTOR)
        for magic, advice in FOREIGN.items():
            if first.startswith(magic):
                raise TableError(f"{label}: {advice}.")
        return _open_text(path, label, first, delimiter, encoding, words, budget)
    except OSError as error:
        raise TableError(f"{label}: {error.strerror or error}.") from error


def _check_file(path: Path, label: str) -> None:
    if not path.exists():
        raise TableError(f"{label}: no such file. Check the name and the folder.")
    if path.is_dir():
        raise TableError(f"{label}: is a folder. Name a file with a table.")
    if not path.is_file():
        raise TableError(
            f"{label}: not a regular file. Save the table as a file, or use - for standard input."
        )


def _standard_input() -> Path:
    """Copy the standard input to a temporary file, which is read twice."""
    source = getattr(sys.stdin, "buffer", None)
    if source is None:
        raise TableError("The standard input cannot be read here. Name a file.")
    # Kept open and referenced for as long as the process lives; removed at its end.
    file = tempfile.NamedTemporaryFile(prefix="genmetric-", suffix=".input")  # noqa: SIM115
    _INPUTS.append(file)
    while block := source.read(1 << 20):
        file.write(block)
    file.flush()
    return Path(file.name)


_INPUTS: list[Any] = []


def _open_text(
    path: Path,
    label: str,
    first: bytes,
    delimiter: str | None,
    encoding: str | None,
    missing_words: tuple[str, ...] | None,
    budget: int,
) -> TableFile:
    compression = compression_of(first)
    with open_bytes(path, compression, label) as stream:
        head = stream.read(HEAD_BYTES)
    if not head:
        raise TableError(f"{label}: the file is empty.")
    whole = len(head) < HEAD_BYTES
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"{"):
        return _open_json_lines(path, label, head, compression, whole=whole)
    if start.startswith(b"[") and Path(label).suffix.lower() == ".json":
        return _open_json_array(path, label, compression, budget)
    form = find_form(
        head,
        label,
        whole=whole,
        delimiter=delimiter,
        encoding=encoding,
        missing=missing_set(missing_words),
    )
    return CSVFile(path, label, form.names, form, compression, missing_words, notes=form.notes)


def _open_json_lines(
    path: Path, label: str, head: bytes, compression: str | None, *, whole: bool
) -> JSONLinesFile:
    complete = head if whole else head[: head.rfind(b"\n") + 1]
    records = json_records(complete.removeprefix(b"\xef\xbb\xbf"), label)
    if not records:
        raise TableError(f"{label}: the first line is longer than {HEAD_BYTES >> 20} MB.")
    names = dict.fromkeys(name for record in records for name in record)
    return JSONLinesFile(path, label, tuple(names), compression)


def _open_json_array(path: Path, label: str, compression: str | None, budget: int) -> TableFile:
    limit = budget // JSON_FACTOR
    with open_bytes(path, compression, label) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise TooLargeError(
            f"{label}: more than {show_bytes(limit)} of JSON do not fit the memory budget of "
            f"{show_bytes(budget)} (--memory). Save it as JSON lines, which are read in parts."
        )
    try:
        records = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TableError(f"{label}: not valid JSON ({error}).") from error
    if not all(isinstance(record, dict) for record in records):
        raise TableError(f"{label}: expected a JSON array of objects, one per row.")
    names = dict.fromkeys(str(name) for record in records for name in record)
    return memory_table(
        {name: arrow_column([r.get(name) for r in records]) for name in names}, path, label
    )


def read_sample(
    table: TableFile,
    *,
    max_rows: int | None = None,
    random_state: int = 0,
    memory: int | None = None,
    text: Collection[str] = (),
) -> TableSample:
    """Read a table, or a random sample of its rows, in bounded memory.

    Parameters
    ----------
    table : TableFile
        The file.
    max_rows : int, default=None
        Most rows to keep; a random sample is drawn while reading. None keeps all.
    random_state : int, default=0
        Seed of the sample.
    memory : int, default=None
        Bytes that reading may take. None is a quarter of the memory of the machine. A sample that
        does not fit is made smaller.
    text : collection of str, default=()
        Columns to read as the file writes them.

    Returns
    -------
    TableSample
        The rows.

    Raises
    ------
    TooLargeError
        If all rows are asked for and do not fit the memory.
    """
    budget = (default_budget() if memory is None else memory) // PEAK_FACTOR
    while True:
        try:
            return _read_sample(table, max_rows, random_state, budget, text)
        except _NotPlainError as found:
            assert isinstance(table, CSVFile)
            form = replace(table.form, plain=table.form.plain - found.columns)
            table = replace(table, form=form)
        except TableError as error:
            encoding = _other_encoding(table, error)
            if encoding is None:
                raise
            note = f"the text is not UTF-8 and is read as {encoding} (--encoding)."
            assert isinstance(table, CSVFile)
            form = replace(table.form, encoding=encoding)
            table = replace(table, form=form, notes=(*table.notes, note))


class _NotPlainError(Exception):
    """Columns that were read as numbers have to be read as text from the beginning."""

    def __init__(self, columns: frozenset[str]) -> None:
        super().__init__()
        self.columns = columns


def _other_encoding(table: TableFile, error: TableError) -> str | None:
    """Return the encoding of a file whose first lines only look like UTF-8."""
    cause = error.__cause__
    if not isinstance(cause, UnicodeDecodeError) or not isinstance(table, CSVFile):
        return None
    return fallback_encoding(cause.object) if table.form.encoding == "utf-8" else None


def _read_sample(
    table: TableFile,
    max_rows: int | None,
    random_state: int,
    budget: int,
    text: Collection[str],
) -> TableSample:
    rng = np.random.default_rng(random_state)
    parts: list[Any] = []
    keys: list[Any] = []
    held = n_rows = 0
    limit, notes = max_rows, list(table.notes)
    left_out: dict[str, str] = {}
    n_left_out = 0
    plain = (table.form.plain if isinstance(table, CSVFile) else frozenset()) - set(text)
    pa = import_optional("pyarrow", "cli")
    with closing(table.batches(text=text, left_out=left_out)) as batches:
        for batch in batches:
            if len(left_out) > n_left_out:
                parts = [without_columns(part, table.names, left_out) for part in parts]
                held, n_left_out = sum(map(_size, parts)), len(left_out)
            bad = frozenset(n for n in plain if pa.types.is_string(batch.schema.field(n).type))
            if bad:
                raise _NotPlainError(bad)
            # Random keys; the rows with the smallest ones are a sample without replacement.
            key = np.column_stack(
                [rng.random(batch.num_rows), np.arange(n_rows, n_rows + batch.num_rows)]
            )
            n_rows += batch.num_rows
            parts.append(batch)
            keys.append(key)
            held += _size(batch)
            if limit is None:
                if held > budget:
                    raise TooLargeError(
                        f"{table.label}: the table does not fit the memory budget of "
                        f"{show_bytes(PEAK_FACTOR * budget)} (--memory)."
                    )
                continue
            if held > budget:
                kept = sum(map(len, keys))
                fits = min(limit, kept * budget // (2 * held))
                if fits < min(limit, MIN_ROWS):
                    raise TooLargeError(
                        f"{table.label}: {fits} rows fit the memory budget of "
                        f"{show_bytes(PEAK_FACTOR * budget)} (--memory), fewer than {MIN_ROWS}. "
                        "Increase --memory."
                    )
                limit = fits
            if sum(map(len, keys)) > 2 * limit or held > budget:
                parts, keys = _smallest(parts, keys, limit)
                held = _size(parts[0])
    if not parts:
        raise TableError(f"{table.label}: the file has a header but no data rows.")
    if limit is not None:
        parts, keys = _smallest(parts, keys, limit)
        if limit < (max_rows or 0) and n_rows > limit:
            notes.append(
                f"{limit} rows fit the memory budget of {show_bytes(PEAK_FACTOR * budget)} (--memory)."
            )
        if len(keys[0]) < n_rows:
            notes.append(f"a random sample of {len(keys[0])} of {n_rows} rows is used.")
    frame = to_frame(_concatenated(parts))
    rows = np.concatenate(keys)[:, 1].astype(np.intp)
    return TableSample(frame, rows, table, tuple(notes), left_out)


def _size(table: Any) -> int:
    """Return the bytes of a table as Python objects and numbers."""
    return int(row_sizes(table).sum())


def _smallest(parts: list[Any], keys: list[Any], limit: int) -> tuple[list[Any], list[Any]]:
    """Return the rows with the smallest keys, in the order of the file."""
    key = np.concatenate(keys)
    if len(key) <= limit:
        return [_concatenated(parts)], [key]
    chosen = np.sort(np.argpartition(key[:, 0], limit - 1)[:limit])
    return [_concatenated(parts).take(chosen).combine_chunks()], [key[chosen]]


def _concatenated(parts: Sequence[Any]) -> Any:
    """Return tables as one; columns whose types differ become text."""
    pa = import_optional("pyarrow", "cli")
    if len(parts) == 1:
        return parts[0]
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        names = parts[0].column_names
        mixed = [n for n in names if len({p.schema.field(n).type for p in parts}) > 1]
        return pa.concat_tables([_all_text(p, mixed) for p in parts])


def _all_text(table: Any, names: Sequence[str]) -> Any:
    for name in names:
        column = arrow_column(table[name].to_pylist(), as_text=True)
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table


def to_frame(table: Any) -> Any:
    """Return an Arrow table as a pandas frame."""
    import_optional("pandas", "cli")
    return table.to_pandas(split_blocks=True, self_destruct=False)


def frame_batches(
    table: TableFile,
    columns: Sequence[str] | None = None,
    text: Collection[str] = (),
    n_features: int = 1,
) -> Iterator[Any]:
    """Yield a table as pandas frames of bounded size.

    Parameters
    ----------
    table : TableFile
        The file.
    columns : sequence of str, default=None
        Columns to read; None is all.
    text : collection of str, default=()
        Columns to read as the file writes them.
    n_features : int, default=1
        Number of features that a row becomes; frames have fewer rows if it is large.

    Yields
    ------
    pandas.DataFrame
        Rows in the order of the file.
    """
    # Imports joblib, which the help of a command does not need.
    from genmetric._chunks import row_chunks

    with closing(table.batches(columns, text)) as batches:
        for batch in batches:
            for rows in row_chunks(batch.num_rows, 8 * n_features, budget=BATCH_BYTES):
                yield to_frame(batch.slice(rows.start, rows.stop - rows.start))


def read_table(
    path: str | Path,
    *,
    max_rows: int | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    missing_words: Iterable[str] | None = None,
    memory: int | None = None,
    random_state: int = 0,
) -> Any:
    r"""Read a file with a table as the command does.

    Parameters
    ----------
    path : path-like
        A CSV, JSON lines, Parquet, Arrow, Excel or NumPy file, recognised by its content.
    max_rows : int, default=None
        Most rows to keep; a random sample is drawn while reading. None keeps all.
    delimiter : str, default=None
        Character between the cells of a CSV file. None detects it.
    encoding : str, default=None
        Encoding of a CSV file. None is UTF-8, UTF-16 with a byte order mark, or Windows-1252.
    missing_words : iterable of str, default=None
        Texts that stand for a missing value. None is the usual ones.
    memory : int, default=None
        Bytes that reading may take. None is a quarter of the memory of the machine.
    random_state : int, default=0
        Seed of the sample.

    Returns
    -------
    pandas.DataFrame
        Plain numbers as float64. Cells that need a decision, such as 2,848, stay text for
        :func:`plan_columns`. Columns that cannot be features are empty, with a warning: those with
        texts of more than 4096 characters, bytes and nested objects.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from genmetric.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "table.csv"
    ...     _ = path.write_text("size;colour\n1.5;red\n2;blue\n")
    ...     read_table(path)
       size colour
    0   1.5    red
    1   2.0   blue
    """
    words = None if missing_words is None else tuple(missing_words)
    table = open_table(
        path, delimiter=delimiter, encoding=encoding, missing_words=words, memory=memory
    )
    sample = read_sample(table, max_rows=max_rows, random_state=random_state, memory=memory)
    for name, reason in sample.left_out.items():
        warn_user(f"{table.label}: column {name!r} {reason} and is returned empty.")
    return sample.frame
