"""A progress bar on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ProgressBar:
    """A progress bar, or nothing if it has no display.

    Parameters
    ----------
    title : str
        Text in front of the current description.
    bars : rich.progress.Progress, default=None
        The display.
    """

    def __init__(self, title: str, bars: Any = None) -> None:
        self._title, self._bars = title, bars
        self._task = None if bars is None else bars.add_task(title, total=1.0)

    def __call__(self, text: str, share: float) -> None:
        """Show what is being done and the fraction of the work that is done."""
        if self._bars is not None:
            description = f"{self._title}: {text}" if text else self._title
            self._bars.update(self._task, description=description, completed=share)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Remove the bar while the block writes to the terminal."""
        if self._bars is None:
            yield
            return
        self._bars.stop()
        yield
        self._bars.start()


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Iterator[ProgressBar]:
    """Show a progress bar on stderr if that is a terminal.

    Parameters
    ----------
    title : str
        Text in front of the current description.
    quiet : bool, default=False
        Whether to show nothing in any case.

    Yields
    ------
    ProgressBar
        Called as ``advance(text, share)`` with the current step and the fraction of the work done.
    """
    if quiet or not sys.stderr.isatty():
        yield ProgressBar(title)
        return
    from genmetric._optional import import_optional

    console = import_optional("rich.console", "cli").Console(stderr=True)
    rich = import_optional("rich.progress", "cli")
    columns = [
        rich.TextColumn("{task.description}", markup=False),
        # Keys of methods, this bar and the times fit 80 columns.
        rich.BarColumn(bar_width=12),
        rich.TaskProgressColumn(),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left:"),
        rich.TimeRemainingColumn(),
    ]
    # Without redirection: the output of a command goes to its own standard output.
    options = {"transient": True, "redirect_stdout": False, "redirect_stderr": False}
    with rich.Progress(*columns, console=console, **options) as bars:
        yield ProgressBar(title, bars)
