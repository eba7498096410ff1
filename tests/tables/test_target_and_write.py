"""The target of a table, and files that tables are written to."""

import gzip
import io
import json

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

from genmetric.tables import (  # noqa: E402
    TableError,
    output_format,
    read_table,
    split_target,
    write_table,
)


def split(values, task=None, **options):
    values = list(values)
    frame = pd.DataFrame({"a": np.arange(len(values)) / 7, "y": pd.Series(values)})
    return split_target(frame, "y", task, **options)


@pytest.mark.parametrize(
    ("values", "task", "y"),
    [
        (["u", "v"] * 20, "classification", "u"),
        ([1, 2, 3, 4] * 10, "classification", 1),
        ([1.0, 2.0] * 20, "classification", 1),
        (["1", "2"] * 20, "classification", 1),
        ([0.5, 1.5] * 20, "classification", "0.5"),
        (list(range(10)) * 4, "classification", 0),
        ([True, False] * 20, "classification", True),
        (["yes", "no"] * 20, "classification", "yes"),
        ([">50K", "<=50K"] * 20, "classification", ">50K"),
        (list(range(17)) * 30, "regression", 0.0),
        (list(range(40)), "regression", 0.0),
        ([3, 3, 3, 3, 3, 3, 3, 3, 1, 2, 4, 5, 6, 7], "regression", 3.0),
        ([i / 7 for i in range(40)], "regression", 0.0),
        ([f"{i},5" for i in range(40)], "regression", 0.5),
        ([f"{i} kg" for i in range(40)], "regression", 0.0),
        (["1970-01-11", "2020-05-04", "2021-05-04"] * 20, "regression", 10.0),
        (["1970-01-11", "2020-05-04"] * 20, "classification", "1970-01-11"),
    ],
)
def test_classes_or_numbers(values, task, y):
    X, found, target = split(values)
    assert target.task == task
    assert (found[0], type(found[0].item())) == (y, type(y))
    assert X.columns.tolist() == ["a"]
    if task == "classification":
        assert set(found.tolist()) == set(target.classes)
        assert f"y: {len(target.classes)} classes (" in target.summary
    else:
        assert target.summary.startswith("y: a number, ")
        assert "--task classification" in target.reason
    # Other rows are read by the same decision, also as text.
    text = pd.DataFrame({"y": [str(v) for v in values[:3]]})
    again, present = target.read(text)
    assert present.all()
    assert (again == found[:3]).all()


def test_the_task_can_be_given():
    _, y, target = split(list(range(40)), "classification")
    assert (target.task, y.dtype.kind) == ("classification", "i")
    _, y, target = split([1, 2, 3, 4] * 10, "regression")
    assert (target.task, y.dtype.kind) == ("regression", "f")
    values = [*(f"{i}.5" for i in range(39)), "oops"]
    X, y, target = split(values, "regression")
    assert len(X) == len(y) == 39
    assert "target 'y': 1 cells are not numbers." in target.notes
    with pytest.raises(ValueError, match="task must be 'classification' or 'regression'"):
        split(values, "classes")


def test_dates_are_predicted_as_days():
    _, y, target = split(pd.date_range("1970-01-02", periods=30))
    assert y.tolist() == list(range(1, 31))
    assert target.notes == ("dates are predicted as days since 1970.",)


def test_spellings_of_a_class_are_one():
    _, y, target = split(["yes", "Yes", "no", "yes", "NO", "no"] * 5)
    assert target.classes == ("no", "yes")
    assert set(y) == {"no", "yes"}
    assert target.notes == (
        "classes of 'y' that differ in case are one: 'Yes' as 'yes', 'NO' as 'no'.",
    )
    # Letters in both cases may be different classes.
    assert len(split(list("aAbBcC") * 5)[2].classes) == 6


@pytest.mark.parametrize(
    ("values", "task", "words"),
    [
        ([f"name{i}" for i in range(40)], None, "40 distinct values in 40 rows, so it looks like"),
        (["u"] * 40, None, "has one class, 'u'; at least two"),
        ([[1, 2]] * 40, None, "contains lists"),
        ([None] * 40, None, "has no values"),
        (["u", "v"] * 20, "regression", "different numbers; found no number"),
        ([1, 2] * 20, "regression", "at least 3 different numbers; found 1 and 2"),
    ],
)
def test_invalid_targets(values, task, words):
    with pytest.raises(TableError, match=words):
        split(values, task)


def test_rows_without_a_target_are_not_used():
    X, y, target = split([None, "?", *["u", "v"] * 10])
    assert len(X) == len(y) == 20
    assert X.index.tolist() == list(range(2, 22))
    assert target.n_missing == 2
    assert target.notes == ("2 rows have no target 'y' and are not used (first: row 0).",)
    X, y, target = split([-999.0, *np.arange(40) / 7], na_values=["-999"])
    assert len(y) == 40
    assert target.notes == ("1 row has no target 'y' and is not used (row 0).",)
    frame = read_table(b"a,y\n1,u\n2,\n3,v\n4,u\n")
    assert "(line 3)" in split_target(frame, "y")[2].notes[0]
    X, y, target = split_target(pl.DataFrame({"a": [1, 2, 3], "y": ["u", None, "v"]}), "y")
    assert (len(X), y.tolist()) == (2, ["u", "v"])
    with pytest.raises(TableError, match=r"there is no column 'Y' \(target\). Did you mean 'y'\?"):
        split_target(frame, "Y")


FRAME = pd.DataFrame(
    {
        "x": [1 / 3, np.nan, 1e-300],
        "n": [1, 2, 3],
        "t": ["a,b", 'say "hm"', None],
        "=cmd": ["line\nbreak", "é", "=1+1"],
    }
)


@pytest.mark.parametrize(
    "name",
    [
        *("t.csv", "t.csv.gz", "t.tsv", "t.txt", "t.parquet", "t.pq", "t.feather", "t.arrow"),
        *("t.jsonl", "t.jsonl.gz", "t.ndjson", "T.CSV"),
    ],
)
@pytest.mark.parametrize("in_batches", [False, True])
def test_tables_are_written_and_read_back(tmp_path, name, in_batches):
    path = tmp_path / name
    path.write_text("old")
    write_table((FRAME[i : i + 1] for i in range(3)) if in_batches else FRAME, path)
    found = read_table(path)
    assert found.columns.tolist() == FRAME.columns.tolist()
    for column in FRAME:
        assert found[column].isna().tolist() == FRAME[column].isna().tolist()
        assert found[column].dropna().tolist() == FRAME[column].dropna().tolist()
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_json_has_no_nan_and_gzip_no_time(tmp_path):
    file = io.BytesIO()
    write_table(pd.DataFrame({"x": [np.inf, np.nan, 0.1]}), file, format="jsonl")
    assert [json.loads(line)["x"] for line in file.getvalue().splitlines()] == [None, None, 0.1]
    write_table(FRAME, tmp_path / "a.csv.gz")
    write_table(FRAME, tmp_path / "b.csv.gz")
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).startswith(b"x,n,t,=cmd\n0.333")


def test_nothing_is_left_after_an_error(tmp_path):
    def batches():
        yield FRAME
        raise KeyError("stop")

    for name in ("t.csv", "t.parquet", "t.csv.gz"):
        (tmp_path / name).write_text("old")
        with pytest.raises(KeyError):
            write_table(batches(), tmp_path / name)
        assert (tmp_path / name).read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 3
    for name in ("t.xlsx", "t", "t.parquet.gz"):
        with pytest.raises(TableError, match="unknown output format"):
            output_format(name)
