"""Coordinates and class statistics: exact in one piece, in pieces, in any order, with weights."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric.density import ClassStatistics, Coordinates, class_statistics
from genmetric.density.gaussian import pooled_whitening
from genmetric.density.statistics import fourth_moments, pooled_statistics

FIELDS = list(ClassStatistics.__dataclass_fields__)
seeds = st.integers(0, 2**32 - 1)


def assert_same(found, expected, rtol=1e-11, atol=1e-11):
    expected = expected if isinstance(expected, tuple) else vars(expected).values()
    for name, value in zip(FIELDS, expected, strict=True):
        np.testing.assert_allclose(getattr(found, name), value, rtol=rtol, atol=atol, err_msg=name)


@given(st.integers(2, 30), st.integers(1, 5), st.floats(-130, 80), st.floats(-1e10, 1e10), seeds)
def test_samples_are_centred_and_of_size_one(n, D, exponent, offset, seed):
    E = np.random.default_rng(seed).normal(size=(n, D))
    E *= 2 / np.sqrt(E.var(axis=0).mean())
    X = 10.0**exponent * (E + offset)
    coordinates = Coordinates.of(X)
    inside = coordinates.apply(X)
    np.testing.assert_allclose(
        inside.mean(axis=0), 0, atol=1e-13 + 10 * np.spacing(1 + abs(offset))
    )
    assert 0.7 < np.sqrt(inside.var(axis=0).mean()) < 1.42
    assert np.log2(coordinates.scale) == np.round(np.log2(coordinates.scale))


def test_extreme_values():
    X = np.random.default_rng(0).uniform(-1, 1, size=(20, 3))
    for scale in (1e101, 1e160, 1e307):
        with pytest.raises(
            ValueError, match=r"X has values up to .*expected at most 1e\+100.*Divide"
        ):
            Coordinates.of(np.r_[scale * X, [[scale] * 3]])
    for scale in (1e-142, 1e-200, 1e-310):
        with pytest.raises(ValueError, match=r"spread of about .*Multiply X by a constant"):
            Coordinates.of(scale * X)
    constant = Coordinates.of(np.full((4, 2), 7.0))
    assert constant.scale == 1
    assert not constant.apply(np.full((4, 2), 7.0)).any()


@given(seeds)
def test_whitening_and_back(seed):
    rng = np.random.default_rng(seed)
    X, codes = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3)), rng.integers(0, 3, 200)
    X = 1e6 + 1e-3 * (X + 4 * rng.normal(size=(3, 3))[codes])
    plain = Coordinates.of(X)
    stats = class_statistics(X, codes, 3, coordinates=plain)
    white, _ = pooled_whitening(stats, plain)
    # A unit of a single feature changes nothing.
    units = np.array([1.0, 1e4, 1e-3])
    scaled = Coordinates.of(X * units)
    other, _ = pooled_whitening(class_statistics(X * units, codes, 3, coordinates=scaled), scaled)
    np.testing.assert_allclose(other.apply(X * units), white.apply(X), atol=1e-5)
    # Statistics follow the coordinates; moments of more than second order are computed again.
    inside, direct = stats.moved(plain, white), class_statistics(X, codes, 3, coordinates=white)
    for name in ("count", "mean", "scatter"):
        np.testing.assert_allclose(
            getattr(inside, name), getattr(direct, name), rtol=1e-6, atol=1e-7
        )
    assert not inside.fourth.any()
    np.testing.assert_allclose(fourth_moments(X, codes, direct.mean, white), direct.fourth)
    # Points, covariances and distances return to input space.
    Z = white.apply(X)
    np.testing.assert_allclose(white.restore(Z), X, rtol=1e-12)
    np.testing.assert_allclose(white.restore_covariances(np.cov(Z.T)), np.cov(X.T), rtol=1e-6)
    A = rng.normal(size=(3, 3))
    M = white.restore_metrics(A.T @ A)
    d, e = Z[0] - Z[1], X[0] - X[1]
    np.testing.assert_allclose(e @ M @ e, d @ A.T @ A @ d, rtol=1e-4)
    np.testing.assert_allclose(np.sum((white.restore_factor(A) @ e) ** 2), e @ M @ e, rtol=1e-6)
    np.testing.assert_allclose(white.apply_metric(M), A.T @ A, rtol=1e-6, atol=1e-9)
    assert (white.unit, plain.unit) == (1, plain.scale)


def test_the_pooled_covariance_becomes_the_identity(rng):
    X, codes = rng.normal(size=(5000, 4)) @ rng.normal(size=(4, 4)), rng.integers(0, 3, 5000)
    X[:, 3] = codes  # constant within the classes: its total spread takes the place
    plain = Coordinates.of(X)
    for compute in (class_statistics, pooled_statistics):
        white, _ = pooled_whitening(compute(X, codes, 3, coordinates=plain), plain)
        inside = class_statistics(X, codes, 3, coordinates=white)
        expected = np.diag([1.0, 1, 1, 0])
        np.testing.assert_allclose(inside.pooled_covariance, expected, atol=0.05)
        assert inside.total_covariance[3, 3] == pytest.approx(1, rel=0.05)


def test_metric_that_overflows_in_the_units_of_X(rng):
    X, codes = rng.normal(size=(40, 2)), np.arange(40) % 2
    X = 1e-138 * X * [1.0, 1e-14]
    plain = Coordinates.of(X)
    white, _ = pooled_whitening(class_statistics(X, codes, 2, coordinates=plain), plain)
    with pytest.raises(ValueError, match=r"metric overflows float64.*Multiply X"):
        white.restore_factor(1e3 * np.eye(2))


@st.composite
def weighted_rows(draw, max_offset=0.0):
    """Rows, class codes, number of classes, weights and the offset of the rows."""
    n, D, n_classes = (draw(st.integers(1, most)) for most in (40, 5, 4))
    offset = draw(st.floats(-max_offset, max_offset))
    rng = np.random.default_rng(draw(seeds))
    weights = rng.uniform(0.01, 9, n) * (rng.random(n) < 0.7)
    return offset + rng.normal(size=(n, D)), rng.integers(0, n_classes, n), n_classes, weights


@given(data=weighted_rows())
def test_definitions_and_frequencies(naive, data):
    X, codes, n_classes, weights = data
    found = class_statistics(X, codes, n_classes, sample_weight=weights)
    assert_same(found, naive.statistics(*data))
    pooled = pooled_statistics(X, codes, n_classes, sample_weight=weights)
    np.testing.assert_allclose(pooled.mean, found.mean, atol=1e-12)
    np.testing.assert_allclose(pooled.scatter[0], found.scatter.sum(axis=0), atol=1e-11)
    times = np.floor(weights).astype(int)
    if times.any():
        repeated = np.repeat(X, times, axis=0), np.repeat(codes, times)
        weighted = class_statistics(X, codes, n_classes, sample_weight=times.astype(float))
        assert_same(weighted, class_statistics(*repeated, n_classes))


@pytest.mark.parametrize("compute", [class_statistics, pooled_statistics])
@given(data=weighted_rows(max_offset=1e8), cuts=st.lists(st.integers(0, 40), max_size=6))
def test_pieces_merge_to_the_whole(compute, data, cuts):
    X, codes, n_classes, weights = data
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(X)}), len(X)]
    pieces = []
    for a, b in pairwise(edges):
        # A stream finds classes one by one.
        found, own = np.unique(codes[a:b], return_inverse=True)
        part = compute(X[a:b], own, len(found), sample_weight=weights[a:b])
        pieces.append(part.place(found, n_classes))
    whole = compute(X, codes, n_classes, sample_weight=weights)
    # A mean is known to the spacing of the numbers around it, and moments about it no better.
    spacing = 100 * np.spacing(1 + np.abs(X).max())
    assert_same(
        reduce(ClassStatistics.merge, pieces), whole, 1e-11 + spacing, 1e-11 + 100 * spacing
    )
    seen = np.flatnonzero(whole.count)
    np.testing.assert_array_equal(whole.take(seen).mean, whole.mean[seen])


def test_large_offset_changes_rounding_only(rng):
    E = rng.integers(-8, 9, size=(500, 3)) / 4.0  # exact at any offset below 2**50
    codes = rng.integers(0, 2, 500)
    at_zero, far = class_statistics(E, codes, 2), class_statistics(E + 2.0**40, codes, 2)
    # The spacing of float64 at 2**40 is 2.4e-4; raw sums of squares would have lost everything.
    np.testing.assert_allclose(far.covariances, at_zero.covariances, atol=1e-6)
    np.testing.assert_allclose(far.fourth, at_zero.fourth, rtol=1e-7)


def test_covariances_by_their_definitions(rng):
    X, codes = rng.normal(size=(60, 3)) * [1, 2, 3], rng.integers(0, 3, 60)
    X[codes == 1] += 4
    stats = class_statistics(X, codes, 3)
    E = X - stats.mean[codes]
    np.testing.assert_allclose(stats.pooled_covariance, E.T @ E / 60, rtol=1e-12)
    np.testing.assert_allclose(stats.total_covariance, np.cov(X.T, bias=True), rtol=1e-12)
    np.testing.assert_allclose(stats.covariances[2], np.cov(X[codes == 2].T, bias=True), rtol=1e-12)


@given(seeds, st.floats(-20, 20), st.floats(-1e3, 1e3))
def test_statistics_in_other_units(seed, exponent, shift):
    rng = np.random.default_rng(seed)
    X, codes = rng.normal(size=(30, 2)), rng.integers(0, 3, 30)
    source = Coordinates.of(X)
    target = Coordinates(np.full(2, shift), 2.0 ** round(exponent))
    moved = class_statistics(X, codes, 4, coordinates=source).moved(source, target)
    direct = class_statistics(X, codes, 4, coordinates=target)
    for name in FIELDS:
        value = getattr(direct, name)
        size = np.abs(value).max()
        np.testing.assert_allclose(getattr(moved, name), value, rtol=1e-8, atol=1e-8 * size)
    assert not moved.mean[3].any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
@pytest.mark.parametrize("compute", [class_statistics, pooled_statistics])
def test_threads_do_not_change_a_bit(rng, dtype, compute):
    X = (rng.normal(size=(200_003, 4)) * 20).astype(dtype)
    codes, weights = rng.integers(0, 3, len(X)), rng.random(len(X))
    coordinates = Coordinates(np.full(4, 2.0), 4.0)
    options = {"coordinates": coordinates, "sample_weight": weights}
    one, three = (compute(X, codes, 3, n_jobs=n_jobs, **options) for n_jobs in (1, 3))
    for name in FIELDS:
        assert np.array_equal(getattr(one, name), getattr(three, name))
    x = (X.astype(float) - 2) / 4
    if compute is class_statistics:
        assert_same(one, class_statistics(x, codes, 3, sample_weight=weights), rtol=1e-9, atol=1e-6)
