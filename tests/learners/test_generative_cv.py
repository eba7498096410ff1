"""GenerativeMetricCV: the scores against a plain loop, the average, and the interface."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.covariance import OAS, ledoit_wolf
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
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
from genmetric.datasets import load_vehicle
from genmetric.neighbors import select_n_neighbors

IRIS = load_iris(return_X_y=True)
WINE = load_wine(return_X_y=True)
STANDARD = scale(WINE[0]), WINE[1]
#: A grid of one candidate, and one of four.
SINGLE = {
    "bases": "identity",
    "shrinkages": "auto",
    "interpolations": 1.0,
    "n_components": None,
    "n_neighbors": (1, 5),
    "random_state": 0,
}
SMALL = {**SINGLE, "shrinkages": ("auto", 0.3), "interpolations": (0.5, 1.0)}
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


def naive_average(search, X, y, weight=None, metric=None):
    """The average of the candidates, each fitted by itself, with the scale of the best."""
    covariance = np.atleast_2d(np.cov(X.T, aweights=weight, bias=True))
    metrics = []
    for params in search.cv_results_["params"]:
        fitted = clone(metric or GenerativeMetric()).set_params(**params).fit(X, y, weight)
        metrics.append(fitted.metric_)
    sizes = [np.trace(M @ covariance) for M in metrics]
    parts = [w * M / s for w, M, s in zip(search.candidate_weights_, metrics, sizes, strict=True)]
    return sizes[search.best_index_] * np.sum(parts, axis=0)


class TestScores:
    """Every candidate is scored as if it had been fitted by itself."""

    def test_folds_are_a_plain_loop(self):
        X, y = scale(WINE[0]), WINE[1] > 0
        numbers = (1, 3, 7, 21)
        search = GenerativeMetricCV(cv=3, **{**WIDE, "n_neighbors": numbers}).fit(X, y)
        folds = StratifiedKFold(3, shuffle=True, random_state=np.random.RandomState(0))
        results = search.cv_results_
        assert search.n_splits_ == 3
        for c, params in enumerate(results["params"]):
            accuracy = np.empty((3, 4))
            for f, (train, test) in enumerate(folds.split(X, y)):
                metric = GenerativeMetric(**params).fit(X[train], y[train])
                for j, k in enumerate(numbers):
                    accuracy[f, j] = left_out_accuracy(metric.transform(X), y, k, test)
            folds.random_state = np.random.RandomState(0)
            expected = score_at_best(accuracy)
            for f in range(3):
                assert results[f"split{f}_test_score"][c] == pytest.approx(expected[f])
            assert results["mean_test_score"][c] == pytest.approx(expected.mean())
            assert results["std_test_score"][c] == pytest.approx(expected.std())
            for j, k in enumerate(numbers):
                assert results[f"test_score_k{k}"][c] == pytest.approx(accuracy[:, j].mean())

    @pytest.mark.parametrize("scoring", [None, "accuracy", "balanced_accuracy"])
    def test_a_splitter_is_a_plain_loop(self, scoring):
        X, y = STANDARD
        cv = StratifiedKFold(3, shuffle=True, random_state=1)
        grid = {**WIDE, "normalizations": "trace", "shrinkages": "auto"}
        search = GenerativeMetricCV(cv=cv, scoring=scoring, **grid).fit(X, y)
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

    def test_the_neighbours_of_a_splitter_are_outside_of_the_group(self, rng):
        """Groups of equal samples, with random classes: they must not help each other."""
        groups = np.repeat(np.arange(40), 5)
        X, y = rng.normal(size=(40, 3))[groups], rng.integers(0, 2, 40)[groups]
        grouped = GenerativeMetricCV(cv=GroupKFold(4), **SMALL).fit(X, y, groups=groups)
        assert grouped.best_score_ < 0.8
        assert GenerativeMetricCV(cv=4, **SMALL).fit(X, y).best_score_ == 1

    def test_a_scorer_and_groups(self, rng):
        X, y = scale(WINE[0]), WINE[1] > 0
        groups = rng.integers(0, 9, len(y))
        scorer = make_scorer(recall_score, pos_label=False)
        search = GenerativeMetricCV(cv=GroupKFold(3), scoring=scorer, **SMALL)
        search.fit(X, y, groups=groups)
        assert search.n_splits_ == 3
        assert 0 < search.best_score_ <= 1
        assert search.candidate_weights_.sum() == pytest.approx(1)

    def test_results_are_a_table(self):
        search = GenerativeMetricCV(random_state=0).fit(*STANDARD)
        results, best = search.cv_results_, search.best_index_
        table = pd.DataFrame(results)
        assert len(table) == 2 * 2 + 2 * 3 * 2  # bases, then learned metrics
        splits = table.filter(regex="^split._test_score")
        assert splits.shape[1] == 5
        np.testing.assert_allclose(splits.mean(axis=1), results["mean_test_score"])
        per_k = table.filter(regex="^test_score_k")
        assert (per_k.max(axis=1) >= results["mean_test_score"]).all()
        assert (per_k.mean(axis=1) <= results["mean_test_score"] + 1e-9).all()
        assert results["rank_test_score"][best] == 1
        k = search.best_params_["n_neighbors"]
        assert results[f"test_score_k{k}"][best] == search.best_score_
        assert search.best_params_ == {**results["params"][best], "n_neighbors": k}
        assert search.n_neighbors_ == k

    def test_corner_cases_are_candidates(self):
        """Euclidean distance, within-class whitening, and the space of discriminant analysis."""
        X, y = STANDARD
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
        X, y = IRIS
        X = np.repeat(X, 200, axis=0)  # the shrinkage of the within-class covariance vanishes
        y = np.repeat(y, 200)
        Z = GenerativeMetric(interpolation=0, base="pooled", n_components=2).fit(X, y).transform(X)
        lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).transform(X)
        # The same plane: one is a linear function of the other.
        A = np.linalg.lstsq(Z - Z.mean(axis=0), lda - lda.mean(axis=0), rcond=None)[0]
        residual = (Z - Z.mean(axis=0)) @ A - (lda - lda.mean(axis=0))
        assert np.linalg.norm(residual) < 0.01 * np.linalg.norm(lda)

    def test_none_is_five_folds(self):
        five, default = (GenerativeMetricCV(cv=cv, **SMALL).fit(*STANDARD) for cv in (5, None))
        assert default.n_splits_ == 5
        np.testing.assert_array_equal(five.metric_, default.metric_)

    def test_a_class_of_one_sample_is_never_left_out(self, rng):
        X, y = rng.normal(size=(31, 3)), np.r_[np.repeat([0, 1], 15), 2]
        with pytest.warns(UserWarning, match="single sample"):
            search = GenerativeMetricCV(cv=3, **SINGLE).fit(X, y)
        # Thirds of the other 30 samples: scores are tenths.
        counts = [10 * search.cv_results_[f"split{s}_test_score"] * 4 for s in range(3)]
        np.testing.assert_allclose(counts, np.round(counts))

    def test_sampled_queries_and_references(self):
        X, y = IRIS
        search = GenerativeMetricCV(max_queries=40, max_references=60, **SINGLE).fit(X, y)
        shares = [search.cv_results_[f"split{s}_test_score"][0] * 4 * 8 for s in range(5)]
        np.testing.assert_allclose(shares, np.round(shares))  # 8 queries per fold
        np.testing.assert_allclose(search.metric_, GenerativeMetric().fit(X, y).metric_)

    def test_many_small_classes_are_drawn_as_a_whole(self, rng):
        """A random tenth of the samples would hold the other sample of a class rarely."""
        y = np.repeat(np.arange(600), 2)
        X = (3 * rng.normal(size=(600, 6)))[y] + rng.normal(size=(len(y), 6))
        search = GenerativeMetricCV(max_references=120, max_queries=100, random_state=0).fit(X, y)
        assert len(search.classes_) == 600
        assert search.best_score_ > 0.3

    def test_few_samples_take_fewer_neighbours(self):
        search = GenerativeMetricCV().fit(np.array([[0.0], [1], [5], [6]]), [0, 0, 1, 1])
        numbers = [n for n in search.cv_results_ if "score_k" in n]
        assert numbers == ["test_score_k1", "test_score_k3"]


class TestAverage:
    """The candidates are averaged, with weights by their scores."""

    def test_weights_decrease_with_the_standard_error_of_the_best_score(self):
        search = GenerativeMetricCV(random_state=0).fit(*STANDARD)
        scores, n = search.cv_results_["mean_test_score"], len(STANDARD[1])
        rate = (n * scores.max() + 1) / (n + 2)
        weights = np.exp((scores - scores.max()) / (0.5 * np.sqrt(rate * (1 - rate) / n)))
        weights[weights < 1e-3] = 0
        np.testing.assert_allclose(search.candidate_weights_, weights / weights.sum())
        assert search.best_index_ == scores.argmax()

    @pytest.mark.parametrize("weighted", [False, True])
    def test_metric_is_the_average_of_separate_fits(self, rng, weighted):
        X, y = STANDARD
        X = X + rng.normal(size=X.shape)
        weight = rng.integers(1, 3, len(y)).astype(float) if weighted else None
        search = GenerativeMetricCV(random_state=0).fit(X, y, weight)
        assert np.count_nonzero(search.candidate_weights_) > 3
        expected = naive_average(search, X, y, weight)
        np.testing.assert_allclose(search.metric_, expected, atol=1e-8)
        np.testing.assert_allclose(search.components_.T @ search.components_, expected, atol=1e-8)

    def test_features_of_very_different_scales(self, rng):
        """With the pooled base the average does not depend on the scales of the features."""
        X, y = STANDARD
        scales = 10.0 ** rng.uniform(-6, 6, 13)
        grid = {"bases": "pooled", "random_state": 0}
        plain = GenerativeMetricCV(**grid).fit(X, y)
        scaled = GenerativeMetricCV(**grid).fit(X * scales, y)
        back = scaled.metric_ * np.outer(scales, scales)
        np.testing.assert_allclose(back, plain.metric_, atol=1e-6 * np.abs(plain.metric_).max())

    @pytest.mark.parametrize(
        ("n_components", "expected"), [(2, 2), ((2, 3), 3), ((2, None), 13), ("lda", 2)]
    )
    def test_output_dimension_is_the_largest(self, n_components, expected):
        search = GenerativeMetricCV(n_components=n_components, random_state=0).fit(*STANDARD)
        assert search.components_.shape == (expected, 13)
        assert np.linalg.matrix_rank(search.metric_) == expected

    @pytest.mark.parametrize("data", [IRIS, STANDARD], ids=["iris", "wine"])
    def test_number_of_neighbors_suits_the_average(self, data):
        search = GenerativeMetricCV(random_state=0).fit(*data)
        found = select_n_neighbors(search.transform(data[0]), data[1])
        total = {
            k: round(search.candidate_weights_ @ search.cv_results_[f"test_score_k{k}"] - error, 12)
            for k, error in zip(found.candidates.tolist(), found.errors, strict=True)
        }
        assert search.best_params_["n_neighbors"] == max(total, key=total.get)

    def test_better_than_poor_defaults(self):
        """Vehicle, where shrinkage increases the error; a third of the samples for training."""
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

    def test_more_features_than_samples(self, rng):
        """The metric is learned in the span of the samples; Euclidean distance stays what it is."""
        y = np.arange(40) % 2
        X = rng.normal(size=(40, 200)) + 1e3
        X[:, :3] += 3 * rng.normal(size=(2, 3))[y]
        search = GenerativeMetricCV(random_state=0).fit(X, y)
        assert search.transform(X).shape == (40, 200)
        euclidean = GenerativeMetricCV(**{**SINGLE, "interpolations": 0.0}).fit(X, y)
        np.testing.assert_allclose(euclidean.metric_, np.eye(200), atol=1e-10)
        # The metric turns with the samples.
        Q = np.linalg.qr(rng.normal(size=(200, 200)))[0]
        turned = GenerativeMetricCV(bases="identity", random_state=0).fit(X @ Q.T, y)
        plain = GenerativeMetricCV(bases="identity", random_state=0).fit(X, y)
        np.testing.assert_allclose(turned.metric_, Q @ plain.metric_ @ Q.T, atol=1e-8)
        reduced = GenerativeMetricCV(n_components=3, random_state=0).fit(X, y)
        assert reduced.components_.shape == (3, 200)

    @pytest.mark.parametrize("bases", ["identity", "pooled", ("identity", "pooled")])
    def test_the_span_of_the_samples_is_a_basis(self, rng, bases):
        """The metric is the direct one in an orthonormal basis, and isotropic outside of it."""
        y = np.arange(30) % 2
        X = 5 * rng.normal(size=(30, 80)) + 100
        X[:, :3] += 10 * rng.normal(size=(2, 3))[y]
        inside = np.linalg.svd(X - X.mean(axis=0))[2]
        basis, outside = inside[:29], inside[29:]
        options = {"bases": bases, "n_components": None, "random_state": 0}
        reduced = GenerativeMetricCV(**options).fit(X, y)
        direct = GenerativeMetricCV(**options).fit(X @ basis.T, y)
        np.testing.assert_array_equal(
            reduced.cv_results_["mean_test_score"], direct.cv_results_["mean_test_score"]
        )
        size = np.abs(direct.metric_).max()
        np.testing.assert_allclose(
            basis @ reduced.metric_ @ basis.T, direct.metric_, atol=1e-6 * size
        )
        np.testing.assert_allclose(basis @ reduced.metric_ @ outside.T, 0, atol=1e-6 * size)
        np.testing.assert_allclose(
            outside @ reduced.metric_ @ outside.T,
            np.trace(direct.metric_) / 29 * np.eye(51),
            atol=1e-6 * size,
        )


class TestWeights:
    def test_zero_is_absent(self, rng):
        X, y = STANDARD
        weight = rng.integers(0, 3, len(y)).astype(float)
        kept = weight > 0
        search = GenerativeMetricCV(**WIDE).fit(X, y, weight)
        left_out = GenerativeMetricCV(**WIDE).fit(X[kept], y[kept], weight[kept])
        for name, column in left_out.cv_results_.items():
            assert np.array_equal(search.cv_results_[name], column), name
        np.testing.assert_allclose(search.metric_, left_out.metric_, rtol=1e-9)

    @pytest.mark.parametrize("as_list", [False, True])
    def test_zero_weights_and_given_splits(self, rng, as_list):
        X, y = STANDARD
        weight = (rng.random(len(y)) < 0.7).astype(float)
        kept = np.flatnonzero(weight)
        cv = StratifiedKFold(3)
        inside = list(cv.split(X[kept], y[kept]))
        # Splits refer to all samples, a splitter to those of positive weight.
        splits = [(kept[train], kept[test]) for train, test in inside] if as_list else cv
        search = GenerativeMetricCV(cv=splits, **SMALL).fit(X, y, weight)
        expected = GenerativeMetricCV(cv=inside, **SMALL).fit(X[kept], y[kept])
        np.testing.assert_allclose(search.metric_, expected.metric_, rtol=1e-9)
        all_samples = list(cv.split(X, y))
        assert GenerativeMetricCV(cv=all_samples, **SMALL).fit(X, y, weight).n_splits_ == 3

    def test_weights_count_in_the_selection_of_the_number_of_neighbors(self, rng):
        X, y = STANDARD
        X = X + 2 * rng.normal(size=X.shape)
        weight = rng.exponential(size=len(y)) ** 3
        search = GenerativeMetricCV(random_state=0).fit(X, y, weight)
        Z = search.transform(X)
        total = {}
        for k in (1, 3, 5, 7, 9, 11, 15, 21):
            found = KNeighborsClassifier(k).fit(Z, y).kneighbors(return_distance=False)
            votes = np.array([np.bincount(y[row], minlength=3) for row in found]).argmax(axis=1)
            left_out = search.candidate_weights_ @ search.cv_results_[f"test_score_k{k}"]
            total[k] = round(left_out + np.average(votes == y, weights=weight), 12)
        assert search.best_params_["n_neighbors"] == max(total, key=total.get)

    def test_unit_weights_change_nothing(self):
        X, y = STANDARD
        plain = GenerativeMetricCV(**WIDE).fit(X, y)
        ones = GenerativeMetricCV(**WIDE).fit(X, y, np.ones(len(y)))
        assert ones.best_params_ == plain.best_params_
        np.testing.assert_allclose(ones.metric_, plain.metric_, rtol=1e-9)


class TestInterface:
    @pytest.mark.parametrize(
        "params",
        [
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
    def test_other_parameters_are_those_of_the_metric(self, params):
        X, y = IRIS
        template = GenerativeMetric(**params, random_state=0)
        single = GenerativeMetricCV(template, cv=2, **SINGLE).fit(X, y)
        metric = clone(template).fit(X, y)
        np.testing.assert_allclose(single.metric_, metric.metric_, rtol=1e-9)
        np.testing.assert_allclose(single.local_metrics(X), metric.local_metrics(X), rtol=1e-9)
        if "max_samples" not in params:  # the draws of the candidates differ
            search = GenerativeMetricCV(template, cv=2, **SMALL).fit(X, y)
            expected = naive_average(search, X, y, metric=template)
            np.testing.assert_allclose(search.metric_, expected, rtol=1e-6, atol=1e-9)

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
            for seed in (0, 0, 1, np.random.RandomState(0), None)
        ]
        np.testing.assert_array_equal(scores[0], scores[1])
        assert (scores[0] != scores[2]).any()

    @pytest.mark.parametrize("factor", [1e-90, 1e90])
    def test_scale_and_offset_change_nothing(self, factor):
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
        plain = GenerativeMetricCV(**SMALL).fit(X, y)
        np.testing.assert_allclose(search.metric_, plain.metric_, rtol=1e-9)
        out = search.transform(frame)
        assert isinstance(out, type(frame))
        assert list(out.columns) == [f"generativemetriccv{i}" for i in range(4)]

    def test_preprocessor(self):
        X, y = IRIS
        looked_up = GenerativeMetricCV(GenerativeMetric(preprocessor=X), **SMALL)
        looked_up.fit(np.arange(150), y)
        plain = GenerativeMetricCV(**SMALL).fit(X, y)
        np.testing.assert_array_equal(looked_up.metric_, plain.metric_)
        np.testing.assert_array_equal(looked_up.transform([3, 5]), plain.transform(X[[3, 5]]))

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


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"bases": ("identity", "sphere")}, "value of bases must be 'identity' or 'pooled'"),
        ({"normalizations": 3}, "value of normalizations must be 'determinant' or 'trace'"),
        ({"shrinkages": ()}, "shrinkages is empty"),
        ({"shrinkages": (0.1, 2)}, "value of shrinkages must be None, 'auto' or a number"),
        ({"interpolations": [-1]}, r"value of interpolations must be a number in \[0, 1\]"),
        ({"n_components": 5}, r"value of n_components must be None, 'lda' or an integer in"),
        ({"n_neighbors": (1, 0)}, "value of n_neighbors must be an integer >= 1"),
        ({"n_neighbors": 2.5}, "value of n_neighbors must be an integer >= 1"),
        ({"n_neighbors": 150}, "too large: there are 149 samples"),
        ({"cv": 1}, "cv must be None, an integer >= 2"),
        ({"cv": 2.5}, "cv must be"),
        ({"cv": []}, "cv yields no splits"),
        ({"cv": [([0, 1, 99], [2]), ([0, 1], [2, 99])]}, "Split 1 of cv has .* a single class"),
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
def test_invalid_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        GenerativeMetricCV(**params).fit(*IRIS)


def test_invalid_input():
    X, y = IRIS
    for cv in (5, None):
        with pytest.raises(ValueError, match=rf"groups needs a cv .*got cv={cv}.*GroupKFold"):
            GenerativeMetricCV(cv=cv).fit(X, y, groups=np.arange(150))
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[150, 50\]"):
        GenerativeMetricCV(cv=GroupKFold(3)).fit(X, y, groups=np.arange(50))
    with pytest.raises(TypeError, match="masked"):
        GenerativeMetricCV().fit(np.ma.masked_array(X), y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        GenerativeMetricCV().fit(X, np.zeros(150))
    with pytest.raises(ValueError, match="Every class has a single sample"):
        GenerativeMetricCV().fit(np.eye(3), [0, 1, 2])
    for weight in (np.full(150, -1.0), np.zeros(150), np.ones(3)):
        with pytest.raises(ValueError, match="sample_weight"):
            GenerativeMetricCV().fit(X, y, sample_weight=weight)
