"""The table of methods in the documentation is the registry."""

from pathlib import Path

import pytest

from genmetric.comparison._methods import METHODS, methods_table

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not here")
def test_the_page_has_the_table_of_the_registry():
    """If this fails, replace the table by print(methods_table())."""
    assert methods_table() in PAGE.read_text("utf-8")


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not here")
def test_symbols_of_the_paper_are_on_the_page_of_equations():
    page = (PAGE.parent / "equations.md").read_text("utf-8")
    table = page.split("## Symbols")[1].split("\n## ")[0]
    missing = {m.symbol for m in METHODS.values() if m.symbol and f"| {m.symbol} |" not in table}
    assert not missing


def test_every_method_has_a_row():
    lines = methods_table().splitlines()
    assert len(lines) == len(METHODS) + 2
    for method, line in zip(METHODS.values(), lines[2:], strict=True):
        assert line.startswith(f"| `{method.key}` | {method.row_label} |")
        assert method.description in line
