"""Without the optional packages: all of the core works, and the rest says how to get them."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import genmetric

PACKAGE = Path(genmetric.__file__).parent

#: The distribution that brings a module, where the names differ or it comes along with another.
BROUGHT_BY = {
    "faiss": "faiss-cpu",
    "markupsafe": "jinja2",
    "cycler": "matplotlib",
    "onnx": "skl2onnx",
}


def extras():
    """Distributions of each extra."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    lists = tomllib.loads(text)["project"]["optional-dependencies"]
    return {extra: {r.partition(">=")[0] for r in found} for extra, found in lists.items()}


def function_imports():
    """Yield calls of `import_optional` and plain imports inside functions."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                where = f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)}"
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_optional":
                    if isinstance(node.args[0], ast.Name):
                        continue
                    module, extra = (ast.unparse(arg) for arg in node.args)
                    yield where, re.search(r"\w{2,}", module)[0], extra.strip("\"'")
                elif isinstance(node, ast.Import):
                    for alias in node.names:
                        yield where, alias.name.split(".")[0], None
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    yield where, node.module.split(".")[0], None


def test_every_optional_import_names_the_extra_that_brings_it():
    known = extras()
    optional = set().union(
        *(known[name] for name in ("ann", "dask", "onnx", "cli", "excel", "report"))
    )
    n_needs, wrong = 0, []
    for where, module, extra in function_imports():
        brought_by = BROUGHT_BY.get(module, module)
        if extra is not None:
            n_needs += 1
            # A feature that needs several extras names all of them.
            if not any(brought_by in known.get(name, ()) for name in extra.split(",")):
                wrong.append(f"{where}: {module} is not in the extra {extra!r}")
        elif brought_by in optional and not where.startswith("cli"):
            wrong.append(f"{where}: {module} is imported without import_optional()")
    assert n_needs > 10
    assert not wrong


ABSENT = f"""
import sys

class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {sorted(BROUGHT_BY)} + [
            "click", "dask", "distributed", "jinja2", "matplotlib", "onnxruntime", "pandas", "polars",
            "openpyxl", "pyarrow", "rich", "skl2onnx", "skops",
        ]:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent)
"""

CORE = """
import numpy as np
import genmetric, genmetric.datasets
from genmetric import *

X, y = genmetric.datasets.load_iris(return_X_y=True)
X, y = X[::3], y[::3]
for model in (
    GenerativeMetric(), GenerativeMetric("kde"), GenerativeMetric("gmm"),
    GenerativeMetricCV(shrinkages=0.5), LMNN(early_stopping=False, max_iter=1000), LocalMetricClassifier(), EnergyClassifier(),
    SimpleMKLClassifier(), RegionalKernels(), MetricKMeans(3), GaussianModel(),
    GaussianMixtureModel(),
):
    fitted = model.fit(X, y)
    for name in ("transform", "predict", "log_density", "gram"):
        if hasattr(fitted, name):
            assert np.isfinite(getattr(fitted, name)(X)).all()
"""

OPTIONAL = """
import genmetric.dask, genmetric.onnx, genmetric.plot, genmetric.report, genmetric.tables
from genmetric.cli import main

metric, plane = GenerativeMetric().fit(X, y), GenerativeMetric().fit(X[:, 2:], y)
tries = {
    "faiss": lambda: FaissNeighborsTransformer().fit(X),
    "dask": lambda: genmetric.dask.DaskGenerativeMetric().fit(X, y),
    "onnx": genmetric.onnx.register,
    "save": lambda: save(metric, sys.argv[1]),
    "table": lambda: genmetric.tables.read_table("table.csv"),
    "encoder": lambda: genmetric.tables.TableEncoder(),
    "page": lambda: genmetric.report.write_page(sys.argv[1], "", []),
    "heatmap": lambda: genmetric.plot.MetricHeatmapDisplay.from_estimator(metric),
    "local": lambda: genmetric.plot.LocalMetricsDisplay.from_estimator(plane, X[:, 2:], y),
    "command": lambda: sys.exit(main(["datasets"])),
}
for name, call in tries.items():
    try:
        call()
    except ImportError as error:
        print(name, error)
    except SystemExit as error:
        print(name, error.code)
"""


def run_without(code, folder):
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder / "model.skops")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def without_extras(tmp_path_factory):
    """What a process without optional packages printed, line by line, and its errors."""
    done = run_without(ABSENT + CORE + OPTIONAL, tmp_path_factory.mktemp("without"))
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines()), done.stderr


EXTRA_OF = {
    "faiss": "ann",
    "dask": "dask",
    "onnx": "onnx",
    "save": "files",
    "table": "cli",
    "encoder": "cli",
    "page": "report",
    "heatmap": "report",
    "local": "report",
}


@pytest.mark.parametrize("name", EXTRA_OF)
def test_missing_extra_names_the_pip_command(without_extras, name):
    printed, _ = without_extras
    assert f'pip install "genmetric[{EXTRA_OF[name]}]"' in printed[name]


def test_the_command_without_its_extra(without_extras):
    printed, errors = without_extras
    assert printed["command"] == "2"
    assert 'pip install "genmetric[cli,report]"' in errors
    assert "Traceback" not in errors
