"""Warnings that point to the code of the user, and thread-safe suppression of others."""

from __future__ import annotations

import inspect
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

#: Folder of the package.
_PACKAGE = str(Path(__file__).parent)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning for the line that called the package, however deep the call is.

    Parameters
    ----------
    message : str
        Text of the warning.
    category : type, default=UserWarning
        Its category.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


class _SharedFilters:
    """Filters shared by all threads: the first user saves them, the last restores them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: set[object] = set()
        self._saved: Any = None

    def enter(self, user: object, category: type[Warning], message: str) -> None:
        with self._lock:
            if self._saved is None:
                self._saved = warnings.catch_warnings()
                self._saved.__enter__()
            self._users.add(user)
            warnings.filterwarnings("ignore", message, category)

    def leave(self, user: object) -> None:
        """Remove a user, who may not have entered; the last one restores the filters."""
        with self._lock:
            self._users.discard(user)
            if not self._users and self._saved is not None:
                with suppress(RuntimeError):  # an interrupt kept it from being entered
                    self._saved.__exit__(None, None, None)
                self._saved = None

    def after_fork(self) -> None:
        self._lock = threading.Lock()


_filters = _SharedFilters()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_filters.after_fork)


@contextmanager
def suppress_warnings(category: type[Warning], message: str = "") -> Iterator[None]:
    """Ignore warnings of a category whose text matches a regular expression.

    :func:`warnings.catch_warnings` restores the filters that it found. If two threads overlap, the
    second restores the filters of the first, and the process keeps ignoring warnings. Here the
    users are counted, and the last one restores the original filters.

    Parameters
    ----------
    category : type
        Category of the warnings.
    message : str, default=""
        Regular expression that the start of the text matches.

    Examples
    --------
    >>> import warnings
    >>> from genmetric._warnings import suppress_warnings
    >>> with suppress_warnings(UserWarning, "small"):
    ...     warnings.warn("small classes")
    """
    if getattr(sys.flags, "context_aware_warnings", False):  # each thread has its own filters
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message, category)
            yield
        return
    user = object()
    try:
        _filters.enter(user, category, message)
        yield
    finally:
        try:
            _filters.leave(user)
        except BaseException:  # Ctrl-C while leaving: leave all the same
            _filters.leave(user)
            raise
