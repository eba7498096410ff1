"""Rows of a table that fit the memory, also as features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from genmetric._typing import IntArray
from genmetric.tables._errors import TableError
from genmetric.tables._table_file import PEAK_FACTOR, TableFile, default_budget, show_bytes

#: A sample of fewer rows is too small to learn from.
MIN_ROWS = 20


class TooLargeError(TableError):
    """A table does not fit the memory budget."""


@dataclass(frozen=True)
class TableSample:
    """Rows of a table.

    Attributes
    ----------
    frame : pandas.DataFrame
        The rows in the order of the file.
    row_numbers : ndarray of shape (n_rows,)
        Position of each row in the file, from 0.
    table : TableFile
        The file.
    notes : tuple of str
        Remarks on the file and the sample.
    left_out : mapping of str to str
        Columns that are not read, such as those with long texts, and why. They are empty.
    """

    frame: Any
    row_numbers: IntArray
    table: TableFile
    notes: tuple[str, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def row_label(self, row: int) -> str:
        """Return the place of a row of the frame in the file."""
        return self.table.row_label(int(self.row_numbers[row]))

    def fitting(self, n_features: int, memory: int | None, random_state: int) -> TableSample:
        """Return the sample, or as many of its rows as fit the memory as features.

        Parameters
        ----------
        n_features : int
            Number of features that the columns become: a category of 100 values becomes 100.
        memory : int or None
            Bytes that features may take, with copies. None is a quarter of the memory.
        random_state : int
            Seed of the choice of rows.

        Returns
        -------
        TableSample
            At least :data:`MIN_ROWS` rows.

        Raises
        ------
        TooLargeError
            If fewer rows fit.
        """
        budget = default_budget() if memory is None else memory
        limit = budget // (PEAK_FACTOR * 8 * max(1, n_features))
        n_rows = len(self.frame)
        if n_rows <= limit:
            return self
        if limit < min(n_rows, MIN_ROWS):
            raise TooLargeError(
                f"{self.table.label}: {limit} rows of {n_features} features fit the memory budget "
                f"of {show_bytes(budget)} (--memory), fewer than {MIN_ROWS}. Increase --memory, or "
                "leave out columns (--drop)."
            )
        rng = np.random.default_rng(random_state)
        chosen = np.sort(rng.choice(n_rows, limit, replace=False))
        note = (
            f"a random sample of {limit} of these rows is used: {n_features} features of more rows "
            f"do not fit the memory budget of {show_bytes(budget)} (--memory)."
        )
        return replace(
            self,
            frame=self.frame.iloc[chosen].reset_index(drop=True),
            row_numbers=self.row_numbers[chosen],
            notes=(*self.notes, note),
        )
