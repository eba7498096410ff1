"""Shell completion of the command, and what `inspect` prints for hostile names."""

import os
import subprocess
import sys

import pytest

import genmetric
from genmetric.cli._inspect import escape_control


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    done = subprocess.run(
        [sys.executable, "-m", "genmetric"],
        env={**os.environ, "_GENMETRIC_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert f"{shell}_complete" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "position", "expected"),
    [("genmetric co", 1, "compare"), ("genmetric fit --meth", 2, "--method")],
)
def test_completions(words, position, expected):
    done = subprocess.run(
        [sys.executable, "-m", "genmetric"],
        env={
            **os.environ,
            "_GENMETRIC_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(position),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert expected in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a\x1b[31mb", "a\\u001b[31mb"),
        ("a\x9bb", "a\\u009bb"),
        ("a\u202eb", "a\\u202eb"),
        ("a\nb\tc", "a\nb\\tc"),
        ("Größe 漢", "Größe 漢"),
    ],
)
def test_control_characters_are_escaped(text, escaped):
    assert escape_control(text) == escaped


def test_inspect_escapes_names(tmp_path, capfd):
    import pandas as pd
    from sklearn.datasets import load_iris

    from genmetric.cli import main

    X, y = load_iris(return_X_y=True)
    names = ["a\x1b[2J", "b", "c\u202e", "d"]
    model = genmetric.GenerativeMetric().fit(pd.DataFrame(X, columns=names), y)
    genmetric.save(model, tmp_path / "model.gm")
    for options in ([], ["--json"]):
        assert main(["inspect", str(tmp_path / "model.gm"), *options]) == 0
        out = capfd.readouterr().out
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert not options or "\\u001b" in out
