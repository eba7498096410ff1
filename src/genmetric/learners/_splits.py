"""Splits of GenerativeMetricCV: samples to fit on, to classify, and to search neighbours among."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._warnings import warn_user
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import ClassStatistics, class_statistics, merge_statistics

#: Samples per feature and class below which ``cv=None`` is warned about.
MIN_SAMPLES_PER_FEATURE = 20


#: Minimum number of samples that the average of a candidate on a split runs over, if available.
MIN_AVERAGED = 256


@dataclass(frozen=True)
class Split:
    """Samples of one split.

    Attributes
    ----------
    train : ndarray of int
        Samples of the class models.
    averaged : ndarray of int
        Samples of `train` whose local metrics are averaged.
    queries : ndarray of int
        Samples to classify.
    references : ndarray of int
        Samples among which neighbours are searched, ascending. A query is never its own neighbour.
    stats : ClassStatistics or None
        Moments of the classes over `train`; a class without samples there has count zero. None if
        the scatter matrices of all classes would take too much memory.
    """

    train: IntArray
    averaged: IntArray
    queries: IntArray
    references: IntArray
    stats: ClassStatistics | None


def deal_folds(codes: IntArray, n_folds: int, rng: np.random.RandomState) -> IntArray:
    """Assign samples to folds at random, with each class spread over the folds evenly.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,)
        Class of each sample.
    n_folds : int
        Number of folds.
    rng : RandomState
        Random number generator.

    Returns
    -------
    ndarray of shape (n_samples,)
        Fold of each sample, in ``range(n_folds)``. Sizes differ by at most one.
    """
    shuffled = rng.permutation(len(codes))
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    folds = np.empty(len(codes), np.intp)
    folds[by_class] = np.arange(len(codes)) % n_folds
    return folds


@dataclass(frozen=True)
class Splitter:
    """Makes splits, with class statistics that are computed once per fold.

    Attributes
    ----------
    x : ndarray of shape (n_samples, n_features)
        Samples.
    codes : ndarray of shape (n_samples,)
        Class of each sample.
    n_classes : int
        Number of classes.
    frame : Scaling
        Coordinates of the statistics.
    weight : ndarray of shape (n_samples,) or None
        Frequencies.
    max_queries : int
        Maximum number of samples to classify in all splits together; beyond it a random subset, and
        averages over as many samples.
    max_references : int
        Maximum number of samples to search among.
    rng : RandomState
        Random number generator.
    n_jobs : int or None
        Number of threads.
    factored : bool
        Whether the splits have no statistics, because classes are represented by their samples.
    """

    x: AnyArray
    codes: IntArray
    n_classes: int
    frame: Scaling
    weight: FloatArray | None
    max_queries: int
    max_references: int
    rng: np.random.RandomState
    n_jobs: int | None
    factored: bool = False

    def in_sample(self) -> list[Split]:
        """Return one split that fits on all samples and classifies the same samples."""
        every = np.arange(len(self.x))
        queries = self._draw(self._repeated(), self.max_queries)
        averaged = self._draw(every, max(self.max_queries, MIN_AVERAGED))
        return [Split(every, averaged, queries, self._references(every), self._statistics(every))]

    def folds(self, n_folds: int) -> list[Split]:
        """Return one split per fold, which searches neighbours among all samples.

        The statistics of the complement of a fold are merged from those of the other folds: one
        pass over the samples is enough for all splits and candidates. Local metrics are averaged
        over as many samples as a fold has, so that all folds together cost a candidate as much as
        one fit. The only sample of a class is in every `train` and never a query: without it the
        class would be missing.
        """
        codes = self.codes
        counts = np.bincount(codes, minlength=self.n_classes)
        queries = self._draw(self._repeated(), self.max_queries)
        n_folds = min(n_folds, int(counts.max()))
        folds = deal_folds(codes, n_folds, self.rng)
        folds[counts[codes] == 1] = n_folds
        statistics = [
            stats
            for f in range(n_folds + 1)
            if f < n_folds or (folds == f).any()
            if (stats := self._statistics(np.flatnonzero(folds == f))) is not None
        ]
        references = self._references(np.arange(len(self.x)))
        n_averaged = max(min(len(self.x), self.max_queries) // n_folds, MIN_AVERAGED)
        splits = []
        for f in range(n_folds):
            train = np.flatnonzero(folds != f)
            own = queries[folds[queries] == f]
            averaged = self._draw(train, n_averaged)
            if len(own):
                rest = [s for g, s in enumerate(statistics) if g != f]
                others = merge_statistics(rest) if statistics else None
                splits.append(Split(train, averaged, own, references, others))
        return splits

    def given(self, pairs: Iterable[tuple[Any, Any]]) -> list[Split]:
        """Return the splits of a scikit-learn splitter, which searches among `train` only.

        The samples of a split are not neighbours of each other, because a splitter may keep groups
        together that must not help each other.
        """
        found = [(np.sort(np.asarray(a)), np.sort(np.asarray(b))) for a, b in pairs]
        if not found:
            raise ValueError("cv yields no splits. Use a splitter with at least one split.")
        n_queries = max(self.max_queries // len(found), 1)
        splits: list[Split] = []
        for train, test in found:
            averaged = self._draw(train, max(n_queries, MIN_AVERAGED))
            queries = self._draw(test, n_queries)
            stats = self._statistics(train)
            if len(np.unique(self.codes[train])) < 2:
                raise ValueError(
                    f"Split {len(splits)} of cv has training samples of a single class. Use a "
                    "stratified splitter."
                )
            splits.append(Split(train, averaged, queries, self._references(train), stats))
        return splits

    def _repeated(self) -> IntArray:
        """Return the samples that are not the only one of their class."""
        counts = np.bincount(self.codes, minlength=self.n_classes)
        rows = np.flatnonzero(counts[self.codes] > 1)
        if not len(rows):
            raise ValueError(
                "Every class has a single sample, so that no sample has a neighbour of its own "
                "class. Use GenerativeMetric with fixed parameters, or collect more samples."
            )
        return rows

    def _references(self, rows: IntArray) -> IntArray:
        return self._draw(rows, self.max_references)

    def _draw(self, rows: IntArray, n_draws: int) -> IntArray:
        """Draw samples without replacement, ascending; all of them if there are no more."""
        if n_draws >= len(rows):
            return rows
        return np.sort(self.rng.choice(rows, n_draws, replace=False))

    def _statistics(self, rows: IntArray) -> ClassStatistics | None:
        if self.factored:
            return None
        whole = len(rows) == len(self.x)
        return class_statistics(
            self.x if whole else self.x[rows],
            self.codes[rows],
            self.n_classes,
            frame=self.frame,
            sample_weight=None if self.weight is None else self.weight[rows],
            n_jobs=self.n_jobs,
        )


def warn_in_sample(n_features: int, counts: IntArray) -> None:
    """Warn if scores on the training samples are too optimistic to select by."""
    needed = MIN_SAMPLES_PER_FEATURE * n_features
    if counts.min() < needed:
        warn_user(
            f"cv=None scores metrics on the samples that they were fitted on. With {n_features} "
            f"features that needs about {needed} samples per class; the smallest class has "
            f"{counts.min()}, and scores are too optimistic. Use cv=5."
        )
