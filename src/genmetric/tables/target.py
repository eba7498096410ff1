"""The target of a table: classes or numbers, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from genmetric._text import did_you_mean
from genmetric._typing import AnyArray, BoolArray
from genmetric.tables import TableError
from genmetric.tables.columns import Decider, Words, as_words, read_cells, to_numbers
from genmetric.tables.read import row_label

Task = Literal["classification", "regression"]

#: A numeric target with more distinct values is a number.
MOST_CLASSES = 15

#: A class with fewer rows is tiny; if most classes of numbers are, the target is a number.
TINY_CLASS = 3


@dataclass(frozen=True)
class Target:
    r"""What is predicted.

    Attributes
    ----------
    name : str
        The column.
    task : {"classification", "regression"}
        Whether its values are classes or numbers.
    reason : str
        Why, in words, with the option for the other task.
    classes : tuple
        The classes in order, as `y` has them; empty for numbers.
    n_missing : int
        Rows that are not used, because they have no target.
    notes : tuple of str
        Sentences for the user.
    column : dict
        How the cells are read as numbers; empty for classes that are words.
    spelling : dict of str to str
        Other spellings of classes, such as "Yes" for "yes".
    na_values : tuple of str
        Texts that stand for a missing value, in addition to the usual ones.

    Examples
    --------
    >>> from genmetric.tables import read_table, split_target
    >>> frame = read_table(b"size,kind\n1,a\n2,b\n3,a\n4,b\n")
    >>> split_target(frame, "kind")[2].classes
    ('a', 'b')
    """

    name: str
    task: Task
    reason: str = ""
    classes: tuple[Any, ...] = ()
    n_missing: int = 0
    notes: tuple[str, ...] = ()
    column: dict[str, Any] = field(default_factory=dict)
    spelling: dict[str, str] = field(default_factory=dict)
    na_values: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """Name and reason in one line."""
        return f"{self.name}: {self.reason}"

    def read(self, frame: Any) -> tuple[AnyArray, BoolArray]:
        """Return the targets of other rows, by the same decision.

        Parameters
        ----------
        frame : DataFrame
            Rows with the column of the target.

        Returns
        -------
        y : ndarray of shape (n_present,)
            Numbers or classes.
        present : ndarray of shape (n_rows,), dtype bool
            Rows that have a target.
        """
        cells = read_cells(_pandas(frame)[self.name], self.na_values)
        if self.column:
            y = to_numbers(cells, self.column)[0][:, 0]
            present = np.isfinite(y)
            return y[present].astype(self.column["dtype"]), present
        words = as_words(cells)
        present = words.codes >= 0
        texts = np.array([self.spelling.get(text, text) for text in words.texts], dtype=str)
        y = texts[words.codes[present]]
        return (y == "True") if self.classes == (False, True) else y, present


def split_target(
    frame: Any,
    column: str,
    task: Task | None = None,
    *,
    decimal: str | None = None,
    thousands: str | None = None,
    na_values: Sequence[str] = (),
) -> tuple[Any, AnyArray, Target]:
    """Split a table into features and target, without the rows that have no target.

    Numbers with more than 15 distinct values, or whose classes would mostly be tiny, and dates (as
    days) make the task regression; anything else is classification.

    Parameters
    ----------
    frame : DataFrame
        A pandas or polars frame.
    column : str
        The target.
    task : {"classification", "regression"}, default=None
        The task; None decides.
    decimal, thousands : str, default=None
        Separators of numbers that are written as text. None decides by the cells.
    na_values : sequence of str, default=()
        Texts that stand for a missing value, in addition to the usual ones.

    Returns
    -------
    X : DataFrame
        The other columns of the rows that have a target.
    y : ndarray of shape (n_samples,)
        Float64 for a regression. Otherwise classes: integers and booleans as they are, everything
        else as text.
    target : Target
        The task and why it was chosen; its `read` gives the targets of other rows.

    Raises
    ------
    TableError
        If the column cannot be a target.

    Examples
    --------
    >>> import pandas as pd
    >>> from genmetric.tables import split_target
    >>> frame = pd.DataFrame({"size": [1.5, 2.0, 3.5, 4], "kind": ["a", None, "b", "A"]})
    >>> X, y, target = split_target(frame, "kind")
    >>> X.shape, y.tolist()
    ((3, 1), ['a', 'b', 'a'])
    >>> target.summary
    'kind: 2 classes (a, b)'
    """
    frame = _pandas(frame)
    if task not in (None, "classification", "regression"):
        raise ValueError(f"task must be 'classification' or 'regression'; got {task!r}.")
    if column not in frame.columns:
        near = did_you_mean(column, frame.columns)
        raise TableError(f"there is no column {column!r} (target). {near}")
    cells = read_cells(frame[column], na_values)
    if not isinstance(cells, Words) and cells.dtype == object:
        raise TableError(f"the target {column!r} contains lists; expected one value per row.")
    counts = as_words(cells).counts
    if not counts:
        raise TableError(f"the target {column!r} has no values.")
    numbers, how = _numbers(Decider(decimal, thousands, str, []), cells, task == "regression")
    distinct, n_each = np.unique(numbers[np.isfinite(numbers)], return_counts=True)
    mostly_tiny = len(distinct) > 5 and (n_each < TINY_CLASS).mean() > 0.5
    is_date = "dates" in how and len(distinct) > 2
    is_number = len(distinct) > MOST_CLASSES or mostly_tiny or is_date
    chosen: Task = task or ("regression" if is_number else "classification")
    notes = []
    if chosen == "regression":
        facts = _regression(column, distinct, int(n_each.sum()))
        notes += ["dates are predicted as days since 1970."] if "dates" in how else []
        n_other = counts.total() - int(n_each.sum())
        notes += [f"target {column!r}: {n_other} cells are not numbers."] if n_other else []
    else:
        whole = n_each.sum() == counts.total() and (distinct % 1 == 0).all() and "dates" not in how
        how = {**how, "dtype": "int64"} if whole else {}
        facts = _classification(column, counts, distinct if whole else None, task)
        listed = ", ".join(f"{t!r} as {s!r}" for t, s in list(facts["spelling"].items())[:4])
        notes += [f"classes of {column!r} that differ in case are one: {listed}."] if listed else []
    if task is None and how:
        other = "classification" if chosen == "regression" else "regression"
        names = "classes" if chosen == "regression" else "numbers"
        facts["reason"] += f" (--task {other} to predict them as {names})"
    target = Target(column, chosen, column=how, na_values=tuple(na_values), **facts)
    y, present = target.read(frame)
    n_missing = int((~present).sum())
    if n_missing:
        first = row_label(frame, int(np.argmin(present)))
        what = f"1 row has no target {column!r} and is not used ({first})."
        if n_missing > 1:
            what = f"{n_missing} rows have no target {column!r} and are not used (first: {first})."
        notes.insert(0, what)
    X = frame.drop(columns=column)
    target = replace(target, n_missing=n_missing, notes=tuple(notes))
    return (X if present.all() else X[present]), y, target


def _pandas(frame: Any) -> Any:
    return frame.to_pandas() if hasattr(frame, "to_pandas") else frame


def _numbers(decider: Decider, cells: Any, asked: bool) -> tuple[AnyArray, dict[str, Any]]:
    """Return the target as numbers, NaN where it is none, and how cells are read as numbers.

    All cells must be numbers or dates, unless numbers are asked for.
    """
    how = decider.decide("target", cells)
    if how["kind"] not in ("number", "date"):
        how = decider.decide("target", cells, "number")
    if how["kind"] not in ("number", "date") or how.get("length", 1) > 1:
        return np.empty(0), {}
    how |= {"parts": ["days"], "dtype": "float64"}
    numbers, unreadable = to_numbers(cells, how)
    usable = asked or not unreadable.any()
    return (numbers[:, 0], how) if usable else (np.empty(0), {})


def _regression(name: str, distinct: AnyArray, n_known: int) -> dict[str, Any]:
    """Say why the target is a number."""
    if len(distinct) < 3:
        found = " and ".join(f"{value:g}" for value in distinct) or "no number"
        raise TableError(
            f"the target {name!r} needs at least 3 different numbers; found {found}. Are they "
            "classes (--task classification)?"
        )
    return {"reason": f"a number, {len(distinct)} distinct values in {n_known} rows"}


def _classification(
    name: str, counts: Counter[str], whole: AnyArray | None, task: str | None
) -> dict[str, Any]:
    """Name the classes, and join those that differ in case only."""
    usual: dict[str, str] = {}
    for text, _ in counts.most_common():
        usual.setdefault(text.casefold(), text)
    # Single letters in both cases may be different classes.
    join = len(counts) <= 4 or any(len(text) > 1 for text in counts)
    spelling = {t: usual[t.casefold()] for t in counts if join and usual[t.casefold()] != t}
    classes: list[Any] = sorted(set(counts) - set(spelling))
    n_rows = counts.total()
    if len(classes) == 1:
        raise TableError(
            f"the target {name!r} has one class, {classes[0][:40]!r}; at least two are required."
        )
    if len(classes) > n_rows / 2 and n_rows > 10 and task is None:
        raise TableError(
            f"the target {name!r} has {len(classes)} distinct values in {n_rows} rows, so it "
            "looks like an identifier. Choose a column of classes or numbers (--task regression)."
        )
    if whole is not None:
        classes = whole.astype(int).tolist()
    elif classes == ["False", "True"]:
        classes = [False, True]
    shown = ", ".join(str(name)[:20] for name in classes[:8]) + ", ..." * bool(classes[8:])
    reason = f"{len(classes)} classes ({shown})"
    return {"reason": reason, "classes": tuple(classes), "spelling": spelling}
