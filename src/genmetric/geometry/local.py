r"""Local metrics: the closed-form solution of the local optimisation problem at each sample.

For any number of classes the first-order bias of the nearest-neighbour error is the trace of

.. math:: \Phi = \sum_c w_c G_c, \qquad G_c = \nabla\nabla p_c / p_c, \qquad
          w_c = p_c \Big(\sum_{c' \ne c} p_{c'}^2 - p_c \sum_{c' \ne c} p_{c'}\Big),

and the weights sum to zero. A local metric does not change with the scale or the sign of Phi, so
only ratios of the weights matter, and densities are never formed. The sign rule turns the
eigenvalues of Phi into those of the local metric, and the factor L of an average of local metrics
is a root of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from genmetric._typing import FloatArray
from genmetric.density import ClassModels

#: Scale of a local metric: unit determinant, or trace equal to the number of features.
Normalization: TypeAlias = Literal["determinant", "trace"]

#: Eigenvalues of Phi below this fraction of the largest one are rounding errors of zero. Rounding
#: errors of rank-deficient matrices of up to 500 features reach about a fifth of it.
ZERO_LEVEL = 1e-14

#: Fraction of its largest eigenvalue that a local metric gets in the directions where Phi is zero.
FLOOR = 1e-10

# Phi


def curvature_weights(log_joint: FloatArray) -> FloatArray:
    r"""Compute the weight :math:`w_c` of each class in Phi, divided by the largest weight.

    With :math:`r_c = p_c/p_{(1)}` and :math:`s_c = p_c/p_{(2)}` relative to the two largest
    densities and :math:`\delta_c = 1 - r_c`, dividing by :math:`p_{(1)}^2 p_{(2)}` leaves

    .. math:: w_{(1)} = -\sum_{c \ne (1)} s_c \delta_c, \qquad
              w_c = s_c \Big(\delta_c + \delta_c \sum_{c'} r_{c'} - \sum_{c'} r_{c'}
              \delta_{c'}\Big),

    with sums over all classes but the first. The weights are finite if one posterior is one to
    machine precision, and there is no cancellation if densities nearly agree. If all weights
    vanish, the two leading classes get the weights +1 and -1.

    Parameters
    ----------
    log_joint : ndarray of shape (n_samples, n_classes)
        Log-densities, plus log-priors if the classes have priors.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Weights with largest absolute value one and sum zero.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.geometry import curvature_weights
    >>> curvature_weights(np.log([[0.8, 0.1, 0.1]]))
    array([[-1. ,  0.5,  0.5]])
    """
    if not np.isfinite(log_joint).all():
        raise ValueError(
            "The log-density of a class is not finite, because a sample is very far from every class "
            "or a class model returns NaN. Check X for outliers."
        )
    every, first = np.arange(len(log_joint)), log_joint.argmax(axis=1)
    below_first = log_joint - log_joint.max(axis=1, keepdims=True)
    others = log_joint.copy()
    others[every, first] = -np.inf
    with np.errstate(under="ignore"):
        r, delta = np.exp(below_first), -np.expm1(below_first)
        r[every, first] = 0.0
        s = np.exp(others - others.max(axis=1, keepdims=True))  # zero for the first class
        rest = (r * delta).sum(axis=1, keepdims=True)
        w = s * (delta * (1 + r.sum(axis=1, keepdims=True)) - rest)
        w[every, first] = -(s * delta).sum(axis=1)
        largest = np.abs(w).max(axis=1)
        tied = np.flatnonzero(largest == 0)
        w[tied, first[tied]], w[tied, others[tied].argmax(axis=1)] = -1.0, 1.0
        largest[tied] = 1.0
        return np.asarray(w / largest[:, None])


def phi_weights(
    models: ClassModels, X: FloatArray, log_priors: FloatArray | None = None
) -> FloatArray:
    """Compute the weight of each class in Phi at each sample.

    Parameters
    ----------
    models : ClassModels
        Class models.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` for equal priors.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        See :func:`curvature_weights`. Two classes have the weights -1 and 1 at every sample, and no
        density is evaluated.
    """
    if models.n_classes == 2:
        return np.tile([-1.0, 1.0], (len(X), 1))
    log_joint = models.log_density(X)
    return curvature_weights(log_joint if log_priors is None else log_joint + log_priors)


def rounding_level(size: FloatArray, terms: FloatArray) -> FloatArray:
    """Return the absolute size of rounding errors in the eigenvalues of each Phi.

    `size` is the largest absolute entry or eigenvalue of each Phi, and `terms` the size of the
    precisions that it is a difference of. If they cancel to a large part, the rounding errors of
    the covariances themselves are left.
    """
    return np.where(size < 1e-6 * terms, 1e-12, 1e-14) * terms


def local_spectra(
    models: ClassModels,
    X: FloatArray,
    class_weights: FloatArray,
    normalization: Normalization = "determinant",
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return lam, m and U with Phi = U diag(lam) Uᵀ and local metric U diag(m) Uᵀ of each sample.

    If columns are collinear, every class has a precision of 1e8 in the same direction. The
    difference of the precisions vanishes there up to rounding, and the sign rule would use the sign
    of a rounding error: such eigenvalues are set to zero.
    """
    matrices = models.weighted_curvature(X, class_weights)
    size = np.abs(matrices).max(axis=(1, 2))
    if not np.isfinite(size).all():
        raise ValueError(
            "Phi is not finite: samples are so far from the classes that squares overflow, or a "
            "class model returns NaN. Check X for outliers."
        )
    # Only ratios matter: a size of one keeps LAPACK away from overflow.
    unit = np.where(size > 0, size, 1.0)
    scaled = matrices / unit[:, None, None]
    lam, U = np.linalg.eigh((scaled + scaled.transpose(0, 2, 1)) / 2)
    lam *= unit[:, None]
    lam[np.abs(lam) <= rounding_level(size, models.precision_size(class_weights))[:, None]] = 0.0
    U[~lam.any(axis=1)] = np.eye(X.shape[1])  # the axes of rounding errors would cause more
    return lam, sign_rule(lam, normalization=normalization), U


def phi(models: ClassModels, X: FloatArray, log_priors: FloatArray | None = None) -> FloatArray:
    """Compute Phi at each sample, up to scale and sign.

    Parameters
    ----------
    models : ClassModels
        Class models.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` means equal priors.

    Returns
    -------
    ndarray of shape (n_samples, n_features, n_features)
        Symmetric matrices, free of eigenvalues that are rounding errors.
    """
    lam, _, U = local_spectra(models, X, phi_weights(models, X, log_priors))
    half = U * np.sqrt(np.abs(lam))[:, None, :]
    return np.asarray((half * np.sign(lam)[:, None, :]) @ half.transpose(0, 2, 1))


# Local metrics


def sign_rule(
    eigenvalues: FloatArray,
    *,
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


def local_metrics(phi: FloatArray, *, normalization: Normalization = "determinant") -> FloatArray:
    r"""Compute the local metrics :math:`M = U\,\mathrm{diag}(m)\,U^T` of a stack of Phi.

    Parameters
    ----------
    phi : ndarray of shape (..., n_features, n_features)
        Symmetric matrices.
    normalization : {"determinant", "trace"}, default="determinant"
        Scale of each metric. ``"determinant"``: determinant one, as in the paper. ``"trace"``:
        trace equal to the number of features, so :func:`interpolate` mixes the identity with
        metrics of its own size.

    Returns
    -------
    ndarray of shape (..., n_features, n_features)
        Symmetric positive definite matrices.
    """
    size = np.abs(phi).max(axis=(-2, -1), keepdims=True)
    eigenvalues, U = np.linalg.eigh(phi / np.where(size > 0, size, 1.0))
    half = U * np.sqrt(sign_rule(eigenvalues, normalization=normalization))[..., None, :]
    return np.asarray(half @ np.swapaxes(half, -1, -2))


def sample_metrics(
    models: ClassModels,
    X: FloatArray,
    log_priors: FloatArray | None = None,
    normalization: Normalization = "determinant",
) -> FloatArray:
    """Return the local metric of each sample, shape (n_samples, n_features, n_features)."""
    _, m, U = local_spectra(models, X, phi_weights(models, X, log_priors), normalization)
    half = U * np.sqrt(m)[:, None, :]
    return np.asarray(half @ half.transpose(0, 2, 1))


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


def sum_of_samples(
    models: ClassModels,
    X: FloatArray,
    class_weights: FloatArray,
    weights: FloatArray,
    normalization: Normalization,
) -> MetricSum:
    r"""Sum the local metrics of samples, given the weights of the classes in Phi.

    The metrics themselves are never formed: with :math:`M_i = U_i \mathrm{diag}(m_i) U_i^T` the
    sum is one product of a wide matrix, the columns :math:`\sqrt{w_i m_{ik}} u_{ik}`, with its
    transpose.
    """
    _, m, U = local_spectra(models, X, class_weights, normalization)
    U *= np.sqrt(m * weights[:, None])[:, None, :]
    wide = U.transpose(1, 0, 2).reshape(X.shape[1], -1)
    return MetricSum(
        wide @ wide.T,
        float(weights.sum()),
        float(weights @ (m**2).sum(axis=1)),
    )


def dense_bytes_per_row(n_features: int, n_classes: int) -> int:
    """Return the bytes of temporary arrays per sample of :func:`sum_of_samples`."""
    return 8 * (6 * n_features**2 + 12 * n_classes + 3 * n_classes * n_features)


# Factors L of a metric M = LᵀL


def symmetric_root(metric: FloatArray) -> FloatArray:
    """Compute the symmetric square root L of a metric, M = L L = LᵀL.

    Parameters
    ----------
    metric : ndarray of shape (..., n_features, n_features)
        Symmetric positive semidefinite matrices.

    Returns
    -------
    ndarray of shape (..., n_features, n_features)
        Symmetric positive semidefinite roots.
    """
    if not np.isfinite(metric).all():
        raise ValueError(
            "The metric is not finite. Check X for numbers near the limits of float64."
        )
    eigenvalues, U = np.linalg.eigh((metric + np.swapaxes(metric, -1, -2)) / 2)
    quarter = U * np.sqrt(np.sqrt(np.maximum(eigenvalues, 0.0)))[..., None, :]
    return np.asarray(quarter @ np.swapaxes(quarter, -1, -2))


def rank_limited_factor(
    metric: FloatArray, n_components: int, covariance: FloatArray
) -> FloatArray:
    r"""Compute the best factor of given rank: it minimises the average loss in squared distance.

    With the covariance S of the data its rows are the leading principal components of the data in
    the learned space, :math:`L = V^T M^{1/2}` with V the leading eigenvectors of
    :math:`M^{1/2} S M^{1/2}`.

    Parameters
    ----------
    metric : ndarray of shape (n_features, n_features)
        Symmetric positive semidefinite matrix.
    n_components : int
        Number of rows of the factor.
    covariance : ndarray of shape (n_features, n_features)
        Covariance of the data.

    Returns
    -------
    ndarray of shape (n_components, n_features)
        The factor.
    """
    root = symmetric_root(metric)
    inside = root @ covariance @ root
    _, V = np.linalg.eigh((inside + inside.T) / 2)
    return np.asarray(V.T[::-1][:n_components] @ root)
