"""The result of a cross-validated comparison of metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from genmetric._optional import import_optional
from genmetric._typing import FloatArray, IntArray
from genmetric.comparison._methods import METHODS
from genmetric.comparison._samples import ComparedSamples
from genmetric.comparison._scoring import SCORINGS, Scoring
from genmetric.comparison._text import comparison_lines


@dataclass(frozen=True)
class MethodResult:
    """Losses and times of one method, one entry per fold.

    Attributes
    ----------
    name : str
        Label, unique in a comparison: "Euclidean distance", "generative metric".
    errors : ndarray of shape (n_folds,)
        Loss on the test samples of each fold, lower is better: the error rate with
        ``scoring="error"``. Empty if the method was skipped.
    fit_seconds, predict_seconds : ndarray of shape (n_folds,)
        Time to fit, including the selection of parameters, and to predict the test samples.
    parameters : tuple of dict
        Parameters selected on the training samples of each fold, for example
        ``{"n_neighbors": 5}``.
    note : str
        Reason why the method was skipped, or a remark on its results.
    key : str
        Key in :data:`genmetric.comparison.METHODS`.
    confusion : ndarray of shape (n_classes, n_classes) or None
        Number of test samples by true class (rows) and predicted class (columns), summed over all
        folds and repeats. None if the method was skipped or there are more than 100 classes.
    distance : bool
        Whether the method is a distance; other methods are shown for reference only.
    predictions : (actual, predicted) or None
        Numeric targets: those of all samples, and what the folds of the first cross-validation
        predicted for them. None for classes or if the method was skipped.
    skipped_seconds : float
        Seconds spent on the method before it was skipped.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.comparison import MethodResult
    >>> one = np.ones(2)
    >>> round(MethodResult("generative metric", np.array([0.1, 0.2]), one, one).error, 3)
    0.15
    """

    name: str
    errors: FloatArray
    fit_seconds: FloatArray
    predict_seconds: FloatArray
    parameters: tuple[Mapping[str, Any], ...] = ()
    note: str = ""
    key: str = ""
    confusion: IntArray | None = None
    distance: bool = True
    predictions: tuple[FloatArray, FloatArray] | None = field(default=None, repr=False)
    skipped_seconds: float = 0.0

    def __repr__(self) -> str:
        """Return key, score and number of folds."""
        name = self.key or self.name
        if self.skipped:
            return f"MethodResult({name!r}, skipped: {self.note})"
        folds = f"{len(self.errors)} folds"
        return f"MethodResult({name!r}, error={self.error:.4g}, {folds})"

    @property
    def skipped(self) -> bool:
        """Whether the method has no result; `note` is the reason."""
        return len(self.errors) == 0

    @property
    def error(self) -> float:
        """Mean loss over the folds; NaN if the method was skipped."""
        return float(np.mean(self.errors)) if len(self.errors) else float("nan")

    @property
    def standard_error(self) -> float:
        """Standard error of the mean over the folds; NaN with fewer than two folds."""
        n = len(self.errors)
        return float(np.std(self.errors, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")

    @classmethod
    def left_out(
        cls, name: str, note: str, *, key: str = "", distance: bool = True
    ) -> MethodResult:
        """Create the result of a method that was skipped.

        Parameters
        ----------
        name : str
            Label of the method.
        note : str
            Reason why it was skipped.
        key : str, default=""
            Key of the method.
        distance : bool, default=True
            Whether the method is a distance.

        Returns
        -------
        MethodResult
            A result without folds.
        """
        none = np.empty(0)
        return cls(name, none, none, none, (), note, key, None, distance)


@dataclass(frozen=True)
class Comparison:
    """A cross-validated comparison of metrics on one table.

    Created by :func:`genmetric.compare_metrics`. In a notebook it is displayed as a table with the
    recommendation.

    Attributes
    ----------
    title : str
        Name of the table.
    n_samples, n_features : int
        Number of samples compared on, and of features after encoding.
    feature_names : tuple of str
        Names of the features.
    class_names : tuple of str
        Names of the classes, in sorted order of the labels; empty for numeric targets.
    class_counts : ndarray of shape (n_classes,)
        Number of samples per class.
    results : tuple of MethodResult
        One result per method; all methods used the same folds.
    advice : str
        The recommendation in one or two sentences.
    n_splits, n_repeats : int
        Number of folds, and of repetitions of the cross-validation.
    seed : int
        Seed of the folds and of the methods.
    baseline : str
        Name of the best method that does not learn; `best` is compared with it.
    best : str
        Name of the distance with the lowest loss.
    p_value : float
        Significance of the difference between `best` and `baseline` by the corrected resampled
        t-test, adjusted for the number of methods. NaN if there is nothing to test.
    error_by_k : dict of str to (ks, errors)
        For methods that vote: numbers of neighbours and the error rate of each on the test
        samples, averaged over the folds. Empty for numeric targets.
    notes : tuple of str
        Remarks on samples and columns that were left out or changed.
    scoring : Scoring
        Score that methods are judged by.
    recommended : str
        Key of the recommended method, accepted by ``genmetric fit --method``: that of `best` if
        its advantage is significant, otherwise that of `baseline`. Empty if no method is better
        than the majority class, or than the mean of numeric targets.
    samples : object or None
        The samples compared on, for :meth:`best_estimator` and :meth:`report`.

    Examples
    --------
    >>> from genmetric import compare_metrics
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = compare_metrics(X, y, methods=["standardised", "uniform"], n_splits=3)
    >>> found["uniform"].error < 0.1
    True
    >>> found.best_estimator("uniform").predict(X[:2]).tolist()
    [0, 0]
    """

    title: str
    n_samples: int
    n_features: int
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    class_counts: IntArray
    results: tuple[MethodResult, ...]
    advice: str = ""
    n_splits: int = 5
    n_repeats: int = 1
    seed: int = 0
    baseline: str = ""
    best: str = ""
    p_value: float = float("nan")
    error_by_k: Mapping[str, tuple[IntArray, FloatArray]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    scoring: Scoring = SCORINGS["error"]
    recommended: str = ""
    samples: ComparedSamples | None = field(default=None, repr=False, compare=False)

    def __getitem__(self, name: str) -> MethodResult:
        """Return the result of a method by its key or its label."""
        for result in self.results:
            if name in (result.key, result.name):
                return result
        raise KeyError(name)

    @property
    def ran(self) -> tuple[MethodResult, ...]:
        """Results of the methods that were not skipped."""
        return tuple(result for result in self.results if not result.skipped)

    def __str__(self) -> str:
        """Return the table and the recommendation as text."""
        return "\n".join(comparison_lines(self))

    def __repr__(self) -> str:
        """Return the same text, so that an interactive session shows the table."""
        return str(self)

    def _repr_html_(self) -> str:
        """Return the table and the recommendation for notebooks."""
        from genmetric.report import summary_html

        return summary_html(self)

    def to_frame(self) -> Any:
        """Return the results as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            One row per method, indexed by key, with the columns "label", the scoring's key (mean
            score), "standard_error", "fit_seconds", "predict_seconds", "distance" and "note".
        """
        pd = import_optional("pandas", "cli")
        index = [result.key for result in self.results]

        def mean(values: FloatArray) -> float:
            return float(np.mean(values)) if len(values) else float("nan")

        return pd.DataFrame(
            {
                "label": [r.name for r in self.results],
                self.scoring.key: [self.scoring.score(r.error) for r in self.results],
                "standard_error": [r.standard_error for r in self.results],
                "fit_seconds": [mean(r.fit_seconds) for r in self.results],
                "predict_seconds": [mean(r.predict_seconds) for r in self.results],
                "distance": [r.distance for r in self.results],
                "note": [r.note for r in self.results],
            },
            index=pd.Index(index, name="method"),
        )

    def plot(self, *, ax: Any = None) -> Any:
        """Plot the loss of each method with its standard error.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; new ones by default.

        Returns
        -------
        genmetric.plot.ComparisonDisplay
            The display.
        """
        from genmetric.plot import ComparisonDisplay

        return ComparisonDisplay.from_comparison(self, ax=ax)

    def best_estimator(self, method: str | None = None) -> Any:
        """Fit the recommended method on all samples of the comparison.

        Parameters
        ----------
        method : str, default=None
            Key of another method to fit.

        Returns
        -------
        sklearn.pipeline.Pipeline
            Fitted on the table given to :func:`genmetric.compare_metrics`, with its column names:
            ``predict`` and, for most methods, ``transform`` accept the same columns.
        """
        if self.samples is None:
            raise ValueError("This comparison does not hold its samples; run compare_metrics.")
        key = method or self.recommended or self._best_key()
        if key not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {key!r}.")
        return self.samples.fit(METHODS[key], self.seed)

    def _best_key(self) -> str:
        return next((r.key for r in self.ran if r.name == self.best), "")

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        row_names: Sequence[Any] | None = None,
        command: str = "",
        footers: Sequence[str] = (),
        columns: Sequence[Any] | None = None,
    ) -> Path:
        """Write a self-contained HTML report with the results and what was learned.

        Parameters
        ----------
        path : str or path-like
            File to write. An existing file is replaced.
        row_names : sequence of str, default=None
            Names of the rows of the table given; numbers from 1 by default.
        command : str, default=""
            Command to run next, shown with the recommendation.
        footers : sequence of str, default=()
            Additional lines at the foot of the page, such as the command that was run.
        columns : sequence of genmetric.tables.ColumnPlan, default=None
            How the columns of the table were read; by default as compare_metrics planned them.

        Returns
        -------
        pathlib.Path
            The file.
        """
        from genmetric.report import write_report

        if self.samples is None:
            raise ValueError("This comparison does not hold its samples; run compare_metrics.")
        X = self.samples.encoded()
        names = None
        if row_names is not None:
            rows = range(len(X)) if self.samples.rows is None else self.samples.rows
            names = [str(row_names[i]) for i in rows]
        metric, name = None, ""
        method = METHODS.get(self.recommended)
        if method is not None and method.learns and method.transforms:
            fitted = method.fit(self.samples.training(method, X, self.seed))
            metric, name = fitted.model, method.label
        return write_report(
            self,
            X,
            self.samples.y,
            path=path,
            metric=metric,
            metric_name=name,
            row_names=names,
            table=self.samples.X if hasattr(self.samples.X, "columns") else None,
            columns=self.samples.plan if columns is None else columns,
            glossary={method.label: method.description for method in METHODS.values()},
            command=command,
            footers=list(footers),
            random_state=self.seed,
        )
