"""The report on a comparison: verdict, evidence, and what the recommended metric learned.

``report.html.j2`` has the sections and their texts; the functions here make its data.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from genmetric._neighbors import nearest_neighbors
from genmetric._text import cell_text, duration, import_optional
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.comparison import METHODS, Comparison, MethodResult
from genmetric.inspection import learned_metric, linear_map, pair_contributions
from genmetric.plot import (
    ComparisonDisplay,
    EmbeddingDisplay,
    ErrorByKDisplay,
    FeatureWeightsDisplay,
    MetricHeatmapDisplay,
    NeighborsDisplay,
)
from genmetric.plot.palette import draw_samples, plain_name
from genmetric.report.page import Cell, Table, page_style, text, write_template


def write_report(
    comparison: Comparison,
    path: str | os.PathLike[str],
    *,
    command: str = "",
    footers: Sequence[str] = (),
    row_names: Sequence[Any] | None = None,
    random_state: int = 0,
) -> Path:
    """Write the report on a comparison as one self-contained HTML file.

    Equal arguments give the same file, byte for byte.

    Parameters
    ----------
    comparison : genmetric.comparison.Comparison
        The comparison. The metric that it recommends, or the one in question, is fitted once more
        for the pictures, without the samples that they show.
    path : str or path-like
        The file to write; an existing file is replaced.
    command : str, default=""
        The command to run next, shown with the verdict.
    footers : sequence of str, default=()
        Lines at the foot of the page, such as the command that was run and the date.
    row_names : sequence of length n_samples, default=None
        Names of the samples of ``comparison.X``; by default their lines or rows in the table.
    random_state : int, default=0
        Seed for drawing the samples to show.

    Returns
    -------
    pathlib.Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from genmetric import compare_metrics
    >>> from genmetric.report import write_report
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> found = compare_metrics(X, y, methods=["standardized", "generative"], n_splits=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(found, Path(folder) / "wine.html").name
    'wine.html'
    """
    c = comparison
    if row_names is not None and len(row_names) != c.n_samples:
        raise ValueError(f"row_names has {len(row_names)} names for {c.n_samples} samples.")
    incomplete = [f"This comparison is incomplete: {c.incomplete}."] if c.incomplete else []
    seeds = f"genmetric {version('genmetric')}; seeds {c.seed} and {random_state}."
    with page_style():
        return write_template(
            path,
            "report.html.j2",
            title="Comparison of metrics"
            + (f": {plain_name(c.title, width=80)}" if c.title else ""),
            lead=c.advice,
            command=command,
            warnings=[*incomplete, *c.warnings],
            footers=[seeds, *footers],
            **_data(c, row_names, random_state),
        )


def _data(c: Comparison, row_names: Sequence[Any] | None, seed: int) -> dict[str, Any]:
    """Return what the template shows of a comparison."""
    best = min(c.ran, key=lambda r: r.error, default=None)
    shown = next((r for r in c.ran if r.key == c.recommended), best)
    names = [f"row {row}" for row in c.rows] if row_names is None else row_names
    if row_names is None and hasattr(c.X, "attrs"):
        from genmetric.tables import row_label

        names = [row_label(c.X, i) for i in range(c.n_samples)]
    names = [plain_name(name, width=24) for name in names]
    figures = {"methods": None, "predictions": None, "error_by_k": None, "plane": None}
    if c.ran:
        size = (8.8, 1.0 + 0.36 * len(c.ran))
        figures["methods"] = _draw(size, ComparisonDisplay.from_comparison, c)
    if c.error_by_k:
        figures["error_by_k"] = _draw((8.8, 3.6), ErrorByKDisplay.from_comparison, c)
    if shown is not None and shown.predictions is not None:
        figures["predictions"] = _prediction_figure(shown)
    data: dict[str, Any] = {
        "c": c,
        "shown": shown,
        "facts": _facts(c, shown),
        "figures": figures,
        "range": _range(c),
        "classes": _classes(c),
        "methods": [_method_row(c, result, shown) for result in c.results],
        "confusions": _confusions(c, shown),
        "learned": None,
        "neighbors": None,
        "notes": [],
        "columns": [],
        "first_rows": [],
        "descriptions": [[r.name, r.key, METHODS[r.key].description.strip()] for r in c.results],
    }
    if c.X is not None:
        data |= {"notes": c.notes, "first_rows": _first_rows(c, names)}
        if hasattr(c.encoder, "columns_"):
            data |= {"notes": _notes(c), "columns": _columns(c)}
        # If nothing learned is recommended, the page shows what the metric in question learned.
        able = [r.key for r in c.ran if METHODS[r.key].learns and r.has_map]
        key = next((key for key in (c.recommended, c.challenger) if key in able), None)
        if key is not None:
            _add_learned(data, key, names, seed)
    return data


def _range(c: Comparison) -> list[float]:
    """Return minimum, median and maximum of a numeric target."""
    numbers = c.task == "regression" and len(c.y)
    return [float(v) for v in np.quantile(c.y, [0, 0.5, 1])] if numbers else []


def _facts(c: Comparison, shown: MethodResult | None) -> list[tuple[str, str, str]]:
    """Return the numbers behind the verdict."""
    if shown is None:
        return []
    label = c.scoring.label
    head = "Recommended" if shown.key == c.recommended else "Lowest loss"
    facts = [
        (head, shown.name, f"method {shown.key}"),
        (label[:1].upper() + label[1:], c.score_text(shown), "± half of the 95% interval"),
    ]
    if shown.predictions is not None:
        facts.append(("Off by", text(shown.typical_error), "or less in half of the predictions"))
    names = {c.baseline: "Without learning"}
    names |= dict.fromkeys(("majority", "mean"), "Without the features")
    others = [r for r in c.ran if r.key in names and r is not shown]
    return [*facts, *((names[r.key], c.score_text(r), r.name) for r in others)]


def _classes(c: Comparison) -> list[list[Any]]:
    """Return name, size and share of the largest classes."""
    sizes = np.asarray(c.class_counts)
    return [
        [plain_name(c.class_names[i], width=60), sizes[i], sizes[i] / sizes.sum()]
        for i in np.argsort(-sizes, kind="stable")[:30]
    ]


def _method_row(c: Comparison, result: MethodResult, shown: MethodResult | None) -> list[Any]:
    """Return name, score, times and the parameters that most folds selected."""
    name = result.name if result.has_map else f"{result.name} (no map)"
    if result.skipped:
        return [Cell(name, "quiet"), None, None, None, Cell(f"skipped: {result.note}", "quiet")]
    mean, mark = float(c.scoring.score(result.error)), "best" if result is shown else ""
    times = [Cell(seconds, text=duration(seconds)) for seconds in result.seconds]
    chosen = Counter(
        ", ".join(f"{name}={text(value)}" for name, value in parameters.items())
        for parameters in result.parameters
    )
    score = Cell(mean, mark, text=c.score_text(result))
    return [name, score, *times, chosen.most_common(1)[0][0] if chosen else ""]


def _confusions(c: Comparison, result: MethodResult | None) -> Table | None:
    """Return the confusion matrix, or the most frequent confusions of many classes."""
    if result is None or result.confusion is None:
        return None
    counts = np.asarray(result.confusion)
    names = [plain_name(name, width=20) for name in c.class_names]
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    if len(counts) <= 15:
        rows = [
            [name, *(Cell(int(n), shade=float(s)) for n, s in zip(row, part, strict=True)), own]
            for name, row, part, own in zip(names, counts, share, np.diag(share), strict=True)
        ]
        heads = ["actual class", *names, "recall"]
        caption = "Rows: actual class. Columns: predicted class."
        return Table(heads, rows, caption, formats={"recall": ".1%"}, sortable=False)
    wrong = counts * (1 - np.eye(len(counts), dtype=int))
    order = np.argsort(-wrong, axis=None, kind="stable")[:20]
    pairs = [divmod(int(i), len(counts)) for i in order]
    rows = [[names[i], names[j], int(wrong[i, j]), share[i, j]] for i, j in pairs if wrong[i, j]]
    heads = ["actual class", "predicted class", "samples", "share of the actual class"]
    caption = f"The most frequent confusions among {len(counts):,} classes."
    return Table(heads, rows, caption, formats={heads[3]: ".1%"})


def _prediction_figure(result: MethodResult) -> Any:
    """Draw predicted against actual values, and residuals."""
    from sklearn.metrics import PredictionErrorDisplay

    ticker = import_optional("matplotlib.ticker", "report")
    actual, predicted = (np.asarray(values, float) for values in result.predictions or ())
    shown = draw_samples(len(actual), 1000, 0)
    display = PredictionErrorDisplay(y_true=actual[shown], y_pred=predicted[shown])
    style = {"s": 8, "alpha": 0.6, "linewidths": 0, "rasterized": len(shown) > 400}
    figure = import_optional("matplotlib.figure", "report").Figure(figsize=(8.8, 3.8))
    kinds = ("actual_vs_predicted", "residual_vs_predicted")
    for ax, kind in zip(figure.subplots(1, 2), kinds, strict=True):
        display.plot(ax=ax, kind=kind, scatter_kwargs=style)
        for axis in (ax.xaxis, ax.yaxis):
            # scikit-learn places ticks at fractions of the range; these are round numbers.
            axis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 5, 10]))
            axis.set_major_formatter(text)
    return figure


def _add_learned(data: dict[str, Any], key: str, row_names: Sequence[str], seed: int) -> None:
    """Add what a metric learned, and pictures of samples that it was not fitted on."""
    c, figures = data["c"], data["figures"]
    x, y = c.encoded(), np.asarray(c.y)
    columns = getattr(c.encoder, "feature_columns_", np.array(c.feature_names))
    drawn = draw_samples(len(x), 20_000, seed)
    # Each class has samples on both sides, if there are enough of them.
    size = min(1000, max(1, int(0.3 * len(drawn))))
    counts = np.unique(y[drawn], return_counts=True)[1]
    stratify = c.task == "classification" and counts.min() > 2 and size >= len(counts)
    halves = train_test_split(
        drawn, test_size=size, stratify=y[drawn] if stratify else None, random_state=seed
    )
    rest, held = (np.sort(half) for half in halves)
    options = {"random_state": c.seed, "feature_columns": columns}
    model = METHODS[key].fit(x[rest], y[rest], c.task, **options)
    found = learned_metric(model, x[rest], feature_names=c.feature_names)
    shares = _by_column(np.asarray(found.contributions), columns)
    order = sorted(shares, key=lambda column: -abs(shares[column]))
    data["learned"] = {
        "name": c[key].name,
        "shares": [[plain_name(column, width=60), shares[column]] for column in order[:100]],
        "effective_rank": found.effective_rank,
        "n_held": len(held),
        "n_rest": len(rest),
        **_examples(c, model, x, (rest, held), columns, row_names),
    }
    bars = FeatureWeightsDisplay(np.array(list(shares.values())), feature_names=list(shares))
    figures["shares"] = _draw((8.4, 1.0 + 0.235 * min(25, len(shares))), bars.plot)
    side = float(np.interp(min(40, c.n_features), [2, 8, 40], [4.2, 5.0, 7.6]))
    heatmap = MetricHeatmapDisplay.from_estimator
    figures["heatmap"] = _draw(
        (side + 1.0, side), heatmap, model, x[rest], feature_names=c.feature_names
    )
    if c.task == "classification":
        _add_neighbors(data, model, x, rest, held, row_names)
    if len(held) > 2:
        labels, names = _groups(c, y[held])
        figures["plane"] = _draw(
            (9.0, 4.0),
            EmbeddingDisplay.from_estimator,
            *(model, x[held], labels),
            class_names=names,
            panels=2,
        )


def _by_column(shares: FloatArray, columns: AnyArray) -> dict[str, float]:
    """Add up shares of the features of each column."""
    found: dict[str, float] = {}
    for column, share in zip(columns, shares, strict=True):
        found[str(column)] = found.get(str(column), 0.0) + float(share)
    return found


def _groups(c: Comparison, y: AnyArray) -> tuple[AnyArray, list[str]]:
    """Return labels of samples and their names; numbers are divided into four ranges."""
    if c.task == "classification":
        present = np.isin(np.unique(c.y), y)
        return y, [name for name, is_ in zip(c.class_names, present, strict=True) if is_]
    edges = np.unique(np.quantile(y, [0, 0.25, 0.5, 0.75, 1]))
    labels = np.digitize(y, edges[1:-1])
    names = [f"{text(a)} to {text(b)}" for a, b in pairwise(edges)] or [text(edges[0])]
    return labels, [names[i] for i in np.unique(labels)]


def _examples(
    c: Comparison,
    model: Any,
    x: FloatArray,
    parts: tuple[IntArray, IntArray],
    columns: AnyArray,
    row_names: Sequence[str],
) -> dict[str, Any]:
    """Return samples whose nearest neighbour changes, with the columns behind the change."""
    y, (rest, held) = np.asarray(c.y), parts
    into, scale = linear_map(model, x[rest]), StandardScaler().fit(x[rest])
    spaces = ([move(x[rows]) for rows in parts] for move in (scale.transform, into.map_features))
    before, after = (rest[nearest_neighbors(a, 1, queries=b).indices[:, 0]] for a, b in spaces)
    if c.task == "classification":
        off = [(y[found] != y[held]).astype(float) for found in (before, after)]
    else:
        off = [np.abs(y[found] - y[held]) for found in (before, after)]
    gain = off[0] - off[1]
    order = np.argsort(-gain, kind="stable")
    rows = []
    imputed = isinstance(c.encoder, SimpleImputer) and np.shape(c.X) == x.shape
    features = np.asarray(c.X) if imputed else x
    original = dict(zip(c.feature_names, features.T, strict=True))
    if hasattr(c.X, "items"):
        original |= {str(name): cells.to_numpy(object) for name, cells in c.X.items()}
    for i in [*(i for i in order[:5] if gain[i] > 0), *(i for i in order[-2:] if gain[i] < 0)]:
        own, old, new = int(held[i]), int(before[i]), int(after[i])
        shares = _by_column(pair_contributions(x[old] - x[own], into.metric), columns)
        total = sum(shares.values()) or 1.0
        reasons = [
            f"{plain_name(name, width=24)} {_cell(original[name][own])}, neighbour "
            f"{_cell(original[name][old])} ({shares[name] / total:.0%})"
            for name in sorted(shares, key=lambda name: -shares[name])[:3]
            if shares[name] > 0.05 * total
        ]
        cells = [f"{row_names[j]}: {_cell(y[j])}" for j in (own, old, new)]
        mark = "good" if gain[i] > 0 else "bad"
        rows.append([*cells[:2], Cell(cells[2], mark), "; ".join(reasons)])
    means = {"distance_before": float(off[0].mean()), "distance_after": float(off[1].mean())}
    return {"examples": rows, **means}


def _add_neighbors(
    data: dict[str, Any],
    model: Any,
    x: FloatArray,
    rest: IntArray,
    held: IntArray,
    row_names: Sequence[str],
) -> None:
    """Add the classes of the neighbours of examples before and after."""
    c, k, n = data["c"], min(10, len(rest) - 1), min(12, len(held))
    shown = np.concatenate([rest, held])
    figure = import_optional("matplotlib.figure", "report").Figure(
        figsize=(1.9 + 0.31 * (2 * k + 4), 1.3 + 0.31 * n)
    )
    data["figures"]["neighbors"] = figure
    data["neighbors"] = NeighborsDisplay.from_estimator(
        *(model, x[held], c.y[held]),
        X_reference=x[rest],
        y_reference=c.y[rest],
        n_examples=n,
        n_neighbors=k,
        row_names=[row_names[i] for i in held],
        class_names=_groups(c, c.y[shown])[1],
        ax=figure.subplots(),
    )


def _notes(c: Comparison) -> list[str]:
    """Return the notes without those that the tables of columns and classes repeat."""
    said = {line.strip() for line in c.encoder.summary().splitlines()}
    said.add(f"target {c.target.summary}" if c.target is not None else "")
    return [note for note in c.notes if note.strip() not in said]


def _columns(c: Comparison) -> list[list[Any]]:
    """Return how each column was read, with its values and the reason."""
    original, rows = c.encoder.inverse_transform(c.encoded()), []
    for position, plan in enumerate(c.encoder.columns_[:100]):
        values, mark = "", "quiet" if plan["kind"] == "left out" else ""
        if plan["kind"] in ("number", "date"):
            values = " to ".join(_cell(v) for v in original[plan["name"]].agg(["min", "max"]))
        elif not mark:
            words = c.X.iloc[:, position].astype(object).map(cell_text)
            top = words.value_counts(normalize=True).head(3).items()
            values = ", ".join(f"{plain_name(word, width=18)} {share:.0%}" for word, share in top)
        name = Cell(plain_name(plan["name"], width=60), mark)
        rows.append([name, plan["kind"], plan["n_missing"] or None, values, plan["reason"]])
    return rows


def _first_rows(c: Comparison, row_names: Sequence[str]) -> list[list[str]]:
    """Return headings and the first rows of the table as they were given, the target first."""
    target = c.target.name if c.target is not None else "target"
    names = [str(name) for name in getattr(c.X, "columns", c.feature_names)]
    cells = np.asarray(c.X.iloc[:5] if hasattr(c.X, "iloc") else c.X[:5], dtype=object)
    rows = [[row_names[i], _cell(c.y[i]), *map(_cell, row[:12])] for i, row in enumerate(cells)]
    return [["row", target, *names[:12]], *rows]


def _cell(value: Any) -> str:
    """Write a cell of the table on one line, without control characters."""
    return plain_name(cell_text(value), width=40)


def _draw(size: tuple[float, float], draw: Any, *data: Any, panels: int = 1, **options: Any) -> Any:
    """Return a figure with what `draw` draws of the data on its axes."""
    figure = import_optional("matplotlib.figure", "report").Figure(figsize=size)
    draw(*data, ax=figure.subplots(1, panels), **options)
    return figure
