"""Displays of samples: in a plane, with their neighbours, and with local metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any
from warnings import catch_warnings

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array

from genmetric._neighbors import nearest_neighbors
from genmetric._text import import_optional
from genmetric._typing import ArrayLike, FloatArray, IntArray
from genmetric._validation import check_count
from genmetric.inspection import linear_map, map_samples
from genmetric.plot.palette import (
    MAX_LEGEND,
    QUIET,
    class_codes,
    class_style,
    draw_samples,
    label,
    labels,
    new_axes,
    side_legend,
)


@dataclass(repr=False, eq=False)
class EmbeddingDisplay:
    """Samples in a plane before and after: two leading components under each distance.

    Parameters
    ----------
    before, after : ndarray of shape (n_shown, 2)
        Positions of the samples, in standardized features and under the metric.
    classes : ndarray of shape (n_shown,)
        Class number of each sample.
    class_names : sequence of str
        Names of the classes 0, 1, ...
    n_rows : int
        Total number of samples.

    Attributes
    ----------
    axes_ : ndarray of shape (2,)
        Axes with the two panels.
    ax_ : matplotlib.axes.Axes
        The first of them.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.plot import EmbeddingDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> display = EmbeddingDisplay.from_estimator(GenerativeMetric().fit(X, y), X, y)
    >>> display.after.shape
    (178, 2)
    """

    before: FloatArray
    _: KW_ONLY
    after: FloatArray
    classes: IntArray
    class_names: Sequence[str]
    n_rows: int

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        reducer: Any = None,
        class_names: Sequence[Any] | None = None,
        max_rows: int = 2000,
        random_state: Any = 0,
        ax: Any = None,
    ) -> EmbeddingDisplay:
        """Place samples in a plane with and without a metric.

        Parameters
        ----------
        estimator : object
            A fitted metric, or a fitted pipeline that contains one.
        X : array-like of shape (n_samples, n_features)
            Samples. Training samples look better separated than new ones.
        y : array-like of shape (n_samples,)
            Labels of `X`.
        reducer : transformer, default=None
            Reduces samples to two dimensions; cloned and fitted for each panel. By default
            principal components; :class:`sklearn.manifold.Isomap` is another choice.
        class_names : sequence, default=None
            Names of the classes in sorted order of the labels.
        max_rows : int, default=2000
            Maximum number of samples shown, drawn at random.
        random_state : int, RandomState instance or None, default=0
            Determines the samples drawn.
        ax : matplotlib.axes.Axes or array of two, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        EmbeddingDisplay
            The display, drawn.
        """
        x, z = _features_and_images(estimator, X)
        codes, names = class_codes(y, class_names)
        shown = draw_samples(len(x), max_rows, random_state)
        return cls(
            _plane(StandardScaler().fit_transform(x[shown]), reducer),
            after=_plane(z[shown], reducer),
            classes=codes[shown],
            class_names=names,
            n_rows=len(x),
        ).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> EmbeddingDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or array of two, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        EmbeddingDisplay
            The display itself.
        """
        axes = np.ravel(new_axes(ax, (9.0, 4.2), panels=2))
        if len(axes) != 2:
            raise ValueError(f"ax must be two Axes, as of plt.subplots(1, 2); got {len(axes)}.")
        many = len(self.class_names) > MAX_LEGEND
        panels = {"Before: standardized features": self.before, "After: learned metric": self.after}
        for at, (title, points) in zip(axes, panels.items(), strict=True):
            handles = _scatter_classes(at, points, self.classes)
            for c in handles if many else ():
                centre = np.median(points[self.classes == c], axis=0)
                box = {"facecolor": "white", "alpha": 0.65, "pad": 0.6, "linewidth": 0}
                style = {"ha": "center", "va": "center", "fontweight": "bold", "bbox": box}
                at.text(*centre, label(self.class_names[c], width=8), **style)
            low, high, outside = _frame_most(points)
            at.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
            if outside:
                at.set_xlabel(f"outside: {outside:,} distant samples", fontsize="small")
            at.spines[:].set(visible=True, color=QUIET, linewidth=0.6)
            at.set_title(title)
        if len(self.classes) < self.n_rows:
            part = f"{len(self.classes):,} of {self.n_rows:,} samples, at random"
            axes[0].set_ylabel(part, fontsize="small")
        if not many:
            entries = [label(self.class_names[c], width=18) for c in handles]
            side_legend(axes[1], list(handles.values()), entries, markerscale=1.6)
        self.axes_, self.ax_, self.figure_ = axes, axes[0], axes[0].figure
        return self


@dataclass(repr=False, eq=False)
class NeighborsDisplay:
    """Nearest neighbours of example samples before and after, in the colours of their classes.

    Parameters
    ----------
    classes : ndarray of shape (n_examples,)
        Class number of each example.
    before, after : ndarray of shape (n_examples, n_neighbors)
        Class numbers of the neighbours, nearest first: in standardized features, and under the
        metric.
    row_names : sequence
        Name of each example.
    class_names : sequence of str
        Names of the classes 0, 1, ...
    share_before, share_after : float
        Share of neighbours that have the class of the sample, over all samples evaluated.
    n_rows : int
        Number of samples evaluated.
    n_changed : int
        Number of samples for which the metric changes the number of neighbours of the same class.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the examples.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.
    marks_ : dict of int to matplotlib.collections.PathCollection
        The marks of each class number; with many classes those of the same (0) and others (1).

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.plot import NeighborsDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = GenerativeMetric().fit(X[::2], y[::2])
    >>> display = NeighborsDisplay.from_estimator(
    ...     metric, X[1::2], y[1::2], X_reference=X[::2], y_reference=y[::2]
    ... )
    >>> display.after.shape
    (12, 10)
    """

    classes: IntArray
    _: KW_ONLY
    before: IntArray
    after: IntArray
    row_names: Sequence[Any]
    class_names: Sequence[str]
    share_before: float
    share_after: float
    n_rows: int
    n_changed: int

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        X_reference: ArrayLike | None = None,
        y_reference: ArrayLike | None = None,
        rows: Sequence[int] | None = None,
        n_examples: int = 12,
        n_neighbors: int = 10,
        row_names: Sequence[Any] | None = None,
        class_names: Sequence[Any] | None = None,
        max_rows: int = 2000,
        random_state: Any = 0,
        ax: Any = None,
    ) -> NeighborsDisplay:
        """Find the neighbours of samples with and without a metric and draw those of examples.

        By default examples are taken from the samples whose number of neighbours of the same class
        changes, evenly spaced from the largest gain to the largest loss.

        Parameters
        ----------
        estimator : object
            A fitted metric, or a fitted pipeline that contains one.
        X : array-like of shape (n_samples, n_features)
            Samples whose neighbours are searched. Training samples look better than new ones.
        y : array-like of shape (n_samples,)
            Labels of `X`.
        X_reference, y_reference : array-like, default=None
            Samples and labels among which neighbours are searched; by default the other samples of
            `X`.
        rows : sequence of int, default=None
            Positions of the examples in `X`.
        n_examples : int, default=12
            Number of examples if `rows` is None.
        n_neighbors : int, default=10
            Number of neighbours of each example.
        row_names : sequence of length n_samples, default=None
            Names of the samples of `X`; by default their positions.
        class_names : sequence, default=None
            Names of the classes in sorted order of the labels.
        max_rows : int, default=2000
            Maximum number of samples evaluated, drawn at random.
        random_state : int, RandomState instance or None, default=0
            Determines the samples drawn.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        NeighborsDisplay
            The display, drawn.
        """
        own = X_reference is None
        if (y_reference is None) != own:
            raise ValueError("X_reference requires y_reference, the labels of its samples.")
        x, z = _features_and_images(estimator, X)
        pool, mapped_pool = (x, z) if own else _features_and_images(estimator, X_reference)
        every = y if y_reference is None else np.concatenate([y, y_reference])
        both, names = class_codes(every, class_names)
        codes, pool_codes = both[: len(x)], both[-len(pool) :]
        asked = draw_samples(len(x), max_rows, random_state) if rows is None else np.asarray(rows)
        k = min(check_count(n_neighbors, "n_neighbors"), len(pool) - own)
        scale, skip = StandardScaler().fit(pool), asked if own else None
        spaces = ((scale.transform(pool), scale.transform(x[asked])), (mapped_pool, z[asked]))
        before, after = (
            pool_codes[nearest_neighbors(space, k, queries=queries, exclude=skip).indices]
            for space, queries in spaces
        )
        same = [found == codes[asked][:, None] for found in (before, after)]
        gain = same[1].sum(axis=1) - same[0].sum(axis=1)
        shown = np.arange(len(asked)) if rows is not None else _spread(gain, n_examples)
        return cls(
            codes[asked][shown],
            before=before[shown],
            after=after[shown],
            row_names=[int(i) if row_names is None else row_names[i] for i in asked[shown]],
            class_names=names,
            share_before=float(same[0].mean()),
            share_after=float(same[1].mean()),
            n_rows=len(asked),
            n_changed=int((gain != 0).sum()),
        ).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> NeighborsDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        NeighborsDisplay
            The display itself.
        """
        n, k = np.shape(self.before)
        ax = new_axes(ax, (1.6 + 0.31 * (2 * k + 4), 1.2 + 0.31 * n))
        codes = np.hstack([np.reshape(self.classes, (-1, 1)), self.before, self.after])
        x, y = np.meshgrid(np.r_[0, 1.6 + np.arange(k), 2.6 + k + np.arange(k)], np.arange(n))
        same = codes == codes[:, :1]
        # With many classes, whether the class is the same.
        many = len(self.class_names) > MAX_LEGEND
        kinds, names = (~same, ["same class", "other class"]) if many else (codes, self.class_names)
        self.marks_ = {}
        for kind in np.unique(kinds.astype(int)).tolist():
            color, marker = class_style(kind)
            at = kinds == kind
            style = {"marker": marker, "s": 130, "linewidths": 1.4, "edgecolors": color}
            # Filled if the neighbour has the class of the sample, otherwise an outline.
            faces = np.where(same[at], color, "none")
            self.marks_[kind] = ax.scatter(x[at], y[at], c=faces, **style)
        ax.set(xlim=(-0.6, 2.2 + 2 * k), ylim=(n - 0.4, -1.6), xticks=[])
        rows = [f"sample {name}" if isinstance(name, int) else name for name in self.row_names]
        ax.set_yticks(range(n), labels(rows, width=16))
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        heads = {-0.45: "own", 1.15: f"before: {self.share_before:.0%} same class"}
        for at, text in (heads | {2.15 + k: f"after: {self.share_after:.0%}"}).items():
            ax.text(at, -0.85, text, fontweight="bold", va="bottom")
        handles = [
            ax.plot([], [], class_style(kind)[1], color=class_style(kind)[0])[0]
            for kind in self.marks_
        ]
        handles += ax.plot([], [], "o", color=QUIET, markerfacecolor="none")
        entries = [*(label(names[kind], width=16) for kind in self.marks_), "outline: other class"]
        place = {"loc": "upper left", "bbox_to_anchor": (0, 0.0), "frameon": False}
        ax.legend(handles, entries, ncols=min(len(entries), 6), fontsize="small", **place)
        self.ax_, self.figure_ = ax, ax.figure
        return self


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
        ax: Any = None,
    ) -> LocalMetricsDisplay:
        """Draw the local metrics of an estimator fitted on two features.

        Parameters
        ----------
        estimator : object
            A fitted :class:`genmetric.GenerativeMetric` of two features.
        X : array-like of shape (n_samples, 2)
            Samples.
        y : array-like of shape (n_samples,)
            Labels of `X`.
        grid : int, default=11
            Number of ellipses along each axis; those far from every sample are left out.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        LocalMetricsDisplay
            The display, drawn.
        """
        rows = check_array(X, dtype=np.float64)
        if not hasattr(estimator, "local_metrics") or rows.shape[1] != 2:
            raise TypeError(
                "A fitted GenerativeMetric and 2 features, which span the plane, are needed; got "
                f"{type(estimator).__name__} and {rows.shape[1]} features."
            )
        low, high = np.quantile(rows, [0.03, 0.97], axis=0)
        span = np.where(high > low, high - low, 1.0)
        low, high = low - 0.06 * span, high + 0.06 * span
        step = (high - low) / max(1, grid - 1)
        mesh = np.meshgrid(*np.linspace(low, high, grid).T)
        centres = np.column_stack([m.ravel() for m in mesh])
        # Far from all samples local metrics are extrapolations.
        cells = np.unique(np.round((rows - low) / step), axis=0)
        gaps = np.abs((centres - low)[:, None] / step - cells).max(axis=2)
        centres = centres[gaps.min(axis=1) < 0.75]
        with catch_warnings(action="ignore"):  # a fit on a table has names, the centres have none
            local = estimator.local_metrics(centres)
        classes, codes = np.unique(np.asarray(y), return_inverse=True)
        return cls(
            centres,
            metrics=local,
            metric=estimator.metric_,
            rows=rows,
            classes=codes,
            class_names=classes.astype(str).tolist(),
            feature_names=getattr(estimator, "feature_names_in_", ("x0", "x1")),
            spacing=(float(step[0]), float(step[1])),
        ).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> LocalMetricsDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        LocalMetricsDisplay
            The display itself.
        """
        ax = new_axes(ax, (7.4, 5.0))
        collections = import_optional("matplotlib.collections", "report")
        handles = _scatter_classes(ax, self.rows, self.classes, alpha=0.5)
        step = np.asarray(self.spacing)
        outlines = self.points[:, None] + _ellipses(self.metrics, step)
        style = {"facecolors": "none", "edgecolors": "black", "linewidths": 1.1}
        self.ellipses_ = ax.add_collection(collections.PolyCollection(list(outlines), **style))
        low, high = self.points.min(axis=0) - step, self.points.max(axis=0) + step
        # The learned metric is at the lower right, at twice the size of the others.
        centre = np.array([high[0] + 1.4 * step[0], low[1] + 1.75 * step[1]])
        learned = centre + 2 * _ellipses(self.metric[None], step)[0]
        ax.fill(*learned.T, facecolor="none", edgecolor="black", linewidth=2)
        text = {"ha": "center", "fontsize": "small"}
        ax.text(centre[0], centre[1] + 1.5 * step[1], "learned metric", **text)
        ax.set(xlim=(low[0], high[0] + 3 * step[0]), ylim=(low[1], high[1]))
        ax.set_xlabel(label(self.feature_names[0], width=40))
        ax.set_ylabel(label(self.feature_names[1], width=40))
        entries = [label(self.class_names[c], width=18) for c in handles]
        side_legend(ax, list(handles.values())[:20], entries[:20], markerscale=1.4)
        ax.set_title("Local metrics")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _scatter_classes(
    ax: Any, points: FloatArray, classes: IntArray, alpha: float = 0.75
) -> dict[int, Any]:
    """Draw points in the colours and markers of their classes; return them by class."""
    n = len(points)
    size = float(np.interp(n, [100, 500, 2000], [16, 10, 5]))
    style = {"s": size, "alpha": alpha, "linewidths": 0, "rasterized": n > 400}
    handles = {}
    for c in np.unique(classes).tolist():
        color, marker = class_style(c)
        handles[c] = ax.scatter(*points[classes == c].T, color=color, marker=marker, **style)
    return handles


def _spread(gain: IntArray, n_examples: int) -> IntArray:
    """Return samples evenly spaced from the largest gain to the largest loss."""
    ranked = np.argsort(-gain, kind="stable")
    if (gain != 0).sum() >= n_examples:
        ranked = ranked[gain[ranked] != 0]
    places = np.linspace(0, len(ranked) - 1, min(n_examples, len(ranked)))
    return np.asarray(ranked[np.round(places).astype(int)])


def _features_and_images(estimator: Any, X: Any) -> tuple[FloatArray, FloatArray]:
    """Return samples as numeric features and in the learned space of an estimator."""
    try:
        into = linear_map(estimator, X)
    except TypeError:
        return check_array(X, dtype=np.float64), map_samples(estimator, X)
    features = into.prepare(X)
    return features, into.map_features(features)


def _plane(rows: FloatArray, reducer: Any) -> FloatArray:
    """Return samples in two dimensions; the second is zero if there is only one."""
    if reducer is None:
        # Distant samples would dominate the components; the nearest 95% set them.
        far = np.linalg.norm(rows - np.median(rows, axis=0), axis=1)
        near = rows[far <= np.quantile(far, 0.95)]
        placed = PCA(min(2, *near.shape), svd_solver="full").fit(near).transform(rows)
    else:
        placed = np.asarray(clone(reducer).fit_transform(rows), float)
    if placed.ndim != 2 or placed.shape[1] > 2:
        raise ValueError(
            f"The reducer must return one or two dimensions; got shape {placed.shape}. Set its "
            "n_components=2."
        )
    return np.pad(placed, [(0, 0), (0, 2 - placed.shape[1])])


def _frame_most(points: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """Return the corners of a frame robust to distant samples, and the number outside it."""
    low, high = np.quantile(points, [0.02, 0.98], axis=0)
    room = 0.3 * np.where(high > low, high - low, 1.0)
    low = np.maximum(points.min(axis=0) - 0.2 * room, low - room)
    high = np.minimum(points.max(axis=0) + 0.2 * room, high + room)
    return low, high, int(((points < low) | (points > high)).any(axis=1).sum())


def _ellipses(metrics: FloatArray, spacing: FloatArray, n_corners: int = 40) -> FloatArray:
    """Return outlines (n, n_corners, 2) of sets of equal distance from the origin, of similar area.

    In units of `spacing`, the size of a cell of the grid, the half-axes of every ellipse have the
    product 0.33²; half-axes above 0.65 are drawn with length 0.65.
    """
    scaled = metrics * spacing * spacing[:, None]
    values, vectors = np.linalg.eigh(scaled)
    values = np.clip(values, 1e-12 * values[:, 1:], None)
    axes = 1 / np.sqrt(values)
    axes *= 0.33 / np.sqrt(axes.prod(axis=1, keepdims=True))
    axes = np.clip(axes, 0.012, 0.65)
    angle = np.linspace(0, 2 * np.pi, n_corners, endpoint=False)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    outline = (circle * axes[:, None]) @ vectors.transpose(0, 2, 1)
    return np.asarray(outline * spacing)
