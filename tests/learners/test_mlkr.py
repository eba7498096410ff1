"""MLKR: the objective against loops and differences, the estimator, invalid input."""

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
from sklearn.preprocessing import StandardScaler

import genmetric._chunks as chunks
import genmetric.learners._mlkr_training as training
from genmetric import MLKR, GenerativeRegressionMetric, KernelRegressor
from genmetric.learners import mlkr_objective


def naive_objective(L, X, y, weights):
    """Sum the squared leave-one-out errors by loops."""
    total = 0.0
    for i in range(len(X)):
        numerator = denominator = 0.0
        for j in range(len(X)):
            w = weights[j] if i != j else max(weights[j] - 1, 0)
            k = w * np.exp(-np.sum((L @ (X[i] - X[j])) ** 2))
            numerator += k * y[j]
            denominator += k
        total += weights[i] * (numerator / denominator - y[i]) ** 2
    return total


def problem(seed, n=25, n_features=3, n_components=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    y = X[:, 0] + np.sin(X[:, 1]) + 0.1 * rng.normal(size=n)
    return rng.normal(size=(n_components, n_features)), X - X.mean(axis=0), y, rng


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6), n_components=st.integers(1, 3), scale=st.sampled_from([0.1, 1, 3])
)
def test_objective_is_the_double_loop(seed, n_components, scale):
    L, X, y, rng = problem(seed, n_components=n_components)
    for weights in (np.ones(25), rng.integers(1, 4, 25).astype(float), rng.uniform(0.2, 2, 25)):
        value, _ = mlkr_objective(scale * L, X, y, sample_weight=weights)
        assert value == pytest.approx(naive_objective(scale * L, X, y, weights), rel=1e-9)
    value, _ = mlkr_objective(scale * L, X, y)
    assert value == pytest.approx(naive_objective(scale * L, X, y, np.ones(25)), rel=1e-9)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), weighted=st.booleans())
def test_gradient_against_differences(seed, weighted):
    L, X, y, rng = problem(seed)
    weights = rng.uniform(0.2, 3, 25) if weighted else None
    _, gradient = mlkr_objective(L, X, y, sample_weight=weights)
    direction, step = rng.normal(size=L.shape), 1e-6
    ahead, behind = (
        mlkr_objective(L + s * direction, X, y, sample_weight=weights)[0] for s in (step, -step)
    )
    expected = (ahead - behind) / (2 * step)
    assert np.sum(gradient * direction) == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_weights_are_frequencies():
    L, X, y, rng = problem(1)
    n = rng.integers(1, 4, len(X))
    weighted = mlkr_objective(L, X, y, sample_weight=n.astype(float))
    repeated = mlkr_objective(L, np.repeat(X, n, axis=0), np.repeat(y, n))
    assert weighted[0] == pytest.approx(repeated[0])
    np.testing.assert_allclose(weighted[1], repeated[1], rtol=1e-8, atol=1e-12)


def test_distant_samples_are_predicted_by_the_nearest():
    X = np.array([[0.0], [1.0], [1e4], [1e4 + 1]])
    value, gradient = mlkr_objective(np.eye(1) * 100, X, np.array([0.0, 1.0, 5.0, 7.0]))
    assert value == pytest.approx(1 + 1 + 4 + 4)
    assert np.isfinite(gradient).all()


def test_chunks_and_threads(monkeypatch):
    L, X, y, rng = problem(2, n=200)
    w = rng.uniform(0.5, 2, 200)
    whole = mlkr_objective(L, X, y, sample_weight=w)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 40 * 200 * 7)
    parts = [mlkr_objective(L, X, y, sample_weight=w, n_jobs=n) for n in (1, 2, 3)]
    assert parts[0][0] == pytest.approx(whole[0], rel=1e-12)
    np.testing.assert_allclose(parts[0][1], whole[1], rtol=1e-9, atol=1e-12)
    assert len({part[1].tobytes() for part in parts}) == 1


def test_memory_is_bounded():
    L, X, y, _ = problem(3, n=6000)
    tracemalloc.start()
    mlkr_objective(L, X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # an array of all pairs has 288 MB


class TestEstimator:
    X, y = make_friedman1(150, random_state=0)

    @pytest.mark.parametrize("init", ["auto", "identity", "pca", "random"])
    @pytest.mark.parametrize("n_components", [None, 2])
    def test_lower_than_the_start(self, init, n_components):
        x, targets = self.X - self.X.mean(axis=0), self.y
        seen = []
        metric = MLKR(
            n_components,
            init=init,
            early_stopping=False,
            random_state=0,
            tol=1e-3,
            callback=lambda components, n_iter: seen.append((components, n_iter)),
        ).fit(self.X, self.y)
        value, gradient = mlkr_objective(metric.components_, x, targets)
        assert metric.loo_error_ == pytest.approx(value / 150, rel=1e-8)
        assert [n for _, n in seen] == list(range(1, metric.n_iter_ + 1))
        np.testing.assert_allclose(seen[-1][0], metric.components_.ravel())
        assert mlkr_objective(seen[0][0].reshape(gradient.shape), x, targets)[0] >= value
        assert metric.transform(self.X).shape == (150, n_components or 10)

    def test_better_than_euclidean_and_closed_form(self):
        knn = KNeighborsRegressor()
        scores = [
            cross_val_score(make_pipeline(*steps, knn), self.X, self.y).mean()
            for steps in ([], [GenerativeRegressionMetric()], [MLKR()])
        ]
        assert scores[2] > scores[0] + 0.1
        assert scores[2] > scores[1] - 0.05

    @pytest.mark.parametrize("scale", [2.0**-300, 2.0**300])
    def test_invariant_to_scales_and_shifts(self, scale):
        options = {"init": "identity", "early_stopping": False, "tol": 1e-3}
        plain = MLKR(**options).fit(self.X, self.y)
        moved = MLKR(**options).fit(self.X * scale, 5 - 3 * self.y)
        np.testing.assert_allclose(moved.components_ * scale, plain.components_, atol=1e-4)
        assert moved.loo_error_ == pytest.approx(9 * plain.loo_error_, rel=1e-4)

    def test_extreme_units(self):
        for scale in (1e-100, 1e100):
            metric = MLKR(tol=1e-2).fit(self.X * scale, self.y * scale)
            assert np.isfinite(metric.components_).all()
            assert 0 < metric.loo_error_ < np.var(self.y * scale)

    def test_weights(self):
        n = np.random.default_rng(0).integers(0, 3, 150)
        metric = MLKR(init="identity", early_stopping=False, tol=1e-3)
        weighted = clone(metric).fit(self.X, self.y, n)
        repeated = metric.fit(np.repeat(self.X, n, axis=0), np.repeat(self.y, n))
        assert weighted.loo_error_ == pytest.approx(repeated.loo_error_, rel=1e-3)

    def test_start_with_the_lowest_error_after_some_iterations(self, monkeypatch):
        X, y = load_diabetes(return_X_y=True)
        options = {"early_stopping": False, "max_iter": training._TRIAL_ITER, "tol": 0}

        def error(*scales):
            monkeypatch.setattr(training, "_START_SCALES", scales)
            with pytest.warns(ConvergenceWarning, match="did not converge"):
                return MLKR(**options).fit(X[:200], y[:200]).loo_error_

        apart = [error(1.0), error(2.0)]
        assert apart[0] != apart[1]
        assert error(1.0, 2.0) == min(apart)
        assert error(2.0, 1.0) == min(apart)

    def test_array_as_init_keeps_its_scale(self):
        plain = {"early_stopping": False, "tol": 1e-3}
        fitted = MLKR(**plain).fit(self.X, self.y)
        again = MLKR(init=fitted.components_, **plain).fit(self.X, self.y)
        assert again.loo_error_ <= fitted.loo_error_ * (1 + 1e-9)
        with pytest.raises(ValueError, match="init has 10 rows, but n_components is 2"):
            MLKR(2, init=fitted.components_).fit(self.X, self.y)

    def test_two_values_are_numbers(self):
        fitted = MLKR(tol=1e-2).fit(self.X, self.y > 15)
        assert np.isfinite(fitted.components_).all()

    def test_warning_at_max_iter(self):
        with pytest.warns(ConvergenceWarning, match="MLKR did not converge in max_iter=1"):
            MLKR(early_stopping=False, max_iter=1, tol=0).fit(self.X, self.y)

    def test_threads(self):
        fits = [MLKR(tol=1e-2, n_jobs=n).fit(self.X, self.y).components_ for n in (None, 2)]
        np.testing.assert_array_equal(*fits)

    def test_callback_ends_the_fit(self):
        options = {"early_stopping": False, "tol": 1e-3}
        stopped = MLKR(callback=lambda _, n_iter: n_iter == 3, **options).fit(self.X, self.y)
        assert stopped.n_iter_ == 3
        assert stopped.loo_error_ > MLKR(**options).fit(self.X, self.y).loo_error_

    @pytest.mark.parametrize(
        ("y", "text"),
        [
            (np.repeat("a", 150), "MLKR expects numeric targets"),
            (np.full(150, 7.0), "targets that vary"),
            (np.where(np.arange(150) == 3, np.nan, 1.0), "NaN"),
            (np.where(np.arange(150) == 3, np.inf, 1.0), "infinity"),
            (np.arange(149), "inconsistent numbers of samples"),
        ],
        ids=["strings", "constant", "nan", "inf", "lengths"],
    )
    def test_invalid_targets(self, y, text):
        with pytest.raises(ValueError, match=text):
            MLKR().fit(self.X, y)

    @pytest.mark.parametrize(
        ("parameters", "text"),
        [
            ({"init": "lda"}, "init must be 'auto', 'identity'"),
            ({"early_stopping": "auto"}, "early_stopping must be a bool"),
            ({"max_iter": 0}, "max_iter must be an integer >= 1"),
            ({"tol": 1e300}, r"tol must be a number in \[0, 1\]"),
            ({"n_components": 11}, "n_components"),
            ({"callback": 1}, "callback must be None or a callable"),
        ],
    )
    def test_invalid_parameters(self, parameters, text):
        with pytest.raises(ValueError, match=text):
            MLKR(**parameters).fit(self.X, self.y)


class TestEarlyStopping:
    def test_keeps_the_closed_form_on_noise(self):
        # The leave-one-out error of the training samples falls, that of new samples rises.
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 8))
        y = X[:, 0] + 2 * rng.normal(size=300)
        errors = {}
        for name, metric in {
            "closed form": GenerativeRegressionMetric(),
            "default": MLKR(),
            "plain": MLKR(early_stopping=False),
        }.items():
            metric.fit(X[:150], y[:150])
            model = KernelRegressor().fit(metric.transform(X[:150]), y[:150])
            errors[name] = 1 - model.score(metric.transform(X[150:]), y[150:])
        assert errors["default"] < errors["closed form"] + 0.02
        assert errors["plain"] > errors["default"] + 0.3

    def test_selects_iterations_where_they_help(self):
        X, y = make_friedman1(300, random_state=0)
        fitted = MLKR().fit(X, y)
        checkpoints, errors = fitted.validation_path_.T
        assert fitted.n_iter_ in checkpoints
        assert fitted.n_iter_ > 2
        assert errors[np.flatnonzero(checkpoints == fitted.n_iter_)[0]] < errors[0] / 2

    def test_no_iterations_is_the_initial_metric(self, monkeypatch):
        X, y = make_friedman1(100, random_state=0)
        monkeypatch.setattr(training, "left_out_folds", lambda _: [])
        fitted = MLKR().fit(X, y)
        assert fitted.n_iter_ == 1
        assert fitted.validation_path_.shape == (0, 2)
        expected = GenerativeRegressionMetric().fit(X, y).metric_
        np.testing.assert_allclose(
            fitted.metric_ / np.trace(fitted.metric_), expected / np.trace(expected), atol=1e-12
        )
        value, _ = mlkr_objective(fitted.components_, X - X.mean(axis=0), y)
        assert fitted.loo_error_ == pytest.approx(value / 100, rel=1e-8)

    def test_left_out_errors_are_those_of_kernel_regression(self):
        X, y = load_diabetes(return_X_y=True)
        X, y = StandardScaler().fit_transform(X[:100]), y[:100]
        fitted = MLKR(init="identity", max_iter=1).fit(X, y)
        z = (y - y.mean()) / y.std()
        squares = []
        for train, left_out in training._target_folds(z):
            start = MLKR(init="identity").set_params(max_iter=1)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(training, "left_out_folds", lambda _: [])
                L = start.fit(X[train], y[train]).components_
            model = KernelRegressor(bandwidth=np.sqrt(0.5)).fit(X[train] @ L.T, z[train])
            squares.append((model.predict(X[left_out] @ L.T) - z[left_out]) ** 2)
        np.testing.assert_allclose(fitted.validation_path_[0, 1], np.concatenate(squares).mean())

    def test_folds_have_all_parts_of_the_target(self):
        y = np.sort(np.random.default_rng(0).exponential(size=200))
        folds = list(training._target_folds(y))
        left_out = np.concatenate([fold for _, fold in folds])
        np.testing.assert_array_equal(np.sort(left_out), np.arange(200))
        for train, fold in folds:
            np.testing.assert_array_equal(np.bincount(fold // 40), np.full(5, 8))
            np.testing.assert_array_equal(np.union1d(train, fold), np.arange(200))

    @pytest.mark.parametrize("n", [3, 4, 5, 8])
    def test_few_samples(self, n):
        X = np.random.default_rng(n).normal(size=(n, 2))
        fitted = MLKR().fit(X, X[:, 0])
        assert np.isfinite(fitted.components_).all()
