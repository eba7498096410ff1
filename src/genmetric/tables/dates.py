"""Dates, times and names of weekdays written as text, and the numbers that describe them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from genmetric._text import import_optional
from genmetric._typing import AnyArray, FloatArray

pd = import_optional("pandas", "cli")

_TIMES = ("", " %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p")
_DAYS = ["%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y"]
_DAYS += ["%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%d %b %Y", "%d %B %Y"]
_DAYS += ["%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y"]

#: Formats in order of preference. Where day and month leave a doubt the order decides: with points
#: or dashes the day is first, with slashes the month.
DATE_FORMATS = ["ISO8601", *(day + time for day in _DAYS for time in _TIMES)]
DATE_FORMATS += ["%a %b %d %H:%M:%S %Y", "%H:%M", "%H:%M:%S"]
DATE_FORMATS += ["%I:%M %p", "%I:%M:%S %p", "%I %p", "%I%p"]
WEEKDAYS = "weekday"
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_ISO = re.compile(r"\d{4}-\d\d(-\d\d.*)?", re.DOTALL)

#: What looks like a date or a time: digits with a separator, or a name of a month with digits.
_LIKE_A_DATE = re.compile(r"(?=.*\d)[\w.,/:+\s-]{3,40}")


def parse_moments(texts: Sequence[str], formats: Sequence[str]) -> AnyArray:
    """Return texts as time stamps, NaT where no format fits; the first format that fits counts."""
    moments: AnyArray = np.full(len(texts), np.datetime64("NaT", "us"))
    for format_ in formats:
        left = np.flatnonzero(np.isnat(moments))
        if len(left):
            moments[left] = _parse([texts[i] for i in left.tolist()], format_)
    return moments


def _parse(texts: list[str], format_: str) -> AnyArray:
    if format_ == WEEKDAYS:
        # 5 January 1970 was a Monday.
        days = {day[:n]: 4 + i for i, day in enumerate(_WEEKDAYS) for n in (2, 3, len(day))}
        found = [days.get(text.lower().rstrip(".")) for text in texts]
        return np.array(["NaT" if day is None else day for day in found], "datetime64[D]")
    series = pd.Series(texts, dtype=object)
    if format_ == "ISO8601":
        # ISO 8601 also writes dates as eight digits, which here are numbers.
        series = series.where([_ISO.fullmatch(text) is not None for text in texts])
    moments = pd.to_datetime(series, format=format_, errors="coerce", utc=True)
    return np.asarray(moments.dt.tz_localize(None).to_numpy(dtype="datetime64[us]"))


def choose_dates(counts: Mapping[str, int]) -> tuple[list[str], str]:
    """Choose formats of dates by the distinct cells of a column.

    Returns up to three formats, and "month first" if the cells could also be read day first.
    """
    texts, n_cells = list(counts), np.array(list(counts.values()))
    if len(texts) > 1 and not np.isnat(_parse(texts, WEEKDAYS)).any():
        return [WEEKDAYS], ""
    formats: list[str] = []
    doubt, left = "", n_cells
    likely = [text for text in texts[:20] if _LIKE_A_DATE.fullmatch(text)]
    candidates = [f for f in DATE_FORMATS if any(_fits(text, f) for text in likely)]
    while candidates and left.any() and len(formats) < 3:
        fits = {f: left * ~np.isnat(_parse(texts, f)) for f in candidates}
        best = max(candidates, key=lambda f: int(fits[f].sum()))
        if not fits[best].any():
            break
        swapped = fits.get(best.replace("%m/%d", "%d/%m"), left)
        if best.startswith("%m/%d") and np.array_equal(swapped, fits[best]):
            doubt = "month first"
        formats.append(best)
        left = left - fits[best]
    return formats, doubt


def _fits(text: str, format_: str) -> bool:
    """Return whether a text has a format; much faster than pandas for a single text."""
    if format_ == "ISO8601":
        return _ISO.fullmatch(text) is not None
    try:
        dt.datetime.strptime(text, format_)
    except ValueError:
        return False
    return True


def date_parts(moments: AnyArray, formats: Sequence[str]) -> list[str]:
    """Return the names of the numbers that describe moments; see :func:`date_features`."""
    if list(formats) == [WEEKDAYS]:
        return ["weekday_sin", "weekday_cos"]
    hours = ["hour_sin", "hour_cos"]
    if formats and not any("%d" in f or f == "ISO8601" for f in formats):
        return hours
    known = moments[~np.isnat(moments)]
    has_time = bool((known != known.astype("datetime64[D]")).any())
    return ["days", "year_sin", "year_cos", "weekday_sin", "weekday_cos", *hours * has_time]


def date_features(moments: AnyArray, parts: Sequence[str]) -> FloatArray:
    """Describe moments by numbers, NaN where missing.

    These are days since 1970, and sine and cosine of the position in the year, in the week and in
    the day: 31 December is near 1 January.
    """
    day, one_day = moments.astype("datetime64[D]"), np.timedelta64(1, "D")
    january = moments.astype("datetime64[Y]").astype("datetime64[D]")
    missing = np.isnat(moments)
    positions = {
        "days": (moments - np.datetime64(0, "us")) / one_day,
        "year": (day - january) / one_day / 366,
        "weekday": np.where(missing, np.nan, (day.astype("int64") + 3) % 7) / 7,
        "hour": (moments - day) / one_day,
    }
    wave: dict[str, Any] = {"sin": np.sin, "cos": np.cos}
    columns = []
    for part in parts:
        name, _, function = part.partition("_")
        position = positions[name]
        columns.append(wave[function](2 * np.pi * position) if function else position)
    features: FloatArray = np.column_stack(columns)
    return features
