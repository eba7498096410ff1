import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import rand_score
from sklearn.preprocessing import minmax_scale

from genmetric import GenerativeMetric, MetricKMeans


def scaled(load):
    X, y = load(return_X_y=True)
    return minmax_scale(X, (-1, 1)), y


@pytest.fixture(scope="module")
def wine():
    return scaled(load_wine)


@pytest.fixture(scope="module")
def fitted(wine):
    return MetricKMeans(3, random_state=0).fit(wine[0])


def naive_loop(X, centers, shrinkage, interpolation, n_rounds):
    """The loop of appendix D of the paper, with plain scikit-learn estimators."""
    labels = KMeans(len(centers), init=centers, n_init=1, tol=0).fit(X).labels_
    for _ in range(n_rounds):
        metric = GenerativeMetric(
            shrinkage=shrinkage, normalization="determinant", interpolation=interpolation
        )
        z = metric.fit_transform(X, labels)
        means = np.array([z[labels == c].mean(axis=0) for c in range(len(centers))])
        labels = KMeans(len(centers), init=means, n_init=1, tol=0).fit(z).labels_
    unit = metric.metric_ / np.linalg.det(metric.metric_) ** (1 / X.shape[1])
    return labels, unit


@pytest.mark.parametrize("load", [load_iris, load_wine])
@pytest.mark.parametrize(("shrinkage", "interpolation"), [(0.1, 0.7), ("auto", 0.3), (0.01, 1.0)])
def test_iteration_of_the_paper(load, shrinkage, interpolation):
    X, _ = scaled(load)
    options = {"shrinkage": shrinkage, "interpolation": interpolation, "init": X[[0, 70, 140]]}
    whole = MetricKMeans(3, **options).fit(X)
    assert (whole.stopped_by_, whole.best_iter_) == ("labels", whole.n_iter_)
    assert whole.n_iter_ >= 2
    for n_rounds in range(1, whole.n_iter_ + 1):
        model = MetricKMeans(3, max_iter=n_rounds, **options).fit(X)
        labels, metric = naive_loop(X, X[[0, 70, 140]], shrinkage, interpolation, n_rounds)
        assert np.array_equal(model.labels_, labels)
        np.testing.assert_allclose(model.metric_, metric, rtol=1e-6, atol=1e-8)
        assert model.stopped_by_ == ("max_iter" if n_rounds < whole.n_iter_ else "labels")


@pytest.mark.parametrize(("load", "expected"), [(load_iris, 0.966), (load_wine, 0.985)])
def test_rand_index_with_defaults(load, expected):
    X, y = scaled(load)
    assert rand_score(y, KMeans(3, n_init=10, random_state=0).fit(X).labels_) < 0.95
    model = MetricKMeans(3, random_state=0).fit(X)
    assert rand_score(y, model.labels_) == pytest.approx(expected, abs=0.001)


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


def test_best_of_several_starts(rng):
    X = rng.normal(size=(90, 4))
    runs = [
        MetricKMeans(8, interpolation=0.0, n_init=n, random_state=0).fit(X).inertia_
        for n in (1, 3, 10)
    ]
    assert runs[0] >= runs[1] >= runs[2]
    assert runs[0] > runs[2]


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
    total = sum(metric(x, X.mean(axis=0), squared=True) for x in X)
    assert fitted.unexplained_[-1] == pytest.approx(fitted.inertia_ / total)
    assert len(fitted.unexplained_) == fitted.n_iter_ + 1
    assert list(fitted.get_feature_names_out()) == [f"metrickmeans{c}" for c in range(3)]
    assert not hasattr(fitted, "inverse_transform")


@given(
    seed=st.integers(0, 10_000),
    n_rows=st.integers(4, 40),
    n_features=st.integers(1, 6),
    n_clusters=st.integers(1, 4),
    heavy=st.booleans(),
)
@settings(max_examples=40)
def test_every_cluster_has_samples(seed, n_rows, n_features, n_clusters, heavy):
    rng = np.random.default_rng(seed)
    shape = n_rows, n_features
    X = rng.standard_t(2, size=shape) if heavy else rng.normal(size=shape)
    model = MetricKMeans(n_clusters, n_init=2, random_state=0).fit(X)
    assert len(np.unique(model.labels_)) == n_clusters
    # To the rounding of metrics whose eigenvalues span ten orders of magnitude.
    assert np.linalg.slogdet(model.metric_)[1] == pytest.approx(0, abs=1e-6)
    assert np.linalg.eigvalsh(model.metric_)[0] > 0
    assert (model.unexplained_ >= 0).all()
    assert (model.unexplained_ <= 1 + 1e-12).all()
    assert model.n_iter_ <= 20


@pytest.mark.parametrize("seed", [43, 59])
def test_best_iteration_of_a_cycle_is_kept(seed):
    rng = np.random.default_rng(seed)
    shape, n_clusters = (rng.integers(8, 40), rng.integers(2, 6)), int(rng.integers(2, 6))
    X = rng.integers(-3, 4, size=shape).astype(float)
    options = {"shrinkage": 0.01, "interpolation": 1.0, "n_init": 1, "random_state": 0}
    model = MetricKMeans(n_clusters, **options).fit(X)
    assert model.stopped_by_ == "cycle"
    partitions = [
        MetricKMeans(n_clusters, max_iter=n, **options).fit(X).labels_.tolist()
        for n in range(1, model.n_iter_)
    ]
    # The last iteration is that of the cycle, so its labels are those of an earlier one.
    assert model.best_iter_ < model.n_iter_
    assert model.labels_.tolist() == partitions[model.best_iter_ - 1]
    assert model.unexplained_[model.best_iter_] == model.unexplained_[-2:].min()


def test_iteration_that_empties_a_cluster_is_discarded(monkeypatch):
    X = np.array([[-3.0, 0], [-2, 1], [-1.5, 0], [1.5, 1], [2, 0], [3, 1]])
    partitions = iter([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1], [1] * 6])
    monkeypatch.setattr("genmetric.cluster.lloyd", lambda *_: (np.array(next(partitions)), 0.0))
    model = MetricKMeans(2, init=X[[0, 5]]).fit(X)
    assert (model.stopped_by_, model.best_iter_, model.n_iter_) == ("collapse", 1, 1)


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


@pytest.mark.parametrize(("factor", "offset"), [(1e90, 0), (1e-90, 0), (1, 1e10), (1e-5, 1e3)])
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
    both = MetricKMeans(3, random_state=0).fit_predict(X, sample_weight=times)
    assert np.array_equal(both, weighted.labels_)


def test_float32(wine):
    X = wine[0].astype(np.float32)
    model = MetricKMeans(3, random_state=0).fit(X)
    assert model.transform(X).dtype == np.float32
    assert model.metric_.dtype == np.float64


def test_unusual_samples(wine, rng):
    X, y = wine
    wide = np.column_stack([X, np.full(len(X), 7.0), X[:, 0]])  # a constant and a repeated feature
    assert rand_score(y, MetricKMeans(3, random_state=0).fit(wide).labels_) > 0.95
    few = np.vstack([rng.normal(size=(8, 40)), 3 + rng.normal(size=(8, 40))])
    assert rand_score([0] * 8 + [1] * 8, MetricKMeans(2, random_state=0).fit(few).labels_) == 1
    one = MetricKMeans(1).fit(X)
    assert np.array_equal(one.metric_, np.eye(13))
    assert not one.labels_.any()
    each = MetricKMeans(5, random_state=0).fit([[0.0, 0], [0, 1], [2, 0], [5, 5], [1, 4]])
    assert sorted(each.labels_) == [0, 1, 2, 3, 4]
    assert each.inertia_ == 0


def test_fewer_distinct_samples_than_clusters():
    with pytest.warns(ConvergenceWarning, match="2 of n_clusters=4") as caught:
        model = MetricKMeans(4, random_state=0).fit(np.repeat([[0.0, 1], [2, 3]], 5, axis=0))
    assert len(caught) == 1
    assert len(np.unique(model.labels_)) == 2
    assert np.isfinite(model.metric_).all()
    with pytest.warns(ConvergenceWarning, match="1 of n_clusters=2"):
        MetricKMeans(2).fit(np.ones((4, 3)))


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"n_clusters": 0}, "n_clusters must be"),
        ({"n_clusters": 20}, "n_samples=12 should be >= n_clusters=20"),
        ({"shrinkage": 2}, "shrinkage must be"),
        ({"interpolation": -0.1}, "interpolation must be"),
        ({"n_init": "auto"}, "n_init must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"init": "random"}, "init must be"),
        ({"init": np.zeros((3, 2))}, r"init must be .* here \(2, 2\)"),
        ({"init": None}, "init must be"),
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
