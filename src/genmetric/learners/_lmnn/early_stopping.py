"""The error of nearest-neighbour votes that ends the iterations of LMNN."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from genmetric._search import nearest_neighbors
from genmetric._typing import FloatArray, IntArray
from genmetric._votes import majority_vote
from genmetric.learners._early_stopping import left_out_folds

#: Number of iterations that is kept unless another one is better by more than a standard error.
DEFAULT_N_ITER = 11
#: Numbers of neighbours whose errors are averaged: the average varies less than a single one.
N_NEIGHBORS = (1, 3, 5)


def class_folds(codes: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the indices of training and left-out samples if the training samples have targets.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,)
        Class of each sample: 0, 1, ...

    Yields
    ------
    tuple of ndarray
        Training samples, of two classes and with two samples of one, and left-out samples.
    """
    for left_out in left_out_folds(codes):
        train = np.setdiff1d(np.arange(len(codes)), left_out)
        if len(np.unique(codes[train])) > 1 and np.bincount(codes[train]).max() > 1:
            yield train, left_out


def neighbor_errors(
    Z: FloatArray,
    codes: IntArray,
    Z_left_out: FloatArray,
    codes_left_out: IntArray,
    n_jobs: int | None = None,
) -> FloatArray:
    """Compute the error of nearest-neighbour votes for left-out samples.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Samples that vote, in the space of the metric.
    codes : ndarray of shape (n_samples,)
        Their classes.
    Z_left_out : ndarray of shape (n_left_out, n_components)
        Samples to classify.
    codes_left_out : ndarray of shape (n_left_out,)
        Their classes.
    n_jobs : int, default=None
        Number of threads.

    Returns
    -------
    ndarray of shape (n_left_out,)
        Fraction of wrong predictions of each sample over 1, 3 and 5 neighbours.
    """
    found = nearest_neighbors(Z, min(N_NEIGHBORS[-1], len(Z)), queries=Z_left_out, n_jobs=n_jobs)
    labels, n_classes = codes[found.indices], int(codes.max()) + 1
    wrong = np.zeros(len(Z_left_out))
    for n_neighbors in N_NEIGHBORS:
        wrong += majority_vote(labels[:, :n_neighbors], n_classes) != codes_left_out
    return wrong / len(N_NEIGHBORS)
