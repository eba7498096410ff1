"""Many classes with few samples: classes represented by their samples, against covariances."""

import numpy as np
import pytest

import genmetric
from genmetric import GenerativeMetric
from genmetric.density import _factored_statistics as factored_statistics
from genmetric.density._low_rank import LowRankGaussians
from genmetric.metric import _fitting as fitting

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
    monkeypatch.setattr(factored_statistics, "MIN_SCATTER_ENTRIES", 1)


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
