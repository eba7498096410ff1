"""`genmetric neighbors`: the nearest rows of a table, and the columns that explain them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from genmetric.cli import options as opt
from genmetric.cli.apply import Model, load_model, significant
from genmetric.cli.output import write_frames

#: Columns whose share is smaller than this are not named.
SMALLEST_SHARE = 0.005


@click.command()
@opt.MODEL
@click.argument("reference", metavar="REFERENCE", type=click.Path(path_type=Path))
@click.argument("queries", metavar="QUERIES", type=click.Path(path_type=Path, allow_dash=True))
@opt.OUT
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
    output = opt.table_output(output, reference, queries, model)
    loaded = load_model(model)
    same = str(queries) != "-" and reference.exists() and reference.samefile(queries)
    write_frames(_neighbors(loaded, reference, queries, options, same=same), output)


def _neighbors(
    loaded: Model, reference: Path, queries: Path, options: dict[str, Any], *, same: bool
) -> Iterator[Any]:
    """Yield the output for chunks of queries."""
    import numpy as np

    from genmetric._parallel import row_chunks
    from genmetric.inspection import explain_features

    into, k = loaded.linear_map(), options["neighbors"]
    target = loaded.target.get("name")
    parts, ids, targets = [], [], []
    for frame, rows, columns in loaded.batches(reference, options, into):
        parts.append(rows)
        ids += list(columns.values())[:1]
        targets += [frame[target].to_numpy()] if target in frame.columns else []
    features = np.concatenate(parts)
    if len(features) <= same:
        raise click.UsageError("REFERENCE has no other row to be a neighbour.")
    known = {"neighbor": np.concatenate(ids) if ids else np.arange(1, len(features) + 1)}
    known |= {f"neighbor_{target}": np.concatenate(targets)} if targets else {}
    values, first = loaded.values(features), 0
    for _, asked, columns in loaded.batches(queries, options, into):
        numbers = np.arange(first, first + len(asked))
        names = next(iter(columns.values()), numbers + 1)
        # The features of all neighbours of a chunk are in memory at once.
        for rows in row_chunks(len(asked), 32 * asked.shape[1] * (k + 1)):
            own = numbers[rows] if same else None
            found = explain_features(into, asked[rows], features, k, own)
            near = {name: array[found.indices.ravel()] for name, array in known.items()}
            shown = (loaded.values(asked[rows]), values)
            yield _table(found, names[rows], near, shown, options)
        first += len(asked)


def _table(
    found: Any,
    names: Any,
    near: dict[str, Any],
    values: tuple[Any, Any],
    options: dict[str, Any],
) -> Any:
    """Return one line per neighbour of some queries."""
    import numpy as np
    from pandas import DataFrame

    (n, k), columns = found.distances.shape, found.feature_names
    cells = [[frame[c].to_numpy(object) for c in columns] for frame in values]
    shares = found.shares.reshape(n * k, -1)
    tops = found.top_features(options["top"]).reshape(n * k, -1)
    listed = []
    for i, (row, top) in enumerate(zip(found.indices.ravel(), tops, strict=True)):
        words = [
            f"{columns[j]} {shares[i, j]:.0%} "
            f"({_value(cells[0][j][i // k])}, {_value(cells[1][j][row])})"
            for j in top
            if abs(shares[i, j]) >= SMALLEST_SHARE
        ]
        listed.append("; ".join(words) or "equal")
    table = {
        "query": np.repeat(names, k),
        "rank": np.tile(np.arange(1, k + 1), n),
        "neighbor": near.pop("neighbor"),
        "distance": significant(found.distances.ravel()),
        **near,
        "top_columns": listed,
    }
    if options["contributions"]:
        parts = found.contributions.reshape(n * k, -1).T
        table |= {f"contribution_{c}": part for c, part in zip(columns, parts, strict=True)}
    return DataFrame(table)


def _value(value: Any) -> str:
    """Write a value of a table in few characters."""
    if isinstance(value, float):
        return f"{value:.5g}"
    if hasattr(value, "isoformat"):
        return str(value.isoformat()).removesuffix("T00:00:00")
    return str(value)[:40]
