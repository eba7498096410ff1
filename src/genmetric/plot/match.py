"""Display of the scores of pairs, same and different, with the threshold."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d

from genmetric._typing import ArrayLike, FloatArray
from genmetric.plot.palette import COLORS, QUIET, new_axes


@dataclass(repr=False, eq=False)
class MatchDisplay:
    """Histograms of the scores of pairs of the same entity and of different ones.

    Each histogram adds up to 100 %. The title gives the errors at the threshold: the same pairs
    below it are missed, and the different pairs above it are false matches. For the errors at all
    thresholds use :class:`sklearn.metrics.DetCurveDisplay`.

    Parameters
    ----------
    same : ndarray of shape (n_same,)
        Scores of pairs of the same entity.
    different : ndarray of shape (n_different,)
        Scores of pairs of different entities.
    threshold : float, default=None
        Least score of a pair that is taken for the same entity; ``None`` draws none.

    Attributes
    ----------
    miss_rate : float or None
        Fraction of the same pairs below the threshold.
    false_match_rate : float or None
        Fraction of the different pairs at or above it.
    ax_ : matplotlib.axes.Axes
        Axes with the histograms.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.plot import MatchDisplay
    >>> display = MatchDisplay(np.array([3.0, 5.0]), np.array([-4.0, -1.0]), threshold=4.0)
    >>> display.miss_rate, display.false_match_rate
    (0.5, 0.0)
    """

    same: FloatArray
    different: FloatArray
    _: KW_ONLY
    threshold: float | None = None

    def __post_init__(self) -> None:
        self.miss_rate = self.false_match_rate = None
        if self.threshold is not None:
            self.miss_rate = float(np.mean(self.same < self.threshold))
            self.false_match_rate = float(np.mean(self.different >= self.threshold))

    @classmethod
    def from_estimator(
        cls, estimator: Any, pairs: ArrayLike, y: ArrayLike, *, ax: Any = None
    ) -> MatchDisplay:
        """Draw the scores of a fitted classifier of pairs, with its threshold.

        Parameters
        ----------
        estimator : object
            A fitted :class:`~genmetric.PairClassifier`.
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of vectors, or of indices if there is a preprocessor; preferably of entities
            that are not in the training pairs.
        y : array-like of shape (n_pairs,)
            1 for pairs of the same entity, and -1 or 0 for others.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        MatchDisplay
            The display, drawn.
        """
        scores = estimator.decision_function(pairs)
        return cls.from_predictions(y, scores, threshold=estimator.threshold_, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        threshold: float | None = None,
        ax: Any = None,
    ) -> MatchDisplay:
        """Draw given scores of pairs, such as cosine similarities.

        Parameters
        ----------
        y_true : array-like of shape (n_pairs,)
            1 for pairs of the same entity, and -1 or 0 for others.
        y_score : array-like of shape (n_pairs,)
            Scores, larger for pairs that are more likely the same.
        threshold : float, default=None
            Threshold of the scores.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        MatchDisplay
            The display, drawn.
        """
        same, scores = column_or_1d(y_true) == 1, column_or_1d(y_score)
        check_consistent_length(same, scores)
        if same.all() or not same.any():
            raise ValueError("y_true must have pairs of the same entity and of different ones.")
        return cls(scores[same], scores[~same], threshold=threshold).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> MatchDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        MatchDisplay
            The display itself.
        """
        ax = new_axes(ax, (6.0, 3.2))
        bins = np.histogram_bin_edges(np.concatenate([self.same, self.different]), 50)
        parts = (("different", self.different, COLORS[1]), ("same", self.same, COLORS[0]))
        for name, scores, color in parts:
            weights = np.full(len(scores), 100 / len(scores))
            options = {"weights": weights, "color": color, "histtype": "stepfilled", "alpha": 0.6}
            ax.hist(scores, bins, label=f"{name} ({len(scores):,} pairs)", **options)
        if self.threshold is not None:
            ax.axvline(
                self.threshold, color=QUIET, linewidth=1.2, linestyle="--", label="threshold"
            )
            ax.set_title(f"{self.miss_rate:.1%} missed, {self.false_match_rate:.2%} false matches")
        ax.set_xlabel("score")
        ax.set_ylabel("% of pairs")
        ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
