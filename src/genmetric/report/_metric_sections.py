"""Sections on the recommended metric: matrix, contributions, local metrics, neighbours, plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._votes import count_votes
from genmetric._warnings import suppress_warnings
from genmetric.inspection import LearnedMetric, learned_metric, metric_transformer
from genmetric.learners import GenerativeMetric
from genmetric.plot import (
    EmbeddingDisplay,
    FeatureWeightsDisplay,
    LocalMetricsDisplay,
    MetricHeatmapDisplay,
    NeighborsDisplay,
    SpectrumDisplay,
    WeightPathDisplay,
)
from genmetric.plot._metric import heatmap_size
from genmetric.plot._palette import plain_name
from genmetric.plot._samples import draw_samples
from genmetric.report._page import Cell, Page
from genmetric.report._svg import NARROW, add_display
from genmetric.report._validation import MAX_SAMPLES, HeldOut

#: Features of the heat map and bars of contributions.
HEATMAP, BARS = 40, 25

#: Maximum number of samples drawn as points.
SHOWN = 1000

#: Distinct values from which a feature counts as numeric in the figure of local metrics.
NUMERIC_VALUES = 10


def add_metric(
    page: Page, metric: Any, name: str, x: FloatArray, features: Sequence[str]
) -> LearnedMetric | None:
    """Add heat map, spectrum and contributions of the recommended metric.

    Parameters
    ----------
    page : Page
        The page.
    metric : object
        The fitted estimator.
    name : str
        Name of the method.
    x : ndarray of shape (n_samples, n_features)
        Samples.
    features : sequence of str
        Names of the features.

    Returns
    -------
    LearnedMetric or None
        The metric; None if the estimator has no single matrix.
    """
    try:
        learned = learned_metric(metric, x, feature_names=features)
    except (TypeError, ValueError) as error:
        page.section("The metric").paragraph(f"There is no matrix to show: {error}")
        return None
    _add_contributions(page, learned)
    section = page.section("The metric")
    n = len(learned.matrix)
    section.paragraph(
        f"The matrix of the {name}, fitted on all samples. Features are measured in standard "
        "deviations: the Euclidean distance has ones on the diagonal and zeros elsewhere. The "
        f"effective rank is {learned.effective_rank:.1f} of {n:,}: about this number of directions "
        "determines distances."
    )
    largest = np.argsort(-np.diag(learned.matrix), kind="stable")[:HEATMAP]
    cut = f" Shown: {HEATMAP} of {n:,} features, those with the largest diagonal." * (n > HEATMAP)
    add_display(
        section,
        lambda ax: MetricHeatmapDisplay.from_estimator(
            metric, x, feature_names=features, max_features=HEATMAP, ax=ax
        ),
        size=heatmap_size([features[i] for i in largest]),
        narrow_height=NARROW,
        caption="Features are ordered by clustering. Orange: differences of equal sign in both "
        f"features increase the distance; blue: they compensate.{cut}",
        alt="Heat map of the metric",
    )
    add_display(
        section,
        lambda ax: SpectrumDisplay(learned.eigenvalues).plot(ax=ax),
        size=(7.4, 3.0),
        narrow_height=2.5,
        caption="Eigenvalues of the metric. If they decrease quickly, few directions determine "
        "which samples are near each other.",
        alt="Eigenvalues of the metric",
    )
    return learned


def _add_contributions(page: Page, learned: LearnedMetric) -> None:
    section = page.section("Feature contributions")
    shares = np.asarray(learned.contributions)
    n = min(BARS, len(shares))
    section.paragraph(
        "Mean share of each feature in the squared distance between two samples of the table. "
        "Shares sum to 100% and do not depend on units. A share is negative if correlated features "
        "compensate for the feature."
    )
    names = learned.feature_names
    add_display(
        section,
        lambda ax: FeatureWeightsDisplay(shares, feature_names=names, max_features=n).plot(ax=ax),
        size=(8.4, 1.0 + 0.235 * n),
        narrow_height=0.9 + 0.4 * n,
        caption=f"The {n} largest of {len(shares):,}." if n < len(shares) else "",
        alt="Contribution of each feature",
    )
    order = np.argsort(-np.abs(shares), kind="stable")
    section.table(
        ["feature", "mean share"],
        [[plain_name(learned.feature_names[i], width=60), float(shares[i])] for i in order[:100]],
        formats={"mean share": ".2%"},
        caption="" if len(shares) <= 100 else f"The 100 largest of {len(shares):,}.",
        collapsed="All shares as a table"
        if len(shares) <= 100
        else "The largest shares as a table",
    )


def add_local_metrics(
    page: Page,
    metric: Any,
    learned: LearnedMetric,
    x: FloatArray,
    y: AnyArray,
    classes: Sequence[str],
    seed: int,
) -> None:
    """Add local metrics over two numeric features with large contributions, if there are any."""
    if not hasattr(last_step(metric), "local_metrics"):
        return
    shown = draw_samples(len(x), MAX_SAMPLES, seed)
    pair = two_features(np.diag(learned.matrix), x[shown])
    if pair is None:
        return
    plane = x[shown][:, pair]
    try:
        with suppress_warnings(Warning):
            model = make_pipeline(StandardScaler(), GenerativeMetric()).fit(plane, y[shown])
    except ValueError:
        return
    present = np.isin(np.unique(y), y[shown])
    section = page.section("How the metric is built")
    section.paragraph(
        "At each sample the class densities determine a local metric; all points on an ellipse are "
        "equally distant from its centre. The learned metric is the average over the samples. The "
        "figure shows a metric of two numeric features only, which illustrates the principle; the "
        "metric above uses all features."
    )
    add_display(
        section,
        lambda ax: LocalMetricsDisplay.from_estimator(
            model,
            plane,
            y[shown],
            feature_names=[learned.feature_names[i] for i in pair],
            class_names=[n for n, there in zip(classes, present, strict=True) if there],
            max_rows=SHOWN,
            random_state=seed,
            ax=ax,
        ),
        size=(8.8, 4.8),
        narrow_height=3.6,
        caption="Local metrics over two features; samples in the colour of their class.",
        alt="Local metrics as ellipses",
    )


def two_features(weights: FloatArray, x: FloatArray) -> list[int] | None:
    """Select two numeric features: the one of largest weight and one that is not its copy.

    Parameters
    ----------
    weights : ndarray of shape (n_features,)
        Importance of each feature.
    x : ndarray of shape (n_samples, n_features)
        Samples; a feature with fewer than ten distinct values is not numeric.

    Returns
    -------
    list of int or None
        Two positions; None if there are no two numeric features.
    """
    order = [int(i) for i in np.argsort(-weights, kind="stable") if weights[i] > 0]
    order = [i for i in order if len(np.unique(x[:, i])) >= NUMERIC_VALUES][:50]
    if len(order) < 2:
        return None
    first, *others = order
    related = np.abs(np.atleast_2d(np.corrcoef(x[:, order], rowvar=False))[0, 1:])
    apart = [other for other, r in zip(others, related, strict=True) if r < 0.7]
    return [first, (apart or others)[0]]


def add_neighbors(
    page: Page, parts: HeldOut, row_names: Sequence[Any], classes: Sequence[str], seed: int
) -> None:
    """Add the neighbours of left-out samples before and after the metric."""
    k = min(10, len(parts.x_fit) - 1)
    if not len(parts.x) or k < 1:
        return
    section = page.section("Neighbours before and after")
    section.paragraph(parts.description)
    n_examples = min(12, len(parts.x))
    every = np.unique(np.concatenate([parts.y, parts.y_fit]))
    display = add_display(
        section,
        lambda ax: NeighborsDisplay.from_estimator(
            parts.metric,
            parts.x,
            parts.y,
            X_reference=parts.x_fit,
            y_reference=parts.y_fit,
            n_examples=n_examples,
            n_neighbors=k,
            row_names=[row_names[i] for i in parts.numbers],
            class_names=list(classes) if len(every) == len(classes) else None,
            random_state=seed,
            ax=ax,
        ),
        size=(1.9 + 0.31 * (2 * k + 4), 1.3 + 0.31 * n_examples),
        narrow_height=1.1 + 0.2 * n_examples,
        caption=f"The {k} nearest samples (5 on narrow screens) in standardised features and under "
        "the metric, nearest first; filled: same class. Examples are evenly spaced from the largest "
        "gain to the largest loss.",
        alt="Classes of the nearest neighbours of examples before and after",
    )
    section.paragraph(
        f"For {display.n_changed:,} of {display.n_rows:,} samples the metric changes the number of "
        "neighbours of the same class. Over all of them the share of these neighbours goes from "
        f"{display.share_before:.1%} to {display.share_after:.1%}."
    )
    rows = []
    for i, own in enumerate(display.classes):
        before, after = (
            int((np.asarray(a[i]) == own).sum()) for a in (display.before, display.after)
        )
        mark = "good" if after > before else "bad" if after < before else None
        rows.append(
            [
                plain_name(display.row_names[i], width=24),
                plain_name(display.class_names[int(own)], width=24),
                before,
                Cell(after, mark),
                _majority(display.before[i], display.class_names),
                _majority(display.after[i], display.class_names),
            ]
        )
    section.table(
        ["sample", "class", "same before", "same after", "majority before", "majority after"],
        rows,
        caption=f"Number of neighbours of the same class, of {k}, and the majority of all.",
        collapsed="These examples as a table",
    )


def add_embedding(page: Page, parts: HeldOut, classes: Sequence[str], seed: int) -> None:
    """Add left-out samples in a plane before and after the metric."""
    if len(parts.x) < 3:
        return
    section = page.section("Samples in a plane")
    section.paragraph(parts.description)
    every = np.unique(np.concatenate([parts.y, parts.y_fit]))
    own = np.isin(every, parts.y)
    names = None
    if len(every) == len(classes):
        names = [n for n, there in zip(classes, own, strict=True) if there]
    add_display(
        section,
        lambda axes: EmbeddingDisplay.from_estimator(
            parts.metric,
            parts.x,
            parts.y,
            class_names=names,
            max_rows=SHOWN,
            random_state=seed,
            ax=axes,
        ),
        size=(9.0, 4.0),
        narrow_height=5.8 + 0.12 * min(10, len(classes)),
        panels=2,
        caption="Two leading principal components in standardised features and in the space of the "
        "metric. Classes that overlap in the plane may be apart in other directions.",
        alt="Samples in a plane before and after",
    )


def add_iterations(page: Page, metric: Any) -> None:
    """Add the iterations and weights of a density-weighted metric."""
    last = last_step(metric)
    weights = getattr(last, "weights_", None)
    if not isinstance(weights, np.ndarray) or weights.ndim != 1:
        return
    section = page.section("Sample weights")
    text = "The average of the local metrics uses the weights that were given."
    if len(getattr(last, "metric_changes_", ())):
        text = (
            "The average of the local metrics is weighted by a density of the samples. The density "
            "depends on the metric, so both are computed in turn until the metric converges."
        )
    section.paragraph(text)
    add_display(
        section,
        lambda axes: WeightPathDisplay.from_estimator(metric, ax=axes),
        size=(9.0, 3.1),
        narrow_height=5.0,
        panels=2,
        caption="Change of the metric per iteration, and the share of the total weight that the "
        "samples of largest weight have; dashed: equal weights.",
        alt="Change of the metric and weights of samples",
    )


def last_step(metric: Any) -> Any:
    """Return the last transformer of a fitted estimator."""
    transformer = metric_transformer(metric)
    return transformer[-1] if isinstance(transformer, Pipeline) else transformer


def _majority(codes: IntArray, names: Sequence[str]) -> str:
    votes = count_votes(np.asarray(codes)[None], len(names))
    return plain_name(names[int(votes[0].argmax())], width=24)
