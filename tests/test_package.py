"""The package as a whole: its version, its public names, its marker for type checkers."""

import re
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest

import genmetric

ROOT = Path(__file__).parents[1]


def test_version():
    assert genmetric.__version__ == version("genmetric")
    assert re.fullmatch(r"\d+\.\d+\.\d+([a-z]+\d+)?", genmetric.__version__)


def test_public_names_exist_once():
    assert len(set(genmetric.__all__)) == len(genmetric.__all__)
    missing = [name for name in genmetric.__all__ if not hasattr(genmetric, name)]
    assert not missing


@pytest.mark.parametrize("name", genmetric.__all__)
def test_public_names_are_documented(name):
    public = getattr(genmetric, name)
    if callable(public):
        assert public.__doc__
    page = ROOT / "docs" / "api.md"
    if not name.startswith("_") and page.is_file():
        assert re.search(rf"\b{name}\b", page.read_text("utf-8")), f"{name} is not on {page.name}"


def test_typed():
    assert files("genmetric").joinpath("py.typed").is_file()


PAGES = ["README.md", "docs/index.md", "docs/getting_started.md"]
for folder in ("guide", "explain"):
    pages = (ROOT / "docs" / folder).glob("*.md")
    PAGES += sorted(
        str(page.relative_to(ROOT)) for page in pages if "```python" in page.read_text("utf-8")
    )


@pytest.mark.parametrize("page", PAGES)
def test_the_code_on_the_pages_runs(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        if "FaissNeighborsTransformer" in block:
            pytest.importorskip("faiss")
        exec(block, names)
