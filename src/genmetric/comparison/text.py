"""A comparison as lines of text, as a fragment of HTML and as plain values."""

from __future__ import annotations

import shutil
import textwrap
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any

from genmetric._text import duration

if TYPE_CHECKING:
    from genmetric.comparison.result import Comparison, MethodResult


def comparison_lines(found: Comparison, width: int | None = None) -> list[str]:
    """Return the whole comparison as lines: sizes, warnings, notes, verdict, table, footnote."""
    width = max(width or shutil.get_terminal_size().columns, 40)

    def wrapped(text: str, indent: str = "") -> list[str]:
        return textwrap.wrap(text, width, subsequent_indent=indent) if text else []

    title = f"{found.title}: " if found.title else ""
    lines = wrapped(f"{title}{sizes(found)}; {found.protocol}")
    for warning in found.warnings:
        lines += wrapped(f"Warning: {warning}", "  ")
    for note in found.notes:
        lines += textwrap.wrap(note, width, initial_indent="  ", subsequent_indent="    ")
    lines += ["", *wrapped(found.advice), ""]
    lines += _table(found, width)
    return [*lines, "", *wrapped(found.footnote)] if found.footnote else lines


def sizes(found: Comparison) -> str:
    """Return the numbers of samples, features and classes in words."""
    target = "a numeric target"
    if found.task == "classification":
        names = ", ".join(found.class_names[:6]) + (", ..." if len(found.class_names) > 6 else "")
        target = f"{_count(len(found.class_names), 'class')} ({names})"
    counts = (_count(found.n_samples, "sample"), _count(found.n_features, "feature"), target)
    return ", ".join(counts)


def _count(n: int, word: str) -> str:
    plural = f"{word}es" if word.endswith("s") else f"{word}s"
    return f"{n:,} {word if n == 1 else plural}"


def _table(found: Comparison, width: int) -> list[str]:
    """Return one line per method; times that do not fit the width are left out."""
    rows = [("method", f"{found.scoring.label} ± 95% interval", "fit", "predict")]
    for result in found.ran:
        times = (duration(float(s.mean())) for s in (result.fit_seconds, result.predict_seconds))
        rows.append((row_name(result), found.score_text(result), *times))
    name, score = (max(len(row[i]) for row in rows) for i in (0, 1))
    n_times = min(max((width - name - 2 - score) // 9, 0), 2)
    lines = [
        f"{row[0]:<{name}}  {row[1]:>{score}}" + "".join(f"{t:>9}" for t in row[2 : 2 + n_times])
        for row in rows
    ]
    for result in found.skipped:
        text = f"{row_name(result)}: skipped, {result.note}"
        lines += textwrap.wrap(text, width, subsequent_indent="  ")
    return lines


def row_name(result: MethodResult) -> str:
    """Return label and key of a method, marked if it has no map."""
    return f"{result.name} ({result.key}{'' if result.has_map else '; no map'})"


#: Colours are those of the notebook, so that dark themes are readable.
_STYLE = (
    ".genmetric{font:14px/1.5 system-ui,sans-serif;max-width:56rem}"
    ".genmetric .verdict{border-left:4px solid #2e9e5b;padding:.2rem .8rem;margin:.4rem 0}"
    ".genmetric .warning{border-left:4px solid #d9822b;padding:.2rem .8rem;margin:.4rem 0}"
    ".genmetric small{opacity:.75;display:block}"
    ".genmetric table{border-collapse:collapse;margin:.6rem 0}"
    ".genmetric th,.genmetric td{text-align:right;padding:.15rem .7rem;"
    "border-bottom:1px solid rgb(125 133 144 / 40%)}"
    ".genmetric th:first-child,.genmetric td:first-child{text-align:left}"
    ".genmetric tr.shown td{font-weight:700}"
)


def comparison_html(found: Comparison) -> str:
    """Return the comparison as a fragment of HTML for notebooks; all text is escaped."""
    rows = []
    for result in found.results:
        cells = [row_name(result), f"skipped: {result.note}", "", ""]
        if not result.skipped:
            times = (result.fit_seconds, result.predict_seconds)
            cells[1:] = [found.score_text(result), *(duration(float(t.mean())) for t in times)]
        mark = ' class="shown"' if result.key == found.recommended else ""
        rows.append(f"<tr{mark}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    heads = ("method", f"{found.scoring.label} ± 95% interval", "fit", "predict")
    title = f"{found.title}: " if found.title else ""
    small = [f"{title}{sizes(found)}; {found.protocol}.", found.footnote, *found.notes]
    warnings = "".join(f'<div class="warning">{escape(text)}</div>' for text in found.warnings)
    return (
        f'<div class="genmetric"><style>{_STYLE}</style>{warnings}'
        f'<div class="verdict">{escape(found.advice)}</div>'
        f"<table><thead><tr>{''.join(f'<th>{escape(h)}</th>' for h in heads)}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
        f"{''.join(f'<small>{escape(text)}</small>' for text in small if text)}</div>"
    )


def comparison_dict(found: Comparison) -> dict[str, Any]:
    """Return the comparison as plain values that JSON can represent; NaN becomes None."""
    counts = zip(found.class_names, found.class_counts, strict=True)
    same = ("title", "task", "n_splits", "n_repeats", "splitter", "seed", "incomplete")
    verdict = ("baseline", "challenger", "recommended", "advice", "footnote")
    return {
        **{name: getattr(found, name) for name in same},
        "n_samples": found.n_samples,
        "features": list(found.feature_names),
        "classes": {name: int(n) for name, n in counts},
        "scoring": found.scoring.key,
        "methods": [_method_dict(found, result) for result in found.results],
        "error_by_k": {
            key: {"k": ks.tolist(), "error": [_number(e) for e in errors]}
            for key, (ks, errors) in found.error_by_k.items()
        },
        **{name: getattr(found, name) for name in verdict},
        "p_value": _number(found.p_value),
        "more_accurate": list(found.more_accurate),
        "not_run": list(found.not_run),
        "warnings": list(found.warnings),
        "notes": list(found.notes),
    }


def _method_dict(found: Comparison, result: MethodResult) -> dict[str, Any]:
    score = found.scoring.score
    return {
        "method": result.key,
        "name": result.name,
        "has_map": result.has_map,
        "skipped": result.skipped,
        "score": _number(score(result.error)),
        "margin": _number(result.margin),
        "fold_scores": [float(score(e)) for e in result.errors],
        "fit_seconds": result.fit_seconds.tolist(),
        "predict_seconds": result.predict_seconds.tolist(),
        "parameters": [dict(p) for p in result.parameters],
        "confusion": None if result.confusion is None else result.confusion.tolist(),
        "note": result.note,
    }


def _number(value: float) -> float | None:
    return float(value) if isfinite(value) else None
