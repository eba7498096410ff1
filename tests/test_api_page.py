"""docs/api.md lists exactly the names that the public packages export."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import genmetric

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
SOURCE = Path(genmetric.__file__).parent

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="installed without the pages")

#: Packages without names for users: the command, and the tables of the paper behind it.
COMMANDS = {"cli", "reproduction"}


def public_packages():
    """Dotted names of genmetric and of its public packages and modules."""
    names = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    names |= {path.stem for path in SOURCE.glob("*.py")}
    inside = sorted(n for n in names if not n.startswith("_") and n not in COMMANDS)
    return ["genmetric", *(f"genmetric.{name}" for name in inside)]


def listed_names():
    """Objects of the page by dotted name, from its directives and inline names."""
    text = PAGE.read_text("utf-8")
    found = dict.fromkeys(re.findall(r"`(genmetric\.\w+)`", text))
    for block in re.findall(r"```\{eval-rst\}\n(.*?)```", text, re.DOTALL):
        package = ""
        for line in block.splitlines():
            if match := re.match(r"\.\. currentmodule:: (\S+)", line):
                package = match[1]
            elif match := re.match(r"   ([A-Za-z][\w.]*)$", line):
                found[f"{package}.{match[1]}"] = None
    return list(found)


def resolve(dotted):
    """Import the object with a dotted name."""
    home, _, name = dotted.rpartition(".")
    return getattr(import_module(home), name)


def key(item):
    """What makes two names the same object; constants compare by identity."""
    return id(item)


def test_page_lists_exactly_the_public_names():
    exported = {}
    for package in public_packages():
        try:
            module = import_module(package)
        except ImportError:  # an extra is not installed
            pytest.skip(f"{package} cannot be imported")
        for name in module.__all__:
            if not name.startswith("__"):
                item = getattr(module, name)
                exported.setdefault(key(item), []).append(f"{package}.{name}")
    listed = {}
    for name in listed_names():
        listed.setdefault(key(resolve(name)), []).append(name)
    missing = sorted(names[0] for found, names in exported.items() if found not in listed)
    unknown = sorted(names[0] for found, names in listed.items() if found not in exported)
    twice = sorted(names[1] for names in listed.values() if len(names) > 1)
    assert not missing, f"exported, but not on the page: {missing}"
    assert not unknown, f"on the page, but not exported: {unknown}"
    assert not twice, f"on the page twice: {twice}"
