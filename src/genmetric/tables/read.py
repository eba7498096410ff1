"""Files with tables as data frames: whole, as a random sample, or in batches."""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genmetric._text import import_optional, readable_bytes
from genmetric.tables import TableError
from genmetric.tables.columns import as_text
from genmetric.tables.numbers import is_plain
from genmetric.tables.text import (
    Utf8,
    header_position,
    matches,
    sniff_delimiter,
    split_lines,
    trimmed,
    unique_names,
    whole_lines,
    with_numbers,
)

pd = import_optional("pandas", "cli")
pa = import_optional("pyarrow", "cli")
pc = import_optional("pyarrow.compute", "cli")

#: Bytes of decoded cells that a table may have.
MAX_BYTES = 2 << 30

#: Bytes that are read at once; a line may not be longer.
BLOCK_BYTES = 4 << 20

#: Lines that decide the form of a text file.
HEAD_LINES = 1000

#: First bytes of files; others are text.
_KINDS = {
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"PK\x03\x04": "Excel",
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_COMPRESSIONS = ("gzip", "bz2", "zstd")


def read_table(
    source: Any,
    *,
    sample: int | None = None,
    random_state: int = 0,
    decimal: str | None = None,
    thousands: str | None = None,
    **options: Any,
) -> Any:
    r"""Read a file with a table.

    The content decides the format, not the name: CSV with any delimiter, JSON lines (both may be
    compressed by gzip, bzip2 or zstd), Parquet, Arrow or Feather, and Excel (.xlsx).

    Parameters
    ----------
    source : path, bytes or binary file
        The table. A binary file is read to its end.
    sample : int, default=None
        Number of rows to draw at random while reading, in the order of the file. None reads all.
    random_state : int, default=0
        Seed of the sample.
    decimal, thousands : str, default=None
        If one is given, numbers in text files stay text for
        :class:`~genmetric.tables.TableEncoder`, which knows how to read them.
    **options : dict
        How the file is written, and its limit:

        - `delimiter`, the character between the cells of a CSV file; None, the default, detects it.
        - `encoding` of a text file; None, the default, is UTF-8, UTF-16 with a byte order mark, and
          Windows-1252 for bytes that are not UTF-8.
        - `header`, whether the first line has the names of the columns. "auto", the default, also
          skips titles above the header. With False the columns are column_1, column_2 and so on.
        - `sheet`, the name of an Excel sheet or its number from 1; None, the default, is the first
          one with data.
        - `max_bytes`, by default 2 GiB: cells that take more are an error.

    Returns
    -------
    pandas.DataFrame
        Plain numbers as float64; cells that need a decision, such as "2,848" or "007", stay text.
        The index is the number of the row in the file. ``attrs["notes"]`` has sentences about what
        was skipped or guessed.

    Raises
    ------
    TableError
        If the file is not a table; the text says what to do.

    Examples
    --------
    >>> from genmetric.tables import read_table
    >>> read_table(b"size;colour\n1.5;red\n2;blue\n")
       size colour
    0   1.5    red
    1   2.0   blue
    """
    table = _Table(source, **options)
    rng = np.random.default_rng(random_state)
    parts: list[Any] = []
    keys = np.empty(0)
    n_rows = held = 0
    for frame, n_bytes in table.frames():
        n_rows, held = n_rows + len(frame), held + n_bytes
        parts.append(frame)
        keys = np.append(keys, rng.random(len(frame)))
        if sample is not None and len(keys) > 2 * sample:
            held = held * sample // len(keys)
            parts, keys = _smallest(parts, keys, sample)
        table.check_bytes(held)
    parts, keys = _smallest(parts, keys, n_rows if sample is None else sample)
    if len(keys) < n_rows:
        table.note(f"a random sample of {len(keys)} of {n_rows} rows is used.")
    frame = parts[0]
    if table.is_csv and decimal is None and thousands is None:
        frame = with_numbers(frame, table.delimiter)
    frame.attrs = table.attrs
    return frame


def _smallest(parts: list[Any], keys: Any, n: int) -> tuple[list[Any], Any]:
    """Return the rows with the smallest keys in order: a sample without replacement."""
    frame = pd.concat(parts) if len(parts) > 1 else parts[0]
    if len(keys) <= n:
        return [frame], keys
    chosen = np.sort(np.argpartition(keys, n)[:n])
    return [frame.iloc[chosen]], keys[chosen]


def read_batches(source: Any, batch_rows: int = 50_000, **options: Any) -> Iterator[Any]:
    r"""Read a table in batches, in bounded memory.

    Parameters
    ----------
    source : path, bytes or binary file
        The table; see :func:`read_table`.
    batch_rows : int, default=50_000
        Most rows per batch.
    **options : dict
        See :func:`read_table`; `max_bytes` limits Excel files only, which are not read in parts.

    Yields
    ------
    pandas.DataFrame
        Rows in the order of the file. Cells of text files are text, as a fitted
        :class:`~genmetric.tables.TableEncoder` reads them.

    Examples
    --------
    >>> from genmetric.tables import read_batches
    >>> [len(frame) for frame in read_batches(b"size,kind\n1,a\n2,b\n3,a\n", 2)]
    [2, 1]
    """
    table = _Table(source, **options)
    for whole, _ in table.frames():
        for start in range(0, len(whole), batch_rows):
            frame = whole.iloc[start : start + batch_rows]
            frame.attrs = table.attrs
            yield frame


def row_label(frame: Any, position: int) -> str:
    r"""Name a row of a frame for messages.

    Parameters
    ----------
    frame : pandas.DataFrame
        Any frame; those of :func:`read_table` know their lines.
    position : int
        Position of the row in the frame.

    Returns
    -------
    str
        Such as "line 57", or "row 55" if the line is not known.

    Examples
    --------
    >>> from genmetric.tables import read_table, row_label
    >>> row_label(read_table(b"size,kind\n1,a\n2,b\n"), 1)
    'line 3'
    """
    row = frame.index[position]
    first = frame.attrs.get("first_line")
    return f"row {row}" if first is None else f"line {first + row}"


@dataclass
class _Table:
    """A file with a table; `frames` yields its rows, and fills `attrs`."""

    source: Any
    delimiter: str | None = None
    encoding: str | None = None
    header: bool | str = "auto"
    sheet: str | int | None = None
    max_bytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        self.attrs: dict[str, Any] = {"notes": []}
        self.is_csv, self.last_cell = False, ""
        self.sheet_rows: list[int] = []
        self.text = Utf8(self.encoding)
        is_path = isinstance(self.source, (str, os.PathLike))
        self.label = str(self.source) if is_path else "the table"
        if hasattr(self.source, "read"):
            self.source = self.source.read(self.max_bytes + 1)
            if len(self.source) > self.max_bytes:
                raise self.error(f"more than {readable_bytes(self.max_bytes)}.")
        if is_path and not Path(self.source).is_file():
            what = "not a regular file" if Path(self.source).exists() else "no such file"
            raise self.error(f"{what}. Check the name and the folder.")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise TableError(f"The delimiter must be one character; got {self.delimiter!r}.")

    def error(self, text: str) -> TableError:
        """Return an error that names the file."""
        return TableError(f"{self.label}: {text}")

    def note(self, text: str) -> None:
        """Add a note."""
        self.attrs["notes"].append(text)

    def check_bytes(self, n_bytes: int) -> None:
        """Raise if cells take too many bytes."""
        if n_bytes > self.max_bytes:
            advice = "Read it in batches (fit --stream) or fewer rows."
            size = readable_bytes(self.max_bytes)
            raise self.error(f"the cells take more than {size}. {advice}")

    def frames(self) -> Iterator[tuple[Any, int]]:
        """Yield frames and their bytes; any error of a reader becomes one line."""
        n_rows, kind = 0, "text"
        try:
            with self._open() as stream:
                first = stream.read(8)
            kind = next((k for magic, k in _KINDS.items() if first.startswith(magic)), "text")
            reader = {"Excel": self._excel, "Parquet": self._arrow, "Arrow": self._arrow}.get(kind)
            for frame, n_bytes in (reader or self._text)(kind):
                n_rows += len(frame)
                yield frame, n_bytes
        except (TableError, ImportError):
            raise
        except Exception as error:  # readers raise errors of every kind
            text = (str(error).splitlines() or [""])[0][:120]
            advice = "Re-create or re-download it."
            if isinstance(error, UnicodeError) or "unknown encoding" in text:
                advice = "Try --encoding latin-1 (or cp1252), or save the file as UTF-8."
            if "straddling" in text:
                text = f"a line is longer than {BLOCK_BYTES >> 20} MB"
                advice = "Check for an unclosed quote, or set the delimiter with --delimiter."
            raise self.error(f"corrupted {kind} file ({text}). {advice}") from error
        if n_rows == 0:
            raise self.error("the file has a header but no data rows.")

    def _open(self, kind: str = "") -> Any:
        """Open the source from its beginning."""
        is_bytes = isinstance(self.source, bytes)
        file = io.BytesIO(self.source) if is_bytes else os.fspath(self.source)
        return pa.input_stream(file, compression=kind if kind in _COMPRESSIONS else None)

    def _arrow(self, kind: str) -> Iterator[tuple[Any, int]]:
        """Read Parquet or Arrow; columns of types that cannot be features are empty."""
        parquet = import_optional("pyarrow.parquet", "cli")
        with self._open() as stream:
            is_parquet = kind == "Parquet"
            schema = parquet.read_schema(stream) if is_parquet else pa.ipc.open_file(stream).schema
            if len(set(schema.names)) < len(schema):
                raise self.error("several columns have the same name. Rename them.")
            allowed = [j for j, field in enumerate(schema) if _is_allowed(field.type)]
            for field in (schema[j] for j in range(len(schema)) if j not in set(allowed)):
                self.note(f"column {field.name!r} of type {str(field.type)[:40]} is not read.")
            if not allowed:
                raise self.error("no column has numbers, text, dates or lists of numbers.")
            if is_parquet:
                # A long text that repeats is decoded once.
                texts = [field.name for field in schema if _is_string(field.type)]
                file = parquet.ParquetFile(stream, read_dictionary=texts)
                n_rows = max(1, min(16384, BLOCK_BYTES // (16 * len(schema))))
                batches = file.iter_batches(n_rows, columns=[schema.names[j] for j in allowed])
            else:
                options = pa.ipc.IpcReadOptions(included_fields=allowed)
                file = pa.ipc.open_file(stream, options=options)
                batches = (file.get_batch(i) for i in range(file.num_record_batches))
            row = 0
            for batch in batches:
                batch.validate(full=True)
                n_bytes = sum(map(_decoded_bytes, batch.columns))
                self.check_bytes(n_bytes)
                plain = [_decoded(column) for column in batch.columns]
                frame = pa.table(plain, names=batch.schema.names).to_pandas(date_as_object=False)
                frame = frame.reindex(columns=schema.names)
                frame.index = pd.RangeIndex(row, row + len(frame))
                row += len(frame)
                yield frame, n_bytes

    def _excel(self, _kind: str) -> Iterator[tuple[Any, int]]:
        """Read a sheet cell by cell: faster readers allocate all cells up to the last one."""
        openpyxl = import_optional("openpyxl", "cli,excel")
        with self._open() as stream:
            data = io.BytesIO(stream.read())
        n_bytes = sum(member.file_size for member in zipfile.ZipFile(data).infolist())
        if n_bytes > self.max_bytes // 8:
            raise self.error("the workbook is too large. Save the table as Parquet or CSV.")
        sheets = openpyxl.load_workbook(data, read_only=True, data_only=True).worksheets
        chosen = [s for j, s in enumerate(sheets) if str(self.sheet) in (s.title, str(j + 1))]
        if self.sheet is not None and not chosen:
            shown = ", ".join(repr(sheet.title) for sheet in sheets)
            raise self.error(f"there is no sheet {self.sheet!r}. The sheets are {shown}.")
        for sheet in chosen[:1] or sheets:
            text = self._sheet_text(sheet)
            if text.strip().count(b"\n") > 0:
                break
        else:
            raise self.error("no sheet has a header and data rows.")
        if len(sheets) > 1:
            self.note(f"sheet {sheet.title!r} of {len(sheets)} is read (--sheet).")
        self.delimiter = ","
        yield from self._csv(pa.BufferReader(text), whole_lines(text[:BLOCK_BYTES], BLOCK_BYTES))

    def _sheet_text(self, sheet: Any) -> bytes:
        """Return a sheet as the text of a CSV file."""
        sheet.reset_dimensions()
        rows: dict[int, list[str]] = {}
        width = n_bytes = 0
        for i, cells in enumerate(sheet.iter_rows(values_only=True)):
            texts = ["" if cell is None else as_text(cell) for cell in cells]
            row = [" ".join(text.splitlines()) for text in texts]  # one line per row
            while row and not row[-1]:
                row.pop()
            rows |= {i: row} if row else {}
            width, n_bytes = max(width, len(row)), n_bytes + sum(map(len, row))
            if n_bytes + 16 * width * len(rows) > self.max_bytes:
                raise self.error("the sheet is too large. Save it as Parquet or CSV.")
        self.sheet_rows = list(rows)
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([*row, *[""] * (width - len(row))] for row in rows.values())
        return file.getvalue().encode()

    def _text(self, kind: str) -> Iterator[tuple[Any, int]]:
        """Read CSV or JSON lines."""
        with pa.TransformInputStream(self._open(kind), self.text) as stream:
            # `read` does not free its bytes if the file is damaged.
            data = stream.read_buffer(BLOCK_BYTES).to_pybytes()
        head = whole_lines(data, BLOCK_BYTES)
        if not head:
            raise self.error("the file is empty.")
        if "\0" in head:
            raise self.error(
                "not CSV, JSON lines, Parquet, Arrow or .xlsx. Save it as one of these."
            )
        self.text = text = Utf8(self.encoding)
        with pa.TransformInputStream(self._open(kind), text) as stream:
            if head.lstrip().startswith("{"):
                yield from self._json_lines(stream)
            else:
                yield from self._csv(stream, head)
        if text.n_quotes % 2 and "\n" in self.last_cell:
            raise self.error("a quote is not closed; the last cell has several lines.")
        if text.n_replaced:
            how = "mixes UTF-8 and" if text.n_beyond_ascii else "is not UTF-8 and is read as"
            self.note(f"the text {how} cp1252 (--encoding).")

    def _json_lines(self, stream: Any) -> Iterator[tuple[Any, int]]:
        self.attrs["first_line"] = 1
        file = io.TextIOWrapper(stream, encoding="utf-8")
        records: dict[int, Any] = {}
        size = 0
        for i, line in enumerate(iter(lambda: file.readline(16 * BLOCK_BYTES), "")):
            if line.strip():
                records[i] = None
                with suppress(ValueError, RecursionError):
                    records[i] = json.loads(line)
                if not isinstance(records[i], dict):
                    raise self.error(f'line {i + 1} is not a JSON object such as {{"a": 1}}.')
                size += len(line)
            if size > BLOCK_BYTES:
                yield self._records(records), 8 * size
                records, size = {}, 0
        if records:
            yield self._records(records), 8 * size

    def _records(self, records: dict[int, Any]) -> Any:
        """Return objects as rows."""
        names = dict.fromkeys(name for record in records.values() for name in record)
        if 16 * len(names) * len(records) > min(self.max_bytes, 64 * BLOCK_BYTES):
            raise self.error(f"{len(names)} different keys in {len(records)} objects are too many.")
        columns = {n: [record.get(n) for record in records.values()] for n in names}
        return pd.DataFrame(columns, list(records), dtype=object).infer_objects()

    def _csv(self, stream: Any, head: str) -> Iterator[tuple[Any, int]]:
        lines = head.split("\n")
        is_comment = [not x.strip() or x.lstrip().startswith(("#", "%", "//")) for x in lines]
        n_comments = is_comment.index(False) if False in is_comment else len(lines)
        body = "\n".join(lines[n_comments:])
        if not body:
            raise self.error("the file has no lines with data.")
        self.is_csv, self.delimiter = True, self.delimiter or sniff_delimiter(body)
        rows = split_lines(body, self.delimiter, HEAD_LINES)
        above = split_lines(lines[n_comments - 1], self.delimiter, 1) if n_comments else []
        if above and len(above[0][1]) == len(rows[0][1]) > 1 and any(map(is_plain, rows[0][1])):
            n_comments -= 1  # "#,name,size" or "# time,level" is a header
            rows = [(1, above[0][1]), *((line + 1, cells) for line, cells in rows)]
        names, n_skipped = self._names(rows, sum(bool(x.strip()) for x in lines[:n_comments]))
        skip = n_comments + (rows[n_skipped - 1][0] if n_skipped else 0)
        self.attrs["first_line"], self.text.width = skip + 1, len(names)
        bad: list[Any] = []
        row = n_read = 0
        for batch in self._csv_batches(stream, len(names), skip, bad):
            n_read += batch.num_rows
            if len(bad) > max(1, n_read // 100):
                raise self.error(f"{_ragged(bad)}. Correct the rows; delimiters need quotes.")
            places = np.arange(row, row + batch.num_rows + len(bad))
            places = np.setdiff1d(places, [b.number - 1 - skip for b in bad])[: batch.num_rows]
            row = places[-1] + 1 if len(places) else row
            table = pa.table([trimmed(c) for c in batch.columns], names=batch.schema.names)
            if any(matches(column, "\n") for column in table.columns):
                self.attrs.pop("first_line", None)  # lines are not rows
            frame = table.to_pandas()
            self.last_cell = str(frame.iloc[-1, -1]) if len(frame) else ""
            if self.sheet_rows:  # empty rows are not among the lines
                places = np.array(self.sheet_rows)[skip + places] - skip
            frame.columns, frame.index = names, pd.Index(places)
            yield frame[frame.notna().any(axis=1)], table.nbytes
        if bad:
            self.note(f"{_ragged(bad)}; skipped (rows: {len(bad)}).")

    def _csv_batches(self, stream: Any, width: int, skip: int, bad: list[Any]) -> Iterator[Any]:
        """Yield Arrow batches of texts; rows with a wrong number of cells are added to `bad`."""
        arrow_csv = import_optional("pyarrow.csv", "cli")
        names = [str(j) for j in range(width)]
        read = arrow_csv.ReadOptions(block_size=BLOCK_BYTES, column_names=names, skip_rows=skip)
        # With threads the handler of invalid rows does not know their numbers.
        read.use_threads = False
        parse = arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        parse.ignore_empty_lines = False
        parse.invalid_row_handler = lambda row: ["skip", bad.append(row)][0]  # type: ignore[func-returns-value]
        convert = arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
        with arrow_csv.open_csv(stream, read, parse, convert) as reader:
            yield from reader

    def _names(self, lines: Any, n_comments: int = 0) -> tuple[list[str], int]:
        """Return the names of the columns, and the number of `lines` up to the first row."""
        if self.header is False:
            width = Counter(len(cells) for _, cells in lines).most_common(1)[0][0]
            return [f"column_{j + 1}" for j in range(width)], 0
        start = header_position(lines) if self.header == "auto" else 0
        skipped = n_comments + start
        if skipped:
            verb = "line above the header is" if skipped == 1 else "lines above the header are"
            self.note(f"{skipped} {verb} skipped.")
        header = [name.strip().removeprefix("# ") for name in lines[start][1]]
        if 2 * sum(is_plain(name) for name in header) > len(header):
            shown = ", ".join(header[:3])
            self.note(f"the header looks like data ({shown}); is there no header (--no-header)?")
        rows = [cells for _, cells in lines[start + 1 :]]
        if rows and all(len(row) == len(header) + 1 for row in rows):
            named = any(row[-1].strip() for row in rows)
            header = ["", *header] if named else [*header, ""]
            what = "and is read as the names of the rows" if named else "and no cells"
            self.note(f"the {'first' if named else 'last'} column has no name {what}.")
        elif header[-1] == "" and rows and all(len(row) == len(header) - 1 for row in rows):
            header = header[:-1]
        names = unique_names(header)
        changed = [new for new, name in zip(names, header, strict=True) if name and new != name]
        if changed:
            self.note(f"repeated column names are changed to {', '.join(map(repr, changed[:5]))}.")
        return names, start + 1


def _ragged(bad: list[Any]) -> str:
    """Say what is wrong with the first row that has a wrong number of cells."""
    n_found, n_expected = bad[0].actual_columns, bad[0].expected_columns
    return f"line {bad[0].number} has {n_found} cells, the header has {n_expected}"


def _is_string(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_allowed(kind: Any) -> bool:
    """Return whether an Arrow type is one of numbers, texts, dates or lists of numbers."""
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
        return bool(types.is_integer(kind) or types.is_floating(kind))
    if types.is_dictionary(kind):
        return _is_string(kind.value_type)
    checks = ("integer", "floating", "boolean", "temporal", "decimal")
    return _is_string(kind) or any(getattr(types, f"is_{name}")(kind) for name in checks)


def _decoded_bytes(column: Any) -> int:
    """Return the bytes of an Arrow column, each text of a dictionary as often as it occurs."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return int(pc.sum(lengths).as_py() or 0)


def _decoded(column: Any) -> Any:
    """Return an Arrow column without a dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
