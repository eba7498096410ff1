"""Time of methods: to fit, and to answer for the test rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from genmetric._typing import ArrayLike
from genmetric.plot.canvas import one_axes
from genmetric.plot.errors import folds_of, with_baseline
from genmetric.plot.palette import COLORS, QUIET, labels


class TimesDisplay:
    """Time that methods take, on a scale of powers, one line a method.

    Parameters
    ----------
    seconds : mapping of str to (fit, predict)
        Mean seconds of a fit and of predicting the rows of a fold, by name of the method, in the
        order to show.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the times.
    figure_ : matplotlib.figure.Figure
        Its figure.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.plot import TimesDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> display = TimesDisplay.from_estimator(GenerativeMetric(), X, y)
    >>> list(display.seconds)
    ['Euclidean, standardised', 'GenerativeMetric']
    """

    def __init__(self, seconds: Mapping[str, tuple[float, float]]) -> None:
        if not seconds:
            raise ValueError("seconds needs at least one method.")
        self.seconds = seconds

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
        """Time estimators beside nearest neighbours on standardised features.

        Parameters
        ----------
        estimator : estimator or mapping of str to estimator
            Classifiers are timed as they are, transformers with the neighbours behind them.
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.
        cv : int, splitter or iterable, default=None
            Folds, the same for all; five stratified ones, shuffled with seed 0, by default.
        n_neighbors : int, default=5
            Neighbours that vote.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

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
    def from_comparison(cls, comparison: Any, *, ax: Any = None) -> TimesDisplay:
        """Draw the times of a comparison that was made before.

        Parameters
        ----------
        comparison : genmetric.study.comparison.Comparison
            The comparison; methods that were skipped are not shown.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

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

    def plot(self, *, ax: Any = None) -> TimesDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        TimesDisplay
            The display.
        """
        names = list(self.seconds)
        ax = one_axes(ax, (7.0, 1.3 + 0.3 * len(names)))
        # A clock that shows nothing has still taken some time.
        times = np.clip(np.array([self.seconds[name] for name in names], float), 1e-6, None)
        places = np.arange(len(names))
        ax.hlines(places, times.min(axis=1), times.max(axis=1), color=QUIET, linewidth=1, zorder=1)
        for column, (title, marker) in enumerate((("fit", "o"), ("predict", "D"))):
            ax.plot(
                times[:, column],
                places,
                linestyle="",
                marker=marker,
                markersize=6.5 - column,
                color=COLORS[column],
                label=title,
            )
        ax.set_xscale("log")
        low, high = times.min(), times.max()
        ax.set_xlim(low / 1.8, high * 1.8)
        ax.minorticks_off()
        ticks = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        ticks = ticks[(ticks >= low / 1.8) & (ticks <= high * 1.8)]
        if len(ticks) < 2:
            ticks = np.array([low, high]) if high > 1.5 * low else np.array([low])
        ax.set_xticks(ticks, [duration(t) for t in ticks])
        ax.set_yticks(places, labels(names, width=32))
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.set_xlabel("time a fold")
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.03), frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them.

    Parameters
    ----------
    seconds : float
        How long.

    Returns
    -------
    str
        Such as "3.1 ms" or "2 min".

    Examples
    --------
    >>> from genmetric.plot.times import duration
    >>> [duration(s) for s in (2e-5, 0.0031, 1.0, 150.0, 7300.0)]
    ['0.02 ms', '3.1 ms', '1 s', '2.5 min', '2 h']
    """
    for factor, unit, limit in ((1e3, "ms", 1.0), (1.0, "s", 100.0), (1 / 60, "min", 6000.0)):
        if seconds < limit:
            return f"{_digits(seconds * factor)} {unit}"
    return f"{_digits(seconds / 3600)} h"


def _digits(value: float) -> str:
    """Two digits that count, none of them in an exponent."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
