"""The command ``genmetric``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path


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
    # Closed streams are open again, so no message goes into a file that gets their number.
    closed = sys.stdout is None
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r+", encoding="utf-8"))  # noqa: SIM115
    if closed:
        advice = "Redirect it to a file or to /dev/null."
        sys.stderr.write(f"genmetric: the standard output is closed. {advice}\n")
        return 2
    try:
        from genmetric._text import import_optional

        import_optional("click", "cli,report")
        from genmetric.cli.app import run

        if args is None:
            # More threads wait for each other on tables of usual size; NumPy is not imported yet.
            for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
                os.environ.setdefault(name, "1")
            # As an exception, so temporary files are removed.
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return run(args)
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        sys.stderr.write(f"genmetric: {error}\n")
        return 2
