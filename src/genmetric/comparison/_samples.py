"""The samples of a comparison: encoded fold by fold, and again for the final model."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from genmetric._labels import check_class_labels
from genmetric._quantity import is_quantity
from genmetric._scoring import Task
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import as_numbers
from genmetric.comparison._method import Budget, Method, TrainingData
from genmetric.tables import make_preprocessor, plan_columns, split_target
from genmetric.tables._cells import column_array, is_frame, is_missing, select_rows
from genmetric.tables._plan import nearest_names


@dataclass(frozen=True)
class ComparedSamples:
    """Samples with their targets, and how columns become features.

    Attributes
    ----------
    X : DataFrame or ndarray of shape (n_samples, n_columns)
        The samples as given.
    y : ndarray of shape (n_samples,)
        Class labels, or numeric targets.
    columns : transformer or None
        Unfitted transformer from columns to numeric features without missing values; None if
        `X` is an array of features already.
    rows : ndarray of shape (n_samples,) or None
        Positions of the samples in the table given; None if it is all of them.
    time_limit : float
        Seconds that a method may take.
    plan : sequence of genmetric.tables.ColumnPlan
        How each column of a DataFrame is read; empty if it is not known.
    task : {"classification", "regression"}
        Kind of target.
    """

    X: Any
    y: AnyArray
    columns: Any = None
    rows: IntArray | None = None
    time_limit: float = 60.0
    plan: Sequence[Any] = ()
    task: Task = "classification"

    def take(self, rows: IntArray) -> ComparedSamples:
        """Return some of the samples."""
        positions = rows if self.rows is None else self.rows[rows]
        return replace(self, X=select_rows(self.X, rows), y=self.y[rows], rows=positions)

    def split(self, train: IntArray, test: IntArray) -> tuple[FloatArray, FloatArray]:
        """Encode training and test samples; the encoding is learned from the training samples."""
        a, b = select_rows(self.X, train), select_rows(self.X, test)
        if self.columns is None:
            return np.asarray(a), np.asarray(b)
        columns = clone(self.columns).fit(a, self.y[train])
        return dense(columns.transform(a)), dense(columns.transform(b))

    def encoded(self) -> FloatArray:
        """Encode all samples."""
        if self.columns is None:
            return np.asarray(self.X)
        return dense(clone(self.columns).fit(self.X, self.y).transform(self.X))

    def limit(self, method: Method) -> int | None:
        """Return the number of samples that the metric of a method may be learned from."""
        return method.decide(Budget(len(self.y), self.time_limit)).max_samples

    def training(self, method: Method, encoded: FloatArray, seed: int) -> TrainingData:
        """Return all samples, encoded, as training data of a method."""
        return TrainingData(encoded, self.y, seed, self.limit(method), self.task)

    def fit(self, method: Method, seed: int) -> Pipeline:
        """Fit a method on all samples; the encoding is the first step, "columns"."""
        if self.columns is None:
            model: Pipeline = method.fit(self.training(method, np.asarray(self.X), seed)).model
            return model
        columns = clone(self.columns).fit(self.X, self.y)
        training = self.training(method, dense(columns.transform(self.X)), seed)
        return Pipeline([("columns", columns), *method.fit(training).model.steps])


def collect_samples(
    X: Any,
    y: ArrayLike | None = None,
    *,
    target: str | None = None,
    columns: Any = None,
    feature_names: Sequence[str] | None = None,
    task: Task | None = None,
) -> tuple[ComparedSamples, tuple[str, ...], list[str]]:
    """Validate samples and targets, and decide how columns become features.

    Parameters
    ----------
    X, y, target, columns, feature_names, task
        As of :func:`genmetric.compare_metrics`.

    Returns
    -------
    samples : ComparedSamples
        The samples.
    names : tuple of str
        Names of the features.
    notes : list of str
        Remarks on columns and rows that were left out.
    """
    if (y is None) == (target is None):
        raise ValueError("Pass either y or target, the name of the column with the targets.")
    if task not in (None, "classification", "regression"):
        raise ValueError(f'task must be "classification", "regression" or None; got {task!r}.')
    notes: list[str] = []
    planned: Sequence[Any] = ()
    if target is not None and not is_frame(X):
        raise TypeError(f"target needs a DataFrame X; got {type(X).__name__}. Pass y instead.")
    if is_frame(X) and columns is None:
        named = () if target is None else (target,)
        plan = plan_columns(
            X,
            target=target,
            as_category=named if task == "classification" else (),
            as_number=named if task == "regression" else (),
        )
        notes = [*(line.strip() for line in plan.lines()[1:])]
        columns, planned = make_preprocessor(plan), plan.columns
        if plan.target is None:
            X = X[list(plan.features)]
        else:
            task = "regression" if plan.target.kind == "number" else "classification"
            X, y = split_target(X, plan)
    elif target is not None:
        y = X[target]
    labels, task, reason = check_target(y, task)
    if reason:
        notes.append(reason)
    if columns is None:
        x = as_numbers(X, "X")
        if x.ndim != 2:
            raise ValueError(f"X must be two-dimensional; got shape {x.shape}.")
        if np.isinf(x).any():
            raise ValueError("X contains infinite values. Remove or replace them.")
        names = [f"x{j}" for j in range(x.shape[1])] if feature_names is None else feature_names
        if np.isnan(x).any():
            columns = SimpleImputer(keep_empty_features=True)
        X = x
    if len(X) != len(labels):
        raise ValueError(f"X has {len(X)} samples, but y has {len(labels)} targets.")
    if is_frame(X):
        names = clone(columns).fit(X, labels).get_feature_names_out()
    samples = ComparedSamples(X, labels, columns, plan=planned, task=task)
    return samples, tuple(map(str, names)), notes


def split_groups(X: Any, name: str, target: str | None) -> tuple[Any, AnyArray]:
    """Split a table into the other columns and the group labels of its rows.

    Parameters
    ----------
    X : DataFrame
        The table.
    name : str
        Column with the groups.
    target : str or None
        Column with the targets, which must be another one.

    Returns
    -------
    X : DataFrame
        The other columns.
    groups : ndarray of shape (n_samples,)
        The labels.
    """
    if not is_frame(X):
        raise TypeError(
            f"groups={name!r} is the name of a column and needs a DataFrame X; got "
            f"{type(X).__name__}. Pass one label per sample instead."
        )
    columns = list(X.columns)
    if name not in columns:
        others = [str(column) for column in columns]
        raise ValueError(f"there is no column {name!r} (groups). {nearest_names(name, others)}")
    if name == target:
        raise ValueError(f"groups and target are the same column, {name!r}. Use another column.")
    groups = column_array(X, name)
    if any(map(is_missing, groups)):
        raise ValueError(
            f"the column {name!r} of groups has missing values. Give each sample a group, for "
            "example one of its own, or remove these samples."
        )
    return X[[column for column in columns if column != name]], groups


def check_target(y: Any, task: Task | None) -> tuple[AnyArray, Task, str]:
    """Validate targets, and decide whether they are classes or numbers.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Targets.
    task : {"classification", "regression"} or None
        Kind of target; None decides by type and number of distinct values, as for a table.

    Returns
    -------
    y : ndarray of shape (n_samples,)
        Class labels, or float64.
    task : {"classification", "regression"}
        Kind of target.
    reason : str
        Why the targets are numbers; empty if that was not decided here.
    """
    reason = ""
    if task is None:
        values = np.asarray(y)
        task = "classification"
        if values.dtype.kind in "iuf" and values.ndim == 1 and np.isfinite(values).all():
            distinct = len(np.unique(values))
            if is_quantity(values):
                task = "regression"
                reason = f"the target is a number: {distinct} distinct values"
    if task == "classification":
        return check_labels(y), task, reason
    return check_numbers(y), task, reason


def check_numbers(y: Any) -> FloatArray:
    """Return numeric targets as a one-dimensional array; raise if they are not numbers."""
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f'y must contain numbers for task="regression"; got {reprlib.repr(y)}. Use '
            'task="classification" for class labels.'
        ) from error
    if values.ndim != 1:
        raise ValueError(f"y must be one-dimensional; got shape {values.shape}.")
    if not np.isfinite(values).all():
        raise ValueError(
            "y contains missing values, NaN or infinity. Remove samples without a target."
        )
    distinct = np.unique(values)
    if len(distinct) < 3:
        listed = " and ".join(f"{value:g}" for value in distinct) or "none"
        raise ValueError(
            f'y must have at least 3 distinct values for task="regression"; found {listed}. Use '
            'task="classification" if they are classes.'
        )
    return values


def check_labels(y: Any) -> AnyArray:
    """Return class labels as a one-dimensional array; raise if they are not classes."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y must be one-dimensional; got shape {labels.shape}.")
    missing = labels.dtype == object and any(map(is_missing, labels))
    if missing or (labels.dtype.kind == "f" and not np.isfinite(labels).all()):
        raise ValueError(
            "y contains missing values, NaN or infinity. Remove samples without a label."
        )
    check_class_labels(labels, 'A comparison with task="classification"', 'task="regression"')
    return labels


def dense(X: Any) -> FloatArray:
    """Convert the output of a transformer to a dense float array."""
    values = X.toarray() if hasattr(X, "toarray") else X
    return np.ascontiguousarray(np.asarray(values, dtype=np.float64))
