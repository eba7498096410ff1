"""The report on a comparison: verdict, evidence, and what the recommended metric learned."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from genmetric._neighbors import nearest_neighbors
from genmetric._text import duration, import_optional
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.comparison import METHODS, Comparison, MethodResult
from genmetric.comparison.result import value_text
from genmetric.inspection import learned_metric, linear_map, pair_contributions
from genmetric.plot import (
    ComparisonDisplay,
    EmbeddingDisplay,
    ErrorByKDisplay,
    FeatureWeightsDisplay,
    MetricHeatmapDisplay,
    NeighborsDisplay,
)
from genmetric.plot.palette import draw_samples, plain_name, standardize
from genmetric.report.page import Cell, Picture, Table, page_style, write_page

Block = str | Table | Picture
Section = tuple[str, list[Block]]


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
    if row_names is not None and len(row_names) != comparison.n_samples:
        raise ValueError(
            f"row_names has {len(row_names)} names for {comparison.n_samples} samples."
        )
    with page_style():
        sections = [_target(comparison), _methods(comparison), *_mistakes(comparison)]
        # If nothing learned is recommended, the page shows what the metric in question learned.
        able = [r.key for r in comparison.ran if METHODS[r.key].learns and r.has_map]
        asked = (comparison.recommended, comparison.challenger)
        key = next((key for key in asked if key in able), None)
        if comparison.X is not None and key is not None:
            sections += _learned(comparison, key, row_names, random_state)
        if comparison.error_by_k:
            sections.append(_error_by_k(comparison))
        if comparison.X is not None:
            sections += [_columns(comparison), _first_rows(comparison)]
        sections.append(_measured(comparison))
        title = f": {plain_name(comparison.title, width=80)}" if comparison.title else ""
        incomplete = [f"This comparison is incomplete: {comparison.incomplete}."]
        return write_page(
            path,
            f"Comparison of metrics{title}",
            [section for section in sections if section[1]],
            lead=comparison.advice,
            facts=_facts(comparison),
            command=command,
            warnings=[*(incomplete if comparison.incomplete else []), *comparison.warnings],
            footers=[
                f"genmetric {version('genmetric')}; seeds {comparison.seed} and {random_state}.",
                *footers,
            ],
        )


def _result(comparison: Comparison, key: str) -> MethodResult | None:
    """Return the result of a method that ran, or None."""
    return next((r for r in comparison.ran if r.key == key), None)


def _shown(comparison: Comparison) -> MethodResult | None:
    """Return the recommended method, otherwise the best one."""
    best = min(comparison.ran, key=lambda r: r.error, default=None)
    return _result(comparison, comparison.recommended) or best


def _facts(comparison: Comparison) -> list[tuple[str, str, str]]:
    """Return the numbers behind the verdict."""
    shown = _shown(comparison)
    if shown is None:
        return []
    label = comparison.scoring.label
    head = "Recommended" if shown.key == comparison.recommended else "Lowest loss"
    facts = [
        (head, shown.name, f"method {shown.key}"),
        (label[:1].upper() + label[1:], comparison.score_text(shown), "± half of the 95% interval"),
    ]
    if shown.predictions is not None:
        facts.append(("Off by", _text(shown.typical_error), "or less in half of the predictions"))
    names = {comparison.baseline: "Without learning"}
    names |= dict.fromkeys(("majority", "mean"), "Without the features")
    facts += [
        (names[r.key], comparison.score_text(r), r.name)
        for r in comparison.ran
        if r.key in names and r is not shown
    ]
    return facts


def _target(comparison: Comparison) -> Section:
    """Say what is predicted, with the classes or the range of numbers."""
    target, y = comparison.target, np.asarray(comparison.y)
    what = f"{comparison.task.capitalize()}."
    if target is not None:
        what += f" Column {target.name}: {target.reason}."
    blocks: list[Block] = [
        f"{what} {comparison.n_samples:,} samples, {comparison.n_features:,} features."
    ]
    if comparison.task == "regression" and len(y):
        low, middle, high = (_text(v) for v in np.quantile(y, [0, 0.5, 1]))
        blocks.append(f"Numbers from {low} to {high}, median {middle}, mean {_text(y.mean())}.")
    names, sizes = comparison.class_names, np.asarray(comparison.class_counts)
    if names:
        largest = np.argsort(-sizes, kind="stable")[:30]
        rows = [[plain_name(names[i], width=60), sizes[i], sizes[i] / sizes.sum()] for i in largest]
        cut = f"The 30 largest of {len(names):,} classes." if len(names) > 30 else ""
        blocks.append(Table(["class", "samples", "share"], rows, cut, formats={"share": ".1%"}))
    return "What is predicted", blocks


def _methods(comparison: Comparison) -> Section:
    """Show the scores of all methods as a table and a figure."""
    if not comparison.ran:
        return "Methods", ["No method was run."]
    shown, scoring = _shown(comparison), comparison.scoring
    rows: list[list[Any]] = []
    for result in comparison.results:
        name = result.name if result.has_map else f"{result.name} (no map)"
        if result.skipped:
            why = Cell(f"skipped: {result.note}", "quiet")
            rows.append([Cell(name, "quiet"), None, None, None, why])
            continue
        mean, mark = float(scoring.score(result.error)), "best" if result is shown else ""
        score = Cell(mean, mark, text=comparison.score_text(result))
        seconds = [float(s.mean()) for s in (result.fit_seconds, result.predict_seconds)]
        times = (Cell(s, text=duration(s)) for s in seconds)
        rows.append([name, score, *times, _selected(result)])
    table = Table(
        ["method", f"{scoring.label} ± 95% interval", "fit", "predict", "selected parameters"],
        rows,
        "Scores on test samples. Times are means over the folds; fitting includes the selection of "
        "parameters. A method without a map predicts, but has no distance to search with.",
    )
    better = "Larger" if scoring.greater_is_better else "Smaller"
    picture = _draw(
        (8.8, 1.0 + 0.36 * len(comparison.ran)),
        lambda ax: ComparisonDisplay.from_comparison(comparison, ax=ax),
        f"Dot and bar: mean with 95% interval; strokes: each fold. {better} is better."
        + (" Dashed line: without learning." if comparison.baseline else ""),
        f"{scoring.label} of each method",
    )
    return "Methods", [table, picture]


def _selected(result: MethodResult) -> str:
    """Return the parameters that most folds selected."""
    chosen = Counter(
        ", ".join(f"{name}={_text(value)}" for name, value in parameters.items())
        for parameters in result.parameters
    )
    return chosen.most_common(1)[0][0] if chosen else ""


def _mistakes(comparison: Comparison) -> list[Section]:
    """Show the confusions, or predicted against actual numbers, of the recommended method."""
    result = _shown(comparison)
    if result is None:
        return []
    if result.predictions is not None:
        return [_predictions(result)]
    if result.confusion is None:
        return []
    counts = np.asarray(result.confusion)
    names = [plain_name(name, width=20) for name in comparison.class_names]
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    text = f"Test samples of all folds, classified by {result.name}."
    if len(counts) <= 15:
        rows = [
            [name, *map(_shaded, row, part), own]
            for name, row, part, own in zip(names, counts, share, np.diag(share), strict=True)
        ]
        caption, heads = "Rows: actual class. Columns: predicted class.", ["actual class", *names]
        table = Table([*heads, "recall"], rows, caption, formats={"recall": ".1%"}, sortable=False)
    else:
        wrong = counts * (1 - np.eye(len(counts), dtype=int))
        order = np.argsort(-wrong, axis=None, kind="stable")[:20]
        pairs = zip(*np.unravel_index(order, wrong.shape), strict=True)
        rows = [[names[i], names[j], wrong[i, j], share[i, j]] for i, j in pairs if wrong[i, j]]
        heads = ["actual class", "predicted class", "samples", "share of the actual class"]
        caption = f"The most frequent confusions among {len(counts):,} classes."
        table = Table(heads, rows, caption, formats={heads[3]: ".1%"})
    return [("Which classes are confused", [text, table])]


def _shaded(count: int, share: float) -> Cell:
    """Return a cell of a confusion matrix."""
    return Cell(int(count), shade=float(share))


def _predictions(result: MethodResult) -> Section:
    """Show predicted against actual values and residuals."""
    from sklearn.metrics import PredictionErrorDisplay

    ticker = import_optional("matplotlib.ticker", "report")
    actual, predicted = (np.asarray(values, float) for values in result.predictions or ())
    shown = draw_samples(len(actual), 1000, 0)
    display = PredictionErrorDisplay(y_true=actual[shown], y_pred=predicted[shown])
    style = {"s": 8, "alpha": 0.6, "linewidths": 0, "rasterized": len(shown) > 400}

    def draw(axes: AnyArray) -> None:
        for ax, kind in zip(axes, ("actual_vs_predicted", "residual_vs_predicted"), strict=True):
            display.plot(ax=ax, kind=kind, scatter_kwargs=style)
            for axis in (ax.xaxis, ax.yaxis):
                # scikit-learn places ticks at fractions of the range; these are round numbers.
                axis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 5, 10]))
                axis.set_major_formatter(_text)

    text = (
        f"Test samples of all folds, predicted by {result.name}. Half of the predictions are off by "
        f"less than {_text(result.typical_error)}, in the unit of the target."
    )
    caption = "Left: actual against predicted values. Right: residuals, actual minus predicted."
    alt = "Actual values and residuals against predicted values"
    return "Predicted and actual values", [text, _draw((8.8, 3.8), draw, caption, alt, panels=2)]


def _learned(
    comparison: Comparison, key: str, row_names: Sequence[Any] | None, seed: int
) -> list[Section]:
    """Show what a metric learned, with samples that it was not fitted on."""
    x, y = comparison.encoded(), np.asarray(comparison.y)
    columns = getattr(comparison.encoder, "feature_columns_", np.array(comparison.feature_names))
    drawn = draw_samples(len(x), 20_000, seed)
    # Each class has samples on both sides, if there are enough of them.
    size = min(1000, max(1, int(0.3 * len(drawn))))
    counts = np.unique(y[drawn], return_counts=True)[1]
    stratify = comparison.task == "classification" and counts.min() > 2 and size >= len(counts)
    halves = train_test_split(
        drawn, test_size=size, stratify=y[drawn] if stratify else None, random_state=seed
    )
    rest, held = (np.sort(half) for half in halves)
    options = {"random_state": comparison.seed, "feature_columns": columns}
    model = METHODS[key].fit(x[rest], y[rest], comparison.task, **options)
    note = (
        f"{len(held):,} samples that were left out when the {comparison[key].name} was fitted on "
        f"{len(rest):,} others."
    )
    sections = [
        _contributions(model, x[rest], columns, comparison.feature_names, comparison[key].name),
        _neighbors(comparison, model, (x, y), (rest, held), columns, row_names, note),
    ]
    return [*sections, _plane(comparison, model, x, y, held, note)] if len(held) > 2 else sections


def _by_column(shares: FloatArray, columns: AnyArray) -> dict[str, float]:
    """Add up shares of the features of each column."""
    found: dict[str, float] = {}
    for column, share in zip(columns, shares, strict=True):
        found[str(column)] = found.get(str(column), 0.0) + float(share)
    return found


def _contributions(
    model: Any, x: FloatArray, columns: AnyArray, names: Sequence[str], method: str
) -> Section:
    """Show the share of each column of the table in distances, and the matrix of the metric."""
    learned = learned_metric(model, x, feature_names=names)
    shares = _by_column(np.asarray(learned.contributions), columns)
    n = min(25, len(shares))
    order = sorted(shares, key=lambda column: -abs(shares[column]))
    text = (
        f"Mean share of each column in the squared distance between two samples under the {method}. "
        "Shares sum to 100% and do not depend on units. A share is negative if correlated columns "
        "compensate for the column."
    )
    display = FeatureWeightsDisplay(
        np.array(list(shares.values())), feature_names=list(shares), max_features=n
    )
    size = (8.4, 1.0 + 0.235 * n)
    bars = _draw(size, lambda ax: display.plot(ax=ax), "", "Contribution of each column")
    table = Table(
        ["column", "mean share"],
        [[plain_name(column, width=60), shares[column]] for column in order[:100]],
        formats={"mean share": ".2%"},
        folded="The shares as a table",
    )
    side = float(np.interp(min(40, len(names)), [2, 8, 40], [4.2, 5.0, 7.6]))
    heatmap = _draw(
        (side + 1.0, side),
        lambda ax: MetricHeatmapDisplay.from_estimator(model, x, feature_names=names, ax=ax),
        "The matrix of the metric, for features in standard deviations: Euclidean distance has ones "
        "on the diagonal and zeros elsewhere. Orange: differences of equal sign in both features "
        f"increase the distance; purple: they compensate. About {learned.effective_rank:.1f} of "
        f"{len(names):,} directions determine distances (effective rank).",
        "Heat map of the metric",
    )
    return "Which columns count", [text, bars, table, heatmap]


def _neighbors(
    comparison: Comparison,
    model: Any,
    samples: tuple[FloatArray, AnyArray],
    parts: tuple[IntArray, IntArray],
    columns: AnyArray,
    row_names: Sequence[Any] | None,
    note: str,
) -> Section:
    """Show the neighbours of samples before and after, and the columns behind the change."""
    (x, y), (rest, held) = samples, parts
    into = linear_map(model, x[rest])
    plain_rest, plain_held = standardize(x[rest], x[held])
    spaces = ((plain_rest, plain_held), (into.map_features(x[rest]), into.map_features(x[held])))
    before, after = (rest[nearest_neighbors(a, 1, queries=b).indices[:, 0]] for a, b in spaces)
    blocks: list[Block] = [note]
    if comparison.task == "classification":
        gain = (y[before] != y[held]).astype(float) - (y[after] != y[held])
        blocks += _neighbor_picture(comparison, model, x, y, rest, held, row_names)
    else:
        wrong = [np.abs(y[found] - y[held]) for found in (before, after)]
        gain = wrong[0] - wrong[1]
        blocks.append(
            "The mean difference between the target of a sample and that of its nearest neighbour "
            f"goes from {_text(wrong[0].mean())} to {_text(wrong[1].mean())}."
        )
    order = np.argsort(-gain, kind="stable")
    examples = [i for i in order[:5] if gain[i] > 0] + [i for i in order[-2:] if gain[i] < 0]
    original = _original(comparison, x)
    rows = []
    for i in examples:
        own, old, new = int(held[i]), int(before[i]), int(after[i])
        shares = _by_column(pair_contributions(x[old] - x[own], into.metric), columns)
        total = sum(shares.values()) or 1.0
        reasons = [
            f"{plain_name(c, width=24)} {_value(original, own, c)}, neighbour "
            f"{_value(original, old, c)} ({shares[c] / total:.0%})"
            for c in sorted(shares, key=lambda c: -shares[c])[:3]
            if shares[c] > 0.05 * total
        ]
        mark = "good" if gain[i] > 0 else "bad"
        cells = [f"{_row(comparison, j, row_names)}: {_text(y[j])}" for j in (own, old, new)]
        rows.append([*cells[:2], Cell(cells[2], mark), "; ".join(reasons)])
    if rows:
        heads = ["sample", "nearest before", "nearest now", "what separates it from the former one"]
        caption = (
            "Examples in the values of the table: the largest gains, then losses. In brackets: "
        )
        caption += "share of the column in the learned squared distance between the two."
        blocks.append(Table(heads, rows, caption))
    return "Neighbours before and after", blocks


def _neighbor_picture(
    comparison: Comparison,
    model: Any,
    x: FloatArray,
    y: AnyArray,
    rest: IntArray,
    held: IntArray,
    row_names: Sequence[Any] | None,
) -> list[Block]:
    """Draw the classes of the neighbours of examples, with a sentence on all samples shown."""
    k, n = min(10, len(rest) - 1), min(12, len(held))
    every = np.isin(np.unique(y), np.concatenate([y[rest], y[held]]))
    made: list[NeighborsDisplay] = []
    picture = _draw(
        (1.9 + 0.31 * (2 * k + 4), 1.3 + 0.31 * n),
        lambda ax: made.append(
            NeighborsDisplay.from_estimator(
                model,
                x[held],
                y[held],
                X_reference=x[rest],
                y_reference=y[rest],
                n_examples=n,
                n_neighbors=k,
                row_names=[_row(comparison, int(i), row_names) for i in held],
                class_names=[
                    n for n, is_ in zip(comparison.class_names, every, strict=True) if is_
                ],
                ax=ax,
            )
        ),
        f"The {k} nearest samples in standardized features and under the metric, nearest first; "
        "filled: same class. Examples from the largest gain to the largest loss.",
        "Classes of the nearest neighbours of examples before and after",
    )
    text = (
        f"Of the {k} nearest samples, {made[0].share_before:.1%} have the same class before and "
        f"{made[0].share_after:.1%} under the metric. It changes this number for "
        f"{made[0].n_changed:,} of {made[0].n_rows:,} samples."
    )
    return [text, picture]


def _plane(
    comparison: Comparison, model: Any, x: FloatArray, y: AnyArray, held: IntArray, note: str
) -> Section:
    """Show samples in a plane before and after; numeric targets are divided into four ranges."""
    labels: AnyArray = y[held]
    classes = np.unique(y)
    names = np.asarray(comparison.class_names, dtype=object)
    if comparison.task == "regression":
        edges = np.unique(np.quantile(labels, [0, 0.25, 0.5, 0.75, 1]))
        labels = np.digitize(labels, edges[1:-1])
        classes = np.unique(labels)
        ends = [f"{_text(a)} to {_text(b)}" for a, b in pairwise(edges)]
        names = np.asarray(ends or [_text(edges[0])], dtype=object)[classes]
    present = names[np.isin(classes, labels)].tolist()
    picture = _draw(
        (9.0, 4.0),
        lambda axes: EmbeddingDisplay.from_estimator(
            model, x[held], labels, class_names=present, ax=axes
        ),
        "Two leading principal components in standardized features and in the space of the metric. "
        "Groups that overlap in the plane may be apart in other directions.",
        "Samples in a plane before and after",
        panels=2,
    )
    return "Samples in a plane", [note, picture]


def _error_by_k(comparison: Comparison) -> Section:
    """Show the error on test samples by number of neighbours."""
    picture = _draw(
        (8.8, 3.6),
        lambda ax: ErrorByKDisplay.from_comparison(comparison, ax=ax),
        "Error rate on the test samples, averaged over the folds. A flat line means that the number "
        "of neighbours matters little.",
        "Error rate by number of neighbours",
    )
    return "Number of neighbours", [picture]


def _columns(comparison: Comparison) -> Section:
    """Say how each column was read, with its values and the notes."""
    encoder = comparison.encoder
    if not hasattr(encoder, "columns_"):
        return "Columns", [*comparison.notes]
    # The table has what the lines of the summary say, and the target a section of its own.
    said = {line.strip() for line in encoder.summary().splitlines()}
    said.add(f"target {comparison.target.summary}" if comparison.target is not None else "")
    blocks = [note for note in comparison.notes if note.strip() not in said]
    plans, original = encoder.columns_, _original(comparison, comparison.encoded())
    rows = []
    for position, plan in enumerate(plans[:100]):
        values = ""
        if plan["kind"] in ("number", "date"):
            values = " to ".join(_text(v) for v in original[plan["name"]].agg(["min", "max"]))
        elif plan["kind"] != "left out":
            words = [str(v) for v in _column(comparison.X, position)]
            top = Counter(words).most_common(3)
            values = ", ".join(f"{plain_name(w, width=18)} {n / len(words):.0%}" for w, n in top)
        mark = "quiet" if plan["kind"] == "left out" else ""
        name = Cell(plain_name(plan["name"], width=60), mark)
        rows.append([name, plan["kind"], plan["n_missing"] or None, values, plan["reason"]])
    cut = f"The first 100 of {len(plans):,} columns." if len(plans) > 100 else ""
    heads = ["column", "read as", "missing", "range, or most frequent values", "remarks"]
    return "Columns", [*blocks, Table(heads, rows, cut)]


def _first_rows(comparison: Comparison) -> Section:
    """Show the first rows of the table as they were given, the target first."""
    table = comparison.X
    names = [str(n) for n in getattr(table, "columns", comparison.feature_names)][:12]
    target = comparison.target.name if comparison.target is not None else "target"
    cells = [_column(table, position)[:5] for position in range(len(names))]
    rows = [
        [_row(comparison, i, None), _text(comparison.y[i]), *(_text(c[i]) for c in cells)]
        for i in range(min(5, comparison.n_samples))
    ]
    n = len(getattr(table, "columns", comparison.feature_names))
    cut = f"The first 12 of {n:,} columns." if n > 12 else ""
    return "First rows", [Table(["row", target, *names], rows, cut, sortable=False)]


def _measured(comparison: Comparison) -> Section:
    """Say how scores were measured and tested, and what the methods are."""
    text = (
        f"{comparison.protocol}. All methods use the same folds and select their parameters on the "
        "training samples only."
    )
    rows = [
        [r.name, r.key, METHODS[r.key].description.strip()]
        for r in comparison.results
        if r.key in METHODS
    ]
    blocks: list[Block] = [text, *filter(None, [comparison.footnote])]
    if rows:
        blocks.append(Table(["method", "key", "what it does"], rows, sortable=False))
    return "How it was measured", blocks


def _draw(
    size: tuple[float, float], draw: Any, caption: str, alt: str, *, panels: int = 1
) -> Picture:
    """Make a picture of what `draw(axes)` draws on one or several panels."""
    figure = import_optional("matplotlib.figure", "report").Figure(figsize=size)
    draw(figure.subplots(1, panels))
    return Picture(figure, caption, alt)


def _column(table: Any, position: int) -> AnyArray:
    """Return the values of a column of a frame or an array."""
    values = table.iloc[:, position] if hasattr(table, "iloc") else table[:, position]
    return np.asarray(values, dtype=object)


def _original(comparison: Comparison, x: FloatArray) -> Any:
    """Return the samples in the values of the table, by column name."""
    if hasattr(comparison.encoder, "inverse_transform"):
        return comparison.encoder.inverse_transform(x)
    return {name: x[:, i] for i, name in enumerate(comparison.feature_names)}


def _value(original: Any, row: int, column: str) -> str:
    """Write the value of a sample in a column."""
    values = original[column] if column in original else ["?"] * (row + 1)
    return _text(values.iloc[row] if hasattr(values, "iloc") else values[row])


def _row(comparison: Comparison, position: int, names: Sequence[Any] | None) -> str:
    """Name a sample: as given, or by its line or row in the table."""
    if names is not None:
        return plain_name(names[position], width=24)
    if hasattr(comparison.X, "attrs"):
        from genmetric.tables import row_label

        return row_label(comparison.X, position)
    return f"row {comparison.rows[position]}"


def _text(value: Any, _: Any = None) -> str:
    """Write a value: numbers with four digits and without an exponent if they are short."""
    if isinstance(value, float):  # also numpy's float64
        return value_text(value)
    return plain_name(value, width=40).removesuffix(" 00:00:00")
