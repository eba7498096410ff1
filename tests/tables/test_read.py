"""Files with tables: formats, encodings, odd lines, samples, limits and hostile files."""

import bz2
import csv
import datetime as dt
import decimal
import gzip
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")
openpyxl = pytest.importorskip("openpyxl")

from genmetric.tables import (  # noqa: E402
    TableEncoder,
    TableError,
    read_batches,
    read_table,
    row_label,
)

PLAIN = "a,b,y\n1,2.5,u\n3,4,v\n"
ROWS = [[1.0, 2.5, "u"], [3.0, 4.0, "v"]]


def read(text, **options):
    """Read a text or bytes."""
    return read_table(text if isinstance(text, bytes) else text.encode(), **options)


def notes(text, **options):
    return " ".join(read(text, **options).attrs["notes"])


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr("genmetric.tables.read.BLOCK_BYTES", 4096)


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", "|"),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\r"),
        "\ufeff" + PLAIN,
        PLAIN.encode("utf-16"),
        gzip.compress(PLAIN.encode(), mtime=0),
        bz2.compress(PLAIN.encode()),
        pa.compress(PLAIN.encode(), "zstd", asbytes=True),
        '"a","b","y"\n"1","2.5","u"\n"3","4","v"\n',
        " a , b ,y\n 1, 2.5,  u \n3,4,v\n",
        "a,b,y\n\n1,2.5,u\n\n3,4,v\n,,\n",
        "# a comment\n#another\n\na,b,y\n1,2.5,u\n3,4,v\n",
        "Sales\n\na,b,y\n1,2.5,u\n3,4,v\n",
        "Sales,,\n,,\nof 2020,,\na,b,y\n1,2.5,u\n3,4,v\n",
        "a,b,y,\n1,2.5,u,\n3,4,v,\n",
    ],
)
def test_one_table_in_many_forms(content):
    frame = read(content)
    assert frame.columns.tolist()[:3] == ["a", "b", "y"]
    assert frame.iloc[:, :3].to_numpy().tolist() == ROWS


def test_formats_of_files(tmp_path):
    frame = pd.DataFrame({"a": [1.5, 2.5], "c": ["x", "y"], "e": [[1.0, 2.0], [3.0, 4.0]]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.feather")
    lines = "".join(json.dumps(record) + "\n" for record in frame.to_dict("records"))
    (tmp_path / "t.jsonl").write_text(lines)
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    # The content decides, not the name.
    (tmp_path / "t.csv").write_bytes((tmp_path / "t.parquet").read_bytes())
    for path in tmp_path.iterdir():
        for source in (path, str(path), path.read_bytes(), path.open("rb")):
            found = read_table(source)
            assert found["a"].tolist() == [1.5, 2.5], path
            assert found["c"].tolist() == ["x", "y"], path
            assert [list(v) for v in found["e"]] == [[1.0, 2.0], [3.0, 4.0]], path
            if hasattr(source, "close"):
                source.close()


def test_excel(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["nothing here"])
    sheet = book.create_sheet("data")
    rows = [["Report of sales"], [], ["size", "colour", "when\nexactly", 2020]]
    rows += [[1.5, "red", dt.date(2020, 1, 1), 7], [None, "blue", dt.date(2020, 1, 2), 8]] * 2
    for row in rows:
        sheet.append(row)
    other = book.create_sheet("other")
    for row in (["x", "y"], [1, 2], [3, 4]):
        other.append(row)
    book.save(tmp_path / "t.xlsx")
    frame = read_table(tmp_path / "t.xlsx")
    assert frame.columns.tolist() == ["size", "colour", "when exactly", "2020"]
    assert frame["colour"].tolist() == ["red", "blue"] * 2
    assert frame["size"].isna().sum() == 2
    assert frame.attrs["notes"] == [
        "sheet 'data' of 3 is read (--sheet).",
        "1 line above the header is skipped.",
    ]
    assert row_label(frame, 0) == "line 4"
    for sheet in ("other", 3, "3"):
        assert read_table(tmp_path / "t.xlsx", sheet=sheet)["x"].tolist() == [1, 3]
    with pytest.raises(TableError, match=r"no sheet 'x'. The sheets are 'Sheet', 'data', 'other'"):
        read_table(tmp_path / "t.xlsx", sheet="x")


def test_quotes_contain_delimiters_and_lines():
    text = 'a,b,y\n1,2,"u, or\nv"\n3,4,"say ""hm"""\n'
    frame = read(text)
    assert frame["y"].tolist() == ["u, or\nv", 'say "hm"']
    # Lines are not rows in such a file.
    assert row_label(frame, 1) == "row 1"
    assert row_label(read(PLAIN), 1) == "line 3"


def test_headers():
    assert "the first column has no name" in notes("a,b\n1,1,2.5\n2,3,4\n")
    assert "the last column has no name and no cells." in notes("a,b\n1,2.5,\n3,4,\n")
    assert read("a,b,a\n1,2.5,u\n").columns.tolist() == ["a", "b", "a_2"]
    assert "repeated column names are changed to 'a_2'." in notes("a,b,a\n1,2.5,u\n")
    iris = "5.1,3.5,1.4,setosa\n4.9,3.0,1.3,setosa\n"
    assert "is there no header (--no-header)?" in notes(iris)
    frame = read(iris, header=False)
    assert frame.columns.tolist() == ["column_1", "column_2", "column_3", "column_4"]
    assert frame["column_1"].tolist() == [5.1, 4.9]
    assert row_label(frame, 1) == "line 2"
    for header, name in (("#,b", "#"), ("# a,b", "a")):
        frame = read(f"# made by a machine, on Monday\n{header}\n1,u\n2,v\n")
        assert frame.columns.tolist() == [name, "b"]
    assert read("# made by a machine, on Monday\na,b\n1,u\n").columns.tolist() == ["a", "b"]
    first = read("Sales,,\na,b,y\n1,2,u\n1,2,u\n", header=True)
    assert first.columns.tolist()[0] == "Sales"


def test_encodings():
    latin = "a,y\n1,\xe9\n2,u\n".encode("latin-1")
    assert read(latin)["y"].tolist() == ["é", "u"]
    assert notes(latin) == "the text is not UTF-8 and is read as cp1252 (--encoding)."
    mixed = "a,y\n1,é\n".encode() + b"2,\xe9\n"
    assert read(mixed)["y"].tolist() == ["é", "é"]
    assert notes(mixed) == "the text mixes UTF-8 and cp1252 (--encoding)."
    assert read(b"a,y\n2,u\n1,\xe9")["y"].tolist() == ["u", "é"]
    assert read(latin, encoding="latin-1")["y"].tolist() == ["é", "u"]
    with pytest.raises(TableError, match=r"unknown encoding: klingon.* Try --encoding latin-1"):
        read(latin, encoding="klingon")
    with pytest.raises(TableError, match=r"can't decode .* Try --encoding latin-1"):
        read(latin, encoding="ascii")


def test_another_encoding_far_down():
    frame = read(b"a,y\n" + b"1,u\n" * 600_000 + b"2,\xe9\n")
    assert frame["y"].iloc[-1] == "é"
    assert "read as cp1252" in frame.attrs["notes"][0]


def test_a_ragged_row_is_skipped_with_its_line():
    text = "a,b,y\n" + "1,2.5,u\n" * 300 + "3,4\n" + "3,4,v\n" * 100
    frame = read("title\n" + text)
    assert len(frame) == 400
    assert frame.attrs["notes"][-1] == (
        "line 303 has 2 cells, the header has 3; skipped (rows: 1)."
    )
    assert row_label(frame, 299) == "line 302"
    assert row_label(frame, 300) == "line 304"
    with pytest.raises(TableError, match="line 302 has 4 cells, the header has 3"):
        read(text.replace("3,4\n", "3,4,v,w\n" * 9))


def test_a_few_long_lines():
    """The first block ends within a row, which must not decide about the header."""
    n = 400_000
    frame = read("a,b," + "c" * 10 + "\n" + f"1,{'x' * n},3\n" * 12)
    assert frame.shape == (12, 3)
    assert frame.attrs["notes"] == []


def test_what_stays_text():
    assert read("zip,a\n12345,1\n01234,2\n")["zip"].tolist() == ["12345", "01234"]
    frame = read('a;b;c\n988;"2,5";1.234\n2,848;"3,5";2.345\n')
    assert frame["a"].tolist() == ["988", "2,848"]
    # A point next to decimal commas may separate thousands.
    assert frame["c"].tolist() == ["1.234", "2.345"]
    assert read("a,b\n1.234,x\n5.5,y\n", thousands=".")["a"].tolist() == ["1.234", "5.5"]
    frame = read("a,b\n1.5,NA\n?,2\n")
    assert np.array_equal(frame.to_numpy(), [[1.5, np.nan], [np.nan, 2]], equal_nan=True)


def test_types_of_parquet(tmp_path):
    table = pa.table(
        {
            "small": pa.array([1, 2], pa.int8()),
            "huge": pa.array([2**63, 2**64 - 1], pa.uint64()),
            "half": pa.array(np.array([0.5, 1.5], np.float16)),
            "money": pa.array([decimal.Decimal("1.50"), decimal.Decimal("2.25")]),
            "flag": [True, False],
            "coded": pa.array(["p", "q"]).dictionary_encode(),
            "with.dot": [1, None],
            "day": [dt.date(2020, 1, 1), dt.date(2021, 1, 1)],
            "long": [dt.timedelta(hours=1), dt.timedelta(hours=2)],
            "fixed": pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0, 3.0, 4.0]), 2),
            "words": [["a"], ["b"]],
            "nested": [{"a": 1}, {"a": 2}],
            "bytes": [b"x", b"y"],
            "none": pa.nulls(2),
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    feather.write_feather(table, tmp_path / "t.feather")
    for path in tmp_path.iterdir():
        frame = read_table(path)
        kinds = {c["name"]: c["kind"] for c in TableEncoder().fit(frame).columns_}
        numbers = {"small", "huge", "half", "money", "with.dot", "long"}
        assert {name for name, kind in kinds.items() if kind == "number"} == numbers
        assert kinds["flag"] == "boolean"
        assert kinds["day"] == "date"
        assert kinds["fixed"] == "vector"
        unread = [note.split("'")[1] for note in frame.attrs["notes"]]
        assert unread == ["words", "nested", "bytes", "none"]


@given(
    cells=st.lists(
        st.tuples(
            st.floats(-1e6, 1e6),
            st.integers(-(10**6), 10**6),
            # Texts that a CSV file can hold and give back: without spaces at the edges.
            st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1),
        ),
        min_size=1,
        max_size=20,
    ),
    delimiter=st.sampled_from(",;\t|"),
)
def test_tables_written_by_python_are_read_back(cells, delimiter):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerows([("a", "b", "y"), *((x, n, f"w{word}") for x, n, word in cells)])
    frame = read(text.getvalue(), delimiter=delimiter)
    numbers = frame[["a", "b"]].astype(float)
    np.testing.assert_allclose(numbers, [(x, n) for x, n, _ in cells], rtol=1e-15)
    assert frame["y"].tolist() == [f"w{word}" for *_, word in cells]


@pytest.mark.parametrize(
    ("text", "n_columns"),
    [
        ('a;b\n"1,2,3";2\n"4,5,6";1\n', 2),
        ("a;b;c\n1,5;2,5;3,5\n4,5;5,5;6,5\n", 3),
        ("A title, with a comma\na\tb\n1\t2\n3\t4\n", 2),
        ("only\n1\n", 1),
        ("a;y\n" + "1,5;u\n" * 30, 2),
    ],
)
def test_sniffing(text, n_columns):
    assert read(text).shape[1] == n_columns


@pytest.mark.usefixtures("small_blocks")
def test_samples_are_random_reproducible_and_in_order():
    text = "a,y\n" + "".join(f"{i},u\n" for i in range(5000))
    frame = read(text, sample=100)
    assert (np.diff(frame.index) > 0).all()
    assert (frame["a"] == frame.index).all()
    assert frame.attrs["notes"] == ["a random sample of 100 of 5000 rows is used."]
    assert row_label(frame, 0) == f"line {frame.index[0] + 2}"
    assert (read(text, sample=100).index == frame.index).all()
    assert (read(text, sample=100, random_state=1).index != frame.index).any()
    # Rows of all parts of the file have the same chance.
    means = [read(text, sample=50, random_state=s).index.to_numpy().mean() for s in range(20)]
    assert abs(np.mean(means) - 2499.5) < 4 * 5000 / np.sqrt(12 * 1000)
    assert len(read(text, sample=9999)) == 5000


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "parquet", "feather", "xlsx"])
def test_batches_are_the_table(tmp_path, kind):
    n = 2000
    frame = pd.DataFrame({"a": np.arange(n) / 8, "zip": [f"{i % 90:05}" for i in range(n)]})
    path = tmp_path / f"t.{kind}"
    if kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        write = {"csv": "csv", "csv.gz": "csv", "xlsx": "excel"}.get(kind, kind)
        index = {} if kind == "feather" else {"index": False}
        getattr(frame, f"to_{write}")(path, **index)
    batches = list(read_batches(path, 100))
    assert max(map(len, batches)) <= 100
    whole = pd.concat(batches)
    assert whole["a"].astype(float).tolist() == frame["a"].tolist()
    assert whole["zip"].tolist() == frame["zip"].tolist()
    assert np.diff(whole.index).tolist() == [1] * (n - 1)
    # An encoder that was fitted on the whole table reads the text of batches in the same way.
    encoder = TableEncoder(as_category=["zip"]).fit(read_table(path))
    parts = [encoder.transform(batch) for batch in batches]
    assert (np.vstack(parts) == encoder.transform(frame)).all()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the file is empty"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        ("\n\n", "no lines with data"),
        ("# only\n# comments\n", "no lines with data"),
        ("a,b,y\n", "a header but no data rows"),
        (b"\x00\x01\x02", "not CSV, JSON lines, Parquet, Arrow or .xlsx"),
        (b"PAR1 and then nothing", "corrupted Parquet file"),
        (b"ARROW1 and then nothing", "corrupted Arrow file"),
        (b"PK\x03\x04....", "corrupted Excel file"),
        (gzip.compress(PLAIN.encode() * 9999, mtime=0)[:400], "corrupted gzip file"),
        ('{"a": 1}\n{"a": \n', "line 2 is not a JSON object"),
        ('{"a": 1}\n[1]\n', "line 2 is not a JSON object"),
        ('{"a": ' + "[" * 100_000, "line 1 is not a JSON object"),
        ('{"a": ' + "9" * 10_000 + "}", "line 1 is not a JSON object"),
        ("".join(f'{{"k{i}": 1}}\n' for i in range(9000)), "9000 different keys in 9000 objects"),
        ("a,b\n1," + "x" * 9_000_000 + "\n2,3\n", "a line is longer than 4 MB"),
        ('a,b\n1,"x\n' + "2,3\n" * 2_500_000, "longer than 4 MB.* Check for an unclosed quote"),
        ('a,b\n1,"x\n2,3\n', "a quote is not closed"),
        ("c," * 5000 + "\n" * 2_000_000, "too many empty lines"),
        (b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'shape': (1 << 40,)}", "not CSV, JSON lines"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, content, words):
    path = tmp_path / "table"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for function in (read_table, lambda path: list(read_batches(path))):
        with pytest.raises(TableError, match=words) as caught:
            function(path)
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)


def test_paths_and_options_that_are_wrong(tmp_path):
    with pytest.raises(TableError, match="not a regular file"):
        read_table(tmp_path)
    with pytest.raises(TableError, match="no such file"):
        read_table(tmp_path / "absent.csv")
    with pytest.raises(TableError, match="delimiter must be one character; got 'ab'"):
        read(PLAIN, delimiter="ab")
    with pytest.raises(TypeError, match="delimeter"):
        read(PLAIN, delimeter=",")
    table = pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "a"])
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(TableError, match="several columns have the same name"):
        read_table(tmp_path / "t.parquet")


@pytest.mark.usefixtures("small_blocks")
def test_limit_of_bytes():
    bomb = gzip.compress(b"a,b,y\n" + b"1,2,u\n" * 200_000, mtime=0)
    assert len(bomb) < 10_000
    with pytest.raises(TableError, match=r"the cells take more than 1\.05 MB\. Read it in batches"):
        read(bomb, max_bytes=1 << 20)
    assert len(read(bomb, max_bytes=1 << 20, sample=1000)) == 1000


def test_many_columns_are_read_in_linear_time():
    """Equal names, and thousands of columns of text: each took minutes with a quadratic step."""
    n = 1500
    frame = read("a," * n + "y\n" + "1," * n + "u\n" + "2," * n + "v\n")
    assert frame.columns[n - 1] == f"a_{n}"
    text = ",".join(f"c{i}" for i in range(n))
    rows = "".join(",".join("pq"[(i + j) % 2] for i in range(n)) + "\n" for j in range(12))
    encoder = TableEncoder().fit(read(f"{text}\n{rows}"))
    assert len(encoder.get_feature_names_out()) == n


def test_long_texts_that_repeat_are_counted_before_they_are_decoded(tmp_path):
    long = "lorem ipsum " * 80_000
    codes = pa.array(np.arange(20_000) % 2)
    table = pa.table(
        {"x": np.arange(20_000), "t": pa.DictionaryArray.from_arrays(codes, [long, "short"])}
    )
    feather.write_feather(table, tmp_path / "t.feather", compression="zstd")
    parquet.write_table(table, tmp_path / "t.parquet")
    for path in tmp_path.iterdir():
        assert path.stat().st_size < 1 << 20
        with pytest.raises(TableError, match=r"the cells take more than 2\.15 GB"):
            read_table(path)


def test_mutated_files_are_read_or_refused():
    """No crash, no other exception and no more than a gigabyte."""
    script = Path(__file__).parents[1] / "fuzz" / "fuzz_tables.py"
    command = [sys.executable, str(script), "300", "400"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "400 tables, 0 failures" in done.stdout


def test_types_of_arrow_that_take_memory_out_of_proportion(tmp_path):
    """Views and nulls of few bytes stand for gigabytes; they are never decoded."""
    n = 1000
    table = pa.table(
        {
            "x": np.arange(n) / 7,
            "texts": pa.array(["lorem ipsum dolor sit amet"] * n, pa.string_view()),
            "lists": pa.array([[1.0]] * n, pa.list_view(pa.float64())),
            "runs": pa.RunEndEncodedArray.from_arrays([n], [1.5]),
            "none": pa.nulls(n),
        }
    )
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    frame = read_table(tmp_path / "t.arrow")
    assert frame.columns.tolist() == table.column_names
    assert frame.notna().any().tolist() == [True, False, False, False, False]
    assert len(frame.attrs["notes"]) == 4


def test_workbooks_with_few_bytes_and_many_cells(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["a", "b"])
    book.active.append([1, 2])
    book.active["XFD1048576"] = 3
    book.save(tmp_path / "far.xlsx")
    frame = read_table(tmp_path / "far.xlsx")
    assert frame.shape == (2, 16384)
    with pytest.raises(TableError, match="the sheet is too large"):
        read_table(tmp_path / "far.xlsx", max_bytes=1 << 18)
    with zipfile.ZipFile(tmp_path / "bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", bytes(64 << 20))
    with pytest.raises(TableError, match="the workbook is too large"):
        read_table(tmp_path / "bomb.xlsx", max_bytes=1 << 24)
