"""Averages over a sample of rows, and their standard error."""

import numpy as np
import pytest

from genmetric import GenerativeMetric


def data(seed, n_features=8, n_rows=1500, n_classes=3):
    rng = np.random.default_rng(seed)
    X = [
        rng.normal(size=(n_rows, n_features))
        @ (np.eye(n_features) + 0.1 * rng.normal(size=(n_features, n_features)))
        + rng.normal(size=n_features)
        for _ in range(n_classes)
    ]
    return np.concatenate(X), np.repeat(np.arange(n_classes), n_rows)


def error(sample, full):
    return np.linalg.norm(sample.metric_ - full.metric_) / np.linalg.norm(full.metric_)


@pytest.mark.parametrize("solver", ["dense", "resolvent"])
@pytest.mark.parametrize("weighted", [False, True])
def test_standard_error_covers(solver, weighted):
    # The error of an average over 300 of 4500 rows, in units of its own standard error: its mean
    # square is one, and it seldom exceeds two.
    X, y = data(0)
    w = np.random.default_rng(1).integers(1, 4, len(y)).astype(float) if weighted else None
    parameters = {"solver": solver, "class_tol": 0.0}
    full = GenerativeMetric(**parameters).fit(X, y, sample_weight=w)
    ratios = []
    for seed in range(40):
        sample = GenerativeMetric(max_samples=300, random_state=seed, **parameters)
        sample.fit(X, y, sample_weight=w)
        ratios.append(error(sample, full) / sample.metric_stderr_)
    assert 0.75 < np.sqrt(np.mean(np.square(ratios))) < 1.25
    assert np.mean(np.array(ratios) < 2) >= 0.95


def test_no_error_with_every_sample():
    X, y = data(2, n_rows=100)
    assert GenerativeMetric().fit(X, y).metric_stderr_ == 0
    whole = GenerativeMetric(max_samples=1.0).fit(X, y)
    assert whole.metric_stderr_ == 0
    np.testing.assert_array_equal(whole.metric_, GenerativeMetric().fit(X, y).metric_)
    assert GenerativeMetric(max_samples=len(X) + 5).fit(X, y).metric_stderr_ == 0


def test_gaussians_use_every_sample():
    X, y = data(3, n_rows=200)
    sample = GenerativeMetric(max_samples=10, random_state=0).fit(X, y)
    np.testing.assert_array_equal(sample.covariances_, GenerativeMetric().fit(X, y).covariances_)


def two_balls(n_rows=20_000, n_features=30):
    """Two classes around one centre, of different size: metrics of little variance."""
    X = np.random.default_rng(0).normal(size=(2 * n_rows, n_features))
    X[n_rows:] *= 1.5
    return X, np.repeat([0, 1], n_rows)


@pytest.mark.parametrize("weighted", [False, True])
def test_auto_stops_at_one_per_cent(weighted):
    X, y = two_balls()
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float) if weighted else None
    full = GenerativeMetric().fit(X, y, sample_weight=w)
    auto = GenerativeMetric(max_samples="auto", random_state=0).fit(X, y, sample_weight=w)
    assert 0.005 < auto.metric_stderr_ <= 0.01
    assert error(auto, full) < 2 * auto.metric_stderr_
    again = GenerativeMetric(max_samples="auto", random_state=0, n_jobs=2)
    np.testing.assert_array_equal(again.fit(X, y, sample_weight=w).metric_, auto.metric_)


@pytest.mark.parametrize("weighted", [False, True])
def test_auto_uses_all_samples_if_needed(weighted):
    X, y = data(5, n_rows=800)
    w = np.random.default_rng(1).integers(1, 3, len(y)).astype(float) if weighted else None
    auto = GenerativeMetric(max_samples="auto", random_state=0).fit(X, y, sample_weight=w)
    full = GenerativeMetric().fit(X, y, sample_weight=w)
    assert auto.metric_stderr_ == 0
    np.testing.assert_allclose(auto.metric_, full.metric_, rtol=1e-9, atol=1e-9)
