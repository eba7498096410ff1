"""`genmetric compare`: which metric helps on a table, and how much."""

from __future__ import annotations

import json
import shlex
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genmetric.cli.fit import METHODS, plain
from genmetric.cli.options import (
    DATA,
    column_options,
    opened,
    planned,
    quiet_option,
    seed_option,
    warn_counting,
)
from genmetric.cli.output import check_output, remark
from genmetric.cli.progress import progress_bar

if TYPE_CHECKING:
    from genmetric.study.comparison import Comparison


@click.command()
@DATA
@column_options
@click.option(
    "--report", metavar="HTML", type=click.Path(path_type=Path), help="Write a page with pictures."
)
@click.option(
    "--methods",
    metavar="A,B,...",
    help="Methods by name: euclidean, standardised, lda, "
    "nca, lmnn, uniform, kde, gmm, cv, local, energy, mkl.",
)
@click.option("--folds", type=click.IntRange(2), help="10 if not given, 5 above 5000 rows.")
@click.option("--repeats", type=click.IntRange(1), help="3 if not given up to 500 rows, else 1.")
@click.option(
    "--rows",
    type=click.IntRange(20),
    default=20_000,
    show_default=True,
    help="Most rows to compare on, a random sample.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(0.1),
    default=60.0,
    show_default=True,
    help="Seconds a method may take over all folds.",
)
@click.option("--json", "as_json", is_flag=True, help="Figures as JSON.")
@seed_option
@quiet_option
def compare(data: Path, report: Path | None, as_json: bool, **options: Any) -> None:
    """Compare metrics on DATA by cross-validation: errors, times and advice.

    Each method is fitted on the training rows of a fold and judged on the others; what it chooses,
    such as the number of neighbours, it chooses on the training rows alone.
    """
    from genmetric.tables import check_labels, learn_recipe, read_rows

    methods = tuple(dict.fromkeys(m.strip() for m in (options["methods"] or "").split(",")))
    for name in methods if options["methods"] else ():
        if name not in METHODS:
            raise click.BadParameter(
                f"no method {name!r}; there are {', '.join(METHODS)}.", param_hint="--methods"
            )
    if report is not None:
        check_report(report, data)
    with progress_bar("compare", quiet=options["quiet"]) as advance:
        advance("reading", 0.0)
        table = opened(data, options)
        recipe = learn_recipe(table, planned(table, options))
        rows = read_rows(table, recipe, fill=False)
        check_labels(rows.labels, table, options["target"])
        warn_counting(rows, table, recipe)
        # After reading: a bad table is told without the wait for scikit-learn.
        from genmetric.study.compare import compare_metrics
        from genmetric.study.contenders import USUAL

        found = compare_metrics(
            rows.X,
            rows.labels,
            methods=methods if options["methods"] else USUAL,
            n_splits=options["folds"],
            n_repeats=options["repeats"],
            max_rows=options["rows"],
            time_limit=options["time_limit"],
            title=data.name,
            feature_names=recipe.feature_names,
            random_state=options["seed"],
            progress=advance,
        )
    click.echo(
        json.dumps(as_dict(found), indent=2, default=plain)
        if as_json
        else "\n".join(lines_of(found))
    )
    step = next_step(found, data, options)
    if step and not as_json:
        remark(step, quiet=options["quiet"])
    if report is not None:
        footer = " ".join(
            [
                "genmetric compare",
                shlex.quote(data.name),
                "--target",
                shlex.quote(options["target"]),
            ]
        )
        make_report(found, rows.X, rows.labels, report, footer, rows.ids, options["seed"])
        remark(f"{report} written.", quiet=options["quiet"])


def check_report(path: Path, *inputs: Path) -> None:
    """Refuse a report that cannot be written, before the work."""
    from genmetric._extras import need

    check_output(path, *inputs)
    need("matplotlib", "report")
    need("jinja2", "report")


def make_report(
    found: Comparison, X: Any, y: Any, path: Path, footer: str, names: Any = None, seed: int = 0
) -> None:
    """Write the page about a comparison, with the best metric of the comparison in its pictures.

    Parameters
    ----------
    found : Comparison
        The figures.
    X : ndarray of shape (n_samples, n_features)
        Rows; NaN where missing.
    y : ndarray of shape (n_samples,)
        Classes.
    path : Path
        The file.
    footer : str
        The command.
    names : ndarray of shape (n_samples,), default=None
        Names of the rows.
    seed : int, default=0
        Of chance.
    """
    import numpy as np

    from genmetric.report import write_report
    from genmetric.study.compare import fill_missing
    from genmetric.study.contenders import CONTENDERS, Training

    # A picture needs one metric: the best of those that have one.
    pictured = [CONTENDERS[key] for key in ("uniform", "cv", "kde", "gmm", "lmnn", "nca")]
    ran = {result.name: result for result in found.ran}
    candidates = [c for c in pictured if c.name in ran]
    metric = name = None
    if candidates:
        best = min(candidates, key=lambda c: ran[c.name].error)
        filled, _ = fill_missing(X, X)
        most = 2000 if best.key == "nca" else None
        fitted = best.fit(Training(filled, np.asarray(y), seed, most))
        metric, name = fitted.model[:-1], best.name
    write_report(
        found,
        X,
        y,
        path=path,
        metric=metric,
        metric_name=name or "",
        row_names=None if names is None else [str(n) for n in names],
        footers=[footer],
        random_state=seed,
    )


def lines_of(found: Comparison) -> list[str]:
    """The comparison as lines of text."""
    width = max(len(result.name) for result in found.results)
    folds = f"{found.n_splits} folds" + (
        f", {found.n_repeats} times" if found.n_repeats > 1 else ""
    )
    sizes = f"{found.n_samples} rows, {found.n_features} features, {len(found.class_names)} classes"
    lines = [
        f"{found.title}: {sizes}, {folds}",
        *(f"  {note}" for note in found.notes),
        "",
        f"{'':<{width}}   error, %      fit, s  predict, s",
    ]
    for result in found.results:
        if result.skipped:
            lines.append(f"{result.name:<{width}}   skipped: {result.note}")
            continue
        mark = "*" if result.name == found.best else " "
        lines.append(
            f"{result.name:<{width}} {mark} {100 * result.error:5.1f} ± {_error(result):<4}"
            f"{_seconds(result.fit_seconds):>10}  {_seconds(result.predict_seconds):>10}"
        )
        if result.note:
            lines.append(f"{'':<{width}}   ({result.note})")
    return [*lines, "", found.advice]


def _error(result: Any) -> str:
    error = result.standard_error
    return "?" if isnan(error) else f"{100 * error:.1f}"


def _seconds(values: Any) -> str:
    mean = float(values.mean())
    return f"{mean:.3f}" if mean < 10 else f"{mean:.0f}"


def as_dict(found: Comparison) -> dict[str, Any]:
    """The comparison as JSON can hold it; NaN is null."""
    return {
        "title": found.title,
        "rows": found.n_samples,
        "features": list(found.feature_names),
        "classes": {
            name: int(n) for name, n in zip(found.class_names, found.class_counts, strict=True)
        },
        "folds": found.n_splits,
        "repeats": found.n_repeats,
        "seed": found.seed,
        "methods": [
            {
                "name": r.name,
                "skipped": r.skipped,
                "error": _number(r.error),
                "standard_error": _number(r.standard_error),
                "errors": r.errors.tolist(),
                "fit_seconds": r.fit_seconds.tolist(),
                "predict_seconds": r.predict_seconds.tolist(),
                "parameters": [dict(p) for p in r.parameters],
                "note": r.note,
            }
            for r in found.results
        ],
        "error_by_k": {
            name: {"k": ks.tolist(), "error": [_number(e) for e in errors]}
            for name, (ks, errors) in found.error_by_k.items()
        },
        "baseline": found.baseline,
        "best": found.best,
        "p_value": _number(found.p_value),
        "advice": found.advice,
        "notes": list(found.notes),
    }


def _number(value: float) -> float | None:
    return None if isnan(value) else float(value)


def next_step(found: Comparison, data: Path, options: dict[str, Any]) -> str:
    """The command that uses what was found; empty where nothing was worth it."""
    from genmetric.study.compare import LEVEL
    from genmetric.study.contenders import CONTENDERS

    if not found.p_value < LEVEL:
        return ""
    key = next(c.key for c in CONTENDERS.values() if c.name == found.best)
    words = ["genmetric", "fit", str(data), "--target", options["target"], "--method", key]
    for name in ("id_column", "features", "ignore", "category"):
        flag = {"id_column": "--id", "features": "--feature"}.get(name, f"--{name}")
        values = options[name] if isinstance(options[name], tuple) else [options[name]]
        words += [w for value in values if value is not None for w in (flag, value)]
    words += [f"--{name}" for name in ("categorical", "impute") if options[name]]
    words += [w for n in ("delimiter", "encoding") if options[n] for w in (f"--{n}", options[n])]
    return "Next: " + shlex.join([*words, "-o", "model.gm"])
