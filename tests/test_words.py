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
    r"\b(?:mended|spoilt)\b": "fixed, better, worse",
    r"\bin vain\b": "without success",
    r"\bin earnest\b": "name what is done",
    r"\bnobody\b": "not measured, not used",
    r"\band the like\b": "and others like it, for example",
    r"\b(?:come|comes|coming) to rest\b": "converge",
    r"\b(?:stand|stands|stood) still\b": "converge",
    r"\b(?:is|are) sought\b": "is searched",
    r"\b(?:by itself|by themselves)\b": "automatically, on its own",
    r"(?<!multiple )\bdata sets?\b(?! [\d{])": "dataset",
    r"\bunlike (?:covariances?|sizes?|places?|scales?)\b": "different",
    r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer\b|more\b|warning\b|larger\b|smaller\b|better\b)": (
        "is not a"
    ),
    r"\b(?:takes|take) no (?!longer|more|part)": "does not accept, does not have",
    r"[Ww]here X has such": "when X has feature names",
    r"(?m)^\s*(?:#\s*|\"\"\"|help=\")?Of (?:chance|the|what|sum|each|all|an?)\b": (
        "a description that stands on its own"
    ),
    r"\bso many\b": "this number of",
    r"\b(?:one|line|lines|once|loaders?|bytes|ms|s|seconds?|microseconds?|µs|us|kB|MB|GB|Gaussians?|metric"
    r"|matrix|covariance|label|number|D²|D³|N²|D) an? (?:class|classes|row|sample|point|query|method"
    r"|feature|chunk|fold|column|thread|call|cell|split|set|data set|dataset|block|worker|candidate"
    r"|gradient|iteration)\b": "per",
    r"\b(?:rows|queries|samples|calls|vectors) a (?:second|class|query)\b": "per",
    r"\beqs?\. ?[a-z]\w*[A-Z]\w*|\b(?:eMaha2?|eLMNN|eAsymp|eNN|eLocalSDP|eLocal|eConvex|eUniform|thUniform"
    r"|eNonlinear|eMKL|eBaseline|sProof|sKDE|aDensity|sUn|sOther|sExpDetail|eq:MetricEffect)\b": (
        "the number of the equation in arXiv:1109.3940v1"
    ),
    r"\b[Aa]lso (?:if|those)\b": "even if, even those, including",
    r"\b[Ss]ome (?:tens?|hundreds?|thousands?|\d+)\b": "about ten, a few hundred",
    r"\b[Ii]n turns\b": "alternately, in turn",
    r"\bless (?:one|the number)\b": "minus one",
    r"\b[Nn]othing speaks\b|\bspeaks? for\b": "use X unless, favours",
    r"(?<!one )\bper cent\b": "%",
    r"\bprocessor (?:time|seconds)\b": "CPU time, CPU seconds",
    r"\b(?:an|the) earlier (?:default|version|run|state|start)\b|\bthe former\b": (
        "only the present state; the name of what is meant"
    ),
    r"\[(?:another|this|that) (?:page|one)\]\(|\[(?:here|another)\]\(": "the name of the target",
    r"\b[Ll]eft-out\b": "held-out",
    r"\bspace (?:z|of the metric)\b": "after the learned map, learned space",
    r"\btells so\b": "name what is said",
    r"\b\d{1,3} 000\b": "a comma: 60,000",
    r"\b(?:has|have) all digits\b": "keeps all digits",
    r"\bhardly repeat": "rarely repeat",
}

#: Tables have rows, estimators have samples.
ROWS = {
    r"\b(?:[Tt]raining|[Tt]est|[Vv]alidation|[Hh]eld-out|[Uu]nseen) rows?\b": "samples",
    r"\brows of (?:a class|each class|another class|other classes|X|y|the training data)\b": "samples",
}

#: Parts of the repository that speak of tables, where rows are meant.
TABLES = (
    "src/genmetric/tables",
    "src/genmetric/cli",
    "src/genmetric/comparison",
    "src/genmetric/plot",
    "src/genmetric/report",
    "src/genmetric/reproduction",
    "src/genmetric/datasets/data",
    "docs/command_line.md",
    "docs/guide/tables.md",
    "docs/report.md",
    "docs/results",
    "docs/getting_started.md",
    "benchmarks",
    "tests",
)

#: Symbols of the paper, and the parts of the repository that may use them.
SYMBOLS = {
    r"M(?:_E)?\^(?:UNI|KDE|GMM)|GLM\^INT|LMNN_E\b": "a name; symbols are in docs/dev/equations.md"
}
PAPER = (
    "src/genmetric/reproduction",
    "src/genmetric/comparison",
    "docs/dev/equations.md",
    "docs/results",
    "tests",
)

#: Texts that the patterns are checked in; this file and third-party texts are not.
FOLDERS = {
    "src": ("*.py", "*.html", "*.css"),
    "docs": ("*.md",),
    "examples": ("*.py", "*.rst"),
    "benchmarks": ("*.py",),
}
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "RELEASING.md",
    "SECURITY.md",
    "noxfile.py",
    "Makefile",
)
BUILT = ("docs/_build", "docs/generated", "docs/auto_examples")


def checked_files():
    """Paths of all texts that users and developers read."""
    for folder, suffixes in FOLDERS.items():
        for suffix in suffixes:
            for path in sorted((ROOT / folder).rglob(suffix)):
                if not path.relative_to(ROOT).as_posix().startswith(BUILT):
                    yield path
    yield from (ROOT / page for page in PAGES if (ROOT / page).is_file())


def problems(text, place=""):
    """Line number, words found and advice for every match."""
    patterns = dict(PATTERNS)
    patterns |= {} if place.startswith(TABLES) else ROWS
    patterns |= {} if place.startswith(PAPER) else SYMBOLS
    for pattern, instead in patterns.items():
        for match in re.finditer(pattern, text):
            line = text.count("\n", 0, match.start()) + 1
            yield line, match.group().strip(), instead


def check(paths):
    """One line for each match in the files."""
    return [
        f"{path}:{line}: {words!r}; write: {instead}"
        for path in paths
        for line, words, instead in problems(
            Path(path).read_text("utf-8"), place_of(Path(path).resolve())
        )
    ]


def place_of(path):
    """Path in the repository; the path itself if it is elsewhere."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.as_posix()


def test_plain_words():
    found = check(checked_files())
    assert not found, "\n" + "\n".join(found)


def test_plain_words_in_names_of_tests():
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        names = re.findall(r"def test_(\w+)", path.read_text("utf-8"))
        for _, words, instead in problems("\n".join(names).replace("_", " "), "tests"):
            found.append(f"{path}: {words!r}; write: {instead}")
    assert not found, "\n" + "\n".join(found)


def test_patterns_match_and_leave_plain_words():
    assert [w for _, w, _ in problems("One Gaussian is no number, made anew.")] == ["anew", "is no"]
    assert [w for _, w, _ in problems("eq. eUniform, 9 ms a row")] == ["ms a row", "eq. eUniform"]
    assert [w for _, w, _ in problems("M^UNI of the training rows")] == ["training rows", "M^UNI"]
    literal = (
        "Use it also if nothing speaks against some tens per cent, and k less one is left-out."
    )
    assert [w for _, w, _ in problems(literal)] == [
        *("also if", "some tens", "less one", "nothing speaks", "per cent", "left-out")
    ]
    page = (
        "In turns [here](a.md), in an earlier run: processor time in space z; a warning tells so."
    )
    assert [w for _, w, _ in problems(page)] == [
        *("In turns", "processor time", "an earlier run", "[here](", "space z", "tells so")
    ]
    numbers = (
        "JSON lines have all digits of the former 60 000 labels, also those that hardly repeat."
    )
    assert [w for _, w, _ in problems(numbers)] == [
        *("also those", "the former", "60 000", "have all digits", "hardly repeat")
    ]
    space = "Ratios in the space of the metric speak for n less the number of means."
    assert [w for _, w, _ in problems(space)] == [
        "less the number",
        "speak for",
        "space of the metric",
    ]
    assert not list(problems("M^UNI", "docs/dev/equations.md"))
    assert not list(problems("training rows of a table", "docs/guide/tables.md"))
    assert not list(
        problems("There is no target; besides, it is no longer than one row per class.")
    )


if __name__ == "__main__":
    lines = check(sys.argv[1:])
    sys.stdout.write("".join(line + "\n" for line in lines))
    sys.exit(bool(lines))
