"""Nearest neighbours under a learned metric, and the features that explain their distance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmetric._search import nearest_neighbors
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import check_count
from genmetric.inspection._contributions import factored_contributions
from genmetric.inspection._linear_map import LinearMap, linear_map


@dataclass(frozen=True)
class NeighborExplanation:
    """Nearest neighbours of samples and the contribution of each feature to their distances.

    Attributes
    ----------
    distances : ndarray of shape (n_queries, n_neighbors)
        Distances in ascending order.
    indices : ndarray of shape (n_queries, n_neighbors)
        Positions of the neighbours in the reference samples; at equal distance the earlier first.
    contributions : ndarray of shape (n_queries, n_neighbors, n_features)
        Contribution of each feature to the squared distance, see :func:`pair_contributions`.
    feature_names : tuple of str
        Names of the features.
    names : ndarray of shape (n_queries, n_neighbors) or None
        Names of the neighbours, if the reference samples have names.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.inspection import explain_neighbors
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> found = explain_neighbors(GenerativeMetric().fit(X, y), X, n_neighbors=1)
    >>> found.top_features(2).shape
    (150, 1, 2)
    """

    distances: FloatArray
    indices: IntArray
    contributions: FloatArray
    feature_names: tuple[str, ...]
    names: AnyArray | None = None

    @property
    def shares(self) -> FloatArray:
        """Contributions divided by the squared distance; zero where the distance is zero."""
        total = self.contributions.sum(axis=2, keepdims=True)
        share = np.zeros_like(self.contributions)
        return np.asarray(np.divide(self.contributions, total, out=share, where=total > 0))

    def top_features(self, n_features: int = 3) -> IntArray:
        """Return the features with the largest contributions by magnitude.

        Parameters
        ----------
        n_features : int, default=3
            Number of features per neighbour.

        Returns
        -------
        ndarray of shape (n_queries, n_neighbors, n_features)
            Positions of the features, largest magnitude first.
        """
        check_count(n_features, "n_features")
        order = np.argsort(-np.abs(self.contributions), axis=2, kind="stable")
        return np.asarray(order[:, :, :n_features], np.intp)


def explain_neighbors(
    estimator: Any,
    X: ArrayLike,
    X_reference: ArrayLike | None = None,
    *,
    n_neighbors: int = 5,
    feature_names: Sequence[Any] | None = None,
) -> NeighborExplanation:
    """Find nearest neighbours under the metric of an estimator and explain their distances.

    Parameters
    ----------
    estimator : object
        Any fitted estimator that :func:`linear_map` accepts.
    X : array-like of shape (n_queries, n_features)
        Samples whose neighbours are searched.
    X_reference : array-like of shape (n_samples, n_features), default=None
        Samples among which neighbours are searched. By default the other samples of `X`.
    n_neighbors : int, default=5
        Number of neighbours per query; fewer are returned if there are fewer reference samples.
    feature_names : sequence of length n_features, default=None
        Names of the features of the map; by default those of the fit.

    Returns
    -------
    NeighborExplanation
        Distances, indices and contributions.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.inspection import explain_neighbors
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> found = explain_neighbors(GenerativeMetric().fit(X, y), X[:2], X[2:], n_neighbors=3)
    >>> found.indices.shape, found.contributions.shape
    ((2, 3), (2, 3, 4))
    """
    own = 0 if X_reference is None else None
    reference = X if X_reference is None else X_reference
    into = linear_map(estimator, reference, feature_names=feature_names)
    queries = into.prepare(X)
    batches = [(queries if X_reference is None else into.prepare(reference), None)]
    return nearest_in_batches(into, queries, batches, n_neighbors=n_neighbors, first_query=own)


def nearest_in_batches(
    into: LinearMap,
    queries: FloatArray,
    batches: Iterable[tuple[FloatArray, ArrayLike | None]],
    *,
    n_neighbors: int = 5,
    first_query: int | None = None,
) -> NeighborExplanation:
    """Find the nearest reference samples of each query in batches of reference samples.

    The result does not depend on how the reference samples are divided. Only the neighbours
    found so far and one batch are in memory.

    Parameters
    ----------
    into : LinearMap
        The map whose metric is used.
    queries : ndarray of shape (n_queries, n_features)
        Features of the queries, as :meth:`LinearMap.prepare` returns them.
    batches : iterable of (features, names)
        Features of consecutive reference samples, and their names or None.
    n_neighbors : int, default=5
        Number of neighbours per query.
    first_query : int, default=None
        If the queries are reference samples themselves: position of the first one among them; the
        others follow it. A query is not its own neighbour.

    Returns
    -------
    NeighborExplanation
        Distances, indices, contributions and names.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.inspection import linear_map, nearest_in_batches
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> into = linear_map(GenerativeMetric().fit(X, y))
    >>> batches = [(X[:75], None), (X[75:], None)]
    >>> nearest_in_batches(into, X[:2], batches, n_neighbors=1, first_query=0).indices.shape
    (2, 1)
    """
    check_count(n_neighbors, "n_neighbors")
    n, d = queries.shape
    every = np.arange(n)
    z = into.map_features(queries)
    distances = np.full((n, 0), np.inf)
    indices = np.empty((n, 0), np.intp)
    found = np.empty((n, 0, d))
    names: AnyArray | None = None
    start = 0
    for features, batch_names in batches:
        if not len(features):
            continue
        mapped = into.map_features(features)
        # One more, for the query itself.
        k = min(n_neighbors + 1, len(features))
        gap, place = nearest_neighbors(mapped, k, queries=z)
        if first_query is not None:
            gap[place + start == (first_query + every)[:, None]] = np.inf
        distances = np.concatenate([distances, gap], axis=1)
        indices = np.concatenate([indices, place + start], axis=1)
        found = np.concatenate([found, features[place]], axis=1)
        if batch_names is not None:
            new = np.asarray(batch_names)[place]
            names = new if names is None else np.concatenate([names, new], axis=1)
        rank = every[:, None], np.lexsort((indices, distances), axis=1)[:, :n_neighbors]
        distances, indices, found = distances[rank], indices[rank], found[rank]
        names = None if names is None else names[rank]
        start += len(features)
    # If there are fewer other samples than neighbours, the query itself is left at infinity.
    kept = max(0, min(n_neighbors, start - (first_query is not None)))
    difference = found[:, :kept] - queries[:, None, :]
    return NeighborExplanation(
        distances[:, :kept],
        indices[:, :kept],
        factored_contributions(difference, into.matrix),
        into.feature_names_in,
        None if names is None else names[:, :kept],
    )
