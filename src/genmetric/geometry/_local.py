"""Local metrics: the closed-form solution of the local optimisation problem at each sample."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np

from genmetric._array_api import as_floats, namespace
from genmetric._typing import FloatArray

#: Scale of a local metric: unit determinant, or trace equal to the number of features.
Normalization: TypeAlias = Literal["determinant", "trace"]

#: Eigenvalues of Phi below this fraction of the largest one are rounding errors of zero. Rounding
#: errors of rank-deficient matrices of up to 500 features reach about a fifth of it.
ZERO_LEVEL = 1e-14

#: Fraction of its largest eigenvalue that a local metric gets in the directions where Phi is zero.
FLOOR = 1e-10


def check_normalization(normalization: Any) -> Normalization:
    """Return `normalization` if it is valid; raise otherwise."""
    choices = get_args(Normalization)
    if isinstance(normalization, str) and normalization in choices:
        return cast("Normalization", normalization)
    raise ValueError(
        f'normalization must be "determinant" or "trace"; got {normalization!r}. "determinant" is '
        "the scale of the paper."
    )


def sign_rule(
    eigenvalues: FloatArray,
    floor: float = FLOOR,
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
    neither sign, and `floor` times the largest :math:`m` takes the place of their :math:`m_i`. If
    Phi is zero, the metric is the identity.

    Parameters
    ----------
    eigenvalues : ndarray of shape (..., n_features)
        Eigenvalues of Phi.
    floor : float, default=1e-10
        Relative size of the metric in the directions where Phi is zero.
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
    """
    xp = namespace(eigenvalues)
    size = xp.abs(eigenvalues)
    level = ZERO_LEVEL * xp.max(size, axis=-1, keepdims=True)
    if rounding is not None:
        level = xp.maximum(level, xp.asarray(rounding)[..., None])
    positive, negative = eigenvalues > level, eigenvalues < -level
    if multiplicities is None:
        times = xp.ones(size.shape[-1], dtype=size.dtype, device=size.device)
    else:
        times = multiplicities
    n_positive, n_negative = (
        (as_floats(sign, size) @ times)[..., None] for sign in (positive, negative)
    )
    m = size * xp.where(positive, n_positive, xp.where(negative, n_negative, 0.0))
    top = xp.max(m, axis=-1, keepdims=True)
    m = xp.where(positive | negative, m / xp.where(top > 0, top, 1.0), floor)
    m = xp.where(top > 0, m, 1.0)
    n_features = float(xp.sum(times))
    if normalization == "trace":
        scaled: FloatArray = m / (m @ times / n_features)[..., None]
        return scaled
    log_m = xp.log(m)
    unit: FloatArray = xp.exp(log_m - (log_m @ times / n_features)[..., None])
    return unit


def count_floored(m: FloatArray) -> FloatArray:
    """Count the eigenvalues of each local metric that took the place of a zero of Phi.

    Parameters
    ----------
    m : ndarray of shape (..., n_features)
        Eigenvalues of :func:`sign_rule` with its default floor.

    Returns
    -------
    ndarray of shape (...)
        Number of eigenvalues at the floor.
    """
    xp = namespace(m)
    ratio = m / (FLOOR * xp.max(m, axis=-1, keepdims=True))
    count: FloatArray = xp.sum(as_floats(xp.abs(ratio - 1) < 1e-6, m), axis=-1)
    return count


def local_metric_factors(
    phi: FloatArray,
    normalization: Normalization = "determinant",
    rounding: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Compute eigenvalues m and eigenvectors U of the local metrics of a stack of Phi.

    Parameters
    ----------
    phi : ndarray of shape (..., n_features, n_features)
        Symmetric matrices.
    normalization : {"determinant", "trace"}, default="determinant"
        Scale of the metrics; see :func:`sign_rule`.
    rounding : ndarray of shape (...), default=None
        Absolute level of rounding errors in the eigenvalues of each Phi; see :func:`sign_rule`.

    Returns
    -------
    m : ndarray of shape (..., n_features)
        Positive eigenvalues, of product one or of mean one.
    U : ndarray of shape (..., n_features, n_features)
        Eigenvectors in columns.
    """
    # Only ratios matter: a size of one keeps LAPACK away from overflow.
    xp = namespace(phi)
    size = xp.max(xp.abs(phi), axis=(-2, -1), keepdims=True)
    if not bool(xp.all(xp.isfinite(size))):
        raise ValueError("Phi is not finite. Check X and the class models for NaN.")
    size = xp.where(size > 0, size, 1.0)
    eigenvalues, U = xp.linalg.eigh(phi / size)
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
    m, U = local_metric_factors(phi, check_normalization(normalization))
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
