"""LMNN as an estimator: learned metric, invariances, difficult data, validation."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import genmetric.learners._lmnn.objective as objective_module
from genmetric import GenerativeMetric
from genmetric.learners._lmnn import LMNN, impostors, lmnn_objective, target_neighbors

IRIS = load_iris(return_X_y=True)


# The checks use small classes and few iterations, which LMNN warns about.
@pytest.mark.filterwarnings("ignore:Classes .* have .* samples, too few:UserWarning")
@pytest.mark.filterwarnings("ignore:LMNN did not converge:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        LMNN(),
        LMNN(
            1,
            n_components=1,
            init="pca",
            push=0.7,
            loss="squared_hinge",
            early_stopping=False,
        ),
    ],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": "A repeated sample is a target neighbour "
        "of its copies; a weighted sample is not a target of itself.",
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def classes(seed=0, n=150, n_features=4, n_classes=3):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, n_features)) * np.exp(rng.normal(size=n_features))
    return X + rng.normal(size=(n_classes, n_features))[y], y


def converged_lmnn(*args, **kwargs):
    """LMNN that minimises the objective until convergence."""
    return LMNN(*args, early_stopping=False, **kwargs)


def difference(a, b):
    """Largest difference, relative to the largest entry."""
    return np.abs(a - b).max() / np.abs(b).max()


class TestLearnedMetric:
    @pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
    def test_objective_is_that_of_the_components(self, loss):
        X, y = classes()
        fitted = converged_lmnn(2, init="identity", push=0.3, loss=loss).fit(X, y)
        targets = target_neighbors(X - X.mean(axis=0), y, 2)
        value, _ = lmnn_objective(
            fitted.components_, X - X.mean(axis=0), y, targets, push=0.3, loss=loss
        )
        assert fitted.objective_ == pytest.approx(value, rel=1e-10)
        assert fitted.n_iter_ >= 1
        np.testing.assert_allclose(fitted.metric_, fitted.get_mahalanobis_matrix())
        np.testing.assert_array_equal(fitted.classes_, [0, 1, 2])

    @pytest.mark.parametrize("init", ["auto", "identity", "pca", "lda", "random"])
    def test_lower_than_any_multiple_of_the_start(self, init):
        X, y = classes(1)
        x = X - X.mean(axis=0)
        fitted = converged_lmnn(init=init, random_state=0).fit(X, y)
        start = converged_lmnn(init=init, random_state=0, callback=lambda *_: True).fit(X, y)
        assert fitted.objective_ < start.objective_
        if init == "identity":
            targets = target_neighbors(x, y, 3)
            for s in np.logspace(-2, 1, 30):
                value, _ = lmnn_objective(s * np.eye(4), x, y, targets)
                assert fitted.objective_ < value

    def test_more_push_fewer_violations(self):
        X, y = classes(2)
        x = X - X.mean(axis=0)
        targets = target_neighbors(x, y, 3)
        hinges = [
            lmnn_objective(
                converged_lmnn(init="identity", push=p).fit(X, y).components_, x, y, targets, push=1
            )
            for p in (0.1, 0.5, 0.9)
        ]
        assert hinges[0][0] > hinges[1][0] > hinges[2][0]

    def test_nearest_neighbours_improve(self):
        X, y = load_wine(return_X_y=True)
        plain = cross_val_score(KNeighborsClassifier(3), X, y).mean()
        learned = cross_val_score(make_pipeline(LMNN(), KNeighborsClassifier(3)), X, y).mean()
        assert learned > plain + 0.2

    @pytest.mark.parametrize("n_components", [1, 2])
    def test_fewer_components(self, n_components):
        X, y = classes(3)
        for init in ("auto", "pca", "lda", "identity"):
            fitted = converged_lmnn(n_components=n_components, init=init).fit(X, y)
            assert fitted.transform(X).shape == (len(X), n_components)
            assert np.linalg.matrix_rank(fitted.metric_) == n_components

    def test_metric_as_init(self):
        X, y = classes(4)
        metric = GenerativeMetric().fit(X, y)
        fits = [
            converged_lmnn(init=init).fit(X, y) for init in ("auto", metric, GenerativeMetric())
        ]
        for fitted in fits[1:]:
            np.testing.assert_array_equal(fitted.components_, fits[0].components_)
        frozen = FrozenEstimator(GenerativeMetric(interpolation=0.0).fit(X[:50], y[:50]))
        np.testing.assert_allclose(
            clone(converged_lmnn(init=frozen)).fit(X, y).metric_,
            converged_lmnn(init="identity").fit(X, y).metric_,
            rtol=1e-6,
        )


class TestInvariances:
    @settings(max_examples=8)
    @given(seed=st.integers(0, 10**6), init=st.sampled_from(["auto", "identity", "pca", "lda"]))
    def test_rotation(self, seed, init):
        X, y = classes(seed)
        Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))
        plain, turned = (converged_lmnn(init=init, tol=1e-5).fit(A, y) for A in (X, X @ Q.T))
        # Rounding is amplified where steps of L-BFGS are chosen, so not to the last digits.
        assert turned.objective_ == pytest.approx(plain.objective_, rel=1e-4)
        assert difference(Q.T @ turned.metric_ @ Q, plain.metric_) < 0.03

    @settings(max_examples=8)
    @given(seed=st.integers(0, 10**6), init=st.sampled_from(["auto", "identity"]))
    def test_order_of_samples_and_class_names(self, seed, init):
        X, y = classes(seed)
        order = np.random.default_rng(seed).permutation(len(X))
        names = np.array(["b", "c", "a"])
        plain = converged_lmnn(init=init, tol=1e-5).fit(X, y)
        moved = converged_lmnn(init=init, tol=1e-5).fit(X[order], names[y[order]])
        assert moved.objective_ == pytest.approx(plain.objective_, rel=1e-4)
        assert difference(moved.metric_, plain.metric_) < 0.03
        assert moved.classes_.tolist() == ["a", "b", "c"]

    @pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e9, 1e150])
    def test_scale(self, scale):
        X, y = classes(5)
        plain, scaled = converged_lmnn().fit(X, y), converged_lmnn().fit(scale * X, y)
        assert scaled.objective_ == pytest.approx(plain.objective_, rel=1e-6)
        assert difference(scaled.components_ * scale, plain.components_) < 1e-4
        assert np.isfinite(scaled.metric_).all()
        assert difference(scaled.transform(scale * X), plain.transform(X)) < 1e-4

    def test_offset(self):
        X, y = classes(6)
        plain = converged_lmnn().fit(X, y)
        assert difference(converged_lmnn().fit(X + 1e6, y).metric_, plain.metric_) < 1e-4
        assert difference(converged_lmnn().fit(X + 1e10, y).metric_, plain.metric_) < 0.05

    def test_threads(self, monkeypatch):
        monkeypatch.setattr(objective_module, "MIN_PARALLEL_WORK", 0)
        monkeypatch.setattr(impostors, "CHUNK_BYTES", 30_000)
        monkeypatch.setattr(impostors, "_PAIRS_PER_PIECE", 500)
        X, y = classes(7)
        fits = [converged_lmnn(n_jobs=n).fit(X, y) for n in (None, 1, 2, 3, -1)]
        assert len({fitted.components_.tobytes() for fitted in fits}) == 1
        assert len({fitted.objective_ for fitted in fits}) == 1

    def test_kind_of_array(self):
        X, y = classes(8)
        expected = converged_lmnn().fit(X, y).components_
        read_only = X.copy()
        read_only.flags.writeable = False
        for A in (np.asfortranarray(X), read_only, X.tolist(), np.repeat(X, 2, axis=0)[::2]):
            assert difference(converged_lmnn().fit(A, y).components_, expected) < 1e-6

    def test_float32(self):
        X, y = classes(9)
        fitted = converged_lmnn().fit(X.astype(np.float32), y)
        assert fitted.transform(X.astype(np.float32)).dtype == np.float32
        assert difference(fitted.metric_, converged_lmnn().fit(X, y).metric_) < 0.01

    def test_frames(self):
        pandas = pytest.importorskip("pandas")
        polars = pytest.importorskip("polars")
        X, y = classes(10)
        names = ["p", "q", "r", "s"]
        expected = converged_lmnn().fit(X, y).components_
        for frame in (pandas.DataFrame(X, columns=names), polars.DataFrame(X, schema=names)):
            fitted = converged_lmnn().fit(frame, y)
            assert difference(fitted.components_, expected) < 1e-6
            assert fitted.feature_names_in_.tolist() == names


class TestDifficultData:
    @pytest.mark.parametrize(
        "X",
        [
            np.c_[IRIS[0], np.ones(150)],
            np.c_[IRIS[0], IRIS[0]],
            np.repeat(IRIS[0][::2], 2, axis=0),
            np.random.default_rng(0).normal(size=(150, 200)),
            np.ones((150, 3)),
            IRIS[0][:, :1],
            IRIS[0] + 1e8 * IRIS[1][:, None],
        ],
        ids=["constant", "collinear", "duplicates", "wide", "all equal", "one feature", "far"],
    )
    def test_works(self, X):
        fitted = converged_lmnn(max_iter=500).fit(X, IRIS[1])
        assert np.isfinite(fitted.components_).all()
        assert 0 <= fitted.objective_ < np.inf

    def test_labels(self):
        X, y = classes(11, n_classes=2)
        expected = converged_lmnn().fit(X, y).components_
        for labels in (
            y.astype(bool),
            y.astype(str),
            y.astype(float),
            np.array(["a", "b"], object)[y],
            7 * y - 9,
        ):
            np.testing.assert_array_equal(converged_lmnn().fit(X, labels).components_, expected)

    def test_same_samples_in_two_classes(self):
        X = np.repeat(IRIS[0][:50], 2, axis=0)
        fitted = converged_lmnn().fit(X, np.arange(100) % 2)
        assert np.isfinite(fitted.metric_).all()

    def test_small_classes(self):
        X, y = classes(12)
        y = y.copy()
        y[:2], y[2] = 8, 9
        text = r"Classes \[8, 9\] have \[2, 1\] samples, too few for n_neighbors=3"
        with pytest.warns(UserWarning, match=text) as caught:
            fitted = converged_lmnn().fit(X, y)
        assert len(caught) == 1
        assert np.isfinite(fitted.metric_).all()
        with pytest.warns(UserWarning, match="too few"):
            many = converged_lmnn(100).fit(X, y)
        assert np.isfinite(many.metric_).all()

    def test_classes_of_one_sample(self):
        with pytest.raises(ValueError, match="Every class has a single sample"):
            converged_lmnn().fit(IRIS[0][:4], [0, 1, 2, 3])


class TestProgress:
    def test_warm_start_continues(self):
        X, y = classes(13)
        whole = converged_lmnn().fit(X, y)
        with pytest.warns(ConvergenceWarning, match="max_iter=5"):
            part = converged_lmnn(warm_start=True, max_iter=5).fit(X, y)
        before = part.objective_
        part.set_params(max_iter=200).fit(X, y)
        assert part.objective_ < before
        assert part.objective_ == pytest.approx(whole.objective_, rel=1e-3)
        again = part.fit(X, y)
        assert again.n_iter_ < whole.n_iter_
        with pytest.raises(ValueError, match="warm_start continues from components_ of shape"):
            part.set_params(n_components=2).fit(X, y)

    def test_callback(self):
        X, y = classes(14)
        seen = []
        fitted = converged_lmnn(callback=lambda *args: seen.append(args)).fit(X, y)
        components, numbers = zip(*seen, strict=True)
        assert numbers == tuple(range(1, fitted.n_iter_ + 1))
        np.testing.assert_allclose(components[-1].reshape(4, 4), fitted.components_)
        stopped = converged_lmnn(callback=lambda _, n_iter: n_iter == 4).fit(
            X, y
        )  # without a warning
        assert stopped.n_iter_ == 4

    def test_callback_has_the_arguments_of_nca(self):
        X, y = classes(14)
        shapes = {}

        def callback(components, n_iter):
            shapes[type(n_iter), components.shape] = True

        LMNN(callback=callback).fit(X, y)
        NeighborhoodComponentsAnalysis(callback=callback).fit(X, y)
        assert list(shapes) == [(int, (16,))]

    def test_verbose(self, caplog):
        X, y = classes(15)
        fitted = converged_lmnn(verbose=1).fit(X, y)
        lines = list(caplog.messages)
        assert len(lines) == fitted.n_iter_ + 1
        assert lines[0].startswith("iteration 1: objective")
        assert lines[-1].startswith("converged: objective")
        caplog.clear()
        converged_lmnn().fit(X, y)
        assert not caplog.messages


class TestUse:
    def test_grid_search(self):
        X, y = classes(16)
        pipeline = make_pipeline(converged_lmnn(init=GenerativeMetric()), KNeighborsClassifier())
        grid = {"lmnn__push": [0.2, 0.8], "lmnn__init__shrinkage": [0.1, 0.5]}
        search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
        assert 0 < search.best_params_["lmnn__push"] < 1

    def test_metric_methods(self):
        X, y = classes(17)
        fitted = converged_lmnn().fit(X, y)
        z = fitted.transform(X)
        d = np.linalg.norm(z[0] - z[1])
        assert fitted.get_metric()(X[0], X[1]) == pytest.approx(d)
        assert fitted.pair_distance([[X[0], X[1]]]) == pytest.approx([d])
        assert fitted.pair_score([[X[0], X[1]]]) == pytest.approx([-d])
        np.testing.assert_allclose(fitted.inverse_transform(z), X, rtol=1e-6, atol=1e-6)
        assert fitted.get_feature_names_out().tolist() == [f"lmnn{i}" for i in range(4)]
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(again.transform(X), z)

    def test_preprocessor(self):
        X, y = classes(18)
        fitted = converged_lmnn(preprocessor=X).fit(np.arange(len(X)), y)
        np.testing.assert_array_equal(fitted.components_, converged_lmnn().fit(X, y).components_)
        np.testing.assert_array_equal(fitted.transform([3, 4]), fitted.transform(X[3:5]))

    def test_not_fitted(self):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            converged_lmnn().transform(IRIS[0])


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({"n_neighbors": 0}, ValueError, "n_neighbors must be an integer >= 1; got 0"),
        ({"n_neighbors": 2.5}, ValueError, "n_neighbors must be an integer >= 1; got 2.5"),
        ({"n_neighbors": 10**9}, ValueError, "less than the number of samples, 150; got 10+"),
        ({"n_components": 5}, ValueError, r"n_components must be None or an integer in \[1, 4\]"),
        ({"push": 1.5}, ValueError, r"push must be a number in \[0, 1\]; got 1.5"),
        ({"push": np.nan}, ValueError, r"push must be a number in \[0, 1\]; got nan"),
        ({"loss": "log"}, ValueError, "loss must be 'hinge' or 'squared_hinge'"),
        ({"max_iter": 0}, ValueError, "max_iter must be an integer >= 1"),
        ({"tol": -1}, ValueError, r"tol must be a number in \[0, 1\]; got -1"),
        ({"tol": 1e300}, ValueError, r"tol must be a number in \[0, 1\]; got 1e\+300"),
        ({"tol": "small"}, ValueError, "tol must be a number"),
        ({"early_stopping": "auto"}, ValueError, "early_stopping must be a bool"),
        ({"warm_start": True}, ValueError, "warm_start=True needs early_stopping=False"),
        ({"init": "euclid"}, ValueError, "init must be one of 'auto'"),
        ({"init": np.eye(3)}, ValueError, "samples with 3 features, but X has 4"),
        ({"callback": 3}, ValueError, "callback must be None or a callable; got 3"),
        ({"n_jobs": 0, "init": "identity"}, ValueError, "n_jobs must be"),
    ],
)
def test_invalid_parameters(parameters, error, text):
    with pytest.raises(error, match=text):
        LMNN(**parameters).fit(*IRIS)


@pytest.mark.parametrize(
    ("X", "y", "error", "text"),
    [
        (np.where(IRIS[0] > 7, np.nan, IRIS[0]), IRIS[1], ValueError, "contains NaN"),
        (np.where(IRIS[0] > 7, np.inf, IRIS[0]), IRIS[1], ValueError, "contains infinity"),
        (IRIS[0], np.zeros(150), ValueError, "class"),
        (IRIS[0], IRIS[1][:-1], ValueError, "inconsistent numbers of samples"),
        (IRIS[0], IRIS[0][:, 0], ValueError, "Unknown label type: continuous"),
        (IRIS[0][:0], IRIS[1][:0], ValueError, "0 sample"),
        (IRIS[0].astype(str).astype(object) + "x", IRIS[1], ValueError, "could not convert"),
        (np.ma.masked_greater(IRIS[0], 7), IRIS[1], TypeError, "masked array"),
        (IRIS[0][0], IRIS[1], ValueError, "2D array"),
    ],
    ids=["nan", "inf", "one class", "lengths", "real", "empty", "text", "masked", "1d"],
)
def test_invalid_data(X, y, error, text):
    with pytest.raises(error, match=text):
        LMNN().fit(X, y)


class TestSampleWeight:
    @pytest.mark.parametrize("early_stopping", [True, False])
    def test_equal_weights_change_nothing(self, early_stopping):
        X, y = classes(19)
        expected = LMNN(early_stopping=early_stopping).fit(X, y)
        weighted = LMNN(early_stopping=early_stopping).fit(X, y, np.full(len(X), 3.0))
        np.testing.assert_array_equal(weighted.components_, expected.components_)

    @pytest.mark.parametrize("early_stopping", [True, False])
    def test_zero_weight_removes_samples(self, early_stopping):
        X, y = classes(20)
        kept = np.random.default_rng(0).random(len(X)) < 0.8
        expected = LMNN(early_stopping=early_stopping).fit(X[kept], y[kept])
        weighted = LMNN(early_stopping=early_stopping).fit(X, y, kept.astype(float))
        np.testing.assert_array_equal(weighted.components_, expected.components_)

    @pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
    def test_objective(self, loss):
        X, y = classes(21)
        weights = np.random.default_rng(0).uniform(0.1, 3, len(X))
        fitted = converged_lmnn(init="identity", loss=loss).fit(X, y, weights)
        x = X - X.mean(axis=0)
        value, _ = lmnn_objective(
            fitted.components_,
            x,
            y,
            target_neighbors(x, y, 3),
            loss=loss,
            sample_weight=weights / weights.mean(),
        )
        assert fitted.objective_ == pytest.approx(value, rel=1e-10)
        unweighted = converged_lmnn(init="identity", loss=loss).fit(X, y)
        assert difference(fitted.metric_, unweighted.metric_) > 0.01

    def test_only_ratios_matter(self):
        X, y = classes(22)
        weights = np.random.default_rng(0).uniform(0.1, 3, len(X))
        fits = [LMNN().fit(X, y, c * weights) for c in (1.0, 1e6)]
        assert difference(fits[1].metric_, fits[0].metric_) < 1e-6

    def test_invalid_weights(self):
        with pytest.raises(ValueError, match="sample_weight"):
            LMNN().fit(*IRIS, -np.ones(150))
        with pytest.raises(ValueError, match=r"^LMNN needs samples of at least 2 classes; got 1"):
            LMNN(push=0.3).fit(*IRIS, IRIS[1] == 0)


def test_many_small_classes_are_counted_in_the_warning():
    X, _ = classes(23)
    with pytest.warns(UserWarning, match="50 of 50 classes have 3 to 3 samples, too few") as caught:
        LMNN().fit(X, np.arange(150) // 3)
    assert len(caught) == 1
