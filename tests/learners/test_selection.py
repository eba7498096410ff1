"""GenerativeMetricCV: the selection against a plain loop, and the interface."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.covariance import OAS, ledoit_wolf
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import GroupKFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import scale

from genmetric import (
    GaussianMixtureModel,
    GaussianMixtureWeights,
    GaussianModel,
    GenerativeMetric,
    GenerativeMetricCV,
    KernelDensityWeights,
)
from genmetric.learners._candidates import (
    Candidate,
    make_candidates,
    results_table,
    select_candidate,
    weights_at_best,
)
from genmetric.learners._splits import deal_folds
from genmetric.neighbors import select_n_neighbors

IRIS = load_iris(return_X_y=True)
WINE = load_wine(return_X_y=True)
STANDARD = scale(WINE[0]), WINE[1]
#: A grid of four candidates.
SMALL = {
    "bases": "identity",
    "normalizations": "determinant",
    "shrinkages": ("auto", 0.3),
    "interpolations": (0.5, 1.0),
    "n_components": None,
    "n_neighbors": (1, 5),
    "random_state": 0,
}
#: A grid over all parameters.
WIDE = {
    **SMALL,
    "bases": ("identity", "pooled"),
    "normalizations": ("determinant", "trace"),
    "interpolations": (0.0, 0.5),
    "n_components": (None, "lda"),
}


def left_out_accuracy(Z, y, k, rows):
    """Leave-one-out accuracy on some samples, one at a time."""
    right = []
    for i in rows:
        order = np.argsort(np.linalg.norm(Z - Z[i], axis=1), kind="stable")
        right.append(np.mean(y[order[order != i][:k]] == y[i]) > 0.5)
    return np.mean(right)


def score_at_best(accuracy):
    """Score on each split: half of that at the best number, a quarter at each adjacent one.

    `accuracy` has shape (n_splits, n_numbers).
    """
    last = accuracy.shape[1] - 1

    def around(values, j):
        return (values[max(j - 1, 0)] + 2 * values[j] + values[min(j + 1, last)]) / 4

    mean = accuracy.mean(axis=0)
    best = max(range(last + 1), key=lambda j: round(around(mean, j), 12))
    return np.array([around(values, best) for values in accuracy])


class TestSelection:
    """The scores, and the candidate selected by them."""

    @pytest.mark.filterwarnings("ignore:cv=None scores:UserWarning")
    def test_in_sample_scores_are_a_plain_loop(self):
        X, y = scale(WINE[0]), WINE[1] > 0  # two classes: votes of odd numbers do not tie
        search = GenerativeMetricCV(cv=None, **WIDE).fit(X, y)
        results = search.cv_results_
        for c, params in enumerate(results["params"]):
            metric = GenerativeMetric(**params).fit(X, y)
            for k in (1, 5):
                expected = left_out_accuracy(metric.transform(X), y, k, np.arange(len(y)))
                assert results[f"test_score_k{k}"][c] == pytest.approx(expected)

    def test_folds_are_a_plain_loop(self):
        X, y = scale(WINE[0]), WINE[1] > 0
        numbers = (1, 3, 7, 21)
        search = GenerativeMetricCV(cv=3, **{**WIDE, "n_neighbors": numbers}).fit(X, y)
        folds = deal_folds(y.astype(int), 3, np.random.RandomState(0))
        results = search.cv_results_
        assert search.n_splits_ == 3
        for c, params in enumerate(results["params"]):
            accuracy = np.empty((3, 4))
            for f in range(3):
                metric = GenerativeMetric(**params).fit(X[folds != f], y[folds != f])
                rows = np.flatnonzero(folds == f)
                for j, k in enumerate(numbers):
                    accuracy[f, j] = left_out_accuracy(metric.transform(X), y, k, rows)
            expected = score_at_best(accuracy)
            for f in range(3):
                assert results[f"split{f}_test_score"][c] == pytest.approx(expected[f])
            assert results["mean_test_score"][c] == pytest.approx(expected.mean())
            assert results["std_test_score"][c] == pytest.approx(expected.std())
            for j, k in enumerate(numbers):
                assert results[f"test_score_k{k}"][c] == pytest.approx(accuracy[:, j].mean())

    @pytest.mark.parametrize("scoring", [None, "accuracy", "balanced_accuracy"])
    def test_a_splitter_is_a_plain_loop(self, scoring):
        X, y = scale(WINE[0]), WINE[1]
        cv = StratifiedKFold(3, shuffle=True, random_state=1)
        search = GenerativeMetricCV(cv=cv, scoring=scoring, **WIDE).fit(X, y)
        for c, params in enumerate(search.cv_results_["params"]):
            values = []
            for train, test in cv.split(X, y):
                metric = GenerativeMetric(**params).fit(X[train], y[train])
                for k in (1, 5):
                    model = KNeighborsClassifier(k).fit(metric.transform(X[train]), y[train])
                    found = model.predict(metric.transform(X[test]))
                    average = "macro" if scoring == "balanced_accuracy" else "micro"
                    values.append(recall_score(y[test], found, average=average))
            expected = score_at_best(np.reshape(values, (3, 2)))
            found = [search.cv_results_[f"split{s}_test_score"][c] for s in range(3)]
            assert found == pytest.approx(expected)

    def test_a_scorer_and_groups(self, rng):
        X, y = scale(WINE[0]), WINE[1] > 0
        groups = rng.integers(0, 9, len(y))
        scorer = make_scorer(recall_score, pos_label=False)
        search = GenerativeMetricCV(cv=GroupKFold(3), scoring=scorer, **SMALL)
        search.fit(X, y, groups=groups)
        assert search.n_splits_ == 3
        assert 0 < search.best_score_ <= 1
        with pytest.raises(ValueError, match="scoring requires left-out samples; got cv=None"):
            GenerativeMetricCV(cv=None, scoring=scorer).fit(X, y)

    def test_results_are_a_table(self):
        search = GenerativeMetricCV(random_state=0).fit(scale(WINE[0]), WINE[1])
        results, best = search.cv_results_, search.best_index_
        table = pd.DataFrame(results)
        assert len(table) == 2 * 2 + 2 * 3 * 2  # bases, then learned metrics
        splits = table.filter(regex="^split._test_score")
        assert splits.shape[1] == 5
        np.testing.assert_allclose(splits.mean(axis=1), results["mean_test_score"])
        per_k = table.filter(regex="^test_score_k")
        assert (per_k.max(axis=1) >= results["mean_test_score"]).all()
        assert (per_k.mean(axis=1) <= results["mean_test_score"] + 1e-9).all()
        k = search.best_params_["n_neighbors"]
        assert results[f"test_score_k{k}"][best] == search.best_score_
        assert search.best_params_ == {**results["params"][best], "n_neighbors": k}

    def test_corner_cases_are_candidates(self):
        """Euclidean distance, within-class whitening, and the space of discriminant analysis."""
        X, y = scale(WINE[0]), WINE[1]
        grid = {"interpolations": 0.0, "n_components": (None, "lda"), "n_neighbors": 5}
        search = GenerativeMetricCV(**grid, random_state=0).fit(X, y)
        corners = [(p["base"], p["n_components"]) for p in search.cv_results_["params"]]
        assert corners == [("identity", None), ("identity", 2), ("pooled", None), ("pooled", 2)]
        euclidean = GenerativeMetric(interpolation=0).fit(X, y)
        np.testing.assert_allclose(euclidean.metric_, np.eye(13), atol=1e-12)
        # Whitening by the covariance about the class means, shrunk as a correlation matrix.
        whitened = GenerativeMetric(interpolation=0, base="pooled").fit(X, y)
        centered = X - np.array([X[y == c].mean(axis=0) for c in range(3)])[y]
        deviation = centered.std(axis=0)
        correlation = ledoit_wolf(centered / deviation, assume_centered=True)[0]
        expected = np.linalg.inv(correlation * np.outer(deviation, deviation))
        np.testing.assert_allclose(whitened.metric_, expected, atol=0.1 * np.abs(expected).max())

    def test_lda_directions_are_the_reduction_of_the_whitening(self):
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

        X, y = IRIS
        X = np.repeat(X, 200, axis=0)  # the shrinkage of the within-class covariance vanishes
        y = np.repeat(y, 200)
        Z = GenerativeMetric(interpolation=0, base="pooled", n_components=2).fit(X, y).transform(X)
        lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).transform(X)
        # The same plane: one is a linear function of the other.
        A = np.linalg.lstsq(Z - Z.mean(axis=0), lda - lda.mean(axis=0), rcond=None)[0]
        residual = (Z - Z.mean(axis=0)) @ A - (lda - lda.mean(axis=0))
        assert np.linalg.norm(residual) < 0.01 * np.linalg.norm(lda)

    def test_ties_go_to_the_preferred_candidate(self, rng):
        X = np.r_[rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 100]
        search = GenerativeMetricCV(random_state=0).fit(X, np.repeat([0, 1], 30))
        assert search.best_score_ == 1
        assert search.best_params_ == {
            "base": "pooled",
            "normalization": "trace",
            "shrinkage": "auto",
            "interpolation": 1.0,
            "n_components": None,
            "n_neighbors": 1,
        }

    def test_one_standard_error_rule(self, rng):
        candidates = make_candidates(["pooled"], ["trace"], ["auto", 0.5], [0.0, 1.0], [None])
        assert [c.interpolation for c in candidates] == [0.0, 1.0, 1.0]
        right = rng.random((3, 400)) < 0.8
        right[2] = right[1] = right[0]
        right[2, np.flatnonzero(~right[0])[:1]] = True  # better on one sample: one standard error
        assert self.selected(candidates, right) == (1, [True, True, True])
        right[2, np.flatnonzero(~right[0])[:9]] = True  # better on nine: three standard errors
        assert self.selected(candidates, right) == (2, [False, False, True])

    @staticmethod
    def selected(candidates, right):
        scores = right.astype(float)
        results = results_table(candidates, scores.mean(axis=1, keepdims=True), scores)
        return select_candidate(candidates, results), results["within_one_standard_error"].tolist()

    def test_order_of_preference(self):
        ordered = [
            Candidate("pooled", "trace", "auto", 1.0, None),
            Candidate("pooled", "trace", "auto", 0.5, None),
            Candidate("pooled", "determinant", "auto", 1.0, None),
            Candidate("pooled", "trace", 0.5, 1.0, None),
            Candidate("identity", "trace", "auto", 1.0, None),
            Candidate("pooled", "trace", "auto", 0.0, None),
            Candidate("identity", "trace", "auto", 0.0, None),
            Candidate("pooled", "trace", "auto", 1.0, 2),
        ]
        keys = [candidate.preference for candidate in ordered]
        assert keys == sorted(keys)

    @pytest.mark.parametrize("data", [IRIS, STANDARD], ids=["iris", "wine"])
    def test_number_of_neighbors_is_selected_by_left_out_samples_and_the_final_metric(self, data):
        search = GenerativeMetricCV(random_state=0).fit(*data)
        found = select_n_neighbors(search.transform(data[0]), data[1])
        total = {
            k: round(search.cv_results_[f"test_score_k{k}"][search.best_index_] - error, 12)
            for k, error in zip(found.candidates.tolist(), found.errors, strict=True)
        }
        assert search.best_params_["n_neighbors"] == max(total, key=total.get)

    def test_scores_are_compared_at_the_number_that_suits_a_candidate(self):
        """A one-dimensional metric with many neighbours against a metric with one."""
        scores = np.array([[0.9, 0.8, 0.6, 0.5], [0.6, 0.8, 0.84, 0.84]])
        weights = weights_at_best(scores)
        np.testing.assert_array_equal(weights, [[0.75, 0.25, 0, 0], [0, 0, 0.25, 0.75]])
        single = weights_at_best(np.array([[0.3], [0.4]]))
        np.testing.assert_array_equal(single, [[1.0], [1.0]])

    def test_better_than_poor_defaults(self):
        """Vehicle, where shrinkage increases the error; a third of the samples for training."""
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

    def test_in_sample_scores_are_optimistic(self, rng):
        """Random labels: nothing can be learned, and cv=None does not notice."""
        X, y = rng.normal(size=(60, 20)), np.arange(60) % 2
        with pytest.warns(UserWarning, match="needs about 400 samples per class.*has 30.*Use cv=5"):
            optimistic = GenerativeMetricCV(cv=None, random_state=0).fit(X, y)
        honest = GenerativeMetricCV(random_state=0).fit(X, y)
        assert optimistic.best_score_ > honest.best_score_ + 0.1

    def test_sample_weights_are_frequencies_of_the_fit(self, rng):
        X, y = scale(WINE[0]), WINE[1]
        weight = rng.integers(0, 3, len(y)).astype(float)
        search = GenerativeMetricCV(**WIDE).fit(X, y, weight)
        chosen = {n: v for n, v in search.best_params_.items() if n != "n_neighbors"}
        expected = GenerativeMetric(**chosen).fit(X, y, weight)
        np.testing.assert_array_equal(search.metric_, expected.metric_)
        kept = weight > 0
        left_out = GenerativeMetricCV(**WIDE).fit(X[kept], y[kept], weight[kept])
        for name, column in left_out.cv_results_.items():
            assert np.array_equal(search.cv_results_[name], column), name

    def test_weights_count_in_the_selection_of_the_number_of_neighbors(self, rng):
        X, y = scale(WINE[0]), WINE[1]
        X = X + 2 * rng.normal(size=X.shape)
        weight = rng.exponential(size=len(y)) ** 3  # without weights k would be 7, not 15
        search = GenerativeMetricCV(random_state=0).fit(X, y, weight)
        Z = search.transform(X)
        total = {}
        for k in (1, 3, 5, 7, 9, 11, 15, 21):
            found = KNeighborsClassifier(k).fit(Z, y).kneighbors(return_distance=False)
            votes = np.array([np.bincount(y[row], minlength=3) for row in found]).argmax(axis=1)
            left_out = search.cv_results_[f"test_score_k{k}"][search.best_index_]
            total[k] = round(left_out + np.average(votes == y, weights=weight), 12)
        assert search.best_params_["n_neighbors"] == max(total, key=total.get)

    def test_unit_weights_change_nothing(self):
        X, y = scale(WINE[0]), WINE[1]
        plain = GenerativeMetricCV(**WIDE).fit(X, y)
        ones = GenerativeMetricCV(**WIDE).fit(X, y, np.ones(len(y)))
        assert ones.best_params_ == plain.best_params_
        scores = [s.cv_results_["mean_test_score"] for s in (plain, ones)]
        np.testing.assert_allclose(*scores, atol=1e-9)


class TestInterface:
    """A GenerativeMetric in all but the parameters that were selected."""

    @pytest.mark.parametrize(
        "params",
        [
            {},
            {"priors": [1, 2, 3]},
            {"max_samples": 60},
            {"combination": np.arange(1.0, 151)},
            {"combination": KernelDensityWeights(max_iter=3)},
            {"combination": GaussianMixtureWeights(max_iter=3, validation_fraction=0.3)},
            {"class_model": GaussianMixtureModel(2, random_state=0)},
            {"class_model": GaussianModel(shrinkage=0.2)},
            {"class_model": GaussianModel(covariance_estimator=OAS())},
        ],
        ids=str,
    )
    @pytest.mark.filterwarnings("ignore:With 4 features:UserWarning")
    def test_as_the_metric_with_the_selected_parameters(self, params):
        X, y = IRIS
        search = GenerativeMetricCV(GenerativeMetric(**params), cv=2, **SMALL).fit(X, y)
        chosen = {n: v for n, v in search.best_params_.items() if n != "n_neighbors"}
        metric = GenerativeMetric(**chosen, **params, random_state=0).fit(X, y)
        pairs = X[:20].reshape(10, 2, 4)
        for name, args in (
            ("transform", [X]),
            ("local_metrics", [X]),
            ("curvature", [X]),
            ("bias", [X]),
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

    def test_threads_change_nothing(self, rng):
        X = rng.normal(size=(900, 6)) @ rng.normal(size=(6, 6))
        y = (X[:, 0] ** 2 + rng.normal(size=900) > 3).astype(int)
        one, two = (GenerativeMetricCV(**WIDE, n_jobs=n).fit(X, y) for n in (1, 3))
        np.testing.assert_array_equal(one.metric_, two.metric_)
        for name, column in one.cv_results_.items():
            assert np.array_equal(column, two.cv_results_[name]), name

    def test_seeds(self):
        scores = [
            GenerativeMetricCV(**{**SMALL, "random_state": seed})
            .fit(*STANDARD)
            .cv_results_["mean_test_score"]
            for seed in (0, 0, 1, np.random.RandomState(0))
        ]
        np.testing.assert_array_equal(scores[0], scores[1])
        assert (scores[0] != scores[2]).any()
        GenerativeMetricCV(**{**SMALL, "random_state": None}).fit(*STANDARD)

    @pytest.mark.parametrize("factor", [1e-150, 1e150])
    def test_scale_and_offset_do_not_change_the_selection(self, factor):
        X, y = IRIS
        plain = GenerativeMetricCV(**SMALL).fit(X, y)
        scaled = GenerativeMetricCV(**SMALL).fit(factor * X, y)
        moved = GenerativeMetricCV(**SMALL).fit(X + 2.0**20, y)
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
        looked_up = GenerativeMetricCV(GenerativeMetric(preprocessor=X), **SMALL).fit(
            np.arange(150), y
        )
        np.testing.assert_array_equal(
            looked_up.metric_, GenerativeMetricCV(**SMALL).fit(X, y).metric_
        )

    def test_sampled_queries_and_references(self):
        X, y = IRIS
        search = GenerativeMetricCV(max_queries=40, max_references=60, **SMALL).fit(X, y)
        chosen = {n: v for n, v in search.best_params_.items() if n != "n_neighbors"}
        np.testing.assert_array_equal(search.metric_, GenerativeMetric(**chosen).fit(X, y).metric_)

    def test_pickle_clone_refit(self):
        X, y = IRIS
        search = GenerativeMetricCV(GenerativeMetric(np.ones(150)), **SMALL).fit(X, y)
        other = pickle.loads(pickle.dumps(search))
        np.testing.assert_array_equal(other.transform(X), search.transform(X))
        assert not hasattr(clone(search), "components_")
        search.set_params(metric=None).fit(X[:, :3], y)
        fresh = GenerativeMetricCV(**SMALL).fit(X[:, :3], y)
        assert sorted(vars(search)) == sorted(vars(fresh))

    def test_a_class_of_one_sample_is_named_once(self, rng):
        X, y = rng.normal(size=(41, 3)), np.r_[np.repeat([0, 1], 20), 2]
        with pytest.warns(UserWarning, match="single sample") as record:
            search = GenerativeMetricCV(**SMALL).fit(X, y)
        assert len(record) == 1
        assert search.classes_.tolist() == [0, 1, 2]

    def test_few_samples_take_fewer_neighbours(self):
        search = GenerativeMetricCV().fit(np.array([[0.0], [1], [5], [6]]), [0, 0, 1, 1])
        assert [n for n in search.cv_results_ if "score_k" in n] == [
            "test_score_k1",
            "test_score_k3",
        ]


class TestErrors:
    """Invalid parameters and input."""

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"bases": ("identity", "sphere")}, "value of bases must be 'identity' or 'pooled'"),
            ({"normalizations": 3}, "value of normalizations must be 'determinant' or 'trace'"),
            ({"shrinkages": ()}, "shrinkages is empty"),
            ({"shrinkages": (0.1, 2)}, "value of shrinkages must be None, 'auto' or a number"),
            ({"interpolations": [-1]}, r"value of interpolations must be a number in \[0, 1\]"),
            ({"interpolations": []}, "interpolations is empty"),
            ({"n_components": 5}, r"value of n_components must be None, 'lda' or an integer in"),
            ({"n_neighbors": (1, 0)}, "value of n_neighbors must be an integer >= 1"),
            ({"n_neighbors": 2.5}, "value of n_neighbors must be an integer >= 1"),
            ({"n_neighbors": 150}, "too large for 150 samples"),
            ({"cv": 1}, "cv must be None, an integer >= 2"),
            ({"cv": 2.5}, "cv must be"),
            ({"scoring": ["accuracy"]}, "scoring must be None, the name of a scorer or a callable"),
            ({"max_queries": 0}, "max_queries must be an integer >= 1"),
            ({"max_references": 1}, "max_references must be an integer >= 2"),
            ({"metric": "kde"}, "metric must be None or a GenerativeMetric"),
            ({"metric": GenerativeMetric(solver="fast")}, "solver must be"),
            ({"metric": GenerativeMetric(priors=[1, 2])}, "priors must be 3 positive numbers"),
            ({"metric": GenerativeMetric([1.0, 2])}, "combination must have one number per sample"),
            ({"metric": GenerativeMetric("mean")}, "combination must be"),
        ],
        ids=str,
    )
    def test_parameters(self, params, message):
        with pytest.raises(ValueError, match=message):
            GenerativeMetricCV(**params).fit(*IRIS)

    def test_groups(self):
        X, y = IRIS
        for cv in (5, None):
            with pytest.raises(ValueError, match=rf"groups needs a cv .*got cv={cv}.*GroupKFold"):
                GenerativeMetricCV(cv=cv).fit(X, y, groups=np.arange(150))
        with pytest.raises(ValueError, match=r"shape \(150,\); got shape \(50,\)"):
            GenerativeMetricCV(cv=GroupKFold(3)).fit(X, y, groups=np.arange(50))

    def test_lazy_input(self):
        dask_array = pytest.importorskip("dask.array")
        with pytest.raises(TypeError, match="dask"):
            GenerativeMetricCV().fit(dask_array.from_array(IRIS[0]), IRIS[1])
        with pytest.raises(TypeError, match="masked"):
            GenerativeMetricCV().fit(np.ma.masked_array(IRIS[0]), IRIS[1])

    @pytest.mark.parametrize("weight", [np.full(150, -1.0), np.zeros(150), np.ones(3)], ids=str)
    def test_invalid_sample_weight(self, weight):
        with pytest.raises(ValueError, match="sample_weight"):
            GenerativeMetricCV().fit(*IRIS, sample_weight=weight)

    def test_a_fit_that_fails_changes_nothing(self):
        search = GenerativeMetricCV(**SMALL).fit(*IRIS)
        before = dict(vars(search))
        with pytest.raises(ValueError, match="2 classes"):
            search.fit(IRIS[0][:, :2], np.zeros(150))
        assert vars(search) == before
