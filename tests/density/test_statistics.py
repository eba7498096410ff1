"""Class statistics: the same numbers in one piece, in pieces, in any order, and with weights."""

import importlib
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric import _memory as memory
from genmetric.density import ClassStatistics, Scaling, class_statistics, merge_statistics

FIELDS = list(ClassStatistics.__dataclass_fields__)


def loop_statistics(X, codes, n_classes, weights):
    """The definitions of ClassStatistics, row by row."""
    D = X.shape[1]
    count, mean = np.zeros(n_classes), np.zeros((n_classes, D))
    scatter, third = np.zeros((n_classes, D, D)), np.zeros((n_classes, D))
    fourth = np.zeros(n_classes)
    for c in range(n_classes):
        rows = [(x, w) for x, k, w in zip(X, codes, weights, strict=True) if k == c and w > 0]
        if not rows:
            continue
        count[c] = sum(w for _, w in rows)
        mean[c] = sum(w * x for x, w in rows) / count[c]
        for x, w in rows:
            e = x - mean[c]
            scatter[c] += w * np.outer(e, e)
            third[c] += w * (e @ e) * e
            fourth[c] += w * (e @ e) ** 2
    return ClassStatistics(count, mean, scatter, third, fourth)


def assert_same(a, b, rtol=1e-11, atol=1e-11):
    for name in FIELDS:
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name), rtol=rtol, atol=atol, err_msg=name
        )


@st.composite
def weighted_rows(draw, max_offset=0.0):
    """Rows, class codes, number of classes, weights and the offset of the rows."""
    n = draw(st.integers(1, 40))
    D = draw(st.integers(1, 5))
    n_classes = draw(st.integers(1, 4))
    offset = draw(st.floats(-max_offset, max_offset))
    codes = np.array(draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n)))
    weights = np.array(
        draw(st.lists(st.one_of(st.just(0.0), st.floats(0.01, 9)), min_size=n, max_size=n))
    )
    X = offset + np.random.default_rng(draw(st.integers(0, 2**32 - 1))).normal(size=(n, D))
    return X, codes, n_classes, weights, offset


@given(weighted_rows())
def test_definitions(data):
    X, codes, n_classes, weights, _ = data
    found = ClassStatistics.from_rows(X, codes, n_classes, weights)
    assert_same(found, loop_statistics(X, codes, n_classes, weights))


@given(weighted_rows(max_offset=1e8), st.data())
def test_pieces_merge_to_the_whole(data, draw):
    X, codes, n_classes, weights, offset = data
    n = len(X)
    cuts = draw.draw(st.lists(st.integers(0, n), max_size=6).map(sorted))
    pieces = [
        ClassStatistics.from_rows(X[a:b], codes[a:b], n_classes, weights[a:b])
        for a, b in pairwise([0, *cuts, n])
    ]
    whole = ClassStatistics.from_rows(X, codes, n_classes, weights)
    # A mean is known to the spacing of the numbers around it, and moments about it no better.
    spacing = 100 * np.spacing(1 + abs(offset))
    assert_same(merge_statistics(pieces), whole, 1e-11 + spacing, 1e-11 + 100 * spacing)


def test_large_offset_changes_rounding_only(rng):
    E = rng.integers(-8, 9, size=(500, 3)) / 4.0  # exact at any offset below 2**50
    codes = rng.integers(0, 2, 500)
    at_zero = ClassStatistics.from_rows(E, codes, 2)
    far = ClassStatistics.from_rows(E + 2.0**40, codes, 2)
    # The spacing of float64 at 2**40 is 2.4e-4; raw sums of squares would have lost everything.
    np.testing.assert_allclose(far.covariances, at_zero.covariances, atol=1e-6)
    np.testing.assert_allclose(far.third, at_zero.third, atol=1e-4)
    np.testing.assert_allclose(far.fourth, at_zero.fourth, rtol=1e-7)


def test_result_independent_of_the_order_of_pieces(rng):
    X, codes, weights = rng.normal(size=(90, 4)), rng.integers(0, 3, 90), rng.random(90)
    pieces = [
        ClassStatistics.from_rows(X[s], codes[s], 3, weights[s])
        for s in (slice(0, 20), slice(20, 21), slice(21, 90))
    ]
    whole = ClassStatistics.from_rows(X, codes, 3, weights)
    for order in permutations(pieces):
        assert_same(merge_statistics(order), whole)
    left = pieces[0].merge(pieces[1]).merge(pieces[2])
    right = pieces[0].merge(pieces[1].merge(pieces[2]))
    assert_same(left, right)


@given(weighted_rows())
def test_weights_are_frequencies(data):
    X, codes, n_classes, weights, _ = data
    times = np.floor(weights).astype(int)
    weighted = ClassStatistics.from_rows(X, codes, n_classes, times.astype(float))
    repeated = ClassStatistics.from_rows(
        np.repeat(X, times, axis=0), np.repeat(codes, times), n_classes
    )
    assert_same(weighted, repeated)


def test_class_without_samples(rng):
    X = rng.normal(size=(10, 3))
    first = ClassStatistics.from_rows(X, np.zeros(10, int), 2)
    assert not first.mean[1].any()
    assert not first.covariances[1].any()
    second = ClassStatistics.from_rows(X + 5, np.ones(10, int), 2)
    both = first.merge(second)
    assert_same(
        both, ClassStatistics.from_rows(np.r_[X, X + 5], np.repeat([0, 1], 10), 2), atol=1e-12
    )


def test_pooled_and_total_covariance(rng):
    X, codes = rng.normal(size=(60, 3)) * [1, 2, 3], rng.integers(0, 3, 60)
    X[codes == 1] += 4
    stats = ClassStatistics.from_rows(X, codes, 3)
    E = X - stats.mean[codes]
    np.testing.assert_allclose(stats.pooled_covariance, E.T @ E / 60, rtol=1e-12)
    np.testing.assert_allclose(stats.total_covariance, np.cov(X.T, bias=True), rtol=1e-12)
    np.testing.assert_allclose(stats.covariances[2], np.cov(X[codes == 2].T, bias=True), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
def test_in_chunks_and_threads(rng, monkeypatch, dtype):
    X = (rng.normal(size=(203, 4)) * 20).astype(dtype)
    codes, weights = rng.integers(0, 3, 203), rng.random(203)
    frame = Scaling(np.full(4, 2.0), 4.0)
    whole = ClassStatistics.from_rows((X.astype(float) - 2) / 4, codes, 3, weights)
    module = importlib.import_module("genmetric.density._statistics")
    monkeypatch.setattr(
        module, "row_chunks", lambda n, *_, **__: [slice(a, a + 10) for a in range(0, n, 10)]
    )
    runs = [
        class_statistics(X, codes, 3, frame=frame, sample_weight=weights, n_jobs=n_jobs)
        for n_jobs in (1, 2, 3)
    ]
    assert_same(runs[0], whole)
    for other in runs[1:]:
        for name in FIELDS:
            assert np.array_equal(getattr(runs[0], name), getattr(other, name))
    unframed = class_statistics(X, codes, 3, sample_weight=weights)
    np.testing.assert_allclose(unframed.covariances, 16 * whole.covariances, rtol=1e-11)


def test_covariances_that_do_not_fit_in_memory(monkeypatch):
    # 100,000 classes in 200 dimensions: 96 GB that the system would find out about one by one.
    monkeypatch.setattr(memory, "available_memory", lambda: 8 * 10**9)
    X, codes = np.zeros((10, 200)), np.arange(10)
    with pytest.raises(
        MemoryError, match=r"covariances of 100000 classes of 200 .* 96 GB, but only"
    ):
        class_statistics(X, codes, 100_000)
