"""Worker processes that end with the process that started them."""

from __future__ import annotations

import os
import threading
from time import sleep

#: Seconds between two looks at the parent process.
INTERVAL = 1.0

_watching: set[int] = set()


def end_with_parent(parent: int) -> None:
    """Let this process end soon after its parent has ended, even if that was killed.

    A pool cannot stop its idle workers if its process is killed. Each worker therefore checks in a
    thread whether its parent still is the process that started it. This works on POSIX systems,
    where the children of a process that ends get another parent; elsewhere nothing happens.

    Parameters
    ----------
    parent : int
        Id of the process that started this one.
    """
    if os.name != "posix" or os.getppid() != parent or parent in _watching:
        return
    _watching.add(parent)

    def watch() -> None:
        while os.getppid() == parent:
            sleep(INTERVAL)
        # Not sys.exit: it would end only this thread.
        os._exit(1)

    threading.Thread(target=watch, name="genmetric-parent", daemon=True).start()
