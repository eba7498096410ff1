"""Parquet and Arrow files as Arrow tables, in batches of bounded decoded size."""

from __future__ import annotations

import struct
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genmetric._optional import import_optional
from genmetric.tables._arrow_sizes import largest_batch_bytes
from genmetric.tables._decoded import (
    BATCH_BYTES,
    LONG_TEXT,
    MAX_TEXT_LENGTH,
    is_text,
    unusable_reason,
)
from genmetric.tables._errors import TableError
from genmetric.tables._table_file import TableFile, show_bytes
from genmetric.tables._text_files import arrow_column

#: Encodings of Parquet that store a repeated text, or its beginning, once.
SHARED_ENCODINGS = {"PLAIN_DICTIONARY", "RLE_DICTIONARY", "DELTA_BYTE_ARRAY"}


@dataclass(frozen=True)
class ParquetFile(TableFile):
    """A Parquet file.

    Attributes
    ----------
    row_bytes : mapping of str to float
        Bytes of one row of each column: those of the row group in which they are most.
    shared : frozenset of str
        Columns of text whose repeated values are stored once. They are read as dictionaries, so
        that `row_bytes` is right for them too.
    """

    row_bytes: Mapping[str, float] = field(default_factory=dict)
    shared: frozenset[str] = frozenset()

    def _tables(self, names: list[str], text: Collection[str]) -> Generator[Any, None, None]:
        """Yield tables with the types of the file."""
        pa, parquet = import_optional("pyarrow", "cli"), import_optional("pyarrow.parquet", "cli")
        row_bytes = sum(self.row_bytes[name] for name in names)
        rows = max(1, min(1 << 20, int(BATCH_BYTES / max(1.0, row_bytes))))
        # With pre_buffer everything that was read stays in memory until the file is closed.
        with (
            _readable(self.label, "Parquet"),
            parquet.ParquetFile(
                self.path,
                memory_map=False,
                pre_buffer=False,
                read_dictionary=[name for name in names if name in self.shared],
            ) as file,
            closing(file.iter_batches(rows, columns=names, use_threads=False)) as batches,
        ):
            for batch in batches:
                yield with_texts(pa.Table.from_batches([batch]).select(names), text)


@contextmanager
def _readable(label: str, kind: str) -> Iterator[None]:
    """Raise TableError for a damaged file."""
    pa = import_optional("pyarrow", "cli")
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{label}: corrupted {kind} file ({str(error).splitlines()[0]}). Re-create it."
        ) from error


def open_parquet(path: Path, label: str) -> ParquetFile:
    """Open a Parquet file.

    Parameters
    ----------
    path : Path
        The file.
    label : str
        Its name in messages.

    Returns
    -------
    ParquetFile
        The file; its rows are not read yet.
    """
    parquet = import_optional("pyarrow.parquet", "cli")
    with _readable(label, "Parquet"), parquet.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
        # What pandas writes for its index.
        names = [name for name in schema.names if not name.startswith("__index_level_")]
        check_table(names, metadata.num_rows, label)
        row_bytes, shared = _column_sizes(schema, metadata)
    left_out = {}
    for name in names:
        type_ = schema.field(name).type
        # A character has at most four bytes. If the mean of all texts is longer, so is one of them.
        too_long = is_text(type_) and row_bytes[name] > 4 * MAX_TEXT_LENGTH
        reason = LONG_TEXT if too_long else unusable_reason(type_)
        if reason:
            left_out[name] = reason
    return ParquetFile(path, label, tuple(names), row_bytes, shared, left_out=left_out)


def _column_sizes(schema: Any, metadata: Any) -> tuple[dict[str, float], frozenset[str]]:
    """Return the bytes of one row of each column, and the texts that are stored once.

    The number of entries is exact, also in lists. The bytes of texts are those of the file before
    compression, which are as many as in memory unless repeated values are stored once.
    """
    row_bytes: dict[str, float] = {}
    shared: set[str] = set()
    leaf = 0
    for column in schema:
        leaves = range(leaf, leaf + _n_leaves(column.type))
        leaf = leaves.stop
        width = _entry_bytes(column.type)
        row_bytes[column.name] = float(width)
        for i in range(metadata.num_row_groups):
            group = metadata.row_group(i)
            chunks = [group.column(j) for j in leaves]
            entries = sum(chunk.num_values for chunk in chunks)
            total = sum(chunk.total_uncompressed_size for chunk in chunks)
            per_row = max(total, width * entries) / max(1, group.num_rows)
            row_bytes[column.name] = max(row_bytes[column.name], per_row)
            if is_text(column.type) and any(SHARED_ENCODINGS & {*c.encodings} for c in chunks):
                shared.add(column.name)
    return row_bytes, frozenset(shared)


def _n_leaves(type_: Any) -> int:
    """Return the number of columns in which Parquet stores a column."""
    pa = import_optional("pyarrow", "cli")
    type_ = getattr(type_, "storage_type", type_)
    if not pa.types.is_nested(type_):
        return 1
    if pa.types.is_map(type_):
        return _n_leaves(type_.key_type) + _n_leaves(type_.item_type)
    return sum(_n_leaves(type_.field(i).type) for i in range(type_.num_fields))


def _entry_bytes(type_: Any) -> int:
    """Return the bytes of a cell, or of an entry of a list."""
    pa = import_optional("pyarrow", "cli")
    while pa.types.is_nested(type_) and type_.num_fields == 1:
        type_ = type_.field(0).type
    try:
        return max(1, int(type_.bit_width) // 8)
    except ValueError:
        return 8


def check_table(names: Sequence[str], n_rows: int, label: str) -> None:
    """Raise TableError if a table has no rows, or two columns of one name."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TableError(f"{label}: {twice!r} names more than one column. Rename them.")
    if n_rows == 0:
        raise TableError(f"{label}: the file has a header but no data rows.")


def with_texts(table: Any, text: Collection[str]) -> Any:
    """Return a table whose columns `text` are text."""
    for name in text:
        if name in table.column_names:
            column = table.column(name)
            if not is_text(column.type):
                column = arrow_column(column.to_pylist(), as_text=True)
            table = table.set_column(table.schema.get_field_index(name), name, column)
    return table


@dataclass(frozen=True)
class ArrowFile(TableFile):
    """An Arrow file, which is also called Feather."""

    def _tables(self, names: list[str], text: Collection[str]) -> Generator[Any, None, None]:
        """Yield tables with the types of the file."""
        pa = import_optional("pyarrow", "cli")
        with _opened_arrow(self.path, self.label, names) as reader:
            for i in range(reader.num_record_batches):
                # Without a variable, which would keep one batch while the next one is read.
                yield with_texts(pa.Table.from_batches([reader.get_batch(i)]).select(names), text)


@contextmanager
def _opened_arrow(path: Path, label: str, names: Sequence[str] | None = None) -> Iterator[Any]:
    """Open an Arrow file, of which only the columns `names` are decompressed."""
    pa = import_optional("pyarrow", "cli")
    with _readable(label, "Arrow"), pa.OSFile(str(path)) as source:
        with pa.ipc.open_file(source) as reader:
            if names is None:
                yield reader
                return
            fields = sorted(map(reader.schema.get_field_index, names))
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        with pa.ipc.open_file(source, options=options) as reader:
            yield reader


def open_arrow(path: Path, label: str, budget: int) -> ArrowFile:
    """Open an Arrow or Feather file.

    Parameters
    ----------
    path : Path
        The file.
    label : str
        Its name in messages.
    budget : int
        Bytes that a record batch may have; it can only be read as a whole.

    Returns
    -------
    ArrowFile
        The file; its rows are not read yet.
    """
    pa = import_optional("pyarrow", "cli")
    with _opened_arrow(path, label) as reader:
        schema, n_batches = reader.schema, reader.num_record_batches
    try:
        size = largest_batch_bytes(path)
    except (struct.error, pa.ArrowException) as error:
        raise TableError(f"{label}: corrupted Arrow file ({error}). Re-create it.") from error
    if size > budget:
        raise TableError(
            f"{label}: a record batch has {show_bytes(size)} uncompressed, and the memory budget "
            f"allows {show_bytes(budget)} (a quarter of --memory). Save the table as Parquet, which "
            "is read in parts, or increase --memory."
        )
    names = list(schema.names)
    check_table(names, n_batches, label)
    reasons = {name: unusable_reason(schema.field(name).type) for name in names}
    left_out = {name: reason for name, reason in reasons.items() if reason}
    return ArrowFile(path, label, tuple(names), left_out=left_out)
