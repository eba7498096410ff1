"""Rows in chunks, chunks in threads, BLAS held at one thread.

Every loop over rows in this package goes through :func:`row_chunks` and :func:`map_chunks`.
The chunks follow from the size of a row alone, never from ``n_jobs``, and results come back
in chunk order: a sum over them is the same, bit for bit, for every ``n_jobs``.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from numbers import Integral
from typing import Any, TypeVar

import threadpoolctl
from joblib import Parallel, delayed

T = TypeVar("T")

#: Bytes of temporary arrays that one chunk may use; ``n_jobs`` threads hold as many chunks.
CHUNK_BYTES = 32 * 2**20


def _free_control() -> None:
    """Let any thread set the limit: since threadpoolctl 3.8 OpenBLAS listens to one thread only.

    Without it the limit would stay behind where the last user is not in the thread of the first.
    """
    clear = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


@cache
def _controller() -> threadpoolctl.ThreadpoolController:
    """The BLAS libraries of NumPy and SciPy, found once: looking for them takes milliseconds."""
    import scipy.linalg  # noqa: F401  (loads SciPy's own)

    return threadpoolctl.ThreadpoolController()


class _BlasLimit:
    """The process-wide limit of BLAS threads, counted in and out by its users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._own = threading.local()
        self._limiter: Any = None

    @property
    def depth(self) -> int:
        """How often this thread has entered and not left."""
        return getattr(self._own, "depth", 0)

    def enter(self) -> None:
        with self._lock:
            # A limit without users was left by a fork or an interrupt; leaving takes it off.
            if self._limiter is None:
                _free_control()
                self._limiter = _controller().limit(limits=1, user_api="blas")
            self._users, self._own.depth = self._users + 1, self.depth + 1

    def leave(self, depth: int) -> None:
        """Count this thread out, down to the depth it had before it entered."""
        with self._lock:
            self._users, self._own.depth = self._users - self.depth + depth, depth
            if self._users == 0 and self._limiter is not None:
                _free_control()
                self._limiter.restore_original_limits()
                self._limiter = None
                _free_control()

    def after_fork(self) -> None:
        """In a forked process there is this thread alone, whoever held the lock or the limit."""
        self._lock = threading.Lock()
        self._users = self.depth


_limit = _BlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.after_fork)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold every BLAS of the process at one thread; nests, and is shared by Python threads.

    The limit is process-wide, so overlapping users count in and out: the first sets it and the
    last restores what it found. Restoring one by one would leave the limit behind.
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
    """Cut ``range(n_rows)`` into slices whose temporaries fit the memory budget.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    bytes_per_row : int
        Bytes of temporary arrays that one row needs.
    max_rows : int, default=None
        Largest chunk, whatever the budget allows.
    budget : int, default=None
        Bytes for one chunk; ``None`` is :data:`CHUNK_BYTES`.

    Returns
    -------
    list of slice
        In order, of nearly equal length, together all rows.
    """
    size = max(1, (CHUNK_BYTES if budget is None else budget) // max(1, bytes_per_row))
    if max_rows is not None:
        size = min(size, max_rows)
    n_chunks = -(-n_rows // size)
    edges = [n_rows * i // n_chunks for i in range(n_chunks + 1)] if n_chunks else [0]
    return [slice(a, b) for a, b in pairwise(edges)]


def check_n_jobs(n_jobs: Any) -> None:
    """Refuse what is no number of threads."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(
            f"n_jobs must be None or a whole number other than 0 (-1 is all cores); got {n_jobs!r}."
        )


def map_chunks(
    function: Callable[[Any], T], chunks: Sequence[Any], n_jobs: int | None = None
) -> Iterator[T]:
    """Yield ``function(chunk)`` for every chunk, in order, computed in ``n_jobs`` threads."""
    check_n_jobs(n_jobs)

    def work(chunk: Any) -> T:
        # Held by the work and not by this generator, which a loop that is broken off may leave
        # waiting for as long as its traceback is kept.
        with one_blas_thread():
            return function(chunk)

    if len(chunks) <= 1:
        yield from map(work, chunks)
    else:
        # Chunks one by one: joblib would hand out short ones in batches, and starve a thread.
        parallel = Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator", batch_size=1)
        yield from parallel(delayed(work)(chunk) for chunk in chunks)
