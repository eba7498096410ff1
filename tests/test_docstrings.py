"""Docstrings of public names: numpydoc's sections, every parameter described, an example."""

import inspect
from contextlib import suppress
from dataclasses import fields, is_dataclass
from importlib import import_module

import pytest

import genmetric

numpydoc_validate = pytest.importorskip("numpydoc.validate")

#: Modules whose names are public too.
MODULES = ("comparison", "datasets", "inspection", "metrics", "plot", "report", "dask", "onnx")

#: numpydoc's codes: no docstring, no summary, parameters without or beyond the signature, in
#: another order, without type or description, no "Returns", returned values without description.
CODES = {"GL08", "SS01", "PR01", "PR02", "PR03", "PR04", "PR07", "RT01", "RT03"}

#: Estimators whose parameters are those of another one, and say so.
AS_ANOTHER = {
    "genmetric.GenerativeMetricCV",
    "genmetric.dask.DaskEmbeddingAdapter",
    "genmetric.dask.DaskGenerativeMetric",
}


def public_names():
    """Dotted names of all public classes and functions, and of methods, each method once."""
    found, seen = {}, set()
    homes = {"genmetric": genmetric}
    for module in MODULES:
        with suppress(ImportError):  # an extra is not installed
            homes[f"genmetric.{module}"] = import_module(f"genmetric.{module}")
    for path, home in homes.items():
        for name in home.__all__:
            item = getattr(home, name)
            if not (inspect.isclass(item) or inspect.isfunction(item)):
                continue
            found[f"{path}.{name}"] = item
            if inspect.isclass(item):
                for method, function in inspect.getmembers(item, inspect.isroutine):
                    plain = getattr(function, "__func__", function)
                    home_of_it = getattr(function, "__module__", None) or ""
                    ours = home_of_it.startswith("genmetric") and plain not in seen
                    if ours and not method.startswith("_"):
                        seen.add(plain)
                        found[f"{path}.{name}.{method}"] = function
    return found


NAMES = public_names()
WHOLE = [name for name, item in NAMES.items() if item.__name__ == item.__qualname__]


@pytest.mark.parametrize("name", NAMES)
def test_docstring_is_complete(name):
    item, codes = NAMES[name], CODES
    if "As :func:`load_dataset`" in inspect.getdoc(item):
        # One loader among many: what it takes and returns is said once, there.
        ours = set(inspect.signature(item).parameters)
        there = set(inspect.signature(genmetric.datasets.load_dataset).parameters)
        assert ours <= there | {"download_if_missing"}
        return
    if name in AS_ANOTHER:
        codes = codes - {"PR03", "PR04"}
    if is_dataclass(item):
        # Its fields are attributes as much as parameters, and are described once.
        assert not [f.name for f in fields(item) if f.name not in inspect.getdoc(item)]
        codes = codes - {"PR01"}
    errors = numpydoc_validate.validate(name)["errors"]
    assert not [error for error in errors if error[0] in codes]


@pytest.mark.parametrize("name", WHOLE)
def test_there_is_an_example(name):
    doc = inspect.getdoc(NAMES[name])
    assert "\nExamples\n--------\n>>> " in doc or "As :func:`load_dataset`" in doc
