"""The pooled base, the normalization of local metrics, and many classes."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from genmetric import GenerativeMetric

IRIS = load_iris(return_X_y=True)
WINE = load_wine(return_X_y=True)


def difference(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def many_classes(rng, n_classes, n_features, n_each=6):
    X = rng.normal(size=(n_classes, n_each, n_features)) + 2 * rng.normal(
        size=(n_classes, 1, n_features)
    )
    return X.reshape(-1, n_features), np.repeat(np.arange(n_classes), n_each)


@pytest.mark.parametrize("normalization", ["determinant", "trace"])
@pytest.mark.parametrize(
    "params", [{"shrinkage": 0.3}, {"shrinkage": None}, {"interpolation": 0.4}]
)
def test_metric_of_whitened_samples_mapped_back(params, normalization):
    X, y = WINE
    # Interpolation 0 is the base itself: its factor is a whitening.
    whitening = GenerativeMetric(base="pooled", interpolation=0.0).fit(X, y)
    Z, A = whitening.transform(X), whitening.components_
    inside = GenerativeMetric(normalization=normalization, **params).fit(Z, y)
    found = GenerativeMetric(base="pooled", normalization=normalization, **params).fit(X, y)
    assert difference(found.metric_, A.T @ inside.metric_ @ A) < 1e-8
    assert difference(found.local_metrics(X), A.T @ inside.local_metrics(Z) @ A) < 1e-7
    assert difference(found.components_.T @ found.components_, found.metric_) < 1e-10
    B = np.linalg.inv(A)
    assert difference(found.covariances_, B @ inside.covariances_ @ B.T) < 1e-7
    # A density in input space is the density of z times the determinant of the map.
    expected = inside.bias(Z) * np.abs(np.linalg.det(A))
    np.testing.assert_allclose(found.bias(X), expected, rtol=1e-5, atol=1e-12 * expected.max())


def test_the_base_whitens_within_classes():
    X, y = np.repeat(WINE[0], 50, axis=0), np.repeat(WINE[1], 50)
    Z = GenerativeMetric(base="pooled", interpolation=0.0).fit(X, y).transform(X)
    centred = Z - np.array([Z[y == c].mean(axis=0) for c in range(3)])[y]
    np.testing.assert_allclose(centred.T @ centred / len(Z), np.eye(13), atol=0.01)
    # Its leading components are the directions of linear discriminant analysis.
    leading = GenerativeMetric(base="pooled", interpolation=0.0, n_components=2).fit(X, y)
    lda = LinearDiscriminantAnalysis(n_components=2).fit(X, y).transform(X)
    expected = np.linalg.lstsq(leading.transform(X - X.mean(axis=0)), lda, rcond=None)[1]
    assert (expected < 0.02 * (lda**2).sum(axis=0)).all()


@settings(max_examples=15)
@given(
    exponents=st.lists(st.floats(-6, 6), min_size=4, max_size=4),
    combination=st.sampled_from(["uniform", "kde", "gmm"]),
    normalization=st.sampled_from(["determinant", "trace"]),
    shrinkage=st.sampled_from([None, "auto", 0.3]),
    n_components=st.sampled_from([None, 2]),
)
def test_units_of_the_features_do_not_matter(
    exponents, combination, normalization, shrinkage, n_components
):
    X, y = IRIS
    units = 10.0 ** np.array(exponents)
    params = {"normalization": normalization, "shrinkage": shrinkage, "random_state": 0}
    params |= {"base": "pooled", "interpolation": 0.7, "n_components": n_components}
    plain = GenerativeMetric(combination, **params).fit(X, y).transform(X)
    scaled = GenerativeMetric(combination, **params).fit(X * units, y).transform(X * units)
    distances = [np.linalg.norm(Z[:40, None] - Z[None, :40], axis=2) for Z in (plain, scaled)]
    np.testing.assert_allclose(*distances, rtol=1e-5, atol=1e-7 * distances[0].max())


def test_features_that_are_constant_within_classes_or_everywhere():
    X = np.column_stack([IRIS[0], IRIS[1], np.full(150, 7.0)])
    metric = GenerativeMetric(base="pooled", interpolation=0.0).fit(X, IRIS[1])
    assert np.isfinite(metric.metric_).all()
    # A feature without within-class scale gets its total standard deviation.
    assert metric.metric_[4, 4] == pytest.approx(1 / IRIS[1].var(), rel=0.2)


@pytest.mark.parametrize("base", ["identity", "pooled"])
@pytest.mark.parametrize("normalization", ["determinant", "trace"])
@pytest.mark.parametrize("shrinkage", ["auto", 0.2])
def test_many_small_classes_equal_the_dense_solver(rng, base, normalization, shrinkage):
    X, y = many_classes(rng, 60, 40)
    params = {"base": base, "normalization": normalization, "shrinkage": shrinkage}
    low_rank = GenerativeMetric(**params).fit(X, y)
    dense = GenerativeMetric(solver="dense", **params).fit(X, y)
    # The low-rank solver ignores classes of small weight, as class_tol allows.
    assert difference(low_rank.metric_, dense.metric_) < 0.02
    assert difference(low_rank.means_, dense.means_) < 1e-9
    assert difference(low_rank.covariances_, dense.covariances_) < 1e-6
    exact = GenerativeMetric(class_tol=0.0, **params).fit(X, y)
    assert difference(exact.metric_, dense.metric_) < 1e-6


def test_a_fit_that_would_take_long_averages_over_a_subset(rng, monkeypatch):
    X, y = many_classes(rng, 80, 8, n_each=30)
    whole = GenerativeMetric(base="pooled").fit(X, y)
    monkeypatch.setattr("genmetric.learners.generative.MAX_SECONDS", 1e-3)
    with pytest.warns(UserWarning, match=r"subset of at most 1024 of 2400.*max_samples=1\.0"):
        limited = GenerativeMetric(base="pooled", random_state=0).fit(X, y)
    assert 0 < limited.metric_stderr_ < 0.1
    assert difference(limited.metric_, whole.metric_) < 10 * limited.metric_stderr_
    np.testing.assert_array_equal(
        GenerativeMetric(base="pooled", max_samples=1.0).fit(X, y).metric_, whole.metric_
    )


def test_unscaled_features_give_advice():
    X, y = IRIS[0] * [1, 1, 1, 1e4], IRIS[1]
    advice = 'factor of .*StandardScaler, or use base="pooled"'
    with pytest.warns(UserWarning, match=advice):
        GenerativeMetric().fit(X, y)
    with pytest.warns(UserWarning, match=advice):
        GenerativeMetric().fit_batches(lambda: iter([(X, y)]))
    # Neither of these depends on the units.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GenerativeMetric(base="pooled").fit(X, y)
        GenerativeMetric(shrinkage=None, normalization="determinant").fit(X, y)
