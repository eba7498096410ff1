import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from genmetric.kernels._svm import binary_problems, class_scores, solve_svms


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    y = np.arange(90) % 3
    return rng.normal(size=(90, 2)) + 1.5 * np.eye(3)[y][:, :2], y


def sides(problems):
    return [(p.positive, p.negative) for p in problems]


def test_pairs_of_classes(rows):
    _, y = rows
    problems = binary_problems(y, 3)
    assert sides(problems) == [(1, 0), (2, 0), (2, 1)]
    for problem in problems:
        pair = (problem.positive, problem.negative)
        np.testing.assert_array_equal(problem.rows, np.flatnonzero(np.isin(y, pair)))
        np.testing.assert_array_equal(problem.signs == 1, y[problem.rows] == problem.positive)


def test_classes_against_the_rest(rows):
    _, y = rows
    problems = binary_problems(y, 3, "ovr")
    assert sides(problems) == [(0, -1), (1, -1), (2, -1)]
    for c, problem in enumerate(problems):
        np.testing.assert_array_equal(problem.signs == 1, y == c)


@pytest.mark.parametrize("strategy", ["ovo", "ovr"])
def test_two_classes_are_one_problem(strategy):
    (problem,) = binary_problems(np.array([1, 0, 1]), 2, strategy)
    np.testing.assert_array_equal(problem.signs, [1, -1, 1])


def test_unknown_strategy():
    with pytest.raises(ValueError, match="strategy must be"):
        binary_problems(np.array([0, 1]), 2, "ova")


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_solutions_are_those_of_svc(rows, C):
    X, y = rows
    K = rbf_kernel(X, gamma=0.5)
    problems = binary_problems(y, 3)
    solution = solve_svms(K, problems, C, tol=1e-6)
    for p, problem in enumerate(problems):
        own = K[np.ix_(problem.rows, problem.rows)]
        svc = SVC(C=C, kernel="precomputed", tol=1e-6).fit(own, problem.signs)
        decision = K[problem.rows] @ solution.coef[:, p] + solution.intercept[p]
        np.testing.assert_allclose(decision, svc.decision_function(own), atol=1e-4)
    # Weak duality, and how close the two are.
    assert solution.dual <= solution.primal * (1 + 1e-12)
    assert solution.primal - solution.dual < 1e-4 * solution.dual
    a = np.abs(solution.coef)
    assert (a <= C * (1 + 1e-12)).all()
    np.testing.assert_allclose(solution.coef.sum(axis=0), 0, atol=1e-9 * C)
    assert solution.total == pytest.approx(a.sum())
    value = a.sum() - 0.5 * np.einsum("ip,ij,jp->", solution.coef, K, solution.coef)
    assert solution.dual == pytest.approx(value)


@pytest.mark.parametrize("size", [1e-150, 1e-8, 1e8, 1e150])
def test_scaled_kernel_with_inversely_scaled_c(rows, size):
    X, y = rows
    K = rbf_kernel(X, gamma=0.5)
    problems = binary_problems(y, 3)
    plain = solve_svms(K, problems, 2.0, tol=1e-6)
    scaled = solve_svms(K * size, problems, 2.0 / size, tol=1e-6)
    np.testing.assert_allclose(scaled.coef * size, plain.coef, atol=1e-3)
    assert scaled.dual * size == pytest.approx(plain.dual, rel=1e-6)
    assert scaled.primal * size == pytest.approx(plain.primal, rel=1e-5)


def test_kernel_of_zeros(rows):
    _, y = rows
    solution = solve_svms(np.zeros((90, 90)), binary_problems(y, 3), 1.0)
    assert solution.dual == pytest.approx(3 * 60)  # every multiplier at C
    assert solution.primal == pytest.approx(3 * 60)


def test_result_independent_of_n_jobs(rows):
    X, y = rows
    K = rbf_kernel(X)
    one, two = (solve_svms(K, binary_problems(y, 3), 1.0, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.coef, two.coef)
    assert (one.dual, one.primal) == (two.dual, two.primal)


def test_votes_with_ties_resolved_by_decision_values():
    problems = [(1, 0), (2, 0), (2, 1)]
    decisions = np.array(
        [
            [2.0, 3.0, 0.1],  # class 2 wins twice
            [-9.0, -9.0, 5.0],  # class 0 wins twice
            [1.0, -2.0, 3.0],  # one win each: sums are 1, -2, 1 -> argmax by the sums
        ]
    )
    scores = class_scores(decisions, problems, 3)
    assert scores.shape == (3, 3)
    np.testing.assert_array_equal(scores[:2].argmax(axis=1), [2, 0])
    strengths = np.array([-1.0 + 2.0, 1.0 - 3.0, -2.0 + 3.0])
    np.testing.assert_array_equal(np.argsort(scores[2]), np.argsort(strengths))
    np.testing.assert_array_equal(np.round(scores), [[0, 1, 2], [2, 0, 1], [1, 1, 1]])


def test_two_classes_and_rest_problems_keep_their_decisions():
    values = np.array([[0.5], [-0.5]])
    np.testing.assert_array_equal(class_scores(values, [(1, 0)], 2), values[:, 0])
    rest = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(class_scores(rest, [(0, -1), (1, -1), (2, -1)], 3), rest)
