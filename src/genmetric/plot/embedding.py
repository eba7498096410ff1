"""Where rows lie in a plane before and after a learned metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA

from genmetric._extras import need
from genmetric._typing import ArrayLike, FloatArray, IntArray
from genmetric.plot.canvas import MAX_VECTOR_POINTS, two_axes
from genmetric.plot.learned import class_codes, draw, map_rows, numeric_rows, standardize
from genmetric.plot.palette import QUIET, class_style, label

#: With more classes than this, colours would repeat: letters and centres tell them apart.
MAX_LEGEND = 10


class EmbeddingDisplay:
    """Rows in a plane before and after: their two leading components under each distance.

    Parameters
    ----------
    before, after : ndarray of shape (n_shown, 2)
        Positions of the rows, in standardised features and under the metric.
    classes : ndarray of shape (n_shown,)
        Class number of each row.
    class_names : sequence of str
        Names of the classes 0, 1, ...
    n_rows : int
        How many rows there are in all.
    titles : tuple of two str, default=("Before: standardised features", "After: learned metric")
        Heads of the two pictures.

    Attributes
    ----------
    axes_ : ndarray of shape (2,)
        Axes with the two pictures.
    ax_ : matplotlib.axes.Axes
        The first of them.
    figure_ : matplotlib.figure.Figure
        Their figure.

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

    def __init__(
        self,
        before: FloatArray,
        *,
        after: FloatArray,
        classes: IntArray,
        class_names: Sequence[str],
        n_rows: int,
        titles: tuple[str, str] = ("Before: standardised features", "After: learned metric"),
    ) -> None:
        self.before = before
        self.after = after
        self.classes = classes
        self.class_names = class_names
        self.n_rows = n_rows
        self.titles = titles

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
        """Place rows in a plane with and without a metric.

        Parameters
        ----------
        estimator : object
            A fitted metric, or a pipeline with one in it.
        X : array-like of shape (n_samples, n_features)
            Rows; those of the fit look better than new ones.
        y : array-like of shape (n_samples,)
            Their labels.
        reducer : transformer, default=None
            Brings rows to two dimensions, cloned and fitted for each picture: principal
            components by default; :class:`sklearn.manifold.Isomap` or another will do.
        class_names : sequence, default=None
            Names of the classes in sorted order of the labels.
        max_rows : int, default=2000
            Show so many rows at most, drawn at random.
        random_state : int, RandomState instance or None, default=0
            Draws them.
        ax : matplotlib.axes.Axes or array of two, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        EmbeddingDisplay
            The display, drawn.
        """
        x = numeric_rows(X)
        codes, names = class_codes(y, class_names)
        shown = draw(len(x), max_rows, random_state)
        plain = standardize(x[shown])[0]
        return cls(
            _plane(plain, reducer),
            after=_plane(map_rows(estimator, x[shown]), reducer),
            classes=codes[shown],
            class_names=names,
            n_rows=len(x),
        ).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> EmbeddingDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or array of two, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        EmbeddingDisplay
            The display.
        """
        axes = two_axes(ax, (9.0, 4.2))
        many = len(self.class_names) > MAX_LEGEND
        handles: dict[int, Any] = {}
        for at, points, title in zip(axes, (self.before, self.after), self.titles, strict=True):
            scatter_classes(at, points, self.classes, handles)
            if many:
                _name_centres(at, points, self.classes, self.class_names)
            low, high, outside = _frame_most(points)
            at.set_xlim(low[0], high[0])
            at.set_ylim(low[1], high[1])
            if outside:
                at.set_xlabel(f"{outside:,} far rows lie outside", fontsize="small")
            at.set_xticks([])
            at.set_yticks([])
            for spine in at.spines.values():
                spine.set(visible=True, color=QUIET, linewidth=0.6)
            at.set_title(title)
        if len(self.classes) < self.n_rows:
            axes[0].set_ylabel(
                f"{len(self.classes):,} of {self.n_rows:,} rows, drawn at random", fontsize="small"
            )
        if not many:
            axes[1].legend(
                list(handles.values()),
                [label(self.class_names[c], width=18) for c in handles],
                loc="upper left",
                bbox_to_anchor=(1.01, 1.02),
                frameon=False,
                markerscale=1.6,
                handletextpad=0.3,
            )
        self.axes_, self.ax_, self.figure_ = axes, axes[0], axes[0].figure
        return self


def scatter_classes(
    ax: Any, points: FloatArray, classes: IntArray, handles: dict[int, Any], *, quiet: bool = False
) -> None:
    """Points in the colours of their classes; a legend entry for each goes into `handles`."""
    lines = need("matplotlib.lines", "report")
    n = len(points)
    size = float(np.interp(n, [100, 500, 2000], [16, 10, 5]))
    present = np.unique(classes)
    # All in one call and in the order of the rows: no class lies on top of another.
    colors = np.array([class_style(int(c))[0] for c in classes])
    markers = np.array([class_style(int(c))[1] for c in classes])
    for marker in sorted(set(markers)):
        these = markers == marker
        ax.scatter(
            points[these, 0],
            points[these, 1],
            c=list(colors[these]),
            s=size,
            marker=marker,
            alpha=0.5 if quiet else 0.75,
            linewidths=0,
            rasterized=n > MAX_VECTOR_POINTS,
        )
    for c in present:
        color, marker = class_style(int(c))
        handles[int(c)] = lines.Line2D(
            [], [], linestyle="", marker=marker, color=color, markersize=5, markeredgewidth=0
        )


def _plane(rows: FloatArray, reducer: Any) -> FloatArray:
    """Rows in two dimensions; a second axis of zeros where there is only one."""
    if reducer is None:
        # Sized by the largest entry: the square of 1e160 is infinite.
        peak = float(np.abs(rows).max(initial=0.0)) or 1.0
        z = (rows - np.median(rows, axis=0)) / peak
        # A few far rows would turn the plane towards them: the nearer 95 per cent choose it.
        far = np.linalg.norm(z, axis=1)
        near = far <= np.quantile(far, 0.95)
        placed = PCA(min(2, near.sum(), rows.shape[1]), svd_solver="full").fit(z[near]).transform(z)
    else:
        placed = np.asarray(clone(reducer).fit_transform(rows), float)
    if placed.ndim != 2 or not 1 <= placed.shape[1] <= 2:
        raise ValueError(
            f"The reducer must bring rows to two dimensions; got shape {placed.shape}. Set its "
            "n_components=2."
        )
    if placed.shape[1] == 1:
        placed = np.hstack([placed, np.zeros_like(placed)])
    return np.asarray(placed)


def _name_centres(
    ax: Any, points: FloatArray, classes: IntArray, names: Sequence[str], most: int = 60
) -> None:
    """Write the name of each class at the median of its rows."""
    effects = need("matplotlib.patheffects", "report")
    present, counts = np.unique(classes, return_counts=True)
    for c in present[np.argsort(-counts, kind="stable")][:most]:
        x, y = np.median(points[classes == c], axis=0)
        ax.text(
            x,
            y,
            label(names[int(c)], width=8),
            ha="center",
            va="center",
            fontsize=9,
            fontweight="bold",
            path_effects=[effects.withStroke(linewidth=2.2, foreground="white")],
        )


def _frame_most(points: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """Corners of a frame that a few far rows do not decide, and how many of them it leaves out."""
    low, high = np.quantile(points, [0.02, 0.98], axis=0)
    room = 0.3 * (high - low)
    low = np.maximum(points.min(axis=0), low - room)
    high = np.minimum(points.max(axis=0), high + room)
    outside = int(((points < low) | (points > high)).any(axis=1).sum())
    pad = 0.04 * (high - low)
    pad[pad == 0] = 1.0
    return low - pad, high + pad, outside
