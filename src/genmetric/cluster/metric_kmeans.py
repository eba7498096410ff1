"""MetricKMeans: clusters, and the metric they are found in, learned from rows without labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._chunks import one_blas_thread
from genmetric._rollback import all_or_nothing
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    cast_finite,
    check_count,
    check_fraction,
    check_weights,
    refuse_lazy,
)
from genmetric.cluster.alternate import alternate
from genmetric.cluster.lloyd import canonical_order, center_distances
from genmetric.density.covariance import check_shrinkage
from genmetric.density.frame import Frame
from genmetric.geometry.factor import symmetric_root
from genmetric.metric.mahalanobis import MahalanobisMixin


class MetricKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    r"""k-means in a metric that is learned from its own clusters.

    The loop of the paper's section on unsupervised learning: Euclidean k-means; the clusters taken
    for classes give :math:`M^{\mathrm{UNI}}` (eq. eUniform), with shrunk covariances and local
    metrics mixed with the identity; k-means in that metric, from the centres there are; and so on
    until no label changes.

    Rounds involve no chance, so the labels come to rest or run in a cycle. Of a cycle the round is
    kept whose clusters leave the least share of the inertia unexplained (the inertia divided by the
    one about the common mean, both in the metric of the round). `stopped_by_` says how it ended.

    Shrinkage and interpolation are towards the identity of the input, so features should be
    of like scale. With features in [-1, 1] the defaults lift the Rand index of iris from 0.874 to
    0.966 and of wine from 0.94 to 0.985, against k-means. The loop sharpens the clusters that
    k-means finds first: where those are not the ones looked for, it moves further away from them.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    shrinkage : None, "auto" or float, default=0.1
        Covariance of each cluster: ``None`` is plain maximum likelihood, ``"auto"`` the shrinkage
        of Ledoit and Wolf, a number s in [0, 1] gives (1-s)·S + s·(trace S/D)·I. A cluster of
        one row takes the pooled covariance.
    interpolation : float, default=0.7
        Weight lambda of each local metric against the identity, (1-lambda)·I + lambda·M_i; 0 is
        plain k-means.
    init : "k-means++" or array-like of shape (n_clusters, n_features), default="k-means++"
        Centres that the first k-means starts from: drawn, or given.
    n_init : int, default=10
        Draws of them; the Euclidean k-means of least inertia goes on into the loop. Later rounds
        start from the centres of the round before alone: fresh draws there would let labels jump
        between clusterings of nearly equal inertia, and the loop would not come to rest.
    max_iter : int, default=20
        Most rounds of a metric and a k-means in it. Each k-means runs until its labels stand still,
        or for 300 passes.
    random_state : int, RandomState instance or None, default=None
        Draws the starts. The order of the rows does not matter.
    n_jobs : int, default=None
        Threads over starts and over chunks of rows. The answer is the same, bit for bit, for every
        number.
    verbose : int, default=0
        Whether to print what each round did.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row of `fit`, 0 to n_clusters - 1.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Centres, in the space of the input.
    metric_ : ndarray of shape (n_features, n_features)
        The metric M, of determinant one.
    components_ : ndarray of shape (n_features, n_features)
        The symmetric root L of M; ``X @ components_.T`` is the space where distances are Euclidean.
    inertia_ : float
        Sum of the squared distances, in the metric, of rows to their centres, times weights if any.
    unexplained_ : ndarray of shape (n_rounds + 1,)
        Share of the inertia that clusters left unexplained in each round, the first k-means first.
    n_iter_ : int
        Rounds run after the first k-means.
    best_iter_ : int
        The round kept; 0 is the first k-means, with the Euclidean metric.
    stopped_by_ : {"labels", "cycle", "collapse", "max_iter"}
        Why the loop ended: no label changed; a partition came back, so the best round of that cycle
        was kept; the next round would have emptied a cluster, so it was not taken; rounds were used
        up.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X has such.

    See Also
    --------
    GenerativeMetric : The metric from labels.
    sklearn.cluster.KMeans : The first round.

    Notes
    -----
    Two float64 copies of X are held besides that of k-means.

    References
    ----------
    Y. Shi, Y.-K. Noh, F. Sha and D. D. Lee, Learning Discriminative Metrics via Generative Models
    and Kernel Learning, arXiv:1109.3940 (2011).

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

    #: :meth:`pair_distance` takes rows, never indices.
    preprocessor = None

    _frame: Frame
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

    @all_or_nothing
    def fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> MetricKMeans:
        """Find clusters and their metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : object
            Not used; there by scikit-learn's convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies: 2 is the row twice, 0 is absent (such a row still gets a label).

        Returns
        -------
        self : MetricKMeans
            The fitted estimator.
        """
        n_clusters = check_count(self.n_clusters, "n_clusters")
        n_init = check_count(self.n_init, "n_init")
        max_iter = check_count(self.max_iter, "max_iter")
        shrinkage = check_shrinkage(self.shrinkage)
        interpolation = check_fraction(self.interpolation, "interpolation")
        refuse_lazy(X)
        x = validate_data(self, X, dtype=[np.float64, np.float32])
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))
        present = slice(None) if weight is None or weight.all() else np.flatnonzero(weight)
        rows = x[present]
        if len(rows) < n_clusters:
            raise ValueError(
                f"n_samples={len(rows)} should be >= n_clusters={n_clusters}. Ask for fewer "
                "clusters, or give more rows (of positive weight)."
            )

        with one_blas_thread():
            frame = Frame.of(rows)
            init = self._check_init(frame, n_clusters)
            z = frame.inward(rows)
            order = canonical_order(z)
            rng = check_random_state(self.random_state)
            loop = alternate(
                z[order],
                n_clusters,
                shrinkage=shrinkage,
                interpolation=interpolation,
                seeds=rng.randint(np.iinfo(np.int32).max, size=n_init),
                init=init,
                max_iter=max_iter,
                sample_weight=None if weight is None else weight[present][order],
                n_jobs=self.n_jobs,
                report=self._print if self.verbose else None,
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
            warnings.warn(
                f"{n_found} of n_clusters={n_clusters} clusters have rows: X has no more different "
                "rows. Ask for fewer clusters.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _check_init(self, frame: Frame, n_clusters: int) -> FloatArray | None:
        """Given centres in the frame, or None where they are to be drawn."""
        if isinstance(self.init, str):
            if self.init == "k-means++":
                return None
        elif self.init is not None and np.ndim(self.init) == 2:
            centers = check_array(self.init, dtype=np.float64)
            if centers.shape == (n_clusters, self.n_features_in_):
                return frame.inward(centers)
        raise ValueError(
            'init must be "k-means++" or an array of centres of shape (n_clusters, n_features), '
            f"here {(n_clusters, self.n_features_in_)}; got {self.init!r}."
        )

    def _print(self, text: str) -> None:
        print(f"[MetricKMeans] {text}")  # noqa: T201

    def _rows(self, X: Any) -> AnyArray:
        """Validated rows of `X` for a fitted estimator, float32 or float64."""
        check_is_fitted(self)
        refuse_lazy(X)
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))

    def _assign(self, x: AnyArray, weight: FloatArray | None) -> tuple[IntArray, float]:
        """Nearest centre of each row, and the inertia of the rows."""

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
        """Fit, and return the cluster of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : object
            Not used; there by scikit-learn's convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies.

        Returns
        -------
        ndarray of shape (n_samples,)
            `labels_`.
        """
        return self.fit(X, sample_weight=sample_weight).labels_

    def predict(self, X: ArrayLike) -> IntArray:
        """The cluster whose centre is nearest in the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Clusters; `labels_` for the rows of `fit`.
        """
        return self._assign(self._rows(X), None)[0]

    def transform(self, X: ArrayLike) -> Any:
        """Distances to the centres in the metric, as :class:`sklearn.cluster.KMeans` gives them.

        To map rows into the space of the metric instead, for a neighbour search or an embedding,
        multiply them: ``X @ model.components_.T``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            Distances, float32 where X is.
        """
        x = self._rows(X)
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
        """Minus the inertia of rows about the learned centres, in the learned metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : object
            Not used; there by scikit-learn's convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies.

        Returns
        -------
        float
            The larger, the nearer the rows are to the centres. Scores of different metrics do not
            compare.
        """
        x = self._rows(X)
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))
        return -self._assign(x, weight)[1]

    # The metric's own methods. Not by inheritance: `transform` means another thing here, and there
    # is no way back from distances.
    get_mahalanobis_matrix = MahalanobisMixin.get_mahalanobis_matrix
    get_metric = MahalanobisMixin.get_metric
    pair_distance = MahalanobisMixin.pair_distance
    pair_score = MahalanobisMixin.pair_score

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
