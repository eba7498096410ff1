"""Cross-validated comparison of metrics on one table, and what it advises."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold

from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import as_numbers, check_count
from genmetric.density.frame import Frame
from genmetric.study.comparison import Comparison, MethodResult
from genmetric.study.contenders import (
    CONTENDERS,
    USUAL,
    Contender,
    Cost,
    Ruling,
    Training,
    stratified_sample,
)
from genmetric.study.significance import corrected_resampled_t

#: Called after each fold of each method with the name of the method and the share done.
Progress = Callable[[str, float], None]

#: Significance that advice rests on.
LEVEL = 0.05


def compare_metrics(
    X: ArrayLike,
    y: ArrayLike,
    *,
    methods: Sequence[str] = USUAL,
    n_splits: int | None = None,
    n_repeats: int | None = None,
    max_rows: int | None = 20_000,
    time_limit: float = 60.0,
    title: str = "",
    feature_names: Sequence[str] | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Cross-validated errors and times of nearest neighbours under several metrics.

    All methods see the same stratified folds. Whatever a method chooses (the number of neighbours
    by leave-one-out, parameters of the metric) it chooses on the training rows of a fold alone.
    All but "euclidean" see features that are standardised on the training rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows. NaN is filled with the mean of the training rows of a fold.
    y : array-like of shape (n_samples,)
        Classes.
    methods : sequence of str, default=:data:`~genmetric.study.contenders.USUAL`
        Keys of :data:`~genmetric.study.contenders.CONTENDERS`.
    n_splits : int, default=None
        Folds; ``None`` is 10 up to 5000 rows and 5 beyond. Fewer where a class has fewer rows.
    n_repeats : int, default=None
        How often the rows are parted anew; ``None`` is 3 up to 500 rows and 1 beyond.
    max_rows : int, default=20000
        Beyond so many a random sample is compared on; ``None`` takes all.
    time_limit : float, default=60.0
        Seconds that one method may take over all folds; it is left out, with a note, where its
        cost is known to be above that or its first fold shows it.
    title : str, default=""
        Name of the table.
    feature_names : sequence of str, default=None
        Names of the columns of `X`; ``None`` is x0, x1, ...
    random_state : int, default=0
        Of folds and methods.
    progress : callable, default=None
        Called as ``progress(name, share)`` with the share of the work done.

    Returns
    -------
    Comparison
        Figures and advice.

    Examples
    --------
    >>> from genmetric.study.compare import compare_metrics
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> found = compare_metrics(X, y, methods=["euclidean", "uniform"], n_splits=5)
    >>> found["M^UNI"].error < found["Euclidean"].error - 0.2
    True
    >>> found.best
    'M^UNI'
    """
    unknown = [name for name in methods if name not in CONTENDERS]
    if unknown or not methods:
        raise ValueError(f"methods must be some of {list(CONTENDERS)}; got {list(methods)}.")
    x, labels = as_numbers(X, "X"), np.asarray(y)
    if x.ndim != 2 or len(x) != len(labels):
        raise ValueError(f"X and y must be rows and a class each; got {x.shape}, {labels.shape}.")
    if np.isinf(x).any():
        raise ValueError("X has infinite entries.")
    notes: list[str] = []
    x, labels = _large_classes(x, labels, notes)
    if max_rows is not None and len(x) > check_count(max_rows, "max_rows"):
        rows = stratified_sample(labels, max_rows, random_state)
        notes.append(f"compared on {len(rows)} of {len(x)} rows, drawn at random")
        x, labels = x[rows], labels[rows]
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    n_splits = _number_of_folds(n_splits, len(x), int(counts.min()), notes)
    n_repeats = (3 if len(x) <= 500 else 1) if n_repeats is None else n_repeats
    check_count(n_repeats, "n_repeats")
    names = [f"x{j}" for j in range(x.shape[1])] if feature_names is None else feature_names
    # Neighbours do not change, and squares of values far from one do not overflow.
    filled = np.where(np.isnan(x), 0.0, x) if np.isnan(x).any() else x
    x = Frame.of(filled).inward(x)
    folds = list(
        RepeatedStratifiedKFold(
            n_splits=n_splits,
            n_repeats=n_repeats,
            random_state=random_state,
        ).split(np.zeros(len(x)), codes)
    )
    results: list[MethodResult] = []
    by_k: dict[str, tuple[IntArray, FloatArray]] = {}
    for number, key in enumerate(methods):
        contender = CONTENDERS[key]

        def report(fold: int, name: str = contender.name, number: int = number) -> None:
            if progress is not None:
                progress(name, (number + fold / len(folds)) / len(methods))

        result, curve = _run(contender, x, codes, folds, time_limit, random_state, report)
        results.append(result)
        if curve is not None:
            by_k[contender.name] = curve
        report(len(folds))
    baseline, best, p_value, advice = _advise(results, methods, folds, counts)
    return Comparison(
        title=title,
        n_samples=len(x),
        n_features=x.shape[1],
        feature_names=tuple(map(str, names)),
        class_names=tuple(map(str, classes)),
        class_counts=counts,
        results=tuple(results),
        advice=advice,
        n_splits=n_splits,
        n_repeats=n_repeats,
        seed=random_state,
        baseline=baseline,
        best=best,
        p_value=p_value,
        error_by_k=by_k,
        notes=tuple(notes),
    )


def _large_classes(
    x: FloatArray, labels: AnyArray, notes: list[str]
) -> tuple[FloatArray, AnyArray]:
    """Leave out classes of a single row, which cannot be trained on and tested."""
    classes, counts = np.unique(labels, return_counts=True)
    if (counts > 1).sum() < 2:
        raise ValueError(
            "A comparison needs two classes of two rows or more each; got "
            f"{ {str(c): int(n) for c, n in zip(classes[:5], counts[:5], strict=True)} }."
        )
    lone = classes[counts < 2]
    if len(lone) == 0:
        return x, labels
    few = ", ".join(repr(str(name)) for name in lone[:3]) + (", ..." if len(lone) > 3 else "")
    notes.append(f"{len(lone)} classes of a single row are left out: {few}")
    keep = ~np.isin(labels, lone)
    return x[keep], labels[keep]


def _number_of_folds(asked: int | None, n_rows: int, smallest: int, notes: list[str]) -> int:
    wanted = (10 if n_rows <= 5000 else 5) if asked is None else check_count(asked, "n_splits")
    if wanted < 2:
        raise ValueError(f"n_splits must be at least 2; got {wanted}.")
    if wanted > smallest:
        notes.append(f"the smallest class has {smallest} rows, so there are {smallest} folds")
    return min(wanted, smallest)


def _run(
    contender: Contender,
    x: FloatArray,
    codes: IntArray,
    folds: Sequence[tuple[IntArray, IntArray]],
    time_limit: float,
    seed: int,
    report: Callable[[int], None],
) -> tuple[MethodResult, tuple[IntArray, FloatArray] | None]:
    """One method over all folds, unless it is too slow."""
    n_train = max(len(train) for train, _ in folds)
    cost = Cost(n_train, time_limit / len(folds))
    ruling = Ruling() if contender.afford is None else contender.afford(cost)
    if ruling.skip:
        return MethodResult.left_out(contender.name, ruling.note), None
    errors, fit_seconds, predict_seconds = [], [], []
    parameters: list[Any] = []
    curves = []
    for number, (train, test) in enumerate(folds):
        report(number)
        x_train, x_test = fill_missing(x[train], x[test])
        start = perf_counter()
        with warnings.catch_warnings():
            # Of one fold, about rows that nobody sees: classes of few rows, no convergence.
            warnings.simplefilter("ignore")
            fitted = contender.fit(Training(x_train, codes[train], seed, ruling.max_rows))
            middle = perf_counter()
            wrong = fitted.model.predict(x_test) != codes[test]
        end = perf_counter()
        errors.append(float(np.mean(wrong)))
        fit_seconds.append(middle - start)
        predict_seconds.append(end - middle)
        parameters.append(dict(fitted.parameters))
        if fitted.by_k is not None:
            curves.append(fitted.by_k)
        if number == 0 and (end - start) * len(folds) > 2 * time_limit:
            note = f"{end - start:.0f} s for the first of {len(folds)} folds, above the time limit"
            return MethodResult.left_out(contender.name, note), None
    result = MethodResult(
        contender.name,
        np.array(errors),
        np.array(fit_seconds),
        np.array(predict_seconds),
        tuple(parameters),
        ruling.note,
    )
    return result, _mean_curve(curves)


def fill_missing(train: FloatArray, test: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Replace NaN by the mean of the training rows; by 0 where a column has none.

    Parameters
    ----------
    train, test : ndarray of shape (n_rows, n_features)
        Rows.

    Returns
    -------
    train, test : ndarray of shape (n_rows, n_features)
        The same without NaN.
    """
    if not (np.isnan(train).any() or np.isnan(test).any()):
        return train, test
    known = ~np.isnan(train)
    counts = known.sum(axis=0)
    mean = np.where(known, train, 0).sum(axis=0) / np.maximum(counts, 1)
    return np.where(known, train, mean), np.where(np.isnan(test), mean, test)


def _mean_curve(
    curves: Sequence[tuple[IntArray, FloatArray]],
) -> tuple[IntArray, FloatArray] | None:
    """Errors by number of neighbours, mean over the folds that all have."""
    if not curves:
        return None
    shortest = min((ks for ks, _ in curves), key=len)
    n = len(shortest)
    return shortest, np.mean([errors[:n] for _, errors in curves], axis=0)


def _advise(
    results: Iterable[MethodResult],
    methods: Sequence[str],
    folds: Sequence[tuple[IntArray, IntArray]],
    counts: IntArray,
) -> tuple[str, str, float, str]:
    """The best method without learning, the best of all, its p-value and a sentence or two."""
    pairs = [(CONTENDERS[k], r) for k, r in zip(methods, results, strict=True) if not r.skipped]
    if not pairs:
        return "", "", float("nan"), "No method ran within the time limit."
    best = min((r for _, r in pairs), key=lambda r: r.error)
    plain = [r for c, r in pairs if not c.learns]
    if not plain:
        text = f"{best.name} has the lowest error, {percent(best.error)}."
        return "", best.name, float("nan"), text
    baseline = min(plain, key=lambda r: r.error)
    guess = 1 - counts.max() / counts.sum()
    if best.error >= guess:
        text = (
            f"No method beats naming the largest class every time, which errs in {percent(guess)}: "
            "the features say nothing about the classes that these methods can see."
        )
        return baseline.name, best.name, float("nan"), text
    if best is baseline:
        text = (
            f"Keep {_distance(baseline.name)}: with {percent(baseline.error)} no learned metric "
            "has a lower error."
        )
        return baseline.name, best.name, float("nan"), text
    test_share = float(np.mean([len(test) / len(train) for train, test in folds]))

    def p_of(result: MethodResult, other: MethodResult, tries: int) -> float:
        p = corrected_resampled_t(other.errors - result.errors, test_share)[1]
        return min(1.0, tries * p)

    n_learned = sum(c.learns for c, _ in pairs)
    p = p_of(best, baseline, n_learned)
    fall = f"{percent(baseline.error)} with {_distance(baseline.name)} to {percent(best.error)}"
    test = f"corrected resampled t-test, times the {n_learned} methods tried"
    if n_learned == 1:
        test = "corrected resampled t-test"
    if not p < LEVEL:
        chance = "with two folds or more a test would tell" if np.isnan(p) else f"p = {p:.2g}"
        text = (
            f"No clear winner: {best.name} errs in {percent(best.error)} and "
            f"{_distance(baseline.name)} in {percent(baseline.error)}, a difference that chance "
            f"alone may make ({chance}, {test}). More rows, or more repeats, would tell."
        )
        return baseline.name, best.name, p, text
    text = (
        f"Use {best.name}{_settings(best)}: the error falls from {fall}, significant at the 5% "
        f"level (p = {p:.2g}, {test})."
    )
    simpler = [
        r
        for c, r in pairs
        if c.learns
        and r is not best
        and float(np.mean(r.fit_seconds)) < 0.5 * float(np.mean(best.fit_seconds))
        and not p_of(best, r, 1) < LEVEL
        and p_of(r, baseline, n_learned) < LEVEL
    ]
    if simpler:
        quick = min(simpler, key=lambda r: r.error)
        ratio = float(np.mean(best.fit_seconds)) / max(float(np.mean(quick.fit_seconds)), 1e-9)
        text += (
            f" {quick.name}, with {percent(quick.error)}, is not clearly worse and fits "
            f"{ratio:.0f} times faster."
        )
    return baseline.name, best.name, p, text


def percent(share: float) -> str:
    """A share in per cent, one digit after the point."""
    return f"{100 * share:.1f}%"


def _distance(name: str) -> str:
    return {"Euclidean": "plain Euclidean distance"}.get(
        name, "Euclidean distance on standardised features"
    )


def _settings(result: MethodResult) -> str:
    """The settings that most folds chose, where a method chooses any beside k."""
    chosen = {}
    for name in result.parameters[0] if result.parameters else ():
        values = Counter(repr(entry[name]) for entry in result.parameters)
        chosen[name] = values.most_common(1)[0][0].strip("'")
    n_neighbors = chosen.pop("n_neighbors", None)
    words = [f"{name.replace('_', ' ')} {value}" for name, value in chosen.items()]
    if n_neighbors is not None:
        words.append(f"{n_neighbors} neighbours")
    return f" with {', '.join(words)}" if words else ""
