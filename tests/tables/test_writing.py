"""Tables written and read back."""

import gzip
import io

import numpy as np
import pytest

from genmetric.tables import TableError, read_table
from genmetric.tables._writer import TableWriter, output_format

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


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("t.csv", b"x,"),
        ("t.csv.gz", b"\x1f\x8b"),
        ("t.tsv", b"x\t"),
        ("t.parquet", b"PA"),
        ("t.pq", b"PA"),
        ("t.feather", b"AR"),
        ("t.jsonl", b'{"'),
    ],
)
def test_written_tables_are_read_back(tmp_path, name, first):
    path = write(tmp_path / name, COLUMNS, COLUMNS)
    assert path.read_bytes()[:2] == first
    found = read_table(path)
    for column, values in COLUMNS.items():
        read = [None if value != value else value for value in found[column].tolist()]  # noqa: PLR0124
        assert read == values.tolist() * 2


@pytest.mark.parametrize("name", ["out", "out.xlsx", "out.json.zip", "model.gm"])
def test_unknown_output_formats(name):
    with pytest.raises(TableError, match=r"unknown output format. Expected a name that ends in"):
        output_format(name)


def test_quotes_only_where_they_are_needed():
    out = io.BytesIO()
    with TableWriter(out, "-.csv") as writer:
        writer.write({"a,b": np.array(["u", "v"]), "x": np.array([1.5, 2.5])})
        writer.write({"a,b": np.array(["u, v"]), "x": np.array([0.1])})
    assert out.getvalue().decode() == '"a,b",x\nu,1.5\nv,2.5\n"u, v",0.1\n'
    assert not out.closed


def test_floats_are_exact(tmp_path, rng):
    values = rng.standard_normal(1000) * 10.0 ** rng.integers(-300, 300, 1000)
    path = write(tmp_path / "t.csv", {"x": values})
    assert (read_table(path)["x"].to_numpy() == values).all()


def test_compressed_text_is_plain_gzip(tmp_path):
    path = write(tmp_path / "t.csv.gz", {"x": np.array([1.0, 2.5])})
    assert gzip.decompress(path.read_bytes()).split() == [b"x", b"1", b"2.5"]


def test_text_formats_have_short_numbers():
    values = np.array([0.6190476190476191, 1 / 3e7, 123456.789, 0.0, np.nan, -2.00049])
    shown = TableWriter(io.BytesIO(), "t.csv").short(values)
    np.testing.assert_array_equal(shown, [0.619, 3.333e-8, 123457.0, 0.0, np.nan, -2.0])
    assert repr(float(shown[0])) == "0.619"
    precise = TableWriter(io.BytesIO(), "t.csv").short(np.array([132.57000000000002, 1 / 3]), 10)
    assert precise.tolist() == [132.57, 0.3333333333]
    for name in ("t.parquet", "t.jsonl"):
        assert TableWriter(io.BytesIO(), name).short(values) is values
