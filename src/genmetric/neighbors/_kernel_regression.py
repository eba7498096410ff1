"""The exact leave-one-out error of kernel regression, and the bandwidth that minimises it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._nadaraya_watson import squared_distances
from genmetric._typing import FloatArray, IntArray

#: Number of bandwidths on the grid of the leave-one-out search; squares of neighbours differ by 2.
N_BANDWIDTHS = 28

#: Steps of the golden-section search around the best bandwidth of the grid.
N_REFINEMENTS = 10

#: Samples whose leave-one-out error selects the bandwidth; larger sets use evenly spaced ones.
MAX_LOO_SAMPLES = 5000


class BandwidthSearch(NamedTuple):
    """Result of :func:`select_bandwidth`.

    Attributes
    ----------
    bandwidth : float
        Bandwidth with the smallest leave-one-out error.
    error : float
        Its mean squared leave-one-out error.
    bandwidths : ndarray of shape (n_bandwidths,)
        All bandwidths that were evaluated, ascending.
    errors : ndarray of shape (n_bandwidths,)
        Their mean squared leave-one-out errors.
    """

    bandwidth: float
    error: float
    bandwidths: FloatArray
    errors: FloatArray


def leave_one_out_errors(
    samples: FloatArray,
    targets: FloatArray,
    bandwidths: FloatArray,
    *,
    sample_weight: FloatArray | None = None,
    queries: IntArray | None = None,
    n_jobs: int | None = None,
) -> FloatArray:
    r"""Compute the mean squared leave-one-out error of kernel regression for several bandwidths.

    A sample of frequency w counts as w copies: leaving one out keeps weight
    :math:`\max(w - 1, 0)` at the same place, and its error counts w times.

    Parameters
    ----------
    samples : ndarray of shape (n_samples, n_features)
        Training samples.
    targets : ndarray of shape (n_samples,)
        Training targets.
    bandwidths : ndarray of shape (n_bandwidths,)
        Standard deviations of the kernel.
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive frequency weights.
    queries : ndarray of int, default=None
        Indices of the samples whose errors are averaged; ``None`` uses all.
    n_jobs : int, default=None
        Number of threads over chunks of samples.

    Returns
    -------
    ndarray of shape (n_bandwidths,)
        Mean squared errors.
    """
    n_samples = len(samples)
    squares = np.einsum("ij,ij->i", samples, samples)
    weight = np.ones(n_samples) if sample_weight is None else sample_weight
    left = np.maximum(weight - 1, 0)
    columns = np.column_stack([weight, weight * targets])
    asked = np.arange(n_samples) if queries is None else queries
    # From the largest bandwidth down: where squared bandwidths halve, the kernel is squared.
    order = np.argsort(bandwidths)[::-1]

    def errors_of_chunk(chunk: slice) -> FloatArray:
        rows = asked[chunk]
        local = np.arange(len(rows))
        distances = squared_distances(samples[rows], samples, squares)
        distances[local, rows] = np.where(left[rows] > 0, 0.0, np.inf)
        distances -= distances.min(axis=1, keepdims=True)
        errors = np.empty(len(bandwidths))
        kernel, last = np.empty_like(distances), np.inf
        for b in order:
            h = float(bandwidths[b])
            with np.errstate(over="ignore", under="ignore"):
                if np.isclose(last * last, 2 * h * h, rtol=1e-12, atol=0):
                    kernel *= kernel
                else:
                    np.divide(distances, -h, out=kernel)
                    kernel /= 2 * h
                    np.exp(kernel, out=kernel)
                last = h
                total, weighted = (kernel @ columns).T
                # The sample itself entered with its full weight; one copy is left out.
                own = kernel[local, rows] * (weight[rows] - left[rows])
                total, weighted = total - own, weighted - own * targets[rows]
                residual = weighted / total - targets[rows]
            errors[b] = weight[rows] @ residual**2
        return errors

    chunks = row_chunks(len(asked), 24 * n_samples)
    total = np.sum(list(map_chunks(errors_of_chunk, chunks, n_jobs)), axis=0)
    return np.asarray(total / weight[asked].sum())


def select_bandwidth(
    samples: FloatArray,
    targets: FloatArray,
    *,
    sample_weight: FloatArray | None = None,
    n_jobs: int | None = None,
) -> BandwidthSearch:
    """Select the bandwidth of kernel regression by its leave-one-out error.

    A grid whose squares differ by a factor of two covers everything between a fraction of the
    smallest useful distance and the diameter of the data; golden-section steps refine its best
    entry. With more than 5000 samples the errors of 5000 evenly spaced ones are averaged; each of
    these errors is exact.

    Parameters
    ----------
    samples : ndarray of shape (n_samples, n_features)
        Training samples.
    targets : ndarray of shape (n_samples,)
        Training targets.
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive frequency weights.
    n_jobs : int, default=None
        Number of threads.

    Returns
    -------
    BandwidthSearch
        The bandwidth, its error and the search.
    """
    n_samples = len(samples)
    # Around the weighted mean, so that a sample of weight two gives the grid of the sample twice.
    samples = samples - np.average(samples, axis=0, weights=sample_weight)
    radius = float(np.sqrt(np.einsum("ij,ij->i", samples, samples).max(initial=0.0)))
    total = n_samples if sample_weight is None else sample_weight.sum()
    if radius == 0 or total <= 1:
        # All samples are equal, or there is a single one: every bandwidth predicts the same.
        return BandwidthSearch(1.0, np.nan, np.ones(1), np.full(1, np.nan))
    queries = np.arange(n_samples)
    if n_samples > MAX_LOO_SAMPLES:
        queries = np.linspace(0, n_samples - 1, MAX_LOO_SAMPLES).astype(np.intp)

    def evaluate(bandwidths: FloatArray) -> FloatArray:
        return leave_one_out_errors(
            samples,
            targets,
            bandwidths,
            sample_weight=sample_weight,
            queries=queries,
            n_jobs=n_jobs,
        )

    grid = np.asarray(2 * radius * 2.0 ** (-0.5 * np.arange(N_BANDWIDTHS)[::-1]), float)
    errors = evaluate(grid)
    # Of equal errors the larger bandwidth, the smoother function, is selected.
    best = N_BANDWIDTHS - 1 - int(np.argmin(errors[::-1]))
    low, high = np.log(grid[max(best - 1, 0)]), np.log(grid[min(best + 1, N_BANDWIDTHS - 1)])
    golden = (np.sqrt(5) - 1) / 2
    inner = [high - golden * (high - low), low + golden * (high - low)]
    values = list(evaluate(np.exp(inner)))
    for _ in range(N_REFINEMENTS):
        grid, errors = np.append(grid, np.exp(inner)), np.append(errors, values)
        if values[0] < values[1]:
            high = inner[1]
            inner = [high - golden * (high - low), inner[0]]
            values = [float(evaluate(np.exp(inner[:1]))[0]), values[0]]
        else:
            low = inner[0]
            inner = [inner[1], low + golden * (high - low)]
            values = [values[1], float(evaluate(np.exp(inner[1:]))[0])]
    grid, first = np.unique(np.append(grid, np.exp(inner)), return_index=True)
    errors = np.append(errors, values)[first]
    best = len(grid) - 1 - int(np.argmin(errors[::-1]))
    return BandwidthSearch(float(grid[best]), float(errors[best]), grid, errors)
