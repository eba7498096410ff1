"""Cross-validated comparisons: protocol, selection of parameters, skipped methods."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric._votes import N_NEIGHBORS, select_n_neighbors
from genmetric.comparison import (
    DEFAULT_METHODS,
    METHODS,
    Budget,
    Comparison,
    MethodResult,
    TrainingData,
    compare_metrics,
)
from genmetric.comparison import _compare as module
from genmetric.comparison._voting import stratified_sample


def naive_leave_one_out(Z, y, k):
    """Each row by the vote of its k nearest others; a tie is right by its share."""
    wrong = 0.0
    for i in range(len(Z)):
        d = ((Z - Z[i]) ** 2).sum(axis=1)
        d[i] = np.inf
        classes, votes = np.unique(y[np.argsort(d, kind="stable")[:k]], return_counts=True)
        wrong += y[i] != classes[votes.argmax()]
    return wrong / len(Z)


def test_neighbours_by_leave_one_out(rng):
    Z = rng.normal(size=(60, 3))
    y = rng.integers(0, 3, 60)
    best, ks, errors = select_n_neighbors(Z, y)
    assert ks.tolist() == list(N_NEIGHBORS)
    np.testing.assert_allclose(errors, [naive_leave_one_out(Z, y, k) for k in ks])
    assert best == ks[np.argmin(errors)]


def test_neighbours_independent_of_units_and_origin(rng):
    Z, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    best, _, errors = select_n_neighbors(Z, y)
    for moved in (Z * 1e140, Z * 1e-140, Z + 1e6):
        again = select_n_neighbors(moved, y)
        assert again[0] == best
        np.testing.assert_allclose(again[2], errors, atol=1e-12)


def test_number_of_neighbours_with_few_samples():
    best, ks, _ = select_n_neighbors(np.arange(4.0)[:, None], np.array([0, 0, 1, 1]))
    assert ks.tolist() == [1, 3]
    assert best == 1
    assert select_n_neighbors(np.zeros((1, 2)), np.array([0]))[0] == 1


def test_the_protocol_by_hand():
    X, y = load_iris(return_X_y=True)
    found = compare_metrics(
        X, y, methods=["standardised", "uniform"], n_splits=3, n_repeats=2, random_state=5
    )
    folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=5).split(X, y)
    for fold, (train, test) in enumerate(folds):
        scale = StandardScaler().fit(X[train])
        z, z_test = scale.transform(X[train]), scale.transform(X[test])
        metric = GenerativeMetric().fit(z, y[train])
        for name, a, b in (
            ("standardised", z, z_test),
            ("uniform", metric.transform(z), metric.transform(z_test)),
        ):
            errors = [naive_leave_one_out(a, y[train], k) for k in N_NEIGHBORS]
            k = N_NEIGHBORS[np.argmin(np.round(errors, 12))]
            result = found[name]
            assert result.parameters[fold]["n_neighbors"] == k
            wrong = KNeighborsClassifier(k).fit(a, y[train]).predict(b) != y[test]
            assert result.errors[fold] == pytest.approx(wrong.mean())
    assert found.n_splits == 3
    assert found.n_repeats == 2
    assert found.class_counts.tolist() == [50, 50, 50]


def test_all_usual_methods_on_wine():
    data = load_wine()
    found = compare_metrics(
        data.data,
        data.target_names[data.target],
        n_splits=2,
        n_repeats=1,
        title="wine",
        feature_names=data.feature_names,
    )
    assert [r.key for r in found.results] == list(DEFAULT_METHODS)
    assert [r.name for r in found.results] == [METHODS[key].label for key in DEFAULT_METHODS]
    assert not any(r.skipped for r in found.results)
    for result in found.results:
        assert result.errors.shape == result.fit_seconds.shape == result.predict_seconds.shape
        assert len(result.parameters) == 2
        assert (result.fit_seconds > 0).all()
        assert result.error < {"euclidean": 0.4, "majority": 0.7}.get(result.key, 0.1)
        assert result.confusion.sum() == 178
        assert result.error == pytest.approx(1 - np.trace(result.confusion) / 178, abs=0.01)
    assert found["cv"].parameters[0].keys() >= {"shrinkage", "interpolation"}
    assert found.feature_names == tuple(data.feature_names)
    assert found.class_names == ("class_0", "class_1", "class_2")
    voting = {METHODS[key].label for key in DEFAULT_METHODS if METHODS[key].votes}
    assert set(found.error_by_k) == voting
    ks, errors = found.error_by_k["generative metric"]
    assert ks.shape == errors.shape
    assert ((errors >= 0) & (errors < 0.2)).all()


def test_same_seed_gives_same_results():
    X, y = load_iris(return_X_y=True)
    a, b = (
        compare_metrics(X, y, methods=["uniform", "energy"], n_splits=3, n_repeats=1)
        for _ in range(2)
    )
    for first, second in zip(a.results, b.results, strict=True):
        assert (first.errors == second.errors).all()
        assert first.parameters == second.parameters


def test_missing_values_are_imputed_from_the_training_samples():
    X, y = load_iris(return_X_y=True)
    X[::7, 2] = np.nan
    found = compare_metrics(X, y, methods=["uniform"], n_splits=3, n_repeats=1)
    assert found["uniform"].error < 0.2


def test_result_independent_of_units():
    X, y = load_wine(return_X_y=True)
    a = compare_metrics(X, y, methods=["euclidean"], n_splits=3, n_repeats=1)
    b = compare_metrics(X * 1e140, y, methods=["euclidean"], n_splits=3, n_repeats=1)
    assert (a["euclidean"].errors == b["euclidean"].errors).all()


def test_small_classes(rng):
    X = rng.normal(size=(23, 2))
    y = np.array(["u"] * 10 + ["v"] * 9 + ["w"] * 3 + ["lone"])
    found = compare_metrics(X, y, methods=["standardised", "uniform", "energy"])
    assert found.n_samples == 22
    assert found.n_splits == 3
    assert any("single sample" in note and "'lone'" in note for note in found.notes)
    assert any("smallest class has 3 samples" in note for note in found.notes)
    with pytest.raises(ValueError, match="at least two classes with at least two samples"):
        compare_metrics(X, np.array(["u"] * 22 + ["v"]))


def test_large_tables_are_subsampled(rng):
    X, y = rng.normal(size=(500, 2)), np.repeat([0, 1, 1, 1, 1], 100)
    found = compare_metrics(X, y, methods=["standardised"], max_samples=100, n_splits=2)
    assert found.n_samples == 100
    assert found.class_counts.tolist() == [20, 80]
    assert any("100 of 500 samples" in note for note in found.notes)


def test_stratified_samples(rng):
    y = rng.permutation(np.repeat(["a", "b", "c"], [900, 98, 2]))
    rows = stratified_sample(y, 100, 0)
    assert dict(zip(*np.unique(y[rows], return_counts=True), strict=True)) == {
        "a": 90,
        "b": 10,
        "c": 2,
    }
    assert (np.diff(rows) > 0).all()


def test_methods_above_the_budget_are_skipped_with_the_reason():
    nca, mkl = METHODS["nca"].decide, METHODS["mkl"].decide
    assert not nca(Budget(500, 60.0)).skip
    cut = nca(Budget(50_000, 60.0))
    assert not cut.skip
    assert 800 <= cut.max_samples < 50_000
    assert "training samples" in cut.note
    assert nca(Budget(50_000, 0.1)).max_samples == 800
    assert nca(Budget(400, 0.1)).max_samples is None
    assert not mkl(Budget(300, 60.0)).skip
    assert "Gram matrices need" in mkl(Budget(20_000, 60.0)).note


def clocks(monkeypatch, *seconds):
    """Let the folds take these seconds, by the wall clock and by the processor."""
    now = [0.0]
    taken = iter(seconds)
    run = module._Evaluation._run_fold

    def run_fold(*words):
        outcome = run(*words)
        now[0] += next(taken, seconds[-1])
        return outcome

    monkeypatch.setattr(module._Evaluation, "_run_fold", run_fold)
    for clock in ("perf_counter", "process_time"):
        monkeypatch.setattr(module, clock, lambda: now[0])


@pytest.mark.parametrize("seconds", [(50, 40), (40, 50)])
def test_method_is_skipped_if_its_folds_are_too_slow(monkeypatch, seconds):
    clocks(monkeypatch, *seconds)
    X, y = load_iris(return_X_y=True)
    found = compare_metrics(X, y, methods=["uniform"], n_splits=3, n_repeats=1, time_limit=100)
    result = found["uniform"]
    assert result.skipped
    assert result.note == "would take about 120 s (limit 100 s); raise the time limit to 140 s"
    assert result.skipped_seconds == 90
    assert found.advice.startswith("No distance has a result, so nothing can be recommended.")


def test_slow_first_fold_is_not_the_measure(monkeypatch):
    clocks(monkeypatch, 50, 1)
    X, y = load_iris(return_X_y=True)
    found = compare_metrics(X, y, methods=["uniform"], n_splits=5, n_repeats=1)
    assert not found["uniform"].skipped


def test_time_limit_proposed_when_it_is_reached(monkeypatch):
    clocks(monkeypatch, 1, 1, 100)
    X, y = load_iris(return_X_y=True)
    found = compare_metrics(X, y, methods=["uniform"], n_splits=5, n_repeats=1)
    # 102 s for three of five folds.
    assert "about 170 s (limit 60 s); raise the time limit to 200 s" in found["uniform"].note


def test_baselines_have_no_time_limit(monkeypatch):
    clocks(monkeypatch, 1000)
    X, y = load_iris(return_X_y=True)
    keys = ["majority", "euclidean", "standardised", "uniform"]
    found = compare_metrics(X, y, methods=keys, n_splits=3, n_repeats=1)
    assert [r.skipped for r in found.results] == [False, False, False, True]


def test_repr_is_the_table():
    X, y = load_iris(return_X_y=True)
    found = compare_metrics(X, y, methods=["standardised", "uniform"], n_splits=3, n_repeats=1)
    assert repr(found) == str(found)
    assert "array" not in repr(found)
    assert repr(found["uniform"]).startswith("MethodResult('uniform', error=0.0")
    assert repr(MethodResult.left_out("NCA", "slow", key="nca")) == (
        "MethodResult('nca', skipped: slow)"
    )


def test_samples_of_many_classes_are_whole_classes():
    y = np.repeat(np.arange(5000), 2)
    rows = stratified_sample(y, 300, 0)
    counts = np.unique(y[rows], return_counts=True)[1]
    assert len(rows) == 300
    assert (counts == 2).all()
    X = np.random.default_rng(0).normal(size=(len(y), 2)) + y[:, None]
    found = compare_metrics(X, y, task="classification", methods=["standardised"], max_samples=300)
    assert found.n_samples == 300
    assert any("drawn at random from 150 of 5000 classes" in note for note in found.notes)


def test_metric_learned_from_a_subsample_keeps_all_neighbours(rng):
    X, y = rng.normal(size=(200, 3)), np.repeat([0, 1], 100)
    fitted = METHODS["uniform"].fit(TrainingData(X, y, 0, 50))
    assert fitted.model["neighbors"].n_samples_fit_ == 200
    rows = stratified_sample(y, 50, 0)
    z = StandardScaler().fit(X).transform(X[rows])
    expected = GenerativeMetric().fit(z, y[rows])
    np.testing.assert_allclose(fitted.model["metric"].metric_, expected.metric_)


def result(name, errors):
    seconds = np.ones(len(errors))
    return MethodResult(name, np.asarray(errors), seconds, seconds)


def test_results():
    one = result("a", [0.1, 0.2, 0.3])
    assert one.error == pytest.approx(0.2)
    assert one.standard_error == pytest.approx(0.1 / np.sqrt(3))
    assert np.isnan(result("b", [0.1]).standard_error)
    out = MethodResult.left_out("c", "too slow")
    assert out.skipped
    assert np.isnan(out.error)
    found = Comparison("t", 3, 1, ("x",), ("u", "v"), np.array([1, 2]), (one, out))
    assert found["c"] is out
    assert found.ran == (one,)
    with pytest.raises(KeyError, match="'d'"):
        found["d"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"methods": ["magic"]}, "methods must be some of"),
        ({"methods": ["magic"]}, r"got 'magic'\.$"),
        ({"methods": ["standardized"]}, r"got 'standardized'\. Did you mean 'standardised'\?$"),
        ({"methods": []}, "methods must be some of"),
        ({"n_splits": 1}, "at least 2"),
        ({"n_repeats": 0}, "n_repeats"),
        ({"max_samples": 0}, "max_samples"),
    ],
)
def test_invalid_parameters(changes, words):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=words):
        compare_metrics(X, y, **{"methods": ["euclidean"], **changes})


def test_invalid_samples():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="X has 150 samples, but y has 149 targets"):
        compare_metrics(X, y[:-1])
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match="infinite"):
        compare_metrics(X, y)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.r_[np.inf, np.ones(149)], "missing values, NaN or infinity"),
        (np.array([None, *"ab" * 74, "a"], dtype=object), "missing values, NaN or infinity"),
        (np.ones((150, 2)), "one-dimensional"),
        (None, "Pass either y or target"),
    ],
)
def test_invalid_labels(y, words):
    X, _ = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=words):
        compare_metrics(X, y)


def test_a_continuous_target_is_not_classes():
    X, _ = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r'label type: continuous.* use task="regression"'):
        compare_metrics(X, np.linspace(0, 1, 150), task="classification")
