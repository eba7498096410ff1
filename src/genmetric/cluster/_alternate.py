r"""EM-like iteration between k-means and the averaged local metric (appendix D of the paper).

Iteration 0 is Euclidean k-means. Iteration r uses the clusters of iteration r-1 as classes,
averages their local metrics, and runs k-means in this metric from the centres of iteration r-1. An
iteration is a deterministic map between partitions, of which there are finitely many, so the
iteration either converges or cycles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from genmetric._typing import FloatArray, IntArray
from genmetric._warnings import suppress_warnings
from genmetric.cluster._lloyd import best_start, lloyd
from genmetric.density._covariance import Shrinkage
from genmetric.density._gaussian import fit_gaussians
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import ClassStatistics, class_statistics
from genmetric.geometry._factor import symmetric_root, unit_determinant
from genmetric.geometry._local import interpolate
from genmetric.geometry._summation import choose_solver, sum_local_metrics


@dataclass(frozen=True)
class Clustering:
    """Result of one iteration.

    Attributes
    ----------
    labels : ndarray of shape (n_samples,)
        Cluster of each sample.
    centers : ndarray of shape (n_clusters, n_features)
        Means of the clusters. An empty cluster keeps its previous centre.
    metric : ndarray of shape (n_features, n_features)
        Metric of the iteration, with determinant one; the identity in iteration 0.
    unexplained : float
        Inertia divided by the inertia about the common mean, both in `metric`, in [0, 1].
    """

    labels: IntArray
    centers: FloatArray
    metric: FloatArray
    unexplained: float


@dataclass(frozen=True)
class Alternation:
    """Result of all iterations.

    Attributes
    ----------
    rounds : list of Clustering
        All iterations, starting with iteration 0.
    best : int
        Index of the iteration to keep.
    stopped_by : {"labels", "cycle", "collapse", "max_iter"}
        Reason for the end: no label changed; a partition repeated; the next iteration would have
        emptied a cluster; `max_iter` was reached.
    """

    rounds: list[Clustering]
    best: int
    stopped_by: str


def cluster_metric(
    X: FloatArray,
    stats: ClassStatistics,
    *,
    shrinkage: Shrinkage = 0.1,
    interpolation: float = 0.7,
    sample_weight: FloatArray | None = None,
    n_jobs: int | None = None,
) -> FloatArray:
    r"""Average the local metrics of clusters, interpolate, and scale to determinant one.

    .. math:: M \propto (1-\lambda) I + \lambda \frac1N \sum_i M_i .

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    stats : ClassStatistics
        Count, mean and scatter of each cluster. Empty clusters are ignored.
    shrinkage : None, "auto" or float, default=0.1
        Shrinkage of the cluster covariances, see :func:`~genmetric.density.fit_gaussians`. A
        cluster of one sample or without scatter takes the pooled covariance.
    interpolation : float, default=0.7
        Weight lambda of the local metrics. Smaller values regularise towards the identity.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequency weights.
    n_jobs : int, default=None
        Number of threads. Results are bit-identical for every value.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        The metric; the identity if fewer than two clusters have samples.
    """
    n_rows, n_features = X.shape
    present = np.flatnonzero(stats.count)
    if len(present) < 2 or interpolation == 0:
        return np.eye(n_features)
    # The caller cannot prevent clusters with few samples, so they do not warn.
    with suppress_warnings(UserWarning, "Classes .* have a single|The covariances of"):
        models = fit_gaussians(stats.take(present), shrinkage=shrinkage)
    total = sum_local_metrics(
        models,
        X,
        Scaling(np.zeros(n_features), 1.0),
        weights=sample_weight,
        solver=choose_solver(n_rows, n_features, len(present)),
        n_jobs=n_jobs,
    )
    return unit_determinant(interpolate(total.mean(), interpolation))


def _clustering(
    labels: IntArray, stats: ClassStatistics, metric: FloatArray, centers: FloatArray
) -> Clustering:
    """Build the result of an iteration; empty clusters take their centre from `centers`."""
    within = float(np.einsum("ij,ij->", metric, stats.pooled_covariance))
    total = float(np.einsum("ij,ij->", metric, stats.total_covariance))
    return Clustering(
        labels,
        np.where(stats.count[:, None] > 0, stats.mean, centers),
        metric,
        within / total if total > 0 else 0.0,
    )


def alternate(
    X: FloatArray,
    n_clusters: int,
    *,
    shrinkage: Shrinkage = 0.1,
    interpolation: float = 0.7,
    seeds: IntArray | None = None,
    init: FloatArray | None = None,
    max_iter: int = 20,
    sample_weight: FloatArray | None = None,
    n_jobs: int | None = None,
    report: Callable[[str], object] | None = None,
) -> Alternation:
    """Alternate between k-means and the metric of its clusters until the labels converge.

    If the iteration ends in a cycle, the iteration of the cycle with the smallest unexplained
    fraction of the inertia is kept. (The inertia itself is not comparable between metrics: even at
    determinant one it grows while the metric emphasises the directions that separate clusters.) An
    iteration that would leave fewer clusters than before is discarded.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples, float64, with mean about zero and standard deviation about one.
    n_clusters : int
        Number of clusters.
    shrinkage : None, "auto" or float, default=0.1
        See :func:`cluster_metric`.
    interpolation : float, default=0.7
        See :func:`cluster_metric`.
    seeds : ndarray of shape (n_init,), default=None
        Seeds of the k-means++ initialisations of iteration 0; ``None`` is a single 0.
    init : ndarray of shape (n_clusters, n_features), default=None
        Initial centres of iteration 0, instead of `seeds`.
    max_iter : int, default=20
        Maximum number of iterations after iteration 0.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequency weights, all positive.
    n_jobs : int, default=None
        Number of threads. Results are bit-identical for every value.
    report : callable, default=None
        Called with a line of text after each iteration.

    Returns
    -------
    Alternation
        All iterations, and the index of the one to keep.

    Examples
    --------
    >>> from genmetric.cluster import alternate
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.metrics import rand_score
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_iris(return_X_y=True)
    >>> X = minmax_scale(X, (-1, 1))
    >>> loop = alternate(X - X.mean(axis=0), 3)
    >>> loop.stopped_by
    'labels'
    >>> [round(float(rand_score(y, loop.rounds[r].labels)), 2) for r in (0, loop.best)]
    [0.87, 0.97]
    """
    tell = report if report is not None else lambda _: None
    if init is None:
        starts = np.zeros(1, np.intp) if seeds is None else seeds
        labels, _ = best_start(X, n_clusters, starts, sample_weight=sample_weight, n_jobs=n_jobs)
        stand_in = np.zeros((n_clusters, X.shape[1]))
    else:
        labels, _ = lloyd(X, init, sample_weight)
        stand_in = init

    def moments(labels: IntArray) -> ClassStatistics:
        return class_statistics(X, labels, n_clusters, sample_weight=sample_weight, n_jobs=n_jobs)

    stats = moments(labels)
    rounds = [_clustering(labels, stats, np.eye(X.shape[1]), stand_in)]
    tell(f"k-means: {rounds[0].unexplained:.4f} of the inertia unexplained")
    # Partitions by their bytes: warm starts keep the numbers of clusters, so no matching is needed.
    seen = {rounds[0].labels.tobytes(): 0}

    for r in range(1, max_iter + 1):
        last = rounds[-1]
        metric = cluster_metric(
            X,
            stats,
            shrinkage=shrinkage,
            interpolation=interpolation,
            sample_weight=sample_weight,
            n_jobs=n_jobs,
        )
        root = symmetric_root(metric)
        labels, _ = lloyd(X @ root, last.centers @ root, sample_weight)
        n_before, n_after = (np.count_nonzero(np.bincount(x)) for x in (last.labels, labels))
        if n_after < n_before:
            tell(f"iteration {r} would leave {n_after} of {n_before} clusters: {r - 1} is kept")
            return Alternation(rounds, r - 1, "collapse")
        stats = moments(labels)
        rounds.append(_clustering(labels, stats, metric, last.centers))
        moved = np.count_nonzero(labels != last.labels)
        tell(f"iteration {r}: {moved} labels changed, {rounds[r].unexplained:.4f} unexplained")
        if moved == 0:
            return Alternation(rounds, r, "labels")
        before = seen.setdefault(labels.tobytes(), r)
        if before < r:
            shares = [rounds[i].unexplained for i in range(before + 1, r + 1)]
            best = before + 1 + int(np.argmin(shares))
            tell(f"the labels of iteration {before} repeat: iteration {best} of this cycle is kept")
            return Alternation(rounds, best, "cycle")
    tell(f"labels still changed after {max_iter} iterations")
    return Alternation(rounds, max_iter, "max_iter")
