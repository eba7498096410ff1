"""The verdict: one question, one test, and only methods that ran."""

import numpy as np
import pytest
from scipy import stats

from genmetric.comparison import METHODS, SCORINGS, Comparison, MethodResult, corrected_resampled_t
from genmetric.comparison.advice import advise

NOISE = 0.01 * np.array([1, -1, 2, -2, 0, 1, -1, 2, -2, 0])


def result(key, errors):
    if isinstance(errors, str):
        return MethodResult(key, METHODS[key].label, note=errors, has_map=METHODS[key].has_map)
    seconds = np.ones(len(errors))
    return MethodResult(
        *(key, METHODS[key].label, np.asarray(errors, float), seconds, seconds),
        has_map=METHODS[key].has_map,
        test_share=1 / 9,
    )


def verdict(errors, **fields):
    """The verdict on ten folds; errors by key, or the reason why a method was skipped."""
    found = Comparison(tuple(result(k, e) for k, e in errors.items()), y=np.zeros(1000), **fields)
    advise(found)
    return found


def test_use_the_tuned_metric_if_it_is_significantly_better():
    errors = {"euclidean": 0.31 + NOISE, "standardized": 0.3 + NOISE, "generative-cv": 0.25 - NOISE}
    found = verdict(errors)
    assert (found.baseline, found.challenger) == ("standardized", "generative-cv")
    assert found.recommended == "generative-cv"
    expected = corrected_resampled_t(errors["standardized"] - errors["generative-cv"], 1 / 9)[1]
    assert found.p_value == expected < 0.01
    assert found.advice == (
        "Use generative metric, tuned ('generative-cv'): 5 of 100 more are right than with Euclidean "
        "distance, standardized (error rate 25.0% instead of 30.0%)."
    )
    assert found.footnote.startswith("Test: corrected resampled t-test on 10 folds, p = ")


def test_other_methods_do_not_change_the_test():
    errors = {"standardized": 0.2 + NOISE, "generative-cv": 0.185 - NOISE}
    alone = verdict(errors)
    others = dict.fromkeys(("lda", "generative", "lmnn"), 0.19 - NOISE)
    assert verdict({**errors, **others}).p_value == alone.p_value


@pytest.mark.parametrize(
    ("error", "words"), [(0.199, "may be better by chance"), (0.25, "is not better")]
)
def test_keep_the_baseline(error, words):
    found = verdict({"standardized": 0.2 + NOISE, "generative-cv": error - NOISE})
    assert found.recommended == "standardized"
    assert found.advice.startswith(
        "Keep Euclidean distance, standardized ('standardized'): generative metric, tuned " + words
    )


def test_unscaled_distance_is_kept_where_it_is_best():
    errors = {"euclidean": 0.1 + NOISE, "standardized": 0.3 + NOISE, "generative-cv": 0.2 - NOISE}
    found = verdict(errors)
    assert found.recommended == "euclidean"
    assert "20.0% instead of 30.0%, and 10.0% with Euclidean distance" in found.advice


def test_unscaled_distance_is_named_where_it_is_the_better_baseline():
    errors = {"euclidean": 0.25 + NOISE, "standardized": 0.3 + NOISE, "generative-cv": 0.2 - NOISE}
    found = verdict(errors)
    assert found.recommended == "generative-cv"
    assert "20.0% instead of 30.0%, and 25.0% with Euclidean distance" in found.advice


def test_a_verdict_speaks_only_of_methods_that_ran_and_names_the_others():
    errors = {"standardized": 0.3 + NOISE, "lda": 0.1 + NOISE, "generative-cv": "failed: no luck"}
    found = verdict(errors, not_run=("kde", "nca"))
    assert found.advice.startswith(
        "Generative metric, tuned has no result (failed: no luck), so the question is open: of the "
        "metrics that ran, linear discriminant analysis ('lda') has the best error rate, 10.0%; this "
        "was not tested."
    )
    assert np.isnan(found.p_value)
    assert found.footnote == (
        "Without a result: generative-cv. Not compared by default: kde, nca (--add, or methods=)."
    )
    nothing = verdict({"standardized": "failed", "logistic": 0.1 + NOISE})
    assert nothing.advice == "No metric has a result, so nothing can be recommended."


def test_methods_without_a_map_are_named_and_not_recommended():
    errors = {
        "standardized": 0.3 + NOISE,
        "generative-cv": 0.2 - NOISE,
        "lda": 0.15 + NOISE,
        "energy": 0.19 + NOISE,
        "boosting": 0.1 + NOISE,
    }
    found = verdict(errors)
    assert found.recommended == "generative-cv"
    assert found.more_accurate == ("boosting", "energy")
    assert found.advice.endswith(
        "Better error rate, not tested: linear discriminant analysis (15.0%). Better error rate, but "
        "without a map to find neighbours with: gradient boosting (10.0%), energy, generative metric "
        "(19.0%)."
    )


@pytest.mark.parametrize("shift", [0.0, 1e-15, 0.01])
def test_no_better_than_a_constant_is_not_recommended(shift):
    errors = {"majority": 0.3 + NOISE, "standardized": 0.31 + NOISE, "generative-cv": 0.3 + NOISE}
    errors["generative-cv"] = errors["generative-cv"] + shift
    found = verdict(errors)
    assert found.recommended == ""
    assert found.advice.startswith("No metric is recommended: ")
    assert "is not better than always predicting the majority class" in found.advice
    others = verdict({**errors, "lda": 0.299 + NOISE, "logistic": 0.298 + NOISE})
    assert others.advice.endswith("More samples or other features may help.")
    assert others.more_accurate == ()


@pytest.mark.parametrize(
    ("keys", "question"),
    [
        (("euclidean", "lmnn"), ("euclidean", "lmnn")),
        (("standardized", "energy", "generative"), ("standardized", "generative")),
        (("standardized", "kde", "generative"), ("", "")),
        (("generative-cv", "lda"), ("", "")),
    ],
)
def test_the_question_if_methods_are_named(keys, question):
    found = verdict(dict.fromkeys(keys, 0.2 + NOISE))
    assert (found.baseline, found.challenger) == question
    assert ("this was not tested" in found.advice) == (question == ("", ""))


@pytest.mark.parametrize(
    ("scoring", "gain", "words"),
    [
        ("error", 0.004, "4 of 1000 more are right than"),
        ("balanced_error", 0.1, "10 of 100 more are right, each class counted equally, than"),
        ("roc_auc", 0.1, "the ROC AUC is better than"),
    ],
)
def test_gains_in_words(scoring, gain, words):
    errors = {"standardized": 0.3 + NOISE, "generative-cv": 0.3 - gain + NOISE}
    found = verdict(errors, scoring=SCORINGS[scoring])
    assert words in found.advice
    assert ("0.700" in found.advice) == (scoring == "roc_auc")


def test_corrected_resampled_t(rng):
    """Equal to the ordinary t-test without shared samples, and larger p with them."""
    d = rng.normal(0.5, 1, 20)
    assert corrected_resampled_t(d, 0.0) == pytest.approx(tuple(stats.ttest_1samp(d, 0)))
    assert corrected_resampled_t(d, 0.25)[1] > corrected_resampled_t(d, 0.0)[1]
    assert corrected_resampled_t(np.zeros(5), 0.25) == (0.0, 1.0)
    assert corrected_resampled_t(np.full(5, -0.1), 0.25) == (-np.inf, 0.0)
    assert np.isnan(corrected_resampled_t(np.ones(1), 0.25)).all()


def test_margins_are_confidence_intervals(rng):
    errors = rng.normal(0.3, 0.05, 20)
    one = MethodResult("lda", errors=errors, test_share=0.25)
    standard_error = errors.std(ddof=1) * np.sqrt(1 / 20 + 0.25)
    assert one.margin == pytest.approx(stats.t.ppf(0.975, 19) * standard_error)
    assert np.isnan(MethodResult("lda", errors=errors[:1]).margin)
    assert np.isnan(MethodResult("lda").error)
