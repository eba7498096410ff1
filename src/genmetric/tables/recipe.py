"""Which columns of a table are features, and how each becomes numbers."""

from __future__ import annotations

import difflib
import shlex
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genmetric._extras import need
from genmetric._typing import AnyArray
from genmetric.tables.sniffing import TableError, header_hint, quoted
from genmetric.tables.sources import Kind, TableFile

#: A column with more different words than this is no category.
MOST_CATEGORIES = 100


@dataclass(frozen=True)
class Column:
    """How one column becomes features.

    Attributes
    ----------
    name : str
        In the file.
    categories : tuple of str or None
        The words of a category, each a feature that is 1 where the cell holds it; ``None`` for a
        column of numbers.
    fill : float or None
        What stands for a missing number; ``None`` refuses missing values. A missing category is
        none of the words, all its features 0.
    """

    name: str
    categories: tuple[str, ...] | None = None
    fill: float | None = None

    @property
    def kind(self) -> Kind:
        """How to read the column."""
        return "number" if self.categories is None else "text"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features it becomes."""
        if self.categories is None:
            return (self.name,)
        return tuple(f"{self.name}={category}" for category in self.categories)


@dataclass(frozen=True)
class Recipe:
    """How the rows of a table become numbers: kept in a model file, so that new rows follow.

    Attributes
    ----------
    columns : tuple of Column
        In the order of the features.
    target : str or None
        Column of the classes.
    id : str or None
        Column that names the rows and is no feature.
    impute : bool
        Whether missing values are filled in.
    """

    columns: tuple[Column, ...]
    target: str | None = None
    id: str | None = None
    impute: bool = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features in order."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def needs_pass(self) -> bool:
        """Whether categories or fillings are still to be learned from the rows."""
        return self.impute or any(column.categories is not None for column in self.columns)

    def to_dict(self) -> dict[str, Any]:
        """The recipe as JSON can hold it."""
        return {
            "columns": [
                {
                    "name": c.name,
                    "categories": None if c.categories is None else list(c.categories),
                    "fill": c.fill,
                }
                for c in self.columns
            ],
            "target": self.target,
            "id": self.id,
            "impute": self.impute,
        }

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Recipe:
        """The recipe of :meth:`to_dict`."""
        columns = tuple(
            Column(
                str(entry["name"]),
                None if entry["categories"] is None else tuple(map(str, entry["categories"])),
                None if entry["fill"] is None else float(entry["fill"]),
            )
            for entry in entries["columns"]
        )
        return cls(columns, entries.get("target"), entries.get("id"), bool(entries.get("impute")))


def find_column(table: TableFile, name: str, role: str) -> str:
    """Return `name` if the table has such a column; otherwise name those that look like it.

    Parameters
    ----------
    table : TableFile
        The table.
    name : str
        What was asked for.
    role : str
        What for, as in "--target".

    Returns
    -------
    str
        The name.
    """
    if name in table.names:
        return name
    lower = {n.lower(): n for n in reversed(table.names)}
    near = [lower[n] for n in difflib.get_close_matches(name.lower(), lower, 3, 0.6)]
    if near:
        hint = f"Did you mean {' or '.join(map(repr, near))}?"
    else:
        hint = f"It has {quoted(table.names, 8)}."
    raise TableError(f"{table.path}: no column {name!r} ({role}). {hint}{header_hint(table.names)}")


def plan_columns(
    table: TableFile,
    *,
    target: str | None = None,
    id_column: str | None = None,
    features: Sequence[str] = (),
    ignore: Sequence[str] = (),
    categorical: bool = False,
    category: Sequence[str] = (),
    impute: bool = False,
) -> Recipe:
    """Choose the features of a table by the names and kinds of its columns.

    Parameters
    ----------
    table : TableFile
        The table.
    target, id_column : str, default=None
        Columns that are no features.
    features : sequence of str, default=()
        Columns to use; empty takes all others.
    ignore : sequence of str, default=()
        Columns to leave out.
    categorical : bool, default=False
        Whether columns of words become categories; otherwise they are refused.
    category : sequence of str, default=()
        Columns that are categories, whatever they hold.
    impute : bool, default=False
        Whether missing values will be filled in.

    Returns
    -------
    Recipe
        Its categories and fillings are still to be learned, see :func:`learn_recipe`.

    Raises
    ------
    TableError
        Names the columns that cannot be used, and what to do with them.
    """
    for names, role in (
        ([target], "--target"),
        ([id_column], "--id"),
        (features, "--feature"),
        (ignore, "--ignore"),
        (category, "--category"),
    ):
        for name in names:
            if name is not None:
                find_column(table, name, role)
    if target is not None and target in (id_column, *ignore, *features, *category):
        raise TableError(f"The target {target!r} cannot be a feature, the id or ignored as well.")
    apart = {target, id_column, *ignore}
    chosen = [n for n in (features or table.names) if n not in apart]
    chosen = list(dict.fromkeys([*chosen, *(n for n in category if n not in apart)]))
    if "" in chosen:
        # What pandas writes for its index.
        warnings.warn("a column without a name is left out.", UserWarning, stacklevel=2)
        chosen.remove("")
    as_category = {n for n in chosen if n in category or (categorical and table.kinds[n] == "text")}
    _refuse_kinds(table, [n for n in chosen if n not in as_category])
    if not chosen:
        raise TableError(f"{table.path}: no column is left as a feature.")
    columns = tuple(Column(n, () if n in as_category else None) for n in chosen)
    return Recipe(columns, target, id_column, impute)


def _refuse_kinds(table: TableFile, names: Sequence[str]) -> None:
    """Refuse columns that hold no numbers, by name."""
    words = [n for n in names if table.kinds[n] == "text"]
    if words:
        few = f"{words[0]!r} holds {table.examples.get(words[0], 'words')}"
        all_ = "" if len(words) == 1 else f" (in all: {quoted(words)})"
        raise TableError(
            f"{table.path}: column {few}, no numbers{all_}. --categorical makes a feature of each "
            f"word, --ignore {shlex.quote(words[0])} leaves the column out, --id {shlex.quote(words[0])} "
            "keeps it as the name of the row."
        )
    others = [n for n in names if table.kinds[n] != "number"]
    if others:
        name = others[0]
        what = "dates or times" if table.kinds[name] == "date" else "no numbers"
        raise TableError(
            f"{table.path}: column {name!r} holds {what} ({table.examples.get(name, '')})"
            f"{'' if len(others) == 1 else f', as do {quoted(others[1:])}'}. Turn them into "
            f"numbers, or leave the column out: --ignore {shlex.quote(name)}."
        )


def learn_recipe(table: TableFile, recipe: Recipe) -> Recipe:
    """Learn categories and fillings in one pass over the rows, where there are any to learn.

    Parameters
    ----------
    table : TableFile
        The training rows.
    recipe : Recipe
        As :func:`plan_columns` made it.

    Returns
    -------
    Recipe
        With the words of each category in sorted order, and with `impute` the mean of each column
        of numbers.
    """
    if not recipe.needs_pass:
        return recipe
    pc = need("pyarrow.compute", "cli")
    words: dict[str, Counter[str | None]] = {}
    # Means as sums about the first values: a sum of large values would lose their digits.
    sums: dict[str, tuple[float, float, int]] = {}
    for batch in table.batches({c.name: c.kind for c in recipe.columns}):
        for column, array in zip(recipe.columns, batch.columns, strict=True):
            if column.categories is not None:
                counts = words.setdefault(column.name, Counter())
                for entry in pc.value_counts(array).to_pylist():
                    counts[entry["values"]] += entry["counts"]
                if len(counts) > MOST_CATEGORIES + 1:
                    raise TableError(
                        f"{table.path}: column {column.name!r} holds more than {MOST_CATEGORIES} "
                        f"different words, too many for a category. --ignore {shlex.quote(column.name)}"
                        f" leaves it out, --id {shlex.quote(column.name)} keeps it as the name of the "
                        "row."
                    )
            else:
                values = finite_part(array)
                if len(values):
                    at, total, n = sums.get(column.name, (float(values[0]), 0.0, 0))
                    total += float(np.sum(values - at))
                    sums[column.name] = (at, total, n + len(values))
    columns = []
    for column in recipe.columns:
        if column.categories is not None:
            found = tuple(sorted(w for w in words[column.name] if w is not None))
            if not found:
                raise _no_values(table, column.name)
            columns.append(replace(column, categories=found))
        elif recipe.impute:
            if column.name not in sums:
                raise _no_values(table, column.name)
            at, total, n = sums[column.name]
            columns.append(replace(column, fill=at + total / n))
        else:
            columns.append(column)
    return replace(recipe, columns=tuple(columns))


def _no_values(table: TableFile, name: str) -> TableError:
    return TableError(
        f"{table.path}: column {name!r} has no values at all. Leave it out: --ignore {shlex.quote(name)}."
    )


def finite_part(array: Any) -> AnyArray:
    """The finite numbers of an Arrow column."""
    values = np.asarray(array.to_numpy(zero_copy_only=False), dtype=float)
    return np.asarray(values[np.isfinite(values)])
