"""Displays of a comparison: scores of methods, and their error by number of neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, validation_curve
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from genmetric._typing import ArrayLike, FloatArray, IntArray
from genmetric.plot.palette import COLORS, QUIET, labels, name_rows, new_axes, side_legend

if TYPE_CHECKING:
    from genmetric.comparison import Comparison

#: Name of nearest neighbours without a learned metric.
BASELINE = "Euclidean distance, standardized"


@dataclass(repr=False, eq=False)
class ComparisonDisplay:
    """Cross-validated scores of methods: mean, 95% interval and each fold, one row per method.

    Parameters
    ----------
    scores : mapping of str to ndarray of shape (n_folds,)
        Error rate, or another score, on each fold by name of the method, in the order to show.
    margins : mapping of str to float, default={}
        Half of the interval of each mean; a method without an entry has no bar.
    baseline : str, default=""
        Method to compare with; a dashed line marks its mean.
    best : str, default=""
        Method to emphasise.
    label : str, default="error rate"
        Name of the score.
    percent : bool, default=True
        Whether scores are shown in percent.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the comparison.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.

    Examples
    --------
    >>> from genmetric import compare_metrics
    >>> from genmetric.plot import ComparisonDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> found = compare_metrics(X, y, methods=["standardized", "generative"], n_splits=3)
    >>> list(ComparisonDisplay.from_comparison(found).scores)
    ['Euclidean distance, standardized', 'generative metric']
    """

    scores: Mapping[str, FloatArray]
    _: KW_ONLY
    margins: Mapping[str, float] = field(default_factory=dict)
    baseline: str = ""
    best: str = ""
    label: str = "error rate"
    percent: bool = True

    @classmethod
    def from_comparison(cls, comparison: Comparison, *, ax: Any = None) -> ComparisonDisplay:
        """Draw the result of a comparison.

        Parameters
        ----------
        comparison : genmetric.comparison.Comparison
            The comparison; methods that were skipped are not shown.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        ComparisonDisplay
            The display, drawn.
        """
        scoring, names = comparison.scoring, {r.key: r.name for r in comparison.ran}
        return cls(
            {r.name: np.asarray(scoring.score(r.errors)) for r in comparison.ran},
            margins={r.name: r.margin for r in comparison.ran if np.isfinite(r.margin)},
            baseline=names.get(comparison.baseline, ""),
            best=names.get(comparison.recommended, ""),
            label=scoring.label,
            percent=scoring.percent,
        ).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> ComparisonDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        ComparisonDisplay
            The display itself.
        """
        names, unit = list(self.scores), 100 if self.percent else 1
        folds = [unit * np.asarray(self.scores[name], float) for name in names]
        ax = new_axes(ax, (7.0, 1.1 + 0.36 * len(names)))
        for row, (name, values) in enumerate(zip(names, folds, strict=True)):
            color = COLORS[1] if name == self.best else COLORS[0]
            if name == self.baseline != self.best:
                color = QUIET
            ax.plot(values, np.full(len(values), row), "|", color=color, alpha=0.4, markersize=9)
            bar = unit * self.margins.get(name, 0.0)
            style = {"fmt": "o", "color": color, "markersize": 6, "capsize": 3, "linewidth": 1.8}
            ax.errorbar(values.mean(), row, xerr=bar, **style)
        if self.baseline in names:
            mean = folds[names.index(self.baseline)].mean()
            ax.axvline(mean, color=QUIET, linewidth=1, linestyle="--", zorder=0)
        name_rows(ax, names, self.best)
        title = f"{self.label} (%)" if self.percent else self.label
        bars = ", 95% interval" if self.margins else ""
        ax.set_xlabel(f"{title}: mean{bars} and each fold")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(repr=False, eq=False)
class ErrorByKDisplay:
    """Error rate of nearest neighbours by number of neighbours, one line per method.

    Parameters
    ----------
    error_by_k : mapping of str to (ks, errors)
        Numbers of neighbours and the error rate of each, by name of the method; both of shape
        (n_ks,).
    baseline : str, default=""
        Method to draw in grey.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the lines.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.
    lines_ : list of matplotlib.lines.Line2D
        One line per method.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.plot import ErrorByKDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> display = ErrorByKDisplay.from_estimator(GenerativeMetric(), X, y, n_neighbors=[1, 5])
    >>> sorted(display.error_by_k)
    ['Euclidean distance, standardized', 'GenerativeMetric']
    """

    error_by_k: Mapping[str, tuple[IntArray, FloatArray]]
    _: KW_ONLY
    baseline: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_neighbors: Sequence[int] = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50),
        cv: Any = None,
        ax: Any = None,
    ) -> ErrorByKDisplay:
        """Cross-validate nearest neighbours after transformers, for several numbers of neighbours.

        Parameters
        ----------
        estimator : transformer or mapping of str to transformer
            Transformers to compare; standardized features are added as a baseline.
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels.
        n_neighbors : sequence of int, default=(1, 2, 3, 5, 7, 10, 15, 20, 30, 50)
            Numbers of neighbours, at most the number of training samples of a fold.
        cv : int, splitter or iterable, default=None
            Folds, the same for all methods; by default five stratified folds, shuffled with seed 0.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        ErrorByKDisplay
            The display, drawn.
        """
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        named = isinstance(estimator, Mapping)
        methods = dict(estimator) if named else {type(last).__name__: estimator}
        folds = StratifiedKFold(5, shuffle=True, random_state=0) if cv is None else cv
        ks, found = np.sort(n_neighbors), {}
        for name, metric in {BASELINE: StandardScaler(), **methods}.items():
            model = Pipeline([("metric", metric), ("neighbors", KNeighborsClassifier())])
            options = {"param_name": "neighbors__n_neighbors", "param_range": ks, "cv": folds}
            scores = validation_curve(model, X, y, **options)[1]
            found[name] = (ks, 1 - scores.mean(axis=1))
        return cls(found, baseline=BASELINE).plot(ax=ax)

    @classmethod
    def from_comparison(cls, comparison: Comparison, *, ax: Any = None) -> ErrorByKDisplay:
        """Draw the errors by number of neighbours of a comparison.

        Parameters
        ----------
        comparison : genmetric.comparison.Comparison
            The comparison.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        ErrorByKDisplay
            The display, drawn.
        """
        names = {result.key: result.name for result in comparison.results}
        found = {names[key]: values for key, values in comparison.error_by_k.items()}
        return cls(found, baseline=names.get(comparison.baseline, "")).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> ErrorByKDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        ErrorByKDisplay
            The display itself.
        """
        ax = new_axes(ax, (7.0, 3.6))
        # Different dashes keep lines visible that lie on each other.
        styles = cycle(zip(COLORS, cycle(["-", "--", "-.", ":"]), strict=False))
        self.lines_ = []
        for name, (ks, errors) in self.error_by_k.items():
            color, dash = (QUIET, "-") if name == self.baseline else next(styles)
            kind = {"color": color, "linestyle": dash, "marker": "o", "markersize": 3.5}
            self.lines_ += ax.plot(ks, 100 * np.asarray(errors), **kind)
        every = np.unique(np.concatenate([ks for ks, _ in self.error_by_k.values()]))
        ax.set_xscale("log")
        ax.minorticks_off()
        ax.set_xticks(every, [str(k) for k in every])
        ax.set_xlabel("number of neighbours")
        ax.set_ylabel("error rate (%)")
        side_legend(ax, self.lines_, labels(self.error_by_k, width=34))
        self.ax_, self.figure_ = ax, ax.figure
        return self
