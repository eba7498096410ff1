"""Many classes with few samples: classes represented by their samples, against covariances."""

import numpy as np
import pytest

import genmetric
from genmetric import GenerativeMetric
from genmetric.density import _mixed_statistics as mixed_statistics
from genmetric.density._low_rank import LowRankGaussians
from genmetric.density._mixed_statistics import MixedStatistics
from genmetric.density._statistics import ClassStatistics
from genmetric.learners import _fitting as fitting
from genmetric.learners._streaming import ClassTally

pytestmark = pytest.mark.usefixtures("low_rank")


@pytest.fixture
def embeddings(rng):
    """Unit vectors of 30 classes, 5 each."""
    y = np.repeat(np.arange(30), 5)
    X = rng.normal(size=(30, 24))[y] + rng.normal(size=(150, 24)) * np.geomspace(2, 0.3, 24)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


@pytest.fixture
def low_rank(monkeypatch):
    """Represent classes by their samples from the smallest size on."""
    monkeypatch.setattr(mixed_statistics, "MIN_SCATTER_ENTRIES", 1)


@pytest.mark.parametrize("base", ["identity", "pooled"])
@pytest.mark.parametrize("normalization", ["determinant", "trace"])
@pytest.mark.parametrize("shrinkage", ["auto", 0.2])
def test_both_representations_give_the_same_metric(embeddings, base, normalization, shrinkage):
    options = {"base": base, "normalization": normalization, "shrinkage": shrinkage, "class_tol": 0}
    found = GenerativeMetric(**options).fit(*embeddings)
    dense = GenerativeMetric(**options, solver="dense").fit(*embeddings)
    assert isinstance(found._models, LowRankGaussians)
    np.testing.assert_allclose(found.metric_, dense.metric_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.means_, dense.means_, atol=1e-12)
    np.testing.assert_allclose(found.covariances_, dense.covariances_, rtol=1e-8, atol=1e-12)
    X = embeddings[0][:7]
    for method in ("local_metrics", "curvature", "bias"):
        expected = getattr(dense, method)(X)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(
            getattr(found, method)(X), expected, rtol=1e-6, atol=1e-8 * scale
        )


@pytest.mark.parametrize(("class_tol", "limit"), [(1e-2, 0.02), (1e-3, 0.005)])
def test_class_tol_changes_little(embeddings, class_tol, limit):
    options = {"normalization": "trace", "base": "pooled"}
    found = GenerativeMetric(**options, class_tol=class_tol).fit(*embeddings).metric_
    exact = GenerativeMetric(**options, class_tol=0).fit(*embeddings).metric_
    assert np.linalg.norm(found - exact) < limit * np.linalg.norm(exact)


def test_sample_weights_are_frequencies(embeddings, rng):
    X, y = embeddings
    weight = rng.integers(1, 4, len(X))
    weighted = GenerativeMetric(normalization="trace").fit(X, y, sample_weight=weight)
    repeated = GenerativeMetric(normalization="trace").fit(
        np.repeat(X, weight, axis=0), np.repeat(y, weight)
    )
    np.testing.assert_allclose(weighted.metric_, repeated.metric_, rtol=1e-6, atol=1e-8)


def test_classes_with_a_single_sample(embeddings, rng):
    X, y = embeddings
    X = np.concatenate([X, rng.normal(size=(40, 24)) / 5])
    y = np.concatenate([y, 100 + np.arange(40)])
    for base in ("identity", "pooled"):
        options = {"base": base, "normalization": "trace", "class_tol": 0}
        with pytest.warns(UserWarning, match=r"Classes \(40 of 70\) have a single sample") as found:
            metric = GenerativeMetric(**options).fit(X, y)
        assert len(found) == 1
        with pytest.warns(UserWarning, match="have a single sample"):
            dense = GenerativeMetric(**options, solver="dense").fit(X, y)
        np.testing.assert_allclose(metric.metric_, dense.metric_, rtol=1e-6, atol=1e-8)


def test_saved_and_loaded(embeddings, tmp_path):
    metric = GenerativeMetric().fit(*embeddings)
    genmetric.save(metric, tmp_path / "metric.genmetric")
    loaded = genmetric.load(tmp_path / "metric.genmetric")
    np.testing.assert_array_equal(loaded.metric_, metric.metric_)
    X = embeddings[0][:3]
    np.testing.assert_array_equal(loaded.local_metrics(X), metric.local_metrics(X))


def test_covariances_of_an_earlier_fit_are_removed(embeddings):
    X, y = embeddings
    metric = GenerativeMetric().fit(X, y)
    assert metric.covariances_.shape == (30, 24, 24)
    metric.fit(X[y < 10], y[y < 10])
    assert metric.covariances_.shape == (10, 24, 24)
    with pytest.raises(AttributeError, match="covariances_"):
        _ = GenerativeMetric().covariances_


def test_samples_are_drawn_if_all_would_take_too_long(embeddings, monkeypatch):
    monkeypatch.setattr(fitting, "MIN_AVERAGED", 50)
    monkeypatch.setattr(fitting, "MAX_SECONDS", 1e-9)
    X, y = embeddings
    with pytest.warns(UserWarning, match=r"local metrics of 50 of 150 samples were averaged"):
        metric = GenerativeMetric(random_state=0).fit(X, y)
    assert metric.metric_stderr_ > 0
    whole = GenerativeMetric(max_samples=1.0).fit(X, y)
    assert whole.metric_stderr_ == 0


@pytest.mark.parametrize("n_per_class", [2, 3])
def test_leading_classes_far_apart(rng, n_per_class):
    """The log-densities of the two leading classes can differ by more than any fixed number."""
    y = np.repeat(np.arange(60), n_per_class)
    X = 1e3 * rng.normal(size=(60, 12))[y] + rng.normal(size=(len(y), 12))
    options = {"shrinkage": 1e-6, "random_state": 0}
    found = GenerativeMetric(**options).fit(X, y)
    dense = GenerativeMetric(**options, solver="dense").fit(X, y)
    assert isinstance(found._models, LowRankGaussians)
    np.testing.assert_allclose(found.metric_, dense.metric_, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("n_per_class", [2, 3])
def test_thousands_of_classes(rng, monkeypatch, n_per_class):
    """The default average is limited, and the number of warnings does not grow with the classes."""
    monkeypatch.setattr(fitting, "MIN_AVERAGED", 100)
    monkeypatch.setattr(fitting, "MAX_SECONDS", 0.05)
    y = np.repeat(np.arange(3000), n_per_class)
    X = rng.normal(size=(3000, 16))[y] + rng.normal(size=(len(y), 16))
    with pytest.warns(UserWarning, match=r"of \d+ samples were averaged") as found:
        metric = GenerativeMetric(base="pooled", random_state=0).fit(X, y)
    assert len(found) == 1
    assert np.isfinite(metric.metric_).all()
    assert (np.linalg.eigvalsh(metric.metric_) > 0).all()


def batches_of(X, y, order, n_batches=6):
    """Return a function that cuts samples into batches, in an order."""
    parts = np.array_split(order, n_batches)
    return lambda: ((X[rows], y[rows]) for rows in parts)


def assert_same_fit(found, whole, rtol=1e-8):
    assert isinstance(found._models, LowRankGaussians)
    np.testing.assert_array_equal(found.classes_, whole.classes_)
    np.testing.assert_allclose(found.means_, whole.means_, atol=1e-12 * np.abs(whole.means_).max())
    for name in ("metric_", "covariances_"):
        expected = getattr(whole, name)
        np.testing.assert_allclose(
            getattr(found, name), expected, rtol=rtol, atol=rtol * np.abs(expected).max()
        )


@pytest.mark.parametrize("base", ["identity", "pooled"])
@pytest.mark.parametrize("order", ["by class", "shuffled"])
@pytest.mark.parametrize("size", [1e-100, 1.0, 1e100])
def test_batches_and_streams_equal_the_whole(embeddings, base, order, size, rng):
    """Classes come one after the other in the first order, so that most of them appear late."""
    X, y = size * embeddings[0], embeddings[1]
    rows = np.arange(len(X)) if order == "by class" else rng.permutation(len(X))
    batches = batches_of(X, y, rows)
    whole = GenerativeMetric(base=base).fit(X, y)
    assert isinstance(whole._models, LowRankGaussians)
    assert_same_fit(GenerativeMetric(base=base).fit_batches(batches), whole)
    stream = GenerativeMetric(base=base)
    for batch in batches():
        stream.partial_fit(*batch)
    assert_same_fit(stream, whole)
    assert stream.metric_stderr_ == 0
    named = GenerativeMetric(base=base)
    for batch in batches():
        named.partial_fit(*batch, classes=np.unique(y))
    assert_same_fit(named, whole)


def test_batches_with_large_classes_and_single_samples(embeddings, rng):
    X, y = embeddings
    large = rng.normal(size=(200, 24)) / 4
    X = np.concatenate([X, large, rng.normal(size=(40, 24)) / 5]).astype(np.float32)
    y = np.concatenate([y, np.repeat([50, 51], 100), 100 + np.arange(40)])
    options = {"base": "pooled", "class_tol": 0}
    with pytest.warns(UserWarning, match="have a single sample"):
        whole = GenerativeMetric(**options).fit(X, y)
    batches = batches_of(X, y, rng.permutation(len(X)), 11)
    with pytest.warns(UserWarning, match="have a single sample") as found:
        streamed = GenerativeMetric(**options).fit_batches(batches)
    assert len(found) == 1
    assert_same_fit(streamed, whole)
    stream = GenerativeMetric(**options)
    for batch in batches():
        stream.partial_fit(*batch)
    with pytest.warns(UserWarning, match="have a single sample") as found:
        assert_same_fit(stream, whole)
    assert len(found) == 1
    with pytest.warns(UserWarning, match="have a single sample"):
        dense = GenerativeMetric(**options, solver="dense").fit_batches(batches)
    np.testing.assert_allclose(streamed.metric_, dense.metric_, rtol=1e-6, atol=1e-8)


def test_representation_changes_while_classes_are_added(embeddings, monkeypatch):
    monkeypatch.setattr(mixed_statistics, "MIN_SCATTER_ENTRIES", 20 * 24**2)
    X, y = embeddings
    stream = GenerativeMetric(base="pooled")
    for batch in batches_of(X, y, np.arange(len(X)), 10)():
        stream.partial_fit(*batch)
        tally = stream._stream[0]
        large = len(tally.classes) >= 20
        assert isinstance(tally.stats, (ClassStatistics, MixedStatistics)[large])
    assert_same_fit(stream, GenerativeMetric(base="pooled").fit(X, y))


def test_stream_of_many_classes_is_saved_and_continued(embeddings, tmp_path):
    X, y = embeddings
    order = np.arange(len(X)).reshape(30, 5).T.ravel()  # samples of each class in both batches
    first, second = batches_of(X, y, order, 2)()
    metric = GenerativeMetric(random_state=0).partial_fit(*first)
    genmetric.save(metric, tmp_path / "metric.genmetric")
    loaded = genmetric.load(tmp_path / "metric.genmetric")
    np.testing.assert_array_equal(loaded.metric_, metric.metric_)
    loaded.partial_fit(*second)
    np.testing.assert_array_equal(loaded.metric_, metric.partial_fit(*second).metric_)


def test_batches_are_limited_like_samples_in_memory(embeddings, monkeypatch):
    monkeypatch.setattr(fitting, "MIN_AVERAGED", 50)
    monkeypatch.setattr(fitting, "MAX_SECONDS", 1e-9)
    batches = batches_of(*embeddings, np.arange(150))
    with pytest.warns(UserWarning, match=r"local metrics of 50 of 150 samples were averaged"):
        metric = GenerativeMetric(random_state=0).fit_batches(batches)
    assert metric.metric_stderr_ > 0
    assert GenerativeMetric(max_samples=1.0).fit_batches(batches).metric_stderr_ == 0


def test_memory_of_a_stream_is_that_of_its_samples(rng):
    """Scatter matrices of 400 classes would take 400 * 64² numbers."""
    y = np.repeat(np.arange(400), 3)
    X = rng.normal(size=(400, 64))[y] + rng.normal(size=(1200, 64))
    tally = None
    for x, labels in batches_of(X, y, rng.permutation(len(X)), 12)():
        part = ClassTally.of(x, labels)
        tally = part if tally is None else tally.merge(part)
    stored = sum(value.size for value in vars(tally.stats).values())
    assert stored < 64 * (2 * len(X) + 3 * 400)
