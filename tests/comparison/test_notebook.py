"""Comparisons of DataFrames, and what a notebook does with the result."""

import re

import numpy as np
import pytest

from genmetric import compare_metrics
from genmetric.comparison import METHODS

pd = pytest.importorskip("pandas")


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
            "legs": np.where(species == "owl", 2, 4),
            "seen": pd.date_range("2024-01-01", periods=n, freq="D"),
            "planet": "Earth",
            "species": species,
        }
    )


QUICK = {"methods": ["majority", "standardised", "uniform"], "n_splits": 3, "n_repeats": 1}


@pytest.fixture(scope="module")
def found():
    return compare_metrics(animals(), target="species", title="animals", **QUICK)


def test_mixed_columns(found):
    assert found.class_names == ("cat", "dog", "owl")
    assert {"weight", "legs", "colour_black"} <= set(found.feature_names)
    assert not any(name == "id" or "planet" in name for name in found.feature_names)
    assert any("planet" in note for note in found.notes)
    assert found["uniform"].error < 0.2


def test_polars():
    polars = pytest.importorskip("polars")
    frame = animals().assign(seen=lambda f: f["seen"].astype(str))
    a = compare_metrics(frame, target="species", **QUICK)
    b = compare_metrics(polars.from_pandas(frame), target="species", **QUICK)
    assert a.feature_names == b.feature_names
    for x, y in zip(a.results, b.results, strict=True):
        np.testing.assert_array_equal(x.errors, y.errors)


def test_labels_separate_from_the_frame(found):
    frame = animals()
    other = compare_metrics(frame.drop(columns="species"), frame["species"], **QUICK)
    np.testing.assert_array_equal(other["uniform"].errors, found["uniform"].errors)


def test_rows_without_a_label_are_left_out():
    frame = animals()
    frame.loc[:4, "species"] = None
    found = compare_metrics(frame, target="species", **QUICK)
    assert found.n_samples == 115
    assert any("no target 'species'" in note for note in found.notes)


def test_best_estimator_predicts_the_table_it_came_from(found):
    frame = animals()
    model = found.best_estimator("uniform")
    assert [name for name, _ in model.steps] == ["columns", "scale", "metric", "neighbors"]
    assert (model.predict(frame) == frame["species"]).mean() > 0.9
    assert model[:-1].transform(frame).shape[0] == len(frame)
    assert next(iter(model.feature_names_in_)) == "weight"
    recommended = found.best_estimator()
    assert recommended.predict(frame).shape == (120,)
    with pytest.raises(ValueError, match="method must be one of"):
        found.best_estimator("magic")


def test_to_frame(found):
    table = found.to_frame()
    assert list(table.index) == QUICK["methods"]
    assert table.loc["uniform", "error"] == pytest.approx(found["uniform"].error)
    assert table.loc["uniform", "label"] == "generative metric"
    assert not table.loc["majority", "distance"]


def test_html(found):
    html = found._repr_html_()
    assert html.startswith("<div")
    assert "generative metric" in html
    assert "majority class (not a distance)" in html
    assert not re.search(r"<script|<link|src=|href=", html)
    frame = animals().assign(species=lambda f: "<b>" + f["species"] + "</b>")
    frame = frame.rename(columns={"weight": "<img src=x>"})
    html = compare_metrics(frame, target="species", title="<i>", **QUICK)._repr_html_()
    assert "<img" not in html
    assert "<i>" not in html


def test_text(found):
    text = str(found)
    assert text.startswith("animals: 120 samples, ")
    for key in QUICK["methods"]:
        assert f"{METHODS[key].label} ({key}" in text
    assert found.advice in text


def test_plot_and_report(found, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    display = found.plot()
    assert display.ax_ is not None
    path = found.report(tmp_path / "animals.html", row_names=animals()["id"].to_list())
    text = path.read_text("utf-8")
    assert "weight" in text
    assert "animals" in text


def test_a_target_needs_a_frame():
    with pytest.raises(TypeError, match="target needs a DataFrame X; got ndarray"):
        compare_metrics(np.zeros((4, 2)), target="y")
