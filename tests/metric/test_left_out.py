"""Neighbours of rows left out, votes for many k, folds: against loops and by what must hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

from genmetric.density import Frame, class_statistics
from genmetric.metric.left_out import (
    FEWEST_AVERAGED,
    deal_folds,
    nearest_others,
    split_parts,
    vote_errors,
)


class TestNearestOthers:
    """The search."""

    @pytest.mark.parametrize("n_jobs", [None, 2])
    def test_against_a_loop(self, rng, n_jobs):
        Z = rng.normal(size=(700, 5))
        queries = np.sort(rng.choice(700, 600, replace=False))
        references = np.sort(rng.choice(700, 300, replace=False))
        found = nearest_others(Z, queries, references, 7, n_jobs)
        for q, neighbors in zip(queries, found, strict=True):
            others = references[references != q]
            distances = np.linalg.norm(Z[others] - Z[q], axis=1)
            np.testing.assert_array_equal(neighbors, others[np.argsort(distances)[:7]])

    def test_all_others(self):
        Z = np.arange(5.0)[:, None] ** 2
        found = nearest_others(Z, np.arange(5), np.arange(5), 4)
        np.testing.assert_array_equal(found[0], [1, 2, 3, 4])
        np.testing.assert_array_equal(np.sort(found[2]), [0, 1, 3, 4])

    def test_a_row_among_its_copies_is_left_out(self):
        found = nearest_others(np.zeros((6, 2)), np.arange(6), np.arange(6), 3)
        assert not (found == np.arange(6)[:, None]).any()
        assert all(len(set(row)) == 3 for row in found.tolist())


class TestVoteErrors:
    """Votes."""

    def test_is_that_of_scikit_learn_where_nothing_ties(self, rng):
        Z, codes = rng.normal(size=(120, 2)), rng.integers(0, 2, 120)
        every = np.arange(120)
        k = np.array([1, 3, 7])
        found = vote_errors(codes[nearest_others(Z, every, every, 7)], codes, 2, k)
        for number, error in zip(k, found, strict=True):
            wrong = 0
            for i in every:
                rest = every != i
                model = KNeighborsClassifier(number).fit(Z[rest], codes[rest])
                wrong += model.predict(Z[i : i + 1])[0] != codes[i]
            assert error == pytest.approx(wrong / 120)

    def test_ties_are_shared(self):
        labels = np.array([[0, 1, 2]])
        np.testing.assert_allclose(
            vote_errors(labels, np.array([1]), 3, np.array([1, 2, 3])), [1, 1 / 2, 2 / 3]
        )
        assert vote_errors(labels, np.array([3]), 4, np.array([3]))[0] == 1

    @given(st.integers(0, 2**32 - 1))
    def test_class_names_do_not_matter(self, seed):
        rng = np.random.default_rng(seed)
        labels, truth = rng.integers(0, 4, (30, 6)), rng.integers(0, 4, 30)
        names = rng.permutation(4)
        k = np.array([1, 2, 4, 6])
        one = vote_errors(labels, truth, 4, k)
        np.testing.assert_allclose(vote_errors(names[labels], names[truth], 4, k), one)
        assert ((one >= 0) & (one <= 1)).all()


class TestFolds:
    """Folds, and parts made of them."""

    @given(st.integers(0, 2**32 - 1), st.integers(2, 7))
    def test_even_in_size_and_class(self, seed, n_folds):
        rng = np.random.RandomState(seed)
        codes = rng.randint(0, 3, 50)
        folds = deal_folds(codes, n_folds, rng)
        for rows in (np.ones(50, bool), *(codes == c for c in range(3))):
            sizes = np.bincount(folds[rows], minlength=n_folds)
            assert sizes.max() - sizes.min() <= 1

    def test_parts_are_what_they_say(self, rng):
        X = rng.normal(size=(90, 3)) + 100
        codes = np.r_[np.repeat([0, 1], 44), 2, 3]
        frame = Frame.of(X)
        parts = split_parts(
            X, codes, 4, frame, cv=4, max_queries=1000, rng=np.random.RandomState(0)
        )
        # The rows alone in their classes are trained on by all and judged by none.
        np.testing.assert_array_equal(
            np.sort(np.concatenate([part.queries for part in parts])), np.arange(88)
        )
        for part in parts:
            assert not np.intersect1d(part.train, part.queries).size
            assert len(part.train) + len(part.queries) == 90
            np.testing.assert_array_equal(part.averaged, part.train)
            expected = class_statistics(X[part.train], codes[part.train], 4, frame=frame)
            for name in ("count", "mean", "scatter", "fourth"):
                np.testing.assert_allclose(
                    getattr(part.stats, name), getattr(expected, name), rtol=1e-9, atol=1e-9
                )

    @pytest.mark.parametrize("cv", [None, 5])
    def test_large_sets_are_sampled(self, rng, cv):
        n, m = 8 * FEWEST_AVERAGED, 4 * FEWEST_AVERAGED
        X, codes = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
        parts = split_parts(
            X, codes, 2, Frame.of(X), cv=cv, max_queries=m, rng=np.random.RandomState(0)
        )
        assert sum(len(part.queries) for part in parts) == m
        for part in parts:
            assert len(part.averaged) == (m if cv is None else FEWEST_AVERAGED)
            assert np.isin(part.averaged, part.train).all()
            assert part.stats.count.sum() == len(part.train)

    def test_without_two_rows_of_a_class(self):
        X = np.eye(3)
        with pytest.raises(ValueError, match="Every class has a single row"):
            split_parts(
                X, np.arange(3), 3, Frame.of(X), cv=2, max_queries=9, rng=np.random.RandomState(0)
            )
