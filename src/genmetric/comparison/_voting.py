"""Vote or average of nearest neighbours under a metric, with the number of neighbours selected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from genmetric._averages import select_n_neighbors_to_average
from genmetric._scoring import Task
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import rows_by_class
from genmetric._votes import N_NEIGHBORS, select_n_neighbors, vote_errors
from genmetric.learners._sampling import draw_classes


def fit_voting(
    metric: Any,
    X: FloatArray,
    y: AnyArray,
    *,
    seed: int = 0,
    max_samples: int | None = None,
    standardise: bool = True,
    n_neighbors: int | None = None,
    task: Task = "classification",
) -> tuple[Pipeline, Mapping[str, Any], tuple[IntArray, FloatArray]]:
    """Fit a metric and a nearest-neighbour classifier or regressor under it.

    Parameters
    ----------
    metric : transformer or None
        The unfitted metric; ``None`` is Euclidean distance.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    y : ndarray of shape (n_samples,)
        Class labels, or numeric targets.
    seed : int, default=0
        Seed of subsamples.
    max_samples : int, default=None
        Most samples that the metric is learned from; all samples are neighbours in any case.
    standardise : bool, default=True
        Whether features are scaled to unit variance; they are centred in any case.
    n_neighbors : int, default=None
        Number of neighbours; selected by leave-one-out by default.
    task : {"classification", "regression"}, default="classification"
        Whether neighbours vote for a class or their targets are averaged.

    Returns
    -------
    model : Pipeline
        Steps "scale", "metric" (if there is one) and "neighbors".
    parameters : dict
        Selected parameters.
    by_k : (ks, errors)
        Leave-one-out errors by number of neighbours: error rates, or 1 - R².
    """
    scale = StandardScaler(with_std=standardise).fit(X)
    Z = scale.transform(X)
    steps: list[tuple[str, Any]] = [("scale", scale)]
    selected: dict[str, Any] = {}
    if metric is not None:
        rows: Any = slice(None)
        if max_samples is not None and len(y) > max_samples:
            rows = draw_sample(y, max_samples, seed, task)
        metric.fit(Z[rows], y[rows])
        steps.append(("metric", metric))
        Z = metric.transform(Z)
        selected = dict(getattr(metric, "best_params_", {}))
    # A metric that selects a number of neighbours evaluated it on samples it was not fitted on.
    own = selected.pop("n_neighbors", None)
    neighbors, by_k = fit_neighbors(Z, y, own if n_neighbors is None else n_neighbors, seed, task)
    steps.append(("neighbors", neighbors))
    return Pipeline(steps), {**selected, "n_neighbors": neighbors.n_neighbors}, by_k


def fit_neighbors(
    Z: FloatArray, y: AnyArray, n_neighbors: int | None, seed: int, task: Task
) -> tuple[Any, tuple[IntArray, FloatArray]]:
    """Fit a nearest-neighbour classifier or regressor in the space of a metric.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Samples in the space of the metric.
    y : ndarray of shape (n_samples,)
        Class labels, or numeric targets.
    n_neighbors : int or None
        Number of neighbours; None selects it by leave-one-out.
    seed : int
        Seed of subsamples.
    task : {"classification", "regression"}
        Whether neighbours vote for a class or their targets are averaged.

    Returns
    -------
    neighbors : KNeighborsClassifier or KNeighborsRegressor
        The fitted estimator.
    by_k : (ks, errors)
        Leave-one-out errors by number of neighbours: error rates, or 1 - R².
    """
    numeric = task == "regression"
    select = select_n_neighbors_to_average if numeric else select_n_neighbors
    best, ks, errors = select(Z, y, random_state=seed)
    k = min(int(best if n_neighbors is None else n_neighbors), len(Z))
    neighbors = KNeighborsRegressor(k) if numeric else KNeighborsClassifier(k)
    return neighbors.fit(Z, y), (ks, errors)


def error_by_neighbors(
    model: Pipeline, y_train: IntArray, X: FloatArray, y: IntArray, n_classes: int
) -> tuple[IntArray, FloatArray]:
    """Compute the error on test samples for every number of neighbours that is selected from.

    Parameters
    ----------
    model : Pipeline
        As returned by :func:`fit_voting`.
    y_train : ndarray of int of shape (n_train,)
        Class codes of the training samples, in the order of the fit.
    X : ndarray of shape (n_test, n_features)
        Test samples.
    y : ndarray of int of shape (n_test,)
        Their class codes.
    n_classes : int
        Number of classes.

    Returns
    -------
    ks : ndarray of shape (n_numbers,)
        Numbers of neighbours that the training samples allow.
    errors : ndarray of shape (n_numbers,)
        Error of each; ties between classes go to the first, as in the classifier.
    """
    ks = np.array([k for k in N_NEIGHBORS if k <= len(y_train)])
    found = model["neighbors"].kneighbors(
        model[:-1].transform(X), n_neighbors=int(ks.max()), return_distance=False
    )
    return ks, vote_errors(y_train[found], y, n_classes, ks)


def draw_sample(y: AnyArray, n_samples: int, seed: int, task: Task) -> IntArray:
    """Draw samples at random, of each class in proportion if the targets are classes.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Class labels, or numeric targets.
    n_samples : int
        Number of samples to draw, at most n.
    seed : int
        Seed of the draw.
    task : {"classification", "regression"}
        Kind of target.

    Returns
    -------
    ndarray of int
        Indices in ascending order.
    """
    if task == "classification":
        return stratified_sample(y, n_samples, seed)
    rng = np.random.default_rng(seed)
    return np.sort(rng.permutation(len(y))[:n_samples])


def stratified_sample(y: AnyArray, n_samples: int, seed: int) -> IntArray:
    """Draw about `n_samples` samples, each class in proportion and with two samples if possible.

    If two samples of every class would be more than `n_samples`, random classes are drawn first.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Class labels.
    n_samples : int
        Number of samples to draw.
    seed : int
        Seed of the draw.

    Returns
    -------
    ndarray of int
        Indices in ascending order.
    """
    rng = np.random.default_rng(seed)
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    share = min(1.0, n_samples / len(y))
    drawn = np.arange(len(counts))
    if 2 * len(counts) > n_samples:
        sizes = np.minimum(counts, np.maximum(2, np.round(share * counts)))
        drawn = draw_classes(sizes, n_samples, rng)
    members = rows_by_class(codes, len(counts))
    kept = [rng.permutation(members[c])[: max(2, round(share * counts[c]))] for c in drawn]
    return np.sort(np.concatenate(kept))
