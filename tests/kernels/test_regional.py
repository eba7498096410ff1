import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import minmax_scale

from genmetric import GenerativeMetric, RegionalKernels


@pytest.fixture
def wine():
    X, y = load_wine(return_X_y=True)
    return minmax_scale(X, (-1, 1)), y


def naive_gram(kernels, X, Y, train):
    """Equation (13) by loops over regions, scales and pairs of samples."""
    stack = []
    for M in kernels.metrics_:
        pairs = [(i, j) for i in range(len(train)) for j in range(i)]
        unit = np.median([(train[i] - train[j]) @ M @ (train[i] - train[j]) for i, j in pairs])
        for tau in kernels.scales_:
            K = [[np.exp(-tau * (x - y) @ M @ (x - y) / unit) for y in Y] for x in X]
            stack.append(K)
    return np.array(stack)


@pytest.mark.parametrize("n_regions", [0, 1, 3])
def test_gram_is_the_equation(wine, n_regions):
    X, y = wine
    train, labels = X[::4], y[::4]
    kernels = RegionalKernels(n_regions, scales=[0.25, 4.0], random_state=0).fit(train, labels)
    assert kernels.n_kernels_ == 2 * max(n_regions, 1)
    queries = X[1:12]
    expected = naive_gram(kernels, queries, train, train)
    np.testing.assert_allclose(kernels.gram(queries, train), expected, rtol=1e-9, atol=1e-13)
    own = kernels.gram(train)
    np.testing.assert_allclose(own, naive_gram(kernels, train, train, train), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(own, own.transpose(0, 2, 1), rtol=1e-13)
    np.testing.assert_array_equal(np.diagonal(own, axis1=1, axis2=2), 1.0)


@pytest.mark.parametrize("n_regions", [0, 1])
def test_outlier_does_not_make_the_kernels_constant(wine, n_regions):
    X, y = wine
    outlying = X.copy()
    outlying[0] *= 1e6
    kernels = RegionalKernels(n_regions, scales=[1.0]).fit(outlying, y)
    values = kernels.gram(X[1:])[0][np.triu_indices(len(X) - 1, 1)]
    assert 0.2 < np.median(values) < 0.6  # exp(-1) at the median distance
    assert np.ptp(values) > 0.3


def test_regional_metrics_are_averages_of_local_metrics(wine):
    X, y = wine
    kernels = RegionalKernels(4, random_state=0, interpolation=0.7).fit(X, y)
    local = (
        GenerativeMetric(normalization="determinant", interpolation=0.7).fit(X, y).local_metrics(X)
    )
    assert sorted(set(kernels.regions_)) == [0, 1, 2, 3]
    for p, M in enumerate(kernels.metrics_):
        np.testing.assert_allclose(M, local[kernels.regions_ == p].mean(axis=0), rtol=1e-8)


def test_regions_are_clusters_in_the_learned_space(wine):
    X, y = wine
    kernels = RegionalKernels(5, random_state=0).fit(X, y)
    Z = GenerativeMetric(normalization="determinant").fit(X, y).transform(X)
    centers = np.array([Z[kernels.regions_ == p].mean(axis=0) for p in range(5)])
    nearest = ((Z[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(nearest, kernels.regions_)


def test_one_region_and_no_region(wine):
    X, y = wine
    one, none = (RegionalKernels(n).fit(X, y) for n in (1, 0))
    np.testing.assert_allclose(
        one.metrics_[0], GenerativeMetric(normalization="determinant").fit(X, y).metric_
    )
    np.testing.assert_array_equal(none.metrics_[0], np.eye(13))
    np.testing.assert_array_equal(none.scales_, 2.0 ** np.arange(-6, 9))
    np.testing.assert_array_equal(RegionalKernels(0).fit(X).gram(X[:5]), none.gram(X[:5]))


def test_combined_gram_is_the_sum(wine):
    X, y = wine
    kernels = RegionalKernels(2, random_state=0).fit(X, y)
    weights = np.random.default_rng(0).random(30) * (np.arange(30) % 3 == 0)
    expected = np.tensordot(weights, kernels.gram(X[:9], X), 1)
    np.testing.assert_allclose(kernels.combined_gram(weights, X[:9], X), expected, rtol=1e-12)
    np.testing.assert_allclose(
        kernels.combined_gram(weights, X), np.tensordot(weights, kernels.gram(X), 1), rtol=1e-12
    )
    with pytest.raises(ValueError, match=r"shape \(30,\)"):
        kernels.combined_gram(weights[:-1], X)


@pytest.mark.parametrize("size", [1e-90, 1e90])
@pytest.mark.parametrize("n_regions", [0, 2])
def test_invariant_to_scale(wine, size, n_regions):
    X, y = wine
    plain = RegionalKernels(n_regions, random_state=0).fit(X, y)
    scaled = RegionalKernels(n_regions, random_state=0).fit(X * size, y)
    np.testing.assert_allclose(scaled.gram(X * size), plain.gram(X), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(scaled.sigma2_ / size / size, plain.sigma2_, rtol=1e-6)


def test_invariant_to_offset():
    X, y = load_iris(return_X_y=True)
    X = np.round(X * 2**10) / 2**10  # so that adding the offset rounds nothing
    plain = RegionalKernels(2, random_state=0).fit(X, y).gram(X)
    moved = RegionalKernels(2, random_state=0).fit(X + 2.0**30, y).gram(X + 2.0**30)
    np.testing.assert_allclose(moved, plain, rtol=1e-6, atol=1e-10)


def test_kernel_of_distant_samples_is_zero(wine):
    X, y = wine
    kernels = RegionalKernels(1).fit(X, y)
    far = np.full((1, 13), 1e99)
    np.testing.assert_array_equal(kernels.gram(far, X), 0)


def test_float32_stays_float32(wine):
    X, y = wine
    kernels = RegionalKernels(2, random_state=0).fit(X, y)
    single = kernels.gram(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, kernels.gram(X), atol=2e-4)


def test_result_independent_of_n_jobs(wine):
    X, y = wine
    one, two = (RegionalKernels(5, random_state=3, n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.metrics_, two.metrics_)
    np.testing.assert_array_equal(one.gram(X), two.gram(X))
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(again.gram(X[:3], X), one.gram(X[:3], X))
    assert clone(one).get_params() == one.get_params()


def test_fewer_distinct_samples_than_regions():
    X = np.repeat(np.array([[0.0, 0], [1, 0], [0, 1], [2, 2]]), 5, axis=0)
    X[::5] += 0.125
    y = np.arange(20) // 10
    kernels = RegionalKernels(50, random_state=0).fit(X, y)
    assert len(kernels.metrics_) == 8
    assert np.isfinite(kernels.gram(X)).all()


def test_identical_samples_have_a_kernel_of_ones():
    np.testing.assert_array_equal(RegionalKernels(0).fit(np.ones((4, 2))).gram(np.ones((3, 2))), 1)


def test_memory_error_before_allocation(wine, monkeypatch):
    X, y = wine
    kernels = RegionalKernels(1).fit(X, y)
    monkeypatch.setattr("genmetric._parallel.available_memory", lambda: 10**6)
    with pytest.raises(
        MemoryError, match=r"\(15, 178, 178\) would take 3.8 MB, but only 1 MB are free"
    ):
        kernels.gram(X)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"n_regions": -1}, "n_regions must be"),
        ({"n_regions": 2.0}, "n_regions must be"),
        ({"scales": []}, "scales must be"),
        ({"scales": [1.0, 0.0]}, "scales must be"),
        ({"scales": [np.nan]}, "scales must be"),
        ({"scales": "wide"}, "scales must be"),
        ({"interpolation": 1.5}, "interpolation must be"),
        ({"shrinkage": -0.5}, "shrinkage"),
        ({"holdout": 1.0}, r"holdout must be None or a number in \(0, 1\)"),
    ],
)
def test_invalid_parameters(wine, parameters, text):
    with pytest.raises(ValueError, match=text):
        RegionalKernels(**parameters).fit(*wine)


def test_labels_are_needed_for_regions(wine):
    with pytest.raises(ValueError, match="requires y to be passed"):
        RegionalKernels(2).fit(wine[0])


def test_invalid_samples(wine):
    X, y = wine
    kernels = RegionalKernels(1).fit(X, y)
    with pytest.raises(ValueError, match="12 features"):
        kernels.gram(X[:, 1:])
    with pytest.raises(ValueError, match="NaN"):
        kernels.gram(X, np.where(X[3, 3] == X, np.nan, X))
    with pytest.raises(TypeError, match="masked"):
        kernels.gram(np.ma.masked_array(X))
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        RegionalKernels().gram(X)
    assert not hasattr(kernels, "transform")
