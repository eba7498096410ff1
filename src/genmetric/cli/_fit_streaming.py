"""`genmetric fit` on files that are larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from genmetric.cli._batches import labelled_batches
from genmetric.cli._inspect import metric_facts
from genmetric.cli._options import read_training
from genmetric.cli._output import remark
from genmetric.cli._progress import progress_bar

if TYPE_CHECKING:
    from genmetric.comparison import Method

#: Rows of the sample that the columns are planned on.
PLAN_ROWS = 50_000


def fit_stream(
    method: Method, table: Any, options: dict[str, Any], settings: dict[str, Any]
) -> tuple[Any, Any, dict[str, Any]]:
    """Fit a method in passes over the batches of a file, in bounded memory.

    The columns are planned on a random sample of the rows, and categories and means for missing
    values are learned from it.

    Parameters
    ----------
    method : Method
        The method.
    table : TableFile
        The file.
    options : dict
        Options of the command.
    settings : dict
        Keyword arguments of the metric.

    Returns
    -------
    model : Pipeline
        From the columns of the table to classes.
    fitted : FittedMethod
        Its part after the columns, and the parameters selected.
    facts : dict
        Facts about the training for the model file.
    """
    from sklearn.pipeline import Pipeline

    from genmetric.comparison._streaming import fit_in_batches

    if not method.streams:
        raise click.UsageError(
            f"{table.label}: --method {method.key} needs all rows in memory, and this file is read "
            "in batches. Use --method uniform, or fit on a part of the rows."
        )
    with progress_bar("fit", quiet=options["quiet"]) as advance:
        advance("columns", 0.0)
        training = read_training(table, options, max_rows=PLAN_ROWS)
        if training.is_numeric:
            raise click.UsageError(
                f"{table.label}: numeric targets need all rows in memory, and this file is read in "
                "batches. Raise --memory, leave --stream out, or fit on a part of the rows."
            )
        columns = training.make_columns().fit(training.X)
        names = tuple(map(str, columns.get_feature_names_out()))

        def batches() -> Iterator[tuple[Any, Any]]:
            return labelled_batches(training, columns, options)

        found = fit_in_batches(
            method,
            batches,
            keep_samples=options["keep_rows"],
            average_samples=options["average_rows"],
            seed=options["seed"],
            standardise=False if options["raw"] else None,
            n_neighbors=options["neighbors"],
            settings=settings,
            progress=advance,
        )
    facts = {
        "rows": found.n_samples,
        "kept_rows": found.n_kept,
        "n_features": len(names),
        "classes": dict(found.class_counts),
        "streamed": True,
        "leave_one_out_error": found.fitted.leave_one_out_error,
        **metric_facts(found.fitted.model, found.sample, names),
    }
    if found.averaged is not None:
        facts["averaged_rows"] = found.averaged
        facts["metric_stderr"] = found.metric_stderr
        remark(
            f"local metrics averaged over {found.averaged} of {found.n_samples} rows "
            f"(--average-rows): relative standard error {found.metric_stderr:.2g}.",
            quiet=options["quiet"],
        )
    if found.n_kept < found.n_samples:
        remark(
            f"predict will use a random sample of {found.n_kept} of the {found.n_samples} rows "
            "(--keep-rows).",
            quiet=options["quiet"],
        )
    model = Pipeline([("columns", columns), *found.fitted.model.steps])
    return model, found.fitted, facts
