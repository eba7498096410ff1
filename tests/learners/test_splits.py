"""Splits of GenerativeMetricCV: folds, sizes, and statistics that are merged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, ShuffleSplit

from genmetric import GenerativeMetric, GenerativeMetricCV
from genmetric.density import Scaling, class_statistics
from genmetric.density._factored_statistics import FactoredStatistics
from genmetric.learners import _splits
from genmetric.learners._splits import MIN_AVERAGED, Splitter, deal_folds


def make_splitter(
    X, codes, *, weight=None, max_queries=1000, max_references=10_000, factored=False
):
    return Splitter(
        X,
        codes,
        int(codes.max()) + 1,
        Scaling.of(X),
        weight,
        max_queries,
        max_references,
        np.random.RandomState(0),
        None,
        factored,
    )


@given(st.integers(0, 2**32 - 1), st.integers(2, 7))
def test_folds_are_even_in_size_and_class(seed, n_folds):
    rng = np.random.RandomState(seed)
    codes = rng.randint(0, 3, 50)
    folds = deal_folds(codes, n_folds, rng)
    for rows in (np.ones(50, bool), *(codes == c for c in range(3))):
        sizes = np.bincount(folds[rows], minlength=n_folds)
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("weighted", [False, True])
def test_folds_have_the_statistics_of_their_training_samples(rng, weighted):
    X = rng.normal(size=(90, 3)) + 100
    codes = np.r_[np.repeat([0, 1], 44), 2, 3]
    weight = rng.integers(1, 4, 90).astype(float) if weighted else None
    splits = make_splitter(X, codes, weight=weight).folds(4)
    # The only samples of their classes are trained on in every split and never classified.
    np.testing.assert_array_equal(
        np.sort(np.concatenate([split.queries for split in splits])), np.arange(88)
    )
    for split in splits:
        assert not np.intersect1d(split.train, split.queries).size
        assert len(split.train) + len(split.queries) == 90
        np.testing.assert_array_equal(split.averaged, split.train)
        np.testing.assert_array_equal(split.references, np.arange(90))
        expected = class_statistics(
            X[split.train],
            codes[split.train],
            4,
            frame=Scaling.of(X),
            sample_weight=None if weight is None else weight[split.train],
        )
        for name in ("count", "mean", "scatter", "fourth"):
            np.testing.assert_allclose(
                getattr(split.stats, name), getattr(expected, name), rtol=1e-9, atol=1e-9
            )


@pytest.mark.parametrize("cv", [None, 5])
def test_large_sets_are_sampled(rng, cv):
    n, m = 8 * MIN_AVERAGED, 4 * MIN_AVERAGED
    X, codes = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    splitter = make_splitter(X, codes, max_queries=m, max_references=99)
    splits = splitter.in_sample() if cv is None else splitter.folds(cv)
    assert sum(len(split.queries) for split in splits) == m
    for split in splits:
        assert len(split.averaged) == (m if cv is None else MIN_AVERAGED)
        assert np.isin(split.averaged, split.train).all()
        assert split.stats.count.sum() == len(split.train)
        assert len(split.references) == 99


def test_a_splitter_keeps_groups_apart(rng):
    X, codes, groups = rng.normal(size=(60, 2)), np.arange(60) % 2, np.arange(60) // 6
    for split in make_splitter(X, codes).given(GroupKFold(5).split(X, codes, groups)):
        assert not np.intersect1d(groups[split.queries], groups[split.references]).size
        np.testing.assert_array_equal(split.references, split.train)


def test_splits_without_a_second_class():
    X, codes = np.arange(8.0)[:, None], np.repeat([0, 1], 4)
    with pytest.raises(ValueError, match="Split 1 of cv has training samples of a single class"):
        make_splitter(X, codes).given([([0, 1, 4], [2, 5]), ([0, 1, 2], [5])])
    with pytest.raises(ValueError, match="cv yields no splits"):
        make_splitter(X, codes).given([])
    assert len(make_splitter(X, codes).given(ShuffleSplit(3, random_state=0).split(X))) == 3


def test_classes_of_a_single_sample():
    with pytest.raises(ValueError, match="Every class has a single sample"):
        make_splitter(np.eye(3), np.arange(3)).folds(2)


def test_many_small_classes_are_represented_by_their_samples(monkeypatch):
    """The scores are those of scatter matrices, and no scatter matrix per class is computed."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(30), 5)
    X = rng.normal(size=(30, 8))[y] + rng.normal(size=(150, 8))
    metric = GenerativeMetricCV(
        GenerativeMetric(class_tol=0), cv=3, n_neighbors=[1, 3], random_state=0
    )
    scores = []
    for factored in (False, True):
        monkeypatch.setattr(FactoredStatistics, "saves_memory", lambda *_, f=factored: f)
        if factored:
            monkeypatch.setattr(_splits, "class_statistics", None)
        scores.append(metric.fit(X, y).cv_results_["mean_test_score"])
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-12)


def test_splits_of_small_classes_have_no_statistics(rng):
    X, codes = rng.normal(size=(40, 3)), np.arange(40) % 20
    splitter = make_splitter(X, codes, factored=True)
    for splits in (splitter.folds(2), splitter.in_sample()):
        assert [split.stats for split in splits] == [None] * len(splits)
