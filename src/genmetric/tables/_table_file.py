"""What all files with tables have in common: names, batches, and a budget of memory."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genmetric.tables._decoded import LONG_TEXT, bounded_parts, has_long_text, without_columns
from genmetric.tables._errors import TableError

#: Fraction of the memory of the machine that a table may take by default.
MEMORY_FRACTION = 0.25

#: Memory that is assumed if the system does not tell.
ASSUMED_MEMORY = 4 << 30

#: Times the size of a table that reading and encoding it takes at the peak.
PEAK_FACTOR = 4

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def default_budget() -> int:
    """Return a quarter of the physical memory in bytes."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        total = ASSUMED_MEMORY
    return int(MEMORY_FRACTION * total)


def parse_bytes(text: str) -> int:
    """Return a size such as "500M" or "2.5 GB" in bytes.

    Examples
    --------
    >>> from genmetric.tables._table_file import parse_bytes
    >>> parse_bytes("1.5K")
    1536
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if match is None or float(match[1]) <= 0:
        raise TableError(f"{text!r} is not a size in bytes, such as 500M or 2G.")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def show_bytes(n: float) -> str:
    """Return a number of bytes in the largest unit that fits."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n:.0f} bytes"


@dataclass(frozen=True)
class TableFile:
    """A file with a table: the names of its columns, and its rows in batches.

    Attributes
    ----------
    path : Path
        The file.
    label : str
        Name of the file in messages.
    names : tuple of str
        Columns in the order of the file.
    notes : tuple of str
        Remarks on what was changed or skipped.
    left_out : mapping of str to str
        Columns that cannot be used, and why, as far as this is known before the rows are read.
    """

    path: Path
    label: str
    names: tuple[str, ...]
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    left_out: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    @property
    def n_bytes(self) -> int:
        """Size of the file."""
        return self.path.stat().st_size

    def batches(
        self,
        columns: Sequence[str] | None = None,
        text: Collection[str] = (),
        left_out: dict[str, str] | None = None,
    ) -> Generator[Any, None, None]:
        """Yield the rows as Arrow tables of bounded size.

        Parameters
        ----------
        columns : sequence of str, default=None
            Columns to read, in this order; None is all.
        text : collection of str, default=()
            Columns to read as the file writes them, even if they look like numbers.
        left_out : dict of str to str, default=None
            Receives the columns that cannot be used, such as those with long texts, and why. They
            are null from the batch on in which this is found. None reads all columns.

        Yields
        ------
        pyarrow.Table
            At least one row. The decoded size is bounded, except for single rows.
        """
        names = list(self.names if columns is None else columns)
        skipped = {} if left_out is None else left_out
        if left_out is not None:
            skipped |= {name: why for name, why in self.left_out.items() if name in names}
        read = [name for name in names if name not in skipped]
        if not read:
            reasons = "; ".join(f"{name} {why}" for name, why in list(skipped.items())[:5])
            raise TableError(f"{self.label}: no column can be used ({reasons}).")
        with closing(self._tables(read, text)) as tables:
            for table in tables:
                if left_out is not None:
                    for name in read:
                        if name not in skipped and has_long_text(table.column(name)):
                            skipped[name] = LONG_TEXT
                yield from bounded_parts(without_columns(table, names, skipped))
                # Not kept while the next table is read.
                del table

    def _tables(self, names: list[str], text: Collection[str]) -> Generator[Any, None, None]:
        """Yield Arrow tables with the columns `names`, of which those in `text` are text."""
        raise NotImplementedError

    def row_label(self, row: int) -> str:
        """Return the place of a row, counted from 0, for messages.

        Parameters
        ----------
        row : int
            Number of the row.

        Returns
        -------
        str
            Such as "line 57" or "row 57".
        """
        return f"row {row + 1}"
