"""Contributions of features to squared distances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric.inspection import (
    LearnedMetric,
    feature_contributions,
    learned_metric,
    linear_map,
    pair_contributions,
)


def naive_shares(X, M):
    """Mean contribution of each feature over all pairs, pair by pair."""
    parts = np.zeros(X.shape[1])
    for a in X:
        for b in X:
            d = a - b
            for i in range(len(d)):
                parts[i] += d[i] * sum(M[i, j] * d[j] for j in range(len(d)))
    return parts / parts.sum()


def problem(seed, n, d):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)
    return X, PCA(min(n, d), whiten=True).fit(rng.normal(size=(n + d, d)) @ rng.normal(size=(d, d)))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 8), d=st.integers(1, 4))
def test_shares_equal_a_loop_over_pairs(seed, n, d):
    X, fitted = problem(seed, n, d)
    shares = np.array(list(feature_contributions(fitted, X).values()))
    M = linear_map(fitted).metric
    np.testing.assert_allclose(shares, naive_shares(X, M), rtol=1e-7, atol=1e-9)
    assert shares.sum() == pytest.approx(1.0)
    C = np.atleast_2d(np.cov(X, rowvar=False))
    np.testing.assert_allclose(shares, (M * C).sum(1) / (M * C).sum(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(learned_metric(fitted, X).contributions, shares, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 6), d=st.integers(1, 5))
def test_pair_contributions_sum_to_the_squared_distance(seed, n, d):
    rng = np.random.default_rng(seed)
    L, pairs = rng.normal(size=(d, d)), rng.normal(size=(n, 2, d))
    differences = pairs[:, 1] - pairs[:, 0]
    parts = pair_contributions(differences, L.T @ L)
    np.testing.assert_allclose(parts.sum(1), np.sum((differences @ L.T) ** 2, axis=1), rtol=1e-9)


def test_a_compensated_feature_has_a_negative_share():
    rng = np.random.default_rng(0)
    a = rng.normal(size=500)
    X = np.column_stack([a, 0.5 * a + 0.05 * rng.normal(size=500)])
    M = np.array([[1.0, -1.2], [-1.2, 2.0]])
    shares = (M * np.cov(X.T)).sum(1) / (M * np.cov(X.T)).sum()
    assert shares[1] < 0 < np.diag(M)[1]


def test_units_and_shifts_do_not_change_shares(samples):
    X, y = samples
    model = make_pipeline(StandardScaler(), GenerativeMetric(), KNeighborsClassifier())
    first = learned_metric(model.fit(X, y), X)
    factors = np.array([1e-3, 1.0, 1e6, 7.0, 1.0])
    second = learned_metric(model.fit(X * factors + 3.0, y), X * factors + 3.0)
    np.testing.assert_allclose(first.contributions, second.contributions, rtol=1e-5)
    np.testing.assert_allclose(first.eigenvalues, second.eigenvalues, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_extreme_scales(samples, scale):
    X, y = samples
    first = learned_metric(GenerativeMetric().fit(X, y), X)
    second = learned_metric(GenerativeMetric().fit(X * scale, y), X * scale)
    np.testing.assert_allclose(first.contributions, second.contributions, rtol=1e-5)
    np.testing.assert_allclose(first.matrix, second.matrix, rtol=1e-5, atol=1e-9)


def test_a_constant_feature_has_no_share(samples):
    X, y = samples
    X = np.column_stack([X, np.full(len(X), 1e8 / 3)])
    found = learned_metric(make_pipeline(StandardScaler(), GenerativeMetric()).fit(X, y), X)
    assert found.contributions[-1] == 0
    assert np.isfinite(found.matrix).all()


def test_matrix_of_standardised_features(samples):
    X, y = samples
    metric = GenerativeMetric().fit(X, y)
    s = X.std(axis=0)
    expected = metric.metric_ * s * s[:, None]
    found = learned_metric(metric, X)
    np.testing.assert_allclose(
        found.matrix, expected / np.diag(expected).mean(), rtol=1e-8, atol=1e-12
    )
    plain = learned_metric(metric)
    assert plain.contributions is None
    assert not plain.standardized
    np.testing.assert_allclose(
        plain.matrix, metric.metric_ / np.diag(metric.metric_).mean(), rtol=1e-9, atol=1e-12
    )
    p = np.linalg.eigvalsh(found.matrix) / np.trace(found.matrix)
    assert found.effective_rank == pytest.approx(np.prod(p**-p))


def test_invalid_arguments(samples):
    X, y = samples
    metric = GenerativeMetric().fit(X, y)
    with pytest.raises(ValueError, match="zero or not finite"):
        learned_metric(metric, np.ones_like(X))


def test_effective_rank_of_known_spectra():
    for metric, rank in ((np.diag([3.0, 0.0]), 1), (0.2 * np.eye(7), 7)):
        found = LearnedMetric(metric, tuple("abcdefg"[: len(metric)]), standardized=False)
        assert found.effective_rank == pytest.approx(rank)
