"""Tasks over blocks: named by their block, merged in its order, with a limit on waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from genmetric._optional import import_optional
from genmetric.learners._merging import merge_group, merge_levels

#: Time to wait while a cluster has no worker, unless dask's setting
#: ``distributed.scheduler.no-workers-timeout`` is set.
NO_WORKERS = "45 seconds"

#: Seconds between two checks of the workers while a task is not done.
POLL_SECONDS = 2.0


class Tasks:
    """Tasks of one pass, with the number of the block in their names for errors."""

    def __init__(self, what: str) -> None:
        self._delayed, self._what, self._run = (
            import_optional("dask", "dask").delayed,
            what,
            uuid4().hex,
        )

    def __call__(self, number: int | str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a task that is computed later."""
        name = f"genmetric-{self._what}-{number}-{self._run}"
        return self._delayed(function)(*arguments, dask_key_name=name)

    def share(self, value: Any) -> Any:
        """Return a task with a value that all tasks use, which is sent once."""
        return self("shared", _same, value)

    def merge(self, parts: Sequence[Any]) -> Any:
        """Return a task that merges all parts, by a tree in the order of the blocks."""
        return merge_levels(
            parts, lambda level, i, group: self(f"merge-{level}-{i}", merge_group, list(group))
        )


def _same(value: Any) -> Any:
    return value


@contextmanager
def naming_block(number: int) -> Iterator[None]:
    """Add the number of the block to errors."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"In block {number}: {error}") from error


def compute(graph: Any) -> Any:
    """Return the result of a task, from the current client or, without one, from dask's threads."""
    dask = import_optional("dask", "dask")
    client = getattr(dask.base.get_scheduler(), "__self__", None)
    if client is None:
        return graph.compute()
    setting = dask.config.get("distributed.scheduler.no-workers-timeout", None)
    patience = dask.utils.parse_timedelta(setting or NO_WORKERS)
    future, absent_since = client.compute(graph), None
    while True:
        try:
            return future.result(timeout=min(patience, POLL_SECONDS))
        except TimeoutError:
            # The task may have ended since the timeout; then this is its result or its own error.
            if future.done():
                return future.result()
        if client.nthreads():
            absent_since = None
            continue
        absent_since = time.monotonic() if absent_since is None else absent_since
        if time.monotonic() - absent_since >= patience:
            raise RuntimeError(
                f"The cluster {client.scheduler.address} has had no worker for {patience:g} "
                f"seconds, so {future.key} cannot be computed. Start workers and fit again, or "
                'wait longer: dask.config.set({"distributed.scheduler.no-workers-timeout": '
                '"10 minutes"}).'
            )
