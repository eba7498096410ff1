"""Scores of embeddings and of pairs against loops over queries and pairs, and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score, pairwise_distances, roc_curve

from genmetric.metrics import (
    det_points,
    equal_error_rate,
    expected_calibration_error,
    mean_average_precision_at_r,
    mean_reciprocal_rank,
    miss_rate_at,
    ndcg_at_k,
    r_precision,
    recall_at_k,
    retrieval_scores,
)


def data(seed=0, n=60, d=3, n_classes=7):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    return rng.normal(size=(n, d)) + 0.8 * rng.normal(size=(n_classes, d))[y], y


def naive(X, y, queries=None, labels=None, k=1):
    """Recall at k, R-precision, mAP@R, nDCG@k and MRR, with one sort per query."""
    own = queries is None
    queries, labels = (X, y) if own else (queries, labels)
    scores = []
    for i, (query, label) in enumerate(zip(queries, labels, strict=True)):
        others = [j for j in range(len(X)) if not (own and j == i)]
        order = sorted(others, key=lambda j: (np.sum((X[j] - query) ** 2), j))
        relevant = np.array([y[j] == label for j in order])
        R = sum(relevant)
        if R:
            average = sum(relevant[r] * sum(relevant[: r + 1]) / (r + 1) for r in range(R)) / R
            ranking = -np.arange(len(order))[None]
            gain = ndcg_score(relevant[None].astype(float), ranking, k=k)
            first = 1 / (1 + np.argmax(relevant))
            scores.append([any(relevant[:k]), sum(relevant[:R]) / R, average, gain, first])
    return np.mean(scores, axis=0)


@given(st.integers(0, 10**6), st.integers(1, 12), st.booleans())
@settings(max_examples=12)
def test_retrieval_scores_equal_a_loop(seed, k, separate):
    X, y = data(seed)
    options, rest = {}, ()
    if separate:
        rest = data(seed + 1, n=20, n_classes=9)
        options = {"queries": rest[0], "query_labels": rest[1]}
    recall, precision, average, gain, first = naive(X, y, *rest, k=k)
    found = retrieval_scores(X, y, k=k, **options)
    assert list(found) == [f"recall@{k}", "r_precision", "map_at_r"]
    for value in (found[f"recall@{k}"], recall_at_k(X, y, k=k, **options)):
        assert value == pytest.approx(recall)
    for value in (found["r_precision"], r_precision(X, y, **options)):
        assert value == pytest.approx(precision)
    for value in (found["map_at_r"], mean_average_precision_at_r(X, y, **options)):
        assert value == pytest.approx(average, rel=1e-5)
    assert ndcg_at_k(X, y, k=k, **options) == pytest.approx(gain)
    assert mean_reciprocal_rank(X, y, **options) == pytest.approx(first)


def test_many_queries_and_threads():
    X, y = data(n=1600)[0], np.arange(1600) % 50 == 0  # several chunks: many are relevant
    one, two = (retrieval_scores(X, y, k=(1, 5), n_jobs=n_jobs) for n_jobs in (1, 2))
    assert one == two
    half = retrieval_scores(X, y, queries=X[:7] + 1e-9, query_labels=y[:7], k=1)
    assert half["recall@1"] == 1


@pytest.mark.parametrize(
    "score", [r_precision, ndcg_at_k, mean_reciprocal_rank, recall_at_k, equal_error_rate]
)
def test_cosine_and_queries_without_a_reference(score):
    X, y = data()
    plain = score(X / np.linalg.norm(X, axis=1)[:, None], y)
    lengths = np.random.default_rng(0).uniform(0.1, 9, len(X))[:, None]
    assert score(lengths * X, y, metric="cosine") == pytest.approx(plain)
    if score is not equal_error_rate:  # a query that is alone in its class is left out
        alone = np.vstack([X, [[50.0, 50, 50]]]), np.append(y, 99)
        assert score(*alone) == pytest.approx(score(X, y))


def test_perfect_space():
    y = np.repeat(np.arange(4), 5)
    X = 10.0 * y[:, None] + np.arange(20)[:, None] % 5
    scores = {"recall@1": 1.0, "recall@10": 1.0, "r_precision": 1.0, "map_at_r": 1.0}
    assert retrieval_scores(X, y) == scores
    assert ndcg_at_k(X, y) == mean_reciprocal_rank(X, y) == 1
    assert equal_error_rate(X, y) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.arange(60)}, "No query has a reference of its class"),
        ({"k": 0}, "k must be an integer >= 1; got 0"),
        ({"k": (1, 2.5)}, "k must be an integer >= 1; got 2.5"),
        ({"metric": "manhattan"}, "metric must be 'euclidean' or 'cosine'; got 'manhattan'"),
        ({"queries": np.ones((2, 3))}, "queries and query_labels must be passed together"),
        ({"queries": np.ones((2, 4)), "query_labels": [1, 2]}, "queries have 4 features, but X"),
        ({"X": np.zeros((60, 3)), "metric": "cosine"}, "60 zero vectors .* sample 0"),
        ({"X": np.full((60, 3), np.nan)}, "contains NaN"),
        ({"y": np.arange(59)}, "inconsistent numbers of samples"),
    ],
)
def test_invalid_input(change, message):
    X, y = data()
    with pytest.raises(ValueError, match=message):
        retrieval_scores(**{"X": X, "y": y, **change})


# Verification


def naive_rate(distances, same):
    acceptance, detection, _ = roc_curve(same, -distances, drop_intermediate=False)
    best = np.argmin(np.abs(acceptance - (1 - detection)))
    return (acceptance[best] + 1 - detection[best]) / 2


@given(st.integers(0, 10**6), st.sampled_from([1e-200, 1e-6, 1.0, 1e6, 1e90]), st.booleans())
@settings(max_examples=30)
def test_equal_error_rate_is_that_of_the_roc_curve(seed, scale, grid):
    X, y = data(seed, n=80)
    X = np.round(X) if grid else X  # many equal distances
    pairs = np.triu_indices(len(X), 1)
    expected = naive_rate(pairwise_distances(X)[pairs], y[pairs[0]] == y[pairs[1]])
    assert equal_error_rate(scale * X, y) == pytest.approx(expected, abs=1e-12)
    if not grid:
        queries, labels = data(seed + 100, n=30)
        expected = naive_rate(
            pairwise_distances(queries, X).ravel(), (labels[:, None] == y).ravel()
        )
        found = equal_error_rate(X + 7, y, queries=queries + 7, query_labels=labels)
        assert found == pytest.approx(expected, abs=1e-12)


def test_equal_error_rate_of_many_pairs():
    X, y = data(n=1500)  # several blocks
    one, three = (equal_error_rate(X, y, n_jobs=n_jobs) for n_jobs in (1, 3))
    assert one == three
    assert equal_error_rate(np.ones((40, 2)), np.arange(40) % 2) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("score", "y", "message"),
    [
        (equal_error_rate, np.zeros(60), "no pair of samples with different labels"),
        (equal_error_rate, np.arange(60), "no pair of samples with the same label"),
        (mean_reciprocal_rank, np.arange(60), "no pair of samples with the same label"),
    ],
)
def test_pairs_of_one_kind(score, y, message):
    with pytest.raises(ValueError, match=message):
        score(data()[0], y)


# Scores of pairs


@given(st.integers(0, 10**6), st.sampled_from([-1, 0]), st.sampled_from([0.0, 0.01, 0.2, 1.0]))
@settings(max_examples=30)
def test_miss_rate_at_a_false_match_rate(seed, negative, rate):
    rng = np.random.default_rng(seed)
    same = rng.random(80) < 0.4
    same[:2] = [True, False]
    score = np.round(rng.normal(size=80) + same, 1)
    truth = np.where(same, 1, negative)
    options = [
        np.mean(score[same] < t) for t in [*score, np.inf] if np.mean(score[~same] >= t) <= rate
    ]
    assert miss_rate_at(truth, score, false_match_rate=rate) == pytest.approx(min(options))
    false_match, miss, thresholds = det_points(truth, score)
    for a, b, t in zip(false_match, miss, thresholds, strict=True):
        assert a == pytest.approx(np.mean(score[~same] >= t))
        assert b == pytest.approx(np.mean(score[same] < t))


@given(st.integers(0, 10**6), st.integers(1, 20))
@settings(max_examples=30)
def test_expected_calibration_error_equals_a_loop(seed, n_bins):
    rng = np.random.default_rng(seed)
    p = np.r_[rng.random(98), 0.0, 1.0]
    event = rng.random(100) < p**2
    total = 0.0
    for b in range(n_bins):
        rows = (p >= b / n_bins) & ((p < (b + 1) / n_bins) | (b == n_bins - 1))
        if rows.any():
            total += rows.mean() * abs(p[rows].mean() - event[rows].mean())
    truth = np.where(event, 1, -1)
    assert expected_calibration_error(truth, p, n_bins=n_bins) == pytest.approx(total)


def test_invalid_pairs():
    with pytest.raises(ValueError, match=r"y_true must have pairs of both kinds.*got .* \[1, 2\]"):
        det_points([1, 2], [0.1, 0.2])
    with pytest.raises(ValueError, match="y_true must have pairs of both kinds"):
        miss_rate_at([1, 1], [0.1, 0.2])
    with pytest.raises(ValueError, match=r"false_match_rate must be a number in \[0, 1\]"):
        miss_rate_at([1, 0], [0.1, 0.2], false_match_rate=2)
    with pytest.raises(ValueError, match="must be probabilities between 0 and 1"):
        expected_calibration_error([1, 0], [0.5, 1.5])
