"""The search of pairs of different classes: nothing within the radius is missed."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric._chunks import row_chunks
from genmetric.learners._lmnn import impostors
from genmetric.learners._lmnn.impostors import (
    ImpostorSearch,
    Pairs,
    join_pairs,
    pair_distances,
    search_chunks,
)


def starts_of(codes):
    return np.concatenate([[0], np.cumsum(np.bincount(codes))])


def found_by(Z, codes, radius2, budget=None):
    starts = starts_of(codes)
    chunks = row_chunks(len(Z), 1, budget=budget)
    return join_pairs(list(ImpostorSearch(Z, starts).within(chunks, radius2)))


def as_set(pairs):
    return set(zip(pairs.rows.tolist(), pairs.others.tolist(), strict=True))


def naive_pairs(Z, codes, radius2):
    return {
        (i, j)
        for i in range(len(Z))
        for j in range(len(Z))
        if i < j
        and codes[i] != codes[j]
        and np.sum((Z[i] - Z[j]) ** 2) < max(radius2[i], radius2[j])
    }


@pytest.mark.parametrize("budget", [1, 7, 25, None])
@pytest.mark.parametrize("n_classes", [2, 9])
@pytest.mark.parametrize("n_columns", [1, 13, 1024])
@pytest.mark.parametrize("n_bytes", [100, 2**20])
def test_all_pairs_within_the_radius(rng, monkeypatch, budget, n_classes, n_columns, n_bytes):
    # With few bytes, chunks with many pairs are split.
    monkeypatch.setattr(impostors, "_TILE_COLUMNS", n_columns)
    monkeypatch.setattr(impostors, "CHUNK_BYTES", n_bytes)
    Z = rng.normal(size=(60, 3))
    codes = np.sort(rng.integers(0, n_classes, 60))
    radius2 = rng.uniform(0, 4, 60)
    found = found_by(Z, codes, radius2, budget)
    # In float32 a pair just outside may be found too; there is none so near here.
    assert as_set(found) == naive_pairs(Z, codes, radius2)
    order = list(zip(found.rows.tolist(), found.others.tolist(), strict=True))
    assert order == sorted(order)
    assert (found.span.start, found.span.stop) == (0, 60)


@pytest.mark.parametrize("n_samples", [1, 500, 100_000])
def test_chunks_of_the_search_fit_the_budget(n_samples):
    chunks = search_chunks(n_samples)
    assert (chunks[0].start, chunks[-1].stop) == (0, n_samples)
    assert all(a.stop == b.start for a, b in pairwise(chunks))
    assert max(c.stop - c.start for c in chunks) <= 512


@pytest.mark.parametrize("shift", [0, 1e2, 1e5, 1e7])
def test_none_is_missed_far_from_the_origin(rng, shift):
    # The products have errors of shift² times the precision; the bound has to allow for them.
    Z = rng.normal(size=(80, 3)) + shift
    codes = np.repeat([0, 1], 40)
    radius2 = np.full(80, 0.7)
    expected = naive_pairs(Z, codes, radius2)
    assert expected
    assert expected <= as_set(found_by(Z, codes, radius2))


def test_float32_where_it_is_exact_enough(rng):
    Z, starts = rng.normal(size=(20, 3)), np.array([0, 10, 20])
    assert ImpostorSearch(Z, starts)._points.dtype == np.float32
    assert ImpostorSearch(Z * 1e4, starts)._points.dtype == np.float64


@given(
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    at_once=st.integers(1, 12),
)
def test_pieces_contain_all_pairs_and_whole_samples(counts, at_once):
    edges = np.concatenate([[0], np.cumsum(counts)])
    pairs = Pairs(slice(5, 5 + len(counts)), edges, np.arange(edges[-1]))
    np.testing.assert_array_equal(pairs.rows, np.repeat(np.arange(len(counts)), counts) + 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(impostors, "_PAIRS_PER_PIECE", at_once)
        pieces = list(pairs.pieces())
    joined = join_pairs(pieces)
    assert joined.span == pairs.span
    np.testing.assert_array_equal(joined.edges, pairs.edges)
    np.testing.assert_array_equal(joined.others, pairs.others)
    for piece in pieces:
        n_rows = piece.span.stop - piece.span.start
        assert n_rows > 0
        assert len(piece.others) <= at_once or n_rows == 1
        assert ((piece.rows >= piece.span.start) & (piece.rows < piece.span.stop)).all()


@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("is_dense", [True, False])
def test_distances_and_products_of_pairs(rng, monkeypatch, fraction, is_dense):
    # Both implementations against loops, with blocks of few rows.
    monkeypatch.setattr(impostors, "_DENSE_FRACTION", -1.0 if is_dense else 2.0)
    monkeypatch.setattr(impostors, "CHUNK_BYTES", 2000)
    Z, X = rng.normal(size=(50, 3)), rng.normal(size=(50, 4))
    counts = rng.binomial(30, fraction, 20)
    others = np.concatenate([np.sort(rng.choice(30, c, replace=False)) for c in counts]) + 20
    pairs = Pairs(slice(0, 20), np.concatenate([[0], np.cumsum(counts)]), others.astype(np.int32))
    assert pairs.is_dense == (is_dense and fraction > 0)
    d = pairs.distances(Z, np.sum(Z**2, axis=1))
    weights = rng.uniform(size=len(others))
    ends = list(zip(pairs.rows, pairs.others, strict=True))
    np.testing.assert_allclose(d, [np.sum((Z[i] - Z[j]) ** 2) for i, j in ends], rtol=1e-10)
    expected = sum(
        (w * np.outer(X[i], X[j]) for w, (i, j) in zip(weights, ends, strict=True)),
        np.zeros((4, 4)),
    )
    np.testing.assert_allclose(pairs.product(weights, X), expected, rtol=1e-10, atol=1e-12)


def test_distances_far_from_the_origin_are_computed_from_differences(rng, monkeypatch):
    monkeypatch.setattr(impostors, "_DENSE_FRACTION", -1.0)
    Z = 1e7 + rng.normal(size=(30, 3))
    pairs = Pairs(slice(0, 10), np.arange(0, 201, 20), np.tile(np.arange(10, 30), 10))
    expected = [np.sum((Z[i] - Z[j]) ** 2) for i, j in zip(pairs.rows, pairs.others, strict=True)]
    np.testing.assert_allclose(pairs.distances(Z, np.sum(Z**2, axis=1)), expected, rtol=1e-12)


def test_select_keeps_the_pairs_of_a_mask():
    pairs = Pairs(slice(3, 6), np.array([0, 2, 2, 5]), np.array([7, 8, 6, 8, 9]))
    kept = np.array([False, True, True, False, True])
    selected = pairs.select(kept)
    np.testing.assert_array_equal(selected.rows, pairs.rows[kept])
    np.testing.assert_array_equal(selected.others, [8, 6, 9])


def test_pair_distances(rng, monkeypatch):
    Z = rng.normal(size=(30, 4))
    a, b = rng.integers(0, 30, (2, 100))
    expected = [np.sum((Z[i] - Z[j]) ** 2) for i, j in zip(a, b, strict=True)]
    np.testing.assert_allclose(pair_distances(Z, a, b), expected, rtol=1e-13)
    monkeypatch.setattr(impostors, "CHUNK_BYTES", 2000)
    np.testing.assert_allclose(pair_distances(Z, a, b), expected, rtol=1e-13)
