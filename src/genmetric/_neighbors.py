"""Nearest neighbours in the space of a metric, their votes, and their number by leave-one-out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_array
from sklearn.utils.validation import has_fit_parameter

from genmetric._parallel import map_chunks, openmp_threads, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray

#: Numbers of neighbours to select from. Odd ones: two classes cannot tie.
N_NEIGHBORS = (1, 3, 5, 7, 9, 11, 15, 21)


class Neighbors(NamedTuple):
    """Distances and indices of the nearest references of each query, nearest first."""

    distances: FloatArray
    indices: IntArray


def nearest_neighbors(
    references: AnyArray,
    n_neighbors: int,
    *,
    queries: AnyArray | None = None,
    exclude: IntArray | None = None,
    n_jobs: int | None = None,
) -> Neighbors:
    """Find the nearest reference samples of each query, exactly.

    Parameters
    ----------
    references : ndarray of shape (n_references, n_features)
        Samples to search among, float32 or float64.
    n_neighbors : int
        Number of neighbours of each query.
    queries : ndarray of shape (n_queries, n_features), default=None
        Samples whose neighbours are searched. ``None`` searches the neighbours of the references,
        each without itself.
    exclude : ndarray of shape (n_queries,), default=None
        Index of one reference per query that is not a neighbour of it, such as the query itself;
        -1 excludes none.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    distances : ndarray of shape (n_queries, n_neighbors)
        Euclidean distances, ascending.
    indices : ndarray of shape (n_queries, n_neighbors)
        Indices of the references; equal distances are ordered by index. If several references tie
        for the last place, any of them may be found.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.neighbors import nearest_neighbors
    >>> line = np.array([[0.0], [1.0], [2.0], [5.0]])
    >>> distances, indices = nearest_neighbors(line, 2)
    >>> indices
    array([[1, 2],
           [0, 2],
           [1, 0],
           [2, 1]])
    """
    if queries is None:
        queries = references
        exclude = np.arange(len(references)) if exclude is None else exclude
    spare = exclude is not None and bool((exclude >= 0).any())
    check_n_neighbors(n_neighbors, len(references) - spare)
    if not len(queries):
        return Neighbors(np.empty((0, n_neighbors)), np.empty((0, n_neighbors), np.intp))
    x, z, unit = _centred(references, queries)
    search = NearestNeighbors(n_neighbors=n_neighbors + spare, n_jobs=n_jobs).fit(x)
    with openmp_threads(n_jobs):
        found = search.kneighbors(z, return_distance=False)
    if exclude is not None and spare:
        # Drop the excluded reference of each row, or the last one where it was not found.
        kept = found != exclude[:, None]
        kept[kept.all(axis=1), -1] = False
        found = found[kept].reshape(len(queries), n_neighbors)

    def exact(rows: slice) -> Neighbors:
        # The search may compute distances as differences of norms, with the errors of these.
        e = np.subtract(references[found[rows]], queries[rows, None], dtype=float) / unit
        distances = unit * np.sqrt(np.einsum("ijk,ijk->ij", e, e))
        order = np.lexsort((found[rows], distances))
        return Neighbors(*(np.take_along_axis(a, order, 1) for a in (distances, found[rows])))

    chunks = row_chunks(len(queries), 16 * n_neighbors * queries.shape[1])
    distances, indices = zip(*map_chunks(exact, chunks, n_jobs), strict=True)
    return Neighbors(np.concatenate(distances), np.concatenate(indices))


def check_n_neighbors(n_neighbors: int, n_samples: int) -> None:
    """Raise if there are fewer samples than neighbours."""
    if not 1 <= n_neighbors <= n_samples:
        raise ValueError(
            f"n_neighbors must be between 1 and {n_samples}, the number of samples that can be "
            f"neighbours; got {n_neighbors}. Use fewer neighbours or more samples."
        )


def _centred(references: AnyArray, queries: AnyArray) -> tuple[AnyArray, AnyArray, float]:
    """Centre and scale: scikit-learn's search is wrong for large offsets and extreme scales."""
    center = references.mean(axis=0, dtype=float)
    size = float(np.abs(references - center).max(initial=0.0)) or 1.0
    unit = 2.0 ** np.round(np.log2(size))  # a power of two: the division is exact
    kind = np.float32 if references.dtype == queries.dtype == np.float32 else np.float64
    x, z = (((rows - center) / unit).astype(kind, copy=False) for rows in (references, queries))
    return x, z, float(unit)


def squared_distances(queries: FloatArray, samples: FloatArray) -> FloatArray:
    """Return squared Euclidean distances; with fewer copies than scikit-learn's function."""
    distances = queries @ samples.T
    distances *= -2
    distances += np.einsum("ij,ij->i", queries, queries)[:, None]
    distances += np.einsum("ij,ij->i", samples, samples)
    return np.maximum(distances, 0, out=distances)


def fit_metric(
    metric: Any, X: Any, x: AnyArray, y: AnyArray, sample_weight: FloatArray | None = None
) -> Any:
    """Clone and fit the transformer of a predictor; None is Euclidean distance."""
    if metric is None:
        return None
    options = {}
    if sample_weight is not None and has_fit_parameter(metric, "sample_weight"):
        options = {"sample_weight": sample_weight}
    return clone(metric).fit(_with_names(X, x), y, **options)


def metric_space(metric: Any, X: Any, x: AnyArray) -> AnyArray:
    """Map samples to the space of a fitted metric and check the result."""
    if metric is None:
        return x
    z = check_array(metric.transform(_with_names(X, x)), dtype=[np.float64, np.float32])
    if len(z) != len(x):
        raise ValueError(
            f"metric.transform returned {len(z)} rows for {len(x)} samples of X. It must return one "
            "row per sample."
        )
    return np.asarray(z)


def _with_names(X: Any, x: AnyArray) -> Any:
    """Return `X` if it is a data frame, since a metric fitted on names expects them again."""
    return X if hasattr(X, "columns") else x


def refuse_distant(z: FloatArray, farthest: float) -> None:
    """Raise if a query, in units of the spread of the training samples, is too far from them."""
    far = float(np.abs(z).max(initial=0.0))
    if not far < farthest:
        raise ValueError(
            f"A sample of X lies {far:.1e} spreads away from the training samples, too far for "
            "float64 to tell distances apart. Check X for outliers."
        )


def unit_vectors(X: AnyArray) -> AnyArray:
    """Scale samples to unit length, in float64 by chunks, of the dtype of X; zeros stay zero.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric._neighbors import unit_vectors
    >>> unit_vectors(np.array([[3.0, 4.0], [1e-200, 0.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [1. , 0. ],
           [0. , 0. ]])
    """
    out = np.empty_like(X)
    for rows in row_chunks(len(X), 24 * X.shape[1]):
        # The largest entry first: the squares of 1e-200 are not representable.
        largest = np.abs(X[rows]).max(axis=1, keepdims=True, initial=0.0)
        x = X[rows].astype(float) / np.where(largest == 0, 1.0, largest)
        length = np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]
        out[rows] = x / np.where(length == 0, 1.0, length)
    return out


def directions(X: AnyArray, name: str = "X") -> AnyArray:
    """Scale samples to unit length for a search by cosine; raise a ValueError for zero vectors."""
    zero = np.flatnonzero(~X.any(axis=1))
    if len(zero):
        vectors = "1 zero vector" if len(zero) == 1 else f"{len(zero)} zero vectors"
        raise ValueError(
            f"{name} has {vectors} (the first is sample {zero[0]}), which have no direction. Drop "
            'them, or use metric="euclidean".'
        )
    return unit_vectors(X)


def class_probabilities(labels: IntArray, n_classes: int) -> FloatArray:
    """Compute the fraction of the votes for each class, shape (n_queries, n_classes)."""
    cells = labels + n_classes * np.arange(len(labels))[:, None]
    votes = np.bincount(cells.ravel(), minlength=len(labels) * n_classes)
    return np.asarray(votes.reshape(len(labels), n_classes) / labels.shape[1])


def majority_votes(labels: IntArray, n_classes: int) -> IntArray:
    """Find the class with the most votes among the first 1, 2, ... neighbours of each query.

    Ties go to the first class, as in scikit-learn's KNeighborsClassifier.

    Parameters
    ----------
    labels : ndarray of shape (n_queries, n_neighbors)
        Class of each neighbour, nearest first, in ``range(n_classes)``.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_queries, n_neighbors)
        Column k - 1 is the majority vote of k neighbours.
    """
    winners = np.empty(labels.shape, np.intp)
    for rows in row_chunks(len(labels), 24 * labels.shape[1]):
        own = labels[rows]
        votes = np.zeros(own.shape, np.intp)  # of the class of each neighbour
        for k in range(own.shape[1]):
            votes += own == own[:, [k]]
            leader = np.argmax(votes[:, : k + 1] * n_classes - own[:, : k + 1], axis=1)
            winners[rows, k] = own[np.arange(len(own)), leader]
    return winners


def vote_errors(
    labels: IntArray,
    truth: IntArray,
    n_classes: int,
    n_neighbors: IntArray,
    *,
    sample_weight: FloatArray | None = None,
) -> FloatArray:
    """Compute the error rate of the majority vote of the first k neighbours, for several k.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric._neighbors import vote_errors
    >>> labels, truth = np.array([[1, 0, 0], [1, 1, 0]]), np.array([0, 1])
    >>> vote_errors(labels, truth, 2, np.array([1, 2, 3]))
    array([0.5, 0. , 0. ])
    """
    n_neighbors = np.asarray(n_neighbors)
    winners = majority_votes(labels[:, : int(n_neighbors.max())], n_classes)
    wrong = (winners != truth[:, None])[:, n_neighbors - 1]
    return np.asarray(np.average(wrong, axis=0, weights=sample_weight))


def average_errors(targets: FloatArray, truth: FloatArray, n_neighbors: IntArray) -> FloatArray:
    """Compute squared errors of the average of the first k targets, one column per k."""
    ks = np.asarray(n_neighbors)
    return np.asarray((np.cumsum(targets, axis=1)[:, ks - 1] / ks - truth[:, None]) ** 2)


class NeighborSelection(NamedTuple):
    """Number of neighbours selected by leave-one-out, the numbers compared, and their errors."""

    n_neighbors: int
    candidates: IntArray
    errors: FloatArray


def select_n_neighbors(
    Z: AnyArray,
    y: AnyArray,
    candidates: Any = N_NEIGHBORS,
    *,
    average: bool = False,
    max_queries: int = 5000,
    max_references: int = 50_000,
    random_state: int = 0,
    n_jobs: int | None = None,
    sample_weight: FloatArray | None = None,
) -> NeighborSelection:
    """Select the number of neighbours with the lowest leave-one-out error; ties go to the smaller.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Samples in the learned space.
    y : ndarray of shape (n_samples,)
        Class labels, or numeric targets if `average` is True.
    candidates : array-like of int, default=(1, 3, 5, 7, 9, 11, 15, 21)
        Numbers of neighbours to compare. Those that exceed the number of other samples are
        skipped; if all are, the result is 1.
    average : bool, default=False
        Whether neighbours are averaged, with the error 1 - R², instead of voting.
    max_queries, max_references : int
        Largest numbers of samples to predict and to search among; beyond them random subsets.
        Larger values make the estimate more precise and slower.
    random_state : int, default=0
        Seed of the random subsets.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.
    sample_weight : ndarray of shape (n_samples,), default=None
        Weight of each sample in the error; in a vote every neighbour counts once.

    Returns
    -------
    NeighborSelection
        The selected number, the candidates and their errors. The errors are too low as estimates
        for a metric that was fitted to the same samples.

    Examples
    --------
    >>> from genmetric.neighbors import select_n_neighbors
    >>> from sklearn.datasets import load_iris
    >>> select_n_neighbors(*load_iris(return_X_y=True), [1, 9, 75]).n_neighbors
    9
    """
    rng = np.random.default_rng(random_state)
    references = np.arange(len(Z))
    if len(references) > max_references:
        references = np.sort(rng.choice(references, max_references, replace=False))
    queries = references
    if len(queries) > max_queries:
        queries = np.sort(rng.choice(queries, max_queries, replace=False))
    ks = np.asarray(candidates, np.intp)
    ks = ks[ks < len(references)]
    if not len(ks):
        return NeighborSelection(1, np.array([1]), np.array([np.nan]))
    itself = np.searchsorted(references, queries)
    found = nearest_neighbors(
        Z[references], int(ks.max()), queries=Z[queries], exclude=itself, n_jobs=n_jobs
    )
    neighbors = references[found.indices]
    weight = None if sample_weight is None else sample_weight[queries]
    if average:
        residuals = (y - np.mean(y)) / (np.std(y) or 1.0)
        squares = average_errors(residuals[neighbors], residuals[queries], ks)
        errors = np.average(squares, axis=0, weights=weight)
    else:
        classes, codes = np.unique(y, return_inverse=True)
        errors = vote_errors(
            codes[neighbors], codes[queries], len(classes), ks, sample_weight=weight
        )
    return NeighborSelection(int(ks[np.lexsort((ks, errors))[0]]), ks, errors)
