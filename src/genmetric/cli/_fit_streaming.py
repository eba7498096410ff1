"""`genmetric fit` on files that are larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from genmetric.cli._batches import labelled_batches
from genmetric.cli._inspect import metric_facts, target_facts
from genmetric.cli._options import TrainingTable, read_training
from genmetric.cli._output import remark
from genmetric.cli._progress import progress_bar

if TYPE_CHECKING:
    from genmetric.comparison import Method

#: Rows of the sample that the columns are planned on.
PLAN_ROWS = 50_000


def fit_stream(
    select_method: Callable[[TrainingTable], Method],
    table: Any,
    options: dict[str, Any],
    settings: dict[str, Any],
) -> tuple[Method, Any, Any, dict[str, Any]]:
    """Fit a method in passes over the batches of a file, in bounded memory.

    The columns are planned on a random sample of the rows, and categories and means for missing
    values are learned from it.

    Parameters
    ----------
    select_method : callable
        Returns the method for a sample of the table, whose target has classes or numbers.
    table : TableFile
        The file.
    options : dict
        Options of the command.
    settings : dict
        Keyword arguments of the metric.

    Returns
    -------
    method : Method
        The method.
    model : Pipeline
        From the columns of the table to predictions.
    fitted : FittedMethod
        Its part after the columns, and the parameters selected.
    facts : dict
        Facts about the training for the model file.
    """
    from sklearn.pipeline import Pipeline

    from genmetric.comparison._streaming import fit_in_batches

    with progress_bar("fit", quiet=options["quiet"]) as advance:
        advance("columns", 0.0)
        training = read_training(table, options, max_rows=PLAN_ROWS)
        method = select_method(training)
        columns = training.make_columns().fit(training.X)
        names = tuple(map(str, columns.get_feature_names_out()))

        def batches() -> Iterator[tuple[Any, Any]]:
            return labelled_batches(training, columns, options)

        found = fit_in_batches(
            method,
            batches,
            keep_samples=options["keep_rows"],
            average_samples=options["average_rows"],
            task=training.task,
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
        **target_facts(training, found.class_counts, found.target_range),
        "streamed": True,
        "leave_one_out_error": found.fitted.leave_one_out_error,
        **metric_facts(found.fitted.model, found.sample, names),
    }
    if method.batch_settings:
        changed = ", ".join(f"{name} {value}" for name, value in method.batch_settings.items())
        remark(f"fitted in batches with {changed}.", quiet=options["quiet"])
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
    return method, model, found.fitted, facts
