"""`genmetric compare` and `genmetric demo`: which metric helps on a table, and how much."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genmetric._text import import_optional
from genmetric.cli import options as opt
from genmetric.cli.output import check_output, progress_bar, remark, say
from genmetric.comparison.methods import METHODS, SCORINGS, find_methods

if TYPE_CHECKING:
    from genmetric.comparison import Comparison

#: Datasets of the demonstration, smallest first, and its methods; the last has the report.
DATASETS = ("iris", "wine", "ionosphere", "breast_cancer", "german", "segment", "vehicle")
DEMO_METHODS = ("euclidean", "standardized", "generative", "energy")

ADDED = ",".join(key for key, method in METHODS.items() if not method.default)

SECONDS = click.FloatRange(0.1)
time_limit = opt.option("--time-limit", "Start no fold after this many seconds.", type=SECONDS)

#: Options that are parameters of `compare_metrics`.
PARAMETERS = ("scoring", "groups", "time", "n_splits", "n_repeats", "max_samples", "time_limit")


@click.command(cls=opt.MethodsHelp)
@opt.DATA
@opt.column_options
@opt.column("--group groups", "Keep rows of one value, such as a patient, in one fold.")
@opt.column("--time", "Make the folds consecutive blocks of this time; not a feature.")
@opt.option("--report", "Write a report with figures.", metavar="HTML", type=opt.OUTPUT)
@opt.option(
    "--methods --method methods",
    f"Methods to compare (default: all for the kind of target except {ADDED}).",
    metavar="A,B,...",
    callback=opt.method_keys,
)
@opt.option("--add", "Compare these as well.", metavar="A,B,...", callback=opt.method_keys)
@opt.option(
    "--score --scoring scoring",
    "error (default), balanced_error (default if a class is rare), f1_macro, log_loss or roc_auc "
    "for classes; r2 (default) or mae for numbers.",
    type=click.Choice(list(SCORINGS)),
    metavar="NAME",
)
@opt.option("--folds n_splits", "Number of folds (default: 5).", type=click.IntRange(2))
@opt.option("--repeats n_repeats", "Repetitions (default: by size, 1 to 4).", type=opt.COUNT)
@opt.option("--rows max_samples", "Rows to sample.", type=click.IntRange(20), default=20_000)
@time_limit
@opt.flag("--json as_json", "Print all results as JSON.")
@opt.seed
@opt.quiet
@click.pass_context
def compare(
    ctx: click.Context, /, data: Path, report: Path | None, as_json: bool, **options: Any
) -> None:
    """Compare metrics on DATA by cross-validation: scores, times and a recommendation.

    Each method is fitted on the training rows of a fold and evaluated on the other rows. Its
    parameters, such as the number of neighbours, are selected on the training rows only. Press
    Ctrl-C to stop early; finished folds are still reported. The exit code is 1 if every distance
    method failed or was skipped.
    """
    source = opt.data_source(data)
    if report is not None:
        _check_report(report, data)
    with progress_bar("compare", quiet=options["quiet"]) as advance:
        advance("reading", 0.0)
        X, y, target, encoder, notes = opt.read_training(source, options, options["max_samples"])
        if options["dry_run"] or options["strict"]:
            roles = [options[role] for role in ("groups", "time") if options[role]]
            opt.show_columns(encoder.fit(X.drop(columns=roles)), notes, options)
        from genmetric.comparison import ComparisonInterrupted, compare_metrics

        methods = options["methods"]
        if options["add"]:
            methods = [*(m.key for m in find_methods(methods, target.task)), *options["add"]]
        interrupted = False
        try:
            found = compare_metrics(
                X,
                y,
                task=target.task,
                columns=encoder,
                methods=methods,
                title=opt.data_name(data),
                random_state=options["seed"],
                progress=advance,
                **{name: options[name] for name in PARAMETERS},
            )
        except ComparisonInterrupted as stop:
            found, interrupted = stop.comparison, True
    found.target, found.notes[:0] = target, notes[1:]
    step = _next_command(ctx, found, encoder.drop)
    if as_json:
        values = {**found.to_dict(), "target": target.name, "reason": target.reason}
        for entry, result in zip(values["results"], found.results, strict=True):
            entry["score"] = None if result.skipped else float(found.scoring.score(result.error))
        say(json.dumps(values))
    else:
        say(f"{notes[0]}\n{found}" + (f"\n\nNext: {step}" if step else ""))
    if report is not None:
        from genmetric.report import write_report

        ids = options["id_column"]
        names = None if ids is None else [str(name) for name in X[ids].iloc[found.rows]]
        footers = [shlex.join(["genmetric", *ctx.obj])]
        write_report(found, report, row_names=names, command=step, footers=footers)
        remark(f"{report} written.", quiet=options["quiet"])
    if interrupted:
        ctx.exit(130)
    if not any(result.has_map for result in found.ran):
        ctx.exit(1)


def _check_report(path: Path, *inputs: Path) -> None:
    """Check that a report can be written before anything is computed."""
    check_output(path, *inputs)
    for package in ("matplotlib", "jinja2"):
        import_optional(package, "report")


def _next_command(ctx: click.Context, found: Comparison, dropped: Any) -> str:
    """Return the command that fits the recommended method on the same columns, if there is one."""
    from genmetric.cli.fit import fit

    if not found.recommended:
        return ""
    words = ["genmetric", "fit", str(ctx.params["data"])]
    for param in fit.params:
        name, source = param.name or "", ctx.get_parameter_source(param.name or "")
        if name in ("data", "quiet") or source is None or source.name != "COMMANDLINE":
            continue
        value = ctx.params[name]
        if value is True or value is False:
            words += (param.opts if value else param.secondary_opts)[-1:]
        else:
            for one in value if isinstance(value, tuple) else [value]:
                words += [param.opts[-1], str(one)]
    left_out = [name for name in found.encoder.drop if name not in dropped]
    left_out += [ctx.params[role] for role in ("groups", "time") if ctx.params[role]]
    words += [word for name in left_out for word in ("--drop", name)]
    return shlex.join([*words, "--method", found.recommended, "--output", "model.gm"])


@click.command()
@opt.option("-o --report", "Report to write.", type=opt.OUTPUT, default="genmetric-demo.html")
@opt.flag("--no-report", "Do not write a report.")
@time_limit
@opt.seed
@opt.quiet
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
    say("".join(f"{title:<15}" for title in ("dataset", "samples", "features", *DEMO_METHODS)))
    for name in DATASETS:
        found = compared(name, methods=DEMO_METHODS, n_splits=5, n_repeats=1)
        errors = (f"{100 * found[key].error:.1f}" for key in DEMO_METHODS)
        say("".join(f"{x:<15}" for x in (name, found.n_samples, found.n_features, *errors)))
    found = compared(DATASETS[-1])
    say(f"\n{found}")
    if not no_report:
        from genmetric.report import write_report

        write_report(found, report, footers=["genmetric demo"])
        remark(f"{report} written: open it in a browser.", quiet=quiet)
