"""The objective against a triple loop, its gradient against differences, and the active set."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import genmetric.learners._lmnn.objective as module
from genmetric.learners._lmnn import Objective, Problem, impostors, lmnn_objective, target_neighbors

LOSSES = ["hinge", "squared_hinge"]


def naive_objective(L, X, codes, targets, push, loss, weights=None):
    """Compute the sums of the objective by loops."""
    w = np.ones(len(X)) if weights is None else weights
    Z = X @ L.T
    pull = hinges = 0.0
    for i in range(len(X)):
        for j in targets[i]:
            if j == i:
                continue
            d_ij = np.sum((Z[i] - Z[j]) ** 2)
            pull += w[i] * d_ij
            for l in range(len(X)):  # noqa: E741
                if codes[l] != codes[i]:
                    hinge = max(0.0, 1 + d_ij - np.sum((Z[i] - Z[l]) ** 2))
                    hinges += w[i] * w[l] * (hinge if loss == "hinge" else hinge**2)
    return (1 - push) * pull + push * hinges


def case(seed, n=40, n_features=3, n_classes=3, k=2, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * scale
    codes = np.unique(rng.integers(0, n_classes, n), return_inverse=True)[1]
    return X - X.mean(axis=0), codes, target_neighbors(X, codes, k), rng


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    n_classes=st.integers(2, 12),
    n_components=st.integers(1, 3),
    push=st.sampled_from([0.0, 0.3, 1.0]),
    scale=st.sampled_from([0.2, 1.0, 5.0]),
    loss=st.sampled_from(LOSSES),
)
def test_triple_loop(seed, n_classes, n_components, push, scale, loss):
    X, codes, targets, rng = case(seed, 30, 3, n_classes, scale=scale)
    L = rng.normal(size=(n_components, 3))
    value, _ = lmnn_objective(L, X, codes, targets, push=push, loss=loss)
    assert value == pytest.approx(naive_objective(L, X, codes, targets, push, loss), rel=1e-11)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(4))
def test_triple_loop_with_weights(seed, loss):
    X, codes, targets, rng = case(seed, 30)
    weights, (L, direction) = rng.uniform(0.1, 4, len(X)), rng.normal(size=(2, 2, 3))

    def evaluate(L):
        return lmnn_objective(L, X, codes, targets, push=0.3, loss=loss, sample_weight=weights)

    value, gradient = evaluate(L)
    expected = naive_objective(L, X, codes, targets, 0.3, loss, weights)
    assert value == pytest.approx(expected, rel=1e-11)
    step = 1e-7
    slope = (evaluate(L + step * direction)[0] - evaluate(L - step * direction)[0]) / (2 * step)
    assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-5)
    # Weights of two are the objective with repeated samples, apart from the choice of targets.
    ones, twos = (
        lmnn_objective(L, X, codes, targets, push=1.0, sample_weight=np.full(len(X), w))[0]
        for w in (1.0, 2.0)
    )
    assert twos == pytest.approx(4 * ones)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    n_components=st.integers(1, 3),
    push=st.sampled_from([0.2, 0.5, 1.0]),
    loss=st.sampled_from(LOSSES),
)
def test_gradient_against_differences(seed, n_components, push, loss):
    X, codes, targets, rng = case(seed)
    L, direction = rng.normal(size=(2, n_components, 3))
    _, gradient = lmnn_objective(L, X, codes, targets, push=push, loss=loss)
    # A kink of the hinge within a step of 1e-7 is unlikely, and moves the quotient little.
    step = 1e-7
    ahead, behind = (
        lmnn_objective(L + s * direction, X, codes, targets, push=push, loss=loss)[0]
        for s in (step, -step)
    )
    assert np.vdot(gradient, direction) == pytest.approx(
        (ahead - behind) / (2 * step), rel=1e-4, abs=1e-3 * np.linalg.norm(gradient)
    )


@pytest.mark.parametrize("width", [0.01, 0.5])
def test_rounded_kinks(width):
    X, codes, targets, rng = case(5)
    problem = Problem.of(X, codes, targets)
    L, direction = rng.normal(size=(2, 3, 3))
    plain, rounded = Objective(problem).exact(L), Objective(problem, width=width).exact(L)
    assert rounded.value == plain.value == plain.smooth
    # Each violated triplet is worth at most half a width less, and no triplet more.
    assert 0 <= plain.value - rounded.smooth <= 0.5 * plain.n_triplets * width / 2
    step = 1e-6
    ahead, behind = (
        Objective(problem, width=width).exact(L + s * direction).smooth for s in (step, -step)
    )
    slope = (ahead - behind) / (2 * step)
    assert np.vdot(rounded.gradient, direction) == pytest.approx(slope, rel=1e-5)


def test_counts_violated_triplets():
    X, codes = np.array([[0.0], [1.0], [1.5]]), np.array([0, 0, 1])
    found = Objective(Problem.of(X, codes, target_neighbors(X, codes, 1))).exact(np.eye(1))
    assert found.n_triplets == 1  # 1.5 is near 1.0, and 0.0 is safe
    assert found.value == 0.5 * 2 + 0.5 * 1.75


def test_order_of_the_samples():
    X, codes, targets, rng = case(1)
    L = rng.normal(size=(3, 3))
    value, gradient = lmnn_objective(L, X, codes, targets)
    order = rng.permutation(len(X))
    place = np.argsort(order)
    moved = lmnn_objective(L, X[order], codes[order], place[targets[order]])
    assert moved[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(moved[1], gradient, rtol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 8])
def test_chunks_change_rounding_only(monkeypatch, loss, n_classes):
    X, codes, targets, rng = case(2, 120, 4, n_classes, scale=0.5)
    L = rng.normal(size=(4, 4))
    value, gradient = lmnn_objective(L, X, codes, targets, loss=loss)
    monkeypatch.setattr(impostors, "CHUNK_BYTES", 8000)
    monkeypatch.setattr(impostors, "_PAIRS_PER_PIECE", 50)
    monkeypatch.setattr(module, "N_TASKS", 5)
    objective = Objective(Problem.of(X, codes, targets, loss=loss))
    assert len(objective._tasks) == 5
    found = objective.exact(L)
    assert found.value == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(found.gradient, gradient, rtol=1e-9, atol=1e-9)


def test_same_bits_for_every_number_of_threads(monkeypatch):
    monkeypatch.setattr(impostors, "CHUNK_BYTES", 20_000)
    monkeypatch.setattr(impostors, "_PAIRS_PER_PIECE", 500)
    monkeypatch.setattr(module, "MIN_PARALLEL_WORK", 0)
    X, codes, targets, rng = case(3, 200, 5, 3)
    L = rng.normal(size=(5, 5))
    found = []
    for n_jobs in (None, 1, 2, 5):
        objective = Objective(Problem.of(X, codes, targets), n_jobs=n_jobs)
        at, near = objective.exact(L), objective.active(L * 1.001)
        found.append((at.value, at.gradient.tobytes(), near.value, near.gradient.tobytes()))
    assert len(set(found)) == 1


class TestTheActiveSet:
    """Pairs that a search found stand in for all pairs nearby, and only there."""

    def objective(self):
        X, codes, targets, rng = case(4, 150, 3, 3)
        return Objective(Problem.of(X, codes, targets)), rng.normal(size=(3, 3)), rng

    def test_is_exact_where_it_was_searched(self):
        objective, L, _ = self.objective()
        assert objective.active(L) is None
        exact, active = objective.exact(L), objective.active(L)
        assert exact.exact
        assert not active.exact
        assert active.value == pytest.approx(exact.value, rel=1e-13)
        np.testing.assert_allclose(active.gradient, exact.gradient, rtol=1e-11)
        assert (objective.n_evaluations, objective.n_searches) == (2, 1)

    def test_is_a_lower_bound_nearby(self):
        objective, L, rng = self.objective()
        objective.max_movement = 0.5
        for _ in range(10):
            objective.exact(L)
            near = L + 0.05 * rng.normal(size=L.shape)
            active = objective.active(near)
            if active is not None:
                exact = objective.exact(near)
                assert active.value <= exact.value * (1 + 1e-12)
                assert active.n_triplets <= exact.n_triplets

    def test_is_not_used_far_away(self):
        objective, L, _ = self.objective()
        objective.exact(L)
        assert objective.active(L * 1.02) is not None
        assert objective.active(L * 1.04) is None
        objective.max_movement = 0.01
        assert objective.active(L * 1.02) is None

    def test_is_not_kept_when_there_are_too_many_pairs(self, monkeypatch):
        objective, L, _ = self.objective()
        kept = objective.exact(L)
        monkeypatch.setattr(module, "MAX_PAIRS", 100)
        for _ in range(2):  # the second search looks no farther than it must
            streamed = objective.exact(L)
            assert objective.active(L) is None
            assert streamed.value == pytest.approx(kept.value, rel=1e-13)
            np.testing.assert_allclose(streamed.gradient, kept.gradient, rtol=1e-11)


def test_no_array_of_samples_by_samples(monkeypatch, rng):
    # All pairs are impostors: their indices alone would be 8 times the 64 MB of N² floats.
    n = 2000
    X, codes = 1e-3 * rng.normal(size=(n, 3)), np.arange(n) % 2
    targets = target_neighbors(X, codes, 1)
    monkeypatch.setattr(impostors, "CHUNK_BYTES", 2**20)
    monkeypatch.setattr(module, "MAX_PAIRS", 2**16)
    objective = Objective(Problem.of(X, codes, targets))
    tracemalloc.start()
    found = objective.exact(np.eye(3))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.n_triplets == n * n // 2
    assert peak < 32e6
