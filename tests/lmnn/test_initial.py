"""The start: which factor, and how long."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric.lmnn import (
    LMNN,
    Objective,
    Problem,
    best_length,
    initial_factor,
    target_neighbors,
)


@pytest.fixture
def data(rng):
    codes = np.repeat([0, 1, 2], 30)
    X = rng.normal(size=(90, 4)) * [1, 2, 3, 4] + 3 * rng.normal(size=(3, 4))[codes]
    return X, codes


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


def test_lda(data):
    X, codes = data
    L = initial_factor("lda", X, codes, n_components=2)
    scalings = LinearDiscriminantAnalysis(solver="eigen").fit(X, codes).scalings_[:, :2].T
    np.testing.assert_allclose(span(L), span(scalings), atol=1e-8)
    within = sum(np.cov(X[codes == c].T, bias=True) for c in range(3))
    full = initial_factor("lda", X, codes)
    np.testing.assert_allclose(metric(full), metric(np.linalg.cholesky(np.linalg.inv(within)).T))


def test_lda_of_collinear_and_of_constant_rows(data):
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
        (np.ones((2, 3)), None, "rows of 3 features, but X has 4"),
        (np.ones((5, 4)), None, "more than the 4 features"),
        (np.ones((2, 4)), 3, "init has 2 rows, but n_components is 3"),
        (np.zeros((2, 4)), None, "not zero everywhere"),
        (np.full((2, 4), np.nan), None, "NaN"),
        (StandardScaler(), None, "no components_"),
        (PCA(2), 3, "components_ of init has 2 rows"),
    ],
)
def test_refused(data, init, n_components, text):
    X, codes = data
    with pytest.raises(ValueError, match=text):
        initial_factor(init, X, codes, n_components=n_components)


class TestBestLength:
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
        s = best_length(problem, L)
        assert Objective(problem).exact(s * L).value <= found.fun * (1 + 1e-9)
        assert best_length(problem, 10 * L) == pytest.approx(s / 10)

    def test_many_rows_are_sampled(self, rng):
        codes = np.arange(3000) % 3
        X = rng.normal(size=(3000, 3)) + codes[:, None]
        problem = Problem.of(X, codes, target_neighbors(X, codes, 3))
        s = best_length(problem, np.eye(3))
        at, longer, shorter = (
            Objective(problem).exact(s * f * np.eye(3)).value for f in (1, 1.3, 1 / 1.3)
        )
        assert at < min(longer, shorter)

    def test_where_nothing_says_how_long(self):
        X, codes = np.zeros((6, 2)), np.arange(6) % 2
        problem = Problem.of(X, codes, target_neighbors(X, codes, 1))
        assert best_length(problem, np.eye(2)) == 1

    def test_pull_alone(self, data):
        X, codes = data
        problem = Problem.of(X, codes, target_neighbors(X, codes, 1), push=0.0)
        assert 0 < best_length(problem, np.eye(4)) < np.inf


def test_a_second_pass_chooses_targets_anew(data):
    X, codes = data
    first = LMNN(init="identity").fit(X, codes)
    twice = LMNN(init=LMNN(init="identity")).fit(X, codes)
    again = LMNN(init=first).fit(X, codes)
    np.testing.assert_array_equal(twice.components_, again.components_)
    assert twice.objective_ < first.objective_
