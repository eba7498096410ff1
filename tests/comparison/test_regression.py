"""Comparisons on numeric targets."""

import numpy as np
import pandas as pd
import pytest

from genmetric.comparison import DEFAULT_REGRESSION_METHODS, METHODS, SCORINGS, compare_metrics

FEW = ["mean", "standardised", "regression", "ridge"]


def numbers(n=150, seed=0):
    """Return samples and a target that depends on one of eight features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    return X, 10 + 3 * X[:, 0] + 0.3 * rng.normal(size=n)


@pytest.fixture(scope="module")
def found():
    return compare_metrics(*numbers(), methods=FEW, n_splits=3, n_repeats=2)


def test_the_kind_of_target_is_decided_and_noted(found):
    assert found.scoring is SCORINGS["r2"]
    assert found.class_names == ()
    assert "the target is a number: 150 distinct values" in found.notes
    assert "numeric target" in str(found)


def test_default_methods_are_for_numbers():
    for key in DEFAULT_REGRESSION_METHODS:
        assert "regression" in METHODS[key].tasks
    marked = [key for key in DEFAULT_REGRESSION_METHODS if not METHODS[key].distance]
    assert marked == ["mean", "ridge", "boosting"]


def test_scores_are_those_of_scikit_learn(found):
    from sklearn.dummy import DummyRegressor
    from sklearn.metrics import r2_score
    from sklearn.model_selection import RepeatedKFold

    X, y = numbers()
    folds = RepeatedKFold(n_splits=3, n_repeats=2, random_state=0).split(X)
    scores = [
        r2_score(y[test], DummyRegressor().fit(X[train], y[train]).predict(X[test]))
        for train, test in folds
    ]
    np.testing.assert_allclose(found.scoring.score(found["mean"].errors), scores)


def test_the_learned_metric_is_recommended(found):
    assert found["regression"].error < found["standardised"].error
    assert found.recommended == "regression"
    assert "the R² rises from" in found.advice
    assert "ridge regression is better" in found.advice


def test_predictions_are_of_samples_that_were_left_out(found):
    actual, predicted = found["ridge"].predictions
    np.testing.assert_array_equal(actual, numbers()[1])
    assert np.isfinite(predicted).all()
    assert 0.9 < np.corrcoef(actual, predicted)[0, 1] < 1
    assert found["mean"].predictions[1].std() > 0


def test_the_best_estimator_is_a_regressor(found):
    X, y = numbers()
    model = found.best_estimator()
    assert [name for name, _ in model.steps] == ["scale", "metric", "neighbors"]
    assert model.score(X, y) > 0.9


def test_mean_absolute_error_has_the_unit_of_the_target():
    X, y = numbers()
    small = compare_metrics(X, 1e-4 * y, methods=FEW[:2], scoring="mae", n_splits=3, n_repeats=1)
    large = compare_metrics(X, 1e6 * y, methods=FEW[:2], scoring="mae", n_splits=3, n_repeats=1)
    assert large["standardised"].error == pytest.approx(1e10 * small["standardised"].error)
    for found in (small, large):
        row = next(line for line in str(found).splitlines() if "standardised" in line)
        shown = float(row.split("±")[0].split()[-1])
        assert shown == pytest.approx(found["standardised"].error, rel=1e-3)


def test_no_signal_is_reported():
    rng = np.random.default_rng(0)
    found = compare_metrics(
        rng.normal(size=(60, 3)),
        rng.normal(size=60),
        methods=["mean", "standardised"],
        n_splits=3,
    )
    assert "better than always predicting the mean of the targets" in found.advice
    assert found.recommended == ""


def test_columns_of_a_frame():
    X, y = numbers(60)
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(price=y)
    found = compare_metrics(frame, target="price", methods=FEW[:2], n_splits=3, n_repeats=1)
    assert any("price: a number, 60 distinct values" in note for note in found.notes)
    assert found.best_estimator("standardised").predict(frame).shape == (60,)


def test_the_task_can_be_given():
    X, _ = numbers(60)
    grades = np.arange(60) % 6
    by_default = compare_metrics(X, grades, methods=["standardised"], n_splits=2, n_repeats=1)
    assert by_default.scoring.key == "error"
    found = compare_metrics(
        X, grades, task="regression", methods=["standardised"], n_splits=2, n_repeats=1
    )
    assert found.scoring.key == "r2"


def test_folds_keep_enough_samples():
    found = compare_metrics(*numbers(24), methods=["standardised"], n_repeats=1)
    assert found.n_splits == 4
    assert "4 folds, because a fold needs at least 5 of the 24 samples" in found.notes


@pytest.mark.parametrize(
    ("y", "arguments", "message"),
    [
        (["a", "b"] * 20, {"task": "regression"}, "y must contain numbers"),
        ([0, 1] * 20, {"task": "regression"}, "at least 3 distinct values .* found 0 and 1"),
        ([2.5] * 40, {"task": "regression"}, "at least 3 distinct values .* found 2.5"),
        ([np.nan, *range(39)], {"task": "regression"}, "missing values, NaN or infinity"),
        (np.arange(40) / 7, {"methods": ["uniform"]}, "for a target of numbers.*got 'uniform'"),
        (np.arange(40) / 7, {"scoring": "error"}, "'error' is not for a target of numbers"),
        (np.arange(40) % 2, {"scoring": "r2"}, "'r2' is not for a target of classes"),
        (np.arange(40) % 2, {"methods": ["mlkr"]}, "for a target of classes.*got 'mlkr'"),
        (np.arange(40) % 2, {"task": "number"}, 'must be "classification", "regression" or None'),
    ],
)
def test_invalid_targets_and_arguments(y, arguments, message):
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match=message):
        compare_metrics(X, y, **arguments)


def test_the_report_shows_predictions(found, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    text = found.report(tmp_path / "report.html").read_text("utf-8")
    assert "Predicted and actual values" in text
    assert "Mean of the targets" in text
    assert "Confusion" not in text
