"""The command ``genmetric``: for people with a table, who need not write Python."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Parameters
    ----------
    args : sequence of str, default=None
        Words after ``genmetric``; ``None`` takes those of the process.

    Returns
    -------
    int
        0 on success, 2 for input that cannot be used, 130 after Ctrl-C, 143 where it was told to
        end.
    """
    try:
        from genmetric._extras import need

        need("click", "cli")
        from genmetric.cli.group import run

        if args is None:
            _end_by_exception()
        return run(args)
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        sys.stderr.write(f"genmetric: {error}\n")
        return 2


def _end_by_exception() -> None:
    """Let SIGTERM unwind as Ctrl-C does, so that no half-written file stays behind."""
    import signal

    def end(*_: object) -> None:
        raise SystemExit(143)

    signal.signal(signal.SIGTERM, end)
