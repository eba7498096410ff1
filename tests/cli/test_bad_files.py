"""Bad input: one line that says what and what to do, exit code 2, nothing half-written."""

import gzip
import json
import os
import stat
import zipfile

import pytest

GOOD = "a,b,y\n" + "".join(f"{i * 7 % 11},{i % 5},{'uv'[i % 2]}\n" for i in range(40))

BAD = {
    "empty": (b"", "the file is empty"),
    "garbage": (bytes(range(256)) * 9, "not CSV, JSON lines, Parquet, Arrow or .xlsx"),
    "header only": (b"a,b,y\n", "a header but no data rows"),
    "no target": (
        GOOD.replace("y", "Y", 1).encode(),
        "there is no column 'y' (target). Did you mean 'Y'?",
    ),
    "one class": (b"a,y\n1,u\n2,u\n3,u\n", "has one class, 'u'; at least two are required"),
    "lists as target": (
        b'{"a": 1, "y": [1]}\n{"a": 2, "y": [2]}\n',
        "the target 'y' contains lists",
    ),
    "nothing left": (b"a,b,y\n1,,u\n1,,v\n1,,u\n1,,v\n", "is left as a feature"),
    "half a gzip": (gzip.compress(GOOD.encode() * 999)[:500], "corrupted"),
    "excel": (b"PK\x03\x04" + bytes(40), "corrupted Excel"),
    "half a parquet": (b"PAR1" + bytes(40), "corrupted Parquet"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("command", ["compare", "fit", "stream"])
def test_bad_tables(genmetric, tmp_path, kind, command):
    content, words = BAD[kind]
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    extra = ["--report", tmp_path / "r.html"] if command == "compare" else ["-o", tmp_path / "m.gm"]
    extra += ["--stream"] if command == "stream" else []
    done = genmetric("compare" if command == "compare" else "fit", path, "-t", "y", *extra)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert words in done.err
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    "content",
    [
        b"a,b,y\n" + b"1,99999999999999999999999,u\n2,-5,v\n" * 20,
        b"a,b,y\n" + b"1,true,u\n2,false,v\n" * 20,
        b"<script>alert(1)</script>,b,y\n" + b"1,2,u\n2,1,v\n" * 20,
        b"a,b,y\n" + b"1,2,0\n2,1,1\n" * 20,
        GOOD.encode() + b"1\n",
        GOOD.encode() + b"inf,1,u\n1e301,2,v\n",
    ],
    ids=["huge", "booleans", "script", "numeric classes", "ragged", "infinite"],
)
def test_odd_tables_that_work(genmetric, tmp_path, content):
    path, model = tmp_path / "t.csv", tmp_path / "m.gm"
    path.write_bytes(content)
    done = genmetric("fit", path, "-t", "y", "-m", "uniform", "-o", model)
    assert done.code == 0, done.err
    assert genmetric("predict", model, path).code == 0
    few = ["--methods", "euclidean,uniform", "--folds", 2, "--repeats", 1]
    done = genmetric("compare", path, "-t", "y", *few)
    assert done.code == 0, done.err
    if content.endswith(b"\n1\n"):
        assert "line 42" in done.out


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(GOOD)
    return path


def test_folders_absent_files_and_other_models(genmetric, good, tmp_path, model):
    for path, words in ((tmp_path, "is a directory"), (tmp_path / "x.csv", "does not exist")):
        for command in (["compare", path, "-t", "y"], ["predict", path, good]):
            done = genmetric(*command)
            assert done.code == 2
            assert words in done.err
            assert done.err.count("\n") == 1
    (tmp_path / "half.gm").write_bytes(model.read_bytes()[:-500])
    for path in (good, tmp_path / "half.gm"):
        done = genmetric("inspect", path)
        assert (done.code, done.out) == (2, "")
        assert "is not a model file of genmetric, or it is damaged" in done.err


def test_invalid_outputs(genmetric, good, tmp_path, model):
    for out, words in (
        (tmp_path / "absent" / "m.csv", "does not exist"),
        (tmp_path, "is a directory"),
        (good, "is also an input"),
    ):
        for command in (
            ["fit", good, "-t", "y", "-o", out],
            ["transform", model, good, "-o", out],
            ["compare", good, "-t", "y", "--report", out],
        ):
            done = genmetric(*command)
            assert done.code == 2
            assert done.err.count("\n") == 1
            assert words in done.err
    assert good.read_text() == GOOD
    done = genmetric("predict", model, good, "-o", tmp_path / "out.xlsx")
    assert "out.xlsx: unknown output format. Expected a name that ends in one of .csv" in done.err


@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="the superuser may write anywhere"
)
def test_a_read_only_folder(genmetric, good, tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(0o500)
    done = genmetric("fit", good, "-t", "y", "-o", locked / "m.gm")
    assert done.code == 2
    assert "Permission denied" in done.err


def test_full_disk_keeps_the_existing_file(genmetric, wine, model, tmp_path, monkeypatch):
    out = tmp_path / "out.csv"
    out.write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    done = genmetric("predict", model, wine, "-o", out)
    assert done.code == 2
    assert f"{out}: No space left on device." in done.err
    assert out.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_a_late_error_leaves_no_output(genmetric, wine, model, tmp_path, monkeypatch):
    monkeypatch.setattr("genmetric.tables.read.BLOCK_BYTES", 4096)
    new, out = tmp_path / "new.csv", tmp_path / "out.csv"
    head, *rows = wine.read_text().splitlines(keepends=True)
    new.write_text(head + "".join(rows) * 5 + "w," + "1," * 12 + "oops,class 0\n")
    done = genmetric("transform", model, new, "-o", out, "--strict")
    assert done.code == 2
    assert "line 892, column 'proline': 'oops' is not a number" in done.err
    assert not out.exists()


def test_names_of_output_columns_do_not_repeat(genmetric, wine, model, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(wine.read_text().replace("name,", "z1,", 1))
    done = genmetric("transform", model, path, "--keep", "z1")
    assert done.code == 2
    assert "the output has a column 'z1' of its own. Rename that of the table." in done.err


def edited_model(model, tmp_path, change):
    """Write a model file whose metadata are changed."""
    path = tmp_path / "edited.gm"
    with zipfile.ZipFile(model) as old, zipfile.ZipFile(path, "w") as new:
        for member in old.infolist():
            content = old.read(member)
            if member.filename == "genmetric.json":
                facts = json.loads(content)
                change(facts["metadata"])
                content = json.dumps(facts).encode()
            new.writestr(member, content)
    return path


METADATA = {
    "target": [3, "y", [1], {"name": 3}, {"name": "cultivar", "task": 5, "other": 1}, None],
    "training": [3, [], {"rows": "x", "streamed": 1}, {"classes": 3}, {"contributions": [1]}],
    "method": [3, ["a"], {}],
    "id": [3, ["a"], {}],
}


@pytest.mark.parametrize("key", METADATA)
def test_models_with_metadata_of_wrong_types(genmetric, wine, model, tmp_path, key):
    for value in METADATA[key]:
        path = edited_model(model, tmp_path, lambda facts, value=value: facts.update({key: value}))
        for words in (["inspect", path], ["predict", path, wine], ["transform", path, wine]):
            done = genmetric(*words)
            assert done.code in (0, 2), (value, done.err)
            if done.code == 2:
                assert done.err.count("\n") == 1
                assert done.err.startswith(f"genmetric {words[0]}: ")


def test_permissions_of_a_replaced_file_are_kept(genmetric, wine, model, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("old")
    out.chmod(0o640)
    assert genmetric("predict", model, wine, "-o", out, "-q").code == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    if os.name == "posix" and os.geteuid() == 0:
        os.chown(out, -1, 12345)
        assert genmetric("predict", model, wine, "-o", out, "-q").code == 0
        assert (out.stat().st_gid, stat.S_IMODE(out.stat().st_mode)) == (12345, 0o640)
