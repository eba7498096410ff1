"""Samples scaled to unit length, whose inner products are cosine similarities."""

from __future__ import annotations

import numpy as np

from genmetric._chunks import row_chunks
from genmetric._typing import AnyArray


def unit_vectors(
    X: AnyArray, name: str = "X", advice: str = "Drop them before computing cosine similarity."
) -> AnyArray:
    """Scale samples to unit length; raise a ValueError for zero vectors.

    Norms are computed in float64, chunk by chunk, so that there is no float64 copy of all samples.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Finite samples, float32 or float64.
    name : str, default="X"
        Name of the samples in the error.
    advice : str
        Last sentence of the error.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        Unit vectors of the same dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric._unit_vectors import unit_vectors
    >>> unit_vectors(np.array([[3.0, 4.0], [1e-200, 0.0]]))
    array([[0.6, 0.8],
           [1. , 0. ]])
    """
    # The largest entry first: the squares of 1e-200 and 1e200 are not representable.
    largest = np.abs(X).max(axis=1, keepdims=True, initial=0.0)
    zero = np.flatnonzero(largest == 0)
    if len(zero):
        vectors = "1 zero vector" if len(zero) == 1 else f"{len(zero)} zero vectors"
        raise ValueError(
            f"{name} has {vectors} (the first is sample {zero[0]}). A zero vector has no direction. "
            f"{advice}"
        )
    return _scaled(X, largest)


def unit_or_zero_vectors(X: AnyArray) -> AnyArray:
    """Scale samples to unit length and keep zero vectors, as :func:`unit_vectors` otherwise.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Finite samples, float32 or float64.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        Unit vectors, and zero vectors where `X` has them.
    """
    largest = np.abs(X).max(axis=1, keepdims=True, initial=0.0)
    largest[largest == 0] = 1.0
    return _scaled(X, largest)


def _scaled(X: AnyArray, largest: AnyArray) -> AnyArray:
    out = np.empty_like(X)
    for chunk in row_chunks(len(X), 24 * X.shape[1]):
        row = X[chunk].astype(float) / largest[chunk]
        norm = np.sqrt(np.einsum("ij,ij->i", row, row))[:, None]
        out[chunk] = row / np.where(norm == 0, 1.0, norm)
    return out
