"""Weighted EM for Gaussian mixtures, regularised against degenerate components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from genmetric._typing import FloatArray, IntArray
from genmetric.density._covariance import class_covariances
from genmetric.density._gaussian import ClassGaussians, GaussianDensity
from genmetric.density._statistics import ClassStatistics

#: A component with less than this fraction of the samples is dropped.
SMALLEST_SHARE = 1e-9


@dataclass(frozen=True)
class MixtureFit:
    """A fitted mixture and its log-likelihood.

    Attributes
    ----------
    density : GaussianDensity
        The mixture.
    log_likelihood : float
        Sum of the weighted log-densities of the samples.
    """

    density: GaussianDensity
    log_likelihood: float

    def bayesian_information(self, n_rows: float) -> float:
        r"""Bayesian information criterion :math:`-2 \log L + p \log n`; smaller is better.

        With K components and D features, :math:`p = K - 1 + KD + KD(D+1)/2`.
        """
        n_components, n_features = self.density.gaussians.means.shape
        n_free = n_components * (1 + n_features + n_features * (n_features + 1) / 2) - 1
        return float(n_free * np.log(max(n_rows, 2.0)) - 2 * self.log_likelihood)


def seed_components(
    X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState
) -> IntArray:
    """Assign samples to components by k-means, with initial centres as in k-means++.

    The first centre is drawn with probability proportional to the weight, each further one with
    weight times squared distance to the nearest centre, the best of a few draws. Draws use the
    cumulative sum, so that repeating a sample equals a weight of two for every draw.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    weights : ndarray of shape (n_samples,)
        Their weights, positive.
    n_components : int
        Number of components, at most the number of distinct samples.
    rng : RandomState
        Random number generator.

    Returns
    -------
    ndarray of shape (n_samples,)
        Component of each sample.
    """
    square, chance = np.full(len(X), np.inf), weights
    assigned = np.zeros(len(X), np.intp)
    centers = np.empty((n_components, X.shape[1]))
    n_draws = 1
    for k in range(n_components):
        mass = np.cumsum(chance)
        rows = np.searchsorted(mass, rng.uniform(size=n_draws) * mass[-1], side="right")
        drawn = X[np.minimum(rows, len(X) - 1)]
        e = X[:, None] - drawn
        left = np.minimum(square[:, None], np.einsum("ijk,ijk->ij", e, e))
        best = int((weights @ left).argmin())
        centers[k] = drawn[best]
        assigned[left[:, best] < square] = k
        square = left[:, best]
        chance = weights * square
        n_draws = 2 + int(np.log(n_components))
        if not chance.any():  # every sample coincides with a centre
            centers = centers[: k + 1]
            break
    for _ in range(20):
        for k in np.unique(assigned):
            own = assigned == k
            centers[k] = weights[own] @ X[own] / weights[own].sum()
        half = 0.5 * np.einsum("kj,kj->k", centers, centers) - X @ centers.T
        last, assigned = assigned, half.argmin(axis=1)
        if np.array_equal(last, assigned):
            break
    return assigned


def maximize(
    X: FloatArray, shares: FloatArray, prior: FloatArray, prior_rows: float, reg_covar: float
) -> GaussianDensity:
    r"""Compute mixing weights, means and covariances from the responsibilities (M step).

    The covariance of a component is pooled with that of all components, which counts as
    :math:`\nu` additional samples, and the pooled covariance in the same way with a prior,

    .. math:: \Sigma_k = \frac{n_k S_k + \nu W}{n_k + \nu} + \epsilon I, \qquad
              W = \frac{\sum_k n_k S_k + \nu \Lambda}{\sum_k n_k + \nu},

    because a component with a single sample would have infinite likelihood otherwise.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    shares : ndarray of shape (n_samples, n_components)
        Weight of each sample in each component.
    prior : ndarray of shape (n_features, n_features)
        The covariance Lambda.
    prior_rows : float
        The number nu.
    reg_covar : float
        The number epsilon, added to the diagonal.

    Returns
    -------
    GaussianDensity
        The mixture, without components that have no samples.
    """
    total = shares.sum(axis=0)
    shares = shares[:, total > SMALLEST_SHARE * total.sum()]
    zeros = np.zeros(len(X), np.intp)
    parts = [ClassStatistics.from_rows(X, zeros, 1, share) for share in shares.T]
    count = np.array([part.count[0] for part in parts])
    scatter = np.array([part.scatter[0] for part in parts])
    within = (scatter.sum(axis=0) + prior_rows * prior) / (count.sum() + prior_rows)
    covariances = (scatter + prior_rows * within) / (count + prior_rows)[:, None, None]
    covariances += reg_covar * np.eye(X.shape[1])
    means = np.array([part.mean[0] for part in parts])
    gaussians = ClassGaussians.from_moments(means, covariances, floor=reg_covar)
    return GaussianDensity(gaussians, np.log(count / count.sum()))


@np.errstate(under="ignore")
def fit_mixture(
    X: FloatArray,
    weights: FloatArray,
    n_components: int,
    *,
    pooling: float | None,
    reg_covar: float,
    max_iter: int,
    tol: float,
    rng: np.random.RandomState,
) -> MixtureFit:
    """Fit a mixture with a given number of components by EM from one start.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples in coordinates in which the mean variance of a feature is about one.
    weights : ndarray of shape (n_samples,)
        Frequencies, positive.
    n_components : int
        Number K of components, at most the number of distinct samples.
    pooling : float or None
        Number of samples that a pooled covariance counts for; ``None`` is D + 2. The prior is the
        Ledoit-Wolf covariance of all samples divided by K^(2/D), the size of a part if their volume
        is split into K equal parts.
    reg_covar : float
        Number added to the diagonals.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Iterations stop if the mean log-likelihood increases by less than this number.
    rng : RandomState
        Random number generator.

    Returns
    -------
    MixtureFit
        The mixture.
    """
    n_features = X.shape[1]
    whole = ClassStatistics.from_rows(X, np.zeros(len(X), np.intp), 1, weights)
    covariance = class_covariances(whole, "auto")
    prior_rows = n_features + 2.0 if pooling is None else pooling
    assigned = seed_components(X, weights, n_components, rng)
    shares = weights[:, None] * (assigned[:, None] == np.arange(n_components))
    prior = covariance[0] / n_components ** (2 / n_features)
    last = -np.inf
    for _ in range(max_iter):
        density = maximize(X, shares, prior, prior_rows, reg_covar)
        joint = density.gaussians.log_density(X) + density.log_weights
        evidence = logsumexp(joint, axis=1, keepdims=True)
        log_likelihood = float(weights @ evidence[:, 0])
        if log_likelihood - last <= tol * weights.sum():
            break
        last = log_likelihood
        shares = weights[:, None] * np.exp(joint - evidence)
    return MixtureFit(density, log_likelihood)
