r"""The EM-like loop of section sUn: k-means and M^UNI in turns.

Round zero is Euclidean k-means. Round r takes the clusters of round r-1 for classes, learns
:math:`M^{\mathrm{UNI}}` from them in the coordinates of the rows, and runs k-means in that metric
from the centres of round r-1. So a round is a map from partitions to partitions without chance:
there are finitely many, so the loop comes to one that stays, or to a cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from genmetric._quiet import quiet
from genmetric._typing import FloatArray, IntArray
from genmetric.cluster.lloyd import best_start, lloyd
from genmetric.density.covariance import Shrinkage
from genmetric.density.frame import Frame
from genmetric.density.gaussian import fit_gaussians
from genmetric.density.statistics import ClassStatistics, class_statistics
from genmetric.geometry.factor import symmetric_root, unit_determinant
from genmetric.geometry.local import interpolate
from genmetric.geometry.summation import choose_solver, sum_local_metrics


@dataclass(frozen=True)
class Clustering:
    """What one round leaves.

    Attributes
    ----------
    labels : ndarray of shape (n_samples,)
        Cluster of each row.
    centers : ndarray of shape (n_clusters, n_features)
        Means of the clusters, their centres in every linear map of the rows; those of empty
        clusters stay where they were.
    metric : ndarray of shape (n_features, n_features)
        The metric of the round, of determinant one; the identity in round zero.
    unexplained : float
        Inertia over the inertia about one common centre, both in `metric`, in [0, 1].
    """

    labels: IntArray
    centers: FloatArray
    metric: FloatArray
    unexplained: float


@dataclass(frozen=True)
class Alternation:
    """What the loop came to.

    Attributes
    ----------
    rounds : list of Clustering
        Round zero first.
    best : int
        The round to keep.
    stopped_by : {"labels", "cycle", "collapse", "max_iter"}
        Why the loop ended: no label changed; a partition came back; the next round would have lost
        a cluster; the rounds were used up.
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
    r"""M^UNI of clusters taken for classes, interpolated, of determinant one.

    .. math:: M \propto (1-\lambda) I + \lambda \frac1N \sum_i M_i .

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    stats : ClassStatistics
        Moments of the clusters; those without rows are left out.
    shrinkage : None, "auto" or float, default=0.1
        Of the cluster covariances, see :func:`~genmetric.density.fit_gaussians`. A cluster of one
        row or no scatter takes the pooled covariance.
    interpolation : float, default=0.7
        The weight lambda of the local metrics.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequencies.
    n_jobs : int, default=None
        Threads; the answer is the same for every number.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        The metric; the identity where fewer than two clusters have rows.
    """
    n_rows, n_features = X.shape
    present = np.flatnonzero(stats.count)
    if len(present) < 2 or interpolation == 0:
        return np.eye(n_features)
    # Clusters of one row are no fault of the caller, as classes of one row may be.
    with quiet(UserWarning, "Classes .* have a single row"):
        models = fit_gaussians(stats.take(present), shrinkage=shrinkage)
    total = sum_local_metrics(
        models,
        X,
        Frame(np.zeros(n_features), 1.0),
        weights=sample_weight,
        solver=choose_solver(n_rows, n_features, len(present)),
        n_jobs=n_jobs,
    )
    return unit_determinant(interpolate(total.mean(), interpolation))


def _clustering(
    labels: IntArray, stats: ClassStatistics, metric: FloatArray, centers: FloatArray
) -> Clustering:
    """A partition and its moments, in a metric; `centers` stand in for those of empty clusters."""
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
    """Take turns between k-means and M^UNI until the labels stand still.

    Where the loop ends in a cycle, the round of the cycle with the least unexplained share of the
    inertia is kept. (Inertia alone compares badly between metrics: even at determinant one it
    grows while a metric turns towards the directions that tell clusters apart.) A round that
    would leave fewer clusters than there were is not taken.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows, float64, of mean about zero and spread about one.
    n_clusters : int
        Number of clusters.
    shrinkage : None, "auto" or float, default=0.1
        See :func:`cluster_metric`.
    interpolation : float, default=0.7
        See :func:`cluster_metric`.
    seeds : ndarray of shape (n_init,), default=None
        Seeds of the k-means++ starts of round zero; ``None`` is a single 0.
    init : ndarray of shape (n_clusters, n_features), default=None
        Centres to start round zero from, instead of `seeds`.
    max_iter : int, default=20
        Most rounds after round zero.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequencies, all positive.
    n_jobs : int, default=None
        Threads; the answer is the same for every number.
    report : callable, default=None
        Is told in words what each round did.

    Returns
    -------
    Alternation
        All rounds, and which to keep.

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
            tell(f"round {r} would leave {n_after} clusters of {n_before}: round {r - 1} is kept")
            return Alternation(rounds, r - 1, "collapse")
        stats = moments(labels)
        rounds.append(_clustering(labels, stats, metric, last.centers))
        moved = np.count_nonzero(labels != last.labels)
        tell(f"round {r}: {moved} labels changed, {rounds[r].unexplained:.4f} unexplained")
        if moved == 0:
            return Alternation(rounds, r, "labels")
        before = seen.setdefault(labels.tobytes(), r)
        if before < r:
            shares = [rounds[i].unexplained for i in range(before + 1, r + 1)]
            best = before + 1 + int(np.argmin(shares))
            tell(f"the labels of round {before} are back: round {best} of this cycle is kept")
            return Alternation(rounds, best, "cycle")
    tell(f"labels still changed after {max_iter} rounds")
    return Alternation(rounds, max_iter, "max_iter")
