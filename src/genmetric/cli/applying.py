"""What `transform` and `predict` share: batches of new rows, and columns that go along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import click

from genmetric.cli.options import stacked, warn_unknown

#: Columns of the input that the output has as well.
kept_columns = stacked(
    click.option("--id", "id_column", metavar="COL", help="Column that names rows, if another."),
    click.option("--keep", multiple=True, metavar="COL", help="Copy this column; repeat for more."),
)


def applied_batches(
    table: Any, recipe: Any, options: dict[str, Any], advance: Callable[[str, float], None]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Batches of new rows with the columns to copy.

    Parameters
    ----------
    table : TableFile
        New rows.
    recipe : Recipe
        Of the model.
    options : dict
        With `id_column` and `keep`.
    advance : callable
        Shows progress.

    Yields
    ------
    rows : Rows
        Features of a batch.
    columns : dict of str to ndarray
        The id, where there is one, and the columns to keep.
    """
    from genmetric.tables import row_batches

    id_column = options["id_column"]
    if id_column is None and recipe.id in table.names:
        id_column = recipe.id
    keep = list(dict.fromkeys(options["keep"]))
    # New rows need neither classes nor the names that the training rows had.
    recipe = replace(recipe, target=None, id=None)
    unknown: dict[str, set[str]] = {}
    seen = 0
    for rows in row_batches(table, recipe, id_column=id_column, keep=keep):
        seen += len(rows)
        advance(f"{seen} rows", 0.0)
        for name, words in rows.unknown.items():
            unknown.setdefault(name, set()).update(words)
        columns: dict[str, Any] = {}
        if id_column is not None:
            columns[id_column] = rows.ids
        columns.update({name: rows.kept[name] for name in keep})
        yield rows, columns
    warn_unknown(unknown)
