import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric import _chunks
from genmetric.cluster._lloyd import best_start, canonical_order, center_distances, lloyd
from genmetric.density import Scaling


def naive_lloyd(X, centers, weights):
    """Textbook k-means: loops over samples until no label changes."""
    labels = None
    while True:
        new = np.array([np.argmin([(x - c) @ (x - c) for c in centers]) for x in X])
        if labels is not None and np.array_equal(new, labels):
            return labels, sum(
                w * (x - centers[i]) @ (x - centers[i])
                for x, i, w in zip(X, labels, weights, strict=True)
            )
        labels = new
        centers = np.array(
            [np.average(X[labels == c], axis=0, weights=weights[labels == c]) for c in (0, 1, 2)]
        )


@pytest.fixture
def blobs(rng):
    """Three overlapping clusters, 90 samples of 4 features."""
    return rng.normal(size=(90, 4)) + 2 * rng.normal(size=(3, 4)).repeat(30, axis=0)


def test_lloyd_is_the_textbook_loop(blobs, rng):
    weights = rng.uniform(0.5, 2, size=90)
    start = blobs[[0, 30, 60]]
    labels, inertia = lloyd(blobs, start, weights)
    expected, total = naive_lloyd(blobs, start, weights)
    assert np.array_equal(labels, expected)
    assert inertia == pytest.approx(total, rel=1e-12)


def test_lloyd_with_too_few_samples_does_not_warn():
    labels, inertia = lloyd(np.ones((5, 2)), np.ones((3, 2)))
    assert len(np.unique(labels)) == 1
    assert inertia == 0


def test_best_start_has_the_least_inertia(blobs):
    runs = [best_start(blobs, 6, np.array([seed]))[1] for seed in range(8)]
    assert max(runs) > 1.001 * min(runs)
    assert best_start(blobs, 6, np.arange(8))[1] == pytest.approx(min(runs), rel=1e-8)


def test_best_start_independent_of_n_jobs(blobs):
    (one, a), (two, b) = (best_start(blobs, 6, np.arange(8), n_jobs=n) for n in (1, 3))
    assert a == b
    assert np.array_equal(one, two)


@given(seed=st.integers(0, 1000), n_rows=st.integers(1, 30))
def test_canonical_order_of_integers(seed, n_rows):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n_rows, 3)).astype(float)
    shuffled = X[rng.permutation(n_rows)]
    ordered = X[canonical_order(X)]
    assert np.array_equal(ordered, shuffled[canonical_order(shuffled)])
    # Equal samples are adjacent: each distinct sample starts one run.
    starts = 1 + np.count_nonzero((ordered[1:] != ordered[:-1]).any(axis=1))
    assert starts == len(np.unique(X, axis=0))


def test_weights_equal_repeated_samples_in_the_start(blobs):
    times = np.random.default_rng(0).integers(1, 4, size=90)
    twice = np.repeat(blobs, times, axis=0)
    labels = []
    for X, weights in ((blobs, times.astype(float)), (twice, None)):
        order = canonical_order(X)
        found = np.empty(len(X), int)
        weight = None if weights is None else weights[order]
        found[order] = best_start(X[order], 5, np.arange(3), sample_weight=weight)[0]
        labels.append(found)
    assert np.array_equal(np.repeat(labels[0], times), labels[1])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_center_distances(rng, monkeypatch, n_jobs):
    monkeypatch.setattr(_chunks, "CHUNK_BYTES", 2000)
    X, centers = 1e8 + rng.normal(size=(50, 3)), rng.normal(size=(4, 3))
    L = rng.normal(size=(3, 3))
    frame = Scaling(np.full(3, 1e8), 2.0)
    parts = center_distances(X, centers, L, frame=frame, n_jobs=n_jobs)
    assert len(parts) > 3
    expected = [[np.sum((L @ ((x - 1e8) / 2 - c)) ** 2) for c in centers] for x in X]
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=1e-12)
    nearest = center_distances(X, centers, L, frame=frame, reduce=lambda d2: d2.argmin(axis=1))
    assert np.array_equal(np.concatenate(nearest), np.argmin(expected, axis=1))


def test_sample_at_a_centre_has_distance_zero():
    X = np.array([[1e3, 1.0], [1e3, 1.0 + 1e-9]])
    (d2,) = center_distances(X, X[:1], np.eye(2))
    assert d2[0, 0] == 0
    assert d2[1, 0] == pytest.approx(1e-18, rel=1e-6)
