"""A time limit on a block of code."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, floor, isinf, log10
from time import perf_counter
from types import FrameType

#: Seconds after which the limit interrupts again, if code that ignores exceptions, such as a
#: destructor or a callback of compiled code, was interrupted before.
REPEAT = 1.0


class TimeLimitReached(BaseException):
    """The time is up. Not an Exception, so that no ``except Exception`` of a fit catches it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`TimeLimitReached` in the block after a number of seconds.

    The limit interrupts running Python code by a timer signal. This needs the main thread and
    POSIX signals, and compiled code ends before it is interrupted. In other threads and on other
    systems the block runs to its end, and the caller checks the time between blocks. A timer that
    was running before goes on afterwards.

    Parameters
    ----------
    seconds : float
        The limit. A value of 0 or less raises at once; infinity disables the limit.
    """
    if seconds <= 0:
        raise TimeLimitReached
    if (
        isinf(seconds)
        or not hasattr(signal, "setitimer")
        or (threading.current_thread() is not threading.main_thread())
    ):
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeLimitReached

    start = perf_counter()
    former = signal.signal(signal.SIGALRM, stop)
    remaining, interval = signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT)
    try:
        yield
    finally:
        # The timer may fire once more before it is stopped; everything is restored even then.
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            # None stands for a handler that was not installed from Python.
            signal.signal(signal.SIGALRM, signal.SIG_DFL if former is None else former)
            if remaining:
                left = max(remaining - (perf_counter() - start), 1e-3)
                signal.setitimer(signal.ITIMER_REAL, left, interval)


def slow_note(seconds: float, limit: float, *, at_least: bool = False) -> str:
    """Write why a method was skipped, with the limit that would allow it.

    Parameters
    ----------
    seconds : float
        Seconds that all folds would take.
    limit : float
        The limit in seconds.
    at_least : bool, default=False
        Whether `seconds` is a lower bound, because not even one fold has finished.

    Returns
    -------
    str
        The reason; the proposed limit has a margin of 15% and two significant digits.

    Examples
    --------
    >>> from genmetric.comparison._time_limit import slow_note
    >>> slow_note(129.7, 60.0)
    'would take about 130 s (limit 60 s); raise the time limit to 150 s'
    """
    seconds = max(seconds, limit, 1e-3)
    enough = 1.15 * seconds
    unit = 10.0 ** (floor(log10(enough)) - 1)
    expected = f"{'more than' if at_least else 'about'} {round(seconds / unit) * unit:g} s"
    return (
        f"would take {expected} (limit {limit:g} s); raise the time limit to "
        f"{ceil(enough / unit) * unit:g} s"
    )
