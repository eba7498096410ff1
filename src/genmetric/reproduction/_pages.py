"""Output of a run: tables for the terminal, Markdown, CSV, and a page with the figures."""

from __future__ import annotations

import io
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from genmetric._atomic import replacing
from genmetric._optional import import_optional
from genmetric.datasets import CATALOGUE
from genmetric.reproduction._experiments import EXPERIMENTS
from genmetric.reproduction._isomap import digit_images, draw_embeddings, embed, embedding_scores
from genmetric.reproduction._isomap import metric_spaces as isomap_spaces
from genmetric.reproduction._joint_test import joint_test_table
from genmetric.reproduction._problems import PROBLEMS
from genmetric.reproduction._ranks import Ranking, critical_difference_diagram, mean_and_error
from genmetric.reproduction._tables import (
    MARKS,
    Results,
    TextTable,
    csv_text,
    main_table,
    pm,
    rank_note,
    timing_table,
)

#: All tables of `genmetric reproduce`, in order.
TABLES = (*EXPERIMENTS, "isomap")


def text_tables(results: Results) -> list[TextTable]:
    """Make the tables of an experiment.

    Parameters
    ----------
    results : Results
        Its cells.

    Returns
    -------
    list of TextTable
        The main table first, then those that belong to it.
    """
    if not results.cells:
        return []
    name = results.experiment.name
    if name == "timing":
        return [timing_table(results)]
    tables = [main_table(results)]
    if any(cell.refits for cell in results.cells.values()):
        tables.append(main_table(results, refit=True))
    if name == "clustering":
        tables.append(_adjusted_table(results))
    if name == "nonlinear":
        tables.append(_best_regions_table(results))
    if name == "large":
        tables += _rank_of_metrics(results)
    joint = joint_test_table(results) if name in ("small", "density") else None
    bayes = _bayes_table(results) if name == "small" else None
    return [*tables, *(table for table in (joint, bayes) if table is not None)]


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
    return TextTable("Bayes error of generated sets, in per cent", ["set", "Bayes error"], rows)


def rankings(results: Results) -> dict[str, Ranking]:
    """Compute the rankings of an experiment that have enough datasets, by title."""
    found = {}
    for title, names in results.experiment.ranked.items():
        for refit, ending in ((False, ""), (True, ", training and validation samples")):
            ranking = results.ranking(names, refit=refit)
            if ranking is not None:
                found[title + ending] = ranking
    return found


def versions() -> str:
    """Return the versions of the packages that scores depend on, in one line."""
    from importlib.metadata import version

    names = ("genmetric", "numpy", "scipy", "scikit-learn")
    return ", ".join([f"Python {platform.python_version()}", *(f"{n} {version(n)}" for n in names)])


#: Text above this line of a page is written by hand and kept.
MARKER = "<!-- tables -->"


def markdown(results: Results, *, figure: str = "") -> str:
    """Write all tables and tests of an experiment as Markdown.

    Parameters
    ----------
    results : Results
        Its cells.
    figure : str, default=""
        File of the critical-difference diagram, relative to the page.

    Returns
    -------
    str
        Text.
    """
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

    An existing page keeps its text above the line ``<!-- tables -->``.

    Parameters
    ----------
    all_results : sequence of Results
        Experiments; those without scores are left out.
    output : Path
        Directory.

    Returns
    -------
    list of Path
        Files written. Diagrams need matplotlib and are left out without it.
    """
    output.mkdir(parents=True, exist_ok=True)
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
        text = markdown(results, figure=figure.name if drawn else "")
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
    """Write a file completely or not at all; an error has its name."""
    with replacing(path) as file:
        file.write(content)


def isomap_table(data_dir: str | None = None, *, n_each: int = 400) -> tuple[TextTable, Any]:
    """Make the paper's Isomap figure, and a table of its scores.

    Parameters
    ----------
    data_dir : str, default=None
        Directory that may contain MNIST.
    n_each : int, default=400
        Number of images per digit.

    Returns
    -------
    table : TextTable
        1-NN error and silhouette of each embedding.
    figure : matplotlib.figure.Figure
        The embeddings.
    """
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


def _page_cell(text: str) -> Any:
    """Make a cell that keeps mean and error on one line, coloured by its mark."""
    from genmetric.report import Cell

    marks = {MARKS["better"]: "good", MARKS["worse"]: "bad"}
    found = next((mark for sign, mark in marks.items() if text.endswith(sign)), None)
    return Cell(text.replace(" ± ", "\u00a0±\u00a0"), found)


def write_page(
    all_results: Sequence[Results], path: Path, *, isomap: tuple[TextTable, Any] | None = None
) -> Path:
    """Write one HTML file with every table and figure.

    Parameters
    ----------
    all_results : sequence of Results
        Experiments.
    path : Path
        The file.
    isomap : (TextTable, Figure), default=None
        From :func:`isomap_table`.

    Returns
    -------
    Path
        The file.
    """
    from genmetric.report import Page

    page = Page(
        "The paper's tables, recomputed",
        lead="Every table of Shi, Noh, Sha and Lee (2011) under its protocol: all free parameters are "
        "selected on the validation samples, and the test samples are used once.",
    )
    for results in all_results:
        tables = text_tables(results)
        if not tables:
            continue
        section = page.section(results.experiment.title)
        for table in tables:
            rows = [[_page_cell(text) for text in row] for row in table.rows]
            section.table(table.columns, rows, caption=table.title)
            if table.note:
                section.paragraph(table.note, note=True)
        for title, ranking in rankings(results).items():
            section.paragraph(f"{title.capitalize()}. {rank_note(ranking)}")
            section.figure(critical_difference_diagram(ranking), caption=f"Average ranks, {title}")
    if isomap is not None:
        table, figure = isomap
        section = page.section("Isomap in learned metrics")
        section.table(table.columns, table.rows, caption=table.note)
        section.figure(figure, caption="Isomap of digits")
    page.footer(versions())
    return page.write(path)
