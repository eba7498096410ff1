"""Short, seeded runs of the fuzzers; `nox -s fuzz` runs them for longer."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("seed", [0])
def test_mutated_model_files(seed):
    script = Path(__file__).with_name("model_files.py")
    command = [sys.executable, str(script), "--count", "120", "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout
    assert "'failed': 0" in done.stdout
