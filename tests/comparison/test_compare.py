"""Cross-validated comparisons: the protocol, the samples, the folds and their limits."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.dummy import DummyRegressor
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric, compare_metrics
from genmetric.comparison import (
    METHODS,
    ComparisonInterrupted,
    Method,
    find_methods,
)

X, Y = load_wine(return_X_y=True)
GROUPS = np.arange(len(Y)) // 4
KEYS = ["standardized", "generative"]
NUMBERS = (1, 3, 5, 7, 9, 11, 15, 21)
SINGULAR = (
    "could not be fitted: a matrix is singular. Classes may have too few samples, or features may "
    "depend on each other"
)


def naive_leave_one_out(Z, y, k):
    """Error rate of each sample by the vote of its k nearest others, ties to the first class."""
    wrong = 0.0
    for i in range(len(Z)):
        d = ((Z - Z[i]) ** 2).sum(axis=1)
        d[i] = np.inf
        classes, votes = np.unique(y[np.argsort(d, kind="stable")[:k]], return_counts=True)
        wrong += y[i] != classes[votes.argmax()]
    return wrong / len(Z)


def numbers(n=150, seed=0):
    """Samples and a target that depends on one of eight features."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 8))
    return x, 10 + 3 * x[:, 0] + 0.3 * rng.normal(size=n)


def toy(predictor, **changes):
    """A method whose predictor is a function of this module."""
    return Method("toy", "toy", "A toy.", predictor=f"{__name__}:{predictor}", **changes)


class Failing(KNeighborsClassifier):
    """Raises the error that the test has set."""

    error: BaseException = ZeroDivisionError("a\nb")

    def fit(self, X, y):
        raise self.error


def test_the_protocol_by_hand():
    x, y = load_iris(return_X_y=True)
    found = compare_metrics(x, y, methods=KEYS, n_splits=3, n_repeats=2, random_state=5)
    folds = [
        pair
        for seed in (5, 6)
        for pair in StratifiedKFold(3, shuffle=True, random_state=seed).split(x, y)
    ]
    for fold, (train, test) in enumerate(folds):
        scale = StandardScaler().fit(x[train])
        z, z_test = scale.transform(x[train]), scale.transform(x[test])
        metric = GenerativeMetric().fit(z, y[train])
        spaces = [(z, z_test), (metric.transform(z), metric.transform(z_test))]
        for key, (a, b) in zip(KEYS, spaces, strict=True):
            errors = [naive_leave_one_out(a, y[train], k) for k in NUMBERS]
            k = NUMBERS[np.argmin(np.round(errors, 12))]
            assert found[key].parameters[fold] == {"n_neighbors": k}
            wrong = KNeighborsClassifier(k).fit(a, y[train]).predict(b) != y[test]
            assert found[key].errors[fold] == pytest.approx(wrong.mean())
    assert (found.n_splits, found.n_repeats) == (3, 2)
    assert found.class_counts.tolist() == [50, 50, 50]


def test_all_usual_methods_on_wine():
    data = load_wine()
    names = data.target_names[data.target]
    found = compare_metrics(X, names, n_splits=2, n_repeats=1, feature_names=data.feature_names)
    usual = find_methods(None, "classification")
    assert [r.key for r in found.results] == [m.key for m in usual]
    assert not found.skipped
    for result in found.results:
        assert len(result.errors) == len(result.fit_seconds) == len(result.parameters) == 2
        assert result.name == METHODS[result.key].label
        assert result.error < {"euclidean": 0.4, "majority": 0.7}.get(result.key, 0.1)
        assert result.confusion.sum() == 178
        assert result.error == pytest.approx(1 - np.trace(result.confusion) / 178, abs=0.01)
    assert found["generative-cv"].parameters[0].keys() >= {"base", "n_neighbors"}
    assert found["energy"].parameters[0].keys() >= {"energy", "n_neighbors"}
    assert found.feature_names == tuple(data.feature_names)
    assert found.class_names == ("class_0", "class_1", "class_2")
    assert set(found.error_by_k) == {m.key for m in usual if m.votes}
    ks, errors = found.error_by_k["generative"]
    assert ks.tolist() == list(NUMBERS)
    assert ((errors >= 0) & (errors < 0.2)).all()
    assert found.not_run == ("kde", "gmm", "lmnn", "nca", "local", "regional-kernels")


def test_all_usual_methods_on_numbers():
    x, y = numbers(90)
    found = compare_metrics(x, y, n_repeats=1)
    usual = find_methods(None, "regression")
    assert [r.key for r in found.results] == [m.key for m in usual]
    assert not found.skipped
    assert (found.scoring.key, found.class_names, found.error_by_k) == ("r2", (), {})
    assert any(note.startswith("regression: the target has 90 distinct") for note in found.notes)
    actual, predicted = found["ridge"].predictions
    np.testing.assert_array_equal(actual, y)
    assert 0.9 < np.corrcoef(actual, predicted)[0, 1] < 1
    assert found["kernel-regression"].parameters[0]["bandwidth"] > 0
    assert found.recommended == "regression-cv"


def test_same_seed_gives_same_results_for_every_n_jobs():
    x, y = load_iris(return_X_y=True)
    words = {"methods": ["generative", "energy"], "n_splits": 3, "n_repeats": 1}
    a, b = compare_metrics(x, y, **words), compare_metrics(x, y, n_jobs=2, **words)
    for first, second in zip(a.results, b.results, strict=True):
        assert (first.errors == second.errors).all()
        assert first.parameters == second.parameters


def test_repeats_are_decided_by_the_size_of_the_table(rng, monkeypatch):
    slow = Method("toy", "toy", "Slow.", predictor="sklearn.dummy:DummyClassifier", slow=True)
    monkeypatch.setitem(METHODS, "toy", slow)
    for shape, repeats in (((300, 30), 4), ((300, 100), 2)):
        x = rng.normal(size=shape)
        found = compare_metrics(x, np.arange(len(x)) % 2, methods=["majority", "toy"])
        assert found.n_repeats == repeats
        assert len(found["majority"].errors) == 5 * repeats
        assert len(found["toy"].errors) == 5  # the first repetition only
    asked = compare_metrics(x, np.arange(len(x)) % 2, methods=["toy"], n_repeats=3)
    assert len(asked["toy"].errors) == 15


def test_methods_too_large_for_the_table_are_named_with_the_way_to_run_them(rng):
    x = rng.normal(size=(1600, 2))
    found = compare_metrics(
        x, np.arange(1600) % 60, methods=["standardized", "boosting", "mkl"], n_repeats=1
    )
    assert "slow beyond 1500 samples (max_samples=1500" in found["regional-kernels"].note
    assert found["boosting"].note == "slow beyond 50 classes"
    assert not found["standardized"].skipped


def test_missing_values_are_imputed_from_the_training_samples():
    x, y = load_iris(return_X_y=True)
    x[::7, 2] = np.nan
    found = compare_metrics(x, y, methods=["generative"], n_splits=3, n_repeats=1)
    assert found["generative"].error < 0.2
    assert found.best_estimator().steps[0][0] == "columns"


def test_small_classes(rng):
    y = np.array(["u"] * 10 + ["v"] * 9 + ["w"] * 3 + ["lone"])
    x = rng.normal(size=(23, 2))
    found = compare_metrics(x, y, methods=["standardized", "generative", "energy"], n_repeats=1)
    assert (found.n_samples, found.n_splits, found.skipped) == (22, 5, ())
    left_out = "left out: 1 of 23 samples in classes with a single sample (lone)"
    assert left_out in found.notes
    assert 22 not in found.rows
    few = compare_metrics(x, y, methods=["logistic"], scoring="roc_auc", n_repeats=1)
    assert few.n_splits == 3
    assert "3 folds, because there are too few samples for 5" in few.notes
    with pytest.raises(ValueError, match="two classes with at least two samples each"):
        compare_metrics(x, np.array(["u"] * 22 + ["v"]))
    with pytest.raises(ValueError, match="found 1 of 3 samples in classes with a single sample"):
        compare_metrics(x[:3], np.array(["u", "u", "v"]))


def test_large_tables_are_subsampled(rng):
    x, y = rng.normal(size=(500, 2)), np.repeat([0, 1, 1, 1, 1], 100)
    found = compare_metrics(x, y, methods=["standardized"], max_samples=100, n_splits=2)
    assert found.class_counts.tolist() == [20, 80]
    assert "compared on 100 of 500 samples, drawn at random" in found.notes
    np.testing.assert_array_equal(found.X, x[found.rows])


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (MemoryError("Unable to allocate 9 TiB"), "not enough memory. Unable to allocate 9 TiB"),
        (ZeroDivisionError("a\nb"), "could not be fitted: a b (ZeroDivisionError)"),
        (np.linalg.LinAlgError("The leading minor of order 14 is not positive"), SINGULAR),
    ],
)
def test_a_method_that_fails_is_skipped_with_the_reason(monkeypatch, error, note):
    monkeypatch.setitem(METHODS, "toy", toy("Failing"))
    monkeypatch.setattr(Failing, "error", error)
    found = compare_metrics(X, Y, methods=["toy", "standardized"], n_splits=3, n_repeats=1)
    assert found["toy"].note == note
    assert found.skipped == (found["toy"],)
    assert not found["standardized"].skipped


def test_the_time_limit_stops_between_folds_and_says_so():
    found = compare_metrics(X, Y, methods=["standardized", "generative"], time_limit=0, n_repeats=1)
    assert [len(r.errors) for r in found.results] == [1, 1]
    assert found.incomplete == "1 of 5 folds were done when the time limit of 0 s was over"
    assert found.advice.startswith(f"Incomplete: {found.incomplete}. Keep")
    assert "One fold is not enough for a test." in found.footnote


def test_an_interrupt_keeps_the_folds_that_finished():
    def stop(text, _):
        if text.startswith("fold 3"):
            raise KeyboardInterrupt

    with pytest.raises(ComparisonInterrupted) as caught:
        compare_metrics(X, Y, methods=KEYS, n_repeats=1, progress=stop)
    found = caught.value.comparison
    assert len(found["generative"].errors) == 3
    assert found.incomplete == "3 of 5 folds were done when it was interrupted"
    with pytest.raises(KeyboardInterrupt) as caught:
        compare_metrics(X, Y, methods=KEYS, progress=None, groups=Interrupting(GROUPS))
    assert not isinstance(caught.value, ComparisonInterrupted)


class Interrupting(list):
    """Groups that are interrupted when they are read."""

    def __array__(self, *_, **__):
        raise KeyboardInterrupt


def test_progress_after_each_fold():
    steps = []
    compare_metrics(
        X,
        Y,
        methods=["majority"],
        n_splits=2,
        n_repeats=1,
        progress=lambda *step: steps.append(step),
    )
    assert steps == [("fold 1 of 2", 0.5), ("fold 2 of 2", 1.0)]


def test_groups_stay_together():
    found = compare_metrics(X, Y, methods=["majority", *KEYS], groups=GROUPS, n_repeats=2)
    assert found.splitter == "groups"
    assert "5-fold cross-validation by groups, repeated 2 times" in " ".join(str(found).split())
    expected = [
        pair
        for seed in (0, 1)
        for pair in StratifiedGroupKFold(5, shuffle=True, random_state=seed).split(X, Y, GROUPS)
    ]
    again = compare_metrics(X, Y, methods=["majority", *KEYS], cv=expected)
    for key in KEYS:
        np.testing.assert_array_equal(found[key].errors, again[key].errors)
    few = compare_metrics(X, Y, methods=["majority"], groups=np.arange(178) % 3, n_repeats=1)
    assert few.n_splits == 3


def test_blocks_of_time(rng):
    """A slow drift: shuffled folds interpolate it, blocks of time do not."""
    time = rng.permutation(200)
    x = (time / 20 + 0.1 * rng.normal(size=200))[:, None]
    y = np.where(np.sin(time / 10) > 0, "a", "b")
    words = {"methods": ["standardized"], "n_repeats": 1}
    shuffled, blocks = compare_metrics(x, y, **words), compare_metrics(x, y, time=time, **words)
    assert (blocks.splitter, blocks.n_repeats) == ("blocks of time", 1)
    assert blocks["standardized"].error > shuffled["standardized"].error + 0.2
    order = np.argsort(time)
    folds = [(order[train], order[test]) for train, test in KFold(5).split(order)]
    again = compare_metrics(x, y, methods=["standardized"], cv=folds)
    np.testing.assert_array_equal(again["standardized"].errors, blocks["standardized"].errors)


def test_given_folds():
    folds = np.arange(len(Y)) % 3
    pairs = [(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in range(3)]
    expected = compare_metrics(X, Y, methods=KEYS, cv=PredefinedSplit(folds))
    assert expected.splitter == "PredefinedSplit"
    found = compare_metrics(X, Y, methods=KEYS, cv=iter(pairs))
    assert found.splitter == "the indices given as cv"
    for key in KEYS:
        np.testing.assert_array_equal(found[key].errors, expected[key].errors)
    x, y = numbers()
    for cv, has in ((GroupKFold(3), True), (ShuffleSplit(3, random_state=0), False)):
        groups = np.arange(150) // 5 if has else None
        mean = compare_metrics(x, y, methods=["mean"], cv=cv, groups=groups)["mean"]
        assert (mean.predictions is not None) == has
        if has:
            naive = cross_val_predict(DummyRegressor(), x, y, cv=cv, groups=groups)
            np.testing.assert_allclose(mean.predictions[1], naive)


def test_classes_that_are_missing_from_training_samples():
    """Each class is a group: its samples are never predicted as its class."""
    x, y = load_iris(return_X_y=True)
    found = compare_metrics(x, y, methods=["standardized", "logistic"], groups=y)
    assert [r.error for r in found.results] == [1.0, 1.0]
    some = compare_metrics(x, y, methods=["standardized"], groups=y, scoring="log_loss")
    assert some["standardized"].error > 30


ONE_CLASS = [(np.flatnonzero(Y == 0), np.flatnonzero(c == Y)) for c in (1, 2)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"cv": KFold(3), "n_splits": 3}, "need cv=None; got KFold"),
        ({"cv": KFold(3), "n_repeats": 2}, "need cv=None; got KFold"),
        ({"groups": GROUPS[:9]}, r"groups must have shape \(178,\); got \(9,\)"),
        ({"groups": GROUPS, "time": GROUPS}, "either groups or time"),
        ({"groups": "patient"}, r"X has no column 'patient' \(groups\)"),
        ({"n_splits": 1}, "n_splits=2 or more"),
        ({"n_splits": 2.5}, "n_splits must be an integer"),
        ({"n_repeats": 0}, "n_repeats must be an integer >= 1"),
        ({"cv": ShuffleSplit(1)}, "at least 2 splits; got 1"),
        ({"cv": ONE_CLASS, "max_samples": 90}, "indices of 178 rows, of which 90 are used"),
        ({"methods": ["lmnm"]}, "there is no method 'lmnm'. Did you mean 'lmnn'"),
        (
            {"methods": ["foo"]},
            "'foo'. The methods for classification .*lda.* for regression are mean",
        ),
        ({"methods": []}, "no methods are named. The methods for classification are majority"),
        (
            {"methods": ["ridge"]},
            "'ridge' for classification. The methods for classification are maj",
        ),
        ({"scoring": "r2"}, "scoring for classification must be one of error.*got 'r2'"),
        ({"task": "number"}, 'must be "classification", "regression" or None'),
        ({"target": "y"}, "either y or target"),
        ({"y": Y[:9]}, "X has 178 samples, but y has 9 targets"),
        ({"y": np.where(Y == 1, np.nan, Y)}, "y contains missing or infinite values"),
        ({"y": Y.reshape(-1, 1)}, "y must be one-dimensional"),
        ({"y": Y % 2, "task": "regression"}, r"at least 3 different numbers.*found \[0, 1\]"),
        ({"y": Y.astype(str), "task": "regression"}, "at least 3 different numbers"),
        ({"X": X * np.inf}, "X must be two-dimensional and finite"),
    ],
)
def test_invalid_arguments(words, message):
    words = {"X": X, "y": Y, "methods": ["majority"]} | words
    with pytest.raises(ValueError, match=f"(?s){message}"):
        compare_metrics(words.pop("X"), words.pop("y"), **words)


def test_a_rare_class_gives_a_balanced_score(rng):
    x = rng.normal(size=(400, 2))
    y = np.where(np.arange(400) < 12, "fraud", "fine")
    found = compare_metrics(x, y, methods=["majority"], n_repeats=1)
    assert found.scoring.key == "balanced_error"
    assert found["majority"].error == 0.5
    assert any("only 3.0% of the samples are 'fraud'" in note for note in found.notes)
    asked = compare_metrics(x, y, methods=["majority"], scoring="error", n_repeats=1)
    assert asked["majority"].error == pytest.approx(0.03)
    many = compare_metrics(x, np.arange(400) % 40, methods=["majority"], n_repeats=1)
    assert many.scoring.key == "error"
