"""`genmetric inspect`: the contents of a saved model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from genmetric.cli._options import MODEL, TrainingTable
from genmetric.tables._numbers import PLAIN


@click.command()
@MODEL
@click.option(
    "--top",
    type=click.IntRange(1),
    default=15,
    show_default=True,
    help="Number of features to list.",
)
@click.option("--all", "all_", is_flag=True, help="List all features.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def inspect(model: Path, top: int, all_: bool, as_json: bool) -> None:
    """Show what MODEL learned: contributions of the features, spectrum, effective rank, classes.

    The contribution of a feature is its mean share of the squared distance between two training
    rows. The shares sum to 100%; a share is negative if correlated features compensate for it.
    """
    found = facts_of(model)
    if as_json:
        click.echo(escape_control(json.dumps(found, indent=2, ensure_ascii=False)))
        return
    for line in lines_of(found, None if all_ else top):
        click.echo(escape_control(line))


def escape_control(text: str) -> str:
    r"""Escape characters that a terminal would interpret; names in a model file can contain them.

    Parameters
    ----------
    text : str
        Text, which may have several lines.

    Returns
    -------
    str
        The text with escapes in the form of JSON strings.

    Examples
    --------
    >>> from genmetric.cli._inspect import escape_control
    >>> print(escape_control("a" + chr(27) + "[31m"))
    a\u001b[31m
    """
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c).strip('"') for c in text)


def facts_of(path: Path) -> dict[str, Any]:
    """Return everything that `inspect` shows, as values that JSON can represent.

    Parameters
    ----------
    path : Path
        The model file.

    Returns
    -------
    dict
        Facts about file and training, and for models with a single metric "spectrum",
        "effective_rank" and, if the training data is known, "contributions".
    """
    from genmetric.cli._models import load_model
    from genmetric.tables._new_rows import used_columns

    model = load_model(path)
    facts = model.facts
    return {
        "file": str(path),
        "method": model.method,
        "class": model.header["class"],
        "genmetric": model.header["genmetric_version"],
        "scikit_learn": model.header["sklearn_version"],
        "bytes": path.stat().st_size,
        "target": model.target,
        "id": model.id_column,
        "columns": used_columns(model.columns),
        "features": list(model.feature_names),
        **{name: value for name, value in facts.items() if name != "file"},
        "training_file": facts.get("file"),
        **(metric_facts(model.estimator) if "spectrum" not in facts else {}),
    }


def metric_facts(estimator: Any, X: Any = None, feature_names: Any = None) -> dict[str, Any]:
    """Return spectrum, effective rank and contributions of the metric of a model.

    Parameters
    ----------
    estimator : estimator
        The fitted model.
    X : array-like of shape (n_samples, n_features), default=None
        Training samples. Without them features are measured in their own units and there are no
        contributions.
    feature_names : sequence of str, default=None
        Names of the features.

    Returns
    -------
    dict
        "spectrum" (eigenvalues of the metric of features with unit variance, in descending order),
        "effective_rank", and "contributions" (share by name, largest first); only "metric", the
        reason, if the model does not have a single metric.
    """
    from genmetric.inspection import learned_metric

    try:
        learned = learned_metric(estimator, X, feature_names=feature_names)
    except (TypeError, ValueError) as error:
        return {"metric": str(error)}
    found = {
        "spectrum": [float(v) for v in learned.eigenvalues],
        "effective_rank": learned.effective_rank,
    }
    if learned.contributions is not None:
        shares = zip(learned.feature_names, learned.contributions, strict=True)
        ordered = sorted(shares, key=lambda pair: -abs(pair[1]))
        found["contributions"] = {name: float(share) for name, share in ordered}
    return found


def target_facts(
    training: TrainingTable,
    class_counts: Mapping[str, int],
    target_range: tuple[float, float] | None,
) -> dict[str, Any]:
    """Return the number of rows of each class, or range and format of a numeric target.

    Parameters
    ----------
    training : TrainingTable
        The table, whose plan has the format of numbers.
    class_counts : mapping of str to int
        Number of rows of each class; empty for a numeric target.
    target_range : tuple of float or None
        Smallest and largest value of a numeric target.

    Returns
    -------
    dict
        "classes", and for a numeric target "target_range" and "target_format".
    """
    if target_range is None or training.plan.target is None:
        return {"classes": dict(class_counts)}
    written = training.plan.target.format or PLAIN
    return {
        "classes": {},
        "target_range": list(target_range),
        "target_format": [written.decimal, written.thousands, written.percent, written.unit],
    }


def leave_one_out_text(facts: Mapping[str, Any]) -> str:
    """Write the leave-one-out error of a model, or R² if its target is a number."""
    error = facts.get("leave_one_out_error")
    if error is None:
        return ""
    return f"R² {1 - error:.3f}" if facts.get("target_format") else f"error {100 * error:.1f}%"


def lines_of(found: dict[str, Any], top: int | None) -> list[str]:
    """Return the facts as lines of text."""
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
    say("selected", words)
    say("leave-one-out", leave_one_out_text(found))
    say("target", found["target"])
    if found.get("target_range"):
        low, high = found["target_range"]
        say("targets", f"numbers from {low:g} to {high:g}")
    say("id", found["id"])
    say("columns", f"{len(found['columns'])}, which give {len(found['features'])} features")
    classes = found.get("classes", {})
    if classes:
        width = max(len(name) for name in list(classes)[:20])
        lines += ["", "classes"]
        lines += [f"  {name:<{width}}  {n:>8}" for name, n in list(classes.items())[:20]]
        if len(classes) > 20:
            lines.append(f"  and {len(classes) - 20} more")
    if "spectrum" not in found:
        return [*lines, "", str(found.get("metric", ""))]
    spectrum = found["spectrum"]
    contributions = list(found.get("contributions", {}).items())
    shares = [share for _, share in contributions] or [0.0, 1.0]
    if _equal(spectrum) and _equal(shares):
        text = "This method weights all features equally; nothing was learned."
        return [*lines, "", text]
    total = sum(spectrum) or 1.0
    few = ", ".join(f"{100 * v / total:.1f}%" for v in spectrum[:8])
    lines.append("")
    say("effective rank", f"{found['effective_rank']:.1f} of {len(found['features'])}")
    say("spectrum", few + (", ..." if len(spectrum) > 8 else ""))
    if not contributions:
        return lines
    shown = contributions[:top]
    width = min(40, max(len(name) for name, _ in shown))
    largest = abs(shown[0][1]) or 1.0
    lines += ["", "contributions of the features to the squared distance"]
    for name, share in shown:
        bar = ("#" if share > 0 else "-") * round(30 * abs(share) / largest)
        lines.append(f"  {name[:40]:<{width}}  {100 * share:6.1f}%  {bar}")
    if len(shown) < len(contributions):
        lines.append(f"  and {len(contributions) - len(shown)} more (--all)")
    return lines


def _equal(values: Sequence[float]) -> bool:
    return max(values) - min(values) <= 1e-9 * max(map(abs, values))
