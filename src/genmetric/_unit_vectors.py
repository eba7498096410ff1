"""Samples scaled to unit length, whose inner products are cosine similarities."""

from __future__ import annotations

import numpy as np

from genmetric._parallel import row_chunks
from genmetric._typing import AnyArray


def unit_vectors(X: AnyArray) -> AnyArray:
    """Scale samples to unit length, in float64 by chunks, of the dtype of X; zeros stay zero.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric._unit_vectors import unit_vectors
    >>> unit_vectors(np.array([[3.0, 4.0], [1e-200, 0.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [1. , 0. ],
           [0. , 0. ]])
    """
    out = np.empty_like(X)
    for rows in row_chunks(len(X), 24 * X.shape[1]):
        # The largest entry first: the squares of 1e-200 are not representable.
        largest = np.abs(X[rows]).max(axis=1, keepdims=True, initial=0.0)
        x = X[rows].astype(float) / np.where(largest == 0, 1.0, largest)
        length = np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]
        out[rows] = x / np.where(length == 0, 1.0, length)
    return out


def directions(X: AnyArray, name: str = "X") -> AnyArray:
    """Scale samples to unit length for a search by cosine; raise a ValueError for zero vectors."""
    zero = np.flatnonzero(~X.any(axis=1))
    if len(zero):
        vectors = "1 zero vector" if len(zero) == 1 else f"{len(zero)} zero vectors"
        raise ValueError(
            f"{name} has {vectors} (the first is sample {zero[0]}), which have no direction. Drop "
            'them, or use metric="euclidean".'
        )
    return unit_vectors(X)
