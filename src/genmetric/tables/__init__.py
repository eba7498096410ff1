"""Tables with columns of any kind: read files, decide what each column is, encode it as numbers.

The functions are imported when they are first used: pandas, pyarrow and scikit-learn take a
second, which an error about a table must not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genmetric.tables.columns import MISSING_WORDS as MISSING_WORDS
    from genmetric.tables.encoder import TableEncoder as TableEncoder
    from genmetric.tables.read import read_batches as read_batches
    from genmetric.tables.read import read_table as read_table
    from genmetric.tables.read import row_label as row_label
    from genmetric.tables.target import Target as Target
    from genmetric.tables.target import split_target as split_target
    from genmetric.tables.write import output_format as output_format
    from genmetric.tables.write import write_table as write_table

_MODULES = {
    "MISSING_WORDS": "columns",
    "TableEncoder": "encoder",
    "Target": "target",
    "output_format": "write",
    "read_batches": "read",
    "read_table": "read",
    "row_label": "read",
    "split_target": "target",
    "write_table": "write",
}

__all__ = ["MISSING_WORDS", "TableEncoder", "TableError", "Target", "output_format"]
__all__ += ["read_batches", "read_table", "row_label", "split_target", "write_table"]


class TableError(ValueError):
    """A table cannot be read or used as it is; the text is one line that says what to do."""


def __getattr__(name: str) -> Any:
    """Import a name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'genmetric.tables' has no attribute {name!r}")
    value = getattr(import_module(f"genmetric.tables.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
