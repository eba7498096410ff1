"""The weights of the classes in Phi, and Phi itself, where densities would fail and where not."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from genmetric.density import ClassGaussians, class_statistics, fit_gaussians
from genmetric.geometry import curvature_weights, local_metrics, phi, phi_weights

EPS = np.finfo(float).eps


def exact_weights(log_p):
    """The weights of equation (16), divided by the largest, right to 60 digits."""
    with localcontext() as context:
        # Sixty, and those that the differences below may lose.
        context.prec = 100 + int(2 * np.ptp(log_p))
        top = max(map(Decimal, map(float, log_p)))
        p = [(Decimal(float(value)) - top).exp() for value in log_p]
        w = []
        for c, own in enumerate(p):
            others = p[:c] + p[c + 1 :]
            w.append(own * (sum(q * q for q in others) - own * sum(others)))
        largest = max(map(abs, w))
        return None if largest == 0 else np.array([float(value / largest) for value in w])


def log_densities(low, high):
    values = st.floats(low, high).map(lambda value: round(value, 20))
    return st.integers(2, 6).flatmap(
        lambda n: st.lists(values, min_size=n, max_size=n).map(np.array)
    )


@pytest.fixture(params=[2, 3, 4, 5, 6])
def models(request, rng):
    """Overlapping Gaussians in three dimensions."""
    A = rng.normal(size=(request.param, 3, 3)) + 2 * np.eye(3)
    means = rng.normal(size=(request.param, 3))
    return ClassGaussians.from_moments(means, A @ A.transpose(0, 2, 1))


@given(log_p=log_densities(-20, 20))
def test_weights_are_those_of_the_paper(naive, log_p):
    w = naive.weights(np.exp(log_p))
    assume(np.abs(w).max() > 0)
    # The paper's formula itself cancels when densities are close; the test below has no such limit.
    assume(np.abs(np.subtract.outer(log_p, log_p))[~np.eye(len(log_p), dtype=bool)].min() > 1e-3)
    np.testing.assert_allclose(
        curvature_weights(log_p[None])[0], w / np.abs(w).max(), rtol=1e-9, atol=1e-9
    )


@given(log_densities(-100, 100) | log_densities(-1, 1) | log_densities(-1e-13, 1e-13))
def test_weights_are_exact(log_p):
    expected = exact_weights(log_p)
    found = curvature_weights(log_p[None])[0]
    if expected is None:
        np.testing.assert_array_equal(np.sort(np.abs(found))[-2:], [1, 1])
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


@given(log_densities(-1e8, 1e8))
def test_weights_sum_to_zero_and_are_at_most_one(log_p):
    w = curvature_weights(log_p[None])[0]
    assert np.isfinite(w).all()
    assert np.abs(w).max() == 1
    assert abs(w.sum()) < 20 * EPS


@given(log_densities(-30, 30), st.randoms(use_true_random=False))
def test_weights_follow_the_classes(log_p, random):
    assume(len(set(log_p)) == len(log_p))
    order = list(range(len(log_p)))
    random.shuffle(order)
    w = curvature_weights(log_p[None])[0]
    np.testing.assert_allclose(
        curvature_weights(log_p[order][None])[0], w[order], rtol=1e-12, atol=1e-15
    )


def test_equal_densities_keep_the_two_leading_classes():
    np.testing.assert_array_equal(curvature_weights(np.zeros((1, 2))), [[-1, 1]])
    w = curvature_weights(np.array([[0.0, 0, 0], [7, 7, 7]]))
    np.testing.assert_array_equal(w, [[-1, 1, 0], [-1, 1, 0]])


def test_posterior_of_one_keeps_the_two_leading_classes():
    # exp(-800) is zero in float64, and so would be every weight made of densities.
    w = curvature_weights(np.array([[0.0, -800, -900], [-1e8, -3e8, -2e8]]))
    np.testing.assert_allclose(w, [[-1, 1, 0], [-1, 0, 1]], atol=1e-40)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_log_densities_that_are_not_finite(bad):
    with pytest.raises(ValueError, match=r"log-density of a class is not finite.*outliers"):
        curvature_weights(np.array([[0.0, bad, 1.0]]))


def test_phi_is_that_of_the_paper(models, naive, rng):
    X = rng.normal(size=(30, 3))
    for x, found in zip(X, phi(models, X), strict=True):
        expected = naive.phi(x, models.means, models.covariances)
        expected /= np.abs(expected).max()
        # Up to a positive scale; with two classes the sign is free too.
        found = found / np.abs(found).max()  # noqa: PLW2901
        if models.n_classes == 2:
            found *= np.sign(np.sum(found * expected))  # noqa: PLW2901
        np.testing.assert_allclose(found, expected, atol=1e-9)
        np.testing.assert_array_equal(found, found.T)


def test_priors_multiply_the_densities(models, naive, rng):
    X = rng.normal(size=(20, 3))
    priors = rng.dirichlet(np.ones(models.n_classes))
    found = local_metrics(phi(models, X, np.log(priors)))
    expected = naive.local_metrics(X, models.means, models.covariances, priors)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)
    if models.n_classes > 2:
        assert np.abs(found - local_metrics(phi(models, X))).max() > 1e-3


def test_distant_samples_are_finite_and_have_two_leading_classes(models):
    widest = np.sqrt(np.linalg.eigvalsh(models.covariances).max())
    X = 1e4 * widest * np.r_[np.eye(3), -np.eye(3), [[1, 1, 1]]]
    found = phi(models, X)
    assert np.isfinite(found).all()
    log_p = models.log_density(X)
    assert (np.diff(np.sort(log_p, axis=1)[:, -2:]) > 40).all()  # one posterior is 1 in float64
    for x, Phi, values in zip(X, found, log_p, strict=True):
        second, first = np.argsort(values)[-2:]
        w = np.zeros((1, models.n_classes))
        w[0, first], w[0, second] = -1, 1
        pair = models.weighted_curvature(x[None], w)[0]
        pair *= np.sign(np.sum(pair * Phi))
        np.testing.assert_allclose(Phi, pair, rtol=1e-9, atol=1e-9 * np.abs(pair).max())


def test_two_classes_need_no_density(rng):
    S = np.stack([np.eye(3), np.diag([1.0, 2, 3])])
    models = ClassGaussians.from_moments(np.zeros((2, 3)), S)
    X = rng.normal(size=(5, 3))
    X[0] = 1e160  # no log-density is finite here
    np.testing.assert_array_equal(phi_weights(models, X), np.tile([-1, 1], (5, 1)))


def test_samples_whose_squares_overflow(models):
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(ValueError, match=r"not finite.*outliers"),
    ):
        phi(models, np.full((1, 3), 1e200))


def test_directions_without_data_count_for_no_sign(rng):
    """Collinear columns: there the classes differ by rounding, which must not move a metric."""
    X, codes = rng.normal(size=(80, 3)) * [1, 2, 3], np.repeat([0, 1], 40)
    X[codes == 1] *= 1.5
    X = np.column_stack([X, X[:, 0] - X[:, 1]])
    models = fit_gaussians(class_statistics(X, codes, 2), shrinkage=None)
    raw = models.weighted_curvature(X, phi_weights(models, X))
    smallest, size = (
        function(np.abs(np.linalg.eigvalsh(phi(models, X))), axis=1)
        for function in (np.min, np.max)
    )
    assert (smallest < 1e-14 * size).all()
    # The rounding is there: without the cure the direction would get a sign.
    assert (np.abs(np.linalg.eigvalsh(raw)).min(axis=1) > 1e-10 * size).any()
