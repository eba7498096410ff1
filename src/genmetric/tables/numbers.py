"""Numbers written as text: separators, currencies, units, percentages, limits, pairs, ranges."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

#: A column of text is one of numbers if at least this fraction of its cells are numbers.
NUMBER_FRACTION = 0.8

#: The format of a column is chosen by this number of distinct cells.
CELLS_TO_DECIDE = 5000

#: Spaces that separate thousands: plain, no-break, narrow no-break and thin.
_SPACES = " \u00a0\u202f\u2009"

_CURRENCY = (
    r"(?:US\$|R\$|[$€£¥₹₩₽₺]|Rs\.?|kr\.?|zł|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN"
    r"|CZK|HUF|BRL|MXN|ZAR|KRW|SGD|HKD|TRY)(?![A-Za-z]))"
)

#: A unit starts with a letter or a sign of degrees: "kg", "km/l", "m²", "°C".
_UNIT = r"[^\W\d_°][^\s\d,;:()]{0,11}|°[^\W\d_]?|%"

_SIMPLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_CELL = re.compile(
    r"(?P<limit>[<>]=?|[≤≥])?\s?(?P<open>\()?(?P<sign>[+-])?\s?"
    rf"(?:{_CURRENCY}\s?(?P<inner_sign>[+-])?\s?)?"
    rf"(?P<digits>[.,]?\d(?:[\d.,'’{_SPACES}]*[\d.,])?)(?P<power>[eE][+-]?\d{{1,4}})?\s?"
    rf"(?:{_CURRENCY}|(?P<unit>{_UNIT}))?(?P<close>\))?(?P<last_sign>-)?"
)
_NUMBER = r"(\d+(?:[.,]\d+)?)"
_PAIR = re.compile(rf"{_NUMBER}\s?/\s?{_NUMBER}(?:\s?[A-Za-z]{{1,6}})?")
_RANGE = re.compile(
    rf"[$€£]?{_NUMBER}\s?(?:-|–|—|to|bis)\s?[$€£]?{_NUMBER}(?:\s?[A-Za-z€%]{{1,8}})?"
)
_DURATION = re.compile(
    r"(?=\d)(?:(\d+)\s?d(?:ays?)?,?\s?)?(?:(\d+)\s?h(?:rs?|ours?)?\s?)?(?:(\d+)\s?m(?:ins?|inutes?)?\s?)?"
    r"(?:(\d+)\s?s(?:ecs?|econds?)?)?|()(\d+):(\d\d):(\d\d)",
    re.IGNORECASE,
)
_OPEN_RANGE = re.compile(
    rf"(?:[<>≤≥]=?|under|over|below|above|up to|less than|more than)\s?[$€£]?{_NUMBER}"
    rf"(?:\s?[A-Za-z€%]{{1,8}})?|[$€£]?{_NUMBER}\s?(?:\+|(?:and|or) (?:over|older|above|more|under))",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written; 57% (unit "%") is read as 0.57.

    Cells may be without the unit, except for %: there 0.57 would be in doubt.
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""

    def parse(self, text: str) -> float:
        """Return the number that a text stands for, NaN if it is not in this format."""
        if self.decimal == "." and not self.unit and _SIMPLE.fullmatch(text):
            return float(text)  # most cells, ten times as fast
        cell = _CELL.fullmatch(text.replace("\u2212", "-"))
        if cell is None or bool(cell["open"]) != bool(cell["close"]):
            return math.nan
        digits = cell["digits"].replace("’", "'")
        unit = cell["unit"] or ("" if self.unit == "%" else self.unit)
        same_unit = _same_unit(unit) == _same_unit(self.unit)
        if not same_unit or _digits(self.decimal, self.thousands).fullmatch(digits) is None:
            return math.nan
        for separator in _SPACES if self.thousands == " " else self.thousands:
            digits = digits.replace(separator, "")
        value = float(digits.replace(self.decimal, ".") + (cell["power"] or ""))
        negative = cell["open"] or "-" in (cell["sign"], cell["inner_sign"], cell["last_sign"])
        return (-value if negative else value) / (100 if self.unit == "%" else 1)

    def parse_new(self, text: str) -> float:
        """Return the number of a new cell, which may have thousands separators without doubt.

        In a column of decimal points a single comma without a point may be a decimal comma.
        """
        value = self.parse(text)
        doubtful = self.decimal == "." and "." not in text and text.count(",") == 1
        if not math.isnan(value) or self.thousands or doubtful:
            return value
        return replace(self, thousands="," if self.decimal == "." else ".").parse(text)


PLAIN = NumberFormat()

#: Decimal and thousands separators, the most usual first.
_SEPARATORS = ((".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (".", " "), (".", "'"))
FORMATS = [NumberFormat(decimal, thousands) for decimal, thousands in _SEPARATORS]


@cache
def _digits(decimal: str, thousands: str) -> re.Pattern[str]:
    """Return the pattern of digits with these separators."""
    point, whole = re.escape(decimal), r"\d+"
    if thousands:
        separator = f"[{_SPACES}]" if thousands == " " else re.escape(thousands)
        whole = rf"(?:[1-9]\d{{0,2}}(?:{separator}\d{{3}})+|\d+)"
    return re.compile(rf"{whole}(?:{point}\d*)?|{point}\d+")


def _same_unit(unit: str) -> str:
    """Return a unit as it is compared: words without case and plural; "mW" is not "MW"."""
    return unit if len(unit) < 4 else unit.casefold().removesuffix("s")


def count_units(counts: Mapping[str, int]) -> Counter[str]:
    """Count the units of the cells that are a number and a unit."""
    units: Counter[str] = Counter()
    for text, n in counts.items():
        cell = _CELL.fullmatch(text)
        if cell is not None and cell["unit"]:
            units[cell["unit"]] += n
    return units


def is_plain(text: str) -> bool:
    """Return whether a number is written as Python does."""
    return _SIMPLE.fullmatch(text) is not None


def is_limit(text: str) -> bool:
    """Return whether a number is a limit, such as "<0.5"."""
    return text[:1] in "<>≤≥"


def choose_format(
    counts: Mapping[str, int], decimal: str | None = None, thousands: str | None = None
) -> tuple[NumberFormat, int, NumberFormat | None]:
    """Choose the number format of a column by its cells.

    Returns the first format that reads most cells, how many it reads, and another format that
    reads the same cells as different numbers ("2,848" is 2848 or 2.848), if there is one. The
    numbers must share one unit, and most must be more than limits. Given separators are kept.
    """
    texts, weights = list(counts)[:CELLS_TO_DECIDE], list(counts.values())[:CELLS_TO_DECIDE]
    units, unit = count_units({text: counts[text] for text in texts}), ""
    if units.total() >= NUMBER_FRACTION * sum(weights) and len(set(map(_same_unit, units))) == 1:
        unit = units.most_common(1)[0][0]
    known = [
        f for f in FORMATS if decimal in (None, f.decimal) and thousands in (None, f.thousands)
    ]
    known = known or [NumberFormat(decimal or ("." if thousands == "," else ","), thousands or "")]
    known = [replace(f, unit=unit) for f in known]
    values = np.array([[f.parse(text) for text in texts] for f in known])
    is_read = np.isfinite(values)
    n_read = is_read @ weights
    best = int(n_read.argmax())
    n_limits = sum(counts[text] for text in texts if is_limit(text))
    if 2 * n_limits > n_read[best]:
        return PLAIN, 0, None
    doubt = [
        f
        for f, read, numbers in zip(known, is_read, values, strict=True)
        if (read == is_read[best]).all() and (numbers != values[best])[read].any()
    ]
    return known[best], int(n_read[best]), doubt[0] if doubt else None


def are_thousands(texts: Iterable[str], decimals: NumberFormat, thousands: NumberFormat) -> bool:
    """Return whether cells that may be decimals or thousands are thousands by their magnitude.

    Cells without a separator are mostly 100 or more, and the others as decimals mostly less.
    """
    low, high = np.abs([(decimals.parse(text), thousands.parse(text)) for text in texts]).T
    plain, separated = low[low == high], low[low < high]
    return bool(len(plain) and np.median(plain) >= 100 and np.median(separated) < 100)


def parse_pair(text: str) -> tuple[float, float]:
    """Return the two numbers of a cell such as "120/80"."""
    cell = _PAIR.fullmatch(text)
    return (_simple(cell[1]), _simple(cell[2])) if cell else (math.nan, math.nan)


def parse_range(text: str) -> float:
    """Return the middle of a range such as "18-25", or the limit of "65+" and "under 18"."""
    if cell := _RANGE.fullmatch(text):
        low, high = _simple(cell[1]), _simple(cell[2])
        return (low + high) / 2 if low < high else math.nan
    cell = _OPEN_RANGE.fullmatch(text)
    return _simple(cell[1] or cell[2]) if cell else PLAIN.parse(text)


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as "1h 30min" or "26:05:00"."""
    cell = _DURATION.fullmatch(text)
    if cell is None:
        return math.nan
    parts = [float(part or 0) for part in (cell.groups()[4:] if cell[6] else cell.groups()[:4])]
    return sum(part * unit for part, unit in zip(parts, (86400, 3600, 60, 1), strict=True))


def _simple(digits: str) -> float:
    """Return a number whose separator, if there is one, is the decimal one."""
    return float(digits.replace(",", "."))


#: Other cells that stand for numbers: how they are read, what they are called, and how many
#: numbers one cell has.
PARSERS: dict[str, tuple[Callable[[str], Any], str, int]] = {
    "range": (parse_range, "ranges", 1),
    "pair": (parse_pair, "pairs of numbers", 2),
    "duration": (parse_duration, "durations in seconds", 1),
}
