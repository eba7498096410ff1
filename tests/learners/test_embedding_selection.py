"""Selection of the map of embeddings: samples, searches, scores and the rule."""

import numpy as np
import pytest

from genmetric.density._two_covariance import PooledMoments
from genmetric.learners import _embedding_selection as module
from genmetric.learners._embedding_selection import (
    MAX_SAMPLES,
    MapParameters,
    best_candidate,
    embedding_map,
    mean_average_precision,
    select_parameters,
    selection_samples,
)
from genmetric.metrics import mean_average_precision_at_r


def simulated(n_classes, n_each, n_features, seed=0):
    """Return unit vectors of classes that differ in half the features."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_classes), n_each)
    means = rng.normal(size=(n_classes, n_features)) * (np.arange(n_features) % 2)
    X = means[codes] + 0.7 * rng.normal(size=(len(codes), n_features))
    return X / np.linalg.norm(X, axis=1, keepdims=True), codes


@pytest.mark.parametrize(("n_classes", "n_each"), [(10, 1000), (2000, 4), (500, 20)])
def test_samples_of_the_selection(n_classes, n_each):
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(n_classes), n_each))
    rows = selection_samples(codes, np.random.RandomState(0))
    assert len(rows) <= MAX_SAMPLES
    assert len(rows) > MAX_SAMPLES - 20
    assert (np.diff(rows) > 0).all()
    counts = np.bincount(codes[rows])
    counts = np.sort(counts[counts > 0])[1:]  # the last class may be cut
    assert (counts == min(n_each, max(MAX_SAMPLES // n_classes, 8))).all()


def test_few_samples_are_all_used():
    assert len(selection_samples(np.arange(50), np.random.RandomState(0))) == 50


def test_rule():
    new = np.array([0.5, 0.98, 1.0, 0.96])
    training = np.array([0.9, 0.6, 0.5, 0.8])
    assert best_candidate([new, training]) == 1
    assert best_candidate([new]) == 2
    assert best_candidate([training]) == 0


@pytest.mark.parametrize("normalize", [True, False])
def test_scores_by_definition(normalize):
    """Scores of new classes are those of fits and searches that are written out here."""
    X, codes = simulated(12, 5, 6)
    found = select_parameters(
        X, codes, "new", n_components=3, normalize=normalize, rng=np.random.RandomState(3)
    )
    fold = np.random.RandomState(3).permutation(np.arange(12) % 3)[codes]
    for index in (0, 10, 35):
        parameters, scores = MapParameters(**found.scores["params"][index]), []
        for k in range(3):
            train, test = fold != k, fold == k
            L = embedding_map(PooledMoments.of(X[train], codes[train], 12), parameters, 3)
            z = (X[test] - X[train].mean(axis=0)) @ L.T
            metric = "cosine" if normalize else "euclidean"
            scores.append(mean_average_precision_at_r(z, codes[test], metric=metric))
        np.testing.assert_allclose(found.scores["new_classes"][index], np.mean(scores))


@pytest.mark.parametrize("leave_one_out", [True, False])
def test_precision_is_that_of_the_exact_search(leave_one_out):
    rng = np.random.default_rng(0)
    z, codes = rng.normal(size=(90, 4)), rng.permutation(np.r_[np.arange(80) % 7, np.arange(7, 17)])
    queries = None if leave_one_out else rng.normal(size=(20, 4))
    asked = None if leave_one_out else np.arange(20) % 18
    expected = mean_average_precision_at_r(z, codes, queries=queries, query_labels=asked)
    np.testing.assert_allclose(mean_average_precision(z, codes, queries, asked), expected)


def test_left_out_samples_are_searched_among_the_others(monkeypatch):
    X, codes = simulated(4, 6, 4)
    asked = []

    def score(references, _, queries, __):
        asked.append((len(references), len(queries)))
        return 0.5

    monkeypatch.setattr(module, "mean_average_precision", score)
    select_parameters(
        X, codes, "training", n_components=None, normalize=True, rng=np.random.RandomState(0)
    )
    assert set(asked) == {(16, 8)}
    assert len(asked) == 3 * 36


def test_same_result_for_every_number_of_threads():
    X, codes = simulated(20, 6, 10)
    results = [
        select_parameters(
            X,
            codes,
            "any",
            n_components=None,
            normalize=True,
            rng=np.random.RandomState(0),
            n_jobs=n_jobs,
        )
        for n_jobs in (None, 2)
    ]
    assert results[0].parameters == results[1].parameters
    for name in ("new_classes", "training_classes"):
        assert np.array_equal(results[0].scores[name], results[1].scores[name])


def test_many_features_are_reduced_for_the_selection_only():
    X, codes = simulated(30, 4, 400)
    found = select_parameters(
        X, codes, "any", n_components=350, normalize=True, rng=np.random.RandomState(0)
    )
    assert embedding_map(PooledMoments.of(X, codes, 30), found.parameters, 350).shape == (350, 400)


def test_too_few_samples_to_split():
    X = np.eye(4)
    for codes in ([0, 1, 2, 3], [0, 0, 1, 2]):
        found = select_parameters(
            X,
            np.array(codes),
            "new",
            n_components=None,
            normalize=True,
            rng=np.random.RandomState(0),
        )
        assert found == (MapParameters(), {})
