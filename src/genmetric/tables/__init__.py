"""Tables of people: CSV and Parquet files read by the names of their columns, and written."""

from genmetric.tables.recipe import Column, Recipe, learn_recipe, plan_columns
from genmetric.tables.rows import Rows, check_labels, counting_columns, read_rows, row_batches
from genmetric.tables.sniffing import TableError
from genmetric.tables.sources import TableFile, open_table
from genmetric.tables.writing import TableWriter

__all__ = [
    "Column",
    "Recipe",
    "Rows",
    "TableError",
    "TableFile",
    "TableWriter",
    "check_labels",
    "counting_columns",
    "learn_recipe",
    "open_table",
    "plan_columns",
    "read_rows",
    "row_batches",
]
