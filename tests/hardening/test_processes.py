"""Threads, forks, workers and flags of the interpreter: the same answer, and no deadlock."""

import os
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from genmetric import LMNN, GenerativeMetric, MetricKMeans, SimpleMKLClassifier

HERE = Path(__file__).parent


def run(code, *flags, timeout=120, **environment):
    """Run code in a fresh interpreter and return what it printed."""
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "2", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_asserts_and_with_warnings_as_errors(iris, subjects, plain, same, tmp_path):
    np.savez(tmp_path / "rows.npz", X=iris[0], y=iris[1])
    code = f"""
import pickle, runpy, sys
import numpy as np

assert False, "-O leaves this out"
subjects = runpy.run_path({str(HERE / "conftest.py")!r})["SUBJECTS"]
rows = np.load({str(tmp_path / "rows.npz")!r})
X, y = rows["X"], rows["y"]
answers = {{s.name: s.answers(s.fit(X, y), X) for s in subjects if s.name != "faiss"}}
with open({str(tmp_path / "answers")!r}, "wb") as stream:
    pickle.dump(answers, stream)
"""
    # Packages that scikit-learn imports may warn while they load; what runs here may not.
    run(code, "-O", "-W", "error::RuntimeWarning", "-W", "error::UserWarning")
    answers = pickle.loads((tmp_path / "answers").read_bytes())
    assert answers.keys() == subjects.keys() - {"faiss"}
    for name, found in answers.items():
        same(found, plain(subjects[name]), 1e-9)


FORKS = """
import multiprocessing, os, threading, time, warnings
import numpy as np
from threadpoolctl import ThreadpoolController
from genmetric import LMNN, GenerativeMetric, MetricKMeans

warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
rng = np.random.default_rng(0)
X, y = rng.normal(size=(300, 6)), np.arange(300) % 3
np.linalg.eigh(rng.normal(size=(600, 600)))  # BLAS has started its threads

def fits():
    metric = GenerativeMetric(solver="dense", n_jobs=2).fit(X, y).metric_
    return metric.tobytes() + MetricKMeans(3, n_init=2, random_state=0).fit(X).metric_.tobytes()

def threads():
    pools = ThreadpoolController().select(user_api="blas").info()
    return {p["num_threads"] for p in pools if "numpy" in p["filepath"]}

def child(queue):
    before = threads()
    queue.put((fits(), before, threads()))

expected, before = fits(), threads()
stop = threading.Event()
def busy():
    large = rng.normal(size=(3000, 20)), np.arange(3000) % 2
    while not stop.is_set():
        GenerativeMetric(solver="dense").fit(*large)

other = threading.Thread(target=busy)
other.start()
time.sleep(0.2)
context = multiprocessing.get_context("fork")
for _ in range(3):  # while another thread is in a fit, and holds locks and limits
    queue = context.SimpleQueue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    found, at_first, at_last = queue.get()
    process.join(60)
    assert process.exitcode == 0
    assert found == expected
    assert at_last == before, (at_first, at_last, before)
stop.set()
other.join()
assert threads() == before
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_after_blas_and_in_the_middle_of_a_fit():
    assert run(FORKS).strip() == "done"


WORKERS = """
import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from genmetric import EnergyClassifier, GenerativeMetric, LocalMetricClassifier

X, y = load_iris(return_X_y=True)

def fit(seed):
    inner = Parallel(n_jobs=2, prefer="threads")(
        delayed(lambda s: GenerativeMetric(solver="dense", n_jobs=2).fit(X[s:], y[s:]).metric_)(s)
        for s in (seed, seed + 1)
    )
    return np.array(inner)

if __name__ == "__main__":
    expected = [fit(s) for s in range(3)]
    for backend in ("threading", "loky"):
        found = Parallel(n_jobs=2, backend=backend)(delayed(fit)(s) for s in range(3))
        np.testing.assert_array_equal(found, expected)
    model = EnergyClassifier(GenerativeMetric(n_jobs=2), n_jobs=2)
    scores = [cross_val_score(model, X, y, n_jobs=n) for n in (None, 2)]
    np.testing.assert_array_equal(scores[0], scores[1])
    print("done")
"""


def test_threads_in_threads_and_in_processes(tmp_path):
    script = tmp_path / "workers.py"
    script.write_text(WORKERS, "utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done"


def test_four_threads_that_fit_at_once(iris):
    X, y = iris
    makers = [
        lambda: GenerativeMetric("kde", n_jobs=2),
        lambda: LMNN(max_iter=1000),
        lambda: MetricKMeans(3, n_init=2, random_state=0),
        SimpleMKLClassifier,
    ]

    def answer(model):
        fitted = model.fit(X, y)
        return fitted.metric_ if hasattr(fitted, "metric_") else fitted.weights_

    expected = [answer(make()) for make in makers]
    filters = list(warnings.filters)
    barrier, found = threading.Barrier(4), {}

    def work(i):
        barrier.wait(30)
        found[i] = [answer(makers[(i + step) % 4]()) for step in range(4)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == [0, 1, 2, 3]
    for i, answers in found.items():
        for step, array in enumerate(answers):
            np.testing.assert_array_equal(array, expected[(i + step) % 4])
    # Each fit silences a warning of a package below for a while: the process must not stay deaf.
    assert list(warnings.filters) == filters
