"""The report: all its parts, for tables of every shape, the same each time."""

import re

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from genmetric import LMNN, GenerativeMetric
from genmetric.report import write_report

LIMIT = 1_000_000


def sections(html):
    return re.findall(r"<h2>(.*?)</h2>", html)


def test_contents(report):
    html = report.read_text("utf-8")
    assert sections(html) == [
        "Comparison",
        "Error against the number of neighbours",
        "The metric",
        "Feature weights",
        "How the metric comes about",
        "Neighbours before and after",
        "The rows in a plane",
        "Time",
        "The table",
    ]
    assert html.count("<svg") == 9
    assert html.count("<table") == 4
    assert len(html.encode()) < LIMIT
    assert "left out: about 900 s a fold" in html
    assert "n_neighbors=5, shrinkage=0.1235" in html
    assert "Compared on some rows." in html
    assert "under the metric fitted on 105 others" in html


def test_names_do_not_become_markup(report):
    html = report.read_text("utf-8")
    assert "<script" not in html
    assert "<img" not in html
    assert not re.search(r"<[^>]*\sonload=", html)
    assert "&lt;script&gt;alert(" in html
    assert "<b>31%</b>" not in html
    assert "{{ 7 * 7 }}" in html


def test_the_same_twice(report, made, tmp_path):
    X, y = made.rows()
    again = write_report(made.comparison(X, y), X, y, path=tmp_path / "again.html")
    assert again.read_bytes() == report.read_bytes()


@pytest.mark.parametrize(
    "shape",
    [
        {"n_rows": 6, "n_features": 3, "n_classes": 2},
        {"n_rows": 30, "n_features": 1, "n_classes": 2},
        {"n_rows": 208, "n_features": 4, "n_classes": 26},
        {"n_rows": 40, "n_features": 60, "n_classes": 2},
        {"n_rows": 25_000, "n_features": 3, "n_classes": 3},
    ],
    ids=str,
)
def test_tables_of_every_shape(made, shape, tmp_path):
    X, y = made.rows(**shape)
    names = [f"feature {i}" for i in range(X.shape[1])]
    classes = tuple(f"class {i}" for i in range(shape["n_classes"]))
    found = made.comparison(X, y, feature_names=tuple(names), class_names=classes)
    path = write_report(found, X, y, path=tmp_path / "report.html")
    html = path.read_text("utf-8")
    assert len(html.encode()) < LIMIT
    assert "nan" not in re.sub(r"base64,[^\"]*", "", html).lower().replace("finance", "")
    if shape["n_features"] > 40:
        assert "40 features of largest weight, of 60" in html
        assert "25 largest of 60" in html
    if shape["n_rows"] > 20_000:
        assert "rows kept apart, under the metric fitted on 18," in html


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "metric",
    [
        LMNN(max_iter=3),
        make_pipeline(StandardScaler(), GenerativeMetric(shrinkage=0.3), KNeighborsClassifier()),
        make_pipeline(StandardScaler(), KNeighborsClassifier()),
    ],
    ids=lambda m: type(m).__name__,
)
def test_any_metric(made, metric, tmp_path):
    X, y = made.rows(60, 4)
    path = write_report(
        made.comparison(X, y), X, y, path=tmp_path / "r.html", metric=metric.fit(X, y)
    )
    assert "Neighbours before and after" in path.read_text("utf-8")


def test_a_metric_of_weighted_rows_shows_its_weights_and_is_not_fitted_anew(made, tmp_path):
    X, y = made.rows(60, 4)
    metric = GenerativeMetric(combination=np.arange(1.0, 61)).fit(X, y)
    path = write_report(made.comparison(X, y), X, y, path=tmp_path / "r.html", metric=metric)
    html = path.read_text("utf-8")
    assert "Rounds and weights" in html
    assert "which the metric has seen in its fit" in html


def test_what_is_not_linear_has_no_matrix_but_neighbours(made, tmp_path):
    X, y = made.rows(60, 4)
    metric = QuantileTransformer(n_quantiles=10).fit(X)
    html = write_report(
        made.comparison(X, y), X, y, path=tmp_path / "r.html", metric=metric
    ).read_text("utf-8")
    assert "not linear" in html
    assert "The rows in a plane" in html


def test_missing_values_are_filled_and_it_is_said(made, tmp_path):
    X, y = made.rows(60, 4)
    X[3, 1] = X[5, 2] = np.nan
    html = write_report(made.comparison(X, y), X, y, path=tmp_path / "r.html").read_text("utf-8")
    assert "2 missing values were filled" in html


def test_names_and_footers_of_the_caller(made, tmp_path):
    X, y = made.rows(60, 2)
    html = write_report(
        made.comparison(X, y),
        X,
        y,
        path=tmp_path / "r.html",
        feature_names=["height", "width"],
        class_names=["one", "two", "three"],
        row_names=[f"id{i}" for i in range(60)],
        metric_name="The metric of the house",
        footers=["genmetric compare wine.csv <2026>"],
    ).read_text("utf-8")
    for text in ("height", "width", "three", "row id", "The metric of the house", "&lt;2026&gt;"):
        assert text in html


def test_every_method_skipped(made, tmp_path):
    X, y = made.rows(60, 2)
    found = made.comparison(X, y)
    nothing = made.comparison(
        X, y, results=found.results[-1:], error_by_k={}, baseline="", best="", p_value=np.nan
    )
    html = write_report(nothing, X, y, path=tmp_path / "r.html").read_text("utf-8")
    assert "No method was run." in html
    assert "Time" not in sections(html)


def test_bad_input(made, tmp_path):
    X, y = made.rows(60, 2)
    found, path = made.comparison(X, y), tmp_path / "r.html"
    for names, text in (
        ({"feature_names": ["a"]}, "1 names for 2 features"),
        ({"class_names": ["a"]}, "1 names for 3 classes"),
        ({"row_names": ["a"]}, "1 names for 60 rows"),
    ):
        with pytest.raises(ValueError, match=text):
            write_report(found, X, y, path=path, **names)
    with pytest.raises(ValueError, match="X has 60 rows, but y has 59"):
        write_report(found, X, y[1:], path=path)
    assert not path.exists()
