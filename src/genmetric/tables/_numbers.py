"""Numbers written as text: decimal points and commas, thousands separators, percentages, units."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from genmetric._typing import FloatArray

#: Spaces that separate thousands: plain, no-break, narrow no-break and thin.
_SPACES = " \u00a0\u202f\u2009"

#: Signs of currencies, which are removed before or after a number.
_CURRENCY = "$€£¥₹"


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written.

    Attributes
    ----------
    decimal : {".", ","}
        Separates the whole part from the fraction.
    thousands : {"", ",", ".", " ", "'"}
        Separates groups of three digits; empty if there are none.
    percent : bool
        Whether every number carries a percent sign; 57% is read as 0.57.
    unit : str
        Unit that follows every number, such as "kg"; empty if there is none. "Years" and "year"
        are the same unit, "mW" and "MW" are not.
    """

    decimal: str = "."
    thousands: str = ""
    percent: bool = False
    unit: str = ""

    def parse(self, text: str) -> float | None:
        """Return the number that `text` stands for, or None if it is not written in this format.

        Examples
        --------
        >>> from genmetric.tables._numbers import NumberFormat
        >>> NumberFormat(",", ".").parse("1.234,5"), NumberFormat(".", ",").parse("12,34")
        (1234.5, None)
        """
        text = text.strip()
        if self.percent:
            if not text.endswith("%"):
                return None
            text = text[:-1].rstrip()
        if self.unit:
            found = _WITH_UNIT.fullmatch(text)
            if found is None or _same_unit(found["unit"]) != _same_unit(self.unit):
                return None
            text = found["number"].rstrip()
        match = _pattern(self.decimal, self.thousands).fullmatch(text.replace("\u2212", "-"))
        if match is None:
            return None
        digits = match["number"]
        for space in _SPACES if self.thousands == " " else self.thousands:
            digits = digits.replace(space, "")
        sign = match["sign"] or match["inner_sign"] or ""
        value = float(sign + digits.replace(self.decimal, "."))
        return value / 100 if self.percent else value

    def parse_new(self, text: str) -> float | None:
        """Return the number of a cell that was not there when the format was chosen.

        A column without thousands separators accepts them here: the separator that is not the
        decimal one. In a column with decimal points a single comma without a point stays unread,
        because it may be a decimal comma.

        Examples
        --------
        >>> from genmetric.tables._numbers import NumberFormat
        >>> NumberFormat(",").parse_new("1.234,5"), NumberFormat().parse_new("1,234.5")
        (1234.5, 1234.5)
        >>> NumberFormat().parse_new("1,234") is None
        True
        """
        value = self.parse(text)
        if value is not None or self.thousands:
            return value
        if self.decimal == "." and "." not in text and text.count(",") == 1:
            return None
        return replace(self, thousands="," if self.decimal == "." else ".").parse(text)

    @property
    def sample(self) -> str:
        """An example of the format."""
        unit = "%" if self.percent else f" {self.unit}" if self.unit else ""
        return f"1{self.thousands}234{self.decimal}5{unit}"


PLAIN = NumberFormat()

#: Formats without percent signs, the most usual first.
FORMATS = (
    PLAIN,
    NumberFormat(".", ","),
    NumberFormat(",", ""),
    NumberFormat(",", "."),
    NumberFormat(",", " "),
    NumberFormat(".", " "),
    NumberFormat(".", "'"),
)


#: A number and a unit: a letter or a sign of degrees first, such as "kg", "km/l", "m²" or "°C".
_WITH_UNIT = re.compile(r"(?P<number>.*[\d.,]\s?)(?P<unit>[^\W\d_°][^\s\d,;:]{0,11}|°[^\W\d_]?)")

#: Fraction of the cells that must carry a unit.
UNIT_FRACTION = 0.8


def _same_unit(unit: str) -> str:
    """Return a unit in the form in which it is compared: a word without its plural "s"."""
    return unit if len(unit) < 4 else unit.casefold().removesuffix("s")


def common_unit(counts: Mapping[str, int]) -> str:
    """Return the unit that the numbers of a column share, or nothing.

    Cells with different units, such as "900 g" and "1.2 kg", have none: their numbers cannot be
    compared.

    Parameters
    ----------
    counts : mapping of str to int
        Distinct cells and how often each occurs.

    Returns
    -------
    str
        The unit as most cells write it.

    Examples
    --------
    >>> from genmetric.tables._numbers import common_unit
    >>> common_unit({"23.4 kmpl": 3, "17 kmpl": 2}), common_unit({"900 g": 2, "1.2 kg": 3})
    ('kmpl', '')
    """
    units = count_units(counts)
    if len({_same_unit(unit) for unit in units}) != 1:
        return ""
    return (
        units.most_common(1)[0][0] if units.total() >= UNIT_FRACTION * sum(counts.values()) else ""
    )


def count_units(counts: Mapping[str, int]) -> Counter[str]:
    """Count the units of the cells that are a number and a unit."""
    units: Counter[str] = Counter()
    for text, n in counts.items():
        found = _WITH_UNIT.fullmatch(text.strip())
        if found is not None and any(f.parse(found["number"]) is not None for f in FORMATS):
            units[found["unit"]] += n
    return units


@cache
def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    point = re.escape(decimal)
    whole = r"\d+"
    if thousands:
        separator = f"[{_SPACES}]" if thousands == " " else re.escape(thousands)
        whole = rf"(?:[1-9]\d{{0,2}}(?:{separator}\d{{3}})+|\d+)"
    number = rf"(?:{whole}(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?"
    currency = rf"[{_CURRENCY}]"
    # The sign is before the currency, as in "-$5", or after it, as in "$ -5".
    sign = rf"(?:(?P<sign>[+-])?{currency}?\s?|{currency}\s?(?P<inner_sign>[+-]))"
    return re.compile(rf"{sign}(?P<number>{number})\s?{currency}?", re.IGNORECASE)


@dataclass(frozen=True)
class FormatChoice:
    """The number format of a column and how well it fits.

    Attributes
    ----------
    format : NumberFormat
        The format that reads most cells.
    n_parsed : int
        Number of cells that it reads.
    alternative : NumberFormat or None
        Another format that reads the same cells as different numbers.
    """

    format: NumberFormat
    n_parsed: int
    alternative: NumberFormat | None = None


def choose_format(
    counts: Mapping[str, int], *, decimal: str | None = None, thousands: str | None = None
) -> FormatChoice:
    """Choose the number format of a column by all of its cells.

    A format is chosen because it reads most cells. If two formats read the same cells, they can
    differ in what they read: "2,848" is 2848 or 2.848. Then commas that are always followed by
    three digits separate thousands, and points that are not repeated are decimal points, unless
    `decimal` or `thousands` is given.

    Parameters
    ----------
    counts : mapping of str to int
        Distinct cells and how often each occurs.
    decimal, thousands : str, default=None
        Separators that are known; None leaves them open.

    Returns
    -------
    FormatChoice
        The format; its `alternative` is set if the cells leave a doubt.
    """
    total = sum(counts.values())
    n_percent = sum(n for text, n in counts.items() if text.rstrip().endswith("%"))
    percent = n_percent > total / 2
    unit = "" if percent else common_unit(counts)
    candidates = [
        NumberFormat(f.decimal, f.thousands, percent, unit)
        for f in FORMATS
        if (decimal is None or f.decimal == decimal)
        and (thousands is None or f.thousands in ("", thousands))
    ]
    if decimal is not None and thousands and thousands != decimal:
        candidates.append(NumberFormat(decimal, thousands, percent, unit))
    best, best_count = PLAIN, -1
    values: dict[NumberFormat, dict[str, float | None]] = {}
    for candidate in candidates:
        values[candidate] = {text: candidate.parse(text) for text in counts}
        count = sum(n for text, n in counts.items() if values[candidate][text] is not None)
        if count > best_count:
            best, best_count = candidate, count
    doubt = next(
        (
            other
            for other in candidates
            if other != best
            and all((values[other][t] is None) == (v is None) for t, v in values[best].items())
            and any(values[other][t] != v for t, v in values[best].items())
        ),
        None,
    )
    return FormatChoice(best, max(best_count, 0), doubt)


def table_decimal(columns: Iterable[FormatChoice]) -> str | None:
    """Return the decimal separator that the clear columns of a table agree on, or None.

    Parameters
    ----------
    columns : iterable of FormatChoice
        Choices of the columns of numbers that hold a separator.

    Returns
    -------
    str or None
        "," or "." if columns without doubt use only this one; None if they disagree or if every
        column is in doubt.
    """
    found = {choice.format.decimal for choice in columns if choice.alternative is None}
    return found.pop() if len(found) == 1 else None


def parse_numbers(
    texts: Sequence[str | None], format_: NumberFormat, *, new: bool = False
) -> tuple[FloatArray, list[int]]:
    """Return texts as numbers.

    Parameters
    ----------
    texts : sequence of str or None
        Cells; None is missing.
    format_ : NumberFormat
        How the numbers are written.
    new : bool, default=False
        Whether the cells were not there when the format was chosen; see
        :meth:`NumberFormat.parse_new`.

    Returns
    -------
    numbers : ndarray of shape (n_rows,)
        NaN where missing or not a number.
    bad : list of int
        Positions of texts that are not numbers.
    """
    parse = format_.parse_new if new else format_.parse
    known: dict[str | None, float | None] = {None: np.nan}
    numbers = np.empty(len(texts))
    bad = []
    for i, text in enumerate(texts):
        if text not in known:
            assert text is not None
            known[text] = parse(text)
        value = known[text]
        if value is None:
            bad.append(i)
        numbers[i] = np.nan if value is None else value
    return numbers, bad
