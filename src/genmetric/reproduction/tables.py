"""Tables of an experiment from stored scores: means next to those of the paper, and their tests."""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2, rankdata

from genmetric._text import import_optional
from genmetric._typing import ArrayLike
from genmetric.datasets import CATALOGUE
from genmetric.report import Table
from genmetric.reproduction.experiments import REASONS, Experiment, Figure, protocol
from genmetric.reproduction.methods import Method
from genmetric.reproduction.problems import PROBLEMS
from genmetric.reproduction.ranks import mean_and_error, rank_methods
from genmetric.reproduction.runner import Key, Score

#: Text of the marks.
MARKS = {"": "", "better": "(+)", "worse": "(−)"}


class Cell(NamedTuple):
    """Mean test score of one method on one dataset, its standard error, and the published value.

    `z` is the difference in units of the combined standard error, positive if our score is larger;
    `mark` is "better" or "worse" than the paper by more than two of them, or empty.
    """

    mean: float
    stderr: float
    n_splits: int
    paper: Figure | None
    z: float
    mark: str


@dataclass(frozen=True)
class Results:
    """All cells of an experiment that have a score, by the names of dataset and method.

    `long` has the cells for which more splits are stored than the paper has, with all of them;
    `versions` are those of the code that computed the scores.
    """

    experiment: Experiment
    cells: Mapping[tuple[str, str], Cell]
    long: Mapping[tuple[str, str], Cell]
    versions: Sequence[str]

    @property
    def problems(self) -> list[str]:
        """Datasets with a score, in the order of the paper."""
        return [p for p in self.experiment.problems if any(k[0] == p for k in self.cells)]

    @property
    def methods(self) -> list[Method]:
        """Methods with a score, in the order of the paper."""
        return [m for m in self.experiment.methods if any(k[1] == m.name for k in self.cells)]

    def compared(self, methods: Sequence[str], *, generated: bool = False) -> list[tuple[str, str]]:
        """Return the cells whose difference from the paper can be tested."""
        return [
            (problem, method)
            for problem in self.problems
            if generated or CATALOGUE[PROBLEMS[problem].dataset].home != "generated"
            for method in methods
            if np.isfinite(getattr(self.cells.get((problem, method)), "z", np.nan))
        ]


def collect(experiment: Experiment, scores: Mapping[Key, Score]) -> Results:
    """Collect the cells of an experiment from stored scores of the current protocol."""
    groups: dict[tuple[str, str, str], list[Score]] = defaultdict(list)
    for key in sorted(scores):
        groups[key.problem, key.method, key.protocol].append(scores[key])
    cells, long = {}, {}
    versions: set[str] = set()
    for name in experiment.problems:
        n_splits = experiment.n_splits or PROBLEMS[name].n_splits
        for method in experiment.methods_for(name):
            stored = groups.get((name, method.name, protocol(PROBLEMS[name], method)), [])
            found = [score["test"] for score in stored]
            versions.update(score["version"] for score in stored)
            paper = experiment.figures.get((name, method.name))
            if found:
                cells[name, method.name] = _cell(found[:n_splits], paper, method)
            if len(found) > n_splits:
                long[name, method.name] = _cell(found, paper, method)
    return Results(experiment, cells, long, sorted(versions))


def _cell(scores: Sequence[float], paper: Figure | None, method: Method) -> Cell:
    """Compute mean, standard error and the difference from the paper."""
    mean, error = mean_and_error(scores)
    z = np.nan
    if paper and len(scores) > 2:  # The standard error of two splits says little.
        z = (mean - paper.mean) / np.hypot(error, paper.stderr)
    mark = ""
    if abs(z) > 2:
        mark = "better" if (z > 0) == method.higher_is_better else "worse"
    return Cell(mean, error, len(scores), paper, z, mark)


def blocks(results: Results) -> list[str | Table]:
    """Return the content of a page: how many cells agree, the tables, and the cells that do not."""
    computed = f"Computed by genmetric {', '.join(results.versions)}."
    if results.experiment.name == "timing":
        return [_timing_table(results), computed]
    found: list[Any] = [_agreement(results), _joint_tests(results), _main_table(results)]
    found += [_beyond(results), _long_runs(results), _rank_table(results)]
    return [*(b for b in found if not isinstance(b, Table) or b.rows), computed]


def _agreement(results: Results) -> str:
    """Count the cells that agree with the paper."""
    n_cells, n_within, better, worse, p_value = _counts(results)
    if n_cells == "0":
        return "No cell can be compared with the paper: that takes three splits of a real dataset."
    return (
        f"{n_within} of the paper's {n_cells} values on real datasets are within two combined "
        f"standard errors of ours; ours are better in {better} and worse in {worse} cells. "
        f"Joint p-value of all cells: {p_value}."
    )


def _counts(results: Results) -> list[str]:
    """Count cells: all that can be compared, within two standard errors, better, worse; test."""
    cells = [results.cells[c] for c in results.compared([m.name for m in results.methods])]
    marks = [cell.mark for cell in cells]
    counts = [len(marks), *(marks.count(mark) for mark in ("", "better", "worse"))]
    return [*map(str, counts), _joint_p_value([cell.z for cell in cells])]


def _joint_p_value(z: ArrayLike) -> str:
    """Write the p-value of the sum of squares of differences in units of their standard errors."""
    p_value = chi2.sf(np.sum(np.square(z)), np.size(z)) if np.size(z) else np.nan
    return "below 1e-10" if p_value < 1e-10 else f"{p_value:.2g}"


def summary_table(all_results: Sequence[Results]) -> Table:
    """Make the table of how many cells of each experiment agree with the paper."""
    rows = [[r.experiment.title, *_counts(r)] for r in all_results if r.experiment.name != "timing"]
    columns = ["table", "values", "within two s.e.", "better here", "worse here", "joint p-value"]
    return Table(columns, rows, "Agreement with the paper")


def _joint_tests(results: Results) -> Table:
    """Make the table of joint tests, one per method."""
    rows = []
    for method in results.methods:
        cells = results.compared([method.name])
        if len(cells) > 1:
            z = np.array([results.cells[cell].z for cell in cells])
            largest = int(np.argmax(np.abs(z)))
            where = f"{PROBLEMS[cells[largest][0]].title} {z[largest]:+.1f}"
            sizes = [str(len(z)), f"{np.sum(z**2):.1f}", _joint_p_value(z)]
            rows.append([method.title, *sizes, where])
    note = (
        "z is the difference between our mean and the paper's in units of the combined standard "
        "error; the sum of its squares is chi-squared with one degree of freedom per cell if both "
        "have the same expected score. Generated sets and cells of fewer than three splits are left "
        "out. Rows share their splits, so they are not independent."
    )
    columns = ["method", "cells", "sum of z²", "p-value", "largest z"]
    return Table(columns, rows, "Joint test of each method", note)


def pm(mean: float, stderr: float, digits: int = 2) -> str:
    """Write mean ± standard error; only the mean if the error is not known."""
    text = f"{mean:.{digits}f}"
    return text if np.isnan(stderr) else f"{text} ± {stderr:.{digits}f}"


def _cell_text(cell: Cell | None, digits: int) -> str:
    """Write mean ± standard error, the value of the paper in brackets, and the mark."""
    if cell is None:
        return ""
    printed = f"[{cell.paper.mean:.{digits}f}]" if cell.paper else ""
    return " ".join(filter(None, [pm(cell.mean, cell.stderr, digits), printed, MARKS[cell.mark]]))


def _digits(results: Results) -> int:
    """Return the number of decimals: three of a Rand index, two of an error in %."""
    return 3 if results.experiment.methods[0].higher_is_better else 2


def _main_table(results: Results) -> Table:
    """Make the table of methods by datasets: our scores, the paper's, and marks."""
    rows = []
    for method in results.methods:
        cells = [results.cells.get((problem, method.name)) for problem in results.problems]
        rows.append([method.title, *(_cell_text(cell, _digits(results)) for cell in cells)])
    note = (
        "Mean ± standard error over splits; the value of the paper is in brackets. (+) better and "
        "(−) worse than the paper by more than two combined standard errors. "
    )
    columns = ["method", *(PROBLEMS[p].title for p in results.problems)]
    return Table(columns, rows, results.experiment.title, note + _splits_text(results))


def _splits_text(results: Results) -> str:
    """Write the usual number of splits, exceptions, and what has not been computed."""
    usual: dict[str, int] = {}
    others: dict[tuple[str, int], list[str]] = defaultdict(list)
    for problem in results.problems:
        methods = results.experiment.methods_for(problem)
        cells = [results.cells.get((problem, method.name)) for method in methods]
        counts = [cell.n_splits if cell else 0 for cell in cells]
        usual[problem] = Counter(counts).most_common(1)[0][0]
        for method, n in zip(methods, counts, strict=True):
            if n != usual[problem]:
                others[method.title, n].append(PROBLEMS[problem].title)
    text = ", ".join(f"{PROBLEMS[problem].title} {n}" for problem, n in usual.items())
    if len(set(usual.values())) == 1:
        text = str(next(iter(usual.values())))
    for (title, n), names in others.items():
        text += f"; {title} {n}" + (f" on {', '.join(names)}" if len(names) < len(usual) else "")
    missing = [PROBLEMS[p].title for p in results.experiment.problems if p not in usual]
    return f"Splits: {text}." + (f" Not computed: {', '.join(missing)}." if missing else "")


def _beyond(results: Results) -> Table:
    """Make the list of cells beyond two standard errors, with the most likely reason of each."""
    rows, digits = [], _digits(results)
    for method in results.methods:
        for problem, _ in results.compared([method.name], generated=True):
            cell = results.cells[problem, method.name]
            if cell.mark and cell.paper:
                keys = (f"{problem} {method.name}", method.name, problem)
                reason = next((REASONS[key] for key in keys if key in REASONS), "not known")
                ours, paper = pm(cell.mean, cell.stderr, digits), pm(*cell.paper, digits)
                start = [PROBLEMS[problem].title, method.title, ours, paper, f"{cell.z:+.1f}"]
                rows.append([*start, cell.mark, reason])
    columns = ["set", "method", "here", "paper", "z", "here is", "most likely reason"]
    return Table(columns, rows, "Cells beyond two standard errors")


def _long_runs(results: Results) -> Table:
    """Make the table of cells with more splits than the paper has."""
    titles = {m.name: m.title for m in results.experiment.methods}
    rows = [
        [PROBLEMS[p].title, titles[m], str(cell.n_splits), _cell_text(cell, _digits(results))]
        for (p, m), cell in results.long.items()
    ]
    return Table(["set", "method", "splits", "score"], rows, "More splits than in the paper")


def _rank_table(results: Results) -> Table:
    """Make the table of ranks on the datasets that have all ranked methods, and average ranks."""
    printed, cells = results.experiment.ranked, results.cells
    problems = [p for p in results.problems if all((p, m) in cells for m in printed)]
    if not printed or len(problems) < 2:
        return Table([], [])
    means = [[cells[p, m].mean for m in printed] for p in problems]
    figures = [[results.experiment.figures[p, m].mean for m in printed] for p in problems]
    ours, theirs = rankdata(means, axis=1), rankdata(figures, "min", axis=1)
    titles = {m.name: m.title for m in results.experiment.methods}
    ranking = rank_methods(means, list(printed))
    rows = []
    for i, name in enumerate(printed):
        places = [f"{a:g} [{b:.0f}]" for a, b in zip(ours[:, i], theirs[:, i], strict=True)]
        rows.append([titles[name], *places, f"{ranking.ranks[i]:.2f} [{printed[name]:.2f}]"])
    columns = ["method", *(PROBLEMS[p].title for p in problems), "average rank"]
    note = (
        "In brackets the ranks of the paper; it gives equal errors the better rank, we the mean. "
        f"Friedman's chi-square is {ranking.statistic:.1f} (p = {ranking.p_value:.2g}), the F of "
        f"Iman and Davenport {ranking.f_statistic:.1f} (p = {ranking.f_p_value:.2g}), and Nemenyi's "
        f"critical difference at the level 0.05 is {ranking.critical_difference:.2f}."
    )
    return Table(columns, rows, "Rank on each dataset", note)


def _timing_table(results: Results) -> Table:
    """Make the table of seconds of one fit and ratios to M^UNI, next to the paper's."""
    columns = ["set", "M^UNI, s", "LMNN, s", "NCA, s"]
    columns += ["LMNN / M^UNI", "paper: LMNN / M^UNI", "NCA / M^UNI"]

    def short(value: float) -> str:
        if np.isnan(value):
            return ""
        return f"{value:.0f}" if value >= 100 else f"{value:.3g}"

    rows = []
    for name in results.problems:
        cells: list[Any] = [results.cells.get((name, f"time-{m}")) for m in ("uni", "lmnn", "nca")]
        uni, lmnn, nca = (np.nan if cell is None else cell.mean for cell in cells)
        printed = [results.experiment.figures[name, f"time-{m}"].mean for m in ("lmnn", "uni")]
        values = (uni, lmnn, nca, lmnn / uni, printed[0] / printed[1], nca / uni)
        rows.append([PROBLEMS[name].title, *map(short, values)])
    note = (
        "CPU time of one fit with fixed parameters in one thread, the best of up to three; the "
        "fits of a row run one after the other in one process. LMNN is that of this package, with "
        "three targets and the Euclidean metric as start; the ratio of the paper is for its own LMNN."
    )
    return Table(columns, rows, results.experiment.title, note)


def text_block(block: str | Table, width: int) -> str:
    """Write a paragraph or a table as lines of text that fit a width."""
    if isinstance(block, str):
        return textwrap.fill(block, width) + "\n"
    frame = import_optional("pandas", "cli").DataFrame(block.rows, columns=block.columns)
    lines = frame.set_index(block.columns[0]).to_string(line_width=width)
    return "\n".join([block.caption, "", lines, "", *textwrap.wrap(block.note, width), ""])


def markdown_block(block: str | Table) -> str:
    """Write a paragraph, or a table that opens when its title is clicked, as Markdown."""
    if isinstance(block, str):
        return f"{block}\n"
    table = markdown_table(block)
    note = f"\n{block.note}\n" if block.note else ""
    return f"<details>\n<summary>{block.caption}</summary>\n\n{table}{note}\n</details>\n"


def markdown_table(table: Table) -> str:
    """Write the rows of a table as Markdown."""
    rows = (table.columns, ["---"] * len(table.columns), *table.rows)
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def csv_text(all_results: Sequence[Results]) -> str:
    """Write every cell as a line of CSV."""
    lines = ["table,set,method,splits,mean,standard_error,paper_mean,paper_standard_error,mark"]
    for results in all_results:
        for names, cell in results.cells.items():
            values = (cell.mean, cell.stderr, *(cell.paper or (np.nan, np.nan)))
            numbers = ["" if np.isnan(value) else f"{value:.6g}" for value in values]
            start = [results.experiment.name, *names, str(cell.n_splits)]
            lines.append(",".join([*start, *numbers, cell.mark]))
    return "\n".join(lines) + "\n"
