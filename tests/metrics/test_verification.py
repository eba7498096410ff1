"""The equal error rate against scikit-learn's ROC curve over all pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import pairwise_distances, roc_curve

from genmetric import _chunks
from genmetric.metrics import _verification, equal_error_rate


def data(seed=0, n=80, d=3, n_classes=5):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    return rng.normal(size=(n, d)) + rng.normal(size=(n_classes, d))[y], y


def naive(distances, same):
    acceptance, detection, _ = roc_curve(same, -distances, drop_intermediate=False)
    rejection = 1 - detection
    best = np.argmin(np.abs(acceptance - rejection))
    return (acceptance[best] + rejection[best]) / 2


@pytest.fixture(params=[2**14, 16])
def n_bins(request, monkeypatch):
    """Few bins and few sorted pairs take several passes."""
    monkeypatch.setattr(_verification, "N_BINS", request.param)
    if request.param == 16:
        monkeypatch.setattr(_verification, "MAX_SORTED", 50)


@pytest.mark.usefixtures("n_bins")
@pytest.mark.parametrize("seed", range(8))
def test_all_pairs(seed):
    X, y = data(seed)
    pairs = np.triu_indices(len(X), 1)
    expected = naive(pairwise_distances(X)[pairs], y[pairs[0]] == y[pairs[1]])
    assert equal_error_rate(X, y) == pytest.approx(expected, abs=1e-12)


@pytest.mark.usefixtures("n_bins")
@pytest.mark.parametrize("seed", range(4))
def test_queries_against_references(seed):
    X, y = data(seed)
    queries, labels = data(seed + 100, n=30)
    distances = pairwise_distances(queries, X).ravel()
    expected = naive(distances, (labels[:, None] == y).ravel())
    found = equal_error_rate(X, y, queries=queries, query_labels=labels)
    assert found == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 10**6), st.floats(1e-6, 1e6), st.floats(-1e3, 1e3))
@settings(max_examples=20, deadline=None)
def test_shift_and_scale_do_not_matter(seed, scale, shift):
    X, y = data(seed, n=40)
    assert equal_error_rate(scale * (X + shift), y) == pytest.approx(equal_error_rate(X, y))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_extreme_scales(scale):
    X, y = data()
    assert equal_error_rate(scale * X, y) == pytest.approx(equal_error_rate(X, y))


def test_chunks_and_n_jobs(monkeypatch):
    X, y = data(n=200)
    whole = equal_error_rate(X, y)
    monkeypatch.setattr(_chunks, "CHUNK_BYTES", 2**16)
    assert equal_error_rate(X, y, n_jobs=3) == pytest.approx(whole, abs=1e-12)


def test_limits():
    y = np.repeat([0, 1], 20)
    assert equal_error_rate(np.c_[10.0 * y + np.linspace(0, 1, 40)], y) == 0
    assert equal_error_rate(np.ones((40, 2)), y) == pytest.approx(0.5)


def test_equal_distances_beyond_the_sorted_ones(monkeypatch):
    monkeypatch.setattr(_verification, "MAX_SORTED", 10)
    X, y = np.repeat([[0.0], [1.0]], 20, axis=0), np.arange(40) % 2
    same = y[:, None] == y
    pairs = np.triu_indices(40, 1)
    expected = naive(pairwise_distances(X)[pairs], same[pairs])
    assert equal_error_rate(X, y) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(80), "no pair of samples with different labels"),
        (np.arange(80), "no pair of samples with the same label"),
    ],
)
def test_pairs_of_one_kind(y, message):
    with pytest.raises(ValueError, match=message):
        equal_error_rate(data()[0], y)
