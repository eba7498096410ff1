r"""Classes that matter at a sample, and local metrics of samples at which two or three do.

The local metric, eq. (8) of the paper, in terms of :math:`|\Phi|`, the inertia and the determinant
is

.. math:: M = e^{-\kappa/D} \Big( \tfrac{d_+ + d_-}{2}\,|\Phi| + \tfrac{d_+ - d_-}{2}\,\Phi \Big),
          \qquad \kappa = d_+\log d_+ + d_-\log d_- + \log|\det\Phi| .

If two classes matter, samples share everything but two rank-one terms. If three matter, the weights
are :math:`(1, -(1-\tau), -\tau)` up to scale and sign, so that the shared part depends on one
number. It is diagonalised at a few values of :math:`\tau`. Only :math:`|\Phi|`, which changes no
faster than Phi, is interpolated between them; the determinant and the inertia are discontinuous and
are computed from Phi itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmetric._typing import BoolArray, FloatArray, IntArray
from genmetric.density._gaussian import ClassGaussians
from genmetric.geometry._local import Normalization
from genmetric.geometry._resolvent import (
    COARSE,
    FINE,
    FINEST,
    AbsoluteValues,
    SharedPart,
    plain_sum,
    rank_one_traces,
    scale_levels,
    summarize,
)

#: Values of tau at which the shared part of three classes is diagonalised.
NODES = np.array([0.0, 0.02, 0.06, 0.15, 0.3, 0.5])


@dataclass(frozen=True)
class LeadingClasses:
    """The classes that matter at each sample, by decreasing absolute weight.

    Attributes
    ----------
    order : ndarray of shape (n_samples, 3)
        The class of largest absolute weight, the leading one of the other sign, and the third.
    tau : ndarray of shape (n_samples,)
        Fraction of the third class in the weights opposite to the first, in [0, 0.5].
    n_classes : ndarray of shape (n_samples,)
        Number of classes that matter. The resolvent solver treats 2 and 3.
    """

    order: IntArray
    tau: FloatArray
    n_classes: IntArray


def leading_classes(weights: FloatArray, tol: float) -> LeadingClasses:
    """Find the classes that matter at each sample.

    Parameters
    ----------
    weights : ndarray of shape (n_samples, n_classes)
        Weights of the classes in Phi, of largest absolute value one and sum zero.
    tol : float
        A class beyond the second matters when its absolute weight exceeds this.

    Returns
    -------
    LeadingClasses
        Two classes, of the largest and the most negative weight, always matter.
    """
    every = np.arange(len(weights))
    high, low = weights.argmax(axis=1), weights.argmin(axis=1)
    downwards = weights[every, high] < -weights[every, low]
    first, second = np.where(downwards, low, high), np.where(downwards, high, low)
    rest = np.abs(weights)
    rest[every, first] = rest[every, second] = 0.0
    third = rest.argmax(axis=1)
    sizes = np.abs(weights[every, second]), rest[every, third]
    n_classes = 2 + np.count_nonzero(rest > tol, axis=1)
    # Of three weights with sum zero, two have the sign opposite to the first. If the neglected
    # classes violate this, the sample is left to the dense solver.
    same_side = weights[every, third] * weights[every, second] > 0
    n_classes[(n_classes == 3) & ~same_side] = 4
    tau = np.clip(sizes[1] / (sizes[0] + sizes[1]), 0.0, 0.5)
    return LeadingClasses(np.column_stack([first, second, third]), tau, n_classes)


def _coefficients(
    normalization: Normalization,
    n_positive: FloatArray,
    log_det: FloatArray,
    traces: FloatArray,
    absolute_traces: FloatArray,
    n_features: int,
) -> FloatArray:
    r"""Compute the factors of |Phi| and of Phi in the local metric, shape (2, n_samples).

    Before normalization they are :math:`D/2` and :math:`(d_+ - d_-)/2`. For trace D the metric is
    divided by :math:`\tfrac12\mathrm{tr}|\Phi| + \tfrac{d_+ - d_-}{2D}\mathrm{tr}\,\Phi`, for
    determinant one by :math:`e^{\kappa/D}`.
    """
    n_negative = n_features - n_positive
    even, odd = np.full_like(n_positive, n_features / 2), (n_positive - n_negative) / 2
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if normalization == "trace":
            scale = n_features / (even * absolute_traces + odd * traces)
        else:
            kappa = log_det.copy()
            for count in (n_positive, n_negative):
                kappa += count * np.log(np.maximum(count, 1.0))
            scale = np.exp(-kappa / n_features)
    return np.stack([scale * even, scale * odd])


def _metric_squares(
    even: FloatArray, odd: FloatArray, norms: FloatArray, signed: FloatArray
) -> FloatArray:
    """Compute the squared Frobenius norm of even·|Phi| + odd·Phi."""
    return (even**2 + odd**2) * norms + 2 * even * odd * signed


def pair_metric_sum(
    gaussians: ClassGaussians,
    pair: tuple[int, ...],
    X: FloatArray,
    weights: FloatArray,
    normalization: Normalization = "determinant",
) -> tuple[FloatArray, float, BoolArray]:
    """Sum the local metrics of samples at which one pair of classes matters.

    Parameters
    ----------
    gaussians : ClassGaussians
        Class models.
    pair : tuple of int
        The two classes.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    weights : ndarray of shape (n_samples,)
        Weight of each sample, positive.
    normalization : {"determinant", "trace"}, default="determinant"
        Scale of the local metrics; see :func:`~genmetric.geometry.sign_rule`.

    Returns
    -------
    total : ndarray of shape (n_features, n_features)
        Weighted sum over the samples that were treated.
    square : float
        Weighted sum of the squared Frobenius norms of their metrics.
    treated : ndarray of shape (n_samples,)
        False if Phi is too close to singular, so that the sample is left to the dense solver.
    """
    n_features = X.shape[1]
    shared = SharedPart.of(gaussians, list(pair), np.array([1.0, -1.0]))
    total, square = np.zeros((n_features, n_features)), 0.0
    if not shared.sound:
        return total, square, np.zeros(len(X), bool)
    V = shared.coordinates(X)
    summary = summarize(shared.beta, shared.signs, V)
    traces = rank_one_traces(shared.beta, shared.signs, V)
    treated = summary.regular
    levels = np.where(treated, scale_levels(summary.bound, shared.unit), 0.0)
    for poles, kind in ((FINE, ~summary.loose), (FINEST, summary.loose)):
        for level in np.unique(levels[treated & kind]):
            rows = np.flatnonzero((levels == level) & kind)
            problem = shared.beta / level, shared.signs, V[rows] / np.sqrt(level)
            absolute = AbsoluteValues.of(*problem, poles)
            even, odd = _coefficients(
                normalization,
                summary.n_positive[rows],
                summary.log_det[rows] - n_features * np.log(level),
                traces[rows] / level,
                absolute.traces,
                n_features,
            )
            w = weights[rows]
            total += absolute.sum(w * even) + plain_sum(*problem, w * odd)
            norms = summary.norm2[rows] / level**2
            square += float(w @ _metric_squares(even, odd, norms, absolute.signed_squares))
    return shared.Q @ total @ shared.Q.T, square, treated


def triple_metric_sum(
    gaussians: ClassGaussians,
    triple: tuple[int, ...],
    X: FloatArray,
    weights: FloatArray,
    tau: FloatArray,
    normalization: Normalization = "determinant",
) -> tuple[FloatArray, float, BoolArray]:
    r"""Sum the local metrics of samples at which three classes matter.

    With hat functions :math:`\ell_k` on the nodes and :math:`\Phi_k` the sample's matrix with its
    shared part taken at node k, :math:`|\Phi| \approx \sum_k \ell_k(\tau)\,|\Phi_k|`.

    Parameters
    ----------
    gaussians : ClassGaussians
        Class models.
    triple : tuple of int
        Three classes, of weights 1, -(1-tau) and -tau.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    weights : ndarray of shape (n_samples,)
        Weight of each sample, positive.
    tau : ndarray of shape (n_samples,)
        In [0, 0.5].
    normalization : {"determinant", "trace"}, default="determinant"
        Scale of the local metrics; see :func:`~genmetric.geometry.sign_rule`.

    Returns
    -------
    total, square, treated
        As :func:`pair_metric_sum` returns.
    """
    n_features = X.shape[1]
    sizes = np.column_stack([np.ones(len(X)), 1 - tau, tau])
    hats = np.stack([np.interp(tau, NODES, unit) for unit in np.eye(len(NODES))])
    full = np.zeros((len(X), gaussians.n_classes))
    full[:, list(triple)] = sizes * [1, -1, -1]
    phi = gaussians.weighted_curvature(X, full)
    sign, log_det = np.linalg.slogdet(phi)
    treated = np.isfinite(log_det)
    n_positive = np.zeros(len(X))
    nodes: list[tuple[SharedPart, IntArray, FloatArray, FloatArray]] = []
    for node, hat in zip(NODES, hats, strict=True):
        rows = np.flatnonzero(hat)
        if len(rows) == 0:
            continue
        shared = SharedPart.of(gaussians, list(triple), np.array([1.0, -(1 - node), -node]))
        V = shared.coordinates(X[rows], sizes[rows])
        summary = summarize(shared.beta, shared.signs, V)
        treated[rows] &= shared.sound & summary.regular
        n_positive[rows] += hat[rows] * summary.n_positive
        levels = scale_levels(summary.bound, shared.unit, base=16.0)
        nodes.append((shared, rows, hat[rows], levels))
    # The sign of the determinant fixes the parity; among those counts, the nearest to the nodes'.
    odd_count = (n_features - (sign < 0)) % 2
    n_positive = np.clip(2 * np.rint((n_positive - odd_count) / 2) + odd_count, 0, n_features)
    signed, absolute_traces = np.zeros(len(X)), np.zeros(len(X))
    parts: list[tuple[SharedPart, IntArray, FloatArray, AbsoluteValues]] = []
    for shared, rows, hat, levels in nodes:
        for level in np.unique(levels[treated[rows]]):
            inside = (levels == level) & treated[rows]
            chosen = rows[inside]
            V = shared.coordinates(X[chosen], sizes[chosen]) / np.sqrt(level)
            absolute = AbsoluteValues.of(shared.beta / level, shared.signs, V, COARSE)
            absolute_traces[chosen] += hat[inside] * absolute.traces * level
            signed[chosen] += hat[inside] * absolute.signed_squares * level**2
            parts.append((shared, chosen, hat[inside] * level, absolute))
    traces = np.einsum("nii->n", phi)
    even, odd = _coefficients(
        normalization, n_positive, log_det, traces, absolute_traces, n_features
    )
    even, odd = np.where(treated, even, 0.0), np.where(treated, odd, 0.0)
    total = np.tensordot(weights * odd, phi, axes=1)
    for shared, chosen, share, absolute in parts:
        part = absolute.sum(weights[chosen] * even[chosen] * share)
        total += shared.Q @ part @ shared.Q.T
    norms = np.einsum("nij,nij->n", phi, phi)
    square = float(weights @ _metric_squares(even, odd, norms, signed))
    return total, square, treated
