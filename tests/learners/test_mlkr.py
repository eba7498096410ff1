"""MLKR: the objective against loops and differences, the estimator, early stopping, bad input."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline

from genmetric import MLKR, GenerativeRegressionMetric, KernelRegressor
from genmetric.learners import mlkr_objective

X, Y = make_friedman1(150, random_state=0)


def naive_objective(L, x, y, weights):
    """Sum the squared leave-one-out errors by loops."""
    total = 0.0
    for i in range(len(x)):
        numerator = denominator = 0.0
        for j in range(len(x)):
            w = weights[j] if i != j else max(weights[j] - 1, 0)
            k = w * np.exp(-np.sum((L @ (x[i] - x[j])) ** 2))
            numerator += k * y[j]
            denominator += k
        total += weights[i] * (numerator / denominator - y[i]) ** 2
    return total


def problem(seed, n=25, n_features=3, n_components=2):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, n_features))
    y = x[:, 0] + np.sin(x[:, 1]) + 0.1 * rng.normal(size=n)
    return rng.normal(size=(n_components, n_features)), x - x.mean(axis=0), y, rng


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6), n_components=st.integers(1, 3), scale=st.sampled_from([0.1, 1, 3])
)
def test_objective_is_the_double_loop(seed, n_components, scale):
    L, x, y, rng = problem(seed, n_components=n_components)
    for weights in (np.ones(25), rng.integers(1, 4, 25).astype(float), rng.uniform(0.2, 2, 25)):
        value, _ = mlkr_objective(scale * L, x, y, sample_weight=weights)
        assert value == pytest.approx(naive_objective(scale * L, x, y, weights), rel=1e-9)
    value, _ = mlkr_objective(scale * L, x, y)
    assert value == pytest.approx(naive_objective(scale * L, x, y, np.ones(25)), rel=1e-9)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), weighted=st.booleans())
def test_gradient_against_differences(seed, weighted):
    L, x, y, rng = problem(seed)
    weights = rng.uniform(0.2, 3, 25) if weighted else None
    _, gradient = mlkr_objective(L, x, y, sample_weight=weights)
    direction, step = rng.normal(size=L.shape), 1e-6
    ahead, behind = (
        mlkr_objective(L + s * direction, x, y, sample_weight=weights)[0] for s in (step, -step)
    )
    expected = (ahead - behind) / (2 * step)
    assert np.sum(gradient * direction) == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_weights_are_frequencies():
    L, x, y, rng = problem(1)
    n = rng.integers(1, 4, len(x))
    weighted = mlkr_objective(L, x, y, sample_weight=n.astype(float))
    repeated = mlkr_objective(L, np.repeat(x, n, axis=0), np.repeat(y, n))
    assert weighted[0] == pytest.approx(repeated[0])
    np.testing.assert_allclose(weighted[1], repeated[1], rtol=1e-8, atol=1e-12)


def test_distant_samples_are_predicted_by_the_nearest():
    x = np.array([[0.0], [1.0], [1e4], [1e4 + 1]])
    value, gradient = mlkr_objective(np.eye(1) * 100, x, np.array([0.0, 1.0, 5.0, 7.0]))
    assert value == pytest.approx(1 + 1 + 4 + 4)
    assert np.isfinite(gradient).all()


def test_chunks_threads_and_memory():
    L, x, y, rng = problem(2, n=3000)
    w = rng.uniform(0.5, 2, 3000)
    tracemalloc.start()
    parts = [mlkr_objective(L, x, y, sample_weight=w, n_jobs=n) for n in (1, 2, 3)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len({(value, gradient.tobytes()) for value, gradient in parts}) == 1
    assert peak < 200e6  # three threads; the arrays of all pairs have 72 MB each
    d = np.sum((x @ L.T)[:, None] ** 2, axis=2) + np.sum((x @ L.T) ** 2, axis=1)
    s = np.exp(2 * (x @ L.T) @ (x @ L.T).T - d) * w
    np.fill_diagonal(s, np.maximum(w - 1, 0))
    expected = w @ (s @ y / s.sum(axis=1) - y) ** 2
    assert parts[0][0] == pytest.approx(expected, rel=1e-9)


class TestMinimum:
    @pytest.mark.parametrize("init", ["auto", "identity", "pca", "random"])
    @pytest.mark.parametrize("n_components", [None, 2])
    def test_lower_than_after_one_iteration(self, init, n_components):
        x = X - X.mean(axis=0)
        options = {"init": init, "early_stopping": False, "random_state": 0, "tol": 1e-3}
        metric = MLKR(n_components, **options).fit(X, Y)
        value, _ = mlkr_objective(metric.components_, x, Y)
        assert metric.loo_error_ == pytest.approx(value / 150, rel=1e-8)
        with pytest.warns(ConvergenceWarning):
            assert MLKR(n_components, max_iter=1, **options).fit(X, Y).loo_error_ > value / 150
        assert metric.transform(X).shape == (150, n_components or 10)

    def test_gradient_vanishes(self):
        fitted = MLKR(init="identity", early_stopping=False, tol=1e-10).fit(X[:60, :3], Y[:60])
        x = X[:60, :3] - X[:60, :3].mean(axis=0)
        value, gradient = mlkr_objective(fitted.components_, x, Y[:60])
        assert np.linalg.norm(gradient) * np.linalg.norm(fitted.components_) < 0.01 * value

    @pytest.mark.parametrize("scale", [2.0**-300, 2.0**300])
    def test_scales_and_shifts(self, scale):
        options = {"init": "identity", "early_stopping": False, "tol": 1e-3}
        plain = MLKR(**options).fit(X, Y)
        moved = MLKR(**options).fit(X * scale, 5 - 3 * Y)
        np.testing.assert_allclose(moved.components_ * scale, plain.components_, atol=1e-4)
        assert moved.loo_error_ == pytest.approx(9 * plain.loo_error_, rel=1e-4)
        assert np.isfinite(MLKR(max_iter=2).fit(X * scale, Y * scale).components_).all()

    def test_weights_are_frequencies(self):
        n = np.random.default_rng(0).integers(0, 3, 150)
        metric = MLKR(init="identity", early_stopping=False, tol=1e-3)
        weighted = clone(metric).fit(X, Y, n)
        repeated = metric.fit(np.repeat(X, n, axis=0), np.repeat(Y, n))
        assert weighted.loo_error_ == pytest.approx(repeated.loo_error_, rel=1e-3)

    def test_array_as_init_keeps_its_scale(self):
        plain = {"early_stopping": False, "tol": 1e-3}
        fitted = MLKR(**plain).fit(X, Y)
        again = MLKR(init=fitted.components_, **plain).fit(X, Y)
        assert again.loo_error_ <= fitted.loo_error_ * (1 + 1e-9)
        with pytest.raises(ValueError, match=r"init must be a matrix with 10 columns.* \(2, 3\)"):
            MLKR(init=np.eye(2, 3)).fit(X, Y)

    def test_progress(self, capsys):
        with pytest.warns(ConvergenceWarning, match="MLKR did not converge in max_iter=1"):
            MLKR(early_stopping=False, max_iter=1, tol=0, verbose=1).fit(X, Y)
        assert capsys.readouterr().err.startswith("[MLKR] iteration 1: objective ")


class TestEarlyStopping:
    def test_neighbours_improve(self):
        knn = KNeighborsRegressor()
        euclidean, closed_form, learned = (
            cross_val_score(make_pipeline(*steps, knn), X, Y).mean()
            for steps in ([], [GenerativeRegressionMetric()], [MLKR()])
        )
        assert learned > euclidean + 0.1
        assert learned > closed_form

    def test_stays_near_the_closed_form_on_noise(self):
        # The leave-one-out error of the training samples falls, that of new samples rises.
        rng = np.random.default_rng(0)
        x = rng.normal(size=(300, 8))
        y = x[:, 0] + 2 * rng.normal(size=300)
        closed_form, default, plain = (
            1 - make_pipeline(m, KernelRegressor()).fit(x[:150], y[:150]).score(x[150:], y[150:])
            for m in (GenerativeRegressionMetric(), MLKR(), MLKR(early_stopping=False))
        )
        assert default < closed_form + 0.03
        assert plain > default + 0.3

    def test_path(self):
        x, y = make_friedman1(300, random_state=0)
        fitted = MLKR().fit(x, y)
        checkpoints, errors = fitted.validation_path_.T
        assert fitted.n_iter_ in checkpoints
        assert fitted.n_iter_ > 2
        assert errors[np.flatnonzero(checkpoints == fitted.n_iter_)[0]] < errors[0] / 2
        assert MLKR(early_stopping=False, tol=0.1).fit(X, Y).validation_path_.shape == (0, 2)

    def test_first_error_is_that_of_kernel_regression(self):
        # Samples in the order of the target: the two halves are slices, divided into fifths.
        x, y = load_diabetes(return_X_y=True)
        order = np.argsort(y[:60], kind="stable")
        x, y = x[:60][order], y[:60][order]
        L, squares = np.eye(10) * 12.0, []
        for fold in range(5):
            out = (np.arange(60) % 30 // 6 + np.arange(60) // 30) % 5 == fold
            model = KernelRegressor(bandwidth=np.sqrt(0.5)).fit(x[~out] @ L, y[~out])
            squares.append((model.predict(x[out] @ L) - y[out]) ** 2)
        fitted = MLKR(init=L, max_iter=1).fit(x, y)
        assert fitted.validation_path_[0, 1] == pytest.approx(np.mean(squares) / y.var())

    def test_threads_and_seeds(self):
        fits = [MLKR(max_iter=8, n_jobs=n).fit(X, Y).components_ for n in (None, 2)]
        np.testing.assert_array_equal(*fits)

    @pytest.mark.parametrize("n", [3, 4, 5, 8])
    def test_few_samples(self, n):
        x = np.random.default_rng(n).normal(size=(n, 2))
        fitted = MLKR().fit(x, x[:, 0])
        assert np.isfinite(fitted.components_).all()
        assert fitted.n_iter_ >= 1

    @pytest.mark.parametrize("y", [Y > 15, np.arange(150) == 3], ids=["two", "one apart"])
    def test_two_values_are_numbers(self, y):
        assert np.isfinite(MLKR(max_iter=8).fit(X, y).components_).all()


@pytest.mark.parametrize(
    ("y", "text"),
    [
        (np.repeat("a", 150), "MLKR expects numeric targets"),
        (np.full(150, 7.0), "targets that vary"),
        (np.where(np.arange(150) == 3, np.nan, 1.0), "NaN"),
        (np.arange(149), "inconsistent numbers of samples"),
    ],
    ids=["strings", "constant", "nan", "lengths"],
)
def test_invalid_targets(y, text):
    with pytest.raises(ValueError, match=text):
        MLKR().fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"init": "lda"}, "init must be 'auto', 'identity'"),
        ({"early_stopping": "auto"}, "early_stopping must be a bool"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1"),
        ({"tol": 1e300}, r"tol must be a number in \[0, 1\]"),
        ({"n_components": 11}, "n_components"),
    ],
)
def test_invalid_parameters(parameters, text):
    with pytest.raises(ValueError, match=text):
        MLKR(**parameters).fit(X, Y)
