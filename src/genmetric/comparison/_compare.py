"""Cross-validated comparison of metrics on one table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from genmetric._results import MethodResult
from genmetric._scoring import Scoring, Task, find_scoring
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import check_count
from genmetric.comparison._advice import advise
from genmetric.comparison._folds import Folds, plan_folds
from genmetric.comparison._method import Budget, Method, TrainingData
from genmetric.comparison._methods import find_methods
from genmetric.comparison._result import Comparison
from genmetric.comparison._samples import ComparedSamples, collect_samples, split_groups
from genmetric.comparison._time_limit import TimeLimitReached, slow_note, time_limit
from genmetric.comparison._voting import draw_sample, error_by_neighbors
from genmetric.density._scaling import Scaling

#: Called before each fold of each method with a description and the fraction of the work done.
Progress = Callable[[str, float], None]

#: Maximum number of classes of a confusion matrix.
MAX_CONFUSION_CLASSES = 100

Curve = tuple[IntArray, FloatArray]


class ComparisonInterrupted(KeyboardInterrupt):
    """The comparison was interrupted after at least one method had finished.

    Parameters
    ----------
    comparison : Comparison
        The results of the methods that had finished.

    Attributes
    ----------
    comparison : Comparison
        The results of the methods that had finished.

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
    groups: ArrayLike | None = None,
    max_samples: int | None = 20_000,
    time_limit: float = 60.0,
    columns: Any = None,
    title: str = "",
    feature_names: Sequence[str] | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
    on_result: Callable[[Comparison], None] | None = None,
) -> Comparison:
    """Compare metrics on one table by cross-validation.

    All methods are evaluated on the same folds, which are stratified by class unless `cv` is given.
    Each method selects its parameters, such as the number of neighbours, on the training samples of
    a fold only. Every method except "euclidean" uses features that are standardised on the training
    samples. A method that fails, runs out of memory or exceeds the time limit is reported as
    skipped, with the reason. Methods that do not learn are the baselines and have no time limit.

    Parameters
    ----------
    X : DataFrame or array-like of shape (n_samples, n_features)
        Samples. Columns of a pandas or polars DataFrame may hold numbers, categories and dates and
        are encoded as by the command ``genmetric compare``. Missing values of an array are
        replaced by the mean of the training samples.
    y : array-like of shape (n_samples,), default=None
        Class labels or numeric targets; not needed if `target` is given.
    target : str, default=None
        Name of the column of the DataFrame `X` that holds the targets.
    task : {"classification", "regression"}, default=None
        Whether the targets are classes or numbers. By default numbers with more than 20 distinct
        values that hardly repeat are a quantity, and everything else is classes.
    methods : sequence of str, default=None
        Keys of :data:`genmetric.comparison.METHODS`. ``None`` is
        :data:`genmetric.comparison.DEFAULT_METHODS` for classes and
        :data:`genmetric.comparison.DEFAULT_REGRESSION_METHODS` for numbers.
    scoring : str or Scoring, default=None
        Score to compare methods by: "error" (the default), "balanced_error", "f1_macro",
        "log_loss" or "roc_auc" for classes; "r2" (the default) or "mae" for numbers. Parameters
        of methods are selected by their error rate, or by R², in any case.
    n_splits : int, default=None
        Number of folds. More folds use more of the samples for training and take longer. The
        default is 10, or 5 with more than 5000 samples. It is reduced if a class has fewer
        samples, or if a fold would have fewer than 5 numeric targets.
    n_repeats : int, default=None
        Number of repetitions of the cross-validation with other folds. More repetitions make
        the test more sensitive and take longer. The default is 3, or 1 with more than 500 samples.
    cv : int, scikit-learn splitter or iterable, default=None
        Splits to use instead of `n_splits`. An integer is the number of folds and means the same as
        `n_splits`. A splitter, such as :class:`~sklearn.model_selection.GroupKFold`, or an iterable
        of (train, test) indices makes the splits of all samples; the score is the average over the
        splits, and the test of significance uses the mean ratio of their sizes. At least two splits
        are needed.
    groups : str or array-like of shape (n_samples,), default=None
        Group labels of the samples, passed to a `cv` that is a splitter. Samples of a group are
        then not in the training and test samples of the same split. The selection of parameters
        within the training samples does not use the groups. A string is the name of a column of
        the DataFrame `X`, which is then not a feature. If you pass the values of a column, leave it
        out of `X`.
    max_samples : int, default=20000
        Maximum number of samples; a random subset is drawn from larger tables. Larger values make
        the scores more precise and take longer. ``None`` uses all samples.
    time_limit : float, default=60.0
        Seconds that one method may take over all folds. The time is extrapolated from the faster
        of the first two folds, because the first one includes loading and warming up. On the main
        thread of a POSIX system the limit also interrupts a running fit; elsewhere it is checked
        after each fold.
    columns : transformer, default=None
        Unfitted scikit-learn transformer from the columns of `X` to numeric features without
        missing values. It is fitted on the training samples of each fold. By default it is made
        from the columns of a DataFrame.
    title : str, default=""
        Name of the table, shown in results.
    feature_names : sequence of str, default=None
        Names of the columns of an array `X`; "x0", "x1", ... by default.
    random_state : int, default=0
        Seed of the folds and of the methods.
    progress : callable, default=None
        Called as ``progress(text, fraction)`` before each fold, with the method and the fraction
        of the work done.
    on_result : callable, default=None
        Called after each method with a :class:`Comparison` of the methods that have finished:
        ``on_result=print`` shows the table as it grows.

    Returns
    -------
    Comparison
        Results and recommendation.

    Raises
    ------
    ComparisonInterrupted
        A KeyboardInterrupt that holds the results of the methods that had finished.

    Examples
    --------
    >>> from genmetric import compare_metrics
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> found = compare_metrics(X, y, methods=["euclidean", "uniform"], n_splits=5)
    >>> found["uniform"].error < found["euclidean"].error - 0.2
    True
    >>> found.best, found.recommended
    ('generative metric', 'uniform')
    """
    # Unknown names are reported before the samples are looked at.
    if methods is not None:
        find_methods(methods, None)
    if isinstance(groups, str):
        X, groups = split_groups(X, groups, target)
    samples, names, notes = collect_samples(
        X, y, target=target, columns=columns, feature_names=feature_names, task=task
    )
    listed = find_methods(methods, samples.task)
    judged = find_scoring(scoring, samples.task)
    samples = replace(samples, time_limit=time_limit)
    make_folds = plan_folds(
        samples,
        n_splits=n_splits,
        n_repeats=n_repeats,
        cv=cv,
        groups=groups,
        n_given=len(X),
        random_state=random_state,
        notes=notes,
    )
    if samples.task == "classification":
        samples = _large_classes(samples, notes)
    if max_samples is not None and len(samples.y) > check_count(max_samples, "max_samples"):
        rows = draw_sample(samples.y, max_samples, random_state, samples.task)
        note = f"compared on {len(rows)} of {len(samples.y)} samples, drawn at random"
        if samples.task == "classification":
            n_classes, n_drawn = (len(np.unique(y)) for y in (samples.y, samples.y[rows]))
            if n_drawn < n_classes:
                note += f" from {n_drawn} of {n_classes} classes"
        notes.append(note)
        samples = samples.take(rows)
    n = len(samples.y)
    classes, codes, counts = np.empty(0), samples.y, np.empty(0, np.intp)
    if samples.task == "classification":
        classes, codes, counts = np.unique(samples.y, return_inverse=True, return_counts=True)
    folds = make_folds(samples)
    base = Comparison(
        title=title,
        n_samples=n,
        n_features=len(names),
        feature_names=names,
        class_names=tuple(map(str, classes)),
        class_counts=counts,
        results=(),
        n_splits=folds.n_splits,
        n_repeats=folds.n_repeats,
        seed=random_state,
        notes=tuple(notes),
        scoring=judged,
        splitter=folds.splitter,
        samples=samples,
    )
    n_folds = len(folds.pairs)
    results: list[MethodResult] = []
    curves: dict[str, Curve] = {}

    def so_far() -> Comparison:
        digits = judged.digits(n * folds.n_repeats)
        baseline, best, p_value, recommended, text = advise(
            results, folds.test_share, judged, digits
        )
        return replace(
            base,
            results=tuple(results),
            advice=text,
            baseline=baseline,
            best=best,
            p_value=p_value,
            recommended=recommended,
            error_by_k=dict(curves),
        )

    evaluation = _Evaluation(samples, codes, len(classes), folds, judged, random_state)
    try:
        for number, method in enumerate(listed):

            def report(fold: int, method: Method = method, number: int = number) -> None:
                if progress is not None:
                    text = f"{method.key}, fold {min(fold + 1, n_folds)} of {n_folds}"
                    progress(text, (number + fold / n_folds) / len(listed))

            result, curve = evaluation.run(method, report)
            results.append(result)
            if curve is not None:
                curves[method.label] = curve
            report(n_folds)
            if on_result is not None:
                on_result(so_far())
    except KeyboardInterrupt as interrupt:
        if not results:
            raise
        raise ComparisonInterrupted(so_far()) from interrupt
    return so_far()


def _large_classes(samples: ComparedSamples, notes: list[str]) -> ComparedSamples:
    """Leave out classes with a single sample: they cannot be in training and test samples."""
    classes, counts = np.unique(samples.y, return_counts=True)
    if (counts > 1).sum() < 2:
        raise ValueError(
            "A comparison needs at least two classes with at least two samples each; got "
            f"{ {str(c): int(n) for c, n in zip(classes[:5], counts[:5], strict=True)} }."
        )
    single = classes[counts < 2]
    if len(single) == 0:
        return samples
    few = ", ".join(repr(str(name)) for name in single[:3]) + (", ..." if len(single) > 3 else "")
    plural = "class" if len(single) == 1 else "classes"
    notes.append(f"{len(single)} {plural} with a single sample left out: {few}")
    return samples.take(np.flatnonzero(~np.isin(samples.y, single)))


@dataclass(frozen=True)
class _Evaluation:
    """Folds, samples and scoring that all methods share."""

    samples: ComparedSamples
    codes: AnyArray
    n_classes: int
    folds: Folds
    scoring: Scoring
    seed: int

    def run(
        self, method: Method, report: Callable[[int], None]
    ) -> tuple[MethodResult, Curve | None]:
        """Evaluate one method on all folds, within the time limit."""
        start = perf_counter()

        def skipped(note: str) -> tuple[MethodResult, None]:
            result = MethodResult.left_out(
                method.label, note, key=method.key, distance=method.distance
            )
            return replace(result, skipped_seconds=perf_counter() - start), None

        if self.scoring.response == "predict_proba" and not method.probabilities:
            return skipped(f"does not estimate probabilities, which {self.scoring.label} needs")
        # A comparison needs its baselines, so they are never skipped.
        limit = self.samples.time_limit if method.learns else inf
        n_train, n_folds = max(len(train) for train, _ in self.folds.pairs), len(self.folds.pairs)
        n_classes = max(self.n_classes, 1)
        decision = method.decide(Budget(n_train, limit / n_folds, n_classes, n_folds))
        if decision.skip:
            return skipped(decision.note)
        outcomes: list[_FoldOutcome] = []
        seconds: list[float] = []
        try:
            for number, (train, test) in enumerate(self.folds.pairs):
                report(number)
                clock, processor = perf_counter(), process_time()
                with time_limit(limit - (clock - start)):
                    outcomes.append(self._run_fold(method, train, test, decision.max_samples))
                # On a busy machine the processor time is shorter, with several threads the other.
                seconds.append(min(perf_counter() - clock, process_time() - processor))
                if number == 1 and n_folds * min(seconds) > limit:
                    return skipped(slow_note(n_folds * min(seconds), limit))
        except TimeLimitReached:
            done = len(outcomes)
            expected = n_folds * (perf_counter() - start) / max(done, 1)
            return skipped(slow_note(expected, limit, at_least=done == 0))
        except MemoryError as error:
            return skipped(f"not enough memory. {_one_line(error)}".strip())
        except Exception as error:
            return skipped(f"failed: {type(error).__name__}: {_one_line(error)}")
        confusions = [o.confusion for o in outcomes if o.confusion is not None]
        result = MethodResult(
            method.label,
            np.array([o.loss for o in outcomes]),
            np.array([o.fit_seconds for o in outcomes]),
            np.array([o.predict_seconds for o in outcomes]),
            tuple(o.parameters for o in outcomes),
            decision.note,
            method.key,
            np.sum(confusions, axis=0) if confusions else None,
            method.distance,
            self._predictions(outcomes),
        )
        return result, _mean_curve([o.curve for o in outcomes if o.curve is not None])

    def _predictions(
        self, outcomes: Sequence[_FoldOutcome]
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return actual and predicted targets if each sample is predicted once."""
        n_splits, tests = self.folds.n_splits, self.folds.first_tests(len(self.codes))
        first = [o.predicted for o in outcomes[:n_splits] if o.predicted is not None]
        if len(first) < n_splits or tests is None:
            return None
        predicted = np.empty(len(self.codes))
        predicted[tests] = np.concatenate(first)
        return np.asarray(self.codes, float), predicted

    def _run_fold(
        self, method: Method, train: IntArray, test: IntArray, max_samples: int | None
    ) -> _FoldOutcome:
        task = self.samples.task
        x_train, x_test = self.samples.split(train, test)
        # One shift and one factor for all features: neighbours stay the same, and squares of very
        # large or small values neither overflow nor underflow.
        scaling = Scaling.of(x_train)
        x_train, x_test = scaling.apply(x_train), scaling.apply(x_test)
        y_train, y_test = self.codes[train], self.codes[test]
        with warnings.catch_warnings():
            # Warnings about single folds (small classes, convergence) do not help the reader.
            warnings.simplefilter("ignore")
            start = perf_counter()
            fitted = method.fit(TrainingData(x_train, y_train, self.seed, max_samples, task))
            middle = perf_counter()
            predicted = fitted.model.predict(x_test)
            end = perf_counter()
            response = predicted
            if self.scoring.response == "predict_proba":
                response = np.zeros((len(test), self.n_classes))
                # Classes of other groups may be missing from the training samples.
                response[:, np.unique(y_train)] = fitted.model.predict_proba(x_test)
            loss = self.scoring.loss(y_test, response, self.n_classes)
            if not np.isfinite(loss):
                raise ValueError(f"the {self.scoring.label} of a fold is not finite")
            curve = None
            if method.votes and task == "classification":
                curve = error_by_neighbors(fitted.model, y_train, x_test, y_test, self.n_classes)
        confusion = None
        if task == "classification" and self.n_classes <= MAX_CONFUSION_CLASSES:
            confusion = confusion_matrix(y_test, predicted, labels=np.arange(self.n_classes))
        return _FoldOutcome(
            loss,
            middle - start,
            end - middle,
            dict(fitted.parameters),
            confusion,
            curve,
            np.asarray(predicted, float) if task == "regression" else None,
        )


@dataclass(frozen=True)
class _FoldOutcome:
    """Results of one method on one fold."""

    loss: float
    fit_seconds: float
    predict_seconds: float
    parameters: dict[str, Any]
    confusion: AnyArray | None
    curve: Curve | None
    predicted: FloatArray | None


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 160 else text[:157] + "..."


def _mean_curve(curves: Sequence[Curve]) -> Curve | None:
    """Average errors by number of neighbours over the folds, for numbers that all folds have."""
    if not curves:
        return None
    shortest = min((ks for ks, _ in curves), key=len)
    n = len(shortest)
    return shortest, np.mean([errors[:n] for _, errors in curves], axis=0)
