"""Progress messages of estimators with `verbose` set, through the standard `logging` module."""

from __future__ import annotations

import logging
import sys

#: Logger of the package. Configure it, or the root logger, to redirect or format the messages.
LOGGER = logging.getLogger("genmetric")


class _ConsoleHandler(logging.Handler):
    """Write messages to stderr while the program has not configured logging."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message; the current sys.stderr is used, which notebooks replace."""
        if not logging.getLogger().handlers:
            sys.stderr.write(f"{self.format(record)}\n")


def log_progress(source: str, message: str) -> None:
    """Log a progress message at level INFO.

    Estimators call this only if `verbose` is set, so that setting it is enough to see the messages:
    if neither the root logger nor the logger "genmetric" has a handler, they are written to
    stderr.

    Parameters
    ----------
    source : str
        Name of the estimator or function. The logger is ``genmetric.<source>``.
    message : str
        The message.

    Examples
    --------
    >>> import logging
    >>> from genmetric._logging import log_progress
    >>> log_progress("LMNN", "iteration 1")
    >>> logging.getLogger("genmetric.LMNN").isEnabledFor(logging.INFO)
    True
    """
    if LOGGER.level == logging.NOTSET:
        LOGGER.setLevel(logging.INFO)
    if not LOGGER.hasHandlers():
        handler = _ConsoleHandler()
        handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
        LOGGER.addHandler(handler)
    LOGGER.getChild(source).info("%s", message)
