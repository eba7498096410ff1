"""`genmetric fit`: learn a metric from a table and save it."""

from __future__ import annotations

import datetime as dt
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from genmetric.cli._choices import (
    DISTANCE_KEYS,
    REFERENCE_ADVICE,
    DistancesHelp,
    KeyChoice,
    command_line,
)
from genmetric.cli._inspect import leave_one_out_text, metric_facts, target_facts
from genmetric.cli._options import (
    DATA,
    TrainingTable,
    check_data,
    column_options,
    memory_bytes,
    opened_training,
    quiet_option,
    read_training,
    seed_option,
)
from genmetric.cli._output import check_output, remark
from genmetric.cli._progress import progress_bar
from genmetric.tables._table_file import PEAK_FACTOR, default_budget, show_bytes
from genmetric.tables._table_sample import TooLargeError

if TYPE_CHECKING:
    from genmetric.comparison import Method

#: Method if none is given, of files in memory and of files read in batches.
DEFAULT_METHOD, DEFAULT_STREAMING_METHOD = "cv", "uniform"

#: The same for numeric targets: with the usual settings, and with those given or in batches.
DEFAULT_NUMBER_METHOD, DEFAULT_NUMBER_METHOD_WITH_SETTINGS = "regression_cv", "regression"

#: Bytes of a table beyond which it is read in batches, even if more fits the memory.
STREAM_BYTES = 256 << 20

#: Rows of a streamed file whose local metrics are averaged.
AVERAGE_ROWS = 100_000

#: Rows kept as neighbours when a file is streamed.
KEEP_ROWS = 20_000


@click.command(cls=DistancesHelp)
@DATA
@column_options
@click.option(
    "-m",
    "--method",
    metavar="METHOD",
    type=KeyChoice("method", DISTANCE_KEYS, advice=REFERENCE_ADVICE),
    help=f"Method to fit (default: {DEFAULT_METHOD}; {DEFAULT_STREAMING_METHOD} for files read "
    f"in batches; for numeric targets {DEFAULT_NUMBER_METHOD}, and "
    f"{DEFAULT_NUMBER_METHOD_WITH_SETTINGS} for files read in batches).",
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
    "-k",
    "--neighbors",
    type=click.IntRange(1),
    help="Number of neighbours; selected by leave-one-out by default.",
)
@click.option(
    "--shrinkage",
    metavar="S",
    help="Shrinkage of the covariances: none, auto or a number from 0 to 1; larger values "
    "regularise more.",
)
@click.option(
    "--interpolation",
    type=click.FloatRange(0, 1),
    metavar="L",
    help="Weight of the learned metric, 0 to 1; smaller values are closer to Euclidean distance.",
)
@click.option("--raw", is_flag=True, help="Do not standardise the features.")
@click.option(
    "--stream",
    is_flag=True,
    help=f"Read the file in batches (automatic if it takes more than {STREAM_BYTES >> 20} MB).",
)
@click.option(
    "--average-rows",
    type=click.IntRange(1),
    default=AVERAGE_ROWS,
    show_default=True,
    help="With --stream: number of random rows whose local metrics are averaged. The class models "
    "use all rows.",
)
@click.option(
    "--keep-rows",
    type=click.IntRange(1),
    default=KEEP_ROWS,
    show_default=True,
    help="With --stream: maximum number of random rows that the model keeps as neighbours. More "
    "rows predict better and take more memory.",
)
@seed_option
@quiet_option
def fit(data: Path, output: Path, **options: Any) -> None:
    """Learn a metric from the rows of DATA and save it.

    The model file contains everything that `genmetric predict` needs: how columns become features,
    the metric, and the training rows in its space. New files need no options. The file contains
    no code.
    """
    from time import perf_counter

    start = perf_counter()
    check_data(data)
    if options["shrinkage"] is not None:
        options["shrinkage"] = _shrinkage(options["shrinkage"])
    check_output(output, data)
    table = opened_training(data, options)
    given = _given_settings(options)
    # Without a method, settings select the method that accepts them.
    default = DEFAULT_STREAMING_METHOD if options["stream"] or given else DEFAULT_METHOD
    method = _method(options["method"] or default, given, options)
    training = None if options["stream"] else _read_whole(table, options)
    if training is None:
        from genmetric.cli._fit_streaming import fit_stream

        if options["method"] is not None:
            check_streams(method, table.label)
        select = partial(_select_method, given=given, options=options, streamed=True)
        method, model, fitted, facts = fit_stream(select, table, options, given)
    else:
        method = _select_method(training, given=given, options=options, streamed=False)
        model, fitted, facts = _fit_whole(method, training, options, given)
    from genmetric.comparison._text import plain
    from genmetric.files import save

    facts = {
        "file": data.name if str(data) != "-" else "standard input",
        **facts,
        "parameters": {k: plain(v) for k, v in fitted.parameters.items()},
        "seconds": round(perf_counter() - start, 3),
        "written": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }
    command = {
        "method": method.key,
        "target": options["target"],
        "id": options["id_column"],
        "training": facts,
    }
    replaced = output.is_file()
    save(model, output, command=command)
    words = ", ".join(f"{k} {v}" for k, v in facts["parameters"].items())
    error = leave_one_out_text(facts)
    target = "numeric target" if facts.get("target_format") else f"{len(facts['classes'])} classes"
    remark(
        f"{output}: {method.key} from {facts['rows']} rows, "
        f"{facts['n_features']} features, {target}"
        f"{'; ' + words if words else ''}"
        f"{'; leave-one-out ' + error if error else ''}."
        f"{' The former file is replaced.' if replaced else ''}",
        quiet=options["quiet"],
    )
    ending = data.suffix if data.suffix not in ("", ".gz", ".bz2", ".zst") else ".csv"
    step = command_line("predict", [str(output), f"NEW{ending}"])
    remark(f"Next: {step}", quiet=options["quiet"])


def _given_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the metric that were given; --shrinkage none has the value None."""
    source = click.get_current_context().get_parameter_source
    names: tuple[str, ...] = ("shrinkage", "interpolation")
    return {n: options[n] for n in names if (s := source(n)) is not None and s.name != "DEFAULT"}


def _method(key: str, given: dict[str, Any], options: dict[str, Any]) -> Method:
    """Look the method up, and refuse options that it does not accept."""
    from genmetric.comparison import METHODS

    method = METHODS[key]
    for name in given:
        if name not in method.settings:
            able = ", ".join(
                m.key
                for m in METHODS.values()
                if name in m.settings and set(m.tasks) & set(method.tasks)
            )
            raise click.UsageError(f"--{name} needs one of the methods {able}; got {key}.")
    if options["neighbors"] is not None and not method.votes:
        raise click.UsageError(
            f"--neighbors needs a method that votes among neighbours; got {key}."
        )
    if options["raw"] and not method.votes:
        raise click.UsageError(f"--raw is not available for the method {key}.")
    return method


def _select_method(
    training: TrainingTable, *, given: dict[str, Any], options: dict[str, Any], streamed: bool
) -> Method:
    """Return the method asked for, or the default of the target; refuse one that is not for it."""
    key = options["method"]
    if key is None and training.is_numeric:
        plain = given or streamed
        key = DEFAULT_NUMBER_METHOD_WITH_SETTINGS if plain else DEFAULT_NUMBER_METHOD
    elif key is None:
        key = DEFAULT_STREAMING_METHOD if given or streamed else DEFAULT_METHOD
    method = _method(key, given, options)
    check_task(method, training)
    return method


def check_streams(method: Method, label: str) -> None:
    """Refuse a method that needs all rows in memory."""
    from genmetric.comparison import METHODS

    if not method.streams:
        able = ", ".join(m.key for m in METHODS.values() if m.streams)
        raise click.UsageError(
            f"{label}: --method {method.key} needs all rows in memory, and this file is read in "
            f"batches. Use one of {able}, or fit on a part of the rows."
        )


def check_task(method: Method, training: TrainingTable) -> None:
    """Refuse a method that does not predict what the target holds."""
    from genmetric.comparison import METHODS

    if training.task in method.tasks:
        return
    assert training.plan.target is not None
    able = ", ".join(m.key for m in METHODS.values() if m.distance and training.task in m.tasks)
    other = "classes" if training.is_numeric else "number"
    raise click.UsageError(
        f"--method {method.key} is not for the target {training.plan.target.summary}. Use one of "
        f"{able}, or --task {other}."
    )


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


def _read_whole(table: Any, options: dict[str, Any]) -> TrainingTable | None:
    """Read all rows; None if they do not fit the memory and the file is read in batches."""
    memory = memory_bytes(options) or min(default_budget(), PEAK_FACTOR * STREAM_BYTES)
    try:
        return read_training(table, options, memory=memory)
    except TooLargeError:
        remark(
            f"{table.label}: read in batches, because all rows would take more than "
            f"{show_bytes(memory)} (--memory).",
            quiet=options["quiet"],
        )
        return None


def _fit_whole(
    method: Method, training: TrainingTable, options: dict[str, Any], settings: dict[str, Any]
) -> tuple[Any, Any, dict[str, Any]]:
    """Fit on all rows in memory."""
    from sklearn.pipeline import Pipeline

    from genmetric.comparison import TrainingData

    with progress_bar("fit", quiet=options["quiet"]) as advance:
        advance("learning", 0.2)
        columns = training.make_columns().fit(training.X)
        X = columns.transform(training.X)
        fitted = method.fit(
            TrainingData(X, training.y, options["seed"], task=training.task),
            n_neighbors=options["neighbors"],
            standardise=False if options["raw"] else None,
            settings=settings,
        )
    names = tuple(map(str, columns.get_feature_names_out()))
    classes, target_range = {}, None
    if training.is_numeric:
        target_range = float(training.y.min()), float(training.y.max())
    else:
        found, counts = np.unique(training.y, return_counts=True)
        classes = {str(c): int(n) for c, n in zip(found, counts, strict=True)}
    facts = {
        "rows": len(X),
        "kept_rows": len(X),
        "n_features": len(names),
        **target_facts(training, classes, target_range),
        "streamed": False,
        "leave_one_out_error": fitted.leave_one_out_error,
        **metric_facts(fitted.model, X, names),
    }
    return Pipeline([("columns", columns), *fitted.model.steps]), fitted, facts
