"""Display of the time that methods take to fit and to predict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from genmetric._duration import duration
from genmetric._results import ComparisonResult
from genmetric._typing import ArrayLike
from genmetric.plot._canvas import label_rows, one_axes, place_legend, set_hover
from genmetric.plot._errors import folds_of, with_baseline
from genmetric.plot._palette import COLORS, QUIET


@dataclass(repr=False, eq=False)
class TimesDisplay:
    """Time that methods take to fit and predict, on a logarithmic scale, one row per method.

    Parameters
    ----------
    seconds : mapping of str to (fit, predict)
        Mean seconds to fit and to predict the samples of a fold, by name of the method, in the
        order to show.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the times.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.plot import TimesDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> display = TimesDisplay.from_estimator(GenerativeMetric(), X, y)
    >>> list(display.seconds)
    ['Euclidean distance, standardised', 'GenerativeMetric']
    """

    seconds: Mapping[str, tuple[float, float]]

    def __post_init__(self) -> None:
        if not self.seconds:
            raise ValueError("seconds must contain at least one method.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        cv: Any = None,
        n_neighbors: int = 5,
        ax: Any = None,
    ) -> TimesDisplay:
        """Time estimators and, as a baseline, nearest neighbours on standardised features.

        Parameters
        ----------
        estimator : estimator or mapping of str to estimator
            Classifiers are timed directly, transformers with nearest neighbours after them.
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels.
        cv : int, splitter or iterable, default=None
            Folds, the same for all methods; by default five stratified folds, shuffled with seed 0.
        n_neighbors : int, default=5
            Number of neighbours.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        TimesDisplay
            The display, drawn.
        """
        seconds = {}
        for name, method in with_baseline(estimator).items():
            model = clone(method)
            if not is_classifier(model):
                model = make_pipeline(model, KNeighborsClassifier(n_neighbors))
            times = cross_validate(model, X, y, cv=folds_of(cv, y))
            seconds[name] = (float(times["fit_time"].mean()), float(times["score_time"].mean()))
        return cls(seconds).plot(ax=ax)

    @classmethod
    def from_comparison(cls, comparison: ComparisonResult, *, ax: Any = None) -> TimesDisplay:
        """Draw the times of a comparison.

        Parameters
        ----------
        comparison : genmetric.comparison.Comparison
            The comparison; methods that were skipped are not shown.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        TimesDisplay
            The display, drawn.
        """
        seconds = {
            result.name: (
                float(np.mean(result.fit_seconds)),
                float(np.mean(result.predict_seconds)),
            )
            for result in comparison.ran
        }
        return cls(seconds).plot(ax=ax)

    def plot(self, *, compact: bool = False, ax: Any = None) -> TimesDisplay:
        """Draw the display.

        Parameters
        ----------
        compact : bool, default=False
            Whether to write names above the rows, for narrow figures.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        TimesDisplay
            The display itself.
        """
        names = list(self.seconds)
        ax = one_axes(ax, (7.0, 1.3 + 0.3 * len(names)))
        # Times below the resolution of the clock are drawn at a microsecond.
        times = np.clip(np.array([self.seconds[name] for name in names], float), 1e-6, None)
        places = np.arange(len(names))
        ax.hlines(places, times.min(axis=1), times.max(axis=1), color=QUIET, linewidth=1, zorder=1)
        for column, (title, marker) in enumerate((("fit", "o"), ("predict", "D"))):
            style = {"linestyle": "", "marker": marker, "color": COLORS[column]}
            for place in places:
                (point,) = ax.plot(
                    times[place, column],
                    place,
                    markersize=6.5 - column,
                    label=title if place == 0 else None,
                    **style,
                )
                set_hover(point, f"{names[place]}, {title}: {duration(times[place, column])}")
        ax.set_xscale("log")
        low, high = times.min(), times.max()
        ax.set_xlim(low / 1.8, high * 1.8)
        ax.minorticks_off()
        ticks = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        ticks = ticks[(ticks >= low / 1.8) & (ticks <= high * 1.8)]
        if len(ticks) < 2:
            ticks = np.array([low, high]) if high > 1.5 * low else np.array([low])
        ax.set_xticks(ticks, [duration(t) for t in ticks])
        label_rows(ax, names, compact=compact)
        ax.set_xlabel("time per fold")
        place_legend(ax, *ax.get_legend_handles_labels(), compact=compact)
        self.ax_, self.figure_ = ax, ax.figure
        return self
