"""Displays of the scores of methods, and of their error by number of neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import StratifiedKFold, check_cv, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric._results import ComparisonResult
from genmetric._search import nearest_neighbors
from genmetric._typing import ArrayLike, FloatArray, IntArray
from genmetric._votes import vote_errors
from genmetric.inspection import map_samples
from genmetric.plot._canvas import label_rows, one_axes, place_legend, set_hover
from genmetric.plot._palette import COLORS, QUIET, labels


@dataclass(repr=False, eq=False)
class ComparisonDisplay:
    """Cross-validated scores of methods, mean with standard error, one row per method.

    Parameters
    ----------
    errors : mapping of str to ndarray of shape (n_folds,)
        Error rate, or another score, on each fold by name of the method, in the order to show.
    baseline : str, default=None
        Method to compare with; a dashed line marks its mean.
    best : str, default=None
        Method to emphasise; by default the one with the lowest mean.
    label : str, default="error rate"
        Name of the score.
    percent : bool, default=True
        Whether scores are shown in per cent.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the comparison.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.plot import ComparisonDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> display = ComparisonDisplay.from_estimator({"generative metric": GenerativeMetric()}, X, y)
    >>> list(display.errors)
    ['Euclidean distance, standardised', 'generative metric']
    """

    errors: Mapping[str, FloatArray]
    _: KW_ONLY
    baseline: str | None = None
    best: str | None = None
    label: str = "error rate"
    percent: bool = True

    def __post_init__(self) -> None:
        if not self.errors or not all(len(values) for values in self.errors.values()):
            raise ValueError("errors must contain a method, and at least one fold per method.")

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
        """Cross-validate estimators and, as a baseline, neighbours on standardised features.

        Parameters
        ----------
        estimator : estimator or mapping of str to estimator
            Classifiers are scored directly, transformers with nearest neighbours after them.
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels.
        cv : int, splitter or iterable, default=None
            Folds, the same for all methods; by default five stratified folds, shuffled with seed 0.
        n_neighbors : int, default=5
            Number of neighbours.
        n_jobs : int, default=None
            Number of processes over the folds.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

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
    def from_comparison(cls, comparison: ComparisonResult, *, ax: Any = None) -> ComparisonDisplay:
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
        scoring = comparison.scoring
        errors = {result.name: scoring.score(result.errors) for result in comparison.ran}
        key = comparison.recommended
        recommended = [r.name for r in comparison.ran if key and r.key == key]
        baseline, best = (
            n if n in errors else None
            for n in (comparison.baseline, (recommended or [comparison.best])[0])
        )
        return cls(
            errors, baseline=baseline, best=best, label=scoring.label, percent=scoring.percent
        ).plot(ax=ax)

    def plot(self, *, compact: bool = False, ax: Any = None) -> ComparisonDisplay:
        """Draw the display.

        Parameters
        ----------
        compact : bool, default=False
            Whether to write names above the rows instead of at the left.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        ComparisonDisplay
            The display itself.
        """
        names = list(self.errors)
        unit, sign = (100, "%") if self.percent else (1, "")
        folds = [unit * np.asarray(self.errors[name], float) for name in names]
        means = np.array([values.mean() for values in folds])
        best = self.best if self.best in names else names[int(np.argmin(means))]
        ax = one_axes(ax, (7.0, 1.1 + 0.36 * len(names)))
        low, high = min(v.min() for v in folds), max(v.max() for v in folds)
        more = 0 if self.percent else 1
        digits = int(np.clip(2 - np.floor(np.log10(max(high - low, 1e-3))), 1, 3)) + more
        for row, (name, values, mean) in enumerate(zip(names, folds, means, strict=True)):
            color = COLORS[1] if name == best else COLORS[0]
            if name == self.baseline != best:
                color = QUIET
            ax.plot(values, np.full(len(values), row), "|", color=color, alpha=0.45, markersize=9)
            deviation = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
            bar = ax.errorbar(
                mean, row, xerr=deviation, fmt="o", color=color, markersize=6, capsize=3, lw=1.8
            )
            set_hover(
                bar.lines[0],
                f"{name}: {mean:.{digits}f}{sign} ± {deviation:.{digits}f}, {len(values)} folds",
            )
            # In a separate column, so that the numbers do not overlap the bars.
            ax.annotate(
                f"{mean:.{digits}f}{sign}",
                (1.02, row),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=9 if compact else 10,
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
        label_rows(ax, names, compact=compact, bold=best)
        room = 0.06 * (high - low) or 1.0
        ax.set_xlim(max(low - room, -room / 3) if self.percent else low - room, high + room)
        title = f"{self.label} (%)" if self.percent else self.label
        ax.set_xlabel(title if compact else f"{title}: mean, standard error, and each fold")
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
    baseline : str, default=None
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
    ['Euclidean distance, standardised', 'GenerativeMetric']
    """

    error_by_k: Mapping[str, tuple[IntArray, FloatArray]]
    _: KW_ONLY
    baseline: str | None = None

    def __post_init__(self) -> None:
        if not self.error_by_k:
            raise ValueError("error_by_k must contain at least one method.")

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
            Transformers to compare; standardised features are added as a baseline.
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels.
        n_neighbors : sequence of int, default=(1, 2, 3, 5, 7, 10, 15, 20, 30, 50)
            Numbers of neighbours; those above the number of training samples are left out.
        cv : int, splitter or iterable, default=None
            Folds, the same for all methods; by default five stratified folds, shuffled with seed 0.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

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
                "n_neighbors must contain integers between 1 and the number of training "
                f"samples of a fold; got {list(n_neighbors)}."
            )
        found = {}
        for name, method in with_baseline(estimator).items():
            errors = np.zeros((len(folds), len(ks)))
            for fold, (train, test) in enumerate(folds):
                # One fit per fold, and one search for all numbers of neighbours.
                fitted = clone(method).fit(x[train], labels_[train])
                here, there = map_samples(fitted, x[train]), map_samples(fitted, x[test])
                classes, codes = np.unique(labels_[train], return_inverse=True)
                nearest = nearest_neighbors(here, int(ks[-1]), queries=there).indices
                # A class without training samples in the fold has a code that no vote predicts.
                known = np.isin(labels_[test], classes)
                truth = np.where(known, np.searchsorted(classes, labels_[test]), -1)
                errors[fold] = vote_errors(codes[nearest], truth, len(classes), ks)
            found[name] = (ks, errors.mean(axis=0))
        return cls(found, baseline=BASELINE).plot(ax=ax)

    @classmethod
    def from_comparison(cls, comparison: ComparisonResult, *, ax: Any = None) -> ErrorByKDisplay:
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
        return cls(comparison.error_by_k, baseline=comparison.baseline).plot(ax=ax)

    def plot(self, *, compact: bool = False, ax: Any = None) -> ErrorByKDisplay:
        """Draw the display.

        Parameters
        ----------
        compact : bool, default=False
            Whether to place the legend below the axes, for narrow figures.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        ErrorByKDisplay
            The display itself.
        """
        from itertools import cycle

        ax = one_axes(ax, (7.0, 3.6))
        # Different dashes keep lines visible that lie on each other.
        colors, styles = cycle(COLORS[:-1]), cycle(["-", "--", "-.", ":"])
        self.lines_ = []
        all_ks: set[int] = set()
        for name, (ks, errors) in self.error_by_k.items():
            kind = {"color": QUIET, "linewidth": 2.2}
            if name != self.baseline:
                kind = {"color": next(colors), "linewidth": 1.5, "linestyle": next(styles)}
            (line,) = ax.plot(ks, 100 * np.asarray(errors), marker="o", markersize=3.5, **kind)
            self.lines_.append(line)
            for k, error in zip(ks, errors, strict=True):
                # Transparent points carry the tooltips.
                (point,) = ax.plot(k, 100 * error, "o", markersize=9, alpha=0.0)
                set_hover(point, f"{name}: {100 * error:.2f}% with {k} neighbours")
            all_ks.update(int(k) for k in ks)
        if max(all_ks) > 12:
            ax.set_xscale("log")
        ax.minorticks_off()
        ticks = _spaced(sorted(all_ks), on_log=max(all_ks) > 12)
        ax.set_xticks(ticks, [str(k) for k in ticks])
        ax.set_xlabel("number of neighbours")
        ax.set_ylabel("error rate (%)")
        names = labels(self.error_by_k, width=38 if compact else 34)
        place_legend(ax, self.lines_, names, compact=compact)
        self.ax_, self.figure_ = ax, ax.figure
        return self


#: Name of nearest neighbours without a learned metric.
BASELINE = "Euclidean distance, standardised"


def with_baseline(estimator: Any) -> dict[str, Any]:
    """Return methods by name, the baseline first."""
    methods: dict[str, Any] = {BASELINE: StandardScaler()}
    if isinstance(estimator, Mapping):
        return methods | dict(estimator)
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    return methods | {type(last).__name__: estimator}


def folds_of(cv: Any, y: Any) -> Any:
    """Return the splitter of `cv`; five stratified folds, shuffled with seed 0, for None."""
    if cv is None:
        return StratifiedKFold(5, shuffle=True, random_state=0)
    return check_cv(cv, y, classifier=True)


def _spaced(ks: list[int], *, on_log: bool) -> list[int]:
    """Return the numbers whose labels do not touch."""
    kept: list[int] = []
    for k in ks:
        gap = (ks[-1] / ks[0]) ** 0.05 if on_log else (ks[-1] - ks[0]) / 20
        if not kept or (k >= kept[-1] * gap if on_log else k - kept[-1] >= gap):
            kept.append(k)
    return kept
