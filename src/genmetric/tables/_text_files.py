"""CSV files and JSON lines as Arrow tables, block by block."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmetric._optional import import_optional
from genmetric.tables._blocks import line_blocks, open_bytes, text_blocks
from genmetric.tables._cells import missing_set
from genmetric.tables._errors import TableError
from genmetric.tables._format import TextForm, not_text
from genmetric.tables._table_file import TableFile

#: Message of pyarrow about a row with too few or too many cells.
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")

#: Leading zeros: such cells are codes and not numbers.
_CODE = r"^[+-]?0\d"


@dataclass(frozen=True)
class CSVFile(TableFile):
    """A CSV file, possibly compressed.

    Attributes
    ----------
    form : TextForm
        Encoding, delimiter, header, and columns to read as numbers. A block in which a cell is not
        a plain number has the column as text.
    compression : str or None
        Name of the compression, as pyarrow calls it.
    missing_words : tuple of str or None
        Texts of missing values; None is the usual ones.
    """

    form: TextForm
    compression: str | None = None
    missing_words: tuple[str, ...] | None = None

    def _tables(self, names: list[str], text: Collection[str]) -> Generator[Any, None, None]:
        """Yield tables; numbers as float64, everything else as text."""
        plain = [name for name in names if name in self.form.plain and name not in text]
        words = missing_set(self.missing_words)
        variants = sorted({v for w in words for v in (w, w.upper(), w.capitalize(), w.title())})
        row = 0
        with closing(self._blocks()) as blocks:
            for block in blocks:
                table = self._parse(block, names, plain, variants, row)
                row += table.num_rows
                yield table

    def _blocks(self) -> Generator[bytes, None, None]:
        """Yield the rows below the header as text, in blocks."""
        form = self.form
        try:
            with open_bytes(self.path, self.compression, self.label) as stream:
                yield from line_blocks(
                    text_blocks(stream, form.encoding),
                    self.label,
                    delimiter=form.delimiter,
                    skip_lines=form.skip_lines,
                )
        except UnicodeDecodeError as error:
            raise not_text(self.label, form.encoding) from error

    def _parse(
        self, block: bytes, names: list[str], plain: list[str], missing: list[str], row: int
    ) -> Any:
        """Return the rows of a block; columns with cells that are not plain numbers as text."""
        pa, pc = import_optional("pyarrow", "cli"), import_optional("pyarrow.compute", "cli")
        as_text = [name for name in names if name not in plain]
        try:
            if plain:
                # Cells that are not plain numbers, and leading zeros, are rare; only a block that
                # has some is read as text.
                with suppress(pa.ArrowInvalid):
                    table = self._read(block, names, set(plain), missing)
                    if not has_leading_zero(block):
                        return _stripped(table, as_text)
            texts = _stripped(self._read(block, names, set(), missing), names)
        except pa.ArrowInvalid as error:
            raise self._explain(error, row) from error
        words = pa.array(sorted({m.lower() for m in missing}))
        for name in plain:
            column = texts.column(name)
            known = pc.if_else(
                pc.is_in(pc.utf8_lower(column), words), pa.scalar(None, pa.string()), column
            )
            if pc.any(pc.match_substring_regex(known, _CODE)).as_py():
                continue
            try:
                numbers = pc.cast(known, pa.float64())
            except pa.ArrowInvalid:
                continue
            texts = texts.set_column(texts.schema.get_field_index(name), name, numbers)
        return texts

    def _read(self, block: bytes, names: list[str], plain: set[str], missing: list[str]) -> Any:
        pa, arrow_csv = import_optional("pyarrow", "cli"), import_optional("pyarrow.csv", "cli")
        place = {name: str(number) for number, name in enumerate(self.names)}
        types = {place[n]: pa.float64() if n in plain else pa.string() for n in names}
        table = arrow_csv.read_csv(
            pa.BufferReader(block),
            read_options=arrow_csv.ReadOptions(
                # Threads would not know the numbers of rows, and blocks are small.
                use_threads=False,
                block_size=len(block) + 1,
                column_names=[str(number) for number in range(len(self.names))],
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self.form.delimiter, newlines_in_values=True
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=[*missing, *(f" {word}" for word in missing)] if plain else [""],
                strings_can_be_null=not plain,
            ),
        )
        return table.rename_columns(names)

    def _explain(self, error: Exception, row: int) -> TableError:
        """Return the error of a block that cannot be parsed, with the line of the row."""
        ragged = _RAGGED.search(str(error))
        if ragged is None:
            return TableError(f"{self.label}: cannot be read as CSV: {str(error).splitlines()[0]}")
        number, expected, found = map(int, ragged.groups())
        return TableError(
            f"{self.label}: {self.row_label(row + number - 1)} has {found} cells, the header has "
            f"{expected}. Correct the row; a cell that contains the delimiter needs quotes."
        )

    def row_label(self, row: int) -> str:
        """Return the line of the file at which a row starts, such as "line 57"."""
        line = self.form.skip_lines + 1
        try:
            with closing(self._blocks()) as blocks:
                for block in blocks:
                    file = io.StringIO(block.decode(), newline="")
                    reader = csv.reader(file, delimiter=self.form.delimiter)
                    start = 1
                    for cells in reader:
                        # Blank lines are not rows.
                        if cells:
                            if row == 0:
                                return f"line {line + start - 1}"
                            row -= 1
                        start = reader.line_num + 1
                    line += block.count(b"\n")
        except (csv.Error, OSError, TableError):
            pass
        return f"row {row + 1}"


def has_leading_zero(block: bytes) -> bool:
    """Return whether some number in a text starts with a zero and another digit, as codes do.

    A regular expression takes most of the time of reading a file; this takes a tenth of it.

    Examples
    --------
    >>> from genmetric.tables._text_files import has_leading_zero
    >>> has_leading_zero(b"1,0.05,100"), has_leading_zero(b"1,05")
    (False, True)
    """
    codes = np.frombuffer(b"\n" + block, dtype=np.uint8)
    zeros = np.flatnonzero(codes[1:-1] == ord("0"))
    before, after = codes[zeros], codes[zeros + 2]
    continues = (before >= ord("0")) & (before <= ord("9")) | (before == ord("."))
    return bool((~continues & (after >= ord("0")) & (after <= ord("9"))).any())


def _stripped(table: Any, names: Sequence[str]) -> Any:
    """Remove spaces around texts, and make empty texts null."""
    pa, pc = import_optional("pyarrow", "cli"), import_optional("pyarrow.compute", "cli")
    for name in names:
        column = pc.utf8_trim_whitespace(table.column(name))
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table


@dataclass(frozen=True)
class JSONLinesFile(TableFile):
    """A file with one JSON object per line.

    Attributes
    ----------
    compression : str or None
        Name of the compression, as pyarrow calls it.
    """

    compression: str | None = None

    def _tables(self, names: list[str], text: Collection[str]) -> Generator[Any, None, None]:
        """Yield tables with the types of the JSON values."""
        pa = import_optional("pyarrow", "cli")
        line = 1
        try:
            with open_bytes(self.path, self.compression, self.label) as stream:
                for block in line_blocks(text_blocks(stream, "utf-8"), self.label):
                    records = json_records(block, self.label, line)
                    line += block.count(b"\n")
                    arrays = [
                        arrow_column([r.get(name) for r in records], as_text=name in text)
                        for name in names
                    ]
                    yield pa.table(arrays, names=names)
        except UnicodeDecodeError as error:
            raise not_text(self.label, "utf-8") from error

    def row_label(self, row: int) -> str:
        """Return the line of a row; blank lines are not counted."""
        return f"line {row + 1}"


def json_records(block: bytes, label: str, first_line: int = 1) -> list[dict[str, Any]]:
    """Return the objects of a block of JSON lines.

    Parameters
    ----------
    block : bytes
        Whole lines.
    label : str
        Name of the file, for errors.
    first_line : int, default=1
        Number of the first line.

    Returns
    -------
    list of dict
        One per line that is not blank.
    """
    records = []
    for number, line in enumerate(block.decode().split("\n"), first_line):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TableError(
                f"{label}: line {number} is not JSON. Expected one object per line, such as "
                '{"a": 1, "label": "x"}.'
            ) from error
        if not isinstance(record, dict):
            raise TableError(
                f"{label}: line {number} contains a JSON {type(record).__name__}. Expected one object "
                'per line, such as {"a": 1, "label": "x"}.'
            )
        records.append({str(name): value for name, value in record.items()})
    return records


def arrow_column(values: Sequence[Any], *, as_text: bool = False) -> Any:
    """Return values of any kind as an Arrow array; mixed kinds become text.

    Parameters
    ----------
    values : sequence
        Cells; None is missing.
    as_text : bool, default=False
        Whether to convert all values to text.

    Returns
    -------
    pyarrow.Array
        The column.
    """
    from genmetric.tables._cells import cell_text, is_vector

    pa = import_optional("pyarrow", "cli")
    if not as_text:
        try:
            array = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
        else:
            return pc_float(array)
    texts = [json.dumps(v) if is_vector(v) or isinstance(v, dict) else cell_text(v) for v in values]
    return pa.array(texts, pa.string())


def pc_float(array: Any) -> Any:
    """Return integers as float64, so that blocks with and without fractions have one type."""
    pa, pc = import_optional("pyarrow", "cli"), import_optional("pyarrow.compute", "cli")
    if pa.types.is_integer(array.type):
        return pc.cast(array, pa.float64(), safe=False)
    return array
