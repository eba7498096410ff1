"""Tables written to files: CSV, TSV, Parquet, Arrow and JSON lines."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from genmetric._text import import_optional
from genmetric.files import write_atomically
from genmetric.tables import TableError

#: Endings of files that can be written, and their formats.
FORMATS = {".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
FORMATS |= {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow"}


def output_format(path: Any) -> str:
    """Return the format of a file by the ending of its name.

    Parameters
    ----------
    path : path-like
        The file. Endings of text formats may be followed by ``.gz``.

    Returns
    -------
    {"csv", "tsv", "jsonl", "parquet", "arrow"}
        The format.

    Raises
    ------
    TableError
        If the ending is not known.

    Examples
    --------
    >>> from genmetric.tables import output_format
    >>> output_format("out.csv.gz")
    'csv'
    """
    name = os.fspath(path).lower()
    base, zipped = name.removesuffix(".gz"), name.endswith(".gz")
    for ending, format_ in FORMATS.items():
        if base.endswith(ending) and not (zipped and format_ in ("parquet", "arrow")):
            return format_
    raise TableError(
        f"{os.fspath(path)}: unknown output format. Expected a name that ends in one of "
        f"{', '.join(FORMATS)}; .gz may follow those of text."
    )


def write_table(frames: Any, path: Any, *, format: str | None = None) -> None:
    """Write a table; the file appears complete or not at all.

    Cells are written as they are, even those that a spreadsheet would take for a formula.

    Parameters
    ----------
    frames : DataFrame or iterable of DataFrame
        The rows, without the index; an iterable is written batch by batch.
    path : path-like or binary file
        The file; see :func:`output_format`. An open file is written to and stays open.
    format : {"csv", "tsv", "jsonl", "parquet", "arrow"}, default=None
        Format of an open file. None takes that of the name.

    Examples
    --------
    >>> import io
    >>> import pandas as pd
    >>> from genmetric.tables import write_table
    >>> file = io.BytesIO()
    >>> write_table(pd.DataFrame({"x": [1.5, 0.1], "label": ["a", "b"]}), file, format="csv")
    >>> print(file.getvalue().decode().rstrip())
    x,label
    1.5,a
    0.1,b
    """
    batches = iter([frames] if hasattr(frames, "columns") else frames)
    if hasattr(path, "write"):
        _write(batches, path, format or "csv")
        return
    format = format or output_format(path)
    with write_atomically(path) as file:
        if os.fspath(path).lower().endswith(".gz"):
            with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as zipped:
                _write(batches, zipped, format)
        else:
            _write(batches, file, format)


def _write(batches: Iterator[Any], file: Any, format_: str) -> None:
    """Write batches of rows to an open file."""
    if format_ in ("parquet", "arrow"):
        _write_arrow(batches, file, format_)
        return
    for i, frame in enumerate(batches):
        if format_ == "jsonl":
            # NaN and infinity, which JSON does not have, are null.
            rows = frame.replace([np.inf, -np.inf], np.nan).astype(object)
            records = rows.where(rows.notna(), None).to_dict("records")
            lines = [json.dumps(row, ensure_ascii=False, default=str) for row in records]
            file.write("".join(f"{line}\n" for line in lines).encode())
        else:
            layout = {"sep": "\t" if format_ == "tsv" else ",", "lineterminator": "\n"}
            file.write(frame.to_csv(None, index=False, header=i == 0, **layout).encode())


def _write_arrow(batches: Iterator[Any], file: Any, format_: str) -> None:
    """Write batches as Parquet or Arrow; the first settles the types of the columns."""
    pa = import_optional("pyarrow", "cli")
    parquet = import_optional("pyarrow.parquet", "cli")
    first = next(batches)
    schema = pa.Table.from_pandas(first, preserve_index=False).schema
    make = parquet.ParquetWriter if format_ == "parquet" else pa.ipc.new_file
    with make(pa.PythonFile(file, "w"), schema) as writer:
        for frame in chain([first], batches):
            writer.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))
