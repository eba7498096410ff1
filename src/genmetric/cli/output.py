"""What the commands write: text for terminals, tables, progress."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from genmetric._text import import_optional


def escape_control(text: str) -> str:
    r"""Escape characters that a terminal would interpret; names in files can contain them.

    Parameters
    ----------
    text : str
        Text, which may have several lines.

    Returns
    -------
    str
        The text with escapes in the form of JSON strings.

    Examples
    --------
    >>> from genmetric.cli.output import escape_control
    >>> print(escape_control("a" + chr(27) + "[31m"))
    a\u001b[31m
    """
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c).strip('"') for c in text)


def say(text: str, *, err: bool = False) -> None:
    """Print a result, without control characters and characters that the stream cannot encode."""
    encoding = getattr(sys.stderr if err else sys.stdout, "encoding", None) or "utf-8"
    printable = escape_control(text).encode(encoding, "backslashreplace").decode(encoding)
    click.echo(printable, err=err)


def remark(text: str, *, quiet: bool = False) -> None:
    """Print a message on stderr, apart from the results."""
    if not quiet:
        say(text, err=True)


def check_output(path: Path | None, *inputs: Path, table: bool = False) -> None:
    """Raise if a file cannot be written or is one of the inputs, before anything is computed."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise click.UsageError(f"{path}: the folder {path.parent} does not exist. Create it first.")
    for given in inputs:
        if str(given) != "-" and given.exists() and path.exists() and path.samefile(given):
            raise click.UsageError(f"{path} is also an input. Name another file to write.")
    if not os.access(path.parent, os.W_OK) and not path.exists():
        raise click.UsageError(f"{path}: Permission denied. Choose another folder.")
    if table and (path.is_file() or not path.exists()):
        from genmetric.tables import output_format

        output_format(path)


def write_frames(frames: Iterator[Any], path: Path | None) -> None:
    """Write batches of rows to a file that appears complete or not at all, or to the output."""
    from genmetric.tables import write_table

    if path is None and (sys.stdout.isatty() or not hasattr(sys.stdout, "buffer")):
        for i, frame in enumerate(frames):
            say(frame.to_csv(None, index=False, header=i == 0).removesuffix("\n"))
    elif path is None:
        sys.stdout.flush()
        write_table(frames, sys.stdout.buffer)
    elif path.exists() and not path.is_file():
        # A device or a pipe cannot be replaced by a file.
        with path.open("wb") as device:
            write_table(frames, device)
    else:
        write_table(frames, path)


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Iterator[Callable[[str, float], None]]:
    """Show a bar on stderr if that is a terminal; yields ``advance(text, share)``."""
    if quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    rich = import_optional("rich.progress", "cli")
    columns = [rich.TextColumn("{task.description}", markup=False), rich.BarColumn(bar_width=12)]
    columns += [rich.TaskProgressColumn(), rich.TimeElapsedColumn()]
    console = import_optional("rich.console", "cli").Console(stderr=True)
    # Without redirection: the output of a command goes to its own standard output.
    options = {"transient": True, "redirect_stdout": False, "redirect_stderr": False}
    with rich.Progress(*columns, console=console, **options) as bars:
        task = bars.add_task(escape_control(title), total=1.0)

        def advance(text: str, share: float) -> None:
            bars.update(task, description=escape_control(f"{title}: {text}"), completed=share)

        yield advance
