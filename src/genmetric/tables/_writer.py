"""Tables written batch by batch: CSV, TSV, Parquet, Arrow and JSON lines."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from genmetric._optional import import_optional
from genmetric._typing import AnyArray
from genmetric.tables._errors import TableError

#: Endings of files that can be written, and their formats.
OUTPUT_FORMATS = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "tsv",
    ".tsv.gz": "tsv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".jsonl": "json",
    ".jsonl.gz": "json",
    ".ndjson": "json",
}


def output_format(name: str) -> str:
    """Return the format of a file by the ending of its name.

    Parameters
    ----------
    name : str
        Name of the file.

    Returns
    -------
    str
        One of "csv", "tsv", "parquet", "arrow" and "json".

    Raises
    ------
    TableError
        If the ending is not one of :data:`OUTPUT_FORMATS`.

    Examples
    --------
    >>> from genmetric.tables._writer import output_format
    >>> output_format("out.csv.gz")
    'csv'
    """
    lower = name.lower()
    found = [format_ for ending, format_ in OUTPUT_FORMATS.items() if lower.endswith(ending)]
    if not found:
        raise TableError(
            f"{name}: unknown output format. Expected a name that ends in one of "
            f"{', '.join(OUTPUT_FORMATS)}."
        )
    return found[-1]


class TableWriter:
    """Writes columns of equal length, batch after batch, to an open file.

    Parameters
    ----------
    file : binary file
        File to write to; it stays open.
    name : str
        Name of the file, whose ending selects the format; see :func:`output_format`. Endings in
        ``.gz`` are compressed.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from genmetric.tables._writer import TableWriter
    >>> out = io.BytesIO()
    >>> with TableWriter(out, "out.csv") as writer:
    ...     writer.write({"x": np.array([1.5, 0.1]), "label": np.array(["a", "b"])})
    >>> print(out.getvalue().decode().rstrip())
    x,label
    1.5,a
    0.1,b
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._pa = import_optional("pyarrow", "cli")
        self._format = output_format(name)
        # pyarrow's own compression would close the file at the end.
        self._gzip = None
        if name.lower().endswith(".gz"):
            self._gzip = gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
        self._stream = self._pa.PythonFile(self._gzip or file, "w")
        self._writer: Any = None
        self._has_header = False

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._gzip is not None:
            self._gzip.close()

    def write(self, columns: Mapping[str, AnyArray]) -> None:
        """Write rows; the first call settles names and types of the columns.

        Parameters
        ----------
        columns : mapping of str to ndarray of shape (n_rows,)
            Numbers or strings; None in an array of objects is a missing value.
        """
        arrays = [_arrow(values, self._pa) for values in columns.values()]
        batch = self._pa.RecordBatch.from_arrays(arrays, names=list(columns))
        if self._format in ("parquet", "arrow"):
            if self._writer is None:
                self._writer = self._open(batch.schema)
            self._writer.write_batch(batch)
        elif self._format == "json":
            self._write_json(batch)
        else:
            self._write_csv(batch, "\t" if self._format == "tsv" else ",")

    def short(self, values: AnyArray, digits: int = 4) -> AnyArray:
        """Round estimates for formats that people read: CSV and TSV.

        Parameters
        ----------
        values : ndarray
            Numbers that do not come from the table, such as probabilities.
        digits : int, default=4
            Number of significant digits. Digits before the point are never rounded.

        Returns
        -------
        ndarray
            The rounded values; `values` for other formats.
        """
        if self._format not in ("csv", "tsv"):
            return values
        size = np.abs(values)
        known = np.isfinite(size) & (size > 0)
        power = np.clip(digits - 1 - np.floor(np.log10(np.where(known, size, 1.0))), 0, 300)
        return np.where(known, np.round(values * 10.0**power) / 10.0**power, values)

    def _open(self, schema: Any) -> Any:
        if self._format == "parquet":
            parquet = import_optional("pyarrow.parquet", "cli")
            return parquet.ParquetWriter(self._stream, schema)
        return self._pa.ipc.new_file(self._stream, schema)

    def _write_json(self, batch: Any) -> None:
        """Write one object per row; NaN and infinity, which JSON does not have, are null."""
        lines = []
        for row in batch.to_pylist():
            finite = {
                name: None if isinstance(value, float) and not np.isfinite(value) else value
                for name, value in row.items()
            }
            lines.append(json.dumps(finite, ensure_ascii=False) + "\n")
        self._stream.write("".join(lines).encode())

    def _write_csv(self, batch: Any, delimiter: str) -> None:
        """Write rows with quotes where they are needed; pyarrow would quote every text."""
        module = import_optional("pyarrow.csv", "cli")
        if not self._has_header:
            line = io.StringIO()
            csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(batch.schema.names)
            self._stream.write(line.getvalue().encode())
            self._has_header = True
        quotes = "needed" if any(_needs_quotes(c, delimiter) for c in batch.columns) else "none"
        options = module.WriteOptions(
            include_header=False, quoting_style=quotes, delimiter=delimiter
        )
        module.write_csv(batch, self._stream, write_options=options)


def _needs_quotes(array: Any, delimiter: str) -> bool:
    """Return whether some text of a column contains the end of a cell or a line."""
    pa, pc = import_optional("pyarrow", "cli"), import_optional("pyarrow.compute", "cli")
    if not pa.types.is_string(array.type):
        return False
    return bool(pc.any(pc.match_substring_regex(array, f'[{delimiter}"\\r\\n]')).as_py())


def _arrow(values: AnyArray, pa: Any) -> Any:
    array = np.asarray(values)
    if array.dtype.kind in "OU":
        return pa.array(array.tolist(), pa.string())
    return pa.array(np.ascontiguousarray(array))
