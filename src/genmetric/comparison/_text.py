"""A comparison as lines of text and as JSON."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from genmetric._duration import duration
from genmetric._results import ComparisonResult, MethodResult
from genmetric._scoring import Scoring
from genmetric._typing import FloatArray


class TableLayout(NamedTuple):
    """Widths of the columns of a table of results.

    Attributes
    ----------
    name, score : int
        Characters of the columns of names and of scores.
    times : int
        Number of columns of times: 2 (fit and predict), 1 (fit) or 0.
    """

    name: int
    score: int
    times: int


#: Characters of a mean with its standard error: a percentage, and a number with four decimals.
_PERCENT_WIDTH, _NUMBER_WIDTH = 13, 16

#: Characters of a column of times with its separator.
_TIME_WIDTH = 9


def table_layout(names: Iterable[str], scoring: Scoring, width: int | None = None) -> TableLayout:
    """Choose the columns of a table of results so that a line fits the terminal.

    Parameters
    ----------
    names : iterable of str
        Names of all rows, as of :func:`keyed_label`.
    scoring : Scoring
        Score of the comparison.
    width : int, default=None
        Characters of a line. None is the width of the terminal, 80 if there is none.

    Returns
    -------
    TableLayout
        The layout: times that do not fit are left out, first those of predictions.
    """
    if width is None:
        width = shutil.get_terminal_size().columns
    name = max(map(len, names), default=0)
    score = max(len(scoring.heading), _PERCENT_WIDTH if scoring.percent else _NUMBER_WIDTH)
    left = (width - name - 2 - score) // _TIME_WIDTH
    return TableLayout(name, score, min(max(left, 0), 2))


def table_head(found: ComparisonResult, layout: TableLayout) -> list[str]:
    """Return the lines above the rows: sizes, notes and column headings.

    Parameters
    ----------
    found : Comparison
        The comparison; results are not needed yet.
    layout : TableLayout
        Widths of the columns.

    Returns
    -------
    list of str
        Lines of text.
    """
    folds = f"{found.n_splits} folds"
    if found.splitter:
        folds += f" by {found.splitter}"
    if found.n_repeats > 1:
        folds += f", {found.n_repeats} repeats"
    numeric = found.scoring.task == "regression"
    target = "numeric target" if numeric else f"{len(found.class_names)} classes"
    sizes = f"{found.n_samples} samples, {found.n_features} features, {target}"
    title = f"{found.title}: " if found.title else ""
    return [
        f"{title}{sizes}, {folds}",
        *(f"  {note}" for note in found.notes),
        "",
        _line("method", found.scoring.heading, ("fit", "predict"), layout),
    ]


def _line(name: str, score: str, times: tuple[str, str], layout: TableLayout) -> str:
    shown = "".join(f"{time:>{_TIME_WIDTH}}" for time in times[: layout.times])
    return f"{name:<{layout.name}}  {score:>{layout.score}}{shown}"


def table_row(found: ComparisonResult, result: MethodResult, layout: TableLayout) -> list[str]:
    """Return the lines of one method.

    Parameters
    ----------
    found : Comparison
        The comparison, for its scoring.
    result : MethodResult
        The row.
    layout : TableLayout
        Widths of the columns.

    Returns
    -------
    list of str
        One line, and a second one if there is a note.
    """
    name = row_name(result)
    if result.skipped:
        return [f"{name:<{layout.name}}  {'skipped':>{layout.score}}", f"  ({result.note})"]
    score, error = score_text(found, result)
    times = (_mean_time(result.fit_seconds), _mean_time(result.predict_seconds))
    lines = [_line(name, f"{score} ± {error}", times, layout)]
    return lines + ([f"  ({result.note})"] if result.note else [])


def comparison_lines(found: ComparisonResult) -> list[str]:
    """Return the whole comparison as lines of text."""
    layout = table_layout(map(row_name, found.results), found.scoring)
    rows = [line for r in found.results for line in table_row(found, r, layout)]
    return [*table_head(found, layout), *rows, "", found.advice]


def row_name(result: MethodResult) -> str:
    """Return the first cell of a row: label and key, marked if the method is not a distance."""
    return keyed_label(result.name, result.key, result.distance)


def keyed_label(label: str, key: str, distance: bool) -> str:
    """Return a label with the key that ``--methods`` accepts and a mark if it is not a distance."""
    details = [key] if key else []
    if not distance:
        details.append("not a distance")
    return f"{label} ({', '.join(details)})" if details else label


def score_text(found: ComparisonResult, result: MethodResult) -> tuple[str, str]:
    """Return mean score and standard error with the digits that one prediction changes."""
    digits = found.scoring.digits(found.n_samples * found.n_repeats)
    unit = 100 if found.scoring.percent else 1
    error = result.standard_error
    score = unit * found.scoring.score(result.error)
    digits = found.scoring.decimals(score, digits)
    return (
        f"{score:.{digits}f}",
        "?" if isnan(error) else f"{unit * error:.{digits}f}",
    )


def _mean_time(seconds: FloatArray) -> str:
    return duration(float(np.mean(seconds)))


def comparison_dict(found: ComparisonResult) -> dict[str, Any]:
    """Return the comparison as plain values that JSON can represent; NaN becomes None."""
    return {
        "title": found.title,
        "samples": found.n_samples,
        "features": list(found.feature_names),
        "classes": {
            name: int(n) for name, n in zip(found.class_names, found.class_counts, strict=True)
        },
        "folds": found.n_splits,
        "repeats": found.n_repeats,
        "seed": found.seed,
        "task": found.scoring.task,
        "scoring": found.scoring.key,
        "methods": [_method_dict(found, result) for result in found.results],
        "error_by_k": {
            name: {"k": ks.tolist(), "error": [_number(e) for e in errors]}
            for name, (ks, errors) in found.error_by_k.items()
        },
        "baseline": found.baseline,
        "best": found.best,
        "recommended": found.recommended,
        "p_value": _number(found.p_value),
        "advice": found.advice,
        "notes": list(found.notes),
    }


def _method_dict(found: ComparisonResult, result: MethodResult) -> dict[str, Any]:
    score = found.scoring.score
    return {
        "method": result.key,
        "name": result.name,
        "distance": result.distance,
        "skipped": result.skipped,
        "score": _number(score(result.error)),
        "standard_error": _number(result.standard_error),
        "scores": score(result.errors).tolist(),
        "fit_seconds": result.fit_seconds.tolist(),
        "predict_seconds": result.predict_seconds.tolist(),
        "parameters": [{k: plain(v) for k, v in p.items()} for p in result.parameters],
        "confusion": None if result.confusion is None else result.confusion.tolist(),
        "note": result.note,
    }


def plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number; other values are returned unchanged."""
    return value.item() if hasattr(value, "item") else value


def _number(value: float) -> float | None:
    return None if isnan(value) else float(value)
