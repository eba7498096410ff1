"""Decoded size of Arrow tables, and columns that are left out because of it.

A file of a few kilobytes can hold gigabytes: one text of a megabyte that thousands of rows refer
to, or lists of a million zeros. The number of rows and columns does not tell, so sizes are counted
in bytes of the decoded cells.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from genmetric._optional import import_optional
from genmetric._typing import FloatArray

#: Bytes of decoded cells in one batch.
BATCH_BYTES = 16 << 20

#: Characters of a text. A column with a longer one is left out: it is neither a number, nor a date,
#: nor a category.
MAX_TEXT_LENGTH = 4096

#: Why such a column is left out.
LONG_TEXT = f"contains texts of more than {MAX_TEXT_LENGTH} characters"

#: Bytes of a text and of a list as a Python object, in addition to their characters and numbers.
TEXT_OBJECT_BYTES = 64
LIST_OBJECT_BYTES = 128


def is_text(type_: Any) -> bool:
    """Return whether an Arrow type is text, or a dictionary of texts."""
    pa = import_optional("pyarrow", "cli")
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def unusable_reason(type_: Any) -> str:
    """Return why all columns of an Arrow type are left out; empty if they are not.

    Such columns are not decoded.
    """
    pa = import_optional("pyarrow", "cli")
    kind = pa.types
    if kind.is_binary(type_) or kind.is_large_binary(type_) or kind.is_fixed_size_binary(type_):
        return "contains cells of type bytes"
    if kind.is_struct(type_) or kind.is_map(type_):
        return "nested objects; give each entry a column"
    if kind.is_nested(type_) and (
        type_.num_fields != 1 or is_text(type_.field(0).type) or kind.is_nested(type_.field(0).type)
    ):
        return "lists of something other than numbers"
    return ""


def row_sizes(table: Any) -> FloatArray:
    """Return the bytes that each row of an Arrow table takes as Python objects and numbers.

    Parameters
    ----------
    table : pyarrow.Table
        Columns; texts may be dictionaries.

    Returns
    -------
    ndarray of shape (n_rows,)
        Decoded size of each row.
    """
    sizes = np.zeros(table.num_rows)
    for column in table.columns:
        sizes += _cell_sizes(column)
    return sizes


def _cell_sizes(column: Any) -> FloatArray | float:
    pa, pc = import_optional("pyarrow", "cli"), import_optional("pyarrow.compute", "cli")
    if is_text(column.type):
        return TEXT_OBJECT_BYTES + _text_lengths(column, pc.binary_length)
    if len(column) == 0:
        return 0.0
    if pa.types.is_nested(column.type) and not unusable_reason(column.type):
        # Vectors become float64.
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        return LIST_OBJECT_BYTES + 8 * np.asarray(lengths.to_numpy(), dtype=float)
    return 8.0 + float(column.nbytes) / len(column)


def _text_lengths(column: Any, measure: Any) -> FloatArray:
    """Return `measure` of every text; that of a dictionary is computed once per entry."""
    pa, pc = import_optional("pyarrow", "cli"), import_optional("pyarrow.compute", "cli")
    parts = [np.zeros(0)]
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            lengths = pc.take(measure(chunk.dictionary), chunk.indices)
        else:
            lengths = measure(chunk)
        parts.append(pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False).astype(float))
    return np.concatenate(parts)


def has_long_text(column: Any) -> bool:
    """Return whether a column has a text of more than :data:`MAX_TEXT_LENGTH` characters."""
    pc = import_optional("pyarrow.compute", "cli")
    if not is_text(column.type) or len(column) == 0:
        return False
    if _text_lengths(column, pc.binary_length).max() <= MAX_TEXT_LENGTH:
        return False
    return bool(_text_lengths(column, pc.utf8_length).max() > MAX_TEXT_LENGTH)


def without_columns(table: Any, names: Sequence[str], left_out: dict[str, str]) -> Any:
    """Return a table with the columns `names`, of which those left out are null.

    Parameters
    ----------
    table : pyarrow.Table
        Has at least the columns that are not left out.
    names : sequence of str
        Columns in order.
    left_out : dict of str to str
        Columns that are not needed, and why.

    Returns
    -------
    pyarrow.Table
        The table.
    """
    pa = import_optional("pyarrow", "cli")
    if not left_out:
        return table
    empty = pa.nulls(table.num_rows)
    columns = [empty if name in left_out else table.column(name) for name in names]
    return pa.table(columns, names=list(names))


def bounded_parts(table: Any) -> Generator[Any, None, None]:
    """Yield a table in parts of at most :data:`BATCH_BYTES`, whose texts are not dictionaries.

    Parameters
    ----------
    table : pyarrow.Table
        The table.

    Yields
    ------
    pyarrow.Table
        At least one row, and more only if they are not larger than a batch.
    """
    # Batch in which each row ends. A row that is larger than a batch has one of its own.
    ends = np.cumsum(row_sizes(table))
    start = 0
    while start < table.num_rows:
        before = ends[start - 1] if start else 0.0
        stop = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        stop = max(stop, start + 1)
        yield _decoded(table.slice(start, stop - start))
        start = stop


def _decoded(table: Any) -> Any:
    """Return a table in which dictionaries of texts are texts."""
    pa, pc = import_optional("pyarrow", "cli"), import_optional("pyarrow.compute", "cli")
    for j, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type) and is_text(field.type):
            texts = pc.cast(table.column(j), field.type.value_type)
            table = table.set_column(j, field.name, texts)
    return table
