"""The report on a comparison: verdict, evidence, and what the recommended metric learned."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from genmetric._results import ComparisonResult, result_of
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric.inspection._transformer import check_feature_names
from genmetric.plot._palette import plain_name
from genmetric.plot._samples import class_codes
from genmetric.report._comparison_sections import (
    add_confusion,
    add_error_by_k,
    add_glossary,
    add_predictions,
    add_scores,
    add_times,
    protocol,
    verdict_facts,
)
from genmetric.report._metric_sections import (
    add_embedding,
    add_iterations,
    add_local_metrics,
    add_metric,
    add_neighbors,
    last_step,
)
from genmetric.report._page import Page
from genmetric.report._table_sections import add_data, table_columns
from genmetric.report._validation import MAX_REFIT_FEATURES, fill_missing, hold_out
from genmetric.tables import ColumnPlan


def write_report(
    comparison: ComparisonResult,
    X: ArrayLike,
    y: ArrayLike,
    *,
    path: str | os.PathLike[str],
    metric: Any = None,
    metric_name: str = "",
    feature_names: Sequence[Any] | None = None,
    class_names: Sequence[Any] | None = None,
    row_names: Sequence[Any] | None = None,
    table: Any = None,
    columns: Sequence[ColumnPlan] = (),
    glossary: Mapping[str, str] | None = None,
    command: str = "",
    footers: Sequence[str] = (),
    refit: bool | None = None,
    random_state: int = 0,
) -> Path:
    """Write the report on a comparison as one self-contained HTML file.

    Equal arguments give the same file, byte for byte. ``compare_metrics(...).report(path)`` calls
    this function with everything it knows.

    Parameters
    ----------
    comparison : genmetric.comparison.Comparison
        Scores and times of the methods.
    X : array-like of shape (n_samples, n_features)
        Numeric features of the samples compared on.
    y : array-like of shape (n_samples,)
        Labels, or numbers for regression.
    path : str or path-like
        The file to write; an existing file is replaced.
    metric : object, default=None
        The recommended method, fitted on `X`. If it is None or the comparison recommends a method
        that does not learn, the report has no sections on a metric.
    metric_name : str, default=""
        Name of this method in the report.
    feature_names : sequence of length n_features, default=None
        Names of the features; by default those of the comparison.
    class_names : sequence of length n_classes, default=None
        Names of the classes in sorted order of the labels; by default those of the comparison.
    row_names : sequence of length n_samples, default=None
        Names of the samples; by default their positions, counted from 1.
    table : DataFrame, default=None
        The original table, whose columns are summarised; by default the features.
    columns : sequence, default=()
        How each column was read: objects with ``name``, ``kind`` and ``reason``.
    glossary : mapping of str to str, default=None
        One sentence per method, by the name of the method in the comparison.
    command : str, default=""
        The command to run next, shown with the recommendation.
    footers : sequence of str, default=()
        Further lines at the foot of the page, such as the command that was run and the date.
    refit : bool, default=None
        Whether to fit the metric again without the left-out samples that figures show. By default
        up to 300 features, where a fit is fast; otherwise the report states that the metric was
        fitted on these samples.
    random_state : int, default=0
        Seed for drawing samples if there are too many to show.

    Returns
    -------
    pathlib.Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from genmetric.comparison import compare_metrics
    >>> from genmetric.report import write_report
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> methods = ["euclidean", "standardised", "uniform"]
    >>> found = compare_metrics(X, y, methods=methods, n_splits=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(found, X, y, path=Path(folder) / "wine.html").name
    'wine.html'
    """
    x, n_filled = fill_missing(X)
    labels = np.asarray(y)
    if len(labels) != len(x):
        raise ValueError(f"X has {len(x)} samples, but y has {len(labels)} labels.")
    features = check_feature_names(
        feature_names or list(comparison.feature_names) or None, metric, X, x.shape[1]
    )
    rows = list(range(1, len(x) + 1)) if row_names is None else list(row_names)
    if len(rows) != len(x):
        raise ValueError(f"row_names has {len(rows)} names for {len(x)} samples.")
    classification = comparison.scoring.task == "classification"
    classes = _class_names(labels, class_names, comparison) if classification else ()
    title = plain_name(comparison.title, width=80) if comparison.title else "table"
    page = Page(
        f"Comparison of metrics: {title}",
        lead=[comparison.advice] if comparison.advice else [],
        facts=verdict_facts(comparison),
        command=command,
    )
    add_scores(page, comparison)
    if classification:
        add_confusion(page, comparison)
        add_error_by_k(page, comparison)
    else:
        add_predictions(page, comparison)
    recommended = result_of(comparison, comparison.recommended)
    if metric is not None and recommended and recommended.name != comparison.baseline:
        name = metric_name or type(last_step(metric)).__name__
        refit = x.shape[1] <= MAX_REFIT_FEATURES if refit is None else refit
        _add_learned(page, metric, name, x, labels, features, classes, rows, refit, random_state)
    add_times(page, comparison)
    add_data(page, comparison, table_columns(table, x, features), columns, n_filled)
    add_glossary(page, comparison, glossary or {})
    # A splitter has its own seed, which the comparison does not know.
    seeded = "methods" if comparison.splitter else "folds"
    page.footer(
        f"genmetric {version('genmetric')}. {protocol(comparison)}; seed {comparison.seed} for the "
        f"{seeded}, {random_state} for samples drawn."
    )
    for text in footers:
        page.footer(text)
    return page.write(path)


def _add_learned(
    page: Page,
    metric: Any,
    name: str,
    x: FloatArray,
    y: AnyArray,
    features: Sequence[str],
    classes: Sequence[str],
    rows: Sequence[Any],
    refit: bool,
    seed: int,
) -> None:
    """Add the sections on the recommended metric."""
    learned = add_metric(page, metric, name, x, features)
    if learned is None or not classes:
        return
    parts = hold_out(metric, x, y, seed, refit)
    add_neighbors(page, parts, rows, classes, seed)
    add_embedding(page, parts, classes, seed)
    add_local_metrics(page, metric, learned, x, y, classes, seed)
    add_iterations(page, metric)


def _class_names(
    y: AnyArray, names: Sequence[Any] | None, comparison: ComparisonResult
) -> tuple[str, ...]:
    """Return the names given, those of the comparison if no class was left out, or the labels."""
    if names is None and len(np.unique(y)) == len(comparison.class_names):
        names = comparison.class_names
    return class_codes(y, names)[1]
