"""Loops over chunks of rows in threads, with one BLAS thread, within a memory budget.

The chunks depend only on the size of a row, never on ``n_jobs``, and results are returned in the
order of the chunks. Sums over them are therefore identical, bit for bit, for every ``n_jobs``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import threadpoolctl
from joblib import Parallel, delayed, effective_n_jobs

from genmetric._text import readable_bytes

T = TypeVar("T")

#: Bytes of temporary arrays of one chunk. Each of the ``n_jobs`` threads holds one chunk.
CHUNK_BYTES = 32 * 2**20


@cache
def _controller() -> threadpoolctl.ThreadpoolController:
    """Find the BLAS libraries of NumPy and SciPy once; the search takes milliseconds."""
    import scipy.linalg  # noqa: F401  (loads SciPy's own)

    return threadpoolctl.ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit every BLAS of the process to one thread; may be nested."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


def openmp_threads(n_jobs: int | None) -> Any:
    """Limit OpenMP to `n_jobs` threads; scikit-learn's search and k-means use all otherwise."""
    return _controller().select(user_api="openmp").limit(limits=effective_n_jobs(n_jobs))


def row_chunks(
    n_rows: int, bytes_per_row: int, *, max_rows: int | None = None, budget: int | None = None
) -> list[slice]:
    """Split ``range(n_rows)`` into slices of nearly equal length that fit the memory budget."""
    rows = (CHUNK_BYTES if budget is None else budget) // max(1, bytes_per_row)
    size = max(1, min(rows, max_rows or n_rows))
    n_chunks = -(-n_rows // size)
    edges = [n_rows * i // n_chunks for i in range(n_chunks + 1)] if n_chunks else [0]
    return [slice(a, b) for a, b in pairwise(edges)]


def map_chunks(
    function: Callable[[Any], T], chunks: Sequence[Any], n_jobs: int | None = None
) -> Iterator[T]:
    """Yield ``function(chunk)`` for every chunk, in order, computed in ``n_jobs`` threads."""
    # Small terms of sums in log space underflow to zero, whatever np.seterr is.
    work = np.errstate(under="ignore")(function)
    with one_blas_thread():
        if len(chunks) <= 1:
            yield from map(work, chunks)
        else:
            # With larger batches joblib would give several short chunks to one thread.
            options = {"require": "sharedmem", "return_as": "generator", "batch_size": 1}
            yield from Parallel(n_jobs=n_jobs, **options)(delayed(work)(chunk) for chunk in chunks)


def available_memory() -> int | None:
    """Return the bytes that can be allocated; None if the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        return next(1024 * int(row.split()[1]) for row in lines if row.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def check_memory(n_bytes: int, what: str, advice: str) -> None:
    """Raise MemoryError before an allocation of `n_bytes` that would not fit."""
    free = available_memory()
    if free is not None and n_bytes > free:
        raise MemoryError(
            f"{what} would take {readable_bytes(n_bytes)}, but only {readable_bytes(free)} are free. "
            f"{advice}"
        )
