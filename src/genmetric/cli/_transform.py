"""`genmetric transform`: rows of a table in the space of a saved metric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from genmetric.cli._batches import applied_batches, kept_columns
from genmetric.cli._options import DATA, MODEL, check_data, file_options, opened, quiet_option
from genmetric.cli._output import OUT, table_output
from genmetric.cli._progress import progress_bar


@click.command()
@MODEL
@DATA
@OUT
@kept_columns
@click.option(
    "--prefix",
    default="z",
    show_default=True,
    help="Prefix of the output columns z1, z2, ...",
)
@file_options
@quiet_option
def transform(model: Path, data: Path, output: Path | None, **options: Any) -> None:
    """Write the rows of DATA in the space where the metric of MODEL is Euclidean distance.

    Columns are found by name; other columns are ignored. The file is read in batches.
    """
    from genmetric.cli._models import load_model, model_map

    check_data(data)
    loaded = load_model(model)
    into = model_map(loaded)
    names = [f"{options['prefix']}{j + 1}" for j in range(len(into.matrix))]
    table = opened(data, options)
    with (
        progress_bar("transform", quiet=options["quiet"] or output is None) as advance,
        table_output(output, data, model) as writer,
    ):
        for X, columns in applied_batches(table, loaded, options, advance):
            twice = [name for name in columns if name in names]
            if twice:
                raise click.UsageError(f"{twice[0]!r} names a column twice. Use another --prefix.")
            z = into.transform(X)
            columns.update({name: z[:, j] for j, name in enumerate(names)})
            writer.write(columns)
