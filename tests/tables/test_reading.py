"""Files with tables: formats, encodings, odd lines, samples and memory."""

import bz2
import csv
import datetime as dt
import decimal
import gzip
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric.tables import TableError, plan_columns, read_table
from genmetric.tables._format import sniff_delimiter
from genmetric.tables._reading import frame_batches, open_table, read_sample
from genmetric.tables._table_file import parse_bytes
from genmetric.tables._table_sample import TooLargeError

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def make(tmp_path):
    """Write bytes, text or an Arrow table to a file."""

    def make(content, name="table.csv"):
        path = tmp_path / name
        if isinstance(content, pa.Table):
            parquet.write_table(content, path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr("genmetric.tables._blocks.BLOCK_BYTES", 4096)


def sample(path, **options):
    return read_sample(open_table(path), **options)


PLAIN = "a,b,y\n1,2.5,u\n3,4,v\n"
ROWS = [[1.0, 2.5, "u"], [3.0, 4.0, "v"]]


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
        gzip.compress(PLAIN.encode()),
        bz2.compress(PLAIN.encode()),
        '"a","b","y"\n"1","2.5","u"\n"3","4","v"\n',
        " a , b ,y\n 1, 2.5,  u \n3,4,v\n",
        "a,b,y\n\n1,2.5,u\n\n3,4,v",
        "# a comment\n#another\n\na,b,y\n1,2.5,u\n3,4,v\n",
    ],
    ids=[
        "comma",
        "semicolon",
        "tab",
        "bar",
        "windows",
        "mac",
        "bom",
        "utf16",
        "gzip",
        "bz2",
        "quotes",
        "spaces",
        "blank lines",
        "comments",
    ],
)
def test_one_table_in_many_forms(make, content):
    frame = read_table(make(content))
    assert frame.columns.tolist() == ["a", "b", "y"]
    assert frame.to_numpy().tolist() == ROWS


def test_formats_of_files(tmp_path, make):
    frame = pd.DataFrame({"a": [1.5, 2.5], "c": ["x", "y"], "e": [[1.0, 2.0], [3.0, 4.0]]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.feather")
    lines = "".join(json.dumps(record) + "\n" for record in frame.to_dict("records"))
    make(lines, "t.jsonl")
    make(gzip.compress(lines.encode()), "t.jsonl.gz")
    make(json.dumps(frame.to_dict("records")), "t.json")
    np.savez(
        tmp_path / "t.npz", a=[1.5, 2.5], c=np.array(["x", "y"]), e=np.array([[1.0, 2], [3, 4]])
    )
    for name in ("t.parquet", "t.feather", "t.jsonl", "t.jsonl.gz", "t.json", "t.npz"):
        found = read_table(tmp_path / name)
        assert found["a"].tolist() == [1.5, 2.5], name
        assert found["c"].tolist() == ["x", "y"], name
        assert [list(v) for v in found["e"]] == [[1.0, 2.0], [3.0, 4.0]], name
    np.save(tmp_path / "t.npy", np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert read_table(tmp_path / "t.npy").columns.tolist() == ["x0", "x1"]


def test_excel(tmp_path):
    pytest.importorskip("python_calamine")
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    rows = [["Report of sales"], ["size", "colour", "when", 2020]]
    rows += [[1.5, "red", dt.date(2020, 1, 1), 7], [None, "blue", dt.date(2020, 1, 2), 8]] * 2
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    found = sample(tmp_path / "t.xlsx")
    assert found.frame.columns.tolist() == ["size", "colour", "when", "2020"]
    assert found.frame["colour"].tolist() == ["red", "blue"] * 2
    assert "1 row above the header skipped." in found.notes
    assert found.row_label(0) == "row 3"


def test_the_content_decides_the_format_and_not_the_name(make):
    table = pa.table({"a": [1, 3], "b": [2.5, 4], "y": ["u", "v"]})
    assert read_table(make(table, "t.csv")).to_numpy().tolist() == ROWS
    assert read_table(make(gzip.compress(PLAIN.encode()), "t.parquet")).to_numpy().tolist() == ROWS


@pytest.mark.usefixtures("small_blocks")
def test_quotes_contain_delimiters_and_lines(make):
    text = 'a,b,y\n1,2,"u, or\nv"\n3,4,"say ""hm"""\n' + '5,6,"x\n\ny"\n' * 2000
    found = sample(make(text))
    assert found.frame["y"].tolist() == ["u, or\nv", 'say "hm"', *["x\n\ny"] * 2000]
    assert [found.row_label(i) for i in (0, 1, 2, 3)] == ["line 2", "line 4", "line 5", "line 8"]
    assert found.row_label(2001) == f"line {5 + 3 * 1999}"


def test_lines_above_the_header_and_odd_headers(make):
    cases = {
        "Sales of 2020\n\na,b,y\n1,2.5,u\n3,4,v\n5,6,u\n": "1 line above the header is skipped.",
        "a,b,y,\n1,2.5,u,\n3,4,v,\n": None,
        "a,b,y\n1,2.5,u,\n3,4,v,\n": "every row ends with a delimiter",
        "a,b,y\n1,1,2.5,u\n2,3,4,v\n": "the first column has no name",
        "a,b,a\n1,2.5,u\n3,4,v\n": "repeated column names are changed to 'a_2'.",
    }
    for text, words in cases.items():
        found = sample(make(text))
        numbers = found.frame.select_dtypes("number")
        assert {1.0, 3.0} <= set(numbers.to_numpy().ravel().tolist()), text
        assert words is None or any(words in note for note in found.notes), found.notes


def test_other_encodings(make):
    path = make("a,y\n1,\xe9\n2,u\n".encode("latin-1"))
    found = sample(path)
    assert found.frame["y"].tolist() == ["é", "u"]
    assert "the text is not UTF-8 and is read as cp1252 (--encoding)." in found.notes
    assert read_table(path, encoding="latin-1")["y"].tolist() == ["é", "u"]
    with pytest.raises(TableError, match="There is no encoding 'klingon'"):
        open_table(path, encoding="klingon")
    with pytest.raises(TableError, match=r"not ASCII text. Try --encoding latin-1"):
        read_table(path, encoding="ascii")


@pytest.mark.usefixtures("small_blocks")
def test_other_encodings_far_down(make, monkeypatch):
    monkeypatch.setattr("genmetric.tables._reading.HEAD_BYTES", 4096)
    found = sample(make(b"a,y\n" + b"1,u\n" * 10_000 + b"2,\xe9\n"))
    assert found.frame["y"].iloc[-1] == "é"
    assert any("read as cp1252" in note for note in found.notes)


def test_a_delimiter_can_be_given(make):
    frame = read_table(make("a b y\n1 2.5 u\n3 4 v\n"), delimiter=" ")
    assert frame.to_numpy().tolist() == ROWS
    with pytest.raises(TableError, match="delimiter must be one character; got 'ab'"):
        read_table(make(PLAIN), delimiter="ab")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the file is empty"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        ("\n\n", "no lines with data"),
        ("# only\n# comments\n", "no lines with data"),
        ("a,b,y\n", "a header but no data rows"),
        (b"\x00\x01\x02", "not a text file"),
        (b"\x89HDF....", "HDF5"),
        (b"PAR1 and then nothing", "corrupted Parquet"),
        (b"ARROW1 and then nothing", "corrupted Arrow"),
        (b"\x93NUMPY and then nothing", "not a NumPy file"),
        (gzip.compress(PLAIN.encode() * 9999)[:400], "corrupted gzip"),
        ("a,b,y\n1,2,u\n3,4\n", "line 3 has 2 cells, the header has 3"),
        ("a,b,y\n1,2,u\n3,4,v,w\n", "line 3 has 4 cells, the header has 3"),
        ("a,b,y\n1,2,u\n\n" + "3,4,v\n" * 9999 + "5\n", "line 10003 has 1 cells"),
        ('a,b\n1,"x\n2,3\n', "a quote near the end of the file is not closed"),
        ('{"a": 1}\n{"a": \n', "line 2 is not JSON"),
        ('{"a": 1}\n[1]\n', "line 2 contains a JSON list"),
    ],
)
def test_files_that_cannot_be_read(make, content, words):
    path = make(content)
    with pytest.raises(TableError, match=words) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def test_excel_that_cannot_be_read(make):
    pytest.importorskip("python_calamine")
    with pytest.raises(TableError, match="corrupted Excel workbook"):
        read_table(make(b"PK\x03\x04....", "t.xlsx"))


def test_arrays_that_are_not_tables(tmp_path):
    np.savez(tmp_path / "t.npz", a=np.zeros(3), b=np.zeros(4))
    with pytest.raises(TableError, match="arrays of different lengths"):
        read_table(tmp_path / "t.npz")
    np.save(tmp_path / "t.npy", np.zeros((2, 2, 2)))
    with pytest.raises(TableError, match="has 3 dimensions; expected 1 or 2"):
        read_table(tmp_path / "t.npy")
    np.save(tmp_path / "t.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(TableError, match="not a NumPy file of plain arrays"):
        read_table(tmp_path / "t.npy")


def test_paths_that_are_not_files(tmp_path):
    with pytest.raises(TableError, match="is a folder"):
        open_table(tmp_path)
    with pytest.raises(TableError, match="no such file"):
        open_table(tmp_path / "absent.csv")


@pytest.mark.usefixtures("small_blocks")
def test_a_cell_that_is_not_a_number_far_down(make):
    """The column is read as text from its beginning, so that nothing is lost."""
    found = sample(make("a,b,y\n" + "1,2.50,u\n" * 20_000 + "3,oops,v\n"))
    assert found.frame["b"].tolist() == ["2.50"] * 20_000 + ["oops"]
    assert found.frame["a"].dtype == float
    plan = plan_columns(found.frame, target="y", line_of=found.row_label, as_number=["b"])
    assert "line 20002, column 'b': 'oops' is not a number; 20000 of 20001" in plan.notes[0]


@pytest.mark.usefixtures("small_blocks")
def test_codes_keep_their_zeros(make):
    found = sample(make("zip,a\n" + "12345,1\n" * 5000 + "01234,2\n"))
    assert found.frame["zip"].iloc[-1] == "01234"
    assert found.frame["zip"].iloc[0] == "12345"


def test_numbers_that_need_a_decision_stay_text(make):
    frame = read_table(make('a;b;c\n988;"2,5";1.234\n2,848;"3,5";2.345\n'))
    assert frame["a"].tolist() == ["988", "2,848"]
    # A point next to decimal commas may separate thousands.
    assert frame["c"].tolist() == ["1.234", "2.345"]


def test_parquet_types(make):
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
            "fixed": pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0, 3.0, 4.0]), 2),
            "y": pa.array(["u", "v"]).dictionary_encode(),
        }
    )
    plan = plan_columns(read_table(make(table)), target="y")
    kinds = {c.name: c.kind for c in plan.columns}
    numbers = {"small", "huge", "half", "money", "with.dot"}
    assert {name for name, kind in kinds.items() if kind == "number"} == numbers
    assert kinds["flag"] == "boolean"
    assert kinds["day"] == "date"
    assert kinds["fixed"] == "vector"


def test_parquet_without_rows_or_with_a_repeated_name(make):
    with pytest.raises(TableError, match="a header but no data rows"):
        open_table(make(pa.table({"a": pa.array([], pa.int64())})))
    with pytest.raises(TableError, match="'a' names more than one column"):
        open_table(make(pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "a"])))


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
def test_tables_written_by_python_are_read_back(tmp_path_factory, cells, delimiter):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerows([("a", "b", "y"), *((x, n, f"w{word}") for x, n, word in cells)])
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text(text.getvalue(), "utf-8", newline="")
    frame = read_table(path, delimiter=delimiter)
    np.testing.assert_allclose(frame[["a", "b"]], [(x, n) for x, n, _ in cells], rtol=1e-15)
    assert frame["y"].tolist() == [f"w{word}" for *_, word in cells]


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ('a;b\n"1,2,3";2\n"4,5,6";1\n', ";"),
        ("a;b;c\n1,5;2,5;3,5\n4,5;5,5;6,5\n", ";"),
        ("A title, with a comma\na\tb\n1\t2\n3\t4\n", "\t"),
        ("only\n1\n", ","),
        ("a;y\n" + "1,5;u\n" * 30, ";"),
    ],
)
def test_sniffing(text, delimiter):
    assert sniff_delimiter(text, whole=True) == delimiter


@pytest.mark.usefixtures("small_blocks")
def test_wide_tables(make):
    """Thousands of columns: lines longer than a block of the file."""
    n = 3000
    names = ",".join(f"a rather long name of column {j}" for j in range(n))
    row = ",".join(map(str, range(n)))
    frame = read_table(make(f"{names},y\n{row},u\n{row},v\n"))
    assert (frame.iloc[:, :n].to_numpy(float) == np.arange(n)).all()


@pytest.mark.usefixtures("small_blocks")
def test_lines_that_are_too_long(make, monkeypatch):
    monkeypatch.setattr("genmetric.tables._blocks.MAX_LINE_BYTES", 10_000)
    with pytest.raises(TableError, match="a line is longer than 0 MB"):
        read_table(make("a,y\n1,u\n2,v\n3,u\n4," + "x" * 50_000 + "\n"))


@pytest.mark.usefixtures("small_blocks")
def test_samples_are_random_reproducible_and_in_order(make):
    path = make("a,y\n" + "".join(f"{i},u\n" for i in range(5000)))
    found = sample(path, max_rows=100)
    assert (np.diff(found.row_numbers) > 0).all()
    assert (found.frame["a"].to_numpy() == found.row_numbers).all()
    assert found.notes == ("a random sample of 100 of 5000 rows is used.",)
    assert found.row_label(0) == f"line {found.row_numbers[0] + 2}"
    assert (sample(path, max_rows=100).row_numbers == found.row_numbers).all()
    other = sample(path, max_rows=100, random_state=1)
    assert (other.row_numbers != found.row_numbers).any()
    # Rows of all parts of the file have the same chance.
    means = [sample(path, max_rows=50, random_state=s).row_numbers.mean() for s in range(20)]
    assert abs(np.mean(means) - 2499.5) < 4 * 5000 / np.sqrt(12 * 1000)
    assert len(sample(path, max_rows=9999).frame) == 5000


@pytest.mark.usefixtures("small_blocks")
def test_memory_is_bounded(make):
    """A compressed file that grows a thousand times is sampled or refused, not held."""
    path = make(gzip.compress(b"a,b,y\n" + b"1,2,u\n" * 200_000), "t.csv.gz")
    assert path.stat().st_size < 10_000
    with pytest.raises(TooLargeError, match=r"does not fit the memory budget of 1.0 MB \(--memory"):
        sample(path, memory=1 << 20)
    found = sample(path, memory=1 << 20, max_rows=100_000)
    assert found.frame.memory_usage(deep=True).sum() < 1 << 20
    assert found.notes[-1].endswith("of 200000 rows is used.")
    assert any("rows fit the memory budget of 1.0 MB" in note for note in found.notes)


def test_archives_are_checked_before_they_are_read(tmp_path):
    np.savez_compressed(tmp_path / "t.npz", a=np.zeros((1000, 1000)))
    with pytest.raises(TableError, match=r"7.6 MB uncompressed, more than the memory budget"):
        open_table(tmp_path / "t.npz", memory=1 << 20)


@pytest.mark.parametrize(("text", "n"), [("100", 100), ("1.5K", 1536), ("2 GB", 2 << 30)])
def test_sizes(text, n):
    assert parse_bytes(text) == n
    with pytest.raises(TableError, match="'many' is not a size in bytes"):
        parse_bytes("many")


@pytest.mark.usefixtures("small_blocks")
def test_readers_are_closed_when_a_loop_ends_early(make):
    import gc

    path = make("a,y\n" + "1,u\n" * 20_000)
    with pytest.MonkeyPatch.context() as patch:
        opened = []
        original = pa.input_stream

        def tracked(*args, **options):
            opened.append(original(*args, **options))
            return opened[-1]

        patch.setattr(pa, "input_stream", tracked)
        batches = frame_batches(open_table(path))
        next(batches)
        batches.close()
        gc.collect()
        assert len(opened) == 2
        assert all(stream.closed for stream in opened)
