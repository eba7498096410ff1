"""Options that commands share, and the table that they describe."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from genmetric._text import did_you_mean
from genmetric.cli.output import check_output, say
from genmetric.comparison.methods import METHODS, find_methods
from genmetric.tables import TableError

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)
DATA = click.argument("data", metavar="DATA", type=click.Path(path_type=Path, allow_dash=True))
MODEL = click.argument("model", metavar="MODEL", type=FILE)

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


OUT = option(
    "-o --output",
    "File to write: .csv, .tsv, .parquet, .arrow, .feather or .jsonl (default: CSV on stdout).",
    metavar="OUT",
    type=click.Path(path_type=Path, allow_dash=True),
)

_reading_options = stacked(
    option("--delimiter", "Field delimiter; detected by default.", metavar="CHAR"),
    option("--encoding", "Text encoding (default: UTF-8, else Windows-1252).", metavar="NAME"),
    option("--header/--no-header", "Whether the first line names the columns.", default=None),
    option("--sheet", "Name or number of an Excel sheet.", metavar="NAME"),
    option(
        "--na",
        "Another text for a missing value, besides NA, ?, -, null and others. Can be repeated.",
        multiple=True,
        metavar="VALUE",
    ),
)

#: How a file of new rows is read.
file_options = stacked(
    _reading_options,
    flag("--strict", "Stop with an error if a cell cannot be read; else it is missing."),
)

#: Former words for the task.
FORMER_TASKS = {"classes": "classification", "number": "regression"}

#: The role of each column.
column_options = stacked(
    column("-t --target", "Column with the classes or numbers to predict.", required=True),
    option(
        "--task",
        "Kind of target; detected by default.",
        type=click.Choice(["classification", "regression", *FORMER_TASKS]),
        metavar="[classification|regression]",
        callback=lambda _ctx, _param, value: FORMER_TASKS.get(value, value),
    ),
    column("--id id_column", "Column that identifies the rows; not a feature."),
    columns("--feature features", "Use only this column as a feature."),
    columns("--drop", "Leave this column out."),
    columns("--as-category", "Treat this column as categorical, even if numeric."),
    columns("--as-number", "Treat this column as numeric; other cells are missing."),
    option("--decimal", "Decimal separator; detected by default.", type=click.Choice([".", ","])),
    option("--thousands", "Thousands separator; detected by default.", metavar="CHAR"),
    flag("--dry-run", "Show how each column is read, and stop."),
    _reading_options,
    flag("--strict", "Stop if a column or cell would be left out, imputed or guessed."),
)

seed = option("--seed", "Random seed.", type=click.IntRange(0, 2**32 - 1), default=0)
quiet = flag("-q --quiet", "Suppress progress bars and messages.")


class MethodKeys(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.3
    """Keys of methods separated by commas, or one key of a method that can be fitted."""

    name = "key"

    def __init__(self, *, several: bool) -> None:
        self.several = several

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Look the keys up; former keys are accepted."""
        if not isinstance(value, str):
            return value
        try:
            words = value.split(",") if self.several else [value]
            keys = tuple(method.key for method in find_methods([word.strip() for word in words]))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not self.several and not METHODS[keys[0]].distance:
            self.fail(f"{keys[0]} is not a distance: compare shows it for reference.", param, ctx)
        return keys if self.several else keys[0]


class MethodsHelp(click.Command):
    """A command whose help ends with a list of its methods."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of methods."""
        every = any(isinstance(p.type, MethodKeys) and p.type.several for p in self.params)
        shown = {key: m for key, m in METHODS.items() if m.distance or every}
        with formatter.section("Methods"):
            formatter.write_dl([(k, f"{m.label}. {m.description}") for k, m in shown.items()])


def command_line(
    command: str, ctx: click.Context, only: Collection[str] | None = None, more: Sequence[str] = ()
) -> str:
    """Write a command with the arguments and options of the running one, to be pasted in a shell.

    Parameters
    ----------
    command : str
        Name of the command.
    ctx : click.Context
        Context of the running command.
    only : collection of str, default=None
        Names of the parameters to write; all that were given by default.
    more : sequence of str, default=()
        Further words.

    Returns
    -------
    str
        Arguments first, then options with their long names.
    """
    arguments: list[str] = []
    options: list[str] = []
    for param in ctx.command.params:
        name = param.name or ""
        value, source = ctx.params.get(name), ctx.get_parameter_source(name)
        given = source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT")
        if value is None or not given or (only is not None and name not in only):
            continue
        if isinstance(param, click.Argument):
            arguments.append(str(value))
        elif isinstance(param, click.Option) and param.is_flag:
            options += (param.opts if value else param.secondary_opts)[-1:]
        elif param.multiple:
            options += [word for v in value for word in (param.opts[-1], str(v))]
        else:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            options += [max(param.opts, key=len), text]
    return shlex.join(["genmetric", command, *arguments, *options, *more])


def table_output(path: Path | None, *inputs: Path) -> Path | None:
    """Check a table to write before anything is computed; None is the standard output."""
    if path is None or str(path) == "-":
        return None
    check_output(path, *inputs)
    if path.is_file() or not path.exists():
        from genmetric.tables import output_format

        output_format(path)
    return path


def check_file(path: Path) -> None:
    """Raise if a file does not exist, before anything slow is imported."""
    if not path.exists() or path.is_dir():
        what = "is a folder. Name a file." if path.exists() else "no such file. Check its name."
        raise click.UsageError(f"{path}: {what}")


def check_names(wanted: Sequence[str], names: Collection[str], what: str = "") -> None:
    """Raise if a table does not have a column."""
    for name in wanted:
        if name not in names:
            near = did_you_mean(name, names) or f"The columns are {', '.join(list(names)[:20])}."
            raise TableError(f"there is no column {name!r}{what}. {near}")


def data_source(path: Path) -> Any:
    """Return a file that exists, or the bytes of the standard input."""
    if str(path) != "-":
        check_file(path)
        return path
    data = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_INPUT + 1)
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
    keep = _possible_features(frame.columns, options)
    numbers["na_values"] = options["na"]
    X, y, target = split_target(frame, options["target"], options["task"], **numbers)
    # The comparison takes the columns of groups and times out itself.
    keep |= {options.get("groups"), options.get("time")}
    drop = tuple(name for name in X.columns if name not in keep)
    given = {name: options[name] for name in ("as_category", "as_number")}
    encoder = TableEncoder(drop=drop, **given, **numbers)
    notes = [f"target {target.summary}", *target.notes, *frame.attrs["notes"]]
    return X, y, target, encoder, notes


def _possible_features(names: Collection[str], options: dict[str, Any]) -> set[Any]:
    """Check the columns that options name; return those that may be features."""
    roles = {name: options.get(name) for name in ("target", "id_column", "groups", "time")}
    taken = [name for name in roles.values() if name is not None]
    listed = [n for key in ("features", "drop", "as_category", "as_number") for n in options[key]]
    check_names(taken[:1], names, " (target)")
    check_names([*taken, *listed], names)
    twice = [name for name in taken if taken.count(name) > 1 or name in listed]
    twice += [name for name in options["features"] if name in options["drop"]]
    if twice:
        raise TableError(f"column {twice[0]!r} is named by two options; it can have one role.")
    return set(options["features"] or names) - {*options["drop"], *taken}


def show_columns(encoder: Any, notes: Sequence[str], options: dict[str, Any]) -> list[str]:
    """Return how the columns are read as lines; --dry-run ends here, --strict may refuse it."""
    lines = [notes[0], *encoder.summary().splitlines(), *encoder.notes_, *notes[1:]]
    if options["dry_run"]:
        say("\n".join(lines))
        raise click.exceptions.Exit(0)
    problems = []
    for c in encoder.columns_ if options["strict"] else ():
        if not c["asked"] and c["kind"] == "left out":
            problems.append(f"column {c['name']!r} is left out ({c['reason']})")
        elif not c["asked"] and c["n_missing"]:
            problems.append(f"column {c['name']!r} has {c['n_missing']} missing values")
    if options["strict"]:
        problems += [text.rstrip(".") for text in (*encoder.notes_, *notes[1:])]
    if problems:
        few = "; ".join(problems[:10]) + ("; ..." if len(problems) > 10 else "")
        advice = "Use --drop, --as-number or --as-category."
        raise TableError(f"--strict refuses the table: {few}. {advice}")
    return lines
