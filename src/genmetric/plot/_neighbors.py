"""Display of the neighbours of samples before and after a learned metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from genmetric._optional import import_optional
from genmetric._search import nearest_neighbors
from genmetric._typing import ArrayLike, IntArray
from genmetric._validation import check_count
from genmetric.plot._canvas import one_axes
from genmetric.plot._embedding import MAX_LEGEND
from genmetric.plot._palette import COLORS, QUIET, class_style, label, labels
from genmetric.plot._samples import class_codes, draw_samples, features_and_images, standardize


@dataclass(repr=False, eq=False)
class NeighborsDisplay:
    """Nearest neighbours of example samples before and after, in the colours of their classes.

    Parameters
    ----------
    classes : ndarray of shape (n_examples,)
        Class number of each example.
    before, after : ndarray of shape (n_examples, n_neighbors)
        Class numbers of the neighbours, nearest first: in standardised features, and under the
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
        x, z = features_and_images(estimator, X)
        own = X_reference is None
        pool, mapped_pool = (x, z) if own else features_and_images(estimator, X_reference)
        if own:
            codes, names = class_codes(y, class_names)
            pool_codes = codes
        else:
            if y_reference is None:
                raise ValueError("X_reference requires y_reference, the labels of its samples.")
            both, names = class_codes(
                np.concatenate([np.asarray(y), np.asarray(y_reference)]), class_names
            )
            codes, pool_codes = both[: len(x)], both[len(x) :]
        k = min(check_count(n_neighbors, "n_neighbors"), len(pool) - own)
        if k < 1:
            raise ValueError(
                "There is no other sample to be a neighbour; pass at least two samples."
            )
        asked = (
            draw_samples(len(x), max_rows, random_state)
            if rows is None
            else np.asarray(rows, np.intp)
        )
        plain_pool, plain = standardize(pool, x[asked])
        found = []
        for space, queries in ((plain_pool, plain), (mapped_pool, z[asked])):
            exclude = asked if own else None
            nearest = nearest_neighbors(space, k, queries=queries, exclude=exclude).indices
            found.append(pool_codes[nearest])
        truth = codes[asked]
        same = [(there == truth[:, None]) for there in found]
        shown = np.arange(len(asked))
        if rows is None:
            gain = same[1].sum(axis=1) - same[0].sum(axis=1)
            ranked = np.argsort(-gain, kind="stable")
            if (gain != 0).sum() >= n_examples:
                ranked = ranked[gain[ranked] != 0]
            places = np.linspace(0, len(ranked) - 1, min(n_examples, len(ranked)))
            shown = ranked[np.round(places).astype(int)]
        changed = int((same[0].sum(axis=1) != same[1].sum(axis=1)).sum())
        title = list(range(len(x))) if row_names is None else list(row_names)
        return cls(
            truth[shown],
            before=found[0][shown],
            after=found[1][shown],
            row_names=[title[i] for i in asked[shown]],
            class_names=names,
            share_before=float(same[0].mean()),
            share_after=float(same[1].mean()),
            n_rows=len(asked),
            n_changed=changed,
        ).plot(ax=ax)

    def plot(self, *, compact: bool = False, ax: Any = None) -> NeighborsDisplay:
        """Draw the display.

        Parameters
        ----------
        compact : bool, default=False
            Whether to show five neighbours at most, for narrow figures.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        NeighborsDisplay
            The display itself.
        """
        patches = import_optional("matplotlib.patches", "report")
        n, k = np.shape(self.before)
        k = min(k, 5) if compact else k
        many = len(self.class_names) > MAX_LEGEND
        ax = one_axes(ax, (1.6 + 0.3 * (2 * k + 4), 1.2 + 0.3 * n))
        for row, own in enumerate(self.classes):
            _square(ax, 0, row, int(own), True, self.class_names, many)
            for start, neighbors in ((1.6, self.before), (2.6 + k, self.after)):
                for place, other in enumerate(neighbors[row][:k]):
                    same = bool(other == own)
                    _square(ax, start + place, row, int(other), same, self.class_names, many)
        ax.set_xlim(-0.6, 2.6 + 2 * k - 0.4)
        ax.set_ylim(n - 0.4, -1.6)
        ax.set_aspect("equal")
        names = [f"sample {name}" if isinstance(name, int) else name for name in self.row_names]
        ax.set_yticks(range(n), labels(names, width=12 if compact else 16))
        ax.set_xticks([])
        ax.tick_params(length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)
        heads = (
            (-0.45, "" if compact else "own"),
            (1.15, "before" if compact else f"before: {self.share_before:.0%} same class"),
            (2.15 + k, "after" if compact else f"after: {self.share_after:.0%}"),
        )
        for at, text in heads:
            size = 9 if compact else 10
            ax.text(at, -0.85, text, fontsize=size, fontweight="bold", ha="left", va="bottom")
        if not many:
            shown = np.unique(
                np.concatenate(
                    [np.ravel(self.classes), np.ravel(self.before), np.ravel(self.after)]
                )
            )
            handles = [patches.Patch(color=class_style(int(c))[0]) for c in shown]
            entries = [label(self.class_names[int(c)], width=9 if compact else 16) for c in shown]
            handles.append(patches.Patch(facecolor="none", edgecolor=QUIET, linewidth=1.4))
            ax.legend(
                handles,
                [*entries, "other class" if compact else "outline: other class"],
                loc="upper left",
                bbox_to_anchor=(0, 0.0),
                ncols=min(len(handles), 2 if compact else 5),
                frameon=False,
                fontsize="small",
                handlelength=1.0,
                handleheight=1.0,
            )
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _square(
    ax: Any, x: float, y: float, code: int, same: bool, names: Sequence[str], many: bool
) -> None:
    """Draw one neighbour: filled if it has the class of the sample, otherwise an outline."""
    patches = import_optional("matplotlib.patches", "report")
    color = (COLORS[0] if same else COLORS[1]) if many else class_style(code)[0]
    face = color if same else "none"
    side = 0.72
    ax.add_patch(
        patches.Rectangle(
            (x - side / 2, y - side / 2), side, side, facecolor=face, edgecolor=color, linewidth=1.4
        )
    )
    if many:
        ax.text(
            x,
            y,
            label(names[code], width=2),
            ha="center",
            va="center",
            fontsize=8,
            color="white" if same else "black",
        )
