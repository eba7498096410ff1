"""How much memory reading a table may take."""

from __future__ import annotations

import os
import re

from genmetric.tables._errors import TableError

#: Fraction of the memory of the machine that a table may take by default.
MEMORY_FRACTION = 0.25

#: Memory that is assumed if the system does not tell.
ASSUMED_MEMORY = 4 << 30

#: Times the size of a table that reading and encoding it takes at the peak.
PEAK_FACTOR = 4

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def default_budget() -> int:
    """Return a quarter of the physical memory in bytes."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        total = ASSUMED_MEMORY
    return int(MEMORY_FRACTION * total)


def parse_bytes(text: str) -> int:
    """Return a size such as "500M" or "2.5 GB" in bytes.

    Examples
    --------
    >>> from genmetric.tables._memory import parse_bytes
    >>> parse_bytes("1.5K")
    1536
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if match is None or float(match[1]) <= 0:
        raise TableError(f"{text!r} is not a size in bytes, such as 500M or 2G.")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def show_bytes(n: float) -> str:
    """Return a number of bytes in the largest unit that fits."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n:.0f} bytes"
