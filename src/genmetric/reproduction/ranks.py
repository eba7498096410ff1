"""Statistics of the tables: standard errors, average ranks, and tests of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import f as f_distribution
from scipy.stats import friedmanchisquare, rankdata, studentized_range

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


class Ranking(NamedTuple):
    """Average ranks of methods over datasets, with tests of their differences.

    Attributes
    ----------
    methods : sequence of str
        Names of the methods.
    ranks : ndarray of shape (n_methods,)
        Average rank; 1 is the best, and equal means share their ranks.
    statistic, p_value : float
        Friedman's chi-square and its p-value; NaN if no method is better on any dataset.
    f_statistic, f_p_value : float
        The less conservative F statistic of Iman and Davenport, and its p-value.
    critical_difference : float
        Critical difference of Nemenyi; smaller ones are not significant at the level 0.05.
    """

    methods: Sequence[str]
    ranks: FloatArray
    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float
    critical_difference: float


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
        Names of the columns; at least three.
    higher_is_better : bool, default=False
        Whether rank 1 is the largest score.

    Returns
    -------
    Ranking
        Average ranks and tests.

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
    with np.errstate(all="ignore"):
        statistic, p_value = map(float, friedmanchisquare(*scores.T))
        f_statistic = (n - 1) * statistic / np.float64(n * (k - 1) - statistic)
    f_p_value = f_distribution.sf(f_statistic, k - 1, (k - 1) * (n - 1))
    q = studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2)
    difference = float(q * np.sqrt(k * (k + 1) / (6 * n)))
    return Ranking(methods, ranks, statistic, p_value, f_statistic, f_p_value, difference)
