"""Cross-validated comparison of metrics on one table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn import model_selection
from sklearn.metrics import confusion_matrix
from threadpoolctl import threadpool_limits

from genmetric._neighbors import N_NEIGHBORS, vote_errors
from genmetric._typing import ArrayLike, IntArray
from genmetric._validation import check_count
from genmetric.comparison.advice import advise
from genmetric.comparison.methods import METHODS, Method, Task, find_methods
from genmetric.comparison.result import Comparison, MethodResult, encode, refit, take
from genmetric.comparison.samples import (
    choose_scoring,
    collect,
    labels_of,
    leak_warnings,
    leave_out,
)

#: Repetitions by the number of cells of the table, samples times features. They test the same
#: samples again: with five folds, the smallest significant gain is 10% larger with four repetitions
#: than with ten, 28% larger with two and 78% larger with one.
REPEATS = ((10_000, 4), (200_000, 2))

Pairs = list[tuple[IntArray, IntArray]]


class ComparisonInterrupted(KeyboardInterrupt):
    """The comparison was interrupted after at least one fold.

    Parameters
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
    scoring: str | None = None,
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
        Whether the targets are classes or numbers; the result says which. By default numbers in `y`
        are numeric targets if more than 20 are distinct, and these are more than a quarter of the
        samples (whole numbers) or more than a twentieth (numbers with fractions). Any other `y` is
        classes. :func:`genmetric.tables.split_target` decides about the column `target`.
    methods : sequence of str, default=None
        Keys of :data:`genmetric.comparison.METHODS`. ``None`` uses those whose `default` is set.
        If the two methods of the question are not both among them, it is asked about the only
        learned metric, if there is one.
    scoring : str, default=None
        Score to compare methods by: "error", "balanced_error", "f1_macro", "log_loss" or "roc_auc"
        for classes; "r2" (the default) or "mae" for numbers. The default for classes is "error", or
        "balanced_error" if the smallest class has less than 5% of the samples. Parameters of
        methods are selected by their error rate, or by R², in any case.
    n_splits : int, default=None
        Number of folds, 5 by default. More folds use more of the samples for training and take
        longer. It is reduced if there are too few samples.
    n_repeats : int, default=None
        Number of repetitions of the cross-validation with different folds. More repetitions make
        the test more sensitive and take longer. The default depends on the size of the table: 4 up
        to 10,000 cells (samples times features), 2 up to 200,000, then 1. By default, slow methods
        that are not part of the question run in the first repetition only.
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
    find_methods(methods)  # unknown names are reported before the samples are looked at
    X, groups = labels_of(X, groups, "groups")
    X, time = labels_of(X, time, "time")
    found = collect(X, y, target, task, columns, feature_names)
    found.title, found.seed = title, random_state
    listed = find_methods(methods, found.task)
    if methods is None:
        others = [m for m in METHODS.values() if found.task in m.tasks and m not in listed]
        found.not_run = tuple(method.key for method in others)
    leave_out(found, max_samples)
    choose_scoring(found, scoring)
    groups, time = (None if v is None else v[found.rows] for v in (groups, time))
    if cv is None or isinstance(cv, int | np.integer):
        pairs = _drawn_folds(found, cv if n_splits is None else n_splits, n_repeats, groups, time)
    elif n_splits is None and n_repeats is None and time is None:
        pairs = _given_folds(found, cv, groups, len(X))
    else:
        raise ValueError(f"n_splits, n_repeats and time need cv=None; got {type(cv).__name__}.")
    able = [method for method in listed if not _too_large(found, method)]
    slow_folds = found.n_splits if n_repeats is None else len(pairs)
    done: list[dict[str, Any]] = []
    start, interrupted, n_jobs = perf_counter(), False, effective_n_jobs(n_jobs)
    try:
        while len(done) < len(pairs):
            folds = range(len(done), min(len(done) + n_jobs, len(pairs)))
            done += Parallel(n_jobs=n_jobs)(
                delayed(run_fold)(
                    found, [m for m in able if f < slow_folds or not m.slow], *pairs[f]
                )
                for f in folds
            )
            if progress is not None:
                progress(f"fold {len(done)} of {len(pairs)}", len(done) / len(pairs))
            if time_limit is not None and perf_counter() - start > time_limit:
                break
    except KeyboardInterrupt:
        if not done:
            raise
        interrupted = True
    if len(done) < len(pairs):
        limit = (
            "it was interrupted" if interrupted else f"the time limit of {time_limit:g} s was over"
        )
        found.incomplete = f"{len(done)} of {len(pairs)} folds were done when {limit}"
    found.results = tuple(_gather(found, method, done, pairs) for method in listed)
    with threadpool_limits(1):
        found.warnings += leak_warnings(found)
    advise(found)
    if interrupted:
        raise ComparisonInterrupted(found)
    return found


def _drawn_folds(found: Comparison, n_splits: Any, n_repeats: Any, groups: Any, time: Any) -> Pairs:
    """Draw folds, stratified by class, of whole groups or blocks of time if they are given."""
    n, classes, counts = len(found.y), found.task == "classification", found.class_counts
    wanted = 5 if n_splits is None else check_count(n_splits, "n_splits")
    most = n // 5
    if classes:  # the area under the ROC curve needs all classes in each fold
        most = int(counts.min() if found.scoring.key == "roc_auc" else counts.max())
    if groups is not None:
        most, found.splitter = min(most, len(np.unique(groups))), "groups"
    found.n_splits = min(wanted, max(most, 2))
    if found.n_splits < wanted:
        why = f"because there are too few samples for {wanted}"
        found.notes.append(f"{found.n_splits} folds, {why}")
    if time is not None:
        if groups is not None:
            raise ValueError("Pass either groups or time: folds follow one of them.")
        order, found.splitter = np.argsort(time, kind="stable"), "blocks of time"
        blocks = model_selection.KFold(found.n_splits).split(order)
        return [(order[train], order[test]) for train, test in blocks]
    repeats = next((repeats for cells, repeats in REPEATS if n * found.n_features <= cells), 1)
    found.n_repeats = repeats if n_repeats is None else check_count(n_repeats, "n_repeats")
    kind = ("Stratified" if classes else "") + ("Group" if groups is not None else "") + "KFold"
    pairs: Pairs = []
    for seed in range(found.seed, found.seed + found.n_repeats):
        folds = getattr(model_selection, kind)(found.n_splits, shuffle=True, random_state=seed)
        with warnings.catch_warnings(action="ignore"):  # a class may be smaller than n_splits
            pairs += folds.split(np.zeros(n), found.y, groups)
    return pairs


def _given_folds(found: Comparison, cv: Any, groups: Any, n_given: int) -> Pairs:
    """Make the splits of a splitter, or take those of an iterable."""
    found.splitter = type(cv).__name__ if hasattr(cv, "split") else "the indices given as cv"
    if not hasattr(cv, "split") and len(found.y) < n_given:
        raise ValueError(
            f"cv has indices of {n_given} rows, of which {len(found.y)} are used. Remove rows without "
            "a target and classes with one sample first, and pass max_samples=None."
        )
    pairs = list(model_selection.check_cv(cv).split(np.zeros(len(found.y)), found.y, groups))
    if len(pairs) < 2:
        raise ValueError(f"cv must make at least 2 splits; got {len(pairs)}.")
    found.n_splits = len(pairs)
    return pairs


def _too_large(found: Comparison, method: Method) -> str:
    """Return why a table is too large for a method; empty if it is not."""
    if method.max_samples and len(found.y) > method.max_samples:
        most = method.max_samples
        return f"slow beyond {most} samples (max_samples={most}, or --rows {most}, runs it)"
    if method.max_classes and len(found.class_names) > method.max_classes:
        return f"slow beyond {method.max_classes} classes"
    return ""


def run_fold(
    found: Comparison, methods: Sequence[Method], train: IntArray, test: IntArray
) -> dict[str, Any]:
    """Encode the samples of one fold and evaluate all methods on it."""
    # Warnings about single folds (small classes, convergence) do not help the reader. Threads of
    # BLAS and OpenMP that wait for each other spin; n_jobs is the way to use more cores.
    with warnings.catch_warnings(action="ignore"), threadpool_limits(1):
        encoder, y = found.encoder, found.codes
        if encoder is not None:
            encoder = refit(encoder, take(found.X, train), found.y[train])
        seen, new = ((encode(encoder, take(found.X, rows)), y[rows]) for rows in (train, test))
        columns = getattr(encoder, "feature_columns_", None)
        outcomes: dict[str, Any] = {}
        for method in methods:
            try:
                outcomes[method.key] = _evaluate(found, method, seen, new, columns)
            except MemoryError as error:
                outcomes[method.key] = f"not enough memory. {error}"
            except np.linalg.LinAlgError:
                outcomes[method.key] = (
                    "could not be fitted: a matrix is singular. Classes may have too few samples, or "
                    "features may depend on each other"
                )
            except Exception as error:
                outcomes[method.key] = f"could not be fitted: {error} ({type(error).__name__})"
        return outcomes


def _evaluate(found: Comparison, method: Method, train: Any, test: Any, columns: Any) -> Any:
    """Return loss, times, parameters, predictions and errors by k of a method on one fold.

    A text is the reason why there are none.
    """
    (X, y), (x_test, y_test) = train, test
    n_classes, scoring, curve = len(found.class_names), found.scoring, None
    start = perf_counter()
    model = method.fit(X, y, found.task, random_state=found.seed, feature_columns=columns)
    fitted = perf_counter()
    predicted = response = model.predict(x_test)
    end = perf_counter()
    if scoring.response == "predict_proba":
        if not hasattr(model, "predict_proba"):
            return f"estimates no probabilities, which {scoring.label} needs"
        response = np.zeros((len(y_test), n_classes))
        # Classes of other groups may be missing from the training samples.
        response[:, np.unique(y)] = model.predict_proba(x_test)
    loss = scoring.loss(y_test, response, n_classes)
    if not np.isfinite(loss):
        return f"the {scoring.label} of a fold is not finite"
    if method.votes and found.task == "classification":
        ks = np.array([k for k in N_NEIGHBORS if k <= len(y)])
        nearest = model[-1].kneighbors(model[:-1].transform(x_test), int(ks[-1]), False)
        curve = ks, vote_errors(y[nearest], y_test, n_classes, ks)
    return loss, fitted - start, end - fitted, method.parameters(model), predicted, curve


def _gather(
    found: Comparison, method: Method, done: Sequence[dict[str, Any]], pairs: Pairs
) -> MethodResult:
    """Gather the folds of one method, or say why it was skipped."""
    folds = [outcomes[method.key] for outcomes in done if method.key in outcomes]
    note = _too_large(found, method) or next((f for f in folds if isinstance(f, str)), "")
    if note:
        note = " ".join(note.split())[:200]
        return MethodResult(method.key, method.label, note=note, has_map=method.has_map)
    losses, fit, predict, parameters, outputs, curves = zip(*folds, strict=True)
    tests = np.concatenate([test for _, test in pairs[: len(folds)]])
    actual, predicted = found.codes[tests], np.concatenate(outputs)
    confusion = predictions = None
    n, n_classes = len(found.y), len(found.class_names)
    if 0 < n_classes <= 100:
        confusion = confusion_matrix(actual, predicted, labels=np.arange(n_classes))
    if found.task == "regression" and len(np.unique(tests[:n])) == n:
        order = np.argsort(tests[:n])
        predictions = (actual[order], predicted[order])
    if curves[0] is not None:
        ks = min((ks for ks, _ in curves), key=len)  # numbers that all folds have
        errors = np.mean([errors[: len(ks)] for _, errors in curves], axis=0)
        found.error_by_k[method.key] = (ks, errors)
    return MethodResult(
        method.key,
        method.label,
        np.array(losses),
        np.array(fit),
        np.array(predict),
        parameters,
        confusion=confusion,
        has_map=method.has_map,
        predictions=predictions,
        test_share=float(np.mean([len(test) / len(train) for train, test in pairs])),
    )
