"""Workers end with a parent that is killed, and tables are written completely or not at all."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from genmetric.reproduction import _pages as pages
from genmetric.reproduction._experiments import EXPERIMENTS
from genmetric.reproduction._runner import plan, run
from genmetric.reproduction._store import Store
from genmetric.reproduction._tables import collect

RUN = """
import os, sys, time
from joblib import Parallel, delayed
from genmetric.reproduction._runner import end_with_parent

def work(parent):
    end_with_parent(parent)
    return os.getpid()

pids = Parallel(n_jobs=2, backend="loky")(delayed(work)(os.getpid()) for _ in range(8))
print(*set(pids), flush=True)
time.sleep(120)
"""


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has ended and was not waited for is not running.
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="reads the state of processes in /proc")
def test_idle_workers_end_with_a_killed_parent():
    with subprocess.Popen([sys.executable, "-c", RUN], stdout=subprocess.PIPE, text=True) as parent:
        workers = [int(word) for word in parent.stdout.readline().split()]
        assert workers
        assert all(map(is_running, workers))
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(is_running, workers))


@pytest.fixture
def results(tmp_path):
    store = Store(tmp_path / "scores.jsonl")
    small = EXPERIMENTS["small"]
    run(plan([small], problems=["iris"], methods=["euclidean"], n_splits=2), store)
    return collect(small, store.read())


def test_a_full_disk_keeps_the_page_and_names_it(results, tmp_path, monkeypatch):
    page = tmp_path / "small.md"
    page.write_text("Prose.\n\n<!-- tables -->\n\nold\n")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left on device") as failure:
        pages.write_files([results], tmp_path)
    assert failure.value.filename == str(page)
    assert page.read_text() == "Prose.\n\n<!-- tables -->\n\nold\n"
    store = Store(tmp_path / "scores.jsonl")
    with pytest.raises(OSError, match="No space left on device") as failure:
        store.append(store.read().values())
    assert failure.value.filename == str(store.path)


def test_pages_keep_their_prose(results, tmp_path):
    page = tmp_path / "small.md"
    page.write_text("Prose.\n\n<!-- tables -->\n\nold\n")
    pages.write_files([results], tmp_path)
    text = page.read_text()
    assert text.startswith("Prose.\n\n<!-- tables -->\n\n## Error on small datasets")
    assert "old" not in text
