"""DaskGenerativeMetric: the bits of fit_batches, the answer of fit, whatever the blocks."""

import itertools
import pickle

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from genmetric import GenerativeMetric, GenerativeRegressionMetric
from genmetric.dask import DaskGenerativeMetric
from genmetric.datasets import load_iris, load_vehicle
from genmetric.density import _mixed_statistics as mixed_statistics
from genmetric.density._low_rank import LowRankGaussians
from genmetric.learners import slice_targets

X, Y = load_vehicle(return_X_y=True)
NAMES = [f"f{i}" for i in range(X.shape[1])]
CHUNKS = (100, 1, 300, 0, 345, 100)


def arrays(chunks=CHUNKS, X=X, y=Y):
    return da.from_array(X, chunks=(chunks, -1)), da.from_array(y, chunks=(chunks,))


def frames(n_partitions=7, y=Y):
    frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(y=y), npartitions=n_partitions)
    return frame[NAMES], frame["y"]


def computed_blocks(collection):
    parts = collection.to_delayed()
    return dask.compute(*(parts.ravel() if isinstance(collection, da.Array) else parts))


def streamed(x, y, **parameters):
    """fit_batches over the same blocks."""
    batches = list(zip(computed_blocks(x), computed_blocks(y), strict=True))
    return GenerativeMetric(**parameters).fit_batches(lambda: iter(batches))


def assert_same_bits(a, b):
    for name in ("metric_", "components_", "means_", "covariances_", "classes_", "metric_stderr_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def assert_close(a, b, rtol=1e-10):
    assert np.linalg.norm(a.metric_ - b.metric_) <= rtol * np.linalg.norm(b.metric_)
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_allclose(a.means_, b.means_, rtol=1e-9)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"shrinkage": None, "solver": "dense"},
        {"base": "pooled", "normalization": "trace"},
        {"shrinkage": 0.1, "solver": "resolvent", "interpolation": 0.5},
        {"max_samples": 40, "random_state": 3},
        {"n_components": 4, "priors": [0.4, 0.3, 0.2, 0.1], "class_tol": 0.1},
    ],
)
def test_arrays(parameters):
    x, y = arrays()
    metric = DaskGenerativeMetric(**parameters).fit(x, y)
    assert_same_bits(metric, streamed(x, y, **parameters))
    assert_close(metric, GenerativeMetric(**parameters).fit(X, Y))
    assert metric.n_features_in_ == 18
    assert not hasattr(metric, "feature_names_in_")


@pytest.mark.parametrize("base", ["identity", "pooled"])
def test_many_classes(base, monkeypatch, rng):
    monkeypatch.setattr(mixed_statistics, "MIN_SCATTER_ENTRIES", 10 * 18**2)
    y = np.repeat(np.arange(141), 6)
    samples = rng.normal(size=(141, 18))[y] + rng.normal(size=(846, 18))
    order = rng.permutation(846)
    blocks = arrays(X=samples[order].astype(np.float32), y=y[order])
    parameters = {"base": base, "class_tol": 0}
    metric = DaskGenerativeMetric(**parameters).fit(*blocks)
    assert isinstance(metric.to_local()._models, LowRankGaussians)
    assert_same_bits(metric, streamed(*blocks, **parameters))
    whole = GenerativeMetric(**parameters).fit(samples.astype(np.float32), y)
    assert_close(metric, whole, rtol=1e-8)


@settings(max_examples=20)
@given(
    cuts=st.lists(st.integers(0, 150), max_size=20),
    shuffled=st.booleans(),
    scale=st.sampled_from([1e-100, 1.0, 1e100]),
    offset=st.sampled_from([0.0, 1e6]),
)
def test_any_blocks(cuts, shuffled, scale, offset):
    # In the given order of iris each class is in few of the blocks.
    x, y = load_iris(return_X_y=True)
    if shuffled:
        rows = np.random.default_rng(0).permutation(150)
        x, y = x[rows], y[rows]
    x = scale * (x + offset)
    chunks = tuple(b - a for a, b in itertools.pairwise([0, *sorted(cuts), 150]))
    lazy = arrays(chunks, x, y)
    metric = DaskGenerativeMetric().fit(*lazy)
    assert_same_bits(metric, streamed(*lazy))
    # An offset of a million leaves ten digits of the data.
    assert_close(metric, GenerativeMetric().fit(x, y), rtol=1e-10 if offset == 0 else 1e-6)


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_schedulers_are_bit_identical(scheduler):
    with dask.config.set(scheduler=scheduler):
        metric = DaskGenerativeMetric().fit(*arrays((20,) * 42 + (6,)))
    assert_same_bits(metric, streamed(*arrays((20,) * 42 + (6,))))


def test_frames_with_string_labels():
    names = np.array(["bus", "opel", "saab", "van"])[Y]
    x, y = frames(y=names)
    metric = DaskGenerativeMetric().fit(x, y)
    assert_same_bits(metric, streamed(x, y))
    assert_close(metric, GenerativeMetric().fit(pd.DataFrame(X, columns=NAMES), names))
    assert list(metric.feature_names_in_) == NAMES
    assert metric.classes_.tolist() == ["bus", "opel", "saab", "van"]


def test_unknown_number_of_samples():
    x, y = arrays()
    kept = x[:, 0] > 90
    metric = DaskGenerativeMetric().fit(x[kept], y[kept])
    assert_close(metric, GenerativeMetric().fit(X[X[:, 0] > 90], Y[X[:, 0] > 90]))
    mapped = metric.transform(x[kept])
    assert np.isnan(mapped.shape[0])
    whole = metric.to_local().transform(X[X[:, 0] > 90])
    np.testing.assert_allclose(mapped.compute(), whole, rtol=1e-12)


def test_empty_partitions_of_a_frame():
    table = pd.DataFrame(X, columns=NAMES).assign(y=Y, number=np.arange(len(X)))
    frame = dd.from_pandas(table, npartitions=7)
    some = frame[frame["number"] < 300]
    x, y = some[NAMES], some["y"]
    assert 0 in [len(block) for block in computed_blocks(x)]
    metric = DaskGenerativeMetric().fit(x, y)
    assert_same_bits(metric, streamed(x, y))
    assert_close(metric, GenerativeMetric().fit(table[NAMES][:300], Y[:300]))
    assert metric.transform(x).compute().shape == (300, 18)


def test_a_class_in_one_block_only():
    order = np.argsort(Y, kind="stable")
    x, y = arrays((212, 217, 218, 199), X[order], Y[order])
    assert_close(DaskGenerativeMetric().fit(x, y), GenerativeMetric().fit(X, Y))


def test_labels_in_other_blocks():
    x, _ = arrays()
    y = da.from_array(Y, chunks=77)
    assert_same_bits(DaskGenerativeMetric().fit(x, y), streamed(*arrays()))
    # Frames with the same index but other partitions.
    a, _ = frames(7)
    _, b = frames(4)
    assert_close(DaskGenerativeMetric().fit(a, b), DaskGenerativeMetric().fit(*frames(7)), 1e-10)


def test_labels_that_cannot_be_matched():
    x, y = arrays()
    with pytest.raises(
        ValueError, match=r"X has 846 samples and y 800 labels\. Pass one label per sample"
    ):
        DaskGenerativeMetric().fit(x, y[:800])
    kept = x[:, 0] > 90
    with pytest.raises(ValueError, match="X has 6 blocks and y 4, of unknown lengths"):
        DaskGenerativeMetric().fit(x[kept], da.from_array(Y, chunks=250))
    with pytest.raises(ValueError, match=r"In block \d: .*inconsistent numbers of samples"):
        DaskGenerativeMetric().fit(x[kept], y)
    with pytest.raises(ValueError, match="X has 7 blocks and y 6"):
        DaskGenerativeMetric().fit(frames(7)[0], y)


def test_a_frame_and_an_array():
    x, _ = frames(6)
    lengths = tuple(len(block) for block in computed_blocks(x))
    y = da.from_array(Y, chunks=(lengths,))
    assert_same_bits(DaskGenerativeMetric().fit(x, y), DaskGenerativeMetric().fit(*frames(6)))


def test_columns_in_blocks():
    x, y = da.from_array(X, chunks=(CHUNKS, 5)), arrays()[1]
    assert_same_bits(DaskGenerativeMetric().fit(x, y), streamed(*arrays()))
    assert x.numblocks[1] == 4
    kept = x[:, 0] > 90
    metric = DaskGenerativeMetric().fit(x[kept], y[kept])
    assert_close(metric, GenerativeMetric().fit(X[X[:, 0] > 90], Y[X[:, 0] > 90]))


def test_memory_order_does_not_matter():
    x, y = arrays(X=np.asfortranarray(X))
    assert_same_bits(DaskGenerativeMetric().fit(x, y), streamed(*arrays()))


def test_float32_samples():
    small = X.astype(np.float32)
    x, y = arrays(X=small)
    metric = DaskGenerativeMetric().fit(x, y)
    assert_close(metric, GenerativeMetric().fit(small, Y))
    mapped = metric.transform(x)
    assert mapped.dtype == mapped.compute().dtype == np.float32


def test_classes_named_beforehand():
    metric = DaskGenerativeMetric().fit(*arrays(), classes=[3, 2, 1, 0, 7])
    assert_same_bits(metric, streamed(*arrays()))
    with pytest.raises(ValueError, match=r"In block \d: y has labels \[3\] that are not among"):
        DaskGenerativeMetric().fit(*arrays(), classes=[0, 1, 2])


def test_numbers_and_names_in_one_column():
    x, y = arrays((423, 423))

    def named(block, block_info=None):
        second = block_info is not None and block_info[0]["chunk-location"] == (1,)
        return block.astype(str) if second else block

    with pytest.raises(TypeError, match="numbers and names"):
        DaskGenerativeMetric().fit(x, y.map_blocks(named, meta=np.empty(0, object)))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, arrays()[1], "X must be a dask array or frame; got ndarray.*GenerativeMetric"),
        (arrays()[0], Y, "y must be a dask array or frame; got ndarray"),
        (arrays()[0], frames()[0], "y must be a dask array of 1 dimensions or a dask Series"),
        (arrays()[1], arrays()[1], "X must be a dask array of 2 dimensions or a dask DataFrame"),
        (db.from_sequence([1, 2]), arrays()[1], "X must be a dask array of 2 dim.*got Bag"),
        (dask.delayed(X), arrays()[1], "X must be a dask array of 2 dim.*got Delayed"),
    ],
)
def test_dask_arrays_without_samples(x, y, message):
    with pytest.raises(TypeError, match=message):
        DaskGenerativeMetric().fit(x, y)


def test_invalid_samples_and_parameters():
    x, y = arrays()
    broken = X.copy()
    broken[450, 3] = np.inf
    with pytest.raises(ValueError, match="In block 4: Input X contains infinity"):
        DaskGenerativeMetric().fit(da.from_array(broken, chunks=x.chunks), y)
    with pytest.raises(ValueError, match="X has no samples"):
        DaskGenerativeMetric().fit(x[:0], y[:0])
    with pytest.raises(ValueError, match="at least 2 classes"):
        DaskGenerativeMetric().fit(x, da.zeros_like(y))
    with pytest.raises(ValueError, match="shrinkage must be"):
        DaskGenerativeMetric(shrinkage=2).fit(x, y)
    with pytest.raises(ValueError, match='max_samples="auto"'):
        DaskGenerativeMetric(max_samples="auto").fit(x, y)
    with pytest.raises(ValueError, match=r"In block \d: Unknown label type"):
        DaskGenerativeMetric().fit(x, y + 0.5)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        DaskGenerativeMetric().transform(x)


def test_number_of_samples_changes_between_passes():
    x, y = arrays()
    n_calls = itertools.count()

    def shrinking(block):
        return block[: len(block) - next(n_calls) // 6]

    with (
        dask.config.set(scheduler="sync"),
        pytest.raises(ValueError, match=r"In block \d: \d+ samples the first time and \d+ the"),
    ):
        DaskGenerativeMetric().fit(x.map_blocks(shrinking, meta=np.empty((0, 0))), y)


def test_values_change_between_passes():
    x, y = arrays()
    n_calls = itertools.count()

    def noisy(block):
        # All blocks are read once, then the fourth differs.
        return block if next(n_calls) != len(x.blocks.ravel()) + 4 else block + 1e-3

    different = (
        r"In block \d: samples with different values in different passes\. All passes need the same "
        r"samples: persist data"
    )
    with dask.config.set(scheduler="sync"), pytest.raises(ValueError, match=different):
        DaskGenerativeMetric().fit(x.map_blocks(noisy, meta=np.empty((0, 0))), y)


def test_blocks_without_drawn_samples_are_not_read_again():
    x, y = arrays((50,) * 16 + (46,))
    read = []

    def noting(block, block_info=None):
        if block_info:
            read.append(block_info[0]["chunk-location"][0])
        return block

    parameters = {"max_samples": 5, "random_state": 0}
    metric = DaskGenerativeMetric(**parameters).fit(x.map_blocks(noting, dtype=float), y)
    assert sorted(set(read)) == list(range(17))
    assert 17 < len(read) <= 17 + 5
    assert_same_bits(metric, streamed(x, y, **parameters))


def test_transform_is_lazy():
    metric = DaskGenerativeMetric(n_components=3).fit(*arrays())

    def failing(block):
        raise OSError(f"read now: {len(block)} rows")

    lazy = metric.transform(arrays()[0].map_blocks(failing, dtype=float, meta=np.empty((0, 0))))
    assert lazy.shape == (846, 3)
    with pytest.raises(OSError, match="read now"):
        lazy.compute()
    mapped = metric.transform(arrays()[0])
    assert mapped.chunks == (tuple(n for n in CHUNKS if n), (3,))
    np.testing.assert_allclose(mapped.compute(), metric.to_local().transform(X), rtol=1e-12)
    with pytest.raises(ValueError, match="17 features"):
        metric.transform(arrays()[0][:, 1:])
    with pytest.raises(ValueError, match=r"In block 1: .*NaN"):
        metric.transform(da.from_array([[0.0] * 18, [np.nan] * 18], chunks=1)).compute()


def test_transform_of_a_frame_with_other_names():
    metric = DaskGenerativeMetric().fit(*frames())
    with pytest.raises(ValueError, match="feature names should match"):
        metric.transform(frames()[0].rename(columns={"f0": "g0"}))
    whole = metric.to_local().transform(pd.DataFrame(X, columns=NAMES))
    np.testing.assert_allclose(metric.transform(frames()[0]).compute(), whole, rtol=1e-12)


def test_local_estimator_is_a_copy():
    metric = DaskGenerativeMetric().fit(*arrays())
    local = metric.to_local()
    assert type(local) is GenerativeMetric
    assert_same_bits(local, metric)
    np.testing.assert_allclose(local.local_metrics(X[:3]).shape, (3, 18, 18))
    local.fit(X[:400], Y[:400])
    assert not np.array_equal(metric.to_local().metric_, local.metric_)


def test_copies():
    metric = DaskGenerativeMetric(shrinkage=0.2)
    assert clone(metric).get_params() == metric.get_params()
    again = pickle.loads(pickle.dumps(metric.fit(*arrays())))
    assert_same_bits(again, metric)
    with pytest.raises(TypeError, match="reference must be a dask array"):
        again.kneighbors(X[:2])
    np.testing.assert_array_equal(
        again.kneighbors(X[:2], reference=arrays()[0])[1], metric.kneighbors(X[:2])[1]
    )


def test_slices_of_a_numeric_target():
    target = X[:, 0] + np.sin(X[:, 1])
    x, y = arrays(X=X[:, 2:], y=target)
    batches = list(zip(computed_blocks(x), computed_blocks(y), strict=True))
    local = GenerativeRegressionMetric("slices").fit_batches(lambda: iter(batches))
    codes = y.map_blocks(slice_targets, local.slice_edges_, dtype=int)
    metric = DaskGenerativeMetric(base="pooled").fit(x, codes)
    np.testing.assert_array_equal(metric.metric_, local.metric_)
