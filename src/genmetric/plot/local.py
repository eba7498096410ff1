"""Local metrics as ellipses over a plane: the picture that explains the method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from genmetric._extras import need
from genmetric._typing import ArrayLike, FloatArray, IntArray
from genmetric._validation import check_count
from genmetric.plot.canvas import one_axes
from genmetric.plot.embedding import scatter_classes
from genmetric.plot.learned import (
    class_codes,
    draw,
    linear_map,
    name_features,
    numeric_rows,
    transformer_of,
)
from genmetric.plot.palette import QUIET, label

#: Half-axes of a circle, and the longest of an ellipse, in units of the spacing of the grid.
ROUND, LONGEST = 0.33, 0.65


class LocalMetricsDisplay:
    """Local metrics of two features as ellipses: all points of one are equally far from its centre.

    Where an ellipse is long, neighbours may be taken from far along it without harm; where it is
    narrow, the class densities change and they may not. The metric learned, in the corner, is the
    average over the rows.

    Parameters
    ----------
    points : ndarray of shape (n_points, 2)
        Centres of the ellipses.
    metrics : ndarray of shape (n_points, 2, 2)
        Local metric at each.
    metric : ndarray of shape (2, 2)
        The metric learned.
    rows : ndarray of shape (n_rows, 2)
        Rows to draw below the ellipses.
    classes : ndarray of shape (n_rows,)
        Their class numbers.
    class_names : sequence of str
        Names of the classes 0, 1, ...
    feature_names : tuple of two str
        Names of the axes.
    spacing : tuple of two float
        Distance of the centres along each axis, which sets the size of the ellipses.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the ellipses.
    figure_ : matplotlib.figure.Figure
        Its figure.
    ellipses_ : matplotlib.collections.PolyCollection
        The ellipses.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.plot import LocalMetricsDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> X = X[:, [0, 6]]
    >>> display = LocalMetricsDisplay.from_estimator(GenerativeMetric().fit(X, y), X, y)
    >>> display.metrics.shape[1:]
    (2, 2)
    """

    def __init__(
        self,
        points: FloatArray,
        *,
        metrics: FloatArray,
        metric: FloatArray,
        rows: FloatArray,
        classes: IntArray,
        class_names: Sequence[str],
        feature_names: Sequence[str],
        spacing: tuple[float, float],
    ) -> None:
        self.points = points
        self.metrics = metrics
        self.metric = metric
        self.rows = rows
        self.classes = classes
        self.class_names = class_names
        self.feature_names = feature_names
        self.spacing = spacing

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        grid: int = 11,
        class_names: Sequence[Any] | None = None,
        feature_names: Sequence[Any] | None = None,
        max_rows: int = 2000,
        random_state: Any = 0,
        ax: Any = None,
    ) -> LocalMetricsDisplay:
        """Draw the local metrics of an estimator fitted on two features.

        Parameters
        ----------
        estimator : object
            A fitted :class:`genmetric.GenerativeMetric` of two features, or a pipeline of linear
            steps that ends with one.
        X : array-like of shape (n_samples, 2)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels.
        grid : int, default=11
            Ellipses along each axis; those far from every row are left out.
        class_names : sequence, default=None
            Names of the classes in sorted order of the labels.
        feature_names : sequence of length 2, default=None
            Names of the features.
        max_rows : int, default=2000
            Show so many rows at most, drawn at random.
        random_state : int, RandomState instance or None, default=0
            Draws them.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        LocalMetricsDisplay
            The display, drawn.
        """
        check_count(grid, "grid")
        rows = numeric_rows(X)
        if rows.shape[1] != 2:
            raise ValueError(
                f"Ellipses are drawn over a plane, but X has {rows.shape[1]} features. Fit the "
                "estimator on two of them."
            )
        names = name_features(feature_names, estimator, X, 2)
        codes, classes = class_codes(y, class_names)
        low, high = np.quantile(rows, [0.03, 0.97], axis=0)
        span = np.where(high > low, high - low, 1.0)
        low, high = low - 0.06 * span, high + 0.06 * span
        step = (high - low) / max(1, grid - 1)
        mesh = np.meshgrid(*(np.linspace(low[i], high[i], grid) for i in range(2)))
        centres = np.column_stack([m.ravel() for m in mesh])
        # Far from all rows a local metric is an extrapolation that no row sees.
        cells = np.round((rows - low) / step)
        gaps = np.abs((centres - low)[:, None] / step - np.unique(cells, axis=0)).max(axis=2)
        centres = centres[gaps.min(axis=1) < 0.75]
        local, average = _local_metrics(estimator, centres, rows.mean(axis=0), step)
        shown = draw(len(rows), max_rows, random_state)
        return cls(
            centres,
            metrics=local,
            metric=average,
            rows=rows[shown],
            classes=codes[shown],
            class_names=classes,
            feature_names=names,
            spacing=(float(step[0]), float(step[1])),
        ).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> LocalMetricsDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        LocalMetricsDisplay
            The display.
        """
        collections, lines, patches = (
            need(f"matplotlib.{module}", "report") for module in ("collections", "lines", "patches")
        )
        ax = one_axes(ax, (7.4, 5.0))
        handles: dict[int, Any] = {}
        scatter_classes(ax, self.rows, self.classes, handles, quiet=True)
        step = np.asarray(self.spacing)
        shapes = ellipses(self.metrics, step)
        self.ellipses_ = collections.PolyCollection(
            list(self.points[:, None] + shapes),
            facecolors="none",
            edgecolors="black",
            linewidths=1.1,
        )
        ax.add_collection(self.ellipses_)
        low, high = self.points.min(axis=0) - step, self.points.max(axis=0) + step
        # Room at the right for the metric learned.
        ax.set_xlim(low[0], high[0] + 3 * step[0])
        ax.set_ylim(low[1], high[1])
        ax.set_xlabel(label(self.feature_names[0], width=40))
        ax.set_ylabel(label(self.feature_names[1], width=40))
        shown = list(handles)[: len(handles) if len(handles) <= 9 else 8]
        entries = [label(self.class_names[c], width=18) for c in shown]
        keys = [handles[c] for c in shown]
        if len(shown) < len(handles):
            keys.append(lines.Line2D([], [], linestyle=""))
            entries.append(f"and {len(handles) - len(shown)} more")
        ax.legend(
            keys,
            entries,
            loc="upper left",
            bbox_to_anchor=(1.01, 1.02),
            frameon=False,
            markerscale=1.4,
            handletextpad=0.3,
        )
        self._corner(ax, patches, high, low)
        ax.set_title("Local metrics")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _corner(self, ax: Any, patches: Any, high: FloatArray, low: FloatArray) -> None:
        """The metric learned, in a box below at the right, twice the size of the local ones."""
        step = np.asarray(self.spacing)
        centre = np.array([high[0] + 1.4 * step[0], low[1] + 1.75 * step[1]])
        outline = centre + 2 * ellipses(self.metric[None], step)[0]
        ax.fill(*outline.T, facecolor="none", edgecolor="black", linewidth=2, zorder=4)
        corner, size = centre - 1.4 * step, 2.8 * step
        ax.add_patch(
            patches.Rectangle(
                corner, *size, facecolor="white", edgecolor=QUIET, linewidth=0.6, zorder=3
            )
        )
        ax.annotate(
            "learned metric",
            (centre[0], centre[1] + 1.4 * step[1]),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize="small",
        )


def ellipses(metrics: FloatArray, spacing: FloatArray, n_corners: int = 40) -> FloatArray:
    """Outlines of the sets of equal distance from the origin, all of about the same area.

    Parameters
    ----------
    metrics : ndarray of shape (n, 2, 2)
        Positive definite matrices.
    spacing : ndarray of shape (2,)
        Size of a cell of the grid. In its units every ellipse has half-axes of product 0.33²;
        one that would be longer than 0.65 is drawn with 0.65, and as narrow as it is.
    n_corners : int, default=40
        Corners of an outline.

    Returns
    -------
    ndarray of shape (n, n_corners, 2)
        The outlines.
    """
    scaled = metrics * spacing * spacing[:, None]
    values, vectors = np.linalg.eigh(scaled)
    values = np.clip(values, 1e-12 * values[:, 1:], None)
    axes = 1 / np.sqrt(values)
    axes *= ROUND / np.sqrt(axes.prod(axis=1, keepdims=True))
    axes = np.clip(axes, 0.012, LONGEST)
    angle = np.linspace(0, 2 * np.pi, n_corners, endpoint=False)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    outline = (circle * axes[:, None]) @ vectors.transpose(0, 2, 1)
    return np.asarray(outline * spacing)


def _local_metrics(
    estimator: Any, centres: FloatArray, origin: FloatArray, step: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Local metrics at the centres and the metric learned, in the coordinates of the input."""
    transformer = transformer_of(estimator)
    last = transformer[-1] if isinstance(transformer, Pipeline) else transformer
    if not hasattr(last, "local_metrics"):
        raise TypeError(
            f"{type(last).__name__} has no local metrics. Pass a fitted GenerativeMetric, or a "
            "pipeline that ends with one."
        )
    before, factor = centres, np.eye(2)
    if isinstance(transformer, Pipeline) and len(transformer) > 1:
        before = np.asarray(transformer[:-1].transform(centres), float)
        factor = linear_map(transformer[:-1], origin, step) / step
    local = np.asarray(last.local_metrics(before), float)
    learned = np.asarray(last.metric_, float)
    return factor.T @ local @ factor, factor.T @ learned @ factor
