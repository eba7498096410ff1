"""Every table from one call: run what is missing, print the tables, write Markdown, CSV, HTML."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from genmetric._text import did_you_mean
from genmetric.files import write_atomically
from genmetric.report import Picture, write_page
from genmetric.reproduction import TABLES
from genmetric.reproduction.experiments import EXPERIMENTS, Experiment
from genmetric.reproduction.isomap import isomap_table
from genmetric.reproduction.problems import PROBLEMS, load_problem
from genmetric.reproduction.runner import plan, read_scores, run
from genmetric.reproduction.tables import (
    Results,
    blocks,
    collect,
    csv_text,
    markdown_block,
    markdown_table,
    summary_table,
    text_block,
)


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
        Names of :data:`genmetric.reproduction.TABLES`; all of them by default.
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
    all_results = [collect(experiment, scores) for experiment in EXPERIMENTS.values()]
    all_results = [results for results in all_results if results.cells]
    isomap = isomap_table(data_dir, 150 if quick else 400) if "isomap" in wanted else ()
    shown = [blocks(results) for results in all_results if results.experiment in experiments]
    for block in [*itertools.chain(*shown), *isomap[:1]]:
        sys.stdout.write(text_block(block, shutil.get_terminal_size().columns) + "\n")
    written = _write_markdown(all_results, folder) if all_results else []
    try:
        written.append(_write_html(all_results, isomap, folder))
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


def _write_markdown(all_results: Sequence[Results], folder: Path) -> list[Path]:
    """Write a page with the tables of every experiment, and one CSV file of all cells.

    An existing page keeps its text, and its tables between ``<!-- NAME -->`` and ``<!-- end -->``
    are replaced.
    """
    path = folder / "paper.md"
    page = path.read_text("utf-8") if path.is_file() else "# The paper's tables, recomputed\n"
    parts = {"summary": markdown_table(summary_table(all_results))}
    for results in all_results:
        parts[results.experiment.name] = "\n".join(map(markdown_block, blocks(results)))
    for name, part in parts.items():
        title = EXPERIMENTS[name].title if name in EXPERIMENTS else "Agreement"
        start, end = f"<!-- {name} -->\n", "<!-- end -->\n"
        if start not in page:
            page += f"\n## {title}\n\n{start}{end}"
        head, _, rest = page.partition(start)
        page = f"{head}{start}\n{part}\n{end}{rest.partition(end)[2]}"
    texts = {path: page, folder / "results.csv": csv_text(all_results)}
    for file_path, text in texts.items():
        with write_atomically(file_path) as file:
            file.write(text.encode())
    return list(texts)


def _write_html(all_results: Sequence[Results], isomap: Sequence[Any], folder: Path) -> Path:
    """Write one HTML file with every table and figure."""
    sections: list[tuple[str, list[Any]]] = []
    sections += [(results.experiment.title, blocks(results)) for results in all_results]
    if isomap:
        sections.append(
            ("Isomap in learned metrics", [isomap[0], Picture(isomap[1], "Isomap of digits")])
        )
    lead = (
        "Every table of Shi, Noh, Sha and Lee (2011) under its protocol: all free parameters are "
        "selected on the validation samples, and the test samples are used once."
    )
    title = "The paper's tables, recomputed"
    return write_page(folder / "report.html", title, sections, lead=lead)
