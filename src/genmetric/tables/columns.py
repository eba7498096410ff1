"""What each column of a table is: number, boolean, category, ordered answer, date, or left out."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from genmetric._text import import_optional
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.tables.dates import choose_dates, date_features, date_parts, parse_moments
from genmetric.tables.numbers import (
    LARGEST_NUMBER,
    NUMBER_FRACTION,
    PARSERS,
    PLAIN,
    NumberFormat,
    choose_format,
    count_units,
    is_limit,
    is_plain,
)

pd = import_optional("pandas", "cli")

#: Texts that stand for a missing value, in lower case; the case of a cell does not matter.
MISSING_WORDS = (
    *("", "?", "-", "--", ".", "na", "n/a", "#n/a", "#na", "<na>", "nan", "-nan", "nat", "none"),
    *("null", "nil", "missing", "unknown"),
)

#: Words of true and of false, in lower case.
TRUTH_WORDS = {"true": "false", "yes": "no", "y": "n", "t": "f", "on": "off"}

#: Ordered answers, in lower case; words of equal meaning are separated by bars.
SCALES = (
    "strongly disagree, disagree, somewhat disagree, neutral|neither, somewhat agree, agree, strongly agree",
    "very dissatisfied, dissatisfied, neutral|neither, satisfied, very satisfied",
    "never, rarely|seldom, sometimes|occasionally, often|usually|frequently, very often, always",
    "not at all, slightly|a little, moderately|somewhat, very|quite, extremely",
    "very poor|very bad|terrible, poor|bad, fair|average|ok|okay, good, very good, excellent",
    "very low, low, medium|moderate|average|normal, high, very high",
    "xxs, xs, s, m, l, xl, xxl, xxxl",
    "tiny|extra small, small, medium, large, huge|extra large",
    "mild, moderate, severe, very severe",
)

#: Fraction of missing values from which a column gets a feature that marks them.
INDICATOR_FRACTION = 0.05

#: Maximum number of distinct cells that cannot be read in a column of numbers or dates.
MOST_BAD_CELLS = 5

#: Columns with longer texts are left out.
MAX_TEXT_LENGTH = 4096

_ID_NAME = re.compile(
    r"(^|[_\s.-])(?i:id|ids|uuid|guid|key|index|nr|no)$|^(?i:id|index)[_\s.-]|[a-z](Id|ID)$"
)


@dataclass(frozen=True)
class Words:
    """A column of text: its distinct cells, and the position of each row's cell, -1 if missing."""

    texts: list[str]
    codes: IntArray

    @property
    def counts(self) -> Counter[str]:
        """How often each text occurs."""
        found = np.bincount(self.codes[self.codes >= 0], minlength=len(self.texts))
        return Counter(dict(zip(self.texts, found.tolist(), strict=True)))

    def spread(self, values: AnyArray) -> AnyArray:
        """Return the value of each row from one value per distinct text."""
        missing = np.full((1, *values.shape[1:]), np.nan)
        return np.concatenate([values, missing.astype(values.dtype)])[self.codes]


def read_cells(series: Any, na_values: Iterable[str] = ()) -> Any:
    """Return a column as Words, or as an array of floats, booleans, time stamps or objects.

    `na_values` are added to the words of missing values; "-999" also stands for the number.
    """
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.cat.remove_unused_categories()
        kinds = read_cells(pd.Series(series.cat.categories), na_values)
        codes = series.cat.codes.to_numpy().astype(np.intp)
        if isinstance(kinds, Words):
            return Words(kinds.texts, np.append(kinds.codes, -1)[codes])
        series = series.astype(object)
    kind = pd.api.types.infer_dtype(series, skipna=True)
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        return _floats(series, na_values)
    if kind == "boolean":
        gaps = series.isna().any()
        return _words(series.astype(object), na_values) if gaps else series.to_numpy(dtype=bool)
    if kind in ("datetime", "datetime64", "date"):
        moments = pd.to_datetime(series, errors="coerce", utc=True).dt.tz_localize(None)
        return moments.to_numpy(dtype="datetime64[us]")
    if kind in ("timedelta", "timedelta64"):
        return pd.to_timedelta(series).dt.total_seconds().to_numpy(dtype=float)
    if kind != "string":
        present = [value for value in series if not _is_missing(value)]
        if any(isinstance(value, (dict, list, tuple, np.ndarray, bytes)) for value in present):
            return np.array([*series, None], dtype=object)[:-1]
        series = series.map(as_text, na_action="ignore")
    return _words(series, na_values)


def _floats(series: Any, na_values: Iterable[str]) -> FloatArray:
    try:
        values = series.to_numpy(dtype=float, na_value=np.nan, copy=True)
    except (TypeError, ValueError, OverflowError):  # integers of any size, decimals of Python
        values = np.array([np.nan if _is_missing(v) else float(str(v)) for v in series])
    for word in na_values:
        number = PLAIN.parse(word.strip())
        if number is not None:
            values[values == number] = np.nan
    return np.asarray(values)


def _words(series: Any, na_values: Iterable[str]) -> Words:
    codes, distinct = pd.factorize(series)
    missing = {*MISSING_WORDS, *(word.strip().lower() for word in na_values)}
    places: dict[str, int] = {}
    place_of = []
    for value in distinct:
        text = str(value).strip()
        known = text.lower() not in missing
        place_of.append(places.setdefault(text, len(places)) if known else -1)
    return Words(list(places), np.array([*place_of, -1], dtype=np.intp)[codes])


def _is_missing(value: Any) -> bool:
    """Return whether a cell is None, NaN, NaT or NA; lists are not."""
    found = pd.isna(value)
    return isinstance(found, (bool, np.bool_)) and bool(found)


def as_text(value: Any) -> str:
    """Return a cell as text; whole floats lose their ".0"."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return str(int(value) if whole else value)


def as_words(cells: Any) -> Words:
    """Return a column of any kind as text, for categories."""
    if isinstance(cells, Words):
        return cells
    values = pd.Series(cells)
    return _words(values.map(as_text, na_action="ignore").astype(object), ())


def rarest(n_rows: int) -> int:
    """Return the count below which categories are pooled: 1% of the rows and at least 2."""
    return max(2, -(-n_rows // 100))


# Each decision is a dict, so that model files can hold it: name, kind, reason, n_missing,
# indicator, asked, and how the cells are read (see `to_numbers`).


def left_out(name: str, reason: str, asked: bool = False) -> dict[str, Any]:
    """Return the decision to leave a column out."""
    decision = {"name": name, "kind": "left out", "reason": reason}
    return {**decision, "n_missing": 0, "indicator": False, "asked": asked}


def _used(name: str, kind: str, reason: str, missing: AnyArray, **how: Any) -> dict[str, Any]:
    """Return the decision to use a column; `missing` marks its gaps."""
    indicator = kind != "category" and bool(missing.mean() > INDICATOR_FRACTION)
    decision = {"name": name, "kind": kind, "reason": reason, "n_missing": int(missing.sum())}
    return {**decision, "indicator": indicator, "asked": False, **how}


@dataclass
class Decider:
    """Decides what columns are, and collects notes for the user.

    `decimal` and `thousands` are separators that the caller settled, `label` names the place of a
    row, such as "line 57", and `table_decimal` settles columns in doubt.
    """

    decimal: str | None
    thousands: str | None
    label: Callable[[int], str]
    notes: list[str]
    table_decimal: str | None = None

    def learn_decimal(self, columns: Iterable[Any]) -> None:
        """Find the decimal separator that all clear columns with separators agree on."""
        found = set()
        for cells in columns:
            if isinstance(cells, Words) and any("," in t or "." in t for t in cells.texts):
                counts = cells.counts
                format_, n_read, other = choose_format(counts)
                if other is None and n_read >= NUMBER_FRACTION * counts.total():
                    found.add(format_.decimal)
        self.table_decimal = found.pop() if len(found) == 1 else None

    def decide(self, name: str, cells: Any, asked: str = "") -> dict[str, Any]:
        """Return the decision on a column; `asked` is "", "number", "category" or "drop"."""
        if asked == "drop":
            return left_out(name, "on request", asked=True)
        if not name.strip() or re.fullmatch(r"Unnamed: \d+", name):
            return left_out(name, "has no name; an index column")
        if asked == "category":
            is_text = isinstance(cells, Words)
            return self._category(name, as_words(cells), asked=True, numeric=not is_text)
        if isinstance(cells, Words):
            if any(len(text) > MAX_TEXT_LENGTH for text in cells.texts):
                return left_out(name, f"contains texts of more than {MAX_TEXT_LENGTH} characters")
            return self._texts(name, cells, asked == "number")
        if cells.dtype == object:
            return self._objects(name, cells)
        if cells.dtype.kind == "M":
            return self._moments(name, cells, np.asarray(np.isnat(cells)), [])
        kind = "boolean" if cells.dtype == bool else "number"
        return self._numbers(name, cells.astype(float), asked == "number", kind)

    def _numbers(
        self, name: str, values: FloatArray, asked: bool, kind: str, reason: str = "", **how: Any
    ) -> dict[str, Any]:
        large = np.abs(values) > LARGEST_NUMBER
        expected = f"a number below {LARGEST_NUMBER:g}"
        self._note_cells(name, large, map(str, values[large]), expected, len(values))
        missing = np.isnan(values) | large
        present = values[~missing]
        if len(present) == 0:
            return left_out(name, "is empty")
        if not asked and not missing.any():
            if (present == present[0]).all():
                return left_out(name, f"is constant, {present[0]:g}")
            if kind == "number" and (counter := _counter(name, present)):
                return left_out(name, counter)
        return _used(name, kind, reason, missing, asked=asked, **how)

    def _moments(
        self, name: str, moments: AnyArray, missing: AnyArray, formats: list[str]
    ) -> dict[str, Any]:
        known = moments[~np.isnat(moments)]
        if len(known) == 0:
            return left_out(name, "is empty")
        if (known == known[0]).all() and not missing.any():
            return left_out(name, f"is constant, {known[0].item()}")
        return _used(name, "date", "", missing, dates=formats, parts=date_parts(known, formats))

    def _objects(self, name: str, cells: AnyArray) -> dict[str, Any]:
        present = [value for value in cells if not _is_missing(value)]
        kinds = {type(value).__name__ for value in present}
        if "dict" in kinds:
            return left_out(name, "nested objects; give each entry a column")
        if not kinds <= {"list", "tuple", "ndarray"}:
            return left_out(name, f"contains cells of type {min(kinds - {'str'})}")
        length, n_usual = Counter(map(len, present)).most_common(1)[0]
        bad = np.asarray(np.isnan(vector_matrix(cells, length)).any(axis=1))
        if length == 0 or bad.all():
            return left_out(name, "lists of something other than numbers")
        if n_usual < 0.9 * len(present):
            return left_out(name, "lists of different lengths")
        wrong = bad & ~np.array([_is_missing(value) for value in cells])
        texts = map(str, cells[wrong])
        self._note_cells(name, wrong, texts, f"{length} numbers", len(present))
        how = {"length": length, "parts": list(range(length))}
        return _used(name, "vector", f"{length} entries", bad, **how)

    def _texts(self, name: str, words: Words, asked: bool) -> dict[str, Any]:
        counts, missing = words.counts, words.codes < 0
        if not counts:
            return left_out(name, "is empty")
        lower = {text.lower() for text in counts}
        if not asked and any(lower == {t, f} for t, f in TRUTH_WORDS.items()):
            return _used(name, "boolean", "", missing)
        format_, n_read, other = choose_format(counts, self.decimal, self.thousands)
        if other is not None and self.table_decimal is not None:
            again = choose_format(counts, self.table_decimal, self.thousands)
            format_, other = (again[0], None) if again[1] == n_read else (format_, other)
        values = np.array([_nan(format_.parse(text)) for text in words.texts])
        bad = [text for text, value in zip(words.texts, values, strict=True) if np.isnan(value)]
        codes = not asked and _are_codes(counts)
        if asked and len(bad) == len(counts):
            shown = ", ".join(repr(text[:20]) for text in words.texts[:3])
            return left_out(name, f"does not contain numbers, but for example {shown}")
        if asked or (_readable(counts, bad) and not codes):
            self._note_format(name, counts, format_, other)
            self._note_words(name, words, bad, "a number")
            reason = _format_reason(counts, format_)
            numbers = words.spread(values)
            return self._numbers(name, numbers, asked, "number", reason, format=asdict(format_))
        found = None if codes else self._special(name, words, counts)
        return found or self._category(name, words)

    def _special(self, name: str, words: Words, counts: Counter[str]) -> dict[str, Any] | None:
        """Recognise ordered answers, dates, ranges, pairs of numbers and durations."""
        missing, lower = words.codes < 0, {text.lower() for text in counts}
        for scale in SCALES:
            places = {w: i for i, same in enumerate(scale.split(", ")) for w in same.split("|")}
            if lower <= set(places) and len({places[text] for text in lower}) > 2:
                ranked = sorted(lower, key=places.__getitem__)
                levels = sorted({places[text] for text in lower})
                values = {text: float(levels.index(places[text])) for text in ranked}
                return _used(name, "ordered", " < ".join(ranked), missing, scale=values)
        formats, doubt = choose_dates(counts)
        moments = parse_moments(words.texts, formats)
        bad = [text for text, m in zip(words.texts, moments, strict=True) if np.isnat(m)]
        if formats and _readable(counts, bad):
            if doubt:
                self.notes.append(
                    f"column {name!r}: dates such as {words.texts[0]!r} are read {doubt}; write them "
                    "as year-month-day if this is wrong."
                )
            self._note_words(name, words, bad, "a date")
            return self._moments(name, words.spread(moments), missing, formats)
        for kind, (parse, reason) in PARSERS.items():
            bad = [text for text in counts if parse(text) is None]
            if _readable(counts, bad) and (kind != "range" or 2 < len(counts) <= 40):
                self._note_words(name, words, bad, f"one of {reason}")
                example = next(text for text in counts if text not in bad)
                values = np.atleast_1d(parse(example)).tolist()
                read = " and ".join(f"{value:g}" for value in values)
                how: dict[str, Any] = {"parser": kind, "length": len(values)}
                if len(values) > 1:
                    how["parts"] = list(range(1, len(values) + 1))
                ordered = "ordered" if kind == "range" else "number"
                shown = f"{reason}; {example} is read as {read}"
                return _used(name, ordered, shown, missing, **how)
        return None

    def _category(
        self, name: str, words: Words, asked: bool = False, numeric: bool = False
    ) -> dict[str, Any]:
        counts, missing = words.counts, words.codes < 0
        n_rows, n_present, n_missing = len(missing), counts.total(), int(missing.sum())
        if n_present == 0:
            return left_out(name, "is empty")
        if len(counts) == 1 and n_missing == 0 and not asked:
            return left_out(name, f"is constant, {words.texts[0][:30]!r}")
        rare = [text for text, count in counts.items() if count < rarest(n_rows)]
        # The values of a column with many gaps may tell little, but the gaps may tell more.
        gaps_tell = n_missing > n_present > INDICATOR_FRACTION * n_rows
        if not asked and 2 * sum(counts[text] for text in rare) > n_present and not gaps_tell:
            return left_out(name, self._text_reason(name, counts, n_missing))
        reason = f"{len(counts)} value{'s' * (len(counts) > 1)}"
        if len(rare) == len(counts) and n_missing and not asked:
            reason = "almost every value is different; only whether there is one is used"
        elif rare:
            reason += f", {len(rare)} rare ones pooled"
        return _used(name, "category", reason, missing, asked=asked, numeric=numeric)

    def _text_reason(self, name: str, counts: Counter[str], n_missing: int) -> str:
        """Say why a column of text with too many different values is left out."""
        n_present = counts.total()
        n_words = sum(len(text.split()) * n for text, n in counts.items()) / n_present
        units = count_units(counts)
        _, n_numbers, _ = choose_format(counts, self.decimal, self.thousands)
        if n_numbers:
            self.notes.append(
                f"column {name!r} is left out, but {n_numbers} of {n_present} cells are numbers "
                f"(--as-number {shlex.quote(name)})."
            )
        if n_missing > n_present:
            share = n_missing / (n_missing + n_present)
            return f"{share:.0%} empty, and the other values are nearly all different"
        if len(units) > 1 and units.total() >= NUMBER_FRACTION * n_present:
            listed = ", ".join(unit for unit, _ in units.most_common(4))
            return f"numbers in different units ({listed}); convert them to one"
        if n_words >= 3:
            return "free text"
        if 2 * n_numbers > n_present:
            return "numbers and text"
        if len(counts) > 0.9 * n_present:
            return "an identifier: almost every value is different"
        return f"too many different values, {len(counts)} in {n_present} rows"

    def _note_words(self, name: str, words: Words, bad: list[str], expected: str) -> None:
        """Note texts that cannot be read."""
        places = [i for i, text in enumerate(words.texts) if text in set(bad)]
        rows = np.isin(words.codes, places)
        self._note_cells(name, rows, bad, expected, int((words.codes >= 0).sum()))

    def _note_cells(
        self, name: str, rows: AnyArray, texts: Iterable[str], expected: str, n_present: int
    ) -> None:
        """Note cells that cannot be read; `rows` marks them."""
        n_bad = int(rows.sum())
        if n_bad:
            self.notes.append(
                f"{self.label(int(rows.argmax()))}, column {name!r}: {listed(texts, n_bad, expected)}; "
                f"{n_present - n_bad} of {n_present} cells are. "
                f"{'It is' if n_bad == 1 else 'They are'} treated as missing."
            )

    def _note_format(
        self, name: str, counts: Counter[str], format_: NumberFormat, other: NumberFormat | None
    ) -> None:
        """Note numbers that another format reads differently, and numbers that are limits."""
        if other is not None and self.decimal is None and self.thousands is None:
            text = next(t for t in counts if format_.parse(t) != other.parse(t))
            self.notes.append(
                f"column {name!r}: {text!r} is read as {format_.parse(text):g}; with the decimal "
                f"separator {other.decimal!r} it is {other.parse(text):g}."
            )
        limits = [text for text in counts if is_limit(text)]
        if limits:
            n_limits = sum(counts[text] for text in limits)
            self.notes.append(
                f"column {name!r}: {limits[0]!r} is read as {format_.parse(limits[0]):g}, like all "
                f"limits (cells: {n_limits})."
            )


def _counter(name: str, values: FloatArray) -> str:
    """Return why a complete column of numbers names its rows, or nothing."""
    if len(values) < 10 or (values != np.floor(values)).any():
        return ""
    steps = np.diff(np.sort(values))
    if (steps == 1).all():
        return "a row counter"
    named = (steps > 0).all() and _ID_NAME.search(name)
    return "an identifier: every row has another number" if named else ""


def _readable(counts: Counter[str], bad: list[str]) -> bool:
    """Return whether enough cells can be read: 80%, and few different other ones."""
    n_bad = sum(counts[text] for text in bad)
    return len(bad) <= MOST_BAD_CELLS and n_bad <= (1 - NUMBER_FRACTION) * counts.total()


def _are_codes(counts: Counter[str]) -> bool:
    """Return whether integers are written with leading zeros of a fixed width, as codes are."""
    all_digits = all(text.isdigit() for text in counts)
    zeros = any(len(text) > 1 and text[0] == "0" for text in counts)
    return all_digits and zeros and len(set(map(len, counts))) == 1


def _format_reason(counts: Counter[str], format_: NumberFormat) -> str:
    """Show how a number is read that is not plain."""
    for text in counts:
        value = format_.parse(text)
        if value is not None and not (is_plain(text) and value == float(text)):
            return f"{text} is read as {value:.10g}"
    return ""


def listed(texts: Iterable[str], n_cells: int, expected: str) -> str:
    """Say that cells are not what is expected, and show some."""
    first, *others = dict.fromkeys(text[:40] for text in texts)
    also = (
        f", also {', '.join(map(repr, others[:3]))}{', ...' * bool(others[3:])}" if others else ""
    )
    return f"{first!r} is not {expected}" + (f" ({n_cells} cells{also})" if n_cells > 1 else "")


def _nan(value: float | None) -> float:
    return np.nan if value is None else value


def vector_matrix(cells: AnyArray, length: int) -> FloatArray:
    """Return lists of numbers as rows; NaN for missing ones and for those of another length."""
    matrix = np.full((len(cells), length), np.nan)
    for i, vector in enumerate(cells):
        if isinstance(vector, (list, tuple, np.ndarray)) and len(vector) == length:
            with suppress(TypeError, ValueError):  # not numbers
                matrix[i] = vector
    matrix[~(np.abs(matrix) <= LARGEST_NUMBER).all(axis=1)] = np.nan
    return matrix


def to_numbers(cells: Any, column: dict[str, Any]) -> tuple[FloatArray, AnyArray]:
    """Return the numbers of a column that is not a category, and which cells cannot be read.

    Parameters
    ----------
    cells : Words or ndarray
        As of :func:`read_cells`.
    column : dict
        The decision.

    Returns
    -------
    numbers : ndarray of shape (n_rows, n_numbers)
        NaN where missing or not readable.
    unreadable : ndarray of shape (n_rows,), dtype bool
        Cells that are not missing and cannot be read.
    """
    is_text = isinstance(cells, Words)
    missing: AnyArray = cells.codes < 0 if is_text else np.asarray(pd.isna(cells))
    kind, length = column["kind"], column.get("length", 1)
    numbers = np.full((len(missing), length), np.nan)
    if kind == "date":
        moments = np.full(len(missing), np.datetime64("NaT", "us"))
        if is_text:
            moments = cells.spread(parse_moments(cells.texts, column["dates"] or ["ISO8601"]))
        elif cells.dtype.kind == "M":
            moments = cells
        numbers = date_features(moments, column["parts"])
    elif is_text and kind != "vector":
        read = _cell_reader(column)
        values = np.array([read(text) for text in cells.texts], dtype=float)
        numbers = cells.spread(values.reshape(len(cells.texts), length))
    elif not is_text and cells.dtype == object:
        numbers = vector_matrix(cells, length)
    elif not is_text and length == 1 and cells.dtype.kind in "fb":
        numbers = cells.astype(float)[:, np.newaxis]
    numbers[~(np.abs(numbers) <= LARGEST_NUMBER)] = np.nan
    return numbers, np.isnan(numbers).any(axis=1) & ~missing


def _cell_reader(column: dict[str, Any]) -> Callable[[str], Any]:
    """Return the function that reads a cell of text as a number, NaN if it cannot."""
    if column["kind"] == "boolean":
        truth = {"1": 1.0, "0": 0.0, **dict.fromkeys(TRUTH_WORDS, 1.0)}
        truth |= dict.fromkeys(TRUTH_WORDS.values(), 0.0)
        return lambda text: truth.get(text.lower(), np.nan)
    if "scale" in column:
        return lambda text: column["scale"].get(text.lower(), np.nan)
    if "parser" in column:
        parse, _ = PARSERS[column["parser"]]
        nothing = [np.nan] * column["length"]
        return lambda text: nothing if (value := parse(text)) is None else value
    format_ = NumberFormat(**column.get("format", {}))
    return lambda text: _nan(format_.parse_new(text))
