"""The layers of the package, read from its import statements; imports in functions count too."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import genmetric

PACKAGE = Path(genmetric.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

#: Lowest first, above the private modules at the root. A part imports from its own layer or lower
#: ones; the parts of the lowest are independent of each other.
LAYERS = [
    {"datasets", "density", "metrics"},
    {"geometry"},
    {"learners"},
    {"neighbors", "kernels", "cluster"},
    {"inspection", "files", "dask", "onnx"},
    {"tables"},
    {"comparison"},
    {"plot", "report"},
    {"reproduction"},
    {"cli"},
]
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}

#: Packages of the extras: imported inside the function that needs them, or by `import_optional`.
OPTIONAL = {
    *("click", "dask", "distributed", "faiss", "jinja2", "matplotlib", "onnx", "onnxruntime"),
    *("openpyxl", "pandas", "polars", "pyarrow", "rich", "safetensors", "skl2onnx", "skops"),
    "torch",
}


def imports(source: str) -> Iterator[tuple[str, bool]]:
    """Dotted path of everything imported, and whether `import genmetric` imports it."""

    def walk(node: ast.AST, early: bool) -> Iterator[tuple[str, bool]]:
        if isinstance(node, ast.Import):
            yield from ((alias.name, early) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield from ((f"{base}.{alias.name}", early) for alias in node.names)
        late = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
            isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        )
        for child in ast.iter_child_nodes(node):
            yield from walk(child, early and not late)

    yield from walk(ast.parse(source), True)


def problems(place: str, source: str) -> list[str]:
    """What a file of genmetric may not import, with the reason; `place` is its path."""
    here, found = Path(place).parts[0].removesuffix(".py"), []
    for name, early in imports(source):
        root, *rest = name.split(".")
        there = rest[0] if rest else ""
        if root in OPTIONAL and early and not (root == "click" and here == "cli"):
            found.append(f"{name}: is optional")
        elif root == "sklearn" and any(p.startswith("_") or p == "externals" for p in rest):
            found.append(f"{name}: is private")
        elif root == "":
            found.append(f"{name}: is relative")
        # The root gathers the public names of all layers.
        elif root != "genmetric" or here in ("__init__", "__main__", there) or there[:1] == "_":
            continue
        elif here.startswith("_") or there not in RANK or RANK[there] > RANK[here]:
            found.append(f"{name}: is higher than {here}")
        elif RANK[there] == RANK[here] == 0:
            found.append(f"{name}: {here} is independent of it")
    return found


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(PACKAGE)) for path in FILES])
def test_imports(path):
    place = path.relative_to(PACKAGE)
    part = place.parts[0].removesuffix(".py")
    assert part.startswith("_") or part in RANK, "Say in LAYERS what it may import."
    assert not problems(str(place), path.read_text("utf-8"))


@pytest.mark.parametrize(
    ("place", "statement"),
    [
        ("geometry/local.py", "from genmetric.learners import GenerativeMetric"),
        ("geometry/local.py", "from genmetric import cluster"),
        ("geometry/local.py", "import genmetric.learners.lmnn"),
        ("geometry/local.py", "from ..learners import GenerativeMetric"),
        ("geometry/local.py", "def f():\n    from genmetric.reproduction import run"),
        ("density/gaussian.py", "from genmetric.datasets import load_iris"),
        ("_parallel.py", "from genmetric.density import GaussianModel"),
        ("learners/lmnn.py", "import genmetric"),
        ("learners/lmnn.py", "from genmetric import GenerativeMetric"),
        ("learners/lmnn.py", "from sklearn.utils import _safe_indexing"),
        ("learners/lmnn.py", "from sklearn.externals import array_api_compat"),
        ("learners/lmnn.py", "import sklearn.neighbors._base"),
        ("dask.py", "import dask"),
    ],
)
def test_the_check_sees_it(place, statement):
    assert problems(place, statement)


@pytest.mark.parametrize(
    ("place", "statement"),
    [
        ("geometry/local.py", "from genmetric.density.gaussian import ClassGaussians"),
        ("geometry/local.py", "from genmetric.geometry.factor import symmetric_root"),
        ("geometry/local.py", "from genmetric._typing import FloatArray"),
        ("cluster.py", "import numpy as np\nfrom sklearn.base import BaseEstimator"),
        ("dask.py", "def f():\n    import dask"),
        ("dask.py", "if TYPE_CHECKING:\n    import dask"),
        ("cli/fit.py", "import click"),
    ],
)
def test_the_check_allows_it(place, statement):
    assert not problems(place, statement)


def test_the_package_works_without_optional_packages():
    code = f"""
import sys

class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {sorted(OPTIONAL)}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent)
import genmetric.datasets
genmetric.GenerativeMetric().fit(*genmetric.datasets.load_iris(return_X_y=True))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
