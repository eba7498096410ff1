"""What a file is: CSV in its many forms, Parquet, and what is neither."""

import bz2
import csv
import datetime as dt
import decimal
import gzip
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric.tables import TableError, learn_recipe, open_table, plan_columns, read_rows
from genmetric.tables.sniffing import sniff_delimiter

pa = pytest.importorskip("pyarrow")
arrow_csv = pytest.importorskip("pyarrow.csv")
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


def read(path, target="y", **options):
    how = {name: options.pop(name) for name in ("delimiter", "encoding") if name in options}
    table = open_table(path, **how)
    recipe = learn_recipe(table, plan_columns(table, target=target, **options))
    return recipe, read_rows(table, recipe)


PLAIN = "a,b,y\n1,2.5,u\n3,4,v\n"
ROWS = [[1.0, 2.5], [3.0, 4.0]]


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", "|"),
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN,
        PLAIN.encode("utf-16"),
        gzip.compress(PLAIN.encode()),
        bz2.compress(PLAIN.encode()),
        '"a","b","y"\n"1","2.5","u"\n"3","4","v"\n',
        " a , b ,y\n 1, 2.5,  u \n3,4,v\n",
        "a;b;y\n1;2,5;u\n3;4,0;v\n",
        "a,b,y\n\n1,2.5,u\n\n3,4,v",
    ],
    ids=[
        "comma",
        "semicolon",
        "tab",
        "bar",
        "windows",
        "bom",
        "utf16",
        "gzip",
        "bz2",
        "quotes",
        "spaces",
        "decimal comma",
        "blank lines",
    ],
)
def test_one_table_in_many_forms(make, content):
    recipe, rows = read(make(content))
    assert recipe.feature_names == ("a", "b")
    assert rows.X.tolist() == ROWS
    assert rows.labels.tolist() == ["u", "v"]


def test_the_content_says_what_a_file_is_not_its_name(make):
    _, rows = read(make(pa.table({"a": [1, 3], "b": [2.5, 4], "y": ["u", "v"]}), "t.csv"))
    assert rows.X.tolist() == ROWS
    _, rows = read(make(gzip.compress(PLAIN.encode()), "t.parquet"))
    assert rows.X.tolist() == ROWS


def test_quotes_hold_delimiters_and_lines(make):
    _, rows = read(make('a,b,y\n1,2,"u, or\nv"\n3,4,"say ""hm"""\n'))
    assert rows.labels.tolist() == ["u, or\nv", 'say "hm"']


def test_names_stay_as_they_are(make):
    recipe, _ = read(make('<script>alert(1)</script>,"a,b",é,y\n1,2,3,u\n4,5,6,v\n'))
    assert recipe.feature_names == ("<script>alert(1)</script>", "a,b", "é")


def test_other_encodings_on_demand(make):
    path = make("a,y\n1,\xe9\n2,u\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"not UTF-8 text: byte 0xe9 in line 2.*--encoding"):
        read(path)
    _, rows = read(path, encoding="latin-1")
    assert rows.labels.tolist() == ["é", "u"]
    with pytest.raises(TableError, match="No encoding is called 'klingon'"):
        read(path, encoding="klingon")


def test_other_encodings_far_down(make):
    with pytest.raises(TableError, match="not UTF-8 text"):
        read(make(b"a,y\n" + b"1,u\n" * 100_000 + b"2,\xe9\n"))


def test_a_delimiter_on_demand(make):
    _, rows = read(make("a b y\n1 2.5 u\n3 4 v\n"), delimiter=" ")
    assert rows.X.tolist() == ROWS
    with pytest.raises(TableError, match="one character"):
        read(make(PLAIN), delimiter="ab")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the file is empty"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        ("\n\n", "no lines"),
        ("a,b,y\n", "a header and no row"),
        (b"\x00\x01\x02", "no text, so no CSV"),
        (b"PK\x03\x04....", "Excel"),
        (b"\x89HDF....", "HDF5"),
        (b"PAR1 and then nothing", "damaged Parquet"),
        (gzip.compress(PLAIN.encode() * 9999)[:400], "damaged gzip"),
        ("a,a,y\n1,2,u\n", "'a' names more than one column"),
        ("5.1,5.1,u\n1,2,v\n", "names more than one"),
        ("5.1,5.2,0\n1,2,1\n", "no column 'y'.*looks like numbers"),
        (",,y\n1,2,u\n", "2 columns have no name"),
        ("a,b,y\n1,2,u\n3,4\n", "data row 2 has 2 cells, the header has 3"),
        ("a,b,y\n1,2,u\n3,4,v,w\n", "data row 2 has 4 cells, the header has 3"),
        ("a,b,y\n1,2,u\n" * 1 + "3,4,v\n" * 9999 + "5\n", "data row 10001 has 1 cells"),
    ],
)
def test_what_is_no_table_is_refused(make, content, words):
    path = make(content)
    with pytest.raises(TableError, match=words) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_paths_that_are_no_files(tmp_path):
    with pytest.raises(TableError, match="is a folder"):
        open_table(tmp_path)
    with pytest.raises(TableError, match="no such file"):
        open_table(tmp_path / "absent.csv")


def test_a_number_that_is_none_far_down(make):
    path = make("a,b,y\n" + "1,2,u\n" * 60_000 + "3,oops,v\n")
    with pytest.raises(TableError, match=r"column 'b' holds 'oops' in data row 60001.*--ignore b"):
        read(path)


def test_parquet_types(make):
    table = pa.table(
        {
            "small": pa.array([1, 2], pa.int8()),
            "huge": pa.array([2**63, 2**64 - 1], pa.uint64()),
            "half": pa.array(np.array([0.5, 1.5], np.float16)),
            "single": pa.array([0.5, 1.5], pa.float32()),
            "money": pa.array([decimal.Decimal("1.50"), decimal.Decimal("2.25")]),
            "flag": [True, False],
            "coded": pa.array([3, 4]).dictionary_encode(),
            "with.dot": [1, 2],
            "y": pa.array(["u", "v"]).dictionary_encode(),
        }
    )
    recipe, rows = read(make(table))
    assert recipe.feature_names == tuple(table.column_names[:-1])
    assert rows.X.tolist() == [
        [1, 2.0**63, 0.5, 0.5, 1.5, 1, 3, 1],
        [2, 2.0**64, 1.5, 1.5, 2.25, 0, 4, 2],
    ]
    assert rows.labels.tolist() == ["u", "v"]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([[1], [2]]), "holds no numbers.*list"),
        (pa.array([{"k": 1}, {"k": 2}]), "holds no numbers.*struct"),
        (pa.array([b"1", b"2"]), "holds no numbers.*binary"),
        (pa.array([dt.date(2020, 1, 1)] * 2), "dates or times"),
        (pa.array([dt.timedelta(1)] * 2), "dates or times"),
        (pa.nulls(2), "'x' has no value in data row 1"),
        (pa.array([1.0, None]), "'x' has no value in data row 2"),
        (pa.array([1.0, float("nan")]), "'x' has no value in data row 2"),
        (pa.array([1.0, float("-inf")]), "'x' is infinite"),
    ],
)
def test_parquet_columns_that_are_refused(make, column, words):
    with pytest.raises(TableError, match=words):
        read(make(pa.table({"a": [1, 2], "x": column, "y": ["u", "v"]})))


def test_classes_written_as_numbers_keep_their_words(make):
    _, rows = read(make("a,y\n1,01\n2,1\n"))
    assert rows.labels.tolist() == ["01", "1"]
    _, rows = read(make(pa.table({"a": [1, 2], "y": [1.0, 2.0]}), "t.parquet"))
    assert rows.labels.tolist() == ["1", "2"]
    _, rows = read(make(pa.table({"a": [1, 2], "y": [1.5, 2.0]}), "t.parquet"))
    assert rows.labels.tolist() == ["1.5", "2"]
    _, rows = read(make(pa.table({"a": [1, 2], "y": [True, False]}), "t.parquet"))
    assert rows.labels.tolist() == ["true", "false"]


def test_parquet_without_rows_or_with_a_repeated_name(make):
    with pytest.raises(TableError, match="no row"):
        open_table(make(pa.table({"a": pa.array([], pa.int64())})))
    with pytest.raises(TableError, match="more than one column"):
        open_table(make(pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "a"])))


@given(
    cells=st.lists(
        st.tuples(
            st.floats(-1e6, 1e6),
            st.integers(-(10**6), 10**6),
            # What a CSV file can hold in a cell and give back: no edges that are trimmed.
            st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1),
        ),
        min_size=1,
        max_size=20,
    ),
    delimiter=st.sampled_from(",;\t|"),
)
def test_what_python_writes_is_read_back(tmp_path_factory, cells, delimiter):
    words = ["?", *arrow_csv.ConvertOptions().null_values]
    cells = [(x, n, word) for x, n, word in cells if word not in words] or [(1.5, 2, "u")]
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerows([("a", "b", "y"), *cells])
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text(text.getvalue(), "utf-8")
    _, rows = read(path, delimiter=delimiter)
    np.testing.assert_allclose(rows.X, [(x, n) for x, n, _ in cells], rtol=1e-15)
    assert rows.labels.tolist() == [word for *_, word in cells]


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ('a;b\n"1,2,3";2\n"4,5,6";1\n', ";"),
        ("a;b;c\n1,5;2,5;3,5\n4,5;5,5;6,5\n", ";"),
        ("only\n1\n", ","),
    ],
)
def test_sniffing(text, delimiter):
    assert sniff_delimiter(text, whole=True) == delimiter


def test_wide_tables(make, monkeypatch):
    """Thousands of columns: lines longer than a block of the file."""
    monkeypatch.setattr("genmetric.tables.sources.BLOCK_BYTES", 4096)
    n = 3000
    names = ",".join(f"a rather long name of column {j}" for j in range(n))
    row = ",".join(map(str, range(n)))
    recipe, rows = read(make(f"{names},y\n{row},u\n{row},v\n"))
    assert len(recipe.feature_names) == n
    assert (np.arange(n) == rows.X).all()


def test_a_quote_that_is_not_closed(make):
    with pytest.raises(TableError, match=r"quote|cells|no numbers|read as CSV"):
        read(make('a,b,y\n1,2,u\n3,"4,v\n' + "5,6,u\n" * 400_000))
