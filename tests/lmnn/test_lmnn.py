"""LMNN as an estimator: what it learns, what must not change it, what it takes and refuses."""

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
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import genmetric.lmnn.objective as objective_module
from genmetric import GenerativeMetric
from genmetric.lmnn import LMNN, impostors, lmnn_objective, target_neighbors

IRIS = load_iris(return_X_y=True)


# The checks make small classes and few iterations; the warnings that say so are ours.
@pytest.mark.filterwarnings("ignore:Classes .* have .* rows, too few:UserWarning")
@pytest.mark.filterwarnings("ignore:LMNN did not converge:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        LMNN(),
        LMNN(1, n_components=1, init="pca", push=0.7, loss="squared_hinge"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def classes(seed=0, n=150, n_features=4, n_classes=3):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, n_features)) * np.exp(rng.normal(size=n_features))
    return X + rng.normal(size=(n_classes, n_features))[y], y


def difference(a, b):
    """Largest difference, relative to the largest entry."""
    return np.abs(a - b).max() / np.abs(b).max()


class TestWhatItLearns:
    @pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
    def test_objective_is_that_of_the_components(self, loss):
        X, y = classes()
        fitted = LMNN(2, init="identity", push=0.3, loss=loss).fit(X, y)
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
        fitted = LMNN(init=init, random_state=0).fit(X, y)
        start = LMNN(init=init, random_state=0, callback=lambda *_: True).fit(X, y)
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
                LMNN(init="identity", push=p).fit(X, y).components_, x, y, targets, push=1
            )
            for p in (0.1, 0.5, 0.9)
        ]
        assert hinges[0][0] > hinges[1][0] > hinges[2][0]

    def test_neighbours_get_better(self):
        X, y = load_wine(return_X_y=True)
        plain = cross_val_score(KNeighborsClassifier(3), X, y).mean()
        learned = cross_val_score(make_pipeline(LMNN(), KNeighborsClassifier(3)), X, y).mean()
        assert learned > plain + 0.2

    @pytest.mark.parametrize("n_components", [1, 2])
    def test_fewer_components(self, n_components):
        X, y = classes(3)
        for init in ("auto", "pca", "lda", "identity"):
            fitted = LMNN(n_components=n_components, init=init).fit(X, y)
            assert fitted.transform(X).shape == (len(X), n_components)
            assert np.linalg.matrix_rank(fitted.metric_) == n_components

    def test_a_metric_starts_it(self):
        X, y = classes(4)
        metric = GenerativeMetric().fit(X, y)
        fits = [LMNN(init=init).fit(X, y) for init in ("auto", metric, GenerativeMetric())]
        for fitted in fits[1:]:
            np.testing.assert_array_equal(fitted.components_, fits[0].components_)
        frozen = FrozenEstimator(GenerativeMetric(interpolation=0.0).fit(X[:50], y[:50]))
        np.testing.assert_allclose(
            clone(LMNN(init=frozen)).fit(X, y).metric_,
            LMNN(init="identity").fit(X, y).metric_,
            rtol=1e-6,
        )


class TestWhatMustNotChangeIt:
    @settings(max_examples=8)
    @given(seed=st.integers(0, 10**6), init=st.sampled_from(["auto", "identity", "pca", "lda"]))
    def test_rotation(self, seed, init):
        X, y = classes(seed)
        Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))
        plain, turned = (LMNN(init=init, tol=1e-5).fit(A, y) for A in (X, X @ Q.T))
        # Rounding is amplified where steps of L-BFGS are chosen, so not to the last digits.
        assert turned.objective_ == pytest.approx(plain.objective_, rel=1e-4)
        assert difference(Q.T @ turned.metric_ @ Q, plain.metric_) < 0.03

    @settings(max_examples=8)
    @given(seed=st.integers(0, 10**6), init=st.sampled_from(["auto", "identity"]))
    def test_order_of_the_rows_and_names_of_the_classes(self, seed, init):
        X, y = classes(seed)
        order = np.random.default_rng(seed).permutation(len(X))
        names = np.array(["b", "c", "a"])
        plain = LMNN(init=init, tol=1e-5).fit(X, y)
        moved = LMNN(init=init, tol=1e-5).fit(X[order], names[y[order]])
        assert moved.objective_ == pytest.approx(plain.objective_, rel=1e-4)
        assert difference(moved.metric_, plain.metric_) < 0.03
        assert moved.classes_.tolist() == ["a", "b", "c"]

    @pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e9, 1e150])
    def test_scale(self, scale):
        X, y = classes(5)
        plain, scaled = LMNN().fit(X, y), LMNN().fit(scale * X, y)
        assert scaled.objective_ == pytest.approx(plain.objective_, rel=1e-6)
        assert difference(scaled.components_ * scale, plain.components_) < 1e-4
        assert np.isfinite(scaled.metric_).all()
        assert difference(scaled.transform(scale * X), plain.transform(X)) < 1e-4

    def test_offset(self):
        X, y = classes(6)
        plain = LMNN().fit(X, y)
        assert difference(LMNN().fit(X + 1e6, y).metric_, plain.metric_) < 1e-4
        assert difference(LMNN().fit(X + 1e10, y).metric_, plain.metric_) < 0.05

    def test_threads(self, monkeypatch):
        monkeypatch.setattr(objective_module, "WORTH_THREADS", 0)
        monkeypatch.setattr(impostors, "CHUNK_BYTES", 30_000)
        monkeypatch.setattr(impostors, "_PAIRS_AT_ONCE", 500)
        X, y = classes(7)
        fits = [LMNN(n_jobs=n).fit(X, y) for n in (None, 1, 2, 3, -1)]
        assert len({fitted.components_.tobytes() for fitted in fits}) == 1
        assert len({fitted.objective_ for fitted in fits}) == 1

    def test_kind_of_array(self):
        X, y = classes(8)
        expected = LMNN().fit(X, y).components_
        read_only = X.copy()
        read_only.flags.writeable = False
        for A in (np.asfortranarray(X), read_only, X.tolist(), np.repeat(X, 2, axis=0)[::2]):
            assert difference(LMNN().fit(A, y).components_, expected) < 1e-6

    def test_float32(self):
        X, y = classes(9)
        fitted = LMNN().fit(X.astype(np.float32), y)
        assert fitted.transform(X.astype(np.float32)).dtype == np.float32
        assert difference(fitted.metric_, LMNN().fit(X, y).metric_) < 0.01

    def test_frames(self):
        pandas = pytest.importorskip("pandas")
        polars = pytest.importorskip("polars")
        X, y = classes(10)
        names = ["p", "q", "r", "s"]
        expected = LMNN().fit(X, y).components_
        for frame in (pandas.DataFrame(X, columns=names), polars.DataFrame(X, schema=names)):
            fitted = LMNN().fit(frame, y)
            assert difference(fitted.components_, expected) < 1e-6
            assert fitted.feature_names_in_.tolist() == names


class TestHardData:
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
        fitted = LMNN(max_iter=500).fit(X, IRIS[1])
        assert np.isfinite(fitted.components_).all()
        assert 0 <= fitted.objective_ < np.inf

    def test_labels(self):
        X, y = classes(11, n_classes=2)
        expected = LMNN().fit(X, y).components_
        for labels in (
            y.astype(bool),
            y.astype(str),
            y.astype(float),
            np.array(["a", "b"], object)[y],
            7 * y - 9,
        ):
            np.testing.assert_array_equal(LMNN().fit(X, labels).components_, expected)

    def test_same_rows_in_two_classes(self):
        X = np.repeat(IRIS[0][:50], 2, axis=0)
        fitted = LMNN().fit(X, np.arange(100) % 2)
        assert np.isfinite(fitted.metric_).all()

    def test_small_classes(self):
        X, y = classes(12)
        y = y.copy()
        y[:2], y[2] = 8, 9
        text = r"Classes \[8, 9\] have \[2, 1\] rows, too few for n_neighbors=3"
        with pytest.warns(UserWarning, match=text) as caught:
            fitted = LMNN().fit(X, y)
        assert len(caught) == 1
        assert np.isfinite(fitted.metric_).all()
        with pytest.warns(UserWarning, match="too few"):
            many = LMNN(1000).fit(X, y)
        assert np.isfinite(many.metric_).all()

    def test_classes_of_one_row(self):
        with pytest.raises(ValueError, match="Every class has a single row"):
            LMNN().fit(IRIS[0][:4], [0, 1, 2, 3])


class TestProgress:
    def test_warm_start_goes_on(self):
        X, y = classes(13)
        whole = LMNN().fit(X, y)
        with pytest.warns(ConvergenceWarning, match="max_iter=5"):
            part = LMNN(warm_start=True, max_iter=5).fit(X, y)
        before = part.objective_
        part.set_params(max_iter=200).fit(X, y)
        assert part.objective_ < before
        assert part.objective_ == pytest.approx(whole.objective_, rel=1e-3)
        again = part.fit(X, y)
        assert again.n_iter_ < whole.n_iter_
        with pytest.raises(ValueError, match="warm_start goes on from components_ of shape"):
            part.set_params(n_components=2).fit(X, y)

    def test_callback(self):
        X, y = classes(14)
        seen = []
        fitted = LMNN(callback=lambda *args: seen.append(args)).fit(X, y)
        numbers, values, components = zip(*seen, strict=True)
        assert numbers == tuple(range(1, fitted.n_iter_ + 1))
        assert values[-1] == pytest.approx(fitted.objective_, rel=1e-6)
        np.testing.assert_allclose(components[-1], fitted.components_)
        stopped = LMNN(callback=lambda n, *_: n == 4).fit(X, y)  # without a warning
        assert stopped.n_iter_ == 4

    def test_verbose(self, capsys):
        X, y = classes(15)
        fitted = LMNN(verbose=1).fit(X, y)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == fitted.n_iter_ + 1
        assert lines[0].startswith("[LMNN] iteration 1: objective")
        assert lines[-1].startswith("[LMNN] converged: objective")
        LMNN().fit(X, y)
        assert capsys.readouterr().out == ""


class TestUse:
    def test_grid_search(self):
        X, y = classes(16)
        pipeline = make_pipeline(LMNN(init=GenerativeMetric()), KNeighborsClassifier())
        grid = {"lmnn__push": [0.2, 0.8], "lmnn__init__shrinkage": [0.1, 0.5]}
        search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
        assert 0 < search.best_params_["lmnn__push"] < 1

    def test_metric_methods(self):
        X, y = classes(17)
        fitted = LMNN().fit(X, y)
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
        fitted = LMNN(preprocessor=X).fit(np.arange(len(X)), y)
        np.testing.assert_array_equal(fitted.components_, LMNN().fit(X, y).components_)
        np.testing.assert_array_equal(fitted.transform([3, 4]), fitted.transform(X[3:5]))

    def test_not_fitted(self):
        with pytest.raises(NotFittedError):
            LMNN().transform(IRIS[0])


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({"n_neighbors": 0}, ValueError, "n_neighbors must be a whole number of at least 1"),
        ({"n_neighbors": 2.5}, ValueError, "n_neighbors must be a whole number"),
        ({"n_components": 5}, ValueError, r"n_components, must be in \[1, 4\]"),
        ({"push": 1.5}, ValueError, "push must be a number from 0 to 1; got 1.5"),
        ({"push": np.nan}, ValueError, "push must be a number from 0 to 1"),
        ({"loss": "log"}, ValueError, 'loss must be "hinge" or "squared_hinge"'),
        ({"max_iter": 0}, ValueError, "max_iter must be a whole number of at least 1"),
        ({"tol": -1}, ValueError, "tol must be a number of at least 0; got -1"),
        ({"tol": "small"}, ValueError, "tol must be a number"),
        ({"init": "euclid"}, ValueError, "init must be one of 'auto'"),
        ({"init": np.eye(3)}, ValueError, "rows of 3 features, but X has 4"),
        ({"callback": 3}, TypeError, "callback must be None or a function"),
        ({"n_jobs": 0, "init": "identity"}, ValueError, "n_jobs must be"),
    ],
)
def test_refused_parameters(parameters, error, text):
    with pytest.raises(error, match=text):
        LMNN(**parameters).fit(*IRIS)


@pytest.mark.parametrize(
    ("X", "y", "error"),
    [
        (np.where(IRIS[0] > 7, np.nan, IRIS[0]), IRIS[1], ValueError),
        (np.where(IRIS[0] > 7, np.inf, IRIS[0]), IRIS[1], ValueError),
        (IRIS[0], np.zeros(150), ValueError),
        (IRIS[0], IRIS[1][:-1], ValueError),
        (IRIS[0], IRIS[0][:, 0], ValueError),
        (IRIS[0][:0], IRIS[1][:0], ValueError),
        (IRIS[0].astype(str).astype(object) + "x", IRIS[1], ValueError),
        (np.ma.masked_greater(IRIS[0], 7), IRIS[1], TypeError),
        (IRIS[0][0], IRIS[1], ValueError),
    ],
    ids=["nan", "inf", "one class", "lengths", "real", "empty", "text", "masked", "1d"],
)
def test_refused_data(X, y, error):
    with pytest.raises(error):
        LMNN().fit(X, y)
