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

START = CHECKS[: CHECKS.index("X, y = load_iris")]

FITS = (
    START
    + """
import pathlib, pickle, tempfile
import genmetric
from sklearn.datasets import load_wine
from genmetric import GaussianMixtureModel

X, y = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
CASES = [
    ({}, None),
    ({"solver": "auto", "base": "pooled"}, None),
    ({"normalization": "determinant", "shrinkage": None, "n_jobs": 2}, None),
    ({"n_components": 3, "interpolation": 0.5, "priors": [0.2, 0.3, 0.5]}, None),
    ({"max_samples": 60, "random_state": 0}, None),
    ({"max_samples": "auto", "random_state": 0}, weight),
    ({"combination": np.arange(178.0)}, weight),
]
on = sklearn.config_context(array_api_dispatch=True)
for dtype in ("float64", "float32"):
    x = X.astype(dtype)
    a = from_numpy(x)
    for params, w in CASES:
        params = {"solver": "dense", **params}
        expected = GenerativeMetric(**{**params, "solver": "dense"}).fit(x, y, w)
        with sklearn.config_context(array_api_dispatch=True):
            found = GenerativeMetric(**params).fit(
                a, from_numpy(y), None if w is None else from_numpy(w)
            )
            images = found.transform(a)
            matrix = found.get_mahalanobis_matrix()
            restored = None if found.n_components else found.inverse_transform(images)
        for name in ("components_", "metric_", "means_", "covariances_", "weights_"):
            if not hasattr(expected, name):
                continue
            value, numbers = getattr(found, name), getattr(expected, name)
            assert type(value) is type(a), name
            error = np.abs(to_numpy(value) - numbers).max() / np.abs(numbers).max()
            assert error < 1e-10, (params, name, error)
        np.testing.assert_allclose(found.metric_stderr_, expected.metric_stderr_, rtol=1e-6)
        np.testing.assert_array_equal(found.classes_, [0, 1, 2])
        assert type(images) is type(a) and images.dtype == a.dtype
        tolerance = 1e-10 if dtype == "float64" else 1e-4
        np.testing.assert_allclose(to_numpy(images), expected.transform(x), atol=tolerance)
        np.testing.assert_allclose(to_numpy(matrix), to_numpy(found.metric_), atol=1e-9)
        if restored is not None:
            np.testing.assert_allclose(to_numpy(restored), x, atol=tolerance)
        # Without dispatch the fitted metric computes in NumPy.
        assert isinstance(found.transform(x), np.ndarray)
        pairs = x[np.arange(20).reshape(10, 2)]
        np.testing.assert_allclose(
            found.pair_distance(pairs), expected.pair_distance(pairs), rtol=1e-8
        )
        np.testing.assert_allclose(
            found.local_metrics(x[:3]), expected.local_metrics(x[:3]), rtol=1e-6, atol=1e-8
        )

names = np.array(["a", "b", "c"])[y]
with sklearn.config_context(array_api_dispatch=True):
    text = GenerativeMetric().fit(a, names)
    assert list(text.classes_) == ["a", "b", "c"]
    for params, message in (
        ({"solver": "resolvent"}, 'Use solver="dense"'),
        ({"class_model": GaussianMixtureModel()}, "GaussianMixtureModel() does not compute in"),
        ({"combination": "kde"}, "KernelDensityWeights() does not compute in"),
    ):
        try:
            GenerativeMetric(**params).fit(a, y)
        except ValueError as error:
            assert message in str(error), error
        else:
            raise AssertionError(params)
    try:
        text.transform(x)
    except ValueError as error:
        assert "GenerativeMetric.transform() must use the same namespace" in str(error), error
    else:
        raise AssertionError("namespaces were mixed")
    # Batches are converted to NumPy.
    stream = GenerativeMetric().partial_fit(a, from_numpy(y))
    batches = GenerativeMetric().fit_batches(lambda: [(a, from_numpy(y))])
whole = GenerativeMetric().fit(x, y).metric_
np.testing.assert_allclose(stream.metric_, whole, rtol=1e-8, atol=1e-10)
np.testing.assert_allclose(batches.metric_, whole, rtol=1e-8, atol=1e-10)
# A file has NumPy arrays.
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "metric.genmetric"
    genmetric.save(text, path)
    loaded = genmetric.load(path)
np.testing.assert_array_equal(loaded.metric_, to_numpy(text.metric_))
assert isinstance(loaded.components_, np.ndarray)
if sys.argv[1] == "torch":
    again = pickle.loads(pickle.dumps(text))
    np.testing.assert_array_equal(to_numpy(again.metric_), to_numpy(text.metric_))
else:
    # Another device than that of NumPy.
    other = xp.Device("device1")
    with sklearn.config_context(array_api_dispatch=True):
        moved = GenerativeMetric(solver="dense").fit(xp.asarray(x, device=other), y)
        assert moved.components_.device == other
        assert moved.transform(xp.asarray(x, device=other)).device == other
print("checked")
"""
)

SCIKIT_LEARN = """
from unittest import SkipTest
from sklearn.utils.estimator_checks import estimator_checks_generator
from genmetric import GenerativeMetric

passed = 0
for estimator, check in estimator_checks_generator(GenerativeMetric(solver="dense")):
    if "array_api" in getattr(check, "func", check).__name__:
        try:
            check(estimator)
        except SkipTest:
            continue
        passed += 1
print("checked" if passed else "no check passed")
"""


def run(script, *libraries):
    """Run a script in a process with array API support, if the libraries are installed."""
    for package in (*libraries, "array_api_compat"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    if tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 14):
        pytest.skip("scikit-learn's array_api_dispatch needs SciPy 1.14")
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", script, *libraries],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "checked", done.stderr


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_same_numbers_as_numpy(library):
    run(CHECKS, library)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_fit_computes_in_the_library(library):
    run(FITS, library)


def test_checks_of_scikit_learn():
    run(SCIKIT_LEARN, "array_api_strict")


def test_without_dispatch_arrays_become_numpy():
    X = np.random.default_rng(0).normal(size=(30, 3))
    assert dispatch_namespace(X) is None
    assert dispatch_namespace(X.tolist()) is None
    strict = pytest.importorskip("array_api_strict")
    assert dispatch_namespace(strict.asarray(X)) is None
    metric = GenerativeMetric().fit(X, np.arange(30) % 2)
    assert isinstance(metric.transform(X), np.ndarray)
