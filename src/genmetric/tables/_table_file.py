"""What all files with tables have in common."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


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
    """

    path: Path
    label: str
    names: tuple[str, ...]
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def n_bytes(self) -> int:
        """Size of the file."""
        return self.path.stat().st_size

    def batches(
        self, columns: Sequence[str] | None = None, text: Collection[str] = ()
    ) -> Generator[Any, None, None]:
        """Yield the rows as Arrow tables of bounded size.

        Parameters
        ----------
        columns : sequence of str, default=None
            Columns to read, in this order; None is all.
        text : collection of str, default=()
            Columns to read as the file writes them, even if they look like numbers.

        Yields
        ------
        pyarrow.Table
            At least one row.
        """
        names = list(self.names if columns is None else columns)
        with closing(self._tables(names, text)) as tables:
            for table in tables:
                if table.num_rows:
                    yield table

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
