"""Comparisons of tables: columns, targets, leaks, and what people see of the result."""

import json

import numpy as np
import pytest

from genmetric import compare_metrics
from genmetric.comparison import METHODS, SCORINGS, Comparison, MethodResult

pd = pytest.importorskip("pandas")
from genmetric.tables import TableEncoder  # noqa: E402

QUICK = {"methods": ["majority", "standardized", "generative"], "n_splits": 3, "n_repeats": 1}


def animals(n=120, seed=0):
    """A table with numbers, a category with gaps, dates, an identifier and a constant."""
    rng = np.random.default_rng(seed)
    species = np.array(["cat", "dog", "owl"])[np.arange(n) % 3]
    weight = np.where(species == "owl", 1.0, np.where(species == "cat", 4.0, 20.0))
    weight = weight * rng.lognormal(0, 0.3, n)
    weight[::17] = np.nan
    colour = rng.choice(["black", "brown", "white"], n).astype(object)
    colour[::23] = None
    return pd.DataFrame(
        {
            "id": [f"animal-{i:04d}" for i in range(n)],
            "weight": weight,
            "colour": colour,
            "seen": pd.date_range("2024-01-01", periods=n, freq="D").astype(str),
            "planet": "Earth",
            "species": species,
        }
    )


def subjects(seed=0):
    """Ten rows of each of 30 subjects, who have one diagnosis each, unrelated to the features."""
    rng = np.random.default_rng(seed)
    subject = rng.permutation(np.repeat(np.arange(30), 10))
    frame = pd.DataFrame(rng.normal(size=(30, 3))[subject], columns=list("abc"))
    frame += 0.3 * rng.normal(size=frame.shape)
    return frame.assign(subject=subject + 100, sick=rng.integers(0, 2, 30)[subject] == 1)


@pytest.fixture(scope="module")
def found():
    return compare_metrics(animals(), target="species", title="animals", **QUICK)


def test_mixed_columns(found):
    assert found.class_names == ("cat", "dog", "owl")
    assert {"weight", "colour_black"} <= set(found.feature_names)
    assert not any(name == "id" or "planet" in name for name in found.feature_names)
    assert found.notes[0] == "target species: 3 classes (cat, dog, owl)"
    assert any("planet" in note for note in found.notes)
    assert found["generative"].error < 0.5 < found["majority"].error
    assert found.target.task == "classification"
    assert found.encoded().shape == (120, found.n_features)


def test_columns_are_decided_once_and_fitted_in_each_fold():
    """A fold must not take decisions of its own: a row counter has gaps in it."""
    frame = animals().assign(number=np.arange(120))
    found = compare_metrics(frame, target="species", **QUICK)
    assert "number" not in found.feature_names
    columns = TableEncoder(drop=["weight"], as_category=["number"])
    asked = compare_metrics(frame, target="species", columns=columns, **QUICK)
    assert any(name.startswith("number") for name in asked.feature_names)
    assert "weight" not in asked.feature_names
    assert asked["generative"].error > 0.5


def test_polars_and_separate_targets(found):
    frame = animals()
    others = [(frame.drop(columns="species"), {"y": frame["species"]})]
    polars = pytest.importorskip("polars")
    others.append((polars.from_pandas(frame), {"target": "species"}))
    for table, words in others:
        again = compare_metrics(table, **words, **QUICK)
        assert again.feature_names == found.feature_names
        for a, b in zip(again.results, found.results, strict=True):
            np.testing.assert_array_equal(a.errors, b.errors)


def test_rows_without_a_target_are_left_out():
    frame = animals()
    frame.loc[[3, 50], "species"] = None
    groups = np.arange(120) // 4
    found = compare_metrics(frame, target="species", groups=groups, **QUICK)
    assert found.n_samples == 118
    assert not {3, 50} & set(found.rows.tolist())
    with pytest.raises(ValueError, match="indices of 120 rows, of which 118 are used"):
        compare_metrics(frame, target="species", cv=[([0, 1], [2])] * 2)


def test_the_estimator_takes_the_columns_of_the_table(found):
    model = found.best_estimator("generative")
    assert [name for name, _ in model.steps] == ["columns", "scale", "metric", "neighbors"]
    frame = animals()
    shuffled = frame[frame.columns[::-1]]
    np.testing.assert_array_equal(model.predict(shuffled), model.predict(frame))
    assert (model.predict(frame) == frame["species"]).mean() > 0.7
    with pytest.raises(ValueError, match=r"'lmnm'.*Did you mean 'lmnn'"):
        found.best_estimator("lmnm")
    with pytest.raises(ValueError, match="no samples"):
        Comparison((MethodResult("lda"),)).best_estimator()


def test_a_numeric_target_of_a_table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    frame["price"] = (100 + 30 * frame["a"]).round(1).astype(str)
    words = {"methods": ["mean", "standardized"], "n_repeats": 1}
    found = compare_metrics(frame, target="price", **words)
    assert found.task == "regression"
    assert "a numeric target" in str(found)
    assert "price: a number" in found.notes[0]
    assert found.best_estimator().predict(frame).shape == (60,)
    grades = frame.assign(grade=np.arange(60) % 6)
    assert compare_metrics(grades, target="grade", **QUICK).task == "classification"
    asked = compare_metrics(grades, target="grade", task="regression", **words)
    assert asked.scoring.key == "r2"


@pytest.mark.parametrize("as_text", [False, True])
def test_a_column_that_names_the_subject_is_left_out_and_proposed_as_group(as_text):
    frame = subjects()
    if as_text:
        frame["subject"] = "S" + frame["subject"].astype(str)
    found = compare_metrics(frame, target="sick", **QUICK)
    assert found.feature_names == ("a", "b", "c")
    assert "'subject' belongs to one class" in found.warnings[0]
    assert "(--group subject)" in found.warnings[0]
    grouped = compare_metrics(frame, target="sick", groups="subject", **QUICK)
    assert grouped.warnings == []
    assert grouped["standardized"].error > 0.3 > found["standardized"].error
    frame.loc[7, "sick"] = not frame.loc[7, "sick"]  # a single wrong label
    assert compare_metrics(frame, target="sick", **QUICK).feature_names == ("a", "b", "c")
    asked = TableEncoder(as_category=["subject"])
    assert compare_metrics(frame, target="sick", columns=asked, **QUICK).n_features > 20


def test_numbers_that_measure_the_class_are_not_subjects():
    rng = np.random.default_rng(0)
    age = rng.integers(20, 60, 300)
    frame = pd.DataFrame({"age": age, "x": rng.normal(size=300), "old": age > 40})
    found = compare_metrics(frame, target="old", **QUICK)
    assert found.feature_names == ("age", "x")
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith("the single column 'age' predicts almost everything. If it")
    assert str(found).splitlines()[1].startswith("  Warning: the single column 'age'")


@pytest.mark.parametrize("methods", [["majority", "lda"], ["standardized"]])
@pytest.mark.parametrize("form", ["code", "status"])
def test_another_form_of_the_classes_is_kept_with_a_warning(rng, form, methods):
    y = rng.integers(0, 3, 150)
    column = y + 1 if form == "code" else np.array(["green", "amber", "red"])[y]
    frame = pd.DataFrame(rng.normal(size=(150, 3)), columns=list("abc")).assign(**{form: column})
    found = compare_metrics(frame, np.array(["u", "v", "w"])[y], methods=methods, n_repeats=1)
    assert any(name.startswith(form) for name in found.feature_names)
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith(f"the single column {form!r} predicts almost everything")


@pytest.mark.parametrize("methods", [["mean", "ridge"], ["standardized"]])
def test_another_form_of_the_numbers_is_warned_of_in_sorted_tables_too(rng, methods):
    rent = np.sort(rng.lognormal(6, 0.4, 200)).round()
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc")).assign(cents=100 * rent)
    found = compare_metrics(frame, rent, methods=methods, n_repeats=1)
    assert found.warnings[-1].startswith("the single column 'cents' predicts almost everything")


@pytest.mark.parametrize(("n_noise", "warns"), [(1, True), (60, False)])
def test_one_of_many_columns_may_separate_a_few_rows_by_chance(rng, n_noise, warns):
    y = np.arange(20) % 2
    x = np.c_[y + 0.01 * rng.normal(size=20), rng.normal(size=(20, n_noise))]
    found = compare_metrics(x, y, **QUICK)
    assert any(text.startswith("the single column 'x0'") for text in found.warnings) == warns


def test_copies_and_perfect_results_are_warned_of(rng):
    x = rng.normal(size=(60, 3))
    y = np.arange(60) % 2
    copied = compare_metrics(np.r_[x, x], np.r_[y, y], **QUICK)
    assert copied.warnings[0].startswith("60 of 120 rows are copies of other rows.")
    assert compare_metrics(x, y, **QUICK).warnings == []
    binary = rng.integers(0, 2, size=(100, 3))  # equal rows are no surprise here
    assert compare_metrics(binary, np.arange(100) % 2, **QUICK).warnings == []
    a = rng.uniform(-5, 5, 200)  # only both columns together know the class
    y = np.arange(200) % 2
    found = compare_metrics(np.c_[a, 3 * (2 * y - 1) - a], y, **QUICK)
    assert found.warnings[0].startswith(
        "the error rate of Euclidean distance, standardized is almost"
    )


def test_text_of_a_comparison(found, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = str(found)
    assert repr(found) == text
    lines = text.splitlines()
    assert lines[0].startswith("animals: 120 samples, ")
    assert "3 classes (cat, dog, owl)" in " ".join(lines[:3])
    assert max(map(len, lines)) <= 80
    row = next(line for line in lines if line.startswith("generative metric (generative)"))
    assert found.score_text(found["generative"]) in row
    assert any(line.startswith("majority class (majority; no map)") for line in lines)
    assert repr(found["generative"]).startswith("MethodResult('generative', error=0.")
    skipped = MethodResult("nca", "NCA", note="slow beyond 5000 samples")
    assert repr(skipped) == "MethodResult('nca', skipped: slow beyond 5000 samples)"
    shown = Comparison((skipped, found["generative"]), y=found.y)
    assert "NCA (nca): skipped, slow beyond 5000 samples" in str(shown)
    assert "skipped, slow beyond 5000 samples" in shown._repr_html_()


@pytest.mark.parametrize("scoring", SCORINGS.values(), ids=SCORINGS)
def test_rows_of_all_methods_fit_80_columns(scoring, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    errors = np.array([0.123, 0.234, 0.345])
    results = [
        MethodResult(m.key, m.label, errors, errors, errors, has_map=m.has_map)
        for m in METHODS.values()
    ]
    lines = str(Comparison(tuple(results), scoring=scoring)).splitlines()
    assert max(map(len, lines)) <= 80


def test_html_of_a_comparison_is_escaped():
    result = MethodResult("lda", "<b>", np.full(3, 0.1), np.ones(3), np.ones(3))
    words = {"title": "<i>", "advice": "<u>", "warnings": ["<s>"], "notes": ["<q>"]}
    html = Comparison((result,), recommended="lda", **words)._repr_html_()
    assert not any(tag in html for tag in ("<b>", "<i>", "<u>", "<s>", "<q>"))
    assert html.count('<tr class="shown">') == 1


def test_a_notebook_shows_decisions_about_columns_and_the_first_rows(found):
    html = found._repr_html_()
    for words in ("species: 3 classes (cat, dog, owl)", "planet", "First rows", "animal-0002"):
        assert words in html
    assert "animal-0003" not in html


def test_frame_and_json(found):
    frame = found.to_frame()
    assert frame.index.tolist() == ["majority", "standardized", "generative"]
    assert frame.loc["generative", "error"] == found["generative"].error
    assert frame.columns.tolist() == [
        *("label", "error", "margin", "fit_seconds", "predict_seconds", "has_map", "note")
    ]
    facts = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert facts["scoring"] == "error"
    assert (facts["n_samples"], facts["n_features"]) == (120, found.n_features)
    assert facts["results"][2]["errors"] == found["generative"].errors.tolist()
    assert facts["results"][2]["confusion"] == found["generative"].confusion.tolist()
    assert facts["advice"] == found.advice
    assert facts["error_by_k"].keys() == {"standardized", "generative"}
    with pytest.raises(KeyError):
        found["lda"]
