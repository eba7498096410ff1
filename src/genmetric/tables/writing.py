"""Tables written batch by batch, as CSV or Parquet."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from genmetric._extras import need
from genmetric._typing import AnyArray


class TableWriter:
    """Writes columns of equal length, batch after batch, to an open file.

    Parameters
    ----------
    file : binary file
        Where to; it stays open.
    name : str
        Says the form by its ending: ``.parquet`` and ``.pq`` are Parquet, all else is CSV,
        compressed where the name ends in ``.gz``.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from genmetric.tables.writing import TableWriter
    >>> out = io.BytesIO()
    >>> with TableWriter(out, "out.csv") as writer:
    ...     writer.write({"x": np.array([1.5, 0.1]), "label": np.array(["a", "b"])})
    >>> print(out.getvalue().decode().rstrip())
    x,label
    1.5,a
    0.1,b
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._pa = need("pyarrow", "cli")
        self._is_parquet = name.lower().endswith((".parquet", ".pq"))
        # Not pyarrow's compression, which closes the file in the end.
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
        if self._is_parquet:
            if self._writer is None:
                parquet = need("pyarrow.parquet", "cli")
                self._writer = parquet.ParquetWriter(self._stream, batch.schema)
            self._writer.write_batch(batch)
        else:
            self._write_csv(batch)

    def _write_csv(self, batch: Any) -> None:
        """Write rows with quotes where they are needed; pyarrow would put every word in them."""
        module = need("pyarrow.csv", "cli")
        if not self._has_header:
            line = io.StringIO()
            csv.writer(line, lineterminator="\n").writerow(batch.schema.names)
            self._stream.write(line.getvalue().encode())
            self._has_header = True
        quotes = "needed" if any(map(_has_structure, batch.columns)) else "none"
        options = module.WriteOptions(include_header=False, quoting_style=quotes)
        module.write_csv(batch, self._stream, write_options=options)


def _has_structure(array: Any) -> bool:
    """Whether some word of a column holds what ends a cell or a line."""
    pa, pc = need("pyarrow", "cli"), need("pyarrow.compute", "cli")
    if not pa.types.is_string(array.type):
        return False
    return bool(pc.any(pc.match_substring_regex(array, '[,"\\r\\n]')).as_py())


def _arrow(values: AnyArray, pa: Any) -> Any:
    array = np.asarray(values)
    if array.dtype.kind in "OU":
        return pa.array(array.tolist(), pa.string())
    return pa.array(np.ascontiguousarray(array))
