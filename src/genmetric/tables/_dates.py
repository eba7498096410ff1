"""Dates and times written as text, and the numbers that describe them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import numpy as np

from genmetric._typing import AnyArray, FloatArray
from genmetric.tables._cells import as_moment

#: Formats tried in this order; "iso" is ISO 8601 as Python's ``datetime.fromisoformat`` reads it.
#: Where day and month leave a doubt the order decides: with points or dashes the day is first,
#: with slashes the month.
DATE_FORMATS = (
    "iso",
    "%Y/%m/%d",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %I:%M:%S %p",
    "%m/%d/%Y %I:%M %p",
    "%m/%d/%y",
    "%d/%m/%y",
    "%d-%m-%Y",
    "%d-%m-%Y %H:%M",
    "%d-%m-%Y %H:%M:%S",
    "%d %b %Y",
    "%d %B %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%b %d %Y",
    "%a %b %d %H:%M:%S %Y",
    "%H:%M",
    "%H:%M:%S",
)

#: Numbers that describe a moment; the last two only if some moment has a time of day.
DATE_FEATURES = ("days", "year_sin", "year_cos", "weekday_sin", "weekday_cos")
TIME_FEATURES = ("hour_sin", "hour_cos")


def parse_date(text: str, format_: str) -> dt.datetime | None:
    """Return the moment that `text` stands for, or None if it is not written in this format."""
    try:
        if format_ == "iso":
            # ISO 8601 also writes dates as eight digits, which here are numbers.
            return None if len(text) < 8 or text.isdigit() else dt.datetime.fromisoformat(text)
        return dt.datetime.strptime(text, format_)
    except ValueError:
        return None


def choose_date_format(texts: Iterable[str]) -> tuple[str, str | None] | None:
    """Choose the format that reads every text of a column.

    Parameters
    ----------
    texts : iterable of str
        Distinct cells that are not missing.

    Returns
    -------
    format, alternative : str and str or None, or None
        The first of :data:`DATE_FORMATS` that reads all, and another one that reads all as other
        dates (day and month exchanged). None if no format fits.
    """
    cells = list(texts)
    if not cells or not all(any(c.isdigit() for c in cell) for cell in cells[:20]):
        return None
    fits = []
    for format_ in DATE_FORMATS:
        # Most formats fail at the first cell.
        if all(parse_date(cell, format_) is not None for cell in cells):
            fits.append(format_)
            if "m/%d" not in format_:
                break
    if not fits:
        return None
    other = next(
        (f for f in fits[1:] if any(parse_date(c, f) != parse_date(c, fits[0]) for c in cells)),
        None,
    )
    return fits[0], other


def parse_moments(texts: Iterable[str | None], format_: str, name: str) -> AnyArray:
    """Return texts as time stamps.

    Parameters
    ----------
    texts : iterable of str or None
        Cells; None is missing.
    format_ : str
        One of :data:`DATE_FORMATS` or any format of ``strptime``.
    name : str
        Name of the column, for errors.

    Returns
    -------
    ndarray of shape (n_rows,), dtype datetime64[us]
        The moments, NaT where missing.
    """
    known: dict[str | None, np.datetime64] = {None: np.datetime64("NaT")}
    moments = []
    for text in texts:
        if text not in known:
            assert text is not None
            found = parse_date(text, format_)
            if found is None:
                raise ValueError(
                    f"column {name!r}: {text[:40]!r} is not a date of the format {format_!r}, which "
                    "the training data has."
                )
            known[text] = as_moment(found)
        moments.append(known[text])
    return np.array(moments, dtype="datetime64[us]")


def date_features(moments: AnyArray, *, time_of_day: bool) -> FloatArray:
    """Describe moments by numbers.

    Parameters
    ----------
    moments : ndarray of shape (n_rows,), dtype datetime64
        The moments, NaT where missing.
    time_of_day : bool
        Whether to describe the time of day as well.

    Returns
    -------
    ndarray of shape (n_rows, 5 or 7)
        Days since 1970, then sine and cosine of the position in the year, in the week and, if
        asked for, in the day: 31 December is near 1 January. NaN where missing.
    """
    moments = moments.astype("datetime64[us]")
    missing = np.isnat(moments)
    day = moments.astype("datetime64[D]")
    days = (moments - np.datetime64(0, "us")) / np.timedelta64(1, "D")
    in_year = (day - moments.astype("datetime64[Y]").astype("datetime64[D]")) / np.timedelta64(
        1, "D"
    )
    in_day = (moments - day) / np.timedelta64(1, "D")
    # 1 January 1970 was a Thursday.
    in_week = np.where(missing, np.nan, (day.astype("int64") + 3) % 7)
    columns = [days, *_circle(in_year / 366), *_circle(in_week / 7)]
    if time_of_day:
        columns += _circle(in_day)
    features: FloatArray = np.column_stack(columns)
    features[missing] = np.nan
    return features


def _circle(position: FloatArray) -> list[FloatArray]:
    return [np.sin(2 * np.pi * position), np.cos(2 * np.pi * position)]
