"""Methods: what validation picks, and fast paths against scikit-learn and the estimators."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics import rand_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC

from genmetric import (
    EnergyClassifier,
    GenerativeMetric,
    LocalMetricClassifier,
    MetricKMeans,
    RegionalKernels,
    SimpleMKLClassifier,
)
from genmetric.datasets import load_iris
from genmetric.reproduction._cache import Fits
from genmetric.reproduction._experiments import EXPERIMENTS, protocol
from genmetric.reproduction._methods import (
    Candidate,
    Clusters,
    Energy,
    Estimators,
    InMetric,
    KernelCombination,
    LocalVotes,
    Method,
    OneKernel,
    Seconds,
    Votes,
)
from genmetric.reproduction._problems import PROBLEMS, split_parts

PLAIN = GenerativeMetric(shrinkage=None)


@pytest.fixture
def fits():
    X, y = load_iris(return_X_y=True)
    return Fits(split_parts(minmax_scale(X, (-1, 1)), y, 0, None), seed=0)


@dataclass(frozen=True, kw_only=True)
class Scripted(Method):
    """Predicts what it is told, and remembers which parts were asked for."""

    validation: tuple[int, ...]
    asked: list

    def candidates(self, fits) -> Iterator[Candidate]:
        for i, wrong in enumerate(self.validation):
            yield Candidate({"i": i}, lambda part, i=i, wrong=wrong: self.predict(part, i, wrong))

    def predict(self, part, i, wrong):
        self.asked.append((part, i))
        return np.r_[np.ones(wrong), np.zeros(10 - wrong)]


def scripted(*wrong):
    rows = (np.zeros((10, 1)), np.zeros(10, int))
    fits = Fits({"train": rows, "val": rows, "test": rows})
    method = Scripted(name="s", title="s", family="s", validation=wrong, asked=[])
    return method, fits


def test_first_candidate_with_the_lowest_error_is_selected():
    method, fits = scripted(5, 2, 3, 2, 4)
    outcome = method.run(fits)
    assert outcome.chosen == {"i": 1}
    assert (outcome.validation, outcome.test) == (20.0, 20.0)
    # Test rows are seen once, by what was chosen.
    assert [asked for asked in method.asked if asked[0] == "test"] == [("test", 1)]


def test_refit_tests_the_same_setting_again():
    method, fits = scripted(5, 2, 3)
    outcome = method.run(fits, refit=True)
    assert outcome.extra["refit"] == 20.0
    assert [a for a in method.asked if a[0] == "test"] == [("test", 1), ("test", 1)]


def test_no_candidate():
    method, fits = scripted()
    with pytest.raises(ValueError, match="no candidate"):
        method.run(fits)


@pytest.mark.parametrize("metric", [None, PLAIN])
def test_votes_are_those_of_scikit_learn(fits, metric):
    train, y = fits.space(metric, "train"), fits.parts["train"][1]
    method = InMetric(name="m", title="m", family="m", metrics=(({}, metric),))
    for candidate in method.candidates(fits):
        knn = KNeighborsClassifier(candidate.params["k"]).fit(train, y)
        for part in ("val", "test"):
            expected = knn.predict(fits.space(metric, part))
            assert np.array_equal(candidate.predict(part), expected)


def test_energies_are_those_of_the_classifier(fits):
    decision = Energy((1, 3), (0.3, 1.0))
    for candidate in decision.candidates(fits, PLAIN):
        k, scale = candidate.params["k"], candidate.params["margin_scale"]
        model = EnergyClassifier(PLAIN, n_neighbors=k, margin_scale=scale).fit(*fits.parts["train"])
        assert np.array_equal(candidate.predict("test"), model.predict(fits.parts["test"][0]))


def test_local_votes_are_those_of_the_classifier(fits):
    method = LocalVotes(
        name="l", title="l", family="l", interpolations=(0.1, 1.0), neighbors=(1, 5)
    )
    for candidate in method.candidates(fits):
        model = LocalMetricClassifier(
            candidate.params["k"],
            interpolation=candidate.params["interpolation"],
            shrinkage=None,
        ).fit(*fits.parts["train"])
        assert np.array_equal(candidate.predict("val"), model.predict(fits.parts["val"][0]))


def test_a_metric_is_fitted_once(fits, monkeypatch):
    calls = []
    fit = GenerativeMetric.fit

    def counted(self, *args, **kwargs):
        calls.append(1)
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(GenerativeMetric, "fit", counted)
    metrics = (({}, PLAIN),)
    for decision in (Votes(), Energy((1, 3), (1.0,))):
        InMetric(name="m", title="m", family="m", metrics=metrics, decision=decision).run(fits)
    assert len(calls) == 1


def test_gmm_gets_the_validation_samples(fits, monkeypatch):
    seen = {}
    fit = GenerativeMetric.fit

    def spy(self, X, y, **kwargs):
        seen.update(kwargs)
        return fit(self, X, y, **kwargs)

    monkeypatch.setattr(GenerativeMetric, "fit", spy)
    fits.fitted(GenerativeMetric("gmm", shrinkage=None))
    assert np.array_equal(seen["X_val"], fits.parts["val"][0])
    assert np.array_equal(seen["y_val"], fits.parts["val"][1])


def test_estimators_with_a_grid(fits):
    grid = tuple({"C": C} for C in (0.01, 1.0, 100.0))
    method = Estimators(name="svm", title="svm", family="svm", estimator=SVC(), grid=grid)
    outcome = method.run(fits)
    errors = [
        100 * (1 - SVC(**p).fit(*fits.parts["train"]).score(*fits.parts["val"])) for p in grid
    ]
    chosen = grid[int(np.argmin(errors))]
    assert outcome.chosen == chosen
    assert outcome.validation == pytest.approx(min(errors))
    score = SVC(**chosen).fit(*fits.parts["train"]).score(*fits.parts["test"])
    assert outcome.test == pytest.approx(100 * (1 - score))


def test_kernels_are_shared_and_ties_go_to_fewer_regions(fits, monkeypatch):
    monkeypatch.setattr("genmetric.reproduction._methods.C_GRID", (0.5, 8.0))
    fixed = {
        p: KernelCombination(name=f"mkl-{p}", title="", family="k", regions=(p,)).run(fits)
        for p in (1, 2)
    }
    chosen = KernelCombination(name="mkl", title="", family="k", regions=(1, 2)).run(fits)
    best = min(fixed.values(), key=lambda outcome: outcome.validation)
    assert chosen == best
    kernels = RegionalKernels(1, shrinkage=None, random_state=0).fit(*fits.parts["train"])
    X, y = fits.parts["train"]
    model = SimpleMKLClassifier("precomputed", C=0.5).fit(kernels.gram(X, X), y)
    first = next(KernelCombination(name="", title="", family="k", regions=(1,)).candidates(fits))
    assert first.params == {"regions": 1, "C": 0.5}
    expected = model.predict(kernels.gram(fits.parts["val"][0], X))
    assert np.mean(first.predict("val") == expected) > 0.95
    one = OneKernel(name="rbf", title="", family="k", n_regions=0).run(fits)
    assert one.test < 20


def test_clusters(fits):
    grid = ((0.1, 0.0), (0.1, 0.7))
    method = Clusters(name="c", title="c", family="c", grid=grid)
    outcome = method.run(fits)
    X = fits.parts["train"][0]
    start = MetricKMeans(3, interpolation=0.0, n_init=5, random_state=0).fit(X)
    loop = MetricKMeans(3, shrinkage=0.1, interpolation=0.7, init=start.cluster_centers_).fit(X)
    val = [rand_score(fits.parts["val"][1], m.predict(fits.parts["val"][0])) for m in (start, loop)]
    model = (start, loop)[int(np.argmax(val))]
    assert outcome.validation == pytest.approx(max(val))
    X_test, y_test = fits.parts["test"]
    assert outcome.test == pytest.approx(rand_score(y_test, model.predict(X_test)))
    assert -1 <= outcome.extra["adjusted"] <= outcome.test


def test_seconds(fits):
    outcome = Seconds(name="t", title="t", family="t", estimator=PLAIN, rounds=2).run(fits)
    assert 0 < outcome.test < 60
    assert outcome.extra == {"fits": 2}


def test_fewer_samples_than_neighbours():
    X, y = make_blobs(30, 2, centers=2, random_state=0)
    fits = Fits(split_parts(X, y, 0, None))
    outcome = InMetric(name="m", title="m", family="m").run(fits, refit=True)
    assert outcome.chosen["k"] <= 18


def test_rank_of_a_metric_is_recorded(fits):
    method = InMetric(name="m", title="m", family="m", metrics=(({}, PLAIN),))
    assert method.run(fits).extra["rank"]["1e-06"] <= 4


def test_protocol_depends_on_the_grid_not_the_title():
    base = InMetric(name="m", title="m", family="m", metrics=(({}, PLAIN),))
    other = [
        InMetric(name="m", title="m", family="m", metrics=(({}, GenerativeMetric()),)),
        InMetric(name="m", title="m", family="m", metrics=base.metrics, decision=Votes((1, 3))),
        InMetric(name="n", title="m", family="m", metrics=base.metrics),
    ]
    iris = PROBLEMS["iris"]
    found = [protocol(iris, method) for method in (base, *other)]
    found.append(protocol(PROBLEMS["wine"], base))
    assert len(set(found)) == len(found)
    same = InMetric(name="m", title="another", family="x", metrics=base.metrics)
    assert protocol(iris, same) == protocol(iris, base)


def test_experiments_are_consistent():
    for experiment in EXPERIMENTS.values():
        names = [method.name for method in experiment.methods]
        assert len(set(names)) == len(names)
        assert set(experiment.problems) <= set(PROBLEMS)
        assert set(experiment.quick) <= set(experiment.problems)
        for ranked in experiment.ranked.values():
            assert set(ranked) <= set(names)
        # Every printed figure of the paper has its cell.
        printed = {m for p, m in experiment.figures if p in experiment.problems}
        assert {"small": printed - {"kde", "gmm"}}.get(experiment.name, printed) <= set(names)
    # The tables of six and of eight methods share their scores.
    small = {m.name: m for m in EXPERIMENTS["small"].methods}
    for method in EXPERIMENTS["density"].methods:
        assert method.name in ("kde", "gmm") or method == small[method.name]


def test_stored_scores_stay_valid_if_defaults_change(monkeypatch):
    """The paper's base and normalization do not change the key of a stored score."""
    from genmetric import GenerativeMetric
    from genmetric.reproduction._experiments import EXPERIMENTS, protocol
    from genmetric.reproduction._problems import PROBLEMS

    methods = {m.name: m for m in EXPERIMENTS["density"].methods if m.name in ("uni", "kde")}
    before = {name: protocol(PROBLEMS["iris"], m) for name, m in methods.items()}
    # Of docs/results/scores.jsonl.
    assert before == {"uni": "68e0071409a5", "kde": "48812b87ec3b"}
    defaults = dict(GenerativeMetric.__init__.__kwdefaults__)
    defaults |= {"normalization": "trace", "base": "pooled"}
    monkeypatch.setattr(GenerativeMetric.__init__, "__kwdefaults__", defaults)
    assert "determinant" in repr(methods["uni"])
    assert {name: protocol(PROBLEMS["iris"], m) for name, m in methods.items()} == before
