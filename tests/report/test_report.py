"""The report on a comparison and pages in general: content, escaping, and a real browser."""

import base64
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from genmetric import compare_metrics
from genmetric.comparison import Comparison, MethodResult
from genmetric.report import Cell, Picture, Table, page_style, write_page, write_report

HOSTILE = "<script>alert('x')</script>"
METHODS = ["majority", "standardized", "generative", "logistic"]


def make_table(n=150, seed=0):
    """Make a table with two classes, numbers, a category, a date, an identifier, hostile names."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return pd.DataFrame(
        {
            HOSTILE: rng.normal(size=n) + 2 * y,
            "日本語の列": rng.normal(size=n) * 100,
            "$x_1^2$ \\frac": rng.normal(size=n),
            "colour": rng.choice(["red", "<b>blue</b>", "green"], n),
            "day": pd.date_range("2020-01-01", periods=n).strftime("%Y-%m-%d"),
            "id": [f"A{i:05d}" for i in range(n)],
            "class": np.where(y == 1, "<img src=x onerror=alert(1)>", "plain \u202eclass"),
        }
    )


@pytest.fixture(scope="module")
def found():
    """Compare methods on the table with hostile names."""
    table = make_table()
    return compare_metrics(
        table,
        target="class",
        methods=METHODS,
        n_splits=3,
        n_repeats=1,
        title="wine <b>& cheese</b>",
    )


@pytest.fixture(scope="module")
def report(found, tmp_path_factory):
    """Write a report with all sections."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    command = "genmetric fit wine.csv --target '<class>'"
    return write_report(found, path, command=command, footers=["run on <today>"])


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def pictures(text):
    """Return the figures of a page as SVG text."""
    found = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', text)
    return [base64.b64decode(code).decode() for code in found]


def headings(text):
    return re.findall(r"<h2>(.*?)</h2>", text)


def test_sections_of_a_classification(report, found):
    text = report.read_text("utf-8")
    assert headings(text) == [
        "What is predicted",
        "Methods",
        "Which classes are confused",
        "Which columns count",
        "Neighbours before and after",
        "Samples in a plane",
        "Number of neighbours",
        "Columns",
        "First rows",
        "How it was measured",
    ]
    page = Page(text)
    words = " ".join(page.text)
    assert found.advice in words
    assert found.score_text(found["generative"]) in words
    assert found.footnote in words
    assert "genmetric fit wine.csv --target '<class>'" in words
    assert "run on <today>" in words
    assert "an identifier" in words  # the reason why a column is left out
    assert "2020-01-01 to 2020-05-29" in words
    assert len(pictures(text)) == 6
    assert len(text) < 1_000_000


def test_everything_is_escaped_and_nothing_is_loaded(report):
    text = report.read_text("utf-8")
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not {"b", "iframe", "link", "object", "base"} & {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:image/svg+xml;base64,"))
        assert tag != "img" or attributes["alt"]
    assert "\u202e" not in text
    (policy,) = [a["content"] for t, a in page.tags if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    for svg in pictures(text):
        assert "<script" not in svg
        assert not re.findall(r'(?:href|src)="(?!#|data:image/png)', svg)
    assert any("日本語の列" in svg for svg in pictures(text))


def test_contributions_and_reasons_are_per_column(report, found):
    text = report.read_text("utf-8")
    section = text[text.index("Which columns count</h2>") : text.index("Samples in a plane</h2>")]
    rows = re.findall(r'<tr><th scope="row"[^>]*>([^<]*)</th><td[^>]*>([^<]*)%</td></tr>', section)
    shares = {name: float(share.replace("\u2212", "-")) for name, share in rows}
    used = [c["name"] for c in found.encoder.columns_ if c["kind"] != "left out"]
    assert len(shares) == len(used)
    assert {"colour", "day", "日本語の列"} <= set(shares)
    assert sum(shares.values()) == pytest.approx(100, abs=0.1)
    assert re.search(r"row \d+: plain class", section)
    assert re.search(r"neighbour \S+ \(\d+%\)", section)


def test_the_same_comparison_gives_the_same_file(found, report, tmp_path):
    command = "genmetric fit wine.csv --target '<class>'"
    again = write_report(found, tmp_path / "a.html", command=command, footers=["run on <today>"])
    assert again.read_bytes() == report.read_bytes()


def test_regression_has_errors_in_the_units_of_the_target(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 3)), columns=["a", "b", "c"])
    y = 1000 * X["a"] + rng.normal(size=120) * 50
    found = compare_metrics(X, y, methods=["mean", "standardized", "regression"], n_splits=3)
    text = write_report(found, tmp_path / "r.html").read_text("utf-8")
    assert "Predicted and actual values" in headings(text)
    assert "Which classes are confused" not in headings(text)
    assert "Number of neighbours" not in headings(text)
    result = found[found.recommended]
    actual, predicted = result.predictions
    typical = np.median(np.abs(actual - predicted))
    stated = re.search(r"off by less than ([\d.]+), in the unit", text)[1]
    assert float(stated) == pytest.approx(typical, rel=1e-2)


def test_arrays_and_names_of_rows(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 4)) + y[:, None]
    features = ["height", "length", "weight", "age"]
    methods = ["standardized", "generative"]
    found = compare_metrics(X, y, methods=methods, n_splits=3, feature_names=features)
    names = [f"animal {i}" for i in range(90)]
    text = write_report(found, tmp_path / "r.html", row_names=names).read_text("utf-8")
    assert re.search(r"animal \d+: [012]", text)
    assert '<th scope="col">length</th>' in text
    assert f"<td>{X[4, 1]:.6g}</td>" in text  # the first rows
    with pytest.raises(ValueError, match="row_names has 1 names for 90 samples"):
        write_report(found, tmp_path / "r.html", row_names=["a"])


@pytest.mark.parametrize("as_frame", [True, False])
def test_cells_are_shown_as_the_table_has_them(tmp_path, as_frame):
    rng = np.random.default_rng(1)
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 4)) + np.outer(y, [2, 0, 0, 0])
    X[rng.random(X.shape) < 0.4] = np.nan
    X[0, 0] = np.nan
    if as_frame:
        X = pd.DataFrame(X, columns=list("abcd"))
        X["day"] = pd.date_range("2024-11-10", periods=120)
        X["bought"] = pd.Categorical(["yes", "no", "no"] * 40)
        X.loc[:1, ["day", "bought"]] = None
    found = compare_metrics(X, y, methods=["standardized", "generative"], n_splits=3)
    text = write_report(found, tmp_path / "r.html").read_text("utf-8")
    text = re.sub(r"base64,[^\"]*", "", text)
    learned, first, end = (
        text.index(f"{heading}</h2>")
        for heading in ("Which columns count", "First rows", "How it was measured")
    )
    assert re.search(r"missing, neighbour|neighbour missing", text[learned:first])
    assert "<td>missing</td>" in text[first:end]
    assert not as_frame or "<td>2024-11-12</td>" in text[first:end]
    for part in (text[learned:end], found._repr_html_()):
        assert not re.search(r"\bnan\b|NaN|NaT|None|T00:00|True|False| 00:00", part)


def test_a_comparison_without_samples_and_with_warnings(tmp_path):
    fold = np.array([0.1, 0.2])
    results = (
        MethodResult("standardized", "Euclidean", fold, fold, fold),
        MethodResult("nca", "NCA", note="more than 2000 samples"),
    )
    found = Comparison(
        results, warnings=("Too good to be <true>.",), incomplete="2 of 5 folds done"
    )
    text = write_report(found, tmp_path / "r.html").read_text("utf-8")
    assert headings(text) == ["What is predicted", "Methods", "How it was measured"]
    assert '<p class="warning">Too good to be &lt;true&gt;.</p>' in text
    assert "This comparison is incomplete: 2 of 5 folds done." in text
    assert "skipped: more than 2000 samples" in text
    nothing = write_report(Comparison(()), tmp_path / "n.html").read_text("utf-8")
    assert "No method was run." in nothing


def test_many_classes_list_the_most_frequent_confusions(tmp_path):
    fold, counts = np.array([0.1, 0.2]), 30 * np.eye(20, dtype=int)
    counts[3, 7] = 9
    result = MethodResult("standardized", "Euclidean", fold, fold, fold, confusion=counts)
    names = tuple(f"class {i}" for i in range(20))
    found = Comparison((result,), class_names=names, class_counts=counts.sum(axis=1))
    text = write_report(found, tmp_path / "r.html").read_text("utf-8")
    assert "The most frequent confusions among 20 classes." in text
    assert re.search(r"class 3</th><td[^>]*>class 7</td><td[^>]*>9</td><td[^>]*>23.1%", text)


def test_a_page_of_tables_and_figures(tmp_path):
    with page_style():
        figure = Figure(figsize=(4, 2))
        figure.subplots().plot([1, 2], label="x")
    table = Table(
        ["trial", "error", "n"],
        [["first", 0.31, 1200], [HOSTILE, Cell(-0.17, "best"), None], ["x", float("nan"), 3]],
        caption="Three <trials>",
        formats={"error": ".0%"},
        folded="open me",
        note="A note.",
    )
    path = tmp_path / "page.html"
    path.write_text("old")
    sections = [("Errors", ["A & B", table, Picture(figure, "A caption")])]
    facts = [("error", "17%", "of all")]
    text = write_page(path, "Trials", sections, lead="Good.", facts=facts).read_text("utf-8")
    for part in (
        "<title>Trials</title>",
        "<p>A &amp; B</p>",
        "Three &lt;trials&gt;",
        "<summary>open me</summary>",
        ">31%</td>",
        ">\u221217%</td>",
        ">1,200</td>",
        ">–</td>",
        "<figcaption>A caption</figcaption>",
        "<strong>17%</strong>",
    ):
        assert part in text
    assert len(pictures(text)) == 1
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (Table(["a", "b"], [[1]]), "Row 0 has 1 cells for 2 columns"),
        (Table(["a"], [[1]], formats={"z": ".1f"}), r"formats has \['z'\], but the columns are"),
    ],
)
def test_tables_that_do_not_fit_are_refused(tmp_path, table, message):
    with pytest.raises(ValueError, match=message):
        write_page(tmp_path / "p.html", "t", [("s", [table])])
    assert not list(tmp_path.iterdir())


BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)

#: Runs in a page around the report: sorts the first table and writes what it measured.
PROBE = """<!DOCTYPE html><body style="margin:0">
<iframe src="report.html" style="width:WIDTHpx;height:900px;border:0"></iframe>
<pre id="out"></pre><script>
document.querySelector('iframe').onload = event => {
  const page = event.target.contentDocument;
  const table = page.querySelectorAll('table.sortable')[1];
  table.tHead.rows[0].cells[1].querySelector('button').click();
  const images = [...page.images];
  document.querySelector('#out').textContent = JSON.stringify([
    page.documentElement.scrollWidth,
    images.filter(i => i.complete && i.naturalWidth > 100).length,
    [...table.tBodies[0].rows].map(r => parseFloat(r.cells[1].textContent)),
    getComputedStyle(page.body).backgroundColor,
  ]);
};
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "light"), (390, "dark")])
def test_in_a_browser(report, tmp_path, width, scheme):
    import json

    shutil.copy(report, tmp_path / "report.html")
    (tmp_path / "probe.html").write_text(PROBE.replace("WIDTH", str(width)))
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    options += [f"--user-data-dir={tmp_path / 'profile'}", "--allow-file-access-from-files"]
    options += ["--virtual-time-budget=5000", "--dump-dom"]
    options += [f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"]
    done = subprocess.run(
        [BROWSER, *options, (tmp_path / "probe.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="out">(.+?)</pre>', done.stdout)
    scroll, n_images, scores, paper = json.loads(found[1])
    assert scroll <= width  # nothing but the cards and tables scrolls sideways
    assert n_images == 6
    assert scores == sorted(scores)
    assert len(scores) == len(METHODS)
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 28)")
