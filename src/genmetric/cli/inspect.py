"""`genmetric inspect`: what is in a saved model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from genmetric.cli.options import MODEL


@click.command()
@MODEL
@click.option(
    "--top", type=click.IntRange(1), default=15, show_default=True, help="Features to list."
)
@click.option("--all", "all_", is_flag=True, help="List all features.")
@click.option("--json", "as_json", is_flag=True, help="All of it as JSON.")
def inspect(model: Path, top: int, all_: bool, as_json: bool) -> None:
    """Show what MODEL learned: weights of the features, spectrum, effective rank, classes.

    The weight of a feature is its part of the mean squared distance between rows if features were
    independent: the diagonal entry of the metric times the variance, as a share of their sum.
    """
    found = facts_of(model)
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for line in lines_of(found, None if all_ else top):
        click.echo(line)


def facts_of(path: Path) -> dict[str, Any]:
    """All that `inspect` shows, as JSON can hold it.

    Parameters
    ----------
    path : Path
        The model file.

    Returns
    -------
    dict
        Training facts, and where the model has a single metric "weights", "spectrum",
        "effective_rank" and "determinant".
    """
    from genmetric.cli.models import linear_map, load_model

    model = load_model(path)
    facts, recipe = model.facts, model.recipe
    found: dict[str, Any] = {
        "file": str(path),
        "method": model.method,
        "class": model.header["class"],
        "genmetric": model.header["genmetric_version"],
        "scikit_learn": model.header["sklearn_version"],
        "bytes": path.stat().st_size,
        "target": recipe.target,
        "id": recipe.id,
        "impute": recipe.impute,
        "features": list(recipe.feature_names),
        **{name: value for name, value in facts.items() if name not in ("file", "variance")},
        "training_file": facts.get("file"),
    }
    try:
        into = linear_map(model)
    except click.UsageError as error:
        found["metric"] = error.format_message().partition(": ")[2]
        return found
    return {**found, **metric_facts(into, recipe.feature_names)}


def metric_facts(into: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Weights of the features, spectrum and effective rank of a metric.

    Parameters
    ----------
    into : LinearMap
        The metric.
    names : tuple of str
        Names of the features.

    Returns
    -------
    dict
        "weights" (name to share, largest first), "spectrum" (eigenvalues of the metric,
        descending, for features of unit variance), "effective_rank" (the exponential of the
        entropy of their shares), "condition".
    """
    import numpy as np

    diagonal = np.diag(into.metric) * into.variance
    share = diagonal / diagonal.sum() if diagonal.sum() > 0 else diagonal
    order = np.argsort(-share, kind="stable")
    spread = into.factor * np.sqrt(into.variance)
    values = np.linalg.svd(spread, compute_uv=False) ** 2
    part = values / values.sum() if values.sum() > 0 else values
    part = part[part > 0]
    return {
        "weights": {names[j]: float(share[j]) for j in order},
        "spectrum": [float(v) for v in values],
        "effective_rank": float(np.exp(-(part * np.log(part)).sum())) if len(part) else 0.0,
        "condition": float(values[0] / values[-1]) if len(values) and values[-1] > 0 else None,
    }


def lines_of(found: dict[str, Any], top: int | None) -> list[str]:
    """The facts as lines of text."""
    lines = []

    def say(label: str, text: Any) -> None:
        if text not in (None, ""):
            lines.append(f"{label:<16}{text}")

    say("model", found["file"])
    say("method", f"{found['method']} ({found['class']}, genmetric {found['genmetric']})")
    if found.get("rows") is not None:
        kept = "" if found["kept_rows"] == found["rows"] else f", {found['kept_rows']} kept"
        streamed = ", streamed" if found.get("streamed") else ""
        say("trained on", f"{found['rows']} rows of {found['training_file']}{kept}{streamed}")
        say("when", f"{found['written']}, in {found['seconds']:.1f} s")
    words = ", ".join(f"{k} {v}" for k, v in found.get("parameters", {}).items())
    say("chosen", words)
    if found.get("leave_one_out_error") is not None:
        say("leave-one-out", f"error {100 * found['leave_one_out_error']:.1f}%")
    say("target", found["target"])
    say("id", found["id"])
    say("missing values", "filled in with means" if found["impute"] else None)
    classes = found.get("classes", {})
    if classes:
        width = max(len(name) for name in list(classes)[:20])
        lines += ["", "classes"]
        lines += [f"  {name:<{width}}  {n:>8}" for name, n in list(classes.items())[:20]]
        if len(classes) > 20:
            lines.append(f"  and {len(classes) - 20} more")
    if "weights" not in found:
        return [*lines, "", str(found.get("metric", ""))]
    spectrum = found["spectrum"]
    total = sum(spectrum) or 1.0
    few = ", ".join(f"{100 * v / total:.1f}%" for v in spectrum[:8])
    lines.append("")
    say("effective rank", f"{found['effective_rank']:.1f} of {len(found['features'])}")
    say("spectrum", few + (", ..." if len(spectrum) > 8 else ""))
    weights = list(found["weights"].items())
    shown = weights[:top]
    width = min(40, max(len(name) for name, _ in shown))
    largest = shown[0][1] or 1.0
    lines += ["", "weights of the features (diagonal of the metric times variance)"]
    for name, share in shown:
        bar = "#" * round(30 * share / largest)
        lines.append(f"  {name[:40]:<{width}}  {100 * share:5.1f}%  {bar}")
    if len(shown) < len(weights):
        lines.append(f"  and {len(weights) - len(shown)} more (--all)")
    return lines
