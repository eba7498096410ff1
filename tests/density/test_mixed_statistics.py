"""Statistics of many classes in streams, against scatter matrices of all classes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genmetric.density import _mixed_statistics as mixed_statistics
from genmetric.density._factored_statistics import FactoredStatistics, model_statistics
from genmetric.density._mixed_statistics import (
    MixedStatistics,
    merge_classes,
    mergeable_statistics,
)
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import ClassStatistics, class_statistics

PLAIN = Scaling(np.zeros(6), 1.0)
N_CLASSES = 8


def samples(seed, n_samples=60):
    """Samples of six features in eight classes: some large, some of one sample, some without."""
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.geometric(0.3, n_samples) - 1, N_CLASSES - 1)
    X = rng.normal(size=(n_samples, 6)) * np.geomspace(3, 0.1, 6) + rng.normal(size=(8, 6))[codes]
    return X, codes


def assert_same_moments(found, expected):
    for name in ("count", "mean", "scatter", "third", "fourth"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-11, err_msg=name
        )


@given(seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_moments_of_samples(seed):
    X, codes = samples(seed)
    mixed = MixedStatistics.of(X, codes, N_CLASSES, frame=PLAIN)
    dense = class_statistics(X, codes, N_CLASSES, frame=PLAIN)
    assert_same_moments(mixed.to_scatters(), dense)
    assert mixed.total_variance == pytest.approx(dense.total_variance)
    np.testing.assert_array_equal(mixed.large, np.flatnonzero(dense.count > 6))


@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(0, 60), max_size=8))
@settings(max_examples=50)
def test_merges_equal_the_whole(seed, cuts):
    X, codes = samples(seed)
    expected = class_statistics(X, codes, N_CLASSES, frame=PLAIN)
    merged = MixedStatistics.of(X[:0], codes[:0], N_CLASSES, frame=PLAIN)
    for rows in np.split(np.arange(len(X)), sorted(cuts)):
        part = MixedStatistics.of(X[rows], codes[rows], N_CLASSES, frame=PLAIN)
        merged = merged.merge(part)
        assert np.diff(merged.starts).max() <= 6
    assert_same_moments(merged.to_scatters(), expected)
    # The same classes in the form of low-rank models.
    present, codes = np.unique(codes, return_inverse=True)
    factored = FactoredStatistics.of_mixed(merged.take(present))
    direct = FactoredStatistics.of(X, codes, len(present), frame=PLAIN)
    for name in ("traces", "squares", "pooled_covariance", "total_covariance", "fourth"):
        np.testing.assert_allclose(
            getattr(factored, name), getattr(direct, name), rtol=1e-9, atol=1e-11, err_msg=name
        )


def test_number_of_rows():
    # Merges add one row each, except to classes with a single sample, which need none.
    rng = np.random.default_rng(0)
    single = [
        MixedStatistics.of(rng.normal(size=(1, 6)), np.zeros(1, int), 1, frame=PLAIN)
        for _ in range(9)
    ]
    assert len(single[0].factors) == 0
    merged = single[0]
    for n_rows, part in enumerate(single[1:7], 1):
        merged = merged.merge(part)
        assert len(merged.factors) == n_rows
        assert len(merged.large) == 0
    assert merged.merge(single[7]).large.tolist() == [0]  # a seventh row of six features


def test_form_depends_on_the_number_of_classes(monkeypatch):
    monkeypatch.setattr(mixed_statistics, "MIN_SCATTER_ENTRIES", 36 * 6)
    X, codes = samples(1)
    few, many = codes < 3, codes >= 3
    left = mergeable_statistics(X[few], codes[few], 3, frame=PLAIN)
    right = mergeable_statistics(X[many], codes[many] - 3, 5, frame=PLAIN)
    assert isinstance(left, ClassStatistics)
    assert isinstance(right, ClassStatistics)
    merged = merge_classes((left, right), (np.arange(3), np.arange(3, 8)), N_CLASSES)
    assert isinstance(merged, MixedStatistics)
    expected = class_statistics(X, codes, N_CLASSES, frame=PLAIN)
    assert_same_moments(merged.to_scatters(), expected)
    # The scatter of n samples has rank n - 1.
    sizes = np.where(expected.count > 6, 0, np.maximum(expected.count - 1, 0))
    np.testing.assert_array_equal(np.diff(merged.starts), sizes)
    # Classes as in a fit of all samples in memory.
    small = merged.take(np.array([0, 4, 5]))
    assert_same_moments(
        model_statistics(small, allow_factors=True), expected.take(np.array([0, 4, 5]))
    )
    assert isinstance(model_statistics(merged, allow_factors=False), ClassStatistics)
    monkeypatch.setattr(FactoredStatistics, "saves_memory", lambda *_: True)
    assert isinstance(model_statistics(merged, allow_factors=True), FactoredStatistics)


def test_subsets_and_coordinates():
    X, codes = samples(2)
    mixed = MixedStatistics.of(X, codes, N_CLASSES, frame=PLAIN)
    dense = class_statistics(X, codes, N_CLASSES, frame=PLAIN)
    some = np.array([0, 2, 5])
    assert_same_moments(mixed.take(some).to_scatters(), dense.take(some))
    places = np.array([0, 1, 3, 4, 6, 7, 8, 10])
    assert_same_moments(mixed.spread(places, 11).to_scatters(), dense.spread(places, 11))
    assert_same_moments(mixed.rescaled(2.0**-3).to_scatters(), dense.rescaled(2.0**-3))
    assert mixed.rescaled(1.0) is mixed
    assert not mixed.is_zero
    assert MixedStatistics.of(0 * X, codes, N_CLASSES, frame=PLAIN).is_zero


def test_memory_of_scatters_is_checked(monkeypatch):
    def refuse(n_bytes, what, advice):
        raise MemoryError(f"{what}: {n_bytes} bytes. {advice}")

    monkeypatch.setattr(mixed_statistics, "check_memory", refuse)
    monkeypatch.setattr(mixed_statistics, "CHECKED_BYTES", 8 * 36 * 7)
    X, codes = samples(3)
    mixed = MixedStatistics.of(X, codes, N_CLASSES, frame=PLAIN)
    with pytest.raises(
        MemoryError, match="scatter matrices of 8 classes of 6 features: 2304 bytes"
    ):
        mixed.to_scatters()
