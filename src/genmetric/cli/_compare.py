"""`genmetric compare`: which metric helps on a table, and how much."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genmetric.cli._choices import (
    METHOD_KEYS,
    SCORING_ADVICE,
    SCORING_KEYS,
    KeyChoice,
    MethodsHelp,
    command_line,
    command_words,
)
from genmetric.cli._options import (
    DATA,
    check_data,
    column_options,
    opened_training,
    quiet_option,
    read_training,
    seed_option,
    time_limit_option,
)
from genmetric.cli._output import check_output, remark, wrapped
from genmetric.cli._progress import ProgressBar, progress_bar

if TYPE_CHECKING:
    from genmetric.comparison import Comparison


def _option_name(name: str) -> str:
    """Accept --method, the option of `genmetric fit`, as --methods."""
    return "methods" if name == "method" else name


@click.command(cls=MethodsHelp, context_settings={"token_normalize_func": _option_name})
@DATA
@column_options
@click.option(
    "--report",
    metavar="HTML",
    type=click.Path(path_type=Path),
    help="Write a report with figures to this file.",
)
@click.option(
    "--methods",
    metavar="A,B,...",
    type=KeyChoice("method", METHOD_KEYS, several=True),
    help="Methods to compare, separated by commas (default: all for the kind of target except lmnn, "
    "gmm and local).",
)
@click.option(
    "--scoring",
    metavar="SCORE",
    type=KeyChoice("scoring", SCORING_KEYS, advice=SCORING_ADVICE),
    help="Score to compare methods by: error (default), balanced_error, f1_macro, log_loss or "
    "roc_auc for classes; r2 (default) or mae for numbers.",
)
@click.option(
    "--folds", type=click.IntRange(2), help="Number of folds (default: 10; 5 above 5000 rows)."
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    help="Repetitions of the cross-validation (default: 3; 1 above 500 rows).",
)
@click.option(
    "--rows",
    type=click.IntRange(20),
    default=20_000,
    show_default=True,
    help="Maximum number of rows; a random sample is drawn from larger tables.",
)
@time_limit_option
@click.option("--json", "as_json", is_flag=True, help="Print all results as JSON.")
@seed_option
@quiet_option
@click.pass_context
def compare(
    ctx: click.Context, /, data: Path, report: Path | None, as_json: bool, **options: Any
) -> None:
    """Compare metrics on DATA by cross-validation: scores, times and a recommendation.

    Each method is fitted on the training rows of a fold and evaluated on the other rows. Its
    parameters, such as the number of neighbours, are selected on the training rows only. Results
    are printed as they are computed; Ctrl-C stops the comparison and keeps those that are done, in
    the report as well. The exit code is 1 if no distance has a result.
    """
    check_data(data)
    if report is not None:
        check_report(report, data)
    with progress_bar("compare", quiet=options["quiet"]) as advance:
        advance("reading", 0.0)
        table = opened_training(data, options)
        training = read_training(table, options, max_rows=options["rows"])
        # Imported after reading, so that an invalid table is reported without delay.
        from genmetric.comparison import ComparisonInterrupted, compare_metrics
        from genmetric.comparison._methods import default_methods

        methods = options["methods"] or default_methods(training.task)
        printer = None if as_json else ResultPrinter(methods, advance)
        interrupted = False
        try:
            found = compare_metrics(
                training.X,
                training.y,
                columns=training.make_columns(),
                task=training.task,
                methods=methods,
                scoring=options["scoring"],
                n_splits=options["folds"],
                n_repeats=options["repeats"],
                max_samples=options["rows"],
                time_limit=options["time_limit"],
                title=table.label if str(data) == "-" else data.name,
                random_state=options["seed"],
                progress=advance,
                on_result=printer,
            )
        except ComparisonInterrupted as stop:
            found, interrupted = stop.comparison, True
    finish(found, as_json=as_json)
    step = next_command(ctx, found)
    if step and not as_json and not interrupted:
        remark(f"Next: {step}", quiet=options["quiet"])
    if report is not None:
        found.report(
            report,
            row_names=training.row_names,
            command=step,
            footers=[command_line("compare", command_words(ctx))],
            columns=training.plan.columns,
        )
        remark(f"{report} written.", quiet=options["quiet"])
    if interrupted:
        done = f"{len(found.results)} of {len(methods)} methods finished"
        remark(f"Interrupted: {done}.", quiet=options["quiet"])
        ctx.exit(130)
    if not found.best:
        ctx.exit(1)


class ResultPrinter:
    """Prints the row of each method when it is known.

    Parameters
    ----------
    methods : sequence of str
        Keys of the methods, which decide the width of the first column.
    advance : ProgressBar
        Removed while a row is printed.
    """

    def __init__(self, methods: Any, advance: ProgressBar) -> None:
        from genmetric.comparison import METHODS
        from genmetric.comparison._text import keyed_label

        self._advance = advance
        shown = [METHODS[key] for key in methods]
        self._names = [keyed_label(m.label, m.key, m.distance) for m in shown]

    def __call__(self, found: Comparison) -> None:
        """Print the last result, after the heading if it is the first."""
        from genmetric.comparison._text import table_head, table_layout, table_row

        layout = table_layout(self._names, found.scoring)
        lines = table_row(found, found.results[-1], layout)
        if len(found.results) == 1:
            lines = [*table_head(found, layout), *lines]
        with self._advance.pause():
            click.echo(wrapped(lines, sys.stdout))


def finish(found: Comparison, *, as_json: bool = False) -> None:
    """Print the recommendation, or all results as JSON."""
    from genmetric.comparison._text import comparison_dict

    if as_json:
        click.echo(json.dumps(comparison_dict(found), indent=2))
    else:
        click.echo(f"\n{wrapped([found.advice], sys.stdout)}")


def check_report(path: Path, *inputs: Path) -> None:
    """Check that a report can be written before anything is computed."""
    from genmetric._optional import import_optional

    check_output(path, *inputs)
    import_optional("matplotlib", "report")
    import_optional("jinja2", "report")


def next_command(ctx: click.Context, found: Comparison) -> str:
    """Return the `genmetric fit` command of the recommended method; empty if there is none.

    It has all options of this command that `genmetric fit` shares: the columns, the format of the
    file and the seed.
    """
    from genmetric.cli._fit import fit

    if not found.recommended:
        return ""
    shared = {param.name or "" for param in fit.params} - {"quiet"}
    words = command_words(ctx, shared)
    return command_line("fit", [*words, "--method", found.recommended, "--output", "model.gm"])
