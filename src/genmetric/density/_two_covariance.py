"""The two-covariance model of many classes: one covariance within classes, one between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density._covariance import EIGENVALUE_FLOOR
from genmetric.density._whitening import correlation_shrinkage

#: Least trace of the between-class covariance, relative to that of the within-class covariance.
MIN_BETWEEN = 1e-3


@dataclass(frozen=True)
class PooledMoments:
    r"""Count and mean of each class, and one scatter of all classes together.

    The memory is :math:`O(C D + D^2)` for C classes and D features, and moments of batches merge.

    Attributes
    ----------
    count : ndarray of shape (n_classes,)
        Sum of the sample weights of each class.
    mean : ndarray of shape (n_classes, n_features)
        Class means; zero for a class without samples.
    scatter : ndarray of shape (n_features, n_features)
        Sum of :math:`e e^T` over all samples, with e the difference to the mean of the class.
    """

    count: FloatArray
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of(
        cls,
        X: AnyArray,
        codes: IntArray,
        n_classes: int,
        *,
        sample_weight: FloatArray | None = None,
        n_jobs: int | None = None,
    ) -> PooledMoments:
        """Compute the moments of samples, chunk by chunk in float64.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Samples.
        codes : ndarray of shape (n_samples,)
            Class of each sample, in ``range(n_classes)``.
        n_classes : int
            Number of classes.
        sample_weight : ndarray of shape (n_samples,), default=None
            Frequencies.
        n_jobs : int, default=None
            Number of threads; the result is the same for every number.

        Returns
        -------
        PooledMoments
            The moments.
        """
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        chunks = row_chunks(len(X), 24 * X.shape[1], budget=2**23)
        count = np.bincount(codes, weight, minlength=n_classes).astype(float)
        share = weight / np.maximum(count, np.finfo(float).tiny)[codes]

        def means_of_chunk(rows: slice) -> FloatArray:
            x, c = np.asarray(X[rows], float), codes[rows]
            averaging = csr_array((share[rows], (c, np.arange(len(c)))), (n_classes, len(c)))
            return np.asarray(averaging @ x)

        mean = np.zeros((n_classes, X.shape[1]))
        for part in map_chunks(means_of_chunk, chunks, n_jobs):
            mean += part

        def scatter_of_chunk(rows: slice) -> FloatArray:
            e = np.asarray(X[rows], float) - mean[codes[rows]]
            e *= np.sqrt(weight[rows])[:, None]
            return np.asarray(e.T @ e)

        scatter = np.zeros((X.shape[1], X.shape[1]))
        for part in map_chunks(scatter_of_chunk, chunks, n_jobs):
            scatter += part
        return cls(count, mean, scatter)

    def merge(self, other: PooledMoments) -> PooledMoments:
        """Return the moments of the samples of both, which have the same classes."""
        count = self.count + other.count
        safe = np.maximum(count, np.finfo(float).tiny)
        difference = other.mean - self.mean
        mean = self.mean + (other.count / safe)[:, None] * difference
        shift = difference * np.sqrt(self.count * other.count / safe)[:, None]
        return PooledMoments(count, mean, self.scatter + other.scatter + shift.T @ shift)

    def spread(self, places: IntArray, n_classes: int) -> PooledMoments:
        """Embed these moments in a larger set of classes; missing classes get count zero."""
        count, mean = np.zeros(n_classes), np.zeros((n_classes, self.mean.shape[1]))
        count[places], mean[places] = self.count, self.mean
        return PooledMoments(count, mean, self.scatter)

    @property
    def degrees_of_freedom(self) -> float:
        """Sum of the sample weights less the number of classes."""
        return float(self.count.sum()) - np.count_nonzero(self.count)


@dataclass(frozen=True)
class TwoCovariances:
    r"""Covariances of the model :math:`x = m_c + e`, with Gaussian class means and deviations.

    The class means :math:`m_c` have the covariance B about the common mean, and the deviations e of
    samples from the mean of their class have the covariance W, the same in all classes. This is the
    model of probabilistic linear discriminant analysis.

    Attributes
    ----------
    within : ndarray of shape (n_features, n_features)
        The covariance W, without shrinkage.
    between : ndarray of shape (n_features, n_features)
        The covariance B. As a difference of two estimates it can have negative eigenvalues.
    shrinkage : float
        Rao-Blackwellised Ledoit-Wolf shrinkage of W, in [0, 1].
    """

    within: FloatArray
    between: FloatArray
    shrinkage: float

    @classmethod
    def of(cls, moments: PooledMoments) -> TwoCovariances:
        r"""Estimate both covariances by the method of moments.

        With n samples of C classes, of which :math:`n_c` are of class c, S the scatter within
        classes, :math:`\mu` the mean of all samples and
        :math:`n_0 = (n - \sum_c n_c^2 / n) / (C - 1)`, the unbiased estimates are

        .. math:: W = \frac{S}{n - C}, \qquad
                  B = \frac{1}{n_0} \left(\frac{1}{C-1} \sum_c n_c (m_c-\mu)(m_c-\mu)^T - W\right).

        If no class has more than one sample, W is half the covariance of all samples.

        Parameters
        ----------
        moments : PooledMoments
            Moments of at least two classes.

        Returns
        -------
        TwoCovariances
            The estimates.
        """
        count = moments.count
        n, n_classes = float(count.sum()), np.count_nonzero(count)
        e = (moments.mean - count @ moments.mean / n) * np.sqrt(count)[:, None]
        n0 = max((n - float(count @ count) / n) / (n_classes - 1), np.finfo(float).eps)
        between = e.T @ e / (n_classes - 1)
        dof = moments.degrees_of_freedom
        if dof <= 0:
            return cls(between / 2, between / 2, 1.0)
        within = moments.scatter / dof
        return cls(within, (between - within) / n0, correlation_shrinkage(within, dof))

    def regularised(
        self, within_factor: float, between_shrinkage: float
    ) -> tuple[FloatArray, FloatArray]:
        r"""Shrink both covariances.

        W is shrunk towards a multiple of the identity and B towards a multiple of the total
        covariance, T = W + B before shrinkage, both with unchanged traces:

        .. math:: W_s = (1-s) W + s \frac{\mathrm{tr} W}{D} I, \qquad
                  B_t = (1-t) B + t \frac{\mathrm{tr} B}{\mathrm{tr} T} T.

        Few classes say little about directions in which other classes differ. The total covariance
        takes their place: directions of large variance are assumed to separate classes.

        Parameters
        ----------
        within_factor : float
            The odds s/(1-s) as a multiple of those of the Ledoit-Wolf shrinkage. Ledoit-Wolf
            minimises the error of W; the error of its inverse is often least with more shrinkage.
        between_shrinkage : float
            The shrinkage t, in [0, 1].

        Returns
        -------
        within, between : ndarray of shape (n_features, n_features)
            The shrunk covariances. `within` is positive definite.
        """
        n_features = len(self.within)
        trace_w = float(np.trace(self.within))
        total = self.within + self.between
        trace_t = float(np.trace(total))
        trace_w = max(trace_w, EIGENVALUE_FLOOR * trace_t) or 1.0
        trace_b = max(trace_t - trace_w, MIN_BETWEEN * trace_w)
        odds = within_factor * self.shrinkage
        s = max(odds / (1 - self.shrinkage + odds), EIGENVALUE_FLOOR) if odds else EIGENVALUE_FLOOR
        within = (1 - s) * self.within + s * trace_w / n_features * np.eye(n_features)
        target = total / trace_t if trace_t > 0 else np.eye(n_features) / n_features
        t = between_shrinkage
        return within, (1 - t) * self.between + t * trace_b * target
