"""Display of samples in a plane before and after a learned metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA

from genmetric._optional import import_optional
from genmetric._typing import ArrayLike, FloatArray, IntArray
from genmetric.plot._canvas import MAX_VECTOR_POINTS, place_legend, two_axes
from genmetric.plot._palette import QUIET, class_style, label
from genmetric.plot._samples import class_codes, draw_samples, features_and_images, standardize

#: Above this number of classes colours would repeat, and names are written at the centres.
MAX_LEGEND = 10


@dataclass(repr=False, eq=False)
class EmbeddingDisplay:
    """Samples in a plane before and after: two leading components under each distance.

    Parameters
    ----------
    before, after : ndarray of shape (n_shown, 2)
        Positions of the samples, in standardised features and under the metric.
    classes : ndarray of shape (n_shown,)
        Class number of each sample.
    class_names : sequence of str
        Names of the classes 0, 1, ...
    n_rows : int
        Total number of samples.
    titles : tuple of two str, default=("Before: standardised features", "After: learned metric")
        Titles of the two panels.

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
    titles: tuple[str, str] = ("Before: standardised features", "After: learned metric")

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
        x, z = features_and_images(estimator, X)
        codes, names = class_codes(y, class_names)
        shown = draw_samples(len(x), max_rows, random_state)
        plain = standardize(x[shown])[0]
        return cls(
            _plane(plain, reducer),
            after=_plane(z[shown], reducer),
            classes=codes[shown],
            class_names=names,
            n_rows=len(x),
        ).plot(ax=ax)

    def plot(self, *, compact: bool = False, ax: Any = None) -> EmbeddingDisplay:
        """Draw the display.

        Parameters
        ----------
        compact : bool, default=False
            Whether to place the legend below the axes, for narrow figures.
        ax : matplotlib.axes.Axes or array of two, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        EmbeddingDisplay
            The display itself.
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
                at.set_xlabel(f"outside: {outside:,} distant samples", fontsize="small")
            at.set_xticks([])
            at.set_yticks([])
            for spine in at.spines.values():
                spine.set(visible=True, color=QUIET, linewidth=0.6)
            at.set_title(title)
        if len(self.classes) < self.n_rows:
            axes[0].set_ylabel(
                f"{len(self.classes):,} of {self.n_rows:,} samples, at random", fontsize="small"
            )
        if not many:
            entries = [label(self.class_names[c], width=18) for c in handles]
            place_legend(
                axes[1],
                list(handles.values()),
                entries,
                compact=compact,
                markerscale=1.6,
                handletextpad=0.3,
            )
        self.axes_, self.ax_, self.figure_ = axes, axes[0], axes[0].figure
        return self


def scatter_classes(
    ax: Any, points: FloatArray, classes: IntArray, handles: dict[int, Any], *, quiet: bool = False
) -> None:
    """Draw points in the colours of their classes and add legend entries to `handles`."""
    lines = import_optional("matplotlib.lines", "report")
    n = len(points)
    size = float(np.interp(n, [100, 500, 2000], [16, 10, 5]))
    present = np.unique(classes)
    # All in one call and in the order of the samples, so that no class covers another.
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
    """Return samples in two dimensions; the second is zero if there is only one."""
    if reducer is None:
        # Scaled by the largest entry: the square of 1e160 is infinite.
        peak = float(np.abs(rows).max(initial=0.0)) or 1.0
        z = (rows - np.median(rows, axis=0)) / peak
        # Distant samples would dominate the components; the nearest 95 per cent set them.
        far = np.linalg.norm(z, axis=1)
        near = far <= np.quantile(far, 0.95)
        placed = PCA(min(2, near.sum(), rows.shape[1]), svd_solver="full").fit(z[near]).transform(z)
    else:
        placed = np.asarray(clone(reducer).fit_transform(rows), float)
    if placed.ndim != 2 or not 1 <= placed.shape[1] <= 2:
        raise ValueError(
            f"The reducer must return one or two dimensions; got shape {placed.shape}. Set its "
            "n_components=2."
        )
    if placed.shape[1] == 1:
        placed = np.hstack([placed, np.zeros_like(placed)])
    return np.asarray(placed)


def _name_centres(
    ax: Any, points: FloatArray, classes: IntArray, names: Sequence[str], most: int = 60
) -> None:
    """Write the name of each class at the median of its samples."""
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
            bbox={"facecolor": "white", "alpha": 0.65, "pad": 0.6, "linewidth": 0},
        )


def _frame_most(points: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """Return the corners of a frame robust to distant samples, and the number outside it."""
    low, high = np.quantile(points, [0.02, 0.98], axis=0)
    room = 0.3 * (high - low)
    low = np.maximum(points.min(axis=0), low - room)
    high = np.minimum(points.max(axis=0), high + room)
    outside = int(((points < low) | (points > high)).any(axis=1).sum())
    pad = 0.04 * (high - low)
    pad[pad == 0] = 1.0
    return low - pad, high + pad, outside
