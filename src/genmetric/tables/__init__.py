"""Tables with columns of any kind: which are features, how each becomes numbers, and why.

The transformers are imported when they are first used: importing scikit-learn takes a second,
which an error about a table must not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from genmetric.tables._columns import ColumnPlan
from genmetric.tables._errors import TableError
from genmetric.tables._plan import TablePlan, plan_columns
from genmetric.tables._reading import read_table
from genmetric.tables._target import TargetPlan, split_target

if TYPE_CHECKING:
    from genmetric.tables._encoders import BooleanParser as BooleanParser
    from genmetric.tables._encoders import CategoryPooler as CategoryPooler
    from genmetric.tables._encoders import NumberParser as NumberParser
    from genmetric.tables._expanders import DateEncoder as DateEncoder
    from genmetric.tables._expanders import VectorExpander as VectorExpander
    from genmetric.tables._preprocessor import make_preprocessor as make_preprocessor

#: Modules of the names that need scikit-learn.
_HOMES = {
    "BooleanParser": "_encoders",
    "CategoryPooler": "_encoders",
    "DateEncoder": "_expanders",
    "NumberParser": "_encoders",
    "VectorExpander": "_expanders",
    "make_preprocessor": "_preprocessor",
}

__all__ = [
    "BooleanParser",
    "CategoryPooler",
    "ColumnPlan",
    "DateEncoder",
    "NumberParser",
    "TableError",
    "TablePlan",
    "TargetPlan",
    "VectorExpander",
    "make_preprocessor",
    "plan_columns",
    "read_table",
    "split_target",
]


def __getattr__(name: str) -> Any:
    """Import a name that needs scikit-learn."""
    if name not in _HOMES:
        raise AttributeError(f"module 'genmetric.tables' has no attribute {name!r}")
    value = getattr(import_module(f"genmetric.tables.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
