"""Sections on the comparison itself: verdict, scores, confusion, neighbours, times, glossary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from genmetric._duration import duration
from genmetric._optional import import_optional
from genmetric._results import ComparisonResult, MethodResult, result_of, shown_result
from genmetric.plot import ComparisonDisplay, ErrorByKDisplay, TimesDisplay
from genmetric.plot._palette import plain_name
from genmetric.report._page import Cell, Fact, Page
from genmetric.report._svg import add_display, add_picture

#: Classes up to which the whole confusion matrix is shown.
MAX_CONFUSION = 15

#: Terms of the report in plain words; methods are added by the caller.
TERMS = {
    "baseline": "the best method that does not use the target",
    "standard error": "the uncertainty of a mean over the folds; differences of less than two "
    "standard errors are often chance",
    "p-value": "the probability of a difference at least this large if both methods were equally "
    "good (corrected resampled t-test, adjusted for the number of methods)",
    "corrected resampled t-test": "a t-test of the differences in the folds, with a larger variance "
    "because the folds share training samples",
}


def verdict_facts(comparison: ComparisonResult) -> list[Fact]:
    """Return the evidence behind the recommendation.

    Parameters
    ----------
    comparison : ComparisonResult
        The comparison.

    Returns
    -------
    list of Fact
        Recommended method, its score, the baseline, the p-value, and the majority class or the
        mean of numeric targets.
    """
    facts = []
    recommended = result_of(comparison, comparison.recommended)
    shown = shown_result(comparison)
    if recommended is not None:
        facts.append(Fact("Recommended", _capital(recommended.name), f'method "{recommended.key}"'))
    elif comparison.ran:
        facts.append(Fact("Recommended", "none"))
    label = _capital(comparison.scoring.label)
    if shown is not None:
        note = shown.name if recommended is None else ""
        facts.append(Fact(label, score_with_error(comparison, shown), note))
    baseline = result_of(comparison, comparison.baseline)
    if baseline is not None and baseline is not shown:
        value = score_with_error(comparison, baseline)
        facts.append(Fact("Baseline", value, baseline.name))
    best = result_of(comparison, comparison.best)
    if best is not None and best is not shown:
        facts.append(Fact("Best score", score_with_error(comparison, best), best.name))
    if np.isfinite(comparison.p_value):
        level = "significant at the 5% level" if comparison.p_value < 0.05 else "not significant"
        facts.append(Fact("p-value", f"{comparison.p_value:.2g}", level))
    for key in ("majority", "mean"):
        constant = result_of(comparison, key)
        if constant is not None:
            value = comparison.scoring.text(constant.error, _digits(comparison))
            facts.append(Fact(_capital(constant.name), value, "without using the features"))
    return facts


def score_with_error(comparison: ComparisonResult, result: MethodResult) -> str:
    """Write the mean score of a method with its standard error."""
    digits = _digits(comparison)
    text = comparison.scoring.text(result.error, digits)
    if not np.isfinite(result.standard_error):
        return text
    unit = 100 if comparison.scoring.percent else 1
    return f"{text} ± {unit * result.standard_error:.{digits}f}"


def add_scores(page: Page, comparison: ComparisonResult) -> None:
    """Add the scores of all methods as a figure and a table."""
    scoring = comparison.scoring
    section = page.section("Comparison")
    if not comparison.ran:
        section.paragraph("No method was run.")
    else:
        section.paragraph(
            f"{protocol(comparison)}. All methods use the same folds and select their parameters "
            "on the training samples only."
        )
        better = "Larger" if scoring.greater_is_better else "Smaller"
        caption = f"Dot and bar: mean with standard error; strokes: each fold. {better} is better."
        if result_of(comparison, comparison.baseline) is not None:
            caption += " Dashed line: baseline."
        n = len(comparison.ran)
        add_display(
            section,
            lambda ax: ComparisonDisplay.from_comparison(comparison, ax=ax),
            size=(8.8, 1.0 + 0.36 * n),
            narrow_height=0.8 + 0.44 * n,
            caption=caption,
            alt=f"{_capital(scoring.label)} of each method",
        )
    base = result_of(comparison, comparison.baseline)
    unit, digits = (100 if scoring.percent else 1), _digits(comparison)
    header = ["method", scoring.heading, "± s.e.", "vs. baseline", "fit, s", "predict, s"]
    remarks = [_remark(result) for result in comparison.results]
    header += ["selected parameters; remarks"] * any(remarks)
    shown = shown_result(comparison)
    rows = []
    for result, remark in zip(comparison.results, remarks, strict=True):
        name = result.name if result.distance else f"{result.name} (not a distance)"
        if result.skipped:
            row: list[Any] = [Cell(name, "quiet"), *[None] * 5, Cell(remark, "quiet")]
            rows.append(row[: len(header)])
            continue
        mark = "best" if result is shown else None
        loss = result.error - base.error if base and result is not base else float("nan")
        # Rounded, so that differences that are shown as zero have neither sign nor colour.
        loss = round(unit * loss, digits) + 0.0
        sign = "good" if loss < 0 else "bad" if loss > 0 else None
        change = -loss + 0.0 if scoring.greater_is_better else loss
        folds = ", ".join(f"{unit * scoring.score(e):.{digits}f}" for e in result.errors[:30])
        error = result.standard_error
        row = [
            name,
            Cell(unit * float(scoring.score(result.error)), mark, f"folds: {folds}"),
            None if np.isnan(error) else unit * error,
            None if np.isnan(loss) else Cell(change, sign),
            float(np.mean(result.fit_seconds)),
            float(np.mean(result.predict_seconds)),
            remark,
        ]
        rows.append(row[: len(header)])
    points = "percentage points" if scoring.percent else "units of the score"
    formats = {
        scoring.heading: f".{digits}f",
        "± s.e.": f".{digits}f",
        "vs. baseline": f"+.{digits}f",
    }
    section.table(
        header,
        rows,
        formats={**formats, "fit, s": ".3f", "predict, s": ".3f"},
        caption=f"Scores on test samples; differences from the baseline in {points}.",
    )


def add_confusion(page: Page, comparison: ComparisonResult) -> None:
    """Add the confusion matrix of the recommended method, or its most frequent confusions."""
    result = shown_result(comparison)
    if result is None or result.confusion is None:
        return
    counts = np.asarray(result.confusion)
    names = [plain_name(name, width=20) for name in comparison.class_names]
    total = counts.sum(axis=1)
    section = page.section("Confusion matrix")
    repeats = f", summed over {comparison.n_repeats} repeats" * (comparison.n_repeats > 1)
    section.paragraph(f"Test samples of all folds{repeats}, classified by {result.name}.")
    share = counts / np.maximum(total, 1)[:, None]
    if len(counts) <= MAX_CONFUSION:
        rows = []
        for i, name in enumerate(names):
            cells = [
                Cell(
                    int(counts[i, j]),
                    title=f"{name} classified as {names[j]}: {counts[i, j]:,} of {total[i]:,}, "
                    f"{share[i, j]:.1%}",
                    shade=float(share[i, j]),
                )
                for j in range(len(names))
            ]
            rows.append([name, *cells, float(share[i, i])])
        columns = [f"{plain_name(name, width=14)}" for name in names]
        # Headings are keys of formats, so equal abbreviations need a number.
        columns = [f"{c} ({j + 1})" if columns.count(c) > 1 else c for j, c in enumerate(columns)]
        section.table(
            ["actual class", *columns, "recall"],
            rows,
            formats={"recall": ".1%"},
            caption="Rows: actual class. Columns: predicted class. Darker cells are a larger share "
            "of their row.",
            sortable=False,
        )
        return
    wrong = counts * (1 - np.eye(len(counts), dtype=int))
    order = np.argsort(-wrong, axis=None, kind="stable")[:20]
    pairs = [tuple(map(int, np.unravel_index(k, wrong.shape))) for k in order]
    section.table(
        ["actual class", "predicted class", "samples", "share of the actual class"],
        [
            [names[i], names[j], int(wrong[i, j]), float(share[i, j])]
            for i, j in pairs
            if wrong[i, j]
        ],
        formats={"share of the actual class": ".1%"},
        caption=f"The most frequent confusions among {len(counts):,} classes.",
    )


def add_predictions(page: Page, comparison: ComparisonResult) -> None:
    """Add predicted against actual values and residuals of the recommended method."""
    result = shown_result(comparison)
    if result is None or result.predictions is None:
        return
    from sklearn.metrics import PredictionErrorDisplay

    ticker = import_optional("matplotlib.ticker", "report")
    actual, predicted = (np.asarray(values, float) for values in result.predictions)
    step = max(1, len(actual) // 1000)
    shown = slice(None, None, step)
    display = PredictionErrorDisplay(y_true=actual[shown], y_pred=predicted[shown])
    style = {"s": 8, "alpha": 0.6, "linewidths": 0, "rasterized": len(actual[shown]) > 400}

    large = max(np.abs(actual).max(), np.abs(predicted).max()) >= 1e5

    def draw(axes: Any, narrow: bool) -> None:  # noqa: ARG001
        for ax, kind in zip(axes, ("actual_vs_predicted", "residual_vs_predicted"), strict=True):
            display.plot(ax=ax, kind=kind, scatter_kwargs=style)
        # scikit-learn places ticks at fractions of the range; these are round numbers.
        for axis in (axes[0].xaxis, axes[0].yaxis):
            axis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 5, 10]))
        if large:
            for ax in axes:
                ax.xaxis.set_major_formatter(ticker.EngFormatter())
                ax.yaxis.set_major_formatter(ticker.EngFormatter())

    section = page.section("Predicted and actual values")
    section.paragraph(f"Test samples of all folds, predicted by {result.name}.")
    add_picture(
        section,
        draw,
        size=(8.8, 3.8),
        narrow_height=6.0,
        panels=2,
        caption="Left (above on narrow screens): actual against predicted values; on the line both "
        "are equal. Right (below): residuals, actual minus predicted values.",
        alt="Actual values and residuals against predicted values",
    )


def add_error_by_k(page: Page, comparison: ComparisonResult) -> None:
    """Add the error on test samples by number of neighbours."""
    if not comparison.error_by_k:
        return
    section = page.section("Error by number of neighbours")
    n = len(comparison.error_by_k)
    add_display(
        section,
        lambda ax: ErrorByKDisplay.from_comparison(comparison, ax=ax),
        size=(8.8, 3.6),
        narrow_height=2.7 + 0.2 * n,
        caption="Error rate on the test samples, averaged over the folds; each metric was learned "
        "on the training samples of its fold. A flat line means that the number of neighbours "
        "matters little.",
        alt="Error rate by number of neighbours",
    )


def add_times(page: Page, comparison: ComparisonResult) -> None:
    """Add the time of each method as a figure."""
    if not comparison.ran:
        return
    n = len(comparison.ran)
    total = sum(
        float(np.sum(r.fit_seconds) + np.sum(r.predict_seconds)) + r.skipped_seconds
        for r in comparison.results
    )
    section = page.section("Time")
    add_display(
        section,
        lambda ax: TimesDisplay.from_comparison(comparison, ax=ax),
        size=(8.8, 1.2 + 0.3 * n),
        narrow_height=1.2 + 0.44 * n,
        caption="Mean over the folds on the machine of the comparison. Fitting includes the "
        f"selection of parameters. All methods together took {duration(total)}.",
        alt="Time of each method",
    )


def add_glossary(page: Page, comparison: ComparisonResult, glossary: Mapping[str, str]) -> None:
    """Add explanations of the methods in the table and of the terms of the report."""
    shown = {r.name: glossary[r.name] for r in comparison.results if r.name in glossary}
    terms = {name: text for name, text in TERMS.items() if comparison.ran}
    if shown or terms:
        page.section("Glossary").terms({**shown, **terms})


def protocol(comparison: ComparisonResult) -> str:
    """Describe the cross-validation in words."""
    text = f"{comparison.n_splits}-fold cross-validation"
    if comparison.splitter:
        text += f" by {comparison.splitter}"
    return text if comparison.n_repeats == 1 else f"{text}, repeated {comparison.n_repeats} times"


def _digits(comparison: ComparisonResult) -> int:
    """Return the number of decimals of scores, which those of the largest score decide."""
    scoring = comparison.scoring
    digits = scoring.digits(comparison.n_samples * comparison.n_repeats)
    largest = max((abs(float(scoring.score(r.error))) for r in comparison.ran), default=0.0)
    return scoring.decimals(largest, digits)


def _remark(result: MethodResult) -> str:
    """Return the parameters that most folds selected, and the note."""
    selected = Counter(_in_words(parameters) for parameters in result.parameters if parameters)
    parts = [selected.most_common(1)[0][0]] if selected else []
    if result.note:
        parts.append(f"skipped: {result.note}" if result.skipped else result.note)
    return "; ".join(parts)


def _in_words(parameters: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in parameters.items()
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
