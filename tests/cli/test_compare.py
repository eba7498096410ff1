"""`genmetric compare` and `genmetric demo`."""

import io
import json
import re
import shlex

import pytest

QUICK = ["--methods", "euclidean,standardised,uniform", "--folds", 3, "--repeats", 2]


def pairs(rng, n):
    return rng.normal(size=(n, 2)).tolist()


def test_table_and_advice(genmetric, wine):
    done = genmetric("compare", wine, "-t", "cultivar", "--id", "name", *QUICK)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "wine.csv: 178 samples, 13 features, 3 classes, 3 folds, 2 repeats"
    for name in (
        "Euclidean distance (euclidean)",
        "Euclidean distance, standardised (",
        "generative metric",
    ):
        assert sum(line.startswith(name) for line in lines) == 1
    assert lines[-1]


def test_json(genmetric, wine):
    done = genmetric("compare", wine, "-t", "cultivar", "--id", "name", "--json", *QUICK)
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out, parse_constant=pytest.fail)
    assert found["classes"] == {"class 0": 59, "class 1": 71, "class 2": 48}
    assert [len(m["scores"]) for m in found["methods"]] == [6, 6, 6]
    assert found["best"] == "generative metric"
    assert found["methods"][2]["score"] < found["methods"][0]["score"]
    assert found["error_by_k"]["generative metric"]["k"][0] == 1


def test_the_next_command_works(genmetric, tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "two classes.csv"
    lines = [
        f"{3 * (i % 2) + a!r},{1e4 * b!r},0,{i % 2}" for i, (a, b) in enumerate(pairs(rng, 300))
    ]
    path.write_text("a,b,c,the class\n" + "\n".join(lines) + "\n")
    words = ["--drop", "c", "--methods", "euclidean,uniform", "--folds", 5, "--repeats", 2]
    done = genmetric("compare", path.name, "-t", "the class", *words)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1].startswith("Use generative metric (method 'uniform')")
    assert done.err.startswith("Next: genmetric fit 'two classes.csv' --target 'the class'")
    words = shlex.split(done.err.removeprefix("Next: genmetric "))
    assert genmetric(*words, "-q").code == 0
    assert (tmp_path / "model.gm").exists()


def test_missing_values_are_imputed(genmetric, wine, tmp_path):
    path = tmp_path / "gaps.csv"
    lines = wine.read_text().splitlines()
    cells = lines[5].split(",")
    lines[5] = ",".join([*cells[:3], "", *cells[4:]])
    path.write_text("\n".join(lines) + "\n")
    words = ["compare", path, "-t", "cultivar", "--id", "name", *QUICK]
    done = genmetric(*words)
    assert done.code == 0, done.err
    assert " 1: imputed by the mean\n" in done.err
    assert " (1)." in genmetric(*words, "--strict").err


def test_skipped_methods_have_a_reason(genmetric, two_classes):
    done = genmetric(
        "compare", two_classes(2000), "-t", "y", "--methods", "standardised,nca,mkl", "--folds", 2,
        "--time-limit", 0.5,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert re.search(r"regional kernels \(mkl\) +skipped\n  \(its Gram matrices need", done.out)
    assert "NCA" in done.out


def test_exit_code_without_a_result(genmetric, two_classes):
    done = genmetric(
        "compare", two_classes(400), "-t", "y", "--methods", "majority,nca", "--folds", 2,
        "--time-limit", 0.1,
    )  # fmt: skip
    assert done.code == 1
    assert "raise the time limit to" in done.out
    assert "Raise the time limit" in done.out.splitlines()[-1]


def test_unknown_methods(genmetric, wine):
    done = genmetric("compare", wine, "-t", "cultivar", "--methods", "euclidean,magic")
    assert done.code == 2
    assert "unknown method 'magic'; expected one of " in done.err
    assert done.err.count("\n") == 1


def test_report(genmetric, wine, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    page = tmp_path / "r.html"
    words = ["compare", wine, "-t", "cultivar", "--id", "name", "--report", page]
    done = genmetric(*words, *QUICK)
    assert done.code == 0, done.err
    text = page.read_text("utf-8")
    for part in ("proline", "class 1", "generative metric", "wine.csv"):
        assert part in text
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
    monkeypatch.setattr("genmetric.cli._demo.DATASETS", ("wine",))
    monkeypatch.setattr("genmetric.cli._demo.REPORTED", "iris")
    monkeypatch.setattr("genmetric.cli._demo.SPLITS", 2)


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
    assert page.exists()


@pytest.mark.usefixtures("small_demo")
def test_demo_without_a_report(genmetric, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = genmetric("demo", "--no-report", "--time-limit", 600)
    assert done.code == 0
    assert "skipped" not in done.out
    assert not list(tmp_path.iterdir())


def test_method_is_accepted_as_methods(genmetric, wine):
    words = ["compare", wine, "-t", "cultivar", "--id", "name", "--folds", 2, "--repeats", 1]
    for option in (["--method", "standardised"], ["--method=standardised"]):
        done = genmetric(*words, *option, "--json")
        assert done.code == 0, done.err
        assert [m["method"] for m in json.loads(done.out)["methods"]] == ["standardised"]
    assert "--method " not in genmetric("compare", "--help").out
    done = genmetric(*words, "--method", "lmn")
    assert done.code == 2
    assert done.err.endswith("Did you mean lmnn?\n")


def test_scoring(genmetric, wine):
    words = ["compare", wine, "-t", "cultivar", "--id", "name", "--scoring", "roc_auc"]
    done = genmetric(*words, "--methods", "majority,standardised", "--folds", 2, "--repeats", 1)
    assert done.code == 0, done.err
    assert "ROC AUC" in done.out
    row = next(line for line in done.out.splitlines() if line.startswith("majority "))
    assert "0.5000 ± 0.0000" in row
    done = genmetric(*words[:-1], "magic")
    assert done.code == 2
    assert "unknown scoring 'magic'; expected one of error, balanced_error" in done.err
    assert genmetric(*words[:-1], "auc").err.endswith("Did you mean roc_auc?\n")
    assert genmetric(*words[:-1], "accuracy").err.endswith("Use error (100% minus accuracy).\n")


def test_keys_of_scorings_and_methods_are_those_of_the_registries():
    from genmetric.cli._choices import DISTANCE_KEYS, METHOD_KEYS, SCORING_ADVICE, SCORING_KEYS
    from genmetric.comparison import METHODS, SCORINGS

    assert list(METHOD_KEYS) == list(METHODS)
    assert list(DISTANCE_KEYS) == [key for key, method in METHODS.items() if method.distance]
    assert list(SCORING_KEYS) == list(SCORINGS)
    assert not SCORING_ADVICE.keys() & SCORINGS.keys()


def test_a_new_method_reaches_compare_and_fit(genmetric, wine, tmp_path, register, monkeypatch):
    from sklearn.decomposition import PCA

    from genmetric.comparison import Method

    toy = Method(
        "toy",
        "three components",
        "Nearest neighbours on three principal components.",
        metric=lambda seed: PCA(3, random_state=seed),
    )
    register(toy)
    words = [wine, "-t", "cultivar", "--id", "name"]
    done = genmetric("compare", *words, "--methods", "standardised,toy", "--folds", 3)
    assert done.code == 0, done.err
    assert "three components" in done.out
    saved = []
    monkeypatch.setattr("genmetric.files.save", lambda model, *_, **__: saved.append(model))
    done = genmetric("fit", *words, "-m", "toy", "-o", tmp_path / "m.gm")
    assert done.code == 0, done.err
    assert isinstance(saved[0]["metric"], PCA)
    for command in ("compare", "fit"):
        assert "three components. Nearest" in " ".join(genmetric(command, "--help").out.split())


def test_methods_that_are_not_distances_cannot_be_fitted(genmetric, wine, tmp_path):
    words = [wine, "-t", "cultivar", "--id", "name", "-m", "boosting", "-o", tmp_path / "m.gm"]
    done = genmetric("fit", *words)
    assert done.code == 2
    assert "unknown method 'boosting'; expected one of euclidean" in done.err
    assert (
        "boosting is not a distance: `genmetric compare` shows it for reference only." in done.err
    )


def test_an_interrupt_prints_what_is_finished(genmetric, wine, register):
    from genmetric.comparison import Method

    def interrupt(_):
        raise KeyboardInterrupt

    register(Method("toy", "toy", "Stops.", predictor=interrupt))
    words = ["compare", wine, "-t", "cultivar", "--id", "name", "--folds", 3]
    done = genmetric(*words, "--methods", "standardised,toy,uniform")
    assert done.code == 130
    assert "Euclidean distance, standardised (standardised) " in done.out
    assert "Keep Euclidean distance, standardised" in done.out
    assert done.err == "Interrupted: 1 of 3 methods finished.\n"


def test_an_interrupt_writes_the_report_of_what_is_finished(genmetric, wine, register, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    from genmetric.comparison import Method

    def interrupt(_):
        raise KeyboardInterrupt

    register(Method("toy", "toy", "Stops.", predictor=interrupt))
    page = tmp_path / "r.html"
    words = ["compare", wine, "-t", "cultivar", "--id", "name", "--folds", 3, "--report", page]
    done = genmetric(*words, "--methods", "standardised,toy,uniform")
    assert done.code == 130
    assert done.err == f"{page} written.\nInterrupted: 1 of 3 methods finished.\n"
    text = page.read_text()
    assert "Euclidean distance, standardised" in text
    assert "generative metric" not in text
    # Nothing is complete: there is no report.
    page.unlink()
    assert genmetric(*words, "--methods", "toy,uniform").code == 130
    assert not page.exists()


def test_the_report_has_the_command_with_all_its_options(genmetric, wine, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    page = tmp_path / "r.html"
    words = [wine, "-t", "cultivar", "--id", "name", "--drop", "ash", "--seed", 3]
    done = genmetric("compare", *words, *QUICK, "--report", page)
    assert done.code == 0, done.err
    command = (
        f"genmetric compare {wine} --target cultivar --id name --drop ash --report {page} "
        "--methods euclidean,standardised,uniform --folds 3 --repeats 2 --seed 3"
    )
    assert command in page.read_text("utf-8")
    assert "--target cultivar --id name --drop ash --seed 3 --method standardised" in done.err


@pytest.mark.parametrize(
    "scoring", ["error", "balanced_error", "f1_macro", "log_loss", "r2", "mae"]
)
def test_rows_of_all_methods_fit_80_columns(scoring):
    from genmetric.comparison import METHODS, SCORINGS
    from genmetric.comparison._text import keyed_label, table_layout

    task = SCORINGS[scoring].task
    names = [keyed_label(m.label, m.key, m.distance) for m in METHODS.values() if task in m.tasks]
    narrow, wide = (table_layout(names, SCORINGS[scoring], width) for width in (80, 120))
    assert narrow.times >= (scoring != "mae")
    assert narrow.name + 2 + narrow.score + 9 * narrow.times <= 80
    assert wide.times == 2


def test_the_table_of_a_comparison_fits_80_columns(genmetric, two_classes, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    done = genmetric(
        "compare", two_classes(60), "-t", "y", "--methods", "majority,standardised,lda,logistic",
        "--folds", 2, "--repeats", 1,
    )  # fmt: skip
    table = done.out.split("\n\n")[1].splitlines()
    assert [line.split()[0] for line in table] == [
        "method", "majority", "Euclidean", "linear", "logistic"
    ]  # fmt: skip
    assert table[0].split()[-2:] == ["fit", "predict"]
    assert max(map(len, table)) <= 80


def test_long_lines_are_broken_on_a_terminal_only(monkeypatch):
    from genmetric.cli._output import wrapped

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "40")
    lines = ["  numbers     " + ", ".join(f"column_{i}" for i in range(9)), "short"]
    assert wrapped(lines, io.StringIO()) == "\n".join(lines)
    shown = wrapped(lines, Terminal(), indent=12).splitlines()
    assert max(map(len, shown)) <= 40
    assert shown[1].startswith(" " * 14 + "column_")
    assert shown[-1] == "short"
