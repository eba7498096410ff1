"""`genmetric compare` and `genmetric demo`: which metric helps on a table, and how much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genmetric._text import import_optional
from genmetric.cli.options import (
    DATA,
    MethodKeys,
    MethodsHelp,
    check_score,
    column_options,
    command_line,
    data_name,
    data_source,
    quiet_option,
    read_training,
    seed_option,
    show_columns,
)
from genmetric.cli.output import check_output, progress_bar, remark, say
from genmetric.comparison.methods import METHODS, find_methods

if TYPE_CHECKING:
    from genmetric.comparison import Comparison

#: Datasets of the demonstration, smallest first, and its methods; the last has the report.
DATASETS = ("iris", "wine", "ionosphere", "breast_cancer", "german", "segment", "vehicle")
DEMO_METHODS = ("euclidean", "standardized", "generative", "energy")

ADDED = ",".join(key for key, method in METHODS.items() if not method.default)

time_limit_option = click.option(
    "--time-limit",
    type=click.FloatRange(0.1),
    metavar="SECONDS",
    help="Start no further fold after this time; the answer is then incomplete.",
)


@click.command(cls=MethodsHelp)
@DATA
@column_options
@click.option(
    "--group",
    metavar="COL",
    help="Column of subjects, devices or batches: rows of one value are in one fold. Not a feature.",
)
@click.option(
    "--time",
    metavar="COL",
    help="Column of times: the folds are consecutive blocks. Not a feature.",
)
@click.option(
    "--report",
    metavar="HTML",
    type=click.Path(path_type=Path),
    help="Write a report with figures to this file.",
)
@click.option(
    "--methods",
    "--method",
    "methods",
    metavar="A,B,...",
    type=MethodKeys(several=True),
    help="Methods to compare, separated by commas (default: all for the kind of target except "
    f"{ADDED}).",
)
@click.option(
    "--add",
    metavar="A,B,...",
    type=MethodKeys(several=True),
    help=f"Compare these methods as well, such as {ADDED}.",
)
@click.option(
    "--score",
    "--scoring",
    "score",
    metavar="SCORE",
    callback=check_score,
    help="Score to compare methods by: error (default), balanced_error (default if a class is "
    "rare), f1_macro, log_loss or roc_auc for classes; r2 (default) or mae for numbers.",
)
@click.option("--folds", type=click.IntRange(2), help="Number of folds (default: 5).")
@click.option(
    "--repeats",
    type=click.IntRange(1),
    help="Repetitions of the cross-validation (default: 10 for small tables, 1 for large ones).",
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
    parameters, such as the number of neighbours, are selected on the training rows only. Ctrl-C
    stops the comparison and shows the folds that are done. The exit code is 1 if no distance has a
    result.
    """
    source = data_source(data)
    if report is not None:
        _check_report(report, data)
    with progress_bar("compare", quiet=options["quiet"]) as advance:
        advance("reading", 0.0)
        X, y, target, encoder, notes = read_training(source, options, options["rows"])
        if options["dry_run"] or options["strict"]:
            roles = [options[role] for role in ("group", "time") if options[role]]
            show_columns(encoder.fit(X.drop(columns=roles)), notes, options)
        from genmetric.comparison import ComparisonInterrupted, compare_metrics

        methods = options["methods"]
        if options["add"]:
            listed = [m.key for m in find_methods(methods, target.task)]
            methods = [m.key for m in find_methods([*listed, *options["add"]], target.task)]
        interrupted = False
        try:
            found = compare_metrics(
                X,
                y,
                task=target.task,
                columns=encoder,
                methods=methods,
                scoring=options["score"],
                groups=options["group"],
                time=options["time"],
                n_splits=options["folds"],
                n_repeats=options["repeats"],
                max_samples=options["rows"],
                time_limit=options["time_limit"],
                title=data_name(data),
                random_state=options["seed"],
                progress=advance,
            )
        except ComparisonInterrupted as stop:
            found, interrupted = stop.comparison, True
    found.target, found.notes[:0] = target, notes[1:]
    step = _next_command(ctx, found, encoder.drop)
    if as_json:
        say(json.dumps({"target": options["target"], "reason": target.reason, **_values(found)}))
    else:
        say(f"{notes[0]}\n{found}" + (f"\n\nNext: {step}" if step else ""))
    if report is not None:
        from genmetric.report import write_report

        ids = options["id_column"]
        names = None if ids is None else [str(name) for name in X[ids].iloc[found.rows]]
        footers = [command_line("compare", ctx)]
        write_report(found, report, row_names=names, command=step, footers=footers)
        remark(f"{report} written.", quiet=options["quiet"])
    if interrupted:
        ctx.exit(130)
    if not any(result.has_map for result in found.ran):
        ctx.exit(1)


def _values(found: Comparison) -> dict[str, Any]:
    """Return a comparison as values of JSON, with the mean score of each method."""
    values = found.to_dict()
    for entry, result in zip(values["results"], found.results, strict=True):
        entry["score"] = None if result.skipped else float(found.scoring.score(result.error))
    return values


def _check_report(path: Path, *inputs: Path) -> None:
    """Check that a report can be written before anything is computed."""
    check_output(path, *inputs)
    import_optional("matplotlib", "report")
    import_optional("jinja2", "report")


def _next_command(ctx: click.Context, found: Comparison, dropped: Any) -> str:
    """Return the command that fits the recommended method on the same columns, if there is one."""
    from genmetric.cli.fit import fit

    if not found.recommended:
        return ""
    shared = {param.name or "" for param in fit.params} - {"quiet"}
    left_out = [name for name in found.encoder.drop if name not in dropped]
    left_out += [ctx.params[role] for role in ("group", "time") if ctx.params[role]]
    more = [word for name in left_out for word in ("--drop", name)]
    more += ["--method", found.recommended, "--output", "model.gm"]
    return command_line("fit", ctx, shared, more)


@click.command()
@click.option(
    "-o",
    "--report",
    metavar="HTML",
    default="genmetric-demo.html",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Report to write.",
)
@click.option("--no-report", is_flag=True, help="Do not write a report.")
@time_limit_option
@seed_option
@quiet_option
def demo(report: Path, no_report: bool, time_limit: float | None, seed: int, quiet: bool) -> None:
    """Compare metrics on datasets that come with the package, and write a report on one."""
    if not no_report:
        _check_report(report)
    from genmetric.comparison import compare_metrics
    from genmetric.datasets import load_dataset

    def compared(name: str, **options: Any) -> Comparison:
        loaded = load_dataset(name)
        with progress_bar(name, quiet=quiet) as advance:
            return compare_metrics(
                loaded.data,
                loaded.target_names[loaded.target],
                feature_names=loaded.feature_names,
                time_limit=time_limit,
                title=name,
                random_state=seed,
                progress=advance,
                **options,
            )

    say("Error rate of nearest neighbours in %, 5-fold cross-validation\n")
    for number, key in enumerate(DEMO_METHODS, start=1):
        say(f"  ({number}) {METHODS[key].label}")
    heads = "".join(f"{f'({number})':>8}" for number in range(1, len(DEMO_METHODS) + 1))
    say(f"\n{'dataset':<14}{'samples':>8}{'features':>10}{'classes':>9}{heads}")
    for name in DATASETS:
        found = compared(name, methods=DEMO_METHODS, n_splits=5, n_repeats=1)
        errors = "".join(f"{100 * found[key].error:>8.1f}" for key in DEMO_METHODS)
        sizes = f"{found.n_samples:>8}{found.n_features:>10}{len(found.class_names):>9}"
        say(f"{name:<14}{sizes}{errors}")
    found = compared(DATASETS[-1])
    say(f"\n{found}")
    if not no_report:
        from genmetric.report import write_report

        write_report(found, report, footers=["genmetric demo"])
        remark(f"{report} written: open it in a browser.", quiet=quiet)
