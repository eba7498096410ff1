"""Quantile slices of a numeric target: the classes of a metric for regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from genmetric._typing import AnyArray, FloatArray, IntArray

#: Samples per slice below which the default uses fewer slices, and the largest default.
MIN_SLICE_SIZE, MAX_SLICES = 40, 6


def default_n_slices(n_samples: int) -> int:
    """Return the number of slices for a number of samples: at least 40 each, from 2 to 6.

    Parameters
    ----------
    n_samples : int
        Number of training samples.

    Returns
    -------
    int
        Number of slices.

    Examples
    --------
    >>> from genmetric.learners import default_n_slices
    >>> [default_n_slices(n) for n in (50, 150, 1000)]
    [2, 3, 6]
    """
    return int(np.clip(n_samples // MIN_SLICE_SIZE, 2, MAX_SLICES))


def quantile_edges(
    y: AnyArray, n_slices: int, sample_weight: FloatArray | None = None
) -> FloatArray:
    """Compute the inner edges of quantile slices of a target.

    Equal targets are in one slice. With many equal targets there are fewer edges than asked for,
    and at least one if the target is not constant.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Numeric targets.
    n_slices : int
        Number of slices with about equal numbers of samples.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequencies.

    Returns
    -------
    ndarray of shape (n_edges,)
        Ascending edges; a target belongs to the first slice whose edge is not smaller.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.learners import quantile_edges
    >>> quantile_edges(np.arange(9.0), 3)
    array([2., 5.])
    """
    values, inverse = np.unique(y, return_inverse=True)
    counts = np.bincount(inverse, sample_weight)
    reached = np.cumsum(counts) / counts.sum()
    wanted = np.arange(1, n_slices) / n_slices
    # The value whose cumulated frequency is nearest: ties of many samples go to one side.
    places = np.abs(reached[:, None] - wanted).argmin(axis=0)
    return np.asarray(values[np.unique(np.minimum(places, max(len(values) - 2, 0)))], float)


def slice_targets(y: Any, edges: FloatArray) -> IntArray:
    """Return the index of the slice of each target.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Numeric targets.
    edges : ndarray of shape (n_edges,)
        Inner edges, see :func:`quantile_edges`.

    Returns
    -------
    ndarray of shape (n_samples,)
        Indices from 0 to n_edges.

    Examples
    --------
    >>> from genmetric.learners import slice_targets
    >>> slice_targets([0.5, 2.0, 7.0], [2.0, 5.0])
    array([0, 0, 2])
    """
    return np.asarray(np.searchsorted(edges, np.asarray(y, float), side="left"))
