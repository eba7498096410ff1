"""Scores against scikit-learn, and in comparisons."""

import re

import numpy as np
import pytest
from sklearn import metrics
from sklearn.datasets import load_iris

from genmetric._scoring import find_scoring
from genmetric.comparison import SCORINGS, compare_metrics


@pytest.mark.parametrize("scoring", ["error", "balanced_error", "f1_macro", "log_loss", "roc_auc"])
def test_every_scoring_separates_signal_from_the_majority_class(scoring):
    X, y = load_iris(return_X_y=True)
    found = compare_metrics(
        X, y, methods=["majority", "uniform"], scoring=scoring, n_splits=3, n_repeats=1
    )
    assert found.scoring.key == scoring
    assert found["uniform"].error < found["majority"].error
    if scoring == "roc_auc":
        assert found.scoring.score(found["majority"].error) == pytest.approx(0.5)
    if scoring == "balanced_error":
        assert found["majority"].error == pytest.approx(2 / 3)


def test_scores_against_scikit_learn(rng):
    y = np.arange(60) % 3
    proba = rng.dirichlet(np.ones(3), 60)
    labels = proba.argmax(axis=1)
    expected = {
        "error": 1 - metrics.accuracy_score(y, labels),
        "balanced_error": 1 - metrics.balanced_accuracy_score(y, labels),
        "f1_macro": 1 - metrics.f1_score(y, labels, average="macro"),
        "log_loss": metrics.log_loss(y, proba),
        "roc_auc": 1 - metrics.roc_auc_score(y, proba, multi_class="ovr"),
    }
    assert expected.keys() == {s.key for s in SCORINGS.values() if s.task == "classification"}
    for key, loss in expected.items():
        scoring = SCORINGS[key]
        response = proba if scoring.response == "predict_proba" else labels
        assert scoring.loss(y, response, 3) == pytest.approx(loss)


def test_scores_of_numbers_against_scikit_learn(rng):
    y, predicted = rng.normal(size=50), rng.normal(size=50)
    expected = {
        "r2": 1 - metrics.r2_score(y, predicted),
        "mae": metrics.mean_absolute_error(y, predicted),
    }
    assert expected.keys() == {s.key for s in SCORINGS.values() if s.task == "regression"}
    for key, loss in expected.items():
        assert SCORINGS[key].loss(y, predicted, 0) == pytest.approx(loss)


def test_scores_in_the_unit_of_the_target_have_four_significant_digits():
    texts = [SCORINGS["mae"].text(value) for value in (12345.678, 1.23456, 0.000123456)]
    assert texts == ["12346", "1.235", "0.0001235"]
    assert SCORINGS["r2"].text(0.25) == "0.750"


@pytest.mark.parametrize(
    ("task", "scoring", "message"),
    [
        ("classification", "magic", "log_loss, roc_auc for a target of classes; got 'magic'."),
        ("classification", "Balanced_eror", "'Balanced_eror'. Did you mean 'balanced_error'?"),
        ("classification", "accuracy", "got 'accuracy'. Use error (100% minus accuracy)."),
        ("classification", "rmse", "got 'rmse'."),
        ("regression", "maes", "one of r2, mae for a target of numbers; got 'maes'. Did you mean"),
        ("regression", "rmse", "got 'rmse'. Use mae (mean absolute error) or r2."),
    ],
)
def test_unknown_scorings_offer_those_of_the_task(task, scoring, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        find_scoring(scoring, task)
    assert ("mae" in str(caught.value)) == (task == "regression")
    assert ("f1_macro" in str(caught.value)) == (task == "classification")


def test_unknown_scoring():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="scoring must be one of error, balanced_error"):
        compare_metrics(X, y, scoring="magic")
