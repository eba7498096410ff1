"""Kernel density of the KDE weights: sums and bandwidth against loops and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genmetric.density.kernel import fit_rate, kernel_sums


def naive_sums(points, references, rate, weights, own):
    """Log-sum, mean and variance of the exponents, one pair at a time, in extended precision."""
    log_sum, mean, variance = [], [], []
    for i, point in enumerate(points):
        others = [j for j in range(len(references)) if own is None or j != own[i]]
        a = np.array([rate * np.sum((point - references[j]) ** 2) for j in others], np.longdouble)
        k = weights[others] * np.exp(-(a - a.min()))
        log_sum.append(np.log(k.sum()) - a.min())
        mean.append(k @ a / k.sum())
        variance.append(k @ (a - mean[-1]) ** 2 / k.sum())
    return [np.array(v, float) for v in (log_sum, mean, variance)]


def naive_likelihood(z, rate, weights=None):
    """Leave-one-out log-likelihood of the rows under Gaussian kernels exp(-rate d²)."""
    w = np.ones(len(z)) if weights is None else weights
    log_sum, _, _ = naive_sums(z, z, rate, w, np.arange(len(z)))
    log_kernel = z.shape[1] / 2 * np.log(rate / np.pi)
    return w @ (log_sum + log_kernel - np.log(w.sum() - w))


@pytest.mark.parametrize("rate", [1e-6, 0.3, 40.0, 1e5])
@pytest.mark.parametrize("leave_out", [True, False])
def test_kernel_sums_against_a_loop(rng, rate, leave_out):
    references = rng.standard_normal((40, 3))
    points = np.vstack([references[:7], rng.standard_normal((5, 3))])
    own = np.r_[np.arange(7), np.full(5, -1)] if leave_out else None
    weights = rng.uniform(0.5, 3, 40)
    sums = kernel_sums(points, references, rate, weights=weights, own=own)
    log_sum, mean, variance = naive_sums(points, references, rate, weights, own)
    np.testing.assert_allclose(sums.log_sum, log_sum, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sums.mean, mean, rtol=1e-8, atol=1e-9)
    # A variance of exponents near 1e5 is a difference of squares.
    np.testing.assert_allclose(sums.variance, variance, rtol=1e-6, atol=1e-10 * mean.max() ** 2)


def test_distant_samples_do_not_underflow(rng):
    references = rng.standard_normal((20, 2))
    points = np.array([[1e6, 0.0], [0.0, -1e8]])
    sums = kernel_sums(points, references, 1.0, weights=np.ones(20))
    nearest = [np.min(np.sum((p - references) ** 2, axis=1)) for p in points]
    np.testing.assert_allclose(sums.log_sum, -np.array(nearest), rtol=1e-6)
    assert np.isfinite(sums.mean).all()


def test_same_bits_for_every_number_of_threads(rng):
    z = rng.standard_normal((3000, 4))
    one, four = (
        kernel_sums(z, z, 2.0, weights=np.ones(3000), own=np.arange(3000), n_jobs=n) for n in (1, 4)
    )
    assert np.array_equal(one.log_sum, four.log_sum)
    assert np.array_equal(one.variance, four.variance)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6), n_features=st.integers(1, 5), size=st.floats(1e-3, 1e3))
def test_the_rate_maximises_the_likelihood(seed, n_features, size):
    rng = np.random.default_rng(seed)
    z = size * np.concatenate(
        [rng.standard_normal((30, n_features)), rng.standard_normal((15, n_features)) * 0.2 + 4]
    )
    w = np.ones(len(z))
    fitted, sums = fit_rate(z, z, point_weights=w, weights=w, own=np.arange(len(z)))
    best = naive_likelihood(z, fitted)
    rates = fitted * np.exp(np.linspace(-0.5, 0.5, 9))
    assert best >= max(naive_likelihood(z, rate) for rate in rates) - 1e-5
    log_sum, _, _ = naive_sums(z, z, fitted, w, np.arange(len(z)))
    np.testing.assert_allclose(sums.log_sum, log_sum, rtol=1e-8, atol=1e-8)


def test_initial_grid_finds_the_larger_of_two_maxima():
    # Twins a hair apart: a narrow kernel is a local maximum, a wide one another.
    rng = np.random.default_rng(0)
    far = rng.standard_normal((60, 2))
    z = np.vstack([far, far[:20] + 1e-3 * rng.standard_normal((20, 2))])
    w = np.ones(len(z))
    fitted, _ = fit_rate(z, z, point_weights=w, weights=w, own=np.arange(len(z)))
    rates = np.exp(np.linspace(-6, 16, 15))
    assert naive_likelihood(z, fitted) >= max(naive_likelihood(z, r) for r in rates) - 1e-2


def test_held_out_samples_select_the_rate(rng):
    z, beside = rng.standard_normal((80, 2)), rng.standard_normal((40, 2))
    fitted, _ = fit_rate(beside, z, point_weights=np.ones(40), weights=np.ones(80), own=None)

    def likelihood(rate):
        log_sum, _, _ = naive_sums(beside, z, rate, np.ones(80), None)
        return log_sum.sum() + 40 * np.log(rate)

    rates = fitted * np.exp(np.linspace(-0.5, 0.5, 9))
    assert likelihood(fitted) >= max(likelihood(rate) for rate in rates) - 1e-5


def test_constant_features_do_not_narrow_the_kernel(rng):
    z = rng.standard_normal((60, 2))
    w = np.ones(60)
    options = {"point_weights": w, "weights": w, "own": np.arange(60)}
    wide = np.column_stack([z, np.zeros((60, 5))])
    assert fit_rate(wide, wide, **options)[0] == pytest.approx(fit_rate(z, z, **options)[0])


def test_a_warm_start_finds_the_same_rate(rng):
    z = rng.standard_normal((200, 3))
    w = np.ones(200)
    options = {"point_weights": w, "weights": w, "own": np.arange(200)}
    cold, _ = fit_rate(z, z, **options)
    for factor in (0.5, 1.05, 4.0):
        warm, _ = fit_rate(z, z, start=cold * factor, **options)
        assert warm == pytest.approx(cold, rel=1e-3)


@pytest.mark.parametrize("jitter", [1e-4, 1e-9, 1e-13])
def test_nearly_equal_samples_have_a_finite_rate(rng, jitter):
    z = np.repeat(rng.standard_normal((10, 3)), 4, axis=0)
    z += jitter * rng.standard_normal(z.shape)
    w = np.ones(len(z))
    fitted, sums = fit_rate(z, z, point_weights=w, weights=w, own=np.arange(len(z)))
    assert np.isfinite(fitted)
    assert np.isfinite(sums.log_sum).all()
    assert fitted > 1e3
