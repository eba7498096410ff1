"""The optimiser against exhaustive search of the simplex and the reduced gradient; duality gaps."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC

from genmetric.kernels import binary_problems, combine, simplemkl, solve_svms
from genmetric.kernels._gram import unit_trace_factors
from genmetric.kernels._mkl_objective import MKLObjective, mkl_hessian


def small_set(name):
    load = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer}[name]
    X, y = load(return_X_y=True)
    X = minmax_scale(X, (-1, 1))
    return (X[::4], y[::4]) if name == "cancer" else (X, y)


def naive_solution(stack, weights, problems, C):
    """Dual objective summed over problems, and half the squared norm of each kernel, by SVC."""
    K = sum(w * k for w, k in zip(weights, stack, strict=True))
    norms, value = np.zeros(len(stack)), 0.0
    for problem in problems:
        own = np.ix_(problem.rows, problem.rows)
        a = np.zeros(len(problem.rows))
        svc = SVC(C=C, kernel="precomputed", tol=1e-6).fit(K[own], problem.signs)
        a[svc.support_] = svc.dual_coef_[0]
        value += np.abs(a).sum() - a @ K[own] @ a / 2
        norms += [a @ k[own] @ a / 2 for k in stack]
    return value, norms


def naive_objective(K, problems, C):
    """Dual objective summed over problems."""
    return naive_solution([K], [1.0], problems, C)[0]


def naive_gap(stack, weights, problems, C):
    """Relative duality gap at the weights as the SimpleMKL paper defines it."""
    value, norms = naive_solution(stack, weights, problems, C)
    return (norms.max() - weights @ norms) / value


def gaussian_stack(X, gammas):
    return np.array([rbf_kernel(X, gamma=gamma) for gamma in gammas])


@pytest.mark.parametrize("C", [0.5, 20.0])
@pytest.mark.parametrize("name", ["iris", "wine"])
def test_two_kernels_against_a_search_of_the_simplex(C, name):
    X, y = small_set(name)
    stack, problems = gaussian_stack(X, (0.05, 1.0)), binary_problems(y, 3)
    result = simplemkl(stack, problems, C=C, tol=1e-4)
    grid = np.linspace(0, 1, 41)
    values = [naive_objective(t * stack[0] + (1 - t) * stack[1], problems, C) for t in grid]
    best = int(np.argmin(values))
    assert result.converged
    assert result.objective <= values[best] * (1 + 1e-6)
    # J is convex: the minimum is next to the best point of the grid.
    assert abs(result.weights[0] - grid[best]) <= 1 / 40 + 1e-3


@pytest.mark.parametrize("strategy", ["ovo", "ovr"])
def test_three_kernels_against_a_search_of_the_simplex(strategy):
    X, y = small_set("iris")
    X = X[::2]
    stack = np.array([rbf_kernel(X, gamma=0.2), rbf_kernel(X, gamma=5.0), X @ X.T])
    stack *= unit_trace_factors(stack)[:, None, None]
    problems = binary_problems(y[::2], 3, strategy)
    result = simplemkl(stack, problems, C=3.0, tol=1e-4)
    steps = 16
    grid = [
        np.array([i, j, steps - i - j]) / steps
        for i, j in itertools.product(range(steps + 1), repeat=2)
        if i + j <= steps
    ]
    values = [naive_objective(np.tensordot(d, stack, 1), problems, 3.0) for d in grid]
    assert result.objective <= min(values) * (1 + 1e-6)
    # The grid is fine enough that its minimum is close.
    assert result.objective >= min(values) * 0.99
    assert result.objective == pytest.approx(
        naive_objective(np.tensordot(result.weights, stack, 1), problems, 3.0), rel=1e-5
    )


@pytest.mark.parametrize("C", [2.0**-3, 2.0, 2.0**11])
@pytest.mark.parametrize("name", ["iris", "wine", "cancer"])
@pytest.mark.parametrize("kind", ["gaussian", "features"])
def test_gap_on_small_sets(C, name, kind):
    X, y = small_set(name)
    if kind == "gaussian":
        stack = gaussian_stack(X, 2.0 ** np.arange(-6, 7))
    else:  # of rank one: the objective has kinks
        centred = X - X.mean(axis=0)
        stack = np.einsum("if,jf->fij", centred, centred)
        stack *= unit_trace_factors(stack)[:, None, None]
    problems = binary_problems(y, y.max() + 1)
    result = simplemkl(stack, problems, C=C)
    assert result.converged
    assert result.duality_gap <= 0.01
    assert result.weights.min() >= 0
    assert result.weights.sum() == pytest.approx(1)
    objectives = [step.objective for step in result.history]
    assert result.objective == objectives[-1]
    assert result.objective <= objectives[0] * 1.01
    if kind == "gaussian":  # unique multipliers: the gap at the weights is small too
        assert naive_gap(stack, result.weights, problems, C) <= 0.01


def reduced_gradient_mkl(stack, problems, C, tol, max_iter=300):
    """Minimise by the reduced gradient of SimpleMKL (Rakotomamonjy et al. 2008, equation 12).

    The largest weight keeps the sum at one, and a backtracking line search starts where the first
    weight becomes zero.
    """
    weights = np.full(len(stack), 1 / len(stack))
    for _ in range(max_iter):
        value, norms = naive_solution(stack, weights, problems, C)
        if norms.max() - weights @ norms <= tol * value:
            return weights, value
        base = int(np.argmax(weights))
        direction = norms - norms[base]
        direction[(weights <= 0) & (direction < 0)] = 0
        direction[base] -= direction.sum()
        falling = direction < 0
        step = (weights[falling] / -direction[falling]).min()
        while True:
            moved = np.maximum(weights + step * direction, 0)
            decrease = value - naive_solution(stack, moved, problems, C)[0]
            if decrease >= 1e-4 * step * (norms @ direction):
                break
            step /= 2
        weights = moved / moved.sum()
    raise AssertionError("the reduced gradient did not converge")


def test_minimum_of_the_reduced_gradient():
    X, y = small_set("wine")
    stack, problems = gaussian_stack(X, (0.05, 0.5, 5.0)), binary_problems(y, 3)
    result = simplemkl(stack, problems, C=4.0, tol=1e-4)
    weights, value = reduced_gradient_mkl(stack, problems, 4.0, tol=2e-4)
    assert result.objective == pytest.approx(value, rel=3e-4)
    np.testing.assert_allclose(result.weights, weights, atol=0.05)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
@settings(max_examples=25)
def test_lower_bound_holds_for_other_weights(seed, n_kernels):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 30))
    y = np.arange(n) % 2
    B = rng.normal(size=(n_kernels, n, int(rng.integers(1, 5))))
    B += 0.5 * (2 * y - 1)[:, None] * rng.normal(size=(n_kernels, 1, 1))
    stack = B @ B.transpose(0, 2, 1)
    stack *= unit_trace_factors(stack)[:, None, None]
    C, problems = 10 ** rng.uniform(-1, 2), binary_problems(y, 2)
    result = simplemkl(stack, problems, C=C)
    assert result.converged
    assert result.duality_gap >= -1e-9
    least = result.objective * (1 - result.duality_gap)
    for weights in [*np.eye(n_kernels), *rng.dirichlet(np.ones(n_kernels), size=5)]:
        value = solve_svms(combine(stack, weights), problems, C, tol=1e-5).primal
        assert value >= least * (1 - 1e-9)


def test_weights_of_identical_kernels_sum_to_that_of_one():
    X, y = small_set("wine")
    stack, problems = gaussian_stack(X, (0.1, 1.0)), binary_problems(y, 3)
    plain = simplemkl(stack, problems, tol=1e-4)
    doubled = simplemkl(stack[[0, 1, 0, 1]], problems, tol=1e-4)
    assert doubled.converged
    assert doubled.objective == pytest.approx(plain.objective, rel=1e-4)
    np.testing.assert_allclose(doubled.weights[:2] + doubled.weights[2:], plain.weights, atol=0.01)


def test_kernel_of_zeros_has_weight_zero():
    X, y = small_set("iris")
    stack = gaussian_stack(X, (0.1, 1.0, 10.0))
    stack[1] = 0
    result = simplemkl(stack, binary_problems(y, 3))
    assert result.converged
    assert result.weights[1] == 0


def test_single_kernel_equals_svc():
    X, y = small_set("iris")
    stack, problems = gaussian_stack(X, (0.5,)), binary_problems(y, 3)
    result = simplemkl(stack, problems, C=2.0)
    assert result.converged
    np.testing.assert_array_equal(result.weights, [1.0])
    expected = naive_objective(stack[0], problems, 2.0)
    assert result.objective == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("sizes", [(1e-8, 1, 1e8), (1e8, 1e8, 1e8), (1e-8, 1e-8, 1e-8)])
def test_kernels_of_very_different_size(sizes):
    X, y = small_set("wine")
    stack, problems = gaussian_stack(X, (0.1, 1.0, 10.0)), binary_problems(y, 3)
    scaled = stack * np.array(sizes)[:, None, None]
    plain = simplemkl(stack, problems, tol=1e-3)
    # Normalised they equal the unscaled kernels; without normalisation the fit converges too.
    factors = unit_trace_factors(scaled)
    normal = simplemkl(scaled, problems, factors=factors, tol=1e-3)
    np.testing.assert_allclose(normal.weights, plain.weights, atol=1e-6)
    raw = simplemkl(scaled, problems)
    assert raw.converged
    assert np.isfinite(raw.weights).all()


def test_derivatives_against_differences():
    X, y = small_set("wine")
    stack = gaussian_stack(X, (0.1, 0.5, 2.0, 8.0))
    problems = binary_problems(y, 3)
    objective = MKLObjective(stack, problems, 2.0, np.ones(4))
    objective.tol = 1e-9
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(4) * 5)
    point = objective.at(weights)
    Ka = objective.products(point)
    gradient = objective.gradient(point, Ka)
    H = mkl_hessian(point.K, Ka, point.solution.coef, 2.0)
    for _ in range(4):
        direction = rng.normal(size=4)
        h = 1e-4
        values, slopes = [], []
        for step in (-h, h):
            moved = objective.at(weights + step * direction)
            values.append(moved.value)
            slopes.append(objective.gradient(moved, objective.products(moved)) @ direction)
        slope = (values[1] - values[0]) / (2 * h)
        assert slope == pytest.approx(gradient @ direction, rel=1e-4, abs=1e-4)
        bend = (slopes[1] - slopes[0]) / (2 * h)
        assert bend == pytest.approx(direction @ H @ direction, rel=0.02, abs=1e-3)


def test_constant_weights_do_not_end_the_optimisation():
    # One kernel has one weight, so the gap is the error of libsvm, which has to decrease too.
    X, y = small_set("wine")
    result = simplemkl(gaussian_stack(X, (0.5,)), binary_problems(y, 3), C=2.0**11, tol=1e-4)
    assert result.history[0].duality_gap > 1e-4
    assert result.duality_gap <= 1e-4
    assert len(result.history) > 1


def test_max_iter_reached():
    X, y = small_set("wine")
    stack = gaussian_stack(X, 2.0 ** np.arange(-6, 7))
    result = simplemkl(stack, binary_problems(y, 3), C=10.0, tol=1e-5, max_iter=2)
    assert not result.converged
    assert len(result.history) == 3


def test_start_at_the_minimum_ends_at_once():
    X, y = small_set("wine")
    stack, problems = gaussian_stack(X, 2.0 ** np.arange(-6, 7)), binary_problems(y, 3)
    first = simplemkl(stack, problems, C=8.0)
    again = simplemkl(stack, problems, C=8.0, start=first.weights)
    assert len(again.history) == 1
    np.testing.assert_allclose(again.weights, first.weights)


def test_result_independent_of_n_jobs():
    X, y = small_set("wine")
    stack, problems = gaussian_stack(X, 2.0 ** np.arange(-6, 7)), binary_problems(y, 3)
    one, two = (simplemkl(stack, problems, C=8.0, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.weights, two.weights)
    assert one.history == two.history


def test_float32_stacks_give_the_same_weights():
    X, y = small_set("wine")
    stack, problems = gaussian_stack(X, (0.1, 1.0, 10.0)), binary_problems(y, 3)
    double = simplemkl(stack, problems, tol=1e-3)
    single = simplemkl(stack.astype(np.float32), problems, tol=1e-3)
    np.testing.assert_allclose(single.weights, double.weights, atol=1e-4)


def test_verbose_logs_each_iteration(caplog):
    X, y = small_set("iris")
    result = simplemkl(gaussian_stack(X, (0.1, 10.0)), binary_problems(y, 3), verbose=1)
    assert len(caplog.messages) == len(result.history)
