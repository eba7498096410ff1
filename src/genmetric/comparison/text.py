"""A comparison as lines of text, as a fragment of HTML and as plain values."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any

from genmetric._text import duration

if TYPE_CHECKING:
    from genmetric.comparison.result import Comparison, MethodResult


def comparison_lines(found: Comparison, width: int | None = None) -> list[str]:
    """Return the whole comparison as lines: sizes, warnings, notes, verdict, table, footnote."""
    width = max(width or shutil.get_terminal_size().columns, 40)

    lines = textwrap.wrap(_first_line(found), width)
    for note in [*(f"Warning: {warning}" for warning in found.warnings), *found.notes]:
        lines += textwrap.wrap(note, width, initial_indent="  ", subsequent_indent="    ")
    lines += ["", *textwrap.wrap(found.advice, width), "", *_table(found, width)]
    return [*lines, "", *textwrap.wrap(found.footnote, width)] if found.footnote else lines


def _first_line(found: Comparison) -> str:
    """Return title, sizes, classes and protocol in words."""
    title = f"{found.title}: " if found.title else ""
    names, target = found.class_names, "a numeric target"
    if found.task == "classification":
        more = ", ..." if len(names) > 6 else ""
        target = f"{len(names)} classes ({', '.join(names[:6])}{more})"
    features = f"{found.n_features:,} feature{'' if found.n_features == 1 else 's'}"
    return f"{title}{found.n_samples:,} samples, {features}, {target}; {found.protocol}"


def _table(found: Comparison, width: int) -> list[str]:
    """Return one line per method; times that do not fit the width are left out."""
    rows = [_heads(found), *(_cells(found, result) for result in found.ran)]
    name, score = (max(len(row[i]) for row in rows) for i in (0, 1))
    n_times = min(max((width - name - 2 - score) // 9, 0), 2)
    lines = [
        f"{row[0]:<{name}}  {row[1]:>{score}}" + "".join(f"{t:>9}" for t in row[2 : 2 + n_times])
        for row in rows
    ]
    for result in found.skipped:
        text = ": ".join(_cells(found, result)[:2])
        lines += textwrap.wrap(text, width, subsequent_indent="  ")
    return lines


def _heads(found: Comparison) -> list[str]:
    return ["method", f"{found.scoring.label} ± 95%", "fit", "predict"]


def _cells(found: Comparison, result: MethodResult) -> list[str]:
    """Return name, score and times of a method, or the reason why it was skipped."""
    if result.skipped:
        return [row_name(result), f"skipped, {result.note}", "", ""]
    times = (duration(float(t.mean())) for t in (result.fit_seconds, result.predict_seconds))
    return [row_name(result), found.score_text(result), *times]


def row_name(result: MethodResult) -> str:
    """Return label and key of a method, marked if it has no map."""
    return f"{result.name} ({result.key}{'' if result.has_map else '; no map'})"


#: Colours are those of the notebook, so that dark themes are readable.
_STYLE = (
    ".genmetric{max-width:56rem}"
    ".genmetric p{border-left:4px solid #2e9e5b;padding:.2rem .8rem;margin:.4rem 0}"
    ".genmetric p.warning{border-color:#d9822b}.genmetric small{opacity:.75;display:block}"
    ".genmetric td:first-child{text-align:left}.genmetric tr.shown td{font-weight:700}"
)


def comparison_html(found: Comparison) -> str:
    """Return the comparison as a fragment of HTML for notebooks; all text is escaped."""

    def elements(tag: str, texts: Iterable[str]) -> str:
        name = tag.partition(" ")[0]
        return "".join(f"<{tag}>{escape(text)}</{name}>" for text in texts if text or name == "td")

    rows = f"<tr>{elements('th', _heads(found))}</tr>"
    for result in found.results:
        mark = ' class="shown"' if result.key == found.recommended else ""
        rows += f"<tr{mark}>{elements('td', _cells(found, result))}</tr>"
    return (
        f'<div class="genmetric"><style>{_STYLE}</style>'
        + elements('p class="warning"', found.warnings)
        + elements("p", [found.advice])
        + f"<table>{rows}</table>"
        + elements("small", [_first_line(found), found.footnote, *found.notes])
        + "</div>"
    )


def plain(value: Any) -> Any:
    """Return a value as JSON can represent it: lists, dicts by name, and None instead of NaN."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if f.compare}
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value
