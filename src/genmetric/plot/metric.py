"""The metric itself: as a heat map, by its spectrum, by the weight of each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from genmetric._extras import need
from genmetric._typing import ArrayLike, FloatArray
from genmetric.plot.canvas import one_axes
from genmetric.plot.learned import clustered_order, effective_rank, learned_metric
from genmetric.plot.palette import COLORS, QUIET, diverging_map, labels


class MetricHeatmapDisplay:
    """The matrix of a metric, its features in clustered order.

    A positive entry off the diagonal says that two features moving together make rows farther
    apart than each alone would; a negative one, that they make up for each other.

    Parameters
    ----------
    matrix : ndarray of shape (n_shown, n_shown)
        The metric of the features shown, in the order shown.
    feature_names : sequence of str
        Their names.
    n_features : int
        How many features the metric has in all.
    standardized : bool, default=True
        Whether the features are measured in standard deviations.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the heat map.
    figure_ : matplotlib.figure.Figure
        Its figure.
    im_ : matplotlib.image.AxesImage
        The image.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.plot import MetricHeatmapDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> display = MetricHeatmapDisplay.from_estimator(GenerativeMetric().fit(X, y), X)
    >>> display.matrix.shape
    (13, 13)
    """

    def __init__(
        self,
        matrix: FloatArray,
        *,
        feature_names: Sequence[str],
        n_features: int,
        standardized: bool = True,
    ) -> None:
        self.matrix = matrix
        self.feature_names = feature_names
        self.n_features = n_features
        self.standardized = standardized

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike | None = None,
        *,
        feature_names: Sequence[Any] | None = None,
        max_features: int = 40,
        ax: Any = None,
    ) -> MetricHeatmapDisplay:
        """Draw the metric of a fitted estimator.

        Parameters
        ----------
        estimator : object
            A fitted metric, or a pipeline of linear steps with one in it.
        X : array-like of shape (n_samples, n_features), default=None
            Rows, to measure features in standard deviations.
        feature_names : sequence, default=None
            Names of the features; those of the fit, or x0, x1, ...
        max_features : int, default=40
            Show so many at most, those of the largest weight.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        MetricHeatmapDisplay
            The display, drawn.
        """
        learned = learned_metric(estimator, X, names=feature_names)
        kept = np.sort(np.argsort(-learned.weights, kind="stable")[:max_features])
        kept = kept[clustered_order(learned.matrix[np.ix_(kept, kept)])]
        return cls(
            learned.matrix[np.ix_(kept, kept)],
            feature_names=[learned.feature_names[i] for i in kept],
            n_features=len(learned.matrix),
            standardized=learned.standardized,
        ).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> MetricHeatmapDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        MetricHeatmapDisplay
            The display.
        """
        n = len(self.matrix)
        names = labels(self.feature_names)
        ax = one_axes(ax, heatmap_size(names))
        limit = float(np.abs(self.matrix).max())
        size = float(np.interp(n, [12, 24, 40, 80], [9, 8, 6.5, 4]))
        self.im_ = ax.imshow(
            self.matrix, cmap=diverging_map(), vmin=-limit, vmax=limit, interpolation="none"
        )
        upright = {"rotation": 90, "rotation_mode": "anchor", "ha": "right", "va": "center"}
        ax.set_xticks(range(n), names, **({} if max(map(len, names)) <= 3 else upright))
        ax.set_yticks(range(n), names)
        ax.tick_params(length=0, labelsize=size)
        for spine in ax.spines.values():
            spine.set(visible=True, color=QUIET, linewidth=0.6)
        bar = ax.figure.colorbar(self.im_, ax=ax, shrink=0.7, pad=0.02)
        bar.outline.set(edgecolor=QUIET, linewidth=0.6)
        title = "Metric of standardised features" if self.standardized else "Metric"
        ax.set_title(title + _some(n, self.n_features))
        self.ax_, self.figure_ = ax, ax.figure
        return self


class SpectrumDisplay:
    """The eigenvalues of a metric: in how many directions it measures.

    Parameters
    ----------
    eigenvalues : ndarray of shape (n_features,)
        Largest first, of mean one: the Euclidean distance has ones only.
    standardized : bool, default=True
        Whether the features are measured in standard deviations.

    Attributes
    ----------
    effective_rank : float
        Exponential of the entropy of the eigenvalues: from 1 to n_features.
    ax_ : matplotlib.axes.Axes
        Axes with the spectrum.
    figure_ : matplotlib.figure.Figure
        Its figure.
    line_ : matplotlib.lines.Line2D
        The spectrum.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.plot import SpectrumDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> display = SpectrumDisplay.from_estimator(GenerativeMetric().fit(X, y), X)
    >>> len(display.eigenvalues)
    13
    """

    def __init__(self, eigenvalues: FloatArray, *, standardized: bool = True) -> None:
        self.eigenvalues = eigenvalues
        self.standardized = standardized
        self.effective_rank = effective_rank(np.asarray(eigenvalues, float))

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: ArrayLike | None = None, *, ax: Any = None
    ) -> SpectrumDisplay:
        """Draw the spectrum of the metric of a fitted estimator.

        Parameters
        ----------
        estimator : object
            A fitted metric, or a pipeline of linear steps with one in it.
        X : array-like of shape (n_samples, n_features), default=None
            Rows, to measure features in standard deviations.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        SpectrumDisplay
            The display, drawn.
        """
        learned = learned_metric(estimator, X)
        return cls(learned.eigenvalues, standardized=learned.standardized).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> SpectrumDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        SpectrumDisplay
            The display.
        """
        ax = one_axes(ax, (5.5, 3.4))
        values = np.asarray(self.eigenvalues, float)
        n = len(values)
        # Zeros of a metric of low rank have no place on a scale of powers.
        shown = values[values > 1e-14 * values.max()]
        marker = {"marker": "o", "markersize": 4} if n <= 60 else {}
        (self.line_,) = ax.plot(np.arange(1, len(shown) + 1), shown, color=COLORS[0], **marker)
        ax.set_yscale("log")
        _plain_powers(ax.yaxis, float(min(shown[-1], 1.0)), float(max(shown[0], 1.0)))
        ax.axhline(1.0, color=QUIET, linewidth=1, linestyle="--", zorder=0)
        # Beside the line, where the spectrum is not: it crosses one once, from above.
        ax.annotate(
            "Euclidean",
            (1, 1),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize="small",
        )
        ticker = need("matplotlib.ticker", "report")
        ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=1))
        ax.set_xlim(0.5 if n <= 60 else 1, n + 0.5)
        ax.set_xlabel("direction" + (f" ({len(shown)} of {n})" if len(shown) < n else ""))
        ax.set_ylabel("eigenvalue over mean")
        ax.set_title(f"Spectrum: effective rank {self.effective_rank:.1f} of {n:,}")
        self.ax_, self.figure_ = ax, ax.figure
        return self


class FeatureWeightsDisplay:
    """The weight of each feature in the metric: its diagonal times the feature's variance.

    Parameters
    ----------
    weights : ndarray of shape (n_features,)
        Share of each feature, of sum one.
    feature_names : sequence of str
        Names of the features.
    max_features : int, default=25
        Show so many at most, the largest.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the bars.
    figure_ : matplotlib.figure.Figure
        Its figure.
    bars_ : matplotlib.container.BarContainer
        The bars.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.plot import FeatureWeightsDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> display = FeatureWeightsDisplay.from_estimator(GenerativeMetric().fit(X, y), X)
    >>> round(float(display.weights.sum()), 6)
    1.0
    """

    def __init__(
        self, weights: FloatArray, *, feature_names: Sequence[str], max_features: int = 25
    ) -> None:
        self.weights = weights
        self.feature_names = feature_names
        self.max_features = max_features

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        *,
        feature_names: Sequence[Any] | None = None,
        max_features: int = 25,
        ax: Any = None,
    ) -> FeatureWeightsDisplay:
        """Draw the weights of the features in the metric of a fitted estimator.

        Parameters
        ----------
        estimator : object
            A fitted metric, or a pipeline of linear steps with one in it.
        X : array-like of shape (n_samples, n_features)
            Rows, for the variances.
        feature_names : sequence, default=None
            Names of the features; those of the fit, or x0, x1, ...
        max_features : int, default=25
            Show so many at most, the largest.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        FeatureWeightsDisplay
            The display, drawn.
        """
        learned = learned_metric(estimator, X, names=feature_names)
        return cls(
            learned.weights, feature_names=learned.feature_names, max_features=max_features
        ).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> FeatureWeightsDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        FeatureWeightsDisplay
            The display.
        """
        weights = np.asarray(self.weights, float)
        order = np.argsort(-weights, kind="stable")[: self.max_features]
        n = len(order)
        ax = one_axes(ax, (6.5, 1.1 + 0.22 * n))
        self.bars_ = ax.barh(np.arange(n), 100 * weights[order], color=COLORS[0], height=0.7)
        ax.set_yticks(np.arange(n), labels([self.feature_names[i] for i in order], width=32))
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(n - 0.4, -0.6)
        ax.axvline(100 / len(weights), color=QUIET, linewidth=1, linestyle="--")
        ax.set_xlabel("share of the squared distance (%); dashed: all features alike")
        ax.set_title("Feature weights" + _some(n, len(weights)))
        self.ax_, self.figure_ = ax, ax.figure
        return self


def heatmap_size(names: Sequence[str]) -> tuple[float, float]:
    """Width and height in inches of a heat map with these names at two sides."""
    side = float(np.interp(len(names), [2, 8, 40], [2.7, 3.3, 5.6]))
    room = 0.075 * min(24, max(map(len, names))) * float(np.interp(len(names), [12, 40], [1, 0.75]))
    return side + room + 1.0, side + room + 0.3


def _some(shown: int, of: int) -> str:
    return f": {shown:,} of {of:,} features" if shown < of else ""


def _plain_powers(axis: Any, low: float, high: float) -> None:
    """Ticks of a scale of powers as plain numbers, more of them where it spans little."""
    ticker = need("matplotlib.ticker", "report")
    steps = (1, 2, 5) if high < 150 * low else (1,)
    axis.set_major_locator(ticker.LogLocator(subs=steps, numticks=12))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
