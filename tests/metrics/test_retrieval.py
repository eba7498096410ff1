"""Retrieval scores against loops over queries and their sorted references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genmetric.metrics import (
    _retrieval,
    mean_average_precision_at_r,
    r_precision,
    recall_at_k,
    retrieval_scores,
)


def data(seed=0, n=60, d=3, n_classes=7):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    return rng.normal(size=(n, d)) + 0.8 * rng.normal(size=(n_classes, d))[y], y


def naive(X, y, queries=None, labels=None, k=1):
    """Return recall at k, R-precision and mAP@R, with one sort per query."""
    own = queries is None
    queries, labels = (X, y) if own else (queries, labels)
    scores = []
    for i, (query, label) in enumerate(zip(queries, labels, strict=True)):
        others = [j for j in range(len(X)) if not (own and j == i)]
        order = sorted(others, key=lambda j: (np.sum((X[j] - query) ** 2), j))
        relevant = [y[j] == label for j in order]
        R = sum(relevant)
        if R:
            average = sum(relevant[r] * sum(relevant[: r + 1]) / (r + 1) for r in range(R)) / R
            scores.append([any(relevant[:k]), sum(relevant[:R]) / R, average])
    return np.mean(scores, axis=0)


@given(st.integers(0, 10**6), st.integers(1, 12), st.booleans())
@settings(max_examples=30, deadline=None)
def test_scores_equal_a_loop(seed, k, separate):
    X, y = data(seed)
    options, rest = {}, ()
    if separate:
        rest = data(seed + 1, n=20, n_classes=9)
        options = {"queries": rest[0], "query_labels": rest[1]}
    recall, precision, average = naive(X, y, *rest, k=k)
    found = retrieval_scores(X, y, k=k, **options)
    assert found[f"recall@{k}"] == pytest.approx(recall)
    assert found["r_precision"] == pytest.approx(precision)
    assert found["map_at_r"] == pytest.approx(average, rel=1e-5)
    assert recall_at_k(X, y, k=k, **options) == pytest.approx(recall)
    assert r_precision(X, y, **options) == pytest.approx(precision)
    assert mean_average_precision_at_r(X, y, **options) == pytest.approx(average, rel=1e-5)


def test_chunks_do_not_change_the_scores(monkeypatch):
    X, y = data(n=300)
    whole = retrieval_scores(X, y, k=(1, 5))
    monkeypatch.setattr(_retrieval, "NEIGHBOR_BYTES", 2**14)
    parts = retrieval_scores(X, y, k=(1, 5), n_jobs=2)
    assert parts == pytest.approx(whole, rel=1e-12)


def test_cosine_ignores_the_length():
    X, y = data()
    lengths = np.random.default_rng(0).uniform(0.1, 9, len(X))[:, None]
    plain = retrieval_scores(X, y, metric="cosine")
    assert retrieval_scores(lengths * X, y, metric="cosine") == pytest.approx(plain)
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    assert retrieval_scores(unit, y) == pytest.approx(plain)


def test_perfect_space():
    y = np.repeat(np.arange(4), 5)
    assert retrieval_scores(10.0 * y[:, None] + np.arange(20)[:, None] % 5, y) == {
        "recall@1": 1.0,
        "recall@10": 1.0,
        "r_precision": 1.0,
        "map_at_r": 1.0,
    }


def test_queries_without_a_relevant_reference_are_left_out():
    X, y = data()
    alone = np.vstack([X, [[50.0, 50, 50]]]), np.append(y, 99)
    assert recall_at_k(*alone) == pytest.approx(recall_at_k(X, y))


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
    options = {"X": X, "y": y, **change}
    with pytest.raises(ValueError, match=message):
        retrieval_scores(**options)
