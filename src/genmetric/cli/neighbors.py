"""`genmetric neighbors`: the nearest rows of a table, and the columns that explain them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from genmetric.cli import options as opt
from genmetric.cli.apply import Model, load_model, significant
from genmetric.cli.output import OUT, check_table_output, progress_bar, write_frames

#: Bytes of the neighbours of one chunk of queries, with all their features.
QUERY_BYTES = 64 << 20

#: Columns whose share is smaller than this are not named.
SMALLEST_SHARE = 0.005


@click.command()
@opt.MODEL
@click.argument("reference", metavar="REFERENCE", type=click.Path(path_type=Path))
@click.argument("queries", metavar="QUERIES", type=click.Path(path_type=Path, allow_dash=True))
@OUT
@opt.option("-k --neighbors", "Number of neighbours per query.", type=opt.COUNT, default=5)
@opt.option("--top", "Number of columns to name per neighbour.", type=opt.COUNT, default=3)
@opt.flag("--contributions", "Add the part of each column in the squared distance.")
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
    compensate each other. If both files are the same, each row is excluded from its own
    neighbours. QUERIES can be -, the standard input. REFERENCE is read into memory.
    """
    check_table_output(output, reference, queries, model)
    loaded = load_model(model)
    same = str(queries) != "-" and reference.exists() and reference.samefile(queries)
    with progress_bar("neighbors", quiet=options["quiet"] or output is None):
        write_frames(_neighbors(loaded, reference, queries, options, same=same), output)


def _neighbors(
    loaded: Model, reference: Path, queries: Path, options: dict[str, Any], *, same: bool
) -> Iterator[Any]:
    """Yield the output for chunks of queries."""
    import numpy as np

    from genmetric.inspection import explain_features

    into, k = loaded.linear_map(), options["neighbors"]
    target = loaded.metadata.get("target", {}).get("name")
    parts, ids, targets = [], [], []
    for frame, rows, columns in loaded.batches(reference, options, into):
        parts.append(rows)
        ids += list(columns.values())[:1]
        targets += [frame[target].to_numpy()] if target in frame.columns else []
    features = np.concatenate(parts)
    known = {
        "neighbor": np.concatenate(ids) if ids else np.arange(1, len(features) + 1),
        **({f"neighbor_{target}": np.concatenate(targets)} if targets else {}),
    }
    if len(features) <= same:
        raise click.UsageError("REFERENCE has no other row to be a neighbour.")
    first = 0
    for _, asked, columns in loaded.batches(queries, options, into):
        names = next(iter(columns.values()), np.arange(first, first + len(asked)) + 1)
        # The features of all neighbours of a chunk are in memory at once.
        step = max(1, QUERY_BYTES // (8 * asked.shape[1] * (k + 1)))
        for start in range(0, len(asked), step):
            chunk = asked[start : start + step]
            own = np.arange(first + start, first + start + len(chunk)) if same else None
            found = explain_features(into, chunk, features, k, own)
            near = features[found.indices.ravel()]
            chunk_names = names[start : start + step]
            yield _table(loaded, found, chunk_names, known, (chunk, near), options)
        first += len(asked)


def _table(
    loaded: Model,
    found: Any,
    names: Any,
    known: dict[str, Any],
    features: tuple[Any, Any],
    options: dict[str, Any],
) -> Any:
    """Return one line per neighbour of some queries."""
    import numpy as np
    from pandas import DataFrame

    n, k = found.distances.shape
    columns = found.feature_names
    parts = found.contributions.reshape(n * k, -1)
    rows = found.indices.ravel()
    table = {
        "query": np.repeat(names, k),
        "rank": np.tile(np.arange(1, k + 1), n),
        "neighbor": known["neighbor"][rows],
        "distance": significant(found.distances.ravel()),
    }
    table |= {name: values[rows] for name, values in known.items() if name != "neighbor"}
    if loaded.encoder is None:
        values = [DataFrame(rows, columns=columns) for rows in features]
    else:
        values = [loaded.encoder.inverse_transform(rows) for rows in features]
    cells = [{c: frame[c].to_numpy(object) for c in columns} for frame in values]
    total = parts.sum(axis=1)
    listed = []
    for i, row in enumerate(parts):
        order = np.argsort(-np.abs(row), kind="stable")[: options["top"]]
        top = [j for j in order if total[i] > 0 and abs(row[j]) >= SMALLEST_SHARE * total[i]]
        words = [
            f"{columns[j]} {row[j] / total[i]:.0%} "
            f"({_value(cells[0][columns[j]][i // k])}, {_value(cells[1][columns[j]][i])})"
            for j in top
        ]
        listed.append("; ".join(words) or "equal")
    table["top_columns"] = listed
    if options["contributions"]:
        table |= {f"contribution_{name}": parts[:, j] for j, name in enumerate(columns)}
    return DataFrame(table)


def _value(value: Any) -> str:
    """Write a value of a table in few characters."""
    if isinstance(value, float):
        return f"{value:.5g}"
    if hasattr(value, "isoformat"):
        return str(value.isoformat()).removesuffix("T00:00:00")
    return str(value)[:40]
