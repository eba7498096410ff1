"""Words that readers who know scikit-learn stumble over do not come back.

Each pattern has a replacement in plain technical English. Run ``python tests/test_words.py
FILE...`` to check files, as pre-commit does.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: Regular expressions and what to write instead.
PATTERNS = {
    r"\banew\b": "again, re-",
    r"\bbeside\b": "next to",
    r"\b(?:alone|lone)\b": "only, single",
    r"\bparted\b": "split, divided",
    r"\b(?:errs|classed|dear)\b": "has an error of, classified, expensive",
    r"\bin vain\b": "without success",
    r"\bin earnest\b": "name what is done",
    r"\bnobody\b": "not measured, not used",
    r"\band the like\b": "and others like it, for example",
    r"\b(?:come|comes|coming) to rest\b": "converge",
    r"\b(?:stand|stands|stood) still\b": "converge",
    r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer\b|more\b|warning\b|larger\b|smaller\b|better\b)": (
        "is not a"
    ),
    r"[Ww]here X has such": "when X has feature names",
    r"(?m)^\s*(?:#\s*|\"\"\"|help=\")?Of (?:chance|the|what|sum|each|all|an?)\b": (
        "a description that stands on its own"
    ),
    r"\bso many\b": "this number of",
    r"\b(?:one|line|lines|once|bytes|ms|s|seconds?|microseconds?|µs|kB|MB|GB|Gaussians?|metric|matrix"
    r"|covariance|label|number|D²|D³|N²|D) an? (?:class|classes|row|sample|point|query|method|feature"
    r"|chunk|fold|column|thread|call|cell|split|set|block|worker|candidate|gradient)\b": ("per"),
    r"\beqs?\. ?[a-z]\w*[A-Z]\w*|\b(?:eMaha2?|eLMNN|eAsymp|eNN|eLocalSDP|eLocal|eConvex|eUniform|thUniform"
    r"|eNonlinear|eMKL|eBaseline|sProof|sKDE|aDensity|sUn|sOther|sExpDetail|eq:MetricEffect)\b": (
        "the number of the equation in arXiv:1109.3940v1"
    ),
}

#: Texts that the patterns are checked in; this file and third-party texts are not.
FOLDERS = {
    "src": ("*.py", "*.html", "*.css"),
    "docs": ("*.md",),
    "examples": ("*.py", "*.rst"),
    "benchmarks": ("*.py",),
}
PAGES = ("README.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md", "noxfile.py", "Makefile")
BUILT = ("docs/_build", "docs/generated", "docs/auto_examples")


def checked_files():
    """Paths of all texts that users and developers read."""
    for folder, suffixes in FOLDERS.items():
        for suffix in suffixes:
            for path in sorted((ROOT / folder).rglob(suffix)):
                if not path.relative_to(ROOT).as_posix().startswith(BUILT):
                    yield path
    yield from (ROOT / page for page in PAGES if (ROOT / page).is_file())


def problems(text):
    """Line number, words found and advice for every match."""
    for pattern, instead in PATTERNS.items():
        for match in re.finditer(pattern, text):
            line = text.count("\n", 0, match.start()) + 1
            yield line, match.group().strip(), instead


def check(paths):
    """One line for each match in the files."""
    return [
        f"{path}:{line}: {words!r}; write: {instead}"
        for path in paths
        for line, words, instead in problems(Path(path).read_text("utf-8"))
    ]


def test_plain_words():
    found = check(checked_files())
    assert not found, "\n" + "\n".join(found)


def test_patterns_match_and_leave_plain_words():
    assert [w for _, w, _ in problems("One Gaussian is no number, made anew.")] == ["anew", "is no"]
    assert [w for _, w, _ in problems("eq. eUniform, 9 ms a row")] == ["ms a row", "eq. eUniform"]
    assert not list(
        problems("There is no target; besides, it is no longer than one row per class.")
    )


if __name__ == "__main__":
    lines = check(sys.argv[1:])
    sys.stdout.write("".join(line + "\n" for line in lines))
    sys.exit(bool(lines))
