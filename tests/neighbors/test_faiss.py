"""Neighbours by faiss: exact distances, scikit-learn's convention, results for every n_jobs."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_digits, load_iris
from sklearn.manifold import Isomap
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from genmetric import FaissNeighborsTransformer, GenerativeMetric
from genmetric.neighbors import _faiss_search as faiss_search

pytest.importorskip("faiss")

KINDS = ["flat", "hnsw", "ivf"]


@parametrize_with_checks(
    [
        FaissNeighborsTransformer(),
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
    return (
        np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, true, strict=True)])
        / (true.shape[1])
    )


@pytest.mark.parametrize("n_queries", [1, 5, 300])
def test_flat_is_exact(n_queries):
    rows, queries = clusters(2000, 16), clusters(n_queries, 16, seed=1)
    model = FaissNeighborsTransformer(7).fit(rows)
    distances, indices = model.kneighbors(queries)
    true, order = naive(rows, queries, 7)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_allclose(distances, true, rtol=1e-12)


@pytest.mark.parametrize(
    ("offset", "scale"), [(1e10, 1.0), (0.0, 1e150), (-5e3, 1e-120), (1, 1e-3)]
)
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


def test_two_tight_clusters_far_from_each_other():
    # float32 sees all rows of a cluster in one place.
    rows = 1e-6 * clusters(1000, 6, n_clusters=1)
    rows[::2] += 1e3
    distances, indices = FaissNeighborsTransformer(5).fit(rows).kneighbors(rows)
    true, order = naive(rows, rows, 5)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_allclose(distances, true, atol=1e-12)


def test_float32_distances_are_not_enough(monkeypatch):
    monkeypatch.setattr(faiss_search, "_uncertain", lambda *_, **__: np.zeros(1, bool))
    rows = 1e-6 * clusters(1000, 6, n_clusters=1)
    rows[::2] += 1e3
    _, indices = FaissNeighborsTransformer(5).fit(rows).kneighbors(rows)
    assert recall(indices, naive(rows, rows, 5)[1]) < 0.9


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_many_samples_in_the_plane(kind, monkeypatch):
    # Neighbours are so near that float32 takes others for them; a few more settle it.
    monkeypatch.setattr(faiss_search, "nearest_neighbors", None)
    rows = np.random.default_rng(0).uniform(size=(40_000, 2))
    model = FaissNeighborsTransformer(5, index=kind, random_state=0).fit(rows)
    distances, _ = model.kneighbors(rows[:50])
    true, _ = naive(rows, rows[:50], 5)
    found = np.isclose(distances, true, rtol=1e-9, atol=1e-12).mean()
    assert found == 1 if kind == "flat" else found > 0.95


def test_outliers_do_not_add_candidates(monkeypatch):
    monkeypatch.setattr(faiss_search, "nearest_neighbors", None)
    rows = clusters(1000, 16)
    rows[0] = 1e4
    np.testing.assert_array_equal(
        FaissNeighborsTransformer(5).fit(rows).kneighbors(rows)[1], naive(rows, rows, 5)[1]
    )


def test_queries_far_away():
    rows = clusters(100, 4)
    distances, _ = FaissNeighborsTransformer(3).fit(rows).kneighbors([[1e300, 0, 0, 0], [1e20] * 4])
    np.testing.assert_allclose(distances[0], 1e300)
    np.testing.assert_allclose(distances[1], 2e20)


@settings(max_examples=60, deadline=None)
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
def test_threads_change_nothing(kind):
    rows, queries = clusters(1500, 8), clusters(5000, 8, seed=1)
    found = []
    for n_jobs in (None, 2, -1):
        model = FaissNeighborsTransformer(5, index=kind, n_jobs=n_jobs, random_state=0).fit(rows)
        found.append(model.transform(queries))
    for graph in found[1:]:
        np.testing.assert_array_equal(graph.indices, found[0].indices)
        np.testing.assert_array_equal(graph.data, found[0].data)


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_the_graph_is_that_of_scikit_learn(mode):
    X = load_digits().data[:400] + 1e-3 * np.random.default_rng(0).normal(size=(400, 64))
    ours, theirs = (
        cls(n_neighbors=6, mode=mode).fit(X[:300])
        for cls in (FaissNeighborsTransformer, KNeighborsTransformer)
    )
    for rows in (X[:300], X[300:]):
        a, b = ours.transform(rows), theirs.transform(rows)
        assert a.shape == b.shape
        assert a.format == "csr"
        assert a.nnz == b.nnz
        np.testing.assert_allclose(a.toarray(), b.toarray(), atol=1e-5)
    a, b = (model.kneighbors_graph(mode=mode) for model in (ours, theirs))
    np.testing.assert_allclose(a.toarray(), b.toarray(), atol=1e-5)
    assert a.diagonal().sum() == 0
    np.testing.assert_array_equal(ours.get_feature_names_out()[:1], ["faissneighborstransformer0"])


def test_before_estimators_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    X = X + 1e-3 * np.random.default_rng(0).normal(size=X.shape)
    Z = GenerativeMetric().fit(X, y).transform(X)

    def after(estimator, k):
        return make_pipeline(FaissNeighborsTransformer(k), estimator)

    knn = after(KNeighborsClassifier(5, metric="precomputed"), 5).fit(Z[::2], y[::2])
    plain = KNeighborsClassifier(5).fit(Z[::2], y[::2])
    np.testing.assert_array_equal(knn.predict(Z[1::2]), plain.predict(Z[1::2]))

    # A graph of so many neighbours that it is connected.
    embedded = after(Isomap(n_neighbors=60, metric="precomputed"), 60).fit_transform(Z)
    np.testing.assert_allclose(
        np.abs(embedded), np.abs(Isomap(n_neighbors=60).fit_transform(Z)), atol=1e-4
    )

    labels = after(DBSCAN(eps=0.6, min_samples=4, metric="precomputed"), 100).fit_predict(Z)
    np.testing.assert_array_equal(labels, DBSCAN(eps=0.6, min_samples=4).fit_predict(Z))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("duplicate", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
def test_copies_give_the_same_result(kind, duplicate):
    rows = clusters(500, 5)
    model = FaissNeighborsTransformer(4, index=kind, random_state=0).fit(rows)
    again = duplicate(model)
    for a, b in zip(model.kneighbors(rows), again.kneighbors(rows), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not hasattr(clone(model), "_index")
    assert repr(duplicate(clone(model))) == repr(clone(model))


def test_float32_samples_stay_float32():
    rows = clusters(500, 5).astype(np.float32)
    model = FaissNeighborsTransformer(4).fit(rows)
    assert model._rows.dtype == np.float32
    true, order = naive(rows.astype(float), rows.astype(float), 4)
    distances, indices = model.kneighbors(rows)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_allclose(distances, true, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be an integer >= 1; got 0"),
        ({"n_neighbors": 2.5}, "n_neighbors must be an integer >= 1; got 2.5"),
        ({"mode": "weights"}, "mode must be 'distance' or 'connectivity'; got 'weights'"),
        ({"metric": "dot"}, "metric must be 'euclidean' or 'cosine'; got 'dot'"),
        ({"index": "annoy"}, "index must be 'flat', 'hnsw' or 'ivf'; got 'annoy'"),
        ({"index": "ivf", "n_lists": 1000}, "n_lists=1000 is more than the 20 samples"),
        ({"index": "hnsw", "n_links": 1}, "n_links must be an integer >= 2; got 1"),
        ({"n_probe": 0}, "n_probe must be None or an integer >= 1; got 0"),
        ({"n_jobs": 0}, "n_jobs must be None or a"),
    ],
)
def test_invalid_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        FaissNeighborsTransformer(**parameters).fit(clusters(20, 3))


def test_more_neighbours_than_samples():
    model = FaissNeighborsTransformer(20).fit(clusters(20, 3))
    assert model.kneighbors(clusters(2, 3))[1].shape == (2, 20)
    with pytest.raises(ValueError, match="one more than the parameter"):
        model.transform(clusters(2, 3))
    with pytest.raises(ValueError, match="a sample is not its own neighbour"):
        model.kneighbors()


def test_without_faiss(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"genmetric\[ann\]"):
        FaissNeighborsTransformer().fit(clusters(20, 3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cosine_matches_scikit_learn(kind, dtype):
    rng = np.random.default_rng(0)
    X = (clusters(400, 8) * rng.uniform(0.1, 10, (400, 1))).astype(dtype)
    queries = (3 * clusters(30, 8, seed=0) + 0.1).astype(dtype)
    model = FaissNeighborsTransformer(5, metric="cosine", index=kind, n_probe=20, random_state=0)
    distances, indices = model.fit(X).kneighbors(queries)
    plain = NearestNeighbors(n_neighbors=5, metric="cosine", algorithm="brute").fit(X.astype(float))
    true, rows = plain.kneighbors(queries.astype(float))
    assert recall(indices, rows) > 0.95
    tolerance = 1e-12 if dtype == np.float64 else 1e-6
    same = (indices == rows).all(axis=1)
    np.testing.assert_allclose(distances[same], true[same], atol=tolerance)


def test_cosine_ignores_the_length_of_vectors():
    X = clusters(200, 5)
    lengths = 2.0 ** np.random.default_rng(1).integers(-500, 400, (200, 1))
    plain = FaissNeighborsTransformer(4, metric="cosine").fit(X).kneighbors()
    scaled = FaissNeighborsTransformer(4, metric="cosine").fit(X * lengths).kneighbors()
    np.testing.assert_array_equal(plain[1], scaled[1])
    np.testing.assert_allclose(plain[0], scaled[0], rtol=1e-12)


def test_cosine_on_unit_vectors_is_the_inner_product():
    X = clusters(300, 6)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    distances, indices = FaissNeighborsTransformer(3, metric="cosine").fit(X).kneighbors(X[:40])
    inner = X[:40] @ X.T
    np.testing.assert_array_equal(indices, np.argsort(-inner, axis=1, kind="stable")[:, :3])
    np.testing.assert_allclose(1 - distances, np.sort(inner, axis=1)[:, :-4:-1], atol=1e-12)


def test_cosine_of_a_zero_vector_is_an_error():
    X = clusters(20, 3)
    model = FaissNeighborsTransformer(2, metric="cosine").fit(X)
    X[4] = 0
    for method in (model.kneighbors, model.fit):
        with pytest.raises(ValueError, match=r"X has 1 zero vector \(the first is sample 4\)"):
            method(X)
