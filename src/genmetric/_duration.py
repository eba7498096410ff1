"""Durations as text."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Write a duration in a suitable unit.

    Parameters
    ----------
    seconds : float
        The duration.

    Returns
    -------
    str
        Text such as "3.1 ms" or "2 min".

    Examples
    --------
    >>> from genmetric._duration import duration
    >>> [duration(s) for s in (2e-5, 0.0031, 1.0, 150.0, 7300.0)]
    ['0.02 ms', '3.1 ms', '1 s', '2.5 min', '2 h']
    """
    for factor, unit, limit in ((1e3, "ms", 1.0), (1.0, "s", 100.0), (1 / 60, "min", 6000.0)):
        if seconds < limit:
            return f"{_digits(seconds * factor)} {unit}"
    return f"{_digits(seconds / 3600)} h"


def _digits(value: float) -> str:
    """Write a number with two significant digits and without an exponent."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
