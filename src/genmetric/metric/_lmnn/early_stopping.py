"""Selection of the number of LMNN iterations by the error of left-out samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmetric._search import nearest_neighbors
from genmetric._typing import FloatArray, IntArray
from genmetric._votes import majority_vote

#: Iterations after which left-out samples are classified.
CHECKPOINTS = (0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512)
#: Number of iterations that is kept unless another one is better by more than a standard error.
DEFAULT_N_ITER = 11
#: A path ends after this number of checkpoints without a lower error.
PATIENCE = 3
#: The samples are divided into this number of parts.
N_FOLDS = 5
#: Further parts are left out in turn until this number of samples has been left out.
N_LEFT_OUT = 1000
#: Numbers of neighbours whose errors are averaged: the average varies less than a single one.
N_NEIGHBORS = (1, 3, 5)

#: Runs LMNN on the given samples and calls the function after each iteration with the iteration
#: number and L, starting with number 0; a true result ends the run.
PathFunction = Callable[[IntArray, Callable[[int, FloatArray], bool]], Any]


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
        Weighted mean error rate of the left-out samples at each checkpoint.
    """

    n_iter: int
    checkpoints: IntArray
    errors: FloatArray


def left_out_folds(codes: IntArray) -> list[IntArray]:
    """Divide samples into parts that contain similar fractions of each class.

    Consecutive samples of a class stay in one part, so that near copies that follow each other do
    not appear both among the training samples and the left-out samples. The assignment does not
    use random numbers. The only sample of a class is never left out.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,)
        Class of each sample: 0, 1, ...

    Returns
    -------
    list of ndarray
        Indices of the samples that are left out in turn. No part is empty.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.metric._lmnn.early_stopping import left_out_folds
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


def neighbor_errors(
    Z: FloatArray, codes: IntArray, left_out: IntArray, n_jobs: int | None = None
) -> FloatArray:
    """Compute the error of nearest-neighbour votes for left-out samples.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        All samples in the space of the metric.
    codes : ndarray of shape (n_samples,)
        Class of each sample.
    left_out : ndarray of shape (n_left_out,)
        Indices of the samples to classify; all others vote.
    n_jobs : int, default=None
        Number of threads.

    Returns
    -------
    ndarray of shape (n_left_out,)
        Fraction of wrong predictions of each sample over 1, 3 and 5 neighbours.
    """
    voters = np.setdiff1d(np.arange(len(Z)), left_out)
    k = min(N_NEIGHBORS[-1], len(voters))
    found = nearest_neighbors(Z[voters], k, queries=Z[left_out], n_jobs=n_jobs)
    labels, n_classes = codes[voters][found.indices], int(codes.max()) + 1
    wrong = np.zeros(len(left_out))
    for n_neighbors in N_NEIGHBORS:
        predicted = majority_vote(labels[:, :n_neighbors], n_classes)
        wrong += predicted != codes[left_out]
    return wrong / len(N_NEIGHBORS)


def select_n_iter(
    run: PathFunction,
    X: FloatArray,
    codes: IntArray,
    weights: FloatArray | None,
    *,
    max_iter: int,
    n_jobs: int | None = None,
) -> ValidationPath:
    """Select the number of iterations by the error of left-out samples.

    Parts of the samples are left out in turn, LMNN is trained on the others, and after some
    iterations the left-out samples are classified by their nearest training samples. Errors of
    adjacent checkpoints are averaged with weights 1/4, 1/2 and 1/4. Since the error of a few
    hundred samples is noisy and the path is usually flat, the default number of 11 iterations is
    replaced by the number with the smallest error only if the difference exceeds its standard
    error.

    Parameters
    ----------
    run : callable
        ``run(train, after_iteration)`` trains on the samples with the indices `train`.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    codes : ndarray of shape (n_samples,)
        Class of each sample: 0, 1, ...
    weights : ndarray of shape (n_samples,) or None
        Sample weights of the errors.
    max_iter : int
        Largest number of iterations.
    n_jobs : int, default=None
        Number of threads of the neighbour search.

    Returns
    -------
    ValidationPath
        The selected number and the errors.
    """
    checkpoints = [n for n in CHECKPOINTS if n < max_iter] + [max_iter]
    default = int(np.searchsorted(checkpoints, min(DEFAULT_N_ITER, max_iter)))
    errors, weight, n_left_out = [], [], 0
    for left_out in left_out_folds(codes):
        train = np.setdiff1d(np.arange(len(X)), left_out)
        if len(np.unique(codes[train])) < 2 or np.bincount(codes[train]).max() < 2:
            continue
        errors.append(_path_errors(run, X, codes, train, left_out, checkpoints, default, n_jobs))
        weight.append(np.ones(len(left_out)) if weights is None else weights[left_out])
        n_left_out += len(left_out)
        if n_left_out >= N_LEFT_OUT:
            break
    n_checkpoints = max((len(path) for path in errors), default=0)
    if n_checkpoints <= default:
        return ValidationPath(checkpoints[default], np.empty(0, int), np.empty(0))
    # A path that ended early keeps its last error.
    wrong = np.hstack([path[np.minimum(range(n_checkpoints), len(path) - 1)] for path in errors])
    w = np.concatenate(weight) / np.concatenate(weight).sum()
    padded = np.pad(wrong @ w, 1, mode="edge")
    smooth = padded[:-2] / 4 + padded[1:-1] / 2 + padded[2:] / 4
    best = int(np.argmin(smooth))
    difference = wrong[default] - wrong[best]
    stderr = np.sqrt(((w * (difference - w @ difference)) ** 2).sum())
    chosen = best if smooth[default] - smooth[best] > stderr else default
    numbers = np.array(checkpoints[:n_checkpoints])
    return ValidationPath(int(numbers[chosen]), numbers, wrong @ w)


def _path_errors(
    run: PathFunction,
    X: FloatArray,
    codes: IntArray,
    train: IntArray,
    left_out: IntArray,
    checkpoints: list[int],
    default: int,
    n_jobs: int | None,
) -> FloatArray:
    """Compute the errors of one part at the checkpoints, shape (n_checkpoints, n_left_out)."""
    path: list[FloatArray] = []
    waiting = 0  # checkpoints since the lowest error

    def after_iteration(n_iter: int, L: FloatArray) -> bool:
        nonlocal waiting
        if n_iter != checkpoints[len(path)]:
            return False
        error = neighbor_errors(X @ L.T, codes, left_out, n_jobs)
        lowest = min((e.mean() for e in path), default=np.inf)
        waiting = 0 if error.mean() < lowest else waiting + 1
        path.append(error)
        return len(path) == len(checkpoints) or (
            waiting >= PATIENCE and len(path) > default + PATIENCE
        )

    run(train, after_iteration)
    while len(path) <= default:  # converged before the default number of iterations
        path.append(path[-1])
    return np.array(path)
