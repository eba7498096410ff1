"""Options that commands share, and the table they describe."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from genmetric.cli._output import ListedProblems, remark, wrapped
from genmetric.tables import TableError, TablePlan, plan_columns, split_target
from genmetric.tables._cells import MISSING_WORDS
from genmetric.tables._format import header_hint
from genmetric.tables._reading import open_table, read_sample
from genmetric.tables._table_file import parse_bytes
from genmetric.tables._table_sample import TableSample, TooLargeError

F = TypeVar("F", bound=Callable[..., Any])

DATA = click.argument("data", metavar="DATA", type=click.Path(path_type=Path, allow_dash=True))
MODEL = click.argument("model", metavar="MODEL", type=click.Path(path_type=Path))


def stacked(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Combine several options into one decorator; they are listed in the order given."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


_reading_options = stacked(
    click.option(
        "--delimiter", metavar="CHAR", help="Field delimiter; detected automatically by default."
    ),
    click.option(
        "--encoding", metavar="NAME", help="Text encoding (default: UTF-8, else Windows-1252)."
    ),
    click.option(
        "--na",
        "na",
        multiple=True,
        metavar="VALUE",
        help="Another text that stands for a missing value, in addition to NA, ?, -, null, unknown "
        "and similar ones. Can be repeated.",
    ),
    click.option(
        "--memory",
        metavar="SIZE",
        help="Memory limit for the table and its features, such as 500M or 2G (default: a quarter of "
        "the memory).",
    ),
)

#: How a file of new rows is read.
file_options = stacked(
    _reading_options,
    click.option(
        "--strict",
        is_flag=True,
        help="Stop with an error if a cell cannot be read (default: it is treated as missing).",
    ),
)

#: The role of each column.
column_options = stacked(
    click.option(
        "-t",
        "--target",
        required=True,
        metavar="COL",
        help="Column with the classes or the numbers to predict.",
    ),
    click.option(
        "--task",
        type=click.Choice(["classes", "number"]),
        help="Kind of target; detected from its values by default.",
    ),
    click.option(
        "--id", "id_column", metavar="COL", help="Column that identifies the rows; not a feature."
    ),
    click.option(
        "--feature",
        "features",
        multiple=True,
        metavar="COL",
        help="Use only this column as a feature (default: all other columns). Can be repeated.",
    ),
    click.option(
        "--drop", multiple=True, metavar="COL", help="Leave this column out. Can be repeated."
    ),
    click.option(
        "--as-category",
        multiple=True,
        metavar="COL",
        help="Treat this column as categorical, even if numeric. Can be repeated.",
    ),
    click.option(
        "--as-number",
        multiple=True,
        metavar="COL",
        help="Treat this column as numeric; cells that are not numbers are missing. Can be "
        "repeated.",
    ),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        help="Decimal separator of numbers; detected from all cells of a column by default.",
    ),
    click.option(
        "--thousands",
        metavar="CHAR",
        help="Thousands separator of numbers; detected from all cells of a column by default.",
    ),
    click.option("--dry-run", is_flag=True, help="Show how each column is read, and stop."),
    _reading_options,
    click.option(
        "--strict",
        is_flag=True,
        help="Stop with an error if, without an option that asks for it, a column would be left out, "
        "text encoded as categories, a value imputed, a cell ignored, a row without a target not "
        "used, or an ambiguous format decided.",
    ),
)

seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Random seed.",
)
time_limit_option = click.option(
    "--time-limit",
    type=click.FloatRange(0.1),
    default=60.0,
    show_default=True,
    help="Time limit of each method over all folds, in seconds.",
)
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Suppress progress bars and messages."
)


def missing_words(options: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the texts of missing values: the usual ones and those of --na; None if usual."""
    return (*MISSING_WORDS, *options["na"]) if options.get("na") else None


def memory_bytes(options: dict[str, Any]) -> int | None:
    """Return the value of --memory in bytes, or None."""
    return parse_bytes(options["memory"]) if options.get("memory") else None


def opened(path: Path, options: dict[str, Any]) -> Any:
    """Open the table of a file with the options of :data:`file_options`."""
    return open_table(
        path,
        delimiter=unescaped(options.get("delimiter")),
        encoding=options.get("encoding"),
        missing_words=missing_words(options),
        memory=memory_bytes(options),
    )


def opened_training(path: Path, options: dict[str, Any]) -> Any:
    """Open the table of a file, and check the columns that :data:`column_options` name.

    Nothing slow is imported and no row is read, so that a wrong name is reported at once.
    """
    from genmetric.tables._plan import check_roles

    table = opened(path, options)
    try:
        check_roles(
            table.names,
            **{name: options[name] for name in ("target", "id_column", "features", "drop")},
            **{name: options[name] for name in ("as_category", "as_number")},
        )
    except TableError as error:
        raise TableError(f"{table.label}: {error}{header_hint(table.names)}") from error
    return table


def check_data(path: Path) -> None:
    """Raise if a table does not exist, before anything slow is imported."""
    if str(path) != "-" and not path.exists():
        raise click.UsageError(f"{path}: no such file. Check the name and the folder.")


def unescaped(delimiter: str | None) -> str | None:
    r"""Return a delimiter; the two characters ``\t`` and the word ``tab`` are a tab."""
    return "\t" if delimiter in (r"\t", "tab") else delimiter


@dataclass(frozen=True)
class TrainingTable:
    """A table that is read and planned.

    Attributes
    ----------
    X : pandas.DataFrame
        Columns that are used, of the rows with a target.
    y : ndarray of shape (n_samples,)
        The target.
    plan : TablePlan
        What is done with each column.
    row_names : list of str or None
        Values of the --id column.
    sample : TableSample
        The rows as they were read.
    """

    X: Any
    y: Any
    plan: TablePlan
    row_names: list[str] | None
    sample: TableSample

    @property
    def is_numeric(self) -> bool:
        """Whether the target is a number."""
        return self.plan.target is not None and self.plan.target.kind == "number"

    @property
    def task(self) -> Literal["classification", "regression"]:
        """What the target asks for."""
        return "regression" if self.is_numeric else "classification"

    def make_columns(self) -> Any:
        """Build the unfitted transformer from columns to features."""
        from genmetric.tables import make_preprocessor

        return make_preprocessor(self.plan)


def read_training(
    table: Any,
    options: dict[str, Any],
    *,
    max_rows: int | None = None,
    memory: int | None = None,
) -> TrainingTable:
    """Read a table and decide what is done with its columns.

    The decisions are shown unless --quiet is given; with --dry-run the command ends here.

    Parameters
    ----------
    table : TableFile
        The file.
    options : dict
        Options of the command: :data:`column_options` and the seed.
    max_rows : int, default=None
        Most rows to read, a random sample; None reads all.
    memory : int, default=None
        Bytes that reading may take; None is the value of --memory.

    Returns
    -------
    TrainingTable
        Features and target.

    Raises
    ------
    TableError
        If the table cannot be used: all problems, and the command that avoids them.
    TooLargeError
        If all rows are asked for and do not fit the memory.
    """
    id_column = options["id_column"]
    task = options["task"]
    as_category, as_number = (
        (*options[name], *((options["target"],) if task == kind else ()))
        for name, kind in (("as_category", "classes"), ("as_number", "number"))
    )
    memory = memory or memory_bytes(options)
    sample = read_sample(
        table,
        max_rows=max_rows,
        random_state=options["seed"],
        memory=memory,
        text=[name for name in (id_column,) if name in table.names],
    )
    if id_column in sample.left_out:
        raise TableError(
            f"{table.label}: column {id_column!r} {sample.left_out[id_column]} (--id)."
        )

    def planned(
        sample: TableSample, words: Sequence[str] = (), strict: bool = options["strict"]
    ) -> TablePlan:
        more: dict[str, list[str]] = {"--drop": [], "--as-category": [], "--decimal": []}
        for flag, value in zip(words[::2], words[1::2], strict=True):
            more[flag].append(value)
        return plan_columns(
            sample.frame,
            target=options["target"],
            id_column=id_column,
            features=options["features"],
            drop=[*options["drop"], *more["--drop"]],
            as_category=[*as_category, *more["--as-category"]],
            as_number=as_number,
            decimal=next(iter(more["--decimal"]), options["decimal"]),
            thousands=options["thousands"],
            missing_words=missing_words(options),
            strict=strict,
            line_of=sample.row_label,
            left_out=sample.left_out,
        )

    try:
        plan = planned(sample)
        fitting = sample.fitting(plan.n_features, memory, options["seed"])
        if fitting is not sample:
            if max_rows is None:
                raise TooLargeError(f"{table.label}: the features do not fit the memory budget.")
            sample, plan = fitting, planned(fitting)
    except TooLargeError:  # its text names the table
        raise
    except TableError as error:
        raise _refusal(table.label, error, options["strict"], partial(planned, sample)) from error
    show_plan(plan, sample, options)
    X, y = split_target(sample.frame, plan)
    row_names = None
    if id_column is not None and plan.target is not None:
        row_names = [str(name) for name in sample.frame[id_column][plan.target.present]]
    return TrainingTable(X, y, plan, row_names, sample)


def show_plan(plan: TablePlan, sample: TableSample, options: dict[str, Any]) -> None:
    """Show what is done with each column; with --dry-run on the standard output, and exit.

    For a table whose columns are all complete numbers, only a numeric target is shown.
    """
    lines = [*plan.lines(), *(f"  {note}" for note in sample.notes)]
    plain = plan.is_plain and not sample.notes
    numeric = plan.target is not None and plan.target.kind == "number"
    if plan.target is not None and numeric and plain and not options["dry_run"]:
        lines = [f"target {plan.target.summary} (--task classes if each value is a class)"]
    # Names from a file may contain characters that move the cursor of a terminal.
    lines = ["".join(c if c.isprintable() else "?" for c in line) for line in lines]
    stream = sys.stdout if options["dry_run"] else sys.stderr
    text = wrapped(lines, stream, indent=12)
    if options["dry_run"]:
        click.echo(text)
        click.get_current_context().exit(0)
    remark(text, quiet=options["quiet"] or (plain and not numeric))


def _refusal(
    label: str, error: TableError, strict: bool, plan: Callable[[Sequence[str], bool], TablePlan]
) -> TableError:
    """Return the error of a table that is not used, with a command that was tried on its plan.

    Parameters
    ----------
    label : str
        Name of the table.
    error : TableError
        Its problems.
    strict : bool
        Whether --strict was given.
    plan : callable
        ``plan(words, strict)`` plans the columns with more options, with or without --strict.

    Returns
    -------
    TableError
        The error. With --strict, several problems are below each other.
    """

    def solved(words: Sequence[str], strict: bool) -> bool:
        try:
            plan(words, strict)
        except TableError:
            return False
        return True

    usable = strict and solved((), False)
    line = ""
    if error.options and solved(error.options, strict):
        line = _command("Corrected command", error.options)
    elif usable or (strict and solved(error.options, False)):
        stated = ", with these columns stated" if error.options else ""
        line = _command(f"Without --strict{stated}", error.options, strict=False)
    n = len(error.problems)
    if strict and n > 1:
        heading = f"--strict refuses the table, for {n} reasons."
        if not usable:
            heading = f"{n} problems with the columns, some of them because of --strict."
        lines = wrapped([f"  {problem}" for problem in error.problems], sys.stderr, indent=2)
        more = [f"  {line}"] if line else []
        return ListedProblems(f"{label}: {heading}", [*lines.split("\n"), *more])
    reason = "--strict refuses the table: " if usable else ""
    return TableError(f"{label}: {reason}{error} {line}".rstrip())


def _command(heading: str, options: Sequence[str], *, strict: bool = True) -> str:
    """Return the running command with more options, and without --strict on request."""
    from genmetric.cli._choices import command_line, command_words

    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return ""
    only = None if strict else {param.name or "" for param in ctx.command.params} - {"strict"}
    words = [*command_words(ctx, only), *options]
    return f"{heading}: {command_line(ctx.info_name or '', words)}"


def warn_unknown(unknown: dict[str, set[str]], replacements: dict[str, str]) -> None:
    """Warn of categories that the training data does not have, and say what becomes of them."""
    for name, words in unknown.items():
        few = ", ".join(repr(word) for word in sorted(words)[:3])
        more = ", ..." if len(words) > 3 else ""
        instead = replacements.get(name)
        how = "their features are all zero" if instead is None else f"they are read as {instead!r}"
        warnings.warn(
            f"column {name!r} has categories that the training data does not have ({few}{more}); "
            f"{how}.",
            UserWarning,
            stacklevel=2,
        )
