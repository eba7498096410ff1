"""Errors about tables, and quoted names for their texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class TableError(ValueError):
    """A table cannot be used as it is.

    Parameters
    ----------
    text : str
        All problems, each with what was expected, what was found and what to do.
    options : sequence of str, default=()
        Options of the command that would solve the problems, such as ("--drop", "name").
    problems : sequence of str, default=()
        The problems of `text` one by one, if there can be several.

    Examples
    --------
    >>> from genmetric.tables import TableError
    >>> raise TableError("column 'a' contains infinite values.")
    Traceback (most recent call last):
    genmetric.tables._errors.TableError: column 'a' contains infinite values.
    """

    def __init__(
        self, text: str, options: Sequence[str] = (), problems: Sequence[str] = ()
    ) -> None:
        super().__init__(text)
        self.options, self.problems = tuple(options), tuple(problems)


def more_cells(texts: Iterable[str], n_cells: int) -> str:
    """Return a bracket that names cells with the same problem as the first; empty for one cell.

    Parameters
    ----------
    texts : iterable of str
        Distinct cells, the first of which is named elsewhere.
    n_cells : int
        Number of cells.

    Returns
    -------
    str
        Text with a space in front.

    Examples
    --------
    >>> from genmetric.tables._errors import more_cells
    >>> more_cells(["x", "n.n.", "see below"], 7)
    " (7 cells, also 'n.n.', 'see below')"
    """
    others = list(texts)[1:]
    if n_cells < 2:
        return ""
    also = ", ".join(repr(text[:20]) for text in others[:3]) + (", ..." if others[3:] else "")
    return f" ({n_cells} cells, also {also})" if others else f" ({n_cells} cells)"


def quoted(names: Iterable[str], most: int = 5) -> str:
    """Return names in quotes, at most `most` of them."""
    listed = list(names)
    text = ", ".join(repr(name) for name in listed[:most])
    return text + (f" and {len(listed) - most} more" if len(listed) > most else "")
