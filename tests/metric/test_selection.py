"""GenerativeMetricCV: the choice against a plain loop, the interface against GenerativeMetric."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import scale

from genmetric import GaussianMixtureModel, GaussianModel, GenerativeMetric, GenerativeMetricCV
from genmetric.metric.left_out import deal_folds

IRIS = load_iris(return_X_y=True)
WINE = load_wine(return_X_y=True)
SMALL = {"interpolations": (0.5, 1.0), "n_neighbors": (1, 5), "random_state": 0}


def left_out_accuracy(Z, y, k, rows):
    """Leave-one-out accuracy on some rows, one at a time."""
    right = []
    for i in rows:
        order = np.argsort(np.linalg.norm(Z - Z[i], axis=1), kind="stable")
        right.append(np.mean(y[order[order != i][:k]] == y[i]) > 0.5)
    return np.mean(right)


class TestChoice:
    """What is chosen, and by which scores."""

    def test_leave_one_out_is_a_plain_loop(self):
        X, y = scale(WINE[0]), WINE[1] > 0  # two classes: votes of odd numbers do not tie
        search = GenerativeMetricCV((None, 0.3), cv=None, **SMALL).fit(X, y)
        results = search.cv_results_
        for c, params in enumerate(results["params"]):
            metric = GenerativeMetric(**params).fit(X, y)
            for k in (1, 5):
                expected = left_out_accuracy(metric.transform(X), y, k, np.arange(len(y)))
                assert results[f"test_score_k{k}"][c] == pytest.approx(expected)

    def test_folds_are_a_plain_loop(self):
        X, y = scale(WINE[0]), WINE[1] > 0
        search = GenerativeMetricCV(("auto", 0.5), cv=3, **SMALL).fit(X, y)
        folds = deal_folds(y.astype(int), 3, np.random.RandomState(0))
        results = search.cv_results_
        for c, params in enumerate(results["params"]):
            for k in (1, 5):
                right = 0.0
                for f in range(3):
                    metric = GenerativeMetric(**params).fit(X[folds != f], y[folds != f])
                    rows = np.flatnonzero(folds == f)
                    right += len(rows) * left_out_accuracy(metric.transform(X), y, k, rows)
                assert results[f"test_score_k{k}"][c] == pytest.approx(right / len(y))

    def test_the_best_is_the_best(self):
        search = GenerativeMetricCV(random_state=0).fit(*WINE)
        results, best = search.cv_results_, search.best_index_
        table = pd.DataFrame(results)
        assert len(table) == 28
        per_k = table.filter(regex="^test_score_k")
        np.testing.assert_allclose(per_k.mean(axis=1), results["mean_test_score"])
        assert results["mean_test_score"][best] == max(results["mean_test_score"])
        assert results["rank_test_score"][best] == 1
        k = search.best_params_["n_neighbors"]
        assert results[f"test_score_k{k}"][best] == search.best_score_ == max(per_k.iloc[best])
        assert search.best_params_ == {**results["params"][best], "n_neighbors": k}

    def test_ties_go_to_the_simpler(self, rng):
        X = np.r_[rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 100]
        y = np.repeat([0, 1], 30)
        search = GenerativeMetricCV((0.2, None, 0.8, "auto"), interpolations=(1.0, 0.3)).fit(X, y)
        assert search.best_score_ == 1
        assert search.best_params_ == {"shrinkage": 0.8, "interpolation": 1.0, "n_neighbors": 1}

    def test_auto_is_as_large_as_its_shrinkage(self, rng):
        """Ledoit-Wolf of white noise is nearly 1, of one direction nearly 0."""
        y = np.repeat([0, 1], 300)
        for size, chosen in (([1, 1, 1, 1], "auto"), ([1, 20, 20, 20], 0.5)):
            X = rng.normal(size=(600, 4)) * size + 1e4 * y[:, None]
            found = GenerativeMetricCV(("auto", 0.5), interpolations=1.0, cv=None).fit(X, y)
            assert found.best_score_ == 1
            assert found.best_params_["shrinkage"] == chosen

    def test_better_than_the_defaults_where_they_are_bad(self):
        """Vehicle: shrinkage hurts there; a third of the rows to learn from, the rest for a test."""
        from genmetric.datasets import load_vehicle

        X, y = load_vehicle(return_X_y=True)
        X = scale(X)
        train = np.arange(len(y)) % 3 == 0
        search = GenerativeMetricCV(random_state=0).fit(X[train], y[train])
        errors = [
            1
            - KNeighborsClassifier(search.best_params_["n_neighbors"])
            .fit(metric.transform(X[train]), y[train])
            .score(metric.transform(X[~train]), y[~train])
            for metric in (search, GenerativeMetric().fit(X[train], y[train]))
        ]
        assert errors[0] < errors[1]

    def test_folds_see_through_a_metric_that_knows_its_rows(self):
        """Ionosphere with twice as many rows as features: see docs/tuning.md."""
        from genmetric.datasets import load_ionosphere

        X, y = load_ionosphere(return_X_y=True)
        train = np.arange(len(y)) % 5 == 0
        X = scale(X)
        score = {}
        for cv in (None, 5):
            search = GenerativeMetricCV(cv=cv, random_state=0).fit(X[train], y[train])
            neighbors = KNeighborsClassifier(search.best_params_["n_neighbors"])
            neighbors.fit(search.transform(X[train]), y[train])
            score[cv] = search.best_score_, neighbors.score(search.transform(X[~train]), y[~train])
        assert score[None][0] > score[5][0]  # what it thinks of itself
        assert score[5][1] > score[None][1] + 0.03  # how it does on other rows


class TestInterface:
    """A GenerativeMetric in all but the parameters it chose itself."""

    @pytest.mark.parametrize(
        "params",
        [
            {},
            {"n_components": 2},
            {"priors": [1, 2, 3]},
            {"max_samples": 60},
            {"combination": np.arange(1.0, 151)},
            {"combination": "kde", "max_iter": 3},
            {"combination": "gmm", "max_iter": 3, "validation_fraction": 0.3},
            {"class_model": GaussianMixtureModel(2, random_state=0)},
            {"class_model": GaussianModel(shrinkage=0.2)},
        ],
        ids=lambda params: next(iter(params), "default"),
    )
    @pytest.mark.filterwarnings("ignore:With 4 features:UserWarning")
    def test_as_the_metric_with_the_parameters_chosen(self, params):
        X, y = IRIS
        search = GenerativeMetricCV(("auto", 0.3), cv=2, **SMALL, **params).fit(X, y)
        chosen = {name: search.best_params_[name] for name in ("shrinkage", "interpolation")}
        metric = GenerativeMetric(**chosen, **params, random_state=0).fit(X, y)
        pairs = X[:20].reshape(10, 2, 4)
        for name, args in (
            ("transform", [X]),
            ("local_metrics", [X]),
            ("curvature", [X]),
            *([] if "n_components" in params else [("bias", [X])]),
            ("pair_distance", [pairs]),
            ("pair_score", [pairs]),
            ("get_mahalanobis_matrix", []),
        ):
            np.testing.assert_array_equal(
                getattr(search, name)(*args), getattr(metric, name)(*args), name
            )
        fitted = [n for n in vars(metric) if n.endswith("_")]
        assert {"components_", "metric_", "means_", "covariances_", "classes_"} <= set(fitted)
        for name in fitted:
            np.testing.assert_array_equal(getattr(search, name), getattr(metric, name), name)
        assert search.get_metric()(X[0], X[1]) == metric.get_metric()(X[0], X[1])
        assert search.best_estimator_.get_params()["shrinkage"] == chosen["shrinkage"]

    def test_covariance_estimator_is_for_auto(self):
        from sklearn.covariance import OAS

        search = GenerativeMetricCV(
            ("auto", 0.3), interpolations=1.0, covariance_estimator=OAS(), cv=None, n_neighbors=3
        ).fit(*WINE)
        for c, shrinkage in enumerate(("auto", 0.3)):
            estimator = OAS() if shrinkage == "auto" else None
            metric = GenerativeMetric(shrinkage=shrinkage, covariance_estimator=estimator)
            alone = GenerativeMetricCV(
                shrinkage,
                interpolations=1.0,
                covariance_estimator=estimator,
                cv=None,
                n_neighbors=3,
            ).fit(*WINE)
            assert search.cv_results_["test_score_k3"][c] == alone.best_score_
            np.testing.assert_array_equal(alone.metric_, metric.fit(*WINE).metric_)

    def test_threads_change_nothing(self, rng):
        X = rng.normal(size=(900, 6)) @ rng.normal(size=(6, 6))
        y = (X[:, 0] ** 2 + rng.normal(size=900) > 3).astype(int)
        one, two = (GenerativeMetricCV(random_state=0, n_jobs=n).fit(X, y) for n in (1, 3))
        np.testing.assert_array_equal(one.metric_, two.metric_)
        for name, column in one.cv_results_.items():
            assert np.array_equal(column, two.cv_results_[name]), name

    def test_seeds(self):
        scores = [
            GenerativeMetricCV(random_state=seed).fit(*WINE).cv_results_["mean_test_score"]
            for seed in (0, 0, 1, np.random.RandomState(0))
        ]
        np.testing.assert_array_equal(scores[0], scores[1])
        assert (scores[0] != scores[2]).any()
        GenerativeMetricCV(random_state=None).fit(*WINE)

    @pytest.mark.parametrize("factor", [1e-150, 1e150])
    def test_scale_and_offset_change_no_choice(self, factor):
        X, y = IRIS
        plain = GenerativeMetricCV(random_state=0).fit(X, y)
        scaled = GenerativeMetricCV(random_state=0).fit(factor * X, y)
        moved = GenerativeMetricCV(random_state=0).fit(X + 2.0**20, y)
        assert plain.best_params_ == scaled.best_params_ == moved.best_params_
        np.testing.assert_allclose(scaled.metric_, plain.metric_, rtol=1e-6)

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_frames(self, library):
        X, y = IRIS
        names = ["a", "b", "c", "d"]
        frame = pd.DataFrame(X, columns=names) if library == "pandas" else pl.DataFrame(X, names)
        labels = np.array(["x", "y", "z"])[y]
        search = GenerativeMetricCV(**SMALL).set_output(transform=library).fit(frame, labels)
        assert list(search.feature_names_in_) == names
        assert list(search.best_estimator_.feature_names_in_) == names
        assert search.classes_.tolist() == ["x", "y", "z"]
        assert search.best_params_ == GenerativeMetricCV(**SMALL).fit(X, y).best_params_
        out = search.transform(frame)
        assert isinstance(out, type(frame))
        assert list(out.columns) == [f"generativemetriccv{i}" for i in range(4)]

    def test_preprocessor(self):
        X, y = IRIS
        looked_up = GenerativeMetricCV(preprocessor=X, **SMALL).fit(np.arange(150), y)
        np.testing.assert_array_equal(
            looked_up.metric_, GenerativeMetricCV(**SMALL).fit(X, y).metric_
        )

    def test_sampled_queries_and_references(self):
        X, y = IRIS
        search = GenerativeMetricCV(max_queries=40, max_references=60, **SMALL).fit(X, y)
        chosen = {name: search.best_params_[name] for name in ("shrinkage", "interpolation")}
        np.testing.assert_array_equal(search.metric_, GenerativeMetric(**chosen).fit(X, y).metric_)

    def test_pickle_clone_refit(self):
        X, y = IRIS
        search = GenerativeMetricCV(combination=np.ones(150), **SMALL).fit(X, y)
        other = pickle.loads(pickle.dumps(search))
        np.testing.assert_array_equal(other.transform(X), search.transform(X))
        assert not hasattr(clone(search), "components_")
        search.set_params(combination="uniform").fit(X[:, :3], y)
        fresh = GenerativeMetricCV(**SMALL).fit(X[:, :3], y)
        assert sorted(vars(search)) == sorted(vars(fresh))

    def test_a_class_of_one_row_is_named_once(self, rng):
        X, y = rng.normal(size=(41, 3)), np.r_[np.repeat([0, 1], 20), 2]
        with pytest.warns(UserWarning, match="single row") as record:
            search = GenerativeMetricCV(**SMALL).fit(X, y)
        assert len(record) == 1
        assert search.classes_.tolist() == [0, 1, 2]

    def test_few_rows_take_fewer_neighbours(self):
        search = GenerativeMetricCV().fit(np.array([[0.0], [1], [5], [6]]), [0, 0, 1, 1])
        assert [n for n in search.cv_results_ if "score_k" in n] == [
            "test_score_k1",
            "test_score_k3",
        ]


class TestErrors:
    """What is refused, and how."""

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"shrinkages": ()}, "shrinkages is empty"),
            ({"shrinkages": (0.1, 2)}, 'shrinkage must be None, "auto" or a number'),
            ({"interpolations": [-1]}, "interpolations must be a number from 0 to 1"),
            ({"interpolations": []}, "interpolations is empty"),
            ({"n_neighbors": (1, 0)}, "n_neighbors must be a whole number of at least 1"),
            ({"n_neighbors": 2.5}, "n_neighbors must be a whole number"),
            ({"n_neighbors": 150}, "too many for 150 rows"),
            ({"cv": 1}, "cv must be None or a whole number of at least 2"),
            ({"cv": "five"}, "cv must be"),
            ({"max_queries": 0}, "max_queries must be"),
            ({"max_references": 1}, "max_references must be at least 2"),
            ({"solver": "fast"}, "solver must be"),
            ({"priors": [1, 2]}, "priors must be 3 positive numbers"),
            ({"combination": [1.0, 2]}, "combination must be one number a row"),
            ({"combination": "mean"}, "combination must be"),
            ({"n_components": 5}, "Invalid n_components"),
        ],
    )
    def test_parameters(self, params, message):
        with pytest.raises(ValueError, match=message):
            GenerativeMetricCV(**params).fit(*IRIS)

    def test_lazy_input(self):
        dask_array = pytest.importorskip("dask.array")
        with pytest.raises(TypeError, match="dask"):
            GenerativeMetricCV().fit(dask_array.from_array(IRIS[0]), IRIS[1])
        with pytest.raises(TypeError, match="masked"):
            GenerativeMetricCV().fit(np.ma.masked_array(IRIS[0]), IRIS[1])

    def test_no_sample_weight(self):
        with pytest.raises(TypeError, match="sample_weight"):
            GenerativeMetricCV().fit(*IRIS, sample_weight=np.ones(150))

    def test_a_fit_that_fails_changes_nothing(self):
        search = GenerativeMetricCV(**SMALL).fit(*IRIS)
        before = dict(vars(search))
        with pytest.raises(ValueError, match="2 classes"):
            search.fit(IRIS[0][:, :2], np.zeros(150))
        assert vars(search) == before
