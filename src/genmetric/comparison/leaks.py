"""Signs that scores are better than they will be on new samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from genmetric._text import import_optional
from genmetric._typing import AnyArray, FloatArray
from genmetric.comparison.methods import Task
from genmetric.comparison.result import Comparison

#: Fewest distinct values of a column that can be a group: fewer are categories.
MIN_GROUPS = 10


def group_columns(X: Any, y: AnyArray, columns: list[dict[str, Any]]) -> list[str]:
    """Find the columns of a table whose repeating values each belong to one class.

    Such a column names the subject, device or batch of a row. It predicts the class of rows of
    known subjects and of no others.
    """
    shares, found = np.unique(y, return_counts=True)[1] / len(y), []
    for column in columns:
        if column["asked"] or column["kind"] in ("date", "vector", "boolean"):
            continue
        table = import_optional("pandas", "cli").crosstab(X[column["name"]].astype(str), y)
        sizes, counts = table.sum(axis=1).to_numpy(), table.to_numpy()
        few = len(table) < max(MIN_GROUPS, 3 * len(shares))
        if few or sizes[sizes > 1].sum() < 0.9 * len(y) or ((counts > 0).sum(axis=1) > 1).any():
            continue
        # Small groups can be of one class by chance.
        by_chance = np.log(np.power.outer(shares, sizes).sum(axis=0)).sum() > np.log(1e-6)
        if not by_chance and not _is_threshold(column, table.index.to_numpy(), counts):
            found.append(column["name"])
    return found


def _is_threshold(column: dict[str, Any], values: AnyArray, table: AnyArray) -> bool:
    """Return whether the class changes so rarely along the numbers that they measure it."""
    if column["kind"] not in ("number", "ordered"):
        return False
    try:
        numbers = values.astype(float)
    except ValueError:
        return False
    changes = np.diff(table.argmax(axis=1)[np.argsort(numbers)]) != 0
    return bool((numbers != np.floor(numbers)).any() or changes.sum() < len(values) / 5)


def leak_warnings(found: Comparison) -> list[str]:
    """Return sentences on copies of rows, columns that hold the answer, and too good results."""
    features = found.encoded()
    warnings = []
    copies = _copies(features)
    if copies >= max(2, 0.005 * len(features)) and not found.splitter:
        warnings.append(
            f"{copies} of {len(features)} rows are copies of other rows. Copies in training and test "
            "rows make every score too good: remove them, or give their origin as groups (--group)."
        )
    constant = next((r for r in found.ran if r.key in ("majority", "mean")), None)
    best = min((r for r in found.ran), key=lambda r: r.error, default=None)
    if constant is None or best is None or best.error > 0.05 * constant.error:
        return warnings
    columns = getattr(found.encoder, "feature_columns_", np.asarray(found.feature_names))
    warnings += [
        f"the single column {name!r} predicts almost everything. If it is known only after the "
        f"target, or is another form of it, leave it out (--drop {name})."
        for name in dict.fromkeys(columns.tolist())
        if _predicts(features[:, columns == name], found.y, found.task)
    ]
    if best.error < 0.005 * constant.error and not warnings:
        warnings.append(
            f"the {found.scoring.label} of {best.name} is almost perfect. If this is too good to be "
            "true: do columns contain the answer, or do rows of one subject or time belong together "
            "(--group, --time)?"
        )
    return warnings


def _copies(features: FloatArray) -> int:
    """Count the rows that repeat others, unless so few different rows exist that they must."""
    n_values = [len(np.unique(column)) for column in features.T]
    if np.log(n_values).sum() < np.log(100 * len(features)):
        return 0
    return len(features) - len(np.unique(features, axis=0))


def _predicts(x: FloatArray, y: AnyArray, task: Task) -> bool:
    """Return whether a small tree on the features of one column predicts almost everything."""
    if task == "regression":
        tree = DecisionTreeRegressor(min_samples_leaf=5, random_state=0)
        return bool(cross_val_score(tree, x, y, cv=3).mean() > 0.98)
    _, counts = np.unique(y, return_counts=True)
    tree = DecisionTreeClassifier(max_leaf_nodes=2 * len(counts) + 8, random_state=0)
    error = 1 - float(cross_val_score(tree, x, y, cv=min(3, int(counts.min()))).mean())
    return bool(error < 0.05 * (1 - counts.max() / len(y)))
