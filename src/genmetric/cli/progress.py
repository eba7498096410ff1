"""Progress on the terminal, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Iterator[Callable[[str, float], None]]:
    """A bar on stderr where that is a terminal, else nothing.

    Parameters
    ----------
    title : str
        What is being done.
    quiet : bool, default=False
        Whether to show nothing at all.

    Yields
    ------
    callable
        ``advance(text, share)`` with what is done now and the share of the work behind it.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from genmetric._extras import need

    console = need("rich.console", "cli").Console(stderr=True)
    rich = need("rich.progress", "cli")
    columns = [
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TimeElapsedColumn(),
    ]
    # Without redirection: what a command prints is for its own standard output.
    options = {"transient": True, "redirect_stdout": False, "redirect_stderr": False}
    with rich.Progress(*columns, console=console, **options) as bars:
        task = bars.add_task(title, total=1.0)

        def advance(text: str, share: float) -> None:
            bars.update(task, description=f"{title}: {text}" if text else title, completed=share)

        yield advance
