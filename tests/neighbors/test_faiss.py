"""Neighbours by faiss: exact distances, scikit-learn's convention, results for every n_jobs."""

import copy
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_digits, load_iris
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from genmetric import FaissNeighborsTransformer, GenerativeMetric

pytest.importorskip("faiss")

KINDS = ["flat", "hnsw", "ivf"]


@parametrize_with_checks(
    [
        FaissNeighborsTransformer(mode="connectivity"),
        FaissNeighborsTransformer(index="hnsw"),
        FaissNeighborsTransformer(index="ivf", random_state=0),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def clusters(n, d, seed=0, n_clusters=20):
    rng = np.random.default_rng(seed)
    centers = 4 * rng.normal(size=(n_clusters, d))
    return centers[rng.integers(n_clusters, size=n)] + rng.normal(size=(n, d))


def naive(rows, queries, k):
    """Every distance, and a stable sort."""
    d = cdist(queries, rows)
    order = np.argsort(d, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(d, order, axis=1), order


def recall(found, true):
    shared = [len(np.intersect1d(a, b)) for a, b in zip(found, true, strict=True)]
    return np.mean(shared) / true.shape[1]


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_flat_is_exact(dtype, rtol):
    rows, queries = clusters(2000, 16).astype(dtype), clusters(300, 16, seed=1).astype(dtype)
    model = FaissNeighborsTransformer(7).fit(rows)
    true, order = naive(rows.astype(float), queries.astype(float), 7)
    for n in (1, 300):
        distances, indices = model.kneighbors(queries[:n])
        np.testing.assert_array_equal(indices, order[:n])
        np.testing.assert_allclose(distances, true[:n], rtol=rtol)


@pytest.mark.parametrize(("offset", "scale"), [(1e10, 1.0), (0.0, 1e90), (-5e3, 1e-90)])
@pytest.mark.parametrize("kind", KINDS)
def test_offsets_and_scales(kind, offset, scale):
    # Multiples of 1/64 keep all their digits at an offset of 1e10.
    rows = np.round(clusters(600, 8) * 64) / 64
    moved = (rows + offset) * scale
    model = FaissNeighborsTransformer(5, index=kind, n_probe=25, random_state=0).fit(moved)
    distances, indices = model.kneighbors(moved)
    true, order = naive(rows, rows, 5)
    assert recall(indices, order) > 0.99
    np.testing.assert_allclose(distances / scale, true, rtol=1e-6, atol=1e-9)


@settings(max_examples=60)
@given(
    n=st.integers(2, 60),
    d=st.integers(1, 4),
    kind=st.sampled_from(KINDS),
    levels=st.sampled_from([1, 2, 5, 1000]),
    data=st.data(),
)
def test_ties_and_few_samples(n, d, kind, levels, data):
    # Whatever the index misses, there are k different rows, in order, with true distances.
    rng = np.random.default_rng(data.draw(st.integers(0, 100)))
    rows = rng.integers(levels, size=(n, d)).astype(float)
    k = data.draw(st.integers(1, n))
    model = FaissNeighborsTransformer(k, index=kind, random_state=0).fit(rows)
    distances, indices = model.kneighbors(rows)
    assert all(len(set(row)) == k for row in indices.tolist())
    np.testing.assert_allclose(distances, np.take_along_axis(cdist(rows, rows), indices, axis=1))
    assert (np.diff(distances, axis=1) >= 0).all()
    if kind == "flat":
        np.testing.assert_allclose(distances, naive(rows, rows, k)[0])
    if k < n:
        own = model.kneighbors(return_distance=False, n_neighbors=k)
        assert all(i not in row and len(set(row)) == k for i, row in enumerate(own.tolist()))


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_recall_of_approximate_indexes(kind):
    rows, queries = clusters(10_000, 24, n_clusters=50), clusters(500, 24, seed=0, n_clusters=50)
    model = FaissNeighborsTransformer(10, index=kind, random_state=0).fit(rows)
    true = FaissNeighborsTransformer(10).fit(rows).kneighbors(queries, return_distance=False)
    assert recall(model.kneighbors(queries, return_distance=False), true) >= 0.95
    # They are approximate: looking at less finds less.
    model.set_params(ef_search=1, n_probe=1)
    assert recall(model.kneighbors(queries, return_distance=False), true) < 0.95


@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_copies_change_nothing(kind):
    rows, queries = clusters(1500, 8), clusters(5000, 8, seed=1)
    options = {"index": kind, "random_state": 0}
    models = [FaissNeighborsTransformer(5, n_jobs=n, **options).fit(rows) for n in (None, 2)]
    models += [pickle.loads(pickle.dumps(models[0])), copy.deepcopy(models[0])]
    first, *others = [model.transform(queries) for model in models]
    for graph in others:
        np.testing.assert_array_equal(graph.indices, first.indices)
        np.testing.assert_array_equal(graph.data, first.data)
    parallel = FaissNeighborsTransformer(5, deterministic=False, n_jobs=2, **options).fit(rows)
    assert recall(parallel.kneighbors(rows)[1], models[0].kneighbors(rows)[1]) > 0.95
    unfitted = clone(models[0])
    assert repr(copy.deepcopy(unfitted)) == repr(unfitted)


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_the_graph_is_that_of_scikit_learn(mode):
    X = load_digits().data[:400] + 1e-3 * np.random.default_rng(0).normal(size=(400, 64))
    ours, theirs = (
        cls(n_neighbors=6, mode=mode).fit(X[:300])
        for cls in (FaissNeighborsTransformer, KNeighborsTransformer)
    )
    for rows in (X[:300], X[300:]):
        a, b = ours.transform(rows), theirs.transform(rows)
        assert (a.shape, a.format, a.nnz) == (b.shape, "csr", b.nnz)
        np.testing.assert_allclose(a.toarray(), b.toarray(), atol=1e-5)
    a, b = (model.kneighbors_graph(mode=mode) for model in (ours, theirs))
    np.testing.assert_allclose(a.toarray(), b.toarray(), atol=1e-5)
    np.testing.assert_array_equal(ours.get_feature_names_out()[:1], ["faissneighborstransformer0"])


def test_before_estimators_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    X = X + 1e-3 * np.random.default_rng(0).normal(size=X.shape)
    Z = GenerativeMetric().fit(X, y).transform(X)
    votes = KNeighborsClassifier(5, metric="precomputed")
    knn = make_pipeline(FaissNeighborsTransformer(5), votes).fit(Z[::2], y[::2])
    plain = KNeighborsClassifier(5).fit(Z[::2], y[::2])
    np.testing.assert_array_equal(knn.predict(Z[1::2]), plain.predict(Z[1::2]))
    scan = DBSCAN(eps=0.6, min_samples=4, metric="precomputed")
    labels = make_pipeline(FaissNeighborsTransformer(100), scan).fit_predict(Z)
    np.testing.assert_array_equal(labels, DBSCAN(eps=0.6, min_samples=4).fit_predict(Z))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cosine_matches_scikit_learn(kind, dtype):
    lengths = 2.0 ** np.random.default_rng(1).integers(-90, 90, (430, 1))
    X = np.r_[clusters(400, 8), 3 * clusters(30, 8) + 0.1]
    rows, queries = np.split((X * lengths).astype(dtype), [400])
    model = FaissNeighborsTransformer(5, metric="cosine", index=kind, n_probe=20, random_state=0)
    distances, indices = model.fit(rows).kneighbors(queries)
    plain = NearestNeighbors(n_neighbors=5, metric="cosine", algorithm="brute").fit(X[:400])
    true, order = plain.kneighbors(X[400:])
    assert recall(indices, order) > 0.95
    same = (indices == order).all(axis=1)
    tolerance = 1e-12 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(distances[same], true[same], atol=tolerance)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"n_neighbors": 2.5}, "n_neighbors must be an integer >= 1; got 2.5"),
        ({"mode": "weights"}, "mode must be 'distance' or 'connectivity'; got 'weights'"),
        ({"metric": "dot"}, "metric must be 'euclidean' or 'cosine'; got 'dot'"),
        ({"index": "annoy"}, "index must be 'flat', 'hnsw' or 'ivf'; got 'annoy'"),
        ({"index": "ivf", "n_lists": 1000}, "n_lists=1000 is more than the 20 samples"),
        ({"index": "hnsw", "n_links": 1}, "n_links must be an integer >= 2; got 1"),
        ({"n_jobs": 0}, "n_jobs must be None, an integer >= 1"),
    ],
)
def test_invalid_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        FaissNeighborsTransformer(**parameters).fit(clusters(20, 3))


def test_invalid_input(monkeypatch):
    X = clusters(20, 3)
    model = FaissNeighborsTransformer(20).fit(X)
    assert model.kneighbors(X[:2])[1].shape == (2, 20)
    with pytest.raises(ValueError, match="one more than the parameter"):
        model.transform(X[:2])
    with pytest.raises(ValueError, match="a sample is not its own neighbour"):
        model.kneighbors()
    with pytest.raises(ValueError, match="Check X for outliers"):
        model.kneighbors(1e20 * X)
    cosine = FaissNeighborsTransformer(2, metric="cosine").fit(X)
    X[4] = 0
    for method in (cosine.kneighbors, cosine.fit):
        with pytest.raises(ValueError, match=r"X has 1 zero vector \(the first is sample 4\)"):
            method(X)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"genmetric\[ann\]"):
        FaissNeighborsTransformer().fit(X)
