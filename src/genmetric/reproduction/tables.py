"""Tables of an experiment: stored scores next to those of the paper."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from genmetric.reproduction.experiments import Experiment, protocol
from genmetric.reproduction.paper import Figure
from genmetric.reproduction.problems import PROBLEMS
from genmetric.reproduction.ranks import (
    Mark,
    Ranking,
    joint_test,
    mark,
    mean_and_error,
    rank_methods,
)
from genmetric.reproduction.runner import Key, Record

#: Text of the marks.
MARKS: Mapping[Mark, str] = {"": "", "better": "(+)", "worse": "(−)"}
LEGEND = (
    "Mean ± standard error over splits; the value of the paper is in brackets. (+) better and (−) "
    "worse than the paper by more than two combined standard errors."
)


@dataclass(frozen=True)
class Cell:
    """Scores of one method on one dataset.

    Attributes
    ----------
    problem, method : str
        Names of dataset and method.
    scores : tuple of float
        Test score of each split.
    paper : Figure or None
        Published value.
    higher_is_better : bool
        Whether larger scores are better.
    records : tuple of Record
        Stored records of the cell.
    """

    problem: str
    method: str
    scores: tuple[float, ...]
    paper: Figure | None = None
    higher_is_better: bool = False
    records: tuple[Record, ...] = ()

    @property
    def mean(self) -> float:
        """Mean over splits."""
        return mean_and_error(self.scores)[0]

    @property
    def stderr(self) -> float:
        """Standard error of the mean over splits."""
        return mean_and_error(self.scores)[1]

    @property
    def mark(self) -> Mark:
        """Mark of the comparison with the paper."""
        if self.paper is None:
            return ""
        better = self.higher_is_better
        return mark(self.mean, self.stderr, *self.paper, higher_is_better=better)


@dataclass(frozen=True)
class Results:
    """All cells of an experiment that have a score.

    Attributes
    ----------
    experiment : Experiment
        The experiment.
    cells : dict of (problem, method) to Cell
        Cells by names.
    """

    experiment: Experiment
    cells: Mapping[tuple[str, str], Cell]

    @property
    def problems(self) -> list[str]:
        """Datasets with a score, in the order of the paper."""
        return [p for p in self.experiment.problems if any(k[0] == p for k in self.cells)]

    @property
    def methods(self) -> list[Any]:
        """Methods with a score, in the order of the paper."""
        return [m for m in self.experiment.methods if any(k[1] == m.name for k in self.cells)]

    def ranking(self, methods: Sequence[str]) -> Ranking | None:
        """Rank methods over the datasets that have all of them; None with fewer than two."""
        problems = [p for p in self.problems if all((p, m) in self.cells for m in methods)]
        if len(problems) < 2:
            return None
        titles = {m.name: m.title for m in self.experiment.methods}
        return rank_methods(
            [[self.cells[p, m].mean for m in methods] for p in problems],
            [titles[m] for m in methods],
            higher_is_better=self.experiment.methods[0].higher_is_better,
        )


def collect(experiment: Experiment, records: Mapping[Key, Record]) -> Results:
    """Collect the cells of an experiment from stored records of the current protocol."""
    by_cell: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for name in experiment.problems:
        for method in experiment.methods_for(name):
            current = protocol(PROBLEMS[name], method)
            by_cell[name, method.name] = sorted(
                (
                    record
                    for key, record in records.items()
                    if (key.problem, key.method, key.protocol) == (name, method.name, current)
                ),
                key=lambda record: record.key.split,
            )
    kinds = {m.name: m.higher_is_better for m in experiment.methods}
    cells = {
        (name, method): Cell(
            name,
            method,
            tuple(r.test for r in found),
            experiment.figures.get((name, method)),
            kinds[method],
            tuple(found),
        )
        for (name, method), found in by_cell.items()
        if found
    }
    return Results(experiment, cells)


@dataclass(frozen=True)
class TextTable:
    """A table of text, for the terminal, Markdown and pages.

    Attributes
    ----------
    title : str
        Headline.
    columns : list of str
        Heads of the columns.
    rows : list of list of str
        Cells.
    note : str
        Text below the table.
    """

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""

    def markdown(self, level: int = 2) -> str:
        """Return the table as Markdown, with its title."""
        lines = [f"{'#' * level} {self.title}", "", _line(self.columns)]
        lines.append(_line(["---"] * len(self.columns)))
        lines += [_line(row) for row in self.rows]
        if self.note:
            lines += ["", self.note]
        return "\n".join(lines) + "\n"

    def parts(self, width: int) -> list[TextTable]:
        """Split the table into parts that fit a width, each with the first column.

        Parameters
        ----------
        width : int
            Characters per line of the terminal.

        Returns
        -------
        list of TextTable
            Only the last part has the note.
        """
        needs = [need + 3 for need in self._needs()]
        groups: list[list[int]] = [[]]
        for i in range(1, len(self.columns)):
            if groups[-1] and needs[0] + 1 + sum(needs[j] for j in [*groups[-1], i]) > width:
                groups.append([])
            groups[-1].append(i)
        return [
            TextTable(
                self.title,
                [self.columns[i] for i in (0, *group)],
                [[row[i] for i in (0, *group)] for row in self.rows],
                self.note if group is groups[-1] else "",
            )
            for group in groups
        ]

    def _needs(self) -> list[int]:
        """Return the width of each column if only headings are wrapped."""
        return [
            max([*map(len, head.split()), *(len(row[i]) for row in self.rows)], default=0)
            for i, head in enumerate(self.columns)
        ]

    def rich(self, width: int = 80) -> list[Any]:
        """Return rich tables for a terminal, in as many parts as its width needs."""
        from genmetric._text import import_optional

        # Brackets in a cell are the value of the paper, not markup of rich.
        text = import_optional("rich.text", "cli").Text
        drawn = []
        for part in self.parts(width):
            table = import_optional("rich.table", "cli").Table(
                title=text(part.title),
                caption=text(part.note) if part.note else None,
                title_justify="left",
                caption_justify="left",
            )
            for i, (head, least) in enumerate(zip(part.columns, part._needs(), strict=True)):
                side = "left" if i == 0 else "right"
                table.add_column(text(head), justify=side, width=least)
            for row in part.rows:
                table.add_row(*map(text, row))
            drawn.append(table)
        return drawn


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def pm(mean: float, stderr: float, digits: int = 2) -> str:
    """Write mean ± standard error; only the mean if the error is not known."""
    text = f"{mean:.{digits}f}"
    return text if np.isnan(stderr) else f"{text} ± {stderr:.{digits}f}"


def main_table(results: Results) -> TextTable:
    """Make the table of methods by datasets: our scores, the paper's, marks and ranks."""
    experiment = results.experiment
    digits = 3 if experiment.methods[0].higher_is_better else 2
    ranked = {title: (names, results.ranking(names)) for title, names in experiment.ranked.items()}
    rankings = {title: pair for title, pair in ranked.items() if pair[1] is not None}
    columns = ["method", *(PROBLEMS[p].title for p in results.problems)]
    columns += ["average rank" for _ in rankings]
    rows = []
    for method in results.methods:
        row = [method.title]
        row += [_cell_text(results.cells.get((p, method.name)), digits) for p in results.problems]
        for title, (names, ranking) in rankings.items():
            printed = experiment.paper_ranks.get(title, {})
            row.append(_rank_text(method.name, names, ranking, printed))
        rows.append(row)
    return TextTable(experiment.title, columns, rows, f"{LEGEND} Splits: {_splits_text(results)}.")


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
    text = pm(cell.mean, cell.stderr, digits)
    if cell.paper is not None:
        text += f" [{cell.paper.mean:.{digits}f}]"
    return f"{text} {MARKS[cell.mark]}".strip()


def _rank_text(name: str, names: Sequence[str], ranking: Any, paper: Mapping[str, float]) -> str:
    if name not in names:
        return ""
    text = f"{ranking.ranks[list(names).index(name)]:.2f}"
    return f"{text} [{paper[name]:.2f}]" if name in paper else text


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


def timing_table(results: Results) -> TextTable:
    """Make the table of seconds of one fit and ratios to M^UNI, next to the paper's."""
    columns = [
        "set",
        "training samples",
        "M^UNI, s",
        "LMNN, s",
        "NCA, s",
        "LMNN / M^UNI",
        "paper: LMNN / M^UNI",
        "NCA / M^UNI",
    ]
    rows = []
    for name in results.problems:
        problem = PROBLEMS[name]
        n = problem.sizes[0] if problem.sizes else int(0.6 * problem.n_samples)
        cells = [results.cells.get((name, f"time-{m}")) for m in ("uni", "lmnn", "nca")]
        uni, lmnn, nca = (None if cell is None else cell.mean for cell in cells)
        printed = [results.experiment.figures.get((name, f"time-{m}")) for m in ("uni", "lmnn")]
        paper_uni, paper_lmnn = (None if figure is None else figure.mean for figure in printed)
        row = [problem.title, str(n), *("" if s is None else _short(s) for s in (uni, lmnn, nca))]
        ratios = ((lmnn, uni), (paper_lmnn, paper_uni), (nca, uni))
        rows.append([*row, *("" if a is None or b is None else _short(a / b) for a, b in ratios)])
    note = (
        "CPU time of one fit with fixed parameters in one thread, the best of up to three; the "
        "fits of a row run one after the other in one process. LMNN is that of this package, with "
        "three targets and the Euclidean metric as start; the ratio of the paper is for its own LMNN."
    )
    return TextTable(results.experiment.title, columns, rows, note)


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def csv_text(all_results: Sequence[Results]) -> str:
    """Write every cell as a line of CSV."""
    rows = []
    for results in all_results:
        units = {m.name: m.unit for m in results.experiment.methods}
        for (problem, method), cell in results.cells.items():
            paper = cell.paper or (np.nan, np.nan)
            rows.append(
                {
                    "table": results.experiment.name,
                    "set": problem,
                    "method": method,
                    "unit": units[method],
                    "splits": len(cell.scores),
                    "mean": _number(cell.mean),
                    "standard_error": _number(cell.stderr),
                    "paper_mean": _number(paper[0]),
                    "paper_standard_error": _number(paper[1]),
                    "against_paper": cell.mark,
                }
            )
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6g}"


def joint_test_table(results: Results) -> TextTable | None:
    """Make the table of joint tests of the methods that the paper has; None without any."""
    rows = []
    for method in results.methods:
        cells = [
            cell
            for problem in results.problems
            if problem != "3-normal"
            and (cell := results.cells.get((problem, method.name))) is not None
            and cell.paper is not None
            and len(cell.scores) > 1
        ]
        pairs = [
            (mean_and_error(c.scores), (c.paper.mean, c.paper.stderr)) for c in cells if c.paper
        ]
        known = [i for i, pair in enumerate(pairs) if all(np.isfinite(v) and v for _, v in pair)]
        if len(known) < 2:
            continue
        found = joint_test([pairs[i][0] for i in known], [pairs[i][1] for i in known])
        where = PROBLEMS[cells[known[found.largest]].problem].title
        rows.append(
            [
                method.title,
                str(found.n_sets),
                f"{found.statistic:.1f}",
                f"{found.p_value:.2g}",
                f"{where} {found.z[found.largest]:+.1f}",
            ]
        )
    if not rows:
        return None
    note = (
        "Sum over the datasets of the squared difference between our mean and the paper's in units "
        "of the combined standard error, chi-squared with one degree of freedom per dataset if both "
        "have the same expected error. A small p-value means that the method does not reproduce the "
        "paper on all datasets. 3-Normal is left out because the paper does not give its "
        "parameters. The last column is the dataset with the largest z-score; a positive sign means "
        "that our score is larger. With few splits the standard errors are themselves uncertain."
    )
    columns = ["method", "datasets", "sum of z²", "p-value", "largest z"]
    return TextTable("Joint test of the agreement with the paper", columns, rows, note)
