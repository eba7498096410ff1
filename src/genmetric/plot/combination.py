"""How a weighted combination of local metrics came to rest, and which rows carry it."""

from __future__ import annotations

from typing import Any

import numpy as np

from genmetric._typing import FloatArray
from genmetric.plot.canvas import two_axes
from genmetric.plot.learned import transformer_of
from genmetric.plot.palette import COLORS, QUIET


class WeightPathDisplay:
    """Change of the metric in each round of "kde" or "gmm", and the weights of the rows.

    Parameters
    ----------
    changes : ndarray of shape (n_iter,)
        Relative change of M in each round; may be empty, where the weights were given.
    weights : ndarray of shape (n_samples,)
        Weights of the local metrics at the end, of sum one.
    tol : float, default=1e-4
        Change at which the rounds end.

    Attributes
    ----------
    axes_ : ndarray of shape (2,)
        Axes with the changes and with the weights.
    ax_ : matplotlib.axes.Axes
        The first of them.
    figure_ : matplotlib.figure.Figure
        Their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.plot import WeightPathDisplay
    >>> display = WeightPathDisplay(np.array([0.2, 0.01, 5e-5]), weights=np.full(10, 0.1)).plot()
    >>> display.effective_rows
    10.0
    """

    def __init__(self, changes: FloatArray, *, weights: FloatArray, tol: float = 1e-4) -> None:
        self.changes = changes
        self.weights = weights
        self.tol = tol

    @property
    def effective_rows(self) -> float:
        """Number of equally weighted rows of the same variance: 1 over the sum of squares."""
        return round(float(1 / np.sum(np.square(self.weights))), 6)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> WeightPathDisplay:
        """Draw the rounds of a fitted combination.

        Parameters
        ----------
        estimator : object
            A :class:`genmetric.GenerativeMetric` whose combination is not "uniform", fitted, or a
            pipeline that ends with one.
        ax : matplotlib.axes.Axes or array of two, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        WeightPathDisplay
            The display, drawn.
        """
        transformer = transformer_of(estimator)
        last = transformer[-1] if hasattr(transformer, "steps") else transformer
        weights = getattr(last, "weights_", None)
        if not isinstance(weights, np.ndarray) or weights.ndim != 1:
            raise TypeError(
                f"{type(last).__name__} has no weights of rows: its average is uniform. Fit "
                'GenerativeMetric(combination="kde").'
            )
        changes = np.asarray(getattr(last, "metric_changes_", ()), float)
        return cls(changes, weights=np.asarray(weights, float)).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> WeightPathDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or array of two, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        WeightPathDisplay
            The display.
        """
        axes = two_axes(ax, (9.0, 3.2))
        left, right = axes
        changes = np.asarray(self.changes, float)
        rounds = np.arange(1, len(changes) + 1)
        # The first round changes nothing that was there before: it may be infinite or nothing.
        drawn = np.isfinite(changes) & (changes > 0)
        if drawn.any():
            left.plot(rounds[drawn], changes[drawn], marker="o", markersize=4, color=COLORS[0])
            left.set_yscale("log")
            left.axhline(self.tol, color=QUIET, linewidth=1, linestyle="--", zorder=0)
            left.set_xticks(rounds if len(rounds) <= 10 else rounds[:: -(-len(rounds) // 10)])
            left.set_xlim(0.5, len(rounds) + 0.5)
            left.set_xlabel("round; dashed: at rest")
            left.set_ylabel("relative change of M")
        else:
            left.set_axis_off()
            left.text(0.5, 0.5, "weights given: no rounds", ha="center", va="center")
        left.set_title("Change of the metric")

        weights = np.sort(np.asarray(self.weights, float))[::-1]
        n = len(weights)
        share = np.cumsum(weights) / weights.sum()
        # A few hundred points draw the curve of a million rows.
        at = np.unique(np.linspace(0, n - 1, min(n, 300)).astype(int))
        right.plot(100 * (at + 1) / n, 100 * share[at], color=COLORS[1])
        right.plot([0, 100], [0, 100], color=QUIET, linewidth=1, linestyle="--", zorder=0)
        right.set_xlim(0, 100)
        right.set_ylim(0, 102)
        right.set_xlabel("heaviest rows (%); dashed: all alike")
        right.set_ylabel("share of the weight (%)")
        right.set_title(f"Weights: as {self.effective_rows:,.0f} of {n:,} rows")
        self.axes_, self.ax_, self.figure_ = axes, left, left.figure
        return self
