r"""Kernel density of samples, for the weights of the KDE combination.

The density of a point is the paper's sum over all samples, the point itself among them,

.. math:: p(z_i) \propto \sum_j w_j \exp(-\|z_i - z_j\|^2 / \sigma^2),

and the bandwidth sigma maximises the likelihood of samples that their own kernel had no part in.
Both come from one pass over pairs of samples, :func:`kernel_sums`, chunk by chunk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from genmetric._parallel import map_chunks, row_chunks
from genmetric._typing import FloatArray, IntArray


class KernelSums(NamedTuple):
    r"""Sums over references j of the kernels :math:`k_{ij} = \exp(-\rho\|z_i - z_j\|^2)`.

    Attributes
    ----------
    log_sum : ndarray of shape (n_points,)
        Logarithm of the sum of w_j k_ij.
    mean : ndarray of shape (n_points,)
        Mean of rho·||z_i - z_j||² under the shares w_j k_ij of the sum.
    variance : ndarray of shape (n_points,)
        Variance of the same.
    """

    log_sum: FloatArray
    mean: FloatArray
    variance: FloatArray


def kernel_sums(
    points: FloatArray,
    references: FloatArray,
    rate: float,
    *,
    weights: FloatArray,
    own: IntArray | None = None,
    n_jobs: int | None = None,
) -> KernelSums:
    """Sum Gaussian kernels over references in log space, with two moments of their exponents.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
        Samples at which the sums are taken.
    references : ndarray of shape (n_references, n_features)
        Samples that carry the kernels.
    rate : float
        The rate 1/sigma².
    weights : ndarray of shape (n_references,)
        Positive weights of the references.
    own : ndarray of shape (n_points,), default=None
        Reference that is excluded from the sum of each point, -1 for none; ``None`` excludes none.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    KernelSums
        One entry per point.
    """
    scale = np.sqrt(rate)
    z, r = scale * points, scale * references
    # The squared norms are columns of the factors: one matrix product gives -||z_i - z_j||².
    left = np.column_stack([2 * z, -np.einsum("ij,ij->i", z, z), -np.ones(len(z))])
    right = np.column_stack([r, np.ones(len(r)), np.einsum("ij,ij->i", r, r)]).T.copy()

    def of_chunk(rows: slice) -> tuple[FloatArray, FloatArray, FloatArray]:
        exponent = left[rows] @ right
        np.minimum(exponent, 0.0, out=exponent)
        skip: tuple[IntArray, IntArray] | None = None
        if own is not None:
            line = np.flatnonzero(own[rows] >= 0)
            skip = (line, own[rows][line])
            exponent[skip] = -np.inf
        # Relative to the nearest reference, so points far from all references do not
        # underflow.
        top = exponent.max(axis=1)
        exponent -= top[:, None]
        kernel = np.exp(exponent)
        kernel *= weights
        if skip is not None:
            exponent[skip] = 0.0
        total = kernel.sum(axis=1)
        kernel *= exponent
        first = kernel.sum(axis=1) / total
        second = np.einsum("ij,ij->i", kernel, exponent) / total
        return np.log(total) + top, -(first + top), np.maximum(second - first**2, 0.0)

    # A chunk of pairs is read a dozen times and should stay in the cache of a core.
    chunks = row_chunks(len(points), 16 * len(references), budget=2**20)
    parts = zip(*map_chunks(of_chunk, chunks, n_jobs), strict=True)
    return KernelSums(*(np.concatenate(part) for part in parts))


def fit_rate(
    points: FloatArray,
    references: FloatArray,
    *,
    point_weights: FloatArray,
    weights: FloatArray,
    own: IntArray | None,
    start: float | None = None,
    n_jobs: int | None = None,
) -> tuple[float, KernelSums]:
    r"""Find the bandwidth that maximises the likelihood of points under the kernels of references.

    With :math:`t = \log\rho` the log-likelihood is, up to a constant,

    .. math:: \ell(t) = \sum_i w_i \Bigl[\tfrac{D}{2} t
              + \log\sum_{j \neq i} w_j e^{-\rho\|z_i - z_j\|^2}\Bigr],

    whose first two derivatives follow from the moments of :func:`kernel_sums`. Newton's method is
    used if the function is concave. Otherwise, and if a Newton step decreased the likelihood, an EM
    step is used (:math:`\rho = WD / 2\sum_i w_i E_i\|z_i-z_j\|^2`), which never decreases it.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
        Samples whose likelihood counts: the references themselves, or held-out samples.
    references : ndarray of shape (n_references, n_features)
        Samples that carry the kernels.
    point_weights, weights : ndarray of shape (n_points,), (n_references,)
        Positive frequencies of both.
    own : ndarray of shape (n_points,) or None
        The reference that each point leaves out; see :func:`kernel_sums`.
    start : float, default=None
        Initial rate; ``None`` compares several on a subset of the samples.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    rate : float
        The rate 1/sigma² with the largest likelihood.
    sums : KernelSums
        The sums of the points at it.
    """
    # A constant feature has no density: it would only narrow the kernels.
    half = max(int(np.count_nonzero(np.ptp(references, axis=0))), 1) / 2
    share = point_weights / point_weights.sum()

    def look(t: float) -> tuple[float, KernelSums]:
        rate = float(np.exp(t))
        sums = kernel_sums(points, references, rate, weights=weights, own=own, n_jobs=n_jobs)
        return float(half * t + share @ sums.log_sum), sums

    # A kernel narrower than the rounding of distances would only resolve rounding errors.
    reach = float(np.einsum("ij,ij->i", references, references).max())
    narrowest = float(np.log(1e12 / reach)) if reach > 0 else np.inf
    t = _first_look(references, weights, half) if start is None else float(np.log(start))
    t = min(t, narrowest)
    best, sums = look(t)
    for _ in range(50):
        mean = max(float(share @ sums.mean), np.finfo(float).tiny)
        bend, cautious = float(share @ sums.variance) - mean, float(np.log(half / mean))
        for step in ((mean - half) / bend, cautious) if bend < 0 else (cautious,):
            moved = min(t + float(np.clip(step, -2, 2)), narrowest)
            if abs(moved - t) <= 1e-4:
                return float(np.exp(t)), sums
            value, found = look(moved)
            if value > best:
                break
        else:
            break
        best, sums, t = value, found, moved
    return float(np.exp(t)), sums


def _first_look(references: FloatArray, weights: FloatArray, half: float) -> float:
    """Find the best of a few multiples of the rule of thumb on 500 samples, as log(1/sigma²)."""
    some = slice(None, None, -(-len(references) // 500))
    z, w = references[some], weights[some]
    own, share = np.arange(len(z)), w / w.sum()
    variance = np.average((z - np.average(z, axis=0, weights=w)) ** 2, axis=0, weights=w)
    # Scott's rule: the kernel's variance, sigma²/2, is that of the data times n^(-2/(D+4)).
    rule = variance.sum() / half * len(references) ** (-1 / (half + 2))
    rates = 1 / (rule * 4.0 ** np.arange(-3.0, 3.0))
    values = [
        half * np.log(rate) + share @ kernel_sums(z, z, rate, weights=w, own=own).log_sum
        for rate in rates
    ]
    return float(np.log(rates[np.argmax(values)]))
