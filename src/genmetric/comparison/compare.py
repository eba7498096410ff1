"""Cross-validated comparison of metrics on one table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)

from genmetric._parallel import one_blas_thread
from genmetric._text import did_you_mean
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import as_numbers, check_class_labels, is_quantity
from genmetric.comparison.advice import advise
from genmetric.comparison.leaks import group_columns, leak_warnings
from genmetric.comparison.methods import METHODS, Method, Task, find_methods
from genmetric.comparison.pipelines import error_by_neighbors
from genmetric.comparison.result import Comparison, MethodResult, encode, refit, take
from genmetric.comparison.scoring import Scoring, find_scoring

#: Repetitions by the number of cells of the table, samples times features. With five folds, four
#: repetitions have nearly the power of ten: the test sets are the same samples again.
REPEATS = ((5000, 10), (20_000, 4), (200_000, 2))

#: Share of the smallest class below which the default score is balanced.
RARE = 0.05

#: Maximum number of classes of a confusion matrix.
MAX_CONFUSION_CLASSES = 100

Pairs = Sequence[tuple[IntArray, IntArray]]


class ComparisonInterrupted(KeyboardInterrupt):
    """The comparison was interrupted after at least one fold.

    Attributes
    ----------
    comparison : Comparison
        The results of the folds that had finished.

    Examples
    --------
    >>> from genmetric.comparison import ComparisonInterrupted
    >>> issubclass(ComparisonInterrupted, KeyboardInterrupt)
    True
    """

    def __init__(self, comparison: Comparison) -> None:
        super().__init__("comparison interrupted")
        self.comparison = comparison


def compare_metrics(
    X: Any,
    y: ArrayLike | None = None,
    *,
    target: str | None = None,
    task: Task | None = None,
    methods: Sequence[str] | None = None,
    scoring: str | Scoring | None = None,
    n_splits: int | None = None,
    n_repeats: int | None = None,
    cv: Any = None,
    groups: ArrayLike | str | None = None,
    time: ArrayLike | str | None = None,
    max_samples: int | None = 20_000,
    time_limit: float | None = None,
    columns: Any = None,
    title: str = "",
    feature_names: Sequence[str] | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    progress: Callable[[str, float], None] | None = None,
) -> Comparison:
    """Compare metrics on one table by cross-validation.

    The question is whether the tuned generative metric, selected within the training samples, is
    better than Euclidean distance between standardized features. It is answered by one test; other
    methods are shown with confidence intervals. All methods use the same folds. Each selects its
    parameters, such as the number of neighbours, on the training samples of a fold only. A method
    that fails or is too slow for the size of the table is reported as skipped, with the reason.

    Parameters
    ----------
    X : DataFrame or array-like of shape (n_samples, n_features)
        Samples. Columns of a pandas or polars DataFrame may hold numbers, categories and dates and
        are encoded by :class:`genmetric.tables.TableEncoder`. Missing values of an array are
        replaced by the mean of the training samples.
    y : array-like of shape (n_samples,), default=None
        Class labels or numeric targets; not needed if `target` is given.
    target : str, default=None
        Name of the column of the DataFrame `X` that holds the targets.
    task : {"classification", "regression"}, default=None
        Whether the targets are classes or numbers. By default numbers with many distinct values
        are a quantity, and everything else is classes; the result says which.
    methods : sequence of str, default=None
        Keys of :data:`genmetric.comparison.METHODS`. ``None`` is
        :data:`genmetric.comparison.DEFAULT_METHODS` for classes and
        :data:`genmetric.comparison.DEFAULT_REGRESSION_METHODS` for numbers. Without the two methods
        of the question it is asked about the only learned metric, if there is one.
    scoring : str or Scoring, default=None
        Score to compare methods by: "error", "balanced_error", "f1_macro", "log_loss" or "roc_auc"
        for classes; "r2" (the default) or "mae" for numbers. The default for classes is "error", or
        "balanced_error" if the smallest class has less than 5% of the samples. Parameters of
        methods are selected by their error rate, or by R², in any case.
    n_splits : int, default=None
        Number of folds, 5 by default. More folds use more of the samples for training and take
        longer. It is reduced if there are too few samples.
    n_repeats : int, default=None
        Number of repetitions of the cross-validation with other folds. More repetitions make the
        test more sensitive and take longer. The default depends on the size of the table: 10 up to
        5000 cells (samples times features), 4 up to 20,000, 2 up to 200,000, then 1. By default,
        slow methods that are not part of the question run in the first repetition only.
    cv : int, scikit-learn splitter or iterable, default=None
        Splits to use instead of `n_splits`. An integer means the same as `n_splits`. A splitter, or
        an iterable of (train, test) indices, makes the splits; at least two are needed.
    groups : str or array-like of shape (n_samples,), default=None
        Group labels of the samples, such as patients. Samples of a group are never in the training
        and the test samples of the same split. The selection of parameters within the training
        samples does not use the groups. A string is the name of a column of the DataFrame `X`,
        which is then not a feature.
    time : str or array-like of shape (n_samples,), default=None
        Time of the samples; larger values are later. The folds are then consecutive blocks of time,
        without repetitions. A string is the name of a column of `X`, which is then not a feature.
    max_samples : int, default=20000
        Maximum number of samples; a random subset is drawn from larger tables. Larger values make
        the scores more precise and take longer. ``None`` uses all samples.
    time_limit : float, default=None
        Seconds after which no further fold is started. The result then says that it is incomplete.
        Whatever the limit, the first fold is completed.
    columns : transformer, default=None
        Unfitted :class:`~genmetric.tables.TableEncoder` with options, or another transformer from
        the columns of `X` to numeric features without missing values. It is fitted on the training
        samples of each fold; the decisions of a TableEncoder about columns are taken once.
    title : str, default=""
        Name of the table, shown in results.
    feature_names : sequence of str, default=None
        Names of the columns of an array `X`; "x0", "x1", ... by default.
    n_jobs : int, default=None
        Number of processes, each of which evaluates one fold at a time. The scores are the same for
        every number.
    random_state : int, default=0
        Seed of the folds and of the methods.
    progress : callable, default=None
        Called as ``progress(text, fraction)`` after each fold, with the fraction of the folds done.

    Returns
    -------
    Comparison
        Results and verdict.

    Raises
    ------
    ComparisonInterrupted
        A KeyboardInterrupt that holds the results of the folds that had finished.

    Examples
    --------
    >>> from genmetric import compare_metrics
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> found = compare_metrics(X, y, methods=["euclidean", "generative"], n_repeats=2)
    >>> found["generative"].error < found["euclidean"].error - 0.2
    True
    >>> found.recommended, found.p_value < 0.05
    ('generative', True)
    """
    if methods is not None:
        find_methods(methods)  # unknown names are reported before the samples are looked at
    if progress is None:
        progress = _silent
    found, labels = _collect(X, y, target, task, columns, feature_names, (groups, time))
    found = replace(found, title=title, seed=random_state)
    listed = find_methods(methods, found.task)
    found, labels = _usable(found, labels, max_samples, random_state)
    found = replace(found, scoring=_scoring(found, scoring))
    if cv is not None and n_splits is not None:
        raise ValueError(f"Pass either n_splits or cv; got n_splits={n_splits!r} and cv={cv!r}.")
    found, pairs = _folds(found, cv if n_splits is None else n_splits, n_repeats, labels, len(X))
    able, results = _too_large(found, listed)
    slow_folds = found.n_splits if n_repeats is None else len(pairs)
    work = (
        delayed(run_fold)(found, [m for m in able if fold < slow_folds or not m.slow], train, test)
        for fold, (train, test) in enumerate(pairs)
    )
    start, done, stopped, interrupt = perf_counter(), [], "", None
    try:
        for outcomes in Parallel(n_jobs=n_jobs, return_as="generator")(work):
            done.append(outcomes)
            progress(f"fold {len(done)} of {len(pairs)}", len(done) / len(pairs))
            if time_limit is not None and perf_counter() - start > time_limit:
                stopped = f"when the time limit of {time_limit:g} s was reached"
                break
    except KeyboardInterrupt as error:
        if not done:
            raise
        stopped, interrupt = "when it was interrupted", error
    if len(done) < len(pairs):
        found = replace(found, incomplete=f"{len(done)} of {len(pairs)} folds were done {stopped}")
    results |= {m.key: _summary(found, m, done, pairs) for m in able}
    found = _concluded(replace(found, results=tuple(results[m.key] for m in listed)), done)
    if interrupt is not None:
        raise ComparisonInterrupted(found) from interrupt
    return found


def _silent(_text: str, _fraction: float) -> None:
    """Show no progress."""


def _collect(
    X: Any,
    y: Any,
    target: str | None,
    task: Task | None,
    columns: Any,
    feature_names: Sequence[str] | None,
    labels: tuple[Any, Any],
) -> tuple[Comparison, tuple[Any, Any]]:
    """Check samples, targets and labels (groups and times), and decide about the columns."""
    if (y is None) == (target is None):
        raise ValueError("Pass either y or target, the name of the column with the targets.")
    if task not in (None, "classification", "regression"):
        raise ValueError(f'task must be "classification", "regression" or None; got {task!r}.')
    X = X.to_pandas() if hasattr(X, "to_pandas") else X
    frame = hasattr(X, "iloc")
    if not frame and (target is not None or any(isinstance(label, str) for label in labels)):
        raise TypeError(
            f"target, groups and time name columns of a DataFrame X; got {type(X).__name__}. Pass "
            "one value per sample instead."
        )
    rows, notes, warned, read = np.arange(len(X)), [], [], None
    for label in labels:
        if isinstance(label, str):
            if label not in X.columns or label == target:
                hint = did_you_mean(label, [str(c) for c in X.columns if c != target])
                raise ValueError(
                    f"there is no column {label!r} to take groups or time from. {hint}"
                )
            if X[label].isna().any():
                raise ValueError(f"the column {label!r} has missing values. Remove these rows.")
    values = tuple(np.asarray(X[v]) if isinstance(v, str) else v for v in labels)
    if frame:
        X = X.drop(columns=[label for label in labels if isinstance(label, str)])
    if target is not None:
        from genmetric.tables import split_target

        whole = X
        X, y, read = split_target(X, target, task)
        task, rows = read.task, np.flatnonzero(read.read(whole)[1])
        notes += [f"target {read.summary}", *read.notes]
    y, task = _check_target(y, task)
    if len(X) != len(y):
        raise ValueError(f"X has {len(X)} samples, but y has {len(y)} targets.")
    if frame and columns is None:
        from genmetric.tables import TableEncoder

        columns = TableEncoder()
    if not frame and columns is None:
        X = as_numbers(X, "X")
        if X.ndim != 2 or np.isinf(X).any():
            raise ValueError(
                f"X must be two-dimensional, without infinite values; got shape {X.shape}."
            )
        columns = SimpleImputer(keep_empty_features=True) if np.isnan(X).any() else None
    encoder = None if columns is None else clone(columns).fit(X, y)
    if hasattr(encoder, "columns_") and task == "classification":
        for name in group_columns(X, y, encoder.columns_):
            warned.append(
                f"each value of the column {name!r} belongs to one class, so it seems to name the "
                "subject of a row. It is left out. To test on other subjects, pass it as groups "
                f"(--group {name}); to use it as a feature, say what it is (--as-category {name})."
            )
            encoder = clone(encoder).set_params(drop=(*encoder.drop, name)).fit(X, y)
    if hasattr(encoder, "summary"):
        notes += [line.strip() for line in encoder.summary().splitlines()] + encoder.notes_
    names = [f"x{j}" for j in range(np.shape(X)[1])] if feature_names is None else feature_names
    if frame:
        names = encoder.get_feature_names_out()
    found = Comparison(
        (),
        task=task,
        warnings=tuple(warned),
        notes=tuple(notes),
        feature_names=tuple(map(str, names)),
        X=X,
        y=y,
        rows=rows,
        encoder=encoder,
        target=read,
    )
    return found, _check_labels(values, rows, len(rows) if target is None else len(whole))


def _check_target(y: Any, task: Task | None) -> tuple[AnyArray, Task]:
    """Return targets as an array, and their kind."""
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must be one-dimensional; got shape {y.shape}.")
    missing = y.dtype == object and any(v is None or v != v for v in y)
    if missing or (y.dtype.kind == "f" and not np.isfinite(y).all()):
        raise ValueError("y contains missing or infinite values. Remove samples without a target.")
    if task is None:
        task = "regression" if y.dtype.kind in "iuf" and is_quantity(y) else "classification"
    if task == "classification":
        check_class_labels(y, "A comparison")
        return y, task
    try:
        y = y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f'y must contain numbers for task="regression"; got {y[:1].tolist()}. Use '
            'task="classification" for class labels.'
        ) from error
    if len(np.unique(y)) < 3:
        raise ValueError(
            f'y must have at least 3 distinct values for task="regression"; found '
            f'{np.unique(y).tolist()}. Use task="classification" if they are classes.'
        )
    return y, task


def _check_labels(values: tuple[Any, Any], rows: IntArray, n: int) -> tuple[Any, Any]:
    """Return groups and times of the rows with a target."""
    checked = []
    for name, value in zip(("groups", "time"), values, strict=True):
        labels = None if value is None else np.asarray(value)
        if labels is not None and labels.shape != (n,):
            raise ValueError(
                f"{name} must have shape ({n},), one value per sample; got {labels.shape}."
            )
        checked.append(None if labels is None else labels[rows])
    return checked[0], checked[1]


def _usable(
    found: Comparison, labels: tuple[Any, Any], max_samples: int | None, seed: int
) -> tuple[Comparison, tuple[Any, Any]]:
    """Leave out classes with a single sample, and draw samples of large tables."""
    notes, y = list(found.notes), found.y
    kept = np.arange(len(y))
    if found.task == "classification":
        classes, counts = np.unique(y, return_counts=True)
        if (counts > 1).sum() < 2:
            few = {str(c): int(n) for c, n in zip(classes[:5], counts[:5], strict=True)}
            raise ValueError(
                f"A comparison needs at least two classes with at least two samples each; got {few}."
            )
        single = classes[counts < 2]
        if len(single):
            listed = ", ".join(map(repr, single[:3].tolist())) + (
                ", ..." if single[3:].size else ""
            )
            notes.append(f"classes with a single sample left out: {listed}")
            kept = np.flatnonzero(~np.isin(y, single))
    elif len(y) < 4:
        raise ValueError(
            f"A comparison needs at least 4 samples with a numeric target; got {len(y)}."
        )
    if max_samples is not None and len(kept) > max_samples:
        n_kept = len(kept)
        kept = kept[_drawn(y[kept], max_samples, found.task, np.random.default_rng(seed))]
        notes.append(f"compared on {len(kept)} of {n_kept} samples, drawn at random")
    y = y[kept]
    classes, counts = np.empty(0), np.empty(0, np.intp)
    if found.task == "classification":
        classes, counts = np.unique(y, return_counts=True)
    found = replace(
        found,
        X=take(found.X, kept),
        y=y,
        rows=found.rows[kept],
        class_names=tuple(map(str, classes.tolist())),
        class_counts=counts,
        notes=tuple(notes),
    )
    groups, time = (None if values is None else values[kept] for values in labels)
    return found, (groups, time)


def _drawn(y: AnyArray, n: int, task: Task, rng: np.random.Generator) -> IntArray:
    """Draw about n samples, at least two of each class, or else whole classes."""
    order = rng.permutation(len(y))
    if task == "regression":
        return np.sort(order[:n])
    _, codes, counts = np.unique(y[order], return_inverse=True, return_counts=True)
    sizes = np.maximum(2, np.round(counts * n / len(y)).astype(int))
    if 2 * len(counts) > n:
        drawn = rng.permutation(len(counts))
        drawn = drawn[: max(2, int(np.searchsorted(np.cumsum(sizes[drawn]), n, side="right")))]
        sizes = np.where(np.isin(np.arange(len(counts)), drawn), sizes, 0)
    place = np.empty(len(y), np.intp)  # of each sample among those of its class
    for code in range(len(counts)):
        place[codes == code] = np.arange(counts[code])
    return np.sort(order[place < sizes[codes]])


def _scoring(found: Comparison, scoring: str | Scoring | None) -> Scoring:
    """Return the score; a note of the default for rare classes is in :func:`_concluded`."""
    if scoring is not None:
        return find_scoring(scoring, found.task)
    if found.task == "regression":
        return find_scoring("r2", found.task)
    share = found.class_counts.min() / len(found.y)
    # With many classes all of them are small; one is rare if it is much smaller than the others.
    rare = share < RARE and share * len(found.class_counts) < 0.5
    return find_scoring("balanced_error" if rare else "error", found.task)


def _folds(
    found: Comparison, cv: Any, n_repeats: int | None, labels: tuple[Any, Any], n_given: int
) -> tuple[Comparison, Pairs]:
    """Make the splits: by groups, by time, by a splitter, or at random."""
    groups, time = labels
    if cv is None or isinstance(cv, int | np.integer):
        return _drawn_folds(found, cv, n_repeats, groups, time)
    if n_repeats is not None or time is not None:
        raise ValueError(
            f"n_repeats and time need an integer cv; got a cv of type {type(cv).__name__}. Use a "
            "splitter that repeats, such as RepeatedKFold."
        )
    if hasattr(cv, "split"):
        splitter = check_cv(cv, found.y, classifier=found.task == "classification")
        pairs, name = (
            list(splitter.split(np.zeros(len(found.y)), found.y, groups)),
            type(cv).__name__,
        )
    else:
        pairs, name = [_positions(pair, found.rows, n_given) for pair in cv], "the indices of cv"
    if len(pairs) < 2:
        raise ValueError(f"cv must make at least 2 splits; got {len(pairs)}.")
    for number, (train, test) in enumerate(pairs):
        if not len(train) or not len(test) or len(np.intersect1d(train, test)):
            raise ValueError(
                f"Split {number} of cv must have training and test samples, without common ones."
            )
    return replace(found, splitter=name, n_splits=len(pairs)), _checked(found, pairs)


def _checked(found: Comparison, pairs: Pairs) -> Pairs:
    """Raise if the training samples of a split have a single class."""
    for number, (train, _) in enumerate(pairs):
        if found.task == "classification" and len(np.unique(found.y[train])) < 2:
            raise ValueError(
                f"The training samples of split {number} have a single class. Use fewer folds, other "
                "groups, or a stratified splitter, such as cv=StratifiedGroupKFold(5)."
            )
    return pairs


def _positions(pair: Any, rows: IntArray, n_given: int) -> tuple[IntArray, IntArray]:
    """Convert indices of the table given to positions among the rows that are compared on."""
    position = np.full(n_given, -1, np.intp)
    position[rows] = np.arange(len(rows))
    parts = []
    for part in pair:
        indices = np.asarray(part)
        indices = np.flatnonzero(indices) if indices.dtype == bool else indices
        if indices.dtype.kind not in "iu" or not np.isin(indices, np.arange(n_given)).all():
            raise ValueError(f"cv must contain indices in [0, {n_given}); got {part!r}.")
        parts.append(position[indices][position[indices] >= 0])
    return parts[0], parts[1]


def _drawn_folds(
    found: Comparison, n_splits: Any, n_repeats: int | None, groups: Any, time: Any
) -> tuple[Comparison, Pairs]:
    """Draw folds, stratified by class, as many as the samples allow."""
    y, n = found.y, len(found.y)
    asked = 5 if n_splits is None else n_splits
    for name, value, least in (("n_splits", asked, 2), ("n_repeats", n_repeats, 1)):
        if value is not None and (isinstance(value, bool) or int(value) != value or value < least):
            raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}.")
    classes = found.task == "classification"
    most = n // 5 if not classes else int(found.class_counts.max())
    if classes and found.scoring.key == "roc_auc":
        most = int(found.class_counts.min())  # each fold needs all classes
    most = max(2, min(most, n if groups is None else len(np.unique(groups))))
    n_splits, splitter, kinds = min(asked, most), "", (KFold, StratifiedKFold)
    notes = [f"{most} folds, because there are too few samples for more"] if most < asked else []
    if groups is not None and time is not None:
        raise ValueError("Pass either groups or time: folds follow one of them.")
    if n_repeats is None:
        cells = n * found.n_features
        n_repeats = next((repeats for most, repeats in REPEATS if cells <= most), 1)
    if time is not None:
        order = np.argsort(time, kind="stable")
        blocks = KFold(n_splits).split(order)
        pairs = [(np.sort(order[train]), np.sort(order[test])) for train, test in blocks]
        n_repeats, splitter = 1, "blocks of time"
    else:
        if groups is not None:
            kinds, splitter = (GroupKFold, StratifiedGroupKFold), "groups"
        pairs = [
            pair
            for repeat in range(n_repeats)
            for pair in kinds[classes](
                n_splits, shuffle=True, random_state=found.seed + repeat
            ).split(np.zeros(n), y, groups)
        ]
    found = replace(
        found,
        n_splits=n_splits,
        n_repeats=n_repeats,
        splitter=splitter,
        notes=(*found.notes, *notes),
    )
    return found, _checked(found, pairs)


def _too_large(
    found: Comparison, listed: Sequence[Method]
) -> tuple[list[Method], dict[str, MethodResult]]:
    """Return the methods for a table of this size, and results of the others with the reason."""
    able, results = [], {}
    for method in listed:
        note = ""
        if method.max_samples is not None and len(found.y) > method.max_samples:
            most = method.max_samples
            note = f"too slow for more than {most} samples (max_samples={most}, --rows {most})"
        elif method.max_classes is not None and len(found.class_names) > method.max_classes:
            note = f"too slow for more than {method.max_classes} classes"
        if note:
            results[method.key] = _skipped(method, note)
        else:
            able.append(method)
    return able, results


def _skipped(method: Method, note: str) -> MethodResult:
    return MethodResult(method.key, method.label, note=note, has_map=method.has_map)


class Outcome(NamedTuple):
    """Results of one method on one fold, or the reason why there are none."""

    loss: float
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    parameters: dict[str, Any] = {}  # noqa: RUF012
    confusion: AnyArray | None = None
    curve: tuple[IntArray, FloatArray] | None = None
    predicted: FloatArray | None = None
    problem: str = ""


def run_fold(
    found: Comparison, methods: Sequence[Method], train: IntArray, test: IntArray
) -> dict[str, Outcome]:
    """Encode the samples of one fold and evaluate all methods on it."""
    with warnings.catch_warnings(), one_blas_thread():
        # Warnings about single folds (small classes, convergence) do not help the reader.
        warnings.simplefilter("ignore")
        encoder, features = found.encoder, []
        if encoder is not None:
            encoder = refit(encoder, take(found.X, train), found.y[train])
        features = [encode(encoder, take(found.X, rows)) for rows in (train, test)]
        y = found.y
        if found.task == "classification":
            y = np.unique(found.y, return_inverse=True)[1]
        columns = getattr(encoder, "feature_columns_", None)
        return {m.key: _run(found, m, *features, y[train], y[test], columns) for m in methods}


def _run(
    found: Comparison,
    method: Method,
    x_train: FloatArray,
    x_test: FloatArray,
    y_train: AnyArray,
    y_test: AnyArray,
    columns: AnyArray | None,
) -> Outcome:
    """Fit one method on the training samples of a fold and judge it on the test samples."""
    n_classes, scoring, classes = len(found.class_names), found.scoring, bool(found.class_names)
    try:
        start = perf_counter()
        model = method.fit(
            x_train, y_train, found.task, random_state=found.seed, feature_columns=columns
        )
        fitted = perf_counter()
        predicted = response = model.predict(x_test)
        end = perf_counter()
        if scoring.response == "predict_proba":
            if not hasattr(model, "predict_proba"):
                return Outcome(0, problem=f"no probabilities, which {scoring.label} needs")
            response = np.zeros((len(y_test), n_classes))
            # Classes of other groups may be missing from the training samples.
            response[:, np.unique(y_train)] = model.predict_proba(x_test)
        loss = scoring.loss(y_test, response, n_classes)
        if not np.isfinite(loss):
            raise ValueError(f"the {scoring.label} of a fold is not finite")
        confusion = curve = None
        if classes and n_classes <= MAX_CONFUSION_CLASSES:
            confusion = confusion_matrix(y_test, predicted, labels=np.arange(n_classes))
        if classes and method.votes:
            curve = error_by_neighbors(model, y_train, x_test, y_test, n_classes)
    except MemoryError as error:
        return Outcome(0, problem=f"not enough memory. {error}".strip())
    except Exception as error:
        return Outcome(0, problem=f"failed: {type(error).__name__}: {error}"[:200])
    return Outcome(
        loss,
        fitted - start,
        end - fitted,
        method.parameters(model),
        confusion,
        curve,
        None if classes else np.asarray(predicted, float),
    )


def _summary(
    found: Comparison, method: Method, done: Sequence[dict[str, Outcome]], pairs: Pairs
) -> MethodResult:
    """Gather the folds of one method."""
    folds = [outcomes[method.key] for outcomes in done if method.key in outcomes]
    problem = next((fold.problem for fold in folds if fold.problem), "")
    if problem:
        return _skipped(method, " ".join(problem.split()))
    confusions = [fold.confusion for fold in folds if fold.confusion is not None]
    return MethodResult(
        method.key,
        method.label,
        np.array([fold.loss for fold in folds]),
        np.array([fold.fit_seconds for fold in folds]),
        np.array([fold.predict_seconds for fold in folds]),
        tuple(fold.parameters for fold in folds),
        confusion=np.sum(confusions, axis=0) if confusions else None,
        has_map=method.has_map,
        predictions=_predictions(found, folds, pairs),
        test_share=float(np.mean([len(test) / len(train) for train, test in pairs])),
    )


def _predictions(
    found: Comparison, folds: Sequence[Outcome], pairs: Pairs
) -> tuple[FloatArray, FloatArray] | None:
    """Return actual and predicted numbers if the first repetition tests each sample once."""
    tests = np.concatenate([test for _, test in pairs[: found.n_splits]])
    first = [fold.predicted for fold in folds[: found.n_splits] if fold.predicted is not None]
    if len(first) < found.n_splits or not np.array_equal(np.sort(tests), np.arange(len(found.y))):
        return None
    predicted = np.empty(len(found.y))
    predicted[tests] = np.concatenate(first)
    return found.y, predicted


def _curves(
    found: Comparison, done: Sequence[dict[str, Outcome]]
) -> Iterator[tuple[str, tuple[IntArray, FloatArray]]]:
    """Average errors by number of neighbours over the folds, for numbers that all folds have."""
    for result in found.ran:
        curves = [outcomes[result.key].curve for outcomes in done if result.key in outcomes]
        known = [curve for curve in curves if curve is not None]
        if known:
            ks = min((ks for ks, _ in known), key=len)
            yield result.key, (ks, np.mean([errors[: len(ks)] for _, errors in known], axis=0))


def _concluded(found: Comparison, done: Sequence[dict[str, Outcome]]) -> Comparison:
    """Add what follows from the results: curves, warnings, notes and the verdict."""
    keys = {r.key for r in found.results}
    notes = found.notes
    if found.scoring.key == "balanced_error":
        smallest = int(np.argmin(found.class_counts))
        share = found.class_counts[smallest] / len(found.y)
        notes = (
            f"score: the balanced error rate, the mean of the error rates of the classes; "
            f"{found.class_names[smallest]!r} has {share:.1%} of the samples",
            *notes,
        )
    found = replace(
        found,
        error_by_k=dict(_curves(found, done)),
        not_run=tuple(k for k, m in METHODS.items() if found.task in m.tasks and k not in keys),
        warnings=(*found.warnings, *leak_warnings(found)),
        notes=notes,
    )
    return replace(found, **advise(found)._asdict())
