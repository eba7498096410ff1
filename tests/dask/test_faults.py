"""Workers, schedulers and blocks that fail: the same bits, or an error that says what happened."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, KilledWorker, LocalCluster

from genmetric import GenerativeMetric
from genmetric.dask import DaskGenerativeMetric
from genmetric.dask._tasks import compute
from genmetric.datasets import load_vehicle

# What dask itself warns of when its processes die is not at issue here. The timeout is the bound on
# the time of an error: on a machine with nothing else to do each test takes a few seconds.
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(180),
]

X, Y = load_vehicle(return_X_y=True)
LAZY_X, LAZY_Y = da.from_array(X, chunks=(100, -1)), da.from_array(Y, chunks=100)
QUIET = {"distributed.logging.distributed": "critical", "distributed.admin.tick.limit": "1m"}


def whole():
    """The answer without dask, from the same blocks."""
    rows = [slice(i, i + 100) for i in range(0, len(X), 100)]
    return GenerativeMetric().fit_batches(lambda: ((X[i], Y[i]) for i in rows))


def sabotaged(folder, deed, number=3, in_pass=2):
    """The rows of LAZY_X; when one block is read for the n-th time, something happens."""

    # Nested, so that workers get the function itself and need not import this file.
    def read(block, block_info=None):
        if block_info is not None and block_info[0]["chunk-location"][0] == number:
            seen = Path(folder, "seen")
            n_times = len(seen.read_text()) + 1 if seen.exists() else 1
            seen.write_text("x" * n_times)
            deed(n_times - in_pass)
        return block

    return LAZY_X.map_blocks(read, dtype=float, meta=np.empty((0, 0)))


@pytest.fixture(scope="module")
def cluster():
    """Two processes, which a nanny starts again when they die."""
    settings = {"distributed.scheduler.allowed-failures": 1, **QUIET}
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            memory_limit=0,
            silence_logs=60,
        ) as local,
        Client(local),
    ):
        yield local


@pytest.mark.usefixtures("cluster")
def test_processes_are_bit_identical_to_one():
    metric = DaskGenerativeMetric().fit(LAZY_X, LAZY_Y)
    np.testing.assert_array_equal(metric.metric_, whole().metric_)
    np.testing.assert_array_equal(metric.covariances_, whole().covariances_)
    found = metric.kneighbors(X[:5], 3)
    with dask.config.set(scheduler="sync"):
        np.testing.assert_array_equal(found, metric.kneighbors(X[:5], 3))
    np.testing.assert_allclose(metric.transform(LAZY_X).compute(), metric.to_local().transform(X))


@pytest.mark.usefixtures("cluster")
def test_a_worker_killed_in_the_second_pass(tmp_path):
    def kill_once(times_since):
        if times_since == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    metric = DaskGenerativeMetric().fit(sabotaged(tmp_path, kill_once), LAZY_Y)
    assert len((tmp_path / "seen").read_text()) == 3  # once, killed, once more
    np.testing.assert_array_equal(metric.metric_, whole().metric_)


@pytest.mark.usefixtures("cluster")
def test_a_block_that_cannot_be_read(tmp_path):
    def fail(times_since):
        if times_since >= 0:
            raise OSError("part-0003.parquet: checksum mismatch")

    with pytest.raises(OSError, match=r"part-0003.parquet: checksum mismatch"):
        DaskGenerativeMetric().fit(sabotaged(tmp_path, fail), LAZY_Y)


@pytest.mark.usefixtures("cluster")
def test_a_block_with_nan():
    broken = X.copy()
    broken[333, 2] = np.nan
    with pytest.raises(ValueError, match="In block 3: Input X contains NaN"):
        DaskGenerativeMetric().fit(da.from_array(broken, chunks=(100, -1)), LAZY_Y)


# After the others: the workers take a while to come back.
@pytest.mark.usefixtures("cluster")
def test_a_block_that_kills_its_workers(tmp_path):
    def kill_always(times_since):
        if times_since >= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    # dask gives up after allowed-failures. The name of the task has the number of a block: block 3,
    # or one that waited at the same workers both times, which dask blames as well.
    with pytest.raises(KilledWorker, match=r", \d, 0\)|-\d-"):
        DaskGenerativeMetric().fit(sabotaged(tmp_path, kill_always), LAZY_Y)
    assert len((tmp_path / "seen").read_text()) == 3  # once, and killed twice


@pytest.mark.parametrize("outcome", [7, OSError("disk full")])
def test_task_that_ends_just_after_a_poll(monkeypatch, outcome):
    """A task can end between the timeout of a poll and the look at its state."""

    class Future:
        key = "task"

        def done(self):
            return True

        def result(self, timeout=None):
            if timeout is not None:
                raise TimeoutError
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

    class Scheduler:
        def compute(self, _graph):
            return Future()

        def get(self):
            """Stand in for the method of a client that dask finds."""

    monkeypatch.setattr(dask.base, "get_scheduler", lambda: Scheduler().get)
    if isinstance(outcome, Exception):
        with pytest.raises(OSError, match="disk full"):
            compute(None)
    else:
        assert compute(None) == outcome


@contextmanager
def started(*words, ready):
    """A dask command in a process of its own, killed at the end."""
    command = [sys.executable, "-m", "dask", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 60
            while not ready():
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield process
        finally:
            process.kill()


@pytest.fixture
def processes(tmp_path):
    """A scheduler and one worker, as on a cluster without nannies."""
    address = tmp_path / "scheduler.json"
    quick = {"distributed.comm.timeouts.connect": "10s", "distributed.comm.retry.count": 0, **QUIET}
    with (
        dask.config.set(quick),
        started(
            "scheduler",
            *("--scheduler-file", str(address), "--host", "127.0.0.1", "--port", "0"),
            "--no-dashboard",
            ready=address.exists,
        ) as scheduler,
        Client(scheduler_file=str(address), timeout=10) as client,
        started(
            "worker",
            *("--scheduler-file", str(address), "--nthreads", "1", "--memory-limit", "0"),
            *("--no-nanny", "--no-dashboard", "--local-directory", str(tmp_path)),
            ready=lambda: bool(client.nthreads()),
        ) as worker,
    ):
        yield scheduler.pid, worker.pid


@pytest.mark.parametrize("victim", ["all workers", "scheduler"])
def test_no_workers_left(victim, processes, tmp_path):
    pid = processes[victim == "all workers"]

    def kill(times_since):
        if times_since >= 0:
            os.kill(pid, signal.SIGKILL)

    lost = r"no worker for 1 seconds.*genmetric-metrics|scheduler-connection-lost"
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": "1s"}),
        pytest.raises(Exception, match=lost) as caught,
    ):
        DaskGenerativeMetric().fit(sabotaged(tmp_path, kill), LAZY_Y)
    assert isinstance(caught.value, RuntimeError) == (victim == "all workers")
