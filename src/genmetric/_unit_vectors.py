"""Samples scaled to unit length, whose inner products are cosine similarities."""

from __future__ import annotations

import numpy as np

from genmetric._parallel import row_chunks
from genmetric._typing import AnyArray


def unit_vectors(
    X: AnyArray, name: str = "X", advice: str = "Drop them before computing cosine similarity."
) -> AnyArray:
    """Scale samples to unit length, of the same dtype; raise a ValueError for zero vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric._unit_vectors import unit_vectors
    >>> unit_vectors(np.array([[3.0, 4.0], [1e-200, 0.0]]))
    array([[0.6, 0.8],
           [1. , 0. ]])
    """
    zero = np.flatnonzero(~X.any(axis=1))
    if len(zero):
        vectors = "1 zero vector" if len(zero) == 1 else f"{len(zero)} zero vectors"
        raise ValueError(
            f"{name} has {vectors} (the first is sample {zero[0]}). A zero vector has no direction. "
            f"{advice}"
        )
    return unit_or_zero_vectors(X)


def unit_or_zero_vectors(X: AnyArray) -> AnyArray:
    """Scale samples to unit length, of the same dtype; zero vectors stay zero."""
    out = np.empty_like(X)
    for chunk in row_chunks(len(X), 24 * X.shape[1]):
        # The largest entry first: the squares of 1e-200 are not representable.
        largest = np.abs(X[chunk]).max(axis=1, keepdims=True, initial=0.0)
        row = X[chunk].astype(float) / np.where(largest == 0, 1.0, largest)
        norm = np.sqrt(np.einsum("ij,ij->i", row, row))[:, None]
        out[chunk] = row / np.where(norm == 0, 1.0, norm)
    return out
