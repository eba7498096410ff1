"""Warnings of others that say nothing to the caller, kept quiet by several threads at once."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _SharedFilters:
    """One set of saved filters for all threads: the first user saves them, the last restores."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._saved: Any = None

    def enter(self, category: type[Warning], message: str) -> None:
        with self._lock:
            if self._users == 0:
                self._saved = warnings.catch_warnings()
                self._saved.__enter__()
            self._users += 1
            warnings.filterwarnings("ignore", message, category)

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._saved.__exit__(None, None, None)

    def after_fork(self) -> None:
        self._lock = threading.Lock()


_filters = _SharedFilters()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_filters.after_fork)


@contextmanager
def quiet(category: type[Warning], message: str = "") -> Iterator[None]:
    """Ignore warnings of a category whose text begins like the message.

    :func:`warnings.catch_warnings` restores the filters that it found. Of two threads that overlap
    the second finds those of the first and leaves them behind, so that the whole process goes on
    ignoring. Here overlapping users count in and out.

    Parameters
    ----------
    category : type
        Class of the warnings.
    message : str, default=""
        Regular expression of the beginning of their text.

    Examples
    --------
    >>> import warnings
    >>> from genmetric._quiet import quiet
    >>> with quiet(UserWarning, "small"):
    ...     warnings.warn("small classes")
    """
    if getattr(sys.flags, "context_aware_warnings", False):  # each thread has filters of its own
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message, category)
            yield
        return
    _filters.enter(category, message)
    try:
        yield
    finally:
        _filters.leave()
