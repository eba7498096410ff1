"""Local metrics: the closed-form solution of the local optimisation problem at each sample.

A mean of local metrics is a sum and a count: chunks in threads, batches from disk and blocks on a
cluster each make a :class:`MetricSum`, and :meth:`MetricSum.merge` adds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from genmetric._typing import FloatArray

#: Scale of a local metric: unit determinant, or trace equal to the number of features.
Normalization: TypeAlias = Literal["determinant", "trace"]

#: Eigenvalues of Phi below this fraction of the largest one are rounding errors of zero. Rounding
#: errors of rank-deficient matrices of up to 500 features reach about a fifth of it.
ZERO_LEVEL = 1e-14

#: Fraction of its largest eigenvalue that a local metric gets in the directions where Phi is zero.
FLOOR = 1e-10


def check_normalization(normalization: Any) -> None:
    """Raise if `normalization` is not valid."""
    if not (isinstance(normalization, str) and normalization in ("determinant", "trace")):
        raise ValueError(
            f'normalization must be "determinant" or "trace"; got {normalization!r}. "determinant" '
            "is the scale of the paper."
        )


def sign_rule(
    eigenvalues: FloatArray,
    *,
    rounding: FloatArray | None = None,
    normalization: Normalization = "determinant",
    multiplicities: FloatArray | None = None,
) -> FloatArray:
    r"""Compute the eigenvalues of the local metric from those of Phi.

    With :math:`d_+` positive and :math:`d_-` negative eigenvalues :math:`\lambda_i` of Phi,

    .. math:: m_i \propto d_+ \lambda_i \text{ if } \lambda_i > 0, \qquad
              m_i \propto d_- |\lambda_i| \text{ if } \lambda_i < 0 .

    Then trace(M⁻¹ Phi) = 0 if both signs occur. With a single sign the same rule is used.
    Eigenvalues below 1e-14 times the largest one are rounding errors of zero: they count for
    neither sign, and 1e-10 times the largest :math:`m` takes the place of their :math:`m_i`. If Phi
    is zero, the metric is the identity.

    Parameters
    ----------
    eigenvalues : ndarray of shape (..., n_features)
        Eigenvalues of Phi.
    rounding : ndarray of shape (...), default=None
        Absolute level of rounding errors of each Phi: eigenvalues up to this value are treated as
        zero too. Phi is a difference of precisions, which can be much larger than Phi itself.
    normalization : {"determinant", "trace"}, default="determinant"
        Scale of the metric. ``"determinant"`` makes the product of the eigenvalues one, as in the
        paper. ``"trace"`` makes their sum equal to the number of features, the trace of the
        identity: no local metric can then dominate an average by its size.
    multiplicities : ndarray of shape (n_features,), default=None
        Number of times that each eigenvalue occurs, if the same for all spectra; None for once.

    Returns
    -------
    ndarray of shape (..., n_features)
        Positive eigenvalues of the local metric.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.geometry import sign_rule
    >>> sign_rule(np.array([-2.0, 1.0, 3.0]), normalization="trace")
    array([0.6, 0.6, 1.8])
    """
    size = np.abs(eigenvalues)
    level = ZERO_LEVEL * size.max(axis=-1, keepdims=True)
    if rounding is not None:
        level = np.maximum(level, np.asarray(rounding)[..., None])
    positive, negative = eigenvalues > level, eigenvalues < -level
    times = np.ones(size.shape[-1]) if multiplicities is None else multiplicities
    n_positive, n_negative = ((sign @ times)[..., None] for sign in (positive, negative))
    m = size * np.where(positive, n_positive, np.where(negative, n_negative, 0.0))
    top = m.max(axis=-1, keepdims=True)
    m = np.where(positive | negative, m / np.where(top > 0, top, 1.0), FLOOR)
    m = np.where(top > 0, m, 1.0)
    n_features = float(times.sum())
    if normalization == "trace":
        return np.asarray(m / (m @ times / n_features)[..., None])
    log_m = np.log(m)
    return np.asarray(np.exp(log_m - (log_m @ times / n_features)[..., None]))


def local_metric_factors(
    phi: FloatArray,
    normalization: Normalization = "determinant",
    rounding: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues m and eigenvectors U (in columns) of the local metrics of a stack of Phi.

    `rounding` is the level of rounding errors of each Phi; see :func:`sign_rule`.
    """
    # Only ratios matter: a size of one keeps LAPACK away from overflow.
    size = np.abs(phi).max(axis=(-2, -1), keepdims=True)
    if not np.isfinite(size).all():
        raise ValueError("Phi is not finite. Check X and the class models for NaN.")
    size = np.where(size > 0, size, 1.0)
    eigenvalues, U = np.linalg.eigh(phi / size)
    level = None if rounding is None else rounding / size[..., 0, 0]
    return sign_rule(eigenvalues, rounding=level, normalization=normalization), U


def local_metrics(phi: FloatArray, *, normalization: Normalization = "determinant") -> FloatArray:
    r"""Compute the local metrics :math:`M = U\,\mathrm{diag}(m)\,U^T` of a stack of Phi.

    Parameters
    ----------
    phi : ndarray of shape (..., n_features, n_features)
        Symmetric matrices.
    normalization : {"determinant", "trace"}, default="determinant"
        Scale of each metric. ``"determinant"``: determinant one, as in the paper. ``"trace"``:
        trace equal to the number of features, so that :func:`interpolate` mixes the identity with
        metrics of its own size.

    Returns
    -------
    ndarray of shape (..., n_features, n_features)
        Symmetric positive definite matrices.
    """
    check_normalization(normalization)
    m, U = local_metric_factors(phi, normalization)
    half = U * np.sqrt(m)[..., None, :]
    return np.asarray(half @ np.swapaxes(half, -1, -2))


def interpolate(metric: FloatArray, interpolation: float) -> FloatArray:
    r"""Interpolate between the identity and a metric: :math:`(1-\lambda) I + \lambda M`.

    Parameters
    ----------
    metric : ndarray of shape (..., n_features, n_features)
        Metrics M. Local metrics of trace D average to a metric of trace D, the size of the
        identity. Local metrics of unit determinant average to a determinant of at least one.
    interpolation : float
        The weight lambda of M, in [0, 1]. Smaller values regularise towards the identity.

    Returns
    -------
    ndarray of shape (..., n_features, n_features)
        Interpolated metrics.
    """
    return (1 - interpolation) * np.eye(metric.shape[-1]) + interpolation * metric


@dataclass(frozen=True)
class MetricSum:
    """Sum of local metrics, and the sums that the standard error of their mean needs.

    Attributes
    ----------
    total : ndarray of shape (n_features, n_features)
        Sum of w_i M_i.
    weight : float
        Sum of w_i.
    square : float
        Sum of w_i times the squared Frobenius norm of M_i.
    """

    total: FloatArray
    weight: float
    square: float

    @classmethod
    def zero(cls, n_features: int) -> MetricSum:
        """Return the sum over no samples."""
        return cls(np.zeros((n_features, n_features)), 0.0, 0.0)

    def merge(self, other: MetricSum) -> MetricSum:
        """Return the sum over the samples of both."""
        return MetricSum(
            self.total + other.total,
            self.weight + other.weight,
            self.square + other.square,
        )

    def mean(self) -> FloatArray:
        """Return the weighted mean of the local metrics, exactly symmetric."""
        return np.asarray((self.total + self.total.T) / (2 * self.weight))

    def relative_stderr(self, population: float = np.inf) -> float:
        r"""Return the standard error of the mean of sampled metrics, relative to its norm.

        For n metrics drawn without replacement out of N,

        .. math:: \mathrm{se}^2 = \frac{1 - n/N}{n - 1}
                  \left(\frac1n\sum_i \|M_i\|_F^2 - \|\bar M\|_F^2\right).

        Parameters
        ----------
        population : float, default=inf
            Number N of samples that the subset was drawn from.

        Returns
        -------
        float
            Relative standard error; zero if every sample was used.
        """
        if self.weight <= 1:
            return float("inf") if population > self.weight else 0.0
        mean = self.mean()
        norm2 = float(np.einsum("ij,ij->", mean, mean))
        variance = max(self.square / self.weight - norm2, 0.0)
        share = max(1 - self.weight / population, 0.0)
        return float(np.sqrt(share * variance / (self.weight - 1) / norm2))
