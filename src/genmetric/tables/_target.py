"""Decide whether the target of a table is classes or numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from genmetric._quantity import is_quantity
from genmetric._typing import AnyArray, BoolArray
from genmetric.tables._cells import cell_texts, column_array, count_texts, is_vector, select_rows
from genmetric.tables._columns import LARGEST_NUMBER, NUMBER_FRACTION, Hints
from genmetric.tables._decoded import LONG_TEXT, MAX_TEXT_LENGTH
from genmetric.tables._numbers import PLAIN, NumberFormat, choose_format, parse_numbers

if TYPE_CHECKING:
    from genmetric.tables._plan import TablePlan


@dataclass(frozen=True)
class TargetPlan:
    """Kind of the target of a table.

    Attributes
    ----------
    name : str
        Name of the column.
    kind : {"classes", "number"}
        Whether the values are classes or quantities.
    reason : str
        Why, with the number of distinct values.
    present : ndarray of shape (n_rows,), dtype bool
        Rows whose target is not missing; the others are not used.
    format : NumberFormat or None
        How numbers are written as text; None for classes that are text.
    notes, problems : tuple of str
        Remarks, and reasons why the target cannot be used.
    """

    name: str
    kind: Literal["classes", "number"]
    reason: str
    present: BoolArray
    format: NumberFormat | None = None
    notes: tuple[str, ...] = field(default=())
    problems: tuple[str, ...] = field(default=())

    @property
    def summary(self) -> str:
        """Name and reason."""
        return f"{self.name}: {self.reason}"


def plan_target(array: AnyArray, name: str, hints: Hints) -> TargetPlan:
    """Decide whether a target is classes or numbers.

    :func:`~genmetric._quantity.is_quantity` has the rule.

    Parameters
    ----------
    array : ndarray of shape (n_rows,)
        The target, as of :func:`~genmetric.tables._cells.column_array`.
    name : str
        Its name.
    hints : Hints
        What the caller knows; a target in `as_category` holds classes, one in `as_number` numbers.

    Returns
    -------
    TargetPlan
        The decision.
    """
    n_rows = len(array)
    none = np.zeros(n_rows, dtype=bool)
    long_text = array.dtype == object and any(
        isinstance(v, str) and len(v) > MAX_TEXT_LENGTH for v in array
    )
    if long_text or name in hints.left_out:
        reason = hints.left_out.get(name, LONG_TEXT)
        problem = f"the target {name!r} {reason}. Expected one class or number per row."
        return TargetPlan(name, "classes", reason, none, problems=(problem,))
    if array.dtype == object and any(is_vector(v) or isinstance(v, dict) for v in array):
        problem = f"the target {name!r} contains lists. Expected one class or number per row."
        return TargetPlan(name, "classes", "lists", none, problems=(problem,))
    texts = cell_texts(array, hints.missing_words)
    present = np.array([text is not None for text in texts])
    n_present = int(present.sum())
    if n_present == 0:
        problem = f"the target {name!r} has no values."
        return TargetPlan(name, "classes", "empty", present, problems=(problem,))
    notes = []
    if n_present < n_rows:
        first = hints.line_of(int(np.flatnonzero(~present)[0]))
        n_missing = n_rows - n_present
        notes.append(
            f"1 row has no target {name!r} and is not used ({first})."
            if n_missing == 1
            else f"{n_missing} rows have no target {name!r} and are not used (first: {first})."
        )
    numbers, format_ = _as_numbers(array, texts, name, hints)
    if numbers is not None and np.isnan(numbers[present]).any():
        bad = present & np.isnan(numbers)
        row = int(np.flatnonzero(bad)[0])
        what = f"a target {name!r} that is not a number and"
        where = f"{hints.line_of(row)}, {str(texts[row])[:20]!r}"
        notes.append(
            f"1 row has {what} is not used ({where})."
            if bad.sum() == 1
            else f"{bad.sum()} rows have {what} are not used (first: {where})."
        )
        present = present & ~bad
    counts = count_texts(texts)
    forced = name in hints.as_category or name in hints.as_number
    if numbers is not None:
        values = numbers[present]
        if np.isinf(values).any() or (np.abs(values) > LARGEST_NUMBER).any():
            row = int(np.flatnonzero(present)[np.argmax(np.abs(values))])
            problem = (
                f"{hints.line_of(row)}: the target {name!r} is infinite or beyond "
                f"{LARGEST_NUMBER:g} ({array[row]}). Correct the value or remove the row."
            )
            return TargetPlan(name, "number", "infinite", present, problems=(problem,))
        distinct = np.unique(values)
        if name in hints.as_number or (is_quantity(values) and not forced):
            reason = f"a number, {len(distinct)} distinct values in {len(values)} rows"
            few = _too_few(name, distinct)
            return TargetPlan(name, "number", reason, present, format_, tuple(notes), few)
    elif name in hints.as_number:
        problem = (
            f"the target {name!r} contains text, such as {next(iter(counts))[:20]!r}, and cannot be "
            "read as a number. Use --task classes."
        )
        return TargetPlan(name, "number", "text", present, problems=(problem,))
    problems = []
    if len(counts) == 1:
        only = next(iter(counts))[:40]
        problems.append(
            f"the target {name!r} contains a single class, {only!r}; at least two are required."
        )
    elif len(counts) > n_present / 2 and n_present > 10 and not forced:
        finding = f"the target {name!r} has {len(counts)} distinct values in {n_present} rows"
        choice = choose_format(counts, decimal=hints.decimal, thousands=hints.thousands)
        if numbers is None and choice.n_parsed >= NUMBER_FRACTION * n_present:
            problems.append(
                f"{finding}, and {choice.n_parsed} of the cells are numbers. Use --task number to "
                "predict them; the other rows are then not used."
            )
        else:
            problems.append(
                f"{finding}, so it looks like an identifier. Choose a column of classes."
            )
    reason = f"{len(counts)} classes"
    return TargetPlan(name, "classes", reason, present, format_, tuple(notes), tuple(problems))


def _too_few(name: str, distinct: AnyArray) -> tuple[str, ...]:
    """Return the problem of a numeric target with fewer than three distinct values, if any."""
    if len(distinct) > 2:
        return ()
    listed = " and ".join(f"{value:g}" for value in distinct)
    problem = (
        f"the target {name!r} has too few distinct values for a number ({listed}); at least 3 are "
        "required. Use --task classes if they are classes."
    )
    return (problem,)


def _as_numbers(
    array: AnyArray, texts: list[str | None], name: str, hints: Hints
) -> tuple[AnyArray | None, NumberFormat | None]:
    """Return the target as numbers if all of its values are, and how they are written."""
    if array.dtype.kind in "iuf":
        return array.astype(float), PLAIN
    if array.dtype.kind in "bM":
        return None, None
    counts = count_texts(texts)
    choice = choose_format(counts, decimal=hints.decimal, thousands=hints.thousands)
    n_present = sum(counts.values())
    if choice.n_parsed < (NUMBER_FRACTION if name in hints.as_number else 1) * n_present:
        return None, None
    return parse_numbers(texts, choice.format)[0], choice.format


def split_target(frame: Any, plan: TablePlan) -> tuple[Any, AnyArray]:
    """Split a table into features and target, without the rows that have no target.

    Parameters
    ----------
    frame : DataFrame
        The table that `plan` was made from.
    plan : TablePlan
        A plan with a target.

    Returns
    -------
    X : DataFrame
        The columns of features that the plan uses.
    y : ndarray of shape (n_samples,)
        Float64 if the target of the plan is a number. Otherwise the classes: integers and
        booleans as they are, everything else as text.

    Examples
    --------
    >>> import pandas as pd
    >>> from genmetric.tables import plan_columns, split_target
    >>> frame = pd.DataFrame({"size": [1.5, 2.0, 3.5], "kind": ["a", None, "b"]})
    >>> X, y = split_target(frame, plan_columns(frame, target="kind"))
    >>> X.shape, y.tolist()
    ((2, 1), ['a', 'b'])
    """
    target = plan.target
    if target is None:
        raise ValueError("plan has no target; pass target= to plan_columns.")
    array = column_array(frame, target.name)
    if len(array) != len(target.present):
        raise ValueError(f"plan was made from {len(target.present)} rows; frame has {len(array)}.")
    X = frame[list(plan.features)]
    if not target.present.all():
        X = select_rows(X, target.present)
    return X, target_values(array[target.present], target, plan.missing_words)


def target_values(
    array: AnyArray, target: TargetPlan, missing_words: tuple[str, ...] | None = None
) -> AnyArray:
    """Return the values of a target in the form that the plan decided on.

    Parameters
    ----------
    array : ndarray of shape (n_rows,)
        Values that are not missing.
    target : TargetPlan
        The decision.
    missing_words : tuple of str, default=None
        Texts that stand for a missing value.

    Returns
    -------
    ndarray of shape (n_rows,)
        See :func:`split_target`.
    """
    if target.kind == "number":
        if array.dtype.kind in "iuf":
            return array.astype(float)
        return parse_numbers(cell_texts(array, missing_words), target.format or PLAIN)[0]
    if array.dtype.kind in "ib":
        return array
    if array.dtype.kind == "f" and (array == np.floor(array)).all():
        return array.astype(np.int64)
    return np.array(cell_texts(array, missing_words), dtype=str)
