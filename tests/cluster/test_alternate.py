import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import rand_score
from sklearn.preprocessing import minmax_scale

from genmetric import GenerativeMetric
from genmetric.cluster import alternate, cluster_metric
from genmetric.density import class_statistics

# The function of that name hides the module in the package.
MODULE = sys.modules["genmetric.cluster._alternate"]


def scaled(loader):
    X, y = loader(return_X_y=True)
    X = minmax_scale(X, (-1, 1))
    return X - X.mean(axis=0), y


def naive_loop(X, centers, shrinkage, interpolation, n_rounds):
    """The loop of appendix D of the paper, with plain scikit-learn estimators."""
    kmeans = KMeans(len(centers), init=centers, n_init=1, tol=0).fit(X)
    partitions = [kmeans.labels_]
    for _ in range(n_rounds):
        metric = GenerativeMetric(
            shrinkage=shrinkage, normalization="determinant", interpolation=interpolation
        )
        z = metric.fit_transform(X, partitions[-1])
        z /= np.linalg.det(metric.components_) ** (1 / X.shape[1])
        means = np.array([z[partitions[-1] == c].mean(axis=0) for c in range(len(centers))])
        partitions.append(KMeans(len(centers), init=means, n_init=1, tol=0).fit(z).labels_)
    return partitions, metric.metric_


@pytest.mark.parametrize("loader", [load_iris, load_wine])
@pytest.mark.parametrize(("shrinkage", "interpolation"), [(0.1, 0.7), ("auto", 0.3), (0.01, 1.0)])
def test_iteration_of_the_paper(loader, shrinkage, interpolation):
    X, _ = scaled(loader)
    start = X[[0, 70, 140]]
    loop = alternate(X, 3, shrinkage=shrinkage, interpolation=interpolation, init=start)
    n_rounds = len(loop.rounds) - 1
    assert n_rounds >= 2
    partitions, metric = naive_loop(X, start, shrinkage, interpolation, n_rounds)
    for ours, theirs in zip(loop.rounds, partitions, strict=True):
        assert np.array_equal(ours.labels, theirs)
    unit = metric / np.linalg.det(metric) ** (1 / len(metric))
    np.testing.assert_allclose(loop.rounds[-1].metric, unit, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("loader", "expected"), [(load_iris, 0.966), (load_wine, 0.985)])
def test_rand_index_with_defaults(loader, expected):
    X, y = scaled(loader)
    loop = alternate(X, 3, seeds=np.arange(5))
    assert loop.stopped_by == "labels"
    assert rand_score(y, loop.rounds[0].labels) < 0.95
    assert rand_score(y, loop.rounds[loop.best].labels) == pytest.approx(expected, abs=0.002)


def test_converged_labels_are_a_fixed_point():
    X, _ = scaled(load_iris)
    loop = alternate(X, 3, seeds=np.arange(5))
    last = loop.rounds[loop.best]
    again = alternate(X, 3, init=last.centers @ np.eye(4), max_iter=1)
    metric = cluster_metric(X, class_statistics(X, last.labels, 3))
    np.testing.assert_allclose(metric, last.metric, rtol=1e-12)
    # Euclidean k-means from there goes elsewhere: it is the metric that holds the labels.
    assert not np.array_equal(again.rounds[0].labels, last.labels)


def test_unexplained_fraction(rng):
    X = rng.normal(size=(60, 3))
    loop = alternate(X, 4)
    kept = loop.rounds[loop.best]
    root = np.linalg.cholesky(kept.metric)
    z = X @ root
    within = sum(
        np.sum((z[kept.labels == c] - z[kept.labels == c].mean(axis=0)) ** 2) for c in range(4)
    )
    assert kept.unexplained == pytest.approx(within / np.sum((z - z.mean(axis=0)) ** 2))


@given(
    seed=st.integers(0, 10_000),
    n_rows=st.integers(4, 40),
    n_features=st.integers(1, 6),
    n_clusters=st.integers(1, 4),
    heavy=st.booleans(),
)
@settings(max_examples=40)
def test_number_of_clusters_is_kept(seed, n_rows, n_features, n_clusters, heavy):
    rng = np.random.default_rng(seed)
    shape = n_rows, n_features
    X = rng.standard_t(2, size=shape) if heavy else rng.normal(size=shape)
    loop = alternate(X - X.mean(axis=0), n_clusters, seeds=np.arange(2))
    for each in loop.rounds:
        assert len(np.unique(each.labels)) == n_clusters
        # To the rounding of metrics whose eigenvalues span ten orders of magnitude.
        assert np.linalg.slogdet(each.metric)[1] == pytest.approx(0, abs=1e-6)
        assert np.linalg.eigvalsh(each.metric)[0] > 0
        assert 0 <= each.unexplained <= 1 + 1e-12
    assert len(loop.rounds) <= 21


def scripted(monkeypatch, partitions):
    """Let k-means return given partitions, one after the other."""
    queue = iter(np.asarray(p) for p in partitions)
    monkeypatch.setattr(MODULE, "lloyd", lambda *_: (next(queue), 0.0))


A, B, C = [0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]
ROWS = np.array([[-3.0, 0], [-2, 1], [-1.5, 0], [1.5, 1], [2, 0], [3, 1]])


@pytest.mark.parametrize("order", [(A, B, C, B), (A, C, B, C), (C, B, A, B), (A, B, A)])
def test_best_iteration_of_a_cycle_is_kept(monkeypatch, order):
    scripted(monkeypatch, order)
    said = []
    loop = alternate(ROWS, 2, init=ROWS[[0, 5]], report=said.append)
    assert loop.stopped_by == "cycle"
    last = len(order) - 1
    assert len(loop.rounds) == len(order)
    begin = order.index(order[-1]) + 1
    shares = [r.unexplained for r in loop.rounds]
    assert begin <= loop.best <= last
    assert shares[loop.best] == min(shares[begin:])
    assert "cycle" in said[-1]


def test_iteration_that_empties_a_cluster_is_rejected(monkeypatch):
    scripted(monkeypatch, (A, B, [1] * 6))
    loop = alternate(ROWS, 2, init=ROWS[[0, 5]])
    assert (loop.stopped_by, loop.best, len(loop.rounds)) == ("collapse", 1, 2)
    assert loop.rounds[loop.best].labels.tolist() == B


def test_max_iter_reached(monkeypatch):
    scripted(monkeypatch, (A, B, C))
    loop = alternate(ROWS, 2, init=ROWS[[0, 5]], max_iter=2)
    assert (loop.stopped_by, loop.best) == ("max_iter", 2)


def test_empty_cluster_keeps_its_centre(monkeypatch):
    scripted(monkeypatch, (A, A))
    centers = np.vstack([ROWS[[0, 5]], [[9.0, 9.0]]])
    loop = alternate(ROWS, 3, init=centers)
    assert loop.rounds[-1].centers[2].tolist() == [9, 9]
    assert loop.stopped_by == "labels"


def test_metric_of_clusters_of_one_sample():
    X = np.array([[0.0, 0], [1, 0], [0, 2], [5, 5]])
    metric = cluster_metric(X, class_statistics(X, np.arange(4), 4))
    assert np.isfinite(metric).all()
    assert np.linalg.det(metric) == pytest.approx(1)
    one = cluster_metric(X, class_statistics(X, np.zeros(4, int), 2))
    assert np.array_equal(one, np.eye(2))


def test_result_independent_of_n_jobs(rng):
    X = rng.normal(size=(300, 5)) + rng.normal(size=(3, 5)).repeat(100, axis=0)
    one, two = (alternate(X, 3, seeds=np.arange(4), n_jobs=n) for n in (1, 3))
    assert len(one.rounds) == len(two.rounds)
    for a, b in zip(one.rounds, two.rounds, strict=True):
        assert np.array_equal(a.labels, b.labels)
        assert np.array_equal(a.metric, b.metric)
        assert np.array_equal(a.centers, b.centers)
