"""Methods: what validation selects, and shared searches compared with the estimators."""

import numpy as np
import pytest
from sklearn.metrics import rand_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from genmetric import (
    EnergyClassifier,
    GenerativeMetric,
    LocalMetricClassifier,
    MetricKMeans,
    RegionalKernels,
    SimpleMKLClassifier,
)
from genmetric.reproduction.experiments import EXPERIMENTS, protocol
from genmetric.reproduction.methods import (
    Clusters,
    Energy,
    Estimators,
    Fits,
    InMetric,
    KernelCombination,
    LocalVotes,
    Method,
    Seconds,
    Votes,
)
from genmetric.reproduction.problems import PROBLEMS, load_problem, split_parts

PLAIN = GenerativeMetric(shrinkage=None)
PLAIN_SETTINGS = (({}, PLAIN),)


@pytest.fixture
def fits():
    problem = PROBLEMS["iris"]
    return Fits(split_parts(*load_problem(problem), problem, 0), seed=0)


class Scripted(Method):
    """Predicts a given number of wrong classes, and stores which parts were asked for."""

    def candidates(self, fits):
        self.asked.clear()
        for i, wrong in enumerate(self.wrong):
            yield {"i": i}, lambda part, i=i, wrong=wrong: self.predict(part, i, wrong)

    def predict(self, part, i, wrong):
        self.asked.append((part, i))
        return np.r_[np.ones(wrong), np.zeros(10 - wrong)]


def scripted(*wrong):
    rows = (np.zeros((10, 1)), np.zeros(10, int))
    method = type("S", (Scripted,), {"wrong": wrong, "asked": []})("s", "s", "s")
    return method, Fits({"train": rows, "val": rows, "test": rows})


def test_first_candidate_with_the_lowest_error_is_selected_and_tested_once():
    method, fits = scripted(5, 2, 3, 2, 4)
    found = method.run(fits)
    assert found == {"validation": 20.0, "test": 20.0, "chosen": {"i": 1}}
    assert [asked for asked in method.asked if asked[0] == "test"] == [("test", 1)]
    method, fits = scripted()
    with pytest.raises(ValueError, match="'s' has no candidate"):
        method.run(fits)


@pytest.mark.parametrize("metric", [None, PLAIN])
def test_votes_are_those_of_scikit_learn(fits, metric):
    train, y = fits.space(metric, "train"), fits.parts["train"][1]
    for params, predict in Votes().candidates(fits, metric):
        knn = KNeighborsClassifier(params["k"]).fit(train, y)
        for part in ("val", "test"):
            assert np.array_equal(predict(part), knn.predict(fits.space(metric, part)))


@pytest.mark.parametrize("energy", ["three-term", "one-sided", "two-term"])
def test_energies_are_those_of_the_classifier(fits, energy):
    for params, predict in Energy((1, 3), (0.3, 1.0), energy=energy).candidates(fits, PLAIN):
        k, scale = params["k"], params["margin_scale"]
        model = EnergyClassifier(PLAIN, n_neighbors=k, margin_scale=scale, energy=energy)
        model.fit(*fits.parts["train"])
        assert np.array_equal(predict("test"), model.predict(fits.parts["test"][0]))


def test_local_votes_are_those_of_the_classifier(fits):
    for params, predict in LocalVotes("l", "l", "l", (0.1, 1.0), (1, 5)).candidates(fits):
        weight = params["interpolation"]
        model = LocalMetricClassifier(params["k"], interpolation=weight, shrinkage=None)
        model.fit(*fits.parts["train"])
        assert np.array_equal(predict("val"), model.predict(fits.parts["val"][0]))


def test_a_metric_is_fitted_once_and_some_get_the_validation_samples(fits, monkeypatch):
    calls = []
    fit = GenerativeMetric.fit

    def spy(self, X, y, **kwargs):
        calls.append(kwargs)
        return fit(self, X, y, **kwargs)

    monkeypatch.setattr(GenerativeMetric, "fit", spy)
    for decision in (Votes(), Energy((1, 3), (1.0,))):
        InMetric("m", "m", "m", PLAIN_SETTINGS, decision).run(fits)
    assert calls == [{}]
    fits.fitted(GenerativeMetric("gmm", shrinkage=None))
    assert np.array_equal(calls[1]["X_val"], fits.parts["val"][0])
    assert np.array_equal(calls[1]["y_val"], fits.parts["val"][1])


def test_estimators_with_a_grid(fits):
    grid = tuple({"C": C} for C in (0.01, 1.0, 100.0))
    found = Estimators("svm", "svm", "svm", SVC(), grid).run(fits)
    models = [SVC(**params).fit(*fits.parts["train"]) for params in grid]
    errors = [100 * (1 - model.score(*fits.parts["val"])) for model in models]
    best = int(np.argmin(errors))
    assert found["chosen"] == grid[best]
    assert found["validation"] == pytest.approx(min(errors))
    assert found["test"] == pytest.approx(100 * (1 - models[best].score(*fits.parts["test"])))


def test_kernels_are_shared_and_ties_go_to_fewer_regions(fits, monkeypatch):
    monkeypatch.setattr("genmetric.reproduction.methods.C_GRID", (0.5, 8.0))
    fixed = [KernelCombination("k", "k", "k", (p,)).run(fits) for p in (1, 2)]
    chosen = KernelCombination("mkl", "mkl", "k", (1, 2)).run(fits)
    assert chosen == min(fixed, key=lambda found: found["validation"])
    kernels = RegionalKernels(1, shrinkage=None, random_state=0).fit(*fits.parts["train"])
    X, y = fits.parts["train"]
    model = SimpleMKLClassifier("precomputed", C=0.5).fit(kernels.gram(X, X), y)
    params, predict = next(KernelCombination("k", "k", "k", (1,)).candidates(fits))
    assert params == {"regions": 1, "C": 0.5}
    expected = model.predict(kernels.gram(fits.parts["val"][0], X))
    assert np.mean(predict("val") == expected) > 0.95


def test_separate_halves_for_metrics_and_kernel_weights(fits, monkeypatch):
    monkeypatch.setattr("genmetric.reproduction.methods.C_GRID", (0.5,))
    params, predict = next(KernelCombination("k", "k", "k", (1,), "auto", 0.5).candidates(fits))
    kernels = RegionalKernels(1, holdout=0.5, random_state=0)
    model = SimpleMKLClassifier(kernels, C=0.5).fit(*fits.parts["train"])
    assert params == {"regions": 1, "C": 0.5}
    assert np.mean(predict("test") == model.predict(fits.parts["test"][0])) > 0.95


def test_clusters(fits):
    found = Clusters("c", "c", "c", ((0.1, 0.0), (0.1, 0.7))).run(fits)
    X = fits.parts["train"][0]
    start = MetricKMeans(3, interpolation=0.0, n_init=5, random_state=0).fit(X)
    loop = MetricKMeans(3, shrinkage=0.1, interpolation=0.7, init=start.cluster_centers_).fit(X)
    X_val, y_val = fits.parts["val"]
    val = [rand_score(y_val, model.predict(X_val)) for model in (start, loop)]
    model = (start, loop)[int(np.argmax(val))]
    X_test, y_test = fits.parts["test"]
    assert found["validation"] == pytest.approx(max(val))
    assert found["test"] == pytest.approx(rand_score(y_test, model.predict(X_test)))


def test_seconds(fits):
    found = Seconds("t", "t", "t", PLAIN, rounds=2).run(fits)
    assert 0 < found["test"] < 60
    assert found["chosen"] == {"fits": 2}


def test_protocol_depends_on_data_and_grid_not_on_the_title():
    iris, base = PROBLEMS["iris"], InMetric("m", "m", "m", PLAIN_SETTINGS)
    others = [
        InMetric("m", "m", "m", (({}, GenerativeMetric()),)),
        InMetric("m", "m", "m", PLAIN_SETTINGS, Votes((1, 7))),
        InMetric("n", "m", "m", PLAIN_SETTINGS),
    ]
    found = [protocol(iris, method) for method in (base, *others)]
    found.append(protocol(PROBLEMS["wine"], base))
    assert len(set(found)) == len(found)
    assert protocol(iris, InMetric("m", "another", "x", PLAIN_SETTINGS)) == found[0]


def test_experiments_are_consistent():
    for experiment in EXPERIMENTS.values():
        names = [method.name for method in experiment.methods]
        assert len(set(names)) == len(names)
        assert set(experiment.problems) <= set(PROBLEMS)
        assert set(experiment.quick) <= set(experiment.problems)
        assert set(experiment.ranked) <= set(names)
        # Every printed value of the paper has its cell.
        printed = {m for p, m in experiment.figures if p in experiment.problems}
        assert printed - set(names) == ({"kde", "gmm"} if experiment.name == "small" else set())
    # The tables of six and of eight methods share their scores.
    small = {m.name: m for m in EXPERIMENTS["small"].methods}
    for method in EXPERIMENTS["density"].methods:
        assert method.name in ("kde", "gmm") or method == small[method.name]


def test_the_metric_of_the_paper_does_not_depend_on_defaults():
    (uni,) = (m for m in EXPERIMENTS["small"].methods if m.name == "uni")
    metric = uni.metrics[0][1]
    assert (metric.base, metric.normalization, metric.shrinkage) == (
        "identity",
        "determinant",
        None,
    )
