"""Text for people: how to install a missing package, closest names, units, progress."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable
from importlib import import_module
from numbers import Integral, Real
from typing import Any


def import_optional(module: str, extra: str) -> Any:
    """Import an optional package, or raise an ImportError with the command that installs it.

    Examples
    --------
    >>> from genmetric._text import import_optional
    >>> import_optional("no_such_package", "ann")
    Traceback (most recent call last):
    ImportError: This needs the package no_such_package, which is not installed. Run: pip install
    "genmetric[ann]" (in a copy of the repository: pip install ".[ann]").
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # An installed package that lacks one of its own dependencies raises its own error.
        if error.name is None or not (module + ".").startswith(error.name + "."):
            raise
        package = module.partition(".")[0]
        raise ImportError(
            f"This needs the package {package}, which is not installed. Run: pip install "
            f'"genmetric[{extra}]" (in a copy of the repository: pip install ".[{extra}]").'
        ) from error


def near_names(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Return the names most similar to an unknown one, whether in upper or lower case."""
    lower = {known.lower(): known for known in reversed(list(names))}
    return [lower[found] for found in difflib.get_close_matches(name.lower(), lower, most, 0.6)]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a question with the names most similar to an unknown one, or an empty text."""
    near = near_names(name, names)
    return f"Did you mean {' or '.join(map(repr, near))}?" if near else ""


def cell_text(value: Any) -> str:
    """Write a cell of a table as people expect to see it.

    Numbers keep up to six significant digits, and whole numbers keep all digits; text files also
    contain numbers such as "11.0". A date has no time at midnight. Other cells are unchanged.

    Examples
    --------
    >>> from genmetric._text import cell_text
    >>> [cell_text(cell) for cell in (None, 0.123456789, 1234567.0, "11.0", "yes")]
    ['missing', '0.123457', '1234567', '11', 'yes']
    """
    text = str(value)
    if value is None or text in ("", "nan", "NaT", "<NA>"):
        return "missing"
    is_real = isinstance(value, Real) and not isinstance(value, Integral)
    if is_real or re.fullmatch(r"[+-]?\d*\.(0|\d{5,})", text):
        number = float(value)
        return f"{number:.0f}" if 1e5 <= abs(number) < 1e15 else f"{number:.6g}"
    return re.sub(r"(?<=\d)[T ]00:00:00(\.0+)?$", "", text)


def duration(seconds: float) -> str:
    """Write a duration in a suitable unit, such as "3.1 ms" or "2 min"."""
    units = (
        (1e3, "ms", 1.0),
        (1.0, "s", 100.0),
        (1 / 60, "min", 6000.0),
        (1 / 3600, "h", float("inf")),
    )
    factor, unit = next((factor, unit) for factor, unit, limit in units if seconds < limit)
    value = seconds * factor
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"


def readable_bytes(n_bytes: float) -> str:
    """Write a number of bytes, such as "432 MB"."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n_bytes < 999.5 or unit == "TB":
            break
        n_bytes /= 1000
    return f"{n_bytes:.3g} {unit}"


def print_progress(source: str, message: str) -> None:
    """Write one line about a long fit to the standard error, for `verbose`."""
    sys.stderr.write(f"[{source}] {message}\n")
