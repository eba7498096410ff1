"""`genmetric transform` and `genmetric predict`: a saved model applied to new rows."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genmetric._text import did_you_mean
from genmetric.cli.fit import leave_one_out_text
from genmetric.cli.options import (
    DATA,
    MODEL,
    columns_option,
    data_source,
    file_options,
    quiet_option,
    reading,
    stacked,
)
from genmetric.cli.output import OUT, check_table_output, progress_bar, remark, write_frames
from genmetric.comparison.methods import METHODS
from genmetric.tables import TableError

if TYPE_CHECKING:
    from genmetric.inspection import LinearMap

#: Columns of the input that are copied to the output.
kept_columns = stacked(
    click.option(
        "--id",
        "id_column",
        metavar="COL",
        help="Column that identifies the rows (default: that of the model).",
    ),
    columns_option("--keep", help="Copy this column to the output."),
)


@dataclass
class Model:
    """Contents of a model file; the encoder is the first step of a model of `genmetric fit`."""

    path: Path
    estimator: Any
    metadata: dict[str, Any]
    encoder: Any = None

    @property
    def facts(self) -> dict[str, Any]:
        """Facts about the training; empty for models saved from Python."""
        facts: dict[str, Any] = self.metadata.get("training", {})
        return facts

    @property
    def method(self) -> str:
        """Key of the method, or the class of the estimator for models saved from Python."""
        return str(self.metadata.get("method") or type(self.estimator).__name__)

    def linear_map(self) -> LinearMap:
        """Return the map to the space where distances are Euclidean."""
        from genmetric.inspection import linear_map

        method = METHODS.get(self.method)
        if method is not None and not method.has_map:
            raise click.UsageError(
                f"{self.path}: a model of --method {method.key} ({method.label}) does not have a "
                "single metric. Fit with another method, such as generative or regression."
            )
        try:
            return linear_map(self.estimator)
        except TypeError as error:
            raise click.UsageError(f"{self.path}: {error}") from error

    def rows(self, frame: Any, options: dict[str, Any]) -> Any:
        """Return rows as the estimator takes them: features of a table, or plain numbers."""
        if self.encoder is None:
            names = list(self.estimator.feature_names_in_)
            absent = [name for name in names if name not in frame.columns]
            if absent:
                near = did_you_mean(absent[0], frame.columns)
                raise TableError(
                    f"no column {absent[0]!r}, which the model was fitted on. {near}".rstrip()
                )
            return frame[names].apply(_numbers)
        with warnings.catch_warnings():
            if options["strict"]:
                warnings.simplefilter("error", UserWarning)
            try:
                return self.encoder.transform(frame)
            except UserWarning as warning:
                text = str(warning).replace("; treated as missing.", ".")
                raise TableError(
                    f"{text} Correct the cell, state that it is missing (--na), or leave out "
                    "--strict."
                ) from None

    @property
    def predictor(self) -> Any:
        """What follows the encoder."""
        return self.estimator if self.encoder is None else self.estimator[1:]

    def batches(
        self, path: Path, options: dict[str, Any], into: LinearMap | None = None
    ) -> Iterator[tuple[Any, Any]]:
        """Yield the rows of a file as tables, and as the predictor or a map takes them."""
        from genmetric.tables import read_batches

        if self.encoder is not None:
            self.encoder.na_values = (*self.encoder.na_values, *options["na"])
        for frame in read_batches(data_source(path), **reading(options)):
            rows = self.rows(frame, options)
            prepared = into is not None and self.encoder is None
            yield frame, into.prepare(rows) if into is not None and prepared else rows

    def copied(self, frame: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Return the columns of a table that are copied to the output."""
        name = options["id_column"]
        if name is None and self.metadata.get("id") in frame.columns:
            name = self.metadata["id"]
        names = [*([] if name is None else [name]), *options.get("keep", ())]
        for name in names:
            if name not in frame.columns:
                near = did_you_mean(name, frame.columns)
                raise TableError(f"there is no column {name!r} to copy. {near}".rstrip())
        return {name: frame[name].to_numpy() for name in names}


def _numbers(column: Any) -> Any:
    """Read a column as numbers."""
    from pandas import to_numeric

    try:
        return to_numeric(column).astype(float)
    except (ValueError, TypeError) as error:
        raise TableError(f"column {column.name!r} must contain numbers: {error}") from error


def load_model(path: Path) -> Model:
    """Load a model file written by `genmetric fit`, or by `genmetric.save` with feature names."""
    if not path.exists():
        raise click.UsageError(f"{path}: no such file. Check the name and the folder.")
    from sklearn.pipeline import Pipeline

    from genmetric.files import load
    from genmetric.tables import TableEncoder

    estimator, metadata = load(path, return_metadata=True)
    if isinstance(estimator, Pipeline) and isinstance(estimator[0], TableEncoder):
        return Model(path, estimator, metadata, estimator[0])
    if not hasattr(estimator, "feature_names_in_"):
        raise click.UsageError(
            f"{path}: the model has no column names. Fit it with genmetric fit, or in Python on a "
            "DataFrame."
        )
    return Model(path, estimator, metadata)


@click.command()
@MODEL
@DATA
@OUT
@kept_columns
@click.option(
    "--prefix", default="z", show_default=True, help="Prefix of the output columns z1, z2, ..."
)
@file_options
@quiet_option
def transform(model: Path, data: Path, output: Path | None, **options: Any) -> None:
    """Write the rows of DATA in the space where the metric of MODEL is Euclidean distance.

    Columns are found by name; other columns are ignored. The file is read in batches.
    """
    check_table_output(output, data, model)
    loaded = load_model(model)
    into = loaded.linear_map()
    names = [f"{options['prefix']}{j + 1}" for j in range(len(into.matrix))]
    from pandas import DataFrame

    def frames() -> Iterator[Any]:
        for frame, rows in loaded.batches(data, options, into):
            copied = loaded.copied(frame, options)
            twice = [name for name in copied if name in names]
            if twice:
                raise click.UsageError(f"{twice[0]!r} names a column twice. Use another --prefix.")
            z = into.map_features(rows)
            yield DataFrame({**copied, **{name: z[:, j] for j, name in enumerate(names)}})

    with progress_bar("transform", quiet=options["quiet"] or output is None):
        write_frames(frames(), output)


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
    check_table_output(output, data, model)
    loaded = load_model(model)
    for name, problem in (("predict", "predict"), ("predict_proba", "estimate probabilities")):
        if not hasattr(loaded.predictor, name) and (name == "predict" or options["proba"]):
            raise click.UsageError(
                f"{model}: a model of --method {loaded.method} does not {problem}. Fit with another "
                "method."
            )
    known: list[tuple[Any, Any]] = []
    with progress_bar("predict", quiet=options["quiet"] or output is None):
        write_frames(_predictions(loaded, data, options, known), output)
    if known:
        remark(_judgement(loaded, data, known), quiet=options["quiet"])


def _predictions(
    loaded: Model, data: Path, options: dict[str, Any], known: list[tuple[Any, Any]]
) -> Iterator[Any]:
    """Yield predictions; add pairs of targets, where the file has them, and predictions."""
    from pandas import DataFrame

    from genmetric.tables import Target

    target = None
    if "target" in loaded.metadata:
        facts = loaded.metadata["target"]
        target = Target(**{k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()})
    for i, (frame, rows) in enumerate(loaded.batches(data, options)):
        columns = loaded.copied(frame, options)
        if i == 0 and not columns:
            _suggest_names(loaded, frame, options)
        predicted = loaded.predictor.predict(rows)
        if target is not None and target.name in frame.columns:
            y, present = target.read(frame)
            known.append((y, predicted[present]))
        # Ten digits show all of a number without its rounding error: 132.57000000000002.
        shown = significant(predicted, 10) if predicted.dtype.kind == "f" else predicted
        columns["predicted" if "predicted" not in columns else "predicted_target"] = shown
        if options["proba"]:
            shares = loaded.predictor.predict_proba(rows)
            names = [f"p_{name}" for name in loaded.estimator.classes_]
            columns |= {name: significant(shares[:, j]) for j, name in enumerate(names)}
        yield DataFrame(columns)


def significant(values: Any, digits: int = 7) -> Any:
    """Round numbers to some significant digits."""
    import numpy as np

    return np.array([float(f"{value:.{digits}g}") for value in values])


def _suggest_names(loaded: Model, frame: Any, options: dict[str, Any]) -> None:
    """Say how to name the rows, if training left out an identifier that this table has."""
    for column in [] if loaded.encoder is None else loaded.encoder.columns_:
        if "identifier" in column["reason"] and column["name"] in frame.columns:
            words = shlex.quote(column["name"])
            remark(f"add --keep {words} to name the rows.", quiet=options["quiet"])
            return


def _judgement(loaded: Model, data: Path, known: list[tuple[Any, Any]]) -> str:
    """Compare predictions with the targets of the file in a sentence."""
    import numpy as np
    from sklearn.metrics import mean_absolute_error, r2_score

    y, predicted = (np.concatenate(arrays) for arrays in zip(*known, strict=True))
    name, facts = loaded.metadata["target"]["name"], loaded.facts
    if not len(y):
        return f"no row has a target {name!r}."
    if loaded.metadata["target"]["task"] == "classification":
        wrong = int((y != predicted).sum())
        text = f"error rate {wrong / len(y):.1%}: {wrong} of {len(y)} rows differ from {name!r}."
    else:
        r2 = f"R² {r2_score(y, predicted):.3f}, " if len(y) > 1 else ""
        error = mean_absolute_error(y, predicted)
        rows = "1 row" if len(y) == 1 else f"{len(y)} rows"
        text = f"{r2}mean absolute error {error:.4g}: {rows} compared with {name!r}."
    if data.name == facts.get("file") and len(y) == facts.get("rows"):
        fairer = leave_one_out_text(facts)
        text += " The model was fitted on a file of this name and size; "
        text += (
            f"its leave-one-out {fairer} is a better estimate for new rows."
            if fairer
            else "its predictions of new rows will be worse."
        )
    return text
