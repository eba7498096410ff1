"""MetricKMeans: k-means that learns its metric from its own clusters."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import validate_data

from genmetric._chunks import one_blas_thread
from genmetric._logging import log_progress
from genmetric._parameters import (
    N_JOBS,
    RANDOM_STATE,
    VERBOSE,
    Interval,
    ParameterRules,
    check_parameters,
)
from genmetric._parameters import ArrayLike as ArrayRule
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    cast_finite,
    check_weights,
    query_rows,
    refuse_lazy,
)
from genmetric._warnings import warn_user
from genmetric.cluster._alternate import alternate
from genmetric.cluster._lloyd import canonical_order, center_distances
from genmetric.density._scaling import Scaling
from genmetric.geometry._factor import symmetric_root
from genmetric.learners._mahalanobis import MahalanobisMixin


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
    k-means finds first. If these are not the clusters you look for, the result is worse than
    k-means.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    shrinkage : None, "auto" or float, default=0.1
        Covariance of each cluster: ``None`` is plain maximum likelihood, ``"auto"`` the shrinkage
        of Ledoit and Wolf, a number s in [0, 1] gives (1-s)·S + s·(trace S/D)·I. Larger values make
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
    verbose : int, default=0
        If positive, print a line per iteration.

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
        "max_iter": [Interval(int, 1)],
        "random_state": RANDOM_STATE,
        "n_jobs": N_JOBS,
        "verbose": VERBOSE,
    }

    _frame: Scaling
    _centers: FloatArray

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
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.shrinkage = shrinkage
        self.interpolation = interpolation
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @restore_on_error
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
        x = validate_data(self, X, dtype=[np.float64, np.float32])
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))
        present = slice(None) if weight is None or weight.all() else np.flatnonzero(weight)
        rows = x[present]
        if len(rows) < n_clusters:
            raise ValueError(
                f"n_samples={len(rows)} should be >= n_clusters={n_clusters}. Use fewer "
                "clusters, or pass more samples (of positive weight)."
            )

        with one_blas_thread():
            frame = Scaling.of(rows)
            init = self._check_init(frame, n_clusters)
            z = frame.apply(rows)
            order = canonical_order(z)
            rng = check_random_state(self.random_state)
            loop = alternate(
                z[order],
                n_clusters,
                shrinkage=self.shrinkage,
                interpolation=float(self.interpolation),
                seeds=rng.randint(np.iinfo(np.int32).max, size=int(self.n_init)),
                init=init,
                max_iter=int(self.max_iter),
                sample_weight=None if weight is None else weight[present][order],
                n_jobs=self.n_jobs,
                report=partial(log_progress, "MetricKMeans") if self.verbose else None,
            )
            kept = loop.rounds[loop.best]
            self.metric_, self.components_ = kept.metric, symmetric_root(kept.metric)
        self._frame, self._centers = frame, kept.centers
        self.cluster_centers_ = frame.center + frame.scale * kept.centers
        self.unexplained_ = np.array([r.unexplained for r in loop.rounds])
        self.n_iter_, self.best_iter_ = len(loop.rounds) - 1, loop.best
        self.stopped_by_ = loop.stopped_by
        self.labels_, self.inertia_ = self._assign(x, weight)
        n_found = len(np.unique(kept.labels))
        if n_found < n_clusters:
            warn_user(
                f"Only {n_found} of n_clusters={n_clusters} clusters have samples, because X has no more "
                "distinct samples. Use fewer clusters.",
                ConvergenceWarning,
            )
        return self

    def _check_init(self, frame: Scaling, n_clusters: int) -> FloatArray | None:
        """Validate `init`: scaled centres, or None for k-means++."""
        if isinstance(self.init, str):
            return None
        centers = check_array(self.init, dtype=np.float64, ensure_2d=False, input_name="init")
        expected = (n_clusters, self.n_features_in_)
        if centers.shape != expected:
            raise ValueError(
                'init must be "k-means++" or an array of centres of shape (n_clusters, '
                f"n_features), here {expected}; got an array of shape {centers.shape}."
            )
        return frame.apply(centers)

    def _assign(self, x: AnyArray, weight: FloatArray | None) -> tuple[IntArray, float]:
        """Find the nearest centre of each sample and the inertia."""

        def nearest(d2: FloatArray) -> tuple[IntArray, FloatArray]:
            return d2.argmin(axis=1), d2.min(axis=1)

        parts: list[Any] = center_distances(
            x,
            self._centers,
            self.components_,
            frame=self._frame,
            reduce=nearest,
            n_jobs=self.n_jobs,
        )
        labels, d2 = (np.concatenate(column) for column in zip(*parts, strict=True))
        inertia = d2.sum() if weight is None else weight @ d2
        return labels, float(inertia) * self._frame.scale**2

    def fit_predict(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> IntArray:
        """Fit, and return the cluster of each sample.

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
        ndarray of shape (n_samples,)
            `labels_`.
        """
        return self.fit(X, sample_weight=sample_weight).labels_

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
        return self._assign(query_rows(self, X), None)[0]

    def transform(self, X: ArrayLike) -> Any:
        """Compute the distances to the centres in the metric.

        To map samples into the space of the metric instead, for a neighbour search or an embedding,
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
        parts: list[Any] = center_distances(
            x,
            self._centers,
            self.components_,
            frame=self._frame,
            reduce=np.sqrt,
            n_jobs=self.n_jobs,
        )
        return cast_finite(self._frame.scale * np.concatenate(parts), x.dtype, "Distances")

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
        return -self._assign(x, weight)[1]

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
