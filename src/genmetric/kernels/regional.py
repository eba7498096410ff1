"""RegionalKernels: Gaussian kernels of regional metrics at many bandwidths."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from genmetric._parallel import check_memory, map_chunks, openmp_threads
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    FLOATS,
    Interval,
    ParameterRules,
    as_numbers,
    check_parameters,
    check_weights,
    labelled_rows,
    query_rows,
    refuse_lazy,
    rows_by_class,
)
from genmetric._validation import ArrayLike as ArrayRule
from genmetric.density import Coordinates, LowRankGaussians
from genmetric.geometry import interpolate, sum_local_metrics, symmetric_root
from genmetric.kernels.metric_kernel import median_squared_distance, squared_distances
from genmetric.learners.generative import GenerativeMetric

#: The inverse bandwidths of the paper, 2^-6, 2^-5, ..., 2^8.
SCALES = 2.0 ** np.arange(-6, 9)

#: Advice of the error if Gram matrices do not fit in memory.
FEWER_KERNELS = "Use fewer kernels (n_regions, scales) or fewer samples; float32 input halves it."


def find_regions(Z: FloatArray, n_regions: int, random_state: Any) -> IntArray:
    """Divide samples into regions 0, 1, ... by k-means; no region is empty."""
    n_clusters = min(n_regions, len(np.unique(Z, axis=0)))
    # The order in which threads of k-means sum depends on their timing, which affects rounding.
    with openmp_threads(1):
        k_means = KMeans(n_clusters, n_init=10, random_state=random_state).fit(Z)
    return np.unique(k_means.labels_, return_inverse=True)[1]


def draw_of_each_class(codes: IntArray, fraction: float, random_state: Any) -> IntArray:
    """Draw a fraction of the samples of each class: at least one, and not all if there are two."""
    rng, drawn = check_random_state(random_state), []
    for rows in rows_by_class(codes, codes.max() + 1):
        n_drawn = max(1, min(len(rows) - 1, round(fraction * len(rows))))
        drawn.append(rng.permutation(rows)[:n_drawn])
    return np.sort(np.concatenate(drawn))


def average_local_metric(metric: GenerativeMetric, X: AnyArray) -> FloatArray:
    """Average the local metrics of some samples, interpolated as in the fit of all."""
    # Not `metric.local_metrics(X).mean(axis=0)`, which holds a matrix per sample and is slower.
    models = metric._models
    total = sum_local_metrics(
        *(models, X, metric._coordinates),
        solver="low-rank" if isinstance(models, LowRankGaussians) else "dense",
        n_jobs=metric.n_jobs,
    )
    return interpolate(total.mean(), metric.interpolation)


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
        ``None`` uses maximum likelihood, ``"auto"`` uses Ledoit-Wolf, and larger numbers in [0, 1]
        regularise more.
    interpolation : float, default=1.0
        Weight lambda of each local metric against the identity, (1-lambda)·I + lambda·M_i. Smaller
        values regularise towards the Euclidean metric.
    holdout : float, default=None
        Fraction of the samples of each class, drawn at random, that `fit` holds out, in (0, 1).
        Local metrics fit the samples they are learned from too well, so their kernels look better
        on these than on new samples; :class:`SimpleMKLClassifier` therefore learns the kernel
        weights from the held-out samples, and then trains on all. Smaller fractions give better
        metrics, larger ones better weights. ``None`` uses all samples for both.
    n_jobs : int, default=None
        Number of threads. Results are bit-identical for every value.
    random_state : int, RandomState instance or None, default=None
        Random state of k-means and of `holdout`.

    Attributes
    ----------
    metrics_ : ndarray of shape (n_regions, n_features, n_features)
        Metric of each region; the identity for ``n_regions=0``.
    sigma2_ : ndarray of shape (n_regions,)
        Median squared distance between two training samples under each metric.
    scales_ : ndarray of shape (n_scales,)
        Inverse bandwidths.
    regions_ : ndarray of shape (n_samples,)
        Region of each sample that the metrics are learned from.
    holdout_ : ndarray of shape (n_holdout,)
        Indices of the samples to learn kernel weights from: those held out, or all samples if
        ``holdout=None``.
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
        "holdout": [None, Interval(float, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        n_regions: Any = 5,
        *,
        scales: ArrayLike | None = None,
        shrinkage: Any = "auto",
        interpolation: float = 1.0,
        holdout: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_regions = n_regions
        self.scales = scales
        self.shrinkage = shrinkage
        self.interpolation = interpolation
        self.holdout = holdout
        self.n_jobs = n_jobs
        self.random_state = random_state

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
        self.scales_ = as_numbers(SCALES if self.scales is None else self.scales, "scales")
        valid = (self.scales_ > 0) & (self.scales_ < np.inf)
        if valid.ndim != 1 or not valid.size or not valid.all():
            raise ValueError(
                "scales must be None or a list of positive numbers, the inverse bandwidths; got "
                f"{self.scales!r}."
            )
        if self.n_regions == 0:
            refuse_lazy(X)
            x = validate_data(self, X, dtype=FLOATS)
            self.holdout_ = np.arange(len(x))
            self.metrics_ = np.eye(x.shape[1])[None]
        else:
            x, labels, _, codes = labelled_rows(self, X, y, ensure_min_samples=2)
            self.holdout_ = np.arange(len(x))
            if self.holdout is not None:
                self.holdout_ = draw_of_each_class(codes, self.holdout, self.random_state)
                x, labels = (np.delete(a, self.holdout_, axis=0) for a in (x, labels))
            # Unit determinant, as in the paper.
            uniform = GenerativeMetric(
                shrinkage=self.shrinkage,
                normalization="determinant",
                interpolation=self.interpolation,
                n_jobs=self.n_jobs,
                random_state=self.random_state,
            ).fit(x, labels)
            self.metrics_ = uniform.metric_[None]
        coordinates = Coordinates.of(x)
        z = coordinates.apply(x)
        self.regions_ = np.zeros(len(x), np.intp)
        if self.n_regions > 1:
            mapped = z @ uniform.components_.T
            self.regions_ = find_regions(mapped, self.n_regions, self.random_state)
            parts = rows_by_class(self.regions_, self.regions_.max() + 1)
            self.metrics_ = np.array([average_local_metric(uniform, x[part]) for part in parts])
        roots = symmetric_root(self.metrics_)
        sigma2 = np.array([median_squared_distance(z @ root.T) for root in roots])
        self.sigma2_ = sigma2 * coordinates.unit**2
        self.n_kernels_ = len(self.metrics_) * len(self.scales_)
        self._coordinates = coordinates
        # In units of sigma: squared distances are the exponents for tau = 1.
        self._factors = roots / np.sqrt(sigma2)[:, None, None]
        return self

    def _exponents(self, region: int, x: AnyArray, y: AnyArray | None) -> FloatArray:
        """Compute squared distances under a regional metric, in units of sigma squared."""
        factor = self._factors[region].T
        w = None if y is None else self._coordinates.apply(y) @ factor
        return squared_distances(self._coordinates.apply(x) @ factor, w)

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
        n_bytes = x.dtype.itemsize * math.prod(shape)
        check_memory(n_bytes, f"The Gram matrices of shape {shape}", FEWER_KERNELS)
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
            if row.any():
                exponents = self._exponents(region, x, y)
                for scale in np.flatnonzero(row):
                    out += row[scale] * np.exp(-self.scales_[scale] * exponents)
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.n_regions != 0
        return tags
