"""The Nadaraya-Watson estimator with a Gaussian kernel."""

from __future__ import annotations

import numpy as np

from genmetric._parallel import map_chunks, row_chunks
from genmetric._typing import FloatArray


def squared_distances(queries: FloatArray, samples: FloatArray, squares: FloatArray) -> FloatArray:
    """Return squared Euclidean distances by one matrix product, never negative."""
    distances = queries @ samples.T
    distances *= -2
    distances += np.einsum("ij,ij->i", queries, queries)[:, None]
    distances += squares
    return np.maximum(distances, 0, out=distances)


def kernel_regression(
    queries: FloatArray,
    samples: FloatArray,
    targets: FloatArray,
    bandwidth: float,
    sample_weight: FloatArray | None = None,
    *,
    n_jobs: int | None = None,
) -> FloatArray:
    r"""Predict by the Nadaraya-Watson estimator with a Gaussian kernel.

    .. math:: \hat y(x) = \frac{\sum_i w_i y_i \exp(-\|x - x_i\|^2 / 2h^2)}
              {\sum_i w_i \exp(-\|x - x_i\|^2 / 2h^2)}

    The smallest squared distance of each query is subtracted from all of its exponents, so the
    prediction is finite for every bandwidth h: it tends to the target of the nearest sample for
    small h and to the mean of the targets for large h.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, n_features)
        Samples to predict, in coordinates where distances are Euclidean.
    samples : ndarray of shape (n_samples, n_features)
        Training samples.
    targets : ndarray of shape (n_samples,)
        Training targets.
    bandwidth : float
        Standard deviation h of the kernel.
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive frequency weights w.
    n_jobs : int, default=None
        Number of threads over chunks of queries.

    Returns
    -------
    ndarray of shape (n_queries,)
        Predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.neighbors import kernel_regression
    >>> x = np.array([[0.0], [1.0]])
    >>> kernel_regression(np.array([[0.5]]), x, np.array([1.0, 3.0]), 0.3)
    array([2.])
    """
    squares = np.einsum("ij,ij->i", samples, samples)
    weight = np.ones(len(samples)) if sample_weight is None else sample_weight
    columns = np.column_stack([weight, weight * targets])

    def predict(chunk: slice) -> FloatArray:
        distances = squared_distances(queries[chunk], samples, squares)
        distances -= distances.min(axis=1, keepdims=True)
        with np.errstate(over="ignore", under="ignore"):
            # Divided twice: the square of a very small bandwidth is zero.
            distances /= -bandwidth
            distances /= 2 * bandwidth
            kernel = np.exp(distances, out=distances)
            total, weighted = (kernel @ columns).T
        return np.asarray(weighted / total)

    chunks = row_chunks(len(queries), 16 * len(samples))
    parts = list(map_chunks(predict, chunks, n_jobs))
    return np.concatenate(parts) if parts else np.empty(0)
