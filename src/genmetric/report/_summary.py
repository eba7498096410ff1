"""The summary of a comparison as a fragment of HTML for notebooks."""

from __future__ import annotations

from html import escape

import numpy as np

from genmetric._duration import duration
from genmetric._results import ComparisonResult, shown_result
from genmetric.plot._palette import plain_name, without_directions
from genmetric.report._comparison_sections import protocol, score_with_error, verdict_facts

#: Colours are those of the notebook, so that dark themes are readable.
_STYLE = (
    ".genmetric-summary{font:14px/1.5 system-ui,sans-serif;max-width:56rem}"
    ".genmetric-summary .verdict{border-left:4px solid #2e9e5b;padding:.2rem .8rem;margin:.4rem 0}"
    ".genmetric-summary .facts{display:flex;flex-wrap:wrap;gap:.4rem 1.6rem;margin:.4rem 0 0}"
    ".genmetric-summary .facts div{min-width:7rem}"
    ".genmetric-summary small{opacity:.75;display:block}"
    ".genmetric-summary table{border-collapse:collapse;margin:.6rem 0}"
    ".genmetric-summary th,.genmetric-summary td{text-align:right;padding:.15rem .7rem;"
    "border-bottom:1px solid rgb(125 133 144 / 40%)}"
    ".genmetric-summary th:first-child,.genmetric-summary td:first-child,"
    ".genmetric-summary td:last-child{text-align:left}"
    ".genmetric-summary tr.shown td{font-weight:700}"
)


def summary_html(comparison: ComparisonResult) -> str:
    """Return the verdict and the scores of a comparison as a fragment of HTML.

    Parameters
    ----------
    comparison : genmetric.comparison.Comparison
        The comparison.

    Returns
    -------
    str
        A ``<div>`` that needs nothing else; all text is escaped.

    Examples
    --------
    >>> from genmetric.comparison import compare_metrics
    >>> from genmetric.report import summary_html
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = compare_metrics(X, y, methods=["euclidean", "uniform"], n_splits=3)
    >>> summary_html(found).startswith('<div class="genmetric-summary">')
    True
    """
    scoring = comparison.scoring
    facts = "".join(
        f"<div><small>{_text(f.label)}</small><b>{_text(f.value)}</b>"
        f"<small>{_text(f.note)}</small></div>"
        for f in verdict_facts(comparison)
    )
    shown = shown_result(comparison)
    rows = []
    for result in comparison.results:
        name = result.name if result.distance else f"{result.name} (not a distance)"
        if result.skipped:
            cells = f"<td></td><td></td><td></td><td>skipped: {_text(result.note)}</td>"
        else:
            times = (float(np.mean(t)) for t in (result.fit_seconds, result.predict_seconds))
            values = (score_with_error(comparison, result), *map(duration, times))
            cells = (
                "".join(f"<td>{_text(v)}</td>" for v in values) + f"<td>{_text(result.note)}</td>"
            )
        mark = ' class="shown"' if result is shown else ""
        rows.append(f"<tr{mark}><td>{_text(name)}</td>{cells}</tr>")
    sizes = f"{comparison.n_samples:,} samples, {comparison.n_features:,} features"
    if len(comparison.class_names):
        sizes += f", {len(comparison.class_names):,} classes"
    title = f"{plain_name(comparison.title, width=60)}: " if comparison.title else ""
    heads = ("method", f"{scoring.label} ± s.e.", "fit", "predict", "")
    return (
        f'<div class="genmetric-summary"><style>{_STYLE}</style>'
        f'<div class="verdict">{_text(comparison.advice)}<div class="facts">{facts}</div></div>'
        f"<small>{_text(title + sizes)}; {_text(protocol(comparison))}.</small>"
        f"<table><thead><tr>{''.join(f'<th>{_text(h)}</th>' for h in heads)}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _text(text: str) -> str:
    return escape(without_directions(str(text)))
