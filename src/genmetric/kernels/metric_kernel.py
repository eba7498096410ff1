"""The kernel of one metric, as a function that scikit-learn's estimators take for ``kernel``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import as_number, refuse_lazy
from genmetric.density.frame import Frame
from genmetric.geometry.factor import symmetric_root
from genmetric.metric.mahalanobis import MahalanobisMixin

#: Rows further out than this, in units of the spread of the training rows, count as this far: the
#: squares stay finite, and the kernel is zero there anyway.
FARTHEST = 1e140

KINDS = ("rbf", "linear")


def mean_squared_distance(Z: FloatArray) -> float:
    r"""Mean squared Euclidean distance of two different rows, and one where all rows coincide.

    .. math:: \sigma_0^2 = \frac{1}{n(n-1)} \sum_{ij} \|z_i - z_j\|^2
              = \frac{2}{n-1} \sum_i \|z_i - \bar z\|^2 .

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_features)
        Rows.

    Returns
    -------
    float
        Above zero.
    """
    if len(Z) < 2:
        return 1.0
    e = Z - Z.mean(axis=0)
    value = 2 * float(np.einsum("ij,ij->", e, e)) / (len(Z) - 1)
    return value if value > 0 else 1.0


def squared_distances(Z: FloatArray, W: FloatArray | None = None) -> FloatArray:
    """Squared Euclidean distances of rows that lie about the origin.

    Parameters
    ----------
    Z : ndarray of shape (n_rows, n_features)
        Rows.
    W : ndarray of shape (n_columns, n_features), default=None
        Rows; ``None`` is Z, and the diagonal is zero exactly.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Not negative.
    """
    z = np.clip(Z, -FARTHEST, FARTHEST)
    w = None if W is None else np.clip(W, -FARTHEST, FARTHEST)
    return np.asarray(euclidean_distances(z, w, squared=True))


@dataclass(frozen=True, eq=False)
class MetricKernel:
    """What :func:`metric_kernel` returns: call it with two arrays of rows.

    Attributes
    ----------
    kind : str
        "rbf" or "linear".
    scale : float
        Inverse bandwidth of the "rbf" kernel.
    sigma2 : float or None
        Unit of squared distances; ``None`` is found from the second array of rows.
    factor : ndarray of shape (n_components, n_features) or None
        The factor L of a Mahalanobis metric.
    transformer : object or None
        What maps rows to the metric's space where there is no factor.
    """

    kind: str
    scale: float
    sigma2: float | None
    factor: FloatArray | None = field(repr=False)
    transformer: Any

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Any:
        """Kernel values.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows, or a single one of shape (n_features,).
        Y : array-like of shape (n_columns, n_features), default=None
            Rows (the training rows, where scikit-learn calls); ``None`` is X.

        Returns
        -------
        ndarray of shape (n_rows, n_columns) or float
            Kernel values, float32 where X is; a float for two single rows.
        """
        if np.ndim(X) == 1 and Y is not None and np.ndim(Y) == 1:
            if self.kind == "rbf" and self.sigma2 is None:
                raise ValueError(
                    "The kernel of two single rows needs a unit of distance. Pass sigma2, the "
                    "mean squared distance of the training rows, to metric_kernel."
                )
            return float(self(np.asarray(X)[None], np.asarray(Y)[None])[0, 0])
        x = self._rows(X, "X")
        y = x if Y is None or Y is X else self._rows(Y, "Y")
        return (self._linear(x, y) if self.kind == "linear" else self._rbf(x, y)).astype(
            x.dtype, copy=False
        )

    def _rows(self, X: Any, name: str) -> AnyArray:
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
        if self.factor is not None:
            x, y = (np.asarray(rows, float) @ self.factor.T for rows in (x, y))
        return np.asarray(x @ y.T)

    def _rbf(self, x: AnyArray, y: AnyArray) -> FloatArray:
        # Centred and scaled rows: distances between rows far from the origin keep their digits.
        frame = Frame.of(y)
        z, w = (frame.inward(rows) for rows in (x, y))
        if self.factor is not None:
            z, w = z @ self.factor.T, w @ self.factor.T
        if self.sigma2 is None:
            unit = self.scale / mean_squared_distance(w)
        else:
            unit = self.scale * frame.scale * (frame.scale / self.sigma2)
        K = squared_distances(z, None if x is y else w)
        K *= -unit
        return np.exp(K, out=K)


def metric_kernel(
    metric: Any, kind: str = "rbf", *, scale: float = 1.0, sigma2: float | None = None
) -> MetricKernel:
    r"""The kernel of a metric, for ``SVC(kernel=...)`` and the like.

    .. math:: k(x, x') = \exp\{-\tau\,(x-x')^T M (x-x') / \sigma_0^2\} \quad\text{(eq. eNonlinear)}
              \qquad\text{or}\qquad k(x, x') = x^T M x' .

    Parameters
    ----------
    metric : fitted transformer or array-like of shape (n_features, n_features)
        What maps rows to the space of the metric, such as a fitted
        :class:`~genmetric.GenerativeMetric` or a pipeline that ends in one, or the matrix M. A
        later fit of a metric of this package does not change the kernel.
    kind : "rbf" or "linear", default="rbf"
        Gaussian or linear.
    scale : float, default=1.0
        The inverse bandwidth :math:`\tau` of "rbf".
    sigma2 : float, default=None
        The unit :math:`\sigma_0^2` of squared distances of "rbf". ``None`` is the mean squared
        distance between the rows of the *second* array passed, which for
        :class:`sklearn.svm.SVC` are the training rows at fit and at predict. With ``sigma2=1``
        `scale` is scikit-learn's `gamma`.

    Returns
    -------
    MetricKernel
        Callable with two arrays of rows; it can be copied and pickled.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.datasets import load_vehicle
    >>> from genmetric.kernels import metric_kernel
    >>> from sklearn.svm import SVC
    >>> X, y = load_vehicle(return_X_y=True)
    >>> metric = GenerativeMetric().fit(X[::2], y[::2])
    >>> svm = SVC(kernel=metric_kernel(metric), C=100).fit(X[::2], y[::2])
    >>> bool(svm.score(X[1::2], y[1::2]) > 0.8)
    True
    """
    if kind not in KINDS:
        raise ValueError(f'kind must be "rbf" or "linear"; got {kind!r}.')
    tau = as_number(scale)
    if tau is None or not 0 < tau < np.inf:
        raise ValueError(f"scale must be a positive number; got {scale!r}.")
    unit = None if sigma2 is None else as_number(sigma2)
    if sigma2 is not None and (unit is None or not 0 < unit < np.inf):
        raise ValueError(f"sigma2 must be None or a positive number; got {sigma2!r}.")
    if isinstance(metric, MahalanobisMixin):
        check_is_fitted(metric, "components_")
        return MetricKernel(kind, tau, unit, np.array(metric.components_, float), None)
    if callable(getattr(metric, "transform", None)):
        check_is_fitted(metric)
        return MetricKernel(kind, tau, unit, None, metric)
    return MetricKernel(kind, tau, unit, _factor_of_matrix(metric), None)


def _factor_of_matrix(metric: Any) -> FloatArray:
    try:
        M = np.asarray(metric, dtype=float)
    except (TypeError, ValueError):
        M = np.empty(0)
    if M.ndim != 2 or M.shape[0] != M.shape[1] or not M.size:
        raise TypeError(
            "metric must be a fitted transformer or a square matrix M; got "
            f"{type(metric).__name__}{f' of shape {M.shape}' if M.size else ''}."
        )
    if not np.isfinite(M).all():
        raise ValueError("The matrix of the metric has NaN or infinite entries.")
    size = np.abs(M).max()
    if np.abs(M - M.T).max() > 1e-8 * size or np.linalg.eigvalsh(M).min() < -1e-8 * size:
        raise ValueError(
            "The matrix of the metric is not symmetric positive semidefinite, so it is no metric."
        )
    return symmetric_root(M)
