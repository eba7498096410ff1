"""Merging many accumulators in one fixed order: the same bits from a stream and from a cluster.

Sums of floats depend on their order. Here parts are numbered, eight neighbours are merged from left
to right, eight of the results likewise, and so on. A stream holds a few parts a level and merges as
they come (:class:`TreeMerge`); a cluster merges whichever eight are there (:func:`merge_levels`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

#: Neighbours that are merged into one.
FAN_IN = 8


class Mergeable(Protocol):
    """An accumulator over rows that takes in another."""

    def merge(self, other: Self, /) -> Self:
        """The accumulator over the rows of both."""


T = TypeVar("T", bound=Mergeable)


def merge_two(left: T | None, right: T | None) -> T | None:
    """Merge two parts; None is a part without rows."""
    if left is None or right is None:
        return right if left is None else left
    return left.merge(right)


def merge_group(parts: Iterable[T | None]) -> T | None:
    """Merge neighbours, left to right."""
    merged: T | None = None
    for part in parts:
        merged = merge_two(merged, part)
    return merged


class TreeMerge(Generic[T]):
    """Parts merged as they come; at most one a level is held, log8 of their number.

    Examples
    --------
    >>> from genmetric.metric.merging import TreeMerge
    >>> class Words(str):
    ...     def merge(self, other):
    ...         return Words(f"({self}{other})")
    >>> tree = TreeMerge()
    >>> for letter in "abcdefghij":
    ...     tree.add(Words(letter))
    >>> tree.result()
    '((((((((ab)c)d)e)f)g)h)(ij))'
    """

    def __init__(self) -> None:
        self._levels: list[tuple[int, T | None]] = []

    def add(self, part: T | None) -> None:
        """Take in the next part."""
        for level, (count, left) in enumerate(self._levels):
            part = merge_two(left, part)
            if count + 1 < FAN_IN:
                self._levels[level] = count + 1, part
                return
            self._levels[level] = 0, None
        self._levels.append((1, part))

    def result(self) -> T | None:
        """All parts so far as one; None where no part had rows."""
        merged: T | None = None
        for _, left in self._levels:
            merged = merge_two(left, merged)
        return merged


def merge_levels(parts: Sequence[Any], merge: Callable[[int, int, Sequence[Any]], Any]) -> Any:
    """Build the tree of :class:`TreeMerge` over parts that are yet to be computed.

    Parameters
    ----------
    parts : sequence
        At least one.
    merge : callable
        ``merge(level, number, group)`` stands for :func:`merge_group` of a group.

    Returns
    -------
    object
        What stands for all parts together.
    """
    level = 0
    while len(parts) > 1:
        groups = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
        parts = [merge(level, number, group) for number, group in enumerate(groups)]
        level += 1
    return parts[0]
