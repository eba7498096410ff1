"""`genmetric transform` and `genmetric predict`: a saved model applied to new rows."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genmetric._text import import_optional
from genmetric.cli import options as opt
from genmetric.cli.output import remark, write_frames
from genmetric.comparison.methods import METHODS
from genmetric.tables import TableError

if TYPE_CHECKING:
    from genmetric.inspection import LinearMap

#: Columns of the input that are copied to the output.
kept_columns = opt.stacked(
    opt.column("--id id_column", "Column that identifies the rows (default: that of the model)."),
    opt.columns("--keep", "Copy this column to the output."),
)


@dataclass
class Model:
    """Contents of a model file; the encoder is the first step of a model of `genmetric fit`."""

    path: Path
    estimator: Any
    metadata: dict[str, Any]
    encoder: Any

    def __post_init__(self) -> None:
        """Look up what a model saved from Python may lack."""
        self.facts: dict[str, Any] = self.metadata.get("training", {})
        self.target: dict[str, Any] = self.metadata.get("target", {})
        self.method = str(self.metadata.get("method") or type(self.estimator).__name__)
        self.predictor = self.estimator if self.encoder is None else self.estimator[1:]

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

    def batches(
        self, path: Path, options: dict[str, Any], into: LinearMap | None = None
    ) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
        """Yield tables, their rows as the predictor or a map takes them, and columns to copy."""
        from genmetric.tables import read_batches

        if self.encoder is not None:
            self.encoder.na_values = (*self.encoder.na_values, *options["na"])
        for frame in read_batches(opt.data_source(path), **opt.reading(options)):
            rows = self._rows(frame, options)
            if into is not None and self.encoder is None:
                rows = into.prepare(rows)
            own = self.metadata.get("id")
            name = options["id_column"] or (own if own in frame.columns else None)
            names = [*([] if name is None else [name]), *options.get("keep", ())]
            opt.check_names(names, frame.columns, " to copy")
            yield frame, rows, {name: frame[name].to_numpy() for name in names}

    def values(self, features: Any) -> Any:
        """Return rows of features as columns of the table, in their own units."""
        if self.encoder is not None:
            return self.encoder.inverse_transform(features)
        return import_optional("pandas", "cli").DataFrame(
            features, columns=list(self.estimator.feature_names_in_)
        )

    def _rows(self, frame: Any, options: dict[str, Any]) -> Any:
        """Return features of a table, or plain numbers for an estimator without an encoder."""
        if self.encoder is None:
            names = list(self.estimator.feature_names_in_)
            opt.check_names(names, frame.columns, ", which the model was fitted on")
            return frame[names].apply(import_optional("pandas", "cli").to_numeric).astype(float)
        with warnings.catch_warnings():
            if options["strict"]:
                warnings.simplefilter("error", UserWarning)
            try:
                return self.encoder.transform(frame)
            except UserWarning as warning:
                advice = "Correct the cell, state that it is missing (--na), or leave out --strict."
                raise TableError(f"--strict refuses the table: {warning} {advice}") from None


def load_model(path: Path) -> Model:
    """Load a model file written by `genmetric fit`, or by `genmetric.save` with feature names."""
    opt.check_file(path)
    from sklearn.pipeline import Pipeline

    from genmetric.files import load
    from genmetric.tables import TableEncoder

    estimator, metadata = load(path, return_metadata=True)
    if isinstance(estimator, Pipeline) and isinstance(estimator[0], TableEncoder):
        return Model(path, estimator, metadata, estimator[0])
    if not hasattr(estimator, "feature_names_in_"):
        advice = "Fit it with genmetric fit, or in Python on a DataFrame."
        raise click.UsageError(f"{path}: the model has no column names. {advice}")
    return Model(path, estimator, metadata, None)


@click.command()
@opt.MODEL
@opt.DATA
@opt.OUT
@kept_columns
@opt.option("--prefix", "Prefix of the output columns z1, z2, ...", default="z")
@opt.file_options
@opt.quiet
def transform(model: Path, data: Path, output: Path | None, **options: Any) -> None:
    """Write the rows of DATA in the space where the metric of MODEL is Euclidean distance.

    Columns are found by name; other columns are ignored. The file is read in batches.
    """
    output = opt.table_output(output, data, model)
    loaded = load_model(model)
    into = loaded.linear_map()
    names = [f"{options['prefix']}{j + 1}" for j in range(len(into.matrix))]

    def frames() -> Iterator[Any]:
        from pandas import DataFrame

        for _, rows, columns in loaded.batches(data, options, into):
            twice = [name for name in columns if name in names]
            if twice:
                raise click.UsageError(f"{twice[0]!r} names a column twice. Use another --prefix.")
            columns |= dict(zip(names, into.map_features(rows).T, strict=True))
            yield DataFrame(columns)

    write_frames(frames(), output)


@click.command()
@opt.MODEL
@opt.DATA
@opt.OUT
@kept_columns
@opt.flag("--proba", "Add the estimated probability of each class.")
@opt.file_options
@opt.quiet
def predict(model: Path, data: Path, output: Path | None, **options: Any) -> None:
    """Write the class or number that MODEL predicts for each row of DATA.

    Columns are found by name; other columns are ignored. If DATA contains the target column, the
    error rate is reported too, or R² and the mean absolute error of numbers.
    """
    output = opt.table_output(output, data, model)
    loaded = load_model(model)
    for name in ("predict", *(["predict_proba"] if options["proba"] else [])):
        if not hasattr(loaded.predictor, name):
            raise click.UsageError(f"{model}: a model of {loaded.method} has no {name}.")
    known: list[tuple[Any, Any]] = []
    write_frames(_predictions(loaded, data, options, known), output)
    if known:
        remark(_judgement(loaded, data, known), quiet=options["quiet"])


def _predictions(
    loaded: Model, data: Path, options: dict[str, Any], known: list[tuple[Any, Any]]
) -> Iterator[Any]:
    """Yield predictions; add pairs of targets, where the file has them, and predictions."""
    from pandas import DataFrame

    from genmetric.tables import Target

    facts: dict[str, Any] = {"name": None, "task": "classification", **loaded.target}
    facts |= {name: tuple(value) for name, value in facts.items() if isinstance(value, list)}
    target = Target(**facts)
    for i, (frame, rows, columns) in enumerate(loaded.batches(data, options)):
        if i == 0 and not columns and loaded.encoder is not None:
            _suggest_names(loaded.encoder.columns_, frame.columns, quiet=options["quiet"])
        predicted = loaded.predictor.predict(rows)
        if target.name in frame.columns:
            y, present = target.read(frame)
            known.append((y, predicted[present]))
        # Ten digits show all of a number without its rounding error: 132.57000000000002.
        shown = significant(predicted, 10) if predicted.dtype.kind == "f" else predicted
        columns["predicted" if "predicted" not in columns else "predicted_target"] = shown
        if options["proba"]:
            shares = loaded.predictor.predict_proba(rows).T
            names = loaded.predictor.classes_
            columns |= {f"p_{c}": significant(p) for c, p in zip(names, shares, strict=True)}
        yield DataFrame(columns)


def significant(values: Any, digits: int = 7) -> Any:
    """Round numbers to some significant digits."""
    import numpy as np

    return np.array([float(f"{value:.{digits}g}") for value in values])


def _suggest_names(decisions: list[dict[str, Any]], names: Any, *, quiet: bool) -> None:
    """Say how to name the rows, if training left out an identifier that this table has."""
    for found in decisions:
        if "identifier" in found["reason"] and found["name"] in names:
            remark(f"add --keep {shlex.quote(found['name'])} to name the rows.", quiet=quiet)
            return


def leave_one_out_text(facts: dict[str, Any]) -> str:
    """Write the leave-one-out error of a model, or R² if its target is a number."""
    error = facts.get("leave_one_out_error")
    if error is None:
        return ""
    return f"R² {1 - error:.3f}" if facts.get("target_range") else f"error {100 * error:.1f}%"


def _judgement(loaded: Model, data: Path, known: list[tuple[Any, Any]]) -> str:
    """Compare predictions with the targets of the file in a sentence."""
    import numpy as np
    from sklearn.metrics import mean_absolute_error, r2_score

    y, predicted = (np.concatenate(arrays) for arrays in zip(*known, strict=True))
    name, n = loaded.target["name"], len(y)
    if n == 0:
        return f"no row has a target {name!r}."
    if loaded.target["task"] == "classification":
        wrong = int((y != predicted).sum())
        text = f"error rate {wrong / n:.1%}: {wrong} of {n} rows differ from {name!r}."
    else:
        r2 = f"R² {r2_score(y, predicted):.3f}, " if n > 1 else ""
        error = f"mean absolute error {mean_absolute_error(y, predicted):.4g}"
        text = f"{r2}{error}: {n} row{'s' * (n > 1)} compared with {name!r}."
    fairer = leave_one_out_text(loaded.facts)
    if fairer and data.name == loaded.facts["file"] and n == loaded.facts["rows"]:
        text += f" The model was fitted on a file of this name and size; its leave-one-out {fairer}"
        text += " is a better estimate for new rows."
    return text
