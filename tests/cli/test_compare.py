"""`genmetric compare` and `genmetric demo`."""

import json
import math
import shlex

import pytest

QUICK = ["--methods", "euclidean,standardised,uniform", "--folds", 3, "--repeats", 2]


def pairs(rng, n):
    return rng.normal(size=(n, 2)).tolist()


def test_table_and_advice(genmetric, wine):
    done = genmetric("compare", wine, "-t", "cultivar", "--id", "name", *QUICK)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "wine.csv: 178 rows, 13 features, 3 classes, 3 folds, 2 times"
    for name in ("Euclidean ", "Euclidean, standardised", "M^UNI"):
        assert sum(line.startswith(name) for line in lines) == 1
    assert lines[-1]


def test_json(genmetric, wine):
    done = genmetric("compare", wine, "-t", "cultivar", "--id", "name", "--json", *QUICK)
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out, parse_constant=pytest.fail)
    assert found["classes"] == {"class 0": 59, "class 1": 71, "class 2": 48}
    assert [len(m["errors"]) for m in found["methods"]] == [6, 6, 6]
    assert found["best"] == "M^UNI"
    assert found["methods"][2]["error"] < found["methods"][0]["error"]
    assert found["error_by_k"]["M^UNI"]["k"][0] == 1


def test_the_next_command_works(genmetric, tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "two classes.csv"
    lines = [
        f"{3 * (i % 2) + a!r},{1e4 * b!r},0,{i % 2}" for i, (a, b) in enumerate(pairs(rng, 300))
    ]
    path.write_text("a,b,c,the class\n" + "\n".join(lines) + "\n")
    words = ["--ignore", "c", "--methods", "euclidean,uniform", "--folds", 5, "--repeats", 2]
    done = genmetric("compare", path.name, "-t", "the class", *words)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1].startswith("Use M^UNI")
    assert done.err.startswith("Next: genmetric fit 'two classes.csv' --target 'the class'")
    words = shlex.split(done.err.removeprefix("Next: genmetric "))
    assert genmetric(*words, "-q").code == 0
    assert (tmp_path / "model.gm").exists()


def test_missing_values_with_impute(genmetric, wine, tmp_path):
    path = tmp_path / "gaps.csv"
    lines = wine.read_text().splitlines()
    cells = lines[5].split(",")
    lines[5] = ",".join([*cells[:3], "", *cells[4:]])
    path.write_text("\n".join(lines) + "\n")
    words = ["compare", path, "-t", "cultivar", "--id", "name", *QUICK]
    assert "has no value in data row 5" in genmetric(*words).err
    done = genmetric(*words, "--impute")
    assert done.code == 0, done.err


def test_what_is_skipped_is_told(genmetric, two_classes):
    done = genmetric(
        "compare", two_classes(2000), "-t", "y", "--methods", "standardised,nca,mkl", "--folds", 2,
        "--time-limit", 0.5,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "skipped: its Gram matrices would take" in done.out
    assert "NCA" in done.out


def test_unknown_methods(genmetric, wine):
    done = genmetric("compare", wine, "-t", "cultivar", "--methods", "euclidean,magic")
    assert done.code == 2
    assert "no method 'magic'; there are " in done.err
    assert done.err.count("\n") == 1


def test_report(genmetric, wine, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    page = tmp_path / "r.html"
    words = ["compare", wine, "-t", "cultivar", "--id", "name", "--report", page]
    done = genmetric(*words, *QUICK)
    assert done.code == 0, done.err
    text = page.read_text("utf-8")
    for part in ("proline", "class 1", "M^UNI", "wine.csv"):
        assert part in text or part.replace("^", "") in text
    assert page.stat().st_size < 1e6
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_names_of_a_table_are_escaped(genmetric, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    data, page = tmp_path / "t.csv", tmp_path / "r.html"
    lines = [f"{i % 7},{i % 5},{'<b>u</b>' if i % 7 > 3 else 'v'}" for i in range(60)]
    data.write_text("<script>alert(1)</script>,b,y\n" + "\n".join(lines) + "\n")
    done = genmetric("compare", data, "-t", "y", "--report", page, *QUICK)
    assert done.code == 0, done.err
    text = page.read_text("utf-8")
    assert "<script>alert(1)" not in text
    assert "<b>u</b>" not in text


@pytest.fixture
def small_demo(monkeypatch):
    monkeypatch.setattr("genmetric.cli.demo.DATASETS", ("wine",))
    monkeypatch.setattr("genmetric.cli.demo.REPORTED", "iris")
    monkeypatch.setattr("genmetric.cli.demo.SPLITS", 2)


@pytest.mark.usefixtures("small_demo")
def test_demo(genmetric, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    page = tmp_path / "demo.html"
    done = genmetric("demo", "-o", page)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    wine = next(line for line in lines if line.startswith("wine")).split()
    assert wine[1:4] == ["178", "13", "3"]
    euclidean, standardised, learned = map(float, wine[4:7])
    assert learned <= standardised < euclidean
    assert math.isfinite(float(wine[8]))
    assert page.exists()


@pytest.mark.usefixtures("small_demo")
def test_demo_without_a_page(genmetric, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert genmetric("demo", "--no-report").code == 0
    assert not list(tmp_path.iterdir())
