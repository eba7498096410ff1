"""``genmetric reproduce``: the paper's tables, computed anew, with progress and a store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from genmetric.study.experiments import Experiment

#: Kept apart from the study, which takes a second to import.
NAMES = ("small", "large", "nonlinear", "density", "clustering", "timing", "isomap")

#: Splits of --quick.
QUICK_SPLITS = 2


def _words(_ctx: click.Context, _param: click.Parameter, value: str | None) -> list[str] | None:
    """Names parted by commas."""
    if value is None:
        return None
    words = [word.strip() for word in value.split(",") if word.strip()]
    if not words:
        raise click.BadParameter("give one name or more, parted by commas")
    return words


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--splits", type=click.IntRange(1), help="Random splits [default: the paper's].")
@click.option("--datasets", callback=_words, metavar="A,B", help="Run these data sets alone.")
@click.option("--methods", callback=_words, metavar="A,B", help="Run these methods alone.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("genmetric-study"),
    show_default=True,
    help="Directory of the scores, the tables and the page.",
)
@click.option("--jobs", type=click.IntRange(1), help="Processes [default: one a core].")
@click.option("--quick", is_flag=True, help="Two splits of a few sets, in minutes.")
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False),
    help="Directory with heart.csv.gz and mnist.npz [default: GENMETRIC_DATA, else OpenML].",
)
@click.option("--no-run", is_flag=True, help="Write the tables from what is in the store.")
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
    """Compute the tables of the paper anew, its figures beside ours.

    TABLE is small, large, nonlinear, density, clustering, timing, isomap or all. Every score is
    kept in OUTPUT/scores.jsonl as soon as it is known: run the command again to go on after an
    interruption.
    """
    wanted = _wanted(tables)
    from genmetric.study.experiments import EXPERIMENTS
    from genmetric.study.store import Store

    experiments = [EXPERIMENTS[name] for name in wanted if name in EXPERIMENTS]
    _check_names(experiments, datasets, methods)
    if quick:
        splits = splits or QUICK_SPLITS
        if datasets is None:
            experiments = [replace(e, problems=e.quick) for e in experiments]
    store = Store(output / "scores.jsonl")
    n_failed = 0
    if not no_run and experiments:
        datasets = _available(experiments, datasets, data_dir, output)
        jobs = jobs or os.cpu_count() or 1
        n_failed = _run(experiments, store, splits, datasets, methods, jobs, data_dir, output)
    _show(experiments, wanted, store, output, data_dir, quick)
    return 1 if n_failed else 0


def _wanted(tables: Sequence[str]) -> list[str]:
    unknown = [name for name in tables if name not in (*NAMES, "all")]
    if unknown:
        raise click.UsageError(f"no table {unknown[0]!r}; there are {', '.join(NAMES)} and all")
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
            raise click.UsageError(f"{option}: no {unknown[0]!r}; there are {there}")


def _available(
    experiments: Sequence[Experiment],
    datasets: list[str] | None,
    data_dir: str | None,
    output: Path,
) -> list[str]:
    """The problems that can be loaded; the others are named, with the way to get them."""
    from genmetric.study.problems import PROBLEMS, load_problem

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
        raise click.ClickException("none of the data sets could be loaded")
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
    """Run what is missing, with a bar; the number of tasks that failed."""
    from genmetric._extras import need
    from genmetric.study.runner import Done, plan, run

    options = {"problems": datasets, "methods": methods, "n_splits": splits}
    done = store.read()
    all_tasks = plan(experiments, **options)  # type: ignore[arg-type]
    tasks = plan(experiments, **options, done=done)  # type: ignore[arg-type]
    if not tasks:
        return 0
    progress_module = need("rich.progress", "cli")
    console = need("rich.console", "cli").Console(stderr=True)
    progress = progress_module.Progress(
        progress_module.TextColumn("{task.description}"),
        progress_module.BarColumn(),
        progress_module.MofNCompleteColumn(),
        progress_module.TimeElapsedColumn(),
        progress_module.TextColumn("{task.fields[left]}"),
        console=console,
    )
    # A timing beside another process is the time of both.
    timed = [task for task in tasks if task.methods[0].family == "timing"]
    others = [task for task in tasks if task.methods[0].family != "timing"]
    failed: list[Done] = []
    with progress:
        bar = progress.add_task(
            "splits", total=len(all_tasks), completed=len(all_tasks) - len(tasks), left=""
        )

        def report(done: Done, left: float | None) -> None:
            problem, family = done.task.kind
            progress.update(
                bar,
                advance=1,
                description=f"{problem}, {family}, split {done.task.split}",
                left="" if left is None else f"{_clock(left)} left",
            )
            if done.failure:
                where = f"{problem}, {family}, split {done.task.split}"
                console.print(f"{where}: {done.failure}", markup=False)

        directories = {"data_dir": data_dir, "cache_dir": output / "cache"}
        try:
            failed += run(others, store, n_jobs=jobs, report=report, **directories)
            failed += run(timed, store, n_jobs=1, report=report, **directories)
        except KeyboardInterrupt:
            console.print(f"Stopped. {store.path} has all that was done; run again to go on.")
            raise
    return len(failed)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


def _show(
    experiments: Sequence[Experiment],
    wanted: Sequence[str],
    store: Any,
    output: Path,
    data_dir: str | None,
    quick: bool,
) -> None:
    """Print the tables and write the files."""
    from genmetric._extras import need
    from genmetric.study.output import (
        isomap_table,
        rankings,
        text_tables,
        write_files,
        write_page,
    )
    from genmetric.study.tables import collect, rank_note

    console = need("rich.console", "cli").Console()
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
        click.echo(f"No page: {error}", err=True)
    console.print("Written: " + ", ".join(str(path) for path in written), soft_wrap=True)
