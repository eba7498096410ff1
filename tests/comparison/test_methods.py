"""The registry of methods, what their entries say, scores, and fits in batches."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics
from sklearn.base import is_regressor

from genmetric import GenerativeMetric, compare_metrics
from genmetric.comparison import METHODS, SCORINGS, Method, find_methods, fit_in_batches
from genmetric.inspection import linear_map

DOCS = Path(__file__).parents[2] / "docs"


def two_classes(n=120, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, 3))
    X[:, 0] += 2.5 * y
    return X, y


def test_the_registry_is_listed_without_scikit_learn():
    code = (
        "import sys; from genmetric.comparison import METHODS, SCORINGS, find_methods"
        "; assert not {'numpy', 'sklearn', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("key", METHODS)
def test_entries_say_what_the_fitted_models_can_do(key):
    method = METHODS[key]
    for task in method.tasks:
        X, y = two_classes()
        y = y if task == "classification" else X[:, 0] ** 2
        model = method.fit(X, y, task)
        assert is_regressor(model) == (task == "regression")
        assert ("neighbors" in model.named_steps) == method.votes
        assert model.score(X, y) > -0.1
        assert all(isinstance(v, int | float | str) for v in method.parameters(model).values())
        if method.has_map:
            assert linear_map(model).matrix.shape[1] == 3


def test_a_new_method_is_one_entry(monkeypatch):
    pca = Method("pca", "PCA", "The first component.", metric="sklearn.decomposition:PCA")
    monkeypatch.setitem(METHODS, "pca", pca)
    X, y = two_classes()
    found = compare_metrics(X, y, methods=["standardized", "pca"], n_splits=3, n_repeats=1)
    assert "PCA (pca)" in str(found)
    assert found.challenger == "pca"


def test_former_keys_are_aliases():
    former = ["uniform", "cv", "standardised", "mkl", "regression_cv", "kernel_regression"]
    assert [m.key for m in find_methods(former)] == [
        *("generative", "generative-cv", "standardized", "regional-kernels"),
        *("regression-cv", "kernel-regression"),
    ]
    X, y = two_classes()
    found = compare_metrics(X, y, methods=["standardised", "uniform", "generative"], n_repeats=1)
    assert [r.key for r in found.results] == ["standardized", "generative"]
    assert found["uniform"] is found["generative"] is found["generative metric"]


def test_settings_and_neighbours_are_passed_on():
    X, y = two_classes()
    model = METHODS["generative"].fit(
        X * [1, 10, 100], y, n_neighbors=4, standardize=False, shrinkage=0.5
    )
    assert model["neighbors"].n_neighbors == 4
    assert model["scale"].scale_ is None
    expected = GenerativeMetric(shrinkage=0.5, random_state=0).fit(
        X * [1, 10, 100] - X.mean(axis=0) * [1, 10, 100], y
    )
    np.testing.assert_allclose(model["metric"].metric_, expected.metric_)


def test_the_tuned_metric_brings_its_number_of_neighbours():
    X, y = two_classes()
    model = METHODS["generative-cv"].fit(X, y)
    assert model["neighbors"].n_neighbors == model["metric"].best_params_["n_neighbors"]


def test_boosting_sees_categories_as_such():
    """A parity of the category and a sign: one-hot trees and distances miss it, codes do not."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    city = rng.choice(list("abcdefghij"), 300)
    frame = pd.DataFrame({"city": city, "x": rng.normal(size=300)})
    y = np.isin(city, list("acegi")) ^ (frame["x"] > 0)
    found = compare_metrics(frame, y, methods=["logistic", "boosting"], n_repeats=1)
    assert found["boosting"].error < 0.05 < found["logistic"].error
    assert found.best_estimator("boosting").score(frame, y) > 0.95


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("key", ["standardized", "euclidean", "generative", "regression"])
def test_batches_equal_all_samples(key, task):
    method = METHODS[key]
    if task not in method.tasks:
        pytest.skip("another task")
    X, y = two_classes()
    X = X * [1, 10, 100]
    y = y if task == "classification" else X[:, 0]
    batches = lambda: ((X[i : i + 50], y[i : i + 50]) for i in range(0, 120, 50))  # noqa: E731
    settings = {} if key != "regression" else {"method": "slices"}
    model = fit_in_batches(key, batches, task=task, keep_samples=200)
    whole = method.fit(X, y, task, **settings)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), rtol=1e-6)
    few = fit_in_batches(key, batches, task=task, keep_samples=30, n_neighbors=2)
    assert few["neighbors"].n_samples_fit_ == 30
    np.testing.assert_allclose(few["scale"].mean_, X.mean(axis=0))


def test_batches_need_a_method_that_streams():
    with pytest.raises(ValueError, match=r"one of euclidean, .*generative.* in batches; got 'nca'"):
        fit_in_batches("nca", lambda: [two_classes()])
    with pytest.raises(ValueError, match="at least one batch"):
        fit_in_batches("generative", list)


def test_scores_against_scikit_learn(rng):
    y, t = np.arange(60) % 3, rng.normal(size=60)
    proba, z = rng.dirichlet(np.ones(3), 60), rng.normal(size=60)
    labels = proba.argmax(axis=1)
    expected = {
        "error": (1 - metrics.accuracy_score(y, labels), y, labels),
        "balanced_error": (1 - metrics.balanced_accuracy_score(y, labels), y, labels),
        "f1_macro": (1 - metrics.f1_score(y, labels, average="macro"), y, labels),
        "log_loss": (metrics.log_loss(y, proba), y, proba),
        "roc_auc": (1 - metrics.roc_auc_score(y, proba, multi_class="ovr"), y, proba),
        "r2": (1 - metrics.r2_score(t, z), t, z),
        "mae": (metrics.mean_absolute_error(t, z), t, z),
    }
    assert expected.keys() == SCORINGS.keys()
    for key, (loss, truth, response) in expected.items():
        assert SCORINGS[key].loss(truth, response, 3) == pytest.approx(loss)
    two = rng.dirichlet(np.ones(2), 60)
    auc = metrics.roc_auc_score(y > 0, two[:, 1])
    assert SCORINGS["roc_auc"].loss((y > 0).astype(int), two, 2) == pytest.approx(1 - auc)
    assert SCORINGS["roc_auc"].greater_is_better
    assert not SCORINGS["balanced_error"].greater_is_better


def test_texts_of_scores():
    assert SCORINGS["error"].text(0.1726, 0.0213) == "17.3% ± 2.1"
    assert SCORINGS["error"].text(0.1726, digits=2) == "17.26%"
    assert SCORINGS["r2"].text(0.25, 0.1) == "0.750 ± 0.100"
    assert [SCORINGS["mae"].text(v) for v in (12345.678, 1.23456)] == ["1.235e+04", "1.235"]


@pytest.mark.parametrize("scoring", ["error", "balanced_error", "f1_macro", "log_loss", "roc_auc"])
def test_every_scoring_separates_signal_from_the_majority_class(scoring, monkeypatch):
    X, y = two_classes()
    words = {"scoring": scoring, "n_splits": 3, "n_repeats": 1}
    found = compare_metrics(X, y, methods=["majority", "logistic"], **words)
    assert found["logistic"].error < found["majority"].error
    svm = Method("svm", "SVM", "Without probabilities.", predictor="sklearn.svm:LinearSVC")
    monkeypatch.setitem(METHODS, "svm", svm)
    note = compare_metrics(X, y, methods=["svm"], **words)["svm"].note
    needs = SCORINGS[scoring].response == "predict_proba"
    assert note == needs * f"estimates no probabilities, which {found.scoring.label} needs"


@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        (
            "magic",
            "must be one of error, balanced_error, f1_macro, log_loss, roc_auc; got 'magic'.",
        ),
        ("Balanced_eror", "'Balanced_eror'. Did you mean 'balanced_error'?"),
        ("accuracy", "got 'accuracy'. Use error (100% minus accuracy)."),
    ],
)
def test_unknown_scorings(scoring, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        compare_metrics(*two_classes(), scoring=scoring)


def methods_table():
    """The registry as the Markdown table of the documentation."""
    lines = [
        "| `--method` | name | task | map | stream |",
        "| --- | --- | --- | --- | --- |",
    ]
    for m in METHODS.values():
        marks = ["yes" if has else "" for has in (m.has_map, m.streams)]
        cells = [f"`{m.key}`", m.label, " or ".join(m.tasks), *marks]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


@pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not here")
def test_the_documentation_has_the_registry():
    """If this fails, replace the table by methods_table()."""
    assert methods_table() in (DOCS / "command_line.md").read_text("utf-8")
    symbols = (
        (DOCS / "dev" / "equations.md").read_text("utf-8").split("## Symbols")[1].split("\n## ")[0]
    )
    assert all(f"| {m.symbol} |" in symbols for m in METHODS.values() if m.symbol)
