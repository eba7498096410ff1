"""Cross-validated comparisons: protocol, choices, what is skipped, what is advised."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric.study import compare as module
from genmetric.study.compare import compare_metrics, fill_missing
from genmetric.study.comparison import Comparison, MethodResult
from genmetric.study.contenders import (
    CONTENDERS,
    NEIGHBORS,
    USUAL,
    Cost,
    Training,
    choose_neighbors,
    stratified_sample,
)


def naive_leave_one_out(Z, y, k):
    """Each row by the vote of its k nearest others; a tie is right by its share."""
    wrong = 0.0
    for i in range(len(Z)):
        d = ((Z - Z[i]) ** 2).sum(axis=1)
        d[i] = np.inf
        classes, votes = np.unique(y[np.argsort(d, kind="stable")[:k]], return_counts=True)
        most = classes[votes == votes.max()]
        wrong += 1 - (y[i] in most) / len(most)
    return wrong / len(Z)


def test_neighbours_by_leave_one_out(rng):
    Z = rng.normal(size=(60, 3))
    y = rng.integers(0, 3, 60)
    best, ks, errors = choose_neighbors(Z, y)
    assert ks.tolist() == NEIGHBORS.tolist()
    np.testing.assert_allclose(errors, [naive_leave_one_out(Z, y, k) for k in ks])
    assert best == ks[np.argmin(errors)]


def test_neighbours_do_not_depend_on_unit_and_place(rng):
    Z, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    best, _, errors = choose_neighbors(Z, y)
    for moved in (Z * 1e140, Z * 1e-140, Z + 1e6):
        again = choose_neighbors(moved, y)
        assert again[0] == best
        np.testing.assert_allclose(again[2], errors, atol=1e-12)


def test_few_rows_have_few_neighbours():
    best, ks, _ = choose_neighbors(np.arange(4.0)[:, None], np.array([0, 0, 1, 1]))
    assert ks.tolist() == [1, 3]
    assert best == 1
    assert choose_neighbors(np.zeros((1, 2)), np.array([0]))[0] == 1


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
            ("Euclidean, standardised", z, z_test),
            ("M^UNI", metric.transform(z), metric.transform(z_test)),
        ):
            errors = [naive_leave_one_out(a, y[train], k) for k in NEIGHBORS]
            k = int(NEIGHBORS[np.argmin(np.round(errors, 12))])
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
    assert [r.name for r in found.results] == [CONTENDERS[key].name for key in USUAL]
    assert not any(r.skipped for r in found.results)
    for result in found.results:
        assert result.errors.shape == result.fit_seconds.shape == result.predict_seconds.shape
        assert len(result.parameters) == 2
        assert (result.fit_seconds > 0).all()
        assert result.error < (0.4 if result.name == "Euclidean" else 0.1)
    assert found["M^UNI, tuned"].parameters[0].keys() >= {"shrinkage", "interpolation"}
    assert found.feature_names == tuple(data.feature_names)
    assert found.class_names == ("class_0", "class_1", "class_2")
    voting = {"Euclidean", "Euclidean, standardised", "NCA", "M^UNI", "M^KDE", "M^UNI, tuned"}
    assert set(found.error_by_k) == voting
    ks, errors = found.error_by_k["M^UNI"]
    assert ks.shape == errors.shape
    assert ((errors >= 0) & (errors < 0.2)).all()


def test_same_seed_same_figures():
    X, y = load_iris(return_X_y=True)
    a, b = (
        compare_metrics(X, y, methods=["uniform", "energy"], n_splits=3, n_repeats=1)
        for _ in range(2)
    )
    for first, second in zip(a.results, b.results, strict=True):
        assert (first.errors == second.errors).all()
        assert first.parameters == second.parameters


def test_missing_values_are_filled_from_the_training_rows():
    train = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan]])
    test = np.array([[np.nan, np.nan], [7.0, 1.0]])
    a, b = fill_missing(train, test)
    assert a.tolist() == [[1, 0], [3, 0], [2, 0]]
    assert b.tolist() == [[2, 0], [7, 1]]
    X, y = load_iris(return_X_y=True)
    X[::7, 2] = np.nan
    found = compare_metrics(X, y, methods=["uniform"], n_splits=3, n_repeats=1)
    assert found["M^UNI"].error < 0.2


def test_unit_and_place_of_the_table_do_not_matter():
    X, y = load_wine(return_X_y=True)
    a = compare_metrics(X, y, methods=["euclidean"], n_splits=3, n_repeats=1)
    b = compare_metrics(X * 1e140, y, methods=["euclidean"], n_splits=3, n_repeats=1)
    assert (a["Euclidean"].errors == b["Euclidean"].errors).all()


def test_small_classes(rng):
    X = rng.normal(size=(23, 2))
    y = np.array(["u"] * 10 + ["v"] * 9 + ["w"] * 3 + ["lone"])
    found = compare_metrics(X, y, methods=["standardised", "uniform", "energy"])
    assert found.n_samples == 22
    assert found.n_splits == 3
    assert any("single row" in note and "'lone'" in note for note in found.notes)
    assert any("smallest class has 3 rows" in note for note in found.notes)
    with pytest.raises(ValueError, match="two classes of two rows"):
        compare_metrics(X, np.array(["u"] * 22 + ["v"]))


def test_many_rows_are_sampled(rng):
    X, y = rng.normal(size=(500, 2)), np.repeat([0, 1, 1, 1, 1], 100)
    found = compare_metrics(X, y, methods=["standardised"], max_rows=100, n_splits=2)
    assert found.n_samples == 100
    assert found.class_counts.tolist() == [20, 80]
    assert any("100 of 500 rows" in note for note in found.notes)


def test_stratified_samples(rng):
    y = rng.permutation(np.repeat(["a", "b", "c"], [900, 98, 2]))
    rows = stratified_sample(y, 100, 0)
    assert dict(zip(*np.unique(y[rows], return_counts=True), strict=True)) == {
        "a": 90,
        "b": 10,
        "c": 2,
    }
    assert (np.diff(rows) > 0).all()


def test_what_is_too_slow_is_skipped_with_a_word():
    nca, mkl = CONTENDERS["nca"].afford, CONTENDERS["mkl"].afford
    assert not nca(Cost(500, 60.0)).skip
    cut = nca(Cost(50_000, 60.0))
    assert not cut.skip
    assert 800 <= cut.max_rows < 50_000
    assert "training rows" in cut.note
    ruling = nca(Cost(50_000, 0.1))
    assert ruling.skip
    assert "above the time limit" in ruling.note
    assert not mkl(Cost(300, 60.0)).skip
    assert "Gram matrices would take" in mkl(Cost(20_000, 60.0)).note


def test_the_first_fold_may_show_that_a_method_is_too_slow(monkeypatch):
    ticks = iter(range(0, 10_000, 50))
    monkeypatch.setattr(module, "perf_counter", lambda: next(ticks))
    X, y = load_iris(return_X_y=True)
    found = compare_metrics(X, y, methods=["uniform"], n_splits=3, n_repeats=1)
    assert found["M^UNI"].skipped
    assert "100 s for the first of 3 folds" in found["M^UNI"].note
    assert found.advice == "No method ran within the time limit."


def test_a_metric_may_see_a_sample_while_all_rows_vote(rng):
    X, y = rng.normal(size=(200, 3)), np.repeat([0, 1], 100)
    fitted = CONTENDERS["uniform"].fit(Training(X, y, 0, 50))
    assert fitted.model["neighbors"].n_samples_fit_ == 200
    rows = stratified_sample(y, 50, 0)
    z = StandardScaler().fit(X).transform(X[rows])
    expected = GenerativeMetric().fit(z, y[rows])
    np.testing.assert_allclose(fitted.model["metric"].metric_, expected.metric_)


def result(name, errors, seconds=1.0):
    errors = np.asarray(errors, float)
    seconds = np.full(len(errors), seconds)
    return MethodResult(name, errors, seconds, seconds, ({"n_neighbors": 3},) * len(errors))


def advise(**errors):
    """Advice on errors by key of the method, in ten folds of a hundred rows."""
    folds = [(np.arange(900), np.arange(100))] * 10
    names = [CONTENDERS[key].name for key in errors]
    results = [result(n, e) for n, e in zip(names, errors.values(), strict=True)]
    return module._advise(results, list(errors), folds, np.array([500, 500]))


NOISE = 0.01 * np.array([1, -1, 2, -2, 0, 1, -1, 2, -2, 0])


def test_advice_where_a_metric_helps():
    found = advise(euclidean=0.31 + NOISE, standardised=0.3 + NOISE, uniform=0.17 - NOISE)
    baseline, best, p, text = found
    assert (baseline, best) == ("Euclidean, standardised", "M^UNI")
    assert p < 0.001
    assert text.startswith("Use M^UNI with 3 neighbours: the error falls from 30.0%")
    assert "17.0%" in text


def test_advice_counts_how_many_were_tried():
    once = advise(standardised=0.2 + NOISE, uniform=0.185 - NOISE)[2]
    errors = dict.fromkeys(("lda", "nca", "kde"), 0.19 - NOISE)
    often = advise(standardised=0.2 + NOISE, uniform=0.185 - NOISE, **errors)
    assert often[2] == pytest.approx(min(1, 4 * once))
    assert "times the 4 methods tried" in often[3]


def test_advice_where_chance_may_be_at_work():
    *_, p, text = advise(standardised=0.2 + NOISE, uniform=0.199 - NOISE)
    assert p > 0.05
    assert text.startswith("No clear winner: M^UNI errs in 19.9%")


def test_advice_where_nothing_helps():
    baseline, best, p, text = advise(standardised=0.2 + NOISE, uniform=0.25 + NOISE)
    assert baseline == best == "Euclidean, standardised"
    assert np.isnan(p)
    assert "no learned metric has a lower error" in text
    *_, text = advise(standardised=0.55 + NOISE, uniform=0.51 + NOISE)
    assert "No method beats naming the largest class" in text


def test_advice_names_a_quicker_one_that_is_as_good():
    names = ["Euclidean, standardised", "M^UNI", "Regional MKL"]
    results = [result(names[0], 0.3 + NOISE), result(names[1], 0.171 - NOISE, 0.1)]
    results.append(result(names[2], 0.17 + NOISE, 2.0))
    folds = [(np.arange(900), np.arange(100))] * 10
    keys = ["standardised", "uniform", "mkl"]
    *_, text = module._advise(results, keys, folds, np.array([500, 500]))
    assert text.startswith("Use Regional MKL")
    assert "M^UNI, with 17.1%, is not clearly worse and fits 20 times faster." in text


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
    with pytest.raises(KeyError):
        found["d"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"methods": ["magic"]}, "methods must be some of"),
        ({"methods": []}, "methods must be some of"),
        ({"n_splits": 1}, "at least 2"),
        ({"n_repeats": 0}, "n_repeats"),
        ({"max_rows": 0}, "max_rows"),
    ],
)
def test_bad_parameters(changes, words):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=words):
        compare_metrics(X, y, **{"methods": ["euclidean"], **changes})


def test_bad_rows():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="rows and a class each"):
        compare_metrics(X, y[:-1])
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match="infinite"):
        compare_metrics(X, y)
