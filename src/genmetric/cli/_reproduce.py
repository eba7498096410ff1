"""`genmetric reproduce`: the tables of the paper, recomputed."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from genmetric.cli._output import check_output
from genmetric.cli._progress import progress_bar

if TYPE_CHECKING:
    from genmetric.reproduction._experiments import Experiment

#: Names of the tables; a copy, because importing the reproduction takes a second.
NAMES = ("small", "large", "nonlinear", "density", "clustering", "timing", "isomap")

#: Number of splits with --quick.
QUICK_SPLITS = 2


def _words(_ctx: click.Context, _param: click.Parameter, value: str | None) -> list[str] | None:
    """Split a comma-separated list."""
    if value is None:
        return None
    words = [word.strip() for word in value.split(",") if word.strip()]
    if not words:
        raise click.BadParameter("expected one or more names separated by commas.")
    return words


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option(
    "--splits", type=click.IntRange(1), help="Number of random splits (default: as in the paper)."
)
@click.option("--datasets", callback=_words, metavar="A,B", help="Run these datasets only.")
@click.option("--methods", callback=_words, metavar="A,B", help="Run these methods only.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("genmetric-study"),
    show_default=True,
    help="Directory for the scores, the tables and the report.",
)
@click.option("--jobs", type=click.IntRange(1), help="Number of processes (default: one per core).")
@click.option(
    "--quick", is_flag=True, help="Run two splits of a few datasets, which takes minutes."
)
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False),
    help="Directory with heart.csv.gz and mnist.npz (default: GENMETRIC_DATA, else OpenML).",
)
@click.option(
    "--no-run", is_flag=True, help="Write the tables from stored scores without computing."
)
def reproduce(
    tables: Sequence[str],
    splits: int | None,
    datasets: list[str] | None,
    methods: list[str] | None,
    output: Path,
    jobs: int | None,
    quick: bool,
    data_dir: str | None,
    no_run: bool,
) -> int:
    """Recompute the tables of the paper and show them next to the published values.

    TABLE is small, large, nonlinear, density, clustering, timing, isomap or all. Every score is
    stored in OUTPUT/scores.jsonl when it is computed. Run the command again to continue after an
    interruption.
    """
    wanted = _wanted(tables)
    from genmetric.reproduction._experiments import EXPERIMENTS
    from genmetric.reproduction._store import Store

    experiments = [EXPERIMENTS[name] for name in wanted if name in EXPERIMENTS]
    _check_names(experiments, datasets, methods)
    if quick:
        splits = splits or QUICK_SPLITS
        if datasets is None:
            experiments = [replace(e, problems=e.quick) for e in experiments]
    names = ["scores.jsonl", "results.csv", "report.html", *(f"{e.name}.md" for e in experiments)]
    check_directory(output, names)
    store = Store(output / "scores.jsonl")
    n_failed = 0
    if not no_run and experiments:
        datasets = _available(experiments, datasets, data_dir, output)
        jobs = jobs or os.cpu_count() or 1
        n_failed = _run(experiments, store, splits, datasets, methods, jobs, data_dir, output)
    _show(experiments, wanted, store, output, data_dir, quick)
    return 1 if n_failed else 0


def check_directory(output: Path, names: Sequence[str]) -> None:
    """Create a directory and check that files can be written there, before anything is computed.

    Parameters
    ----------
    output : Path
        The directory.
    names : sequence of str
        Files that will be written; existing ones are not changed.
    """
    output.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = output / name
        check_output(path)
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _wanted(tables: Sequence[str]) -> list[str]:
    unknown = [name for name in tables if name not in (*NAMES, "all")]
    if unknown:
        raise click.UsageError(
            f"no table {unknown[0]!r}; the tables are {', '.join(NAMES)} and all."
        )
    return list(NAMES) if not tables or "all" in tables else list(dict.fromkeys(tables))


def _check_names(
    experiments: Sequence[Experiment], datasets: list[str] | None, methods: list[str] | None
) -> None:
    for option, given, names in (
        ("--datasets", datasets, {p for e in experiments for p in e.problems}),
        ("--methods", methods, {m.name for e in experiments for m in e.methods}),
    ):
        unknown = [name for name in given or [] if name not in names]
        if unknown and experiments:
            there = ", ".join(sorted(names))
            raise click.UsageError(f"{option}: no {unknown[0]!r}; the names are {there}.")


def _available(
    experiments: Sequence[Experiment],
    datasets: list[str] | None,
    data_dir: str | None,
    output: Path,
) -> list[str]:
    """Return the datasets that can be loaded; report how to get the others."""
    from genmetric.reproduction._problems import PROBLEMS, load_problem

    names = list(dict.fromkeys(p for e in experiments for p in e.problems))
    found, missing = [], {}
    for name in names:
        if datasets is not None and name not in datasets:
            continue
        try:
            load_problem(PROBLEMS[name], data_dir, str(output / "cache"))
            found.append(name)
        except (FileNotFoundError, ValueError) as error:
            missing[name] = str(error)
    for name, reason in missing.items():
        click.echo(f"{name} is left out: {reason}", err=True)
    if not found:
        raise click.ClickException("none of the datasets could be loaded.")
    return found


def _run(
    experiments: Sequence[Experiment],
    store: Any,
    splits: int | None,
    datasets: list[str],
    methods: list[str] | None,
    jobs: int,
    data_dir: str | None,
    output: Path,
) -> int:
    """Run the missing tasks with a progress bar; return the number of tasks that failed."""
    from genmetric.reproduction._runner import Done, plan, run

    tasks = plan(
        experiments, problems=datasets, methods=methods, n_splits=splits, done=store.read()
    )
    # Timings are taken without other processes.
    timed = [task for task in tasks if task.methods[0].family == "timing"]
    others = [task for task in tasks if task.methods[0].family != "timing"]
    failed: list[Done] = []
    start = perf_counter()
    with progress_bar("reproduce") as advance:

        def report(done: Done, left: float | None) -> None:
            problem, family = done.task.kind
            name = f"{problem}, {family}, split {done.task.split}"
            elapsed = perf_counter() - start
            advance(name, 0.0 if left is None else elapsed / (elapsed + left))
            if done.failure:
                with advance.pause():
                    click.echo(f"{name}: {done.failure}", err=True)

        directories = {"data_dir": data_dir, "cache_dir": output / "cache"}
        try:
            failed += run(others, store, n_jobs=jobs, report=report, **directories)
            failed += run(timed, store, n_jobs=1, report=report, **directories)
        except KeyboardInterrupt:
            click.echo(
                f"Stopped. {store.path} has the results so far; run the command again to continue.",
                err=True,
            )
            raise
    return len(failed)


def _show(
    experiments: Sequence[Experiment],
    wanted: Sequence[str],
    store: Any,
    output: Path,
    data_dir: str | None,
    quick: bool,
) -> None:
    """Print the tables and write the files."""
    from genmetric._optional import import_optional
    from genmetric.reproduction._pages import (
        isomap_table,
        rankings,
        text_tables,
        write_files,
        write_page,
    )
    from genmetric.reproduction._tables import collect, rank_note

    console = import_optional("rich.console", "cli").Console()
    records = store.read()
    all_results = [collect(experiment, records) for experiment in experiments]
    for results in all_results:
        for table in text_tables(results):
            console.print(*table.rich(console.width), sep="\n")
        for title, ranking in rankings(results).items():
            console.print(f"{title.capitalize()}. {rank_note(ranking)}\n", markup=False)
    written = write_files(all_results, output)
    isomap = None
    if "isomap" in wanted:
        isomap = isomap_table(data_dir, n_each=150 if quick else 400)
        console.print(*isomap[0].rich(console.width), sep="\n")
    try:
        written.append(write_page(all_results, output / "report.html", isomap=isomap))
    except ImportError as error:
        click.echo(f"No report: {error}", err=True)
    console.print("Written: " + ", ".join(str(path) for path in written), soft_wrap=True)
