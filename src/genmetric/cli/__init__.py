"""The command ``genmetric``."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Parameters
    ----------
    args : sequence of str, default=None
        Arguments after ``genmetric``; those of the process by default.

    Returns
    -------
    int
        Exit code: 0 on success, 1 for a comparison without results or a bug, 2 for invalid input,
        130 after Ctrl-C, 143 after SIGTERM.
    """
    if not _open_streams():
        sys.stderr.write(
            "genmetric: the standard output is closed. Redirect it to a file or to /dev/null.\n"
        )
        return 2
    try:
        from genmetric._optional import import_optional

        import_optional("click", "cli,report")
        from genmetric.cli._group import run

        if args is None:
            _end_by_exception()
        return run(args)
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        sys.stderr.write(f"genmetric: {error}\n")
        return 2


def _open_streams() -> bool:
    """Open standard streams that the process was started without; return whether output is open.

    Python sets such a stream to None. Its file descriptor would be given to the next file that is
    opened, and messages of libraries would be written into that file.
    """
    has_output = sys.stdout is not None
    if has_output and sys.stderr is not None and sys.stdin is not None:
        return True
    import os

    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        descriptor = os.dup(descriptor)
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    return has_output


def _end_by_exception() -> None:
    """Make SIGTERM raise an exception, so that temporary files are removed."""
    import signal

    def end(*_: object) -> None:
        raise SystemExit(143)

    signal.signal(signal.SIGTERM, end)
