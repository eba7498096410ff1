import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.manifold import TSNE, Isomap
from sklearn.metrics import rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import minmax_scale

from genmetric import GenerativeMetric, MetricKMeans


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return minmax_scale(X, (-1, 1)), y


@pytest.fixture(scope="module")
def fitted(wine):
    return MetricKMeans(3, random_state=0).fit(wine[0])


def test_rand_index_on_all_samples(wine, fitted):
    assert rand_score(wine[1], fitted.labels_) == pytest.approx(0.985, abs=0.001)
    X, y = load_iris(return_X_y=True)
    iris = MetricKMeans(3, random_state=0).fit(minmax_scale(X, (-1, 1)))
    assert rand_score(y, iris.labels_) == pytest.approx(0.966, abs=0.001)
    assert iris.stopped_by_ == "labels"


def test_interpolation_of_zero_equals_kmeans(wine):
    X, _ = wine
    start = X[[0, 80, 150]]
    plain = KMeans(3, init=start, n_init=1, tol=0).fit(X)
    ours = MetricKMeans(3, interpolation=0.0, init=start).fit(X)
    assert np.array_equal(ours.labels_, plain.labels_)
    assert np.array_equal(ours.metric_, np.eye(13))
    np.testing.assert_allclose(ours.cluster_centers_, plain.cluster_centers_, rtol=1e-12)
    np.testing.assert_allclose(ours.transform(X), plain.transform(X), rtol=1e-9)
    assert ours.inertia_ == pytest.approx(plain.inertia_)
    assert ours.score(X) == pytest.approx(plain.score(X))


def test_attributes_agree_with_each_other(wine, fitted):
    X, _ = wine
    assert np.linalg.det(fitted.metric_) == pytest.approx(1)
    np.testing.assert_allclose(fitted.components_ @ fitted.components_, fitted.metric_, rtol=1e-9)
    np.testing.assert_allclose(fitted.get_mahalanobis_matrix(), fitted.metric_, rtol=1e-9)
    means = [X[fitted.labels_ == c].mean(axis=0) for c in range(3)]
    np.testing.assert_allclose(fitted.cluster_centers_, means, rtol=1e-9, atol=1e-12)
    assert np.array_equal(fitted.predict(X), fitted.labels_)
    metric = fitted.get_metric()
    naive = [[metric(x, c) for c in fitted.cluster_centers_] for x in X]
    np.testing.assert_allclose(fitted.transform(X), naive, rtol=1e-9)
    assert np.array_equal(np.argmin(naive, axis=1), fitted.labels_)
    assert fitted.inertia_ == pytest.approx(np.sum(np.min(naive, axis=1) ** 2))
    assert fitted.score(X) == pytest.approx(-fitted.inertia_)
    pairs = np.stack([X[:5], X[5:10]], axis=1)
    np.testing.assert_allclose(
        fitted.pair_distance(pairs), [metric(a, b) for a, b in pairs], rtol=1e-9
    )
    assert np.array_equal(fitted.pair_score(pairs), -fitted.pair_distance(pairs))
    assert len(fitted.unexplained_) == fitted.n_iter_ + 1
    assert fitted.best_iter_ == fitted.n_iter_
    assert list(fitted.get_feature_names_out()) == [f"metrickmeans{c}" for c in range(3)]
    assert not hasattr(fitted, "inverse_transform")


def test_result_independent_of_n_jobs(wine, fitted):
    for n_jobs in (1, 3):
        again = clone(fitted).set_params(n_jobs=n_jobs).fit(wine[0])
        assert np.array_equal(again.labels_, fitted.labels_)
        assert np.array_equal(again.metric_, fitted.metric_)
        assert np.array_equal(again.cluster_centers_, fitted.cluster_centers_)
        assert again.inertia_ == fitted.inertia_


def test_invariant_to_the_order_of_samples(wine, fitted, rng):
    order = rng.permutation(len(wine[0]))
    other = clone(fitted).fit(wine[0][order])
    assert np.array_equal(other.labels_, fitted.labels_[order])
    np.testing.assert_allclose(other.metric_, fitted.metric_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("factor", "offset"), [(1e150, 0), (1e-150, 0), (1, 1e10), (1e-5, 1e3)])
def test_invariant_to_scale_and_offset(factor, offset):
    # On a grid, so that an offset of 1e10 does not round the samples.
    X = np.round(minmax_scale(load_iris().data, (-1, 1)) * 2**12) / 2**12
    near = MetricKMeans(3, random_state=0).fit(X)
    moved = factor * X + offset
    far = MetricKMeans(3, random_state=0).fit(moved)
    assert np.array_equal(far.labels_, near.labels_)
    assert np.array_equal(far.predict(moved), near.labels_)
    np.testing.assert_allclose(far.metric_, near.metric_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(far.transform(moved), factor * near.transform(X), rtol=1e-4)
    assert far.inertia_ == pytest.approx(factor**2 * near.inertia_, rel=1e-4)
    np.testing.assert_allclose(
        far.cluster_centers_, factor * near.cluster_centers_ + offset, rtol=1e-4
    )


def test_weights_are_frequencies(wine, rng):
    X, _ = wine
    times = rng.integers(0, 3, size=len(X))
    weighted = MetricKMeans(3, random_state=0).fit(X, sample_weight=times)
    repeated = MetricKMeans(3, random_state=0).fit(np.repeat(X, times, axis=0))
    assert np.array_equal(np.repeat(weighted.labels_, times), repeated.labels_)
    np.testing.assert_allclose(weighted.metric_, repeated.metric_, rtol=1e-7, atol=1e-9)
    assert weighted.inertia_ == pytest.approx(repeated.inertia_)
    assert weighted.score(X, sample_weight=times) == pytest.approx(-weighted.inertia_)
    assert len(weighted.labels_) == len(X)
    both = MetricKMeans(3, random_state=0).fit_predict(X, sample_weight=times)
    assert np.array_equal(both, weighted.labels_)


def test_float32(wine):
    X = wine[0].astype(np.float32)
    model = MetricKMeans(3, random_state=0).fit(X)
    assert model.transform(X).dtype == np.float32
    assert model.metric_.dtype == np.float64


def test_constant_and_collinear_columns(wine):
    X, y = wine
    wide = np.column_stack([X, np.full(len(X), 7.0), X[:, 0]])
    model = MetricKMeans(3, random_state=0).fit(wide)
    assert np.isfinite(model.metric_).all()
    assert rand_score(y, model.labels_) > 0.95


def test_more_features_than_samples(rng):
    X = np.vstack([rng.normal(size=(8, 40)), 3 + rng.normal(size=(8, 40))])
    model = MetricKMeans(2, random_state=0).fit(X)
    assert rand_score([0] * 8 + [1] * 8, model.labels_) == 1


def test_one_cluster_is_euclidean(wine):
    model = MetricKMeans(1).fit(wine[0])
    assert np.array_equal(model.metric_, np.eye(13))
    assert not model.labels_.any()


def test_one_cluster_per_sample():
    X = np.array([[0.0, 0], [0, 1], [2, 0], [5, 5], [1, 4]])
    model = MetricKMeans(5, random_state=0).fit(X)
    assert sorted(model.labels_) == [0, 1, 2, 3, 4]
    assert model.inertia_ == 0


def test_fewer_distinct_samples_than_clusters():
    X = np.repeat([[0.0, 1], [2, 3]], 5, axis=0)
    with pytest.warns(ConvergenceWarning, match="2 of n_clusters=4"):
        model = MetricKMeans(4, random_state=0).fit(X)
    assert len(np.unique(model.labels_)) == 2
    assert np.isfinite(model.metric_).all()
    with pytest.warns(ConvergenceWarning, match="1 of n_clusters=2"):
        MetricKMeans(2).fit(np.ones((4, 3)))


def test_verbose_logs_the_iterations(wine, caplog):
    model = MetricKMeans(3, random_state=0, verbose=1).fit(wine[0])
    lines = caplog.messages
    assert len(lines) == model.n_iter_ + 1
    assert lines[-1].startswith(f"iteration {model.n_iter_}: 0 labels changed")


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"n_clusters": 0}, "n_clusters must be"),
        ({"n_clusters": 2.5}, "n_clusters must be"),
        ({"n_clusters": 20}, "n_samples=12 should be >= n_clusters=20"),
        ({"shrinkage": 2}, "shrinkage must be"),
        ({"interpolation": -0.1}, "interpolation must be"),
        ({"n_init": "auto"}, "n_init must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"init": "random"}, "init must be"),
        ({"init": np.zeros((3, 2))}, r"init must be .* here \(2, 2\)"),
        ({"init": None}, "init must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_invalid_parameters(params, text, rng):
    with pytest.raises(ValueError, match=text):
        MetricKMeans(**{"n_clusters": 2, **params}).fit(rng.normal(size=(12, 2)))


def test_invalid_samples(rng):
    X = rng.normal(size=(12, 2))
    model = MetricKMeans(2).fit(X)
    with pytest.raises(TypeError, match="masked"):
        model.fit(np.ma.masked_array(X))
    with pytest.raises(TypeError, match="masked"):
        model.predict(np.ma.masked_array(X))
    with pytest.raises(ValueError, match="sample_weight has negative"):
        model.fit(X, sample_weight=-np.ones(12))
    with pytest.raises(ValueError, match="of positive weight"):
        model.fit(X, sample_weight=np.eye(12)[0])


def test_pickle(wine, fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.transform(wine[0]), fitted.transform(wine[0]))


def test_embeddings_after_a_metric():
    X, y = load_digits(return_X_y=True)
    rows = np.flatnonzero(np.isin(y, (3, 5, 9)))[:150]
    X, y = X[rows], y[rows]
    # As many neighbours as keep the graph in one piece: the metric takes the digits apart.
    isomap = Isomap(n_neighbors=25)
    pipeline = make_pipeline(GenerativeMetric(), clone(isomap))
    embedded = pipeline.fit(X, y).transform(X)
    z = GenerativeMetric().fit_transform(X, y)
    np.testing.assert_allclose(embedded, isomap.fit(z).transform(z))
    assert pipeline.transform(X[:5]).shape == (5, 2)
    tsne = make_pipeline(GenerativeMetric(), TSNE(perplexity=10, max_iter=250, random_state=0))
    assert np.isfinite(tsne.fit_transform(X, y)).all()
    clusters = MetricKMeans(3, random_state=0).fit(X)
    assert np.isfinite(isomap.fit_transform(X @ clusters.components_.T)).all()
