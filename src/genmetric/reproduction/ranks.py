"""Statistics of the tables: standard errors, average ranks, and tests of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import f as f_distribution
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from genmetric._text import import_optional
from genmetric._typing import ArrayLike, FloatArray


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Compute mean and standard error of the mean; the error of a single value is NaN.

    Examples
    --------
    >>> from genmetric.reproduction.ranks import mean_and_error
    >>> mean_and_error([1.0, 2.0, 3.0])
    (2.0, 0.5773502691896258)
    """
    array = np.asarray(values, dtype=float)
    error = np.std(array, ddof=1) / np.sqrt(len(array)) if len(array) > 1 else np.nan
    return float(np.mean(array)), float(error)


@dataclass(frozen=True)
class Ranking:
    """Average ranks of methods over datasets, with tests of their differences.

    Attributes
    ----------
    methods : tuple of str
        Names of the methods.
    ranks : ndarray of shape (n_methods,)
        Average rank; 1 is the best, and equal means share their ranks.
    n_sets : int
        Number of datasets.
    statistic, p_value : float
        Friedman's chi-square and its p-value.
    f_statistic, f_p_value : float
        The less conservative F statistic of Iman and Davenport, and its p-value.
    critical_difference : float
        Critical difference of Nemenyi; smaller differences are not significant at the level 0.05.
    """

    methods: tuple[str, ...]
    ranks: FloatArray
    n_sets: int
    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float
    critical_difference: float

    def groups(self) -> list[tuple[float, float]]:
        """Return the longest ranges of ranks without a significant difference, as (low, high)."""
        ordered = np.sort(self.ranks)
        found: list[tuple[float, float]] = []
        for low in ordered:
            high = ordered[ordered <= low + self.critical_difference].max()
            if high > low and (not found or high > found[-1][1]):
                found.append((float(low), float(high)))
        return found


def rank_methods(
    means: ArrayLike, methods: Sequence[str], *, higher_is_better: bool = False
) -> Ranking:
    r"""Rank methods on each dataset, average the ranks, and test them by Friedman and Nemenyi.

    With k methods on N sets, Nemenyi's critical difference is
    :math:`q_\alpha \sqrt{k(k+1)/(6N)}`, :math:`q_\alpha` the quantile of the studentised range
    over :math:`\sqrt 2`; the F of Iman and Davenport is
    :math:`(N-1)\chi^2 / (N(k-1) - \chi^2)`.

    Parameters
    ----------
    means : array-like of shape (n_sets, n_methods)
        Mean score of each method on each dataset.
    methods : sequence of str
        Names of the columns.
    higher_is_better : bool, default=False
        Whether rank 1 is the largest score.

    Returns
    -------
    Ranking
        Average ranks and tests; NaN if there are too few datasets or methods for a test.

    References
    ----------
    J. Demsar, Statistical comparisons of classifiers over multiple data sets, Journal of Machine
    Learning Research 7 (2006).

    Examples
    --------
    >>> from genmetric.reproduction.ranks import rank_methods
    >>> rank_methods([[1, 2, 3], [1, 3, 2], [1, 2, 2]], ["a", "b", "c"]).ranks.round(2).tolist()
    [1.0, 2.5, 2.5]
    """
    scores = np.asarray(means, dtype=float) * (-1 if higher_is_better else 1)
    n, k = scores.shape
    ranks = rankdata(scores, axis=1).mean(axis=0)
    tests: tuple[Any, Any, Any, Any] = (np.nan, np.nan, np.nan, np.nan)
    if k > 2 and n > 1 and np.ptp(scores, axis=1).any():
        statistic, p_value = friedmanchisquare(*scores.T)
        slack = n * (k - 1) - statistic
        f_statistic = (n - 1) * statistic / slack if slack > 0 else np.inf
        f_p = f_distribution.sf(f_statistic, k - 1, (k - 1) * (n - 1))
        tests = (statistic, p_value, f_statistic, f_p)
    difference = critical_difference(k, n) if k > 1 else np.nan
    return Ranking(tuple(methods), ranks, n, *tests, difference)


def critical_difference(n_methods: int, n_sets: int, *, level: float = 0.05) -> float:
    """Compute the critical difference of average ranks of Nemenyi.

    Examples
    --------
    >>> from genmetric.reproduction.ranks import critical_difference
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    q = studentized_range.ppf(1 - level, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_sets)))


def critical_difference_diagram(ranking: Ranking) -> Any:
    """Draw average ranks as in Demsar (2006); bars join methods that do not differ significantly.

    Parameters
    ----------
    ranking : Ranking
        From :func:`genmetric.reproduction.ranks.rank_methods`.

    Returns
    -------
    matplotlib.figure.Figure
        The best rank on the left; a bar joins methods whose ranks are nearer than the critical
        difference, whose length is shown above the line.
    """
    k, width = len(ranking.ranks), ranking.critical_difference
    half, groups = -(-k // 2), ranking.groups()
    below = -0.14 - 0.16 * max(len(groups), 1)
    figure = import_optional("matplotlib.figure", "report").Figure(
        figsize=(7, 1.3 + 0.26 * half), layout="constrained"
    )
    ax = figure.subplots()
    ax.axis("off")
    # Names are placed outside the axis of ranks.
    ax.set(xlim=(1 - 0.28 * k, 1.28 * k), ylim=(below - 0.3 - 0.5 * half, 1.3))
    ax.plot([1, k], [0, 0], color="black", lw=1.2)
    for tick in range(1, k + 1):
        ax.plot([tick, tick], [0, 0.12], color="black", lw=1)
        ax.text(tick, 0.2, str(tick), ha="center", va="bottom", size=9)
    ax.plot([1, 1 + width], [0.85, 0.85], color="black", lw=1.2, marker="|")
    title = f"critical difference {width:.2f}"
    ax.text(1 + width / 2, 0.95, title, ha="center", va="bottom", size=9)
    for i, (low, high) in enumerate(groups):
        y = -0.14 - 0.16 * i
        ax.plot([low - 0.03, high + 0.03], [y, y], color="#c44e52", lw=3, solid_capstyle="round")
    for place, i in enumerate(np.argsort(ranking.ranks, kind="stable")):
        left, rank = place < half, ranking.ranks[i]
        level = below - 0.3 - 0.5 * (place if left else k - 1 - place)
        edge, side = (0.95, "right") if left else (k + 0.05, "left")
        ax.plot([rank, rank, edge], [0, level, level], color="0.45", lw=0.9)
        name = f" {ranking.methods[i]}  {rank:.2f} "
        ax.text(edge, level, name, ha=side, va="center", size=9)
    return figure
