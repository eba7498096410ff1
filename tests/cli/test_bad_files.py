"""Bad input: one line that says what and what to do, exit code 2, nothing half-written."""

import gzip
import os

import numpy as np
import pytest

GOOD = "a,b,y\n" + "".join(f"{i},{i % 5},{'uv'[i % 2]}\n" for i in range(40))

BAD = {
    "empty": (b"", "the file is empty"),
    "garbage": (bytes(range(256)) * 9, "not a text file (CSV)"),
    "header only": (b"a,b,y\n", "a header but no data rows"),
    "ragged": (GOOD.encode() + b"1\n", "line 42 has 1 cells, the header has 3"),
    "no target": (
        GOOD.replace("y", "Y", 1).encode(),
        "there is no column 'y' (target). Did you mean 'Y'?",
    ),
    "one class": (b"a,y\n1,u\n2,u\n3,u\n", "contains a single class, 'u'; at least two"),
    "lists as target": (
        b'{"a": 1, "y": [1]}\n{"a": 2, "y": [2]}\n',
        "the target 'y' contains lists",
    ),
    "infinite target": (b"a,y\n1,2\n2,inf\n3,1\n", "line 3: the target 'y' is infinite"),
    "infinite": (b"a,y\n1,u\ninf,v\n", "line 3, column 'a': inf is infinite"),
    "too large": (b"a,y\n1,u\n1e301,v\n2,u\n", "line 3, column 'a': 1e+301 is beyond 1e+100"),
    "nothing left": (b"a,b,y\n1,,u\n1,,v\n", "no column is left as a feature (a (is constant"),
    "half a gzip": (gzip.compress(GOOD.encode() * 999)[:500], "corrupted gzip"),
    "excel": (b"PK\x03\x04" + bytes(40), "corrupted Excel workbook"),
    "half a parquet": (b"PAR1" + bytes(40), "corrupted Parquet"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("command", ["compare", "fit"])
def test_bad_tables(genmetric, tmp_path, kind, command):
    content, words = BAD[kind]
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    extra = ["--report", tmp_path / "r.html"] if command == "compare" else ["-o", tmp_path / "m.gm"]
    done = genmetric(command, path, "-t", "y", *extra)
    assert done.code == 2
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert words in done.err
    assert done.err.startswith(f"genmetric {command}: ")
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    "kind", [k for k in BAD if k not in ("half a parquet", "excel", "no target", "empty")]
)
def test_bad_streams(genmetric, tmp_path, kind):
    content, words = BAD[kind]
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    done = genmetric("fit", path, "-t", "y", "-o", tmp_path / "m.gm", "--stream")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert words in done.err
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    "content",
    [
        b"a,b,y\n" + b"1,99999999999999999999999,u\n2,-5,v\n" * 20,
        b"a,b,y\n" + b"1,true,u\n2,false,v\n" * 20,
        b"a;b;y\n" + b"1;2,5;u\n2;3,5;v\n" * 20,
        b"<script>alert(1)</script>,b,y\n" + b"1,2,u\n2,1,v\n" * 20,
        b"a,b,y\n" + b"1,2,0\n2,1,1\n" * 20,
        b"a,constant,y\n" + b"1,7,u\n2,7,v\n" * 20,
        gzip.compress(GOOD.encode()),
    ],
    ids=["huge", "booleans", "decimal comma", "script", "numeric classes", "constant", "gzip"],
)
def test_odd_tables_that_work(genmetric, tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    model = tmp_path / "m.gm"
    done = genmetric("fit", path, "-t", "y", "-m", "uniform", "-o", model)
    assert done.code == 0, done.err
    assert genmetric("predict", model, path).code == 0
    done = genmetric("compare", path, "-t", "y", "--methods", "euclidean,uniform", "--folds", 2)
    assert done.code == 0, done.err


def test_folders_and_absent_files(genmetric, tmp_path):
    for path, words in ((tmp_path, "is a folder"), (tmp_path / "x.csv", "no such file")):
        done = genmetric("compare", path, "-t", "y")
        assert done.code == 2
        assert words in done.err
        assert done.err.count("\n") == 1


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(GOOD)
    return path


def test_invalid_outputs(genmetric, good, tmp_path, model):
    for out, words in (
        (tmp_path / "absent" / "m.gm", "does not exist"),
        (tmp_path, "is a folder"),
        (good, "is also an input"),
    ):
        for words_of in (
            ["fit", good, "-t", "y", "-o", out],
            ["transform", model, good, "-o", out],
            ["compare", good, "-t", "y", "--report", out],
        ):
            done = genmetric(*words_of)
            assert done.code == 2, words_of
            assert done.err.count("\n") == 1
            assert words in done.err or words_of[0] == "transform"
    assert good.read_text() == GOOD


@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="the superuser may write anywhere"
)
def test_a_read_only_folder(genmetric, good, tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o500)
    try:
        done = genmetric("fit", good, "-t", "y", "-o", locked / "m.gm")
    finally:
        locked.chmod(0o700)
    assert done.code == 2
    assert "Permission denied" in done.err
    assert done.err.count("\n") == 1


def test_full_disk_keeps_the_existing_file(genmetric, good, tmp_path, monkeypatch):
    model, out = tmp_path / "m.gm", tmp_path / "out.csv"
    assert genmetric("fit", good, "-t", "y", "-m", "uniform", "-o", model, "-q").code == 0
    out.write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    done = genmetric("predict", model, good, "-o", out)
    assert done.code == 2
    assert f"{out}: No space left on device." in done.err
    assert out.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.gm", "out.csv", "t.csv"]


def test_late_error_leaves_no_output(genmetric, good, tmp_path, monkeypatch):
    monkeypatch.setattr("genmetric.tables._blocks.BLOCK_BYTES", 4096)
    model, out = tmp_path / "m.gm", tmp_path / "out.csv"
    assert genmetric("fit", good, "-t", "y", "-m", "uniform", "-o", model, "-q").code == 0
    new = tmp_path / "new.csv"
    new.write_text("a,b\n" + "1,2\n" * 5000 + "1,inf\n")
    done = genmetric("transform", model, new, "-o", out)
    assert done.code == 2
    assert "line 5002, column 'b': inf is infinite" in done.err
    assert not out.exists()


def test_all_problems_and_the_corrected_command(genmetric, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,c c,y\ninf,1,1e200,u\n1,2,3,v\n2,1,4,u\n")
    done = genmetric("compare", path, "-t", "y", "--seed", 3)
    assert done.code == 2
    assert "column 'a': inf is infinite" in done.err
    assert "column 'c c': 1e+200 is beyond" in done.err
    command = f"genmetric compare {path} --target y --seed 3 --drop a --drop 'c c'"
    assert done.err.endswith(f"Corrected command: {command}\n")


def test_more_features_than_rows(genmetric, tmp_path, rng):
    path = tmp_path / "t.csv"
    X = rng.normal(size=(12, 30))
    names = ",".join(f"x{j}" for j in range(30))
    lines = [",".join(map(repr, row)) + f",{'uv'[i % 2]}" for i, row in enumerate(X.tolist())]
    path.write_text(f"{names},y\n" + "\n".join(lines) + "\n")
    done = genmetric("fit", path, "-t", "y", "-m", "uniform", "-o", tmp_path / "m.gm", "-q")
    assert done.code == 0, done.err
    done = genmetric(
        "compare", path, "-t", "y", "--folds", 3, "--methods", "standardised,uniform,lda"
    )
    assert done.code == 0, done.err
    scores = [line.split("±")[0].split()[-1] for line in done.out.splitlines() if "±" in line]
    assert len(scores) == 3
    assert np.isfinite(np.array(scores, dtype=float)).all()
