"""The result of a comparison, as records, as text, and as a fragment of HTML for notebooks."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from html import escape
from math import isfinite, nan
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from genmetric._text import cell_text, duration, import_optional
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.comparison.methods import ALIASES, SCORINGS, Scoring, Task, find_methods


def nothing() -> AnyArray:
    """Return an empty array."""
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class MethodResult:
    """Losses and times of one method, one entry per fold.

    Attributes
    ----------
    key : str
        Key in :data:`genmetric.comparison.METHODS`.
    name : str
        Label: "Euclidean distance", "generative metric".
    errors : ndarray of shape (n_folds,)
        Loss on the test samples of each fold, lower is better: the error rate with
        ``scoring="error"``. Empty if the method was skipped. Slow methods have the folds of the
        first repetition only.
    fit_seconds, predict_seconds : ndarray of shape (n_folds,)
        Time to fit, including the selection of parameters, and to predict the test samples.
    parameters : tuple of dict
        Parameters selected on the training samples of each fold, for example
        ``{"n_neighbors": 5}``.
    note : str
        Reason why the method was skipped.
    confusion : ndarray of shape (n_classes, n_classes) or None
        Number of test samples by true class (rows) and predicted class (columns), summed over all
        folds. None if the method was skipped or there are more than 100 classes.
    has_map : bool
        Whether the method predicts in the space of one linear map.
    predictions : (actual, predicted) or None
        Numeric targets: those of all samples, and what the folds of the first repetition predicted
        for them. None for classes, or if these folds do not test each sample once.
    test_share : float
        Number of test samples divided by the number of training samples of a fold.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.comparison import MethodResult
    >>> result = MethodResult("generative", "generative metric", np.array([0.1, 0.2, 0.15]))
    >>> round(result.error, 3), round(result.margin, 3)
    (0.15, 0.164)
    """

    key: str
    name: str = ""
    errors: FloatArray = field(default_factory=nothing)
    fit_seconds: FloatArray = field(default_factory=nothing)
    predict_seconds: FloatArray = field(default_factory=nothing)
    parameters: tuple[Mapping[str, Any], ...] = ()
    note: str = ""
    confusion: IntArray | None = None
    has_map: bool = True
    predictions: tuple[FloatArray, FloatArray] | None = field(default=None, compare=False)
    test_share: float = 0.25

    def __repr__(self) -> str:
        """Return key, loss and number of folds."""
        if self.skipped:
            return f"MethodResult({self.key!r}, skipped: {self.note})"
        return f"MethodResult({self.key!r}, error={self.error:.4g}, {len(self.errors)} folds)"

    @property
    def skipped(self) -> bool:
        """Whether the method has no result; `note` is the reason."""
        return len(self.errors) == 0

    @property
    def error(self) -> float:
        """Mean loss over the folds; NaN if the method was skipped."""
        return nan if self.skipped else float(np.mean(self.errors))

    @property
    def seconds(self) -> tuple[float, float]:
        """Mean time to fit and to predict; NaN if the method was skipped."""
        if self.skipped:
            return nan, nan
        return float(np.mean(self.fit_seconds)), float(np.mean(self.predict_seconds))

    @property
    def typical_error(self) -> float:
        """Median error of the predictions of numbers, in units of the target; NaN for classes."""
        if self.predictions is None:
            return nan
        actual, predicted = self.predictions
        return float(np.median(np.abs(actual - predicted)))

    @property
    def margin(self) -> float:
        """Half of the 95% confidence interval of the mean loss; NaN with fewer than two folds.

        It is corrected for the training samples that folds share.
        """
        n = len(self.errors)
        if n < 2:
            return nan
        spread = np.std(self.errors, ddof=1) * np.sqrt(1 / n + self.test_share)
        return float(stats.t.ppf(0.975, n - 1) * spread)


@dataclass(eq=False, repr=False)
class Comparison:
    """A cross-validated comparison of metrics on one table.

    Created by :func:`genmetric.compare_metrics`. In a notebook it is displayed as a table with the
    verdict. :func:`genmetric.report.write_report` writes it as a page.

    Attributes
    ----------
    results : tuple of MethodResult
        One result per method; all methods used the same folds.
    title : str
        Name of the table.
    task : {"classification", "regression"}
        Kind of target.
    scoring : Scoring
        Score that methods are judged by.
    advice : str
        The verdict in plain words.
    footnote : str
        The test behind it, and the methods that did not run.
    warnings : list of str
        What makes the scores doubtful: signs of leaks, and results too good to be true.
    notes : list of str
        Remarks on the target, columns, samples, folds and score.
    incomplete : str
        Why folds are missing; empty if none is.
    baseline, challenger : str
        Keys of the two methods of the question: is the second better than the first? Empty if it
        was not asked.
    p_value : float
        P-value of the question, by the corrected resampled t-test. NaN if nothing was tested.
    recommended : str
        Key of the recommended method, accepted by ``genmetric fit --method``. Empty if no metric is
        better than the majority class, or than the mean of numeric targets.
    more_accurate : tuple of str
        Keys of the methods without a map that have a lower loss than the recommended one, and than
        the majority class or the mean of the targets by more than their interval.
    not_run : tuple of str
        Keys of the methods for this task that are not compared by default; empty if methods were
        named.
    error_by_k : dict of str to (ks, errors)
        For methods that vote: numbers of neighbours and the error rate of each on the test
        samples, averaged over the folds. Empty for numeric targets.
    class_names : tuple of str
        Names of the classes, in sorted order of the labels; empty for numeric targets.
    class_counts : ndarray of shape (n_classes,)
        Number of samples per class.
    feature_names : tuple of str
        Names of the features after encoding.
    n_splits, n_repeats : int
        Number of folds, and of repetitions of the cross-validation.
    splitter : str
        Where the folds come from if they are not drawn at random, such as "GroupKFold".
    seed : int
        Seed of folds and methods.
    X : DataFrame or ndarray of shape (n_samples, n_columns)
        The samples compared on, without the columns of target, groups and time.
    y : ndarray of shape (n_samples,)
        Their targets.
    rows : ndarray of shape (n_samples,)
        Their positions in the table given.
    encoder : transformer or None
        From the columns of `X` to features, fitted on all samples; None if `X` is used as it is.
    target : genmetric.tables.Target or None
        How the column of targets is read, if `compare_metrics` was given its name.

    Examples
    --------
    >>> from genmetric import compare_metrics
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = compare_metrics(X, y, methods=["standardized", "generative"], n_splits=3)
    >>> found["generative"].error < 0.1
    True
    >>> found.best_estimator("generative").predict(X[:2]).tolist()
    [0, 0]
    """

    results: tuple[MethodResult, ...] = ()
    title: str = ""
    task: Task = "classification"
    scoring: Scoring = SCORINGS["error"]
    advice: str = ""
    footnote: str = ""
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    incomplete: str = ""
    baseline: str = ""
    challenger: str = ""
    p_value: float = nan
    recommended: str = ""
    more_accurate: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()
    error_by_k: dict[str, tuple[IntArray, FloatArray]] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    class_counts: IntArray = field(default_factory=nothing)
    feature_names: tuple[str, ...] = ()
    n_splits: int = 5
    n_repeats: int = 1
    splitter: str = ""
    seed: int = 0
    X: Any = field(default=None, compare=False)
    y: AnyArray = field(default_factory=nothing, compare=False)
    rows: IntArray = field(default_factory=nothing, compare=False)
    encoder: Any = field(default=None, compare=False)
    target: Any = field(default=None, compare=False)

    def __getitem__(self, name: str) -> MethodResult:
        """Return the result of a method by its key, an alias of it or its label."""
        for result in self.results:
            if ALIASES.get(name, name) in (result.key, result.name):
                return result
        raise KeyError(name)

    def __repr__(self) -> str:
        """Return sizes, warnings, notes, verdict, table and footnote, also for ``print``."""
        width = max(shutil.get_terminal_size().columns, 40)
        lines = textwrap.wrap(self.headline, width)
        for note in [*(f"Warning: {warning}" for warning in self.warnings), *self.notes]:
            lines += textwrap.wrap(note, width, initial_indent="  ", subsequent_indent="    ")
        lines += ["", *textwrap.wrap(self.advice, width), "", *_table_lines(self, width)]
        if self.footnote:
            lines += ["", *textwrap.wrap(self.footnote, width)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return verdict, table, decisions about columns and first rows; all text is escaped."""

        def elements(tag: str, texts: Iterable[str]) -> str:
            name = tag.partition(" ")[0]
            return "".join(f"<{tag}>{escape(t)}</{name}>" for t in texts if t or name == "td")

        rows = f"<tr>{elements('th', _heads(self))}</tr>"
        for result in self.results:
            mark = ' class="shown"' if result.key == self.recommended else ""
            rows += f"<tr{mark}>{elements('td', _cells(self, result))}</tr>"
        head = ""
        if hasattr(self.X, "head"):
            head = self.X.head(3).astype(object).map(cell_text).to_html(max_cols=12)
        return (
            f'<div class="genmetric"><style>{_STYLE}</style>'
            + elements('p class="warning"', self.warnings)
            + elements("p", [self.advice])
            + f"<table>{rows}</table>"
            + elements("small", [self.headline, self.footnote, *self.notes])
            + (f"<details><summary>First rows</summary>{head}</details>" if head else "")
            + "</div>"
        )

    @property
    def headline(self) -> str:
        """Title, sizes, what is predicted, and the cross-validation in one sentence."""
        names, target = self.class_names, "a numeric target"
        if self.task == "classification":
            more = ", ..." if len(names) > 6 else ""
            target = f"{len(names)} classes ({', '.join(names[:6])}{more})"
        title = f"{self.title}: " if self.title else ""
        features = f"{self.n_features:,} feature{'' if self.n_features == 1 else 's'}"
        return f"{title}{self.n_samples:,} samples, {features}, {target}; {self.protocol}"

    @property
    def codes(self) -> AnyArray:
        """Class of each sample as a number, or its numeric target."""
        return self.y if self.task == "regression" else np.unique(self.y, return_inverse=True)[1]

    @property
    def n_samples(self) -> int:
        """Number of samples compared on."""
        return len(self.y)

    @property
    def n_features(self) -> int:
        """Number of features after encoding."""
        return len(self.feature_names)

    @property
    def ran(self) -> tuple[MethodResult, ...]:
        """Results of the methods that were not skipped."""
        return tuple(result for result in self.results if not result.skipped)

    @property
    def skipped(self) -> tuple[MethodResult, ...]:
        """Methods that were asked for and have no result."""
        return tuple(result for result in self.results if result.skipped)

    @property
    def protocol(self) -> str:
        """The cross-validation in words."""
        folds = f"{self.n_splits}-fold cross-validation"
        folds += f" by {self.splitter}" if self.splitter else ""
        return f"{folds}, repeated {self.n_repeats} times" if self.n_repeats > 1 else folds

    def score_text(self, result: MethodResult, *, margin: bool = True) -> str:
        """Write the mean score of a method with half of its 95% interval: "17.3% ± 2.1".

        Parameters
        ----------
        result : MethodResult
            One of the results.
        margin : bool, default=True
            Whether to write the interval.

        Returns
        -------
        str
            The score.
        """
        digits = 1 if self.n_samples < 2000 else 2
        return self.scoring.text(result.error, result.margin if margin else nan, digits=digits)

    def to_frame(self) -> Any:
        """Return the results as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            One row per method, indexed by key, with the columns "label", the scoring's key (mean
            score), "margin" (half of the 95% interval), "fit_seconds", "predict_seconds" (means),
            "has_map" and "note".
        """
        pd = import_optional("pandas", "cli")
        rows = [
            (r.key, r.name, self.scoring.score(r.error), r.margin, *r.seconds, r.has_map, r.note)
            for r in self.results
        ]
        names = ["method", "label", self.scoring.key, "margin", "fit_seconds", "predict_seconds"]
        return pd.DataFrame(rows, columns=[*names, "has_map", "note"]).set_index("method")

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values that JSON can represent; NaN becomes None.

        Returns
        -------
        dict
            The attributes of this class and of its results, without samples and predictions.
        """
        found: dict[str, Any] = plain(self)
        sizes = {"n_samples": self.n_samples, "n_features": self.n_features}
        return {**found, **sizes, "scoring": self.scoring.key}

    def encoded(self) -> FloatArray:
        """Return the features of all samples compared on.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The features, not scaled.
        """
        return encode(self.encoder, self.X)

    def best_estimator(self, method: str | None = None) -> Any:
        """Fit the recommended method on all samples of the comparison.

        Parameters
        ----------
        method : str, default=None
            Key of another method to fit. If no method is recommended, the default is the one with
            the lowest loss among those with a map.

        Returns
        -------
        sklearn.pipeline.Pipeline
            Fitted on the table given to :func:`genmetric.compare_metrics`, with its column names:
            ``predict`` accepts the same columns.
        """
        if self.X is None:
            raise ValueError("This comparison has no samples. Run compare_metrics to make one.")
        best = min((r for r in self.ran if r.has_map), key=lambda r: r.error, default=None)
        key = method or self.recommended or ("" if best is None else best.key)
        columns = getattr(self.encoder, "feature_columns_", None)
        model = find_methods([key], self.task)[0].fit(
            self.encoded(), self.y, self.task, random_state=self.seed, feature_columns=columns
        )
        first = [] if self.encoder is None else [("columns", self.encoder)]
        return Pipeline([*first, *model.steps])


#: Colours are those of the notebook, so dark themes are readable.
_STYLE = (
    ".genmetric{max-width:56rem}"
    ".genmetric p{border-left:4px solid #2e9e5b;padding:.2rem .8rem;margin:.4rem 0}"
    ".genmetric p.warning{border-color:#d9822b}.genmetric small{opacity:.75;display:block}"
    ".genmetric td:first-child{text-align:left}.genmetric tr.shown td{font-weight:700}"
)


def _table_lines(found: Comparison, width: int) -> list[str]:
    """Return one line per method; the last columns are left out if they do not fit the width."""
    rows = [_heads(found), *(_cells(found, result) for result in found.ran)]
    name, score = (max(len(row[i]) for row in rows) for i in (0, 1))
    n_more = max((width - name - 2 - score) // 9, 0)
    lines = [
        f"{row[0]:<{name}}  {row[1]:>{score}}" + "".join(f"{t:>9}" for t in row[2 : 2 + n_more])
        for row in rows
    ]
    for result in found.skipped:
        text = ": ".join(_cells(found, result)[:2])
        lines += textwrap.wrap(text, width, subsequent_indent="  ")
    return lines


def _heads(found: Comparison) -> list[str]:
    """Return the headings of the table; errors of numbers are also in units of the target."""
    units = ["off by"] if found.task == "regression" else []
    return ["method", f"{found.scoring.label} ± 95%", *units, "fit", "predict"]


def _cells(found: Comparison, result: MethodResult) -> list[str]:
    """Return name, score and times of a method, or the reason why it was skipped."""
    name = f"{result.name} ({result.key}{'' if result.has_map else '; no map'})"
    if result.skipped:
        return [name, f"skipped, {result.note}", *[""] * (len(_heads(found)) - 2)]
    units = [value_text(result.typical_error)] if found.task == "regression" else []
    return [name, found.score_text(result), *units, *map(duration, result.seconds)]


def value_text(value: float) -> str:
    """Write a number with four digits, and without an exponent if it is short."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"


def plain(value: Any) -> Any:
    """Return a value as JSON can represent it: lists, dicts by name, and None instead of NaN."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if f.compare}
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def refit(encoder: Any, X: Any, y: AnyArray) -> Any:
    """Fit an encoder on some samples, with the decisions about columns that it has already made."""
    fresh = clone(encoder)
    if hasattr(encoder, "columns_"):
        fresh.set_params(columns=encoder.columns_)
    return fresh.fit(X, y)


def encode(encoder: Any, X: Any) -> FloatArray:
    """Return the features of samples as a dense float array."""
    features = X if encoder is None else encoder.transform(X)
    features = features.toarray() if hasattr(features, "toarray") else features
    return np.ascontiguousarray(np.asarray(features, dtype=np.float64))


def take(X: Any, rows: IntArray) -> Any:
    """Return some rows of a frame or an array."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]
