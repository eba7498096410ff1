"""LMNN: the objective against loops, where the minimisation ends, starts, invariances, input."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from genmetric import LMNN, GenerativeMetric
from genmetric.learners import lmnn_objective, target_neighbors

IRIS = load_iris(return_X_y=True)
LOSSES = ["hinge", "squared_hinge"]


# The checks use small classes and few iterations, which LMNN warns about.
@pytest.mark.filterwarnings("ignore:Classes .* have .* samples, too few:UserWarning")
@pytest.mark.filterwarnings("ignore:LMNN did not converge:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [LMNN(1, n_components=1, init="pca", push=0.7, loss="squared_hinge", early_stopping=False)],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": "A repeated sample is a target neighbour "
        "of its copies; a weighted sample is not a target of itself.",
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def classes(seed=0, n=120, n_features=4, n_classes=3):
    """Overlapping classes of features with unequal variances."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, n_features)) * np.exp(rng.normal(size=n_features))
    X += rng.normal(size=(n_classes, n_features))[y]
    return X - X.mean(axis=0), y


def plain_lmnn(*args, **kwargs):
    """LMNN that minimises the objective until convergence."""
    return LMNN(*args, early_stopping=False, **kwargs)


def difference(a, b):
    """Largest difference, relative to the largest entry."""
    return np.abs(a - b).max() / np.abs(b).max()


def unit(metric):
    return metric / np.trace(metric)


# Target neighbours and the objective


def naive_targets(Z, codes, k):
    found = np.repeat(np.arange(len(Z))[:, None], k, axis=1)
    for i in range(len(Z)):
        others = [j for j in range(len(Z)) if codes[j] == codes[i] and j != i]
        others.sort(key=lambda j: np.sum((Z[i] - Z[j]) ** 2))
        found[i, : min(k, len(others))] = others[:k]
    return found


@pytest.mark.parametrize("k", [1, 4])
def test_targets_are_the_nearest_of_the_class(rng, k):
    # Classes of 1 to 20 samples; those of up to 16 are searched in another way.
    codes = rng.permutation(np.repeat(np.arange(20), np.arange(1, 21)))
    Z = rng.normal(size=(len(codes), 3))
    np.testing.assert_array_equal(target_neighbors(Z, codes, k), naive_targets(Z, codes, k))
    far = Z + np.where(codes % 2, 1e9, -1e9)[:, None]
    rounded = far - np.where(codes % 2, 1e9, -1e9)[:, None]  # what rounding left of Z
    np.testing.assert_array_equal(target_neighbors(far, codes, k), naive_targets(rounded, codes, k))


def naive_objective(L, X, codes, targets, push, loss, weights):
    """Compute the sums of the objective from all distances, one sample at a time."""
    Z = X @ L.T
    pull = hinges = 0.0
    for i in range(len(X)):
        d = np.sum((Z[i] - Z) ** 2, axis=1)
        other = codes != codes[i]
        for j in targets[i][targets[i] != i]:
            pull += weights[i] * d[j]
            hinge = np.maximum(1 + d[j] - d[other], 0)
            hinges += weights[i] * weights[other] @ (hinge if loss == "hinge" else hinge**2)
    return (1 - push) * pull + push * hinges


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n_classes=st.integers(2, 12),
    n_components=st.integers(1, 3),
    push=st.sampled_from([0.0, 0.3, 1.0]),
    scale=st.sampled_from([0.2, 1.0, 5.0]),
    loss=st.sampled_from(LOSSES),
    weighted=st.booleans(),
)
def test_objective_and_gradient(seed, n_classes, n_components, push, scale, loss, weighted):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3)) * scale
    codes = np.unique(rng.integers(0, n_classes, 40), return_inverse=True)[1]
    targets = target_neighbors(X, codes, 2)
    L, direction = rng.normal(size=(2, n_components, 3))
    weights = rng.uniform(0.1, 4, 40) if weighted else None

    def evaluate(L):
        return lmnn_objective(L, X, codes, targets, push=push, loss=loss, sample_weight=weights)

    value, gradient = evaluate(L)
    w = np.ones(40) if weights is None else weights
    expected = naive_objective(L, X, codes, targets, push, loss, w)
    assert value == pytest.approx(expected, rel=1e-11)
    # A kink of a hinge within a step of 1e-7 is unlikely, and moves the quotient little.
    step = 1e-7
    slope = (evaluate(L + step * direction)[0] - evaluate(L - step * direction)[0]) / (2 * step)
    assert np.vdot(gradient, direction) == pytest.approx(
        slope, rel=1e-4, abs=1e-3 * np.linalg.norm(gradient)
    )


@pytest.mark.parametrize("n_classes", [2, 40])
@pytest.mark.parametrize(("scale", "offset"), [(0.02, 0.0), (1.0, 0.0), (3.0, 1e5)])
def test_objective_of_many_samples(rng, n_classes, scale, offset):
    # Several strips of samples, from all pairs being impostors to few.
    codes = np.arange(1300) % n_classes
    X = scale * rng.normal(size=(1300, 3)) + offset
    targets = target_neighbors(X, codes, 2)
    L = rng.normal(size=(3, 3))
    value, gradient = lmnn_objective(L, X, codes, targets)
    expected = naive_objective(L, X - offset, codes, targets, 0.5, "hinge", np.ones(1300))
    assert value == pytest.approx(expected, rel=1e-11)
    order = rng.permutation(1300)
    moved = lmnn_objective(L, X[order], codes[order], np.argsort(order)[targets[order]])
    assert moved[0] == pytest.approx(value, rel=1e-11)
    assert difference(moved[1], gradient) < 1e-10


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), loss=st.sampled_from(LOSSES))
def test_objective_is_convex_in_the_metric(seed, loss):
    X, y = classes(seed, n=40)
    targets = target_neighbors(X, y, 2)
    A, B = (F.T @ F for F in np.random.default_rng(seed).normal(size=(2, 4, 4)))
    ends_and_middle = [
        lmnn_objective(np.real(sqrtm(M)), X, y, targets, loss=loss)[0] for M in (A, B, (A + B) / 2)
    ]
    assert ends_and_middle[2] <= np.mean(ends_and_middle[:2]) * (1 + 1e-9)


def test_threads_give_the_same_bits():
    X, y = classes(3, n=3000, n_features=30)
    targets = target_neighbors(X, y, 3)
    found = [lmnn_objective(0.3 * np.eye(30), X, y, targets, n_jobs=n) for n in (1, 2, 3)]
    assert len({(value, gradient.tobytes()) for value, gradient in found}) == 1
    with pytest.warns(ConvergenceWarning):
        fits = [plain_lmnn(max_iter=4, n_jobs=n).fit(X, y) for n in (None, 2)]
    np.testing.assert_array_equal(fits[0].components_, fits[1].components_)


# Where the minimisation ends


class TestMinimum:
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("weighted", [False, True])
    def test_objective_is_that_of_the_components(self, rng, loss, weighted):
        X, y = classes()
        weights = rng.uniform(0.1, 3, len(X)) if weighted else np.ones(len(X))
        fitted = plain_lmnn(2, init="identity", push=0.3, loss=loss).fit(X, y, weights)
        targets, w = target_neighbors(X, y, 2), weights / weights.mean()
        options = {"push": 0.3, "loss": loss, "sample_weight": w}
        value, gradient = lmnn_objective(fitted.components_, X, y, targets, **options)
        assert fitted.objective_ == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(fitted.metric_, fitted.get_mahalanobis_matrix())
        for s in np.logspace(-2, 1, 20):
            assert value < lmnn_objective(s * np.eye(4), X, y, targets, **options)[0]
        if loss == "squared_hinge":
            assert np.linalg.norm(gradient) * np.linalg.norm(fitted.components_) < 0.02 * value

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("seed", range(3))
    def test_no_other_start_gets_lower(self, seed, loss):
        # In M the problem is convex, and a square L has no other local minima. All samples of a
        # class are targets, whatever the start.
        X, y = classes(seed, n=60)
        options = {"loss": loss, "tol": 1e-9, "max_iter": 1000}
        fitted = plain_lmnn(19, init="identity", **options).fit(X, y)
        for other in np.random.default_rng(seed).normal(size=(2, 4, 4)):
            again = plain_lmnn(19, init=other, **options).fit(X, y)
            assert again.objective_ == pytest.approx(fitted.objective_, rel=1e-4)
            assert difference(again.metric_, fitted.metric_) < 0.03

    def test_many_samples_and_overlapping_classes(self):
        # The active set of impostors is replaced many times.
        X, y = classes(7, n=900, n_features=3)
        fitted = plain_lmnn(init="identity", tol=1e-8, max_iter=500).fit(X, y)
        targets = target_neighbors(X, y, 3)
        value, _ = lmnn_objective(fitted.components_, X, y, targets)
        assert fitted.objective_ == pytest.approx(value, rel=1e-10)
        for E in np.random.default_rng(0).normal(size=(30, 3, 3)):
            L = fitted.components_ + 0.003 * np.linalg.norm(fitted.components_) * E
            assert lmnn_objective(L, X, y, targets)[0] > value * (1 - 1e-5)

    def test_more_pairs_than_the_active_set_holds(self, monkeypatch):
        # Every evaluation searches; the minimum is the same.
        X, y = classes(7, n=300, n_features=3)
        options = {"init": "identity", "tol": 1e-8, "max_iter": 500}
        fitted = plain_lmnn(**options).fit(X, y)
        monkeypatch.setattr("genmetric.learners.lmnn_loss.MAX_PAIRS", 100)
        crowded = plain_lmnn(**options).fit(X, y)
        assert crowded.objective_ == pytest.approx(fitted.objective_, rel=1e-5)

    def test_separated_classes(self):
        # Few triplets and many kinks, where plain L-BFGS stops at the first of them.
        rng = np.random.default_rng(0)
        y = np.repeat([0, 1], 15)
        X = 0.1 * rng.normal(size=(30, 3)) + y[:, None]
        fitted = plain_lmnn(init="identity").fit(X, y)
        fine = plain_lmnn(init="identity", tol=1e-10, max_iter=2000).fit(X, y)
        assert fitted.objective_ < 1.01 * fine.objective_

    def test_more_push_fewer_violations(self):
        X, y = classes(2)
        targets = target_neighbors(X, y, 3)
        fits = [plain_lmnn(init="identity", push=p).fit(X, y) for p in (0.1, 0.5, 0.9)]
        hinges = [lmnn_objective(f.components_, X, y, targets, push=1)[0] for f in fits]
        assert hinges[0] > hinges[1] > hinges[2]


# Initial metrics


def whitening(X, y):
    residuals = X - np.array([X[y == c].mean(axis=0) for c in np.unique(y)])[y]
    return np.linalg.inv(ledoit_wolf(residuals, assume_centered=True)[0])


def closed_forms(X, y):
    M = {
        "generative": GenerativeMetric().fit(X, y).metric_,
        "pooled": GenerativeMetric(base="pooled").fit(X, y).metric_,
    }
    C = np.cov(X.T, ddof=0)
    return {**M, "mixed": sum(m / np.trace(m @ C) for m in M.values())}


def correlated_within_classes(rng):
    """Four classes that differ along directions in which their samples hardly vary."""
    y = np.arange(120) % 4
    rotation = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    deviation = np.array([30, 30, 10, 10, 3, 3, 1, 1])
    means = np.c_[np.zeros((4, 6)), 2 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])]
    return (rng.normal(size=(120, 8)) * deviation + means[y]) @ rotation, y


class TestInit:
    @pytest.mark.parametrize("init", ["generative", "pooled", "mixed", "lda", "identity", "pca"])
    def test_selects_the_targets(self, init):
        X, y = classes(4)
        metrics = {**closed_forms(X, y), "lda": whitening(X, y)}
        L = np.real(sqrtm(metrics.get(init, np.eye(4))))
        fitted = plain_lmnn(init=init).fit(X, y)
        value, _ = lmnn_objective(fitted.components_, X, y, target_neighbors(X @ L, y, 3))
        assert fitted.objective_ == pytest.approx(value, rel=1e-10)
        assert fitted.init_ == init

    @pytest.mark.parametrize("init", ["auto", "pca", "lda", "identity", "random"])
    @pytest.mark.parametrize("early_stopping", [True, False])
    def test_fewer_components(self, init, early_stopping):
        X, y = classes(3)
        options = {"init": init, "random_state": 0, "early_stopping": early_stopping}
        fitted = LMNN(n_components=2, **options).fit(X, y)
        assert fitted.transform(X).shape == (len(X), 2)
        assert np.linalg.matrix_rank(fitted.metric_) == 2
        assert fitted.get_feature_names_out().tolist() == ["lmnn0", "lmnn1"]

    def test_selection_on_held_out_samples(self, rng):
        X, y = correlated_within_classes(rng)
        fits = [LMNN(init=init, max_iter=2).fit(X, y) for init in ("auto", "pooled")]
        assert [fitted.init_ for fitted in fits] == ["pooled", "pooled"]
        assert difference(fits[0].metric_, fits[1].metric_) < 1e-6
        assert plain_lmnn().fit(X, y).init_ == "generative"  # without held-out samples
        noisy, two = np.random.default_rng(2).normal(size=(60, 50)), np.arange(60) % 2
        noisy[:, :2] += 3 * two[:, None]
        assert LMNN(max_iter=1).fit(noisy, two).init_ == "generative"
        equal = np.c_[10.0 * two, np.linspace(0, 1, 60)]
        assert LMNN(max_iter=1).fit(equal, two).init_ == "generative"
        with pytest.warns(UserWarning, match="too few"):
            assert LMNN(max_iter=1).fit(X, np.arange(120) % 60).init_ == "lda"

    def test_arrays_and_estimators(self):
        X, y = classes(4)
        auto, *fits = (
            plain_lmnn(init=init).fit(X, y)
            for init in ("auto", GenerativeMetric().fit(X, y), GenerativeMetric())
        )
        for fitted in fits:
            assert difference(fitted.metric_, auto.metric_) < 1e-4
            assert fitted.init_ is None
        for scale in (1e-200, 1e200):
            given = plain_lmnn(init=scale * np.eye(4)).fit(X, y)
            assert difference(given.metric_, plain_lmnn(init="identity").fit(X, y).metric_) < 1e-6
        frozen = FrozenEstimator(PCA(3).fit(X))
        assert clone(plain_lmnn(2, init=frozen)).fit(X, y).components_.shape == (3, 4)
        assert plain_lmnn(init=PCA(3), n_components=2).fit(X, y).components_.shape == (2, 4)

    def test_a_second_pass_selects_targets_again(self):
        X, y = classes(5)
        first = plain_lmnn(init="identity").fit(X, y)
        twice = plain_lmnn(init=plain_lmnn(init="identity")).fit(X, y)
        Z = X @ first.components_.T
        value, _ = lmnn_objective(twice.components_, X, y, target_neighbors(Z, y, 3))
        assert twice.objective_ == pytest.approx(value, rel=1e-10)
        assert twice.objective_ < first.objective_

    @pytest.mark.parametrize(
        ("init", "n_components", "text"),
        [
            ("pcs", None, "init must be 'auto', 'generative'.*; got 'pcs'"),
            (None, None, "init must be 'auto'"),
            (GenerativeMetric, None, "init must be 'auto'"),
            (np.ones(4), None, "2D array"),
            (np.ones((2, 3)), None, r"4 columns, the features of X.* got shape \(2, 3\)"),
            (np.ones((5, 4)), None, "1 to 4 rows"),
            (np.ones((2, 4)), 3, "3 to 4 rows"),
            (np.zeros((2, 4)), None, "not all zero"),
            (np.full((2, 4), np.nan), None, "NaN"),
            (StandardScaler(), None, "no components_"),
            (PCA(2), 3, "3 to 4 rows"),
        ],
    )
    def test_invalid(self, init, n_components, text):
        with pytest.raises(ValueError, match=text):
            LMNN(init=init, n_components=n_components).fit(*IRIS)


# Early stopping


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


class TestEarlyStopping:
    def test_generalises_where_the_minimum_overfits(self):
        X, y = smooth_curves(1)
        X, X_test, y, y_test = train_test_split(X, y, train_size=216, stratify=y, random_state=1)
        errors = []
        for metric in ("passthrough", LMNN(), plain_lmnn()):
            model = make_pipeline(StandardScaler(), metric, KNeighborsClassifier(3))
            errors.append(1 - model.fit(X, y).score(X_test, y_test))
        euclidean, default, plain = errors
        assert default < euclidean
        assert default < plain - 0.03

    def test_path(self):
        X, y = smooth_curves(0, n_points=20, n_classes=4, n_curves=12)
        fitted = LMNN().fit(X, y)
        checkpoints, errors = fitted.validation_path_.T
        assert checkpoints[0] == 0
        assert fitted.n_iter_ in checkpoints
        assert ((errors >= 0) & (errors <= 1)).all()
        np.testing.assert_array_equal(fitted.components_, LMNN().fit(X, y).components_)
        assert plain_lmnn().fit(X, y).validation_path_.shape == (0, 2)

    def test_first_error_is_that_of_the_start(self):
        # Consecutive samples of a class are held out together; class 1 starts one fold later.
        X, y = classes(6, n=100, n_classes=2)
        wrong = []
        for fold in range(5):
            out = (np.arange(100) // 2 // 10 + y) % 5 == fold
            for k in (1, 3, 5):
                knn = KNeighborsClassifier(k).fit(X[~out], y[~out])
                wrong.append(knn.predict(X[out]) != y[out])
        fitted = LMNN(init="identity").fit(X, y)
        assert fitted.validation_path_[0, 1] == pytest.approx(np.mean(wrong))

    def test_average_with_the_validation_runs(self, rng, capsys):
        # Of 5000 samples one part is held out, and there is nothing to average: the result has the
        # objective of the last iteration.
        for n, averaged in ((150, True), (5000, False)):
            y = np.arange(n) % 2
            X = rng.normal(size=(n, 2)) + 2 * y[:, None]
            fitted = LMNN(init="identity", max_iter=1, verbose=1).fit(X, y)
            last = float(capsys.readouterr().err.split()[-1])
            assert (fitted.objective_ != pytest.approx(last, rel=1e-5)) == averaged
            x = X - X.mean(axis=0)
            value, _ = lmnn_objective(fitted.components_, x, y, target_neighbors(x, y, 3))
            assert fitted.objective_ == pytest.approx(value)

    @pytest.mark.filterwarnings("ignore:Classes .* have .* samples, too few:UserWarning")
    def test_few_samples(self, rng):
        y = np.repeat(np.arange(60), 2)
        X = rng.normal(size=(60, 5))[y] + 0.3 * rng.normal(size=(len(y), 5))
        fitted = LMNN().fit(X, y)
        assert np.isfinite(fitted.components_).all()
        assert len(fitted.validation_path_)
        # With one pair of samples, holding one out leaves no target.
        tiny = LMNN(1, init="identity").fit([[0.0, 1.0], [0.1, 1.0], [5.0, 5.0]], [0, 0, 1])
        assert tiny.validation_path_.shape == (0, 2)
        assert np.isfinite(tiny.components_).all()


# Invariances and difficult data


class TestInvariances:
    @settings(max_examples=8)
    @given(seed=st.integers(0, 10**6), init=st.sampled_from(["auto", "identity", "pca", "lda"]))
    def test_rotation_order_and_names(self, seed, init):
        X, y = classes(seed)
        rng = np.random.default_rng(seed)
        Q, _ = np.linalg.qr(rng.normal(size=(4, 4)))
        order, names = rng.permutation(len(X)), np.array(["b", "c", "a"])
        plain = plain_lmnn(init=init, tol=1e-5).fit(X, y)
        moved = plain_lmnn(init=init, tol=1e-5).fit(X[order] @ Q.T, names[y[order]])
        # Rounding is amplified where steps of L-BFGS are chosen, so not to the last digits.
        assert moved.objective_ == pytest.approx(plain.objective_, rel=1e-4)
        assert difference(Q.T @ moved.metric_ @ Q, plain.metric_) < 0.03
        assert moved.classes_.tolist() == ["a", "b", "c"]

    @pytest.mark.parametrize(
        ("scale", "offset", "tol"),
        [(1e-99, 0, 1e-4), (1e99, 0, 1e-4), (1.0, 1e6, 1e-4), (1.0, 1e10, 0.05)],
    )
    def test_scale_and_offset(self, scale, offset, tol):
        X, y = classes(5)
        plain, moved = plain_lmnn().fit(X, y), plain_lmnn().fit(scale * X + offset, y)
        assert moved.objective_ == pytest.approx(plain.objective_, rel=tol)
        assert difference(moved.metric_ * scale**2, plain.metric_) < tol

    def test_kinds_of_arrays(self):
        pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
        X, y = classes(8)
        expected, names = plain_lmnn().fit(X, y), ["p", "q", "r", "s"]
        read_only = np.asfortranarray(X)
        read_only.flags.writeable = False
        frames = [pandas.DataFrame(X, columns=names), polars.DataFrame(X, schema=names)]
        for A in (read_only, X.tolist(), np.repeat(X, 2, axis=0)[::2], *frames):
            fitted = plain_lmnn().fit(A, y)
            assert difference(fitted.components_, expected.components_) < 1e-6
        assert fitted.feature_names_in_.tolist() == names
        single = plain_lmnn().fit(X.astype(np.float32), y)
        assert single.transform(X.astype(np.float32)).dtype == np.float32
        assert difference(single.metric_, expected.metric_) < 0.01

    @pytest.mark.parametrize("early_stopping", [True, False])
    def test_sample_weights(self, rng, early_stopping):
        def fit(*args):
            return LMNN(early_stopping=early_stopping).fit(*args)

        X, y = classes(19)
        weights, kept = rng.uniform(0.1, 3, len(X)), rng.random(len(X)) < 0.8
        cases = [
            (fit(X, y), fit(X, y, np.full(len(X), 3.0)), 1e-12),
            (fit(X[kept], y[kept]), fit(X, y, kept.astype(float)), 1e-12),
            (fit(X, y, weights), fit(X, y, 1e6 * weights), 1e-6),
        ]
        for expected, found, tol in cases:
            assert difference(found.metric_, expected.metric_) < tol


@pytest.mark.parametrize(
    "X",
    [
        np.c_[IRIS[0], IRIS[0], np.ones(150)],
        np.repeat(IRIS[0][::2], 2, axis=0),
        np.random.default_rng(0).normal(size=(50, 60)),
        np.ones((150, 3)),
        IRIS[0][:, :1],
        IRIS[0] + 1e8 * IRIS[1][:, None],
        np.repeat(IRIS[0][:50], 3, axis=0)[np.argsort(np.arange(150) % 3, kind="stable")],
    ],
    ids=["collinear", "duplicates", "wide", "all equal", "one feature", "far", "same in classes"],
)
@pytest.mark.parametrize("early_stopping", [True, False])
def test_difficult_data(X, early_stopping):
    y = IRIS[1][:: 150 // len(X)]
    fitted = LMNN(early_stopping=early_stopping, max_iter=500).fit(X, y)
    assert np.isfinite(fitted.components_).all()
    assert 0 <= fitted.objective_ < np.inf


def test_small_classes():
    X, y = classes(12)
    y[:2], y[2] = 8, 9
    text = r"Classes \[8, 9\] have \[2, 1\] samples, too few for n_neighbors=3"
    with pytest.warns(UserWarning, match=text) as caught:
        assert np.isfinite(plain_lmnn().fit(X, y).metric_).all()
    assert len(caught) == 1
    with pytest.raises(ValueError, match="Every class has a single sample"):
        LMNN().fit(IRIS[0][:4], [0, 1, 2, 3])


# Use


def test_iterations(capsys):
    X, y = classes(14)
    whole = plain_lmnn(verbose=1).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == whole.n_iter_
    assert lines[0].startswith("[LMNN] iteration 1: objective ")
    with pytest.warns(ConvergenceWarning, match="LMNN did not converge in max_iter=5"):
        part = plain_lmnn(max_iter=5).fit(X, y)
    assert part.n_iter_ == 5
    assert part.objective_ > whole.objective_
    assert not capsys.readouterr().err


def test_pipelines_and_metric_methods():
    X, y = classes(16)
    pipeline = make_pipeline(plain_lmnn(init=GenerativeMetric()), KNeighborsClassifier())
    grid = {"lmnn__push": [0.2, 0.8], "lmnn__init__shrinkage": [0.1, 0.5]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.5
    fitted = plain_lmnn(preprocessor=X).fit(np.arange(len(X)), y)
    np.testing.assert_array_equal(fitted.components_, plain_lmnn().fit(X, y).components_)
    z = fitted.transform(X)
    np.testing.assert_array_equal(fitted.transform([3, 4]), z[3:5])
    assert fitted.pair_distance([[0, 1]]) == pytest.approx([np.linalg.norm(z[0] - z[1])])
    np.testing.assert_allclose(fitted.inverse_transform(z), X, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), z)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        LMNN().transform(X)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be an integer >= 1; got 0"),
        ({"n_neighbors": 10**9}, "less than the number of samples, 150; got 10+"),
        ({"n_components": 5}, r"n_components must be None or an integer in \[1, 4\]"),
        ({"push": 1.5}, r"push must be a number in \[0, 1\]; got 1.5"),
        ({"push": np.nan}, r"push must be a number in \[0, 1\]; got nan"),
        ({"loss": "log"}, "loss must be 'hinge' or 'squared_hinge'"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1"),
        ({"tol": -1}, r"tol must be a number in \[0, 1\]; got -1"),
        ({"early_stopping": "auto"}, "early_stopping must be a bool"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_invalid_parameters(parameters, text):
    with pytest.raises(ValueError, match=text):
        LMNN(**parameters).fit(*IRIS)


@pytest.mark.parametrize(
    ("X", "y", "weights", "error", "text"),
    [
        (np.where(IRIS[0] > 7, np.nan, IRIS[0]), IRIS[1], None, ValueError, "contains NaN"),
        (1e101 * IRIS[0], IRIS[1], None, ValueError, "squares overflow float64"),
        (IRIS[0], np.zeros(150), None, ValueError, "at least 2 classes; got 1"),
        (IRIS[0], IRIS[1][:-1], None, ValueError, "inconsistent numbers of samples"),
        (IRIS[0], IRIS[0][:, 0], None, ValueError, "Unknown label type: continuous.*MLKR"),
        (np.ma.masked_greater(IRIS[0], 7), IRIS[1], None, TypeError, "masked array"),
        (*IRIS, -np.ones(150), ValueError, "sample_weight has negative entries"),
        (*IRIS, IRIS[1] == 0, ValueError, "LMNN needs samples of at least 2 classes; got 1"),
    ],
    ids=["nan", "huge", "one class", "lengths", "real", "masked", "negative", "weights"],
)
def test_invalid_data(X, y, weights, error, text):
    with pytest.raises(error, match=text):
        LMNN().fit(X, y, weights)
