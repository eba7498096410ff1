"""RegionalKernels: Gaussian kernels of regional metrics at many bandwidths."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from genmetric._chunks import map_chunks
from genmetric._rollback import all_or_nothing
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import as_number, check_fraction, check_weights, refuse_lazy
from genmetric.density.frame import Frame
from genmetric.density.models import ClassModels
from genmetric.geometry.factor import symmetric_root
from genmetric.geometry.local import interpolate
from genmetric.geometry.summation import sum_local_metrics
from genmetric.kernels.gram import check_memory, stack_bytes
from genmetric.kernels.metric_kernel import mean_squared_distance, squared_distances
from genmetric.metric.generative import GenerativeMetric

#: The inverse bandwidths of the paper, 2^-6, 2^-5, ..., 2^8.
SCALES = 2.0 ** np.arange(-6, 9)


def regional_metrics(
    models: ClassModels,
    X: AnyArray,
    frame: Frame,
    regions: IntArray,
    *,
    interpolation: float = 1.0,
    log_priors: FloatArray | None = None,
    n_jobs: int | None = None,
) -> FloatArray:
    r"""Averages of the local metrics of the rows of each region.

    .. math:: M_p = \frac{1}{|R_p|} \sum_{i \in R_p} \big((1-\lambda) I + \lambda M_i\big).

    Parameters
    ----------
    models : ClassModels
        Class models, in the coordinates of `frame`.
    X : ndarray of shape (n_samples, n_features)
        Rows as they came.
    frame : Frame
        Coordinates of the models.
    regions : ndarray of shape (n_samples,)
        Region of each row, 0, 1, ...; none is empty.
    interpolation : float, default=1.0
        The weight lambda of a local metric against the identity.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` is equal priors.
    n_jobs : int, default=None
        Threads; the answer is the same for every number.

    Returns
    -------
    ndarray of shape (n_regions, n_features, n_features)
        Symmetric positive definite matrices.
    """
    means = [
        sum_local_metrics(
            models, X[regions == p], frame, log_priors=log_priors, n_jobs=n_jobs
        ).mean()
        for p in range(int(regions.max()) + 1)
    ]
    return interpolate(np.array(means), interpolation)


def find_regions(Z: FloatArray, n_regions: int, random_state: Any = None) -> IntArray:
    """Part rows into regions by k-means.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_features)
        Rows in the space of the metric.
    n_regions : int
        How many; fewer where there are fewer distinct rows.
    random_state : int, RandomState instance or None, default=None
        Starts of k-means.

    Returns
    -------
    ndarray of shape (n_samples,)
        Region of each row, 0, 1, ...; none is empty.
    """
    n_clusters = min(n_regions, len(np.unique(Z, axis=0)))
    # Threads of k-means add up in the order they finish, which moves the last bits.
    with threadpool_limits(limits=1, user_api="openmp"):
        k_means = KMeans(n_clusters, n_init=10, random_state=random_state).fit(Z)
    return np.unique(k_means.labels_, return_inverse=True)[1]


class RegionalKernels(BaseEstimator):
    r"""Gaussian kernels of regional metrics at many bandwidths (eq. eNonlinear).

    The training rows are parted into regions by k-means in the space of the metric
    :math:`M^{\mathrm{UNI}}`; the metric :math:`M_p` of a region is the average of the local metrics
    of its rows. With the mean squared distance :math:`\sigma_p^2` of all training rows under
    :math:`M_p` as the unit, the kernels are

    .. math:: K_{pl}(x, x') = \exp\{-\tau_l\, (x-x')^T M_p (x-x') / \sigma_p^2\},

    kernel ``p * n_scales + l`` for region p and scale l.

    Parameters
    ----------
    n_regions : int, default=5
        Number P of regions. 1 is :math:`M^{\mathrm{UNI}}` itself; 0 is the Euclidean metric
        (eq. eBaseline), for which `y` is not needed. Fewer distinct rows than regions make fewer.
    scales : array-like of shape (n_scales,), default=None
        The inverse bandwidths :math:`\tau_l`; ``None`` is 2^-6, 2^-5, ..., 2^8.
    shrinkage : None, "auto" or float, default="auto"
        Covariance of each class, as in :class:`~genmetric.GenerativeMetric`.
    interpolation : float, default=1.0
        Weight lambda of each local metric against the identity, (1-lambda)·I + lambda·M_i.
    n_jobs : int, default=None
        Threads. The answer is the same, bit for bit, for every number.
    random_state : int, RandomState instance or None, default=None
        Starts of k-means.

    Attributes
    ----------
    metrics_ : ndarray of shape (n_regions, n_features, n_features)
        Regional metrics; the identity for ``n_regions=0``.
    sigma2_ : ndarray of shape (n_regions,)
        Mean squared distance of two training rows under each metric.
    scales_ : ndarray of shape (n_scales,)
        Inverse bandwidths.
    regions_ : ndarray of shape (n_samples,)
        Region of each training row.
    n_kernels_ : int
        Regions times scales.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X has such.

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

    _frame: Frame
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

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> RegionalKernels:
        """Learn the regions, their metrics and the unit of distance under each.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,), default=None
            Class labels; not used with ``n_regions=0``.

        Returns
        -------
        self : RegionalKernels
            The fitted estimator.
        """
        n_regions = self._check_n_regions()
        interpolation = check_fraction(self.interpolation, "interpolation")
        scales = self._check_scales()
        refuse_lazy(X)
        refuse_lazy(y, "y")
        kinds = [np.float64, np.float32]
        if n_regions == 0:
            x = validate_data(self, X, dtype=kinds)
            frame = Frame.of(x)
            regions = np.zeros(len(x), np.intp)
            metrics = np.eye(x.shape[1])[None]
        else:
            x, labels = validate_data(self, X, y, dtype=kinds, ensure_min_samples=2)
            uniform = GenerativeMetric(
                shrinkage=self.shrinkage, interpolation=interpolation, n_jobs=self.n_jobs
            ).fit(x, labels)
            frame = uniform._frame
            regions, metrics = np.zeros(len(x), np.intp), uniform.metric_[None]
            if n_regions > 1:
                Z = frame.inward(x) @ uniform.components_.T
                regions = find_regions(Z, n_regions, self.random_state)
                metrics = regional_metrics(
                    uniform._models,
                    x,
                    frame,
                    regions,
                    interpolation=interpolation,
                    log_priors=uniform._log_priors,
                    n_jobs=self.n_jobs,
                )
        inward = frame.inward(x)
        roots = symmetric_root(metrics)
        sigma2 = np.array([mean_squared_distance(inward @ root.T) for root in roots])
        self._frame = frame
        # Roots in units of sigma: what they give are the exponents for tau = 1.
        self._factors = roots / np.sqrt(sigma2)[:, None, None]
        self.metrics_, self.regions_, self.scales_ = metrics, regions, scales
        self.sigma2_ = sigma2 * frame.scale**2
        self.n_kernels_ = len(metrics) * len(scales)
        return self

    def _check_n_regions(self) -> int:
        number = as_number(self.n_regions)
        if number is None or not isinstance(self.n_regions, Integral) or number < 0:
            raise ValueError(
                "n_regions must be a whole number: 0 for the Euclidean metric, 1 for the uniform "
                f"one, more for regions; got {self.n_regions!r}."
            )
        return int(number)

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

    def _rows(self, X: Any, name: str = "X") -> AnyArray:
        check_is_fitted(self, "metrics_")
        refuse_lazy(X, name)
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))

    def _exponents(self, region: int, x: AnyArray, y: AnyArray | None) -> FloatArray:
        """Squared distances under a regional metric, in units of sigma squared."""
        factor = self._factors[region].T
        w = None if y is None else self._frame.inward(y) @ factor
        return squared_distances(self._frame.inward(x) @ factor, w)

    def gram(self, X: ArrayLike, Y: ArrayLike | None = None) -> AnyArray:
        """Gram matrices of all kernels.

        The squared distances of a region serve all its bandwidths.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        Y : array-like of shape (n_columns, n_features), default=None
            Rows; ``None`` is X.

        Returns
        -------
        ndarray of shape (n_kernels, n_rows, n_columns)
            Kernel values, float32 where X is.

        Raises
        ------
        MemoryError
            If they would not fit, before anything is computed.
        """
        x = self._rows(X)
        y = None if Y is None else self._rows(Y, "Y")
        n_scales = len(self.scales_)
        shape = (self.n_kernels_, len(x), len(x if y is None else y))
        check_memory(stack_bytes(*shape, x.dtype.itemsize), f"The Gram matrices of shape {shape}")
        stack = np.empty(shape, x.dtype)

        def fill(region: int) -> None:
            exponents = self._exponents(region, x, y)
            for K, tau in zip(stack[region * n_scales :], self.scales_, strict=False):
                np.multiply(exponents, -tau, out=K, casting="same_kind")
                np.exp(K, out=K)

        for _ in map_chunks(fill, range(len(self.metrics_)), self.n_jobs):
            pass
        return stack

    def combined_gram(
        self, weights: ArrayLike, X: ArrayLike, Y: ArrayLike | None = None
    ) -> FloatArray:
        r"""The weighted sum :math:`\sum_{pl} w_{pl} K_{pl}` of the kernels (eq. eMKL).

        Only kernels of non-zero weight are computed, and never more than one at a time is held.

        Parameters
        ----------
        weights : array-like of shape (n_kernels,)
            Weights, not negative.
        X : array-like of shape (n_rows, n_features)
            Rows.
        Y : array-like of shape (n_columns, n_features), default=None
            Rows; ``None`` is X.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            float64.
        """
        x = self._rows(X)
        y = None if Y is None else self._rows(Y, "Y")
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
