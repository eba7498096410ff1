"""The result of a cross-validated comparison of metrics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from genmetric._nearest import did_you_mean
from genmetric._optional import import_optional
from genmetric._results import ComparisonResult, shown_result
from genmetric._typing import FloatArray
from genmetric.comparison._methods import METHODS
from genmetric.comparison._samples import ComparedSamples
from genmetric.comparison._text import comparison_lines


@dataclass(frozen=True)
class Comparison(ComparisonResult):
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
        Seed of the methods, and of the folds unless they are those of `splitter`.
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
    splitter : str
        Where the folds come from if `cv` is not a number, such as "GroupKFold"; else empty.
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

    samples: ComparedSamples | None = field(default=None, repr=False, compare=False)

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
            raise ValueError(
                "This comparison does not contain its samples. Run compare_metrics to create one that does."
            )
        shown = shown_result(self)
        key = method or ("" if shown is None else shown.key)
        if key not in METHODS:
            text = f"method must be one of {', '.join(METHODS)}; got {key!r}."
            raise ValueError(f"{text} {did_you_mean(key, METHODS)}".rstrip())
        return self.samples.fit(METHODS[key], self.seed)

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
            raise ValueError(
                "This comparison does not contain its samples. Run compare_metrics to create one that does."
            )
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
