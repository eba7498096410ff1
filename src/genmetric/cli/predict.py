"""`genmetric predict`: classes of new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from genmetric.cli.applying import applied_batches, kept_columns
from genmetric.cli.options import DATA, MODEL, file_options, opened, quiet_option
from genmetric.cli.output import OUT, remark, table_output
from genmetric.cli.progress import progress_bar


@click.command()
@MODEL
@DATA
@OUT
@kept_columns
@click.option("--proba", is_flag=True, help="Also the share of votes of each class.")
@file_options
@quiet_option
def predict(model: Path, data: Path, output: Path | None, **options: Any) -> None:
    """Write the class of each row of DATA, by the neighbours (or the energy) of MODEL.

    Columns are taken by name; others are ignored. Where DATA has the column of the classes, the
    share of rows that differ from it is told as well.
    """
    from genmetric.cli.models import load_model

    loaded = load_model(model)
    if not hasattr(loaded.estimator, "predict"):
        raise click.UsageError(
            f"{model}: a {loaded.method} does not predict. Fit with genmetric fit, or save a "
            "pipeline that ends in a classifier."
        )
    if options["proba"] and not hasattr(loaded.estimator, "predict_proba"):
        raise click.UsageError(f"{model}: a model of --method {loaded.method} has no --proba.")
    table = opened(data, options)
    target = loaded.recipe.target
    known = target if target in table.names else None
    asked = list(options["keep"])
    options["keep"] = [*asked, *([known] if known is not None else [])]
    wrong = judged = 0
    with (
        progress_bar("predict", quiet=options["quiet"] or output is None) as advance,
        table_output(output, data, model) as writer,
    ):
        for rows, columns in applied_batches(table, loaded.recipe, options, advance):
            classes = loaded.estimator.predict(rows.X)
            if known is not None:
                truth = columns[known] if known in asked else columns.pop(known)
                has = truth != None  # noqa: E711 (an array of words and gaps)
                judged += int(has.sum())
                wrong += int((classes[has].astype(str) != truth[has].astype(str)).sum())
            columns["predicted" if "predicted" not in columns else "predicted_class"] = (
                classes.astype(str)
            )
            if options["proba"]:
                share = loaded.estimator.predict_proba(rows.X)
                for j, name in enumerate(loaded.estimator.classes_):
                    columns[f"p_{name}"] = share[:, j]
            writer.write(columns)
    if judged:
        remark(
            f"{wrong} of {judged} rows ({100 * wrong / judged:.1f}%) differ from {known!r}.",
            quiet=options["quiet"],
        )
