"""`genmetric demo`: metrics on bundled datasets, and a report on one of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genmetric.cli._compare import ResultPrinter, check_report, finish
from genmetric.cli._options import quiet_option, seed_option, time_limit_option
from genmetric.cli._output import remark
from genmetric.cli._progress import progress_bar

if TYPE_CHECKING:
    from genmetric.comparison import Comparison

#: Datasets of the table, smallest first, and the dataset of the report.
DATASETS = ("iris", "wine", "ionosphere", "breast_cancer", "vehicle", "german", "segment")
REPORTED = "vehicle"

#: Folds of all comparisons.
SPLITS = 5

#: Methods of the table; the report has the default methods of a comparison.
METHODS = ("euclidean", "standardised", "uniform", "energy")


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
def demo(report: Path, no_report: bool, time_limit: float, seed: int, quiet: bool) -> None:
    """Compare metrics on datasets that come with the package, and write a report on one."""
    if not no_report:
        check_report(report)
    from genmetric.comparison import DEFAULT_METHODS, compare_metrics
    from genmetric.comparison import METHODS as REGISTRY
    from genmetric.datasets import load_dataset

    def compared(name: str, X: Any, y: Any, *, show: bool = False, **options: Any) -> Comparison:
        with progress_bar(name, quiet=quiet) as advance:
            return compare_metrics(
                X,
                y,
                n_splits=SPLITS,
                n_repeats=1,
                time_limit=time_limit,
                title=name,
                random_state=seed,
                progress=advance,
                on_result=ResultPrinter(DEFAULT_METHODS, advance) if show else None,
                **options,
            )

    click.echo(f"Error rate of nearest neighbours in per cent, {SPLITS}-fold cross-validation\n")
    for number, key in enumerate(METHODS, start=1):
        click.echo(f"  ({number}) {REGISTRY[key].label}")
    heads = "".join(f"{f'({number})':>8}" for number, _ in enumerate(METHODS, start=1))
    click.echo(f"\n{'dataset':<14}{'samples':>8}{'features':>10}{'classes':>9}{heads}")
    click.echo("-" * (41 + 8 * len(METHODS)))
    for name in DATASETS:
        data = load_dataset(name)
        found = compared(name, data.data, data.target, methods=METHODS)
        errors = "".join(f"{100 * found[key].error:>8.1f}" for key in METHODS)
        click.echo(
            f"{name:<14}{found.n_samples:>8}{found.n_features:>10}{len(found.class_names):>9}{errors}"
        )
    click.echo()
    data = load_dataset(REPORTED)
    y = data.target_names[data.target]
    found = compared(REPORTED, data.data, y, show=True, feature_names=data.feature_names)
    finish(found)
    if not no_report:
        found.report(report, footers=["genmetric demo"])
        remark(f"{report} written: open it in a browser.", quiet=quiet)
