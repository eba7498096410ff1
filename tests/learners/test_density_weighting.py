"""M^KDE and M^GMM: Algorithm 1 of the paper, as a plain loop and as the estimator has it."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris, load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import minmax_scale

from genmetric import GaussianMixtureWeights, GenerativeMetric, KernelDensityWeights
from genmetric.learners import _density_weighting as rounds
from genmetric.learners._density_weighting import KernelLogDensity, hold_out


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    X, where = np.unique(minmax_scale(X, (-1, 1)), axis=0, return_index=True)
    return X, y[where]


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return minmax_scale(X, (-1, 1)), y


def naive_root(M):
    values, vectors = np.linalg.eigh(M)
    return vectors @ np.diag(np.sqrt(values)) @ vectors.T


def naive_kernel_density(z):
    """The paper's sum at every row, its bandwidth by leave-one-out likelihood."""
    d2 = ((z[:, None] - z[None]) ** 2).sum(axis=2)
    others = d2[~np.eye(len(z), dtype=bool)].reshape(len(z), -1)

    def loss(t):
        return -np.mean(z.shape[1] / 2 * t + logsumexp(-np.exp(t) * others, axis=1))

    best = minimize_scalar(loss, bracket=(0.0, 3.0), options={"xtol": 1e-9})
    return np.exp(-np.exp(best.x) * d2).sum(axis=1), np.exp(-best.x / 2)


def naive_mixture_density(x, codes):
    """One maximum-likelihood Gaussian a class, in the shares of the classes."""
    return sum(
        np.mean(codes == c)
        * multivariate_normal.pdf(x, x[codes == c].mean(axis=0), np.cov(x[codes == c].T, ddof=0))
        for c in np.unique(codes)
    )


def test_kde_is_the_algorithm_of_the_paper(iris):
    X, y = iris
    metric = GenerativeMetric("kde", shrinkage=None).fit(X, y)
    local = metric.local_metrics(X)
    M, changes, widths = np.eye(4), [], []
    for _ in range(metric.n_iter_):
        p, width = naive_kernel_density(X @ naive_root(M))
        new = np.einsum("i,ijk->jk", p / p.sum(), local)
        changes.append(np.linalg.norm(new - M) / np.linalg.norm(new))
        widths.append(width)
        M = new
    np.testing.assert_allclose(metric.metric_, M, rtol=1e-4)
    np.testing.assert_allclose(metric.weights_, p / p.sum(), rtol=1e-3)
    np.testing.assert_allclose(metric.metric_changes_, changes, rtol=2e-2, atol=1e-6)
    np.testing.assert_allclose(metric.bandwidths_, widths, rtol=1e-3)
    assert changes[-1] <= 1e-4 < changes[-2]


def test_gmm_is_the_algorithm_of_the_paper(iris):
    X, y = iris
    aside = np.arange(len(X)) % 5 == 0
    x, labels = X[~aside], y[~aside]
    metric = GenerativeMetric(GaussianMixtureWeights(max_iter=6), shrinkage=None)
    metric.fit(x, labels, X_val=X[aside], y_val=y[aside])
    local = metric.local_metrics(x)
    M = np.eye(4)
    for _ in range(metric.n_iter_):
        L = naive_root(M)
        votes = KNeighborsClassifier(5).fit(X[aside] @ L, y[aside])
        p = naive_mixture_density(x, votes.predict(x @ L))
        M = np.einsum("i,ijk->jk", p / p.sum(), local)
    np.testing.assert_allclose(metric.metric_, M, rtol=1e-9)
    np.testing.assert_allclose(metric.weights_, p / p.sum(), rtol=1e-9)


@pytest.mark.parametrize("combination", ["kde", "gmm"])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"interpolation": 0.3},
        {"n_components": 2},
        {"max_samples": 60},
        {"max_samples": 0.5, "solver": "resolvent"},
        {"priors": [0.5, 0.3, 0.2]},
    ],
)
def test_parameters(wine, combination, parameters):
    X, y = wine
    metric = GenerativeMetric(combination, random_state=0, **parameters).fit(X, y)
    assert metric.weights_.sum() == pytest.approx(1)
    assert (metric.weights_ >= 0).all()
    assert metric.n_iter_ == len(metric.metric_changes_) <= 20
    M = np.einsum("i,ijk->jk", metric.weights_, metric.local_metrics(X))
    if "n_components" in parameters:
        assert metric.transform(X).shape == (len(X), 2)
    elif "solver" not in parameters:
        np.testing.assert_allclose(metric.metric_, M, rtol=1e-9, atol=1e-9)
    n_used = np.count_nonzero(metric.weights_)
    most = parameters.get("max_samples", len(X))
    assert n_used <= (most if most > 1 else most * len(X) + 1)
    assert (metric.metric_stderr_ > 0) == ("max_samples" in parameters)


@pytest.mark.parametrize("combination", ["kde", "gmm"])
def test_recomputed_local_metrics_equal_kept_ones(monkeypatch, wine, combination):
    X, y = wine
    kept = GenerativeMetric(combination, random_state=0).fit(X, y)
    resolvent = GenerativeMetric(combination, solver="resolvent", class_tol=0, random_state=0).fit(
        X, y
    )
    monkeypatch.setattr("genmetric.geometry._dense_solver.KEPT_BYTES", 0)
    anew = GenerativeMetric(combination, random_state=0).fit(X, y)
    assert not np.array_equal(anew.metric_, kept.metric_)
    np.testing.assert_allclose(anew.metric_, kept.metric_, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(resolvent.metric_, kept.metric_, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("combination", ["kde", "gmm"])
def test_same_bits_for_every_number_of_threads(monkeypatch, iris, combination):
    monkeypatch.setattr("genmetric._chunks.CHUNK_BYTES", 2**14)
    monkeypatch.setattr("genmetric.density._kernel_density.PAIR_BYTES", 2**14)
    one, four = (GenerativeMetric(combination, random_state=3, n_jobs=n).fit(*iris) for n in (1, 4))
    assert np.array_equal(one.metric_, four.metric_)
    assert np.array_equal(one.weights_, four.weights_)


def test_kde_independent_of_order_and_rotation(iris, rng):
    X, y = iris
    metric = GenerativeMetric("kde").fit(X, y)
    order = rng.permutation(len(X))
    shuffled = GenerativeMetric("kde").fit(X[order], y[order])
    np.testing.assert_allclose(shuffled.metric_, metric.metric_, rtol=1e-6)
    np.testing.assert_allclose(shuffled.weights_, metric.weights_[order], rtol=1e-5)
    Q, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    turned = GenerativeMetric("kde").fit(X @ Q, y)
    np.testing.assert_allclose(Q @ turned.metric_ @ Q.T, metric.metric_, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("factor", [1e-150, 1e-3, 1e10, 1e150])
@pytest.mark.parametrize("combination", ["kde", "gmm"])
def test_scale_and_offset_do_not_matter(iris, combination, factor):
    X, y = iris
    plain = GenerativeMetric(combination, random_state=0).fit(X, y)
    moved = GenerativeMetric(combination, random_state=0).fit(factor * (X + 7), y)
    np.testing.assert_allclose(moved.metric_, plain.metric_, rtol=1e-5)
    if combination == "kde":
        np.testing.assert_allclose(moved.bandwidths_, factor * plain.bandwidths_, rtol=1e-4)


def test_sample_weights_are_frequencies(iris):
    X, y = iris
    weight = np.arange(len(X)) % 3
    weighted = GenerativeMetric("kde").fit(X, y, sample_weight=weight)
    repeated = GenerativeMetric("kde").fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.metric_, repeated.metric_, rtol=1e-7)
    assert (weighted.weights_[weight == 0] == 0).all()
    shared = np.bincount(np.repeat(np.arange(len(X)), weight), repeated.weights_)
    np.testing.assert_allclose(weighted.weights_[: len(shared)], shared, rtol=1e-5, atol=1e-15)


def test_sample_weights_are_frequencies_in_gmm(iris):
    X, y = iris
    weight = 1 + np.arange(len(X)) % 2
    aside = {"X_val": X[::4], "y_val": y[::4]}
    weighted = GenerativeMetric("gmm").fit(X, y, sample_weight=weight, **aside)
    repeated = GenerativeMetric("gmm").fit(
        np.repeat(X, weight, axis=0), np.repeat(y, weight), **aside
    )
    np.testing.assert_allclose(weighted.metric_, repeated.metric_, rtol=1e-7)


def test_dense_samples_have_larger_weights(rng):
    X = np.vstack([rng.standard_normal((80, 3)), [[1e4, 0, 0], [0, -1e6, 0]]])
    y = np.r_[np.arange(80) % 2, 0, 1]
    metric = GenerativeMetric(KernelDensityWeights(bandwidth=1.0), shrinkage=0.5).fit(X, y)
    assert np.isfinite(metric.metric_).all()
    assert (metric.weights_ > 0).all()
    # The paper's sum has the row's own kernel in it: that is all a far row has.
    assert metric.weights_[80] == pytest.approx(metric.weights_[81])
    assert metric.weights_[80] == metric.weights_.min()


def test_a_given_bandwidth_is_used(iris):
    X, y = iris
    metric = GenerativeMetric(KernelDensityWeights(bandwidth=0.4)).fit(X, y)
    np.testing.assert_allclose(metric.bandwidths_, 0.4)
    broad = GenerativeMetric(KernelDensityWeights(bandwidth=1e6)).fit(X, y)
    np.testing.assert_allclose(broad.metric_, GenerativeMetric().fit(X, y).metric_, rtol=1e-6)


def test_held_out_samples_select_the_bandwidth(iris):
    X, y = iris
    beside = GenerativeMetric("kde").fit(X[::2], y[::2], X_val=X[1::2])
    alone = GenerativeMetric("kde").fit(X[::2], y[::2])
    assert beside.bandwidths_[-1] == pytest.approx(alone.bandwidths_[-1], rel=0.3)
    assert beside.bandwidths_[-1] != alone.bandwidths_[-1]


def test_a_sample_of_references_estimates_the_exact_density(monkeypatch, rng):
    x = rng.standard_normal((4000, 3))
    exact = KernelLogDensity(x, None, None, None, 2.0, np.random.RandomState(0), None)
    p = np.exp(exact(np.eye(3)))
    monkeypatch.setattr(rounds, "MAX_REFERENCES", 2000)
    sampled = KernelLogDensity(x, None, None, None, 2.0, np.random.RandomState(0), None)
    q = np.exp(sampled(np.eye(3)))
    assert not np.array_equal(p, q)
    assert np.mean(q / q.sum() * p.sum() / p) == pytest.approx(1, abs=0.02)
    assert np.corrcoef(np.log(p), np.log(q))[0, 1] > 0.99
    np.testing.assert_allclose(q.mean(), p.mean(), rtol=0.05)


def test_a_sample_of_references_in_the_metric(monkeypatch, rng):
    X = rng.standard_normal((1500, 3)) * [1, 2, 3]
    y = (X[:, 0] + rng.standard_normal(1500) > 0).astype(int)
    exact = GenerativeMetric("kde").fit(X, y)
    monkeypatch.setattr(rounds, "MAX_REFERENCES", 500)
    sampled = GenerativeMetric("kde", random_state=0).fit(X, y)
    again = GenerativeMetric("kde", random_state=0).fit(X, y)
    assert np.array_equal(sampled.metric_, again.metric_)
    np.testing.assert_allclose(sampled.metric_, exact.metric_, atol=0.05 * exact.metric_.max())


def test_held_out_samples_of_gmm_are_not_averaged(iris):
    X, y = iris
    metric = GenerativeMetric(GaussianMixtureWeights(validation_fraction=0.25), random_state=5).fit(
        X, y
    )
    kept, held = hold_out(np.arange(len(X)), y, 0.25, np.random.RandomState(5))
    assert (metric.weights_[held] == 0).all()
    assert (metric.weights_[kept] > 0).all()
    passed = GenerativeMetric("gmm").fit(X[kept], y[kept], X_val=X[held], y_val=y[held])
    np.testing.assert_allclose(metric.metric_, passed.metric_, rtol=1e-12)
    np.testing.assert_allclose(metric.means_, passed.means_)


def test_hold_out_is_stratified():
    labels = np.repeat(["a", "b", "c"], [100, 9, 1])
    kept, held = hold_out(np.arange(110), labels, 0.2, np.random.RandomState(0))
    names, counts = np.unique(labels[held], return_counts=True)
    assert dict(zip(names, counts, strict=True)) == {"a": 20, "b": 1}
    assert np.array_equal(np.sort(np.r_[kept, held]), np.arange(110))


def test_labels_that_leave_a_class_without_samples(rng):
    # Every held-out row is of one class, so that all rows take its label.
    X, y = rng.standard_normal((40, 2)), np.arange(40) % 2
    metric = GenerativeMetric("gmm", shrinkage=None)
    metric.fit(X, y, X_val=X[:6] + 9, y_val=np.zeros(6, int))
    p = multivariate_normal.pdf(X, X.mean(axis=0), np.cov(X.T, ddof=0))
    assert np.corrcoef(np.log(metric.weights_), np.log(p))[0, 1] > 0.99


@pytest.mark.parametrize("combination", ["kde", "gmm"])
def test_samples_at_two_locations(combination):
    X = np.repeat([[0.0, 0.0], [1.0, 2.0]], 10, axis=0)
    with pytest.warns(UserWarning, match="no scatter"):
        metric = GenerativeMetric(combination, random_state=0).fit(X, np.repeat([0, 1], 10))
    assert np.isfinite(metric.metric_).all()
    assert metric.weights_.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("parameters", "data", "text"),
    [
        ({"combination": "average"}, {}, "combination must be 'uniform', 'kde', 'gmm', a Kernel"),
        ({"combination": KernelDensityWeights(max_iter=0)}, {}, "max_iter must be an integer >= 1"),
        ({"combination": KernelDensityWeights(bandwidth=-1)}, {}, "must be None or a number > 0"),
        ({"combination": KernelDensityWeights(bandwidth="wide")}, {}, "bandwidth must be None or"),
        (
            {"combination": GaussianMixtureWeights(validation_fraction=1)},
            {},
            r"validation_fraction must be a number in \(0, 1\)",
        ),
        (
            {"combination": GaussianMixtureWeights(validation_fraction=0.01)},
            {},
            "holds out no samples",
        ),
        ({"combination": "kde", "max_samples": "auto"}, {}, 'max_samples="auto" requires'),
        ({"combination": "gmm"}, {"X_val": np.zeros((3, 4))}, "X_val was given without y_val"),
        ({"combination": "gmm"}, {"y_val": [0, 1, 2]}, "y_val was given without X_val"),
        ({}, {"X_val": np.zeros((3, 4))}, 'require combination="gmm"'),
        (
            {"combination": "gmm"},
            {"X_val": np.zeros((2, 4)), "y_val": [0, 7]},
            r"y_val has labels \[7\]",
        ),
        ({"combination": "gmm"}, {"X_val": np.zeros((2, 3)), "y_val": [0, 1]}, "3 features"),
        ({"combination": "kde"}, {"X_val": np.full((2, 4), np.nan)}, "NaN"),
    ],
)
def test_bad_parameters(iris, parameters, data, text):
    with pytest.raises(ValueError, match=text):
        GenerativeMetric(**parameters).fit(*iris, **data)


@pytest.mark.parametrize("combination", ["kde", "gmm"])
def test_streams_refuse_density_weights(iris, combination):
    metric = GenerativeMetric(combination)
    with pytest.raises(ValueError, match='requires combination="uniform"'):
        metric.partial_fit(*iris)
    with pytest.raises(ValueError, match='requires combination="uniform"'):
        metric.fit_batches(lambda: iter([iris]))


def test_uniform_fit_removes_density_attributes(iris):
    metric = GenerativeMetric("kde").fit(*iris)
    metric.set_params(combination="uniform").fit(*iris)
    assert metric.n_iter_ == 1
    assert not {"weights_", "metric_changes_", "bandwidths_"} & set(vars(metric))
