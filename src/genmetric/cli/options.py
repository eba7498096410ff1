"""Options that commands share, and the table that they describe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from genmetric._text import did_you_mean
from genmetric.cli.output import say
from genmetric.comparison.methods import METHODS, find_methods
from genmetric.tables import TableError

F = TypeVar("F", bound=Callable[..., Any])

#: A file to read, or "-" for the standard input, and a file to write.
INPUT = click.Path(exists=True, dir_okay=False, path_type=Path, allow_dash=True)
OUTPUT = click.Path(dir_okay=False, path_type=Path, allow_dash=True)

DATA = click.argument("data", metavar="DATA", type=INPUT)
MODEL = click.argument("model", metavar="MODEL", type=INPUT)

COUNT = click.IntRange(1)

#: Bytes that are read from the standard input.
MAX_INPUT = 2 << 30


def stacked(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Combine several options into one decorator; they are listed in the order given."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def option(flags: str, help: str, **settings: Any) -> Callable[[F], F]:
    """Create an option from its flags, separated by spaces."""
    return click.option(*flags.split(), help=help, **settings)


def flag(flags: str, help: str) -> Callable[[F], F]:
    """Create an option that is given or not."""
    return option(flags, help, is_flag=True)


def column(flags: str, help: str, **settings: Any) -> Callable[[F], F]:
    """Create an option that names a column."""
    return option(flags, help, metavar="COL", **settings)


def columns(flags: str, help: str) -> Callable[[F], F]:
    """Create an option that names a column and can be repeated."""
    return column(flags, f"{help} Can be repeated.", multiple=True)


def words(_ctx: click.Context, _param: click.Parameter, value: str | None) -> list[str] | None:
    """Split the comma-separated names of an option."""
    if value is None:
        return None
    found = [word.strip() for word in value.split(",") if word.strip()]
    if not found:
        raise click.BadParameter("expected one or more names separated by commas.")
    return found


def method_keys(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """Look up comma-separated keys of methods; aliases are accepted."""
    keys = words(ctx, param, value)
    try:
        return keys and [method.key for method in find_methods(keys)]
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


OUT = option(
    "-o --output",
    "File to write: .csv, .tsv, .parquet, .arrow, .feather or .jsonl (default: CSV on stdout).",
    metavar="OUT",
    type=OUTPUT,
    callback=lambda _ctx, _param, path: None if str(path) == "-" else path,
)

_reading_options = stacked(
    option("--delimiter", "Field delimiter; detected by default.", metavar="CHAR"),
    option("--encoding", "Text encoding (default: UTF-8, else Windows-1252).", metavar="NAME"),
    option("--header/--no-header", "Whether the first line names the columns.", default=None),
    option("--sheet", "Name or number of an Excel sheet.", metavar="NAME"),
    option(
        "--na",
        "Additional marker for missing values, besides NA, ?, -, null and others. Can be repeated.",
        multiple=True,
        metavar="VALUE",
    ),
)

#: How a file of new rows is read.
file_options = stacked(
    _reading_options,
    flag("--strict", "Stop with an error if a cell cannot be read; else it is missing."),
)

#: The role of each column.
column_options = stacked(
    column("-t --target", "Column with the classes or numbers to predict.", required=True),
    option(
        "--task",
        "Kind of target; detected by default.",
        type=click.Choice(["classification", "regression"]),
    ),
    column("--id id_column", "Column that identifies the rows; not a feature."),
    columns("--feature features", "Use only this column as a feature."),
    columns("--drop", "Leave this column out."),
    columns("--as-category", "Treat this column as categorical, even if numeric."),
    columns("--as-number", "Treat this column as numeric; other cells count as missing."),
    option("--decimal", "Decimal separator; detected by default.", type=click.Choice([".", ","])),
    option("--thousands", "Thousands separator; detected by default.", metavar="CHAR"),
    flag("--dry-run", "Show how each column is read, and stop."),
    _reading_options,
    flag("--strict", "Stop if a column or cell would be left out, imputed or guessed."),
)

seed = option("--seed", "Random seed.", type=click.IntRange(0, 2**32 - 1), default=0)
quiet = flag("-q --quiet", "Suppress progress bars and messages.")


class MethodsHelp(click.Command):
    """A command whose help ends with a list of its methods."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of methods; those that are not distances can only be compared."""
        shown = [m for m in METHODS.values() if m.distance or self.name == "compare"]
        with formatter.section("Methods"):
            formatter.write_dl([(m.key, f"{m.label}. {m.description}") for m in shown])


def check_names(wanted: Sequence[str], names: Collection[str], what: str = "") -> None:
    """Raise if a table does not have a column."""
    for name in wanted:
        if name not in names:
            near = did_you_mean(name, names) or f"The columns are {', '.join(list(names)[:20])}."
            raise TableError(f"there is no column {name!r}{what}. {near}")


def data_source(path: Path) -> Any:
    """Return a file, or the bytes of the standard input."""
    if str(path) != "-":
        return path
    data = sys.stdin.buffer.read(MAX_INPUT + 1)
    if len(data) > MAX_INPUT:
        raise click.UsageError("The standard input has more than 2 GB. Name a file instead of -.")
    return data


def data_name(path: Path) -> str:
    """Name a table for people."""
    return "standard input" if str(path) == "-" else path.name


def reading(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a command as keyword arguments of the readers of tables."""
    delimiter, header = options["delimiter"], options["header"]
    return {
        "delimiter": "\t" if delimiter in (r"\t", "tab") else delimiter,
        "encoding": options["encoding"],
        "header": "auto" if header is None else header,
        "sheet": options["sheet"],
    }


def read_training(
    source: Any, options: dict[str, Any], sample: int | None = None
) -> tuple[Any, Any, Any, Any, list[str]]:
    """Read a table and decide what is predicted and which columns are features.

    Parameters
    ----------
    source : path or bytes
        The table.
    options : dict
        Options of the command: `column_options` and the seed.
    sample : int, default=None
        Number of rows to read, at random; None reads all.

    Returns
    -------
    X, y, target
        Columns, targets, and what is predicted.
    encoder : TableEncoder
        Not fitted, with the options.
    notes : list of str
        Sentences for the user, which begin with the target.
    """
    from genmetric.tables import TableEncoder, read_table, split_target

    numbers = {name: options[name] for name in ("decimal", "thousands")}
    frame = read_table(
        source, sample=sample, random_state=options["seed"], **numbers, **reading(options)
    )
    left_out = _left_out(frame.columns, options)
    numbers["na_values"] = options["na"]
    X, y, target = split_target(frame, options["target"], options["task"], **numbers)
    given = {name: options[name] for name in ("as_category", "as_number")}
    encoder = TableEncoder(drop=left_out, **given, **numbers)
    notes = [f"target {target.summary}", *target.notes, *frame.attrs["notes"]]
    return X, y, target, encoder, notes


def _left_out(names: Collection[str], options: dict[str, Any]) -> tuple[str, ...]:
    """Check the columns that options name; return those that are not features.

    The comparison takes the columns of groups and times out itself.
    """
    roles = [options.get(role) for role in ("target", "id_column", "groups", "time")]
    taken = [name for name in roles if name is not None]
    listed = [n for key in ("features", "drop", "as_category", "as_number") for n in options[key]]
    check_names(taken[:1], names, " (target)")
    check_names([*taken, *listed], names)
    twice = [name for name in taken if taken.count(name) > 1 or name in listed]
    twice += [name for name in options["features"] if name in options["drop"]]
    if twice:
        raise TableError(f"column {twice[0]!r} is named by two options; it can have one role.")
    features = options["features"] or [n for n in names if n not in options["drop"]]
    kept = {*features, options["target"], options.get("groups"), options.get("time")}
    return tuple(name for name in names if name not in kept or name == options["id_column"])


def show_columns(encoder: Any, notes: Sequence[str], options: dict[str, Any]) -> list[str]:
    """Return how the columns are read as lines; --dry-run ends here, --strict may refuse it."""
    lines = [notes[0], *encoder.summary().splitlines(), *encoder.notes_, *notes[1:]]
    if options["dry_run"]:
        say("\n".join(lines))
    if options["strict"]:
        _refuse_guesses(encoder, notes)
    if options["dry_run"]:
        raise click.exceptions.Exit(0)
    return lines


def _refuse_guesses(encoder: Any, notes: Sequence[str]) -> None:
    """Raise if a column or cell is left out, imputed or guessed."""
    problems = []
    for c in encoder.columns_:
        if not c["asked"] and c["kind"] == "left out":
            problems.append(f"column {c['name']!r} is left out ({c['reason']})")
        elif not c["asked"] and c["n_missing"]:
            problems.append(f"column {c['name']!r} has {c['n_missing']} missing values")
    problems += [text.rstrip(".") for text in (*encoder.notes_, *notes[1:])]
    if problems:
        few = "; ".join(problems[:10]) + ("; ..." if len(problems) > 10 else "")
        advice = "Use --drop, --as-number or --as-category; --thousands, --decimal or --na."
        raise TableError(f"--strict refuses the table: {few}. {advice}")
