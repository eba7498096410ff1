"""Selection of the map of embeddings on left-out classes and left-out samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from genmetric._chunks import one_blas_thread
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._unit_vectors import unit_or_zero_vectors
from genmetric.density._two_covariance import PooledMoments, TwoCovariances
from genmetric.geometry._pair_similarity import (
    WEIGHTINGS,
    Weighting,
    discriminant_axes,
    similarity_factor,
)
from genmetric.learners._splits import deal_folds
from genmetric.metrics import precision_sums

SearchClasses = Literal["any", "new", "training"]

#: Grids of the selection.
WITHIN_FACTORS = (1.0, 4.0, 16.0, 64.0)
BETWEEN_SHRINKAGES = (0.1, 0.5, 0.95)

#: Number of splits by classes, and of splits by samples.
N_SPLITS = 3

#: Samples that the selection uses, the most queries of a split, and the least number of samples per
#: class if classes have to be left out of it.
MAX_SAMPLES, MAX_QUERIES, MIN_PER_CLASS = 3072, 500, 8

#: Loss in searches among new classes that "any" accepts for a better search among training classes,
#: relative to the best score.
TOLERANCE = 0.03

#: Principal components in which the parameters are selected if there are more features.
MAX_FEATURES = 320


@dataclass(frozen=True)
class MapParameters:
    """Parameters of the map.

    Attributes
    ----------
    within_factor, between_shrinkage : float
        Shrinkage of the covariances: see :meth:`TwoCovariances.regularised`.
    weighting : {"whitening", "reliability", "detection"}
        Weights of the axes: see :func:`similarity_weights`.
    """

    within_factor: float = 4.0
    between_shrinkage: float = 0.5
    weighting: Weighting = "detection"


class Selection(NamedTuple):
    """Result of a selection.

    Attributes
    ----------
    parameters : MapParameters
        The best parameters.
    scores : dict
        ``"params"``, a list with one entry per candidate, and the arrays ``"new_classes"`` and
        ``"training_classes"`` of mAP@R, if scored. Empty if the samples could not be split.
    """

    parameters: MapParameters
    scores: dict[str, Any]


class Search(NamedTuple):
    """Samples to fit a map on, and a search that scores it."""

    train: IntArray
    references: IntArray
    queries: IntArray | None


def embedding_map(
    moments: PooledMoments, parameters: MapParameters, n_components: int | None
) -> FloatArray:
    """Return the map L of given parameters, shape (n_components, n_features)."""
    within, between = TwoCovariances.of(moments).regularised(
        parameters.within_factor, parameters.between_shrinkage
    )
    axes, ratios = discriminant_axes(within, between)
    return similarity_factor(axes, ratios, parameters.weighting, n_components)


def candidate_maps(
    moments: PooledMoments, n_components: int | None
) -> Iterator[tuple[MapParameters, FloatArray]]:
    """Yield the maps of all parameters of the grids; weightings share one diagonalisation."""
    covariances = TwoCovariances.of(moments)
    for factor, shrinkage in product(WITHIN_FACTORS, BETWEEN_SHRINKAGES):
        axes, ratios = discriminant_axes(*covariances.regularised(factor, shrinkage))
        for weighting in WEIGHTINGS:
            parameters = MapParameters(factor, shrinkage, weighting)
            yield parameters, similarity_factor(axes, ratios, weighting, n_components)


def select_parameters(
    X: AnyArray,
    codes: IntArray,
    search_classes: SearchClasses,
    *,
    n_components: int | None,
    normalize: bool,
    rng: np.random.RandomState,
    n_jobs: int | None = None,
) -> Selection:
    """Select the parameters of the map by the mAP@R of searches.

    Searches among new classes fit the map on two thirds of the classes and search the samples of
    the other third among themselves. Searches among the training classes fit it on two thirds of
    the samples of each class and search the others among these. Both are repeated for each third,
    and the score of a candidate is the mean over all searches of one kind.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples, of unit length if `normalize`.
    codes : ndarray of shape (n_samples,)
        Class of each sample.
    search_classes : {"any", "new", "training"}
        Searches to score; "any" scores both kinds, see :func:`best_candidate`.
    n_components : int or None
        Output dimension.
    normalize : bool
        Whether outputs are compared by their angle.
    rng : RandomState
        Random number generator of the splits.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    Selection
        The parameters and the scores of all candidates.
    """
    rows = selection_samples(codes, rng)
    x, codes = X[rows], np.unique(codes[rows], return_inverse=True)[1]
    kinds = {"new_classes": _by_class, "training_classes": _by_sample}
    if search_classes != "any":
        kinds = {name: kinds[name] for name in kinds if name.startswith(search_classes)}
    with one_blas_thread():
        x = _reduced(x)
        if n_components is not None:
            n_components = min(n_components, x.shape[1])
        scores = {
            name: np.mean([_scores(x, codes, s, n_components, normalize, n_jobs) for s in found], 0)
            for name, make in kinds.items()
            if (found := list(make(codes, rng)))
        }
    if not scores:
        return Selection(MapParameters(), {})
    grid = [
        MapParameters(*values) for values in product(WITHIN_FACTORS, BETWEEN_SHRINKAGES, WEIGHTINGS)
    ]
    best = best_candidate(list(scores.values()))
    return Selection(grid[best], {"params": [asdict(p) for p in grid], **scores})


def best_candidate(scores: list[FloatArray]) -> int:
    """Return the best candidate: by the first scores up to a tolerance, then by the last.

    Maps that separate the training classes best can be worse than no map at all for other classes,
    so that searches among new classes come first. Of the candidates whose score there is within
    3 per cent of the best, the one with the best score among the training classes is selected.

    Parameters
    ----------
    scores : list of ndarray of shape (n_candidates,)
        Scores of one kind of search, or of new classes and training classes in this order.

    Returns
    -------
    int
        Index of the candidate; the first of equal ones.
    """
    first, last = scores[0], scores[-1]
    return int(np.argmax(np.where(first >= (1 - TOLERANCE) * first.max(), last, -np.inf)))


def selection_samples(codes: IntArray, rng: np.random.RandomState) -> IntArray:
    """Draw the samples of the selection: whole classes if they are small, else a part of each.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,)
        Class of each sample.
    rng : RandomState
        Random number generator.

    Returns
    -------
    ndarray of int
        Ascending indices of at most :data:`MAX_SAMPLES` samples.
    """
    if len(codes) <= MAX_SAMPLES:
        return np.arange(len(codes))
    n_classes = int(codes.max()) + 1
    limit = max(MAX_SAMPLES // n_classes, MIN_PER_CLASS)
    # Shuffled classes, and shuffled samples in each; then the first samples of each class.
    order = rng.permutation(len(codes))
    order = order[np.argsort(rng.permutation(n_classes)[codes[order]], kind="stable")]
    starts = np.flatnonzero(np.r_[True, np.diff(codes[order]) != 0])
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    return np.sort(order[rank < limit][:MAX_SAMPLES])


def _reduced(x: AnyArray) -> AnyArray:
    """Return the leading principal components of samples with many features."""
    if x.shape[1] <= MAX_FEATURES:
        return x
    e = x - x.mean(axis=0, dtype=float).astype(x.dtype)
    vectors = np.linalg.eigh(e.T @ e)[1][:, ::-1][:, :MAX_FEATURES]
    return np.asarray(e @ vectors)


def _by_class(codes: IntArray, rng: np.random.RandomState) -> Iterator[Search]:
    """Yield searches among the samples of left-out classes."""
    n_classes = int(codes.max()) + 1
    fold = rng.permutation(np.arange(n_classes) % N_SPLITS)[codes]
    for k in range(N_SPLITS):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        counts = np.bincount(codes[test], minlength=n_classes)
        if _can_fit(codes[train]) and counts.max() > 1 and np.count_nonzero(counts) > 1:
            yield Search(train, rng.permutation(test)[: 2 * MAX_QUERIES], None)


def _by_sample(codes: IntArray, rng: np.random.RandomState) -> Iterator[Search]:
    """Yield searches of left-out samples among the samples of the fit."""
    fold = deal_folds(codes, N_SPLITS, rng)
    for k in range(N_SPLITS):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        test = test[np.isin(codes[test], codes[train])]
        if _can_fit(codes[train]) and len(test):
            yield Search(train, train, rng.permutation(test)[:MAX_QUERIES])


def _can_fit(codes: IntArray) -> bool:
    """Return whether there are two classes, and a class of two samples."""
    counts = np.bincount(codes) if len(codes) else np.zeros(1)
    return bool(np.count_nonzero(counts) > 1 and counts.max() > 1)


def _scores(
    x: AnyArray,
    codes: IntArray,
    search: Search,
    n_components: int | None,
    normalize: bool,
    n_jobs: int | None,
) -> FloatArray:
    """Return the mAP@R of all candidates in one search."""
    moments = PooledMoments.of(
        x[search.train], codes[search.train], int(codes.max()) + 1, n_jobs=n_jobs
    )
    center = (moments.count @ moments.mean / moments.count.sum()).astype(x.dtype)
    references, labels = x[search.references] - center, codes[search.references]
    queries = None if search.queries is None else x[search.queries] - center
    asked = None if search.queries is None else codes[search.queries]

    def mapped(z: AnyArray, L: FloatArray) -> AnyArray:
        z = z @ L.T.astype(x.dtype)
        return unit_or_zero_vectors(z) if normalize else z

    return np.array(
        [
            mean_average_precision(
                mapped(references, L),
                labels,
                None if queries is None else mapped(queries, L),
                asked,
            )
            for _, L in candidate_maps(moments, n_components)
        ]
    )


def mean_average_precision(
    references: AnyArray, labels: IntArray, queries: AnyArray | None, asked: IntArray | None
) -> float:
    """Compute mAP@R from one product of all queries with all references.

    :func:`genmetric.metrics.mean_average_precision_at_r` has the definition. Its search is exact
    and needs little memory; this one is faster for few references of large classes.

    Parameters
    ----------
    references : ndarray of shape (n_references, n_components)
        Mapped references.
    labels : ndarray of shape (n_references,)
        Their class indices.
    queries : ndarray of shape (n_queries, n_components) or None
        Mapped queries; None uses each reference as a query among the others.
    asked : ndarray of shape (n_queries,) or None
        Class indices of the queries.

    Returns
    -------
    float
        Mean over the queries that have a reference of their class; zero if there are none.
    """
    leave_one_out = queries is None
    z = references if queries is None else queries
    own = labels if asked is None else asked
    nearness = 2 * (z @ references.T) - np.einsum("ij,ij->i", references, references)
    if leave_one_out:
        np.fill_diagonal(nearness, -np.inf)
    counts = np.bincount(labels, minlength=int(own.max()) + 1)
    n_relevant = counts[own] - int(leave_one_out)
    nearness, own, n_relevant = (a[n_relevant > 0] for a in (nearness, own, n_relevant))
    if not len(own):
        return 0.0
    depth = int(n_relevant.max())
    found = np.argpartition(-nearness, depth - 1, axis=1)[:, :depth]
    order = np.argsort(-np.take_along_axis(nearness, found, axis=1), axis=1, kind="stable")
    match = labels[np.take_along_axis(found, order, axis=1)] == own[:, None]
    return float(precision_sums(match, n_relevant)[1] / len(own))
