"""Sections on the data: a summary of the columns and the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from genmetric._results import ComparisonResult
from genmetric._typing import AnyArray, FloatArray
from genmetric.plot._palette import plain_name
from genmetric.report._page import Cell, Page, Section
from genmetric.tables import ColumnPlan
from genmetric.tables._cells import (
    MISSING_WORDS,
    cell_texts,
    column_array,
    count_texts,
    is_frame,
)
from genmetric.tables._dates import parse_date, parse_moments
from genmetric.tables._numbers import parse_numbers

#: Columns and classes shown at most.
MAX_COLUMNS, MAX_CLASSES = 60, 30

#: Bars of a small histogram, and categories listed.
BINS, TOP = 12, 3


def add_data(
    page: Page,
    comparison: ComparisonResult,
    table: Mapping[str, AnyArray],
    columns: Sequence[ColumnPlan] = (),
    n_filled: int = 0,
) -> None:
    """Add the size of the table, remarks, a summary of its columns and of the classes.

    Parameters
    ----------
    page : Page
        The page.
    comparison : ComparisonResult
        The comparison.
    table : mapping of str to ndarray of shape (n_samples,)
        Values of each column by name.
    columns : sequence of ColumnPlan, default=()
        How columns were read; columns without an entry are described by their values only.
    n_filled : int, default=0
        Number of missing values that were imputed for the figures.
    """
    section = page.section("The data")
    n_classes = len(comparison.class_names)
    classes = f", {n_classes:,} classes" if n_classes else ""
    section.paragraph(
        f"{comparison.n_samples:,} samples, {comparison.n_features:,} features{classes}."
    )
    for note in comparison.notes:
        section.paragraph(_sentence(note), note=True)
    if n_filled:
        section.paragraph(
            f"{n_filled:,} missing values were replaced by the mean of their feature for the "
            "figures of the metric and the samples.",
            note=True,
        )
    _add_columns(section, table, {column.name: column for column in columns})
    if n_classes:
        _add_classes(section, comparison)


def _add_columns(
    section: Section, table: Mapping[str, AnyArray], plans: Mapping[str, ColumnPlan]
) -> None:
    names = list(dict.fromkeys([*table, *plans]))
    rows = []
    for name in names[:MAX_COLUMNS]:
        plan = plans.get(name)
        values = table.get(name)
        cells = [None] * 4 if values is None else _summary(np.asarray(values), plan)
        kind = plan.kind if plan is not None else cells[0]
        remarks = [] if plan is None else [plan.reason, _treatment(plan)]
        shown = "; ".join(filter(None, remarks))
        rows.append([plain_name(name, width=60), kind, *cells[1:], shown])
    header = ["column", "kind", "missing", "distinct", "distribution", "remarks"]
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    cut = f" The first {MAX_COLUMNS} of {len(names):,}." if len(names) > MAX_COLUMNS else ""
    section.table(
        header,
        rows,
        formats={"missing": ".1%"},
        caption="Columns. Numbers: histogram from the smallest to the largest value; categories: "
        f"the most frequent values.{cut}",
    )


def _treatment(plan: ColumnPlan) -> str:
    how = plan.treatment_of_missing
    return f"missing values: {how}" if how else ""


def _summary(values: AnyArray, plan: ColumnPlan | None) -> list[Any]:
    """Return kind, share of missing values, number of distinct values and the distribution.

    Texts are read as the plan says: numbers with separators and units, dates, missing values.
    """
    kind = "" if plan is None else plan.kind
    words: list[str | None] = []
    if kind == "vector":
        return ["vector", sum(v is None for v in values) / max(1, len(values)), None, None]
    if values.dtype.kind not in "fiuM":
        bad = () if plan is None else plan.bad_words
        words = cell_texts(values, (*MISSING_WORDS, *bad))
        if plan is not None and kind == "number":
            values = parse_numbers(words, plan.format)[0]
        elif plan is not None and kind == "date":
            format_ = plan.date_format or "iso"
            known = [w if w is not None and parse_date(w, format_) else None for w in words]
            values = parse_moments(known, format_, plan.name)
    if values.dtype.kind in "fiu":
        numbers = values[np.isfinite(values)].astype(float)
        distribution: Any = _histogram(numbers) if len(numbers) else None
        kind, distinct, n_known = "number", len(np.unique(numbers)), len(numbers)
    elif values.dtype.kind == "M":
        days = values[~np.isnat(values)].astype("datetime64[D]")
        distribution = f"{days.min()} to {days.max()}" if len(days) else None
        kind, distinct, n_known = "date", len(np.unique(days)), len(days)
    else:
        counts = count_texts(words)
        kind, distinct, n_known = "category", len(counts), counts.total()
        top = counts.most_common(TOP)
        listed = [f"{plain_name(word, width=18)} {n / n_known:.0%}" for word, n in top]
        rest = distinct - len(listed)
        distribution = ", ".join(listed) + (f", {rest:,} more" if rest > 0 else "")
    return [kind, 1 - n_known / max(1, len(values)), distinct, distribution]


def _histogram(values: FloatArray) -> Cell:
    low, high = float(values.min()), float(values.max())
    # Halves, so that the width of a range up to the largest number is finite.
    width = high / 2 - low / 2
    if not width > 0:
        return Cell(f"always {_number(low)}")
    place = np.minimum(((values / 2 - low / 2) / width * BINS).astype(int), BINS - 1)
    counts = np.bincount(place, minlength=BINS)
    edges = [2 * (low / 2 + width * i / BINS) for i in range(BINS + 1)]
    bars = tuple(
        (count / counts.max(), f"{_number(edges[i])} to {_number(edges[i + 1])}: {count:,}")
        for i, count in enumerate(counts)
    )
    mean = float(np.mean(values / 2) * 2)
    title = f"from {_number(low)} to {_number(high)}, mean {_number(mean)}"
    return Cell(f"{_number(low)} to {_number(high)}", title=title, bars=bars)


def _number(value: float) -> str:
    """Write a number with four significant digits, and without an exponent if it is short."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"


def _add_classes(section: Section, comparison: ComparisonResult) -> None:
    counts = np.asarray(comparison.class_counts)
    order = np.argsort(-counts, kind="stable")[:MAX_CLASSES]
    n_classes = len(comparison.class_names)
    cut = f" The {MAX_CLASSES} largest of {n_classes:,}." if len(order) < n_classes else ""
    section.table(
        ["class", "samples", "share"],
        [
            [
                plain_name(comparison.class_names[i], width=60),
                int(counts[i]),
                float(counts[i] / counts.sum()),
            ]
            for i in order
        ],
        formats={"share": ".1%"},
        caption=f"Classes.{cut}",
    )


def table_columns(table: Any, X: FloatArray, feature_names: Sequence[str]) -> dict[str, AnyArray]:
    """Return the columns of a DataFrame, or of an array of features, by name.

    Parameters
    ----------
    table : DataFrame or None
        A pandas or polars frame; None takes the features.
    X : ndarray of shape (n_samples, n_features)
        Features.
    feature_names : sequence of str
        Names of the features.

    Returns
    -------
    dict of str to ndarray
        Values by column.
    """
    if is_frame(table):
        return {str(name): column_array(table, name) for name in table.columns}
    return {str(name): X[:, i] for i, name in enumerate(feature_names)}


def _sentence(text: str) -> str:
    """Write a remark with a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
