"""Recommendations from given errors."""

import numpy as np
import pytest

from genmetric.comparison import METHODS, SCORINGS, MethodResult
from genmetric.comparison._advice import advise

NOISE = 0.01 * np.array([1, -1, 2, -2, 0, 1, -1, 2, -2, 0])


def result(key, errors, seconds=1.0):
    errors = np.asarray(errors, float)
    seconds = np.full(len(errors), seconds)
    method = METHODS[key]
    parameters = ({"n_neighbors": 3},) * len(errors)
    return MethodResult(
        method.label, errors, seconds, seconds, parameters, "", key, None, method.distance
    )


def advice(scoring="error", **errors):
    """Advice on ten folds of 900 training and 100 test samples."""
    return advise([result(k, e) for k, e in errors.items()], 1 / 9, SCORINGS[scoring])


def test_recommends_a_learned_metric_that_is_significantly_better():
    found = advice(euclidean=0.31 + NOISE, standardised=0.3 + NOISE, uniform=0.17 - NOISE)
    assert found.baseline == "Euclidean distance, standardised"
    assert found.best == "generative metric"
    assert found.recommended == "uniform"
    assert found.p_value < 0.001
    assert found.text.startswith(
        "Use generative metric (method 'uniform') with 3 neighbours: the error rate falls from 30.0%"
    )
    assert "17.0%" in found.text


def test_p_value_is_adjusted_for_the_number_of_methods():
    once = advice(standardised=0.2 + NOISE, uniform=0.185 - NOISE).p_value
    errors = dict.fromkeys(("lda", "nca", "kde"), 0.19 - NOISE)
    often = advice(standardised=0.2 + NOISE, uniform=0.185 - NOISE, **errors)
    assert often.p_value == pytest.approx(min(1, 4 * once))
    assert "adjusted for 4 methods" in often.text


def test_keeps_the_baseline_without_a_significant_difference():
    found = advice(standardised=0.2 + NOISE, uniform=0.199 - NOISE)
    assert found.p_value > 0.05
    assert found.recommended == "standardised"
    assert found.text.startswith(
        "Keep Euclidean distance, standardised (method 'standardised'): no learned distance is "
        "clearly better. The error rate is 20.0%, and 19.9% with generative metric"
    )


def test_keeps_the_baseline_if_it_is_the_best():
    found = advice(standardised=0.2 + NOISE, uniform=0.25 + NOISE)
    assert found.baseline == found.best == "Euclidean distance, standardised"
    assert found.recommended == "standardised"
    assert np.isnan(found.p_value)
    assert "no learned metric has a better error rate than 20.0%" in found.text


@pytest.mark.parametrize("shift", [0.0, 1e-15, 0.01])
def test_tie_with_the_majority_class_means_no_signal(shift):
    same = 0.3 + NOISE
    found = advice(majority=same, standardised=same[::-1] + shift, uniform=same + shift)
    assert found.recommended == ""
    assert "No distance is better than always predicting the majority class" in found.text
    assert "30.0%" in found.text
    better = advice(majority=same, standardised=same, uniform=same - 0.02)
    assert better.recommended == "uniform"


def test_names_a_faster_method_that_is_not_worse():
    results = [
        result("standardised", 0.3 + NOISE),
        result("uniform", 0.171 - NOISE, 0.1),
        result("mkl", 0.17 + NOISE, 2.0),
    ]
    found = advise(results, 1 / 9, SCORINGS["error"])
    assert found.text.startswith("Use regional kernels (method 'mkl')")
    assert (
        "Generative metric (method 'uniform'), with 17.1%, is not significantly worse and fits 20 times "
        "faster." in found.text
    )


def test_a_better_method_that_is_not_a_distance_is_named_and_not_recommended():
    found = advice(standardised=0.3 + NOISE, uniform=0.2 - NOISE, boosting=0.1 + NOISE)
    assert found.recommended == "uniform"
    assert found.best == "generative metric"
    assert found.text.endswith(
        "For prediction only, gradient boosting is better (10.0%); it is not a distance."
    )


def test_scores_that_should_be_high():
    found = advice("roc_auc", standardised=0.3 + NOISE, uniform=0.17 - NOISE)
    assert "the ROC AUC rises from 0.700" in found.text
    assert "to 0.830" in found.text


def test_no_distance_has_a_result():
    found = advise([MethodResult.left_out("NCA", "slow", key="nca")], 0.1, SCORINGS["error"])
    assert found.text.startswith("No distance has a result, so nothing can be recommended.")
    assert "Raise the time limit" in found.text


def test_a_baseline_that_is_worse_than_a_constant_is_not_kept():
    found = advice(majority=np.full(10, 0.26), standardised=0.27 + NOISE, lda=0.255 + 3 * NOISE)
    assert found.recommended == ""
    assert found.best == "linear discriminant analysis"
    assert found.text.startswith(
        "No distance is clearly better than a constant: linear discriminant analysis (method 'lda') "
        "has the best error rate, 25.5%, against 26.0% for always predicting the majority class"
    )
    found = advice(majority=np.full(10, 0.26), standardised=0.27 + 9 * NOISE, lda=0.22 + NOISE)
    assert found.recommended == "lda"
    assert "Euclidean distance, standardised (method 'standardised') (27.0%) is not better" in (
        found.text
    )
