"""Small files with large contents: sizes are known before anything is decoded."""

import json

import numpy as np
import pytest

from genmetric.tables import TableError, plan_columns, read_table
from genmetric.tables._arrow_sizes import largest_batch_bytes
from genmetric.tables._decoded import (
    BATCH_BYTES,
    LIST_OBJECT_BYTES,
    LONG_TEXT,
    MAX_TEXT_LENGTH,
    TEXT_OBJECT_BYTES,
    row_sizes,
)
from genmetric.tables._reading import frame_batches, open_table, read_sample
from genmetric.tables._table_sample import TooLargeError

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
parquet = pytest.importorskip("pyarrow.parquet")

N_ROWS = 600
LONG = "lorem ipsum " * 8_000


def long_texts(kind):
    """Return texts of 100 KB: one in a dictionary, one that repeats, or all different."""
    if kind == "dictionary":
        return pa.DictionaryArray.from_arrays(pa.array(np.arange(N_ROWS) % 2), [LONG, LONG + "z"])
    return pa.array([f"{i}{LONG}" if kind == "distinct" else LONG for i in range(N_ROWS)])


@pytest.fixture(params=["dictionary", "repeated", "distinct"])
def long_file(request, tmp_path):
    table = pa.table(
        {
            "x": np.arange(N_ROWS) / 7,
            "t": long_texts(request.param),
            "y": ["a", "b"] * (N_ROWS // 2),
        }
    )
    path = tmp_path / "table.parquet"
    parquet.write_table(table, path, compression="zstd", use_dictionary=request.param != "distinct")
    assert path.stat().st_size < 200_000
    return path


def test_long_texts_are_left_out_with_the_reason(long_file):
    table = open_table(long_file)
    sample = read_sample(table, memory=4 << 20)
    assert sample.left_out == {"t": LONG_TEXT}
    assert len(sample.frame) == N_ROWS
    assert sample.frame["t"].isna().all()
    plan = plan_columns(sample.frame, target="y", left_out=sample.left_out)
    assert plan.features == ("x",)
    assert f"t ({LONG_TEXT})" in str(plan)


def test_batches_have_bounded_decoded_size_and_all_texts(long_file):
    seen = []
    for batch in open_table(long_file).batches():
        assert row_sizes(batch).sum() <= BATCH_BYTES
        assert batch.nbytes <= BATCH_BYTES
        seen += batch.column("t").to_pylist()
    assert len(seen) == N_ROWS
    assert all(LONG in text for text in seen)


def test_long_texts_in_asked_for_roles_are_errors(long_file):
    sample = read_sample(open_table(long_file))
    with pytest.raises(TableError, match="the target 't' contains texts of more than 4096"):
        plan_columns(sample.frame, target="t", left_out=sample.left_out)
    with pytest.raises(TableError, match="'t' cannot be read as a category: it contains texts"):
        plan_columns(sample.frame, target="y", as_category=["t"], left_out=sample.left_out)
    with pytest.warns(UserWarning, match="column 't' contains texts .* returned empty"):
        read_table(long_file)


def test_long_texts_of_a_frame_are_left_out_too():
    limit = "é" * MAX_TEXT_LENGTH
    frame = pd.DataFrame({"x": [1.0, 2.5] * 20, "t": ["u", limit] * 20, "y": ["a", "b"] * 20})
    assert plan_columns(frame, target="y").features == ("x", "t")
    frame["t"] += "é"
    assert plan_columns(frame, target="y").features == ("x",)
    with pytest.raises(TableError, match="the target 't' contains texts of more than"):
        plan_columns(frame, target="t")


def test_a_long_text_that_comes_late_empties_the_earlier_cells(tmp_path, monkeypatch):
    monkeypatch.setattr("genmetric.tables._blocks.BLOCK_BYTES", 4096)
    rows = [f"{i / 7},{'w' if i < 900 else 'w' * 5000},{'ab'[i % 2]}" for i in range(1000)]
    path = tmp_path / "table.csv"
    path.write_text("x,t,y\n" + "\n".join(rows) + "\n")
    sample = read_sample(open_table(path))
    assert sample.left_out == {"t": LONG_TEXT}
    assert sample.frame["t"].isna().all()
    assert sample.frame["x"].tolist() == [i / 7 for i in range(1000)]


def test_columns_that_cannot_be_features_are_not_decoded(tmp_path):
    table = pa.table(
        {
            "x": [1.0, 2.0],
            "words": [["a"], ["b", "c"]],
            "nested": [{"a": 1}, {"a": 2}],
            "image": [b"x", b"y"],
            "matrix": [[[1.0]], [[2.0]]],
            "vector": [[1.0, 2.0], [3.0, 4.0]],
        }
    )
    parquet.write_table(table, tmp_path / "table.parquet")
    feather = pytest.importorskip("pyarrow.feather")
    feather.write_feather(table, tmp_path / "table.feather")
    for name in ("table.parquet", "table.feather"):
        sample = read_sample(open_table(tmp_path / name))
        assert list(sample.left_out) == ["words", "nested", "image", "matrix"]
        assert list(sample.frame.columns) == table.column_names
        assert sample.frame["vector"][1].tolist() == [3.0, 4.0]
    batches = list(frame_batches(open_table(tmp_path / "table.parquet"), ["nested", "x"]))
    assert batches[0]["nested"].tolist() == [{"a": 1}, {"a": 2}]


def test_sizes_of_rows():
    words = ["a", None, "ccc"]
    table = pa.table(
        {
            "text": words,
            "codes": pa.array(words).dictionary_encode(),
            "vector": pa.array([[1, 2], None, [3]], pa.list_(pa.int8())),
            "fixed": pa.array([[1, 2]] * 3, pa.list_(pa.int8(), 2)),
        }
    )
    lengths = np.array([1, 0, 3])
    expected = 2 * (TEXT_OBJECT_BYTES + lengths) + 2 * LIST_OBJECT_BYTES
    expected = expected + 8 * np.array([2, 0, 1]) + 16
    np.testing.assert_array_equal(row_sizes(table), expected)


@pytest.mark.parametrize("compression", ["zstd", "lz4", "uncompressed"])
def test_sizes_of_record_batches(tmp_path, compression):
    feather = pytest.importorskip("pyarrow.feather")
    words = pa.array(["a" * 1000, "b"] * 500)
    table = pa.table({"x": np.arange(1000.0), "t": words, "c": words.dictionary_encode()})
    path = tmp_path / "table.feather"
    feather.write_feather(table, path, compression=compression, chunksize=400)
    with pa.ipc.open_file(str(path)) as reader:
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
    expected = max(
        sum(b.size for column in batch.columns for b in column.buffers() if b is not None)
        for batch in batches
    )
    assert largest_batch_bytes(path) == pytest.approx(expected, rel=0.02)


def test_a_record_batch_that_does_not_fit_is_refused(tmp_path):
    feather = pytest.importorskip("pyarrow.feather")
    path = tmp_path / "table.feather"
    feather.write_feather(pa.table({"t": [LONG] * 100}), path, compression="zstd")
    with pytest.raises(TableError, match=r"a record batch has 9.2 MB .* Save the table as Parquet"):
        open_table(path, memory=16 << 20)


def test_vectors_that_do_not_fit_are_refused_without_decoding_all(tmp_path):
    zeros = pa.array(np.zeros(100 * 10_000, np.int8))
    vectors = pa.ListArray.from_arrays(pa.array(np.arange(101) * 10_000, pa.int32()), zeros)
    path = tmp_path / "table.parquet"
    parquet.write_table(pa.table({"v": vectors, "y": ["a", "b"] * 50}), path)
    assert path.stat().st_size < 10_000
    table = open_table(path)
    assert table.row_bytes["v"] == pytest.approx(10_000)
    with pytest.raises(TooLargeError, match=r"\d+ rows fit the memory budget of 1.0 MB"):
        read_sample(table, max_rows=100, memory=1 << 20)


def test_features_of_categories_count(tmp_path):
    path = tmp_path / "table.csv"
    cells = (f"c{i % 100},{'ab'[i % 2]}" for i in range(1000))
    path.write_text("t,y\n" + "\n".join(cells) + "\n")
    sample = read_sample(open_table(path), max_rows=1000, memory=1 << 20)
    plan = plan_columns(sample.frame, target="y")
    assert plan.n_features == 100
    fewer = sample.fitting(plan.n_features, 1 << 20, 0)
    assert len(fewer.frame) == (1 << 20) // (4 * 8 * 100)
    assert "do not fit the memory budget of 1.0 MB" in fewer.notes[-1]
    assert fewer.frame["t"].tolist() == [f"c{row % 100}" for row in fewer.row_numbers]
    assert sample.fitting(plan.n_features, 1 << 24, 0) is sample
    with pytest.raises(TooLargeError, match=r"3 rows of 10000 features .* fewer than 20"):
        sample.fitting(10_000, 1 << 20, 0)


def test_frames_are_smaller_if_rows_have_many_features(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x\n" + "1\n" * 1000)
    sizes = [len(f) for f in frame_batches(open_table(path), n_features=BATCH_BYTES // 800)]
    assert sizes == [100] * 10


def test_json_arrays_are_limited_by_the_size_of_their_objects(tmp_path):
    path = tmp_path / "table.json"
    path.write_text(json.dumps([{"a": 1}] * 10_000))
    assert len(read_sample(open_table(path, memory=8 << 20)).frame) == 10_000
    with pytest.raises(TooLargeError, match="Save it as JSON lines"):
        open_table(path, memory=1 << 20)
