"""CSV and Parquet files as streams of record batches."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from genmetric._extras import need
from genmetric.tables.sniffing import (
    HEAD_BYTES,
    TableError,
    check_names,
    decode_head,
    first_lines,
    has_decimal_comma,
    not_utf8,
    read_head,
    sniff_delimiter,
)

#: What a column holds: numbers (true and false too), words, moments, or what is no table's.
Kind = Literal["number", "text", "date", "other"]

#: Cells that stand for no value, beside pyarrow's own; the question mark is the UCI repository's.
MISSING = ["?"]

#: Bytes of CSV text that become one batch.
BLOCK_BYTES = 4 << 20

#: Bytes of numbers in one batch of a Parquet file.
BATCH_BYTES = 16 << 20

#: Words by which pyarrow says that a row has too few or too many cells.
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_NO_NUMBER = re.compile(r"column #(\d+): Row #(\d+): .*?invalid value '(.*)'", re.DOTALL)


@dataclass(frozen=True)
class TableFile:
    """A CSV or Parquet file: names and kinds of its columns, and its rows in batches.

    Attributes
    ----------
    path : Path
        The file.
    names : tuple of str
        Columns in the order of the file.
    kinds : dict of str to Kind
        What each column holds; in a CSV file as far as its first lines tell.
    examples : dict of str to str
        What to show of a column that cannot be used: a few values or its type.
    whole_numbers : frozenset of str
        Columns that hold whole numbers, as far as that is known.
    booleans : frozenset of str
        Columns that hold true and false, which are the numbers 1 and 0.
    """

    path: Path
    names: tuple[str, ...]
    kinds: dict[str, Kind]
    examples: dict[str, str]
    whole_numbers: frozenset[str] = frozenset()
    booleans: frozenset[str] = frozenset()

    @property
    def n_bytes(self) -> int:
        """Size of the file."""
        return self.path.stat().st_size

    def batches(self, columns: dict[str, Kind]) -> Iterator[Any]:
        """Record batches with these columns alone, numbers as float64 and all else as strings.

        Parameters
        ----------
        columns : dict of str to Kind
            Columns to read, and whether as "number" or as "text".

        Yields
        ------
        pyarrow.RecordBatch
            Columns in the order of `columns`, without spaces around words.

        Raises
        ------
        TableError
            At a cell that is no number and at rows with too few or too many cells.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class CSVFile(TableFile):
    """A CSV file, possibly compressed.

    Attributes
    ----------
    delimiter : str
        Between cells.
    encoding : str
        Of the text.
    compression : str or None
        Name that pyarrow knows.
    decimal_point : str
        Point or comma.
    line_length : int
        Of the longest of the first lines, in characters.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    compression: str | None = None
    decimal_point: str = "."
    line_length: int = 0

    def batches(self, columns: dict[str, Kind]) -> Iterator[Any]:  # noqa: D102
        pa = need("pyarrow", "cli")
        try:
            yield from self._read(columns, threads=True)
        except (pa.ArrowException, UnicodeError, OSError) as error:
            raise self._explain(columns, error) from error

    def _read(self, columns: dict[str, Kind], *, threads: bool) -> Iterator[Any]:
        pa, arrow_csv = need("pyarrow", "cli"), need("pyarrow.csv", "cli")
        # Numbered names: those of the file may repeat once spaces are gone, or be empty.
        place = {name: str(number) for number, name in enumerate(self.names)}
        numbers = {name: place[name] for name in columns}
        words = {True: pa.bool_(), False: pa.float64()}
        types = {
            numbers[name]: words[name in self.booleans] if kind == "number" else pa.string()
            for name, kind in columns.items()
        }
        with pa.input_stream(str(self.path), compression=self.compression) as stream:
            reader = arrow_csv.open_csv(
                stream,
                read_options=arrow_csv.ReadOptions(
                    use_threads=threads,
                    # A line longer than a block cannot be read; bytes are up to 4 a character.
                    block_size=max(BLOCK_BYTES, 16 * self.line_length),
                    encoding=self.encoding,
                    column_names=[str(number) for number in range(len(self.names))],
                    skip_rows_after_names=1,
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=types,
                    include_columns=list(types),
                    null_values=_missing_words(),
                    strings_can_be_null=True,
                    decimal_point=self.decimal_point,
                ),
            )
            for batch in reader:
                arrays = [
                    _as_kind(array, kind)
                    for array, kind in zip(batch.columns, columns.values(), strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _explain(self, columns: dict[str, Kind], error: Exception) -> TableError:
        """The error of a file that pyarrow could not read, with its row and column."""
        pa = need("pyarrow", "cli")
        if not isinstance(error, UnicodeError):
            try:
                # One thread knows its rows.
                for _ in self._read(columns, threads=False):
                    pass
            except (pa.ArrowException, UnicodeError, OSError) as again:
                error = again
        text = str(error)
        if isinstance(error, UnicodeError) or "UTF8" in text or "UTF-8" in text:
            return not_utf8(self.path, self.encoding, None, None)
        ragged, no_number = _RAGGED.search(text), _NO_NUMBER.search(text)
        if ragged:
            row, expected, found = map(int, ragged.groups())
            return TableError(
                f"{self.path}: data row {row - 1} has {found} cells, the header has {expected}. "
                "Correct the row; a cell with the delimiter in it needs quotes."
            )
        if no_number:
            column, row = int(no_number[1]), int(no_number[2])
            name = self.names[column]
            return TableError(
                f"{self.path}: column {name!r} holds {no_number[3]!r} in data row {row - 1}, which "
                f"is no number. Correct it, leave the column out (--ignore {name}) or make its "
                f"values categories (--category {name})."
            )
        if isinstance(error, OSError) and self.compression:
            return TableError(f"{self.path}: damaged {self.compression} file. Make the file anew.")
        return TableError(f"{self.path}: cannot be read as CSV: {text.splitlines()[0]}")


@dataclass(frozen=True)
class ParquetFile(TableFile):
    """A Parquet file."""

    def batches(self, columns: dict[str, Kind]) -> Iterator[Any]:  # noqa: D102
        pa, parquet = need("pyarrow", "cli"), need("pyarrow.parquet", "cli")
        names = list(columns)
        rows = max(1024, BATCH_BYTES // (8 * max(1, len(names))))
        try:
            # With pre_buffer all that was read stays in memory until the file is closed.
            with parquet.ParquetFile(self.path, memory_map=False, pre_buffer=False) as file:
                for batch in file.iter_batches(rows, columns=names):
                    arrays = [
                        _as_kind(batch.column(batch.schema.get_field_index(name)), columns[name])
                        for name in names
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, names=names)
        except (pa.ArrowException, OSError) as error:
            raise TableError(
                f"{self.path}: damaged Parquet file ({str(error).splitlines()[0]}). Write it anew."
            ) from error


def open_table(
    path: str | Path, *, delimiter: str | None = None, encoding: str | None = None
) -> TableFile:
    """Find out what a file is and which columns it has.

    Parameters
    ----------
    path : path-like
        A CSV file, possibly compressed, or a Parquet file; told apart by content, not by name.
    delimiter : str, default=None
        Between the cells of a CSV file; ``None`` looks for the one that fits the first lines.
    encoding : str, default=None
        Of a CSV file; ``None`` is UTF-8, or UTF-16 with a byte order mark.

    Returns
    -------
    TableFile
        The file, nothing of it kept in memory.

    Raises
    ------
    TableError
        For files that are no tables, with what to do.
    """
    path = Path(path)
    try:
        head, compression = read_head(path)
    except OSError as error:
        raise TableError(f"{path}: {error.strerror or error}.") from error
    if head.startswith(b"PAR1"):
        return _open_parquet(path)
    return _open_csv(path, head, compression, delimiter, encoding)


def _open_csv(
    path: Path, head: bytes, compression: str | None, delimiter: str | None, encoding: str | None
) -> CSVFile:
    whole = len(head) < HEAD_BYTES
    text, encoding = decode_head(head, path, encoding)
    if delimiter is None:
        delimiter = sniff_delimiter(text, whole=whole)
    elif len(delimiter) != 1:
        raise TableError(f"The delimiter must be one character; got {delimiter!r}.")
    lines = first_lines(text, delimiter)
    if not lines:
        raise TableError(f"{path}: the file has no lines.")
    if not whole and len(lines) < 3:
        raise TableError(
            f"{path}: its first lines are longer than {HEAD_BYTES >> 20} MB each. Is a quote not "
            "closed, or the delimiter another (--delimiter)?"
        )
    if not whole:
        lines = lines[:-1]
    names = check_names(lines[0], path)
    if len(lines) < 2:
        raise TableError(f"{path}: there is a header and no row below it.")
    decimal = "," if has_decimal_comma(lines, delimiter) else "."
    # Rows with too few or too many cells are refused when they are read, with their number.
    full = [line for line in lines[1:] if len(line) == len(names)]
    kinds, examples, whole_numbers, booleans = _csv_kinds(names, full, decimal)
    return CSVFile(
        path,
        tuple(names),
        kinds,
        examples,
        whole_numbers,
        booleans,
        delimiter,
        encoding,
        compression,
        decimal,
        max(map(len, text.splitlines())),
    )


def _csv_kinds(
    names: Sequence[str], lines: Sequence[Sequence[str]], decimal: str
) -> tuple[dict[str, Kind], dict[str, str], frozenset[str], frozenset[str]]:
    """Kinds of columns from their first cells, by pyarrow's rules for what a cell is."""
    pa, arrow_csv = need("pyarrow", "cli"), need("pyarrow.csv", "cli")
    cells = [[cell.strip() for cell in line] for line in lines]
    # Written anew with every cell in quotes: spaces are gone, and nothing else has a meaning.
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(range(len(names)))
    writer.writerows(cells)
    found = arrow_csv.read_csv(
        pa.BufferReader(text.getvalue().encode("utf-8", "replace")),
        # All in one block, whose size is limited: the first lines of wide tables are long.
        read_options=arrow_csv.ReadOptions(block_size=2 * len(text.getvalue()) + 1024),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            null_values=_missing_words(), decimal_point=decimal
        ),
    )
    types = dict(zip(names, found.schema.types, strict=True))
    # A column of no values so far has the type null: a number, and takes what comes.
    kinds = {name: kind_of(type_) for name, type_ in types.items()}
    examples = {
        name: ", ".join(repr(cell[:20]) for cell in list(dict.fromkeys(column))[:3])
        for name, column in zip(names, zip(*cells, strict=True), strict=False)
    }
    whole = frozenset(name for name, type_ in types.items() if pa.types.is_integer(type_))
    booleans = frozenset(name for name, type_ in types.items() if pa.types.is_boolean(type_))
    return kinds, examples, whole, booleans


def _open_parquet(path: Path) -> ParquetFile:
    pa, parquet = need("pyarrow", "cli"), need("pyarrow.parquet", "cli")
    try:
        schema = parquet.read_schema(path)
        n_rows = parquet.read_metadata(path).num_rows
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{path}: damaged Parquet file. Write it anew.") from error
    names = check_names(schema.names, path)
    if names != schema.names:
        strange = next(name for name in schema.names if name != name.strip())
        raise TableError(f"{path}: column {strange!r} has spaces around its name. Rename it.")
    if n_rows == 0:
        raise TableError(f"{path}: there is a header and no row below it.")
    types = dict(zip(schema.names, schema.types, strict=True))
    kinds = {name: kind_of(type_) for name, type_ in types.items()}
    examples = {name: f"type {type_}" for name, type_ in types.items()}
    whole = frozenset(name for name, type_ in types.items() if pa.types.is_integer(type_))
    return ParquetFile(path, tuple(names), kinds, examples, whole)


def kind_of(type_: Any) -> Kind:
    """What a column of an Arrow type holds.

    Parameters
    ----------
    type_ : pyarrow.DataType
        The type.

    Returns
    -------
    Kind
        "number" for all that float64 can stand for, true and false and no value at all too.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from genmetric.tables.sources import kind_of
    >>> kind_of(pa.decimal128(8, 2)), kind_of(pa.dictionary(pa.int8(), pa.string()))
    ('number', 'text')
    """
    is_ = need("pyarrow", "cli").types
    if is_.is_dictionary(type_):
        return kind_of(type_.value_type)
    if (
        is_.is_integer(type_)
        or is_.is_floating(type_)
        or is_.is_decimal(type_)
        or is_.is_boolean(type_)
        or is_.is_null(type_)
    ):
        return "number"
    if is_.is_string(type_) or is_.is_large_string(type_):
        return "text"
    if is_.is_temporal(type_):
        return "date"
    return "text" if str(type_) == "string_view" else "other"


def _as_kind(array: Any, kind: Kind) -> Any:
    """A column as float64, or as words without spaces around them and null where none are left."""
    pa, pc = need("pyarrow", "cli"), need("pyarrow.compute", "cli")
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if kind == "number":
        if pa.types.is_float64(array.type):
            return array
        if pa.types.is_boolean(array.type):
            array = pc.cast(array, pa.uint8())
        elif pa.types.is_float16(array.type):
            array = pc.cast(array, pa.float32())
        # Not safe: whole numbers beyond 2^53 lose their last digits, as they do in a CSV file.
        return pc.cast(array, pa.float64(), safe=False)
    if pa.types.is_floating(array.type):
        # A class that went through a column with gaps: 1.0 is the class 1.
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
        rounded = pc.cast(array, pa.int64(), safe=False)
        if pc.all(pc.equal(pc.cast(rounded, array.type), array)).as_py() is not False:
            array = rounded
    words = pc.utf8_trim_whitespace(pc.cast(array, pa.string()))
    return pc.if_else(
        pc.is_in(words, pa.array(["", *MISSING])), pa.scalar(None, pa.string()), words
    )


def _missing_words() -> list[str]:
    """Cells of a CSV file that stand for no value, with a space before them too."""
    words = [*need("pyarrow.csv", "cli").ConvertOptions().null_values, *MISSING]
    return [*words, *(f" {word}" for word in words)]
