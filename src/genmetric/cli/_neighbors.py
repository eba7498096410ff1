"""`genmetric neighbors`: the nearest rows of a table, and the features that explain them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from genmetric.cli._batches import applied_batches
from genmetric.cli._options import MODEL, check_data, file_options, opened, quiet_option
from genmetric.cli._output import OUT, table_output
from genmetric.cli._progress import progress_bar

if TYPE_CHECKING:
    from genmetric.inspection import LinearMap, NeighborExplanation

#: Bytes of the neighbours of one chunk of queries, with all their features.
QUERY_BYTES = 64 << 20

#: Size of a file of references that are kept in memory.
KEPT_BYTES = 64 << 20

#: Features whose share is smaller than this are not named.
SMALLEST_SHARE = 0.005


@click.command()
@MODEL
@click.argument("reference", metavar="REFERENCE", type=click.Path(path_type=Path))
@click.argument("queries", metavar="QUERIES", type=click.Path(path_type=Path, allow_dash=True))
@OUT
@click.option(
    "-k",
    "--neighbors",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Number of neighbours per query.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Number of features to name per neighbour.",
)
@click.option(
    "--contributions",
    is_flag=True,
    help="Add a column per feature with its contribution to the squared distance.",
)
@click.option(
    "--id", "id_column", metavar="COL", help="Column that identifies rows, in both files."
)
@file_options
@quiet_option
def neighbors(
    model: Path, reference: Path, queries: Path, output: Path | None, **options: Any
) -> None:
    """Find the nearest rows of REFERENCE for each row of QUERIES, under the metric of MODEL.

    The output has one line per neighbour: the query and the neighbour (row numbers from 1, or
    their ids), the rank, the distance, the target of the neighbour if REFERENCE has this column,
    and the features with the largest shares of the squared distance. A share can be negative:
    with correlated features, differences in two features can compensate each other. If both files
    are the same, each row is excluded from its own neighbours. QUERIES can be -, the standard
    input.
    """
    from genmetric.cli._models import load_model, model_map

    check_data(reference)
    check_data(queries)
    loaded = load_model(model)
    into = model_map(loaded)
    from genmetric.inspection import nearest_in_batches

    k = options["neighbors"]
    options["keep"] = ()
    known, asked = opened(reference, options), opened(queries, options)
    same = str(queries) != "-" and reference.samefile(queries)
    with (
        progress_bar("neighbors", quiet=options["quiet"] or output is None) as advance,
        table_output(output, reference, queries, model) as writer,
    ):
        references = _References(known, loaded, into, options)
        first = 0
        for X, columns in applied_batches(asked, loaded, options, advance):
            features = into.prepare(X)
            ids = next(iter(columns.values()), None)
            # The features of all neighbours of a chunk are in memory at once.
            step = max(1, QUERY_BYTES // (8 * features.shape[1] * (k + 1)))
            for start in range(0, len(features), step):
                chunk = features[start : start + step]
                found = nearest_in_batches(
                    into,
                    chunk,
                    references,
                    n_neighbors=k,
                    first_query=first + start if same else None,
                )
                if not found.distances.size:
                    raise click.UsageError(
                        "REFERENCE has no other row to be a neighbour. Add rows to it."
                    )
                named = None if ids is None else ids[start : start + step]
                written = neighbor_columns(found, first + start, named, options)
                written["distance"] = writer.short(written["distance"])
                writer.write(references.with_target(written, found.indices))
            first += len(features)


class _References:
    """Batches of the reference rows; kept in memory if the file is small."""

    def __init__(self, table: Any, loaded: Any, into: LinearMap, options: dict[str, Any]) -> None:
        self._target = loaded.target if loaded.target in table.names else None
        kept = () if self._target is None else (self._target,)
        self._source = table, loaded, {**options, "keep": kept}
        self._into = into
        self._targets: list[Any] = []
        self._known = False
        self._kept = list(self._read()) if table.n_bytes <= KEPT_BYTES else None

    def _read(self) -> Iterator[tuple[Any, Any]]:
        for X, columns in applied_batches(*self._source, lambda *_: None):
            target = None if self._target is None else columns.pop(self._target)
            if target is not None and not self._known:
                self._targets.append(target)
            yield self._into.prepare(X), next(iter(columns.values()), None)
        self._known = True

    def with_target(self, columns: dict[str, Any], indices: Any) -> dict[str, Any]:
        """Insert the targets of the neighbours after the distance, if the file has them."""
        if self._target is None:
            return columns
        if len(self._targets) > 1:
            self._targets = [np.concatenate(self._targets)]
        targets = self._targets[0][indices.ravel()]
        found: dict[str, Any] = {}
        for name, values in columns.items():
            found[name] = values
            if name == "distance":
                found[f"neighbor_{self._target}"] = targets
        return found

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._read() if self._kept is None else self._kept)


def neighbor_columns(
    found: NeighborExplanation, first: int, ids: Any, options: dict[str, Any]
) -> dict[str, Any]:
    """Return the columns of the output for a chunk of queries.

    Parameters
    ----------
    found : NeighborExplanation
        The neighbours of the chunk.
    first : int
        Row number of the first query, from 0.
    ids : array-like of shape (n_queries,) or None
        Ids of the queries; row numbers from 1 if there are none.
    options : dict
        With "top" and "contributions".

    Returns
    -------
    dict of str to ndarray
        Columns of the output, one entry per pair of query and neighbour.
    """
    n, k = found.distances.shape
    query = np.arange(first, first + n) + 1 if ids is None else np.asarray(ids)
    columns: dict[str, Any] = {
        "query": np.repeat(query, k),
        "rank": np.tile(np.arange(1, k + 1), n),
        "neighbor": (found.indices + 1 if found.names is None else found.names).ravel(),
        "distance": found.distances.ravel(),
    }
    shares = found.shares.reshape(n * k, -1)
    tops = found.top_features(options["top"]).reshape(n * k, -1)
    columns["top_features"] = np.array(
        [_top_features(*pair, found.feature_names) for pair in zip(shares, tops, strict=True)],
        dtype=object,
    )
    if options["contributions"]:
        parts = found.contributions.reshape(n * k, -1)
        for j, name in enumerate(found.feature_names):
            columns[f"contribution_{name}"] = parts[:, j]
    return columns


def _top_features(shares: Any, top: Any, names: tuple[str, ...]) -> str:
    """Write the features with the largest shares; "equal" if the distance is zero."""
    if not shares.any():
        return "equal"
    listed = [j for j in top if abs(shares[j]) >= SMALLEST_SHARE]
    return "; ".join(f"{names[j]} {100 * shares[j]:.0f}%" for j in listed)
