"""Output files, which appear whole or not at all, and the standard output."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click

from genmetric._atomic import replacing
from genmetric.tables._errors import TableError
from genmetric.tables._writer import TableWriter, output_format

OUT = click.option(
    "-o",
    "--output",
    metavar="OUT",
    type=click.Path(path_type=Path, allow_dash=True),
    help="File to write; its ending selects the format: .csv, .tsv, .parquet, .arrow, .feather, "
    ".jsonl, also .csv.gz (default: CSV on standard output).",
)


@contextmanager
def table_output(path: Path | None, *inputs: Path) -> Iterator[Any]:
    """Open a :class:`~genmetric.tables._writer.TableWriter` for a file or the standard output.

    Parameters
    ----------
    path : Path or None
        The file. It is opened at once, so that a file that cannot be written is an error before
        anything is computed. None or "-" is the standard output.
    *inputs : Path
        Files that must not be overwritten.

    Yields
    ------
    TableWriter
        The writer; the file appears when the block ends without an error.
    """
    if path is None or str(path) == "-":
        binary = getattr(sys.stdout, "buffer", None)
        if binary is None:
            raise click.UsageError(
                "The standard output does not accept bytes here. Name a file: -o OUT."
            )
        sys.stdout.flush()
        with TableWriter(binary, "-.csv") as writer:
            yield writer
        binary.flush()
        return
    check_output(path, *inputs)
    if path.exists() and not path.is_file():
        # A device or a pipe cannot be replaced by a file.
        with path.open("wb") as device, TableWriter(device, "-.csv") as writer:
            yield writer
        return
    output_format(path.name)
    with replacing(path) as file, TableWriter(file, path.name) as writer:
        yield writer


def check_output(path: Path, *inputs: Path) -> None:
    """Raise if a file cannot be written or is one of the inputs, before anything is computed."""
    for given in inputs:
        if str(given) != "-" and given.exists() and path.exists() and path.samefile(given):
            raise click.UsageError(f"{path} is also an input. Name another file to write.")
    folder = path.parent
    if not folder.is_dir():
        raise click.UsageError(f"{path}: the folder {folder} does not exist. Create it first.")
    if path.is_dir():
        raise click.UsageError(f"{path}: is a folder. Name a file to write.")
    if path.exists() and not path.is_file():
        return
    # Permissions do not tell whether a disk is read-only: try to write.

    class _Enough(Exception):
        pass

    try:
        with replacing(path):
            raise _Enough
    except _Enough:
        pass


def remark(text: str, *, quiet: bool = False) -> None:
    """Print a message on stderr, apart from the results."""
    if not quiet:
        click.echo(text, err=True)


class ListedProblems(TableError):
    """Several problems of a table, which the command shows below each other.

    Parameters
    ----------
    heading : str
        The first line, which says what is wrong on its own.
    lines : sequence of str
        The problems, and the command that avoids them.
    """

    def __init__(self, heading: str, lines: Sequence[str]) -> None:
        super().__init__(heading)
        self.lines = tuple(lines)


def wrapped(lines: Iterable[str], stream: TextIO, indent: int = 0) -> str:
    """Join lines of text; on a terminal, break those that are longer than its width.

    Parameters
    ----------
    lines : iterable of str
        Lines, which may start with spaces.
    stream : file
        Where the text is shown. In a file or a pipe lines are not broken.
    indent : int, default=0
        Spaces in front of the continuation of a line, in addition to those of the line.

    Returns
    -------
    str
        The text.
    """
    if not stream.isatty():
        return "\n".join(lines)
    width = shutil.get_terminal_size().columns
    return "\n".join(
        textwrap.fill(
            line,
            width,
            subsequent_indent=" " * (len(line) - len(line.lstrip()) + indent),
            break_on_hyphens=False,
            break_long_words=False,
        )
        if len(line) > width
        else line
        for line in lines
    )
