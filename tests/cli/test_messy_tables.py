"""Tables as people have them: the plain commands run on each at the first attempt."""

import datetime as dt
import gzip
import json
import shlex

import pytest

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
parquet = pytest.importorskip("pyarrow.parquet")

N = 24

#: Rows of the second class. There are two, so that a comparison has two folds and takes seconds.
RARE = (5, 16)

#: Two classes, and a number that tells them apart.
CLASSES = ["no" if i in RARE else "yes" for i in range(N)]
SIGNAL = [round((i in RARE) * 3 + (i * 7 % 11) / 10, 2) for i in range(N)]
NOISE = [round((i * 13 % 17) / 3, 3) for i in range(N)]

TABLES = {}


def table(words, target="y"):
    """Register a table: a function that writes it, words that the plan has, and the target."""

    def register(write):
        TABLES[write.__name__] = (write, words, target)
        return write

    return register


def csv_text(columns, delimiter=","):
    """Columns as the text of a CSV file; cells with the delimiter are quoted."""

    def cell(value):
        text = "" if value is None else str(value)
        return f'"{text}"' if delimiter in text else text

    lines = [list(columns), *zip(*columns.values(), strict=True)]
    return "\n".join(delimiter.join(map(cell, line)) for line in lines) + "\n"


def write_csv(folder, columns, name="t.csv", delimiter=",", encoding="utf-8", before=""):
    path = folder / name
    path.write_bytes((before + csv_text(columns, delimiter)).encode(encoding))
    return path


@table(
    [
        "PassengerId (a row counter)",
        "Name (free text)",
        "Ticket (an identifier",
        "Age 5",
        "Cabin (",
        "Sex (2 values)",
        "Survived: 2 classes",
    ],
    target="Survived",
)
def titanic(folder):
    return write_csv(
        folder,
        {
            "PassengerId": range(1, N + 1),
            "Survived": [int(i in RARE) for i in range(N)],
            "Pclass": [1 + i % 3 for i in range(N)],
            "Name": [f"Braund, Mr. Owen Harris the {i}th" for i in range(N)],
            "Sex": ["female" if i % 2 else "male" for i in range(N)],
            "Age": [None if i % 5 == 0 else 20 + i for i in range(N)],
            "Ticket": [f"A/5 {21171 + 7 * i}" for i in range(N)],
            "Fare": [7.25 + s for s in SIGNAL],
            "Cabin": [f"C{i}" if i % 4 == 0 else None for i in range(N)],
            "Embarked": ["SCQ"[i % 3] for i in range(N)],
        },
    )


@table(["island (3 values)", "bill 2", "sex 3: a category of its own"], target="species")
def penguins(folder):
    return write_csv(
        folder,
        {
            "species": ["Adelie" if i in RARE else "Gentoo" for i in range(N)],
            "island": [["Biscoe", "Dream", "Torgersen"][i % 3] for i in range(N)],
            "bill": ["NA" if i in (3, 9) else s for i, s in enumerate(SIGNAL)],
            "sex": ["NA" if i in (3, 4, 7) else ["male", "female"][i % 2] for i in range(N)],
        },
    )


@table(["horsepower 2", "car name (free text)"], target="origin")
def cars(folder):
    return write_csv(
        folder,
        {
            "mpg": SIGNAL,
            "horsepower": ["?" if i in (1, 8) else 90 + i for i in range(N)],
            "car name": [f"chevrolet chevelle malibu no {i}" for i in range(N)],
            "origin": [1 + (i in RARE) for i in range(N)],
        },
    )


@table(["workclass (", "hours"], target="income")
def adult(folder):
    return write_csv(
        folder,
        {
            "age": [25 + i for i in NOISE],
            "workclass": [["Private", "State-gov", "?"][i % 3] for i in range(N)],
            "hours": [40 + s for s in SIGNAL],
            "income": [">50K" if i in RARE else "<=50K" for i in range(N)],
        },
    )


@table(["a (0,0 is read as 0", "numbers"])
def decimal_commas(folder):
    columns = {"a": [str(s).replace(".", ",") for s in SIGNAL], "y": CLASSES}
    return write_csv(folder, columns, delimiter=";")


@table(["price (2,848 is read as 2848)", "'2,848' is read as 2848; with the decimal separator ','"])
def thousands_separators(folder):
    return write_csv(
        folder, {"price": ["988" if i % 2 else "2,848" for i in range(N)], "y": CLASSES}
    )


@table(["price (", "1.250,5 is read as 1250.5", "weight (1.234 is read as 1234)"])
def european_export(folder):
    return write_csv(
        folder,
        {
            "price": [f"1.25{i % 10},5" for i in range(N)],
            "weight": ["1.234" if i % 2 else "988" for i in range(N)],
            "y": CLASSES,
        },
        delimiter=";",
    )


@table(["share (", "is read as 0"])
def percentages(folder):
    return write_csv(folder, {"share": [f"{10 * s}%" for s in SIGNAL], "y": CLASSES})


@table(["cost ($1,20"])
def currencies(folder):
    return write_csv(folder, {"cost": [f"${1200 + 10 * i:,}" for i in range(N)], "y": CLASSES})


@table(["dates", "when", "seen"])
def dates(folder):
    days = [dt.date(2020, 1, 1) + dt.timedelta(17 * i) for i in range(N)]
    return write_csv(
        folder,
        {
            "when": [day.isoformat() for day in days],
            "seen": [day.strftime("%d.%m.%Y %H:%M") for day in days],
            "a": SIGNAL,
            "y": CLASSES,
        },
    )


@table(["'03/04/2020' are read month first"])
def ambiguous_dates(folder):
    return write_csv(
        folder, {"when": [f"03/{4 + i % 8:02}/2020" for i in range(N)], "a": SIGNAL, "y": CLASSES}
    )


@table(["customer_id (an identifier", "uuid (an identifier"])
def identifiers(folder):
    return write_csv(
        folder,
        {
            "customer_id": [10_000 + 7919 * i % 90_000 for i in range(N)],
            "uuid": [f"{7919 * i:08x}" for i in range(N)],
            "a": SIGNAL,
            "y": CLASSES,
        },
    )


@table(["comment (free text)"])
def free_text(folder):
    texts = [f"the parcel, number {i}, arrived late and was damaged" for i in range(N)]
    return write_csv(folder, {"comment": texts, "a": SIGNAL, "y": CLASSES})


@table(["a"])
def byte_order_mark(folder):
    return write_csv(folder, {"a": SIGNAL, "y": CLASSES}, encoding="utf-8-sig")


@table(["read as cp1252 (--encoding)", "Größe"])
def latin_1(folder):
    columns = {"Größe": SIGNAL, "stadt": [["Köln", "Bonn"][i % 2] for i in range(N)], "y": CLASSES}
    return write_csv(folder, columns, encoding="latin-1")


@table(["a"])
def utf_16_with_tabs(folder):
    return write_csv(folder, {"a": SIGNAL, "y": CLASSES}, delimiter="\t", encoding="utf-16")


@table(["3 lines above the header are skipped"])
def comment_lines(folder):
    before = "# exported by a machine\n# on Monday\nTable of results\n"
    return write_csv(folder, {"a": SIGNAL, "b": NOISE, "y": CLASSES}, before=before)


@table(["repeated column names are changed to 'a_2'"])
def duplicate_names(folder):
    path = folder / "t.csv"
    rows = "\n".join(f"{a},{b},{y}" for a, b, y in zip(SIGNAL, NOISE, CLASSES, strict=True))
    path.write_text(f"a,a,y\n{rows}\n")
    return path


@table(["2 rows have no target 'y' and are not used (first: line 2)"])
def missing_targets(folder):
    columns = {"a": [1, 2, *SIGNAL], "y": ["", "?", *CLASSES]}
    return write_csv(folder, columns)


@table(["booleans", "flag", "active"])
def yes_and_no(folder):
    return write_csv(
        folder,
        {
            "flag": ["yes" if i % 3 else "no" for i in range(N)],
            "active": ["TRUE" if i % 5 else "FALSE" for i in range(N)],
            "a": SIGNAL,
            "y": CLASSES,
        },
    )


@table(["nothing (is empty)", "same (is constant, 7)", "word (is constant, 'x')"])
def empty_and_constant(folder):
    columns = {"nothing": [None] * N, "same": [7] * N, "word": ["x"] * N, "a": SIGNAL, "y": CLASSES}
    return write_csv(folder, columns)


@table(["rare ones pooled", "city ("])
def rare_categories(folder):
    cities = [["Rome", "Oslo"][i % 2] if i % 3 else f"Village{i}" for i in range(N)]
    return write_csv(folder, {"city": cities, "a": SIGNAL, "y": CLASSES})


@table(["line 8, column 'a': 'oops' is not a number; 23 of 24 cells are"])
def one_bad_cell(folder):
    return write_csv(
        folder, {"a": ["oops" if i == 6 else s for i, s in enumerate(SIGNAL)], "y": CLASSES}
    )


@table(["zip (2 values)"])
def codes_with_zeros(folder):
    return write_csv(folder, {"zip": [["01067", "10115"][i % 2] for i in range(N)], "y": CLASSES})


@table(["left out", "has no name; an index column"])
def index_of_pandas(folder):
    path = folder / "t.csv"
    pd.DataFrame({"a": SIGNAL, "y": CLASSES}).to_csv(path)
    return path


@table(["the first column has no name"])
def row_names_of_r(folder):
    path = folder / "t.csv"
    rows = "\n".join(f"r{i},{a},{y}" for i, (a, y) in enumerate(zip(SIGNAL, CLASSES, strict=True)))
    path.write_text(f"a,y\n{rows}\n")
    return path


@table(["embedding (3 entries)"])
def list_column(folder):
    path = folder / "t.parquet"
    vectors = [[a, b, 1.5 * a - b] for a, b in zip(SIGNAL, NOISE, strict=True)]
    parquet.write_table(pa.table({"embedding": vectors, "y": CLASSES}), path)
    return path


@table(
    [
        "engine (1,200 CC is read as 1200)",
        "power (88 bhp is read as 88)",
        "'null bhp' is not a number",
        "temperature (20.5°C is read as 20.5)",
        "load (numbers in different units (kg, g); convert them to one)",
    ]
)
def numbers_with_units(folder):
    engine = [f"{1200 + 37 * (i * 7 % 11):,} CC" for i in range(N)]
    power = [f"{88 + i * 5 % 13} bhp" if i != 7 else "null bhp" for i in range(N)]
    temperature = [f"{20.5 + 3 * a}°C" if i else "20.5°C" for i, a in enumerate(SIGNAL)]
    load = [f"{i + 3} {'g' if i % 2 else 'kg'}" for i in range(N)]
    columns = {"engine": engine, "power": power, "temperature": temperature, "load": load}
    return write_csv(folder, {**columns, "y": CLASSES})


@table(
    [
        "tags (lists of something other than numbers)",
        "sizes (lists of different lengths)",
        "place (nested objects; give each entry a column)",
    ]
)
def json_lines_with_lists(folder):
    path = folder / "t.jsonl"
    rows = [
        {
            "a": a,
            "tags": ["x"] * (1 + i % 2),
            "sizes": [1.5] * (1 + i % 3),
            "place": {"lon": i},
            "y": y,
        }
        for i, (a, y) in enumerate(zip(SIGNAL, CLASSES, strict=True))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@table(["a 2", "colour (2 values", "vector (2 entries)"])
def json_lines(folder):
    path = folder / "t.jsonl"
    records = [
        {
            "a": None if i in (2, 3) else a,
            "colour": ["red", "blue"][i % 2],
            "vector": [a, 1.0 * i],
            "y": y,
            "nested": {"k": i},
        }
        for i, (a, y) in enumerate(zip(SIGNAL, CLASSES, strict=True))
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@table(["size 2", "colour (2 values)", "dates"])
def excel(folder):
    pytest.importorskip("python_calamine")
    pytest.importorskip("openpyxl")
    path = folder / "t.xlsx"
    columns = {
        "size": [None if i in (1, 2) else s for i, s in enumerate(SIGNAL)],
        "colour": [["red", "blue"][i % 2] for i in range(N)],
        "when": [dt.date(2020, 1, 1 + i) for i in range(N)],
        "y": CLASSES,
    }
    pd.DataFrame(columns).to_excel(path, index=False)
    return path


@table(["a"])
def feather(folder):
    path = folder / "t.feather"
    pd.DataFrame({"a": SIGNAL, "y": pd.Categorical(CLASSES)}).to_feather(path)
    return path


@table([])
def compressed(folder):
    path = folder / "t.csv.gz"
    path.write_bytes(gzip.compress(csv_text({"a": SIGNAL, "b": NOISE, "y": CLASSES}).encode()))
    return path


@table(["income 4"])
def unusual_missing_words(folder):
    words = ["unknown", "--", "n/a", "None"]
    incomes = [words[i // 6] if i % 6 == 0 else 1000 * s for i, s in enumerate(SIGNAL)]
    return write_csv(folder, {"income": incomes, "y": CLASSES})


@pytest.mark.parametrize("name", TABLES)
def test_the_comparison_runs_at_the_first_attempt(genmetric, tmp_path, name):
    write, words, target = TABLES[name]
    path = write(tmp_path)
    few = ["--methods", "majority,standardized,generative", "--folds", 2, "--repeats", 1]
    done = genmetric("compare", path, "-t", target, *few)
    assert (done.code, done.err) == (0, ""), done.err
    assert done.out.startswith(f"target {target}: 2 classes (")
    for text in words:
        assert text in done.out, done.out
    verdict = done.out.split("\n\n")[1]
    assert verdict.startswith(("Use ", "Keep ", "No metric is recommended"))
    assert "generative metric (generative)" in done.out


@pytest.mark.parametrize("name", TABLES)
def test_a_model_fits_and_predicts(genmetric, tmp_path, name):
    import genmetric as package
    from genmetric.tables import read_table

    write, _, target = TABLES[name]
    path = write(tmp_path)
    model, out = tmp_path / "model.gm", tmp_path / "out.parquet"
    done = genmetric("fit", path, "-t", target, "-m", "uniform", "-o", model, "-q")
    assert done.code == 0, done.err
    done = genmetric("predict", model, path, "-o", out)
    assert done.code == 0, done.err
    assert "error rate" in done.err
    predicted = parquet.read_table(out).column("predicted").to_pylist()
    # The model is one pipeline that takes the table it came from.
    assert package.load(model).predict(read_table(path)).tolist() == predicted
    assert genmetric("transform", model, path, "-o", out).code == 0
    done = genmetric("neighbors", model, path, path, "-k", 1)
    assert done.code == 0, done.err
    assert done.out.startswith("query,rank,neighbor,distance,")


def test_the_plain_command_and_its_next_command(genmetric, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = genmetric("compare", penguins(tmp_path), "-t", "species")
    assert done.code == 0, done.err
    assert "gradient boosting" in done.out
    if "Next: " in done.out:
        step = done.out.rpartition("Next: ")[2]
        assert genmetric(*shlex.split(step)[1:]).code == 0


def test_dry_run_shows_the_plan_only(genmetric, tmp_path):
    model = tmp_path / "m.gm"
    done = genmetric("fit", titanic(tmp_path), "-t", "Survived", "-o", model, "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert "columns: 6 used, 3 left out" in done.out
    assert not model.exists()


def test_strict_names_the_reasons(genmetric, tmp_path):
    path, model = titanic(tmp_path), tmp_path / "m.gm"
    for words in (["compare", path], ["fit", path, "-o", model]):
        done = genmetric(*words, "-t", "Survived", "--strict")
        assert (done.code, done.out) == (2, "")
        assert done.err.count("\n") == 1
        assert "--strict refuses the table: column 'PassengerId' is left out (a row" in done.err
        assert "column 'Age' has 5 missing values" in done.err
    assert not model.exists()
    clean = write_csv(tmp_path, {"a": SIGNAL, "b": NOISE, "c": [5] * N, "y": CLASSES})
    words = ["fit", clean, "-t", "y", "-m", "uniform", "-o", model, "--strict"]
    assert genmetric(*words).code == 2
    assert genmetric(*words, "--drop", "c").code == 0


def test_decisions_can_be_changed(genmetric, tmp_path):
    path = titanic(tmp_path)
    words = ["--drop", "Fare", "--as-category", "Pclass", "--as-number", "PassengerId"]
    done = genmetric("compare", path, "-t", "Survived", "--dry-run", *words)
    assert "numbers     PassengerId, Age" in done.out
    assert "Pclass (3 values)" in done.out
    assert "Fare (on request)" in done.out


@pytest.mark.parametrize(
    ("cells", "options", "expected"),
    [
        (["988", "2,848"], ["--decimal", ","], "a (2,848 is read as 2.848)"),
        (["1.234", "2.500"], ["--thousands", "."], "a (1.234 is read as 1234)"),
        (["1.5", "-999", "2"], ["--na", "-999"], "a 8: imputed"),
        (["1.5", "-999.0", "2"], ["--na", "-999"], "a 8: imputed"),
    ],
)
def test_separators_and_missing_words_can_be_given(genmetric, tmp_path, cells, options, expected):
    path = write_csv(tmp_path, {"a": [cells[i % len(cells)] for i in range(N)], "y": CLASSES})
    done = genmetric("compare", path, "-t", "y", "--dry-run", *options)
    assert expected in done.out, done.out + done.err


def test_files_without_a_header_and_other_sheets(genmetric, tmp_path):
    path = tmp_path / "bare.csv"
    path.write_text("".join(f"{a},{b}\n" for a, b in zip(SIGNAL, CLASSES, strict=True)))
    done = genmetric("compare", path, "-t", "column_2", "--no-header", "--dry-run")
    assert "numbers     column_1" in done.out, done.err
    pytest.importorskip("openpyxl")
    book = tmp_path / "book.xlsx"
    with pd.ExcelWriter(book) as writer:
        pd.DataFrame({"notes": ["none"]}).to_excel(writer, sheet_name="about", index=False)
        frame = pd.DataFrame({"a": SIGNAL, "y": CLASSES})
        frame.to_excel(writer, sheet_name="data", index=False)
    for sheet in ("data", "2"):
        done = genmetric("compare", book, "-t", "y", "--sheet", sheet, "--dry-run")
        assert "numbers     a" in done.out, done.err


def test_new_rows_with_unreadable_cells(genmetric, tmp_path):
    model, new = tmp_path / "m.gm", tmp_path / "new.csv"
    path = write_csv(tmp_path, {"a": SIGNAL, "c": ["pq"[i % 2] for i in range(N)], "y": CLASSES})
    assert genmetric("fit", path, "-t", "y", "-m", "uniform", "-o", model, "-q").code == 0
    new.write_text("a,c\n1,p\noops,new\n3,q\n")
    done = genmetric("predict", model, new)
    assert done.code == 0
    assert done.out.count("\n") == 4
    assert "line 3, column 'a': 'oops' is not a number; treated as missing." in done.err
    assert "'new' is not a known category" in done.err
    done = genmetric("predict", model, new, "--strict")
    assert (done.code, done.out) == (2, "")
    assert "line 3, column 'a': 'oops' is not a number" in done.err
    assert "(--na), or leave out --strict." in done.err
    assert "oops" not in genmetric("predict", model, new, "--na", "oops").err


def test_an_identifier_is_suggested_to_name_the_rows(genmetric, tmp_path):
    model = tmp_path / "m.gm"
    names = [f"c{7 * i}" for i in range(N)]
    path = write_csv(tmp_path, {"customer id": names, "a": SIGNAL, "y": CLASSES})
    assert genmetric("fit", path, "-t", "y", "-m", "uniform", "-o", model, "-q").code == 0
    done = genmetric("predict", model, path)
    assert done.err.startswith("add --keep 'customer id' to name the rows.\n")
    done = genmetric("predict", model, path, "--keep", "customer id")
    assert "--keep" not in done.err
    assert done.out.startswith("customer id,predicted\nc0,")


def test_standard_input_and_output(genmetric, tmp_path, monkeypatch):
    model = tmp_path / "m.gm"
    path = write_csv(tmp_path, {"a": SIGNAL, "y": CLASSES})

    def piped(*words):
        with path.open() as file:
            monkeypatch.setattr("sys.stdin", file)
            return genmetric(*words)

    assert piped("fit", "-", "-t", "y", "-m", "uniform", "-o", model, "-q").code == 0
    done = piped("predict", model, "-", "-o", "-")
    assert done.code == 0, done.err
    assert done.out == genmetric("predict", model, path).out
    assert piped("transform", model, "-").out.startswith("z1\n")
    assert piped("neighbors", model, path, "-", "-k", 1).code == 0


def test_a_compressed_bomb_is_sampled_or_streamed(genmetric, tmp_path):
    path, model = tmp_path / "bomb.csv.gz", tmp_path / "m.gm"
    block = "".join(f"{a},{b},{y}\n" for a, b, y in zip(SIGNAL, NOISE, CLASSES, strict=True))
    path.write_bytes(gzip.compress(b"a,b,y\n" + block.encode() * 8000))
    words = ["--methods", "euclidean", "--folds", 2, "--rows", 200]
    done = genmetric("compare", path, "-t", "y", *words)
    assert f"a random sample of 200 of {8000 * N} rows is used" in done.out, done.err
    done = genmetric("fit", path, "-t", "y", "-o", model, "--keep-rows", 500, "--stream")
    assert f"generative from {8000 * N} rows" in done.err
