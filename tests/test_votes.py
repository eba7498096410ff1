"""Votes: against scikit-learn's classifier, ties, weights, leave-one-out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

from genmetric.neighbors import (
    class_probabilities,
    count_votes,
    leave_one_out_vote_errors,
    majority_vote,
    majority_votes,
    nearest_neighbors,
    neighbor_weights,
    select_n_neighbors,
    vote_errors,
)


def inverse_square(distances):
    return 1 / (1 + distances**2)


@pytest.mark.parametrize("k", [1, 2, 4, 5, 6])
@pytest.mark.parametrize("weights", ["uniform", "distance", inverse_square])
def test_same_as_scikit_learn(k, weights):
    """Also in ties, which even k and three classes have many of."""
    rng = np.random.default_rng(k)
    X, y, queries = rng.normal(size=(60, 2)), rng.integers(0, 3, 60), rng.normal(size=(200, 2))
    queries[0] = X[5]
    model = KNeighborsClassifier(k, weights=weights, algorithm="brute").fit(X, y)
    found = nearest_neighbors(X, k, queries=queries)
    w = neighbor_weights(found.distances, weights)
    np.testing.assert_array_equal(majority_vote(y[found.indices], 3, w), model.predict(queries))
    np.testing.assert_allclose(
        class_probabilities(y[found.indices], 3, w), model.predict_proba(queries), atol=1e-12
    )


def test_ties_go_to_the_first_class():
    labels = np.array([[2, 1], [1, 2], [0, 2], [2, 2]])
    np.testing.assert_array_equal(majority_vote(labels, 3), [1, 1, 0, 2])


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 5))
def test_votes_by_number_of_neighbors(seed, k, n_classes):
    labels = np.random.default_rng(seed).integers(0, n_classes, (7, k))
    winners = majority_votes(labels, n_classes)
    for m in range(1, k + 1):
        counts = [[np.sum(row[:m] == c) for c in range(n_classes)] for row in labels]
        np.testing.assert_array_equal(count_votes(labels[:, :m], n_classes), counts)
        np.testing.assert_array_equal(winners[:, m - 1], np.argmax(counts, axis=1))


def test_votes_among_many_classes_take_little_memory():
    # Counts of all classes would take 400 TB.
    rng = np.random.default_rng(0)
    labels, weights = rng.integers(0, 4, (500, 6)), rng.uniform(size=(500, 6))
    names = np.array([7, 10**3, 10**8, 10**11 - 1])
    for w in (None, weights):
        few, many = majority_vote(labels, 4, w), majority_vote(names[labels], 10**11, w)
        np.testing.assert_array_equal(many, names[few])
    few, many = majority_votes(labels, 4), majority_votes(names[labels], 10**11)
    np.testing.assert_array_equal(many, names[few])


def test_neighbors_at_distance_zero_decide():
    weights = neighbor_weights(np.array([[0.0, 1e-300, 2.0], [1e-320, 1.0, 2.0]]), "distance")
    np.testing.assert_array_equal(weights[0], [1, 0, 0])
    assert np.isfinite(weights).all()
    p = class_probabilities(np.array([[1, 0, 0], [1, 0, 0]]), 2, weights)
    np.testing.assert_allclose(p, [[0, 1], [0, 1]], atol=1e-300)


def test_votes_without_weight():
    p = class_probabilities(np.array([[1, 0]]), 2, np.zeros((1, 2)))
    np.testing.assert_array_equal(p, [[0, 0]])


def test_unknown_weights():
    with pytest.raises(ValueError, match=r"weights must be .*got 'square'"):
        neighbor_weights(np.ones((1, 1)), "square")


def test_leave_one_out_is_the_error_of_the_classifier():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 3, 50)
    ks = np.array([1, 2, 4, 7])
    found = leave_one_out_vote_errors(X, y, np.arange(50), np.arange(50), ks)
    for k, error in zip(ks, found, strict=True):
        wrong = [
            KNeighborsClassifier(k).fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[[i]])[0]
            != y[i]
            for i in range(50)
        ]
        assert error == np.mean(wrong)


def test_leave_one_out_with_queries_outside_of_the_references():
    X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 1, 1, 1])
    errors = leave_one_out_vote_errors(
        X, y, np.array([0, 2, 3]), np.array([0, 1, 4]), np.array([1])
    )
    assert errors[0] == 0  # 0 -> 1, 2 -> 1, 3 -> 4


def test_selection_takes_the_smaller_of_equal_candidates():
    X, y = np.repeat([[0.0], [9.0]], 10, axis=0), np.repeat([0, 1], 10)
    found = select_n_neighbors(X, y, [5, 3, 9, 40])
    np.testing.assert_array_equal(found.candidates, [5, 3, 9])
    np.testing.assert_array_equal(found.errors, 0)
    assert found.n_neighbors == 3


def test_selection_with_too_few_samples():
    found = select_n_neighbors(np.zeros((1, 2)), np.array([0]))
    assert found.n_neighbors == 1
    assert np.isnan(found.errors).all()


def test_selection_on_a_random_subset():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(400, 2)), rng.integers(0, 2, 400)
    X[:, 0] += 3 * y
    some = select_n_neighbors(X, y, max_queries=100, max_references=300, random_state=3)
    again = select_n_neighbors(X, y, max_queries=100, max_references=300, random_state=3)
    np.testing.assert_array_equal(some.errors, again.errors)
    assert np.all(np.abs(some.errors - select_n_neighbors(X, y).errors) < 0.1)


def test_vote_errors_of_several_numbers():
    labels, truth = np.array([[1, 0, 0], [1, 1, 0]]), np.array([0, 1])
    np.testing.assert_array_equal(vote_errors(labels, truth, 2, [3, 1]), [0, 0.5])
