"""Dask estimators: the answer of fit on all samples, whatever the blocks."""

import itertools
import pickle

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from genmetric import EmbeddingAdapter, GenerativeMetric
from genmetric.dask import DaskEmbeddingAdapter, DaskGenerativeMetric
from genmetric.datasets import load_iris, load_vehicle

X, Y = load_vehicle(return_X_y=True)
NAMES = [f"f{i}" for i in range(X.shape[1])]
CHUNKS = (100, 1, 300, 0, 345, 100)


def arrays(chunks=CHUNKS, X=X, y=Y):
    return da.from_array(X, chunks=(chunks, -1)), da.from_array(y, chunks=(chunks,))


def frames(n_partitions=7, y=Y):
    frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(y=y), npartitions=n_partitions)
    return frame[NAMES], frame["y"]


def assert_equal_metrics(a, b, rtol=1e-9):
    assert np.linalg.norm(a.metric_ - b.metric_) <= rtol * np.linalg.norm(b.metric_)
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_allclose(a.means_, b.means_, rtol=1e-9)
    np.testing.assert_allclose(a.covariances_, b.covariances_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"shrinkage": None, "solver": "dense"},
        {"base": "pooled"},
        {"shrinkage": 0.1, "solver": "resolvent", "interpolation": 0.5},
        {"n_components": 4, "priors": [0.4, 0.3, 0.2, 0.1], "class_tol": 0.1},
    ],
)
@pytest.mark.parametrize("make", [arrays, frames])
def test_equals_fit(make, parameters):
    metric = DaskGenerativeMetric(**parameters).fit(*make())
    assert_equal_metrics(metric, GenerativeMetric(**parameters).fit(X, Y))


@settings(max_examples=10, deadline=None)
@given(cuts=st.sets(st.integers(1, 149), max_size=5), scale=st.sampled_from([1e-50, 1.0, 1e50]))
def test_any_blocks_and_scales(cuts, scale):
    x, y = load_iris(return_X_y=True)
    lengths = tuple(b - a for a, b in itertools.pairwise([0, *sorted(cuts), 150]))
    metric = DaskGenerativeMetric(base="pooled").fit(*arrays(lengths, scale * x, y))
    assert_equal_metrics(metric.to_local(), GenerativeMetric(base="pooled").fit(scale * x, y), 1e-7)


def test_random_subsets_are_those_of_batches():
    metric = DaskGenerativeMetric(max_samples=40, random_state=3).fit(*arrays())
    rows = np.split(np.arange(len(X)), np.cumsum(CHUNKS)[:-1])
    batches = [(X[i], Y[i]) for i in rows]
    expected = GenerativeMetric(max_samples=40, random_state=3).fit_batches(lambda: iter(batches))
    assert_equal_metrics(metric, expected)
    assert metric.metric_stderr_ == pytest.approx(expected.metric_stderr_)


def test_unknown_lengths_and_frames_with_string_labels():
    x, y = arrays()
    kept = da.from_array(np.arange(len(X)) % 2 == 0, chunks=(CHUNKS,))
    metric = DaskGenerativeMetric().fit(x[kept], y[kept])
    assert_equal_metrics(metric, GenerativeMetric().fit(X[::2], Y[::2]))
    names = np.array(["bus", "opel", "saab", "van"])[Y]
    metric = DaskGenerativeMetric().fit(*frames(y=names))
    assert metric.classes_.tolist() == ["bus", "opel", "saab", "van"]
    assert metric.feature_names_in_.tolist() == NAMES


def test_blocks_that_differ_are_matched_or_refused():
    x, _ = arrays()
    metric = DaskGenerativeMetric().fit(x, da.from_array(Y, chunks=200))
    assert_equal_metrics(metric, GenerativeMetric().fit(X, Y))
    with pytest.raises(ValueError, match="846 samples and y 845 labels"):
        DaskGenerativeMetric().fit(x, da.from_array(Y[1:], chunks=200))
    x, y = frames(3)[0], arrays()[1]
    with pytest.raises(ValueError, match="3 blocks and y 6, of unknown lengths"):
        DaskGenerativeMetric().fit(x, y)
    columns = da.from_array(X, chunks=(200, 7))
    metric = DaskGenerativeMetric().fit(columns, da.from_array(Y, chunks=200))
    assert_equal_metrics(metric, GenerativeMetric().fit(X, Y))


def test_classes_named_in_advance():
    metric = DaskGenerativeMetric().fit(*arrays(), classes=[0, 1, 2, 3, 9])
    assert_equal_metrics(metric, GenerativeMetric().fit(X, Y))
    with pytest.raises(ValueError, match=r"labels \[3\] that are not among the classes"):
        DaskGenerativeMetric().fit(*arrays(), classes=[0, 1, 2])


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, arrays()[1], "X must be a dask array of 2 dimensions.*got ndarray.*GenerativeMetric"),
        (arrays()[0], Y, "y must be a dask array of 1 dimensions.*got ndarray"),
        (arrays()[0][:, 0], arrays()[1], "X must be a dask array of 2 dimensions"),
    ],
)
def test_other_types_are_refused(x, y, message):
    with pytest.raises(TypeError, match=message):
        DaskGenerativeMetric().fit(x, y)


def test_errors_name_the_block():
    broken = X.copy()
    broken[250] = np.nan
    with pytest.raises(ValueError, match=r"In block 2: .*NaN"):
        DaskGenerativeMetric().fit(*arrays(X=broken))
    with pytest.raises(ValueError, match="at least 2 classes; got 1 class, 1"):
        DaskGenerativeMetric().fit(*arrays(y=np.ones(len(X), int)))
    with pytest.raises(ValueError, match="n_components must be"):
        DaskGenerativeMetric(n_components=19).fit(*arrays())
    with pytest.raises(NotFittedError):
        DaskGenerativeMetric().transform(arrays()[0])


@pytest.mark.parametrize(
    ("base", "what"), [("identity", "samples"), ("pooled", "names"), ("pooled", "labels")]
)
def test_data_that_changes_between_passes(base, what):
    calls = itertools.count()

    def first_rows(block):
        return block[: 40 if next(calls) == 0 else 30] if len(block) == 50 else block

    def new_labels(block):
        if next(calls) == 0:
            return block
        # New names, or one more sample of the first class.
        return block + 7 if what == "names" else np.where(np.arange(150) == 149, 0, block)

    x, y = load_iris(return_X_y=True)
    if what == "samples":
        lazy = da.from_array(x, chunks=(50, -1)).map_blocks(
            first_rows, dtype=float, chunks=((40, 40, 40), (4,)), meta=np.empty((0, 0))
        )
        labels = da.from_array(y, chunks=50).map_blocks(
            lambda b: b[:40], dtype=int, chunks=((40, 40, 40),), meta=np.empty(0, int)
        )
        message = "inconsistent numbers|samples the first time"
    else:
        lazy = da.from_array(x, chunks=(150, -1))
        labels = da.from_array(y, chunks=150).map_blocks(
            new_labels, dtype=int, meta=np.empty(0, int)
        )
        message = {
            "names": "not among the classes.*persist data",
            "labels": r"had \[50, 50, 50\] samples the first.*\[51, 50, 49\] the second.*persist",
        }[what]
    with pytest.raises(ValueError, match=message):
        DaskGenerativeMetric(base=base).fit(lazy, labels)


def test_transform_is_lazy_and_keeps_float32():
    x, y = arrays()
    metric = DaskGenerativeMetric(n_components=3).fit(x, y)
    z = metric.transform(x)
    assert isinstance(z, da.Array)
    assert z.chunks == (tuple(n for n in CHUNKS if n), (3,))
    np.testing.assert_allclose(z.compute(), metric.to_local().transform(X))
    assert metric.transform(x.astype("float32")).compute().dtype == np.float32
    with pytest.raises(ValueError, match="feature names"):
        DaskGenerativeMetric().fit(*frames()).transform(frames()[0].rename(columns={"f0": "g0"}))


def test_copies():
    metric = DaskGenerativeMetric(base="pooled").fit(*arrays())
    again = pickle.loads(pickle.dumps(metric))
    np.testing.assert_array_equal(again.metric_, metric.metric_)
    assert clone(metric).get_params() == metric.get_params()
    local = metric.to_local()
    local.metric_[:] = 0
    assert metric.to_local().metric_.any()


@pytest.mark.filterwarnings("ignore")
def test_processes_of_a_cluster():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options, memory_limit=0, silence_logs=60) as cluster,
        distributed.Client(cluster),
    ):
        metric = DaskGenerativeMetric(base="pooled").fit(*arrays())
    assert_equal_metrics(metric, GenerativeMetric(base="pooled").fit(X, Y))


@pytest.mark.parametrize("parameters", [{}, {"n_components": 5, "normalize": False}], ids=str)
@pytest.mark.parametrize("make", [arrays, frames])
def test_the_adapter_equals_fit(make, parameters):
    x, y = make()
    adapter = DaskEmbeddingAdapter(random_state=0, **parameters).fit(x, y)
    whole = EmbeddingAdapter(random_state=0, **parameters).fit(X, Y)
    assert adapter.best_params_ == whole.best_params_
    np.testing.assert_allclose(adapter.transform(x).compute(), whole.transform(X), atol=1e-8)
    assert adapter.to_local().merge(whole).n_samples_seen_ == 2 * len(X)


def test_the_adapter_needs_two_classes():
    x, _ = arrays()
    with pytest.raises(ValueError, match="at least 2 classes"):
        DaskEmbeddingAdapter().fit(x, da.zeros(len(X), chunks=(CHUNKS,), dtype=int))
