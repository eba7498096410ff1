"""What each column of a table is: number, boolean, category, ordered answer, date, or left out."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from genmetric._text import import_optional
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.tables.dates import choose_dates, date_features, date_parts, parse_moments
from genmetric.tables.numbers import (
    NUMBER_FRACTION,
    PARSERS,
    PLAIN,
    NumberFormat,
    are_thousands,
    choose_format,
    count_units,
    is_limit,
    is_plain,
)

pd = import_optional("pandas", "cli")

#: Texts that stand for a missing value, in lower case; the case of a cell does not matter.
MISSING_WORDS = (
    *("", "?", "-", "--", ".", "na", "n/a", "n.a.", "#n/a", "#na", "<na>", "nan", "-nan", "nat"),
    *("none", "null", "nil", "missing", "unknown"),
)

#: Words of true and of false, in lower case.
TRUTH_WORDS = {"true": "false", "yes": "no", "y": "n", "t": "f", "on": "off"}

TRUTH = {"1": 1.0, "0": 0.0, **dict.fromkeys(TRUTH_WORDS, 1.0)}
TRUTH |= dict.fromkeys(TRUTH_WORDS.values(), 0.0)

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

#: Larger numbers are treated as missing: their squares, and products of covariances, overflow.
LARGEST_NUMBER = 1e100

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


def read_cells(series: Any, na_values: Iterable[str] = ()) -> Any:
    """Return a column as Words, or as an array of floats, booleans, time stamps or objects.

    `na_values` are added to the words of missing values; "-999" also stands for the number.
    """
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(object)
    kind = pd.api.types.infer_dtype(series, skipna=True)
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        with suppress(OverflowError):  # integers of any size are read as text
            values = series.to_numpy(dtype=float, na_value=np.nan, copy=True)
            gaps = [PLAIN.parse(word.strip()) for word in na_values]
            values[np.isin(values, gaps)] = np.nan
            return values
    if kind == "boolean" and not series.isna().any():
        return series.to_numpy(dtype=bool)
    if kind in ("datetime", "datetime64", "date"):
        moments = pd.to_datetime(series, errors="coerce", utc=True).dt.tz_localize(None)
        return moments.to_numpy(dtype="datetime64[us]")
    if kind in ("timedelta", "timedelta64"):
        return pd.to_timedelta(series).dt.total_seconds().to_numpy(dtype=float)
    if kind != "string":
        if any(isinstance(value, (dict, list, tuple, np.ndarray, bytes)) for value in series):
            return np.array([*series, None], dtype=object)[:-1]
        series = series.astype(object).map(as_text, na_action="ignore")
    return _words(series, na_values)


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


def as_text(value: Any) -> str:
    """Return a cell as text; whole floats lose their ".0"."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return str(int(value) if whole else value)


def as_words(cells: Any) -> Words:
    """Return a column of any kind as text, for categories."""
    if isinstance(cells, Words):
        return cells
    return _words(pd.Series(cells).map(as_text, na_action="ignore").astype(object), ())


def cell_text(cells: Any, row: int) -> str:
    """Return one cell as text."""
    is_text = isinstance(cells, Words)
    return cells.texts[cells.codes[row]] if is_text else as_text(cells[row])


def is_missing(cells: Any) -> AnyArray:
    """Return which cells are missing; lists are not."""
    return np.asarray(cells.codes < 0 if isinstance(cells, Words) else pd.isna(cells))


def read_texts(texts: list[str], how: dict[str, Any]) -> FloatArray:
    """Return the numbers of texts, of shape (n_texts, n_numbers); NaN where they cannot be read."""
    if how["kind"] == "date":
        formats = [*how["dates"], *["ISO8601"] * ("days" in how["parts"])]
        return date_features(parse_moments(texts, formats), how["parts"])
    length = how.get("length", 1)
    if "words" in how:
        values: list[Any] = [how["words"].get(text.lower(), np.nan) for text in texts]
    elif "parser" in how:
        values = [PARSERS[how["parser"]][0](text) for text in texts]
    elif how["kind"] == "vector":
        values = [[np.nan] * length for _ in texts]
    else:
        format_ = NumberFormat(**how.get("format", {}))
        values = [format_.parse_new(text) for text in texts]
    return np.array(values, dtype=float).reshape(len(texts), length)


def to_numbers(cells: Any, how: dict[str, Any]) -> tuple[FloatArray, AnyArray]:
    """Return the numbers of a column that is not a category, and which cells cannot be read.

    Parameters
    ----------
    cells : Words or ndarray
        As of :func:`read_cells`.
    how : dict
        The decision, or how the cells are read.

    Returns
    -------
    numbers : ndarray of shape (n_rows, n_numbers)
        NaN where missing or not readable.
    unreadable : ndarray of shape (n_rows,), dtype bool
        Cells that are not missing and cannot be read.
    """
    length = how.get("length", 1)
    numbers = np.full((len(is_missing(cells)), length), np.nan)
    if isinstance(cells, Words):
        values = read_texts(cells.texts, how)
        numbers = np.vstack([values, np.full((1, values.shape[1]), np.nan)])[cells.codes]
    elif how["kind"] == "date":
        is_moment = cells.dtype.kind == "M"
        moments = cells if is_moment else np.full(len(cells), np.datetime64("NaT", "us"))
        numbers = date_features(moments, how["parts"])
    elif cells.dtype == object:
        numbers = _vectors(cells, length)
    elif length == 1 and cells.dtype.kind in "fb":
        numbers = cells.astype(float)[:, np.newaxis]
    numbers[~(np.abs(numbers) <= LARGEST_NUMBER)] = np.nan
    return numbers, np.isnan(numbers).any(axis=1) & ~is_missing(cells)


def _vectors(cells: AnyArray, length: int) -> FloatArray:
    """Return lists of numbers as rows; NaN for missing ones and for those of another length."""
    matrix = np.full((len(cells), length), np.nan)
    for i, vector in enumerate(cells):
        if isinstance(vector, (list, tuple, np.ndarray)) and len(vector) == length:
            with suppress(TypeError, ValueError, OverflowError):  # not numbers
                matrix[i] = vector
    matrix[~(np.abs(matrix) <= LARGEST_NUMBER).all(axis=1)] = np.nan
    return matrix


def rarest(n_rows: int) -> int:
    """Return the count below which categories are pooled: 1% of the rows and at least 2."""
    return max(2, -(-n_rows // 100))


def say_unreadable(cells: Any, bad: AnyArray, how: dict[str, Any]) -> str:
    """Say that cells, which `bad` marks, are not what they should be, and show some."""
    limit = "" if isinstance(cells, Words) else f" below {LARGEST_NUMBER:g}"
    expected = {"boolean": "true or false", "category": "a known category"}
    expected["date"] = "a date in a format of the column"
    expected["vector"] = f"{how.get('length')} numbers"
    if "words" in how:
        expected["ordered"] = f"one of {', '.join(how['words'])}"
    texts = [cell_text(cells, row)[:40] for row in np.flatnonzero(bad).tolist()]
    first, *others = dict.fromkeys(texts)
    text = f"{first!r} is not {expected.get(how['kind'], f'a number{limit}')}"
    also = f", also {', '.join(map(repr, others[:3]))}" if others else ""
    also += ", ..." * bool(others[3:])
    return text + f" ({len(texts)} cells{also})" * (len(texts) > 1)


# Each decision is a dict, so model files can hold it: name, kind, reason, n_missing,
# indicator, asked, and how the cells are read (see `read_texts`).


def _left_out(reason: str) -> dict[str, Any]:
    return {"kind": "left out", "reason": reason}


@dataclass
class Decider:
    """Decides what columns are, and collects notes for the user.

    `decimal` and `thousands` are separators that the caller settled for columns in doubt, `label`
    names the place of a row, such as "line 57", and `table_decimal` is what other columns use.
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
        missing = is_missing(cells)
        how = self._how(name, cells, asked)
        if how["kind"] == "category":
            how = self._category(name, as_words(cells), asked=bool(asked))
            how["numeric"] = not isinstance(cells, Words)
        elif how["kind"] != "left out":
            numbers, bad = to_numbers(cells, how)
            if bad.any():
                n_bad, n_present = int(bad.sum()), int((~missing).sum())
                place = f"{self.label(int(bad.argmax()))}, column {name!r}"
                good = f"{n_present - n_bad} of {n_present} cells are"
                effect = f"{'It is' if n_bad == 1 else 'They are'} treated as missing"
                self.notes.append(f"{place}: {say_unreadable(cells, bad, how)}; {good}. {effect}.")
            missing = np.asarray(np.isnan(numbers).any(axis=1))
            reason = _why_useless(name, numbers, how["kind"], cells, asked=bool(asked))
            how = _left_out(reason) if reason else how
        is_used = how["kind"] != "left out"
        indicator = is_used and how["kind"] != "category" and missing.mean() > INDICATOR_FRACTION
        decision = {"name": name, "n_missing": int(missing.sum()) * is_used, "reason": ""}
        asked_for = bool(asked) and (is_used or asked == "drop")
        return {**decision, "indicator": bool(indicator), "asked": asked_for, **how}

    def _how(self, name: str, cells: Any, asked: str) -> dict[str, Any]:
        """Return the kind of a column, and how its cells are read."""
        if asked == "drop":
            return _left_out("on request")
        if not name.strip() or re.fullmatch(r"Unnamed: \d+", name):
            return _left_out("has no name; an index column")
        if is_missing(cells).all():
            return _left_out("is empty")
        if asked == "category":
            return {"kind": "category"}
        if isinstance(cells, Words):
            return self._texts(name, cells, asked == "number")
        if cells.dtype == object:
            return _objects(cells)
        if cells.dtype.kind == "M":
            return {"kind": "date", "dates": [], "parts": date_parts(cells, [])}
        return {"kind": "boolean" if cells.dtype == bool else "number"}

    def _texts(self, name: str, words: Words, asked: bool) -> dict[str, Any]:
        """Return how texts are read: the first way that reads enough cells, or as categories."""
        counts = words.counts
        if any(len(text) > MAX_TEXT_LENGTH for text in counts):
            return _left_out(f"contains texts of more than {MAX_TEXT_LENGTH} characters")
        number, doubts = self._number(counts)
        readings = [(number, doubts)] if asked else self._readings(counts, number, doubts)
        for how, notes in readings:
            values = read_texts(words.texts, how)
            is_bad = np.isnan(values).any(axis=1)
            bad = [words.texts[i] for i in np.flatnonzero(is_bad).tolist()]
            # Enough cells are read: 80%, and few different other ones.
            few = sum(counts[text] for text in bad) <= (1 - NUMBER_FRACTION) * counts.total()
            if (few and len(bad) <= MOST_BAD_CELLS) or (asked and len(bad) < len(counts)):
                self.notes += [f"column {name!r}: {note}" for note in notes]
                shown = "" if "words" in how or "dates" in how else _example(words.texts, values)
                reason = "; ".join(filter(None, [how.get("reason"), shown]))
                return {**how, "reason": reason}
        if asked:
            shown = ", ".join(repr(text[:20]) for text in words.texts[:3])
            return _left_out(f"does not contain numbers, but for example {shown}")
        return {"kind": "category"}

    def _number(self, counts: Counter[str]) -> tuple[dict[str, Any], list[str]]:
        """Return how texts are read as numbers, and what is to be said about it."""
        format_, other = self._format(counts)
        notes = []
        if other is not None:
            pairs = ((text, format_.parse(text), other.parse(text)) for text in counts)
            text, value, other_value = next(p for p in pairs if abs(p[1] - p[2]) > 0)
            sign = min(format_, other, key=lambda f: f.thousands).decimal
            notes.append(
                f"{text!r} is read as {value:g}; with the decimal separator {other.decimal!r} "
                f"it is {other_value:g} (--thousands {sign} or --decimal {sign} decides)."
            )
        limits = [text for text in counts if is_limit(text)]
        if limits:
            n_limits = sum(counts[text] for text in limits)
            shown = f"{limits[0]!r} is read as {format_.parse(limits[0]):g}"
            notes.append(f"{shown}, like all limits (cells: {n_limits}).")
        return {"kind": "number", "format": asdict(format_)}, notes

    def _format(self, counts: Counter[str]) -> tuple[NumberFormat, NumberFormat | None]:
        """Return the number format of a column, and another one if there is a doubt."""
        format_, _, other = choose_format(counts)
        if self.decimal is not None or self.thousands is not None:
            given = choose_format(counts, self.decimal, self.thousands)[0]
            differ = [text for text in counts if given.parse(text) != format_.parse(text)]
            n_given, n_own = (
                sum(counts[text] for text in differ if not math.isnan(f.parse(text)))
                for f in (given, format_)
            )
            # "3,5" has no thousands separator, even if other columns have commas as one.
            if n_given >= NUMBER_FRACTION * n_own:
                return given, None
        if other is not None:
            low, high = sorted((format_, other), key=lambda f: f.thousands)
            if not low.thousands and are_thousands(counts, low, high):
                return high, low
            if self.table_decimal == other.decimal:
                return other, format_
        return format_, other

    def _readings(
        self, counts: Counter[str], number: dict[str, Any], doubts: list[str]
    ) -> Iterator[tuple[dict[str, Any], list[str]]]:
        """Yield ways to read texts as numbers, the most usual first, with notes."""
        lower = {text.lower() for text in counts}
        if any(lower == {true, false} for true, false in TRUTH_WORDS.items()):
            yield {"kind": "boolean", "words": TRUTH}, []
        if _are_codes(counts):
            return
        yield number, doubts
        for scale in SCALES:
            places = {w: i for i, same in enumerate(scale.split(", ")) for w in same.split("|")}
            levels = sorted({places.get(text, -1) for text in lower})
            if levels[0] >= 0 and len(levels) > 2:
                ranked = sorted(lower, key=places.__getitem__)
                values = {text: float(levels.index(places[text])) for text in ranked}
                yield {"kind": "ordered", "reason": " < ".join(ranked), "words": values}, []
        formats, doubt = choose_dates(counts)
        if formats:
            parts = date_parts(parse_moments(list(counts), formats), formats)
            example = next((text for text in counts if "/" in text), "")
            note = f"dates such as {example!r} are read {doubt}; write them as year-month-day if "
            note += "this is wrong."
            yield {"kind": "date", "dates": formats, "parts": parts}, [note] if doubt else []
        for name, (_, label, length) in PARSERS.items():
            if name != "range" or 2 < len(counts) <= 40:
                kind = "ordered" if name == "range" else "number"
                numbered = {"parts": list(range(1, length + 1))} if length > 1 else {}
                how = {"kind": kind, "reason": label, "parser": name, "length": length}
                yield how | numbered, []

    def _category(self, name: str, words: Words, *, asked: bool) -> dict[str, Any]:
        """Return how categories are used; text that is nearly all different is left out."""
        counts, n_rows = words.counts, len(words.codes)
        n_present = counts.total()
        n_missing = n_rows - n_present
        if len(counts) == 1 and not n_missing and not asked:
            return _left_out(f"is constant, {words.texts[0][:30]!r}")
        rare = [text for text, count in counts.items() if count < rarest(n_rows)]
        # The values of a column with many gaps may tell little, but the gaps may tell more.
        gaps_tell = n_missing > n_present > INDICATOR_FRACTION * n_rows
        if not asked and 2 * sum(counts[text] for text in rare) > n_present and not gaps_tell:
            return _left_out(self._text_reason(name, counts, n_missing))
        reason = f"{len(counts)} value{'s' * (len(counts) > 1)}"
        if len(rare) == len(counts) and n_missing and not asked:
            reason = "almost every value is different; only whether there is one is used"
        elif rare:
            reason += f", {len(rare)} rare ones pooled"
        return {"kind": "category", "reason": reason}

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
            shown = ", ".join(unit for unit, _ in units.most_common(4))
            return f"numbers in different units ({shown}); convert them to one"
        if n_words >= 3:
            return "free text"
        if 2 * n_numbers > n_present:
            return "numbers and text"
        if len(counts) > 0.9 * n_present:
            return "an identifier: almost every value is different"
        return f"too many different values, {len(counts)} in {n_present} rows"


def _example(texts: list[str], values: FloatArray) -> str:
    """Show how a cell is read that Python would not read as that number."""
    for text, numbers in zip(texts, values.tolist(), strict=True):
        plain = is_plain(text) and [float(text)] == numbers
        if not plain and not any(map(math.isnan, numbers)):
            return f"{text} is read as {' and '.join(f'{number:.10g}' for number in numbers)}"
    return ""


def _objects(cells: AnyArray) -> dict[str, Any]:
    """Return how lists are read; other objects are left out."""
    present = cells[~is_missing(cells)]
    kinds = {type(value).__name__ for value in present}
    if "dict" in kinds:
        return _left_out("nested objects; give each entry a column")
    if not kinds <= {"list", "tuple", "ndarray"}:
        return _left_out(f"contains cells of type {min(kinds - {'str'})}")
    length, n_usual = Counter(map(len, present)).most_common(1)[0]
    if length == 0 or np.isnan(_vectors(cells, length)).all():
        return _left_out("lists of something other than numbers")
    if n_usual < 0.9 * len(present):
        return _left_out("lists of different lengths")
    how = {"kind": "vector", "reason": f"{length} entries"}
    return {**how, "length": length, "parts": list(range(length))}


def _why_useless(name: str, numbers: FloatArray, kind: str, cells: Any, *, asked: bool) -> str:
    """Say why numbers cannot be a feature: nothing is read, all are equal, or they name rows."""
    missing, first = np.isnan(numbers).any(axis=1), numbers[:, 0]
    if missing.all():
        return "is empty"
    if asked or missing.any():
        return ""
    if (numbers == numbers[0]).all():
        return f"is constant, {cell_text(cells, 0)[:30]}"
    if kind != "number" or len(first) < 10 or (first != np.floor(first)).any():
        return ""
    steps = np.diff(np.sort(first))
    if (steps == 1).all():
        return "a row counter"
    named = (steps > 0).all() and _ID_NAME.search(name)
    return "an identifier: every row has a different number" if named else ""


def _are_codes(counts: Counter[str]) -> bool:
    """Return whether integers are written with leading zeros of a fixed width, as codes are."""
    all_digits = all(text.isdigit() for text in counts)
    zeros = any(len(text) > 1 and text[0] == "0" for text in counts)
    return all_digits and zeros and len(set(map(len, counts))) == 1
