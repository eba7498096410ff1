"""Shrinkage, stand-ins and floors of class covariances."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import OAS, LedoitWolf, ledoit_wolf
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression

from genmetric.density import ClassStatistics, class_statistics, fit_gaussians
from genmetric.density._covariance import (
    check_shrinkage,
    class_covariances,
    covariance_terms,
    estimated_covariance,
    fit_weighted,
    ledoit_wolf_shrinkage,
    replace_degenerate,
    shrink,
    stand_in_covariance,
)
from genmetric.density._factored_statistics import FactoredStatistics
from genmetric.density._low_rank import fit_low_rank_gaussians
from genmetric.density._scaling import Scaling


@given(st.integers(2, 60), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_ledoit_wolf_is_that_of_scikit_learn(n, D, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(5, size=(n, D)) @ rng.normal(size=(D, D)) + 30 * rng.normal(size=D)
    stats = ClassStatistics.from_rows(X, np.zeros(n, int), 1)
    covariance, shrinkage = ledoit_wolf(X)
    np.testing.assert_allclose(ledoit_wolf_shrinkage(stats)[0], shrinkage, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        class_covariances(stats)[0], covariance, rtol=1e-8, atol=1e-9 * np.trace(covariance)
    )


def test_ledoit_wolf_of_each_class(rng):
    X, codes = rng.normal(size=(80, 5)) @ rng.normal(size=(5, 5)), np.repeat([0, 1, 2], [8, 30, 42])
    X[codes == 1] += 7
    found = ledoit_wolf_shrinkage(ClassStatistics.from_rows(X, codes, 3))
    for c in range(3):
        centred = X[codes == c] - X[codes == c].mean(axis=0)
        expected = ledoit_wolf(centred, assume_centered=True)[1]
        np.testing.assert_allclose(found[c], expected, rtol=1e-10)
    assert 0.01 < found[0] < 1


def test_ledoit_wolf_weights_are_frequencies(rng):
    X, codes, times = rng.normal(size=(40, 4)), rng.integers(0, 2, 40), rng.integers(0, 4, 40)
    weighted = ClassStatistics.from_rows(X, codes, 2, times.astype(float))
    repeated = np.repeat(X, times, axis=0), np.repeat(codes, times)
    for c in range(2):
        expected = ledoit_wolf(repeated[0][repeated[1] == c])[1]
        np.testing.assert_allclose(ledoit_wolf_shrinkage(weighted)[c], expected, rtol=1e-10)


@pytest.mark.parametrize("shape", [(7, 1), (1, 3), (2, 3)])
def test_ledoit_wolf_without_scatter(rng, shape):
    X = rng.normal(size=shape)
    found = ledoit_wolf_shrinkage(ClassStatistics.from_rows(X, np.zeros(len(X), int), 1))
    assert np.isfinite(found).all()
    assert 0 <= found[0] <= 1


@pytest.mark.parametrize("s", [0, 0.3, 1])
def test_shrink(rng, s):
    A = rng.normal(size=(2, 3, 3))
    S = A @ A.transpose(0, 2, 1)
    for found, S_c in zip(shrink(S, s), S, strict=True):
        np.testing.assert_allclose(found, (1 - s) * S_c + s * np.trace(S_c) / 3 * np.eye(3))
        np.testing.assert_allclose(np.trace(found), np.trace(S_c))


def test_class_covariances_by_kind_of_shrinkage(rng):
    stats = ClassStatistics.from_rows(rng.normal(size=(30, 3)), rng.integers(0, 2, 30), 2)
    np.testing.assert_array_equal(class_covariances(stats, None), stats.covariances)
    np.testing.assert_array_equal(
        class_covariances(stats, 0.2), shrink(stats.covariances, np.array([0.2, 0.2]))
    )


def test_check_shrinkage_accepts():
    assert check_shrinkage(None) is None
    assert check_shrinkage("auto") == "auto"
    assert check_shrinkage(np.float32(0.5)) == 0.5
    assert check_shrinkage(0) == 0
    assert check_shrinkage("auto", OAS()) == "auto"
    assert check_shrinkage(None, OAS()) is None


@pytest.mark.parametrize("bad", [-0.1, 1.5, np.nan, np.inf, "none", True, [0.1], {}])
def test_check_shrinkage_refuses(bad):
    with pytest.raises(ValueError, match=r"shrinkage must be None, 'auto' or a number in \[0, 1\]"):
        check_shrinkage(bad)


def test_check_shrinkage_refuses_two_ways_to_estimate():
    with pytest.raises(ValueError, match=r'covariance_estimator=OAS.*Leave shrinkage at "auto"'):
        check_shrinkage(0.1, OAS())


class Weighted:
    """Remembers what it was fitted on; its fit returns nothing."""

    def fit(self, X, y=None, sample_weight=None):
        self.X, self.sample_weight = X, sample_weight


class Unweighted:
    def fit(self, X):
        self.X = X


def test_fit_weighted(rng):
    X, whole = rng.normal(size=(5, 2)), np.array([0.0, 1, 2, 1, 1])
    fitted = fit_weighted(Weighted(), X, whole)
    assert fitted.X is X
    assert fitted.sample_weight is whole
    repeated = fit_weighted(Unweighted(), X, whole)
    assert np.array_equal(repeated.X, X[[1, 2, 2, 3, 4]])
    assert fit_weighted(Unweighted(), X, None).X is X
    assert fit_weighted(Unweighted(), X, np.ones(5)).X is X
    with pytest.raises(ValueError, match=r"Unweighted.fit does not accept sample_weight.*integers"):
        fit_weighted(Unweighted(), X, whole + 0.5)


def test_estimated_covariance(rng):
    X, times = rng.normal(size=(20, 3)), np.array([1, 2] * 10)
    np.testing.assert_allclose(estimated_covariance(OAS(), X), OAS().fit(X).covariance_)
    np.testing.assert_allclose(
        estimated_covariance(LedoitWolf(), X, times.astype(float)),
        LedoitWolf().fit(np.repeat(X, times, axis=0)).covariance_,
    )


class Skewed:
    """A covariance estimator that is up to no good."""

    def __init__(self, covariance=None):
        self.covariance = covariance

    def get_params(self, deep=True):
        return {"covariance": self.covariance}

    def fit(self, X):
        self.covariance_ = self.covariance
        return self


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (PCA(), "has no covariance_ after fit"),
        (Skewed(np.eye(2)), r"shape \(2, 2\).*expected a finite matrix of shape \(3, 3\)"),
        (Skewed(np.diag([1, np.nan, 1])), "not finite"),
    ],
)
def test_estimated_covariance_refuses(rng, estimator, message):
    with pytest.raises(ValueError, match=f"covariance_estimator=.*{message}"):
        estimated_covariance(estimator, rng.normal(size=(20, 3)))


def test_estimated_covariance_keeps_errors_of_the_estimator(rng):
    with pytest.raises(TypeError, match="'y'"):
        estimated_covariance(LinearRegression(), rng.normal(size=(20, 3)))


def test_stand_in_is_pooled_then_total_then_one(rng):
    X, codes = rng.normal(size=(30, 3)), np.repeat([0, 1], [1, 29])
    stats = ClassStatistics.from_rows(X, codes, 2)
    np.testing.assert_allclose(stand_in_covariance(stats), stats.pooled_covariance)
    shrunk = shrink(stats.pooled_covariance, 0.5)
    np.testing.assert_allclose(stand_in_covariance(stats, 0.5), shrunk)
    # Two rows, one a class: no scatter within classes, some between them.
    two = ClassStatistics.from_rows(X[:2], np.array([0, 1]), 2)
    spread = np.trace(np.cov(X[:2].T, bias=True)) / 3
    np.testing.assert_allclose(stand_in_covariance(two), spread * np.eye(3))
    one_point = ClassStatistics.from_rows(np.ones((4, 3)), np.array([0, 0, 1, 1]), 2)
    np.testing.assert_array_equal(stand_in_covariance(one_point), np.eye(3))


def test_degenerate_classes_are_named_and_replaced(rng):
    X = np.r_[rng.normal(size=(20, 3)), rng.normal(size=(1, 3)), np.ones((5, 3)) * 0.1]
    codes = np.repeat([0, 1, 2], [20, 1, 5])
    stats = ClassStatistics.from_rows(X, codes, 3)
    with pytest.warns(
        UserWarning, match=r"Classes \['b', 'c'\] have a single sample or no scatter"
    ):
        found = replace_degenerate(stats.covariances, stats, None, np.array(["a", "b", "c"]))
    np.testing.assert_array_equal(found[0], stats.covariances[0])
    np.testing.assert_array_equal(found[1], stats.pooled_covariance)
    np.testing.assert_array_equal(found[2], stats.pooled_covariance)
    assert not stats.covariances[1].any()
    with pytest.warns(UserWarning, match=r"Classes \[1, 2\]"):
        shrunk = replace_degenerate(stats.covariances, stats, 0.5)
    np.testing.assert_allclose(shrunk[1], shrink(stats.pooled_covariance, 0.5))


def test_weights_below_one_do_not_make_a_class_degenerate(rng):
    # Weights that sum to one are common; classes of many rows then count less than one row.
    X, codes = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
    stats = ClassStatistics.from_rows(X, codes, 2, np.full(40, 1 / 40))
    assert (stats.count < 1).all()
    found = replace_degenerate(stats.covariances, stats)
    np.testing.assert_array_equal(found, stats.covariances)


def dense_fit(X, codes, n_classes, shrinkage):
    return fit_gaussians(class_statistics(X, codes, n_classes), shrinkage=shrinkage)


def low_rank_fit(X, codes, n_classes, shrinkage):
    frame = Scaling(np.zeros(X.shape[1]), 1.0)
    stats = FactoredStatistics.of(X, codes, n_classes, frame=frame)
    return fit_low_rank_gaussians(stats, shrinkage=shrinkage)


def few_per_class(rng, n_classes, n_per_class, deviations):
    """Statistics of classes that share one covariance matrix."""
    codes = np.repeat(np.arange(n_classes), n_per_class)
    X = rng.normal(size=(n_classes, len(deviations)))[codes]
    X = X + rng.normal(size=X.shape) * deviations
    return ClassStatistics.from_rows(X, codes, n_classes)


@pytest.mark.parametrize("n_per_class", [2, 3, 5, 9])
def test_small_classes_share_the_best_shrinkage(rng, n_per_class):
    """The shared shrinkage has the least squared distance to the covariance of all classes."""
    stats = few_per_class(rng, 400, n_per_class, np.geomspace(4, 0.5, 6))
    W, factor = stats.pooled_covariance, n_per_class / (n_per_class - 1)
    factor *= (stats.count.sum() - 400) / stats.count.sum()
    target = np.trace(W) / 6 * np.eye(6)

    def distance(s):
        return np.sum(((1 - s) * factor * stats.covariances + s * target - W) ** 2)

    grid = np.linspace(0, 1, 1001)
    best = grid[np.argmin([distance(s) for s in grid])]
    own, isotropic = covariance_terms(stats, "auto", whitened=True)
    np.testing.assert_allclose(own, (1 - best) * factor, atol=0.02)
    # Part of the scale of each class is kept; the mean over the classes is that of the target.
    assert np.mean(isotropic) == pytest.approx(best * target[0, 0], rel=0.05)
    assert isotropic.std() > 0


def test_spherical_classes_shrink_fully(rng):
    stats = few_per_class(rng, 300, 2, np.ones(20))
    own, isotropic = covariance_terms(stats, "auto", whitened=True)
    assert own.max() < 0.02
    expected = 0.7 * stats.traces.mean() / 20 + 0.3 * stats.traces / 20
    np.testing.assert_allclose(isotropic, expected, rtol=0.02)


def test_small_classes_leave_large_ones_as_they_are(rng):
    X, codes = rng.normal(size=(75, 4)), np.repeat(np.arange(6), [3, 2, 9, 10, 20, 31])
    stats = ClassStatistics.from_rows(X, codes, 6)
    expected = shrink(stats.covariances, ledoit_wolf_shrinkage(stats))
    np.testing.assert_array_equal(class_covariances(stats), expected)
    found = class_covariances(stats, whitened=True)
    np.testing.assert_array_equal(found[3:], expected[3:])
    assert (np.abs(found[:3] - expected[:3]).max(axis=(1, 2)) > 1e-3).all()


def test_pooled_covariance_of_too_few_samples_is_not_shared(rng):
    for n_classes, shares in ((19, False), (20, True)):
        stats = few_per_class(rng, n_classes, 3, np.ones(20))
        expected = shrink(stats.covariances, ledoit_wolf_shrinkage(stats))
        assert np.allclose(class_covariances(stats, whitened=True), expected) != shares


def test_one_small_class_has_its_own_shrinkage(rng):
    stats = ClassStatistics.from_rows(rng.normal(size=(4, 3)), np.zeros(4, int), 1)
    expected = shrink(stats.covariances, ledoit_wolf_shrinkage(stats))
    np.testing.assert_allclose(class_covariances(stats, whitened=True), expected)


class TestFloorWarning:
    """One warning if the floor of the eigenvalues replaces much of the class covariances."""

    @pytest.mark.parametrize("fit", [dense_fit, low_rank_fit])
    def test_fewer_samples_than_features(self, rng, fit):
        X, codes = rng.normal(size=(60, 12)), np.repeat([0, 1, 2], [6, 6, 48])
        message = (
            r"The covariances of 2 of 3 classes are nearly singular: up to 7 of 12 eigenvalues "
            r'were raised to 1e-08 .* Use more shrinkage, .* base="pooled" or fewer features'
        )
        with pytest.warns(UserWarning, match=message) as found:
            fit(X, codes, 3, None)
        assert len(found) == 1

    @pytest.mark.parametrize("fit", [dense_fit, low_rank_fit])
    @pytest.mark.parametrize("kind", ["constant", "collinear", "indicator", "shrunk"])
    def test_quiet(self, rng, fit, kind):
        X, codes = rng.normal(size=(60, 12)), np.repeat([0, 1, 2], 20)
        if kind == "constant":
            X[:, :5] = 1.0
        elif kind == "collinear":
            X[:, :5] = X[:, 5:10]
        elif kind == "indicator":
            X[:, :2] = rng.integers(0, 2, (60, 2))
            X[codes == 1, :2] = 0
        else:
            X, codes = X[:12], np.repeat([0, 1, 2], 4)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit(X, codes, 3, "auto" if kind == "shrunk" else None)
