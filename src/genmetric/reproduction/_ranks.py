"""Statistics of the tables: standard errors, marks, average ranks and tests of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import f as f_distribution
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from genmetric._typing import ArrayLike, FloatArray

Mark = Literal["", "better", "worse"]


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Compute mean and standard error of the mean; the error of a single value is NaN.

    Examples
    --------
    >>> from genmetric.reproduction._ranks import mean_and_error
    >>> mean_and_error([1.0, 2.0, 3.0])
    (2.0, 0.5773502691896258)
    """
    array = np.asarray(values, dtype=float)
    error = np.std(array, ddof=1) / np.sqrt(len(array)) if len(array) > 1 else np.nan
    return float(np.mean(array)), float(error)


def mark(
    ours: float,
    our_error: float,
    paper: float,
    paper_error: float,
    *,
    higher_is_better: bool = False,
) -> Mark:
    """Mark a difference of two means by more than two combined standard errors, and its sign.

    Parameters
    ----------
    ours, our_error : float
        Our mean and standard error; with an error of NaN the result is "".
    paper, paper_error : float
        Mean and standard error of the paper.
    higher_is_better : bool, default=False
        Whether larger means are better.

    Returns
    -------
    {"", "better", "worse"}
        Our result compared with the paper's.
    """
    gap = ours - paper if higher_is_better else paper - ours
    limit = 2 * np.hypot(our_error, paper_error)
    if not abs(gap) > limit:
        return ""
    return "better" if gap > 0 else "worse"


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
        Critical difference of Nemenyi; smaller differences are not significant at the level.
    level : float
        Level of significance.
    """

    methods: tuple[str, ...]
    ranks: FloatArray
    n_sets: int
    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float
    critical_difference: float
    level: float = 0.05

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
    means: ArrayLike, methods: Sequence[str], *, higher_is_better: bool = False, level: float = 0.05
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
    level : float, default=0.05
        Level of significance.

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
    >>> from genmetric.reproduction._ranks import rank_methods
    >>> rank_methods([[1, 2, 3], [1, 3, 2], [1, 2, 2]], ["a", "b", "c"]).ranks.round(2).tolist()
    [1.0, 2.5, 2.5]
    """
    scores = np.asarray(means, dtype=float) * (-1 if higher_is_better else 1)
    if scores.ndim != 2 or scores.shape[1] != len(methods) or not np.isfinite(scores).all():
        raise ValueError(
            f"means must be finite, with one row per dataset and one column for each of "
            f"{len(methods)} methods; got shape {scores.shape}."
        )
    n, k = scores.shape
    ranks = rankdata(scores, axis=1).mean(axis=0)
    statistic: Any = np.nan
    p_value, f_statistic, f_p = statistic, statistic, statistic
    if k > 2 and n > 1 and np.ptp(scores, axis=1).any():
        statistic, p_value = friedmanchisquare(*scores.T)
        slack = n * (k - 1) - statistic
        f_statistic = (n - 1) * statistic / slack if slack > 0 else np.inf
        f_p = f_distribution.sf(f_statistic, k - 1, (k - 1) * (n - 1))
    difference = critical_difference(k, n, level=level) if k > 1 else np.nan
    return Ranking(
        tuple(methods),
        ranks,
        n,
        float(statistic),
        float(p_value),
        float(f_statistic),
        float(f_p),
        difference,
        level,
    )


def critical_difference(n_methods: int, n_sets: int, *, level: float = 0.05) -> float:
    """Compute the critical difference of average ranks of Nemenyi.

    Examples
    --------
    >>> from genmetric.reproduction._ranks import critical_difference
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    q = studentized_range.ppf(1 - level, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_sets)))
