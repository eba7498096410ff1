"""Sizes, offsets, types and layouts of numbers: the answer is that of the same rows in float64."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from genmetric import (
    LMNN,
    MLKR,
    EnergyClassifier,
    GenerativeMetric,
    GenerativeRegressionMetric,
    KernelDensityWeights,
    KernelRegressor,
    LocalMetricClassifier,
    MetricKMeans,
    metric_kernel,
)


@pytest.mark.parametrize("scale", [2.0**-400, 2.0**320, 1e-120, 1e95])
def test_common_factor_has_no_effect(subject, iris, plain, same, scale):
    X, y = iris
    # A power of two rounds nothing; of other factors every row is rounded.
    rtol = 1e-9 if np.frexp(scale)[0] == 0.5 else 1e-3 if subject.stops else 1e-5
    same(subject.answers(subject.fit(scale * X, y), scale * X), plain(subject), rtol)


@pytest.mark.parametrize("scale", [1e101, 2e307, 1e-200, 1e-310])
def test_scales_whose_squares_overflow_are_errors(subject, iris, scale):
    X, y = iris
    with pytest.raises(ValueError, match=r"(overflow|underflow) float64.* X by a constant first"):
        subject.fit(scale * X, y)


def test_results_do_not_depend_on_n_jobs(subject, iris, same, monkeypatch):
    monkeypatch.setattr("genmetric._parallel.CHUNK_BYTES", 2**10)
    X, y = iris
    if "n_jobs" not in subject.make().get_params():
        pytest.skip("one thread")
    one, two = (subject.make().set_params(n_jobs=n).fit(X, y) for n in (1, 2))
    same(subject.answers(two, X), subject.answers(one, X), 0)


ODD = np.arange(60) % 2
DRAWN = np.random.default_rng(0).normal(size=(60, 4))
#: Samples whose densities underflow.
UNDERFLOW = {
    "far apart": (DRAWN + 1e6 * ODD[:, None], ODD),
    "a constant column": (np.where([True, True, True, False], DRAWN, 1.0), ODD),
    "an outlier": (np.vstack([DRAWN, np.full((1, 4), 1e99)]), np.append(ODD, 0)),
}


@pytest.mark.filterwarnings("ignore:Classes .* have a single sample or no variance:UserWarning")
@pytest.mark.parametrize("name", UNDERFLOW)
def test_floating_point_errors_that_raise(subject, name):
    X, y = UNDERFLOW[name]
    with np.errstate(all="raise", under="ignore"):
        fitted = subject.fit(X, y)
        for method, query in subject.queries(fitted).items():
            if not (method == "bias" and name == "an outlier"):  # refused, in a unit of 1e99
                query(X)


@pytest.mark.parametrize(
    "make", [MLKR, KernelRegressor, GenerativeRegressionMetric], ids=lambda cls: cls.__name__
)
def test_floating_point_errors_of_regression_that_raise(make, iris):
    X = iris[0]
    with np.errstate(all="raise", under="ignore"):
        fitted = make().fit(X, X[:, 0] + X[:, 1] ** 2)
        (fitted.predict if hasattr(fitted, "predict") else fitted.transform)(X)


@pytest.mark.parametrize("bandwidth", [1e-300, 1e-120, 1e120, 1e300])
def test_a_bandwidth_far_from_the_spread_is_an_error(iris, bandwidth):
    metric = GenerativeMetric(KernelDensityWeights(bandwidth=bandwidth))
    with pytest.raises(ValueError, match=r"bandwidth=1e.* times the spread of X.*Use a bandwidth"):
        metric.fit(*iris)
    # In the unit of the samples the same bandwidth is as good as any.
    if 1e-150 < bandwidth < 1e100:
        assert np.isfinite(metric.fit(bandwidth * iris[0], iris[1]).metric_).all()


@pytest.mark.parametrize(
    "make", [LMNN, LocalMetricClassifier, EnergyClassifier], ids=lambda cls: cls.__name__
)
def test_more_neighbors_than_samples_is_an_error(make, iris):
    with pytest.raises(ValueError, match=r"n_neighbors.*1000000000.*[Uu]se fewer neigh"):
        make(n_neighbors=10**9).fit(*iris)
    with pytest.raises(ValueError, match=r"tol must be a number in \[0, 1\]; got 1e\+300"):
        LMNN(tol=1e300).fit(*iris)


@pytest.mark.parametrize("offset", [1e6, -1e10])
def test_offset_has_no_effect(subject, iris, plain, same, offset):
    X, y = iris
    moved = X + offset
    np.testing.assert_array_equal(moved - offset, X)
    # The centre of the rows is rounded as the offset is, to 1e-6.
    same(subject.answers(subject.fit(moved, y), moved), plain(subject), 1e-4)


TYPES = {
    "float16": lambda X: X.astype(np.float16),
    "longdouble": lambda X: X.astype(np.longdouble),
    "int8": lambda X: (10 * X).astype(np.int8),
    "uint64": lambda X: (X * 2**60).astype(np.uint64),
    "bool": lambda X: X - X.mean(axis=0) > 0,
    "big-endian": lambda X: X.astype(">f8"),
    "objects": lambda X: X.astype(object),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_of_numbers(entry, iris, same, name):
    X, y = iris
    rows = TYPES[name](X)
    plain = rows.astype(np.float64)
    expected = entry.answers(entry.fit(plain, y), plain)
    same(entry.answers(entry.fit(rows, y), rows), expected, 1e-12)


@pytest.mark.parametrize("size", [4e37, 1e-39])
def test_float32_over_its_whole_range(subject, iris, same, size):
    X, y = iris
    rows = (size * X).astype(np.float32)
    plain = rows.astype(np.float64)
    expected = subject.answers(subject.fit(plain, y), plain)
    answers = subject.answers(subject.fit(rows, y), rows)
    same(answers, expected, 1e-3 if subject.stops else 2e-5)


def test_images_beyond_float32_are_refused_by_name(iris):
    X, y = iris
    rows = (4e37 * X).astype(np.float32)
    large = GenerativeMetric(normalization="determinant").fit(rows, y)
    with pytest.raises(ValueError, match=r"overflow float32. Pass X as float64"):
        EnergyClassifier(GenerativeMetric(normalization="determinant")).fit(rows, y)
    for fitted in (large, MetricKMeans(2, n_init=1).fit(rows)):
        with pytest.raises(ValueError, match=r"overflow float32. Pass X as float64"):
            fitted.transform(rows)
        assert np.isfinite(fitted.transform(rows.astype(float))).all()
    # A factor beyond float32 is no harm where the images are not.
    fitted = LMNN().fit((1e-39 * X).astype(np.float32), y)
    image = fitted.transform((1e-39 * X).astype(np.float32))
    assert image.dtype == np.float32
    assert np.isfinite(image).all()
    with pytest.raises(ValueError, match=r"overflow float64. Multiply X"):
        fitted.transform(np.full((1, 4), 1e300))


def test_a_longdouble_beyond_float64_is_infinite(entry, iris):
    X, y = iris
    if np.finfo(np.longdouble).max == np.finfo(float).max:
        pytest.skip("longdouble is float64 here")
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="infinity or a value too"):
        entry.fit(X.astype(np.longdouble) * np.longdouble("1e400"), y)


def unaligned(X):
    """Rows that begin at odd addresses."""
    rows = np.zeros(len(X), {"names": ["pad", "x"], "formats": ["u1", f"{X.shape[1]}f8"]})
    rows["x"] = X
    return rows["x"]


def read_only_map(X, folder):
    np.save(folder / "rows.npy", X)
    return np.load(folder / "rows.npy", mmap_mode="r")


LAYOUTS = {
    "columns first": lambda X, _: np.asfortranarray(X),
    "strided": lambda X, _: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "backwards": lambda X, _: X[::-1].copy()[::-1],
    "unaligned": lambda X, _: unaligned(X),
    "read-only map": read_only_map,
    "pandas": lambda X, _: pd.DataFrame(X, columns=list("abcd")),
    "pandas with missing values allowed": lambda X, _: pd.DataFrame(X).astype("Float64"),
    "polars": lambda X, _: pl.DataFrame(X, schema=list("abcd")),
    "lists": lambda X, _: X.tolist(),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_and_containers(entry, iris, plain, same, name, tmp_path):
    X, y = iris
    rows = LAYOUTS[name](X, tmp_path)
    same(entry.answers(entry.fit(rows, y), rows), plain(entry), 1e-9)


def test_fit_does_not_modify_its_input(subject, iris):
    X, y = (a.copy() for a in iris)
    X.flags.writeable = y.flags.writeable = False
    fitted = subject.fit(X, y)
    for method in subject.queries(fitted).values():
        method(X)
    np.testing.assert_array_equal(X, iris[0])


@pytest.mark.parametrize("scale", [1e-130, 1e95])
def test_distances_of_extreme_samples(iris, scale):
    X, y = iris
    near, far = (GenerativeMetric().fit(s * X, y) for s in (1.0, scale))
    pairs = np.stack([X[:-1], X[1:]], axis=1)
    np.testing.assert_allclose(far.pair_distance(scale * pairs) / scale, near.pair_distance(pairs))
    # A hundred thousandth of the spread: its square is no ordinary number.
    u, v = scale * X[0], scale * (X[0] + 1e-5)
    wide = near.get_metric()(X[0], X[0] + 1e-5)
    assert far.get_metric()(u, v) / scale == pytest.approx(wide, rel=1e-9)
    kernels = [metric_kernel(fitted)(s * X) for fitted, s in ((near, 1.0), (far, scale))]
    np.testing.assert_allclose(kernels[0], kernels[1], rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-130, 1e-60, 1e60, 1e95])
def test_bias_outside_float64_is_an_error(iris, scale):
    X, y = iris
    with pytest.raises(ValueError, match=r"power -6 of the unit of X.*Multiply X by a constant"):
        GenerativeMetric().fit(scale * X, y).bias(scale * X)
    small = GenerativeMetric().fit(X, y).bias(X)
    np.testing.assert_allclose(
        GenerativeMetric().fit(8 * X, y).bias(8 * X) * 8**6, small, rtol=1e-9
    )
    # Far from every class the density is zero to float64, and that is the answer.
    assert GenerativeMetric().fit(X, y).bias(np.full((1, 4), 1e4)) == 0
