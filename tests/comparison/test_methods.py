"""The registry of methods: new entries, failures, interrupts and time limits."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import is_regressor

from genmetric.comparison import (
    METHODS,
    Budget,
    BudgetDecision,
    ComparisonInterrupted,
    FittedMethod,
    Method,
    TrainingData,
    compare_metrics,
)


def two_classes(n=120, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, 3))
    X[:, 0] += 2.5 * y
    return X, y


def toy_method(**changes):
    from sklearn.decomposition import PCA

    return Method(
        **{
            "key": "toy",
            "label": "principal component",
            "description": "Nearest neighbours on the first principal component.",
            "metric": lambda seed: PCA(1, random_state=seed),
            **changes,
        }
    )


def test_a_new_method_is_one_entry(monkeypatch):
    monkeypatch.setitem(METHODS, "toy", toy_method())
    X, y = two_classes()
    found = compare_metrics(X, y, methods=["standardised", "toy"], n_splits=3, n_repeats=1)
    assert found["toy"].name == "principal component"
    assert "principal component" in str(found)
    model = found.best_estimator("toy")
    assert [name for name, _ in model.steps] == ["scale", "metric", "neighbors"]
    assert model.predict(X).shape == (120,)


def test_an_entry_has_one_way_to_be_fitted():
    with pytest.raises(ValueError, match="either a metric or a predictor"):
        toy_method(metric=None)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_capabilities_are_those_of_the_fitted_models(task):
    X, y = two_classes()
    if task == "regression":
        y = X[:, 0] ** 2
    for method in METHODS.values():
        if task not in method.tasks:
            continue
        model = method.fit(TrainingData(X, y, task=task)).model
        if task == "classification":
            assert hasattr(model, "predict_proba") == method.probabilities, method.key
        else:
            assert is_regressor(model), method.key
        assert ("neighbors" in model.named_steps) == method.votes, method.key
        if method.transforms and method.votes:
            assert model[:-1].transform(X).shape[0] == len(X), method.key


def failing(error):
    def fit(_):
        raise error

    return toy_method(metric=None, predictor=fit)


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (MemoryError("Unable to allocate 9 TiB"), "not enough memory. Unable to allocate 9 TiB"),
        (ZeroDivisionError("a\nb"), "failed: ZeroDivisionError: a b"),
    ],
)
def test_a_method_that_fails_is_skipped_with_the_reason(monkeypatch, error, note):
    monkeypatch.setitem(METHODS, "toy", failing(error))
    X, y = two_classes()
    found = compare_metrics(X, y, methods=["toy", "standardised"], n_splits=3, n_repeats=1)
    assert found["toy"].skipped
    assert found["toy"].note == note
    assert not found["standardised"].skipped


def test_an_interrupt_keeps_the_methods_that_finished(monkeypatch):
    monkeypatch.setitem(METHODS, "toy", failing(KeyboardInterrupt()))
    X, y = two_classes()
    with pytest.raises(ComparisonInterrupted) as stop:
        compare_metrics(X, y, methods=["standardised", "toy", "uniform"], n_splits=3)
    assert [r.key for r in stop.value.comparison.results] == ["standardised"]
    with pytest.raises(KeyboardInterrupt) as stop:
        compare_metrics(X, y, methods=["toy"], n_splits=3)
    assert not isinstance(stop.value, ComparisonInterrupted)


def test_results_are_reported_one_by_one():
    X, y = two_classes()
    seen, steps = [], []
    found = compare_metrics(
        X,
        y,
        methods=["standardised", "uniform"],
        n_splits=2,
        n_repeats=1,
        on_result=seen.append,
        progress=lambda text, share: steps.append((text, share)),
    )
    assert [len(part.results) for part in seen] == [1, 2]
    assert seen[-1].advice == found.advice
    assert steps[0] == ("standardised, fold 1 of 2", 0.0)
    shares = [share for _, share in steps]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def endless(_):
    while True:
        pass


def test_the_time_limit_interrupts_a_fit(monkeypatch):
    monkeypatch.setitem(METHODS, "toy", toy_method(metric=None, predictor=endless))
    X, y = two_classes()
    found = compare_metrics(
        X, y, methods=["toy", "standardised"], n_splits=3, n_repeats=1, time_limit=0.3
    )
    assert found["toy"].note.startswith("would take more than ")
    assert " s (limit 0.3 s); raise the time limit to " in found["toy"].note
    assert not found["standardised"].skipped


def test_the_time_limit_interrupts_again(monkeypatch):
    """Destructors, for example, ignore exceptions, so that the first one can be lost."""
    import genmetric.comparison._time_limit as module

    monkeypatch.setattr(module, "REPEAT", 0.02)
    interrupts = []

    def stubborn(_):
        try:
            endless(None)
        except module.TimeLimitReached:
            interrupts.append("ignored")
        endless(None)

    monkeypatch.setitem(METHODS, "toy", toy_method(metric=None, predictor=stubborn))
    X, y = two_classes()
    found = compare_metrics(X, y, methods=["toy"], n_splits=2, n_repeats=1, time_limit=0.1)
    assert found["toy"].note.startswith("would take more than ")
    assert interrupts == ["ignored"]


@pytest.mark.parametrize(
    ("budget", "note"),
    [
        # 100 iterations of 0.2 ms per class: 20 s for 1000 classes.
        (
            Budget(5000, 6.0, 1000, 10),
            "more than 200 s (limit 60 s); raise the time limit to 230 s",
        ),
        (Budget(5000, 30.0, 1000, 2), ""),
        (Budget(5000, 1.0, 50, 10), ""),
        # Early stopping above 10,000 samples: 10 iterations.
        (Budget(16_000, 6.0, 1000, 10), ""),
        (Budget(16_000, 6.0, 10_000, 10), "more than 200 s (limit 60 s)"),
        # Two classes share their trees, and a numeric target has one tree per iteration.
        (Budget(5000, 0.03, 2, 10), ""),
        (Budget(5000, 0.03), ""),
        (Budget(5000, 0.01), "more than 0.02 s (limit 0.01 s)"),
    ],
)
def test_boosting_is_skipped_in_advance_with_many_classes(budget, note):
    decision = METHODS["boosting"].decide(budget)
    assert decision.skip == bool(note)
    assert note in decision.note


def test_reference_methods_are_within_the_time_limit(monkeypatch):
    """They can be skipped with the same note as a metric; only baselines cannot."""
    decided = []

    def budget(given):
        decided.append(given)
        return BudgetDecision(True, "too slow")

    monkeypatch.setitem(METHODS, "boosting", replace(METHODS["boosting"], budget=budget))
    X, y = two_classes()
    found = compare_metrics(X, y, methods=["boosting"], n_splits=2, n_repeats=2, time_limit=8)
    assert decided == [Budget(len(y) // 2, 2.0, n_classes=2, n_fits=4)]
    assert found["boosting"].note == "too slow"
    references = {key for key, method in METHODS.items() if not method.distance}
    assert {key for key in references if not METHODS[key].learns} == {"majority", "mean"}


def test_the_time_limit_is_checked_between_folds(monkeypatch):
    """In other threads no timer signal arrives."""
    from concurrent.futures import ThreadPoolExecutor
    from time import sleep

    def slow(training):
        sleep(0.02)
        return FittedMethod(METHODS["standardised"].fit(training).model, {})

    monkeypatch.setitem(METHODS, "toy", toy_method(metric=None, predictor=slow))
    X, y = two_classes()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(
            compare_metrics, X, y, methods=["toy"], n_splits=10, n_repeats=1, time_limit=0.15
        )
        note = run.result()["toy"].note
    assert " s (limit 0.15 s); raise the time limit" in note


def test_methods_without_probabilities_are_skipped(monkeypatch):
    monkeypatch.setitem(METHODS, "toy", toy_method(probabilities=False))
    X, y = two_classes()
    found = compare_metrics(X, y, methods=["toy", "uniform"], scoring="log_loss", n_splits=2)
    assert found["toy"].note == "does not estimate probabilities, which log loss needs"


def test_earlier_timer_continues():
    import signal

    from genmetric.comparison._time_limit import TimeLimitReached, time_limit

    if not hasattr(signal, "setitimer"):
        pytest.skip("needs timer signals")
    handler = signal.getsignal(signal.SIGALRM)
    before = signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        with pytest.raises(TimeLimitReached), time_limit(0.02):
            endless(None)
        assert 900 < signal.getitimer(signal.ITIMER_REAL)[0] <= 1000
        assert signal.getsignal(signal.SIGALRM) is handler
        with pytest.raises(TimeLimitReached), time_limit(0):
            pytest.fail("the block must not run")
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)
