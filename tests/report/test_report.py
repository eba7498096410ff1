"""The report: all its sections, for tables of every shape, the same each time."""

import re

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from genmetric import LMNN, EnergyClassifier, GenerativeMetric
from genmetric.comparison import Scoring
from genmetric.report import summary_html, write_report
from genmetric.report._metric_sections import two_features
from genmetric.tables import ColumnPlan, plan_columns

REPORT = {
    "metric_name": "generative metric",
    "glossary": {"generative metric": "An average of local metrics.", "other": "Not shown."},
    "command": "genmetric fit wine.csv --target '<class>'",
}

LIMIT = 1_000_000


def sections(html):
    return re.findall(r"<h2>(.*?)</h2>", html)


def test_contents(report):
    html = report.read_text("utf-8")
    assert sections(html) == [
        "Comparison",
        "Confusion matrix",
        "Error by number of neighbours",
        "Feature contributions",
        "The metric",
        "Neighbours before and after",
        "Samples in a plane",
        "How the metric is built",
        "Time",
        "The data",
        "Glossary",
    ]
    # Each figure for wide and for narrow screens, and a histogram per column.
    assert html.count('<svg xmlns="http') == 2 * 9
    assert html.count('<svg class="bars"') == 8
    assert html.count("<table") == 6
    assert len(html.encode()) < LIMIT
    assert "skipped: about 900 s per fold" in html
    assert "n_neighbors=5, shrinkage=0.1235" in html
    assert "Compared on some samples." in html
    assert "the same kind of metric fitted on 105 others" in html
    assert "An average of local metrics." in html
    assert "Not shown." not in html


def test_the_verdict_has_its_evidence(report):
    html = report.read_text("utf-8")
    verdict = html[html.index('class="verdict"') : html.index("<nav")]
    for text in ("Recommended", "Generative metric", "Baseline", "p-value", "0.001", "Majority"):
        assert text in verdict
    assert "genmetric fit wine.csv --target &#39;&lt;class&gt;&#39;" in verdict


def test_names_do_not_become_markup(report):
    html = report.read_text("utf-8")
    # The only script is that of the page.
    assert html.count("<script") == 1
    assert "<img" not in html
    assert not re.search(r"<[^>]*\sonload=", html)
    assert "&lt;script&gt;alert(" in html
    assert "<b>31%</b>" not in html
    assert "{{ 7 * 7 }}" in html
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", html)


def test_the_same_twice(report, made, tmp_path):
    X, y = made.rows()
    again = write_report(
        made.comparison(X, y),
        X,
        y,
        path=tmp_path / "again.html",
        metric=made.metric(X, y),
        **REPORT,
    )
    assert again.read_bytes() == report.read_bytes()


def test_no_section_on_a_metric_that_is_not_recommended(made, tmp_path):
    X, y = made.rows(60, 3)
    for key in ("standardised", ""):
        found = made.comparison(X, y, recommended=key, p_value=np.nan)
        path = write_report(found, X, y, path=tmp_path / "r.html", metric=made.metric(X, y))
        html = path.read_text("utf-8")
        assert sections(html) == [
            "Comparison",
            "Confusion matrix",
            "Error by number of neighbours",
            "Time",
            "The data",
            "Glossary",
        ]
        assert "Best score" in html or key == ""


def test_shares_are_those_of_the_caption(made, tmp_path):
    X, y = made.rows(60, 3)
    X[:, 1] = 0.9 * X[:, 0] + 0.1 * X[:, 1]
    model = made.metric(X, y)
    html = write_report(
        made.comparison(X, y), X, y, path=tmp_path / "r.html", metric=model, feature_names="abc"
    ).read_text("utf-8")
    Z = model[:-1].transform(X)
    M = np.linalg.lstsq(X - X.mean(0), Z - Z.mean(0), rcond=None)[0]
    parts = (M @ M.T * np.cov(X.T)).sum(axis=1)
    for share in parts / parts.sum():
        assert f">{share:.2%}<".replace("-", "\N{MINUS SIGN}") in html


def test_confusion_matrix(made, tmp_path):
    X, y = made.rows(60, 2)
    found = made.comparison(X, y, class_names=("a", "b", "c"))
    html = write_report(found, X, y, path=tmp_path / "r.html").read_text("utf-8")
    counts = found["uniform"].confusion
    total = counts.sum(axis=1)
    title = f"a classified as b: {counts[0, 1]} of {total[0]}, {counts[0, 1] / total[0]:.1%}"
    assert title in html
    assert f"{counts[2, 2] / total[2]:.1%}" in html


def test_many_classes_list_their_confusions(made, tmp_path):
    X, y = made.rows(208, 4, 26)
    names = tuple(f"class {i}" for i in range(26))
    found = made.comparison(X, y, class_names=names)
    html = write_report(found, X, y, path=tmp_path / "r.html").read_text("utf-8")
    assert "The most frequent confusions among 26 classes." in html


def test_a_table_of_mixed_columns_is_summarised(made, tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = made.rows(60, 2)
    table = pd.DataFrame(
        {
            "size": X[:, 0],
            "color": ["red", "red", "blue"] * 20,
            "empty": [None] * 60,
            "day": pd.date_range("2024-01-01", periods=60),
        }
    )
    table.loc[:5, "size"] = np.nan
    columns = [ColumnPlan("empty", "left out", "no values")]
    html = write_report(
        made.comparison(X, y), X, y, path=tmp_path / "r.html", table=table, columns=columns
    ).read_text("utf-8")
    for text in ("red 67%, blue 33%", "10.0%", "left out", "no values", "100.0%"):
        assert text in html


def test_regression_shows_predictions(made, tmp_path):
    X, y = made.rows(60, 3)
    target = X[:, 0] + 0.1
    scoring = Scoring("r2", "R²", lambda *_: 0.0, greater_is_better=True, task="regression")
    found = made.comparison(
        X, y, scoring=scoring, class_names=(), class_counts=np.empty(0, int), error_by_k={}
    )
    predicted = [_Predicted(r, (target, X[:, 0])) for r in found.results]
    found = made.comparison(
        X,
        y,
        scoring=scoring,
        class_names=(),
        class_counts=np.empty(0, int),
        error_by_k={},
        results=tuple(predicted),
    )
    html = write_report(
        found, X, target, path=tmp_path / "r.html", metric=made.metric(X, y)
    ).read_text("utf-8")
    assert sections(html) == [
        "Comparison",
        "Predicted and actual values",
        "Feature contributions",
        "The metric",
        "Time",
        "The data",
        "Glossary",
    ]
    assert "Larger is better" in html


class _Predicted:
    """A result with predictions, as a comparison of regressors has it."""

    def __init__(self, result, predictions):
        self._result, self.predictions = result, predictions

    def __getattr__(self, name):
        return getattr(self._result, name)


def test_two_numeric_features_or_none():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=80), np.arange(80) % 2, rng.normal(size=80)])
    assert two_features(np.array([0.1, 5.0, 0.2]), x) == [2, 0]
    assert two_features(np.array([0.1, 5.0, 0.2]), x[:, [0, 1, 1]]) is None


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
    path = write_report(found, X, y, path=tmp_path / "report.html", metric=made.metric(X, y))
    html = path.read_text("utf-8")
    assert len(html.encode()) < LIMIT
    assert "nan" not in re.sub(r"base64,[^\"]*", "", html[: html.index("<script>")]).lower()
    if shape["n_features"] > 40:
        assert "40 of 60 features, those with the largest diagonal" in html
        assert "25 largest of 60" in html
    if shape["n_rows"] > 20_000:
        assert "left-out samples, under the same kind of metric fitted on 18," in html


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "metric",
    [
        LMNN(max_iter=3),
        make_pipeline(StandardScaler(), EnergyClassifier(GenerativeMetric())),
        make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()),
    ],
    ids=lambda m: type(m).__name__,
)
def test_any_metric(made, metric, tmp_path):
    X, y = made.rows(60, 4)
    path = write_report(
        made.comparison(X, y), X, y, path=tmp_path / "r.html", metric=metric.fit(X, y)
    )
    assert "Neighbours before and after" in path.read_text("utf-8")


def test_a_metric_with_given_weights_is_not_fitted_again(made, tmp_path):
    X, y = made.rows(60, 4)
    metric = GenerativeMetric(combination=np.arange(1.0, 61)).fit(X, y)
    path = write_report(made.comparison(X, y), X, y, path=tmp_path / "r.html", metric=metric)
    html = path.read_text("utf-8")
    assert "Sample weights" in html
    assert "samples that the metric was fitted on" in html


def test_method_without_a_matrix_is_reported(made, tmp_path):
    X, y = made.rows(60, 4)
    metric = QuantileTransformer(n_quantiles=10).fit(X)
    html = write_report(
        made.comparison(X, y), X, y, path=tmp_path / "r.html", metric=metric
    ).read_text("utf-8")
    assert "QuantileTransformer is not linear" in html
    assert "Feature contributions" not in html


def test_missing_values_are_imputed_and_reported(made, tmp_path):
    X, y = made.rows(60, 4)
    X[3, 1] = X[5, 2] = np.nan
    html = write_report(made.comparison(X, y), X, y, path=tmp_path / "r.html").read_text("utf-8")
    assert "2 missing values were replaced by the mean" in html


def test_names_and_footers_of_the_caller(made, tmp_path):
    X, y = made.rows(60, 2)
    html = write_report(
        made.comparison(X, y),
        X,
        y,
        path=tmp_path / "r.html",
        metric=made.metric(X, y),
        feature_names=["height", "width"],
        class_names=["one", "two", "three"],
        row_names=[f"id{i}" for i in range(60)],
        metric_name="tested metric",
        footers=["genmetric compare wine.csv <2026>"],
    ).read_text("utf-8")
    for text in ("height", "width", "three", ">id", "tested metric", "&lt;2026&gt;"):
        assert text in html


def test_every_method_skipped(made, tmp_path):
    X, y = made.rows(60, 2)
    found = made.comparison(X, y)
    nothing = made.comparison(
        X,
        y,
        results=found.results[-1:],
        error_by_k={},
        baseline="",
        best="",
        recommended="",
        p_value=np.nan,
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
        ({"row_names": ["a"]}, "1 names for 60 samples"),
    ):
        with pytest.raises(ValueError, match=text):
            write_report(found, X, y, path=path, **names)
    with pytest.raises(ValueError, match="X has 60 samples, but y has 59"):
        write_report(found, X, y[1:], path=path)
    assert not path.exists()


def test_summary_for_notebooks(made):
    X, y = made.rows(60, 3)
    html = summary_html(made.comparison(X, y, title="a \u202eb <i>"))
    assert html.startswith('<div class="genmetric-summary">')
    assert "skipped: about 900 s per fold" in html
    assert "<img" not in html
    assert "a b &lt;i&gt;" in html
    assert html.count('class="shown"') == 1
    assert "60 samples, 3 features, 3 classes" in html


def test_columns_are_summarised_as_they_were_read(rng):
    from genmetric.report._table_sections import _summary

    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(
        {
            "mass": [f"{m:,} kg" for m in rng.integers(900, 5000, 19)] + ["see note"],
            "year": [2007, 2009] * 10,
            "sex": ["male", "female", "NA", "male"] * 5,
            "day": [f"{d:02d}.01.2024" for d in range(1, 20)] + [None],
            "image": [[0.5, float(i)] for i in range(20)],
        }
    )
    plans = {column.name: column for column in plan_columns(table).columns}
    found = {name: _summary(table[name].to_numpy(object), plans[name]) for name in table}
    found["year"] = _summary(table["year"].to_numpy(), plans["year"])
    assert found["mass"][:3] == ["number", pytest.approx(0.05), table["mass"].nunique() - 1]
    assert found["year"][3].value == "2007 to 2009"
    assert found["sex"] == ["category", 0.25, 2, "male 67%, female 33%"]
    assert found["day"] == ["date", pytest.approx(0.05), 19, "2024-01-01 to 2024-01-19"]
    assert found["image"][:2] == ["vector", 0.0]
