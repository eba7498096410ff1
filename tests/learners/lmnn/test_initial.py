"""Initial metrics of LMNN: the factor, its coordinates and its scale."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf
from sklearn.decomposition import PCA
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric.learners._lmnn import (
    LMNN,
    Objective,
    Problem,
    best_scale,
    initial_metric,
    target_neighbors,
    whitening,
)
from genmetric.learners._lmnn.initial import candidates, closed_forms


@pytest.fixture
def data(rng):
    codes = np.repeat([0, 1, 2], 30)
    X = rng.normal(size=(90, 4)) * [1, 2, 3, 4] + 3 * rng.normal(size=(3, 4))[codes]
    return X, codes


def initial_factor(*args, **kwargs):
    return initial_metric(*args, **kwargs).L


def span(L):
    """Projection on the space of the rows of L."""
    return np.linalg.pinv(L) @ L


def metric(L):
    M = L.T @ L
    return M / np.trace(M)


def test_names(data):
    X, codes = data
    np.testing.assert_array_equal(initial_factor("identity", X, codes), np.eye(4))
    np.testing.assert_array_equal(
        initial_factor("identity", X, codes, n_components=2), np.eye(2, 4)
    )
    auto = initial_factor("auto", X, codes)
    np.testing.assert_allclose(
        metric(auto), metric(GenerativeMetric().fit(X, codes).components_), rtol=1e-12
    )
    drawn = [initial_factor("random", X, codes, n_components=3, random_state=s) for s in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.abs(drawn[0] - drawn[2]).max() > 0.1
    assert all(np.abs(L).max() == 1 for L in (auto, *drawn))


def test_pca(data):
    X, codes = data
    L = initial_factor("pca", X, codes, n_components=2)
    np.testing.assert_allclose(span(L), span(PCA(2).fit(X).components_), atol=1e-10)
    np.testing.assert_allclose(metric(L), span(L) / 2, atol=1e-10)
    np.testing.assert_allclose(metric(initial_factor("pca", X, codes)), np.eye(4) / 4, atol=1e-12)


def within_class_covariance(X, codes):
    residuals = X - np.array([X[codes == c].mean(axis=0) for c in range(codes.max() + 1)])[codes]
    return ledoit_wolf(residuals, assume_centered=True)[0]


def test_whitening_inverts_the_pooled_covariance(data):
    X, codes = data
    M = whitening(X, codes)
    expected = np.linalg.inv(within_class_covariance(X, codes))
    np.testing.assert_allclose(M / np.trace(M), expected / np.trace(expected), rtol=1e-8)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(whitening(X[order], codes[order]), M, rtol=1e-8)
    np.testing.assert_allclose(whitening(X, codes, np.full(90, 7.0)), M, rtol=1e-12)


def test_whitening_weights_are_frequencies(data):
    X, codes = data
    weights = np.random.default_rng(0).integers(1, 4, len(X))
    W = [
        np.linalg.inv(whitening(np.repeat(X, n, axis=0), np.repeat(codes, n), w))
        for n, w in ((1, weights.astype(float)), (weights, None))
    ]
    # Ledoit-Wolf shrinkage depends on the number of samples; the rest is the same.
    np.testing.assert_allclose(W[0] / np.trace(W[0]), W[1] / np.trace(W[1]), atol=0.02)


def test_lda(data):
    X, codes = data
    L = initial_factor("lda", X, codes, n_components=2)
    W, T = within_class_covariance(X, codes), np.cov(X.T, bias=True)
    directions = eigh(T, W)[1][:, ::-1][:, :2].T
    np.testing.assert_allclose(span(L), span(directions), atol=1e-8)
    full = initial_factor("lda", X, codes)
    np.testing.assert_allclose(metric(full), metric(np.linalg.cholesky(np.linalg.inv(W)).T))


def test_auto_depends_on_the_number_of_classes(data):
    X, codes = data
    np.testing.assert_array_equal(
        initial_factor("auto", X, codes), initial_factor("generative", X, codes)
    )
    many = np.arange(len(X)) % 60
    np.testing.assert_array_equal(initial_factor("auto", X, many), initial_factor("lda", X, many))


def test_closed_forms(data):
    X, codes = data
    weights = np.random.default_rng(0).uniform(1, 3, len(X))
    generative = GenerativeMetric().fit(X, codes, weights).metric_
    pooled = GenerativeMetric(base="pooled").fit(X, codes, weights).metric_
    found = closed_forms(("pooled", "mixed", "generative"), X, codes, weights)
    assert list(found) == ["pooled", "mixed", "generative"]
    np.testing.assert_array_equal(found["generative"], generative)
    np.testing.assert_array_equal(found["pooled"], pooled)
    # The mean of both after the samples have the same mean squared distance under each.
    x = X - np.average(X, axis=0, weights=weights)
    parts = [
        M / np.average(np.einsum("ij,jk,ik->i", x, M, x), weights=weights)
        for M in (generative, pooled)
    ]
    expected = np.mean(parts, axis=0)
    np.testing.assert_allclose(
        found["mixed"] / np.trace(found["mixed"]), expected / np.trace(expected), rtol=1e-10
    )
    for name, metric_ in found.items():
        (single,) = closed_forms((name,), X, codes, weights).values()
        np.testing.assert_array_equal(single, metric_)
        start = initial_factor(name, X, codes, sample_weight=weights)
        np.testing.assert_allclose(metric(start), metric_ / np.trace(metric_), atol=1e-12)


def test_closed_forms_of_constant_features():
    found = closed_forms(("mixed",), np.ones((12, 2)), np.arange(12) % 3)
    np.testing.assert_allclose(found["mixed"], 2 * np.eye(2))


def test_candidates(data):
    _, codes = data
    assert candidates("auto", codes) == ("generative", "mixed", "pooled")
    assert candidates("auto", np.arange(60)) == ("lda",)
    given = np.eye(4)
    for init in ("generative", "identity", given, PCA(2)):
        assert candidates(init, codes) == (init,)


@pytest.mark.parametrize(
    "init", ["generative", "mixed", "pooled", "lda", "identity", "pca", "random"]
)
@pytest.mark.parametrize("n_components", [None, 2])
def test_coordinates_are_a_nonsingular_factor_of_the_full_metric(data, init, n_components):
    X, codes = data
    options = {"random_state": 0, "n_components": n_components}
    start = initial_metric(init, X, codes, **options)
    assert start.coordinates.shape == (4, 4)
    assert np.linalg.cond(start.coordinates) < 1e6
    if n_components is None:
        np.testing.assert_allclose(metric(start.coordinates), metric(start.L), atol=1e-10)
    elif init in ("generative", "mixed", "pooled", "lda"):
        whole = initial_metric(init, X, codes)
        np.testing.assert_allclose(start.coordinates, whole.coordinates, rtol=1e-10)


def test_coordinates_of_a_singular_factor(data):
    X, codes = data
    start = initial_metric(np.diag([1.0, 1, 1, 0]), X, codes)
    assert np.isfinite(np.linalg.inv(start.coordinates)).all()


def test_lda_of_collinear_and_of_constant_features(data):
    X, codes = data
    assert np.isfinite(initial_factor("lda", np.c_[X, X, np.ones(90)], codes)).all()
    assert np.isfinite(initial_factor("lda", np.ones((90, 2)), codes)).all()


def test_arrays_and_metrics(data):
    X, codes = data
    given = np.arange(8.0).reshape(2, 4)
    np.testing.assert_array_equal(initial_factor(given, X, codes), given / 7)
    fitted = NeighborhoodComponentsAnalysis(random_state=0).fit(X, codes)
    for init in (fitted, NeighborhoodComponentsAnalysis(random_state=0)):
        np.testing.assert_allclose(
            metric(initial_factor(init, X, codes)), metric(fitted.components_)
        )
    assert not hasattr(init, "components_")  # it was cloned
    few = initial_factor(fitted, X, codes, n_components=1)
    direction = PCA(1).fit(fitted.transform(X)).components_ @ fitted.components_
    np.testing.assert_allclose(span(few), span(direction), atol=1e-8)


def test_tiny_and_huge_factors(data):
    X, codes = data
    for scale in (1e-200, 1e200):
        np.testing.assert_allclose(initial_factor(np.eye(4) * scale, X, codes), np.eye(4))


@pytest.mark.parametrize(
    ("init", "n_components", "text"),
    [
        ("pcs", None, "init must be one of"),
        (None, None, "init must be one of"),
        (np.ones(4), None, "init must be one of"),
        (GenerativeMetric, None, "init must be one of"),
        (np.ones((2, 3)), None, "samples with 3 features, but X has 4"),
        (np.ones((5, 4)), None, "more than the 4 features"),
        (np.ones((2, 4)), 3, "init has 2 rows, but n_components is 3"),
        (np.zeros((2, 4)), None, "not all zero"),
        (np.full((2, 4), np.nan), None, "NaN"),
        (StandardScaler(), None, "no components_"),
        (PCA(2), 3, "components_ of init has 2 rows"),
    ],
)
def test_invalid_init(data, init, n_components, text):
    X, codes = data
    with pytest.raises(ValueError, match=text):
        initial_factor(init, X, codes, n_components=n_components)


class TestBestScale:
    @pytest.mark.parametrize("push", [0.2, 0.5, 0.9])
    def test_least_objective_on_the_ray(self, data, push):
        X, codes = data
        X = X - X.mean(axis=0)
        problem = Problem.of(X, codes, target_neighbors(X, codes, 2), push=push)
        L = np.eye(4)
        found = minimize_scalar(
            lambda log_s: Objective(problem).exact(np.exp(log_s) * L).value,
            bounds=(-5, 3),
            method="bounded",
            options={"xatol": 1e-8},
        )
        s = best_scale(problem, L)
        assert Objective(problem).exact(s * L).value <= found.fun * (1 + 1e-9)
        assert best_scale(problem, 10 * L) == pytest.approx(s / 10)

    def test_many_samples(self, rng):
        codes = np.arange(3000) % 3
        X = rng.normal(size=(3000, 3)) + codes[:, None]
        problem = Problem.of(X, codes, target_neighbors(X, codes, 3))
        s = best_scale(problem, np.eye(3))
        at, longer, shorter = (
            Objective(problem).exact(s * f * np.eye(3)).value for f in (1, 1.3, 1 / 1.3)
        )
        assert at < min(longer, shorter)

    def test_undetermined_scale_is_one(self):
        X, codes = np.zeros((6, 2)), np.arange(6) % 2
        problem = Problem.of(X, codes, target_neighbors(X, codes, 1))
        assert best_scale(problem, np.eye(2)) == 1

    def test_without_push(self, data):
        X, codes = data
        problem = Problem.of(X, codes, target_neighbors(X, codes, 1), push=0.0)
        assert 0 < best_scale(problem, np.eye(4)) < np.inf


def test_a_second_pass_selects_targets_again(data):
    X, codes = data
    plain = LMNN(init="identity", early_stopping=False)
    first = clone(plain).fit(X, codes)
    twice = LMNN(init=plain, early_stopping=False).fit(X, codes)
    again = LMNN(init=first, early_stopping=False).fit(X, codes)
    np.testing.assert_array_equal(twice.components_, again.components_)
    assert twice.objective_ < first.objective_
