"""Rows that come in batches or blocks: as hard to upset as rows that come at once."""

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


@pytest.mark.parametrize("scale", [2.0**-400, 1.0, 2.0**290])
@pytest.mark.parametrize("offset", [0.0, 2.0**33])
def test_batches_equal_all_samples_at_once(stream, scale, offset):
    rows = scale * (np.round(1024 * X) / 1024 + offset)
    expected = GenerativeMetric().fit(rows, Y)
    found = stream(rows, Y)
    np.testing.assert_allclose(found.metric_, expected.metric_, rtol=1e-4 if offset else 1e-9)
    np.testing.assert_allclose(found.covariances_, expected.covariances_, rtol=1e-4)


def test_batches_of_different_scales_are_correct_or_refused(stream):
    rows = X.copy()
    rows[PARTS[1]] *= 1e-120
    expected = GenerativeMetric().fit(rows, Y).metric_
    np.testing.assert_allclose(stream(rows, Y).metric_, expected, rtol=1e-6)
    for size in (1e101, 1e300):
        with pytest.raises(ValueError, match=r"overflow float64.* X by a constant first"):
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


def test_dask_estimator_refuses_arrays_in_memory():
    pytest.importorskip("dask")
    from genmetric.dask import DaskGenerativeMetric

    with pytest.raises(TypeError, match="dask"):
        DaskGenerativeMetric().fit(X, Y)
