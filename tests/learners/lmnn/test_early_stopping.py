"""Early stopping of LMNN: folds, errors of left-out samples, the selected number of iterations."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from genmetric import LMNN, GenerativeMetric
from genmetric.density._scaling import Scaling
from genmetric.geometry._factor import rank_limited_factor
from genmetric.learners import _early_stopping, lmnn_objective, target_neighbors
from genmetric.learners._early_stopping import left_out_folds, select_n_iter
from genmetric.learners._lmnn.early_stopping import DEFAULT_N_ITER, class_folds, neighbor_errors
from genmetric.learners._lmnn.training import TrainingData, train, validate_init


def smooth_curves(seed, n_points=90, n_classes=15, n_curves=24):
    """Curves of classes that differ by a few sinusoids, with smooth variation and little noise."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, n_points)

    def sinusoid(frequency):
        return np.sin(2 * np.pi * (frequency * t + rng.uniform()))

    X = []
    for _ in range(n_classes):
        mean = 0.8 * sum(rng.normal() / j * sinusoid(j) for j in range(1, 5))
        for _ in range(n_curves):
            X.append((1 + 0.2 * rng.normal()) * mean)
            X[-1] += sum(0.35 / j * sinusoid(j) for j in range(1, 7))
            X[-1] += 0.01 * rng.normal(size=n_points)
    return np.array(X), np.repeat(np.arange(n_classes), n_curves)


def test_generalises_on_smooth_curves():
    errors = []
    for seed in range(3):
        X, y = smooth_curves(seed)
        X, X_test, y, y_test = train_test_split(X, y, train_size=216, stratify=y, random_state=seed)
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
        knn = KNeighborsClassifier(3)
        row = [1 - knn.fit(X, y).score(X_test, y_test)]
        for metric in (LMNN(), LMNN(early_stopping=False)):
            Z = metric.fit(X, y).transform(X)
            row.append(1 - knn.fit(Z, y).score(metric.transform(X_test), y_test))
        errors.append(row)
    euclidean, default, plain = np.mean(errors, axis=0)
    assert default < euclidean
    assert default < plain - 0.03


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 60), n_classes=st.integers(1, 30))
def test_folds_leave_every_sample_out_once(seed, n, n_classes):
    codes = np.random.default_rng(seed).integers(n_classes, size=n)
    codes = np.unique(codes, return_inverse=True)[1]
    folds = left_out_folds(codes)
    left_out = np.concatenate([*folds, np.empty(0, int)])
    single = np.flatnonzero(np.bincount(codes)[codes] == 1)
    np.testing.assert_array_equal(np.sort(left_out), np.setdiff1d(np.arange(n), single))
    assert all(len(fold) for fold in folds)
    for fold in folds:  # no class is left out as a whole
        assert (np.bincount(codes[fold], minlength=codes.max() + 1) < np.bincount(codes)).all()


def test_folds_keep_consecutive_samples_together():
    codes = np.repeat([0, 1], 20)
    for fold in left_out_folds(codes):
        for c in (0, 1):
            rows = fold[codes[fold] == c]
            assert np.ptp(rows) == len(rows) - 1 == 3


def test_errors_are_those_of_scikit_learn(rng):
    codes = np.arange(90) % 3
    Z = rng.normal(size=(90, 2)) + codes[:, None]
    left_out = np.arange(0, 90, 4)
    others = np.setdiff1d(np.arange(90), left_out)
    expected = np.mean(
        [
            KNeighborsClassifier(k).fit(Z[others], codes[others]).predict(Z[left_out])
            != codes[left_out]
            for k in (1, 3, 5)
        ],
        axis=0,
    )
    np.testing.assert_allclose(
        neighbor_errors(Z[others], codes[others], Z[left_out], codes[left_out]), expected
    )


def vote_errors(Z, codes, voters, left_out):
    return neighbor_errors(Z[voters], codes[voters], Z[left_out], codes[left_out])


class TestSelection:
    codes = np.arange(300) % 2
    X = np.c_[codes * 1.0, np.random.default_rng(0).normal(size=300)]

    def select(self, separation, max_iter=200, n_iter=10**6):
        """Select with a path whose metric weights the informative feature by a function."""

        def run(_, after_iteration):
            for i in range(min(max_iter, n_iter) + 1):
                if after_iteration(i, np.diag([separation(i), 1.0])):
                    break

        return select_n_iter(
            run,
            lambda L, *parts: vote_errors(self.X @ L.T, self.codes, *parts),
            class_folds(self.codes),
            None,
            default_n_iter=DEFAULT_N_ITER,
            max_iter=max_iter,
        )

    def test_default_if_nothing_is_better(self):
        path = self.select(lambda _: 0.1)
        assert path.n_iter == DEFAULT_N_ITER
        assert np.ptp(path.errors) == 0

    def test_few_iterations(self):
        path = self.select(lambda i: 10.0 if i <= 3 else 0.0)
        assert path.n_iter <= 2
        assert path.errors[0] == 0
        assert path.checkpoints[-1] < 64  # the path ends early

    def test_many_iterations(self):
        path = self.select(lambda i: 10.0 * (i > 11) + 0.1 * i)
        assert path.n_iter >= 16

    def test_maximum(self):
        assert self.select(lambda i: 0.1 * i, max_iter=5).n_iter == 5
        assert self.select(lambda i: 10.0 if i == 0 else 0.0, max_iter=1).n_iter in (0, 1)

    def test_path_that_converges_early(self):
        path = self.select(lambda _: 10.0, n_iter=4)
        assert path.n_iter == DEFAULT_N_ITER
        assert (path.errors == 0).all()


def correlated_within_classes(rng):
    """Four classes that differ along directions in which their samples hardly vary."""
    codes = np.arange(120) % 4
    rotation = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    deviation = np.array([30, 30, 10, 10, 3, 3, 1, 1])
    means = np.c_[np.zeros((4, 6)), 2 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])]
    return (rng.normal(size=(120, 8)) * deviation + means[codes]) @ rotation, codes


class TestInit:
    def select(self, X, codes, weights=None, **options):
        data = TrainingData(X, Scaling.of(X), codes, weights)
        return validate_init(data, LMNN(**options)._specification(X.shape[1]))

    def test_correlated_features(self, rng):
        X, codes = correlated_within_classes(rng)
        assert self.select(X, codes).init == "pooled"

    def test_features_of_noise(self, rng):
        codes = np.arange(60) % 2
        X = rng.normal(size=(60, 50))
        X[:, :2] += 3 * codes[:, None]
        assert self.select(X, codes).init == "generative"

    @pytest.mark.parametrize("n_components", [None, 2])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_smallest_error(self, n_components, weighted):
        X, codes = correlated_within_classes(np.random.default_rng(0))
        weights = np.linspace(0.5, 1.5, len(X)) if weighted else None
        chosen = self.select(X, codes, weights, n_components=n_components)
        errors, metrics = dict.fromkeys(("generative", "mixed", "pooled"), 0.0), {}
        for part, left_out in class_folds(codes):
            w = None if weights is None else weights[part]
            M = [
                GenerativeMetric(base=base).fit(X[part], codes[part], w).metric_
                for base in ("identity", "pooled")
            ]
            C = np.cov(X[part].T, ddof=0, aweights=w)
            forms = {"generative": M[0], "pooled": M[1]}
            forms["mixed"] = sum(m / np.trace(m @ C) for m in M)
            for name, metric in forms.items():
                L = rank_limited_factor(metric, n_components or 8, C)
                wrong = vote_errors(X @ L.T, codes, part, left_out)
                errors[name] += wrong @ (np.ones(len(X)) if weights is None else weights)[left_out]
                metrics.setdefault(name, []).append(metric)
        assert len(set(errors.values())) == 3
        assert chosen.init == min(errors, key=errors.get)
        for found, metric in zip(chosen.metrics, metrics[chosen.init], strict=True):
            np.testing.assert_allclose(
                found / np.trace(found), metric / np.trace(metric), atol=1e-10
            )

    def test_equal_errors_select_the_default(self):
        codes = np.arange(40) % 2
        X = np.c_[10.0 * codes, np.linspace(0, 1, 40)]
        assert self.select(X, codes).init == "generative"

    def test_without_a_choice(self, rng):
        X, codes = correlated_within_classes(rng)
        assert self.select(X, codes, init="identity").init == "identity"
        assert self.select(X, np.arange(120) % 60).init == "lda"
        # With one pair of samples, leaving one out leaves no target.
        few = self.select(X[:3], np.array([0, 0, 1]))
        assert (few.init, few.metrics) == ("generative", None)

    def test_one_fold(self, rng, monkeypatch):
        monkeypatch.setattr(_early_stopping, "N_LEFT_OUT", 1)
        X, codes = correlated_within_classes(rng)
        assert self.select(X, codes).init == "generative"

    def test_estimator(self, rng):
        X, codes = correlated_within_classes(rng)
        fits = [LMNN(init=init, max_iter=2).fit(X, codes) for init in ("auto", "pooled")]
        assert [fitted.init_ for fitted in fits] == ["pooled", "pooled"]
        np.testing.assert_allclose(fits[0].metric_, fits[1].metric_, rtol=1e-10)
        # Without left-out samples there is no selection.
        plain = [
            LMNN(init=init, early_stopping=False).fit(X, codes) for init in ("auto", "generative")
        ]
        np.testing.assert_array_equal(plain[0].metric_, plain[1].metric_)
        assert plain[0].init_ == "generative"
        given = LMNN(init=np.eye(X.shape[1]), max_iter=2).fit(X, codes)
        assert given.init_ is None


class TestAverage:
    def test_sum_of_the_parts(self, rng):
        # Three runs of different length; a run that has ended keeps its last metric.
        codes = np.arange(30) % 2
        runs = [list(rng.normal(size=(n, 2, 3))) for n in (9, 12, 10, 15, 11)]
        waiting = iter(runs)

        def run(_, after_iteration):
            for i, L in enumerate(next(waiting)):
                after_iteration(i, L)

        path = select_n_iter(
            run,
            lambda _, __, left_out: np.full(len(left_out), 0.5),
            class_folds(codes),
            None,
            default_n_iter=11,
            max_iter=200,
            keep_metrics=True,
        )
        assert path.n_iter == 11
        # Checkpoints between 8 and 11 do not exist, so the runs of 9 to 11 iterations end at 8.
        used = [path[11] if len(path) > 11 else path[8] for path in runs]
        assert path.metrics.n_runs == 5
        np.testing.assert_allclose(path.metrics.total, sum(L.T @ L for L in used))

    @pytest.mark.parametrize("n_components", [None, 3])
    def test_is_that_of_the_fits(self, n_components):
        X, y = smooth_curves(0, n_points=8, n_classes=4, n_curves=12)
        fitted = LMNN(n_components=n_components, max_iter=2).fit(X, y)
        n_iter = fitted.n_iter_
        assert n_iter > 0
        # One run on all samples and five runs without a part, all without validation.
        data = TrainingData(X, Scaling.of(X), y, None)
        specification = LMNN(n_components=n_components)._specification(8)
        init = validate_init(data, specification).init
        specification = replace(specification, init=init, max_iter=n_iter)
        runs = [train(data.subset(rows), specification).L for rows, _ in class_folds(y)]
        runs.append(train(data, specification).L)
        metric = sum(L.T @ L for L in runs) / 6 / data.scaling.scale**2
        if n_components is None:
            np.testing.assert_allclose(fitted.metric_, metric, rtol=1e-6, atol=1e-8)
        else:
            factor = rank_limited_factor(metric, n_components, np.cov(X.T, ddof=0))
            np.testing.assert_allclose(fitted.metric_, factor.T @ factor, rtol=1e-6, atol=1e-8)

    def test_one_part_is_not_averaged(self, monkeypatch):
        monkeypatch.setattr(_early_stopping, "N_LEFT_OUT", 1)
        X, y = smooth_curves(0, n_points=8, n_classes=4, n_curves=12)
        seen = []
        fitted = LMNN(callback=lambda components, _: seen.append(components)).fit(X, y)
        np.testing.assert_allclose(fitted.components_.ravel(), seen[-1])

    def test_objective_is_that_of_the_average(self):
        X, y = smooth_curves(1, n_points=8, n_classes=4, n_curves=12)
        fitted = LMNN(2, init="identity").fit(X, y)
        x = X - X.mean(axis=0)
        value, _ = lmnn_objective(fitted.components_, x, y, target_neighbors(x, y, 2))
        assert fitted.objective_ == pytest.approx(value)


def test_estimator_reports_the_path():
    X, y = smooth_curves(0, n_points=20, n_classes=4, n_curves=12)
    fitted = LMNN().fit(X, y)
    checkpoints, errors = fitted.validation_path_.T
    assert checkpoints[0] == 0
    assert fitted.n_iter_ in checkpoints
    assert ((errors >= 0) & (errors <= 1)).all()
    again = LMNN().fit(X, y)
    np.testing.assert_array_equal(fitted.components_, again.components_)
    assert LMNN(early_stopping=False).fit(X, y).validation_path_.shape == (0, 2)


def test_threads():
    X, y = smooth_curves(1, n_points=20, n_classes=4, n_curves=12)
    fits = [LMNN(n_jobs=n).fit(X, y) for n in (None, 2)]
    assert fits[0].components_.tobytes() == fits[1].components_.tobytes()


@pytest.mark.filterwarnings("ignore:.* classes have .* samples, too few:UserWarning")
@pytest.mark.filterwarnings("ignore:Classes .* have .* samples, too few:UserWarning")
@pytest.mark.parametrize("size", [2, 3])
def test_classes_of_few_samples(rng, size):
    codes = np.repeat(np.arange(60), size)
    X = rng.normal(size=(60, 5))[codes] + 0.3 * rng.normal(size=(len(codes), 5))
    fitted = LMNN().fit(X, codes)
    assert np.isfinite(fitted.components_).all()
    assert len(fitted.validation_path_)


def test_no_sample_can_be_left_out():
    # With one pair of samples, leaving one out leaves no target.
    X = np.array([[0.0, 1.0], [0.1, 1.0], [5.0, 5.0]])
    with pytest.warns(UserWarning, match="too few"):
        fitted = LMNN(1, init="identity").fit(X, [0, 0, 1])
    assert fitted.validation_path_.shape == (0, 2)
    assert np.isfinite(fitted.components_).all()


def test_left_out_samples_are_limited(monkeypatch):
    monkeypatch.setattr(_early_stopping, "N_LEFT_OUT", 10)
    X, y = smooth_curves(2, n_points=10, n_classes=3, n_curves=20)
    runs = []
    select_n_iter(
        lambda train, after: runs.append(train) or after(0, np.eye(10)),
        lambda L, *parts: vote_errors(X @ L.T, y, *parts),
        class_folds(y),
        None,
        default_n_iter=DEFAULT_N_ITER,
        max_iter=5,
    )
    assert len(runs) == 1
    assert len(runs[0]) == 48
