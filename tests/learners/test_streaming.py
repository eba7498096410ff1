"""fit_batches and partial_fit: the same answer from rows that come in pieces."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.covariance import OAS
from sklearn.utils.validation import check_is_fitted

from genmetric import GaussianMixtureModel, GaussianModel, GenerativeMetric
from genmetric.datasets import load_iris, load_vehicle
from genmetric.learners import _online as online
from genmetric.learners._fitting import Average, fitted_attributes, set_attributes
from genmetric.learners._merging import TreeMerge
from genmetric.learners._reservoir import Reservoir
from genmetric.learners._sample_totals import SampleTotals
from genmetric.learners._specification import FitSpecification
from genmetric.learners._streaming import (
    ClassTally,
    batch_fourth_moments,
    batch_samples,
    batch_sum,
    labelled_batch,
    plan_batches,
)


def in_batches(X, y, cuts):
    """A function that returns a fresh iterator over the rows, cut at the given places."""

    def make_batches():
        edges = [0, *sorted(cuts), len(X)]
        for a, b in itertools.pairwise(edges):
            yield X[a:b], y[a:b]

    return make_batches


def assert_same(a, b, rtol=1e-10):
    assert np.linalg.norm(a.metric_ - b.metric_) <= rtol * np.linalg.norm(b.metric_)
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_allclose(a.means_, b.means_, rtol=1e-9, atol=1e-9 * np.abs(b.means_).max())
    np.testing.assert_allclose(
        a.covariances_, b.covariances_, rtol=1e-8, atol=1e-9 * np.abs(b.covariances_).max()
    )


@settings(max_examples=25)
@given(
    cuts=st.lists(st.integers(0, 150), max_size=6),
    shrinkage=st.sampled_from([None, "auto", 0.2]),
    order=st.sampled_from(["given", "shuffled"]),
    scale=st.sampled_from([1e-100, 1.0, 1e100]),
)
def test_batches_equal_the_whole(cuts, shrinkage, order, scale):
    # In the given order of iris classes come one after the other.
    X, y = load_iris(return_X_y=True)
    if order == "shuffled":
        rows = np.random.default_rng(0).permutation(len(X))
        X, y = X[rows], y[rows]
    X = scale * X
    streamed = GenerativeMetric(shrinkage=shrinkage).fit_batches(in_batches(X, y, cuts))
    assert_same(streamed, GenerativeMetric(shrinkage=shrinkage).fit(X, y))


@pytest.mark.parametrize(
    "parameters",
    [
        {"solver": "dense"},
        {"solver": "resolvent"},
        {"solver": "resolvent", "class_tol": 0},
        {"max_samples": 200, "random_state": 3},
        {"n_components": 4, "interpolation": 0.5},
        {"priors": [0.4, 0.3, 0.2, 0.1]},
        {"n_jobs": 2},
    ],
)
def test_batches_with_parameters(parameters):
    X, y = load_vehicle(return_X_y=True)
    streamed = GenerativeMetric(**parameters).fit_batches(in_batches(X, y, [100, 101, 500]))
    whole = GenerativeMetric(**parameters).fit(X, y)
    assert_same(streamed, whole)
    np.testing.assert_allclose(streamed.metric_stderr_, whole.metric_stderr_, rtol=1e-8)
    np.testing.assert_allclose(streamed.transform(X), whole.transform(X), rtol=1e-6, atol=1e-8)


def test_batches_of_frames_with_string_labels():
    pd = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=list("abcd"))
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    streamed = GenerativeMetric().fit_batches(
        lambda: ((frame.iloc[i : i + 40], names[i : i + 40]) for i in range(0, 150, 40))
    )
    assert_same(streamed, GenerativeMetric().fit(frame, names))
    assert list(streamed.feature_names_in_) == list("abcd")


def test_empty_batches_are_passed_over():
    X, y = load_iris(return_X_y=True)
    streamed = GenerativeMetric().fit_batches(in_batches(X, y, [0, 70, 70, 150]))
    assert_same(streamed, GenerativeMetric().fit(X, y))


def test_bad_batches():
    X, y = load_iris(return_X_y=True)
    metric = GenerativeMetric()
    with pytest.raises(TypeError, match="make_batches must be a function"):
        metric.fit_batches([(X, y)])
    once = iter([(X, y)])
    with pytest.raises(ValueError, match=r"returned no samples|150 samples the first time and 0"):
        metric.fit_batches(lambda: once)
    with pytest.raises(ValueError, match="returned no samples"):
        metric.fit_batches(lambda: iter([]))
    with pytest.raises(ValueError, match="at least 2 classes"):
        metric.fit_batches(lambda: iter([(X[:50], y[:50])]))
    broken = X.copy()
    broken[120, 1] = np.nan
    with pytest.raises(ValueError, match="NaN") as raised:
        metric.fit_batches(in_batches(broken, y, [100]))
    assert "in batch 1" in " ".join(raised.value.__notes__)
    with pytest.raises(ValueError, match="features"):
        metric.fit_batches(lambda: iter([(X, y), (X[:, :3], y)]))
    with pytest.raises(ValueError, match='max_samples="auto"'):
        GenerativeMetric(max_samples="auto").fit_batches(in_batches(X, y, []))
    for model in (GaussianModel(covariance_estimator=OAS()), GaussianMixtureModel()):
        with pytest.raises(ValueError, match="needs all samples of a class at once"):
            GenerativeMetric(class_model=model).fit_batches(in_batches(X, y, []))
    with pytest.raises(ValueError, match='requires combination="uniform"'):
        GenerativeMetric(np.ones(150)).fit_batches(in_batches(X, y, []))
    assert not hasattr(metric, "components_")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_values_that_differ_between_passes_are_an_error(rng, dtype, offset):
    X, y = rng.normal(size=(3000, 6)) + offset, np.arange(3000) % 3

    def fit(later):
        passes = iter([X, later])

        def make_batches():
            return in_batches(next(passes).astype(dtype), y, [1000, 2000])()

        return GenerativeMetric().fit_batches(make_batches)

    order = rng.permutation(3000)
    np.testing.assert_allclose(
        fit(X[order]).metric_, fit(X).metric_, rtol=1e-3 if dtype == np.float32 else 1e-6
    )
    # Values that are computed again on another machine differ in the last bits.
    fit(X * (1 + np.finfo(dtype).eps * rng.choice([-1, 1], size=X.shape)))
    different = r"samples with different values in different passes\. It must return a new iterator"
    with pytest.raises(ValueError, match=different):
        fit(rng.normal(size=X.shape) + offset)
    one_sample = X.copy()
    one_sample[1234] *= 100
    with pytest.raises(ValueError, match=different):
        fit(one_sample)
    with pytest.raises(ValueError, match=different):
        fit(np.roll(X, 1, axis=1) * [1, 1, 1, 1, 1, 1.01])
    lengths = iter([3000, 2999])
    with pytest.raises(ValueError, match="3000 samples the first time and 2999 the last time"):
        GenerativeMetric().fit_batches(lambda: iter([(X[: (n := next(lengths))], y[:n])]))


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_totals_of_small_and_large_values(rng, size):
    X = size * rng.normal(size=(50, 3))
    totals = SampleTotals.of(X)
    assert totals.difference(SampleTotals.of(X[::-1])) is None
    assert totals.difference(SampleTotals.of(X + size)) is not None
    assert SampleTotals.of(np.full((9, 3), 1e308)).difference(totals) is not None
    # One total per part, merged, is the total of all.
    parts = SampleTotals.of(X[:20]).merge(SampleTotals.of(X[20:]))
    assert totals.difference(parts) is None


def test_partial_fit_equals_fit_while_the_reservoir_holds_all():
    X, y = load_vehicle(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))
    metric = GenerativeMetric()
    for part in np.array_split(rows, 6):
        metric.partial_fit(X[part], y[part])
    assert_same(metric, GenerativeMetric().fit(X, y))
    assert metric.metric_stderr_ == 0


def test_partial_fit_with_late_classes():
    X, y = load_iris(return_X_y=True)
    metric = GenerativeMetric()
    metric.partial_fit(X[:50], y[:50])
    np.testing.assert_array_equal(metric.metric_, np.eye(4))
    with pytest.raises(ValueError, match="single class"):
        metric.local_metrics(X)
    metric.partial_fit(X[50:100], y[50:100])
    assert_same(metric, GenerativeMetric().fit(X[:100], y[:100]))
    metric.partial_fit(X[100:], y[100:])
    assert_same(metric, GenerativeMetric().fit(X, y))


def test_partial_fit_with_classes_named():
    X, y = load_iris(return_X_y=True)
    metric = GenerativeMetric().partial_fit(X[:120], y[:120], classes=[0, 1, 2])
    metric.partial_fit(X[120:], y[120:])
    assert_same(metric, GenerativeMetric().fit(X, y))
    with pytest.raises(ValueError, match=r"labels \[7\] that are not among the classes"):
        metric.partial_fit(X[:2], [0, 7])


def test_partial_fit_over_a_bounded_sample():
    X, y = load_vehicle(return_X_y=True)
    full = GenerativeMetric().fit(X, y)
    metric = GenerativeMetric(max_samples=300, random_state=0)
    for part in np.array_split(np.arange(len(X)), 9):
        metric.partial_fit(X[part], y[part])
    np.testing.assert_allclose(metric.covariances_, full.covariances_, rtol=1e-8)
    error = np.linalg.norm(metric.metric_ - full.metric_) / np.linalg.norm(full.metric_)
    assert 0 < metric.metric_stderr_ < 0.2
    assert 0 < error < 3 * metric.metric_stderr_


def test_partial_fit_computes_the_metric_when_it_is_read(monkeypatch):
    computed = []
    original = online.stream_attributes
    monkeypatch.setattr(
        online, "stream_attributes", lambda *args: computed.append(1) or original(*args)
    )
    X, y = load_vehicle(return_X_y=True)
    metric = GenerativeMetric(interpolation=0.5)
    for rows in np.array_split(np.arange(len(X)), 5):
        metric.partial_fit(X[rows], y[rows])
    check_is_fitted(metric)
    np.testing.assert_array_equal(metric.classes_, np.unique(y))
    assert not computed
    metric.set_params(interpolation=1.0)  # parameters of the last call apply
    whole = GenerativeMetric(interpolation=0.5).fit(X, y)
    assert_same(metric, whole)
    np.testing.assert_allclose(metric.transform(X), whole.transform(X), rtol=1e-6, atol=1e-8)
    assert len(computed) == 1
    with pytest.raises(
        AttributeError, match="'GenerativeMetric' object has no attribute 'weigths_'"
    ):
        _ = metric.weigths_


@pytest.mark.parametrize("name", ["covariances_", "means_", "n_iter_", "metric_stderr_"])
def test_every_attribute_of_a_stream_can_be_read_first(name):
    X, y = load_iris(return_X_y=True)
    metric = GenerativeMetric().partial_fit(X, y)
    np.testing.assert_allclose(
        getattr(metric, name), getattr(GenerativeMetric().fit(X, y), name), rtol=1e-9
    )
    assert not hasattr(metric.partial_fit(X, y), "weights_")


def test_copies_of_a_stream_have_the_metric():
    X, y = load_iris(return_X_y=True)
    metric = GenerativeMetric().partial_fit(X[::2], y[::2])
    for again in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert "components_" in vars(again)
        np.testing.assert_array_equal(again.metric_, metric.metric_)
        again.partial_fit(X[1::2], y[1::2])
        assert_same(again, GenerativeMetric().fit(X, y))


def test_partial_fit_checks_parameters_of_each_call():
    X, y = load_iris(return_X_y=True)
    for wrong in ({"n_components": 5}, {"priors": [0.5, 0.5]}):
        metric = GenerativeMetric().partial_fit(X, y)
        with pytest.raises(ValueError, match=next(iter(wrong))):
            metric.set_params(**wrong).partial_fit(X, y)
        assert metric.metric_.shape == (4, 4)  # of the first call


def test_fit_discards_earlier_batches():
    X, y = load_iris(return_X_y=True)
    metric = GenerativeMetric().partial_fit(X[:100], y[:100])
    metric.fit(X, y)
    metric.partial_fit(X[50:], y[50:])
    assert_same(metric, GenerativeMetric().fit(X[50:], y[50:]))


def test_fit_batches_discards_earlier_batches():
    X, y = load_iris(return_X_y=True)
    metric = GenerativeMetric().partial_fit(X[:100], y[:100])
    metric.fit_batches(in_batches(X, y, [60]))
    metric.partial_fit(X[50:], y[50:])
    assert_same(metric, GenerativeMetric().fit(X[50:], y[50:]))


def test_reservoir_is_uniform():
    counts = np.zeros(40)
    for seed in range(400):
        reservoir = Reservoir(10, np.random.RandomState(seed))
        for part in np.array_split(np.arange(40.0)[:, None], 7):
            reservoir.add(part)
        assert reservoir.n_seen == 40
        counts[reservoir.rows[:, 0].astype(int)] += 1
    # 400 draws of 10 out of 40: 100 each, with a standard deviation of 8.7.
    assert np.abs(counts - 100).max() < 40
    assert np.square((counts - 100) / 8.66).mean() == pytest.approx(1, abs=0.6)


def tallied(X, y, cuts):
    """The tally of all rows, merged from batches."""
    parts = [ClassTally.of(x, labels) for x, labels in in_batches(X, y, cuts)() if len(x)]
    tree = TreeMerge()
    for part in parts:
        tree.add(part)
    return tree.result().settled()


def assert_same_tally(a, b):
    np.testing.assert_array_equal(a.classes, b.classes)
    assert a.frame.scale == b.frame.scale
    np.testing.assert_allclose(a.frame.center, b.frame.center, rtol=1e-12, atol=1e-12)
    for name in ("count", "mean", "scatter", "fourth"):
        x, y = getattr(a.stats, name), getattr(b.stats, name)
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(y).max()))


@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e6])
def test_batches_of_different_offset_and_scale(spread, rng):
    # Each batch is narrow and far from the others: only the batches together tell the scale.
    centers = 1e3 * rng.normal(size=(6, 1, 3))
    X = (
        centers
        + spread * np.array([1, 1e-6, 1, 1e3, 0, 1])[:, None, None] * rng.normal(size=(6, 40, 3))
    ).reshape(-1, 3)
    y = rng.integers(2, size=len(X))
    whole = ClassTally.of(X, y).settled()
    assert_same_tally(tallied(X, y, range(40, 240, 40)), whole)
    assert 0.5 < np.trace(whole.stats.total_covariance) / 3 < 2


@pytest.mark.parametrize("size", [1e-140, 1e-70, 1e70, 1e140])
def test_a_few_samples_of_another_scale(size, rng):
    # The frame of a long batch is made from some of its rows; the others may be far out.
    X = rng.normal(size=(5000, 3))
    X[2501] *= max(1, size)
    X[np.arange(5000) != 2501] *= min(1, size)
    y = rng.integers(2, size=len(X))
    tally = ClassTally.of(X, y).settled()
    x = tally.frame.apply(X)
    for c in range(2):
        e = x[y == c] - x[y == c].mean(axis=0)
        np.testing.assert_allclose(tally.stats.scatter[c], e.T @ e, rtol=1e-9, atol=1e-12)
        fourth = ((e**2).sum(axis=1) ** 2).sum()
        np.testing.assert_allclose(tally.stats.fourth[c], fourth, atol=1e-12)
    assert 0.5 < np.trace(tally.stats.total_covariance) / 3 < 2


def test_constant_batches():
    X = np.repeat([[1e-90, 0.0], [3e-90, 2e-90], [-1e-90, 5e-90], [0.0, 1e-90]], 5, axis=0)
    y = np.tile([0, 1, 1, 1, 0], 4)
    assert_same_tally(tallied(X, y, [5, 10, 15]), ClassTally.of(X, y).settled())


def test_label_kinds():
    X = np.arange(12.0).reshape(6, 2)
    names = np.array(["b", "a", "c", "a", "b", "c"], object)
    for labels in (names, names.astype(str), np.array([2, 1, 3, 1, 2, 3]), names == "a"):
        tally = ClassTally.of(X, labels)
        classes, codes = np.unique(labels, return_inverse=True)
        np.testing.assert_array_equal(tally.classes, classes)
        np.testing.assert_array_equal(tally.stats.count, np.bincount(codes))
    with pytest.raises(ValueError, match="Unknown label type"):
        ClassTally.of(X, np.arange(6) + 0.5)
    with pytest.raises(TypeError, match="numbers and names"):
        ClassTally.of(X, names).merge(ClassTally.of(X, np.arange(6)))
    # Longer names in a later batch, and numbers that became floats.
    longer = ClassTally.of(X, names.astype("U1")).merge(ClassTally.of(X, np.array(["bcd"] * 6)))
    assert longer.classes.tolist() == ["a", "b", "bcd", "c"]
    both = ClassTally.of(X, np.arange(6)).merge(ClassTally.of(X, np.arange(6.0)))
    np.testing.assert_array_equal(both.stats.count, [2] * 6)


def test_bits_independent_of_layout_and_threads(rng):
    X = rng.normal(size=(40_000, 5))
    y = rng.integers(3, size=len(X))
    plain = GenerativeMetric().fit_batches(in_batches(X, y, [25_000]))
    for x, n_jobs in ((np.asfortranarray(X), None), (X, 2)):
        other = GenerativeMetric(n_jobs=n_jobs).fit_batches(in_batches(x, y, [25_000]))
        np.testing.assert_array_equal(other.metric_, plain.metric_)
        np.testing.assert_array_equal(other.covariances_, plain.covariances_)


def test_many_batches():
    # More than the merges of two levels take together.
    X, y = load_vehicle(return_X_y=True)
    streamed = GenerativeMetric().fit_batches(in_batches(X, y, range(9, 846, 9)))
    assert_same(streamed, GenerativeMetric().fit(X, y))


@pytest.mark.parametrize("base", ["identity", "pooled"])
def test_accumulators_can_be_pickled(base):
    # As in a recipe for another system: parts are pickled, and each batch is read separately.
    X, y = load_vehicle(return_X_y=True)
    batches = in_batches(X, y, [100, 101, 500])
    metric = GenerativeMetric(base=base)

    def merged(parts):
        tree = TreeMerge()
        for part in parts:
            tree.add(pickle.loads(pickle.dumps(part)))
        return tree.result()

    def read(x, labels):
        return labelled_batch(clone(metric), x, labels, reset=True)

    def fourth(classes):
        return lambda frame, stats: (
            merged(
                batch_fourth_moments(*read(*batch), classes, frame, stats.mean)
                for batch in batches()
            ).values
        )

    spec = FitSpecification.of(metric.get_params())
    tally = merged(ClassTally.of(*read(*batch)) for batch in batches())
    plan, wanted = plan_batches(spec, tally, fourth)
    assert wanted is None
    metric.n_features_in_ = 18
    sent = pickle.loads(pickle.dumps((metric, plan)))
    total = merged(batch_sum(sent[1], batch_samples(sent[0], x)) for x, _ in batches())
    set_attributes(metric, fitted_attributes(plan, Average(total)))
    np.testing.assert_array_equal(
        metric.metric_, GenerativeMetric(base=base).fit_batches(batches).metric_
    )
