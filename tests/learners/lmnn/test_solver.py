"""The minimisation: where it ends, and that it does not depend on the way there."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import genmetric.learners._lmnn.objective as objective_module
import genmetric.learners._lmnn.solver as module
from genmetric.learners._lmnn import (
    Objective,
    Problem,
    best_scale,
    lmnn_objective,
    minimize_objective,
    target_neighbors,
)


def case(seed, n=120, n_features=4, n_classes=3, k=2, **kwargs):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    X = rng.normal(size=(n, n_features)) * np.exp(rng.normal(size=n_features))
    X += rng.normal(size=(n_classes, n_features))[codes]
    X -= X.mean(axis=0)
    problem = Problem.of(X, codes, target_neighbors(X, codes, k), **kwargs)
    return problem, np.eye(n_features) * best_scale(problem, np.eye(n_features))


def metric(L):
    return L.T @ L


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    n_classes=st.integers(2, 5),
    n_components=st.integers(1, 4),
    max_iter=st.integers(1, 30),
    loss=st.sampled_from(["hinge", "squared_hinge"]),
)
def test_never_above_the_start(seed, n_classes, n_components, max_iter, loss):
    problem, L = case(seed, n_classes=n_classes, loss=loss)
    L = np.random.default_rng(seed).normal(size=(n_components, 4))
    start = Objective(problem).exact(L).value
    found = minimize_objective(problem, L, max_iter=max_iter)
    assert found.value <= start
    assert found.n_iter <= max_iter
    assert found.value == pytest.approx(Objective(problem).exact(found.L).value, rel=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("seed", range(3))
def test_no_other_start_gets_lower(seed, loss):
    # In M the problem is convex, and a square L has no other local minima to get caught in.
    problem, L = case(seed, loss=loss)
    found = minimize_objective(problem, L, tol=1e-9, max_iter=1000)
    for other in range(3):
        start = np.random.default_rng(other).normal(size=(4, 4))
        again = minimize_objective(problem, start, tol=1e-9, max_iter=1000)
        assert again.value == pytest.approx(found.value, rel=1e-4)
        np.testing.assert_allclose(
            metric(again.L), metric(found.L), atol=0.03 * np.abs(metric(found.L)).max()
        )


def test_optimality_of_the_smooth_loss():
    problem, L = case(0, loss="squared_hinge")
    found = minimize_objective(problem, L, tol=1e-14, max_iter=1000)
    _, gradient = lmnn_objective(
        found.L,
        problem.X,
        np.repeat([0, 1, 2], 40),
        problem.targets,
        loss="squared_hinge",
    )
    assert np.linalg.norm(gradient) * np.linalg.norm(found.L) < 1e-4 * found.value


@pytest.mark.parametrize("trust", [0.0, 0.03, 0.3])
def test_the_active_set_changes_nothing(monkeypatch, trust):
    problem, L = case(7, n=300)
    monkeypatch.setattr(objective_module, "MAX_MOVEMENT", trust)
    found = minimize_objective(problem, L, tol=1e-8)
    monkeypatch.setattr(objective_module, "MAX_MOVEMENT", 0.0)
    exact = minimize_objective(problem, L, tol=1e-8)
    assert found.reason == "converged"
    # Rounded kinks are still sharp: two ways down end a few 1e-5 apart.
    assert found.value == pytest.approx(exact.value, rel=2e-4)
    assert (found.n_searches < exact.n_searches) == (trust > 0)


def test_a_set_that_missed_triplets_is_replaced(monkeypatch):
    # No slack and blind trust: the first set is stale after a few steps.
    problem, L = case(8, n=300)
    exact = minimize_objective(problem, L, tol=1e-8)
    monkeypatch.setattr(objective_module, "RADIUS_SLACK", 1e-6)
    monkeypatch.setattr(objective_module, "OUTLIER_SLACK", 1.0)
    monkeypatch.setattr(objective_module, "MAX_MOVEMENT", 0.5)
    found = minimize_objective(problem, L, tol=1e-8)
    assert found.reason == "converged"
    assert found.value == pytest.approx(exact.value, rel=2e-4)


def test_separated_classes():
    # Few triplets and many kinks: where plain L-BFGS stops at the first of them.
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], 15)
    X = 0.1 * rng.normal(size=(30, 3)) + codes[:, None]
    X -= X.mean(axis=0)
    problem = Problem.of(X, codes, target_neighbors(X, codes, 3))
    L = np.eye(3) * best_scale(problem, np.eye(3))
    start = Objective(problem).exact(L).value
    found = minimize_objective(problem, L)
    fine = minimize_objective(problem, found.L, tol=1e-10, max_iter=1000)
    assert found.value < 0.5 * start
    assert found.value < 1.01 * fine.value


def test_nothing_to_gain():
    X, codes = np.zeros((8, 2)), np.arange(8) % 2
    problem = Problem.of(X, codes, target_neighbors(X, codes, 1))
    found = minimize_objective(problem, np.eye(2))
    assert (found.reason, found.n_iter) == ("converged", 0)
    np.testing.assert_array_equal(found.L, np.eye(2))


def test_callback_sees_every_iteration_and_can_stop():
    problem, L = case(9)
    seen = []
    whole = minimize_objective(problem, L, callback=lambda *args: seen.append(args))
    assert [n for n, _, _ in seen] == list(range(1, whole.n_iter + 1))
    # The last one saw the solution, up to the coordinates of the solver.
    np.testing.assert_allclose(seen[-1][2], whole.L, rtol=1e-12)
    values = [e.smooth for _, e, _ in seen]
    assert (np.diff(values) <= 1e-9 * values[0]).all()
    cut = minimize_objective(problem, L, callback=lambda n, *_: n == 3)
    assert (cut.reason, cut.n_iter) == ("callback", 3)
    assert minimize_objective(problem, L, max_iter=3).reason == "max_iter"


def test_scale_of_the_samples():
    problem, L = case(10)
    found = minimize_objective(problem, L)
    scaled = Problem.of(8 * problem.X, np.repeat([0, 1, 2], 40), problem.targets)
    again = minimize_objective(scaled, L / 8)
    assert again.value == pytest.approx(found.value, rel=1e-12)
    np.testing.assert_allclose(8 * again.L, found.L, rtol=1e-9)


def test_rounding_of_the_kinks_is_small_against_the_margin():
    assert 0 < module._SMOOTHING_WIDTH <= 0.01
