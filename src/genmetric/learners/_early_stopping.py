"""Selection of a number of iterations by the error of left-out samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmetric._typing import FloatArray, IntArray
from genmetric.learners._candidates import smooth

#: Iterations after which left-out samples are predicted.
CHECKPOINTS = (0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512)
#: A path ends after this number of checkpoints without a lower error.
PATIENCE = 3
#: The samples are divided into this number of parts.
N_FOLDS = 5
#: Further parts are left out in turn until this number of samples has been left out.
N_LEFT_OUT = 1000

#: Trains on the given samples and calls the function after each iteration with the iteration
#: number and L, starting with number 0; a true result ends the run.
PathFunction = Callable[[IntArray, Callable[[int, FloatArray], bool]], Any]

#: Errors of left-out samples: ``errors(L, train, left_out)``, shape (n_left_out,).
ErrorFunction = Callable[[FloatArray, IntArray, IntArray], FloatArray]


@dataclass(frozen=True)
class ValidationMetrics:
    """Sum of the metrics of several training runs.

    Attributes
    ----------
    total : ndarray of shape (n_features, n_features)
        Sum of LᵀL over the runs.
    n_runs : int
        Number of runs.
    """

    total: FloatArray
    n_runs: int


class _CheckpointMetrics:
    """Sums of LᵀL over the runs at each checkpoint; a run that ended keeps its last metric.

    Only one matrix per checkpoint is kept, whatever the number of runs.
    """

    def __init__(self) -> None:
        self.n_runs = 0
        self._totals: list[FloatArray] = []
        self._ended: FloatArray | float = 0.0  # sum of the last metrics of the earlier runs

    def add(self, place: int, L: FloatArray) -> None:
        """Add the metric of the current run at a checkpoint; a run starts with place 0."""
        if place == 0:
            self.n_runs += 1
            self._ended = self._totals[-1].copy() if self._totals else 0.0
        if place < len(self._totals):
            self._totals[place] += L.T @ L
        else:
            self._totals.append(self._ended + L.T @ L)

    def end_run(self, n_places: int, L: FloatArray) -> None:
        """Add the last metric of the current run to the checkpoints that it did not reach."""
        for place in range(n_places, len(self._totals)):
            self._totals[place] += L.T @ L

    def at(self, place: int) -> ValidationMetrics:
        """Return the sum at a checkpoint."""
        return ValidationMetrics(self._totals[min(place, len(self._totals) - 1)], self.n_runs)


@dataclass(frozen=True)
class ValidationPath:
    """Errors of left-out samples along the iterations.

    Attributes
    ----------
    n_iter : int
        The selected number of iterations.
    checkpoints : ndarray of shape (n_checkpoints,)
        Numbers of iterations.
    errors : ndarray of shape (n_checkpoints,)
        Weighted mean error of the left-out samples at each checkpoint.
    metrics : ValidationMetrics or None, default=None
        Metrics of the parts after the selected number of iterations, if they were requested and
        more than one part was left out.
    """

    n_iter: int
    checkpoints: IntArray
    errors: FloatArray
    metrics: ValidationMetrics | None = None

    @classmethod
    def without_samples(cls, n_iter: int) -> ValidationPath:
        """Return the path of a number of iterations that no left-out samples have selected."""
        return cls(n_iter, np.empty(0, int), np.empty(0))

    @property
    def table(self) -> FloatArray:
        """Checkpoints and errors as an array of shape (n_checkpoints, 2)."""
        return np.column_stack([self.checkpoints, self.errors])


def left_out_folds(codes: IntArray) -> list[IntArray]:
    """Divide samples into parts that contain similar fractions of each class.

    Consecutive samples of a class stay in one part, so that near copies that follow each other do
    not appear both among the training samples and the left-out samples. The assignment does not
    use random numbers. The only sample of a class is never left out.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,)
        Class, or slice of a numeric target, of each sample: 0, 1, ...

    Returns
    -------
    list of ndarray
        Indices of the samples that are left out in turn. No part is empty.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.learners._early_stopping import left_out_folds
    >>> left_out_folds(np.array([0, 0, 0, 0, 0, 1, 1, 2]))
    [array([0]), array([1, 5]), array([2]), array([3, 6]), array([4])]
    """
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # Classes smaller than the number of parts start at different parts.
    fold = (N_FOLDS * rank // sizes[codes[order]] + codes[order]) % N_FOLDS
    fold[sizes[codes[order]] == 1] = -1
    folds = [np.sort(order[fold == f]) for f in range(N_FOLDS)]
    return [part for part in folds if len(part)]


def limit_folds(
    folds: Iterable[tuple[IntArray, IntArray]],
) -> list[tuple[IntArray, IntArray]]:
    """Return the first folds, until enough samples have been left out.

    Parameters
    ----------
    folds : iterable of tuple of ndarray
        Indices of training samples and of left-out samples.

    Returns
    -------
    list of tuple of ndarray
        All folds, or the first ones that leave out 1000 samples together.
    """
    parts: list[tuple[IntArray, IntArray]] = []
    for fold in folds:
        parts.append(fold)
        if sum(len(left_out) for _, left_out in parts) >= N_LEFT_OUT:
            break
    return parts


def select_n_iter(
    run: PathFunction,
    errors: ErrorFunction,
    folds: Iterable[tuple[IntArray, IntArray]],
    weights: FloatArray | None,
    *,
    default_n_iter: int,
    max_iter: int,
    keep_metrics: bool = False,
) -> ValidationPath:
    """Select the number of iterations by the error of left-out samples.

    Parts of the samples are left out in turn, the metric is trained on the others, and after some
    iterations the left-out samples are predicted. Errors of adjacent checkpoints are averaged with
    weights 1/4, 1/2 and 1/4. Since the error of a few hundred samples is noisy and the path is
    often flat, the default number of iterations is replaced by the number with the smallest error
    only if the difference exceeds its standard error.

    Parameters
    ----------
    run : callable
        ``run(train, after_iteration)`` trains on the samples with the indices `train`.
    errors : callable
        ``errors(L, train, left_out)`` predicts the left-out samples from the others.
    folds : iterable of tuple of ndarray
        Indices of training samples and of left-out samples.
    weights : ndarray of shape (n_samples,) or None
        Sample weights of the errors.
    default_n_iter : int
        Number of iterations that is kept if no other is clearly better.
    max_iter : int
        Largest number of iterations.
    keep_metrics : bool, default=False
        Whether to add up the metrics of the parts.

    Returns
    -------
    ValidationPath
        The selected number and the errors.
    """
    checkpoints = [n for n in CHECKPOINTS if n < max_iter] + [max_iter]
    default = int(np.searchsorted(checkpoints, min(default_n_iter, max_iter)))
    parts = limit_folds(folds)
    if not parts:
        return ValidationPath.without_samples(checkpoints[default])
    # The metric of a single part has no advantage over the final one, which has more samples.
    metrics = _CheckpointMetrics() if keep_metrics and len(parts) > 1 else None
    paths, weight = [], []
    for train, left_out in parts:
        paths.append(_path_errors(run, errors, train, left_out, checkpoints, default, metrics))
        weight.append(np.ones(len(left_out)) if weights is None else weights[left_out])
    # A path that ended early keeps its last error.
    n_checkpoints = max(len(path) for path in paths)
    loss = np.hstack([path[np.minimum(range(n_checkpoints), len(path) - 1)] for path in paths])
    w = np.concatenate(weight) / np.concatenate(weight).sum()
    smoothed = smooth(loss @ w)
    best = int(np.argmin(smoothed))
    difference = loss[default] - loss[best]
    stderr = np.sqrt(((w * (difference - w @ difference)) ** 2).sum())
    chosen = best if smoothed[default] - smoothed[best] > stderr else default
    numbers = np.array(checkpoints[:n_checkpoints])
    kept = None if metrics is None else metrics.at(chosen)
    return ValidationPath(int(numbers[chosen]), numbers, loss @ w, kept)


def _path_errors(
    run: PathFunction,
    errors: ErrorFunction,
    train: IntArray,
    left_out: IntArray,
    checkpoints: list[int],
    default: int,
    metrics: _CheckpointMetrics | None,
) -> FloatArray:
    """Compute the errors of one part at the checkpoints, shape (n_checkpoints, n_left_out)."""
    path: list[FloatArray] = []
    waiting = 0  # checkpoints since the lowest error
    latest = np.empty((0, 0))

    def after_iteration(n_iter: int, L: FloatArray) -> bool:
        nonlocal waiting, latest
        if n_iter != checkpoints[len(path)]:
            return False
        found = errors(L, train, left_out)
        lowest = min((e.mean() for e in path), default=np.inf)
        waiting = 0 if found.mean() < lowest else waiting + 1
        if metrics is not None:
            metrics.add(len(path), L)
        path.append(found)
        latest = L
        return len(path) == len(checkpoints) or (
            waiting >= PATIENCE and len(path) > default + PATIENCE
        )

    run(train, after_iteration)
    if metrics is not None:
        metrics.end_run(len(path), latest)
    while len(path) <= default:  # converged before the default number of iterations
        path.append(path[-1])
    return np.array(path)
