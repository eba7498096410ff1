"""The neighbours of rows before and after a learned metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from genmetric._extras import need
from genmetric._typing import ArrayLike, FloatArray, IntArray
from genmetric._validation import check_count
from genmetric.plot.canvas import one_axes
from genmetric.plot.embedding import MAX_LEGEND
from genmetric.plot.learned import class_codes, draw, map_rows, numeric_rows, standardize
from genmetric.plot.palette import COLORS, QUIET, class_style, label


class NeighborsDisplay:
    """The nearest neighbours of some rows before and after, each in the colour of its class.

    Parameters
    ----------
    classes : ndarray of shape (n_examples,)
        Class number of each example row.
    before, after : ndarray of shape (n_examples, n_neighbors)
        Class numbers of its neighbours, nearest first: in standardised features, and under the
        metric.
    row_names : sequence
        Name of each example row.
    class_names : sequence of str
        Names of the classes 0, 1, ...
    share_before, share_after : float
        Share of neighbours of the row's own class, over all rows that were asked.
    n_rows : int
        How many those are.
    n_changed : int
        For how many of them the metric changes the number of neighbours of their own class.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the rows.
    figure_ : matplotlib.figure.Figure
        Its figure.

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

    def __init__(
        self,
        classes: IntArray,
        *,
        before: IntArray,
        after: IntArray,
        row_names: Sequence[Any],
        class_names: Sequence[str],
        share_before: float,
        share_after: float,
        n_rows: int,
        n_changed: int,
    ) -> None:
        self.classes = classes
        self.before = before
        self.after = after
        self.row_names = row_names
        self.class_names = class_names
        self.share_before = share_before
        self.share_after = share_after
        self.n_rows = n_rows
        self.n_changed = n_changed

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
        """Find the neighbours of rows with and without a metric and draw those of a few.

        Unless `rows` says which, the examples are taken from those whose number of neighbours of
        their own class changes, evenly spaced from the one helped most to the one harmed most:
        neither good nor bad ones are picked.

        Parameters
        ----------
        estimator : object
            A fitted metric, or a pipeline with one in it.
        X : array-like of shape (n_samples, n_features)
            Rows whose neighbours are sought; those of the fit look better than new ones.
        y : array-like of shape (n_samples,)
            Their labels.
        X_reference, y_reference : array-like, default=None
            Rows and labels among which neighbours are sought; the other rows of X by default.
        rows : sequence of int, default=None
            Positions in X of the example rows.
        n_examples : int, default=12
            How many example rows to choose where `rows` is None.
        n_neighbors : int, default=10
            Neighbours of each.
        row_names : sequence of length n_samples, default=None
            Names of the rows of X; their positions by default.
        class_names : sequence, default=None
            Names of the classes in sorted order of the labels.
        max_rows : int, default=2000
            Ask so many rows at most, drawn at random.
        random_state : int, RandomState instance or None, default=0
            Draws them.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        NeighborsDisplay
            The display, drawn.
        """
        x = numeric_rows(X)
        own = X_reference is None
        pool = x if X_reference is None else numeric_rows(X_reference)
        if own:
            codes, names = class_codes(y, class_names)
            pool_codes = codes
        else:
            if y_reference is None:
                raise ValueError("X_reference needs y_reference, the labels of its rows.")
            both, names = class_codes(
                np.concatenate([np.asarray(y), np.asarray(y_reference)]), class_names
            )
            codes, pool_codes = both[: len(x)], both[len(x) :]
        k = min(check_count(n_neighbors, "n_neighbors"), len(pool) - own)
        if k < 1:
            raise ValueError("There is no other row to be a neighbour; pass at least two rows.")
        asked = draw(len(x), max_rows, random_state) if rows is None else np.asarray(rows, np.intp)
        plain_pool, plain = standardize(pool, x[asked])
        mapped_pool, mapped = map_rows(estimator, pool), map_rows(estimator, x[asked])
        found = []
        for space, queries in ((plain_pool, plain), (mapped_pool, mapped)):
            nearest = _nearest(space, queries, k, asked if own else None)
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

    def plot(self, *, ax: Any = None) -> NeighborsDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        NeighborsDisplay
            The display.
        """
        patches = need("matplotlib.patches", "report")
        n, k = np.shape(self.before)
        many = len(self.class_names) > MAX_LEGEND
        ax = one_axes(ax, (1.6 + 0.3 * (2 * k + 4), 1.2 + 0.3 * n))
        for row, own in enumerate(self.classes):
            _square(ax, 0, row, int(own), True, self.class_names, many)
            for start, neighbors in ((1.6, self.before), (2.6 + k, self.after)):
                for place, other in enumerate(neighbors[row]):
                    same = bool(other == own)
                    _square(ax, start + place, row, int(other), same, self.class_names, many)
        ax.set_xlim(-0.6, 2.6 + 2 * k - 0.4)
        ax.set_ylim(n - 0.4, -1.6)
        ax.set_aspect("equal")
        ax.set_yticks(range(n), [f"row {label(name, width=14)}" for name in self.row_names])
        ax.set_xticks([])
        ax.tick_params(length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)
        heads = (
            (-0.45, "own"),
            (1.15, f"before: {self.share_before:.0%} of own class"),
            (2.15 + k, f"after: {self.share_after:.0%}"),
        )
        for at, text in heads:
            ax.text(at, -0.85, text, fontweight="bold", ha="left", va="bottom")
        if not many:
            shown = np.unique(
                np.concatenate(
                    [np.ravel(self.classes), np.ravel(self.before), np.ravel(self.after)]
                )
            )
            handles = [patches.Patch(color=class_style(int(c))[0]) for c in shown]
            names = [label(self.class_names[int(c)], width=16) for c in shown]
            handles.append(patches.Patch(facecolor="none", edgecolor=QUIET, linewidth=1.4))
            ax.legend(
                handles,
                [*names, "outline: another class"],
                loc="upper left",
                bbox_to_anchor=(0, 0.0),
                ncols=min(len(handles), 5),
                frameon=False,
                fontsize="small",
                handlelength=1.0,
                handleheight=1.0,
            )
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _nearest(space: FloatArray, queries: FloatArray, k: int, own: IntArray | None) -> IntArray:
    """Positions of the k nearest rows, leaving out the query itself where it is one of them."""
    centre = space.mean(axis=0)
    peak = float(np.abs(space - centre).max(initial=0.0)) or 1.0
    search = NearestNeighbors(n_neighbors=k + (own is not None)).fit((space - centre) / peak)
    found = search.kneighbors((queries - centre) / peak, return_distance=False)
    if own is None:
        return np.asarray(found, np.intp)
    # Among many copies of a row it may itself not be found: then the last is one too many.
    itself = found == own[:, None]
    itself[~itself.any(axis=1), -1] = True
    return np.asarray(found[~itself].reshape(len(found), k), np.intp)


def _square(
    ax: Any, x: float, y: float, code: int, same: bool, names: Sequence[str], many: bool
) -> None:
    """One neighbour: filled where it is of the row's class, an outline where it is not."""
    patches = need("matplotlib.patches", "report")
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
            label(names[code], width=3),
            ha="center",
            va="center",
            fontsize=6.5,
            color="white" if same else "black",
        )
