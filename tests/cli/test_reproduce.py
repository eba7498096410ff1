"""The commands reproduce and datasets."""

import json

import pytest

from genmetric.reproduction import TABLES


def test_a_part_of_a_table_end_to_end(genmetric, tmp_path):
    words = ["reproduce", "small", "--datasets", "iris", "--methods", "euclidean,uni"]
    words += ["--splits", 2, "--output", tmp_path / "study", "--jobs", 1]
    done = genmetric(*words)
    assert done.code == 0, done.err
    assert "M^UNI" in done.out
    assert f"Written: {tmp_path}" in done.out
    lines = (tmp_path / "study" / "scores.jsonl").read_text().splitlines()
    found = {(score["method"], score["split"]) for score in map(json.loads, lines)}
    assert found == {(method, split) for method in ("euclidean", "uni") for split in (0, 1)}
    assert genmetric(*words, "--no-run").code == 0
    assert (tmp_path / "study" / "scores.jsonl").read_text().splitlines() == lines


def test_missing_datasets_and_failures_are_reported(genmetric, tmp_path, monkeypatch):
    def run_tables(*_, progress, **__):
        progress("heart is left out: no file", 0.0)
        progress("iris, lda, split 0", 0.5)
        return [tmp_path / "small.md"], 1

    monkeypatch.setattr("genmetric.reproduction.pages.run_tables", run_tables)
    done = genmetric("reproduce", "small", "--output", tmp_path)
    assert (done.code, done.err) == (1, "heart is left out: no file\n")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["huge"], f"no table 'huge'; the tables are {', '.join(TABLES)} and all."),
        (["small", "--datasets", ","], "expected one or more names separated by commas"),
        (["small", "--datasets", "absent"], "absent"),
        (["small", "--methods", "absent"], "absent"),
    ],
)
def test_invalid_words(genmetric, tmp_path, words, error):
    done = genmetric("reproduce", *words, "--output", tmp_path / "study")
    assert (done.code, done.out) == (2, "")
    assert error in done.err
    assert done.err.count("\n") == 1
    assert not list(tmp_path.glob("study/*.*"))


def test_interruption_says_how_to_continue(genmetric, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("genmetric.reproduction.pages.run_tables", stop)
    done = genmetric("reproduce", "small", "--output", tmp_path)
    assert done.code == 130
    assert "run the command again to continue" in done.err


def test_datasets_are_listed(genmetric, tmp_path, monkeypatch):
    monkeypatch.delenv("GENMETRIC_DATA", raising=False)
    done = genmetric("datasets")
    assert done.code == 0, done.err
    assert "vehicle" in done.out
    assert "OpenML, or heart.csv.gz in --data-dir" in done.out
    assert genmetric("datasets", "--data-dir", tmp_path / "absent").code == 2
