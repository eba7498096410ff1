"""MetricKMeans: k-means that learns its metric from its own clusters."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import validate_data

from genmetric._parallel import map_chunks, one_blas_thread, openmp_threads, row_chunks
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    FLOATS,
    Interval,
    ParameterRules,
    cast_finite,
    check_parameters,
    check_weights,
    query_rows,
    refuse_lazy,
    rows_by_class,
    warn_user,
)
from genmetric._validation import ArrayLike as ArrayRule
from genmetric.density import Coordinates
from genmetric.geometry import symmetric_root
from genmetric.learners.generative import GenerativeMetric
from genmetric.learners.mahalanobis import MahalanobisMixin

__all__ = ["MetricKMeans"]


def canonical_order(X: FloatArray) -> IntArray:
    """Sort samples by a projection that is, in practice, different for different samples.

    k-means++ draws from cumulated weights. In this order equal samples are adjacent, so a sample of
    weight 2 and a sample given twice are drawn alike, and a permutation of the samples gives the
    same initialisation.
    """
    # Cosines of integers are irrational, so samples of integers do not collide. No BLAS, whose
    # rounding depends on the position of a row in its block.
    direction = np.cos(np.arange(1.0, X.shape[1] + 1))
    chunks = row_chunks(len(X), 8 * X.shape[1])
    key = np.concatenate([(X[rows] * direction).sum(axis=1) for rows in chunks])
    return np.argsort(key, kind="stable")


def lloyd(X: FloatArray, init: FloatArray, weight: FloatArray | None) -> tuple[IntArray, float]:
    """Run k-means from given centres until no label changes: labels and inertia."""
    kmeans = KMeans(len(init), init=init, n_init=1, tol=0.0, max_iter=300)
    # Several OpenMP threads sum in no fixed order. The limit is local to the thread that sets it.
    with openmp_threads(1):
        kmeans.fit(X, sample_weight=weight)
    return np.asarray(kmeans.labels_, np.intp), float(kmeans.inertia_)


def best_start(
    X: FloatArray, n_clusters: int, seeds: list[int], weight: FloatArray | None, n_jobs: int | None
) -> IntArray:
    """Run k-means from several k-means++ initialisations; return the labels of least inertia."""

    def run(seed: int) -> tuple[IntArray, float]:
        init, _ = kmeans_plusplus(X, n_clusters, sample_weight=weight, random_state=seed)
        return lloyd(X, init, weight)

    # Ties, up to rounding, go to the first run, so the order of the samples does not matter.
    runs = list(map_chunks(run, seeds, n_jobs))
    least = min(inertia for _, inertia in runs)
    return next(labels for labels, inertia in runs if inertia * (1 - 1e-9) <= least)


class Clustering(NamedTuple):
    """Labels, centres and metric of one iteration, and the fraction of inertia left in clusters."""

    labels: IntArray
    centers: FloatArray
    metric: FloatArray
    unexplained: float


def describe(
    X: FloatArray,
    labels: IntArray,
    metric: FloatArray,
    centers: FloatArray,
    weight: FloatArray | None,
) -> Clustering:
    """Compute the means and the unexplained inertia of clusters; empty ones keep their centre."""
    means = centers.copy()
    for c, rows in enumerate(rows_by_class(labels, len(centers))):
        if len(rows):
            own = None if weight is None else weight[rows]
            means[c] = np.average(X[rows], axis=0, weights=own)
    within, total = (
        float(np.average(np.einsum("ij,jk,ik->i", E, metric, E, optimize=True), weights=weight))
        for E in (X - means[labels], X - np.average(X, axis=0, weights=weight))
    )
    return Clustering(labels, means, metric, within / total if total > 0 else 0.0)


class MetricKMeans(
    MahalanobisMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    r"""k-means in a metric that is learned from its own clusters.

    The first iteration is Euclidean k-means. Each further iteration uses the clusters as classes,
    averages their local metrics (with shrunk covariances, interpolated with the identity), and runs
    k-means in this metric from the current centres, until no label changes. This is the procedure
    of appendix D of the paper.

    Iterations are deterministic: either the labels converge, or a partition repeats and the
    iteration cycles. In a cycle, the iteration with the smallest unexplained fraction of the
    inertia is kept (the inertia divided by the inertia about the common mean, both in the metric of
    the iteration). `stopped_by_` reports how the iteration ended.

    Shrinkage and interpolation regularise towards the identity in the units of the input, so scale
    the features first. With features in [-1, 1] the defaults raise the Rand index of iris from
    0.874 (k-means) to 0.966 and of wine from 0.94 to 0.985. The metric sharpens the clusters that
    k-means finds first. If these are not the groups you are looking for, the result is worse
    than k-means.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    shrinkage : None, "auto" or float, default=0.1
        Covariance of each cluster: ``None`` uses maximum likelihood, ``"auto"`` uses Ledoit-Wolf
        shrinkage, and a number s in [0, 1] gives (1-s)·S + s·(trace S/D)·I. Larger values make
        the metric more Euclidean. A cluster of one sample takes the pooled covariance.
    interpolation : float, default=0.7
        Weight lambda of each local metric against the identity, (1-lambda)·I + lambda·M_i. Smaller
        values regularise towards the Euclidean metric; 0 is plain k-means.
    init : "k-means++" or array-like of shape (n_clusters, n_features), default="k-means++"
        Initial centres of the first k-means: drawn by k-means++, or an array.
    n_init : int, default=10
        Number of k-means++ initialisations. The Euclidean k-means with the smallest inertia is
        kept; more initialisations take longer and find a smaller inertia. Later iterations start
        from the centres of the previous iteration only; new draws would let labels jump between
        clusterings of nearly equal inertia and prevent convergence.
    max_iter : int, default=20
        Maximum number of iterations, each with one metric and one k-means. Each k-means runs until
        its labels converge or for 300 passes.
    random_state : int, RandomState instance or None, default=None
        Random state of the initialisations. The result does not depend on the order of the samples.
    n_jobs : int, default=None
        Number of threads over initialisations and chunks of samples. Results are bit-identical for
        every value.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each training sample, 0 to n_clusters - 1.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Centres, in the space of the input.
    metric_ : ndarray of shape (n_features, n_features)
        The metric M, of determinant one.
    components_ : ndarray of shape (n_features, n_features)
        The symmetric root L of M; ``X @ components_.T`` is the space where distances are Euclidean.
    inertia_ : float
        Weighted sum of squared distances, in the metric, of samples to their centres.
    unexplained_ : ndarray of shape (n_rounds + 1,)
        Unexplained fraction of the inertia in each iteration; the first k-means is entry 0.
    n_iter_ : int
        Number of iterations after the first k-means.
    best_iter_ : int
        Iteration that was kept; 0 is the first k-means, with the Euclidean metric.
    stopped_by_ : {"labels", "cycle", "collapse", "max_iter"}
        Reason for the end: no label changed; a partition repeated, and the best iteration of the
        cycle was kept; the next iteration would have emptied a cluster and was discarded;
        `max_iter` was reached.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    GenerativeMetric : The metric from labels.
    sklearn.cluster.KMeans : The first iteration.

    Notes
    -----
    Two float64 copies of X are held, and k-means holds a third.

    References
    ----------
    Y. Shi, Y.-K. Noh, F. Sha and D. D. Lee, Learning Discriminative Metrics via Generative Models
    and Kernel Learning, arXiv:1109.3940v1 (2011).

    Examples
    --------
    >>> from genmetric import MetricKMeans
    >>> from sklearn.cluster import KMeans
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.metrics import rand_score
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_wine(return_X_y=True)
    >>> X = minmax_scale(X, (-1, 1))
    >>> euclidean = KMeans(3, n_init=10, random_state=0).fit(X)
    >>> round(float(rand_score(y, euclidean.labels_)), 2)
    0.94
    >>> model = MetricKMeans(3, random_state=0).fit(X)
    >>> round(float(rand_score(y, model.labels_)), 2), model.stopped_by_
    (0.99, 'labels')
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "n_clusters": [Interval(int, 1)],
        "shrinkage": [None, "auto", Interval(float, 0, 1)],
        "interpolation": [Interval(float, 0, 1)],
        "init": ["k-means++", ArrayRule("an array of centres of shape (n_clusters, n_features)")],
        "n_init": [Interval(int, 1)],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        shrinkage: Any = 0.1,
        interpolation: float = 0.7,
        init: Any = "k-means++",
        n_init: int = 10,
        max_iter: int = 20,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.shrinkage = shrinkage
        self.interpolation = interpolation
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> MetricKMeans:
        """Find clusters and their metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : object
            Ignored; present by scikit-learn's convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: weight 2 equals repeating the sample. A sample of weight 0 does not
            affect the fit but gets a label.

        Returns
        -------
        self : MetricKMeans
            The fitted estimator.
        """
        check_parameters(self)
        n_clusters = int(self.n_clusters)
        refuse_lazy(X)
        x = validate_data(self, X, dtype=FLOATS)
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))
        present = slice(None) if weight is None or weight.all() else np.flatnonzero(weight)
        rows = x[present]
        if len(rows) < n_clusters:
            raise ValueError(
                f"n_samples={len(rows)} should be >= n_clusters={n_clusters}. Use fewer "
                "clusters, or pass more samples (of positive weight)."
            )

        self._coordinates = Coordinates.of(rows)
        with one_blas_thread(), warnings.catch_warnings():
            # The caller cannot prevent clusters with few samples, nor repeated samples.
            warnings.simplefilter("ignore", UserWarning)
            z = self._coordinates.apply(rows)
            order = canonical_order(z)
            rounds, self.best_iter_, self.stopped_by_ = self._alternate(
                z[order], None if weight is None else weight[present][order]
            )
        kept = rounds[self.best_iter_]
        self.metric_, self.components_ = kept.metric, symmetric_root(kept.metric)
        self._centers = kept.centers
        self.cluster_centers_ = self._coordinates.restore(kept.centers)
        self.unexplained_ = np.array([each.unexplained for each in rounds])
        self.n_iter_ = len(rounds) - 1
        self.labels_ = self._of_distances(x, lambda d2: d2.argmin(axis=1))
        self.inertia_ = self._inertia(x, weight)
        n_found = len(np.unique(kept.labels))
        if n_found < n_clusters:
            warn_user(
                f"Only {n_found} of n_clusters={n_clusters} clusters have samples, because X has no "
                "more distinct samples. Use fewer clusters.",
                ConvergenceWarning,
            )
        return self

    def _first_clustering(self, X: FloatArray, weight: FloatArray | None) -> Clustering:
        """Run k-means on scaled samples, from several seeds or from the given centres."""
        shape = int(self.n_clusters), X.shape[1]
        if isinstance(self.init, str):
            rng = check_random_state(self.random_state)
            seeds = rng.randint(np.iinfo(np.int32).max, size=self.n_init).tolist()
            centers = np.zeros(shape)
            labels = best_start(X, shape[0], seeds, weight, self.n_jobs)
        else:
            centers = check_array(self.init, dtype=np.float64, ensure_2d=False, input_name="init")
            if centers.shape != shape:
                raise ValueError(
                    'init must be "k-means++" or an array of centres of shape (n_clusters, '
                    f"n_features), here {shape}; got an array of shape {centers.shape}."
                )
            centers = self._coordinates.apply(centers)
            labels, _ = lloyd(X, centers, weight)
        return describe(X, labels, np.eye(shape[1]), centers, weight)

    def _alternate(
        self, X: FloatArray, weight: FloatArray | None
    ) -> tuple[list[Clustering], int, str]:
        """Alternate between the metric of clusters and k-means (appendix D of the paper).

        An iteration is a deterministic map between partitions, of which there are finitely many,
        so the labels converge or cycle. In a cycle the iteration with the smallest unexplained
        inertia is kept. (The inertia itself is not comparable between metrics: even at determinant
        one it grows while the metric emphasises the directions that separate clusters.) An
        iteration that would empty a cluster is discarded. Returns all iterations, the one to keep,
        and how they ended.
        """
        learner = GenerativeMetric(
            shrinkage=self.shrinkage,
            normalization="determinant",
            interpolation=self.interpolation,
            n_jobs=self.n_jobs,
            random_state=0,
        )
        rounds = [self._first_clustering(X, weight)]
        # Partitions by their bytes: warm starts keep the numbers of clusters.
        seen = {rounds[0].labels.tobytes(): 0}
        for r in range(1, self.max_iter + 1):
            last = rounds[-1]
            metric, n_before = np.eye(X.shape[1]), len(np.unique(last.labels))
            if n_before > 1 and self.interpolation > 0:
                metric = learner.fit(X, last.labels, weight).metric_
                metric = metric * np.exp(-np.linalg.slogdet(metric)[1] / len(metric))
            root = symmetric_root(metric)
            labels, _ = lloyd(X @ root, last.centers @ root, weight)
            if len(np.unique(labels)) < n_before:
                return rounds, r - 1, "collapse"
            rounds.append(describe(X, labels, metric, last.centers, weight))
            if np.array_equal(labels, last.labels):
                return rounds, r, "labels"
            before = seen.setdefault(labels.tobytes(), r)
            if before < r:
                cycle = [each.unexplained for each in rounds[before + 1 :]]
                return rounds, before + 1 + int(np.argmin(cycle)), "cycle"
        return rounds, self.max_iter, "max_iter"

    def _of_distances(self, x: AnyArray, function: Callable[[FloatArray], AnyArray]) -> AnyArray:
        """Apply a function to chunks of squared distances to the centres, in scaled coordinates."""
        mapped = self._centers @ self.components_.T

        def of_chunk(rows: slice) -> AnyArray:
            z = self._coordinates.apply(x[rows]) @ self.components_.T
            # By differences: the expanded square loses half the digits near a centre.
            return function(cdist(z, mapped, "sqeuclidean"))

        chunks = row_chunks(len(x), 8 * (3 * x.shape[1] + 3 * len(mapped)))
        return np.concatenate(list(map_chunks(of_chunk, chunks, self.n_jobs)))

    def _inertia(self, x: AnyArray, weight: FloatArray | None) -> float:
        """Sum the squared distances to the nearest centres."""
        nearest = self._of_distances(x, lambda d2: d2.min(axis=1))
        total = nearest.sum() if weight is None else weight @ nearest
        return float(total) * self._coordinates.unit**2

    def predict(self, X: ArrayLike) -> IntArray:
        """Predict the cluster whose centre is nearest in the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Clusters; `labels_` for the training samples.
        """
        return self._of_distances(query_rows(self, X), lambda d2: d2.argmin(axis=1))

    def transform(self, X: ArrayLike) -> Any:
        """Compute the distances to the centres in the metric.

        To map samples into the learned space instead, for a neighbour search or an embedding,
        use ``X @ model.components_.T``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            Distances, float32 if X is.
        """
        x = query_rows(self, X)
        distances = self._coordinates.unit * self._of_distances(x, np.sqrt)
        return cast_finite(distances, x.dtype, "Distances")

    def score(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Compute minus the inertia of the samples about the centres, in the learned metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : object
            Ignored; present by scikit-learn's convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights.

        Returns
        -------
        float
            Larger values mean samples nearer to the centres. Scores under different metrics are
            not comparable.
        """
        x = query_rows(self, X)
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))
        return -self._inertia(x, weight)

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
