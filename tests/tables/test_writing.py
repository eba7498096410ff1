"""Tables written and read back."""

import gzip
import io

import numpy as np
import pytest

from genmetric.tables import TableWriter, open_table

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

COLUMNS = {
    "x": np.array([0.1, -1e300, 3.0]),
    "n": np.array([1, 2, 3]),
    "word": np.array(["plain", 'with, "all"\nof it', "é"]),
    "gap": np.array(["u", None, "v"], dtype=object),
}


def write(path, *batches):
    with path.open("wb") as file, TableWriter(file, path.name) as writer:
        for batch in batches:
            writer.write(batch)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.pq"])
def test_what_is_written_is_read_back(tmp_path, name):
    path = write(tmp_path / name, COLUMNS, COLUMNS)
    assert path.read_bytes()[:2] == {"z": b"\x1f\x8b", "v": b"x,"}.get(name[-1], b"PA")
    table = open_table(path)
    kinds = dict.fromkeys(["x", "n"], "number") | dict.fromkeys(["word", "gap"], "text")
    found = pa.Table.from_batches(list(table.batches(kinds)))
    assert found.column("x").to_pylist() == COLUMNS["x"].tolist() * 2
    assert found.column("n").to_pylist() == COLUMNS["n"].tolist() * 2
    assert found.column("word").to_pylist() == COLUMNS["word"].tolist() * 2
    assert found.column("gap").to_pylist() == COLUMNS["gap"].tolist() * 2


def test_quotes_only_where_they_are_needed():
    out = io.BytesIO()
    with TableWriter(out, "-.csv") as writer:
        writer.write({"a,b": np.array(["u", "v"]), "x": np.array([1.5, 2.5])})
        writer.write({"a,b": np.array(["u, v"]), "x": np.array([0.1])})
    assert out.getvalue().decode() == '"a,b",x\nu,1.5\nv,2.5\n"u, v",0.1\n'
    assert not out.closed


def test_floats_lose_nothing(tmp_path, rng):
    values = rng.standard_normal(1000) * 10.0 ** rng.integers(-300, 300, 1000)
    path = write(tmp_path / "t.csv", {"x": values})
    (batch,) = open_table(path).batches({"x": "number"})
    assert (batch.column(0).to_numpy() == values).all()


def test_compressed_text_is_plain_gzip(tmp_path):
    path = write(tmp_path / "t.csv.gz", {"x": np.array([1.0, 2.5])})
    assert gzip.decompress(path.read_bytes()).split() == [b"x", b"1", b"2.5"]
