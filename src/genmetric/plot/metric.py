"""Displays of a learned metric: its matrix and the contributions of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from genmetric._typing import ArrayLike, FloatArray, IntArray
from genmetric.inspection import feature_contributions, learned_metric
from genmetric.plot.palette import COLORS, QUIET, labels, name_rows, new_axes


@dataclass(repr=False, eq=False)
class MetricHeatmapDisplay:
    """Heat map of the matrix of a metric, with features ordered by clustering.

    An entry off the diagonal is positive if differences of equal sign in both features increase
    the distance, and negative if they offset each other.

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
        kept = kept[_clustered_order(learned.matrix[np.ix_(kept, kept)])]
        return cls(
            learned.matrix[np.ix_(kept, kept)],
            feature_names=[learned.feature_names[i] for i in kept],
            n_features=len(learned.matrix),
            standardized=learned.standardized,
        ).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> MetricHeatmapDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        MetricHeatmapDisplay
            The display itself.
        """
        n, names = len(self.matrix), labels(self.feature_names)
        # Names need space at two sides.
        side = float(np.interp(n, [2, 8, 40], [2.7, 3.3, 6.4])) + 0.07 * max(map(len, names))
        ax = new_axes(ax, (side + 1.0, side + 0.3))
        limit = float(np.abs(self.matrix).max())
        self.im_ = ax.imshow(self.matrix, cmap="PuOr_r", vmin=-limit, vmax=limit)
        ax.set_xticks(range(n), names, rotation=90)
        ax.set_yticks(range(n), names)
        ax.tick_params(length=0, labelsize=9 if n <= 12 else 8)
        ax.figure.colorbar(self.im_, ax=ax, shrink=0.7, pad=0.02)
        title = "Metric of standardized features" if self.standardized else "Metric"
        ax.set_title(title + _some(n, self.n_features))
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(repr=False, eq=False)
class FeatureWeightsDisplay:
    """Mean share of each feature in the squared distance between two samples.

    Shares sum to one and do not depend on the units of the features. A share can be negative
    when correlated features offset each other, see
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
        by_column: bool = False,
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
        by_column : bool, default=False
            Whether to add up the shares of the features that were made of the same column of a
            table, such as the values of a category.
        max_features : int, default=25
            Maximum number of features shown, those of largest magnitude.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        FeatureWeightsDisplay
            The display, drawn.
        """
        if by_column:
            found = feature_contributions(estimator, X, by_column=True)
            names, shares = tuple(found), np.array(list(found.values()))
        else:
            learned = learned_metric(estimator, X, feature_names=feature_names)
            names, shares = learned.feature_names, np.asarray(learned.contributions)
        return cls(shares, feature_names=names, max_features=max_features).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> FeatureWeightsDisplay:
        """Draw the display.

        Parameters
        ----------
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
        ax = new_axes(ax, (6.5, 1.1 + 0.22 * n))
        colors = [COLORS[0] if weights[i] >= 0 else COLORS[1] for i in order]
        self.bars_ = ax.barh(np.arange(n), 100 * weights[order], color=colors, height=0.7)
        name_rows(ax, [self.feature_names[i] for i in order])
        if weights[order].min(initial=0.0) < 0:
            ax.axvline(0, color=QUIET, linewidth=0.8)
        ax.axvline(100 / len(weights), color=QUIET, linewidth=1, linestyle="--")
        ax.set_xlabel("mean share of the squared distance (%); dashed: equal shares")
        ax.set_title("Contributions" + _some(n, len(weights)))
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _clustered_order(matrix: FloatArray) -> IntArray:
    """Order features by average linkage of 1 - |M_ij| / sqrt(M_ii M_jj): coupled ones adjacent."""
    if len(matrix) < 3:
        return np.arange(len(matrix))
    size = np.sqrt(np.clip(np.diag(matrix), 0.0, None))
    size[size == 0] = 1.0
    distance = np.clip(1 - np.abs(matrix / size / size[:, None]), 0.0, None)
    distance = (distance + distance.T) / 2
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    return np.asarray(leaves_list(tree), dtype=np.intp)


def _some(shown: int, of: int) -> str:
    """Say in a title that some features are left out."""
    return f": {shown:,} of {of:,} features" if shown < of else ""
