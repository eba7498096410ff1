"""Pages of the documentation name everything that is public, and are within reach."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import genmetric

DOCS = Path(__file__).parents[1] / "docs"
NAMES = [name for name in genmetric.__all__ if not name.startswith("_")]
EXAMPLES = sorted((DOCS.parent / "examples").glob("*.py"))
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="installed without the pages")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_its_equation(name):
    assert re.search(rf"\b{name}\b", (DOCS / "dev" / "equations.md").read_text("utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_its_costs(name):
    if name != "TRUSTED_TYPES":
        assert re.search(rf"\b{name}\b", (DOCS / "dev" / "complexity.md").read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_fits_the_page(page):
    for block in re.findall(r"```(?:python|py)\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        assert max(map(len, block.splitlines()), default=0) <= 88


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_to_pages_exist(page):
    for link in re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if not link.startswith("auto_examples"):
            assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", sorted((DOCS / "guide").glob("*.md")), ids=lambda page: page.stem)
def test_user_pages_import_public_names_only(page):
    assert not re.search(r"(?:from|import) genmetric[.\w]*\._", page.read_text("utf-8"))


def test_every_example_has_a_place_in_the_gallery():
    """conf.py lists every example, so that the gallery has the order of a first walk."""
    listed = set(re.findall(r'"(plot_\w+\.py)"', (DOCS / "conf.py").read_text("utf-8")))
    there = {path.name for path in (DOCS.parent / "examples").glob("plot_*.py")}
    assert listed == there


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_import_public_names_that_exist(path):
    """Examples run only when the pages are built; a renamed import is found here."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("genmetric"):
            module = importlib.import_module(node.module)
            for name in (alias.name for alias in node.names):
                assert not name.startswith("_")
                assert hasattr(module, name), f"{node.module}.{name}"
