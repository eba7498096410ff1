"""The form of a text table: encoding, delimiter, lines above the header, names."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from genmetric.tables._errors import TableError
from genmetric.tables._numbers import NumberFormat, choose_format

#: Bytes read to find out about a file.
HEAD_BYTES = 1 << 22

#: Lines that decide the form of a file.
HEAD_LINES = 1000

DELIMITERS = ",;\t|"

#: Beginnings of lines above the header that are comments.
COMMENTS = ("#", "%", "//")


@dataclass(frozen=True)
class TextForm:
    """The form of a CSV file.

    Attributes
    ----------
    encoding : str
        Encoding of the text, as Python names it.
    delimiter : str
        Character between cells.
    names : tuple of str
        Names of the columns; repeated ones get a number.
    skip_lines : int
        Number of lines up to the end of the header.
    plain : frozenset of str
        Columns that hold plain numbers in the first lines.
    notes : tuple of str
        Remarks on what was changed or skipped.
    """

    encoding: str
    delimiter: str
    names: tuple[str, ...]
    skip_lines: int
    plain: frozenset[str]
    notes: tuple[str, ...]


def find_form(
    head: bytes,
    label: str,
    *,
    whole: bool,
    delimiter: str | None = None,
    encoding: str | None = None,
    missing: frozenset[str] = frozenset(),
) -> TextForm:
    """Find the form of a CSV file from its first bytes.

    Parameters
    ----------
    head : bytes
        First bytes of the file, decompressed.
    label : str
        Name of the file, for errors.
    whole : bool
        Whether `head` is the whole file; otherwise its last line may be incomplete.
    delimiter, encoding : str, default=None
        If known; None detects them.
    missing : frozenset of str, default=frozenset()
        Texts of missing values in lower case.

    Returns
    -------
    TextForm
        The form.
    """
    text, encoding, notes = decode_head(head, label, encoding)
    # Files of old Macs end lines by a carriage return only.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    n_comments = 0
    for line in text.split("\n"):
        if line.strip() and not line.lstrip().startswith(COMMENTS):
            break
        n_comments += 1
    body = text.split("\n", n_comments)[-1] if n_comments else text
    if not body.strip():
        raise TableError(f"{label}: the file has no lines with data.")
    if delimiter is None:
        delimiter = sniff_delimiter(body, whole=whole)
    elif len(delimiter) != 1:
        raise TableError(f"The delimiter must be one character; got {delimiter!r}.")
    lines = _cells(body, delimiter, HEAD_LINES)
    if not whole:
        if len(lines) < 3:
            raise TableError(
                f"{label}: the first lines are longer than {HEAD_BYTES >> 20} MB each. Is a quote "
                "not closed, or is the delimiter another one (--delimiter)?"
            )
        lines = lines[:-1]
    start = _header_position(lines)
    end_line, header = lines[start]
    skipped = sum(bool(line.strip()) for line in text.split("\n")[:n_comments]) + start
    if skipped:
        lines_are = "line above the header is" if skipped == 1 else "lines above the header are"
        notes.append(f"{skipped} {lines_are} skipped.")
    rows = [cells for _, cells in lines[start + 1 :]]
    if not rows:
        raise TableError(f"{label}: the file has a header but no data rows.")
    header, remark = _complete_header(header, rows)
    notes += remark
    names, remark = unique_names(header)
    notes += remark
    full = [row for row in rows if len(row) == len(names)]
    plain = plain_columns(names, full, missing)
    return TextForm(encoding, delimiter, tuple(names), n_comments + end_line, plain, tuple(notes))


def decode_head(head: bytes, label: str, encoding: str | None) -> tuple[str, str, list[str]]:
    """Decode the first bytes of a file.

    Parameters
    ----------
    head : bytes
        First bytes of the file.
    label : str
        Name of the file, for errors.
    encoding : str or None
        If known. None is UTF-8, UTF-16 with a byte order mark, or Windows-1252 if the bytes are
        not UTF-8.

    Returns
    -------
    text : str
        Without a byte order mark.
    encoding : str
        Name that Python knows.
    notes : list of str
        A remark if the encoding was guessed.
    """
    notes = []
    if encoding is None:
        encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
        if encoding == "utf-8" and b"\x00" in head:
            raise TableError(f"{label}: not a text file (CSV) and not another known format.")
        if encoding == "utf-8" and not _decodes(head, encoding):
            encoding = fallback_encoding(head)
            notes.append(f"the text is not UTF-8 and is read as {encoding} (--encoding).")
    try:
        # The last character may be incomplete: an incremental decoder keeps it back.
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except LookupError as error:
        raise TableError(
            f"There is no encoding {encoding!r}. Try latin-1 or cp1252 (--encoding)."
        ) from error
    except UnicodeDecodeError as error:
        raise not_text(label, encoding) from error
    return text.removeprefix("\ufeff"), encoding, notes


def not_text(label: str, encoding: str) -> TableError:
    """Return the error about text in another encoding."""
    return TableError(
        f"{label}: not {encoding.upper()} text. Try --encoding latin-1 (or cp1252), or save the "
        "file as UTF-8."
    )


def fallback_encoding(data: bytes) -> str:
    """Return the encoding of bytes that are not UTF-8: Windows-1252, or Latin-1 if it fails."""
    return "cp1252" if _decodes(data, "cp1252") else "latin-1"


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def sniff_delimiter(text: str, *, whole: bool) -> str:
    r"""Return the character that splits most first lines into the same number of cells.

    Parameters
    ----------
    text : str
        Beginning of the file.
    whole : bool
        Whether it is the whole file; otherwise its last line may be incomplete.

    Returns
    -------
    str
        Comma, semicolon, tab or bar; a comma if none splits the lines.

    Examples
    --------
    >>> from genmetric.tables._format import sniff_delimiter
    >>> sniff_delimiter('a;b\n"1;5";2,5\n', whole=True)
    ';'
    """
    best, best_score = ",", (0.0, False, 0)
    for delimiter in DELIMITERS:
        lines = [cells for _, cells in _cells(text, delimiter, 200)]
        if not whole and len(lines) > 2:
            lines = lines[:-1]
        counts = Counter(map(len, lines))
        if not counts:
            continue
        n_cells, agree = max(counts.items(), key=lambda item: (item[1], item[0]))
        # A few ragged lines are an error to report, not a sign of another delimiter. Decimal
        # commas split all lines except the header.
        score = (round(agree / len(lines), 1), len(lines[0]) == n_cells, n_cells)
        if n_cells > 1 and score > best_score:
            best, best_score = delimiter, score
    return best


def _cells(text: str, delimiter: str, n_lines: int) -> list[tuple[int, list[str]]]:
    """Return the cells of the first lines that are not blank, with the line each one ends at."""
    lines: list[tuple[int, list[str]]] = []
    # A quote that is not closed gives a cell that is too long; the lines before it are enough.
    with contextlib.suppress(csv.Error):
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        for cells in itertools.islice(reader, 4 * n_lines):
            if any(cells):
                lines.append((reader.line_num, cells))
            if len(lines) >= n_lines:
                break
    return lines


def _header_position(lines: Sequence[tuple[int, Sequence[str]]]) -> int:
    """Return the first line that has as many cells as most others: lines above it are titles."""
    counts = Counter(len(cells) for _, cells in lines)
    usual, n_usual = max(counts.items(), key=lambda item: (item[1], item[0]))
    if usual > 1 and n_usual >= 3:
        for i, (_, cells) in enumerate(lines[:20]):
            # A header without a name for the row names of R has one cell less.
            if len(cells) in (usual, usual - 1) and len([c for c in cells if c.strip()]) > 1:
                return i
            if len(cells) >= usual:
                return i
    return 0


def _complete_header(
    header: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[str]]:
    """Add the name that a header lacks if every row has one cell more."""
    names = [name.strip() for name in header]
    if rows and all(len(row) == len(names) + 1 for row in rows):
        if all(not row[-1].strip() for row in rows):
            return [*names, ""], ["every row ends with a delimiter; the empty column is left out."]
        return ["", *names], ["the first column has no name and is read as the names of the rows."]
    if names and not names[-1] and all(len(row) == len(names) - 1 for row in rows):
        return names[:-1], []
    return names, []


def unique_names(header: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return names that are all different, and remarks on those that were changed.

    Parameters
    ----------
    header : iterable of str
        Names as the file has them.

    Returns
    -------
    names : list of str
        A repeated name "a" becomes "a_2", "a_3" and so on.
    notes : list of str
        One remark if names were changed.

    Examples
    --------
    >>> from genmetric.tables._format import unique_names
    >>> unique_names(["a", "b", "a"])[0]
    ['a', 'b', 'a_2']
    """
    given = [name.strip() for name in header]
    names: list[str] = []
    changed = []
    for name in given:
        new, number = name, 1
        while new in names or (number > 1 and new in given):
            number += 1
            new = f"{name or 'Unnamed'}{'_' if name else ': '}{number}"
        names.append(new)
        if new != name and name:
            changed.append(f"{new!r}")
    notes = [f"repeated column names are changed to {', '.join(changed)}."] if changed else []
    return names, notes


def header_hint(names: Sequence[str]) -> str:
    """Return a sentence for files whose first line looks like data, else nothing."""
    if any(names) and all(NumberFormat().parse(name) is not None for name in names if name):
        return " The first line contains numbers: add a line with the column names."
    return ""


def plain_columns(
    names: Sequence[str], rows: Sequence[Sequence[str]], missing: frozenset[str]
) -> frozenset[str]:
    """Return the columns whose first cells are numbers that need no decision.

    Parameters
    ----------
    names : sequence of str
        Names of the columns.
    rows : sequence of sequence of str
        The first rows.
    missing : frozenset of str
        Texts of missing values in lower case.

    Returns
    -------
    frozenset of str
        Columns of numbers with a decimal point and without leading zeros. If some column has
        decimal commas, a point may separate thousands, and only integers are plain.
    """
    plain, has_comma = {}, False
    for name, cells in zip(names, zip(*rows, strict=True), strict=False):
        texts = {c.strip() for c in cells}
        texts = {t for t in texts if t.lower() not in missing}
        if not texts:
            continue
        if all(_is_plain(t) for t in texts):
            plain[name] = all("." not in t for t in texts)
        elif any("," in t for t in texts):
            choice = choose_format(dict.fromkeys(texts, 1))
            has_comma |= choice.n_parsed == len(texts) and choice.format.decimal == ","
    return frozenset(name for name, whole in plain.items() if whole or not has_comma)


def _is_plain(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    digits = text.lstrip("+-")
    return (
        digits[:1].isdigit()
        and "_" not in text
        and not (digits[:1] == "0" and digits[1:2].isdigit())
    )
