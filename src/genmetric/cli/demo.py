"""`genmetric demo`: metrics on embedded data sets, and a report on one of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genmetric.cli.compare import check_report, lines_of, make_report
from genmetric.cli.options import quiet_option, seed_option
from genmetric.cli.output import remark
from genmetric.cli.progress import progress_bar

if TYPE_CHECKING:
    from genmetric.study.comparison import Comparison

#: Sets of the table, smallest first, and the one of the report.
DATASETS = ("iris", "wine", "ionosphere", "breast_cancer", "vehicle", "german", "segment")
REPORTED = "vehicle"

#: Folds of all comparisons.
SPLITS = 5

#: Methods of the table; the report has all that are usual.
METHODS = ("euclidean", "standardised", "uniform", "energy")


@click.command()
@click.option(
    "-o",
    "--report",
    metavar="HTML",
    default="genmetric-demo.html",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Page to write.",
)
@click.option("--no-report", is_flag=True, help="Write no page.")
@seed_option
@quiet_option
def demo(report: Path, no_report: bool, seed: int, quiet: bool) -> None:
    """Compare metrics on data sets that come with the package, and write a report on one."""
    if not no_report:
        check_report(report)
    from genmetric.datasets import load_dataset
    from genmetric.study.compare import compare_metrics

    click.echo(f"Error of nearest neighbours in per cent, {SPLITS}-fold cross-validation\n")
    click.echo(
        f"{'data set':<14}{'rows':>6}{'features':>10}{'classes':>9}"
        f"{'Euclidean':>11}{'standard.':>11}{'M^UNI':>8}{'energy':>8}{'fit, ms':>9}"
    )
    click.echo("-" * 86)

    def compared(name: str, X: Any, y: Any, **options: Any) -> Comparison:
        with progress_bar(name, quiet=quiet) as advance:
            return compare_metrics(
                X,
                y,
                n_splits=SPLITS,
                n_repeats=1,
                title=name,
                random_state=seed,
                progress=advance,
                **options,
            )

    for name in DATASETS:
        data = load_dataset(name)
        found = compared(name, data.data, data.target, methods=METHODS)
        errors = [100 * result.error for result in found.results]
        click.echo(
            f"{name:<14}{found.n_samples:>6}{found.n_features:>10}{len(found.class_names):>9}"
            f"{errors[0]:>11.1f}{errors[1]:>11.1f}{errors[2]:>8.1f}{errors[3]:>8.1f}"
            f"{1000 * float(found['M^UNI'].fit_seconds.mean()):>9.0f}"
        )
    click.echo()
    data = load_dataset(REPORTED)
    X, y = data.data, data.target_names[data.target]
    found = compared(REPORTED, X, y, feature_names=data.feature_names)
    for line in lines_of(found):
        click.echo(line)
    if not no_report:
        make_report(found, X, y, report, "genmetric demo", seed=seed)
        remark(f"{report} written: open it in a browser.", quiet=quiet)
