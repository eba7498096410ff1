"""EmbeddingAdapter: unit vectors in and out, float32, streaming and invalid input."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import normalize

from genmetric import (
    LMNN,
    EmbeddingAdapter,
    GenerativeMetric,
    GenerativeMetricCV,
    MetricKMeans,
    load,
    save,
)
from genmetric.density._two_covariance import PooledMoments
from genmetric.learners._embedding_selection import MapParameters, embedding_map
from genmetric.metrics import mean_average_precision_at_r


@pytest.fixture
def embeddings():
    """Return 200 float32 samples of five classes and 12 features, and their labels."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 40)
    X = 2 * rng.normal(size=(5, 12))[y] + rng.normal(size=(200, 12)) + 1
    return X.astype(np.float32), y


def by_definition(adapter, X):
    """Return the outputs of an adapter by its equation, in float64, one sample at a time."""
    out = []
    for x in np.asarray(X, float):
        z = adapter.components_.astype(float) @ (x / np.linalg.norm(x) - adapter.mean_)
        out.append(z / np.linalg.norm(z))
    return np.array(out)


def test_outputs_follow_the_equation(embeddings):
    X, y = embeddings
    X = X.astype(float)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    for metric in (None, GenerativeMetric(base="pooled")):
        adapter = EmbeddingAdapter(metric, random_state=0).fit(X, y)
        np.testing.assert_allclose(adapter.transform(X), by_definition(adapter, X), rtol=1e-9)
        np.testing.assert_allclose(adapter.mean_, unit.mean(axis=0), rtol=1e-12)
    metric = adapter.metric_estimator_
    np.testing.assert_allclose(metric.metric_, metric.fit(unit, y).metric_, rtol=1e-9)
    assert adapter.best_params_ == adapter.cv_results_ == {}


def test_default_map_is_that_of_the_selected_parameters(embeddings):
    X, y = embeddings
    unit = normalize(X.astype(float))
    adapter = EmbeddingAdapter(n_components=4, random_state=0).fit(unit, y)
    assert adapter.metric_estimator_ is None
    expected = embedding_map(PooledMoments.of(unit, y, 5), MapParameters(**adapter.best_params_), 4)
    np.testing.assert_allclose(adapter.components_, expected, rtol=1e-12)
    assert adapter.best_params_ in adapter.cv_results_["params"]
    assert adapter.cv_results_["training_classes"].shape == (36,)


def test_searches_that_the_map_is_selected_on(embeddings):
    X, y = embeddings
    kinds = {"any": {"new_classes", "training_classes"}, "new": {"new_classes"}}
    for value, scored in (kinds | {"training": {"training_classes"}}).items():
        adapter = EmbeddingAdapter(search_classes=value, random_state=0).fit(X, y)
        assert set(adapter.cv_results_) == {"params"} | scored
        best = adapter.cv_results_["params"].index(adapter.best_params_)
        if value != "any":
            (scores,) = (adapter.cv_results_[name] for name in scored)
            assert best == np.argmax(scores)


def test_classes_that_differ_in_few_directions():
    """The default map finds them, for training classes and for others; cosine does not."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(60), 6)
    X = np.concatenate(
        [rng.normal(size=(60, 5))[y] + 0.4 * rng.normal(size=(360, 5)), rng.normal(size=(360, 25))],
        axis=1,
    )
    train, test = y < 40, y >= 40
    for n_components in (None, 5):
        adapter = EmbeddingAdapter(n_components=n_components, random_state=0)
        learned = adapter.fit(X[train], y[train]).transform(X[test])
        score = mean_average_precision_at_r(learned, y[test])
        assert score > 2 * mean_average_precision_at_r(X[test], y[test], metric="cosine")


def test_float32_from_input_to_output(embeddings):
    X, y = embeddings
    adapter = EmbeddingAdapter(n_components=3).fit(X, y)
    outputs = adapter.transform(X)
    assert outputs.shape == (200, 3)
    assert {a.dtype for a in (outputs, adapter.components_, adapter.mean_)} == {np.dtype("f4")}
    np.testing.assert_allclose(outputs, by_definition(adapter, X), atol=1e-5)
    assert adapter.transform(X.astype(float)).dtype == np.float64


def test_no_float64_copy_of_float32_samples():
    """A call that maps 32 MB of samples allocates the outputs and unit vectors, not float64."""
    import tracemalloc

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400_000, 20)).astype(np.float32)
    adapter = EmbeddingAdapter().fit(X[:100], rng.integers(2, size=100))
    tracemalloc.start()
    adapter.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4.5 * X.nbytes


@settings(max_examples=20, deadline=None)
@given(st.floats(-30, 30), st.integers(0, 2**32 - 1))
def test_lengths_of_samples_do_not_matter(exponent, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(30, 4)), np.arange(30) % 3
    lengths = 10.0 ** rng.uniform(-abs(exponent), abs(exponent), size=(30, 1))
    one, other = (EmbeddingAdapter(random_state=0).fit(Z, y).transform(Z) for Z in (X, X * lengths))
    np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1, rtol=1e-12)


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
    np.testing.assert_allclose(adapter.transform(X), by_definition(adapter, X), atol=1e-5)


def test_without_scaling_distances_are_those_of_the_metric(embeddings):
    X, y = embeddings
    X = X.astype(float)
    adapter = EmbeddingAdapter(GenerativeMetric(), normalize=False).fit(X, y)
    z = adapter.transform(X)
    pairs = X[[[0, 1], [5, 100]]]
    found = np.linalg.norm(z[[0, 5]] - z[[1, 100]], axis=1)
    np.testing.assert_allclose(found, adapter.metric_estimator_.pair_distance(pairs))


def test_partial_fit_adds_classes(embeddings):
    X, y = embeddings
    X = X.astype(float)
    streamed = EmbeddingAdapter(random_state=0)
    for c in range(5):
        streamed.partial_fit(X[y == c], y[y == c])
    assert list(streamed.classes_) == [0, 1, 2, 3, 4]
    whole = EmbeddingAdapter(random_state=0).fit(X, y)
    np.testing.assert_allclose(streamed.mean_, whole.mean_, rtol=1e-12)
    np.testing.assert_allclose(streamed.transform(X), whole.transform(X), atol=1e-8)
    assert streamed.best_params_ == whole.best_params_
    assert streamed.n_samples_seen_ == 200
    again = streamed.fit(X[y < 2], y[y < 2]).partial_fit(X, y)
    np.testing.assert_allclose(again.mean_, whole.mean_, rtol=1e-12)


def test_failed_partial_fit_changes_nothing(embeddings):
    X, y = embeddings
    adapter = EmbeddingAdapter().partial_fit(X, y)
    before = adapter.transform(X)
    with pytest.raises(ValueError, match="1 zero vector "):
        adapter.partial_fit(np.zeros((1, 12), np.float32), [0])
    with pytest.raises(ValueError, match="13 features"):
        adapter.partial_fit(np.ones((2, 13), np.float32), [0, 1])
    np.testing.assert_array_equal(adapter.transform(X), before)
    assert adapter.n_samples_seen_ == 200


def test_partial_fit_needs_a_metric_that_has_it():
    assert not hasattr(EmbeddingAdapter(LMNN()), "partial_fit")
    assert hasattr(EmbeddingAdapter(GenerativeMetric()), "partial_fit")


def test_sample_weights_are_frequencies(embeddings):
    X, y = embeddings
    X, repeats = X.astype(float), np.arange(200) % 3
    metric = GenerativeMetric(base="pooled")
    weighted = EmbeddingAdapter(metric).fit(X, y, sample_weight=repeats)
    repeated = EmbeddingAdapter(metric).fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats))
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-8)
    default = EmbeddingAdapter(random_state=0).fit(X, y, sample_weight=repeats)
    moments = PooledMoments.of(normalize(np.repeat(X, repeats, axis=0)), np.repeat(y, repeats), 5)
    expected = embedding_map(moments, MapParameters(**default.best_params_), None)
    np.testing.assert_allclose(default.components_, expected, rtol=1e-9)
    assert default.n_samples_seen_ == repeats.sum()


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


def test_invalid_classes(embeddings):
    X, y = embeddings
    with pytest.raises(ValueError, match="at least 2 classes; got 1 class"):
        EmbeddingAdapter().fit(X, np.zeros(200))
    with pytest.raises(ValueError, match=r"labels \[4\] that are not among the classes"):
        EmbeddingAdapter().partial_fit(X, y, classes=range(4))
    adapter = EmbeddingAdapter().partial_fit(X, y, classes=range(7))
    assert list(adapter.classes_) == list(range(7))


@pytest.mark.parametrize(
    ("change", "parameters", "message"),
    [
        (0.0, {}, r"X has 1 zero vector \(the first is sample 7\).*normalize=False"),
        (np.nan, {}, "contains NaN"),
        (np.inf, {}, "contains infinity"),
        (1.0, {"n_components": 13}, r"n_components.*\[1, 12\]"),
        (1.0, {"search_classes": "all"}, "search_classes must be"),
        (1.0, {"normalize": "yes"}, "normalize must be a bool"),
        (1.0, {"metric": "cosine"}, "metric must be None or an object with the methods fit"),
        (1.0, {"metric": MetricKMeans(2), "n_components": 2}, "needs a metric with the parameter"),
    ],
)
def test_invalid_input(change, parameters, message, embeddings):
    X, y = embeddings
    X = X.copy()
    X[7] = change
    with pytest.raises(ValueError, match=message):
        EmbeddingAdapter(**parameters).fit(X, y)


def test_metric_without_components_is_refused(embeddings):
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(ValueError, match="must have the attribute components_ after fit"):
        EmbeddingAdapter(LogisticRegression()).fit(*embeddings)


def test_zero_vectors_are_refused_by_transform(embeddings):
    X, y = embeddings
    adapter = EmbeddingAdapter().fit(X, y)
    with pytest.raises(ValueError, match="2 zero vectors"):
        adapter.transform(np.zeros((2, 12), np.float32))
    np.testing.assert_allclose(EmbeddingAdapter(PCA(2)).fit(X, y).transform(X[:1]).shape, (1, 2))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_saved_and_loaded(method, embeddings, tmp_path):
    X, y = embeddings
    adapter = getattr(EmbeddingAdapter(n_components=3), method)(X, y)
    save(adapter, tmp_path / "adapter.genmetric")
    loaded = load(tmp_path / "adapter.genmetric")
    np.testing.assert_array_equal(loaded.transform(X), adapter.transform(X))
