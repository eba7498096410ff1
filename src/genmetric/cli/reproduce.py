"""`genmetric reproduce`: the tables of the paper, recomputed; `genmetric datasets`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from genmetric.cli import options as opt
from genmetric.cli.output import progress_bar, remark, say
from genmetric.reproduction import TABLES

DIRECTORY = click.Path(exists=True, file_okay=False)


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@opt.option("--splits n_splits", "Random splits (default: as in the paper).", type=opt.COUNT)
@opt.option("--datasets", "Run these datasets only.", callback=opt.words, metavar="A,B")
@opt.option("--methods", "Run these methods only.", callback=opt.words, metavar="A,B")
@opt.option(
    "--output",
    "Directory for the scores, the tables and the report.",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("genmetric-study"),
)
@opt.option("--jobs n_jobs", "Number of processes (default: one per core).", type=opt.COUNT)
@opt.flag("--quick", "Run two splits of a few datasets, which takes minutes.")
@opt.option("--data-dir", "Directory with heart.csv.gz and mnist.npz.", type=DIRECTORY)
@opt.flag("--no-run", "Write the tables from stored scores without computing.")
def reproduce(tables: Sequence[str], output: Path, no_run: bool, **options: Any) -> int:
    """Recompute the tables of the paper and show them next to the published values.

    TABLE is small, large, nonlinear, density, clustering, timing, isomap or all. Every score is
    stored in OUTPUT/scores.jsonl when it is computed. Run the command again to continue after an
    interruption.
    """
    unknown = [name for name in tables if name not in (*TABLES, "all")]
    if unknown:
        raise click.UsageError(
            f"no table {unknown[0]!r}; the tables are {', '.join(TABLES)} and all."
        )
    from genmetric.reproduction import run_tables

    with progress_bar("reproduce") as advance:

        def progress(text: str, share: float) -> None:
            advance(text, share)
            if ": " in text:  # a dataset that is left out, or a task that failed
                remark(text)

        try:
            written, n_failed = run_tables(
                tables, output=output, compute=not no_run, progress=progress, **options
            )
        except KeyboardInterrupt:
            remark(f"Stopped. {output} has the scores so far; run the command again to continue.")
            raise
    say("Written: " + ", ".join(str(path) for path in written))
    return 1 if n_failed else 0


@click.command()
@opt.option("--data-dir", "Directory to search first (default: GENMETRIC_DATA).", type=DIRECTORY)
def datasets(data_dir: str | None) -> None:
    """List the datasets: samples, features, classes (or "number") and source."""
    from genmetric.datasets import CATALOGUE, find_dataset, list_datasets

    width = max(map(len, list_datasets()))
    line = f"{{:<{width}}}  {{:>7}}  {{:>8}}  {{:>7}}  {{}}"
    say(line.format("name", "samples", "features", "classes", "source"))
    for name in list_datasets():
        record, source = CATALOGUE[name], find_dataset(name, data_dir=data_dir)
        where = source or f"OpenML, or {record.filename} in --data-dir"
        classes = len(record.class_names) or "number"
        say(line.format(name, record.n_samples, record.n_features, classes, where))
