"""Ctrl-C, or an error, in the middle of a fit: the estimator and the process are as they were."""

import re
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import genmetric
from genmetric import LMNN, GenerativeMetric
from genmetric._chunks import _controller, map_chunks, one_blas_thread

PACKAGE = str(Path(genmetric.__file__).parent)

RNG = np.random.default_rng(0)
FIRST = RNG.normal(size=(30, 3)), np.arange(30) % 2
# Another number of features, of classes and of rows, so that a mixture of two fits shows.
SECOND = RNG.normal(size=(36, 5)), np.arange(36) % 3


def blas_threads():
    """Threads of the BLAS of NumPy and of SciPy; another package may bring one of its own."""
    pools = _controller().select(user_api="blas").info()
    return {pool["num_threads"] for pool in pools if re.search("(num|sci)py", pool["filepath"])}


@pytest.fixture
def two_blas_threads():
    """So that a limit of one that stays behind shows."""
    with threadpool_limits(limits=2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS does not run in two threads")
        yield


class Interrupter:
    """Raises KeyboardInterrupt at the n-th call of a function of the package."""

    def __init__(self, at=None):
        self.at, self.n_calls = at, 0

    def __call__(self, frame, event, _):
        name = frame.f_code.co_filename
        # Not in the few lines that take a limit off again, which nothing could make safe.
        if event == "call" and name.startswith(PACKAGE) and not name.endswith("_chunks.py"):
            self.n_calls += 1
            if self.n_calls == self.at:
                raise KeyboardInterrupt

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)


@pytest.mark.usefixtures("two_blas_threads")
def test_interrupt_anywhere_keeps_the_earlier_fit(subject):
    fitted = subject.fit(*FIRST)
    state, expected = dict(vars(fitted)), subject.answers(fitted, FIRST[0])
    filters = list(warnings.filters)
    other = subject.make()
    with Interrupter() as count:
        other.fit(*SECOND)
    assert count.n_calls >= 5
    places = {*range(1, 6), *np.linspace(6, count.n_calls, 8).astype(int).tolist()}
    for at in sorted(places):
        with Interrupter(at), pytest.raises(KeyboardInterrupt):
            fitted.fit(*SECOND)
        assert vars(fitted).keys() == state.keys(), at
        assert all(vars(fitted)[name] is value for name, value in state.items()), at
        assert blas_threads() == {2}, at
        assert list(warnings.filters) == filters, at
    for name, value in subject.answers(fitted, FIRST[0]).items():
        np.testing.assert_array_equal(value, expected[name])
    assert fitted.fit(*SECOND).n_features_in_ == 5


def test_error_keeps_the_earlier_fit(subject):
    fitted = subject.fit(*FIRST)
    state = dict(vars(fitted))
    with pytest.raises(ValueError, match="spread of about"):
        fitted.fit(1e200 * SECOND[0], SECOND[1])
    assert vars(fitted).keys() == state.keys()
    assert all(vars(fitted)[name] is value for name, value in state.items())


def test_error_leaves_an_unfitted_estimator_unfitted(subject):
    fresh = subject.make()
    state = dict(vars(fresh))
    with pytest.raises(ValueError, match="spread of about"):
        fresh.fit(1e200 * SECOND[0], SECOND[1])
    assert vars(fresh) == state


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupted_loop_over_chunks_removes_the_limit(n_jobs):
    chunks = map_chunks(lambda i: i, range(10), n_jobs)
    assert next(chunks) == 0
    # As where an interrupt hits the body of the loop, and its traceback keeps the generator.
    deadline = time.monotonic() + 10
    while blas_threads() != {2} and time.monotonic() < deadline:
        time.sleep(0.01)
    assert blas_threads() == {2}
    assert list(chunks) == list(range(1, 10))


@pytest.mark.usefixtures("two_blas_threads")
def test_a_signal_in_a_fit_of_several_threads():
    X = RNG.normal(size=(60_000, 20))
    y = np.arange(len(X)) % 3
    metric = GenerativeMetric(solver="dense", n_jobs=2).fit(X[:500], y[:500])
    before = metric.metric_
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals go to the main thread")

    def fit_forever():
        nonlocal before
        while True:
            before = metric.fit(X, y).metric_

    # A process in the background of a script may have been started with interrupts ignored.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    stopped = threading.Event()

    def interrupt():
        # Again after a while: Python drops an interrupt that hits a destructor.
        wait = 0.3
        while not stopped.wait(wait):
            signal.raise_signal(signal.SIGINT)
            wait = 20

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        fit_forever()
    stopped.set()
    thread.join()
    signal.signal(signal.SIGINT, handler)
    assert metric.metric_ is before
    deadline = time.monotonic() + 10
    while blas_threads() != {2} and time.monotonic() < deadline:
        time.sleep(0.01)  # a chunk that a thread was at
    assert blas_threads() == {2}


def test_an_interrupt_from_a_callback():
    def stop(*_):
        raise KeyboardInterrupt

    model = LMNN(init="identity").fit(*FIRST)
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.set_params(callback=stop).fit(*SECOND)
    assert vars(model) == {**before, "callback": stop}


@pytest.mark.usefixtures("two_blas_threads")
def test_limit_left_by_an_interrupt_is_removed_by_the_next_user(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(genmetric._chunks._limit, "enter", interrupted)
        with pytest.raises(KeyboardInterrupt), one_blas_thread():
            pass
    with one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == {2}
