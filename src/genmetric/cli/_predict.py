"""`genmetric predict`: classes or numbers of the rows of a table."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from genmetric.cli._batches import applied_batches, kept_columns
from genmetric.cli._inspect import leave_one_out_text
from genmetric.cli._options import DATA, MODEL, check_data, file_options, opened, quiet_option
from genmetric.cli._output import OUT, remark, table_output
from genmetric.cli._progress import progress_bar
from genmetric.tables._columns import is_id_name
from genmetric.tables._numbers import NumberFormat, parse_numbers


@click.command()
@MODEL
@DATA
@OUT
@kept_columns
@click.option("--proba", is_flag=True, help="Add the estimated probability of each class.")
@file_options
@quiet_option
def predict(model: Path, data: Path, output: Path | None, **options: Any) -> None:
    """Write the class or number that MODEL predicts for each row of DATA.

    Columns are found by name; other columns are ignored. If DATA contains the target column, the
    error rate is reported too, or R² and the mean absolute error of numbers.
    """
    from genmetric.cli._models import load_model

    check_data(data)
    loaded = load_model(model)
    if not hasattr(loaded.estimator, "predict"):
        raise click.UsageError(
            f"{model}: a {loaded.method} does not predict. Fit with genmetric fit, or save a "
            "pipeline that ends with a classifier or regressor."
        )
    if options["proba"] and not hasattr(loaded.estimator, "predict_proba"):
        raise click.UsageError(
            f"{model}: a model of --method {loaded.method} does not estimate probabilities."
        )
    from genmetric.tables._new_rows import check_columns

    table = opened(data, options)
    target = loaded.target
    known = target if target in table.names else None
    asked = list(options["keep"])
    options["keep"] = [*asked, *([known] if known is not None else [])]
    check_columns(loaded.columns, table.names, table.label)
    if not asked and options["id_column"] is None:
        suggest_names(table, loaded, options)
    from sklearn.base import is_regressor

    is_number = is_regressor(loaded.estimator)
    judge = NumberJudge(loaded.facts) if is_number else ClassJudge()
    with (
        progress_bar("predict", quiet=options["quiet"] or output is None) as advance,
        table_output(output, data, model) as writer,
    ):
        for X, columns in applied_batches(table, loaded, options, advance):
            predicted = judge.written(loaded.estimator.predict(X))
            if known is not None:
                judge.add(columns[known] if known in asked else columns.pop(known), predicted)
            column = "predicted" if "predicted" not in columns else judge.other_name
            # Ten digits show all of a prediction without its rounding error: 132.57000000000002.
            columns[column] = writer.short(predicted, 10) if is_number else predicted
            if options["proba"]:
                share = loaded.estimator.predict_proba(X)
                for j, name in enumerate(loaded.estimator.classes_):
                    columns[f"p_{name}"] = writer.short(share[:, j])
            writer.write(columns)
    found = judge.text(known)
    if found:
        remark(f"{found}{training_hint(loaded.facts, data, judge)}", quiet=options["quiet"])


def training_hint(facts: Mapping[str, Any], data: Path, judge: ClassJudge | NumberJudge) -> str:
    """Return a sentence if a file has the name and the size of the training table, else nothing."""
    if data.name != facts.get("file") or judge.n_judged != facts.get("rows"):
        return ""
    error = leave_one_out_text(facts)
    fairer = f" its leave-one-out {error} is a better estimate for new rows." if error else ""
    return " The model was fitted on a file of this name and size;" + (
        fairer or " its predictions of new rows will be worse."
    )


def suggest_names(table: Any, loaded: Any, options: dict[str, Any]) -> None:
    """Say how to name the rows, if a column of the table looks like their identifier."""
    from genmetric.tables._new_rows import used_columns

    if loaded.id_column in table.names:
        return
    taken = {*used_columns(loaded.columns), loaded.target}
    found = next((name for name in table.names if name not in taken and is_id_name(name)), None)
    if found is not None:
        remark(f"add --keep {shlex.quote(found)} to name the rows.", quiet=options["quiet"])


class ClassJudge:
    """Counts predicted classes that differ from the target column."""

    other_name = "predicted_class"

    def __init__(self) -> None:
        self._wrong = self.n_judged = 0

    def written(self, predicted: Any) -> Any:
        """Return predictions as they are written."""
        return predicted.astype(str)

    def add(self, truth: Any, predicted: Any) -> None:
        """Compare a batch of predictions with the cells of the target column."""
        has = truth != None  # noqa: E711 (an array of texts and None)
        self.n_judged += int(has.sum())
        self._wrong += int((predicted[has] != truth[has].astype(str)).sum())

    def text(self, name: str | None) -> str:
        """Write the error rate; empty if the target is not known."""
        if not self.n_judged:
            return ""
        rate = 100 * self._wrong / self.n_judged
        return (
            f"error rate {rate:.1f}%: {self._wrong} of {self.n_judged} rows differ from {name!r}."
        )


class NumberJudge:
    """Collects predicted numbers and those of the target column.

    Parameters
    ----------
    facts : mapping
        Facts about the training, with the format of the target.
    """

    other_name = "predicted_number"

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._format = facts.get("target_format") or [".", "", False]
        self._truth: list[Any] = []
        self._predicted: list[Any] = []

    @property
    def n_judged(self) -> int:
        """Number of predictions that were compared."""
        return sum(map(len, self._truth))

    def written(self, predicted: Any) -> Any:
        """Return predictions as they are written."""
        return predicted

    def add(self, truth: Any, predicted: Any) -> None:
        """Compare a batch of predictions with the cells of the target column."""
        numbers = np.asarray(parse_numbers(list(truth), NumberFormat(*self._format))[0])
        has = np.isfinite(numbers)
        self._truth.append(numbers[has])
        self._predicted.append(predicted[has])

    def text(self, name: str | None) -> str:
        """Write R² and the mean absolute error; empty if the target is not known."""
        from sklearn.metrics import mean_absolute_error, r2_score

        if not self.n_judged:
            return ""
        truth, predicted = np.concatenate(self._truth), np.concatenate(self._predicted)
        r2 = f"R² {r2_score(truth, predicted):.3f}, " if len(truth) > 1 else ""
        error = mean_absolute_error(truth, predicted)
        rows = "row" if len(truth) == 1 else "rows"
        return f"{r2}mean absolute error {error:.4g}: {len(truth)} {rows} compared with {name!r}."
