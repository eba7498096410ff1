"""Pages of the documentation name everything that is public."""

import re
from pathlib import Path

import pytest

import genmetric

DOCS = Path(__file__).parents[1] / "docs"
NAMES = [name for name in genmetric.__all__ if not name.startswith("_")]

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="installed without the pages")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_its_equation(name):
    assert re.search(rf"\b{name}\b", (DOCS / "equations.md").read_text("utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_its_costs(name):
    if name != "TRUSTED_TYPES":
        assert re.search(rf"\b{name}\b", (DOCS / "complexity.md").read_text("utf-8"))


@pytest.mark.parametrize("page", sorted((DOCS / "guide").glob("*.md")), ids=lambda page: page.stem)
def test_every_task_says_when_not_to(page):
    if page.stem != "index":
        text = page.read_text("utf-8")
        assert "\n## When not to use it\n" in text
        assert page.stem == "method" or "\n## The theory\n" in text or "$$" in text


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_code_fits_the_page(page):
    for block in re.findall(r"```(?:python|py)\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        assert max(map(len, block.splitlines()), default=0) <= 88


def test_every_example_has_a_place_in_the_gallery():
    """conf.py lists every example, so that the gallery has the order of a first walk."""
    listed = set(re.findall(r'"(plot_\w+\.py)"', (DOCS / "conf.py").read_text("utf-8")))
    there = {path.name for path in (DOCS.parent / "examples").glob("plot_*.py")}
    assert listed == there
