"""The paper's experiments: its datasets, methods and tables, recomputed."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genmetric.reproduction.pages import run_tables as run_tables

__all__ = ["TABLES", "run_tables"]

#: Names of the paper's tables.
TABLES = ("small", "large", "nonlinear", "density", "clustering", "timing", "isomap")


def __getattr__(name: str) -> Any:
    """Import `run_tables` when it is first used: the command line lists the tables without it."""
    if name == "run_tables":
        from genmetric.reproduction.pages import run_tables

        return run_tables
    raise AttributeError(f"module 'genmetric.reproduction' has no attribute {name!r}")
