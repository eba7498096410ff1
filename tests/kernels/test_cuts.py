import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric.kernels import binary_problems, simplemkl
from genmetric.kernels._gram import unit_trace_factors
from genmetric.kernels._mkl_steps import CuttingPlanes


def planes_of(rng, n_planes, n_kernels):
    cuts = CuttingPlanes()
    heights, slopes = rng.normal(size=n_planes), rng.normal(size=(n_planes, n_kernels))
    own = [cuts.add(height, slope) for height, slope in zip(heights, slopes, strict=True)]
    return cuts, heights, slopes, own


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 5))
def test_bound_is_the_minimum_of_the_model(seed, n_planes, n_kernels):
    rng = np.random.default_rng(seed)
    cuts, heights, slopes, own = planes_of(rng, n_planes, n_kernels)
    assert own == pytest.approx(heights + slopes.min(axis=1))
    assert cuts.lower == max(own)
    weights, value = cuts.lowest(np.full(n_kernels, 1 / n_kernels), 1.0)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    assert value == pytest.approx((heights + slopes @ weights).max())
    # The bound meets the model at its minimum, and no weights lie below it.
    assert cuts.lower == pytest.approx(value, abs=1e-6)
    tries = rng.dirichlet(np.ones(n_kernels), size=200)
    assert (heights + tries @ slopes.T).max(axis=1).min() >= cuts.lower - 1e-12


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.5))
def test_minimum_within_the_radius(seed, radius):
    rng = np.random.default_rng(seed)
    cuts, heights, slopes, _ = planes_of(rng, 4, 5)
    center = rng.dirichlet(np.ones(5))
    weights, value = cuts.lowest(center, radius)
    assert np.abs(weights - center).max() <= radius + 1e-6
    assert cuts.lower - 1e-9 <= value <= (heights + slopes @ center).max() + 1e-9


@pytest.mark.parametrize("seed", [10, 60])
def test_objective_that_is_not_differentiable(seed):
    # Equal samples and kernels of low rank: the multipliers are ambiguous, and without cutting
    # planes the gap stays at a half.
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 60))
    n_classes = int(rng.integers(2, 4))
    n_kernels = int(rng.integers(1, 12))
    y = np.arange(n) % n_classes
    B = rng.normal(size=(n_kernels, n, int(rng.integers(1, 5))))
    B += 0.5 * y[:, None] * rng.normal(size=(n_kernels, 1, 1))
    if rng.random() < 0.5:
        B = np.round(B)
    stack = B @ B.transpose(0, 2, 1)
    C = 10 ** rng.uniform(-2, 4)
    factors = unit_trace_factors(stack)
    problems = binary_problems(y, n_classes)
    result = simplemkl(stack, problems, C=C, factors=factors, tol=1e-3)
    assert result.converged
    assert result.duality_gap <= 1e-3
