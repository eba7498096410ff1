"""Progress on a terminal: on stderr, apart from the results."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("rich")
pty = pytest.importorskip("pty")


def test_results_and_progress_do_not_mix(wine, tmp_path):
    inner, outer = pty.openpty()
    words = ["compare", wine, "-t", "cultivar", "--id", "name", "--methods", "euclidean,uniform"]
    with (tmp_path / "out").open("wb") as out:
        running = subprocess.Popen(
            [sys.executable, "-m", "genmetric", *map(str, words), "--folds", "3"],
            stdout=out,
            stderr=outer,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(outer)
        seen = b""
        try:
            while part := os.read(inner, 4096):
                seen += part
        except OSError:
            pass  # The terminal is closed with the process.
        os.close(inner)
        assert running.wait(60) == 0
    assert b"compare" in seen
    assert b"fold" in seen
    text = (tmp_path / "out").read_text()
    assert text.startswith("wine.csv: 178 samples")
    assert "\x1b" not in text


def test_no_terminal_no_progress(genmetric, wine, model, tmp_path):
    done = genmetric("transform", model, wine, "-o", tmp_path / "out.csv")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_name_that_is_there_already(genmetric, wine, model, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(wine.read_text().replace("name,", "z1,", 1))
    done = genmetric("transform", model, path, "--keep", "z1")
    assert done.code == 2
    assert "'z1' names a column twice. Use another --prefix." in done.err
    assert genmetric("transform", model, path, "--keep", "z1", "--prefix", "m").code == 0
