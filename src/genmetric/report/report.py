"""The report on a comparison: what helps, what was learned, and how rows move."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric._quiet import quiet
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric.metric import GenerativeMetric
from genmetric.plot import (
    EmbeddingDisplay,
    FeatureWeightsDisplay,
    LocalMetricsDisplay,
    MetricHeatmapDisplay,
    NeighborsDisplay,
    SpectrumDisplay,
    WeightPathDisplay,
)
from genmetric.plot.learned import (
    class_codes,
    draw,
    learned_metric,
    name_features,
    transformer_of,
)
from genmetric.plot.metric import heatmap_size
from genmetric.plot.palette import plain_name
from genmetric.report.figures_found import (
    add_comparison,
    add_data,
    add_error_by_k,
    add_times,
    folds,
)
from genmetric.report.held_out import MAX_REFIT_FEATURES, MAX_ROWS, HeldOut, fill_missing, hold_out
from genmetric.report.page import Cell, Page
from genmetric.report.svg import picture
from genmetric.study.comparison import Comparison


def write_report(
    comparison: Comparison,
    X: ArrayLike,
    y: ArrayLike,
    *,
    path: str | os.PathLike[str],
    metric: Any = None,
    metric_name: str = "",
    feature_names: Sequence[Any] | None = None,
    class_names: Sequence[Any] | None = None,
    row_names: Sequence[Any] | None = None,
    footers: Sequence[str] = (),
    refit: bool | None = None,
    random_state: int = 0,
) -> Path:
    """Write the report on a comparison as one HTML file that needs nothing else.

    The same arguments give the same file, byte for byte.

    Parameters
    ----------
    comparison : genmetric.study.comparison.Comparison
        Errors and times of the methods.
    X : array-like of shape (n_samples, n_features)
        The rows compared on.
    y : array-like of shape (n_samples,)
        Their labels.
    path : str or path-like
        The file to write; one that is there is replaced, whole or not at all.
    metric : object, default=None
        The fitted metric to show, or a pipeline of linear steps with one in it;
        ``make_pipeline(StandardScaler(), GenerativeMetric())`` fitted on the rows by default.
    metric_name : str, default=""
        What the report calls it.
    feature_names : sequence of length n_features, default=None
        Names of the features; those of the comparison by default.
    class_names : sequence of length n_classes, default=None
        Names of the classes in sorted order of the labels; those of the comparison by default.
    row_names : sequence of length n_samples, default=None
        Names of the rows; their positions, counted from 1, by default.
    footers : sequence of str, default=()
        More lines for the foot of the page, such as the command and the date.
    refit : bool, default=None
        Whether to fit the metric anew without the rows that show what it does to rows it has not
        seen. ``None`` does up to 300 features, where a fit is quick; without it the report says
        that the metric has seen the rows.
    random_state : int, default=0
        Draws rows where there are too many to show.

    Returns
    -------
    pathlib.Path
        The file written.
    """
    x, n_filled = fill_missing(X)
    labels = np.asarray(y)
    if len(labels) != len(x):
        raise ValueError(f"X has {len(x)} rows, but y has {len(labels)} labels.")
    features = name_features(
        feature_names or comparison.feature_names or None, metric, X, x.shape[1]
    )
    classes = _class_names(labels, class_names, comparison)
    rows = list(range(1, len(x) + 1)) if row_names is None else list(row_names)
    if len(rows) != len(x):
        raise ValueError(f"row_names has {len(rows)} names for {len(x)} rows.")
    if metric is None:
        metric = make_pipeline(StandardScaler(), GenerativeMetric()).fit(x, labels)
    metric_name = metric_name or _title(metric)
    refit = x.shape[1] <= MAX_REFIT_FEATURES if refit is None else refit
    parts = hold_out(metric, x, labels, random_state, refit)

    page = Page(
        f"Metrics compared: {plain_name(comparison.title, width=80)}",
        lead=[comparison.advice] if comparison.advice else [],
    )
    add_comparison(page, comparison)
    if comparison.error_by_k:
        add_error_by_k(page, comparison)
    _add_metric(page, metric, metric_name, x, features)
    _add_local_metrics(page, metric, x, labels, features, classes, random_state)
    _add_neighbors(page, parts, rows, classes, random_state)
    _add_embedding(page, parts, classes, random_state)
    _add_rounds(page, metric)
    add_times(page, comparison)
    add_data(page, comparison, n_filled)
    version = _version()
    page.footer(
        f"genmetric {version}. {folds(comparison)}; seed {comparison.seed} for the folds, "
        f"{random_state} for rows drawn."
    )
    for text in footers:
        page.footer(text)
    return page.write(path)


def _add_metric(page: Page, metric: Any, name: str, x: FloatArray, features: Sequence[str]) -> None:
    section = page.section("The metric")
    try:
        learned = learned_metric(metric, x, names=features)
    except TypeError as error:
        section.paragraph(str(error))
        return
    section.paragraph(
        f"{name}, fitted on all rows. Features are measured in standard deviations, so that the "
        "Euclidean distance would be ones on the diagonal and nothing beside it."
    )
    shown = min(40, len(features))
    few = ""
    if shown < len(features):
        few = f" Shown: the {shown} features of largest weight, of {len(features):,}."
    with picture(
        section,
        heatmap_size([features[i] for i in np.argsort(-learned.weights)[:shown]]),
        caption="Coupled features stand together. Orange off the diagonal: two features that move "
        "together set rows farther apart; blue: they make up for each other." + few,
        alt="Heat map of the metric",
    ) as ax:
        MetricHeatmapDisplay.from_estimator(metric, x, feature_names=features, ax=ax)
    with picture(
        section,
        (7.4, 3.2),
        caption="Eigenvalues of the metric. A steep line: few directions decide who is near.",
        alt="Spectrum of the metric",
    ) as ax:
        SpectrumDisplay.from_estimator(metric, x, ax=ax)

    section = page.section("Feature weights")
    section.paragraph(
        "The diagonal of the metric times the variance of the feature, as a share of their sum: how "
        "much of the squared distance between rows the feature makes, whatever its unit."
    )
    n_bars = min(25, len(features))
    with picture(
        section,
        (8.2, 1.1 + 0.235 * n_bars),
        caption="" if n_bars == len(features) else f"The {n_bars} largest of {len(features):,}.",
        alt="Weight of each feature",
    ) as ax:
        FeatureWeightsDisplay(learned.weights, feature_names=features, max_features=n_bars).plot(
            ax=ax
        )
        ax.set_title("")


def _add_local_metrics(
    page: Page,
    metric: Any,
    x: FloatArray,
    y: AnyArray,
    features: Sequence[str],
    classes: Sequence[str],
    seed: int,
) -> None:
    """The local metrics of the two features of largest weight, where the metric has any."""
    last = _last_step(metric)
    if not hasattr(last, "local_metrics") or x.shape[1] < 2:
        return
    weights = learned_metric(metric, x).weights
    shown = draw(len(x), MAX_ROWS, seed)
    pair = _two_features(weights, x[shown])
    if pair is None:
        return
    plane = x[shown][:, pair]
    try:
        with quiet(Warning):
            model = make_pipeline(StandardScaler(), GenerativeMetric()).fit(plane, y[shown])
    except ValueError:
        return
    present = np.isin(np.unique(y), y[shown])
    section = page.section("How the metric comes about")
    section.paragraph(
        "At each row the densities of the classes say in which directions neighbours may be taken "
        "from farther away: along an ellipse they are equally near. The metric learned is the "
        "average over the rows. Shown for a metric of two features of large weight alone."
    )
    with picture(
        section,
        (8.6, 4.8),
        caption="Local metrics over the plane of two features; rows in the colour of their class.",
        alt="Local metrics as ellipses",
    ) as ax:
        LocalMetricsDisplay.from_estimator(
            model,
            plane,
            y[shown],
            feature_names=[features[i] for i in pair],
            class_names=[n for n, there in zip(classes, present, strict=True) if there],
            random_state=seed,
            ax=ax,
        )


def _two_features(weights: FloatArray, x: FloatArray) -> list[int] | None:
    """The feature of largest weight, and the next that does not say the same again."""
    order = [int(i) for i in np.argsort(-weights, kind="stable") if weights[i] > 0][:50]
    if len(order) < 2:
        return None
    first, *others = order
    related = np.abs(np.atleast_2d(np.corrcoef(x[:, order], rowvar=False))[0, 1:])
    apart = [other for other, r in zip(others, related, strict=True) if r < 0.7]
    return [first, (apart or others)[0]]


def _add_neighbors(
    page: Page, parts: HeldOut, row_names: Sequence[Any], classes: Sequence[str], seed: int
) -> None:
    section = page.section("Neighbours before and after")
    if not len(parts.x):
        section.paragraph("Too few rows to keep some apart.")
        return
    section.paragraph(parts.description)
    k = min(10, len(parts.x_fit) - 1)
    if k < 1:
        return
    n_examples = min(12, len(parts.x))
    every = np.unique(np.concatenate([parts.y, parts.y_fit]))
    names = dict(zip(every, classes, strict=True)) if len(every) == len(classes) else None
    with picture(
        section,
        (1.7 + 0.31 * (2 * k + 4), 1.3 + 0.31 * n_examples),
        caption=f"The {k} nearest rows in standardised features, and under the metric, nearest "
        "first: filled where of the row's own class. Examples are evenly spaced from the row "
        "helped most to the row harmed most, among those whose number changes.",
        alt="Classes of the nearest neighbours of example rows before and after",
    ) as ax:
        display = NeighborsDisplay.from_estimator(
            parts.metric,
            parts.x,
            parts.y,
            X_reference=parts.x_fit,
            y_reference=parts.y_fit,
            n_examples=n_examples,
            n_neighbors=k,
            row_names=[row_names[i] for i in parts.numbers],
            class_names=None if names is None else list(names.values()),
            random_state=seed,
            ax=ax,
        )
    rows = []
    for i, own in enumerate(display.classes):
        own_before, own_after = (
            int((np.asarray(a[i]) == own).sum()) for a in (display.before, display.after)
        )
        mark = "good" if own_after > own_before else "bad" if own_after < own_before else None
        rows.append(
            [
                plain_name(display.row_names[i], width=24),
                plain_name(display.class_names[int(own)], width=24),
                own_before,
                Cell(own_after, mark),
                _majority(display.before[i], display.class_names),
                _majority(display.after[i], display.class_names),
            ]
        )
    section.paragraph(
        f"Of the {display.n_rows:,} rows asked, {display.n_changed:,} have more or fewer neighbours "
        f"of their own class under the metric; over all, their share goes from "
        f"{display.share_before:.1%} to {display.share_after:.1%}."
    )
    section.table(
        ["row", "class", "own before", "own after", "majority before", "majority after"],
        rows,
        caption=f"Neighbours of the row's own class, of {k}, and the class that most are of.",
    )


def _add_embedding(page: Page, parts: HeldOut, classes: Sequence[str], seed: int) -> None:
    if len(parts.x) < 3:
        return
    section = page.section("The rows in a plane")
    section.paragraph(parts.description)
    every = np.unique(np.concatenate([parts.y, parts.y_fit]))
    own = np.isin(every, parts.y)
    with picture(
        section,
        (9.0, 4.0),
        columns=2,
        caption="Two leading principal components, in standardised features and in the space of "
        "the metric. Overlap here need not be overlap there: a plane holds two directions.",
        alt="Rows in a plane before and after",
    ) as axes:
        EmbeddingDisplay.from_estimator(
            parts.metric,
            parts.x,
            parts.y,
            class_names=[n for n, there in zip(classes, own, strict=True) if there]
            if len(every) == len(classes)
            else None,
            random_state=seed,
            ax=axes,
        )


def _add_rounds(page: Page, metric: Any) -> None:
    """The rounds of a weighted combination, where the metric is one."""
    if not isinstance(getattr(_last_step(metric), "weights_", None), np.ndarray):
        return
    section = page.section("Rounds and weights")
    text = "The average is weighted by numbers that were given."
    if len(getattr(_last_step(metric), "metric_changes_", ())):
        text = (
            "The average is weighted by a density of the rows, which the metric changes in turn: "
            "the rounds end when the metric stands still."
        )
    section.paragraph(text)
    with picture(
        section, (9.0, 3.1), columns=2, caption="", alt="Change of the metric and weights of rows"
    ) as axes:
        WeightPathDisplay.from_estimator(metric, ax=axes)


def _class_names(
    y: AnyArray, names: Sequence[Any] | None, comparison: Comparison
) -> tuple[str, ...]:
    """Names given, or those of the comparison unless it left classes out, or the labels."""
    if names is None and len(np.unique(y)) == len(comparison.class_names):
        names = comparison.class_names
    return class_codes(y, names)[1]


def _last_step(metric: Any) -> Any:
    transformer = transformer_of(metric)
    return transformer[-1] if isinstance(transformer, Pipeline) else transformer


def _title(metric: Any) -> str:
    return type(_last_step(metric)).__name__


def _majority(codes: IntArray, names: Sequence[str]) -> str:
    """Name of the class that most neighbours are of; of equals, the nearest one's."""
    most = Counter(int(c) for c in codes).most_common(1)[0][0]
    return plain_name(names[most], width=24)


def _version() -> str:
    from importlib.metadata import version

    return version("genmetric")
