"""The commands reproduce and datasets, as their users meet them."""

import pytest
from click.testing import CliRunner

from genmetric.cli import main
from genmetric.cli._datasets import datasets
from genmetric.cli._reproduce import NAMES, reproduce
from genmetric.reproduction._experiments import EXPERIMENTS
from genmetric.reproduction._pages import TABLES
from genmetric.reproduction._store import Store


@pytest.fixture(autouse=True)
def no_data_directory(monkeypatch):
    monkeypatch.delenv("GENMETRIC_DATA", raising=False)


@pytest.fixture
def offline(monkeypatch):
    """No network: OpenML cannot be reached."""

    def refuse(**_):
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", refuse)


def invoke(*words):
    return CliRunner().invoke(reproduce, [str(word) for word in words], standalone_mode=False)


def test_the_names_are_those_of_the_study():
    assert sorted(NAMES) == sorted(TABLES)


def test_a_part_of_a_table_end_to_end(tmp_path):
    words = ["small", "--datasets", "iris,wine", "--methods", "euclidean,uni,uni-e", "--splits", 2]
    words += ["--output", tmp_path, "--jobs", 1]
    done = invoke(*words)
    assert done.exception is None, done.output
    assert done.return_value == 0
    assert "M_E^UNI" in done.stdout
    names = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert names == ["report.html", "results.csv", "scores.jsonl", "small.md"]
    assert len(Store(tmp_path / "scores.jsonl").read()) == 12
    before = (tmp_path / "scores.jsonl").read_bytes()
    assert invoke(*words).return_value == 0
    assert (tmp_path / "scores.jsonl").read_bytes() == before


def test_quick_runs_two_splits_of_a_few_datasets(tmp_path):
    done = invoke("small", "--quick", "--methods", "lda", "--output", tmp_path, "--jobs", 1)
    assert done.return_value == 0, done.output
    keys = Store(tmp_path / "scores.jsonl").read()
    assert {key.problem for key in keys} == set(EXPERIMENTS["small"].quick)
    assert {key.split for key in keys} == {0, 1}


@pytest.mark.usefixtures("offline")
def test_missing_dataset_is_reported_and_others_run(tmp_path):
    done = invoke(
        *("small", "--datasets", "heart,iris", "--methods", "euclidean", "--splits", 1),
        *("--output", tmp_path, "--jobs", 1),
    )
    assert done.return_value == 0, done.output
    assert "heart is left out" in done.stderr
    assert "heart.csv.gz" in done.stderr
    assert {key.problem for key in Store(tmp_path / "scores.jsonl").read()} == {"iris"}


@pytest.mark.usefixtures("offline")
def test_no_dataset_available(tmp_path, capsys):
    words = ["reproduce", "small", "--datasets", "heart", "--output", str(tmp_path)]
    assert main(words) == 2
    assert "none of the datasets" in capsys.readouterr().err


def test_tables_from_stored_scores_only(tmp_path):
    words = ["--datasets", "iris", "--output", tmp_path]
    invoke("small", *words, "--methods", "euclidean", "--splits", 1, "--jobs", 1)
    done = invoke("small", *words, "--no-run")
    assert done.return_value == 0
    assert "Euclidean" in done.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["tiny"], "no table 'tiny'"),
        (["small", "--datasets", "nowhere"], "no 'nowhere'"),
        (["small", "--datasets", "iris,nowhere"], "no 'nowhere'"),
        (["small", "--methods", "magic"], "no 'magic'"),
        (["small", "--splits", "0"], "--splits"),
        (["small", "--datasets", ","], "--datasets"),
        (["small", "--data-dir", "no/such/directory"], "--data-dir"),
    ],
)
def test_invalid_options_give_one_line(words, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert len(error.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("offline")
def test_datasets(tmp_path):
    done = CliRunner().invoke(datasets, [], standalone_mode=False, env={"COLUMNS": "40"})
    assert done.exception is None
    for word in (
        "aquatic_toxicity",
        "three_normal",
        "1500",
        "generated",
        "Bayes error",
        "heart.csv.gz",
        "letter",
    ):
        assert word in done.output
    there = CliRunner().invoke(datasets, ["--data-dir", str(tmp_path)], standalone_mode=False)
    assert there.exception is None


def test_datasets_check():
    done = CliRunner().invoke(datasets, ["--check"], standalone_mode=False)
    assert done.exception is None


@pytest.mark.parametrize("name", ["scores.jsonl", "small.md", "results.csv", "report.html"])
def test_an_output_that_cannot_be_written_is_found_before_computing(
    tmp_path, monkeypatch, capsys, name
):
    (tmp_path / name).mkdir()
    monkeypatch.setattr("genmetric.reproduction._runner.run", pytest.fail)
    words = ["reproduce", "small", "--datasets", "iris", "--output", str(tmp_path)]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert f"{name}: is a folder" in error or f"{name}: is a directory" in error
    assert error.count("\n") == 1


def test_an_output_directory_that_is_a_file(tmp_path, capsys):
    path = tmp_path / "out"
    path.write_text("")
    assert main(["reproduce", "small", "--datasets", "iris", "--output", str(path)]) == 2
    assert str(path) in capsys.readouterr().err
