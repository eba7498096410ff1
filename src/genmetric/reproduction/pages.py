"""Every table from one call: run what is missing, print the tables, write Markdown, CSV, HTML."""

from __future__ import annotations

import io
import os
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from genmetric._text import did_you_mean, import_optional
from genmetric.datasets import CATALOGUE
from genmetric.files import write_atomically
from genmetric.reproduction.experiments import EXPERIMENTS, Experiment
from genmetric.reproduction.isomap import digit_images, draw_embeddings, embed, embedding_scores
from genmetric.reproduction.isomap import metric_spaces as isomap_spaces
from genmetric.reproduction.names import TABLES
from genmetric.reproduction.problems import PROBLEMS, load_problem
from genmetric.reproduction.ranks import Ranking, critical_difference_diagram, mean_and_error
from genmetric.reproduction.runner import Store, Task, plan, run
from genmetric.reproduction.tables import (
    MARKS,
    Results,
    TextTable,
    collect,
    csv_text,
    joint_test_table,
    main_table,
    pm,
    rank_note,
    timing_table,
)

#: Text above this line of a page is written by hand and kept.
MARKER = "<!-- tables -->"


def run_tables(
    names: Sequence[str] = (),
    *,
    output: str | os.PathLike[str],
    n_splits: int | None = None,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    data_dir: str | None = None,
    n_jobs: int | None = None,
    quick: bool = False,
    compute: bool = True,
    progress: Callable[[str, float], Any] | None = None,
) -> tuple[list[Path], int]:
    """Recompute tables of the paper, print them, and write them next to the published values.

    Every score is stored in ``output/scores.jsonl`` when it is computed, so a run can be stopped
    and continued.

    Parameters
    ----------
    names : sequence of str, default=()
        Names of :data:`genmetric.reproduction.names.TABLES`; all of them by default.
    output : path-like
        Directory for the scores, the tables and the page.
    n_splits : int, default=None
        Number of random splits; that of the paper by default.
    datasets, methods : sequence of str, default=None
        Names to run; all by default.
    data_dir : str, default=None
        Directory with the files of datasets that are not bundled.
    n_jobs : int, default=None
        Number of processes; ``None`` is one per core.
    quick : bool, default=False
        Whether to run two splits of a few datasets only.
    compute : bool, default=True
        Whether to compute missing scores; otherwise the tables show the stored ones.
    progress : callable, default=None
        ``progress(text, fraction)`` is called after each task.

    Returns
    -------
    written : list of Path
        Files written.
    n_failed : int
        Number of tasks that failed; ``progress`` was told why.
    """
    wanted = list(TABLES) if not names or "all" in names else list(dict.fromkeys(names))
    _check_names("table", wanted, TABLES)
    experiments = [EXPERIMENTS[name] for name in wanted if name in EXPERIMENTS]
    if experiments:
        _check_names("dataset", datasets, {p for e in experiments for p in e.problems})
        _check_names("method", methods, {m.name for e in experiments for m in e.methods})
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    store, n_failed = Store(folder / "scores.jsonl"), 0
    if quick:
        n_splits = n_splits or 2
        datasets = datasets or [p for e in experiments for p in e.quick]
    if compute and experiments:
        cache = str(folder / "cache")
        found = _available(experiments, datasets, data_dir, cache, progress)
        tasks = plan(experiments, store.read(), problems=found, methods=methods, n_splits=n_splits)
        n_failed = _run_tasks(
            tasks, store, n_jobs or os.cpu_count() or 1, data_dir, cache, progress
        )
    records = store.read()
    all_results = [collect(experiment, records) for experiment in experiments]
    isomap = isomap_table(data_dir, 150 if quick else 400) if "isomap" in wanted else None
    _print_tables(all_results, isomap)
    written = write_files(all_results, folder)
    try:
        written.append(write_html(all_results, folder / "report.html", isomap))
    except ImportError as error:
        if progress is not None:
            progress(f"no page: {error}", 1.0)
    return written, n_failed


def _check_names(kind: str, given: Sequence[str] | None, known: Any) -> None:
    """Raise a ValueError for a name that is not known."""
    for name in given or ():
        if name not in known:
            there = ", ".join(sorted(known))
            hint = did_you_mean(name, known)
            raise ValueError(f"no {kind} {name!r}; the names are {there}. {hint}".strip())


def _available(
    experiments: Sequence[Experiment],
    datasets: Sequence[str] | None,
    data_dir: str | None,
    cache_dir: str,
    progress: Callable[[str, float], Any] | None,
) -> list[str]:
    """Return the datasets that can be loaded; tell how to get the others."""
    found = []
    for name in dict.fromkeys(p for e in experiments for p in e.problems):
        if datasets and name not in datasets:
            continue
        try:
            load_problem(PROBLEMS[name], data_dir, cache_dir)
            found.append(name)
        except (FileNotFoundError, ValueError) as error:
            if progress is not None:
                progress(f"{name} is left out: {error}", 0.0)
    if not found:
        raise ValueError("none of the datasets could be loaded. Name their directory: --data-dir.")
    return found


def _run_tasks(
    tasks: Sequence[Task],
    store: Store,
    n_jobs: int,
    data_dir: str | None,
    cache_dir: str,
    progress: Callable[[str, float], Any] | None,
) -> int:
    """Run tasks; timings one by one, without other processes."""
    n_done = n_failed = 0

    def report(task: Task, failure: str) -> None:
        nonlocal n_done
        n_done += 1
        if progress is not None:
            progress(f"{task}: {failure}" if failure else str(task), n_done / len(tasks))

    for timed in (False, True):
        chosen = [task for task in tasks if (task.methods[0].family == "timing") is timed]
        jobs = 1 if timed else n_jobs
        options: dict[str, Any] = {"data_dir": data_dir, "cache_dir": cache_dir}
        n_failed += run(chosen, store, n_jobs=jobs, report=report, **options)
    return n_failed


def _print_tables(all_results: Sequence[Results], isomap: tuple[TextTable, Any] | None) -> None:
    """Print the tables on the standard output."""
    console = import_optional("rich.console", "cli").Console()
    for results in all_results:
        for table in text_tables(results):
            console.print(*table.rich(console.width), sep="\n")
        for title, ranking in rankings(results).items():
            console.print(f"{title.capitalize()}. {rank_note(ranking)}\n", markup=False)
    if isomap is not None:
        console.print(*isomap[0].rich(console.width), sep="\n")


def text_tables(results: Results) -> list[TextTable]:
    """Make the tables of an experiment, the main table first."""
    if not results.cells:
        return []
    name = results.experiment.name
    if name == "timing":
        return [timing_table(results)]
    tables: list[TextTable | None] = [main_table(results)]
    if name == "clustering":
        tables.append(_adjusted_table(results))
    if name == "nonlinear":
        tables.append(_best_regions_table(results))
    if name == "large":
        tables += _rank_of_metrics(results)
    tables.append(joint_test_table(results))
    if name == "small":
        tables.append(_bayes_table(results))
    return [table for table in tables if table is not None]


def _adjusted_table(results: Results) -> TextTable:
    """Make the table of adjusted Rand indices."""
    rows = []
    for problem in results.problems:
        row = [PROBLEMS[problem].title]
        for method in results.methods:
            cell = results.cells.get((problem, method.name))
            found = [] if cell is None else [r.extra["adjusted"] for r in cell.records]
            row.append(pm(*mean_and_error(found), 3) if found else "")
        rows.append(row)
    columns = ["set", *(m.title for m in results.methods)]
    note = "The adjusted index puts chance at zero. The paper has none."
    return TextTable("Adjusted Rand index of the same clusters", columns, rows, note)


def _best_regions_table(results: Results) -> TextTable:
    """Make the table of P selected on the test samples, as in the paper, and by validation."""
    rows = []
    learned = ("mkl-1", "mkl-5", "mkl-10")
    for problem in results.problems:
        cells = [results.cells.get((problem, m)) for m in learned]
        chosen = results.cells.get((problem, "mkl"))
        known = [cell for cell in cells if cell is not None]
        if len(known) < len(learned) or chosen is None:
            continue
        best = min(known, key=lambda cell: cell.mean)
        printed = [cell.paper.mean for cell in known if cell.paper is not None]
        rows.append(
            [
                PROBLEMS[problem].title,
                pm(best.mean, best.stderr),
                f"{min(printed):.2f}" if printed else "",
                pm(chosen.mean, chosen.stderr),
            ]
        )
    columns = ["set", "best P on test", "paper: best P on test", "P by validation"]
    return TextTable("Choice of the number of regions P", columns, rows)


def _rank_of_metrics(results: Results) -> list[TextTable]:
    """Make the table of ranks of metrics, for the paper's remark on LMNN with 164 features."""
    rows = []
    for (problem, method), cell in results.cells.items():
        ranks = [r.extra["rank"] for r in cell.records if "rank" in r.extra]
        if method in ("lmnn", "uni", "uni-shrunk") and ranks:
            titles = {m.name: m.title for m in results.experiment.methods}
            means = [np.mean([rank[level] for rank in ranks]) for level in ranks[0]]
            size = PROBLEMS[problem].n_components or 16
            row = [PROBLEMS[problem].title, titles[method], str(size)]
            rows.append([*row, *(f"{value:.0f}" for value in means)])
    if not rows:
        return []
    columns = ["set", "metric", "features", "above 1e-2", "above 1e-4", "above 1e-6"]
    note = "Eigenvalues of the learned metric above a share of the largest, mean over splits."
    return [TextTable("Rank of the learned metrics", columns, rows, note)]


def _bayes_table(results: Results) -> TextTable | None:
    """Make the table of Bayes errors of the generated datasets."""
    rows = []
    for problem in results.problems:
        error = CATALOGUE[PROBLEMS[problem].dataset].bayes_error
        if error is not None:
            rows.append([PROBLEMS[problem].title, f"{100 * error:.2f}"])
    if not rows:
        return None
    return TextTable("Bayes error of generated sets, in %", ["set", "Bayes error"], rows)


def rankings(results: Results) -> dict[str, Ranking]:
    """Compute the rankings of an experiment that have enough datasets, by title."""
    found = {title: results.ranking(names) for title, names in results.experiment.ranked.items()}
    return {title: ranking for title, ranking in found.items() if ranking is not None}


def versions() -> str:
    """Return the versions of the packages that scores depend on, in one line."""
    names = ("genmetric", "numpy", "scipy", "scikit-learn")
    return ", ".join([f"Python {platform.python_version()}", *(f"{n} {version(n)}" for n in names)])


def markdown(results: Results, figure: str = "") -> str:
    """Write all tables and tests of an experiment as Markdown, with a diagram of ranks."""
    parts = [table.markdown() for table in text_tables(results)]
    found = rankings(results)
    if found:
        parts.append("## Ranks\n")
        parts += [f"{title.capitalize()}. {rank_note(r)}\n" for title, r in found.items()]
    if figure:
        parts.append(f"![Average ranks and critical difference]({figure})\n")
    return "\n".join(parts) + f"\n{versions()}.\n"


def write_files(all_results: Sequence[Results], output: Path) -> list[Path]:
    """Write Markdown of each experiment, one CSV file of all cells, and diagrams of ranks.

    An existing page keeps its text above the line ``<!-- tables -->``. Diagrams need matplotlib.
    """
    written = []
    for results in all_results:
        if not results.cells:
            continue
        figure = output / f"{results.experiment.name}_ranks.svg"
        found = rankings(results)
        drawn = bool(found) and _draw_ranks(next(iter(found.values())), figure)
        path = output / f"{results.experiment.name}.md"
        old = path.read_text("utf-8") if path.is_file() else ""
        head = old.partition(MARKER)[0] if MARKER in old else f"# {results.experiment.title}\n\n"
        text = markdown(results, figure.name if drawn else "")
        _write(path, f"{head}{MARKER}\n\n{text}".encode())
        written += [path, *([figure] if drawn else [])]
    if written:
        path = output / "results.csv"
        _write(path, csv_text([r for r in all_results if r.cells]).encode())
        written.append(path)
    return written


def _draw_ranks(ranking: Ranking, path: Path) -> bool:
    """Write the diagram; return False if matplotlib is not installed."""
    try:
        figure = critical_difference_diagram(ranking)
    except ImportError:
        return False
    # Without a date and random ids, the same ranks give the same file.
    with import_optional("matplotlib", "report").rc_context({"svg.hashsalt": "genmetric"}):
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    _write(path, drawn.getvalue())
    return True


def _write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    with write_atomically(path) as file:
        file.write(content)


def isomap_table(data_dir: str | None = None, n_each: int = 400) -> tuple[TextTable, Any]:
    """Make the paper's Isomap figure, and a table of its scores."""
    images = digit_images(data_dir=data_dir, n_each=n_each)
    y = images.shown[1]
    planes = embed(isomap_spaces(images))
    rows = []
    for name, plane in planes.items():
        error, silhouette = embedding_scores(plane, y)
        rows.append([name, f"{100 * error:.1f}", f"{silhouette:.3f}"])
    note = f"{len(y)} images of the digits 3, 5 and 9 at 7 x 7 pixels, from {images.source}."
    columns = ["metric", "1-NN error in the plane, %", "silhouette"]
    return TextTable("Isomap", columns, rows, note), draw_embeddings(planes, y)


def write_html(
    all_results: Sequence[Results], path: Path, isomap: tuple[TextTable, Any] | None
) -> Path:
    """Write one HTML file with every table and figure."""
    from genmetric.report import Picture, Table, write_page

    sections: list[tuple[str, list[Any]]] = []
    for results in all_results:
        blocks: list[Any] = [
            Table(t.columns, [[_page_cell(c) for c in row] for row in t.rows], t.title, note=t.note)
            for t in text_tables(results)
        ]
        for title, ranking in rankings(results).items():
            blocks.append(f"{title.capitalize()}. {rank_note(ranking)}")
            diagram = critical_difference_diagram(ranking)
            blocks.append(Picture(diagram, f"Average ranks, {title}"))
        if blocks:
            sections.append((results.experiment.title, blocks))
    if isomap is not None:
        table, figure = isomap
        shown = Table(table.columns, table.rows, table.note)
        sections.append(("Isomap in learned metrics", [shown, Picture(figure, "Isomap of digits")]))
    lead = (
        "Every table of Shi, Noh, Sha and Lee (2011) under its protocol: all free parameters are "
        "selected on the validation samples, and the test samples are used once."
    )
    title = "The paper's tables, recomputed"
    return Path(write_page(path, title, sections, lead=lead, footers=[versions()]))


def _page_cell(text: str) -> Any:
    """Make a cell that keeps mean and error on one line, coloured by its mark."""
    from genmetric.report import Cell

    marks = {MARKS["better"]: "good", MARKS["worse"]: "bad"}
    found = next((mark for sign, mark in marks.items() if text.endswith(sign)), None)
    return Cell(text.replace(" ± ", "\u00a0±\u00a0"), found)
