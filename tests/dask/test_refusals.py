"""Estimators for rows in memory refuse dask collections, and name the one that takes them."""

import inspect

import dask.array as da
import pytest
from sklearn.utils import get_tags

import genmetric
from genmetric.datasets import load_iris

X, Y = load_iris(return_X_y=True)
LAZY_X, LAZY_Y = da.from_array(X, chunks=(50, 4)), da.from_array(Y, chunks=50)
ESTIMATORS = [
    name
    for name in genmetric.__all__
    if inspect.isclass(getattr(genmetric, name))
    and hasattr(getattr(genmetric, name), "fit")
    and name != "PairClassifier"  # takes pairs of samples
]
REFUSAL = r"is a dask collection.*genmetric\.dask"
METHODS = ["predict", "predict_proba", "decision_function", "score_samples", "kneighbors"]
METHODS += ["transform", "inverse_transform", "local_metrics", "curvature", "bias", "log_density"]


@pytest.fixture(scope="module")
def fitted():
    """Estimators fitted on rows in memory, made when first asked for."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = getattr(genmetric, name)().fit(X, Y)
        return made[name]

    return get


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fit_refuses_dask(name):
    estimator = getattr(genmetric, name)()
    with pytest.raises(TypeError, match=f"X {REFUSAL}"):
        estimator.fit(LAZY_X, Y)
    if get_tags(estimator).target_tags.required:
        with pytest.raises(TypeError, match=f"y {REFUSAL}"):
            estimator.fit(X, LAZY_Y)


@pytest.mark.parametrize(
    ("name", "method"),
    [(n, m) for n in ESTIMATORS for m in METHODS if hasattr(getattr(genmetric, n), m)],
)
def test_methods_refuse_dask(name, method, fitted):
    with pytest.raises(TypeError, match=REFUSAL):
        getattr(fitted(name), method)(LAZY_X)


def test_batches_of_dask_are_refused():
    with pytest.raises(TypeError, match=f"X {REFUSAL}"):
        genmetric.GenerativeMetric().fit_batches(lambda: iter([(LAZY_X, Y)]))
    with pytest.raises(TypeError, match=f"y {REFUSAL}"):
        genmetric.GenerativeMetric().partial_fit(X, LAZY_Y)
    with pytest.raises(TypeError, match=f"sample_weight {REFUSAL}"):
        genmetric.GenerativeMetric().fit(X, Y, sample_weight=da.ones(150))
