"""Display of the convergence and the weights of a density-weighted metric."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from genmetric._typing import FloatArray
from genmetric.inspection import metric_transformer
from genmetric.plot._canvas import two_axes
from genmetric.plot._palette import COLORS, QUIET


@dataclass(repr=False, eq=False)
class WeightPathDisplay:
    """Change of the metric in each iteration of "kde" or "gmm", and the weights of the samples.

    Parameters
    ----------
    changes : ndarray of shape (n_iter,)
        Relative change of the metric in each iteration; empty if the weights were given.
    weights : ndarray of shape (n_samples,)
        Final weights of the local metrics, with sum one.
    tol : float, default=1e-4
        Change at which the iteration stops.

    Attributes
    ----------
    axes_ : ndarray of shape (2,)
        Axes with the changes and with the weights.
    ax_ : matplotlib.axes.Axes
        The first of them.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.plot import WeightPathDisplay
    >>> display = WeightPathDisplay(np.array([0.2, 0.01, 5e-5]), weights=np.full(10, 0.1)).plot()
    >>> display.effective_rows
    10.0
    """

    changes: FloatArray
    _: KW_ONLY
    weights: FloatArray
    tol: float = 1e-4

    @property
    def effective_rows(self) -> float:
        """Number of equally weighted samples with the same variance: 1 / sum of squares."""
        return round(float(1 / np.sum(np.square(self.weights))), 6)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> WeightPathDisplay:
        """Draw the iterations of a fitted metric.

        Parameters
        ----------
        estimator : object
            A :class:`genmetric.GenerativeMetric` whose combination is not "uniform", fitted, or a
            pipeline that ends with one.
        ax : matplotlib.axes.Axes or array of two, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        WeightPathDisplay
            The display, drawn.
        """
        transformer = metric_transformer(estimator)
        last = transformer[-1] if hasattr(transformer, "steps") else transformer
        weights = getattr(last, "weights_", None)
        if not isinstance(weights, np.ndarray) or weights.ndim != 1:
            raise TypeError(
                f"{type(last).__name__} has no sample weights: its average is uniform. Fit "
                'GenerativeMetric(combination="kde").'
            )
        changes = np.asarray(getattr(last, "metric_changes_", ()), float)
        return cls(changes, weights=np.asarray(weights, float)).plot(ax=ax)

    def plot(self, *, compact: bool = False, ax: Any = None) -> WeightPathDisplay:
        """Draw the display.

        Parameters
        ----------
        compact : bool, default=False
            Whether to shorten the titles, for narrow figures.
        ax : matplotlib.axes.Axes or array of two, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        WeightPathDisplay
            The display itself.
        """
        axes = two_axes(ax, (9.0, 3.2))
        left, right = axes
        changes = np.asarray(self.changes, float)
        rounds = np.arange(1, len(changes) + 1)
        # The change of the first iteration may be infinite or zero.
        drawn = np.isfinite(changes) & (changes > 0)
        if drawn.any():
            left.plot(rounds[drawn], changes[drawn], marker="o", markersize=4, color=COLORS[0])
            left.set_yscale("log")
            left.axhline(self.tol, color=QUIET, linewidth=1, linestyle="--", zorder=0)
            left.set_xticks(rounds if len(rounds) <= 10 else rounds[:: -(-len(rounds) // 10)])
            left.set_xlim(0.5, len(rounds) + 0.5)
            left.set_xlabel("iteration; dashed: converged")
            left.set_ylabel("relative change")
        else:
            left.set_axis_off()
            left.text(0.5, 0.5, "weights were given", ha="center", va="center")
        left.set_title("Change of the metric")

        weights = np.sort(np.asarray(self.weights, float))[::-1]
        n = len(weights)
        share = np.cumsum(weights) / weights.sum()
        # A few hundred points are enough for the curve.
        at = np.unique(np.linspace(0, n - 1, min(n, 300)).astype(int))
        right.plot(100 * (at + 1) / n, 100 * share[at], color=COLORS[1])
        right.plot([0, 100], [0, 100], color=QUIET, linewidth=1, linestyle="--", zorder=0)
        right.set_xlim(0, 100)
        right.set_ylim(0, 102)
        right.set_xlabel("samples, heaviest first (%)")
        right.set_ylabel("share of the weight (%)")
        size = f"{self.effective_rows:,.0f} of {n:,}"
        right.set_title(f"Weights: effective {size}" + " samples" * (not compact))
        self.axes_, self.ax_, self.figure_ = axes, left, left.figure
        return self
