"""Tables as people have them: the plain commands run on each at the first attempt."""

import gzip
import shlex

import pytest

pd = pytest.importorskip("pandas")
parquet = pytest.importorskip("pyarrow.parquet")

from table_kinds import KINDS, csv_bytes, known, noise, signal  # noqa: E402

N = 24
SIGNAL, NOISE, CLASSES = signal(N), noise(N), known(N)["y"][1]
METHODS = {"classification": "generative", "regression": "regression"}


def write_csv(folder, columns):
    """Write columns to a file."""
    path = folder / "t.csv"
    path.write_bytes(csv_bytes(columns))
    return path


def kind(name):
    return next(kind for kind in KINDS if kind.name == name)


def test_the_comparison_runs_at_the_first_attempt(genmetric, tmp_path, table_kind):
    method = METHODS[table_kind.task]
    few = ["--methods", f"standardized,{method}", "--folds", 2, "--repeats", 1]
    options = [*table_kind.command_options(), *few]
    done = genmetric("compare", table_kind.save(tmp_path), "-t", table_kind.target, *options)
    assert (done.code, done.err) == (0, ""), done.err
    is_number = table_kind.task == "regression"
    assert done.out.startswith(f"target {table_kind.target}: {'a number' if is_number else ''}")
    for text in table_kind.words:
        assert text in done.out, done.out
    verdict = done.out.split("\n\n")[1]
    assert verdict.startswith(("Use ", "Keep ", "No metric is recommended"))
    assert f"({method})" in done.out


def test_a_model_fits_and_predicts(genmetric, tmp_path, table_kind):
    import genmetric as package

    path, target = table_kind.save(tmp_path), ["-t", table_kind.target]
    model, out = tmp_path / "model.gm", tmp_path / "out.parquet"
    options = [*table_kind.command_options(), "-m", METHODS[table_kind.task], "-o", model, "-q"]
    done = genmetric("fit", path, *target, *options)
    assert done.code == 0, done.err
    given = table_kind.command_options(new_rows=True)
    done = genmetric("predict", model, path, *given, "-o", out)
    assert done.code == 0, done.err
    assert "error" in done.err
    predicted = parquet.read_table(out).column("predicted").to_pylist()
    # The model is one pipeline that takes the table it came from.
    expected = package.load(model).predict(table_kind.read(path)).tolist()
    exact = table_kind.task == "classification"
    assert predicted == (expected if exact else pytest.approx(expected, rel=1e-9))
    assert genmetric("transform", model, path, *given, "-o", out).code == 0
    done = genmetric("neighbors", model, path, path, *given, "-k", 1)
    assert done.code == 0, done.err
    assert done.out.startswith("query,rank,neighbor,distance,")


def test_the_plain_command_and_its_next_command(genmetric, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = genmetric("compare", kind("penguins").save(tmp_path), "-t", "species")
    assert done.code == 0, done.err
    assert "gradient boosting" in done.out
    if "Next: " in done.out:
        step = done.out.rpartition("Next: ")[2]
        assert genmetric(*shlex.split(step)[1:]).code == 0


def test_dry_run_shows_the_plan_only(genmetric, tmp_path):
    model = tmp_path / "m.gm"
    done = genmetric(
        "fit", kind("titanic").save(tmp_path), "-t", "Survived", "-o", model, "--dry-run"
    )
    assert (done.code, done.err) == (0, "")
    assert "columns: 6 used, 3 left out" in done.out
    assert not model.exists()


def test_strict_names_the_reasons(genmetric, tmp_path):
    path, model = kind("titanic").save(tmp_path), tmp_path / "m.gm"
    for words in (["compare", path], ["fit", path, "-o", model]):
        done = genmetric(*words, "-t", "Survived", "--strict")
        assert (done.code, done.out) == (2, "")
        assert done.err.count("\n") == 1
        assert "--strict refuses the table: column 'PassengerId' is left out (a row" in done.err
        assert "column 'Age' has 5 missing values" in done.err
        plan = genmetric(*words, "-t", "Survived", "--strict", "--dry-run")
        assert (plan.code, plan.err) == (2, done.err)
        assert "columns: 6 used, 3 left out" in plan.out
    assert not model.exists()
    clean = write_csv(tmp_path, {"a": SIGNAL, "b": NOISE, "c": [5] * N, "y": CLASSES})
    words = ["fit", clean, "-t", "y", "-m", "uniform", "-o", model, "--strict"]
    assert genmetric(*words).code == 2
    assert genmetric(*words, "--drop", "c").code == 0


def test_strict_stops_at_separators_in_doubt(genmetric, tmp_path):
    cells = {"a": ["€ 960", "€ 1,651"] * (N // 2), "b": ["3,5", "12,25", "7"] * (N // 3)}
    path = write_csv(tmp_path, cells | {"y": CLASSES})
    words = ["compare", path, "-t", "y", "--strict", "--dry-run"]
    done = genmetric(*words)
    assert done.code == 2
    assert "'€ 1,651' is read as 1651" in done.err
    assert "--thousands , or --decimal , decides" in done.err
    done = genmetric(*words, "--thousands", ",")
    assert (done.code, done.err) == (0, "")
    assert "a (€ 960 is read as 960), b (3,5 is read as 3.5)" in done.out


def test_decisions_can_be_changed(genmetric, tmp_path):
    path = kind("titanic").save(tmp_path)
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


def test_a_column_can_name_the_rows(genmetric, tmp_path):
    model = tmp_path / "m.gm"
    names = [f"c{7 * i}" for i in range(N)]
    path = write_csv(tmp_path, {"customer id": names, "a": SIGNAL, "y": CLASSES})
    assert genmetric("fit", path, "-t", "y", "-m", "uniform", "-o", model, "-q").code == 0
    done = genmetric("predict", model, path)
    assert done.out.startswith("predicted\n")
    done = genmetric("predict", model, path, "--keep", "customer id")
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
