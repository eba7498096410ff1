"""Errors of methods: side by side with error bars, and against the number of neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import StratifiedKFold, check_cv, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric._typing import ArrayLike, FloatArray, IntArray
from genmetric.plot.canvas import one_axes
from genmetric.plot.learned import map_rows
from genmetric.plot.palette import COLORS, QUIET, label, labels


class ComparisonDisplay:
    """Cross-validated errors of methods, mean with standard error, one line a method.

    Parameters
    ----------
    errors : mapping of str to ndarray of shape (n_folds,)
        Share of wrong answers in each fold, by name of the method, in the order to show.
    baseline : str, default=None
        Method to compare with: a dashed line runs down from its error.
    best : str, default=None
        Method to put forward; that of least mean error by default.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the comparison.
    figure_ : matplotlib.figure.Figure
        Its figure.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.plot import ComparisonDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> display = ComparisonDisplay.from_estimator({"M^UNI": GenerativeMetric()}, X, y)
    >>> list(display.errors)
    ['Euclidean, standardised', 'M^UNI']
    """

    def __init__(
        self,
        errors: Mapping[str, FloatArray],
        *,
        baseline: str | None = None,
        best: str | None = None,
    ) -> None:
        if not errors or not all(len(values) for values in errors.values()):
            raise ValueError("errors needs a method, and each method at least one fold.")
        self.errors = errors
        self.baseline = baseline
        self.best = best

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        cv: Any = None,
        n_neighbors: int = 5,
        n_jobs: int | None = None,
        ax: Any = None,
    ) -> ComparisonDisplay:
        """Cross-validate estimators beside nearest neighbours on standardised features.

        Parameters
        ----------
        estimator : estimator or mapping of str to estimator
            Classifiers are scored as they are, transformers by the neighbours behind them.
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.
        cv : int, splitter or iterable, default=None
            Folds, the same for all; five stratified ones, shuffled with seed 0, by default.
        n_neighbors : int, default=5
            Neighbours that vote.
        n_jobs : int, default=None
            Processes over the folds.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        ComparisonDisplay
            The display, drawn.
        """
        folds = folds_of(cv, y)
        errors = {}
        for name, method in with_baseline(estimator).items():
            model = clone(method)
            if not is_classifier(model):
                model = make_pipeline(model, KNeighborsClassifier(n_neighbors))
            errors[name] = 1 - cross_val_score(model, X, y, cv=folds, n_jobs=n_jobs)
        return cls(errors, baseline=BASELINE).plot(ax=ax)

    @classmethod
    def from_comparison(cls, comparison: Any, *, ax: Any = None) -> ComparisonDisplay:
        """Draw a comparison that was made before.

        Parameters
        ----------
        comparison : genmetric.study.comparison.Comparison
            The comparison; methods that were skipped are not shown.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        ComparisonDisplay
            The display, drawn.
        """
        errors = {result.name: result.errors for result in comparison.ran}
        baseline, best = (
            n if n in errors else None for n in (comparison.baseline, comparison.best)
        )
        return cls(errors, baseline=baseline, best=best).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> ComparisonDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        ComparisonDisplay
            The display.
        """
        names = list(self.errors)
        folds = [100 * np.asarray(self.errors[name], float) for name in names]
        means = np.array([values.mean() for values in folds])
        best = self.best if self.best in names else names[int(np.argmin(means))]
        ax = one_axes(ax, (7.0, 1.1 + 0.36 * len(names)))
        for row, (name, values, mean) in enumerate(zip(names, folds, means, strict=True)):
            color = COLORS[1] if name == best else COLORS[0]
            if name == self.baseline != best:
                color = QUIET
            ax.plot(values, np.full(len(values), row), "|", color=color, alpha=0.45, markersize=9)
            deviation = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
            ax.errorbar(
                mean, row, xerr=deviation, fmt="o", color=color, markersize=6, capsize=3, lw=1.8
            )
            # In a column of their own, so that no bar runs through a figure.
            ax.annotate(
                f"{mean:.1f}%",
                (1.02, row),
                xycoords=("axes fraction", "data"),
                va="center",
                fontweight="bold" if name == best else "normal",
                annotation_clip=False,
            )
        if self.baseline in names:
            ax.axvline(
                means[names.index(self.baseline)],
                color=QUIET,
                linewidth=1,
                linestyle="--",
                zorder=0,
            )
        ax.set_yticks(range(len(names)), labels(names, width=32))
        for name, tick in zip(names, ax.get_yticklabels(), strict=True):
            tick.set_fontweight("bold" if name == best else "normal")
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(len(names) - 0.4, -0.6)
        low, high = min(v.min() for v in folds), max(v.max() for v in folds)
        room = 0.06 * (high - low) or 1.0
        ax.set_xlim(max(low - room, -room / 3), high + room)
        ax.set_xlabel("test error (%): mean with standard error, and each fold")
        self.ax_, self.figure_ = ax, ax.figure
        return self


class ErrorByKDisplay:
    """Error of nearest neighbours against how many vote, one line a method.

    Parameters
    ----------
    error_by_k : mapping of str to (ks, errors)
        Numbers of neighbours and the error with each, by name of the method; both of shape
        (n_ks,).
    baseline : str, default=None
        Method to draw in grey.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the lines.
    figure_ : matplotlib.figure.Figure
        Its figure.
    lines_ : list of matplotlib.lines.Line2D
        One a method.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.plot import ErrorByKDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> display = ErrorByKDisplay.from_estimator(GenerativeMetric(), X, y, n_neighbors=[1, 5])
    >>> sorted(display.error_by_k)
    ['Euclidean, standardised', 'GenerativeMetric']
    """

    def __init__(
        self,
        error_by_k: Mapping[str, tuple[IntArray, FloatArray]],
        *,
        baseline: str | None = None,
    ) -> None:
        if not error_by_k:
            raise ValueError("error_by_k needs at least one method.")
        self.error_by_k = error_by_k
        self.baseline = baseline

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
        """Cross-validate nearest neighbours behind transformers, with each number of neighbours.

        Parameters
        ----------
        estimator : transformer or mapping of str to transformer
            What the neighbours are sought behind; standardised features are added.
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.
        n_neighbors : sequence of int, default=(1, 2, 3, 5, 7, 10, 15, 20, 30, 50)
            Numbers of neighbours; those beyond the rows of a fold are left out.
        cv : int, splitter or iterable, default=None
            Folds, the same for all; five stratified ones, shuffled with seed 0, by default.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        ErrorByKDisplay
            The display, drawn.
        """
        x, labels_ = np.asarray(X), np.asarray(y)
        folds = list(folds_of(cv, labels_).split(x, labels_))
        ks = np.array(sorted({k for k in n_neighbors if k <= min(len(a) for a, _ in folds)}))
        if not len(ks) or ks[0] < 1:
            raise ValueError(
                f"n_neighbors must hold whole numbers from 1 to the rows of a fold; got "
                f"{list(n_neighbors)}."
            )
        found = {}
        for name, method in with_baseline(estimator).items():
            errors = np.zeros((len(folds), len(ks)))
            for fold, (train, test) in enumerate(folds):
                # The metric once a fold, the search once for all numbers of neighbours.
                fitted = clone(method).fit(x[train], labels_[train])
                here, there = map_rows(fitted, x[train]), map_rows(fitted, x[test])
                voter = KNeighborsClassifier(int(ks[-1])).fit(here, labels_[train])
                nearest = voter.kneighbors(there, return_distance=False)
                codes = np.searchsorted(voter.classes_, labels_[train])[nearest]
                truth = np.searchsorted(voter.classes_, labels_[test])
                # A class that no training row of the fold has is missed, whatever the vote.
                known = np.isin(labels_[test], voter.classes_)
                for column, k in enumerate(ks):
                    votes = _votes(codes[:, :k], len(voter.classes_))
                    errors[fold, column] = 1 - np.mean(known & (votes.argmax(axis=1) == truth))
            found[name] = (ks, errors.mean(axis=0))
        return cls(found, baseline=BASELINE).plot(ax=ax)

    @classmethod
    def from_comparison(cls, comparison: Any, *, ax: Any = None) -> ErrorByKDisplay:
        """Draw the errors by neighbours of a comparison that was made before.

        Parameters
        ----------
        comparison : genmetric.study.comparison.Comparison
            The comparison.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        ErrorByKDisplay
            The display, drawn.
        """
        return cls(comparison.error_by_k, baseline=comparison.baseline).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> ErrorByKDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        ErrorByKDisplay
            The display.
        """
        from itertools import cycle

        ax = one_axes(ax, (7.0, 3.6))
        # Lines may lie on each other: dashes let the one below be seen.
        colors, styles = cycle(COLORS[:-1]), cycle(["-", "--", "-.", ":"])
        self.lines_ = []
        all_ks: set[int] = set()
        for name, (ks, errors) in self.error_by_k.items():
            kind = {"color": QUIET, "linewidth": 2.2}
            if name != self.baseline:
                kind = {"color": next(colors), "linewidth": 1.5, "linestyle": next(styles)}
            (line,) = ax.plot(ks, 100 * np.asarray(errors), marker="o", markersize=3.5, **kind)
            self.lines_.append(line)
            all_ks.update(int(k) for k in ks)
        if max(all_ks) > 12:
            ax.set_xscale("log")
        ax.minorticks_off()
        ticks = _spaced(sorted(all_ks), on_log=max(all_ks) > 12)
        ax.set_xticks(ticks, [str(k) for k in ticks])
        ax.set_xlabel("neighbours that vote")
        ax.set_ylabel("error (%)")
        ax.legend(
            self.lines_,
            [label(name, width=28) for name in self.error_by_k],
            loc="upper left",
            bbox_to_anchor=(1.01, 1.03),
            frameon=False,
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self


#: Name of nearest neighbours without a learned metric.
BASELINE = "Euclidean, standardised"


def with_baseline(estimator: Any) -> dict[str, Any]:
    """Methods by name, the one without a learned metric first."""
    methods: dict[str, Any] = {BASELINE: StandardScaler()}
    if isinstance(estimator, Mapping):
        return methods | dict(estimator)
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    return methods | {type(last).__name__: estimator}


def folds_of(cv: Any, y: Any) -> Any:
    """The splitter that `cv` means; five stratified folds, shuffled with seed 0, for None."""
    if cv is None:
        return StratifiedKFold(5, shuffle=True, random_state=0)
    return check_cv(cv, y, classifier=True)


def _votes(codes: IntArray, n_classes: int) -> IntArray:
    """Votes for each class: shape (n_rows, n_classes) of class numbers (n_rows, k)."""
    flat = codes + n_classes * np.arange(len(codes))[:, None]
    counts = np.bincount(flat.ravel(), minlength=n_classes * len(codes))
    return counts.reshape(len(codes), n_classes)


def _spaced(ks: list[int], *, on_log: bool) -> list[int]:
    """Those of the numbers whose labels do not touch."""
    kept: list[int] = []
    for k in ks:
        gap = (ks[-1] / ks[0]) ** 0.05 if on_log else (ks[-1] - ks[0]) / 20
        if not kept or (k >= kept[-1] * gap if on_log else k - kept[-1] >= gap):
            kept.append(k)
    return kept
