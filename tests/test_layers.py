"""The layers of the package, read from its import statements.

A lower layer never imports a higher one. Imports inside functions count too.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import genmetric

PACKAGE = Path(genmetric.__file__).parent

#: Lowest first; the parts of one layer may import each other, those of the lowest may not.
LAYERS = [
    {"datasets", "density", "metrics", "tables"},
    {"experimental"},
    {"geometry"},
    {"learners"},
    {"neighbors", "kernels", "cluster"},
    {"inspection"},
    {"dask", "files", "onnx", "plot"},
    {"report"},
    {"comparison"},
    {"reproduction"},
    {"cli"},
]
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}

#: Packages of the extras: imported inside the function that needs them.
OPTIONAL = {
    "click",
    "dask",
    "distributed",
    "faiss",
    "jinja2",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "pandas",
    "polars",
    "pyarrow",
    "rich",
    "skl2onnx",
    "safetensors",
    "skops",
    "torch",
}

#: scikit-learn's names that look public in a class body and are not.
PRIVATE_HOOKS = {"_parameter_constraints", "_fit_context"}


class Import(NamedTuple):
    """One imported module or name, as a dotted path."""

    target: str
    line: int
    in_function: bool


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(module: str) -> str:
    """Second component of a dotted path: the layer's folder or file; "" for the package root."""
    return module.split(".")[1] if "." in module else ""


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports(source: str, module: str, is_package: bool) -> Iterator[Import]:
    """Every import of a module, with ``from a import b`` as ``a.b`` and relative ones resolved."""
    package = module if is_package else module.rpartition(".")[0]

    def walk(node: ast.AST, in_function: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, in_function)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:
                yield Import(f"{base}.{alias.name}", node.lineno, in_function)
        # Code that runs only for a type checker imports nothing when the package is used.
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, in_function or inside or is_type_checking(node))

    yield from walk(ast.parse(source), False)


def forbidden_layer(module: str, target: str) -> str | None:
    """Why `module` may not import `target`, or None."""
    if target != "genmetric" and not target.startswith("genmetric."):
        return None
    here, there = part_of(module), part_of(target)
    # The package root gathers the public names of all layers.
    if here in ("", "__main__", there) or there.startswith("_"):
        return None
    if here.startswith("_"):
        return f"{here} lies below the layers and imports {there}"
    if there not in RANK:
        return f"imports {there or 'the package root'}, which is no layer"
    if RANK[there] > RANK[here]:
        return f"{here} imports the higher layer {there}"
    if RANK[there] == RANK[here] == 0:
        return f"{here} and {there} are independent of each other"
    return None


def private_sklearn(source: str) -> Iterator[str]:
    """Uses of names that scikit-learn does not publish."""
    tree = ast.parse(source)
    bound = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "sklearn":
                    bound.add(alias.asname or "sklearn")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sklearn":
            bound.update(alias.asname or alias.name for alias in node.names)
    found = [target for target, *_ in imports(source, "genmetric.x", False)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node).split(".")[0] in bound:
            found.append("sklearn." + ast.unparse(node))
        elif isinstance(node, ast.Name) and node.id in PRIVATE_HOOKS:
            yield node.id
    for name in found:
        root, *rest = name.split(".")
        hidden = [p for p in rest if p.startswith("_") and not p.endswith("__")]
        if root == "sklearn" and (hidden or "externals" in rest):
            yield name


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.fixture(params=FILES, ids=[str(path.relative_to(PACKAGE)) for path in FILES])
def path(request):
    return request.param


def test_every_part_has_a_layer(path):
    part = part_of(module_name(path))
    assert part == "" or part.startswith("_") or part in RANK, (
        f"{part!r} is in no layer: say in LAYERS which ones it may import."
    )


def test_lower_layers_do_not_import_higher_ones(path):
    module = module_name(path)
    is_package = path.name == "__init__.py"
    reasons = {
        f"line {line}: {reason}"
        for target, line, _ in imports(path.read_text("utf-8"), module, is_package)
        if (reason := forbidden_layer(module, target))
    }
    assert not reasons


def test_only_public_scikit_learn(path):
    assert not list(private_sklearn(path.read_text("utf-8")))


def test_optional_packages_are_imported_where_they_are_needed(path):
    found = imports(path.read_text("utf-8"), module_name(path), path.name == "__init__.py")
    # The commands are click's own objects; genmetric.cli looks whether it is there beforehand.
    free = {"click"} if path.parent.name == "cli" and path.name != "__init__.py" else set()
    early = {
        f"line {line}: {target}"
        for target, line, in_function in found
        if target.split(".")[0] in OPTIONAL - free and not in_function
    }
    assert not early


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


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("genmetric.geometry.phi", "from genmetric.learners import GenerativeMetric"),
        ("genmetric.geometry.phi", "from genmetric import metric"),
        ("genmetric.geometry.phi", "import genmetric.learners.estimator"),
        ("genmetric.geometry.phi", "from ..metric import GenerativeMetric"),
        ("genmetric.geometry.phi", "from .. import cluster"),
        ("genmetric.geometry.phi", "def f():\n    from genmetric.reproduction import run"),
        ("genmetric.density._gaussian", "from genmetric.datasets import load_iris"),
        ("genmetric._chunks", "from genmetric.density import GaussianModel"),
        ("genmetric.learners.estimator", "import genmetric"),
        ("genmetric.learners.estimator", "from genmetric import GenerativeMetric"),
    ],
)
def test_the_check_sees_a_higher_import(module, statement):
    assert any(forbidden_layer(module, target) for target, *_ in imports(statement, module, False))


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("genmetric.geometry.phi", "from genmetric.density._models import ClassModel"),
        ("genmetric.geometry.phi", "from .factor import symmetric_root"),
        ("genmetric.geometry.phi", "from genmetric._typing import FloatArray"),
        (
            "genmetric.learners.estimator",
            "from genmetric.learners._mahalanobis import MahalanobisMixin",
        ),
        ("genmetric.cluster.kmeans", "import numpy as np"),
    ],
)
def test_the_check_allows_a_lower_import(module, statement):
    assert not any(
        forbidden_layer(module, target) for target, *_ in imports(statement, module, False)
    )


@pytest.mark.parametrize(
    "source",
    [
        "from sklearn.utils._param_validation import Interval",
        "from sklearn.utils import _safe_indexing",
        "from sklearn.externals import array_api_compat",
        "import sklearn.neighbors._base",
        "import sklearn\nsklearn.base._fit_context(prefer_skip_nested_validation=True)",
        "from sklearn import utils\nutils._safe_indexing([1], 0)",
        "class A:\n    _parameter_constraints = {}",
    ],
)
def test_the_check_sees_private_scikit_learn(source):
    assert list(private_sklearn(source))


def test_the_check_allows_public_scikit_learn():
    source = (
        "import sklearn\nfrom sklearn.utils.validation import validate_data\nsklearn.__version__"
    )
    assert not list(private_sklearn(source))


def test_type_checking_and_function_imports_are_late():
    source = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import pandas\n"
        "def f():\n    import dask\n"
        "import faiss\n"
    )
    early = [i.target for i in imports(source, "genmetric.x", False) if not i.in_function]
    assert early == ["typing.TYPE_CHECKING", "faiss"]
