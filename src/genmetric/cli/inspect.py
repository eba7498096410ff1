"""`genmetric inspect`: the contents of a saved model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from genmetric.cli import options as opt
from genmetric.cli.apply import Model, leave_one_out_text
from genmetric.cli.output import say


@click.command()
@opt.MODEL
@opt.option("--top", "Number of columns to list.", type=opt.COUNT, default=15)
@opt.flag("--all all_", "List all columns.")
@opt.flag("--json as_json", "Print everything as JSON.")
def inspect(model: Path, top: int, all_: bool, as_json: bool) -> None:
    """Show what MODEL learned: contributions of the columns, spectrum, effective rank, classes.

    The contribution of a column is its mean share of the squared distance between two training
    rows. The shares sum to 100%; a share can be negative when correlated columns offset each
    other. For numeric columns the difference that makes a distance of 1 is shown, in their units.
    """
    found = _facts(Model(model))
    if as_json:
        say(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        say("\n".join(_lines(found, None if all_ else top)))


def _facts(model: Model) -> dict[str, Any]:
    """Return everything that is shown, as values that JSON can represent."""
    target, encoder = model.target, model.encoder
    names = getattr(encoder or model.estimator, "feature_names_in_", [])
    found = {
        "file": str(model.path),
        "method": model.method,
        "bytes": model.path.stat().st_size,
        "target": target.get("name"),
        "task": target.get("task"),
        "id": model.metadata.get("id"),
        "columns": list(map(str, names)) if encoder is None else encoder.used_columns_,
        **{name: value for name, value in model.facts.items() if name != "file"},
        "training_file": model.facts.get("file"),
    }
    try:
        into = model.linear_map()
    except click.UsageError as error:
        return {**found, "metric": str(error.message)}
    sizes = (into.matrix**2).sum(axis=0)
    numeric = set(into.columns)
    if encoder is not None:
        numeric = {c["name"] for c in encoder.columns_ if c["kind"] == "number"}
    pairs = zip(into.columns, into.feature_names_in, sizes, strict=True)
    units = {c: float(size**-0.5) for c, f, size in pairs if c == f and c in numeric and size > 0}
    return {**found, "features": list(into.feature_names_in), "unit_differences": units}


def _lines(found: dict[str, Any], top: int | None) -> list[str]:
    """Return the facts as lines of text."""
    n_features = len(found.get("features", []))
    known = {
        "model": found["file"],
        "method": found["method"],
        "selected": ", ".join(f"{k} {v}" for k, v in found.get("parameters", {}).items()),
        "leave-one-out": leave_one_out_text(found),
        "target": f"{found['target']} ({found['task']})" if found["target"] else "",
        "id": found["id"],
        "columns": f"{len(found['columns'])}, as {n_features} feature{'s' * (n_features != 1)}",
    }
    if "rows" in found:
        streamed = ", streamed" if found["streamed"] else ""
        known["trained on"] = f"{found['rows']} rows of {found['training_file']}{streamed}"
        known["when"] = found["written"]
    if "target_range" in found:
        known["targets"] = "numbers from {:g} to {:g}".format(*found["target_range"])
    lines = [f"{label:<16}{text}" for label, text in known.items() if text]
    classes = list(found.get("classes", {}).items())
    if classes:
        width = max(len(name) for name, _ in classes[:20])
        lines += ["", "classes", *(f"  {name:<{width}}  {n:>8}" for name, n in classes[:20])]
        lines += [f"  and {len(classes) - 20} more"] if len(classes) > 20 else []
    if "metric" in found:
        return [*lines, "", found["metric"]]
    if "spectrum" not in found:
        return lines
    spectrum = found["spectrum"]
    few = ", ".join(f"{share:.1%}" for share in spectrum[:8])
    rank = f"{found['effective_rank']:.1f} of {n_features}"
    more = ", ..." if len(spectrum) > 8 else ""
    lines += ["", f"{'effective rank':<16}{rank}", f"{'spectrum':<16}{few}{more}", ""]
    return lines + _contributions(found, top)


def _contributions(found: dict[str, Any], top: int | None) -> list[str]:
    """Return one line per column, with a bar."""
    shares = list(found["contributions"].items())
    width = min(40, max(len(name) for name, _ in shares[:top]))
    largest = abs(shares[0][1]) or 1.0
    lines = ["contributions of the columns to the squared distance"]
    for name, share in shares[:top]:
        bar = ("#" if share > 0 else "-") * round(20 * abs(share) / largest)
        unit = found["unit_differences"].get(name)
        reach = f"  a difference of {unit:.3g} is a distance of 1" if unit else ""
        lines.append(f"  {name[:40]:<{width}}  {share:6.1%}  {bar:<20}{reach}".rstrip())
    more = len(shares) - len(shares[:top])
    return lines + ([f"  and {more} more (--all)"] if more else [])
