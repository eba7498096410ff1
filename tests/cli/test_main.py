"""The command as a process: its help, its errors, its end."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

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


def process(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "genmetric", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def imports_of(*words):
    """Run the command in a new process; return its exit code and the large packages it imported."""
    code = """
    import sys
    from genmetric.cli import main
    code = main(sys.argv[1:])
    slow = {"numpy", "scipy", "sklearn", "rich", "pyarrow", "pandas", "matplotlib", "joblib"}
    print(code, *sorted(slow & set(sys.modules)), file=sys.stderr)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *words],
        capture_output=True,
        text=True,
        check=False,
    )
    code, *imported = done.stderr.splitlines()[-1].split()
    return int(code), set(imported), done.stdout


def test_help_imports_nothing_large():
    code, imported, out = imports_of("--help")
    assert (code, imported) == (0, set())
    for name in COMMANDS:
        assert f"  {name} " in out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_and_argument_errors_of_commands_do_not_import_estimators(name):
    for words, expected in (([name, "--help"], 0), ([name, "--no-such-option"], 2)):
        code, imported, _ = imports_of(*words)
        assert code == expected
        assert not imported & {"sklearn", "scipy", "pyarrow", "pandas", "matplotlib", "joblib"}


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "absent.csv", "--target", "y"],
        ["compare", "absent.csv"],
        ["compare", "absent.csv", "--target", "y", "--methods", "lmmn"],
        ["fit", "absent.csv", "--target", "y", "--output", "m.gm", "--method", "ridge"],
        ["predict", "absent.gm"],
    ],
)
def test_invalid_arguments_do_not_import_estimators(words):
    code, imported, _ = imports_of(*words)
    assert code == 2
    assert "sklearn" not in imported


def test_bare_command_shows_help(genmetric):
    assert genmetric().out == genmetric("--help").out
    assert genmetric().code == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(genmetric, name):
    done = genmetric(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: genmetric {name} ")


def test_version(genmetric):
    import genmetric as package

    assert genmetric("--version").out == f"genmetric {package.__version__}\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["copmare"], "genmetric: no command 'copmare'. Did you mean compare?\n"),
        (["zzz"], "genmetric: no command 'zzz'. The commands are demo, compare"),
        (["compare"], "genmetric compare: Missing argument 'DATA'."),
        (["compare", "x.csv"], "genmetric compare: Missing option '-t' / '--target'."),
        (["fit", "x.csv", "-t", "y", "-o", "m", "--method", "magic"], "genmetric fit: Invalid"),
        (["--nonsense"], "genmetric: No such option"),
        (["inspect", "absent.gm"], "genmetric inspect: absent.gm: No such file or directory.\n"),
    ],
)
def test_invalid_arguments_give_one_line(genmetric, words, error):
    done = genmetric(*words)
    assert done.code == 2
    assert done.err.startswith(error)
    assert done.err.count("\n") == 1
    assert done.out == ""


def test_debug_shows_the_traceback(genmetric, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("a,y\n1,u\n")
    assert "Traceback" not in genmetric("compare", bad, "-t", "y").err
    assert "Traceback" in genmetric("--debug", "compare", bad, "-t", "y").err


def test_bugs_are_reported_as_bugs(genmetric, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("genmetric.cli._inspect.facts_of", broken)
    done = genmetric("inspect", "x.gm")
    assert done.code == 1
    assert "this is a bug" in done.err
    assert "ZeroDivisionError: division by zero" in done.err


def test_control_characters_of_a_file_do_not_reach_the_terminal(genmetric, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,\x1b[31mred\x07,y\n1,word,u\n2,word,v\n")
    done = genmetric("compare", path, "-t", "y")
    assert done.code == 2
    assert "\x1b" not in done.err
    assert "\x07" not in done.err


def test_without_click_the_error_has_the_command():
    code = """
    import sys

    class Absent:
        def find_spec(name, path=None, target=None):
            if name.partition(".")[0] == "click":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Absent)
    from genmetric.cli import main
    sys.exit(main(["--help"]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert 'pip install "genmetric[cli,report]"' in done.stderr


def test_a_real_process_with_a_bad_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,2,u\n3,v\n")
    done = process("fit", path, "-t", "y", "-o", tmp_path / "m.gm")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "line 3 has 2 cells" in done.stderr
    assert done.stderr.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize(("signal_", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_leave_nothing_behind(two_classes, tmp_path, signal_, code):
    path = two_classes(4000)
    out = tmp_path / "out"
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
    # Where it was done before the signal there is a model, else there is nothing.
    if running.returncode == 0:
        assert (out / "m.gm").exists()
        return
    # CPython ends by the signal itself, which a shell also shows as 130, if an interrupt meets the
    # exec of a string, as imports of dataclasses and named tuples have it.
    assert running.returncode in (code, -signal_)
    assert stdout == b""
    assert b"Traceback" not in stderr
    assert list(out.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="pipes as POSIX has them")
@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize("words", ["datasets", "--help", "inspect missing.gm"])
def test_a_closed_standard_output_is_one_line(words):
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m genmetric {words} >&-"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == (
        "genmetric: the standard output is closed. Redirect it to a file or to /dev/null.\n"
    )
    assert done.returncode == 2


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_closed_stderr_and_stdin_keep_the_exit_code(tmp_path):
    # The next file would get the number of the closed stream, and messages would go into it.
    table, model = tmp_path / "table.csv", tmp_path / "model.gm"
    table.write_text("a,b,kind\n" + "".join(f"{i % 7},{i % 5},{'xy'[i % 2]}\n" for i in range(40)))
    command = f"'{sys.executable}' -m genmetric fit '{table}' --target kind -o '{model}' 2>&- <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert model.exists()
    bad = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m genmetric inspect '{table}' 2>&-"], check=False
    )
    assert bad.returncode == 2


def test_a_closed_pipe_is_quiet(two_classes, tmp_path):
    model = tmp_path / "m.gm"
    small = two_classes(200)
    assert process("fit", small, "-t", "y", "-o", model, "-m", "uniform", "-q").returncode == 0
    # More than a pipe holds.
    path = two_classes(20_000, "large.csv")
    running = subprocess.Popen(
        [sys.executable, "-m", "genmetric", "transform", str(model), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout.readline() == b"z1,z2,z3\n"
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait(60) == 0
    running.stderr.close()
