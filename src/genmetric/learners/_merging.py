"""Merging of accumulators in a fixed order, bit-identical for streams and clusters.

Sums of floats depend on their order. Here the parts are numbered and merged by a tree: eight
adjacent parts from left to right, then eight of the results, and so on. A stream merges parts as
they arrive and holds at most one per level (:class:`TreeMerge`); a cluster merges any eight
adjacent parts that are ready (:func:`merge_levels`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

#: Number of adjacent parts that are merged into one.
FAN_IN = 8


class Mergeable(Protocol):
    """An accumulator over samples that can be merged with another."""

    def merge(self, other: Self, /) -> Self:
        """Return the accumulator over the samples of both."""


T = TypeVar("T", bound=Mergeable)


def merge_two(left: T | None, right: T | None) -> T | None:
    """Merge two parts; None is a part without samples."""
    if left is None or right is None:
        return right if left is None else left
    return left.merge(right)


def merge_group(parts: Iterable[T | None]) -> T | None:
    """Merge adjacent parts from left to right."""
    merged: T | None = None
    for part in parts:
        merged = merge_two(merged, part)
    return merged


class TreeMerge(Generic[T]):
    """Merge of parts as they arrive; holds at most one per level, log8 of their number.

    Examples
    --------
    >>> from genmetric.learners._merging import TreeMerge
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
        """Add the next part."""
        for level, (count, left) in enumerate(self._levels):
            part = merge_two(left, part)
            if count + 1 < FAN_IN:
                self._levels[level] = count + 1, part
                return
            self._levels[level] = 0, None
        self._levels.append((1, part))

    def result(self) -> T | None:
        """Merge all parts so far; None if no part had samples."""
        merged: T | None = None
        for _, left in self._levels:
            merged = merge_two(left, merged)
        return merged


def merge_levels(parts: Sequence[Any], merge: Callable[[int, int, Sequence[Any]], Any]) -> Any:
    """Build the tree of :class:`TreeMerge` over parts that are computed later.

    Parameters
    ----------
    parts : sequence
        Parts; at least one.
    merge : callable
        ``merge(level, number, group)`` stands for :func:`merge_group` of a group.

    Returns
    -------
    object
        The merge of all parts.
    """
    level = 0
    while len(parts) > 1:
        groups = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
        parts = [merge(level, number, group) for number, group in enumerate(groups)]
        level += 1
    return parts[0]
