"""Tasks over blocks: named by their block, merged in its order, never waited for in vain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from genmetric._extras import need
from genmetric.metric.merging import merge_group, merge_levels

#: How long to wait while a cluster has no worker at all, where dask's own setting
#: ``distributed.scheduler.no-workers-timeout`` leaves it open.
NO_WORKERS = "5 minutes"


class Tasks:
    """Tasks of one pass. Their names have the number of the block: all that a dead worker leaves."""

    def __init__(self, what: str) -> None:
        self._delayed, self._what, self._run = need("dask", "dask").delayed, what, uuid4().hex

    def __call__(self, number: int | str, function: Callable[..., Any], *arguments: Any) -> Any:
        """A task to come."""
        name = f"genmetric-{self._what}-{number}-{self._run}"
        return self._delayed(function)(*arguments, dask_key_name=name)

    def share(self, value: Any) -> Any:
        """A value that all tasks use, sent once."""
        return self("shared", _same, value)

    def merge(self, parts: Sequence[Any]) -> Any:
        """All parts as one, by a tree in the order of the blocks."""
        return merge_levels(
            parts, lambda level, i, group: self(f"merge-{level}-{i}", merge_group, list(group))
        )


def _same(value: Any) -> Any:
    return value


@contextmanager
def naming_block(number: int) -> Iterator[None]:
    """Let an error say in which block it arose."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"In block {number}: {error}") from error


def compute(graph: Any) -> Any:
    """Result of a task, from the current client or, where there is none, from dask's threads."""
    dask = need("dask", "dask")
    client = getattr(dask.base.get_scheduler(), "__self__", None)
    if client is None:
        return graph.compute()
    setting = dask.config.get("distributed.scheduler.no-workers-timeout", None)
    patience = dask.utils.parse_timedelta(setting or NO_WORKERS)
    future = client.compute(graph)
    while True:
        try:
            return future.result(timeout=patience)
        except TimeoutError:
            if future.done():  # the task's own error
                raise
        if not client.nthreads():
            try:
                client.wait_for_workers(1, timeout=patience)
            except TimeoutError:
                raise RuntimeError(
                    f"The cluster {client.scheduler.address} has had no worker for {patience:g} "
                    f"seconds, so {future.key} cannot be computed. Start workers and fit again."
                ) from None
