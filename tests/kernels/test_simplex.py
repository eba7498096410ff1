import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from genmetric.kernels._mkl_steps import simplex_quadratic

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.integers(1, 10), st.integers(1, 10), st.sampled_from([1e-12, 1.0, 1e12]))
def test_optimality_conditions(seed, n, rank, size):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(rank, n))
    H, c = size * (B.T @ B), size * rng.normal(size=n)
    x = simplex_quadratic(H, c)
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1)
    slope = (H @ x + c) / size
    # Equal derivatives of positive entries, and none smaller.
    assert slope.min() >= x @ slope - 1e-6


def test_minimum_of_a_general_solver():
    rng = np.random.default_rng(5)
    for _ in range(20):
        B = rng.normal(size=(6, 5))
        H, c = B.T @ B, rng.normal(size=5)
        x = simplex_quadratic(H, c)
        found = minimize(
            lambda v, H=H, c=c: v @ H @ v / 2 + c @ v,
            np.full(5, 0.2),
            bounds=[(0, 1)] * 5,
            constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(x, found.x, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_duplicates_and_flat_quadratics(n):
    x = simplex_quadratic(np.zeros((n, n)), np.zeros(n))
    assert x.sum() == pytest.approx(1)
    x = simplex_quadratic(np.ones((n, n)), np.arange(n, dtype=float))
    np.testing.assert_allclose(x, np.eye(n)[0], atol=1e-9)
    H = np.kron(np.eye(2), np.ones((n, n)))  # two groups of identical variables
    x = simplex_quadratic(H, np.zeros(2 * n))
    np.testing.assert_allclose([x[:n].sum(), x[n:].sum()], 0.5, atol=1e-6)
