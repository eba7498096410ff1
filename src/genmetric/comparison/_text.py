"""A comparison as lines of text and as JSON."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from genmetric._typing import FloatArray

if TYPE_CHECKING:
    from genmetric.comparison._result import Comparison, MethodResult


def table_head(found: Comparison, width: int) -> list[str]:
    """Return the lines above the rows: sizes, notes and column headings.

    Parameters
    ----------
    found : Comparison
        The comparison; results are not needed yet.
    width : int
        Characters of the first column.

    Returns
    -------
    list of str
        Lines of text.
    """
    folds = f"{found.n_splits} folds" + (
        f", {found.n_repeats} repeats" if found.n_repeats > 1 else ""
    )
    numeric = found.scoring.task == "regression"
    target = "numeric target" if numeric else f"{len(found.class_names)} classes"
    sizes = f"{found.n_samples} samples, {found.n_features} features, {target}"
    title = f"{found.title}: " if found.title else ""
    return [
        f"{title}{sizes}, {folds}",
        *(f"  {note}" for note in found.notes),
        "",
        f"{'method':<{width}}  {found.scoring.heading:>22}  {'fit, s':>8}  {'predict, s':>10}",
    ]


def table_row(found: Comparison, result: MethodResult, width: int) -> list[str]:
    """Return the lines of one method.

    Parameters
    ----------
    found : Comparison
        The comparison, for its scoring.
    result : MethodResult
        The row.
    width : int
        Characters of the first column.

    Returns
    -------
    list of str
        One line, and a second one if there is a note.
    """
    name = f"{row_name(result):<{width}}"
    if result.skipped:
        return [f"{name}  skipped: {result.note}"]
    score, error = score_text(found, result)
    times = f"{_seconds(result.fit_seconds):>8}  {_seconds(result.predict_seconds):>10}"
    lines = [f"{name}  {f'{score} ± {error}':>22}  {times}"]
    return lines + ([f"{'':<{width}}  ({result.note})"] if result.note else [])


def comparison_lines(found: Comparison) -> list[str]:
    """Return the whole comparison as lines of text."""
    width = max((len(row_name(r)) for r in found.results), default=0)
    rows = [line for r in found.results for line in table_row(found, r, width)]
    return [*table_head(found, width), *rows, "", found.advice]


def row_name(result: MethodResult) -> str:
    """Return the first cell of a row: label and key, marked if the method is not a distance."""
    return keyed_label(result.name, result.key, result.distance)


def keyed_label(label: str, key: str, distance: bool) -> str:
    """Return a label with the key that ``--methods`` accepts and a mark if it is not a distance."""
    details = [key] if key else []
    if not distance:
        details.append("not a distance")
    return f"{label} ({', '.join(details)})" if details else label


def score_text(found: Comparison, result: MethodResult) -> tuple[str, str]:
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


def _seconds(values: FloatArray) -> str:
    mean = float(np.mean(values))
    return f"{mean:.3f}" if mean < 10 else f"{mean:.0f}"


def comparison_dict(found: Comparison) -> dict[str, Any]:
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


def _method_dict(found: Comparison, result: MethodResult) -> dict[str, Any]:
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
