"""The command as a process: its help, its errors, its end."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from genmetric.cli.output import escape_control

COMMANDS = [
    "demo",
    "compare",
    "fit",
    "transform",
    "predict",
    "neighbors",
    "inspect",
    "reproduce",
    "datasets",
]


def process(*words, code=None, **options):
    start = ["-m", "genmetric"] if code is None else ["-c", textwrap.dedent(code)]
    command = [sys.executable, *start, *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, **options
    )


IMPORTS = """
import sys
from genmetric.cli import main
code = main(sys.argv[1:])
slow = {"numpy", "scipy", "sklearn", "rich", "pyarrow", "pandas", "matplotlib", "joblib"}
print(code, *sorted(slow & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--help"], 0),
        *(([name, "--help"], 0) for name in COMMANDS),
        (["fit", "--no-such-option"], 2),
        (["compare", "absent.csv", "--target", "y"], 2),
        (["compare", "absent.csv", "--target", "y", "--methods", "lmmn"], 2),
        (["fit", "absent.csv", "--target", "y", "--output", "m.gm", "--method", "ridge"], 2),
        (["predict", "absent.gm"], 2),
        (["reproduce", "huge"], 2),
    ],
)
def test_help_and_invalid_arguments_import_nothing_large(words, expected):
    done = process(*words, code=IMPORTS)
    assert done.stderr.splitlines()[-1] == str(expected)
    if words == ["--help"]:
        assert all(f"  {name} " in done.stdout for name in COMMANDS)


def test_help_and_version(genmetric):
    import genmetric as package

    assert genmetric().out == genmetric("--help").out
    assert genmetric().code == 0
    assert genmetric("--version").out == f"genmetric {package.__version__}\n"
    for name in COMMANDS:
        assert genmetric(name, "--help").out.startswith(f"Usage: genmetric {name} ")
    assert "regional-kernels" in genmetric("compare", "--help").out
    assert "gradient boosting" not in genmetric("fit", "--help").out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["copmare"], "genmetric: no command 'copmare'. Did you mean compare?\n"),
        (["zzz"], "genmetric: no command 'zzz'. The commands are demo, compare"),
        (
            ["compare"],
            "genmetric compare: Missing argument 'DATA'. genmetric compare --help lists",
        ),
        (["compare", "-"], "genmetric compare: Missing option '-t' / '--target'."),
        *(
            (["fit", "-", "-t", "y", "-o", "m", "-m", key], "genmetric fit: Invalid value for '-m'")
            for key in ("magic", "ridge", "lda,nca")
        ),
        (
            ["compare", "-", "-t", "y", "--score", "accuracy"],
            "genmetric compare: Invalid value for '--score'",
        ),
        (["--nonsense"], "genmetric: No such option"),
        (["inspect", "absent.gm"], "genmetric inspect: Invalid value for 'MODEL': File"),
    ],
)
def test_invalid_arguments_give_one_line(genmetric, words, error):
    done = genmetric(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(error)
    assert done.err.count("\n") == 1


def test_debug_shows_the_traceback_and_bugs_are_bugs(genmetric, tmp_path, monkeypatch):
    bad = tmp_path / "bad.csv"
    bad.write_text("a,y\n1,u\n")
    assert "Traceback" not in genmetric("compare", bad, "-t", "y").err
    assert "Traceback" in genmetric("--debug", "compare", bad, "-t", "y").err

    def broken(_):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("genmetric.cli.options.data_source", broken)
    monkeypatch.setattr("genmetric.cli.inspect.Model", broken)
    for words, code, text in (
        (["compare", bad, "-t", "y"], 1, "genmetric compare: this is a bug"),
        (["inspect", bad], 2, "genmetric inspect: the model is damaged, and if genmetric wrote"),
    ):
        done = genmetric(*words)
        assert done.code == code
        assert done.err.startswith(text)
        assert "ZeroDivisionError: division by zero" in done.err


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a\x1b[31mb", "a\\u001b[31mb"),
        ("a\x9bb\u202ec", "a\\u009bb\\u202ec"),
        ("a\nb\tc", "a\nb\\tc"),
        ("Größe 漢", "Größe 漢"),
    ],
)
def test_control_characters_are_escaped(text, escaped):
    assert escape_control(text) == escaped


def test_names_with_control_characters_do_not_reach_the_terminal(genmetric, tmp_path):
    table, out = tmp_path / "t.csv", tmp_path / "m.gm"
    rows = "".join(
        f"{i * 3 % 7},{i * 7 % 5},{name}\n" for i, name in enumerate(["u", "v\x9b"] * 10)
    )
    table.write_text(f"a\x1b[31m,b\x07,y\n{rows}")
    for words in (
        ["compare", table, "-t", "y", "--methods", "euclidean,generative", "--repeats", 1],
        ["compare", table, "-t", "z"],
        ["fit", table, "-t", "y", "-o", out, "-m", "generative"],
        ["inspect", out],
        ["inspect", out, "--json"],
    ):
        done = genmetric(*words)
        assert done.code == (2 if "z" in words else 0), done.err
        assert not {"\x1b", "\x07", "\x9b"} & set(done.out + done.err)
    assert "\\u001b" in done.out


def test_values_with_control_characters_do_not_reach_the_terminal(genmetric, tmp_path, monkeypatch):
    table, out = tmp_path / "t.csv", tmp_path / "m.gm"
    rows = "".join(f"n\x1b[2J{i},{i * 3 % 7},{i * 7 % 5},{'uv'[i % 2]}\x9b\n" for i in range(20))
    table.write_text(f"id\x07,a,b,y\n{rows}")
    assert genmetric("fit", table, "-t", "y", "--id", "id\x07", "-o", out, "-q").code == 0
    commands = (
        ["predict", out, table],
        ["transform", out, table],
        ["neighbors", out, table, table],
    )
    for words in commands:
        # A file, and another command, get the values as they are.
        assert {"\x1b", "\x9b"} & set(genmetric(*words).out)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for words in commands:
        done = genmetric(*words)
        assert done.code == 0, done.err
        assert not {"\x1b", "\x07", "\x9b"} & set(done.out)
        assert "n\\u001b[2J3" in done.out


def test_without_click_the_error_has_the_command():
    done = process(
        code="""
        import sys

        class Absent:
            def find_spec(name, path=None, target=None):
                if name.partition(".")[0] == "click":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Absent)
        from genmetric.cli import main
        sys.exit(main(["--help"]))
        """
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert 'pip install "genmetric[cli,report]"' in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize(("signal_", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_leave_nothing_behind(two_classes, tmp_path, signal_, code):
    path, out = two_classes(4000), tmp_path / "out"
    out.mkdir()
    words = ["fit", path, "-t", "y", "-o", out / "m.gm", "--method", "lmnn"]
    running = subprocess.Popen(
        [sys.executable, "-m", "genmetric", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(0.5)
    running.send_signal(signal_)
    stdout, stderr = running.communicate(timeout=60)
    # CPython ends by the signal itself if it arrives during some imports.
    assert running.returncode in (code, -signal_)
    assert stdout == b""
    assert b"Traceback" not in stderr
    assert list(out.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_closed_streams(tmp_path, wine):
    def shell(words):
        command = f"'{sys.executable}' -m genmetric {words}"
        return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    done = shell("datasets >&-")
    assert done.returncode == 2
    assert "the standard output is closed. Redirect it" in done.stderr
    # The next file would get the number of the closed stream, and messages would go into it.
    model = tmp_path / "model.gm"
    assert shell(f"fit {wine} -t cultivar -m lda -o {model} 2>&- <&-").returncode == 0
    assert shell(f"inspect {model}").returncode == 0
    assert shell(f"inspect {wine} 2>&-").returncode == 2
    # More than a pipe holds; its reader stops after one line.
    large = tmp_path / "large.csv"
    head, *rows = wine.read_text().splitlines(keepends=True)
    large.write_text(head + "".join(rows) * 50)
    done = shell(f"predict {model} {large} -q --keep name --proba | head -n 1")
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


@pytest.mark.parametrize("words", ["genmetric co", "genmetric fit --meth"])
def test_shell_completion(words):
    variables = {"_GENMETRIC_COMPLETE": "bash_complete", "COMP_WORDS": words}
    position = str(words.count(" "))
    done = process(env={**os.environ, **variables, "COMP_CWORD": position})
    assert ("compare" if position == "1" else "--method") in done.stdout, done.stderr


def test_results_and_progress_do_not_mix(wine, tmp_path):
    pytest.importorskip("rich")
    pty = pytest.importorskip("pty")
    inner, outer = pty.openpty()
    words = ["compare", wine, "-t", "cultivar", "--methods", "euclidean,lda", "--repeats", 1]
    with (tmp_path / "out").open("wb") as out:
        running = subprocess.Popen(
            [sys.executable, "-m", "genmetric", *map(str, words)],
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
    assert b"compare: fold" in seen
    text = (tmp_path / "out").read_text()
    assert text.startswith("target cultivar: 3 classes (class 0, class 1, class 2)\nwine.csv: 178")
    assert "\x1b" not in text
