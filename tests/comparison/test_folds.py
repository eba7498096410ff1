"""Folds of a comparison: given by a splitter, by indices or as a number."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.dummy import DummyRegressor
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric, compare_metrics
from genmetric.comparison import METHODS, TrainingData
from genmetric.comparison._advice import corrected_resampled_t

X, Y = load_wine(return_X_y=True)
GROUPS = np.random.default_rng(0).integers(12, size=len(Y))
KEYS = ["standardised", "uniform"]


def test_groups_equal_a_loop_over_the_splits():
    cv = GroupKFold(4)
    found = compare_metrics(X, Y, methods=KEYS, cv=cv, groups=GROUPS)
    errors, shares = {key: [] for key in KEYS}, []
    for train, test in cv.split(X, Y, GROUPS):
        assert not set(GROUPS[train]) & set(GROUPS[test])
        shares.append(len(test) / len(train))
        for key in KEYS:
            k = METHODS[key].fit(TrainingData(X[train], Y[train])).parameters["n_neighbors"]
            metric = [GenerativeMetric(random_state=0)] if key == "uniform" else []
            model = make_pipeline(StandardScaler(), *metric, KNeighborsClassifier(k))
            errors[key].append(1 - model.fit(X[train], Y[train]).score(X[test], Y[test]))
    for key in KEYS:
        np.testing.assert_allclose(found[key].errors, errors[key], atol=1e-12)
    assert (found.n_splits, found.n_repeats) == (4, 1)
    assert str(found).startswith("178 samples, 13 features, 3 classes, 4 folds by GroupKFold\n")
    assert found.splitter == "GroupKFold"
    assert found.notes == ()
    # The test of significance has the sizes of these splits.
    difference = np.subtract(errors["standardised"], errors["uniform"])
    assert found.p_value == pytest.approx(corrected_resampled_t(difference, np.mean(shares))[1])


def test_a_group_effect_is_not_rewarded():
    """Samples of a group are nearly equal, and the classes of the groups are random."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(30), 6)
    X = rng.normal(size=(30, 3))[groups] + 0.01 * rng.normal(size=(180, 3))
    y = rng.permutation(np.arange(30) % 2)[groups]
    plain = compare_metrics(X, y, methods=["standardised"], cv=5, n_repeats=1)
    kept = compare_metrics(X, y, methods=["standardised"], cv=GroupKFold(5), groups=groups)
    assert plain["standardised"].error < 0.02
    assert kept["standardised"].error > 0.3


def test_an_integer_is_the_number_of_folds():
    words = {"methods": KEYS, "n_repeats": 2, "random_state": 3}
    first = compare_metrics(X, Y, n_splits=4, **words)
    second = compare_metrics(X, Y, cv=4, **words)
    for key in KEYS:
        np.testing.assert_array_equal(first[key].errors, second[key].errors)
    assert (second.n_splits, second.n_repeats) == (4, 2)
    assert first.notes == second.notes
    assert str(second).startswith("178 samples, 13 features, 3 classes, 4 folds, 2 repeats\n")


def test_indices_refer_to_the_samples_given():
    """Classes of one sample and samples above max_samples are left out of the splits."""
    x, y = np.r_[X[:1], X], np.r_[7, Y]
    folds = np.arange(len(y)) % 3
    pairs = [(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in range(3)]
    masks = [(folds != f, folds == f) for f in range(3)]
    expected = compare_metrics(X, Y, methods=KEYS, cv=PredefinedSplit(folds[1:]), max_samples=None)
    for cv in (pairs, masks, iter(pairs), PredefinedSplit(folds)):
        found = compare_metrics(x, y, methods=KEYS, cv=cv)
        assert found.n_samples == len(Y)
        for key in KEYS:
            np.testing.assert_array_equal(found[key].errors, expected[key].errors)
    found = compare_metrics(x, y, methods=["standardised"], cv=pairs, max_samples=60)
    assert found.n_samples <= 62
    rows = found.samples.rows
    assert found["standardised"].confusion.sum() == found.n_samples
    assert set(y[rows]) == {0, 1, 2}


def test_classes_that_are_missing_from_training_samples():
    """Each class is a group: its samples are never predicted as its class."""
    x, y = load_iris(return_X_y=True)
    found = compare_metrics(
        x, y, methods=["standardised", "uniform", "logistic"], cv=GroupKFold(3), groups=y
    )
    assert [r.error for r in found.results] == [1.0, 1.0, 1.0]
    some = compare_metrics(
        x, y, methods=["standardised"], cv=GroupKFold(3), groups=y, scoring="log_loss"
    )
    assert some["standardised"].error > 30


def test_numeric_targets():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(90, 3))
    y = x[:, 0] + 0.1 * rng.normal(size=90)
    cv, groups = GroupKFold(3), np.arange(90) // 5
    found = compare_metrics(x, y, methods=["mean", "ridge"], cv=cv, groups=groups)
    actual, predicted = found["mean"].predictions
    np.testing.assert_array_equal(actual, y)
    expected = cross_val_predict(DummyRegressor(), x, y, cv=cv, groups=groups)
    np.testing.assert_allclose(predicted, expected)
    # Samples that are tested several times, or never, have no single prediction.
    for other in (ShuffleSplit(3, random_state=0), RepeatedKFold(n_splits=3, n_repeats=2)):
        assert compare_metrics(x, y, methods=["mean"], cv=other)["mean"].predictions is None


def test_data_frames():
    frame = pd.DataFrame(X[:, :4], columns=list("abcd")).assign(y=Y)
    found = compare_metrics(
        frame, target="y", methods=KEYS, cv=StratifiedGroupKFold(3), groups=pd.Series(GROUPS)
    )
    again = compare_metrics(
        frame.drop(columns="y"), Y, methods=KEYS, cv=StratifiedGroupKFold(3), groups=GROUPS
    )
    np.testing.assert_array_equal(found["uniform"].errors, again["uniform"].errors)
    frame["y"] = frame["y"].astype(str).mask(frame.index == 5)
    with pytest.raises(ValueError, match=r"1 of 178 rows have no target.*also from groups"):
        compare_metrics(frame, target="y", cv=GroupKFold(3), groups=GROUPS)
    assert compare_metrics(frame, target="y", methods=["majority"], cv=3).n_samples == 177


@pytest.mark.parametrize("labels", [GROUPS, [f"patient {g}" for g in GROUPS]])
def test_a_column_of_groups_is_not_a_feature(labels):
    frame = pd.DataFrame(X[:, :4], columns=list("abcd")).assign(y=Y)
    words = {"methods": KEYS, "cv": GroupKFold(3), "target": "y"}
    expected = compare_metrics(frame, groups=labels, **words)
    for table in (frame.assign(patient=labels), polars_table(frame.assign(patient=labels))):
        found = compare_metrics(table, groups="patient", **words)
        assert found.feature_names == ("a", "b", "c", "d")
        np.testing.assert_array_equal(found["uniform"].errors, expected["uniform"].errors)
        # The estimator takes tables with and without the column.
        model = found.best_estimator("uniform")
        np.testing.assert_array_equal(model.predict(table), model.predict(found.samples.X))


def polars_table(frame):
    return pytest.importorskip("polars").DataFrame(frame.to_dict("list"))


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ("patients", ValueError, r"no column 'patients' \(groups\)\. Did you mean 'patient'\?"),
        ("y", ValueError, "groups and target are the same column, 'y'"),
        ("gaps", ValueError, "the column 'gaps' of groups has missing values"),
    ],
)
def test_invalid_columns_of_groups(groups, error, message):
    frame = pd.DataFrame(X[:, :2], columns=list("ab"))
    frame = frame.assign(y=Y, patient=GROUPS, gaps=[None, *GROUPS[1:]])
    with pytest.raises(error, match=message):
        compare_metrics(frame, target="y", methods=["majority"], cv=GroupKFold(3), groups=groups)
    with pytest.raises(TypeError, match="needs a DataFrame X; got ndarray"):
        compare_metrics(X, Y, methods=["majority"], cv=GroupKFold(3), groups=groups)


ONE_CLASS = [(np.flatnonzero(Y == 0), np.flatnonzero(c == Y)) for c in (1, 2)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"cv": 3, "n_splits": 3}, "either n_splits or cv; got n_splits=3 and cv=3"),
        ({"cv": KFold(3), "n_splits": 3}, "either n_splits or cv"),
        ({"cv": KFold(3), "n_repeats": 2}, r"n_repeats=2 and a cv of type KFold.*RepeatedKFold"),
        ({"groups": GROUPS}, r"groups needs a cv .* got cv=None.*cv=GroupKFold\(5\)"),
        ({"groups": GROUPS, "cv": 3}, "groups needs a cv .* got cv=3"),
        ({"groups": GROUPS[:9], "cv": GroupKFold(3)}, r"shape \(178,\); got shape \(9,\)"),
        ({"cv": GroupKFold(3)}, "'groups' parameter should not be None"),
        ({"cv": 1}, "cv must be at least 2; got 1"),
        ({"cv": 0}, "cv must be an integer of at least 1; got 0"),
        ({"cv": True}, "cv must be an integer of at least 1; got True"),
        ({"cv": "five"}, "Expected .*cv.* as an integer"),
        ({"cv": ShuffleSplit(1)}, "at least 2 splits.*got 1"),
        ({"cv": []}, "at least 2 splits.*got 0"),
        (
            {"cv": [([0, 999], [1])] * 2},
            r"Split 0 of cv must be two arrays of indices in \[0, 178\)",
        ),
        ({"cv": [([0.5], [1])] * 2}, "two arrays of indices"),
        ({"cv": [([-1, 0], [1])] * 2}, "two arrays of indices"),
        ({"cv": [([0, 60, 61], [61, 1])] * 2}, "Split 0 of cv has 1 samples for training and for"),
        ({"cv": [([0, 60], [1]), ([0, 60], [])]}, "Split 1 of cv has no test samples"),
        ({"cv": ONE_CLASS}, "Split 0 of cv has training samples of a single class.*stratified"),
    ],
)
def test_invalid_folds(words, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        compare_metrics(X, Y, methods=["majority"], **words)


def test_folds_in_reports(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    splitters = {
        "StratifiedKFold": StratifiedKFold(3),
        "the indices given as cv": list(StratifiedKFold(3).split(X, Y)),
    }
    for name, cv in splitters.items():
        found = compare_metrics(X, Y, methods=KEYS, cv=cv)
        text = found.report(tmp_path / "report.html").read_text(encoding="utf-8")
        assert f"3-fold cross-validation by {name}. All methods" in text
        assert f"3-fold cross-validation by {name}; seed 0 for the methods, 0 for sam" in text
        assert "for the folds" not in text
        assert f"; 3-fold cross-validation by {name}." in found._repr_html_()
    found = compare_metrics(X, Y, methods=KEYS, cv=3, n_repeats=1)
    text = found.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "3-fold cross-validation; seed 0 for the folds, 0 for samples drawn." in text
