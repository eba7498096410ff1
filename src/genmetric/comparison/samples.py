"""The samples of a comparison: targets, columns, groups, and which of them are used."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.utils import resample

from genmetric._text import did_you_mean
from genmetric._typing import AnyArray
from genmetric._validation import as_numbers, check_class_labels, check_count, is_quantity
from genmetric.comparison.leaks import group_columns
from genmetric.comparison.methods import Task
from genmetric.comparison.result import Comparison, take
from genmetric.comparison.scoring import Scoring, find_scoring


def labels_of(X: Any, label: Any, name: str) -> tuple[Any, AnyArray | None]:
    """Return a table and the groups or times of its rows; a column that holds them is taken out."""
    X = X.to_pandas() if hasattr(X, "to_pandas") else X
    values = label
    if isinstance(label, str):
        names = [str(column) for column in getattr(X, "columns", ())]
        if label not in names:
            hint = did_you_mean(label, names)
            raise ValueError(f"X has no column {label!r} ({name}). {hint}".rstrip())
        cells, X = X[[label]], X.drop(columns=label)
        if cells[label].isna().any():
            raise ValueError(f"the column {label!r} ({name}) has missing values. Fill them first.")
        values = cells[label].to_numpy()
        if name == "time" and values.dtype.kind == "O":
            from genmetric.tables import TableEncoder

            values = TableEncoder().fit_transform(cells)[:, 0]
    if values is not None and np.shape(values) != (len(X),):
        raise ValueError(f"{name} must have shape ({len(X)},); got {np.shape(values)}.")
    return X, None if values is None else np.asarray(values)


def collect(
    X: Any, y: Any, target: str | None, task: Task | None, columns: Any, names: Any
) -> Comparison:
    """Check samples and targets, and decide about the columns of a table."""
    if (y is None) == (target is None):
        raise ValueError("Pass either y or target, the name of the column with the targets.")
    if task not in (None, "classification", "regression"):
        raise ValueError(f'task must be "classification", "regression" or None; got {task!r}.')
    found, frame = Comparison(rows=np.arange(len(X))), hasattr(X, "iloc")
    if target is not None:
        if not frame:
            raise TypeError(f"target needs a DataFrame X; got {type(X).__name__}. Pass y instead.")
        from genmetric.tables import split_target

        table = X
        X, y, found.target = split_target(table, target, task)
        task, found.rows = found.target.task, np.flatnonzero(found.target.read(table)[1])
        found.notes += [f"target {found.target.summary}", *found.target.notes]
    found.y, found.task = _check_target(y, task)
    if task is None and found.task == "regression":
        distinct = len(np.unique(found.y))
        found.notes.append(f"target: a number, {distinct} distinct values (task to change it)")
    if len(X) != len(found.y):
        raise ValueError(f"X has {len(X)} samples, but y has {len(found.y)} targets.")
    if columns is None and frame:
        from genmetric.tables import TableEncoder

        columns = TableEncoder()
    elif columns is None:
        X = as_numbers(X, "X")
        if X.ndim != 2 or np.isinf(X).any():
            raise ValueError(f"X must be two-dimensional and finite; got shape {X.shape}.")
        columns = SimpleImputer(keep_empty_features=True) if np.isnan(X).any() else None
    if columns is not None:
        found.encoder = clone(columns).fit(X, found.y)
    found.X = X
    if hasattr(found.encoder, "columns_"):
        _leave_out_groups(found)
        lines = found.encoder.summary().splitlines()
        found.notes += [*(line.strip() for line in lines), *found.encoder.notes_]
    if frame:
        names = found.encoder.get_feature_names_out()
    elif names is None:
        names = [f"x{j}" for j in range(np.shape(X)[1])]
    found.feature_names = tuple(map(str, names))
    return found


def _leave_out_groups(found: Comparison) -> None:
    """Leave out columns that name the subject of a row, with a warning."""
    if found.task == "regression":
        return
    for name in group_columns(found.X, found.y, found.encoder.columns_):
        found.encoder.set_params(drop=(*found.encoder.drop, name)).fit(found.X, found.y)
        found.warnings.append(
            f"each value of the column {name!r} belongs to one class: it seems to name the subject of "
            f"a row and is left out. To test on new subjects, pass it as groups (--group {name}); to "
            f"use it as a feature, say what it is (--as-category {name})."
        )


def _check_target(y: Any, task: Task | None) -> tuple[AnyArray, Task]:
    """Return targets as an array, and their kind."""
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must be one-dimensional; got shape {y.shape}.")
    numeric = y.dtype.kind in "iufb"
    if not np.isfinite(y).all() if numeric else any(v is None or v != v for v in y):  # noqa: PLR0124
        raise ValueError("y contains missing or infinite values. Remove samples without a target.")
    if task is None:
        task = "regression" if numeric and is_quantity(y) else "classification"
    if task == "classification":
        check_class_labels(y, "A comparison")
        return y, task
    if not numeric or len(np.unique(y)) < 3:
        raise ValueError(
            'y must have at least 3 different numbers for task="regression"; found '
            f'{np.unique(y)[:3].tolist()}. Use task="classification" for classes.'
        )
    return y.astype(np.float64), task


def leave_out(found: Comparison, max_samples: int | None) -> None:
    """Draw samples of a large table, and leave out classes with a single sample."""
    kept, y = np.arange(len(found.y)), found.y
    if max_samples is not None and len(kept) > check_count(max_samples, "max_samples"):
        strata = y if found.task == "classification" else None
        kept = resample(
            kept, replace=False, n_samples=max_samples, stratify=strata, random_state=found.seed
        )
        kept = np.sort(kept)
        found.notes.append(f"compared on {len(kept)} of {len(y)} samples, drawn at random")
    if found.task == "classification":
        classes, counts = np.unique(y[kept], return_counts=True)
        single = classes[counts == 1]
        if len(single):
            few = ", ".join(map(str, single[:3].tolist())) + (", ..." if len(single) > 3 else "")
            found.notes.append(f"classes with a single sample are left out: {few}")
            kept = kept[~np.isin(y[kept], single)]
        found.class_names = tuple(map(str, classes[counts > 1].tolist()))
        found.class_counts = counts[counts > 1]
        if len(found.class_names) < 2:
            kept = kept[:0]
    if len(kept) < 4:
        raise ValueError(
            "A comparison needs at least 4 samples, and two classes with at least two samples each "
            f"if the target is classes; got {len(kept)} samples."
        )
    found.X, found.y, found.rows = take(found.X, kept), y[kept], found.rows[kept]


def choose_scoring(found: Comparison, scoring: str | Scoring | None) -> None:
    """Set the score: by default the error rate, balanced if a class is rare, or R²."""
    if scoring is not None or found.task == "regression":
        found.scoring = find_scoring(scoring or "r2", found.task)
        return
    counts, n = found.class_counts, len(found.y)
    # With many classes all are small; one is rare if it is much smaller than the others.
    if counts.min() < 0.05 * n and counts.min() * len(counts) < 0.5 * n:
        found.scoring = find_scoring("balanced_error", found.task)
        found.notes.append(
            "score: the balanced error rate, in which each class counts equally, because only "
            f"{counts.min() / n:.1%} of the samples are {found.class_names[int(counts.argmin())]!r}"
        )
