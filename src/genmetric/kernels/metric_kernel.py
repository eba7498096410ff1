"""The kernel of one metric, as a callable for the parameter `kernel` of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import Interval, check_parameter, refuse_lazy
from genmetric.density import Coordinates
from genmetric.geometry import symmetric_root
from genmetric.learners.mahalanobis import LinearMapMixin

#: Largest coordinate, in units of the spread of the training samples. Larger ones are clipped, so
#: their squares are finite; the kernel is zero at these distances.
MAX_COORDINATE = 1e140


def median_squared_distance(Z: FloatArray) -> float:
    """Compute the median squared distance between two samples, from at most 2048 of them."""
    # Outlying samples can make the mean so large that the kernel is constant at every bandwidth.
    if len(Z) > 2048:
        Z = Z[np.linspace(0, len(Z) - 1, 2048).astype(int)]
    if len(Z) < 2:
        return 1.0
    distances = pdist(np.clip(Z, -MAX_COORDINATE, MAX_COORDINATE), "sqeuclidean")
    value = float(np.median(distances))
    if value == 0 and distances.any():  # more than half of the pairs coincide
        value = float(distances[distances > 0].mean())
    return value if value > 0 else 1.0


def squared_distances(Z: FloatArray, W: FloatArray | None = None) -> FloatArray:
    """Compute squared distances of samples near the origin; without W those within Z."""
    z, w = (None if A is None else np.clip(A, -MAX_COORDINATE, MAX_COORDINATE) for A in (Z, W))
    return np.asarray(euclidean_distances(z, w, squared=True))


@dataclass(frozen=True, eq=False)
class MetricKernel:
    """Kernel of a metric, made by :func:`metric_kernel`: a callable with two arrays of samples.

    Attributes
    ----------
    kind : str
        Type of the kernel: "rbf" or "linear".
    scale : float
        Inverse bandwidth of the "rbf" kernel.
    sigma2 : float or None
        Unit of squared distances; ``None`` computes it from the second array of samples.
    factor : ndarray of shape (n_components, n_features) or None
        The factor L of a Mahalanobis metric.
    transformer : object or None
        Transformer to the learned space, if there is no factor.
    """

    kind: str
    scale: float
    sigma2: float | None
    factor: FloatArray | None = field(repr=False)
    transformer: Any

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Any:
        """Compute kernel values.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Samples, or a single sample of shape (n_features,).
        Y : array-like of shape (n_columns, n_features), default=None
            Samples (the training samples if scikit-learn calls); ``None`` uses X.

        Returns
        -------
        ndarray of shape (n_rows, n_columns) or float
            Kernel values, float32 if X is; a float for two single samples.
        """
        if np.ndim(X) == 1 and Y is not None and np.ndim(Y) == 1:
            if self.kind == "rbf" and self.sigma2 is None:
                raise ValueError(
                    "The kernel of two single samples needs a unit of distance. Pass sigma2, the "
                    "median squared distance of the training samples, to metric_kernel."
                )
            return float(self(np.asarray(X)[None], np.asarray(Y)[None])[0, 0])
        x = self._samples(X, "X")
        y = x if Y is None or Y is X else self._samples(Y, "Y")
        K = self._linear(x, y) if self.kind == "linear" else self._rbf(x, y)
        return K.astype(x.dtype, copy=False)

    def _samples(self, X: Any, name: str) -> AnyArray:
        """Validate samples; those of a transformer are mapped."""
        refuse_lazy(X, name)
        if self.factor is None:
            return np.asarray(check_array(self.transformer.transform(X), dtype="numeric"))
        x = check_array(X, dtype=[np.float64, np.float32], input_name=name)
        if x.shape[1] != self.factor.shape[1]:
            raise ValueError(
                f"{name} has {x.shape[1]} features, but the metric is expecting "
                f"{self.factor.shape[1]} features as input."
            )
        return np.asarray(x)

    def _linear(self, x: AnyArray, y: AnyArray) -> FloatArray:
        """Compute inner products in the learned space."""
        if self.factor is not None:
            x, y = (np.asarray(rows, float) @ self.factor.T for rows in (x, y))
        return np.asarray(x @ y.T)

    @np.errstate(under="ignore")
    def _rbf(self, x: AnyArray, y: AnyArray) -> FloatArray:
        """Compute Gaussians of distances in the learned space."""
        # Centred and scaled: distances between samples far from the origin keep their precision.
        coordinates = Coordinates.of(y)
        z, w = (coordinates.apply(rows) for rows in (x, y))
        if self.factor is not None:
            z, w = z @ self.factor.T, w @ self.factor.T
        if self.sigma2 is None:
            rate = self.scale / median_squared_distance(w)
        else:
            rate = self.scale * coordinates.unit * (coordinates.unit / self.sigma2)
        K = squared_distances(z, None if x is y else w)
        K *= -rate
        return np.exp(K, out=K)


def metric_kernel(
    metric: Any, kind: str = "rbf", *, scale: float = 1.0, sigma2: float | None = None
) -> MetricKernel:
    r"""Make the kernel of a metric, for ``SVC(kernel=...)`` and other kernel methods.

    .. math:: k(x, x') = \exp\{-\tau\,(x-x')^T M (x-x') / \sigma_0^2\} \quad\text{(equation 13)}
              \qquad\text{or}\qquad k(x, x') = x^T M x' .

    Parameters
    ----------
    metric : fitted transformer or array-like of shape (n_features, n_features)
        A transformer to the learned space, such as a fitted
        :class:`~genmetric.GenerativeMetric` or a pipeline that ends in one, or the matrix M.
        Fitting a metric of this package again does not change the kernel.
    kind : "rbf" or "linear", default="rbf"
        Type of the kernel, Gaussian or linear.
    scale : float, default=1.0
        Inverse bandwidth :math:`\tau` of the "rbf" kernel; larger values make it narrower.
    sigma2 : float, default=None
        Unit :math:`\sigma_0^2` of squared distances for the "rbf" kernel; larger values make the
        kernel wider. ``None`` computes the median squared distance between the samples of the
        *second* array passed, which for :class:`sklearn.svm.SVC` are the training samples both
        in fit and in predict. With ``sigma2=1``, `scale` equals scikit-learn's `gamma`.

    Returns
    -------
    MetricKernel
        Callable with two arrays of samples; it can be copied and pickled.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.datasets import load_vehicle
    >>> from genmetric.kernels import metric_kernel
    >>> from sklearn.svm import SVC
    >>> X, y = load_vehicle(return_X_y=True)
    >>> metric = GenerativeMetric(shrinkage=None).fit(X[::2], y[::2])
    >>> svm = SVC(kernel=metric_kernel(metric), C=100).fit(X[::2], y[::2])
    >>> bool(svm.score(X[1::2], y[1::2]) > 0.8)
    True
    """
    check_parameter(kind, "kind", ["rbf", "linear"])
    check_parameter(scale, "scale", [Interval(float, 0, closed="neither")])
    check_parameter(sigma2, "sigma2", [None, Interval(float, 0, closed="neither")])
    factor = transformer = None
    if isinstance(metric, LinearMapMixin):
        check_is_fitted(metric, "components_")
        factor = np.array(metric.components_, float)
    elif callable(getattr(metric, "transform", None)):
        check_is_fitted(metric)
        transformer = metric
    else:
        factor = _factor_of_matrix(metric)
    unit = None if sigma2 is None else float(sigma2)
    return MetricKernel(kind, float(scale), unit, factor, transformer)


def _factor_of_matrix(metric: Any) -> FloatArray:
    """Return the symmetric root of the matrix of a metric; raise if it is not one."""
    shape = np.shape(metric)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise TypeError(
            "metric must be a fitted transformer or a square matrix M; got "
            f"{type(metric).__name__} of shape {shape}."
        )
    M = check_array(metric, dtype=np.float64, input_name="metric")
    size = np.abs(M).max()
    if np.abs(M - M.T).max() > 1e-8 * size or np.linalg.eigvalsh(M).min() < -1e-8 * size:
        raise ValueError(
            "The matrix of a metric must be symmetric positive semidefinite; got one that is not."
        )
    return symmetric_root(M)
