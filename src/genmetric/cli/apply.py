"""`genmetric transform`, `predict` and `neighbors`: a saved model applied to new rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genmetric._text import cell_text, import_optional
from genmetric.cli import options as opt
from genmetric.cli.output import check_output, remark, write_frames
from genmetric.comparison.methods import METHODS
from genmetric.tables import TableError

if TYPE_CHECKING:
    from genmetric.inspection import LinearMap

#: Columns whose share is smaller than this are not named.
SMALLEST_SHARE = 0.005

#: Columns of the input that are copied to the output.
kept_columns = opt.stacked(
    opt.column("--id id_column", "Column that identifies the rows (default: that of the model)."),
    opt.columns("--keep", "Copy this column to the output."),
)


class Model:
    """A model file written by `genmetric fit`, or by `genmetric.save` with feature names."""

    def __init__(self, path: Path) -> None:
        from sklearn.pipeline import Pipeline

        from genmetric.files import load
        from genmetric.tables import TableEncoder

        self.path = path
        self.estimator, self.metadata = load(path, return_metadata=True)
        self.facts: dict[str, Any] = self.metadata.get("training", {})
        self.target: dict[str, Any] = self.metadata.get("target", {})
        self.method = str(self.metadata.get("method") or type(self.estimator).__name__)
        # A model of `genmetric fit` begins with the encoder of the table.
        self.encoder, self.predictor = None, self.estimator
        if isinstance(self.estimator, Pipeline) and isinstance(self.estimator[0], TableEncoder):
            self.encoder, self.predictor = self.estimator[0], self.estimator[1:]
        elif not hasattr(self.estimator, "feature_names_in_"):
            advice = "Fit it with genmetric fit, or in Python on a DataFrame."
            raise click.UsageError(f"{path}: the model has no column names. {advice}")

    def linear_map(self) -> LinearMap:
        """Return the map to the space where distances are Euclidean."""
        from genmetric.inspection import linear_map

        method = METHODS.get(self.method)
        if method is not None and not method.has_map:
            raise click.UsageError(
                f"{self.path}: a model of --method {method.key} ({method.label}) has no map, "
                "so there is no single metric. Fit with --method generative-cv or regression-cv."
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
        own = self.metadata.get("id")
        for frame in read_batches(opt.data_source(path), **opt.reading(options)):
            rows = self._rows(frame, strict=options["strict"])
            if into is not None and self.encoder is None:
                rows = into.prepare(rows)
            name = options["id_column"] or (own if own in frame.columns else None)
            names = [*([] if name is None else [name]), *options.get("keep", ())]
            opt.check_names(names, frame.columns, " to copy")
            yield frame, rows, {name: frame[name].to_numpy() for name in names}

    def _rows(self, frame: Any, *, strict: bool) -> Any:
        """Return features of a table, or plain numbers for an estimator without an encoder."""
        if self.encoder is None:
            names = list(self.estimator.feature_names_in_)
            opt.check_names(names, frame.columns, ", which the model was fitted on")
            return frame[names].apply(import_optional("pandas", "cli").to_numeric).astype(float)
        with warnings.catch_warnings():
            if strict:
                warnings.simplefilter("error", UserWarning)
            try:
                return self.encoder.transform(frame)
            except UserWarning as warning:
                advice = "Correct the cell, state that it is missing (--na), or leave out --strict."
                raise TableError(f"--strict refuses the table: {warning} {advice}") from None


def _frame(kept: dict[str, Any], computed: dict[str, Any]) -> Any:
    """Return copied and computed columns as a table."""
    from pandas import DataFrame

    for name in kept:
        if name in computed:
            raise click.UsageError(
                f"the output has a column {name!r} of its own. Rename that of the table."
            )
    return DataFrame({**kept, **computed})


def _significant(values: Any, digits: int = 7) -> Any:
    """Round numbers to some significant digits."""
    import numpy as np

    return np.array([float(f"{value:.{digits}g}") for value in values])


@click.command()
@opt.MODEL
@opt.DATA
@opt.OUT
@kept_columns
@opt.file_options
@opt.quiet
def transform(model: Path, data: Path, output: Path | None, **options: Any) -> None:
    """Write the rows of DATA as coordinates whose Euclidean distances are those of MODEL.

    Columns are found by name; other columns are ignored. The file is read in batches.
    """
    check_output(output, data, model, table=True)
    loaded = Model(model)
    into = loaded.linear_map()
    names = [f"z{j + 1}" for j in range(len(into.matrix))]
    frames = (
        _frame(kept, dict(zip(names, into.map_features(rows).T, strict=True)))
        for _, rows, kept in loaded.batches(data, options, into)
    )
    write_frames(frames, output)


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
    check_output(output, data, model, table=True)
    loaded = Model(model)
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
    from genmetric.tables import Target

    facts: dict[str, Any] = {"name": None, "task": "classification", **loaded.target}
    facts |= {name: tuple(value) for name, value in facts.items() if isinstance(value, list)}
    target = Target(**facts)
    for frame, rows, kept in loaded.batches(data, options):
        predicted = loaded.predictor.predict(rows)
        if target.name in frame.columns:
            y, present = target.read(frame)
            known.append((y, predicted[present]))
        # Ten digits show all of a number without its rounding error: 132.57000000000002.
        shown = _significant(predicted, 10) if predicted.dtype.kind == "f" else predicted
        computed = {"predicted": shown}
        if options["proba"]:
            shares = loaded.predictor.predict_proba(rows).T
            pairs = zip(loaded.predictor.classes_, shares, strict=True)
            computed |= {f"p_{name}": _significant(share) for name, share in pairs}
        yield _frame(kept, computed)


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


@click.command()
@opt.MODEL
@click.argument("reference", metavar="REFERENCE", type=opt.INPUT)
@click.argument("queries", metavar="QUERIES", type=opt.INPUT)
@opt.OUT
@opt.option("-k --neighbors", "Number of neighbours per query.", type=opt.COUNT, default=5)
@opt.option("--top", "Number of columns to name per neighbour.", type=opt.COUNT, default=3)
@opt.column("--id id_column", "Column that identifies rows, in both files.")
@opt.file_options
@opt.quiet
def neighbors(
    model: Path, reference: Path, queries: Path, output: Path | None, **options: Any
) -> None:
    """Find the nearest rows of REFERENCE for each row of QUERIES, under the metric of MODEL.

    The output has one line per neighbour: the query and the neighbour (row numbers from 1, or
    their ids), the rank, the distance, the target of the neighbour if REFERENCE has this column,
    and the columns with the largest shares of the squared distance, with the values of query and
    neighbour. A share can be negative: with correlated columns, differences in two of them can
    offset each other. If both files are the same, each row is excluded from its own
    neighbours. Use - to read QUERIES from standard input. REFERENCE is read into memory.
    """
    check_output(output, reference, queries, model, table=True)
    loaded = Model(model)
    same = "-" not in (str(reference), str(queries)) and reference.samefile(queries)
    write_frames(_neighbors(loaded, reference, queries, options, same=same), output)


def _neighbors(
    loaded: Model, reference: Path, queries: Path, options: dict[str, Any], *, same: bool
) -> Iterator[Any]:
    """Yield the output for chunks of queries."""
    import numpy as np
    import pandas as pd

    from genmetric._parallel import row_chunks
    from genmetric.inspection import explain_features

    into, k = loaded.linear_map(), options["neighbors"]
    target = loaded.target.get("name")
    columns = list(dict.fromkeys(into.columns))
    parts, tables, ids, targets = [], [], [], []
    for frame, rows, kept in loaded.batches(reference, options, into):
        parts.append(rows)
        opt.check_names(columns, frame.columns, ", which the metric compares")
        tables.append(frame[columns])
        ids += list(kept.values())[:1]
        targets += [frame[target].to_numpy()] if target in frame.columns else []
    features = np.concatenate(parts)
    if len(features) <= same:
        raise click.UsageError("REFERENCE has no other row to be a neighbour.")
    known = {"neighbor": np.concatenate(ids) if ids else np.arange(1, len(features) + 1)}
    known |= {f"neighbor_{target}": np.concatenate(targets)} if targets else {}
    table, first = pd.concat(tables), 0
    for frame, asked, kept in loaded.batches(queries, options, into):
        numbers = np.arange(first, first + len(asked))
        names = next(iter(kept.values()), numbers + 1)
        # The features of all neighbours of a chunk are in memory at once.
        for rows in row_chunks(len(asked), 32 * asked.shape[1] * (k + 1)):
            own = numbers[rows] if same else None
            found = explain_features(into, asked[rows], features, k, own)
            near = {name: array[found.indices.ravel()] for name, array in known.items()}
            cells = frame[columns].iloc[rows], table.iloc[found.indices.ravel()]
            why = _reasons(found, *cells, options["top"])
            yield _neighbor_table(found, names[rows], near, why)
        first += len(asked)


def _neighbor_table(found: Any, names: Any, near: dict[str, Any], why: list[str]) -> Any:
    """Return one line per neighbour of some queries."""
    import numpy as np

    n, k = found.distances.shape
    table = {
        "query": np.repeat(names, k),
        "rank": np.tile(np.arange(1, k + 1), n),
        "neighbor": near.pop("neighbor"),
        "distance": _significant(found.distances.ravel()),
    }
    return _frame(table, {**near, "top_columns": why})


def _reasons(found: Any, queries: Any, neighbors: Any, n_top: int) -> list[str]:
    """Name the columns with the largest shares in each distance, with the cells of both rows."""
    (n, k), columns = found.distances.shape, found.feature_names
    asked, near = (frame.to_numpy(object) for frame in (queries, neighbors))
    shares = found.shares.reshape(n * k, -1)
    tops = found.top_features(n_top).reshape(n * k, -1)
    reasons = []
    for i, top in enumerate(tops):
        words = [
            f"{columns[j]} {shares[i, j]:.0%} "
            f"({cell_text(asked[i // k, j])[:40]}, {cell_text(near[i, j])[:40]})"
            for j in top
            if abs(shares[i, j]) >= SMALLEST_SHARE
        ]
        reasons.append("; ".join(words) or "equal")
    return reasons
