"""Tables of an experiment: stored scores next to those of the paper."""

from __future__ import annotations

import csv
import io
import textwrap
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from genmetric.datasets import CATALOGUE
from genmetric.report import Table
from genmetric.reproduction.experiments import Experiment, protocol
from genmetric.reproduction.methods import Method
from genmetric.reproduction.paper import Figure
from genmetric.reproduction.problems import PROBLEMS
from genmetric.reproduction.ranks import Ranking, joint_test, mark, mean_and_error, rank_methods
from genmetric.reproduction.runner import Key, Score

#: Text of the marks.
MARKS = {"": "", "better": "(+)", "worse": "(−)"}
LEGEND = (
    "Mean ± standard error over splits; the value of the paper is in brackets. (+) better and (−) "
    "worse than the paper by more than two combined standard errors."
)


class Cell(NamedTuple):
    """Mean test score of one method on one dataset, its standard error, and the published value.

    `mark` is "better" or "worse" than the paper, or empty; `scores` are those of all splits.
    """

    mean: float
    stderr: float
    paper: Figure | None
    mark: str
    scores: Sequence[Score]


@dataclass(frozen=True)
class Results:
    """All cells of an experiment that have a score, by the names of dataset and method."""

    experiment: Experiment
    cells: Mapping[tuple[str, str], Cell]

    @property
    def problems(self) -> list[str]:
        """Datasets with a score, in the order of the paper."""
        return [p for p in self.experiment.problems if any(k[0] == p for k in self.cells)]

    @property
    def methods(self) -> list[Method]:
        """Methods with a score, in the order of the paper."""
        return [m for m in self.experiment.methods if any(k[1] == m.name for k in self.cells)]

    def rankings(self) -> dict[str, Ranking]:
        """Rank methods over the datasets that have all of them; at least two are needed."""
        found = {}
        titles = {m.name: m.title for m in self.experiment.methods}
        for title, names in self.experiment.ranked.items():
            problems = [p for p in self.problems if all((p, m) in self.cells for m in names)]
            if len(problems) > 1:
                means = [[self.cells[p, m].mean for m in names] for p in problems]
                found[title] = rank_methods(means, [titles[m] for m in names])
        return found


def collect(experiment: Experiment, scores: Mapping[Key, Score]) -> Results:
    """Collect the cells of an experiment from stored scores of the current protocol."""
    groups: dict[tuple[str, str, str], list[Score]] = defaultdict(list)
    for key in sorted(scores):
        groups[key.problem, key.method, key.protocol].append(scores[key])
    cells = {}
    for name in experiment.problems:
        for method in experiment.methods_for(name):
            found = groups.get((name, method.name, protocol(PROBLEMS[name], method)))
            if found:
                ours = mean_and_error([score["test"] for score in found])
                paper = experiment.figures.get((name, method.name))
                better = method.higher_is_better
                sign = mark(*ours, *paper, higher_is_better=better) if paper else ""
                cells[name, method.name] = Cell(*ours, paper, sign, found)
    return Results(experiment, cells)


def text_table(table: Table, width: int = 80) -> str:
    """Write a table as lines of text, in parts that fit a width, each with the first column."""
    widths = [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]
    lines, start = [table.caption, ""], 1
    while start < len(widths):
        ends = widths[0] + np.cumsum(np.add(widths[start:], 2))
        stop = start + max(1, int(np.searchsorted(ends, width, "right")))
        for row in (table.columns, *table.rows):
            cells = [row[i].rjust(widths[i]) for i in range(start, stop)]
            lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
        lines.append("")
        start = stop
    return "\n".join([*lines, *textwrap.wrap(table.note, width), ""])


def markdown_table(table: Table) -> str:
    """Write a table as Markdown, with its title."""
    lines = [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
        for row in (table.columns, ["---"] * len(table.columns), *table.rows)
    ]
    note = ["", table.note] if table.note else []
    return "\n".join([f"## {table.caption}", "", *lines, *note]) + "\n"


def pm(mean: float, stderr: float, digits: int = 2) -> str:
    """Write mean ± standard error; only the mean if the error is not known."""
    text = f"{mean:.{digits}f}"
    return text if np.isnan(stderr) else f"{text} ± {stderr:.{digits}f}"


def all_tables(results: Results) -> list[Table]:
    """Make the tables of an experiment, the main table first."""
    if not results.cells:
        return []
    name = results.experiment.name
    if name == "timing":
        return [_timing_table(results)]
    special = {
        "clustering": _adjusted_table,
        "nonlinear": _regions_table,
        "large": _spectrum_table,
        "small": _bayes_table,
    }
    tables = [_main_table(results), _joint_test_table(results)]
    if name in special:
        # The Bayes errors come last, other tables before the joint test.
        tables.insert(2 if name == "small" else 1, special[name](results))
    return [table for table in tables if table.rows]


def _main_table(results: Results) -> Table:
    """Make the table of methods by datasets: our scores, the paper's, marks and ranks."""
    experiment, rankings = results.experiment, results.rankings()
    digits = 3 if experiment.methods[0].higher_is_better else 2
    columns = ["method", *(PROBLEMS[p].title for p in results.problems)]
    columns += ["average rank" for _ in rankings]
    rows = []
    for method in results.methods:
        cells = [results.cells.get((problem, method.name)) for problem in results.problems]
        row = [method.title, *(_cell_text(cell, digits) for cell in cells)]
        for title, ranking in rankings.items():
            printed = experiment.ranked[title]
            ours = dict(zip(printed, ranking.ranks, strict=True))
            name = method.name
            row.append(f"{ours[name]:.2f} [{printed[name]:.2f}]" if name in printed else "")
        rows.append(row)
    note = f"{LEGEND} Splits: {_splits_text(results)}."
    return Table(columns, rows, experiment.title, note)


def _splits_text(results: Results) -> str:
    """Write the number of splits per dataset, and of methods that have another number."""
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for (problem, _), cell in results.cells.items():
        counts[problem][len(cell.scores)] += 1
    usual = {problem: found.most_common(1)[0][0] for problem, found in counts.items()}
    if len(set(usual.values())) == 1:
        text = str(next(iter(usual.values())))
    else:
        text = ", ".join(f"{PROBLEMS[p].title} {usual[p]}" for p in results.problems)
    others: dict[tuple[str, int], list[str]] = defaultdict(list)
    for (problem, method), cell in results.cells.items():
        if len(cell.scores) != usual[problem]:
            others[method, len(cell.scores)].append(PROBLEMS[problem].title)
    titles = {m.name: m.title for m in results.experiment.methods}
    for (method, n), names in others.items():
        text += f"; {titles[method]} {n} on {', '.join(names)}"
    return text


def _cell_text(cell: Cell | None, digits: int) -> str:
    """Write mean ± standard error, the value of the paper in brackets, and the mark."""
    if cell is None:
        return ""
    printed = f"[{cell.paper.mean:.{digits}f}]" if cell.paper else ""
    return " ".join(filter(None, [pm(cell.mean, cell.stderr, digits), printed, MARKS[cell.mark]]))


def rank_note(ranking: Ranking) -> str:
    """Write the tests of a ranking as text."""
    order = np.argsort(ranking.ranks)
    ranks = ", ".join(f"{ranking.methods[i]} {ranking.ranks[i]:.2f}" for i in order)
    return (
        f"Over {ranking.n_sets} sets and {len(ranking.methods)} methods: Friedman chi-square "
        f"{ranking.statistic:.1f} (p = {ranking.p_value:.2g}), F of Iman and Davenport "
        f"{ranking.f_statistic:.1f} (p = {ranking.f_p_value:.2g}); Nemenyi's critical difference at "
        f"the level {ranking.level:g} is {ranking.critical_difference:.2f}. Average ranks: {ranks}."
    )


def _joint_test_table(results: Results) -> Table:
    """Make the table of joint tests of the methods that the paper has on several datasets."""
    rows = []
    for method in results.methods:
        pairs = {
            problem: ((cell.mean, cell.stderr), cell.paper)
            for problem in results.problems
            if problem != "3-normal"
            and (cell := results.cells.get((problem, method.name))) is not None
            and cell.paper is not None
            and cell.stderr > 0
            and cell.paper.stderr > 0
        }
        if len(pairs) > 1:
            statistic, p_value, z = joint_test(*zip(*pairs.values(), strict=True))
            largest = np.argmax(np.abs(z))
            where = f"{PROBLEMS[list(pairs)[largest]].title} {z[largest]:+.1f}"
            row = [method.title, str(len(z)), f"{statistic:.1f}", f"{p_value:.2g}", where]
            rows.append(row)
    note = (
        "Sum over the datasets of the squared difference between our mean and the paper's in units "
        "of the combined standard error, chi-squared with one degree of freedom per dataset if both "
        "have the same expected error. A small p-value means that the method does not reproduce the "
        "paper on all datasets. 3-Normal is left out because the paper does not give its "
        "parameters. The last column is the dataset with the largest z-score; a positive sign means "
        "that our score is larger. With few splits the standard errors are themselves uncertain."
    )
    columns = ["method", "datasets", "sum of z²", "p-value", "largest z"]
    return Table(columns, rows, "Joint test of the agreement with the paper", note)


def _timing_table(results: Results) -> Table:
    """Make the table of seconds of one fit and ratios to M^UNI, next to the paper's."""
    columns = ["set", "training samples", "M^UNI, s", "LMNN, s", "NCA, s"]
    columns += ["LMNN / M^UNI", "paper: LMNN / M^UNI", "NCA / M^UNI"]

    def short(value: float) -> str:
        if np.isnan(value):
            return ""
        return f"{value:.0f}" if value >= 100 else f"{value:.3g}"

    rows = []
    for name in results.problems:
        problem = PROBLEMS[name]
        n = problem.sizes[0] if problem.sizes else int(0.6 * CATALOGUE[problem.dataset].n_samples)
        cells: list[Any] = [results.cells.get((name, f"time-{m}")) for m in ("uni", "lmnn", "nca")]
        uni, lmnn, nca = (np.nan if cell is None else cell.mean for cell in cells)
        printed = [results.experiment.figures[name, f"time-{m}"].mean for m in ("lmnn", "uni")]
        values = (uni, lmnn, nca, lmnn / uni, printed[0] / printed[1], nca / uni)
        rows.append([problem.title, str(n), *map(short, values)])
    note = (
        "CPU time of one fit with fixed parameters in one thread, the best of up to three; the "
        "fits of a row run one after the other in one process. LMNN is that of this package, with "
        "three targets and the Euclidean metric as start; the ratio of the paper is for its own LMNN."
    )
    return Table(columns, rows, results.experiment.title, note)


def _adjusted_table(results: Results) -> Table:
    """Make the table of adjusted Rand indices."""
    rows = []
    for problem in results.problems:
        row = [PROBLEMS[problem].title]
        for method in results.methods:
            cell = results.cells.get((problem, method.name))
            found = [score["extra"]["adjusted"] for score in cell.scores] if cell else []
            row.append(pm(*mean_and_error(found), 3) if found else "")
        rows.append(row)
    columns = ["set", *(m.title for m in results.methods)]
    note = "The adjusted index puts chance at zero. The paper has none."
    return Table(columns, rows, "Adjusted Rand index of the same clusters", note)


def _regions_table(results: Results) -> Table:
    """Make the table of P selected on the test samples, as in the paper, and by validation."""
    rows = []
    for problem in results.problems:
        names = ("mkl", "mkl-1", "mkl-5", "mkl-10")
        cells = [results.cells[problem, m] for m in names if (problem, m) in results.cells]
        if len(cells) == 4:
            chosen, *learned = cells
            best = min(learned, key=lambda cell: cell.mean)
            printed = min(cell.paper.mean for cell in learned if cell.paper is not None)
            texts = [pm(best.mean, best.stderr), f"{printed:.2f}", pm(chosen.mean, chosen.stderr)]
            rows.append([PROBLEMS[problem].title, *texts])
    columns = ["set", "best P on test", "paper: best P on test", "P by validation"]
    return Table(columns, rows, "Choice of the number of regions P")


def _spectrum_table(results: Results) -> Table:
    """Make the table of ranks of metrics, for the paper's remark on LMNN with 164 features."""
    rows = []
    titles = {m.name: m.title for m in results.experiment.methods}
    for (problem, method), cell in results.cells.items():
        ranks = [s["extra"]["rank"] for s in cell.scores if "rank" in s["extra"]]
        if method in ("lmnn", "uni", "uni-shrunk") and ranks:
            means = [np.mean([rank[level] for rank in ranks]) for level in ranks[0]]
            size = PROBLEMS[problem].n_components or 16
            row = [PROBLEMS[problem].title, titles[method], str(size)]
            rows.append([*row, *(f"{value:.0f}" for value in means)])
    columns = ["set", "metric", "features", "above 1e-2", "above 1e-4", "above 1e-6"]
    note = "Eigenvalues of the learned metric above a share of the largest, mean over splits."
    return Table(columns, rows, "Rank of the learned metrics", note)


def _bayes_table(results: Results) -> Table:
    """Make the table of Bayes errors of the generated datasets."""
    errors = {p: CATALOGUE[PROBLEMS[p].dataset].bayes_error for p in results.problems}
    rows = [[PROBLEMS[p].title, f"{100 * e:.2f}"] for p, e in errors.items() if e is not None]
    return Table(["set", "Bayes error"], rows, "Bayes error of generated sets, in %")


def csv_text(all_results: Sequence[Results]) -> str:
    """Write every cell as a line of CSV."""
    columns = ["table", "set", "method", "unit", "splits", "mean", "standard_error"]
    columns += ["paper_mean", "paper_standard_error", "against_paper"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for results in all_results:
        units = {m.name: m.unit for m in results.experiment.methods}
        for (problem, method), cell in results.cells.items():
            values = (cell.mean, cell.stderr, *(cell.paper or (np.nan, np.nan)))
            numbers = ["" if np.isnan(value) else f"{value:.6g}" for value in values]
            names = [results.experiment.name, problem, method, units[method], len(cell.scores)]
            writer.writerow([*names, *numbers, cell.mark])
    return out.getvalue()
