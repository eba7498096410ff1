"""Text files with tables: encoding, delimiter, header, and columns of plain numbers."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from genmetric._text import import_optional
from genmetric.tables.columns import MISSING_WORDS

pd = import_optional("pandas", "cli")
pa = import_optional("pyarrow", "cli")
pc = import_optional("pyarrow.compute", "cli")


class Utf8:
    """Turns the blocks of a text file into UTF-8; bytes that are not UTF-8 are Windows-1252."""

    def __init__(self, encoding: str | None) -> None:
        self.encoding = encoding
        self.decoder: Any = None
        self.width = 1
        self.n_quotes = self.n_replaced = self.n_beyond_ascii = 0

    def __call__(self, block: bytes) -> bytes:
        """Return the next block; an empty one ends the file."""
        block = bytes(block)
        if self.decoder is None:
            is_utf16 = block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            encoding = self.encoding or ("utf-16" if is_utf16 else "utf-8-sig")
            errors = "strict" if self.encoding or is_utf16 else "surrogateescape"
            self.decoder = codecs.getincrementaldecoder(encoding)(errors)
        text: str = self.decoder.decode(block, final=not block)
        self.n_quotes += text.count('"')
        # An empty line is a row of empty cells; other rows have a byte for each cell.
        if self.width * (text.count("\n") + text.count("\r")) > 16 << 20:
            raise ValueError("too many empty lines")
        if text.isascii():
            return text.encode()
        known, n_replaced = _NOT_UTF8.subn("", text)
        self.n_replaced += n_replaced
        self.n_beyond_ascii += not known.isascii()
        return _NOT_UTF8.sub(_cp1252, text).encode() if n_replaced else text.encode()


#: What bytes that are not UTF-8 become in a text.
_NOT_UTF8 = re.compile("[\udc80-\udcff]+")


def _cp1252(match: re.Match[str]) -> str:
    return match[0].encode("utf-8", "surrogateescape").decode("cp1252", "replace")


def whole_lines(data: bytes, size: int) -> str:
    """Return the first block of a file as text; one of this size is cut after its last line."""
    if len(data) == size:
        data = data[: data.rfind(b"\n") + 1] or data
    return data.decode("utf-8", "ignore").replace("\r\n", "\n").replace("\r", "\n")


def trimmed(column: Any) -> Any:
    """Return texts without spaces around them; empty ones are null."""
    column = pc.utf8_trim_whitespace(column)
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def with_numbers(frame: Any, delimiter: str | None) -> Any:
    """Return columns of plain numbers as float64.

    Codes with leading zeros stay text, and so do points that may separate thousands: "1.234" next
    to decimal commas or semicolons.
    """
    texts = [
        pa.array(frame.iloc[:, j], pa.string(), from_pandas=True) for j in range(frame.shape[1])
    ]
    european = delimiter == ";" or any(matches(t, r"^-?[\d.]*,(\d{1,2}|\d{4,})$") for t in texts)
    words = pa.array(MISSING_WORDS)
    columns = {}
    for j, column in enumerate(texts):
        known = pc.if_else(
            pc.is_in(pc.utf8_lower(column), words), pa.scalar(None, pa.string()), column
        )
        columns[j] = frame.iloc[:, j]
        thousands = european and matches(known, r"^[+-]?[1-9]\d{0,2}(\.\d{3})+$")
        if matches(known, r"^[+-]?0\d") or thousands or known.null_count == len(known):
            continue
        with suppress(pa.ArrowInvalid):
            columns[j] = pc.cast(known, pa.float64()).to_numpy(zero_copy_only=False)
    numbers = pd.DataFrame(columns, index=frame.index)
    numbers.columns = frame.columns
    return numbers


def matches(column: Any, pattern: str) -> bool:
    """Return whether a text of an Arrow column contains a regular expression."""
    return bool(pc.any(pc.match_substring_regex(column, pattern)).as_py())


def unique_names(header: Sequence[str]) -> list[str]:
    """Return names that are all different ("a", "a_2")."""
    names = []
    taken, count = set(header), Counter[str]()
    for name in header:
        count[name] += 1
        new = name
        while count[name] > 1 and new in taken:
            new = f"{name}_{count[name]}" if name else f"Unnamed: {count[name]}"
            count[name] += new in taken
        taken.add(new)
        names.append(new)
    return names


def sniff_delimiter(text: str) -> str:
    """Return the character that splits most first lines into the same number of cells."""
    best, best_score = ",", (0.0, False, 0)
    for delimiter in ",;\t|":
        lines = [cells for _, cells in split_lines(text, delimiter, 200)]
        counts = Counter(map(len, lines))
        if not counts:
            continue
        n_cells, agree = max(counts.items(), key=lambda item: (item[1], item[0]))
        # A few ragged lines do not tell of another delimiter. Decimal commas split all lines
        # except the header.
        score = (round(agree / len(lines), 1), len(lines[0]) == n_cells, n_cells)
        if n_cells > 1 and score > best_score:
            best, best_score = delimiter, score
    return best


def split_lines(text: str, delimiter: str, n_lines: int) -> list[tuple[int, list[str]]]:
    """Return the cells of the first lines that are not blank, with the line each one ends at."""
    lines: list[tuple[int, list[str]]] = []
    # A quote that is not closed gives a cell that is too long; the lines before it are enough.
    with suppress(csv.Error):
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        for cells in islice(reader, 4 * n_lines):
            if any(cells):
                lines.append((reader.line_num, cells))
            if len(lines) >= n_lines:
                break
    return lines


def header_position(lines: Sequence[tuple[int, Sequence[str]]]) -> int:
    """Return the first line with names: titles above it have few cells, or few that are filled."""
    counts = Counter(len(cells) for _, cells in lines)
    usual, n_usual = max(counts.items(), key=lambda item: (item[1], item[0]))
    if usual > 1 and n_usual >= 3:
        for i, (_, cells) in enumerate(lines[:20]):
            n_filled = sum(bool(cell.strip()) for cell in cells)
            # A header without a name for the row names of R has one cell less.
            if len(cells) >= usual - 1 and n_filled > max(1, usual / 2 - 1):
                return i
    return 0
