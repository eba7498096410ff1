"""Every table from one call: run what is missing, print the tables, write Markdown, CSV, HTML."""

from __future__ import annotations

import io
import os
import platform
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from genmetric._text import did_you_mean, import_optional
from genmetric.files import write_atomically
from genmetric.report import Cell, Picture, Table, write_page
from genmetric.reproduction.experiments import EXPERIMENTS, Experiment
from genmetric.reproduction.isomap import isomap_table
from genmetric.reproduction.names import TABLES
from genmetric.reproduction.problems import PROBLEMS, load_problem
from genmetric.reproduction.ranks import Ranking, critical_difference_diagram
from genmetric.reproduction.runner import plan, read_scores, run
from genmetric.reproduction.tables import (
    MARKS,
    Results,
    all_tables,
    collect,
    csv_text,
    markdown_table,
    rank_note,
    text_table,
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
    tell = progress or (lambda *_: None)
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    path, n_failed = folder / "scores.jsonl", 0
    if quick:
        n_splits = n_splits or 2
        datasets = datasets or [p for e in experiments for p in e.quick]
    if compute and experiments:
        places = {"data_dir": data_dir, "cache_dir": str(folder / "cache")}
        found = _available(experiments, datasets, tell, **places)
        done = read_scores(path)
        tasks = plan(experiments, done, problems=found, methods=methods, n_splits=n_splits)
        n_jobs = n_jobs or os.cpu_count() or 1
        n_failed = run(tasks, path, n_jobs=n_jobs, progress=tell, **places)
    scores = read_scores(path)
    all_results = [collect(experiment, scores) for experiment in experiments]
    isomap = isomap_table(data_dir, 150 if quick else 400) if "isomap" in wanted else None
    _print_tables(all_results, isomap)
    written = write_files(all_results, folder)
    try:
        written.append(write_html(all_results, folder / "report.html", isomap))
    except ImportError as error:
        tell(f"no page: {error}", 1.0)
    return written, n_failed


def _check_names(kind: str, given: Sequence[str] | None, known: Any) -> None:
    """Raise a ValueError for a name that is not known."""
    for name in given or ():
        if name not in known:
            there, hint = ", ".join(sorted(known)), did_you_mean(name, known)
            raise ValueError(f"no {kind} {name!r}; the names are {there}. {hint}".strip())


def _available(
    experiments: Sequence[Experiment],
    datasets: Sequence[str] | None,
    progress: Callable[[str, float], Any],
    **places: Any,
) -> list[str]:
    """Return the datasets that can be loaded; tell how to get the others."""
    found = []
    for name in dict.fromkeys(p for e in experiments for p in e.problems):
        if not datasets or name in datasets:
            try:
                load_problem(PROBLEMS[name], **places)
                found.append(name)
            except (FileNotFoundError, ValueError) as error:
                progress(f"{name} is left out: {error}", 0.0)
    if not found:
        raise ValueError("none of the datasets could be loaded. Name their directory: --data-dir.")
    return found


def _print_tables(all_results: Sequence[Results], isomap: tuple[Table, Any] | None) -> None:
    """Print the tables on the standard output."""
    width = shutil.get_terminal_size().columns
    for results in all_results:
        for table in all_tables(results):
            sys.stdout.write(text_table(table, width) + "\n")
        for title, ranking in results.rankings().items():
            sys.stdout.write(f"{title.capitalize()}. {rank_note(ranking)}\n\n")
    if isomap is not None:
        sys.stdout.write(text_table(isomap[0], width))


def versions() -> str:
    """Return the versions of the packages that scores depend on, in one line."""
    names = ("genmetric", "numpy", "scipy", "scikit-learn")
    return ", ".join([f"Python {platform.python_version()}", *(f"{n} {version(n)}" for n in names)])


def write_files(all_results: Sequence[Results], output: Path) -> list[Path]:
    """Write Markdown of each experiment, one CSV file of all cells, and diagrams of ranks.

    An existing page keeps its text above the line ``<!-- tables -->``. Diagrams need matplotlib.
    """
    written: list[Path] = []
    for results in filter(lambda results: results.cells, all_results):
        name = results.experiment.name
        parts = [markdown_table(table) for table in all_tables(results)]
        found = results.rankings()
        if found:
            parts.append("## Ranks\n")
            parts += [f"{title.capitalize()}. {rank_note(r)}\n" for title, r in found.items()]
            figure = output / f"{name}_ranks.svg"
            if _draw_ranks(next(iter(found.values())), figure):
                parts.append(f"![Average ranks and critical difference]({figure.name})\n")
                written.append(figure)
        path = output / f"{name}.md"
        old = path.read_text("utf-8") if path.is_file() else ""
        head = old.partition(MARKER)[0] if MARKER in old else f"# {results.experiment.title}\n\n"
        body = "\n".join(parts)
        _write(path, f"{head}{MARKER}\n\n{body}\n{versions()}.\n".encode())
        written.append(path)
    if written:
        written.append(output / "results.csv")
        _write(written[-1], csv_text(all_results).encode())
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


def write_html(
    all_results: Sequence[Results], path: Path, isomap: tuple[Table, Any] | None
) -> Path:
    """Write one HTML file with every table and figure."""
    sections: list[tuple[str, list[Any]]] = []
    for results in filter(lambda results: results.cells, all_results):
        blocks: list[Any] = [
            replace(table, rows=[[_page_cell(text) for text in row] for row in table.rows])
            for table in all_tables(results)
        ]
        for title, ranking in results.rankings().items():
            blocks.append(f"{title.capitalize()}. {rank_note(ranking)}")
            diagram = critical_difference_diagram(ranking)
            blocks.append(Picture(diagram, f"Average ranks, {title}"))
        sections.append((results.experiment.title, blocks))
    if isomap is not None:
        blocks = [replace(isomap[0], caption=""), Picture(isomap[1], "Isomap of digits")]
        sections.append((isomap[0].caption, blocks))
    lead = (
        "Every table of Shi, Noh, Sha and Lee (2011) under its protocol: all free parameters are "
        "selected on the validation samples, and the test samples are used once."
    )
    title = "The paper's tables, recomputed"
    return write_page(path, title, sections, lead=lead, footers=[versions()])


def _page_cell(text: str) -> Cell:
    """Make a cell that keeps mean and error on one line, coloured by its mark."""
    better, worse = text.endswith(MARKS["better"]), text.endswith(MARKS["worse"])
    mark = "good" if better else "bad" if worse else ""
    return Cell(text.replace(" ± ", "\u00a0±\u00a0"), mark)
