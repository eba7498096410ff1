"""EmbeddingAdapter against its equations, one sample at a time; streams, merging, invalid input."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh
from scipy.stats import multivariate_normal
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import normalize

from genmetric import LMNN, EmbeddingAdapter, GenerativeMetric, GenerativeMetricCV, MetricKMeans
from genmetric.metrics import mean_average_precision_at_r


def simulated(n_classes, n_each, n_features=12, seed=0):
    """Return samples of classes that differ more in some features than in others, and labels."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n_each)
    means = rng.normal(size=(n_classes, n_features)) * np.linspace(0, 2, n_features)
    noise = rng.normal(size=(len(y), n_features)) * np.linspace(2, 0.5, n_features)
    return means[y] + noise + 1, y


@pytest.fixture
def embeddings():
    """Return 200 float32 samples of five classes and 12 features, and their labels."""
    X, y = simulated(5, 40)
    return X.astype(np.float32), y


def naive_covariances(X, y):
    """Return W, B and the Rao-Blackwell Ledoit-Wolf shrinkage of W, by their formulas."""
    n, D = X.shape
    classes = [X[y == c] for c in np.unique(y)]
    C, mean = len(classes), X.mean(axis=0)
    W = sum((x - part.mean(axis=0))[:, None] * (x - part.mean(axis=0))
            for part in classes for x in part) / (n - C)  # fmt: skip
    between = sum(len(p) * np.outer(p.mean(axis=0) - mean, p.mean(axis=0) - mean) for p in classes)
    n0 = (n - sum(len(p) ** 2 for p in classes) / n) / (C - 1)
    B = (between / (C - 1) - W) / n0
    square, trace2, dof = np.trace(W @ W), np.trace(W) ** 2, n - C
    s = ((dof - 2) / dof * square + trace2) / ((dof + 2) * (square - trace2 / D))
    return W, B, min(s, 1.0)


def naive_model(X, y, within_factor, between_shrinkage, **_):
    """Return the shrunk covariances of the two-covariance model."""
    W, B, s = naive_covariances(X, y)
    t, T = between_shrinkage, W + B
    s = within_factor * s / (1 - s + within_factor * s)
    identity = np.trace(W) / len(W) * np.eye(len(W))
    return (1 - s) * W + s * identity, (1 - t) * B + t * np.trace(B) / np.trace(T) * T


def naive_map(X, y, params, n_components=None):
    """Return the map L of given parameters."""
    W, B = naive_model(X, y, **params)
    ratios, vectors = eigh(B, W)
    ratios, axes = np.maximum(ratios[::-1], 0)[:n_components], vectors.T[::-1][:n_components]
    g = {"whitening": ratios**0, "reliability": ratios / (1 + ratios),
         "detection": ratios / (1 + ratios) ** 2}[params["weighting"]]  # fmt: skip
    L = axes * np.sqrt(g / (g @ (1 + ratios)))[:, None]
    return L * np.sign(L[np.arange(len(L)), np.abs(L).argmax(axis=1)])[:, None]


def outputs_by_definition(adapter, X):
    """Return the outputs of an adapter by its equation, in float64, one sample at a time."""
    out = []
    for x in np.asarray(X, float):
        z = adapter.components_.astype(float) @ (x / np.linalg.norm(x) - adapter.mean_)
        out.append(z / np.linalg.norm(z))
    return np.array(out)


@pytest.mark.parametrize("metric", [None, GenerativeMetric(base="pooled")])
def test_outputs_follow_the_equation(metric, embeddings):
    X, y = embeddings[0].astype(float), embeddings[1]
    adapter = EmbeddingAdapter(metric, random_state=0).fit(X, y)
    np.testing.assert_allclose(adapter.transform(X), outputs_by_definition(adapter, X), rtol=1e-9)
    np.testing.assert_allclose(adapter.mean_, normalize(X).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(adapter.bias_, -adapter.components_ @ adapter.mean_, rtol=1e-9)
    pairs = X[[[0, 1], [5, 100]]]
    z = adapter.transform(X)
    expected = np.linalg.norm(z[[0, 5]] - z[[1, 100]], axis=1)
    np.testing.assert_allclose(adapter.pair_distance(pairs), expected, rtol=1e-9)
    if metric is not None:
        fitted = adapter.metric_estimator_
        np.testing.assert_allclose(fitted.metric_, fitted.fit(normalize(X), y).metric_, rtol=1e-9)
        assert adapter.best_params_ == adapter.cv_results_ == {}
        assert not any(hasattr(adapter, name) for name in ("fit_batches", "merge", "pair_score"))


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("n_components", [None, 4])
def test_default_map_is_that_of_the_selected_parameters(scaled, n_components, embeddings):
    X, y = embeddings[0].astype(float), embeddings[1]
    adapter = EmbeddingAdapter(normalize=scaled, n_components=n_components, random_state=0)
    adapter.fit(X, y)
    u = normalize(X) if scaled else X
    expected = naive_map(u, y, adapter.best_params_, n_components)
    np.testing.assert_allclose(adapter.components_, expected, rtol=1e-7, atol=1e-9)
    assert adapter.metric_estimator_ is None
    assert adapter.best_params_ in adapter.cv_results_["params"]
    assert adapter.cv_results_["training_classes"].shape == (36,)


def test_pair_score_is_the_log_likelihood_ratio(embeddings):
    X, y = embeddings[0].astype(float), embeddings[1]
    adapter = EmbeddingAdapter(search_classes="training", random_state=0).fit(X, y)
    W, B = naive_model(normalize(X), y, **adapter.best_params_)
    values, vectors = eigh(B, W)
    B = (W @ vectors * np.maximum(values, 0)) @ vectors.T @ W  # without negative ratios
    pairs = X[np.random.default_rng(0).integers(200, size=(50, 2))]
    u = np.concatenate([normalize(pairs[:, 0]), normalize(pairs[:, 1])], axis=1)
    mean, T, none = np.tile(adapter.mean_, 2), W + B, np.zeros_like(W)
    same = multivariate_normal(mean, np.block([[T, B], [B, T]])).logpdf(u)
    different = multivariate_normal(mean, np.block([[T, none], [none, T]])).logpdf(u)
    np.testing.assert_allclose(adapter.pair_score(pairs), same - different, rtol=1e-6, atol=1e-6)


def test_pair_score_tells_pairs_apart(embeddings):
    X, y = embeddings
    adapter = EmbeddingAdapter(n_components=3, random_state=0).fit(X, y)
    first, second = np.random.default_rng(1).integers(200, size=(2, 2000))
    scores = adapter.pair_score(np.stack([X[first], X[second]], axis=1))
    same = y[first] == y[second]
    assert np.mean(scores[same] > 0) > 0.9
    assert np.mean(scores[~same] < 0) > 0.9
    with pytest.raises(ValueError, match="expected an array of shape"):
        adapter.pair_score(X)
    with pytest.raises(ValueError, match="X has 5 features, but EmbeddingAdapter is expecting 12"):
        adapter.pair_score(np.ones((3, 2, 5)))


def test_estimates_of_the_reference_are_unbiased():
    """The mean of W and B over many draws is the truth, with classes of different sizes."""
    rng = np.random.default_rng(0)
    W, B = np.diag([1.0, 2.0, 0.5]), np.diag([0.5, 0.1, 1.0])
    y = np.repeat(np.arange(8), [1, 2, 3, 3, 5, 9, 1, 4])
    found = []
    for _ in range(500):
        means = rng.normal(size=(8, 3)) @ np.sqrt(B)
        X = means[y] + rng.normal(size=(len(y), 3)) @ np.sqrt(W)
        found.append(naive_covariances(X, y)[:2])
    np.testing.assert_allclose(np.mean(found, axis=0), [W, B], atol=0.1)


@pytest.mark.parametrize("scaled", [True, False])
def test_scores_by_definition(scaled):
    """Scores of new classes are those of fits and searches that are written out here."""
    X, y = simulated(12, 5, 6)
    X = normalize(X)
    adapter = EmbeddingAdapter(
        search_classes="new", n_components=3, normalize=scaled, random_state=3
    ).fit(X, y)
    fold = np.random.RandomState(3).permutation(np.arange(12) % 3)[y]
    for index in (0, 10, 35):
        params, scores = adapter.cv_results_["params"][index], []
        for train, test in ((fold != k, fold == k) for k in range(3)):
            z = (X[test] - X[train].mean(axis=0)) @ naive_map(X[train], y[train], params, 3).T
            metric = "cosine" if scaled else "euclidean"
            scores.append(mean_average_precision_at_r(z, y[test], metric=metric))
        np.testing.assert_allclose(adapter.cv_results_["new_classes"][index], np.mean(scores))


def test_searches_that_the_map_is_selected_on(embeddings):
    kinds = {"any": ["new_classes", "training_classes"], "new": ["new_classes"]}
    for value, scored in (kinds | {"training": ["training_classes"]}).items():
        adapter = EmbeddingAdapter(search_classes=value, random_state=0).fit(*embeddings)
        results = adapter.cv_results_
        assert list(results) == ["params", *scored]
        first, last = results[scored[0]], results[scored[-1]]
        allowed = np.flatnonzero(first >= 0.97 * first.max()) if value == "any" else range(36)
        best = max(allowed, key=lambda i: last[i])
        assert adapter.best_params_ == results["params"][best]


def test_held_out_samples_improve_with_the_map():
    X, y = simulated(30, 20, 20)
    adapter = EmbeddingAdapter(random_state=0).fit(X[::2], y[::2])
    before, after = (
        mean_average_precision_at_r(a, y[::2], queries=b, query_labels=y[1::2], metric="cosine")
        for a, b in ((X[::2], X[1::2]), map(adapter.transform, (X[::2], X[1::2])))
    )
    assert after > before + 0.1


def test_many_features_are_reduced_for_the_selection_only():
    X, y = simulated(30, 4, 400)
    adapter = EmbeddingAdapter(n_components=350, search_classes="new").fit(X, y)
    assert adapter.components_.shape == (350, 400)
    assert adapter.transform(X).shape == (120, 350)


def test_threads_do_not_change_a_bit(embeddings):
    one, two = (EmbeddingAdapter(n_jobs=n, random_state=0).fit(*embeddings) for n in (None, 2))
    np.testing.assert_array_equal(one.components_, two.components_)


# Types, scales and weights


def test_float32(embeddings):
    X, y = embeddings
    adapter = EmbeddingAdapter(random_state=0).fit(X, y)
    arrays = (adapter.components_, adapter.mean_, adapter.bias_, adapter.transform(X))
    assert {a.dtype for a in arrays} == {np.dtype(np.float32)}
    np.testing.assert_allclose(adapter.transform(X), outputs_by_definition(adapter, X), atol=1e-5)
    assert adapter.transform(X.astype(float)).dtype == np.float64
    names = EmbeddingAdapter(n_components=2).fit(X, y).get_feature_names_out()
    assert list(names) == ["embeddingadapter0", "embeddingadapter1"]


def test_transform_makes_no_float64_copy():
    """The peak memory of a transform of float32 samples is a few times theirs, not float64."""
    import tracemalloc

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400_000, 20)).astype(np.float32)
    adapter = EmbeddingAdapter().fit(X[:100], rng.integers(2, size=100))
    tracemalloc.start()
    adapter.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4.5 * X.nbytes


@settings(max_examples=6, deadline=None)
@given(st.floats(-30, 30), st.integers(0, 2**32 - 1))
def test_lengths_of_samples_do_not_matter(exponent, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(30, 4)), np.arange(30) % 3
    lengths = 10.0 ** rng.uniform(-abs(exponent), abs(exponent), size=(30, 1))
    one, other = (EmbeddingAdapter(random_state=0).fit(Z, y).transform(Z) for Z in (X, X * lengths))
    np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-90, 1e-30, 1e30, 1e90])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_scales_without_normalize(scale, offset):
    X, y = simulated(4, 10, 5)
    plain = EmbeddingAdapter(normalize=False, random_state=0).fit(X + offset, y)
    scaled = EmbeddingAdapter(normalize=False, random_state=0).fit((X + offset) * scale, y)
    assert scaled.best_params_ == plain.best_params_
    np.testing.assert_allclose(scaled.components_ * scale, plain.components_, rtol=1e-5, atol=1e-9)


def test_outliers_beyond_the_range_are_an_error():
    X, y = simulated(4, 10, 5)
    X[3, 2] = 1e200
    with pytest.raises(ValueError, match=r"values of size 1e\+200.*normalize=True"):
        EmbeddingAdapter(normalize=False).fit(X, y)
    assert np.isfinite(EmbeddingAdapter().fit(X, y).transform(X)).all()


def test_a_zero_vector_stays_zero(embeddings):
    X, y = embeddings
    X = X.copy()
    X[7] = 0
    adapter = EmbeddingAdapter(random_state=0).fit(X, y)
    np.testing.assert_allclose(adapter.mean_, normalize(X).mean(axis=0), rtol=1e-5)
    expected = adapter.bias_ / np.linalg.norm(adapter.bias_)
    np.testing.assert_allclose(adapter.transform(X[7:8])[0], expected, rtol=1e-4)


@pytest.mark.parametrize("metric", [None, GenerativeMetric(base="pooled")])
def test_sample_weights_are_frequencies(metric, embeddings):
    X, y, repeats = embeddings[0].astype(float), embeddings[1], np.arange(200) % 3
    weighted = EmbeddingAdapter(metric, random_state=0).fit(X, y, sample_weight=repeats)
    X2, y2 = np.repeat(X, repeats, axis=0), np.repeat(y, repeats)
    if metric is None:  # repeated samples fall into different splits, so parameters may differ
        expected = naive_map(normalize(X2), y2, weighted.best_params_)
    else:
        expected = EmbeddingAdapter(metric).fit(X2, y2).components_
    np.testing.assert_allclose(weighted.components_, expected, rtol=1e-6, atol=1e-8)
    assert weighted.n_samples_seen_ == repeats.sum()


# Streams


def fitted_in(way, X, y, parts, **parameters):
    """Return an adapter that was fitted on parts of the samples."""
    adapter = EmbeddingAdapter(random_state=0, **parameters)
    if way == "fit_batches":
        return adapter.fit_batches(lambda: ((X[rows], y[rows]) for rows in parts))
    if way == "partial_fit":
        for rows in parts:
            adapter.partial_fit(X[rows], y[rows])
        return adapter
    several = [
        EmbeddingAdapter(random_state=0, **parameters).partial_fit(X[rows], y[rows])
        for rows in parts
    ]
    while len(several) > 1:  # in pairs, as on a cluster
        several = [
            several[i].merge(several[i + 1]) if i + 1 < len(several) else several[i]
            for i in range(0, len(several), 2)
        ]
    return several[0]


def assert_same_fit(one, other, X):
    assert one.best_params_ == other.best_params_
    for name in ("new_classes", "training_classes"):
        np.testing.assert_array_equal(one.cv_results_.get(name, 0), other.cv_results_.get(name, 0))
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_allclose(one.mean_, other.mean_, rtol=1e-9)
    np.testing.assert_allclose(one.transform(X), other.transform(X), atol=1e-7)
    assert one.n_samples_seen_ == other.n_samples_seen_


@settings(max_examples=5, deadline=None)
@given(st.lists(st.integers(1, 59), min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_every_way_to_fit_in_parts_equals_fit(cuts, seed):
    rng = np.random.default_rng(seed)
    X, y = simulated(6, 10, 3, seed)
    order = rng.permutation(60)
    X, y = X[order] + 100, np.array(list("abcdef"))[y[order]]
    parts = np.split(np.arange(60), sorted(set(cuts)))
    whole = EmbeddingAdapter(normalize=False, random_state=0).fit(X, y)
    for way in ("fit_batches", "partial_fit", "merge"):
        assert_same_fit(fitted_in(way, X, y, parts, normalize=False), whole, X)


@pytest.fixture
def few_samples(monkeypatch):
    """Let the selection use 160 samples instead of 3072, because it takes most of the time."""
    monkeypatch.setattr("genmetric.learners.embedding.MAX_SAMPLES", 160)


@pytest.mark.usefixtures("few_samples")
@pytest.mark.parametrize(
    ("n_classes", "n_each"), [(4, 70), (40, 7), (60, 12)], ids=["large", "small", "many"]
)
def test_more_samples_than_the_selection_uses(n_classes, n_each):
    """Samples for the selection are the same in whatever parts they arrive: whole classes."""
    X, y = simulated(n_classes, n_each, 4)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    whole = EmbeddingAdapter(random_state=0).fit(X, y)
    parts = np.split(np.arange(len(X)), [20, 170])
    for way in ("fit_batches", "partial_fit", "merge"):
        assert_same_fit(fitted_in(way, X, y, parts), whole, X[:50])


@pytest.mark.usefixtures("few_samples")
def test_a_stream_of_many_small_classes_finds_as_good_a_map():
    """Single samples, one of nearly every class, would leave no pairs to select parameters on."""
    X, y = simulated(300, 6, 12)
    train, order = y < 250, np.random.default_rng(0).permutation(1500)
    cosine = mean_average_precision_at_r(X[~train], y[~train], metric="cosine")
    adapter = fitted_in("fit_batches", X[train], y[train], np.array_split(order, 10))
    assert adapter.cv_results_["new_classes"].max() > 0.5
    after = mean_average_precision_at_r(adapter.transform(X[~train]), y[~train], metric="cosine")
    assert after > cosine + 0.1


@pytest.mark.usefixtures("few_samples")
@pytest.mark.parametrize(
    "convert",
    [
        lambda y: y,
        lambda y: y.astype(np.int8),
        lambda y: y.astype(float),
        lambda y: np.char.add("class ", y.astype(str)),
        lambda y: np.array([f"{label:03}" for label in y], object),
        lambda y: np.datetime64("2020-01-01") + y,
    ],
    ids=["int64", "int8", "float", "str", "object", "date"],
)
def test_labels_of_all_types(convert):
    X, y = simulated(50, 10, 3)
    y = convert(y)
    whole = EmbeddingAdapter(random_state=0).fit(X, y)
    parts = np.split(np.arange(500), [250])
    assert_same_fit(fitted_in("merge", X, y, parts), whole, X)


def test_partial_fit_starts_again_after_fit(embeddings):
    X, y = embeddings
    streamed = EmbeddingAdapter(random_state=0).fit(X[y < 2], y[y < 2]).partial_fit(X, y)
    assert_same_fit(streamed, EmbeddingAdapter(random_state=0).fit(X, y), X)
    assert streamed.partial_fit(X, y).n_samples_seen_ == 400


def test_first_class_of_a_stream_has_the_identity(embeddings):
    X, y = embeddings
    adapter = EmbeddingAdapter(n_components=3).partial_fit(X[y == 2], y[y == 2], classes=range(7))
    np.testing.assert_array_equal(adapter.components_, np.eye(12)[:3])
    assert adapter.cv_results_ == {}
    np.testing.assert_array_equal(adapter.pair_score(X[:4].reshape(2, 2, 12)), 0)
    assert list(adapter.partial_fit(X, y).classes_) == list(range(7))
    with pytest.raises(ValueError, match=r"labels \[4\] that are not among .*or none of them"):
        EmbeddingAdapter().partial_fit(X, y, classes=range(4))


def test_streams_of_another_metric(embeddings):
    X, y = embeddings
    streamed = EmbeddingAdapter(GenerativeMetric()).partial_fit(X[:100], y[:100], classes=range(5))
    streamed.partial_fit(X[100:], y[100:])
    np.testing.assert_allclose(streamed.mean_, normalize(X).mean(axis=0), rtol=1e-5)
    assert streamed.n_samples_seen_ == 200
    assert streamed.transform(X).dtype == np.float32
    assert not hasattr(EmbeddingAdapter(LMNN()), "partial_fit")


def test_merge_leaves_the_other_adapter_as_it_is(embeddings):
    X, y = embeddings
    one = EmbeddingAdapter(random_state=0).fit(X[:120], y[:120])
    other = EmbeddingAdapter(random_state=0).fit(X[120:], y[120:])
    before = other.transform(X)
    assert_same_fit(one.merge(other), EmbeddingAdapter(random_state=0).fit(X, y), X)
    np.testing.assert_array_equal(other.transform(X), before)
    assert other.n_samples_seen_ == 80


def test_adapters_that_cannot_be_merged(embeddings):
    X, y = embeddings
    adapter = EmbeddingAdapter().fit(X, y)
    with pytest.raises(TypeError, match="other must be an EmbeddingAdapter; got LMNN"):
        adapter.merge(LMNN())
    with pytest.raises(NotFittedError):
        adapter.merge(EmbeddingAdapter())
    with pytest.raises(ValueError, match="normalize=True and normalize=False"):
        adapter.merge(EmbeddingAdapter(normalize=False).fit(X, y))
    with pytest.raises(ValueError, match="n_features_in_=12 and n_features_in_=11"):
        adapter.merge(EmbeddingAdapter().fit(X[:, 1:], y))
    with pytest.raises(ValueError, match="text in one part of the samples and numbers in another"):
        adapter.merge(EmbeddingAdapter().fit(X, y.astype(str)))


def test_invalid_batches(embeddings):
    X, y = embeddings
    with pytest.raises(TypeError, match=r"make_batches must be a function.*got list"):
        EmbeddingAdapter().fit_batches([(X, y)])
    with pytest.raises(ValueError, match="make_batches returned no samples"):
        EmbeddingAdapter().fit_batches(list)
    with pytest.raises(ValueError, match="at least 2 classes; got 1 class"):
        EmbeddingAdapter().fit_batches(lambda: [(X, np.zeros(200)), (X, np.zeros(200))])
    with pytest.raises(ValueError, match="11 features"):
        EmbeddingAdapter().fit_batches(lambda: [(X, y), (X[:, 1:], y)])
    empty = EmbeddingAdapter(random_state=0).fit_batches(lambda: [(X[:0], y[:0]), (X, y)])
    assert_same_fit(empty, EmbeddingAdapter(random_state=0).fit(X, y), X)


# Other metrics, warnings and invalid input


@pytest.mark.parametrize(
    "metric",
    [
        GenerativeMetric("uniform", interpolation=0.5),
        GenerativeMetricCV(cv=2, shrinkages=[0.1], normalizations="trace"),
        LMNN(max_iter=3),
        NeighborhoodComponentsAnalysis(max_iter=3),
    ],
    ids=lambda metric: type(metric).__name__,
)
def test_metrics_of_all_kinds(metric, embeddings):
    X, y = embeddings
    adapter = EmbeddingAdapter(metric, n_components=4, random_state=0).fit(X, y)
    assert adapter.transform(X).shape == (200, 4)
    assert list(adapter.classes_) == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(adapter.transform(X), outputs_by_definition(adapter, X), atol=1e-5)


def test_without_scaling_distances_are_those_of_the_metric(embeddings):
    X, y = embeddings[0].astype(float), embeddings[1]
    adapter = EmbeddingAdapter(GenerativeMetric(), normalize=False).fit(X, y)
    pairs = X[[[0, 1], [5, 100]]]
    expected = adapter.metric_estimator_.pair_distance(pairs)
    np.testing.assert_allclose(adapter.pair_distance(pairs), expected)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [(None, []), (GenerativeMetric(base="pooled"), ["Classes (40 of 42) have "])],
)
def test_classes_of_one_sample_give_at_most_one_warning(metric, expected):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 8)), np.concatenate([np.arange(40), np.repeat([40, 41], 10)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        EmbeddingAdapter(metric).fit(X, y)
    assert [str(w.message)[:24] for w in caught] == expected


@pytest.mark.parametrize("n_classes", [2, 3, 12])
def test_single_samples_only(n_classes):
    X = np.random.default_rng(0).normal(size=(n_classes, 4))
    adapter = EmbeddingAdapter(random_state=0).fit(X, np.arange(n_classes))
    assert np.isfinite(adapter.transform(X)).all()
    assert adapter.cv_results_ == {}


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_classes_without_scatter(offset):
    """All samples equal, or equal within each class."""
    y = np.repeat(np.arange(3), 4)
    X = offset * np.eye(3)[y]
    assert np.isfinite(EmbeddingAdapter(normalize=False).fit(X, y).transform(X)).all()


@pytest.mark.parametrize(
    ("change", "parameters", "message"),
    [
        (np.nan, {}, "contains NaN"),
        (np.inf, {}, "contains infinity"),
        (1.0, {"n_components": 13}, r"n_components.*\[1, 12\]"),
        (1.0, {"search_classes": "all"}, "search_classes must be"),
        (1.0, {"normalize": "yes"}, "normalize must be a bool"),
        (1.0, {"metric": "cosine"}, "metric must be None or an object with the methods fit"),
        (
            1.0,
            {"metric": MetricKMeans(2), "n_components": 2},
            "Invalid parameter .n_components. for estimator MetricKMeans",
        ),
        (1.0, {"metric": LogisticRegression()}, "must have the attribute components_ after fit"),
    ],
)
def test_invalid_input(change, parameters, message, embeddings):
    X, y = embeddings
    X = X.copy()
    X[7] = change
    with pytest.raises(ValueError, match=message):
        EmbeddingAdapter(**parameters).fit(X, y)


def test_invalid_labels(embeddings):
    X, y = embeddings
    with pytest.raises(ValueError, match="at least 2 classes; got 1 class"):
        EmbeddingAdapter().fit(X, np.zeros(200))
    with pytest.raises(ValueError, match=r"use genmetric\.GenerativeRegressionMetric"):
        EmbeddingAdapter().fit(X, y + 0.5 * (y > 2))


def test_too_many_features_for_the_memory():
    X = np.broadcast_to(np.float32(1), (4, 500_000))
    with pytest.raises(MemoryError, match=r"500000 features .*TruncatedSVD"):
        EmbeddingAdapter().fit(X, [0, 0, 1, 1])


def test_pickled(embeddings):
    X, y = embeddings
    adapter = EmbeddingAdapter(n_components=3).partial_fit(X, y)
    loaded = pickle.loads(pickle.dumps(adapter))
    np.testing.assert_array_equal(loaded.transform(X), adapter.transform(X))
    assert loaded.partial_fit(X, y).n_samples_seen_ == 400
