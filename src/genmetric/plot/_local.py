"""Display of local metrics as ellipses over two features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from genmetric._optional import import_optional
from genmetric._typing import ArrayLike, FloatArray, IntArray
from genmetric._validation import check_count
from genmetric.inspection import linear_map, metric_transformer
from genmetric.inspection._transformer import check_feature_names, finite_samples
from genmetric.plot._canvas import one_axes, place_legend
from genmetric.plot._embedding import scatter_classes
from genmetric.plot._palette import QUIET, label
from genmetric.plot._samples import class_codes, draw_samples

#: Radius of a circle and longest half-axis of an ellipse, in units of the grid spacing.
ROUND, LONGEST = 0.33, 0.65


@dataclass(repr=False, eq=False)
class LocalMetricsDisplay:
    """Local metrics of two features as ellipses.

    All points of an ellipse are equally distant from its centre under the local metric there. The
    class densities change little along the long axis and quickly along the short one. The learned
    metric, in the corner, is the average over the samples.

    Parameters
    ----------
    points : ndarray of shape (n_points, 2)
        Centres of the ellipses.
    metrics : ndarray of shape (n_points, 2, 2)
        Local metric at each centre.
    metric : ndarray of shape (2, 2)
        The learned metric.
    rows : ndarray of shape (n_rows, 2)
        Samples to draw below the ellipses.
    classes : ndarray of shape (n_rows,)
        Class numbers of the samples.
    class_names : sequence of str
        Names of the classes 0, 1, ...
    feature_names : tuple of two str
        Names of the axes.
    spacing : tuple of two float
        Distance between centres along each axis, which sets the size of the ellipses.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the ellipses.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.
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

    points: FloatArray
    _: KW_ONLY
    metrics: FloatArray
    metric: FloatArray
    rows: FloatArray
    classes: IntArray
    class_names: Sequence[str]
    feature_names: Sequence[str]
    spacing: tuple[float, float]

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
            Samples.
        y : array-like of shape (n_samples,)
            Labels of `X`.
        grid : int, default=11
            Number of ellipses along each axis; those far from every sample are left out.
        class_names : sequence, default=None
            Names of the classes in sorted order of the labels.
        feature_names : sequence of length 2, default=None
            Names of the features.
        max_rows : int, default=2000
            Maximum number of samples shown, drawn at random.
        random_state : int, RandomState instance or None, default=0
            Determines the samples drawn.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        LocalMetricsDisplay
            The display, drawn.
        """
        check_count(grid, "grid")
        rows = finite_samples(X)
        if rows.shape[1] != 2:
            raise ValueError(
                f"X must have 2 features, which span the plane; got {rows.shape[1]}. Fit the "
                "estimator on two of them."
            )
        names = check_feature_names(feature_names, estimator, X, 2)
        codes, classes = class_codes(y, class_names)
        low, high = np.quantile(rows, [0.03, 0.97], axis=0)
        span = np.where(high > low, high - low, 1.0)
        low, high = low - 0.06 * span, high + 0.06 * span
        step = (high - low) / max(1, grid - 1)
        mesh = np.meshgrid(*(np.linspace(low[i], high[i], grid) for i in range(2)))
        centres = np.column_stack([m.ravel() for m in mesh])
        # Far from all samples local metrics are extrapolations.
        cells = np.round((rows - low) / step)
        gaps = np.abs((centres - low)[:, None] / step - np.unique(cells, axis=0)).max(axis=2)
        centres = centres[gaps.min(axis=1) < 0.75]
        local, average = _local_metrics(estimator, centres, rows)
        shown = draw_samples(len(rows), max_rows, random_state)
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

    def plot(self, *, compact: bool = False, ax: Any = None) -> LocalMetricsDisplay:
        """Draw the display.

        Parameters
        ----------
        compact : bool, default=False
            Whether to place the legend below the axes, for narrow figures.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        LocalMetricsDisplay
            The display itself.
        """
        collections, lines = (
            import_optional(f"matplotlib.{module}", "report") for module in ("collections", "lines")
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
        # Space at the right for the learned metric.
        ax.set_xlim(low[0], high[0] + 3 * step[0])
        ax.set_ylim(low[1], high[1])
        width = 20 if compact else 40
        ax.set_xlabel(label(self.feature_names[0], width=width))
        ax.set_ylabel(label(self.feature_names[1], width=width))
        shown = list(handles)[: len(handles) if len(handles) <= 9 else 8]
        entries = [label(self.class_names[c], width=18) for c in shown]
        keys = [handles[c] for c in shown]
        if len(shown) < len(handles):
            keys.append(lines.Line2D([], [], linestyle=""))
            entries.append(f"and {len(handles) - len(shown)} more")
        place_legend(ax, keys, entries, compact=compact, markerscale=1.4, handletextpad=0.3)
        self._corner(ax, high, low, compact)
        ax.set_title("Local metrics")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _corner(self, ax: Any, high: FloatArray, low: FloatArray, compact: bool) -> None:
        """Draw the learned metric in a box at the lower right, at twice the size of the others."""
        patches = import_optional("matplotlib.patches", "report")
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
            "average" if compact else "learned metric",
            (centre[0], centre[1] + 1.4 * step[1]),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize="small",
        )


def ellipses(metrics: FloatArray, spacing: FloatArray, n_corners: int = 40) -> FloatArray:
    """Return the outlines of sets of equal distance from the origin, of about the same area.

    Parameters
    ----------
    metrics : ndarray of shape (n, 2, 2)
        Positive definite matrices.
    spacing : ndarray of shape (2,)
        Size of a cell of the grid. In its units the half-axes of every ellipse have the product
        0.33²; half-axes above 0.65 are drawn with length 0.65.
    n_corners : int, default=40
        Number of points of an outline.

    Returns
    -------
    ndarray of shape (n, n_corners, 2)
        Points of the outlines.
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
    estimator: Any, centres: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return local metrics at the centres and the learned metric, in units of the input."""
    transformer = metric_transformer(estimator)
    last = transformer[-1] if isinstance(transformer, Pipeline) else transformer
    if not hasattr(last, "local_metrics"):
        raise TypeError(
            f"{type(last).__name__} has no local metrics. Pass a fitted GenerativeMetric, or a "
            "pipeline that ends with one."
        )
    before, factor = centres, np.eye(2)
    if isinstance(transformer, Pipeline) and len(transformer) > 1:
        first = linear_map(transformer[:-1], rows)
        before, factor = first.map_features(centres), first.matrix
    local = np.asarray(last.local_metrics(before), float)
    learned = np.asarray(last.metric_, float)
    return factor.T @ local @ factor, factor.T @ learned @ factor
