"""Stacks of Gram matrices: memory, validation and weighted sums.

A stack has shape (n_kernels, n_rows, n_columns). It is the one large array of multiple kernel
learning and is never copied: the normalisation of a kernel is a factor of its weight, sums and
products run over blocks, and the size is checked before the allocation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import kernel_metrics, pairwise_kernels

from genmetric._chunks import map_chunks, row_chunks
from genmetric._memory import check_memory
from genmetric._typing import AnyArray, FloatArray
from genmetric._validation import refuse_lazy

#: Bytes of the sum that fit into the cache of a core while the kernels are added.
BLOCK_BYTES = 2**18

#: Tolerated difference of a Gram matrix from its transpose, relative to its largest entry.
ASYMMETRY = 1e-5

#: Advice of the error if Gram matrices do not fit in memory.
FEWER_KERNELS = "Use fewer kernels (n_regions, scales) or fewer samples; float32 input halves it."


def stack_bytes(n_kernels: int, n_rows: int, n_columns: int, itemsize: int = 8) -> int:
    """Compute the size of a stack of Gram matrices in bytes.

    Parameters
    ----------
    n_kernels, n_rows, n_columns : int
        Shape of the stack.
    itemsize : int, default=8
        Bytes per entry: 8 for float64, 4 for float32.

    Returns
    -------
    int
        Bytes.

    Examples
    --------
    >>> from genmetric.kernels._gram import stack_bytes
    >>> stack_bytes(150, 600, 600)
    432000000
    """
    return n_kernels * n_rows * n_columns * itemsize


def check_kernels(kernels: Any) -> list[Any]:
    """Return a list of kernels if each is a callable or a kernel name of scikit-learn."""
    if isinstance(kernels, str) or not isinstance(kernels, Sequence):
        raise TypeError(
            'kernels must be a list of kernels, a RegionalKernels, "precomputed" or None; got '
            f"{kernels!r}."
        )
    if not len(kernels):
        raise ValueError("kernels is empty. Pass at least one kernel, or None for the default.")
    known = kernel_metrics()
    for m, kernel in enumerate(kernels):
        if not callable(kernel) and not (isinstance(kernel, str) and kernel in known):
            raise ValueError(
                f"kernels[{m}] must be a function of two arrays of samples or one of "
                f"{sorted(known)}; got {kernel!r}."
            )
    return list(kernels)


def gram_matrix(kernel: Any, X: AnyArray, Y: AnyArray) -> AnyArray:
    """Compute the Gram matrix of one kernel between the samples of X and of Y.

    Parameters
    ----------
    kernel : callable or str
        A function of two arrays of samples, as for :class:`sklearn.svm.SVC`, or a name of
        :func:`sklearn.metrics.pairwise.pairwise_kernels`.
    X : ndarray of shape (n_rows, n_features)
        Samples.
    Y : ndarray of shape (n_columns, n_features)
        Samples.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Kernel values.
    """
    if isinstance(kernel, str):
        return np.asarray(pairwise_kernels(X, Y, metric=kernel))
    try:
        K = np.asarray(kernel(X, Y))
    except Exception as error:
        error.add_note(f"while evaluating the kernel {kernel!r}")
        raise
    if K.shape != (len(X), len(Y)):
        raise ValueError(
            f"The kernel {kernel!r} returned shape {K.shape} for {len(X)} and {len(Y)} samples. "
            f"It must return one value per pair, shape {(len(X), len(Y))}."
        )
    return K


def gram_stack(kernels: Sequence[Any], X: AnyArray, Y: AnyArray | None = None) -> AnyArray:
    """Compute the Gram matrices of a list of kernels.

    Parameters
    ----------
    kernels : sequence of callable or str
        See :func:`gram_matrix`.
    X : ndarray of shape (n_rows, n_features)
        Samples, float64 or float32.
    Y : ndarray of shape (n_columns, n_features), default=None
        Samples; ``None`` uses X.

    Returns
    -------
    ndarray of shape (n_kernels, n_rows, n_columns)
        Gram matrices with the data type of X.
    """
    other = X if Y is None else Y
    shape = (len(kernels), len(X), len(other))
    check_memory(
        stack_bytes(*shape, X.dtype.itemsize), f"The Gram matrices of shape {shape}", FEWER_KERNELS
    )
    stack = np.empty(shape, X.dtype)
    for m, kernel in enumerate(kernels):
        stack[m] = gram_matrix(kernel, X, other)
    return stack


def check_stack(stack: Any, *, shape: tuple[int | None, ...], name: str = "X") -> AnyArray:
    """Return a stack of Gram matrices if its shape is valid and all entries are finite.

    Parameters
    ----------
    stack : array-like of shape (n_kernels, n_rows, n_columns)
        Input of the user. A memory map is not copied.
    shape : tuple of int or None
        Expected shape; ``None`` accepts any length.
    name : str, default="X"
        Name in error messages.

    Returns
    -------
    ndarray of shape (n_kernels, n_rows, n_columns)
        float32 or float64.
    """
    refuse_lazy(stack, name)
    array = np.asarray(stack)
    wanted = "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"
    if array.ndim != 3 or any(
        s is not None and s != t for s, t in zip(shape, array.shape, strict=True)
    ):
        raise ValueError(
            f"{name} must be a stack of Gram matrices of shape {wanted}: n_kernels, n_samples, "
            f"n_training_samples. Got shape {array.shape}."
        )
    if 0 in array.shape:
        raise ValueError(f"{name} is empty: it has shape {array.shape}.")
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must hold real numbers; got the type {array.dtype}. Convert it with "
            "numpy.asarray(..., dtype=float)."
        )
    if array.dtype not in (np.float64, np.float32):
        array = array.astype(float)
    for m, K in enumerate(array):
        if not np.isfinite(K).all():
            raise ValueError(f"{name}: kernel {m} has NaN or infinite values. Fix or remove it.")
    return array


def check_symmetric(stack: AnyArray) -> None:
    """Raise ValueError if a matrix of a stack is not symmetric or has a negative diagonal."""
    for m, K in enumerate(stack):
        size = float(np.abs(K).max())
        if float(np.abs(K - K.T).max()) > ASYMMETRY * size:
            raise ValueError(
                f"Kernel {m} is not symmetric on the training samples. A kernel k(x, y) must equal "
                "k(y, x); check the function, or the order of the samples of a precomputed stack."
            )
        if float(K.diagonal().min()) < -ASYMMETRY * size:
            raise ValueError(
                f"Kernel {m} has the negative value {K.diagonal().min():g} on its diagonal, so it "
                "is not positive semidefinite. Use a kernel that is."
            )


def unit_trace_factors(stack: AnyArray) -> FloatArray:
    r"""Compute the factors that scale each kernel to a mean diagonal of one (trace n).

    Parameters
    ----------
    stack : ndarray of shape (n_kernels, n, n)
        Gram matrices of the training samples.

    Returns
    -------
    ndarray of shape (n_kernels,)
        :math:`n / \mathrm{tr} K_m`, and one if the trace is zero.
    """
    diagonal = np.array([K.diagonal().astype(float).mean() for K in stack])
    positive = diagonal > 0
    return np.asarray(np.where(positive, 1 / np.where(positive, diagonal, 1.0), 1.0))


def combine(stack: AnyArray, weights: FloatArray, n_jobs: int | None = None) -> FloatArray:
    r"""Compute the combined Gram matrix :math:`\sum_m d_m K_m`, equation (14) of the paper.

    Parameters
    ----------
    stack : ndarray of shape (n_kernels, n_rows, n_columns)
        Gram matrices.
    weights : ndarray of shape (n_kernels,)
        Weights d of any sign; kernels of weight zero are skipped.
    n_jobs : int, default=None
        Number of threads. Results are bit-identical for every value.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        float64.
    """
    active = np.flatnonzero(weights)
    out = np.zeros(stack.shape[1:])

    def add_block(rows: slice) -> None:
        block = out[rows]
        term = np.empty(block.shape)
        for m in active:
            np.multiply(stack[m, rows], weights[m], out=term)
            block += term

    chunks = row_chunks(stack.shape[1], 8 * stack.shape[2], budget=BLOCK_BYTES)
    for _ in map_chunks(add_block, chunks, n_jobs):
        pass
    return out


def products(stack: AnyArray, vectors: FloatArray, n_jobs: int | None = None) -> FloatArray:
    """Multiply every Gram matrix by the same vectors.

    Parameters
    ----------
    stack : ndarray of shape (n_kernels, n_rows, n_columns)
        Gram matrices.
    vectors : ndarray of shape (n_columns, n_vectors)
        Vectors.
    n_jobs : int, default=None
        Number of threads. Results are bit-identical for every value.

    Returns
    -------
    ndarray of shape (n_kernels, n_rows, n_vectors)
        float64.
    """
    out = np.empty((*stack.shape[:2], vectors.shape[1]))

    def multiply(kernels: slice) -> None:
        K = np.ascontiguousarray(stack[kernels], dtype=float)
        np.matmul(K.reshape(-1, K.shape[2]), vectors, out=out[kernels].reshape(-1, out.shape[2]))

    for _ in map_chunks(multiply, row_chunks(len(stack), 8 * stack[0].size), n_jobs):
        pass
    return out
