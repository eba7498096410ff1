"""Tables as people have them: the plain commands run on each at the first attempt."""

import datetime as dt
import gzip
import json
import shlex
import zipfile
from pathlib import Path

import numpy as np
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


@table(["embedding (2 entries)"], target="label")
def numpy_archive(folder):
    path = folder / "t.npz"
    np.savez(path, embedding=np.column_stack([SIGNAL, NOISE]), label=np.array(CLASSES))
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


def test_there_are_enough_tables():
    assert len(TABLES) >= 25


@pytest.mark.parametrize("name", TABLES)
def test_the_plain_comparison_runs(genmetric, tmp_path, name):
    write, words, target = TABLES[name]
    path = write(tmp_path)
    done = genmetric("compare", path, "-t", target)
    assert done.code == 0, done.err
    for text in words:
        assert text in done.err, done.err
    assert "generative metric" in done.out
    assert done.err.count("\n") < 16


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
    pipeline = package.load(model)
    assert next(iter(pipeline.named_steps)) == "columns"
    assert [str(label) for label in pipeline.predict(read_table(path))] == predicted
    assert genmetric("transform", model, path, "-o", out).code == 0


def test_dry_run_shows_the_plan_only(genmetric, tmp_path):
    path = titanic(tmp_path)
    model = tmp_path / "m.gm"
    done = genmetric("fit", path, "-t", "Survived", "-o", model, "--dry-run")
    assert done.code == 0
    assert done.out.startswith("columns: 6 used, 3 left out")
    assert not model.exists()


def test_strict_lists_all_reasons_and_the_command_without_it(genmetric, tmp_path):
    path = titanic(tmp_path)
    done = genmetric("compare", path, "-t", "Survived", "--strict")
    assert done.code == 2
    assert done.out == ""
    first, *problems, command = done.err.splitlines()
    assert first == (
        f"genmetric compare: {path}: --strict refuses the table, for {len(problems)} reasons."
    )
    assert problems[0].startswith(
        "  columns left out: 'PassengerId' (a row counter), 'Name' (free text),"
    )
    assert problems[1].startswith("  columns with missing values: 'Age' (5). Fill these cells or")
    assert "'Cabin' (18 missing: a category of its own)" in problems[2]
    stated = "  Without --strict, with these columns stated: genmetric compare "
    assert command.startswith(stated)
    assert "--drop PassengerId" in command
    assert "--strict" not in command.removeprefix(stated)
    words = shlex.split(command.removeprefix(stated))
    assert genmetric("compare", *words, "--dry-run").code == 0
    left = genmetric("compare", *words, "--strict").err
    assert "--strict refuses the table: columns with missing values: 'Age' (5)." in left
    assert "Without --strict: genmetric compare " in left
    assert genmetric("compare", *words, "--as-number", "Age", "--strict", "--dry-run").code == 0
    model = tmp_path / "model.gm"
    assert genmetric("fit", path, "-t", "Survived", "-o", model, "--strict").err.count("\n") > 1
    assert not model.exists()
    clean = write_csv(tmp_path, {"a": SIGNAL, "y": CLASSES}, "clean.csv")
    words = ["--strict", "--methods", "euclidean,uniform", "--folds", 2]
    assert genmetric("compare", clean, "-t", "y", *words).code == 0


def test_strict_lists_a_single_problem_in_one_line(genmetric, tmp_path):
    path = write_csv(tmp_path, {"a": SIGNAL, "b": [5] * N, "y": CLASSES})
    done = genmetric("compare", path, "-t", "y", "--strict")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "--strict refuses the table: columns left out: 'b' (is constant, 5). Corr" in done.err


def test_the_corrected_command_keeps_strict_if_it_solves_all_problems(genmetric, tmp_path):
    numbers = [f"{i % 9 + 1},{i:03d}" for i in range(N)]
    colours = ["" if i == 4 else "red" if i % 3 else "blue" for i in range(N)]
    counter = list(range(N))
    path = write_csv(
        tmp_path,
        {"": counter, "a": SIGNAL, "n": numbers, "c d": colours, "b": [5] * N, "y": CLASSES},
    )
    done = genmetric("compare", path, "-t", "y", "--strict")
    assert done.code == 2
    *_, command = done.err.splitlines()
    start = "  Corrected command: genmetric compare "
    assert command.startswith(start)
    assert command.endswith(" --strict --drop '' --as-category 'c d' --drop b --decimal .")
    again = genmetric("compare", *shlex.split(command.removeprefix(start)), "--dry-run")
    assert again.code == 0, again.err
    assert "n (1,000 is read as 1000)" in again.out


def test_strict_says_what_to_do_about_rows_without_a_target(genmetric, tmp_path):
    path = write_csv(
        tmp_path, {"a": SIGNAL, "y": ["" if i < 7 else c for i, c in enumerate(CLASSES)]}
    )
    done = genmetric("compare", path, "-t", "y", "--strict")
    assert done.code == 2
    assert done.err == (
        f"genmetric compare: {path}: --strict refuses the table: 7 rows have no target 'y' and are "
        "not used (first: line 2). Remove these rows. Without --strict: genmetric compare "
        f"{path} --target y\n"
    )


def test_strict_says_what_to_do_about_ignored_cells(genmetric, tmp_path):
    path = write_csv(tmp_path, {"a": ["oops", *SIGNAL[1:]], "b": SIGNAL, "y": CLASSES})
    done = genmetric("compare", path, "-t", "y", "--as-number", "a", "--strict")
    assert done.code == 2
    assert "'oops' is not a number" in done.err
    assert "Correct these cells or --drop the column. Without --strict: genmetric" in done.err
    words = ["--as-number", "a", "--na", "oops", "--strict", "--dry-run"]
    assert genmetric("compare", path, "-t", "y", *words).code == 0


def test_strict_is_not_blamed_for_a_table_that_cannot_be_used(genmetric, tmp_path):
    path = write_csv(tmp_path, {"a": ["inf", *SIGNAL[1:]], "b": [5] * N, "y": CLASSES})
    done = genmetric("compare", path, "-t", "y", "--strict")
    assert done.code == 2
    assert "2 problems with the columns, some of them because of --strict." in done.err
    # Nothing is left as a feature, so that no command is suggested.
    assert "genmetric compare " not in done.err.split("\n", 1)[1]
    path = write_csv(tmp_path, {"a": ["inf", *SIGNAL[1:]], "b": SIGNAL, "y": CLASSES})
    done = genmetric("compare", path, "-t", "y", "--strict")
    assert "refuses" not in done.err
    assert done.err.endswith(
        f"Corrected command: genmetric compare {path} --target y --strict --drop a\n"
    )


def test_texts_on_strict_agree(genmetric):
    kinds = (
        "if, without an option that asks for it, a column would be left out, text encoded as "
        "categories, a value imputed, a cell ignored, a row without a target not used, or an "
        "ambiguous format decided"
    )
    docs = Path(__file__).parents[2] / "docs"
    texts = [genmetric(command, "--help").out for command in ("compare", "fit")]
    texts += [(docs / name).read_text("utf-8") for name in ("tables.md", "command_line.md")]
    for text in texts:
        assert kinds in " ".join(text.split())
    for command in ("predict", "transform", "neighbors"):
        shown = " ".join(genmetric(command, "--help").out.split())
        assert "--strict Stop with an error if a cell cannot be read" in shown


def test_strict_refuses_ambiguous_dates(genmetric, tmp_path):
    dates = [f"{i % 9 + 1:02d}/{i % 7 + 1:02d}/2024" for i in range(N)]
    path = write_csv(tmp_path, {"a": SIGNAL, "d": dates, "y": CLASSES})
    done = genmetric("compare", path, "-t", "y", "--strict")
    assert done.code == 2
    assert "write them as year-month-day if this is wrong. Without --strict: genmet" in done.err


def test_strict_shortens_long_lists_of_columns(genmetric, tmp_path):
    odd = {f"c{i}\x07": [5] * N for i in range(40)}
    path = write_csv(tmp_path, {"a": [None, *SIGNAL[1:]], **odd, "y": CLASSES})
    done = genmetric("compare", path, "-t", "y", "--strict")
    assert done.code == 2
    assert "30 more." in done.err.splitlines()[1]
    assert "\x07" not in done.err


def test_decisions_can_be_changed(genmetric, tmp_path):
    path = titanic(tmp_path)
    words = ["--drop", "Fare", "--as-category", "Pclass", "--as-number", "PassengerId"]
    done = genmetric("compare", path, "-t", "Survived", "--dry-run", *words)
    assert "numbers     PassengerId, Age" in done.out
    assert "Pclass (3 values)" in done.out
    assert "Fare (on request)" in done.out


def test_separators_and_missing_words_can_be_given(genmetric, tmp_path):
    path = thousands_separators(tmp_path)
    done = genmetric("compare", path, "-t", "y", "--decimal", ",", "--dry-run")
    assert "price (2,848 is read as 2.848)" in done.out
    path = write_csv(
        tmp_path, {"a": ["-99" if i == 3 else s for i, s in enumerate(SIGNAL)], "y": CLASSES}
    )
    done = genmetric("compare", path, "-t", "y", "--na", "-99", "--dry-run")
    assert "a 1" in done.out


def test_new_rows_with_unreadable_cells(genmetric, tmp_path):
    model = tmp_path / "m.gm"
    path = write_csv(tmp_path, {"a": SIGNAL, "c": ["pq"[i % 2] for i in range(N)], "y": CLASSES})
    assert genmetric("fit", path, "-t", "y", "-m", "uniform", "-o", model, "-q").code == 0
    new = tmp_path / "new.csv"
    new.write_text("a,c\n1,p\noops,new\n3,q\n")
    done = genmetric("predict", model, new)
    assert done.code == 0
    assert done.out.count("\n") == 4
    assert "line 3, column 'a': 'oops' is not a number; treated as missing." in done.err
    unknown = (
        "'c' has categories that the training data does not have ('new'); they are read as 'p'."
    )
    assert unknown in done.err
    done = genmetric("predict", model, new, "--strict")
    assert done.code == 2
    assert "line 3, column 'a': 'oops' is not a number. Correct the cell, state that" in done.err
    assert "(--na oops), or leave out --strict." in done.err
    done = genmetric("predict", model, new, "--na", "oops")
    assert "oops" not in done.err


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


@pytest.mark.parametrize(
    ("decimal", "thousands", "more"), [(",", ".", ["1.234"]), (".", ",", ["1,234,567"])]
)
def test_new_rows_with_thousands_separators(genmetric, tmp_path, decimal, thousands, more):
    model = tmp_path / "m.gm"
    sizes = [f"{21 + s + i / 64:.2f}".replace(".", decimal) for i, s in enumerate(SIGNAL)]
    path = write_csv(tmp_path, {"a": sizes, "y": CLASSES}, delimiter=";")
    assert genmetric("fit", path, "-t", "y", "-m", "uniform", "-o", model, "-q").code == 0
    new = tmp_path / "new.csv"
    cells = [f"1{thousands}234{decimal}50", *more, "x1", "y2", "y2"]
    new.write_text("a\n" + "".join(f'"{cell}"\n' for cell in cells))
    done = genmetric("predict", model, new)
    assert done.code == 0, done.err
    bad = f"line {len(more) + 3}, column 'a': 'x1' is not a number (3 cells, also 'y2')"
    assert f"{bad}; treated as missing." in done.err
    assert genmetric("predict", model, new, "--na", "x1", "--na", "y2").err == ""


def test_standard_input_and_output(genmetric, tmp_path, monkeypatch):
    model = tmp_path / "m.gm"
    path = write_csv(tmp_path, {"a": SIGNAL, "y": CLASSES})
    assert genmetric("fit", path, "-t", "y", "-m", "uniform", "-o", model, "-q").code == 0

    def piped(*words):
        with path.open() as file:
            monkeypatch.setattr("sys.stdin", file)
            return genmetric(*words)

    done = piped("predict", model, "-", "-o", "-")
    assert done.code == 0, done.err
    assert done.out == genmetric("predict", model, path).out
    assert piped("transform", model, "-").out.startswith("z1\n")
    done = piped("compare", "-", "-t", "y", "--methods", "euclidean,uniform", "--folds", 2)
    assert done.code == 0, done.err
    assert "standard input" in done.out


def test_unknown_output_formats(genmetric, tmp_path):
    model = tmp_path / "m.gm"
    path = write_csv(tmp_path, {"a": SIGNAL, "y": CLASSES})
    assert genmetric("fit", path, "-t", "y", "-m", "uniform", "-o", model, "-q").code == 0
    done = genmetric("predict", model, path, "-o", tmp_path / "out.xlsx")
    assert done.code == 2
    assert "out.xlsx: unknown output format. Expected a name that ends in one of .csv" in done.err
    assert not (tmp_path / "out.xlsx").exists()


def test_compressed_bombs(genmetric, tmp_path):
    """Files that grow a thousand times: a comparison samples them, a fit reads batches."""
    path = tmp_path / "bomb.csv.gz"
    block = "".join(f"{a},{b},{y}\n" for a, b, y in zip(SIGNAL, NOISE, CLASSES, strict=True))
    path.write_bytes(gzip.compress(b"a,b,y\n" + block.encode() * 8000))
    memory = ["--memory", "8M"]
    words = ["--methods", "euclidean", "--folds", 2, "--rows", 200]
    done = genmetric("compare", path, "-t", "y", *words, *memory)
    assert done.code == 0, done.err
    assert f"a random sample of 200 of {8000 * N} rows is used" in done.err
    model = tmp_path / "m.gm"
    done = genmetric("fit", path, "-t", "y", "-o", model, "--keep-rows", 500, *memory)
    assert done.code == 0, done.err
    assert "read in batches, because all rows would take more than 8.0 MB (--memory)" in done.err
    assert f"uniform from {8000 * N} rows" in done.err
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(64 << 20))
    done = genmetric("compare", tmp_path / "bomb.npz", "-t", "y", *memory)
    assert done.code == 2
    assert "64.0 MB uncompressed, more than the memory budget" in done.err
