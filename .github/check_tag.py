"""Check that a tag, the version in pyproject.toml and the change log agree."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def check(tag: str) -> str | None:
    """Return what is wrong with a tag, or None."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    version = project["version"]
    if tag != f"v{version}":
        return f"The tag is {tag}, but the version in pyproject.toml is {version}."
    log = (ROOT / "CHANGELOG.md").read_text("utf-8")
    if not re.search(rf"^## .*\b{re.escape(version)}\b", log, re.MULTILINE):
        return f"CHANGELOG.md has no section for version {version}."
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text("utf-8")
    if f'version: "{version}"' not in recipe:
        return f"recipe/recipe.yaml has another version than {version}."
    return None


if __name__ == "__main__":
    sys.exit(check(sys.argv[1]))
