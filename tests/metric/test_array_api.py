"""Arrays of other libraries: the same kind and the same numbers as NumPy.

scikit-learn's dispatch needs SCIPY_ARRAY_API=1 before scipy is imported, so the checks run in a
process of their own.
"""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy

from genmetric import GenerativeMetric
from genmetric._array_api import dispatch_namespace

CHECKS = """
import sys
import numpy as np
import sklearn
from sklearn.datasets import load_iris
from genmetric import LMNN, EmbeddingAdapter, GenerativeMetric

if sys.argv[1] == "torch":
    import torch as xp
    from_numpy = xp.from_numpy
    to_numpy = lambda a: a.numpy()
else:
    import array_api_strict as xp
    from_numpy = xp.asarray
    to_numpy = np.from_dlpack

X, y = load_iris(return_X_y=True)
models = [GenerativeMetric(), LMNN(max_iter=2, n_components=2), EmbeddingAdapter(),
          EmbeddingAdapter(normalize=False)]
for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-4)):
    x = X.astype(dtype)
    a = from_numpy(x)
    pairs = x[np.arange(20).reshape(10, 2)]
    for model in models:
        model.fit(X, y)
        expected = model.transform(x)
        with sklearn.config_context(array_api_dispatch=True):
            found = model.transform(a)
        assert type(found) is type(a), type(found)
        assert found.dtype == a.dtype
        np.testing.assert_allclose(to_numpy(found), expected, rtol=tolerance, atol=tolerance)
        if hasattr(model, "pair_distance"):
            with sklearn.config_context(array_api_dispatch=True):
                found = model.pair_distance(from_numpy(pairs))
            assert type(found) is type(a)
            np.testing.assert_allclose(to_numpy(found), model.pair_distance(pairs), rtol=tolerance)

with sklearn.config_context(array_api_dispatch=True):
    for bad, message in ((xp.zeros((2, 4)), "2 zero vectors"), (xp.ones((2, 3)), "3 features"),
                         (xp.zeros((2, 4)) / 0 if sys.argv[1] == "torch" else None, "NaN")):
        if bad is None:
            continue
        try:
            models[2].transform(bad)
        except ValueError as error:
            assert message in str(error), error
        else:
            raise AssertionError(message)
    # NumPy arrays and lists take the usual path.
    assert isinstance(models[0].transform(X), np.ndarray)
    assert isinstance(models[0].transform(X.tolist()), np.ndarray)
print("checked")
"""


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_same_numbers_as_numpy(library):
    for package in (library, "array_api_compat"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    if tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 14):
        pytest.skip("scikit-learn's array_api_dispatch needs SciPy 1.14")
    done = subprocess.run(
        [sys.executable, "-c", CHECKS, library],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "checked", done.stderr


def test_without_dispatch_arrays_become_numpy():
    X = np.random.default_rng(0).normal(size=(30, 3))
    assert dispatch_namespace(X) is None
    assert dispatch_namespace(X.tolist()) is None
    strict = pytest.importorskip("array_api_strict")
    assert dispatch_namespace(strict.asarray(X)) is None
    metric = GenerativeMetric().fit(X, np.arange(30) % 2)
    assert isinstance(metric.transform(X), np.ndarray)
