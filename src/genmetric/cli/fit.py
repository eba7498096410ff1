"""`genmetric fit`: learn a metric from a table and save it."""

from __future__ import annotations

import datetime as dt
import shlex
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from genmetric.cli import options as opt
from genmetric.cli.apply import leave_one_out_text
from genmetric.cli.output import check_output, progress_bar, remark
from genmetric.comparison.methods import METHODS, Method

#: Default method of each task: tuned, and with settings or in batches.
DEFAULTS = {
    "classification": ("generative-cv", "generative"),
    "regression": ("regression-cv", "regression"),
}

#: Bytes of a file beyond which it is read in batches.
STREAM_BYTES = 256 << 20

#: Rows of a streamed file that decide what its columns are.
PLAN_ROWS = 50_000


def _shrinkage(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Any:
    """Read the value of --shrinkage, which the metric checks."""
    try:
        return value and float(value)
    except ValueError:
        return value


def _method_key(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Look up the key of a method that can be fitted."""
    keys = opt.method_keys(ctx, param, value)
    if keys and (len(keys) > 1 or not METHODS[keys[0]].distance):
        raise click.BadParameter(f"{value!r} is not one distance; compare shows other methods.")
    return keys[0] if keys else None


@click.command(cls=opt.MethodsHelp)
@opt.DATA
@opt.column_options
@opt.option(
    "-m --method",
    "Method to fit (default: generative-cv or regression-cv; in batches generative or regression).",
    metavar="KEY",
    callback=_method_key,
)
@opt.option("-o --output", "Model file to write.", required=True, type=opt.OUTPUT)
@opt.option("-k --neighbors", "Number of neighbours; selected by default.", type=opt.COUNT)
@opt.option("--shrinkage", "Shrink covariances: none, auto or 0 to 1 (most).", callback=_shrinkage)
@opt.option("--interpolation", "Weight of the learned metric, 0 to 1.", type=click.FloatRange(0, 1))
@opt.flag("--raw", "Do not standardise the features.")
@opt.flag("--stream", f"Read the file in batches (automatic above {STREAM_BYTES >> 20} MB).")
@opt.option(
    "--keep-rows",
    "With --stream: random rows that are kept as neighbours. More predict better.",
    type=opt.COUNT,
    default=20_000,
)
@opt.seed
@opt.quiet
def fit(data: Path, output: Path, **options: Any) -> None:
    """Learn a metric from the rows of DATA and save it.

    The model file contains everything that `genmetric predict` needs: how columns become features,
    the metric, and the training rows in its space. New files need no options. The file contains
    no code.
    """
    check_output(output, data)
    given = {n: options[n] for n in ("shrinkage", "interpolation") if options[n] is not None}
    source = opt.data_source(data)
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    stream = options["stream"] or size > STREAM_BYTES
    with progress_bar("fit", quiet=options["quiet"]) as advance:
        advance("reading", 0.0)
        X, y, target, encoder, notes = opt.read_training(
            source, options, PLAN_ROWS if stream else None
        )
        method = _method(target.task, given, options, stream=stream)
        lines = opt.show_columns(encoder.fit(X), notes, options)
        advance("learning", 0.2)
        settings = {
            "n_neighbors": options["neighbors"],
            "standardize": False if options["raw"] else None,
            "random_state": options["seed"],
            **{name: None if value == "none" else value for name, value in given.items()},
        }
        if stream:
            model, counts = _fit_batches(method, source, target, encoder, options, settings)
        else:
            columns, features = encoder.feature_columns_, encoder.transform(X)
            model = method.fit(features, y, target.task, feature_columns=columns, **settings)
            counts = _counted(y, target.task)
        facts = {"file": opt.data_name(data), "rows": counts.total(), "streamed": stream}
        if target.task == "regression":
            facts["target_range"] = [min(counts), max(counts)]
        else:
            facts["classes"] = {str(name): counts[name] for name in sorted(counts)}
        facts["parameters"] = method.parameters(model)
        if method.votes and not stream and model[-1].n_neighbors < len(y):
            # Without rows, the score is that of the training rows, each without itself.
            facts["leave_one_out_error"] = 1 - float(model[-1].score(None, y))
        model.steps.insert(0, ("columns", encoder))
        facts |= _metric_facts(model, X)
    facts["written"] = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    metadata = {"method": method.key, "target": asdict(target), "id": options["id_column"]}
    from genmetric.files import save

    save(model, output, metadata={**metadata, "training": facts})
    lines += [_summary(output, method, facts, len(encoder.get_feature_names_out()))]
    name = shlex.quote(str(output))
    lines += [f"Next: genmetric inspect {name}, or for new rows genmetric predict {name} NEW.csv"]
    remark("\n".join(lines), quiet=options["quiet"])


def _method(task: Any, given: Collection[str], options: dict[str, Any], *, stream: bool) -> Method:
    """Return the method asked for, or the default of the task; refuse what does not fit it."""
    key = options["method"] or DEFAULTS[task][bool(given) or stream]
    method = METHODS[key]
    able = [m for m in METHODS.values() if m.distance and task in m.tasks]
    if method not in able:
        other = f"Use one of {', '.join(m.key for m in able)}, or --task {method.tasks[0]}."
        raise click.UsageError(f"--method {key} does not support {task}, the task here. {other}")
    for name in (*given, *(n for n in ("neighbors", "raw") if options[n])):
        takes = [m for m in able if (name in m.settings if name in given else m.votes)]
        if method not in takes:
            keys = ", ".join(m.key for m in takes)
            raise click.UsageError(f"--{name} needs one of the methods {keys}; got {key}.")
    if stream and not method.streams:
        streams = ", ".join(m.key for m in able if m.streams)
        raise click.UsageError(f"--method {key} needs all rows in memory. Use one of {streams}.")
    return method


def _fit_batches(
    method: Method,
    source: Any,
    target: Any,
    encoder: Any,
    options: dict[str, Any],
    settings: dict[str, Any],
) -> tuple[Any, Counter[Any]]:
    """Fit in passes over the file; return the model and how often each target occurs."""
    from genmetric.comparison import fit_in_batches
    from genmetric.tables import read_batches

    passes: list[Counter[Any]] = []

    def batches() -> Iterator[tuple[Any, Any]]:
        counts: Counter[Any] = Counter()
        passes.append(counts)
        for frame in read_batches(source, **opt.reading(options)):
            y, present = target.read(frame)
            if present.any():
                counts.update(_counted(y, target.task))
                yield encoder.transform(frame[present]), y

    kept = options["keep_rows"]
    model = fit_in_batches(method, batches, task=target.task, keep_samples=kept, **settings)
    return model, passes[0]


def _counted(y: Any, task: str) -> Counter[Any]:
    """Count the classes; of numbers only the number of rows, with the range as keys."""
    if task == "regression":
        return Counter({float(y.max()): len(y) - 1}) + Counter([float(y.min())])
    return Counter(y.tolist())


def _metric_facts(model: Any, X: Any) -> dict[str, Any]:
    """Return spectrum, effective rank and contributions of the columns; empty without a map."""
    from genmetric.inspection import feature_contributions, learned_metric

    try:
        found = learned_metric(model, X)
    except (TypeError, ValueError):
        return {}
    shares = feature_contributions(model, X, by_column=True)
    return {
        "spectrum": (found.eigenvalues / found.eigenvalues.sum()).tolist(),
        "effective_rank": found.effective_rank,
        "contributions": dict(sorted(shares.items(), key=lambda item: -abs(item[1]))),
    }


def _summary(output: Path, method: Method, facts: dict[str, Any], n_features: int) -> str:
    """Describe a model in one line."""
    target = f"{len(facts['classes'])} classes" if "classes" in facts else "numeric target"
    features = f"{n_features} feature{'' if n_features == 1 else 's'}"
    words = ", ".join(f"{name} {value}" for name, value in facts["parameters"].items())
    error = leave_one_out_text(facts)
    parts = [f"{output}: {method.key} from {facts['rows']} rows, {features}, {target}", words]
    parts += [f"leave-one-out {error}"] if error else []
    return "; ".join(part for part in parts if part) + "."
