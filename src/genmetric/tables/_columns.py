"""Decide how one column of a table is read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from genmetric._typing import AnyArray, FloatArray
from genmetric.tables._cells import (
    auto_min_count,
    cell_texts,
    count_texts,
    is_vector,
    truth_words,
    vector_matrix,
)
from genmetric.tables._dates import DATE_FEATURES, TIME_FEATURES, choose_date_format
from genmetric.tables._decoded import LONG_TEXT, MAX_TEXT_LENGTH
from genmetric.tables._errors import more_cells
from genmetric.tables._numbers import (
    PLAIN,
    UNIT_FRACTION,
    FormatChoice,
    NumberFormat,
    choose_format,
    count_units,
    parse_numbers,
)

Kind = Literal["number", "boolean", "category", "date", "vector", "left out"]

#: Fraction of missing values from which a column gets an indicator feature.
INDICATOR_FRACTION = 0.05

#: A column of text is one of numbers if at least this fraction of its cells are numbers.
NUMBER_FRACTION = 0.8

#: Maximum number of distinct cells that are not numbers in a column of numbers.
MOST_BAD_CELLS = 5

#: Lists are vectors if at least this fraction of them have the same length. Others are errors.
VECTOR_FRACTION = 0.9

#: Minimum number of rows to recognise a column of distinct integers as a row counter.
COUNTER_ROWS = 10

#: Squares of larger numbers, and products of covariances, leave the range of float64.
LARGEST_NUMBER = 1e100

_ID_NAME = re.compile(
    r"(^|[_\s.-])(id|ids|uuid|guid|key|index|nr|no)$|^(id|index)[_\s.-]", re.IGNORECASE
)
_N_DATE_FEATURES = len(DATE_FEATURES) + len(TIME_FEATURES)
_CAMEL_CASE_ID = re.compile(r"[a-z](Id|ID)$")


@dataclass(frozen=True)
class ColumnPlan:
    """How one column becomes features, and why.

    Attributes
    ----------
    name : str
        Name of the column.
    kind : {"number", "boolean", "category", "date", "vector", "left out"}
        How the column is read.
    reason : str
        Why it is left out, or what is done to its values; may be empty.
    n_missing : int
        Number of missing values.
    indicator : bool
        Whether a feature marks the rows whose value was missing.
    format : NumberFormat
        How numbers are written, for columns of numbers.
    date_format : str
        How dates are written as text; empty for other columns and for time stamps.
    binary : bool
        Whether a category has two values, counting missing and pooled ones.
    asked_for : bool
        Whether the caller asked for this kind.
    n_values : int
        Most features that the values become, without the one that marks missing values.
    notes, problems : tuple of str
        Remarks on cells and doubtful formats, and reasons why the column cannot be used.
    bad_words : tuple of str
        Cells that are not numbers and are treated as missing.
    """

    name: str
    kind: Kind
    reason: str = ""
    n_missing: int = 0
    indicator: bool = False
    format: NumberFormat = PLAIN
    date_format: str = ""
    binary: bool = False
    asked_for: bool = False
    n_values: int = 1
    notes: tuple[str, ...] = field(default=())
    problems: tuple[str, ...] = field(default=())
    bad_words: tuple[str, ...] = field(default=())

    @property
    def summary(self) -> str:
        """Name and reason."""
        return f"{self.name} ({self.reason})" if self.reason else self.name

    @property
    def n_features(self) -> int:
        """Most features that the column becomes."""
        return 0 if self.kind == "left out" else self.n_values + self.indicator

    @property
    def treatment_of_missing(self) -> str:
        """What happens to missing values; empty if there are none or the column is left out."""
        if not self.n_missing or self.kind == "left out":
            return ""
        if self.kind == "category":
            return "a category of its own"
        return "imputed by the mean" + (", with an indicator feature" if self.indicator else "")


@dataclass(frozen=True)
class Hints:
    """What the caller knows about the columns.

    Attributes
    ----------
    as_category, as_number : frozenset of str
        Columns whose kind is settled.
    decimal, thousands : str or None
        Separators that are settled.
    missing_words : tuple of str or None
        Texts that stand for a missing value; None is the usual ones.
    line_of : callable
        Names the place of a row.
    table_decimal : str or None
        Decimal separator that other columns show.
    left_out : mapping of str to str
        Columns that cannot be used, and why.
    """

    as_category: frozenset[str]
    as_number: frozenset[str]
    decimal: str | None
    thousands: str | None
    missing_words: tuple[str, ...] | None
    line_of: Callable[[int], str]
    table_decimal: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)


def number_choice(array: AnyArray, hints: Hints) -> FormatChoice | None:
    """Return the number format of a column of text that has separators, else None."""
    counts = count_texts(cell_texts(array, hints.missing_words))
    if not any("," in text or "." in text for text in counts):
        return None
    choice = choose_format(counts, decimal=hints.decimal, thousands=hints.thousands)
    return choice if choice.n_parsed >= NUMBER_FRACTION * sum(counts.values()) > 0 else None


def classify_column(name: str, array: AnyArray, hints: Hints) -> ColumnPlan:
    """Decide how a column is read.

    Parameters
    ----------
    name : str
        Name of the column.
    array : ndarray of shape (n_rows,)
        Its cells, as of :func:`~genmetric.tables._cells.column_array`.
    hints : Hints
        What the caller knows.

    Returns
    -------
    ColumnPlan
        The decision.
    """
    if not name.strip() or re.fullmatch(r"Unnamed: \d+", name):
        return ColumnPlan(name or "(no name)", "left out", "has no name; an index column")
    if name in hints.left_out:
        return _unusable(name, hints.left_out[name], hints)
    if array.dtype == object and any(
        isinstance(v, str) and len(v) > MAX_TEXT_LENGTH for v in array
    ):
        return _unusable(name, LONG_TEXT, hints)
    forced = name in hints.as_category or name in hints.as_number
    if name in hints.as_category:
        return _category(name, cell_texts(array, hints.missing_words), forced=True)
    if array.dtype.kind in "iufb":
        return _numbers(name, array.astype(float), hints, array.dtype.kind, forced)
    if array.dtype.kind in "Mm":
        return _moments(name, array)
    present = [value for value in array if value is not None]
    if present and all(map(is_vector, present)):
        return _vectors(name, array)
    if any(isinstance(value, (dict, list, tuple, np.ndarray, bytes)) for value in present):
        kind = next(type(v) for v in present if not isinstance(v, str))
        if kind is dict:
            return ColumnPlan(name, "left out", "nested objects; give each entry a column")
        return ColumnPlan(name, "left out", f"contains cells of type {kind.__name__}")
    return _texts(name, cell_texts(array, hints.missing_words), hints, forced)


def _unusable(name: str, reason: str, hints: Hints) -> ColumnPlan:
    """Leave out a column whatever it contains; that is a problem if it was asked for."""
    problems = [
        f"column {name!r} cannot be read as a {kind}: it {reason}."
        for kind, names in (("category", hints.as_category), ("number", hints.as_number))
        if name in names
    ]
    return ColumnPlan(name, "left out", reason, problems=tuple(problems))


def _texts(name: str, texts: Sequence[str | None], hints: Hints, forced: bool) -> ColumnPlan:
    counts = count_texts(texts)
    n_present = sum(counts.values())
    n_missing = len(texts) - n_present
    if n_present == 0:
        return ColumnPlan(name, "left out", "is empty")
    if not forced and truth_words(list(counts)):
        return ColumnPlan(
            name, "boolean", n_missing=n_missing, indicator=_many(n_missing, len(texts))
        )
    choice = choose_format(counts, decimal=hints.decimal, thousands=hints.thousands)
    settled = hints.decimal is not None or hints.thousands is not None
    if choice.alternative is not None and hints.table_decimal is not None:
        other = choose_format(counts, decimal=hints.table_decimal, thousands=hints.thousands)
        if other.n_parsed == choice.n_parsed:
            choice, settled = replace(other, alternative=None), True
    n_bad = n_present - choice.n_parsed
    bad_words = [t for t in counts if choice.format.parse(t) is None]
    is_number = choice.n_parsed >= NUMBER_FRACTION * n_present and (
        len(bad_words) <= MOST_BAD_CELLS and choice.n_parsed > 2 * n_bad
    )
    codes = not forced and is_number and _are_codes(counts)
    if forced or (is_number and not codes):
        numbers, bad = parse_numbers(texts, choice.format)
        plan = _numbers(name, numbers, hints, "f", forced)
        notes = _bad_cells(name, texts, bad, n_present, hints)
        if choice.alternative is not None and not settled:
            notes += _doubt(name, counts, choice)
        if forced and choice.n_parsed == 0:
            problem = (
                f"column {name!r} does not contain numbers, but for example {_example(counts)}."
            )
            return ColumnPlan(name, "left out", "does not contain numbers", problems=(problem,))
        reason = plan.reason or _format_reason(counts, choice)
        return replace(
            plan,
            reason=reason,
            format=choice.format,
            notes=tuple(notes) if plan.kind != "left out" else (),
            bad_words=tuple(dict.fromkeys(texts[i] or "" for i in bad)),
        )
    date = choose_date_format(counts)
    if date is not None and not codes:
        return _dates(name, len(texts), n_missing, counts, *date)
    return _category(name, texts)


def _are_codes(counts: Counter[str]) -> bool:
    """Return whether integers are written with leading zeros of a fixed width, as codes are."""
    digits = [text for text in counts if text.isdigit()]
    return (
        len(digits) == len(counts)
        and any(len(t) > 1 and t[0] == "0" for t in digits)
        and len({len(t) for t in digits}) == 1
    )


def _bad_cells(
    name: str, texts: Sequence[str | None], bad: list[int], n_present: int, hints: Hints
) -> list[str]:
    if not bad:
        return []
    more = more_cells(dict.fromkeys(texts[i] or "" for i in bad), len(bad))
    return [
        (
            f"{hints.line_of(bad[0])}, column {name!r}: {texts[bad[0]]!r} is not a number{more}; "
            f"{n_present - len(bad)} of {n_present} cells are. "
            f"{'It is' if len(bad) == 1 else 'They are'} treated as missing."
        )
    ]


def _doubt(name: str, counts: Counter[str], choice: FormatChoice) -> list[str]:
    other = choice.alternative
    assert other is not None
    text = next(t for t in counts if choice.format.parse(t) != other.parse(t))
    return [
        (
            f"column {name!r}: {text!r} is read as {choice.format.parse(text):g}; with the decimal "
            f"separator {other.decimal!r} it is {other.parse(text):g}."
        )
    ]


def _format_reason(counts: Counter[str], choice: FormatChoice) -> str:
    if choice.format == PLAIN:
        return ""
    read = choice.format.parse
    text = next((t for t in counts if read(t) is not None and read(t) != PLAIN.parse(t)), "")
    return f"{text} is read as {read(text):.10g}" if text else ""


def _numbers(
    name: str, values: FloatArray, hints: Hints, dtype_kind: str, forced: bool
) -> ColumnPlan:
    missing = np.isnan(values)
    n_missing = int(missing.sum())
    present = values[~missing]
    if len(present) == 0:
        return ColumnPlan(name, "left out", "is empty")
    problems = []
    wrong = np.flatnonzero(np.isinf(values) | (np.abs(values) > LARGEST_NUMBER))
    if len(wrong):
        value = values[wrong[0]]
        what = "is infinite" if np.isinf(value) else f"is beyond {LARGEST_NUMBER:g}"
        problems.append(
            f"{hints.line_of(int(wrong[0]))}, column {name!r}: {value:g} {what}"
            f"{more_cells([f'{value:g}'], len(wrong))}. Correct the value, "
            "remove the row or drop the column."
        )
        return ColumnPlan(name, "left out", "contains infinite values", problems=tuple(problems))
    if not forced:
        if n_missing == 0 and (present == present[0]).all():
            return ColumnPlan(name, "left out", f"is constant, {present[0]:g}")
        reason = _counter_reason(name, present, n_missing)
        if reason:
            return ColumnPlan(name, "left out", reason)
    kind: Kind = "boolean" if dtype_kind == "b" else "number"
    return ColumnPlan(
        name,
        kind,
        n_missing=n_missing,
        indicator=_many(n_missing, len(values)),
        asked_for=forced,
    )


def _counter_reason(name: str, values: FloatArray, n_missing: int) -> str:
    """Return why a column of numbers names its rows, or nothing."""
    if len(values) < COUNTER_ROWS or n_missing or (values != np.floor(values)).any():
        return ""
    ordered = np.sort(values)
    steps = np.diff(ordered)
    if (steps == 1).all():
        return "a row counter"
    if (steps > 0).all() and is_id_name(name):
        return "an identifier: every row has another number"
    return ""


def is_id_name(name: str) -> bool:
    """Return whether a column has a name like id, customer_id, PassengerId or index."""
    return bool(_ID_NAME.search(name) or _CAMEL_CASE_ID.search(name))


def _many(n_missing: int, n_rows: int) -> bool:
    return n_missing > INDICATOR_FRACTION * n_rows


def _moments(name: str, array: AnyArray) -> ColumnPlan:
    if array.dtype.kind == "m":
        return ColumnPlan(name, "left out", "contains durations; convert them to numbers")
    missing = np.isnat(array)
    n_missing = int(missing.sum())
    present = array[~missing]
    if len(present) == 0:
        return ColumnPlan(name, "left out", "is empty")
    if n_missing == 0 and (present == present[0]).all():
        return ColumnPlan(name, "left out", "is constant")
    return ColumnPlan(
        name,
        "date",
        n_missing=n_missing,
        indicator=_many(n_missing, len(array)),
        n_values=_N_DATE_FEATURES,
    )


def _dates(
    name: str, n_rows: int, n_missing: int, counts: Counter[str], format_: str, other: str | None
) -> ColumnPlan:
    if len(counts) == 1 and n_missing == 0:
        return ColumnPlan(name, "left out", f"is constant, {next(iter(counts))}")
    notes = []
    if other is not None:
        order = "month first" if format_.startswith("%m") else "day first"
        notes.append(
            f"column {name!r}: dates such as {next(iter(counts))!r} are read {order}; write them as "
            "year-month-day if this is wrong."
        )
    return ColumnPlan(
        name,
        "date",
        n_missing=n_missing,
        indicator=_many(n_missing, n_rows),
        date_format=format_,
        n_values=_N_DATE_FEATURES,
        notes=tuple(notes),
    )


def _vectors(name: str, array: AnyArray) -> ColumnPlan:
    present = [value for value in array if value is not None]
    # Entries of an array of numbers need not be looked at one by one.
    lists = [v for v in present if not isinstance(v, np.ndarray) or v.dtype == object]
    if any(isinstance(entry, (str, dict, list)) for vector in lists for entry in vector):
        return ColumnPlan(name, "left out", "lists of something other than numbers")
    lengths = Counter(map(len, present)).most_common()
    if lengths[0][1] < VECTOR_FRACTION * len(present):
        return ColumnPlan(name, "left out", "lists of different lengths")
    try:
        matrix = vector_matrix(array, name)
    except ValueError as error:
        return ColumnPlan(name, "left out", "vectors of different lengths", problems=(str(error),))
    n_missing = sum(value is None for value in array)
    if not np.isfinite(matrix[[value is not None for value in array]]).all():
        problem = f"column {name!r} contains vectors with infinite or missing entries."
        return ColumnPlan(name, "left out", "infinite or missing entries", problems=(problem,))
    length = matrix.shape[1]
    return ColumnPlan(name, "vector", f"{length} entries", n_missing=n_missing, n_values=length)


def _category(name: str, texts: Sequence[str | None], *, forced: bool = False) -> ColumnPlan:
    counts = count_texts(texts)
    n_present = sum(counts.values())
    n_missing = len(texts) - n_present
    n_distinct = len(counts)
    if n_distinct == 0:
        return ColumnPlan(name, "left out", "is empty")
    if n_distinct == 1 and n_missing == 0 and not forced:
        return ColumnPlan(name, "left out", f"is constant, {next(iter(counts))[:30]!r}")
    least = auto_min_count(len(texts))
    rare = [text for text, count in counts.items() if count < least]
    n_rare = sum(counts[text] for text in rare)
    # The values of a column with many gaps may tell little, but the gaps may tell more.
    gaps_tell = n_missing > n_present > INDICATOR_FRACTION * len(texts)
    if not forced and n_rare > n_present / 2 and not gaps_tell:
        return ColumnPlan(name, "left out", _text_reason(counts, n_present, n_missing))
    plural = "value" if n_distinct == 1 else "values"
    reason = f"{n_distinct} {plural}"
    if len(rare) == n_distinct and n_missing and not forced:
        reason = "almost every value is different; only whether there is one is used"
    elif rare:
        reason += f", {len(rare)} rare ones pooled"
    n_values = n_distinct - len(rare) + bool(rare) + bool(n_missing)
    return ColumnPlan(
        name,
        "category",
        reason,
        n_missing=n_missing,
        binary=n_values == 2,
        asked_for=forced,
        n_values=n_values,
    )


def _text_reason(counts: Counter[str], n_present: int, n_missing: int) -> str:
    n_words = sum(len(text.split()) * n for text, n in counts.items()) / n_present
    if n_missing > n_present:
        share = n_missing / (n_missing + n_present)
        return f"{share:.0%} empty, and the other values are nearly all different"
    units = count_units(counts)
    if len(units) > 1 and units.total() >= UNIT_FRACTION * n_present:
        listed = ", ".join(unit for unit, _ in units.most_common(4))
        return f"numbers in different units ({listed}); convert them to one"
    if n_words >= 3:
        return "free text"
    if len(counts) > 0.9 * n_present:
        return "an identifier: almost every value is different"
    return f"too many different values, {len(counts)} in {n_present} rows"


def _example(counts: Counter[str]) -> str:
    return ", ".join(repr(text[:20]) for text in list(counts)[:3])
