"""A plan for the columns of a table: which are features, how each is read, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from genmetric._nearest import did_you_mean
from genmetric._typing import AnyArray
from genmetric.tables._cells import column_array, is_frame
from genmetric.tables._columns import ColumnPlan, Hints, classify_column, number_choice
from genmetric.tables._errors import TableError, quoted
from genmetric.tables._numbers import table_decimal
from genmetric.tables._target import TargetPlan, plan_target

#: Kinds of columns in the order in which a plan lists them, and their plural.
KIND_NAMES = {
    "number": "numbers",
    "boolean": "booleans",
    "category": "categories",
    "date": "dates",
    "vector": "vectors",
    "left out": "left out",
}


def _some(listed: Sequence[str]) -> str:
    """Join texts; beyond twelve the first ten and the number of the others."""
    shown = listed if len(listed) <= 12 else [*listed[:10], f"{len(listed) - 10} more"]
    return ", ".join(shown)


@dataclass(frozen=True)
class TablePlan:
    """How the columns of a table become features.

    Attributes
    ----------
    columns : tuple of ColumnPlan
        One entry per column except the target, in the order of the table.
    target : TargetPlan or None
        The target, if there is one.
    id_column : str or None
        Column that names the rows.
    missing_words : tuple of str or None
        Texts that stand for a missing value; None is the usual ones.
    n_rows : int
        Number of rows that the plan was made from.
    notes : tuple of str
        Remarks on single cells and on decisions that were in doubt.
    """

    columns: tuple[ColumnPlan, ...]
    target: TargetPlan | None = None
    id_column: str | None = None
    missing_words: tuple[str, ...] | None = None
    n_rows: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns that are used."""
        return tuple(c.name for c in self.columns if c.kind != "left out")

    @property
    def n_features(self) -> int:
        """Most features that the columns become."""
        return sum(c.n_features for c in self.columns)

    @property
    def is_plain(self) -> bool:
        """Whether all columns are complete numbers, except those left out on request."""
        return not self.notes and all(
            c.kind == "left out"
            if c.asked_for
            else c.kind == "number" and not (c.reason or c.n_missing)
            for c in self.columns
        )

    def lines(self) -> list[str]:
        """Return the plan as lines of text, one per kind of column and one per note."""
        n_used = len(self.features)
        n_other = len(self.columns) - n_used
        lines = [f"columns: {n_used} used" + (f", {n_other} left out" if n_other else "")]
        for kind, title in KIND_NAMES.items():
            listed = [c.summary for c in self.columns if c.kind == kind]
            if listed:
                lines.append(f"  {title:<11} {_some(listed)}")
        gaps: dict[str, list[str]] = {}
        for c in self.columns:
            if c.treatment_of_missing:
                gaps.setdefault(c.treatment_of_missing, []).append(f"{c.name} {c.n_missing}")
        lines += [f"  {'missing':<11} {_some(found)}: {how}" for how, found in gaps.items()]
        if self.target is not None:
            lines.append(f"  {'target':<11} {self.target.summary}")
        return lines + [f"  {note}" for note in self.notes]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def plan_columns(
    frame: Any,
    *,
    target: str | None = None,
    id_column: str | None = None,
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    as_category: Sequence[str] = (),
    as_number: Sequence[str] = (),
    decimal: str | None = None,
    thousands: str | None = None,
    missing_words: Iterable[str] | None = None,
    strict: bool = False,
    line_of: Callable[[int], str] | None = None,
    left_out: Mapping[str, str] | None = None,
) -> TablePlan:
    """Decide for each column of a table whether it is a feature and how it is read.

    Parameters
    ----------
    frame : DataFrame
        A pandas or polars frame with one row per sample.
    target : str, default=None
        Column with the classes or the numbers to predict.
    id_column : str, default=None
        Column that names the rows and is not a feature.
    features : sequence of str, default=()
        Columns to use; empty considers all.
    drop : sequence of str, default=()
        Columns to leave out.
    as_category, as_number : sequence of str, default=()
        Columns to read as categories or as numbers whatever they look like. They may name the
        target: as a category its values are classes, as a number they are quantities.
    decimal, thousands : str, default=None
        Separators of numbers that are written as text. None decides by all cells of a column.
    missing_words : iterable of str, default=None
        Texts that stand for a missing value. None is the usual ones.
    strict : bool, default=False
        Whether to refuse a table if the plan would leave out a column or a row without a target,
        impute values, ignore a cell, encode text or decide a doubtful format without being asked.
        `drop`, `as_category`, `as_number` and `decimal` ask for it.
    line_of : callable, default=None
        Names the place of a row in error messages, such as "line 57". None gives "row 55".
    left_out : mapping of str to str, default=None
        Columns that cannot be used, whatever their cells are, and the reason, such as "contains
        images".

    Returns
    -------
    TablePlan
        The plan; :func:`make_preprocessor` builds its transformer.

    Raises
    ------
    TableError
        If the table cannot be used. The text lists all problems.

    Examples
    --------
    >>> import pandas as pd
    >>> from genmetric.tables import plan_columns
    >>> frame = pd.DataFrame(
    ...     {"size": ["988.5", "2,848"] * 10, "colour": ["red", "blue"] * 10, "kind": [0, 1] * 10}
    ... )
    >>> print(plan_columns(frame, target="kind"))
    columns: 2 used
      numbers     size (2,848 is read as 2848)
      categories  colour (2 values)
      target      kind: 2 classes
    """
    if not is_frame(frame):
        raise TypeError(
            f"frame must be a pandas or polars DataFrame; got {type(frame).__name__}. Wrap an "
            "array: pandas.DataFrame(X, columns=names)."
        )
    names = _checked_names(frame)
    check_roles(
        names,
        target=target,
        id_column=id_column,
        features=features,
        drop=drop,
        as_category=as_category,
        as_number=as_number,
    )
    problems: list[str] = []
    hints = Hints(
        frozenset(as_category),
        frozenset(as_number),
        decimal,
        thousands,
        None if missing_words is None else tuple(missing_words),
        line_of or (lambda row: f"row {row}"),
        left_out={} if left_out is None else left_out,
    )
    n_rows = len(frame)
    if n_rows == 0:
        raise TableError("the table has no rows.")
    target_plan = None
    rows: AnyArray = np.ones(n_rows, dtype=bool)
    if target is not None:
        target_plan = plan_target(column_array(frame, target), target, hints)
        rows = target_plan.present
    chosen = {*features, *as_category, *as_number} if features else set(names)
    arrays = {
        name: column_array(frame, name)[rows]
        for name in names
        if name in chosen and name not in (target, id_column, *drop)
    }
    # Rows are counted in the table, and not among those with a target.
    row_numbers, label_of = np.flatnonzero(rows), hints.line_of
    hints = replace(
        _with_table_decimal(arrays, hints), line_of=lambda row: label_of(int(row_numbers[row]))
    )
    reasons: dict[str | None, str] = dict.fromkeys(drop, "on request")
    reasons[id_column] = "identifies the rows"
    columns = [
        classify_column(name, arrays[name], hints)
        if name in arrays
        else ColumnPlan(name, "left out", reasons.get(name, "not selected"), asked_for=True)
        for name in names
        if name != target
    ]
    problems = [problem for column in columns for problem in column.problems]
    options = [word for c in columns for _ in c.problems for word in ("--drop", c.name)]
    notes = [note for column in columns for note in column.notes]
    if target_plan is not None:
        notes = [*target_plan.notes, *notes]
    plan = TablePlan(
        tuple(columns), target_plan, id_column, hints.missing_words, n_rows, tuple(notes)
    )
    if target_plan is not None:
        problems = [*target_plan.problems, *problems]
    if not plan.features and not problems:
        listed = "; ".join(c.summary for c in plan.columns) or "the target is the only column"
        problems.append(f"no column is left as a feature ({listed}).")
    if strict:
        strict_problems, strict_options = _strict_problems(plan, [n for n in names if n != target])
        problems += strict_problems
        options += strict_options
    if problems:
        raise TableError(" ".join(problems), options, problems)
    return plan


def _checked_names(frame: Any) -> list[str]:
    names = list(frame.columns)
    strange = [name for name in names if not isinstance(name, str)]
    if strange:
        raise TableError(
            f"names of columns must be text; got {strange[0]!r}. Rename them: "
            "frame.columns = frame.columns.astype(str)."
        )
    repeated = list(dict.fromkeys(name for name in names if names.count(name) > 1))
    if repeated:
        raise TableError(f"{quoted(repeated)} names more than one column. Rename them.")
    return names


def check_roles(
    names: Sequence[str],
    *,
    target: str | None = None,
    id_column: str | None = None,
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    as_category: Sequence[str] = (),
    as_number: Sequence[str] = (),
) -> None:
    """Raise TableError if a column is asked for that is not there, or in two roles.

    The parameters are those of :func:`plan_columns`, and `names` are the columns of the table. Its
    rows are not needed, so that a wrong name is found before a large file is read.
    """
    roles = [
        ([target], "target"),
        ([id_column], "id_column"),
        (features, "features"),
        (drop, "drop"),
        (as_category, "as_category"),
        (as_number, "as_number"),
    ]
    problems = [
        _absent(name, role, names)
        for listed, role in roles
        for name in listed
        if name is not None and name not in names
    ]
    if target is not None and target in (id_column, *drop, *features):
        problems.append(f"the target {target!r} cannot be a feature, the id or left out as well.")
    problems += [
        f"column {name!r} cannot be a category and a number."
        for name in as_category
        if name in as_number
    ]
    if problems:
        raise TableError(" ".join(problems))


def _absent(name: str, role: str, names: Sequence[str]) -> str:
    return f"there is no column {name!r} ({role}). {nearest_names(name, names)}"


def nearest_names(name: str, names: Sequence[str]) -> str:
    """Return a sentence with the names that look like `name`, or with the first names."""
    return did_you_mean(name, names) or f"The columns are {quoted(names, 8)}."


def _with_table_decimal(arrays: dict[str, AnyArray], hints: Hints) -> Hints:
    """Let the clear columns of text decide the separators of those that leave a doubt."""
    if hints.decimal is not None:
        return hints
    choices = [number_choice(array, hints) for array in arrays.values() if array.dtype == object]
    clear = table_decimal(choice for choice in choices if choice is not None)
    return replace(hints, table_decimal=clear)


def _strict_problems(plan: TablePlan, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return conversions that were not requested, and the options that request them.

    A problem that no option solves ends with what to do. `names` are those of the columns in the
    table; the plan has other words for a column without a name.
    """
    found: dict[str, list[str]] = {"left out": [], "with missing values": [], "of text": []}
    options, notes = [], []
    decimals = set()
    for column, name in zip(plan.columns, names, strict=True):
        ignored = column.notes[: bool(column.bad_words)]
        notes += [f"{note} Correct these cells or --drop the column." for note in ignored]
        doubts = column.notes[len(ignored) :]
        notes += doubts
        if doubts and column.kind == "number":
            decimals.add(column.format.decimal)
        if column.asked_for or column.problems:
            continue
        if column.kind == "left out":
            found["left out"].append(f"{column.name!r} ({column.reason})")
            options += ["--drop", name]
        elif column.kind == "category":
            gaps = f" ({column.n_missing} missing: {column.treatment_of_missing})"
            found["of text"].append(f"{column.name!r}{gaps if column.n_missing else ''}")
            options += ["--as-category", name]
        elif column.n_missing:
            found["with missing values"].append(f"{column.name!r} ({column.n_missing})")
    if len(decimals) == 1:
        options += ["--decimal", *decimals]
    problems = {what: f"columns {what}: {_some(few)}." for what, few in found.items() if few}
    if found["with missing values"]:
        problems["with missing values"] += (
            " Fill these cells or --drop the columns; --as-number requests the mean for a column of "
            "numbers."
        )
    target_notes = () if plan.target is None else plan.target.notes
    rows = [f"{note} Remove these rows." for note in target_notes]
    return [*problems.values(), *rows, *notes], options
