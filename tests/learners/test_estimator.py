"""GenerativeMetric as an estimator: what it takes in, gives out, and is used with."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from genmetric import GaussianMixtureModel, GenerativeMetric
from genmetric.geometry import symmetric_root

IRIS = load_iris(return_X_y=True)


def difference(a, b):
    """Largest difference, relative to the largest entry."""
    return np.abs(a - b).max() / np.abs(b).max()


class TestInputs:
    """Tables, types and labels of all kinds give the metric of the plain array."""

    @pytest.fixture
    def expected(self):
        return GenerativeMetric().fit(*IRIS).metric_

    def test_arrays_of_any_layout(self, expected, tmp_path):
        X, y = IRIS
        path = tmp_path / "X.npy"
        np.save(path, X)
        frozen = X.copy()
        frozen.flags.writeable = False
        strided = np.zeros((300, 8))
        strided[::2, ::2] = X
        for form in (
            np.load(path, mmap_mode="r"),
            frozen,
            np.asfortranarray(X),
            strided[::2, ::2],
            X.tolist(),
            X.astype(">f8"),
        ):
            fitted = GenerativeMetric().fit(form, y)
            assert difference(fitted.metric_, expected) < 1e-12
            np.testing.assert_allclose(fitted.transform(form), X @ fitted.components_.T)

    def test_integers(self):
        X, y = IRIS
        whole = np.rint(10 * X).astype(int)
        found = GenerativeMetric().fit(whole, y)
        np.testing.assert_array_equal(found.metric_, GenerativeMetric().fit(whole * 1.0, y).metric_)
        assert found.transform(whole).dtype == np.float64

    def test_float32_in_float32_out(self, expected):
        X, y = IRIS
        fitted = GenerativeMetric().fit(X.astype(np.float32), y)
        assert difference(fitted.metric_, expected) < 1e-3
        Z = fitted.transform(X.astype(np.float32))
        assert Z.dtype == np.float32
        assert fitted.inverse_transform(Z).dtype == np.float32
        assert fitted.transform(X).dtype == np.float64
        np.testing.assert_allclose(Z, fitted.transform(X), rtol=1e-4, atol=1e-3)
        # The arithmetic of the fit is float64 whatever came in.
        exact = GenerativeMetric().fit(X.astype(np.float32).astype(float), y)
        assert difference(fitted.metric_, exact.metric_) < 1e-12

    @pytest.mark.parametrize(
        "names",
        [
            ["setosa", "versicolor", "virginica"],
            np.array(["a", "b", "c"], dtype=object),
            [-5, 0, 7],
            [1.0, 2.0, 3.0],
        ],
        ids=["str", "object", "negative", "float"],
    )
    def test_labels(self, expected, names):
        X, y = IRIS
        labels = np.asarray(names)[y]
        fitted = GenerativeMetric().fit(X, labels)
        np.testing.assert_array_equal(fitted.classes_, np.unique(labels))
        assert difference(fitted.metric_, expected) < 1e-12

    def test_boolean_labels(self):
        X, y = IRIS
        fitted = GenerativeMetric().fit(X, y == 0)
        np.testing.assert_array_equal(fitted.classes_, [False, True])
        expected = GenerativeMetric().fit(X, np.where(y == 0, 1, 0)).metric_
        assert difference(fitted.metric_, expected) < 1e-12

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_frames(self, expected, library):
        X, y = IRIS
        names = ["a", "b", "c", "d"]
        if library == "pandas":
            frame = pd.DataFrame(X, columns=names, index=np.arange(150) * 3)
            labels = pd.Series(y, index=frame.index).map({0: "x", 1: "y", 2: "z"})
            categories = labels.astype("category")
        else:
            frame = pl.DataFrame(X, schema=names)
            labels = pl.Series(np.array(["x", "y", "z"])[y])
            categories = labels.cast(pl.Categorical)
        for target in (labels, categories):
            fitted = GenerativeMetric().set_output(transform=library).fit(frame, target)
            assert difference(fitted.metric_, expected) < 1e-12
            assert list(fitted.feature_names_in_) == names
            assert fitted.classes_.tolist() == ["x", "y", "z"]
        out = fitted.transform(frame)
        assert isinstance(out, type(frame))
        assert list(out.columns) == [f"generativemetric{i}" for i in range(4)]
        assert list(out.columns) == fitted.get_feature_names_out().tolist()
        np.testing.assert_allclose(out.to_numpy(), X @ fitted.components_.T)
        if library == "pandas":
            assert out.index.equals(frame.index)
        swapped = frame[["b", "a", "c", "d"]]
        with pytest.raises(ValueError, match="feature names"):
            fitted.transform(swapped)

    def test_n_components_names_fewer_columns(self):
        fitted = GenerativeMetric(n_components=2).fit(*IRIS)
        assert len(fitted.get_feature_names_out()) == 2

    def test_input_is_not_modified(self):
        X, y = (a.copy() for a in IRIS)
        w = np.arange(150.0)
        GenerativeMetric(np.ones(150)).fit(X, y, w).transform(X)
        np.testing.assert_array_equal(X, IRIS[0])
        np.testing.assert_array_equal(y, IRIS[1])
        np.testing.assert_array_equal(w, np.arange(150.0))


class TestEstimator:
    """A scikit-learn estimator among others."""

    def test_parameters_survive(self):
        params = {"shrinkage": 0.2, "interpolation": 0.5, "n_components": 2, "priors": [1, 2, 3]}
        estimator = GenerativeMetric(**params)
        assert estimator.get_params().items() >= params.items()
        assert clone(estimator.fit(*IRIS)).get_params() == estimator.get_params()
        assert not hasattr(clone(estimator), "components_")

    def test_pickle(self):
        X, y = IRIS
        fitted = GenerativeMetric(class_model=GaussianMixtureModel(2, random_state=0)).fit(X, y)
        other = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(other.transform(X), fitted.transform(X))
        np.testing.assert_array_equal(other.local_metrics(X), fitted.local_metrics(X))

    def test_grid_search_in_a_pipeline(self):
        X, y = load_wine(return_X_y=True)
        pipeline = make_pipeline(GenerativeMetric(), KNeighborsClassifier())
        grid = {
            "generativemetric__shrinkage": [None, "auto", 0.1],
            "generativemetric__interpolation": [0.5, 1.0],
        }
        search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)
        plain = GridSearchCV(KNeighborsClassifier(), {}, cv=3).fit(X, y)
        assert search.best_score_ > plain.best_score_ + 0.15

    def test_refit_discards_the_earlier_fit(self):
        X, y = IRIS
        estimator = GenerativeMetric(np.ones(150), n_components=2).fit(X, y)
        estimator.set_params(combination="uniform", n_components=None).fit(X[:, :3], y > 0)
        fresh = GenerativeMetric().fit(X[:, :3], y > 0)
        np.testing.assert_array_equal(estimator.metric_, fresh.metric_)
        assert sorted(vars(estimator)) == sorted(vars(fresh))

    def test_better_neighbours_than_euclidean_ones(self):
        """What it is for: wine, whose features have different units."""
        X, y = load_wine(return_X_y=True)
        train, test = np.arange(178) % 2 == 0, np.arange(178) % 2 == 1
        plain = KNeighborsClassifier().fit(X[train], y[train]).score(X[test], y[test])
        metric = GenerativeMetric(shrinkage=None).fit(X[train], y[train])
        learned = KNeighborsClassifier().fit(metric.transform(X[train]), y[train])
        assert learned.score(metric.transform(X[test]), y[test]) > plain + 0.15

    def test_the_metric_itself(self):
        fitted = GenerativeMetric().fit(*IRIS)
        np.testing.assert_allclose(fitted.components_, symmetric_root(fitted.metric_))
        assert fitted.n_iter_ == 1
        assert fitted.n_features_in_ == 4
