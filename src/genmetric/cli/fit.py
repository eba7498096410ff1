"""`genmetric fit`: learn a metric from a table and save it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import click

from genmetric.cli.options import (
    DATA,
    STREAM_BYTES,
    column_options,
    opened,
    planned,
    quiet_option,
    seed_option,
    warn_counting,
)
from genmetric.cli.output import check_output, remark
from genmetric.cli.progress import progress_bar

#: Methods, and what they are, for the help; names of :data:`genmetric.study.contenders.CONTENDERS`.
METHODS = {
    "cv": "M^UNI, shrinkage and interpolation chosen",
    "uniform": "M^UNI",
    "kde": "M^KDE",
    "gmm": "M^GMM",
    "lmnn": "LMNN",
    "nca": "NCA of scikit-learn",
    "lda": "linear discriminants",
    "energy": "energy classification on M^UNI",
    "local": "a metric at each query",
    "mkl": "kernels of regional metrics",
    "standardised": "Euclidean distance, features standardised",
    "euclidean": "Euclidean distance, features as they are",
}

#: Rows of a stream whose local metrics are averaged.
AVERAGE_ROWS = 100_000

#: Rows kept for votes and neighbours when a file is streamed.
KEEP_ROWS = 20_000


@click.command(epilog="Methods: " + "; ".join(f"{k}, {v}" for k, v in METHODS.items()) + ".")
@DATA
@column_options
@click.option(
    "-m",
    "--method",
    type=click.Choice(list(METHODS)),
    help="What to learn; cv if not given, uniform for streams.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="MODEL",
    type=click.Path(path_type=Path),
    help="Model file to write.",
)
@click.option(
    "-k", "--neighbors", type=click.IntRange(1), help="Rows that vote; chosen if not given."
)
@click.option("--shrinkage", metavar="S", help="For uniform, kde, gmm: none, auto or 0 to 1.")
@click.option(
    "--interpolation",
    type=click.FloatRange(0, 1),
    metavar="L",
    help="For uniform, kde, gmm: 0 to 1.",
)
@click.option("--raw", is_flag=True, help="Do not standardise the features.")
@click.option("--stream", is_flag=True, help="Read in batches; by itself for files above 256 MB.")
@click.option(
    "--average-rows",
    type=click.IntRange(1),
    default=AVERAGE_ROWS,
    show_default=True,
    help="For streams: rows, drawn at random, whose local metrics are averaged. The class models "
    "see every row.",
)
@click.option(
    "--keep-rows",
    type=click.IntRange(1),
    default=KEEP_ROWS,
    show_default=True,
    help="Most rows that a streamed model keeps, a random sample, to predict by.",
)
@seed_option
@quiet_option
def fit(data: Path, output: Path, **options: Any) -> None:
    """Learn a metric from the rows of DATA and save it.

    The model file also holds what `predict` needs (the training rows in the space of the metric)
    and how the columns become numbers, so that new files need no options. It holds no code.
    """
    from time import perf_counter

    start = perf_counter()
    _check_method(options)
    check_output(output, data)
    table = opened(data, options)
    recipe = planned(table, options)
    if options["stream"] or _large(table):
        from genmetric.cli.streams import fit_stream

        fitted, recipe, facts = fit_stream(table, recipe, options)
    else:
        fitted, recipe, facts = _fit_whole(table, recipe, options)
    facts = {
        "file": data.name,
        **facts,
        "parameters": {k: plain(v) for k, v in fitted.parameters.items()},
        "seconds": round(perf_counter() - start, 3),
        "written": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }
    metadata = {"method": options["method"], "recipe": recipe.to_dict(), "training": facts}
    from genmetric.files import save

    save(fitted.model, output, metadata=metadata)
    words = ", ".join(f"{k} {v}" for k, v in facts["parameters"].items())
    error = facts.get("leave_one_out_error")
    remark(
        f"{output}: {options['method']} from {facts['rows']} rows, "
        f"{len(recipe.feature_names)} features, {len(facts['classes'])} classes"
        f"{'; ' + words if words else ''}"
        f"{'' if error is None else f'; leave-one-out error {100 * error:.1f}%'}.",
        quiet=options["quiet"],
    )


def _check_method(options: dict[str, Any]) -> None:
    """Settle the method, and refuse options that it does not take."""
    given = [name for name in ("shrinkage", "interpolation") if options[name] is not None]
    if given and options["method"] is None:
        options["method"] = "uniform"
    options["given"], method = given, options["method"]
    if given and method not in ("uniform", "kde", "gmm"):
        raise click.UsageError(f"--{given[0]} is for the methods uniform, kde and gmm.")
    if options["neighbors"] is not None and method in ("lda", "energy", "local", "mkl"):
        raise click.UsageError(f"--neighbors is for methods whose neighbours vote, not {method}.")
    if options["raw"] and method in ("lda", "energy", "local", "mkl", "standardised"):
        raise click.UsageError(f"--raw is not for the method {method}.")
    if options["shrinkage"] is not None:
        options["shrinkage"] = _shrinkage(options["shrinkage"])


def _shrinkage(text: str) -> Any:
    if text.lower() == "none":
        return None
    if text.lower() == "auto":
        return "auto"
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise click.BadParameter(
            f"{text!r} is not none, auto or a number from 0 to 1.", param_hint="--shrinkage"
        )
    return value


def _large(table: Any) -> bool:
    # Compressed text grows four times and more.
    factor = 4 if getattr(table, "compression", None) else 1
    return bool(factor * table.n_bytes > STREAM_BYTES)


def make_metric(options: dict[str, Any]) -> Any:
    """The metric of a method that votes, not fitted; None is Euclidean distance."""
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    from genmetric.lmnn import LMNN
    from genmetric.metric import GenerativeMetric, GenerativeMetricCV

    method, seed = options["method"], options["seed"]
    if method in ("euclidean", "standardised"):
        return None
    if method == "cv":
        return GenerativeMetricCV(random_state=seed)
    if method == "lmnn":
        return LMNN(random_state=seed)
    if method == "nca":
        return NeighborhoodComponentsAnalysis(random_state=seed)
    chosen = {name: options[name] for name in options["given"]}
    return GenerativeMetric(method, random_state=seed, **chosen)


def _fit_whole(table: Any, recipe: Any, options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Fit on rows in memory."""
    import numpy as np

    from genmetric.tables import check_labels, learn_recipe, read_rows

    options["method"] = options["method"] or "cv"
    with progress_bar("fit", quiet=options["quiet"]) as advance:
        advance("reading", 0.0)
        recipe = learn_recipe(table, recipe)
        rows = read_rows(table, recipe)
        check_labels(rows.labels, table, recipe.target)
        warn_counting(rows, table, recipe)
        advance("learning", 0.2)
        # After reading: a bad table is told without the wait for scikit-learn.
        from genmetric.study.contenders import CONTENDERS, Training, fit_voting

        method = options["method"]
        training = Training(rows.X, rows.labels, options["seed"])
        if method in ("lda", "energy", "local", "mkl"):
            fitted = CONTENDERS[method].fit(training)
        else:
            fitted = fit_voting(
                make_metric(options),
                training,
                standardise=not options["raw"] and method != "euclidean",
                n_neighbors=options["neighbors"],
            )
    classes, counts = np.unique(rows.labels, return_counts=True)
    facts = {
        "rows": len(rows),
        "kept_rows": len(rows),
        "classes": {str(c): int(n) for c, n in zip(classes, counts, strict=True)},
        "variance": [float(v) for v in np.var(rows.X, axis=0)],
        "streamed": False,
    }
    if fitted.by_k is not None:
        facts["leave_one_out_error"] = leave_one_out_error(fitted)
    return fitted, recipe, facts


def leave_one_out_error(fitted: Any) -> float | None:
    """Leave-one-out error of the votes with the number of neighbours chosen, where it is known."""
    ks, errors = fitted.by_k
    found = errors[ks == fitted.parameters["n_neighbors"]]
    return float(found[0]) if len(found) and found[0] == found[0] else None


def plain(value: Any) -> Any:
    """A number of NumPy as one of Python, which JSON can hold."""
    return value.item() if hasattr(value, "item") else value
