"""Available memory, and errors before an allocation instead of a process that is killed."""

from __future__ import annotations

import os
from pathlib import Path


def available_memory() -> int | None:
    """Return the bytes that can be allocated, or None if unknown.

    Returns
    -------
    int or None
        The available memory that Linux reports, or the limit of the control group if it is lower;
        on other systems the physical memory.
    """
    found = []
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        found += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    except (OSError, ValueError):
        pass
    try:
        group = Path("/sys/fs/cgroup")
        used = int((group / "memory.current").read_text("ascii"))
        # Inactive pages of the file cache are released on demand.
        for line in (group / "memory.stat").read_text("ascii").splitlines():
            if line.startswith("inactive_file "):
                used -= int(line.split()[1])
        found.append(int((group / "memory.max").read_text("ascii")) - used)
    except (OSError, ValueError):  # no such group, or its limit is "max"
        pass
    if not found:
        try:
            found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        except (AttributeError, OSError, ValueError):
            return None
    return max(0, min(found))


def readable_bytes(n_bytes: float) -> str:
    """Format a number of bytes: 432000000 is "432 MB"."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n_bytes < 999.5 or unit == "TB":
            break
        n_bytes /= 1000
    return f"{n_bytes:.3g} {unit}"


def check_memory(n_bytes: int, what: str, advice: str) -> None:
    """Raise MemoryError before an allocation if `n_bytes` are not available.

    Parameters
    ----------
    n_bytes : int
        Bytes about to be allocated.
    what : str
        What needs the memory; the subject of the error message.
    advice : str
        What to do; the last sentence of the error message.
    """
    free = available_memory()
    if free is not None and n_bytes > free:
        raise MemoryError(
            f"{what} would take {readable_bytes(n_bytes)}, but only {readable_bytes(free)} are free. "
            f"{advice}"
        )
