"""`genmetric datasets`: the datasets, their shapes and sources."""

from __future__ import annotations

import click


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False),
    help="Directory to search first (default: GENMETRIC_DATA).",
)
@click.option("--check", is_flag=True, help="Read every dataset and verify its shape and checksum.")
def datasets(data_dir: str | None, check: bool) -> None:
    """List the datasets: samples, features, classes (or "number") and source."""
    from genmetric.datasets import CATALOGUE, find_dataset, list_datasets, load_dataset

    # Plain text: names are copied from here, so they are never shortened to the terminal.
    width = max(map(len, list_datasets()))
    line = f"{{:<{width}}}  {{:>7}}  {{:>8}}  {{:>7}}  {{:<9}}  {{}}"
    head = line.format("name", "samples", "features", "classes", "available", "source")
    click.echo(f"{head}\n{'-' * 79}")
    notes = []
    for name in list_datasets():
        record = CATALOGUE[name]
        source = find_dataset(name, data_dir=data_dir)
        if check and source is not None:
            source = load_dataset(name, data_dir=data_dir, download_if_missing=False).source
        classes = len(record.class_names) if record.task == "classification" else "number"
        available = "yes" if source is not None else "no"
        source = source or f"OpenML {record.openml[0] if record.openml else ''}, on request"
        click.echo(
            line.format(name, record.n_samples, record.n_features, classes, available, source)
        )
        if record.bayes_error is not None:
            notes.append(f"{name}: Bayes error {100 * record.bayes_error:.2f} %")
    click.echo("\n".join(["", *notes]))
    missing = [n for n in list_datasets() if find_dataset(n, data_dir=data_dir) is None]
    if missing:
        files = " and ".join(CATALOGUE[name].filename for name in missing)
        click.echo(
            f"Not available: {', '.join(missing)}. Put {files} in a directory and pass it as --data-dir "
            "or in the variable GENMETRIC_DATA; with network access they are loaded from OpenML."
        )
