"""Loops over chunks of rows in threads, with BLAS limited to one thread.

Every loop over rows in this package uses :func:`row_chunks` and :func:`map_chunks`. The chunks
depend only on the size of a row, never on ``n_jobs``, and results are returned in the order of the
chunks, so that sums over them are bit-identical for every ``n_jobs``.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
import threadpoolctl
from joblib import Parallel, delayed

T = TypeVar("T")

#: Bytes of temporary arrays of one chunk. Each of the ``n_jobs`` threads holds one chunk.
CHUNK_BYTES = 32 * 2**20


def _free_control() -> None:
    """Let any thread set the limit: since threadpoolctl 3.8 only one thread controls OpenBLAS.

    Without this the limit would not be removed if the last user is in another thread than the
    first.
    """
    clear = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


@cache
def _controller() -> threadpoolctl.ThreadpoolController:
    """Find the BLAS libraries of NumPy and SciPy once; the search takes milliseconds."""
    import scipy.linalg  # noqa: F401  (loads SciPy's own)

    return threadpoolctl.ThreadpoolController()


class _BlasLimit:
    """Process-wide limit of BLAS threads with a count of its users."""

    def __init__(self) -> None:
        # Reentrant, for a signal handler that forks while this thread holds the lock.
        self._lock = threading.RLock()
        self._users = 0
        self._own = threading.local()
        self._limiter: Any = None

    @property
    def depth(self) -> int:
        """Number of times that this thread has entered and not left."""
        return getattr(self._own, "depth", 0)

    def enter(self) -> None:
        with self._lock:
            # A limit without users remains after a fork or an interrupt; `leave` removes it.
            if self._limiter is None:
                _free_control()
                self._limiter = _controller().limit(limits=1, user_api="blas")
            self._users, self._own.depth = self._users + 1, self.depth + 1

    def leave(self, depth: int) -> None:
        """Reduce the count of this thread to the depth that it had before it entered."""
        with self._lock:
            self._users, self._own.depth = self._users - self.depth + depth, depth
            if self._users == 0 and self._limiter is not None:
                _free_control()
                self._limiter.restore_original_limits()
                self._limiter = None
                _free_control()

    def before_fork(self) -> None:
        """Wait until no thread sets the limit.

        OpenBLAS holds a lock of its own while it does, which the child would never see released.
        """
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Let other threads set the limit again."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Reset the state in a forked process, which has only the current thread."""
        self._lock = threading.RLock()
        self._users = self.depth


_limit = _BlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_limit.before_fork,
        after_in_parent=_limit.after_fork_in_parent,
        after_in_child=_limit.after_fork_in_child,
    )


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit every BLAS of the process to one thread; reentrant, and shared by Python threads.

    The limit is process-wide, so its users are counted: the first sets it and the last restores the
    previous state. If each user restored the state it found, the limit could remain.
    """
    depth = _limit.depth
    try:
        _limit.enter()
        yield
    finally:
        _limit.leave(depth)


def row_chunks(
    n_rows: int, bytes_per_row: int, *, max_rows: int | None = None, budget: int | None = None
) -> list[slice]:
    """Split ``range(n_rows)`` into slices whose temporary arrays fit the memory budget.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    bytes_per_row : int
        Bytes of temporary arrays that one row needs.
    max_rows : int, default=None
        Maximum length of a chunk.
    budget : int, default=None
        Bytes of one chunk; ``None`` is :data:`CHUNK_BYTES`.

    Returns
    -------
    list of slice
        Slices in order, of nearly equal length, that cover all rows.
    """
    size = max(1, (CHUNK_BYTES if budget is None else budget) // max(1, bytes_per_row))
    if max_rows is not None:
        size = min(size, max_rows)
    n_chunks = -(-n_rows // size)
    edges = [n_rows * i // n_chunks for i in range(n_chunks + 1)] if n_chunks else [0]
    return [slice(a, b) for a, b in pairwise(edges)]


def check_n_jobs(n_jobs: Any) -> None:
    """Validate `n_jobs`."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(
            f"n_jobs must be None or a non-zero integer (-1 uses all cores); got {n_jobs!r}."
        )


def map_chunks(
    function: Callable[[Any], T], chunks: Sequence[Any], n_jobs: int | None = None
) -> Iterator[T]:
    """Yield ``function(chunk)`` for every chunk, in order, computed in ``n_jobs`` threads."""
    check_n_jobs(n_jobs)

    def work(chunk: Any) -> T:
        # Inside the task, because an interrupted loop may keep this generator alive for as long as
        # its traceback. Small terms of sums in log space underflow to zero, whatever np.seterr is.
        with one_blas_thread(), np.errstate(under="ignore"):
            return function(chunk)

    if len(chunks) <= 1:
        yield from map(work, chunks)
    else:
        # With larger batches joblib would give several short chunks to one thread.
        parallel = Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator", batch_size=1)
        yield from parallel(delayed(work)(chunk) for chunk in chunks)
