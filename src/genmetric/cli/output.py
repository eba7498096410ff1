"""Where results go: a file that appears whole or not at all, or the standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

OUT = click.option(
    "-o",
    "--output",
    metavar="OUT",
    type=click.Path(path_type=Path),
    help="File to write: .parquet, .csv or .csv.gz; standard output, as CSV, if not given.",
)


@contextmanager
def table_output(path: Path | None, *inputs: Path) -> Iterator[Any]:
    """A :class:`~genmetric.tables.TableWriter` for a file or the standard output.

    Parameters
    ----------
    path : Path or None
        The file, opened at once, so that one that cannot be written is an error before the work;
        None or "-" is the standard output.
    *inputs : Path
        Files that must not be overwritten.

    Yields
    ------
    TableWriter
        What is written appears when the block ends well.
    """
    from genmetric.files.atomic import replacing
    from genmetric.tables import TableWriter

    if path is None or str(path) == "-":
        binary = getattr(sys.stdout, "buffer", None)
        if binary is None:
            raise click.UsageError("The standard output takes no bytes here. Name a file: -o OUT.")
        sys.stdout.flush()
        with TableWriter(binary, "-.csv") as writer:
            yield writer
        binary.flush()
        return
    check_output(path, *inputs)
    if path.exists() and not path.is_file():
        # A device or a pipe, which nothing can take the place of.
        with path.open("wb") as device, TableWriter(device, path.name) as writer:
            yield writer
        return
    with replacing(path) as file, TableWriter(file, path.name) as writer:
        yield writer


def check_output(path: Path, *inputs: Path) -> None:
    """Refuse an output that cannot be written, or that is one of the inputs, before the work."""
    for given in inputs:
        if given.exists() and path.exists() and path.samefile(given):
            raise click.UsageError(f"{path} is an input as well. Name another file to write.")
    folder = path.parent
    if not folder.is_dir():
        raise click.UsageError(f"{path}: the folder {folder} is not there. Make it first.")
    if path.is_dir():
        raise click.UsageError(f"{path}: is a folder. Name a file to write.")
    if path.exists() and not path.is_file():
        return
    # An attempt, since permissions alone do not tell: a disk may be read-only.
    from genmetric.files.atomic import replacing

    class _Enough(Exception):
        pass

    try:
        with replacing(path):
            raise _Enough
    except _Enough:
        pass


def remark(text: str, *, quiet: bool = False) -> None:
    """A line for the reader, beside the results."""
    if not quiet:
        click.echo(text, err=True)
