"""Rows that come in batches or blocks: as hard to upset as rows that come at once."""

import sys

import numpy as np
import pytest

from genmetric import GenerativeMetric

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 5)) * [1, 2, 1, 0.5, 1]
Y = np.arange(120) % 3
PARTS = np.array_split(np.arange(120), 4)


def batches_of(X, y):
    return lambda: ((X[rows], y[rows]) for rows in PARTS)


def in_batches(X, y, metric=None):
    return (metric or GenerativeMetric()).fit_batches(batches_of(X, y))


def in_pieces(X, y, metric=None):
    metric = metric or GenerativeMetric()
    for rows in PARTS:
        metric.partial_fit(X[rows], y[rows])
    return metric


def in_blocks(X, y, metric=None):
    da = pytest.importorskip("dask.array")
    from genmetric.dask import DaskGenerativeMetric

    metric = metric or DaskGenerativeMetric()
    return metric.fit(da.from_array(X, chunks=(30, -1)), da.from_array(y, chunks=30))


@pytest.fixture(params=[in_batches, in_pieces, in_blocks], ids=lambda way: way.__name__)
def stream(request):
    """A way to fit rows that do not come at once."""
    return request.param


@pytest.mark.parametrize("scale", [2.0**-498, 1.0, 2.0**498])
@pytest.mark.parametrize("offset", [0.0, 2.0**33])
def test_batches_equal_all_samples_at_once(stream, scale, offset):
    rows = scale * (np.round(1024 * X) / 1024 + offset)
    expected = GenerativeMetric().fit(rows, Y)
    found = stream(rows, Y)
    np.testing.assert_allclose(found.metric_, expected.metric_, rtol=1e-4 if offset else 1e-9)
    np.testing.assert_allclose(found.covariances_, expected.covariances_, rtol=1e-4)


def test_batches_of_different_scales_are_correct_or_refused(stream):
    rows = X.copy()
    rows[PARTS[1]] *= 1e-150
    expected = GenerativeMetric().fit(rows, Y).metric_
    np.testing.assert_allclose(stream(rows, Y).metric_, expected, rtol=1e-6)
    for size in (1e200, 1e300):
        with pytest.raises(ValueError, match=r"spread of about .*Multiply X by a constant"):
            stream(size * X, Y)


BAD = {
    "NaN": (np.nan, "NaN"),
    "infinity": (np.inf, "infinity"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("row", [0, 70, 119])
def test_invalid_sample_in_any_batch(stream, name, row):
    value, message = BAD[name]
    rows = X.copy()
    rows[row, 3] = value
    with pytest.raises(ValueError, match=message):
        stream(rows, Y)


def test_batches_with_other_features():
    metric = GenerativeMetric().partial_fit(X[:30], Y[:30])
    with pytest.raises(ValueError, match=r"4 features.*expecting 5 features"):
        metric.partial_fit(X[30:60, :4], Y[30:60])
    with pytest.raises(ValueError, match="features"):
        GenerativeMetric().fit_batches(lambda: iter([(X[:30], Y[:30]), (X[30:60, :4], Y[30:60])]))


class Interrupter:
    """Raises KeyboardInterrupt at the n-th call of a function of genmetric."""

    def __init__(self, at=None):
        self.at, self.n_calls = at, 0

    def __call__(self, frame, event, _):
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("genmetric.") and name != "genmetric._chunks":
            self.n_calls += 1
            if self.n_calls == self.at:
                raise KeyboardInterrupt

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)


def test_interrupted_batch_is_not_counted():
    first, second = (X[:60], Y[:60]), (X[60:], Y[60:])
    expected = GenerativeMetric().partial_fit(*first).partial_fit(*second).metric_
    other = GenerativeMetric().partial_fit(*first)
    with Interrupter() as count:
        other.partial_fit(*second)
    metric = GenerativeMetric().partial_fit(*first)
    for at in range(1, count.n_calls + 1):
        state = dict(vars(metric))
        with Interrupter(at), pytest.raises(KeyboardInterrupt):
            metric.partial_fit(*second)
        assert vars(metric) == state
    np.testing.assert_array_equal(metric.partial_fit(*second).metric_, expected)
    assert metric.metric_stderr_ == other.metric_stderr_


def test_interrupted_pass_keeps_the_earlier_fit():
    metric = GenerativeMetric().fit(X[:, :3], Y)
    state = dict(vars(metric))
    other = GenerativeMetric()
    with Interrupter() as count:
        other.fit_batches(batches_of(X, Y))
    for at in np.linspace(1, count.n_calls, 20).astype(int):
        with Interrupter(at), pytest.raises(KeyboardInterrupt):
            metric.fit_batches(batches_of(X, Y))
        assert vars(metric).keys() == state.keys()
        assert all(vars(metric)[name] is value for name, value in state.items())


def test_invalid_block_keeps_the_earlier_fit():
    metric = in_blocks(X[:, :3], Y)
    state = dict(vars(metric))
    rows = X.copy()
    rows[70, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        in_blocks(rows, Y, metric)
    assert vars(metric).keys() == state.keys()
    assert all(vars(metric)[name] is value for name, value in state.items())


def test_dask_estimator_refuses_arrays_in_memory():
    pytest.importorskip("dask")
    from genmetric.dask import DaskGenerativeMetric

    with pytest.raises(TypeError, match="dask"):
        DaskGenerativeMetric().fit(X, Y)
