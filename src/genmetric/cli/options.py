"""Options that commands share, and the table they describe."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

DATA = click.argument("data", metavar="DATA", type=click.Path(path_type=Path))
MODEL = click.argument("model", metavar="MODEL", type=click.Path(path_type=Path))

#: Bytes of a file beyond which `fit` reads it in batches.
STREAM_BYTES = 256 << 20


def stacked(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, shown in the order given."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


#: How a CSV file is written; Parquet files need no such words.
file_options = stacked(
    click.option(
        "--delimiter", metavar="CHAR", help="Between cells; found by itself if not given."
    ),
    click.option("--encoding", metavar="NAME", help="Of the text, UTF-8 if not given."),
)

#: Which columns are what.
column_options = stacked(
    click.option("-t", "--target", required=True, metavar="COL", help="Column of the classes."),
    click.option("--id", "id_column", metavar="COL", help="Column that names rows; no feature."),
    click.option(
        "--feature",
        "features",
        multiple=True,
        metavar="COL",
        help="Use this column; repeat for more. All others if not given.",
    ),
    click.option("--ignore", multiple=True, metavar="COL", help="Leave a column out; repeat."),
    click.option("--categorical", is_flag=True, help="Turn words into features of 0 and 1."),
    click.option(
        "--category",
        multiple=True,
        metavar="COL",
        help="Treat this column so, numbers too; repeat.",
    ),
    click.option("--impute", is_flag=True, help="Fill in missing numbers with the column's mean."),
    file_options,
)

seed_option = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Of chance."
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress and no remarks.")


def opened(path: Path, options: dict[str, Any]) -> Any:
    """The table of a file, with the options of :data:`file_options`."""
    from genmetric.tables import open_table

    return open_table(
        path, delimiter=unescaped(options.get("delimiter")), encoding=options.get("encoding")
    )


def unescaped(delimiter: str | None) -> str | None:
    r"""A delimiter as typed: the two characters ``\t`` and the word ``tab`` are a tab."""
    return "\t" if delimiter in (r"\t", "tab") else delimiter


def planned(table: Any, options: dict[str, Any]) -> Any:
    """The recipe of a table, with the options of :data:`column_options`, not yet learned."""
    from genmetric.tables import plan_columns

    names = ("target", "id_column", "features", "ignore", "categorical", "category", "impute")
    return plan_columns(table, **{name: options[name] for name in names})


def warn_counting(rows: Any, table: Any, recipe: Any) -> None:
    """Warn of columns that number the rows."""
    from genmetric.tables import counting_columns

    for name in counting_columns(rows, table, recipe):
        warnings.warn(
            f"column {name!r} counts the rows and is used as a feature. Perhaps it is an "
            f"identifier: --id {name}.",
            UserWarning,
            stacklevel=2,
        )


def warn_unknown(unknown: dict[str, set[str]]) -> None:
    """Warn of words that no training row had."""
    for name, words in unknown.items():
        few = ", ".join(repr(word) for word in sorted(words)[:3])
        more = ", ..." if len(words) > 3 else ""
        warnings.warn(
            f"column {name!r} holds words that the model has not seen ({few}{more}); they count as "
            "none of its categories.",
            UserWarning,
            stacklevel=2,
        )
