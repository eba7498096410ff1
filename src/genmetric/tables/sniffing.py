"""What kind of file a table is: its first bytes, its delimiter, its names."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from genmetric._extras import need

#: Bytes read to find out about a file.
HEAD_BYTES = 1 << 22

#: First bytes of compressed files that pyarrow can read, and its name for them.
COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}

#: First bytes of files that people try, and what to tell them.
FOREIGN = {
    b"PK\x03\x04": "is a ZIP archive or an Excel workbook. Save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "is an Excel workbook. Save the sheet as CSV",
    b"\x89HDF": "is an HDF5 file. Save the table as CSV or Parquet",
    b"ARROW1": "is an Arrow file. Save the table as CSV or Parquet",
    b"SQLite format 3": "is an SQLite database. Save the table as CSV",
    b"%PDF": "is a PDF. Save the table as CSV",
}

DELIMITERS = ",;\t|"

_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")


class TableError(ValueError):
    """A table that cannot be used; the text says why, where and what to do."""


def read_head(path: Path) -> tuple[bytes, str | None]:
    """The first bytes of a file, decompressed, and how it is compressed.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    head : bytes
        At most :data:`HEAD_BYTES`; all of the file where fewer come back.
    compression : str or None
        Name that pyarrow knows.

    Raises
    ------
    TableError
        For a directory, a pipe, an empty file, and files of another kind.
    """
    if not path.exists():
        raise TableError(f"{path}: no such file. Check the name and the folder.")
    if path.is_dir():
        raise TableError(f"{path}: is a folder. Name a CSV or Parquet file.")
    if not path.is_file():
        raise TableError(f"{path}: is no regular file. Save the table as a file: it is read twice.")
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise TableError(f"{path}: the file is empty.")
    compression = next((c for magic, c in COMPRESSIONS.items() if head.startswith(magic)), None)
    if compression:
        pa = need("pyarrow", "cli")
        try:
            with pa.input_stream(str(path), compression=compression) as stream:
                head = stream.read(HEAD_BYTES)
        except (OSError, pa.ArrowException) as error:
            raise TableError(f"{path}: damaged {compression} file. Make the file anew.") from error
        if not head:
            raise TableError(f"{path}: the file is empty.")
    for magic, advice in FOREIGN.items():
        if head.startswith(magic):
            raise TableError(f"{path}: {advice}.")
    return head, compression


def decode_head(head: bytes, path: Path, encoding: str | None) -> tuple[str, str]:
    """The text of the first bytes and its encoding.

    Parameters
    ----------
    head : bytes
        First bytes of the file.
    path : Path
        Its name, for errors.
    encoding : str or None
        What the user says; ``None`` is UTF-8, or UTF-16 where the file says so itself.

    Returns
    -------
    text : str
        Without a byte order mark.
    encoding : str
        Name that Python knows.
    """
    if encoding is None:
        encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    if encoding == "utf-8" and b"\x00" in head:
        raise TableError(f"{path}: is no text, so no CSV, and no Parquet file either.")
    try:
        # The last character may be cut in two: an incremental decoder keeps it back.
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except LookupError as error:
        raise TableError(f"No encoding is called {encoding!r}. Try latin-1 or cp1252.") from error
    except UnicodeDecodeError as error:
        line = head[: error.start].count(b"\n") + 1
        raise not_utf8(path, encoding, head[error.start], line) from error
    return text.removeprefix("\ufeff"), encoding


def not_utf8(path: Path, encoding: str, byte: int | None, line: int | None) -> TableError:
    """The error about text in another encoding."""
    found = "" if byte is None else f": byte 0x{byte:02x} in line {line}"
    return TableError(
        f"{path}: is not {encoding.upper()} text{found}. Say --encoding latin-1 (or cp1252), or "
        "save it as UTF-8."
    )


def sniff_delimiter(text: str, *, whole: bool) -> str:
    r"""The character between cells: the one that parts all first lines into equally many cells.

    Parameters
    ----------
    text : str
        Beginning of the file.
    whole : bool
        Whether it is the whole file; otherwise its last line may be cut.

    Returns
    -------
    str
        One of comma, semicolon, tab and bar; a comma where none parts the lines.

    Examples
    --------
    >>> from genmetric.tables.sniffing import sniff_delimiter
    >>> sniff_delimiter('a;b\n"1;5";2,5\n', whole=True)
    ';'
    """
    best, best_score = ",", (0.0, 0)
    for delimiter in DELIMITERS:
        lines = _cells(text, delimiter, 200)
        if not whole and len(lines) > 2:
            lines = lines[:-1]
        if not lines:
            continue
        n_cells = len(lines[0])
        agree = sum(len(line) == n_cells for line in lines) / len(lines)
        # A few ragged lines are an error to report, not a sign of another delimiter.
        score = (round(agree, 1), n_cells)
        if n_cells > 1 and score > best_score:
            best, best_score = delimiter, score
    return best


def _cells(text: str, delimiter: str, n_lines: int) -> list[list[str]]:
    lines: list[list[str]] = []
    # A cell without end, of a quote that is not closed, is an error: lines before it tell enough.
    with contextlib.suppress(csv.Error):
        reader = csv.reader(io.StringIO(text), delimiter=delimiter)
        lines.extend(line for line in itertools.islice(reader, n_lines) if line)
    return lines


def first_lines(text: str, delimiter: str, n_lines: int = 200) -> list[list[str]]:
    """The cells of the first lines that are not blank, the header first."""
    return _cells(text, delimiter, n_lines)


def has_decimal_comma(lines: Sequence[Sequence[str]], delimiter: str) -> bool:
    """Whether numbers are written 1,5: some column is so throughout, and none with a point."""
    if delimiter == "," or len(lines) < 2:
        return False
    columns = itertools.zip_longest(*lines[1:], fillvalue="")
    cells = [[c.strip() for c in column if c.strip()] for column in columns]
    commas = [bool(column) and all(map(_looks_whole_or_comma, column)) for column in cells]
    return any(
        comma and any("," in c for c in column) for comma, column in zip(commas, cells, strict=True)
    )


def _looks_whole_or_comma(cell: str) -> bool:
    return bool(_DECIMAL_COMMA.fullmatch(cell)) or cell.lstrip("+-").isdigit()


def check_names(names: Iterable[str], path: Path) -> list[str]:
    """Names of the columns without spaces around them; refuse empty and repeated ones.

    Parameters
    ----------
    names : iterable of str
        The header.
    path : Path
        Name of the file, for errors.

    Returns
    -------
    list of str
        The names.
    """
    clean = [name.strip() for name in names]
    hint = header_hint(clean)
    twice = [name for name, count in Counter(clean).items() if count > 1]
    if twice == [""]:
        raise TableError(f"{path}: {clean.count('')} columns have no name. Name them.{hint}")
    if twice:
        raise TableError(f"{path}: {quoted(twice)} names more than one column. Rename them.{hint}")
    return clean


def header_hint(names: Sequence[str]) -> str:
    """A sentence for files whose first line looks like data, else nothing."""
    if names and all(_is_number(name) for name in names if name) and any(names):
        return " The first line looks like numbers: add a line with the names of the columns."
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def quoted(names: Iterable[str], most: int = 5) -> str:
    """Names in quotes, the first few of them."""
    listed = list(names)
    text = ", ".join(repr(name) for name in listed[:most])
    return text + (f" and {len(listed) - most} more" if len(listed) > most else "")
