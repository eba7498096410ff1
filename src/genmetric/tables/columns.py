"""What each column of a table is: number, boolean, category, ordered answer, date, or left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from genmetric._text import import_optional
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.tables.dates import choose_dates, date_features, date_parts, parse_moments
from genmetric.tables.numbers import (
    LARGEST_NUMBER,
    NUMBER_FRACTION,
    PLAIN,
    NumberFormat,
    choose_format,
    count_units,
    is_limit,
    parse_pair,
    parse_range,
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
    "strongly disagree, disagree, slightly disagree|somewhat disagree, neutral|undecided|neither"
    "|neither agree nor disagree|not sure, slightly agree|somewhat agree, agree, strongly agree",
    "very dissatisfied, dissatisfied, neutral|neither, satisfied, very satisfied",
    "never, rarely|seldom, sometimes|occasionally, often|usually|frequently, very often, always",
    "not at all, slightly|a little, moderately|somewhat, very|quite, extremely",
    "very poor|very bad|terrible, poor|bad, fair|average|ok|okay, good, very good, excellent",
    "very low, low, medium|moderate|average|normal, high, very high",
    "xxs, xs, s, m, l, xl, xxl, xxxl",
    "tiny|extra small, small, medium, large, huge|extra large",
    "none at all, mild, moderate, severe, very severe",
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

    def rows(self, texts: Iterable[str]) -> IntArray:
        """Return the rows whose text is one of `texts`."""
        wanted = set(texts)
        found = [i for i, text in enumerate(self.texts) if text in wanted]
        return np.flatnonzero(np.isin(self.codes, found))

    def spread(self, values: AnyArray) -> AnyArray:
        """Return the value of each row from one value per distinct text."""
        missing = np.full((1, *values.shape[1:]), np.nan)
        return np.concatenate([values, missing.astype(values.dtype)])[self.codes]


def read_cells(series: Any, na_values: Iterable[str] = ()) -> Any:
    """Return a column as Words, or as an array of floats, booleans, time stamps or objects.

    `na_values` are added to the words of missing values; "-999" also stands for the number.
    """
    if isinstance(series.dtype, pd.CategoricalDtype):
        kinds = read_cells(pd.Series(series.cat.categories), na_values)
        codes = series.cat.codes.to_numpy().astype(np.intp)
        if isinstance(kinds, Words):
            return Words(kinds.texts, np.append(kinds.codes, -1)[codes])
        series = series.astype(object)
    kind = {"i": "integer", "u": "integer", "f": "floating", "b": "boolean", "M": "datetime"}.get(
        getattr(series.dtype, "kind", "O"), ""
    )
    if not kind or (kind == "boolean" and series.isna().any()):
        kind = pd.api.types.infer_dtype(series, skipna=True)
        kind = "string" if kind == "boolean" and series.isna().any() else kind
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        return _floats(series, na_values)
    if kind == "boolean":
        return series.to_numpy(dtype=bool)
    if kind in ("datetime", "datetime64", "date"):
        moments = pd.to_datetime(series, errors="coerce", utc=True).dt.tz_localize(None)
        return moments.to_numpy(dtype="datetime64[us]")
    if kind in ("timedelta", "timedelta64"):
        return pd.to_timedelta(series).dt.total_seconds().to_numpy(dtype=float)
    if kind != "string":
        present = [value for value in series if not _is_missing(value)]
        if any(isinstance(value, (dict, list, tuple, np.ndarray, bytes)) for value in present):
            return np.array([*series, None], dtype=object)[:-1]
        series = series.map(_text, na_action="ignore")
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


def _text(value: Any) -> str:
    """Return a cell as text; whole floats lose their ".0"."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return str(int(value) if whole else value)


def as_words(cells: Any) -> Words:
    """Return a column of any kind as text, for categories."""
    if isinstance(cells, Words):
        return cells
    values = pd.Series(cells)
    return _words(values.map(_text, na_action="ignore").astype(object), ())


def rarest(n_rows: int) -> int:
    """Return the count below which categories are pooled: 1% of the rows and at least 2."""
    return max(2, -(-n_rows // 100))


# Each decision is a dict, so that model files can hold it: name, kind, reason, n_missing,
# indicator, asked, and how the cells are read (see `to_numbers`).


def left_out(name: str, reason: str, **more: Any) -> dict[str, Any]:
    """Return the decision to leave a column out."""
    return {"name": name, "kind": "left out", "reason": reason, "n_missing": 0, **more}


def _used(name: str, kind: str, reason: str, missing: AnyArray, **more: Any) -> dict[str, Any]:
    """Return the decision to use a column; `missing` marks its gaps."""
    indicator = kind != "category" and missing.mean() > INDICATOR_FRACTION
    decision = {"name": name, "kind": kind, "reason": reason, "n_missing": int(missing.sum())}
    return {**decision, "indicator": bool(indicator), **more}


@dataclass
class Decider:
    """Decides what columns are, and collects notes for the user.

    Attributes
    ----------
    decimal, thousands : str or None
        Separators that the caller settled.
    table_decimal : str or None
        Decimal separator that clear columns show; it settles doubtful ones.
    label : callable
        Names the place of a row, such as "line 57".
    notes : list of str
        Sentences about what was decided.
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
            if not isinstance(cells, Words) or not any(re.search("[.,]", t) for t in cells.texts):
                continue
            counts = cells.counts
            format_, n_read, other = choose_format(counts, self.decimal, self.thousands)
            if other is None and n_read >= NUMBER_FRACTION * counts.total() > 0:
                found.add(format_.decimal)
        self.table_decimal = found.pop() if len(found) == 1 else None

    def decide(self, name: str, cells: Any, asked: str = "") -> dict[str, Any]:
        """Return the decision on a column; `asked` is "", "number" or "category"."""
        if not name.strip() or re.fullmatch(r"Unnamed: \d+", name):
            return left_out(name, "has no name; an index column")
        if asked == "category":
            numeric = not isinstance(cells, Words)
            return self._category(name, as_words(cells), asked=True, numeric=numeric)
        if isinstance(cells, Words):
            if any(len(text) > MAX_TEXT_LENGTH for text in cells.texts):
                return left_out(name, f"contains texts of more than {MAX_TEXT_LENGTH} characters")
            return self._texts(name, cells, asked == "number")
        if cells.dtype == object:
            return self._objects(name, cells)
        if cells.dtype.kind == "M":
            return self._moments(name, cells)
        kind = "boolean" if cells.dtype == bool else "number"
        return self._numbers(name, cells.astype(float), asked == "number", kind)

    def _numbers(
        self, name: str, values: FloatArray, asked: bool, kind: str = "number", **how: Any
    ) -> dict[str, Any]:
        large = np.abs(values) > LARGEST_NUMBER
        if large.any():
            self.notes.append(
                f"column {name!r}: {_cells(int(large.sum()))} infinite or beyond "
                f"{LARGEST_NUMBER:g} ({self.label(int(large.argmax()))} first); treated as missing."
            )
        missing = np.isnan(values) | large
        present = values[~missing]
        if len(present) == 0:
            return left_out(name, "is empty")
        if not asked and not missing.any():
            if (present == present[0]).all():
                return left_out(name, f"is constant, {present[0]:g}")
            if kind == "number" and (reason := _counter(name, present)):
                return left_out(name, reason)
        return _used(name, kind, how.pop("reason", ""), missing, asked=asked, **how)

    def _moments(self, name: str, moments: AnyArray) -> dict[str, Any]:
        missing = np.isnat(moments)
        if missing.all():
            return left_out(name, "is empty")
        if len(np.unique(moments)) == 1:
            return left_out(name, "is constant")
        return _used(name, "date", "", missing, dates=[], parts=date_parts(moments, []))

    def _objects(self, name: str, cells: AnyArray) -> dict[str, Any]:
        vectors = [value for value in cells if not _is_missing(value)]
        kinds = {type(value) for value in vectors}
        if not kinds <= {list, tuple, np.ndarray}:
            if dict in kinds:
                return left_out(name, "nested objects; give each entry a column")
            return left_out(name, f"contains cells of type {min(t.__name__ for t in kinds)}")
        sizes = Counter(map(len, vectors)).most_common(1)
        length, n_usual = sizes[0]
        if n_usual < 0.9 * len(vectors) or length == 0:
            return left_out(name, "lists of different lengths")
        matrix = vector_matrix(cells, length)
        bad = ~np.isfinite(matrix).all(axis=1)
        if bad.mean() > 0.5:
            return left_out(name, "lists of something other than numbers")
        n_bad = int(bad.sum()) - sum(map(_is_missing, cells))
        if n_bad:
            self.notes.append(
                f"column {name!r}: {_cells(n_bad)} not a list of {length} finite numbers "
                f"({self.label(int(bad.argmax()))} first); treated as missing."
            )
        return _used(name, "vector", f"{length} entries", bad, length=length)

    def _texts(self, name: str, words: Words, asked: bool) -> dict[str, Any]:
        counts = words.counts
        n_present = counts.total()
        missing = words.codes < 0
        if n_present == 0:
            return left_out(name, "is empty")
        if not asked:
            lower = {text.lower() for text in counts}
            if len(lower) == 2 and any(lower == {t, f} for t, f in TRUTH_WORDS.items()):
                return _used(name, "boolean", "", missing)
        format_, n_read, other = choose_format(counts, self.decimal, self.thousands)
        if other is not None and self.table_decimal is not None:
            again = choose_format(counts, self.table_decimal, self.thousands)
            format_, other = (again[0], None) if again[1] == n_read else (format_, other)
        bad = [text for text in counts if format_.parse(text) is None]
        if asked or (_readable(counts, bad) and not _are_codes(counts)):
            if len(bad) == len(counts):
                return left_out(name, f"does not contain numbers, but {_examples(counts)}")
            values = words.spread(np.array([_nan(format_.parse(t)) for t in words.texts]))
            if other is not None and self.decimal is None and self.thousands is None:
                self._note_doubt(name, counts, format_, other)
            self._note_cells(name, words, bad, "a number")
            n_limits = sum(n for text, n in counts.items() if is_limit(text))
            if n_limits:
                self.notes.append(f"column {name!r}: {n_limits} limits such as '<5' are read as 5.")
            reason = _format_reason(counts, format_)
            how = {"format": asdict(format_), "reason": reason}
            return self._numbers(name, values, asked, **how)
        for read in (self._ordered, self._dates, self._pairs, self._durations):
            if (found := read(name, words, counts)) is not None and not _are_codes(counts):
                return found
        return self._category(name, words)

    def _ordered(self, name: str, words: Words, counts: Counter[str]) -> dict[str, Any] | None:
        """Recognise ordered answers, sizes and ranges."""
        missing = words.codes < 0
        lower = {text.lower() for text in counts}
        for scale in SCALES:
            places = {
                word: i for i, same in enumerate(scale.split(", ")) for word in same.split("|")
            }
            if lower <= set(places) and len({places[text] for text in lower}) > 2:
                ranked = sorted(lower, key=places.__getitem__)
                levels = sorted({places[text] for text in lower})
                values = {text: float(levels.index(places[text])) for text in ranked}
                return _used(name, "ordered", " < ".join(ranked), missing, scale=values)
        if not 2 < len(counts) <= 40 or not any(re.search(r"\d\s?(-|–|to|bis|\+)", t) for t in counts):
            return None
        bad = [text for text in counts if parse_range(text) is None]
        if not _readable(counts, bad):
            return None
        self._note_cells(name, words, bad, "a range of numbers")
        example = next(text for text in counts if text not in bad)
        reason = f"ranges; {example} is read as {parse_range(example):g}"
        return _used(name, "ordered", reason, missing, ranges=True)

    def _dates(self, name: str, words: Words, counts: Counter[str]) -> dict[str, Any] | None:
        formats, _, other = choose_dates(counts)
        moments = parse_moments(words.texts, formats)
        bad = [text for text, m in zip(words.texts, moments, strict=True) if np.isnat(m)]
        if not formats or not _readable(counts, bad):
            return None
        if len(counts) == 1 and (words.codes >= 0).all():
            return left_out(name, f"is constant, {words.texts[0]}")
        if other:
            self.notes.append(
                f"column {name!r}: dates such as {words.texts[0]!r} are read month first; write them "
                "as year-month-day if this is wrong."
            )
        if len(formats) > 1:
            self.notes.append(f"column {name!r}: dates in {len(formats)} formats are read.")
        self._note_cells(name, words, bad, "a date")
        missing = np.isnat(words.spread(moments))
        return _used(name, "date", "", missing, dates=formats, parts=date_parts(moments, formats))

    def _pairs(self, name: str, words: Words, counts: Counter[str]) -> dict[str, Any] | None:
        bad = [text for text in counts if parse_pair(text) is None]
        if not _readable(counts, bad):
            return None
        self._note_cells(name, words, bad, "a pair of numbers")
        example = next(text for text in counts if text not in bad)
        reason = "two numbers; {} is read as {:g} and {:g}".format(example, *parse_pair(example))
        missing = words.codes < 0
        return _used(name, "number", reason, missing, length=2)

    def _durations(self, name: str, words: Words, counts: Counter[str]) -> dict[str, Any] | None:
        if not any(re.match(r"\d+(:\d|\s?[dhm])", text) for text in words.texts[:5]):
            return None
        seconds = durations(words.texts)
        bad = [t for t, value in zip(words.texts, seconds, strict=True) if np.isnan(value)]
        if not _readable(counts, bad):
            return None
        self._note_cells(name, words, bad, "a duration")
        return self._numbers(
            name, words.spread(seconds), False, duration=True, reason="durations in seconds"
        )

    def _category(
        self, name: str, words: Words, asked: bool = False, numeric: bool = False
    ) -> dict[str, Any]:
        counts, missing = words.counts, words.codes < 0
        n_rows, n_present, n_missing = len(words.codes), counts.total(), int(missing.sum())
        if n_present == 0:
            return left_out(name, "is empty")
        if len(counts) == 1 and n_missing == 0 and not asked:
            return left_out(name, f"is constant, {words.texts[0][:30]!r}")
        rare = [text for text, count in counts.items() if count < rarest(n_rows)]
        # The values of a column with many gaps may tell little, but the gaps may tell more.
        gaps_tell = n_missing > n_present > INDICATOR_FRACTION * n_rows
        if not asked and sum(counts[text] for text in rare) > n_present / 2 and not gaps_tell:
            return self._unused_text(name, counts, n_missing)
        reason = f"{len(counts)} value{'s' * (len(counts) > 1)}"
        if len(rare) == len(counts) and n_missing and not asked:
            reason = "almost every value is different; only whether there is one is used"
        elif rare:
            reason += f", {len(rare)} rare ones pooled"
        return _used(name, "category", reason, missing, asked=asked, numeric=numeric)

    def _unused_text(self, name: str, counts: Counter[str], n_missing: int) -> dict[str, Any]:
        """Leave out a column of text with too many different values."""
        n_present = counts.total()
        n_words = sum(len(text.split()) * n for text, n in counts.items()) / n_present
        units = count_units(counts)
        _, n_numbers, _ = choose_format(counts, self.decimal, self.thousands)
        if n_missing > n_present:
            share = n_missing / (n_missing + n_present)
            reason = f"{share:.0%} empty, and the other values are nearly all different"
        elif len(units) > 1 and units.total() >= NUMBER_FRACTION * n_present:
            listed = ", ".join(unit for unit, _ in units.most_common(4))
            reason = f"numbers in different units ({listed}); convert them to one"
        elif n_words >= 3:
            reason = "free text"
        elif 2 * n_numbers > n_present:
            reason = "numbers and text"
        elif len(counts) > 0.9 * n_present:
            reason = "an identifier: almost every value is different"
        else:
            reason = f"too many different values, {len(counts)} in {n_present} rows"
        if n_numbers:
            option = name if re.fullmatch(r"[\w.-]+", name) else repr(name)
            self.notes.append(
                f"column {name!r} is left out; {n_numbers} of {n_present} cells are numbers "
                f"(--as-number {option})."
            )
        return left_out(name, reason)

    def _note_cells(self, name: str, words: Words, bad: list[str], expected: str) -> None:
        """Note cells that cannot be read and are treated as missing."""
        if bad:
            rows = words.rows(bad)
            place = f"{self.label(int(rows[0]))}, column {name!r}"
            first = words.texts[words.codes[rows[0]]]
            n_present = int((words.codes >= 0).sum())
            others = [first, *(text for text in bad if text != first)]
            self.notes.append(
                f"{place}: {first[:40]!r} is not {expected}{more_cells(others, len(rows))}; "
                f"{n_present - len(rows)} of {n_present} cells are. "
                f"{'It is' if len(rows) == 1 else 'They are'} treated as missing."
            )

    def _note_doubt(
        self, name: str, counts: Counter[str], format_: NumberFormat, other: NumberFormat
    ) -> None:
        """Note numbers that two formats read differently."""
        text = next(t for t in counts if format_.parse(t) != other.parse(t))
        self.notes.append(
            f"column {name!r}: {text!r} is read as {format_.parse(text):g}; with the decimal "
            f"separator {other.decimal!r} it is {other.parse(text):g}."
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
    return (
        all(text.isdigit() for text in counts)
        and any(len(text) > 1 and text[0] == "0" for text in counts)
        and len({len(text) for text in counts}) == 1
    )


def _format_reason(counts: Counter[str], format_: NumberFormat) -> str:
    if format_ == PLAIN:
        return ""
    read = format_.parse
    text = next((t for t in counts if read(t) is not None and read(t) != PLAIN.parse(t)), "")
    return f"{text} is read as {read(text):.10g}" if text else ""


def more_cells(texts: Iterable[str], n_cells: int) -> str:
    """Return a bracket that names cells with the same problem as the first; empty for one cell."""
    others = list(texts)[1:]
    if n_cells < 2:
        return ""
    also = ", ".join(repr(text[:20]) for text in others[:3]) + (", ..." if others[3:] else "")
    return f" ({n_cells} cells, also {also})" if others else f" ({n_cells} cells)"


def _cells(n: int) -> str:
    return "1 cell is" if n == 1 else f"{n} cells are"


def _examples(counts: Counter[str]) -> str:
    return "for example " + ", ".join(repr(text[:20]) for text in list(counts)[:3])


def _nan(value: float | None) -> float:
    return np.nan if value is None else value


def durations(texts: list[str]) -> FloatArray:
    """Return durations such as "1h 30min" or "26:05:00" in seconds, NaN for other texts."""
    known = pd.to_timedelta(pd.Series(texts, dtype=object), errors="coerce")
    return np.asarray(known.dt.total_seconds().to_numpy(dtype=float))


def vector_matrix(cells: AnyArray, length: int) -> FloatArray:
    """Return lists of numbers as rows; NaN for missing ones and for those of another length."""
    matrix = np.full((len(cells), length), np.nan)
    for i, vector in enumerate(cells):
        if isinstance(vector, (list, tuple, np.ndarray)) and len(vector) == length:
            try:
                matrix[i] = vector
            except (TypeError, ValueError):  # not numbers
                continue
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
    missing = cells.codes < 0 if isinstance(cells, Words) else pd.isna(cells)
    if column["kind"] == "date":
        moments = _moments_of(cells, column)
        numbers = date_features(moments, column["parts"])
    elif column["kind"] == "vector":
        is_array = not isinstance(cells, Words) and cells.dtype == object
        length = column["length"]
        numbers = vector_matrix(cells, length) if is_array else np.full((len(missing), length), np.nan)
    elif isinstance(cells, Words):
        values = np.array([_values(text, column) for text in cells.texts], dtype=float)
        if column.get("duration"):
            values = durations(cells.texts)[:, np.newaxis]
        numbers = cells.spread(values.reshape(len(cells.texts), column.get("length", 1)))
    else:
        numeric = cells.dtype.kind in "fb" and column.get("length", 1) == 1
        values = cells.astype(float) if numeric else np.full(len(cells), np.nan)
        numbers = np.repeat(values[:, np.newaxis], column.get("length", 1), axis=1)
    numbers[~(np.abs(numbers) <= LARGEST_NUMBER)] = np.nan
    return numbers, np.isnan(numbers).any(axis=1) & ~missing


def _moments_of(cells: Any, column: dict[str, Any]) -> AnyArray:
    """Return the moments of a column of dates; other kinds of cells cannot be read."""
    if isinstance(cells, Words):
        moments = parse_moments(cells.texts, column["dates"] or ["ISO8601"])
        return cells.spread(moments)
    return cells if cells.dtype.kind == "M" else np.full(len(cells), np.datetime64("NaT", "us"))


def _values(text: str, column: dict[str, Any]) -> Any:
    """Return the number or numbers of a cell of text, NaN if it cannot be read."""
    lower = text.lower()
    if column["kind"] == "boolean":
        truth = {**dict.fromkeys([*TRUTH_WORDS, "1"], 1.0), "0": 0.0}
        return truth.get(lower, 0.0 if lower in TRUTH_WORDS.values() else np.nan)
    if "scale" in column:
        return column["scale"].get(lower, np.nan)
    if "ranges" in column:
        return _nan(parse_range(text))
    if column.get("length") == 2:
        return parse_pair(text) or (np.nan, np.nan)
    return _nan(NumberFormat(**column.get("format", {})).parse_new(text))
