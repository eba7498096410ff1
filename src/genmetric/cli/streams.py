"""`genmetric fit` on files that are larger than memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from genmetric.cli.output import remark
from genmetric.cli.progress import progress_bar


def fit_stream(table: Any, recipe: Any, options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Fit M^UNI in passes over the batches of a file, in bounded memory.

    One pass scales the features, counts the classes and draws the rows that are kept; two more are
    :meth:`~genmetric.GenerativeMetric.fit_batches`. Categories and fillings take one before.

    Parameters
    ----------
    table : TableFile
        The file.
    recipe : Recipe
        As planned, not yet learned.
    options : dict
        Of the command.

    Returns
    -------
    fitted : Fitted
        The model and what was chosen.
    recipe : Recipe
        Learned.
    facts : dict
        Of the training.
    """
    import numpy as np
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import check_random_state

    from genmetric.cli.fit import leave_one_out_error, make_metric
    from genmetric.metric.fitting import FEWEST_FEATURES
    from genmetric.metric.reservoir import Reservoir
    from genmetric.study.contenders import Fitted, choose_neighbors
    from genmetric.tables import check_labels, learn_recipe, row_batches

    method = options["method"] = options["method"] or "uniform"
    if method not in ("uniform", "standardised", "euclidean"):
        raise click.UsageError(
            f"{table.path}: --method {method} needs all rows in memory, and this file is streamed. "
            "Use --method uniform, or fit on a part of the rows."
        )
    n_passes = 1 + 2 * (method == "uniform") + recipe.needs_pass
    with progress_bar("fit", quiet=options["quiet"]) as advance:
        done = 0.0
        if recipe.needs_pass:
            advance("columns", 0.0)
            recipe = learn_recipe(table, recipe)
            done = 1.0

        spread = StandardScaler()
        counts: Counter[str] = Counter()
        kept = Reservoir(options["keep_rows"], check_random_state(options["seed"]))
        names: dict[str, int] = {}
        for rows in row_batches(table, recipe):
            spread.partial_fit(rows.X)
            words, codes, n = np.unique(rows.labels, return_inverse=True, return_counts=True)
            counts.update(dict(zip(words.tolist(), n.tolist(), strict=True)))
            numbers = np.array([names.setdefault(word, len(names)) for word in words.tolist()])
            kept.add(np.column_stack([rows.X, numbers[codes]]))
            n_rows = int(sum(counts.values()))
            advance(f"{n_rows} rows", done / n_passes)
        assert kept.rows is not None
        sample = kept.rows[:, :-1]
        labels = np.array(list(names))[kept.rows[:, -1].astype(int)]
        # The sample stands for all rows: a quantity shows in it as it does in them.
        check_labels(labels if len(counts) > 1 else np.array(list(names)), table, recipe.target)

        scale = spread
        if options["raw"] or method == "euclidean":
            scale = StandardScaler(with_std=False)
            scale.partial_fit(spread.mean_[None])
        steps: list[tuple[str, Any]] = [("scale", scale)]
        metric = make_metric(options)
        if metric is not None:
            # With fewer features single points may outweigh all others, and all are cheap.
            if n_rows > options["average_rows"] and sample.shape[1] >= FEWEST_FEATURES:
                metric.set_params(max_samples=options["average_rows"])
            passes = iter((done + 1, done + 2))

            def batches() -> Iterator[tuple[Any, Any]]:
                start, seen = next(passes), 0
                for rows in row_batches(table, recipe):
                    seen += len(rows)
                    advance("learning", (start + seen / n_rows) / n_passes)
                    yield scale.transform(rows.X), rows.labels

            metric.fit_batches(batches)
            steps.append(("metric", metric))
        Z = Pipeline(steps).transform(sample)
        best, ks, errors = choose_neighbors(Z, labels, options["seed"])
        k = min(options["neighbors"] or best, len(Z))
        steps.append(("neighbors", KNeighborsClassifier(k).fit(Z, labels)))
    fitted = Fitted(Pipeline(steps), {"n_neighbors": k}, (ks, errors))
    facts = {
        "rows": n_rows,
        "kept_rows": len(sample),
        "classes": {name: int(counts[name]) for name in sorted(counts)},
        "variance": [float(v) for v in spread.var_],
        "streamed": True,
        "leave_one_out_error": leave_one_out_error(fitted),
    }
    if metric is not None and metric.max_samples is not None:
        facts["averaged_rows"] = metric.max_samples
        facts["metric_stderr"] = float(metric.metric_stderr_)
        remark(
            f"local metrics averaged over {metric.max_samples} of {n_rows} rows (--average-rows): "
            f"relative standard error {metric.metric_stderr_:.2g}.",
            quiet=options["quiet"],
        )
    if len(sample) < n_rows:
        remark(
            f"predict will use a random sample of {len(sample)} of the {n_rows} rows "
            "(--keep-rows).",
            quiet=options["quiet"],
        )
    return fitted, recipe, facts
