"""Samples in batches: fit_batches, partial_fit and merge equal fit up to rounding."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import OAS
from sklearn.datasets import load_iris

from genmetric import GaussianMixtureModel, GaussianModel, GenerativeMetric
from genmetric.datasets import load_vehicle

X, Y = load_vehicle(return_X_y=True)


def batches(X, y, cuts):
    rows = np.split(np.arange(len(X)), sorted(cuts))
    return lambda: ((X[i], y[i]) for i in rows)


def streamed(X, y, cuts, **params):
    metric = GenerativeMetric(**params)
    for x, labels in batches(X, y, cuts)():
        if len(x):
            metric.partial_fit(x, labels)
    return metric


def assert_same(a, b, rtol=1e-9):
    assert np.linalg.norm(a.metric_ - b.metric_) <= rtol * np.linalg.norm(b.metric_)
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_allclose(a.means_, b.means_, rtol=1e-9, atol=1e-12 * np.abs(b.means_).max())
    size = np.abs(b.covariances_).max()
    np.testing.assert_allclose(a.covariances_, b.covariances_, rtol=1e-6, atol=1e-9 * size)


PARAMETERS = [
    {},
    {"base": "pooled"},
    {"base": "pooled", "shrinkage": 0.2, "interpolation": 0.5},
    {"shrinkage": None, "normalization": "determinant", "solver": "dense"},
    {"solver": "resolvent", "n_components": 4, "priors": [0.4, 0.3, 0.2, 0.1]},
    {"class_model": GaussianModel(shrinkage=0.1)},
]


@pytest.mark.parametrize("params", PARAMETERS, ids=str)
def test_batches_streams_and_merged_streams_equal_fit(params):
    whole = GenerativeMetric(**params).fit(X, Y)
    assert_same(GenerativeMetric(**params).fit_batches(batches(X, Y, [100, 101, 500])), whole)
    assert_same(streamed(X, Y, [100, 500], **params), whole)
    left, right = (streamed(X[i::2], Y[i::2], [50], **params) for i in (0, 1))
    before = right.metric_.copy()
    assert_same(left.merge(right), whole)
    np.testing.assert_array_equal(right.metric_, before)


# Streams begin with few samples of each class.
@pytest.mark.filterwarnings("ignore:Classes .* have a single sample:UserWarning")
@settings(max_examples=15)
@given(
    cuts=st.sets(st.integers(1, 149), max_size=6),
    scale=st.sampled_from([1e-60, 1.0, 1e60]),
    offset=st.sampled_from([0.0, 1e6]),
    by_class=st.booleans(),
    base=st.sampled_from(["identity", "pooled"]),
)
def test_any_batches_scales_and_offsets(cuts, scale, offset, by_class, base):
    x, y = load_iris(return_X_y=True)
    order = np.arange(150) if by_class else np.random.default_rng(0).permutation(150)
    x, y = scale * (x[order] + offset), y[order]
    whole = GenerativeMetric(base=base).fit(x, y)
    tolerance = 1e-4 if offset else 1e-7
    found = GenerativeMetric(base=base).fit_batches(batches(x, y, cuts))
    assert_same(found, whole, tolerance)
    assert_same(streamed(x, y, cuts, base=base), whole, tolerance)


def test_names_and_empty_batches():
    names = np.array(["bus", "opel", "saab", "van"])[Y]
    parts = [(X[:0], names[:0]), (X[:300], names[:300]), (X[300:], names[300:])]
    metric = GenerativeMetric().fit_batches(lambda: iter(parts))
    assert metric.classes_.tolist() == ["bus", "opel", "saab", "van"]
    assert_same(metric, GenerativeMetric().fit(X, names))


def test_a_random_subset_of_batches():
    params = {"max_samples": 0.3, "random_state": 0}
    metric = GenerativeMetric(**params).fit_batches(batches(X, Y, [200, 400]))
    whole = GenerativeMetric().fit(X, Y)
    error = np.linalg.norm(metric.metric_ - whole.metric_) / np.linalg.norm(whole.metric_)
    assert 0 < error < 4 * metric.metric_stderr_
    np.testing.assert_allclose(metric.means_, whole.means_)


def test_the_random_sample_of_a_stream_is_bounded():
    metric = streamed(X, Y, [100, 300, 600], max_samples=200, random_state=0)
    whole = GenerativeMetric().fit(X, Y)
    error = np.linalg.norm(metric.metric_ - whole.metric_) / np.linalg.norm(whole.metric_)
    assert 0 < error < 4 * metric.metric_stderr_
    np.testing.assert_allclose(metric.means_, whole.means_)
    again = streamed(X, Y, [100, 300, 600], max_samples=200, random_state=0)
    np.testing.assert_array_equal(metric.metric_, again.metric_)
    merged = metric.merge(again)
    assert merged.metric_stderr_ < 0.2


def test_classes_appear_over_time():
    metric = GenerativeMetric().partial_fit(X[Y == 2], Y[Y == 2])
    np.testing.assert_array_equal(metric.metric_, np.eye(18))
    assert metric.metric_stderr_ == np.inf
    with pytest.raises(ValueError, match="Only samples of a single class"):
        metric.local_metrics(X[:2])
    metric.partial_fit(X[Y != 2], Y[Y != 2])
    assert_same(metric, GenerativeMetric().fit(X, Y))
    assert metric.local_metrics(X[:2]).shape == (2, 18, 18)


def test_classes_named_in_advance():
    metric = GenerativeMetric().partial_fit(X[:400], Y[:400], classes=[0, 1, 2, 3, 7])
    metric.partial_fit(X[400:], Y[400:])
    assert_same(metric, GenerativeMetric().fit(X, Y))
    with pytest.raises(ValueError, match=r"labels \[9\] that are not among the classes"):
        metric.partial_fit(X[:2], [9, 9])


def test_fit_discards_a_stream_and_a_stream_discards_a_fit():
    metric = GenerativeMetric().partial_fit(X[:400], Y[:400]).fit(X, Y)
    with pytest.raises(ValueError, match="merge needs estimators that were fitted by partial_fit"):
        metric.merge(metric)
    metric.partial_fit(X[:500], Y[:500])
    assert_same(metric, GenerativeMetric().fit(X[:500], Y[:500]))


def test_copies_continue():
    metric = GenerativeMetric(base="pooled").partial_fit(X[:400], Y[:400])
    again = pickle.loads(pickle.dumps(metric)).partial_fit(X[400:], Y[400:])
    assert_same(again, GenerativeMetric(base="pooled").fit(X, Y))


@pytest.mark.parametrize("method", ["fit_batches", "partial_fit"])
@pytest.mark.parametrize(
    "params",
    [
        {"combination": "kde"},
        {"combination": np.ones(846)},
        {"class_model": GaussianMixtureModel()},
        {"class_model": GaussianModel(covariance_estimator=OAS())},
    ],
    ids=["kde", "weights", "mixture", "estimator"],
)
def test_what_needs_all_samples_is_refused(method, params):
    arguments = (X, Y) if method == "partial_fit" else (batches(X, Y, [400]),)
    with pytest.raises(ValueError, match=rf"(?s){method} receives samples in batches.*Use fit"):
        getattr(GenerativeMetric(**params), method)(*arguments)


def test_many_large_classes_are_refused_with_the_alternative():
    x, y = np.zeros((600, 700)), np.repeat(np.arange(300), 2)
    with pytest.raises(ValueError, match=r"300 classes of 700 features.*EmbeddingAdapter"):
        GenerativeMetric().fit_batches(lambda: iter([(x, y)]))


def test_bad_batches():
    with pytest.raises(TypeError, match="make_batches must be a function"):
        GenerativeMetric().fit_batches([(X, Y)])
    with pytest.raises(ValueError, match="returned no samples"):
        GenerativeMetric().fit_batches(lambda: iter([]))
    with pytest.raises(ValueError, match="at least 2 classes; got 1 class, 1"):
        GenerativeMetric().fit_batches(lambda: iter([(X, np.ones(846, int))]))
    once = iter([(X[:400], Y[:400]), (X[400:], Y[400:])])
    with pytest.raises(ValueError, match="846 samples the first time and 0 the last"):
        GenerativeMetric().fit_batches(lambda: once)
    changed = iter([Y, np.where(np.arange(846) == 0, Y[Y[0] != Y][0], Y), Y])
    message = (
        r"(?s)The classes had .* samples the first time and .* the second time\..*same samples"
    )
    with pytest.raises(ValueError, match=message):
        GenerativeMetric(base="pooled").fit_batches(lambda: iter([(X, next(changed))]))
    with pytest.raises(ValueError, match="NaN") as found:
        GenerativeMetric().fit_batches(lambda: iter([(X, Y), (X * np.nan, Y)]))
    assert found.value.__notes__ == ["in batch 1 of make_batches()"]
    with pytest.raises(TypeError, match="numbers and names"):
        GenerativeMetric().partial_fit(X, Y).partial_fit(X, np.where(Y, "a", "b"))
    other = GenerativeMetric().partial_fit(*load_iris(return_X_y=True))
    with pytest.raises(ValueError, match="18 and 4 features"):
        GenerativeMetric().partial_fit(X, Y).merge(other)
