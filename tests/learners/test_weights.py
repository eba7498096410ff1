"""Density weights (Algorithm 1): against plain loops, and their invariants."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.neighbors import KernelDensity, KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from genmetric import GaussianMixtureWeights, GenerativeMetric, KernelDensityWeights

IRIS = load_iris(return_X_y=True)
WINE = (StandardScaler().fit_transform(load_wine().data), load_wine().target)
ODD = np.arange(178) % 2 == 1


def difference(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def root(M):
    values, U = np.linalg.eigh(M)
    return (U * np.sqrt(values)) @ U.T


def naive_kde(X, local, bandwidth, n_iter):
    """Alternate densities by scikit-learn and averages of given local metrics."""
    M = np.eye(X.shape[1])
    for _ in range(n_iter):
        Z = X @ root(M).T
        # Its kernel is exp(-d²/2h²), ours exp(-d²/sigma²).
        model = KernelDensity(bandwidth=bandwidth / np.sqrt(2)).fit(Z)
        weights = np.exp(model.score_samples(Z))
        weights /= weights.sum()
        M = np.einsum("n,nij->ij", weights, local)
    return M, weights


@pytest.mark.parametrize(("data", "bandwidth"), [(IRIS, 0.7), (WINE, 2.0)])
def test_kde_equals_a_plain_loop(data, bandwidth):
    X, y = data
    metric = GenerativeMetric(KernelDensityWeights(bandwidth=bandwidth)).fit(X, y)
    M, weights = naive_kde(X, metric.local_metrics(X), bandwidth, metric.n_iter_)
    assert difference(metric.metric_, M) < 1e-8
    np.testing.assert_allclose(metric.weights_, weights, rtol=1e-7)
    assert metric.bandwidths_ == pytest.approx(np.full(metric.n_iter_, bandwidth))
    assert (np.diff(metric.metric_changes_)[1:] < 0).all()
    assert metric.metric_changes_[-1] <= 1e-4


def leave_one_out(Z, sigma):
    d2 = ((Z[:, None] - Z) ** 2).sum(axis=2)
    K = np.exp(-d2 / sigma**2)
    np.fill_diagonal(K, 0.0)
    return np.log(K.sum(axis=1)).mean() - Z.shape[1] * np.log(sigma)


def test_the_bandwidth_has_the_largest_likelihood():
    X, y = np.unique(WINE[0], axis=0, return_index=True)
    y = WINE[1][y]
    metric = GenerativeMetric(KernelDensityWeights(max_iter=1)).fit(X, y)
    (sigma,) = metric.bandwidths_
    best = leave_one_out(X, sigma)  # the first round is Euclidean
    for factor in (0.5, 0.8, 0.97, 1.03, 1.25, 2.0):
        assert leave_one_out(X, factor * sigma) < best


def test_held_out_samples_select_the_bandwidth():
    X, y = WINE
    params = KernelDensityWeights(max_iter=1)
    metric = GenerativeMetric(params).fit(X[~ODD], y[~ODD], X_val=X[ODD])
    (sigma,) = metric.bandwidths_

    def likelihood(s):
        return KernelDensity(bandwidth=s / np.sqrt(2)).fit(X[~ODD]).score(X[ODD])

    assert all(likelihood(sigma) > likelihood(f * sigma) for f in (0.8, 0.95, 1.05, 1.25))


def test_gmm_equals_a_plain_loop(naive):
    X, y = WINE
    train, labels = X[~ODD], y[~ODD]
    metric = GenerativeMetric("gmm", shrinkage=0.2).fit(train, labels, X_val=X[ODD], y_val=y[ODD])
    local, M = metric.local_metrics(train), np.eye(13)
    for _ in range(metric.n_iter_):
        L = root(M)
        codes = KNeighborsClassifier(5).fit(X[ODD] @ L.T, y[ODD]).predict(train @ L.T)
        means, covariances = naive.moments(train, codes, 0.2)
        shares = np.bincount(codes) / len(codes)
        p = np.array(
            [
                sum(
                    s * naive.density(x, m, S)
                    for s, m, S in zip(shares, means, covariances, strict=True)
                )
                for x in train
            ]
        )
        M = np.einsum("n,nij->ij", p / p.sum(), local)
    assert difference(metric.metric_, M) < 1e-7
    np.testing.assert_allclose(metric.weights_, p / p.sum(), rtol=1e-6)


def test_gmm_holds_out_a_fraction_of_each_class():
    X, y = IRIS
    metric = GenerativeMetric(GaussianMixtureWeights(validation_fraction=0.3), random_state=0)
    weights = metric.fit(X, y).weights_
    assert [int((weights[y == c] == 0).sum()) for c in range(3)] == [15, 15, 15]
    assert weights.sum() == pytest.approx(1)
    again = GenerativeMetric(GaussianMixtureWeights(validation_fraction=0.3), random_state=0)
    np.testing.assert_array_equal(again.fit(X, y).weights_, weights)
    with pytest.raises(ValueError, match=r"validation_fraction=0\.01 holds out no samples"):
        GenerativeMetric(GaussianMixtureWeights(validation_fraction=0.01)).fit(X, y)


@pytest.mark.parametrize("combination", ["kde", "gmm"])
def test_the_metric_is_the_weighted_average(combination):
    X, y = WINE
    metric = GenerativeMetric(combination, interpolation=0.6, random_state=0).fit(X, y)
    average = np.einsum("n,nij->ij", metric.weights_, metric.local_metrics(X))
    assert difference(metric.metric_, average) < 1e-9
    given = GenerativeMetric(metric.weights_, interpolation=0.6)
    if combination == "kde":
        assert difference(given.fit(X, y).metric_, metric.metric_) < 1e-9


@pytest.mark.parametrize("base", ["identity", "pooled"])
def test_repeated_samples_are_weights(base):
    X, y = IRIS
    times = np.arange(150) % 3
    params = {"base": base, "solver": "dense"}
    weighted = GenerativeMetric("kde", **params).fit(X, y, sample_weight=times)
    repeated = GenerativeMetric("kde", **params).fit(np.repeat(X, times, axis=0), y.repeat(times))
    assert difference(weighted.metric_, repeated.metric_) < 1e-6


@pytest.mark.parametrize("factor", [1e-60, 1e-3, 1e10])
def test_scale_of_the_samples(factor):
    X, y = IRIS
    plain = GenerativeMetric("kde").fit(X, y)
    scaled = GenerativeMetric("kde").fit(factor * X, y)
    assert difference(scaled.metric_, plain.metric_) < 1e-8
    np.testing.assert_allclose(scaled.bandwidths_ / factor, plain.bandwidths_, rtol=1e-6)


def test_solvers_and_subsets_agree():
    X, y = WINE
    kept = GenerativeMetric("kde", solver="dense").fit(X, y)
    again = GenerativeMetric("kde", solver="resolvent", class_tol=0).fit(X, y)
    assert difference(again.metric_, kept.metric_) < 1e-4
    drawn = GenerativeMetric("kde", max_samples=90, random_state=0).fit(X, y)
    assert np.count_nonzero(drawn.weights_) == 90
    error = np.linalg.norm(drawn.metric_ - kept.metric_) / np.linalg.norm(kept.metric_)
    assert 0 < error < 4 * drawn.metric_stderr_


def test_many_samples_use_a_random_subset_of_kernels(monkeypatch):
    X, y = WINE
    exact = GenerativeMetric("kde").fit(X, y)
    monkeypatch.setattr("genmetric.learners.weights.MAX_REFERENCES", 120)
    estimated = GenerativeMetric("kde", random_state=0).fit(X, y)
    assert 0 < difference(estimated.metric_, exact.metric_) < 0.1


@pytest.mark.parametrize(
    ("combination", "validation", "message"),
    [
        ("uniform", {"X_val": IRIS[0]}, 'require combination="gmm"'),
        ("gmm", {"X_val": IRIS[0]}, "X_val was given without y_val"),
        ("kde", {"y_val": IRIS[1]}, "y_val was given without X_val"),
        ("gmm", {"X_val": IRIS[0], "y_val": IRIS[1] + 1}, r"y_val has labels \[3\]"),
        ("gmm", {"X_val": IRIS[0][:, :3], "y_val": IRIS[1]}, "3 features"),
    ],
)
def test_validation_samples_that_do_not_fit(combination, validation, message):
    with pytest.raises(ValueError, match=message):
        GenerativeMetric(combination).fit(*IRIS, **validation)


@pytest.mark.parametrize(
    ("combination", "message"),
    [
        ("density", "combination must be 'uniform', 'kde', 'gmm'"),
        (KernelDensityWeights(bandwidth=0.0), "bandwidth must be None or a number > 0"),
        (KernelDensityWeights(bandwidth=1e200), "times the spread of X"),
        (GaussianMixtureWeights(validation_fraction=1.0), r"number in \(0, 1\)"),
        (KernelDensityWeights(max_iter=0), "max_iter must be an integer >= 1"),
        (np.zeros(150), "combination is zero for all samples"),
        (np.ones(10), r"shape \(150,\); got shape \(10,\)"),
    ],
)
def test_bad_combinations(combination, message):
    with pytest.raises(ValueError, match=message):
        GenerativeMetric(combination).fit(*IRIS)
