"""Displays of a learned metric: heat map, spectrum and contributions of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from genmetric._optional import import_optional
from genmetric._typing import ArrayLike, FloatArray, IntArray
from genmetric.inspection import effective_rank, learned_metric
from genmetric.plot._canvas import label_rows, one_axes, set_hover
from genmetric.plot._palette import COLORS, QUIET, diverging_map, labels


@dataclass(repr=False, eq=False)
class MetricHeatmapDisplay:
    """Heat map of the matrix of a metric, with features ordered by clustering.

    An entry off the diagonal is positive if differences of equal sign in both features increase
    the distance, and negative if they compensate for each other.

    Parameters
    ----------
    matrix : ndarray of shape (n_shown, n_shown)
        The metric of the features shown, in the order shown.
    feature_names : sequence of str
        Names of the features shown.
    n_features : int
        Total number of features of the metric.
    standardized : bool, default=True
        Whether the features are measured in standard deviations.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the heat map.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.
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

    matrix: FloatArray
    _: KW_ONLY
    feature_names: Sequence[str]
    n_features: int
    standardized: bool = True

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
            A fitted metric, or a fitted pipeline that contains one.
        X : array-like of shape (n_samples, n_features), default=None
            Samples, to measure features in standard deviations.
        feature_names : sequence, default=None
            Names of the features; by default those of the fit, otherwise x0, x1, ...
        max_features : int, default=40
            Maximum number of features shown, those with the largest diagonal entries.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        MetricHeatmapDisplay
            The display, drawn.
        """
        learned = learned_metric(estimator, X, feature_names=feature_names)
        kept = np.sort(np.argsort(-np.diag(learned.matrix), kind="stable")[:max_features])
        kept = kept[clustered_order(learned.matrix[np.ix_(kept, kept)])]
        return cls(
            learned.matrix[np.ix_(kept, kept)],
            feature_names=[learned.feature_names[i] for i in kept],
            n_features=len(learned.matrix),
            standardized=learned.standardized,
        ).plot(ax=ax)

    def plot(self, *, compact: bool = False, ax: Any = None) -> MetricHeatmapDisplay:
        """Draw the display.

        Parameters
        ----------
        compact : bool, default=False
            Whether to show twelve features at most, for narrow figures.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        MetricHeatmapDisplay
            The display itself.
        """
        n = min(12, len(self.matrix)) if compact else len(self.matrix)
        kept = np.sort(np.argsort(-np.diag(self.matrix), kind="stable")[:n])
        matrix = self.matrix[np.ix_(kept, kept)]
        names = labels([self.feature_names[i] for i in kept], width=14 if compact else 24)
        ax = one_axes(ax, heatmap_size(names))
        limit = float(np.abs(matrix).max())
        size = 9 if n <= 12 else 8
        self.im_ = ax.imshow(
            matrix, cmap=diverging_map(), vmin=-limit, vmax=limit, interpolation="none"
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
        some = _some(n, self.n_features)
        ax.set_title(some.removeprefix(": ") if compact else title + some)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(repr=False, eq=False)
class SpectrumDisplay:
    """Eigenvalues of a metric, which show in how many directions it measures.

    Parameters
    ----------
    eigenvalues : ndarray of shape (n_features,)
        Eigenvalues in descending order, with mean one; all are one for the Euclidean distance.
    standardized : bool, default=True
        Whether the features are measured in standard deviations.

    Attributes
    ----------
    effective_rank : float
        Exponential of the entropy of the eigenvalues, between 1 and n_features.
    ax_ : matplotlib.axes.Axes
        Axes with the spectrum.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.
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

    eigenvalues: FloatArray
    _: KW_ONLY
    standardized: bool = True

    def __post_init__(self) -> None:
        self.effective_rank = effective_rank(np.asarray(self.eigenvalues, float))

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: ArrayLike | None = None, *, ax: Any = None
    ) -> SpectrumDisplay:
        """Draw the spectrum of the metric of a fitted estimator.

        Parameters
        ----------
        estimator : object
            A fitted metric, or a fitted pipeline that contains one.
        X : array-like of shape (n_samples, n_features), default=None
            Samples, to measure features in standard deviations.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        SpectrumDisplay
            The display, drawn.
        """
        learned = learned_metric(estimator, X)
        return cls(learned.eigenvalues, standardized=learned.standardized).plot(ax=ax)

    def plot(self, *, compact: bool = False, ax: Any = None) -> SpectrumDisplay:
        """Draw the display.

        Parameters
        ----------
        compact : bool, default=False
            Whether to leave the title out, for narrow figures.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        SpectrumDisplay
            The display itself.
        """
        ax = one_axes(ax, (5.5, 3.4))
        values = np.asarray(self.eigenvalues, float)
        n = len(values)
        # Zero eigenvalues cannot be drawn on a logarithmic scale.
        shown = values[values > 1e-14 * values.max()]
        marker = {"marker": "o", "markersize": 4} if n <= 60 else {}
        (self.line_,) = ax.plot(np.arange(1, len(shown) + 1), shown, color=COLORS[0], **marker)
        ax.set_yscale("log")
        _plain_powers(ax.yaxis, float(min(shown[-1], 1.0)), float(max(shown[0], 1.0)))
        ax.axhline(1.0, color=QUIET, linewidth=1, linestyle="--", zorder=0)
        # At the right end: the spectrum is below one there.
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
        ticker = import_optional("matplotlib.ticker", "report")
        ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=1))
        ax.set_xlim(0.5 if n <= 60 else 1, n + 0.5)
        ax.set_xlabel(
            "number of the eigenvalue" + (f" ({len(shown)} of {n})" if len(shown) < n else "")
        )
        ax.set_ylabel("eigenvalue / mean")
        if not compact:
            ax.set_title(f"Spectrum: effective rank {self.effective_rank:.1f} of {n:,}")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(repr=False, eq=False)
class FeatureWeightsDisplay:
    """Mean share of each feature in the squared distance between two samples.

    Shares sum to one and do not depend on the units of the features. A share is negative if
    correlated features compensate for that feature, see
    :func:`genmetric.inspection.feature_contributions`.

    Parameters
    ----------
    weights : ndarray of shape (n_features,)
        Mean share of each feature.
    feature_names : sequence of str
        Names of the features.
    max_features : int, default=25
        Maximum number of features shown, those of largest magnitude.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the bars.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.
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

    weights: FloatArray
    _: KW_ONLY
    feature_names: Sequence[str]
    max_features: int = 25

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
        """Draw the mean share of each feature under the metric of a fitted estimator.

        Parameters
        ----------
        estimator : object
            A fitted metric, or a fitted pipeline that contains one.
        X : array-like of shape (n_samples, n_features)
            Samples whose distances are divided among the features.
        feature_names : sequence, default=None
            Names of the features; by default those of the fit, otherwise x0, x1, ...
        max_features : int, default=25
            Maximum number of features shown, those of largest magnitude.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        FeatureWeightsDisplay
            The display, drawn.
        """
        learned = learned_metric(estimator, X, feature_names=feature_names)
        shares = np.asarray(learned.contributions)
        return cls(shares, feature_names=learned.feature_names, max_features=max_features).plot(
            ax=ax
        )

    def plot(self, *, compact: bool = False, ax: Any = None) -> FeatureWeightsDisplay:
        """Draw the display.

        Parameters
        ----------
        compact : bool, default=False
            Whether to write names above the rows, for narrow figures.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        FeatureWeightsDisplay
            The display itself.
        """
        weights = np.asarray(self.weights, float)
        largest = np.argsort(-np.abs(weights), kind="stable")[: self.max_features]
        order = largest[np.argsort(-weights[largest], kind="stable")]
        n = len(order)
        ax = one_axes(ax, (6.5, 1.1 + 0.22 * n))
        colors = [COLORS[0] if weights[i] >= 0 else COLORS[1] for i in order]
        self.bars_ = ax.barh(
            np.arange(n), 100 * weights[order], color=colors, height=0.36 if compact else 0.7
        )
        for bar, i in zip(self.bars_, order, strict=True):
            set_hover(bar, f"{self.feature_names[i]}: {100 * weights[i]:.2f}%")
        label_rows(ax, [self.feature_names[i] for i in order], compact=compact)
        if weights[order].min(initial=0.0) < 0:
            ax.axvline(0, color=QUIET, linewidth=0.8)
        ax.axvline(100 / len(weights), color=QUIET, linewidth=1, linestyle="--")
        text = "share of the squared distance (%)"
        ax.set_xlabel(text if compact else f"mean {text}; dashed: equal shares")
        some = _some(n, len(weights))
        ax.set_title(some.removeprefix(": ") if compact else "Feature contributions" + some)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def clustered_order(matrix: FloatArray) -> IntArray:
    """Return an order of the features in which coupled features are adjacent.

    Parameters
    ----------
    matrix : ndarray of shape (n_features, n_features)
        The metric M.

    Returns
    -------
    ndarray of shape (n_features,)
        Leaves of the average-linkage tree of 1 - |M_ij| / sqrt(M_ii M_jj).
    """
    if len(matrix) < 3:
        return np.arange(len(matrix))
    size = np.sqrt(np.clip(np.diag(matrix), 0.0, None))
    size[size == 0] = 1.0
    distance = np.clip(1 - np.abs(matrix / size / size[:, None]), 0.0, None)
    distance = (distance + distance.T) / 2
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    return np.asarray(leaves_list(tree), dtype=np.intp)


def heatmap_size(names: Sequence[str]) -> tuple[float, float]:
    """Return width and height in inches of a heat map with these names at two sides."""
    side = float(np.interp(len(names), [2, 8, 40], [2.7, 3.3, 6.4]))
    room = 0.075 * min(24, max(map(len, names))) * float(np.interp(len(names), [12, 40], [1, 0.75]))
    return side + room + 1.0, side + room + 0.3


def _some(shown: int, of: int) -> str:
    return f": {shown:,} of {of:,} features" if shown < of else ""


def _plain_powers(axis: Any, low: float, high: float) -> None:
    """Label a logarithmic axis with plain numbers, with more ticks on a short range."""
    ticker = import_optional("matplotlib.ticker", "report")
    steps = (1, 2, 5) if high < 150 * low else (1,)
    axis.set_major_locator(ticker.LogLocator(subs=steps, numticks=12))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
