"""The parts of a report that a comparison alone decides: errors, times, the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from genmetric.plot import ComparisonDisplay, ErrorByKDisplay, TimesDisplay
from genmetric.plot.palette import plain_name
from genmetric.report.page import Cell, Page
from genmetric.report.svg import picture
from genmetric.study.comparison import Comparison, MethodResult


def add_comparison(page: Page, comparison: Comparison) -> None:
    """Add the errors of all methods: picture and table."""
    section = page.section("Comparison")
    if not comparison.ran:
        section.paragraph("No method was run.")
    else:
        section.paragraph(
            f"{folds(comparison)}; every method saw the same folds and chose its parameters "
            "inside the training rows."
        )
        caption = "Dot and bar: mean error with standard error; strokes: each fold"
        if comparison.baseline in {result.name for result in comparison.ran}:
            caption += "; dashed: the best method without learning"
        height = 1.0 + 0.36 * len(comparison.ran)
        with picture(
            section, (8.6, height), caption=caption + ".", alt="Test error of each method"
        ) as ax:
            ComparisonDisplay.from_comparison(comparison, ax=ax)
    header = ["method", "error", "± s.e.", "against baseline"]
    remarks = [_remark(result) for result in comparison.results]
    header += ["chosen most often; remarks"] * any(remarks)
    base = next((r for r in comparison.ran if r.name == comparison.baseline), None)
    rows = []
    for result, remark in zip(comparison.results, remarks, strict=True):
        mark = "best" if result.name == comparison.best else "quiet" if result.skipped else None
        change = result.error - base.error if base and result is not base else None
        sign = None if not change or np.isnan(change) else "good" if change < 0 else "bad"
        row: list[Any] = [
            Cell(result.name, mark if mark == "quiet" else None),
            Cell(None if result.skipped else result.error, mark),
            None if np.isnan(result.standard_error) else result.standard_error,
            Cell(None if change is None or np.isnan(change) else 100 * change, sign),
        ]
        rows.append([*row, Cell(remark, "quiet" if result.skipped else None)][: len(header)])
    section.table(
        header,
        rows,
        formats={"error": ".2%", "± s.e.": ".2%", "against baseline": "+.2f"},
        caption="Test error; against the baseline in percentage points.",
    )


def add_error_by_k(page: Page, comparison: Comparison) -> None:
    """Add the errors against the number of neighbours."""
    section = page.section("Error against the number of neighbours")
    section.paragraph(
        "A metric that helps lowers the whole line. Where a line is flat, the number of neighbours "
        "matters little."
    )
    with picture(
        section,
        (8.6, 3.6),
        caption="Leave-one-out error among the training rows, mean over the folds. The metrics have "
        "seen these rows, so that one that fits them closely looks better here than in the "
        "comparison above.",
        alt="Error against the number of neighbours that vote",
    ) as ax:
        ErrorByKDisplay.from_comparison(comparison, ax=ax)


def add_times(page: Page, comparison: Comparison) -> None:
    """Add the time of each method; nothing where none was run."""
    if not comparison.ran:
        return
    section = page.section("Time")
    with picture(
        section,
        (8.6, 1.2 + 0.3 * len(comparison.ran)),
        caption="Mean over the folds, on the machine of the comparison; fitting includes the choice "
        "of parameters.",
        alt="Time of each method",
    ) as ax:
        TimesDisplay.from_comparison(comparison, ax=ax)
    section.table(
        ["method", "fit (s)", "predict (s)"],
        [
            [
                result.name,
                float(np.mean(result.fit_seconds)),
                float(np.mean(result.predict_seconds)),
            ]
            for result in comparison.ran
        ],
        formats={"fit (s)": ".4f", "predict (s)": ".4f"},
    )


def add_data(page: Page, comparison: Comparison, n_filled: int) -> None:
    """Add what is known of the table: its size, its classes, what was left out or filled."""
    section = page.section("The table")
    n_classes = len(comparison.class_names)
    section.paragraph(
        f"{comparison.n_samples:,} rows, {comparison.n_features:,} features, {n_classes:,} classes."
    )
    for note in comparison.notes:
        section.paragraph(_sentence(note))
    if n_filled:
        section.paragraph(
            f"{n_filled:,} missing values were filled with the mean of their feature for the "
            "pictures of the metric and the rows."
        )
    counts = np.asarray(comparison.class_counts)
    order = np.argsort(-counts, kind="stable")[:30]
    section.table(
        ["class", "rows", "share"],
        [
            [
                plain_name(comparison.class_names[i], width=80),
                int(counts[i]),
                float(counts[i] / counts.sum()),
            ]
            for i in order
        ],
        formats={"share": ".1%"},
        caption="" if len(order) == n_classes else f"The 30 largest of {n_classes:,} classes.",
    )


def _remark(result: MethodResult) -> str:
    """The parameters that most folds chose, in words, and the note."""
    chosen = Counter(_in_words(parameters) for parameters in result.parameters if parameters)
    said = [chosen.most_common(1)[0][0]] if chosen else []
    if result.note:
        said.append(f"left out: {result.note}" if result.skipped else result.note)
    return "; ".join(said)


def _in_words(parameters: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in parameters.items()
    )


def _sentence(text: str) -> str:
    """A remark with a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def folds(comparison: Comparison) -> str:
    """The protocol of a comparison, in words."""
    text = f"{comparison.n_splits}-fold cross-validation"
    return text if comparison.n_repeats == 1 else f"{text}, {comparison.n_repeats} times"
