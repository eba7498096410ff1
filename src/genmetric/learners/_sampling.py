"""Samples to average over: random subsets and their size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.utils.random import sample_without_replacement

from genmetric._array_api import take_rows
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._warnings import warn_user
from genmetric.geometry._summation import MetricSum

#: With fewer features the variance of local metrics does not exist for practical purposes.
MIN_FEATURES = 5

#: Relative standard error at which max_samples="auto" stops, and the size of its first sample.
AUTO_STDERR, FIRST_SAMPLE = 0.01, 1024


def warn_few_features(n_features: int) -> None:
    """Warn that standard errors are unreliable with few features."""
    if n_features < MIN_FEATURES:
        warn_user(
            f"With {n_features} features (fewer than {MIN_FEATURES}) local metrics are "
            "heavy-tailed, and metric_stderr_ is unreliable when max_samples is used. Use "
            "max_samples=None: with few features all samples are cheap.",
        )


def draw_classes(
    sizes: AnyArray, n_samples: int, rng: np.random.RandomState | np.random.Generator
) -> IntArray:
    """Draw random classes that together have at most `n_samples` samples, and at least two classes.

    Parameters
    ----------
    sizes : ndarray of shape (n_classes,)
        Number of samples of each class.
    n_samples : int
        Maximum number of samples.
    rng : RandomState or Generator
        Random number generator.

    Returns
    -------
    ndarray of int
        Indices of the classes, ascending.
    """
    order = rng.permutation(len(sizes))
    n_classes = int(np.searchsorted(np.cumsum(sizes[order]), n_samples, side="right"))
    return np.sort(order[: max(2, n_classes)])


def draw_samples(
    n_samples: int, n_draws: int | None, weights: FloatArray | None, rng: np.random.RandomState
) -> IntArray | None:
    """Draw the samples that the average runs over, each counted once.

    Without weights samples are drawn without replacement. With weights they are drawn with
    replacement, each with probability proportional to its weight: then the mean over the draws is
    unbiased and its standard error is that of independent draws.

    Parameters
    ----------
    n_samples : int
        Number of samples.
    n_draws : int or None
        Number of draws; ``None`` takes all samples.
    weights : ndarray of shape (n_samples,) or None
        Weights of the samples; ``None`` for equal weights.
    rng : RandomState
        Random number generator.

    Returns
    -------
    ndarray of int or None
        Indices, ascending; ``None`` for all samples with the weights they have.
    """
    if n_draws is None or n_draws >= n_samples:
        return None
    if weights is None:
        # Unlike rng.choice it makes no permutation of all samples, of which there may be a billion.
        return np.sort(sample_without_replacement(n_samples, n_draws, random_state=rng))
    return np.sort(rng.choice(n_samples, n_draws, p=weights / weights.sum()))


def sample_until_precise(
    metric_sum: Callable[..., MetricSum],
    X: AnyArray,
    weights: FloatArray | None,
    rng: np.random.RandomState,
    limit: int | None = None,
) -> tuple[MetricSum, float]:
    """Add up local metrics in random order until the relative error of their mean is one per cent.

    Parameters
    ----------
    metric_sum : callable
        Sum of the local metrics of samples, with weights or without.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    weights : ndarray of shape (n_samples,) or None
        Weights of the samples, which are then drawn with replacement as in :func:`draw_samples`.
    rng : RandomState
        Random number generator.
    limit : int, default=None
        Largest number of samples; None for all of them.

    Returns
    -------
    total : MetricSum
        Sum over the samples that were needed. Their number doubles between two checks.
    stderr : float
        Relative standard error of the mean; zero if all samples were needed.
    """
    n_samples = int(X.shape[0])
    warn_few_features(X.shape[1])
    if weights is None:
        order, population = rng.permutation(n_samples), float(n_samples)
    else:
        order, population = rng.choice(n_samples, n_samples, p=weights / weights.sum()), np.inf
    total: MetricSum | None = None
    start, stop = 0, FIRST_SAMPLE
    end = n_samples if limit is None else min(limit, n_samples)
    while stop < end:
        part = metric_sum(take_rows(X, np.sort(order[start:stop])))
        total = part if total is None else total.merge(part)
        stderr = total.relative_stderr(population)
        if stderr <= AUTO_STDERR:
            return total, stderr
        start, stop = stop, 2 * stop
    if end < n_samples:
        part = metric_sum(take_rows(X, np.sort(order[start:end])))
        total = part if total is None else total.merge(part)
        return total, total.relative_stderr(population)
    if total is None or weights is not None:
        return metric_sum(X, weights), 0.0
    return total.merge(metric_sum(take_rows(X, np.sort(order[start:])))), 0.0
