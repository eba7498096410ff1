"""`genmetric transform`: rows in the space of a saved metric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from genmetric.cli.applying import applied_batches, kept_columns
from genmetric.cli.options import DATA, MODEL, file_options, opened, quiet_option
from genmetric.cli.output import OUT, table_output
from genmetric.cli.progress import progress_bar


@click.command()
@MODEL
@DATA
@OUT
@kept_columns
@click.option("--prefix", default="z", show_default=True, help="Names of the columns: z1, z2, ...")
@file_options
@quiet_option
def transform(model: Path, data: Path, output: Path | None, **options: Any) -> None:
    """Write the rows of DATA in the space where Euclidean distance is the metric of MODEL.

    Columns are taken by name; others are ignored. The file is read in batches, whatever its size.
    """
    from genmetric.cli.models import linear_map, load_model

    loaded = load_model(model)
    into = linear_map(loaded)
    names = [f"{options['prefix']}{j + 1}" for j in range(len(into.factor))]
    table = opened(data, options)
    with (
        progress_bar("transform", quiet=options["quiet"] or output is None) as advance,
        table_output(output, data, model) as writer,
    ):
        for rows, columns in applied_batches(table, loaded.recipe, options, advance):
            twice = [name for name in columns if name in names]
            if twice:
                raise click.UsageError(f"{twice[0]!r} names a column twice. Use another --prefix.")
            z = into(rows.X)
            columns.update({name: z[:, j] for j, name in enumerate(names)})
            writer.write(columns)
