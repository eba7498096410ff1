"""`genmetric compare`: the task, the verdict, the next command."""

import json
import os
import shlex
import subprocess
import sys
import time

import numpy as np
import pytest

FEW = ["--methods", "majority,standardised,uniform", "--folds", 3, "--repeats", 2]


def test_first_lines_verdict_and_a_next_command_that_works(genmetric, wine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = genmetric("compare", wine, "-t", "cultivar", "--id", "name", "--drop", "ash", *FEW)
    assert (done.code, done.err) == (0, "")
    first, second, *_ = done.out.splitlines()
    assert first == "target cultivar: 3 classes (class 0, class 1, class 2)"
    assert second.startswith("wine.csv: 178 samples, 12 features, 3 classes")
    assert "left out    name (on request), ash (on request)" in done.out
    assert "generative metric (generative)" in done.out
    step = done.out.rpartition("Next: ")[2]
    words = shlex.split(step)
    assert words[:2] == ["genmetric", "fit"]
    assert "--drop" in words
    assert genmetric(*words[1:]).code == 0
    assert genmetric("predict", "model.gm", wine).code == 0


def test_json_has_scores_and_messages(genmetric, wine):
    done = genmetric("compare", wine, "-t", "cultivar", *FEW, "--json")
    found = json.loads(done.out)
    assert (found["task"], found["scoring"], found["target"]) == (
        *("classification", "error", "cultivar"),
    )
    scores = {entry["key"]: entry["score"] for entry in found["results"]}
    assert scores["generative"] < 0.05 < scores["majority"]
    assert any("name (an identifier" in note for note in found["notes"])
    assert isinstance(found["warnings"], list)


def test_numbers(genmetric, numbers):
    words = ["--methods", "mean,standardised,regression", "--folds", 3, "--repeats", 1]
    done = genmetric("compare", numbers, "-t", "y", *words)
    assert done.code == 0, done.err
    assert done.out.startswith("target y: a number, 59 distinct values in 60 rows (--task class")
    assert "R²" in done.out
    done = genmetric("compare", numbers, "-t", "y", *words, "--score", "mae", "--json")
    assert json.loads(done.out)["scoring"] == "mae"


def test_the_task_can_be_stated(genmetric, tmp_path):
    path = tmp_path / "t.csv"
    rows = "".join(f"{i % 17},{i % 20}\n" for i in range(100))
    path.write_text(f"a,y\n{rows}")
    done = genmetric("compare", path, "-t", "y", "--dry-run")
    assert done.out.startswith("target y: a number, 20 distinct values")
    done = genmetric("compare", path, "-t", "y", "--dry-run", "--task", "classification")
    assert done.out.startswith("target y: 20 classes")
    done = genmetric("compare", path, "-t", "y", "--dry-run", "--task", "regression")
    assert done.out.startswith("target y: a number")


def test_methods_can_be_added(genmetric, wine):
    words = ["--methods", "euclidean", "--add", "lda,nca", "--folds", 2, "--repeats", 1]
    done = genmetric("compare", wine, "-t", "cultivar", *words, "--json")
    keys = [entry["key"] for entry in json.loads(done.out)["results"]]
    assert keys == ["euclidean", "lda", "nca"]
    done = genmetric("compare", wine, "-t", "cultivar", "--add", "mlkr")
    assert done.code == 2
    assert "methods for classification are" in done.err


@pytest.fixture
def subjects(tmp_path):
    """20 subjects with one diagnosis each, which the features tell from each other only."""
    rng = np.random.default_rng(0)
    path = tmp_path / "subjects.csv"
    lines = ["subject,when,a,b,y"]
    for i in range(120):
        subject = i % 20
        a, b = 10 * np.random.default_rng(subject).normal(size=2) + rng.normal(size=2)
        day = f"2024-{1 + i // 28:02}-{1 + i % 28:02}"
        lines.append(f"s{subject},{day},{a:.3f},{b:.3f},{'uv'[subject % 2]}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_column_of_subjects_is_left_out_also_by_the_next_command(genmetric, subjects):
    words = ["--methods", "standardised,uniform", "--repeats", 1]
    done = genmetric("compare", subjects, "-t", "y", *words)
    assert done.code == 0, done.err
    assert "Warning: each value of the column 'subject' belongs to one class" in done.out
    assert "--drop subject --method" in done.out


@pytest.mark.parametrize(("option", "name"), [("--group", "subject"), ("--time", "when")])
def test_groups_and_times_make_the_folds(genmetric, subjects, option, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["--methods", "euclidean,standardised,uniform", option, name]
    done = genmetric("compare", subjects, "-t", "y", *words, "--repeats", 1)
    assert done.code == 0, done.err
    assert f"by {'groups' if option == '--group' else 'blocks of time'}" in done.out
    step = shlex.split(done.out.rpartition("Next: ")[2])
    assert ["--drop", name] == step[step.index("--drop") :][:2] or name in step
    assert genmetric(*step[1:]).code == 0
    done = genmetric("compare", subjects, "-t", "y", option, "absent")
    assert done.code == 2
    assert "there is no column 'absent'" in done.err


def test_time_limit_stops_between_folds(genmetric, wine):
    done = genmetric("compare", wine, "-t", "cultivar", "--time-limit", 0.1)
    assert done.code == 0, done.err
    assert "Incomplete: 1 of " in done.out


def test_interruption_keeps_the_folds_that_are_done(genmetric, wine, monkeypatch):
    from genmetric.comparison import Method

    original, calls = Method.fit, []

    def fit(self, *arguments, **options):
        calls.append(self.key)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(self, *arguments, **options)

    monkeypatch.setattr(Method, "fit", fit)
    done = genmetric("compare", wine, "-t", "cultivar", *FEW)
    assert done.code == 130
    assert "Incomplete: 1 of 6 folds were done when it was interrupted" in done.out
    calls[:] = [""] * 3
    done = genmetric("compare", wine, "-t", "cultivar", *FEW)
    assert (done.code, done.out) == (130, "")


def test_report(genmetric, wine, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "report.html"
    words = ["--id", "name", "--report", path, "--methods", "standardised,uniform", "--repeats", 1]
    done = genmetric("compare", wine, "-t", "cultivar", *words)
    assert done.code == 0, done.err
    assert done.err == f"{path} written.\n"
    page = path.read_text("utf-8")
    assert "genmetric fit" in page
    assert "genmetric compare" in page
    assert "w17" in page or "w1" in page


def test_standard_input(genmetric, wine, monkeypatch):
    with wine.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        done = genmetric("compare", "-", "-t", "cultivar", *FEW)
    assert done.code == 0, done.err
    assert "standard input: 178 samples" in done.out


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_standard_input_leaves_nothing_behind(two_classes, tmp_path):
    """Neither a warning about an open file, nor a copy of the input after a kill."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONWARNINGS": "always"}
    command = [sys.executable, "-X", "dev", "-m", "genmetric", "compare", "-", "-t", "y"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment}
    text = two_classes(3000).read_bytes()
    few = ["--methods", "euclidean,standardized", "--rows", "100", "--repeats", "1"]
    done = subprocess.run([*command, *few], input=text, check=True, **options)
    assert b"ResourceWarning" not in done.stderr
    with subprocess.Popen([*command, "-q"], stdin=subprocess.PIPE, **options) as running:
        running.stdin.write(text)
        running.stdin.close()
        time.sleep(1.5)
        running.kill()
    assert list(temporary.iterdir()) == []


def test_rows_are_sampled(genmetric, two_classes):
    done = genmetric("compare", two_classes(), "-t", "y", "--rows", 200, *FEW)
    assert "a random sample of 200 of 2000 rows is used" in done.out


def test_demo(genmetric, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("genmetric.cli.compare.DATASETS", ("wine", "iris"))
    done = genmetric("demo", "-o", tmp_path / "demo.html", "--time-limit", 0.1)
    assert done.code == 0, done.err
    assert "wine           178            13 " in done.out
    assert "iris: 150 samples" in done.out
    assert (tmp_path / "demo.html").exists()
