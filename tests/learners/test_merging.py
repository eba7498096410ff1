"""The one order in which parts are merged, from a stream and from a graph."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric.learners._merging import FAN_IN, TreeMerge, merge_group, merge_levels


class Part:
    """A part that remembers how it was merged."""

    def __init__(self, text):
        self.text = text

    def merge(self, other):
        return Part(f"({self.text} {other.text})")


@given(rows=st.lists(st.booleans(), min_size=1, max_size=200))
def test_stream_and_graph_merge_alike(rows):
    parts = [Part(str(i)) if has_rows else None for i, has_rows in enumerate(rows)]
    tree = TreeMerge()
    for part in parts:
        tree.add(part)
    whole = merge_levels(parts, lambda *place_and_group: merge_group(place_and_group[-1]))
    assert getattr(tree.result(), "text", None) == getattr(whole, "text", None)
    # All parts that have rows, once each, in order.
    text = "" if whole is None else whole.text.replace("(", "").replace(")", "")
    assert text.split() == [str(i) for i, has_rows in enumerate(rows) if has_rows]


@pytest.mark.parametrize("n", [1, FAN_IN, FAN_IN + 1, FAN_IN**2, FAN_IN**3 + 1])
def test_a_stream_holds_few_parts(n):
    tree = TreeMerge()
    for i in range(n):
        tree.add(Part(str(i)))
        assert len(tree._levels) <= 4
    # As deep as eight merges a level, and not as a chain of all.
    depth = max(tree.result().text[:i].count("(") for i in range(len(tree.result().text)))
    assert tree.result().text.count("(") == n - 1 == depth


def test_names_and_numbers_of_the_groups():
    calls = []
    merge_levels(range(20), lambda level, number, group: calls.append((level, number, len(group))))
    assert calls == [(0, 0, 8), (0, 1, 8), (0, 2, 4), (1, 0, 3)]
