"""The samples of a comparison: targets, columns, groups, which are used, and signs of leaks."""

from __future__ import annotations

from typing import Any
from warnings import catch_warnings

import numpy as np
from scipy.special import comb
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import resample

from genmetric._text import did_you_mean, import_optional
from genmetric._typing import AnyArray, FloatArray
from genmetric._validation import as_numbers, check_class_labels, check_count, is_quantity
from genmetric.comparison.methods import METHODS, Task, find_scoring
from genmetric.comparison.result import Comparison, take, value_text

#: Fewest distinct values of a column that can be a group: fewer are categories.
MIN_GROUPS = 10

#: Most samples that show whether a single column predicts almost everything.
LEAK_SAMPLES = 5000


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
    if task is None and found.y.dtype.kind in "iuf":
        other = "classification" if found.task == "regression" else "regression"
        n_distinct = len(np.unique(found.y))
        found.notes.append(
            f"{found.task}: the target has {n_distinct} distinct numbers (task={other!r} changes it)"
        )
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
    kept, y, single_rows = np.arange(len(found.y)), found.y, ""
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
            single_rows = f"{len(single)} of {len(kept)} samples in classes with a single sample"
            found.notes.append(f"left out: {single_rows} ({few})")
            kept = kept[~np.isin(y[kept], single)]
        found.class_names = tuple(map(str, classes[counts > 1].tolist()))
        found.class_counts = counts[counts > 1]
        if len(found.class_names) < 2:
            kept = kept[:0]
    if len(kept) < 4:
        raise ValueError(
            "A comparison needs at least 4 samples, and two classes with at least two samples each "
            f"if the target is classes; found {single_rows or f'{len(y)} samples'}. Add rows."
        )
    found.X, found.y, found.rows = take(found.X, kept), y[kept], found.rows[kept]


def choose_scoring(found: Comparison, scoring: str | None) -> None:
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
        if len(table) < max(MIN_GROUPS, 3 * len(shares)) or sizes[sizes > 1].sum() < 0.9 * len(y):
            continue
        # A single wrong label does not make a subject a feature.
        mixed = (sizes - counts.max(axis=1)).sum() > 0.01 * len(y)
        # Small groups can be of one class by chance.
        by_chance = np.log(np.power.outer(shares, sizes).sum(axis=0)).sum() > np.log(1e-6)
        if (
            not mixed
            and not by_chance
            and not _is_threshold(column, table.index.to_numpy(), counts)
        ):
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
    """Return sentences on copies and order of rows, columns with the answer, too good results."""
    features = found.encoded()
    warnings = [] if found.splitter else [_copies(features), _order(found, features)]
    warnings = [text for text in warnings if text]
    telling = [
        f"the single column {name!r} predicts almost everything. If it is known only after the "
        f"target, or is another form of it, leave it out (--drop {name})."
        for name in _telling(found, features)
    ]
    best = min(found.ran, key=lambda r: r.error, default=None)
    if best and best.error < 0.005 * _constant_loss(found) and not warnings and not telling:
        warnings.append(
            f"the {found.scoring.label} of {best.name} is almost perfect. If this is too good to be "
            "true: do columns contain the answer, or do rows of one subject or time belong together "
            "(--group, --time)?"
        )
    return warnings + telling


def _copies(features: FloatArray) -> str:
    """Warn of rows that repeat others, unless so few different rows exist that they must."""
    n, n_values = len(features), [len(np.unique(column)) for column in features.T]
    n_copies = n - len(np.unique(features, axis=0))
    if n_copies < max(2, 0.005 * n) or np.log(n_values).sum() < np.log(100 * n):
        return ""
    return (
        f"{n_copies} of {n} rows are copies of other rows. Copies in training and test rows make "
        "every score too good: remove them, or give their origin as groups (--group)."
    )


def _order(found: Comparison, features: FloatArray) -> str:
    """Warn if folds of consecutive rows are much harder than mixed ones.

    Rows of one subject, or of a short time, are often next to each other. The folds have the same
    share of each class, or of each tenth of the numbers, because tables may be sorted by them.
    """
    y, numeric = found.codes, found.task == "regression"
    strata = np.digitize(y, np.quantile(y, np.linspace(0.1, 0.9, 9))) if numeric else y
    if len(y) < 50 or np.bincount(strata).max() < 5:
        return ""
    nearest = (KNeighborsRegressor if numeric else KNeighborsClassifier)(3)
    model, losses = make_pipeline(StandardScaler(), nearest), []
    for mixed in (True, False):
        folds = StratifiedKFold(5, shuffle=mixed, random_state=0 if mixed else None)
        with catch_warnings(action="ignore"):  # a class may have fewer samples than there are folds
            splits = list(folds.split(features, strata))
        predicted = cross_val_predict(model, features, y, cv=splits)
        losses.append(np.abs(predicted - y) if numeric else (predicted != y).astype(float))
    harder, means = losses[1] - losses[0], [float(np.mean(loss)) for loss in losses]
    if means[1] < 1.5 * means[0] or harder.mean() <= 5 * harder.std() / np.sqrt(len(y)):
        return ""
    few, many = (value_text(mean) if numeric else f"{mean:.1%}" for mean in means)
    return (
        "rows that follow each other in the table are alike: the error of nearest neighbours is "
        f"{few} in mixed folds and {many} in folds of consecutive rows. If rows belong to a subject "
        "or a time, scores on new ones will be worse: name the column (--group, --time)."
    )


def _constant_loss(found: Comparison) -> float:
    """Return the loss of always predicting the majority class, or the mean."""
    method = METHODS["mean" if found.task == "regression" else "majority"]
    features = np.zeros((found.n_samples, 1))
    model = method.fit(features, found.codes, found.task)
    response = getattr(model, found.scoring.response)(features)
    return found.scoring.loss(found.codes, response, len(found.class_names))


def _telling(found: Comparison, features: FloatArray) -> list[str]:
    """Return the columns each of which lets a small tree predict almost everything."""
    columns = getattr(found.encoder, "feature_columns_", np.asarray(found.feature_names))
    names, y = dict.fromkeys(columns.tolist()), found.codes
    if len(y) > LEAK_SAMPLES:
        features, y = resample(
            features, y, replace=False, n_samples=LEAK_SAMPLES, random_state=found.seed
        )
    if found.task == "regression":
        # By ranks, because a few large numbers decide about the R² of the numbers themselves.
        y, least, folds = rankdata(y), 0.98, KFold(3, shuffle=True, random_state=0)
        tree = DecisionTreeRegressor(min_samples_leaf=2, random_state=0)
    else:
        largest = int(np.bincount(y).max())
        n_others = len(y) - largest
        # In some column so few samples are in one or two intervals by chance.
        if comb(len(y), n_others) < 10 * len(names) * len(y) ** 2:
            return []
        # A category has fewer than three values per class, or else is left out as a subject.
        leaves = 3 * len(found.class_names) + 8
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0)
        least = 1 - 0.05 * n_others / len(y)
        folds = StratifiedKFold(min(3, largest), shuffle=True, random_state=0)
    with catch_warnings(action="ignore"):  # a class may have fewer samples than there are folds
        splits = list(folds.split(features, y))

    def tells(x: FloatArray) -> bool:
        """Return whether new samples are predicted; most columns fail for the known ones."""
        known = tree.fit(x, y).score(x, y) > least
        return bool(known and cross_val_score(tree, x, y, cv=splits).mean() > least)

    return [name for name in names if tells(features[:, columns == name])]
