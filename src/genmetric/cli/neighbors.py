"""`genmetric neighbors`: the nearest rows of a table, and which features brought them near."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genmetric.cli.applying import applied_batches
from genmetric.cli.options import MODEL, STREAM_BYTES, file_options, opened, quiet_option
from genmetric.cli.output import OUT, table_output
from genmetric.cli.progress import progress_bar

if TYPE_CHECKING:
    from genmetric._typing import AnyArray, FloatArray, IntArray

#: Bytes of the neighbours of one chunk of queries, with all their features.
QUERY_BYTES = 64 << 20


@click.command()
@MODEL
@click.argument("reference", metavar="REFERENCE", type=click.Path(path_type=Path))
@click.argument("queries", metavar="QUERIES", type=click.Path(path_type=Path))
@OUT
@click.option(
    "-k",
    "--neighbors",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Rows to find for each query.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Features to name for each neighbour.",
)
@click.option("--contributions", is_flag=True, help="Also what each feature adds, in columns.")
@click.option("--id", "id_column", metavar="COL", help="Column that names rows, in both files.")
@file_options
@quiet_option
def neighbors(
    model: Path, reference: Path, queries: Path, output: Path | None, **options: Any
) -> None:
    """Find the nearest rows of REFERENCE for each row of QUERIES, under the metric of MODEL.

    One line a neighbour: the query and the neighbour (numbers of rows from 1, or their names), the
    rank, the distance, and the features that make most of its square, with their share. A share
    may be negative: features that differ together can be nearer than each alone. Where both files
    are the same a row is not its own neighbour.
    """
    from genmetric.cli.models import linear_map, load_model

    loaded = load_model(model)
    into = linear_map(loaded)
    k = options["neighbors"]
    names = loaded.recipe.feature_names
    options["keep"] = ()
    known = opened(reference, options)
    asked = opened(queries, options)
    same = reference.samefile(queries)
    with (
        progress_bar("neighbors", quiet=options["quiet"] or output is None) as advance,
        table_output(output, reference, queries, model) as writer,
    ):
        references = _References(known, loaded.recipe, options)
        first = 0
        for rows, columns in applied_batches(asked, loaded.recipe, options, advance):
            # Features of all neighbours of a chunk are held at once.
            step = max(1, QUERY_BYTES // (8 * len(names) * (k + 1)))
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                chunk = into.scaled(rows.X[part])
                own = first + start if same else None
                found = nearest_rows(chunk, references, into, k, own)
                _write(writer, found, chunk, into, names, columns, first, part, options)
            first += len(rows)


class _References:
    """Batches of the reference rows, kept in memory where the file is small."""

    def __init__(self, table: Any, recipe: Any, options: dict[str, Any]) -> None:
        self._source = table, recipe, options
        self._kept = list(self._read()) if table.n_bytes <= STREAM_BYTES // 4 else None

    def _read(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        return applied_batches(*self._source, lambda *_: None)

    def __iter__(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        return iter(self._read() if self._kept is None else self._kept)


def nearest_rows(
    queries: FloatArray,
    references: Any,
    into: Any,
    k: int,
    own: int | None = None,
) -> tuple[FloatArray, IntArray, FloatArray, AnyArray | None]:
    """The nearest reference rows of each query, batch after batch of references.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, n_features)
        In the units of the metric.
    references : iterable of (Rows, dict)
        Reference rows as they came, and their names.
    into : LinearMap
        The metric.
    k : int
        How many.
    own : int, default=None
        Number of the reference row that is the first query, the second the next and so on; these
        are not their own neighbours.

    Returns
    -------
    distances : ndarray of shape (n_queries, n_found)
        Ascending; of equal ones the earlier row first.
    rows : ndarray of shape (n_queries, n_found)
        Numbers of rows, from 0.
    X : ndarray of shape (n_queries, n_found, n_features)
        Those rows, in the units of the metric.
    names : ndarray of shape (n_queries, n_found) or None
        Their names.
    """
    import numpy as np
    from sklearn.neighbors import NearestNeighbors

    n = len(queries)
    every = np.arange(n)
    z = queries @ into.factor.T
    distances = np.full((n, 0), np.inf)
    numbers = np.empty((n, 0), np.intp)
    X = np.empty((n, 0, queries.shape[1]))
    names: AnyArray | None = None
    start = 0
    for rows, columns in references:
        scaled = into.scaled(rows.X)
        zr = scaled @ into.factor.T
        # One more, for the row that is the query itself.
        found = NearestNeighbors(n_neighbors=min(k + 1, len(rows))).fit(zr)
        place = found.kneighbors(z, return_distance=False)
        # Anew from the difference: the search may round what is near to zero.
        gap = np.linalg.norm(zr[place] - z[:, None, :], axis=2)
        if own is not None:
            gap[place + start == (own + every)[:, None]] = np.inf
        ids = next(iter(columns.values()), None)
        distances = np.concatenate([distances, gap], axis=1)
        numbers = np.concatenate([numbers, place + start], axis=1)
        X = np.concatenate([X, scaled[place]], axis=1)
        if ids is not None:
            words = np.asarray(ids)[place]
            names = words if names is None else np.concatenate([names, words], axis=1)
        order = np.lexsort((numbers, distances), axis=1)[:, :k]
        rank = every[:, None], order
        distances, numbers, X = distances[rank], numbers[rank], X[rank]
        names = None if names is None else names[rank]
        start += len(rows)
    # With fewer other rows than k the row itself is left over, at infinity.
    n_found = min(k, start - (own is not None))
    names = None if names is None else names[:, :n_found]
    return distances[:, :n_found], numbers[:, :n_found], X[:, :n_found], names


def contributions(difference: FloatArray, metric: FloatArray) -> FloatArray:
    """What each feature adds to the squared distance dᵀMd, the sum over j of d_j (Md)_j.

    Parameters
    ----------
    difference : ndarray of shape (..., n_features)
        Differences d of rows.
    metric : ndarray of shape (n_features, n_features)
        The metric M.

    Returns
    -------
    ndarray of shape (..., n_features)
        Parts whose sum is the squared distance; some may be negative.
    """
    parts: FloatArray = difference * (difference @ metric)
    return parts


def _write(
    writer: Any,
    found: Any,
    chunk: FloatArray,
    into: Any,
    names: tuple[str, ...],
    columns: dict[str, Any],
    first: int,
    part: slice,
    options: dict[str, Any],
) -> None:
    import numpy as np

    distances, numbers, X, labels = found
    n, k = distances.shape
    if n == 0 or k == 0:
        raise click.UsageError("The reference has no other row. Add rows to REFERENCE.")
    parts = contributions(X - chunk[:, None, :], into.metric)
    total = parts.sum(axis=2, keepdims=True)
    share = np.divide(parts, total, out=np.zeros_like(parts), where=total > 0)
    top = np.argsort(-np.abs(share), axis=2, kind="stable")[:, :, : options["top"]]
    ids = next(iter(columns.values()), None)
    query: Any = np.arange(first, first + part.start + n)[part.start :] + 1
    if ids is not None:
        query = np.asarray(ids)[part]
    table: dict[str, Any] = {
        "query": np.repeat(query, k),
        "rank": np.tile(np.arange(1, k + 1), n),
        "neighbor": (numbers + 1 if labels is None else labels).ravel(),
        "distance": distances.ravel(),
        "because": np.array(
            [
                _because(share[i, j], top[i, j], names, total[i, j, 0] > 0)
                for i in range(n)
                for j in range(k)
            ],
            dtype=object,
        ),
    }
    if options["contributions"]:
        for j, name in enumerate(names):
            table[f"of {name}"] = parts[:, :, j].ravel()
    writer.write(table)


def _because(share: Any, top: Any, names: tuple[str, ...], apart: bool) -> str:
    """The features that make most of a squared distance, in words."""
    if not apart:
        return "equal"
    return "; ".join(f"{names[j]} {100 * share[j]:.0f}%" for j in top if abs(share[j]) >= 0.005)
