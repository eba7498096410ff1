"""Progress messages of estimators with `verbose` set."""

import subprocess
import sys

import pytest


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_messages_go_to_stderr_by_default():
    code = "from genmetric._logging import log_progress; log_progress('LMNN', 'iteration 1')"
    assert run(code) == ("", "[genmetric.LMNN] iteration 1\n")


@pytest.mark.parametrize("first", [True, False])
def test_a_configured_program_receives_each_message_once(first):
    configure = "logging.basicConfig(format='%(levelname)s %(message)s')\n"
    log = "log_progress('LMNN', 'one')\n"
    code = "import logging\nfrom genmetric._logging import log_progress\n"
    code += configure + log if first else log + configure + log
    expected = "INFO one\n" if first else "[genmetric.LMNN] one\nINFO one\n"
    assert run(code) == ("", expected)


def test_messages_can_be_silenced():
    code = (
        "import logging\n"
        "from genmetric._logging import log_progress\n"
        "logging.getLogger('genmetric').setLevel(logging.WARNING)\n"
        "log_progress('LMNN', 'one')\n"
    )
    assert run(code) == ("", "")
