"""The folds of a comparison: drawn here, or given by a scikit-learn splitter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, check_cv

from genmetric._typing import ArrayLike, IntArray
from genmetric._validation import check_count, check_groups
from genmetric.comparison._samples import ComparedSamples

#: Minimum number of test samples of a fold with numeric targets, unless there are fewer than four
#: times as many samples in total.
MIN_FOLD = 5

Pairs = Sequence[tuple[IntArray, IntArray]]


@dataclass(frozen=True)
class Folds:
    """Training and test samples of each fold.

    Attributes
    ----------
    pairs : sequence of (train, test)
        Indices of the samples.
    n_splits, n_repeats : int
        Number of folds, and of repetitions with other folds.
    splitter : str
        Where folds that were not drawn here come from; else empty.
    """

    pairs: Pairs
    n_splits: int
    n_repeats: int = 1
    splitter: str = ""

    @property
    def test_share(self) -> float:
        """Number of test samples divided by that of training samples, averaged over the folds."""
        return float(np.mean([len(test) / len(train) for train, test in self.pairs]))

    def first_tests(self, n_samples: int) -> IntArray | None:
        """Return the test samples of the first repetition; None if it is not all, each once."""
        tests = np.concatenate([test for _, test in self.pairs[: self.n_splits]])
        once = len(tests) == n_samples and len(np.unique(tests)) == n_samples
        return tests if once else None


def plan_folds(
    samples: ComparedSamples,
    *,
    n_splits: int | None,
    n_repeats: int | None,
    cv: Any,
    groups: ArrayLike | None,
    n_given: int,
    random_state: int,
    notes: list[str],
) -> Callable[[ComparedSamples], Folds]:
    """Return a function that makes the folds of some of the samples.

    A splitter is applied to all samples, which its groups and indices refer to. Samples that the
    comparison leaves out later are missing from its folds.

    Parameters
    ----------
    samples : ComparedSamples
        All samples.
    n_splits, n_repeats, cv, groups, random_state
        As of :func:`genmetric.compare_metrics`.
    n_given : int
        Number of samples that were given, with those without a target.
    notes : list of str
        Remarks for the reader, which are added to.

    Returns
    -------
    callable
        ``make(samples)`` returns :class:`Folds`; its argument is taken from `samples`.
    """
    if cv is not None and n_splits is not None:
        raise ValueError(
            f"Pass either n_splits or cv; got n_splits={n_splits!r} and cv={cv!r}. An integer cv is "
            "the same as n_splits."
        )
    if cv is None or isinstance(cv, int | np.integer):
        check_groups(groups, cv, n_given)
        wanted, name = (n_splits, "n_splits") if cv is None else (cv, "cv")
        return lambda some: _drawn(some, wanted, name, n_repeats, random_state, notes)
    if n_repeats is not None:
        raise ValueError(
            f"n_repeats needs an integer cv; got n_repeats={n_repeats!r} and a cv of type "
            f"{type(cv).__name__}. Use a splitter that repeats, such as RepeatedKFold."
        )
    if n_given != len(samples.y):
        raise ValueError(
            f"{n_given - len(samples.y)} of {n_given} rows have no target, and cv may refer to all "
            "rows. Remove these rows, also from groups."
        )
    pairs = _given(samples, cv, groups)
    return lambda some: _remaining(some, pairs, n_given, _name(cv))


def _name(cv: Any) -> str:
    return type(cv).__name__ if hasattr(cv, "split") else "the indices given as cv"


def _drawn(
    samples: ComparedSamples,
    asked: Any,
    name: str,
    n_repeats: int | None,
    random_state: int,
    notes: list[str],
) -> Folds:
    """Draw folds, stratified by class, as many as the samples allow."""
    n, make, codes = len(samples.y), RepeatedKFold, samples.y
    if samples.task == "classification":
        make = RepeatedStratifiedKFold
        _, codes, counts = np.unique(samples.y, return_inverse=True, return_counts=True)
        most = int(counts.min())
        why = f"the smallest class has {most} samples"
    else:
        most, why = _most_folds(n), f"a fold needs at least {MIN_FOLD} of the {n} samples"
    wanted = (10 if n <= 5000 else 5) if asked is None else check_count(asked, name)
    if wanted < 2:
        raise ValueError(f"{name} must be at least 2; got {wanted}.")
    if wanted > most:
        notes.append(f"{most} folds, because {why}")
    n_splits = min(wanted, most)
    n_repeats = (3 if n <= 500 else 1) if n_repeats is None else n_repeats
    check_count(n_repeats, "n_repeats")
    splitter = make(n_splits=n_splits, n_repeats=n_repeats, random_state=random_state)
    return Folds(list(splitter.split(np.zeros(n), codes)), n_splits, n_repeats)


def _most_folds(n: int) -> int:
    """Return the largest number of folds for numeric targets of `n` samples."""
    if n < 4:
        raise ValueError(f"A comparison needs at least 4 samples with a numeric target; got {n}.")
    return max(2, n // MIN_FOLD)


def _given(samples: ComparedSamples, cv: Any, groups: ArrayLike | None) -> Pairs:
    """Return the splits of a splitter or an iterable, which must be valid indices."""
    n = len(samples.y)
    labels = check_groups(groups, cv, n)
    splitter = check_cv(cv, samples.y, classifier=samples.task == "classification")
    pairs = [
        (_indices(train, n, number), _indices(test, n, number))
        for number, (train, test) in enumerate(splitter.split(samples.X, samples.y, labels))
    ]
    if len(pairs) < 2:
        raise ValueError(
            f"cv must make at least 2 splits, which the test of significance needs; got {len(pairs)}."
        )
    return pairs


def _indices(values: Any, n: int, number: int) -> IntArray:
    """Return the indices of one part of a split; a mask of booleans is accepted."""
    found = np.asarray(values)
    if found.dtype == bool and found.shape == (n,):
        return np.flatnonzero(found)
    integers = found.ndim == 1 and (found.dtype.kind in "iu" or found.size == 0)
    if not integers or (found.size and (found.min() < 0 or found.max() >= n)):
        raise ValueError(
            f"Split {number} of cv must be two arrays of indices in [0, {n}); got {found!r}."
        )
    return found.astype(np.intp)


def _remaining(samples: ComparedSamples, pairs: Pairs, n_all: int, splitter: str) -> Folds:
    """Return splits with the positions of some of all samples, and check that each can be used."""
    if samples.rows is not None:
        position = np.full(n_all, -1, np.intp)
        position[samples.rows] = np.arange(len(samples.rows))
        moved = [(position[train], position[test]) for train, test in pairs]
        pairs = [(train[train >= 0], test[test >= 0]) for train, test in moved]
    for number, (train, test) in enumerate(pairs):
        problem = _problem(samples, train, test)
        if problem:
            raise ValueError(f"Split {number} of cv {problem}")
    return Folds(pairs, len(pairs), splitter=splitter)


def _problem(samples: ComparedSamples, train: IntArray, test: IntArray) -> str:
    """Return why a split cannot be used; empty if it can."""
    if not len(train) or not len(test):
        empty = "training" if not len(train) else "test"
        return f"has no {empty} samples. Use fewer splits, or larger groups or max_samples."
    both = np.intersect1d(train, test)
    if len(both):
        return (
            f"has {len(both)} samples for training and for testing. Use a cv whose two parts have "
            "no samples in common."
        )
    if samples.task == "classification" and len(np.unique(samples.y[train])) < 2:
        return (
            "has training samples of a single class. Use a stratified splitter, such as "
            "StratifiedGroupKFold."
        )
    return ""
