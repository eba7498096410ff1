"""Sources of kernels: a list of functions, RegionalKernels, or precomputed Gram matrices.

Fitted kernels are a list, a fitted :class:`~genmetric.kernels.RegionalKernels`, or the string
``"precomputed"``, for which the samples are a stack of Gram matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone

from genmetric._chunks import row_chunks
from genmetric._typing import AnyArray, FloatArray
from genmetric.kernels._gram import (
    check_kernels,
    check_stack,
    check_symmetric,
    combine,
    gram_matrix,
    gram_stack,
    stack_bytes,
)
from genmetric.kernels._regional import RegionalKernels


def _is_precomputed(kernels: Any) -> bool:
    return isinstance(kernels, str) and kernels == "precomputed"


def fit_kernels(kernels: Any, X: AnyArray, labels: AnyArray) -> Any:
    """Validate kernels, and clone and fit a RegionalKernels.

    Parameters
    ----------
    kernels : list, RegionalKernels, "precomputed" or None
        The parameter `kernels` of :class:`~genmetric.SimpleMKLClassifier`.
    X : ndarray of shape (n_samples, n_features)
        Training samples, or the stack of their Gram matrices.
    labels : ndarray of shape (n_samples,)
        Class labels.

    Returns
    -------
    list, RegionalKernels or "precomputed"
        The fitted kernels.
    """
    if _is_precomputed(kernels):
        return "precomputed"
    if kernels is None:
        return RegionalKernels(n_regions=0).fit(X, labels)
    if callable(getattr(kernels, "gram", None)):
        return clone(kernels).fit(X, labels)
    return check_kernels(kernels)


def count_kernels(fitted: Any, X: AnyArray) -> int:
    """Return the number of fitted kernels."""
    if _is_precomputed(fitted) or isinstance(fitted, list):
        return len(X if _is_precomputed(fitted) else fitted)
    return int(fitted.n_kernels_)


def learning_bytes(fitted: Any, X: AnyArray, n_kernels: int, n_problems: int) -> int:
    """Compute the memory of learning the weights of kernels.

    Parameters
    ----------
    fitted : list, RegionalKernels or "precomputed"
        The fitted kernels.
    X : ndarray
        Training samples, or the stack of their Gram matrices, which exists already.
    n_kernels : int
        Number of kernels.
    n_problems : int
        Number of two-class problems.

    Returns
    -------
    int
        Number of bytes.
    """
    precomputed = _is_precomputed(fitted)
    n_samples = X.shape[1] if precomputed else len(X)
    stack = 0 if precomputed else stack_bytes(n_kernels, n_samples, n_samples, X.dtype.itemsize)
    # Products of kernels and solutions; a few combined matrices; the copies of libsvm.
    return stack + 8 * n_samples * (n_kernels * n_problems + 6 * n_samples)


def training_stack(fitted: Any, X: AnyArray) -> AnyArray:
    """Compute the Gram matrices of the training samples.

    Parameters
    ----------
    fitted : list, RegionalKernels or "precomputed"
        The fitted kernels.
    X : ndarray
        Training samples, or the stack of their Gram matrices.

    Returns
    -------
    ndarray of shape (n_kernels, n_samples, n_samples)
        Symmetric Gram matrices.
    """
    if _is_precomputed(fitted):
        check_symmetric(X)
        return X
    if isinstance(fitted, list):
        stack = check_stack(gram_stack(fitted, X), shape=(None, None, None), name="kernels")
        check_symmetric(stack)
        return stack
    return np.asarray(fitted.gram(X))


def combined_blocks(
    fitted: Any,
    weights: FloatArray,
    queries: AnyArray,
    X_fit: AnyArray | None,
    n_fit: int,
    n_jobs: int | None = None,
) -> Iterator[FloatArray]:
    """Yield combined Gram matrices of blocks of queries against the training samples.

    Only kernels of non-zero weight are evaluated.

    Parameters
    ----------
    fitted : list, RegionalKernels or "precomputed"
        The fitted kernels.
    weights : ndarray of shape (n_kernels,)
        Weights of the kernels.
    queries : ndarray
        Samples of shape (n_queries, n_features), or Gram matrices of shape (n_kernels, n_queries,
        n_fit).
    X_fit : ndarray of shape (n_fit, n_features) or None
        Training samples; ``None`` for precomputed Gram matrices.
    n_fit : int
        Number of training samples.
    n_jobs : int, default=None
        Number of threads. Results are bit-identical for every value.

    Yields
    ------
    ndarray of shape (n_block, n_fit)
        Combined kernel values of consecutive queries.
    """
    n_queries = queries.shape[1] if X_fit is None else len(queries)
    for rows in row_chunks(n_queries, 3 * 8 * n_fit):
        if X_fit is None:
            yield combine(queries[:, rows], weights, n_jobs)
        elif isinstance(fitted, list):
            out = np.zeros((rows.stop - rows.start, n_fit))
            for m in np.flatnonzero(weights):
                K = gram_matrix(fitted[m], queries[rows], X_fit)
                if not np.isfinite(K).all():
                    raise ValueError(
                        f"kernels[{m}] returned NaN or infinite values for these samples. Fix or "
                        "remove the kernel."
                    )
                out += weights[m] * K
            yield out
        else:
            yield fitted.combined_gram(weights, queries[rows], X_fit)
