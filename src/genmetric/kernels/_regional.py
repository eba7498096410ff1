"""RegionalKernels: Gaussian kernels of regional metrics at many bandwidths."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data
from threadpoolctl import threadpool_limits

from genmetric._chunks import map_chunks
from genmetric._labels import check_class_labels
from genmetric._memory import check_memory
from genmetric._parameters import N_JOBS, RANDOM_STATE, Interval, ParameterRules, check_parameters
from genmetric._parameters import ArrayLike as ArrayRule
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import check_weights, query_rows, refuse_lazy, rows_by_class
from genmetric._warnings import suppress_warnings, warn_user
from genmetric.density._low_rank import LowRankGaussians
from genmetric.density._models import ClassModels
from genmetric.density._scaling import Scaling
from genmetric.geometry._factor import symmetric_root
from genmetric.geometry._local import interpolate
from genmetric.geometry._summation import estimated_seconds, sum_local_metrics
from genmetric.kernels._gram import FEWER_KERNELS, stack_bytes
from genmetric.kernels._metric_kernel import median_squared_distance, squared_distances
from genmetric.learners._fitting import MAX_SECONDS, MIN_AVERAGED
from genmetric.learners._generative import GenerativeMetric

#: The inverse bandwidths of the paper, 2^-6, 2^-5, ..., 2^8.
SCALES = 2.0 ** np.arange(-6, 9)


def regional_metrics(
    models: ClassModels,
    X: AnyArray,
    frame: Scaling,
    regions: IntArray,
    *,
    interpolation: float = 1.0,
    log_priors: FloatArray | None = None,
    solver: str = "dense",
    n_jobs: int | None = None,
) -> FloatArray:
    r"""Average the local metrics of the samples of each region.

    .. math:: M_p = \frac{1}{|R_p|} \sum_{i \in R_p} \big((1-\lambda) I + \lambda M_i\big).

    Parameters
    ----------
    models : ClassModels
        Class models, in scaled coordinates.
    X : ndarray of shape (n_samples, n_features)
        Samples in input coordinates.
    frame : Scaling
        Scaled coordinates of the models.
    regions : ndarray of shape (n_samples,)
        Region of each sample: 0, 1, ... No region is empty.
    interpolation : float, default=1.0
        Weight lambda of a local metric against the identity. Smaller values regularise towards the
        identity.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` uses equal priors.
    solver : str, default="dense"
        Solver of :func:`~genmetric.geometry.sum_local_metrics`.
    n_jobs : int, default=None
        Number of threads. Results are bit-identical for every value.

    Returns
    -------
    ndarray of shape (n_regions, n_features, n_features)
        Symmetric positive definite matrices.
    """
    means = [
        sum_local_metrics(
            models, X[regions == p], frame, log_priors=log_priors, solver=solver, n_jobs=n_jobs
        ).mean()
        for p in range(int(regions.max()) + 1)
    ]
    return interpolate(np.array(means), interpolation)


def averaged_samples(
    models: ClassModels, regions: IntArray, n_features: int, random_state: Any = None
) -> IntArray:
    """Draw the samples whose local metrics are averaged: all, unless that takes too long.

    With many classes the local metric of a sample takes a product with all samples, so that the
    time grows with the square of their number.

    Parameters
    ----------
    models : ClassModels
        Class models.
    regions : ndarray of shape (n_samples,)
        Region of each sample: 0, 1, ...
    n_features : int
        Number of features.
    random_state : int, RandomState instance or None, default=None
        Random state of the draw.

    Returns
    -------
    ndarray of int
        Indices of samples, ascending; the same fraction of each region, and at least 1024.
    """
    every = np.arange(len(regions))
    if not isinstance(models, LowRankGaussians):
        return every
    seconds = estimated_seconds("low-rank", models, len(regions), n_features)
    if seconds is None or seconds <= MAX_SECONDS:
        return every
    rng = check_random_state(random_state)
    kept = []
    for members in rows_by_class(regions, int(regions.max()) + 1):
        n_kept = max(MIN_AVERAGED, int(len(members) * MAX_SECONDS / seconds))
        kept.append(rng.permutation(members)[:n_kept])
    return np.sort(np.concatenate(kept))


def find_regions(Z: FloatArray, n_regions: int, random_state: Any = None) -> IntArray:
    """Divide samples into regions by k-means.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_features)
        Samples in the space of the metric.
    n_regions : int
        Number of regions, at most the number of distinct samples.
    random_state : int, RandomState instance or None, default=None
        Random state of k-means.

    Returns
    -------
    ndarray of shape (n_samples,)
        Region of each sample: 0, 1, ... No region is empty.
    """
    n_clusters = min(n_regions, len(np.unique(Z, axis=0)))
    # The order in which threads of k-means sum depends on their timing, which affects rounding.
    with threadpool_limits(limits=1, user_api="openmp"):
        k_means = KMeans(n_clusters, n_init=10, random_state=random_state).fit(Z)
    return np.unique(k_means.labels_, return_inverse=True)[1]


class RegionalKernels(BaseEstimator):
    r"""Gaussian kernels of regional metrics at many bandwidths.

    The training samples are divided into regions by k-means in the space of the uniform average of
    all local metrics; the metric :math:`M_p` of a region is the average of the local metrics of its
    samples. With the median squared distance :math:`\sigma_p^2` of the training samples under
    :math:`M_p` as the unit, the kernels are

    .. math:: K_{pl}(x, x') = \exp\{-\tau_l\, (x-x')^T M_p (x-x') / \sigma_p^2\},

    kernel ``p * n_scales + l`` for region p and scale l.

    Parameters
    ----------
    n_regions : int, default=5
        Number P of regions. More regions follow differences between parts of the feature space and
        need more samples and memory. 1 is the uniform average of all local metrics; 0 is the
        Euclidean metric, for which `y` is not needed. There are never more regions than distinct
        samples.
    scales : array-like of shape (n_scales,), default=None
        Inverse bandwidths :math:`\tau_l`; larger values make narrower kernels. ``None`` is 2^-6,
        2^-5, ..., 2^8.
    shrinkage : None, "auto" or float, default="auto"
        Shrinkage of the covariance of each class, as in :class:`~genmetric.GenerativeMetric`:
        ``None`` is maximum likelihood, ``"auto"`` Ledoit-Wolf, and larger numbers in [0, 1]
        regularise more.
    interpolation : float, default=1.0
        Weight lambda of each local metric against the identity, (1-lambda)·I + lambda·M_i. Smaller
        values regularise towards the Euclidean metric.
    n_jobs : int, default=None
        Number of threads. Results are bit-identical for every value.
    random_state : int, RandomState instance or None, default=None
        Random state of k-means.

    Attributes
    ----------
    metrics_ : ndarray of shape (n_regions, n_features, n_features)
        Metric of each region; the identity for ``n_regions=0``.
    sigma2_ : ndarray of shape (n_regions,)
        Median squared distance between two training samples under each metric.
    scales_ : ndarray of shape (n_scales,)
        Inverse bandwidths.
    regions_ : ndarray of shape (n_samples,)
        Region of each training sample.
    n_kernels_ : int
        Number of kernels: the number of regions times the number of scales.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    SimpleMKLClassifier : Learns a convex combination of the kernels.
    metric_kernel : The kernel of one metric.

    Examples
    --------
    >>> from genmetric.kernels import RegionalKernels
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = RegionalKernels(n_regions=2, random_state=0).fit(X, y)
    >>> kernels.gram(X).shape
    (30, 150, 150)
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "n_regions": [Interval(int, 0)],
        "scales": [None, ArrayRule("an array-like of positive numbers")],
        "shrinkage": [None, "auto", Interval(float, 0, 1)],
        "interpolation": [Interval(float, 0, 1)],
        "n_jobs": N_JOBS,
        "random_state": RANDOM_STATE,
    }

    _frame: Scaling
    _factors: FloatArray

    def __init__(
        self,
        n_regions: Any = 5,
        *,
        scales: ArrayLike | None = None,
        shrinkage: Any = "auto",
        interpolation: float = 1.0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_regions = n_regions
        self.scales = scales
        self.shrinkage = shrinkage
        self.interpolation = interpolation
        self.n_jobs = n_jobs
        self.random_state = random_state

    @restore_on_error
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> RegionalKernels:
        """Learn the regions, their metrics and the unit of distance of each metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,), default=None
            Class labels; ignored if ``n_regions=0``.

        Returns
        -------
        self : RegionalKernels
            The fitted estimator.
        """
        check_parameters(self)
        n_regions, interpolation = int(self.n_regions), float(self.interpolation)
        scales = self._check_scales()
        refuse_lazy(X)
        refuse_lazy(y, "y")
        kinds = [np.float64, np.float32]
        if n_regions == 0:
            x = validate_data(self, X, dtype=kinds)
            frame = Scaling.of(x)
            regions = np.zeros(len(x), np.intp)
            metrics = np.eye(x.shape[1])[None]
        else:
            x, labels = validate_data(self, X, y, dtype=kinds, ensure_min_samples=2)
            check_class_labels(labels, type(self).__name__)
            # Unit determinant, like the regional metrics and the metric of the paper.
            uniform = GenerativeMetric(
                shrinkage=self.shrinkage,
                normalization="determinant",
                interpolation=interpolation,
                n_jobs=self.n_jobs,
            )
            # The caller cannot select another normalization, as this warning recommends.
            with (
                suppress_warnings(UserWarning, "The curvatures of the class densities"),
                suppress_warnings(UserWarning, "The local metrics of"),
            ):
                uniform.fit(x, labels)
            frame = uniform._frame
            regions, metrics = np.zeros(len(x), np.intp), uniform.metric_[None]
            if n_regions > 1:
                Z = frame.apply(x) @ uniform.components_.T
                regions = find_regions(Z, n_regions, self.random_state)
                models = uniform._models
                rows = averaged_samples(models, regions, x.shape[1], self.random_state)
                if len(rows) < len(x):
                    warn_user(
                        f"The local metrics of {len(rows)} of {len(x)} samples were averaged: with "
                        f"{models.n_classes} classes, all samples would take more than "
                        f"{MAX_SECONDS:.0f} seconds. Fit on fewer classes to use all samples."
                    )
                metrics = regional_metrics(
                    models,
                    x[rows],
                    frame,
                    regions[rows],
                    interpolation=interpolation,
                    log_priors=uniform._log_priors,
                    solver="low-rank" if isinstance(models, LowRankGaussians) else "dense",
                    n_jobs=self.n_jobs,
                )
        inside = frame.apply(x)
        roots = symmetric_root(metrics)
        sigma2 = np.array([median_squared_distance(inside @ root.T) for root in roots])
        self._frame = frame
        # In units of sigma: squared distances are the exponents for tau = 1.
        self._factors = roots / np.sqrt(sigma2)[:, None, None]
        self.metrics_, self.regions_, self.scales_ = metrics, regions, scales
        self.sigma2_ = sigma2 * frame.scale**2
        self.n_kernels_ = len(metrics) * len(scales)
        return self

    def _check_scales(self) -> FloatArray:
        if self.scales is None:
            return np.array(SCALES, dtype=float)
        try:
            scales = np.array(self.scales, dtype=float)
        except (TypeError, ValueError):
            scales = np.empty(0)
        if scales.ndim != 1 or not len(scales) or not ((scales > 0) & (scales < np.inf)).all():
            raise ValueError(
                "scales must be None or a list of positive numbers, the inverse bandwidths; got "
                f"{self.scales!r}."
            )
        return scales

    def _exponents(self, region: int, x: AnyArray, y: AnyArray | None) -> FloatArray:
        """Compute squared distances under a regional metric, in units of sigma squared."""
        factor = self._factors[region].T
        w = None if y is None else self._frame.apply(y) @ factor
        return squared_distances(self._frame.apply(x) @ factor, w)

    def gram(self, X: ArrayLike, Y: ArrayLike | None = None) -> AnyArray:
        """Compute the Gram matrices of all kernels.

        The squared distances of a region are used for all its bandwidths.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Samples.
        Y : array-like of shape (n_columns, n_features), default=None
            Samples; ``None`` uses X.

        Returns
        -------
        ndarray of shape (n_kernels, n_rows, n_columns)
            Kernel values, float32 if X is.

        Raises
        ------
        MemoryError
            If the matrices exceed the available memory; raised before they are computed.
        """
        x = query_rows(self, X)
        y = None if Y is None else query_rows(self, Y, "Y")
        n_scales = len(self.scales_)
        shape = (self.n_kernels_, len(x), len(x if y is None else y))
        check_memory(
            stack_bytes(*shape, x.dtype.itemsize),
            f"The Gram matrices of shape {shape}",
            FEWER_KERNELS,
        )
        stack = np.empty(shape, x.dtype)

        def fill(region: int) -> None:
            exponents = self._exponents(region, x, y)
            for K, tau in zip(stack[region * n_scales :], self.scales_, strict=False):
                np.multiply(exponents, -tau, out=K, casting="same_kind")
                np.exp(K, out=K)

        for _ in map_chunks(fill, range(len(self.metrics_)), self.n_jobs):
            pass
        return stack

    @np.errstate(under="ignore")
    def combined_gram(
        self, weights: ArrayLike, X: ArrayLike, Y: ArrayLike | None = None
    ) -> FloatArray:
        r"""Compute the weighted sum :math:`\sum_{pl} w_{pl} K_{pl}` of the kernels, equation (14).

        Only kernels of non-zero weight are computed, one at a time.

        Parameters
        ----------
        weights : array-like of shape (n_kernels,)
            Non-negative weights.
        X : array-like of shape (n_rows, n_features)
            Samples.
        Y : array-like of shape (n_columns, n_features), default=None
            Samples; ``None`` uses X.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            Kernel values, float64.
        """
        x = query_rows(self, X)
        y = None if Y is None else query_rows(self, Y, "Y")
        table = check_weights(weights, self.n_kernels_, "weights", allow_zero_sum=True)
        out = np.zeros((len(x), len(x if y is None else y)))
        for region, row in enumerate(table.reshape(len(self.metrics_), -1)):
            if not row.any():
                continue
            exponents = self._exponents(region, x, y)
            for weight, tau in zip(row, self.scales_, strict=True):
                if weight:
                    K = exponents * -tau
                    np.exp(K, out=K)
                    K *= weight
                    out += K
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.n_regions != 0
        return tags
