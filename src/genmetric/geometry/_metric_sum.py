"""Sums of local metrics: the second accumulator of a fit, and the problem that a solver gets.

The uniform combination is a mean, and a mean is a sum and a count: chunks in threads, batches from
disk and blocks on a cluster each make a :class:`MetricSum`, and :meth:`MetricSum.merge` adds them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmetric._array_api import computed_like, take_rows
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density._models import ClassModels
from genmetric.density._scaling import Scaling
from genmetric.geometry._local import Normalization


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
    floored : float, default=0.0
        Sum of w_i times the number of directions in which Phi_i is zero and M_i has the floor of
        :func:`~genmetric.geometry.sign_rule`.
    """

    total: FloatArray
    weight: float
    square: float
    floored: float = 0.0

    def merge(self, other: MetricSum) -> MetricSum:
        """Return the sum over the samples of both."""
        return MetricSum(
            self.total + other.total,
            self.weight + other.weight,
            self.square + other.square,
            self.floored + other.floored,
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
        mean = self.mean()
        norm2 = float(np.einsum("ij,ij->", mean, mean))
        if self.weight <= 1:
            return float("inf") if population > self.weight else 0.0
        variance = max(self.square / self.weight - norm2, 0.0)
        share = max(1 - self.weight / population, 0.0)
        return float(np.sqrt(share * variance / (self.weight - 1) / norm2))


@dataclass(frozen=True)
class SumProblem:
    """Samples, class models and options of a sum of local metrics.

    Attributes
    ----------
    models : ClassModels
        Class models, in the coordinates of `frame`.
    X : ndarray of shape (n_samples, n_features)
        Samples in input space. For the dense solver they can be an array of another library, of
        which all other arrays must be too.
    frame : Scaling
        Coordinates of the models.
    weights : ndarray of shape (n_samples,)
        Weight of each sample.
    log_priors : ndarray of shape (n_classes,) or None
        Logarithms of the class priors; None for equal priors.
    normalization : {"determinant", "trace"}
        Scale of the local metrics.
    tol : float
        Relative weight in Phi up to which a class beyond the leading pair is ignored.
    n_total : float
        Number of samples of the whole fit, of which `X` may be a batch.
    n_jobs : int or None
        Number of threads.
    """

    models: ClassModels
    X: AnyArray
    frame: Scaling
    weights: FloatArray
    log_priors: FloatArray | None
    normalization: Normalization
    tol: float
    n_total: float
    n_jobs: int | None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    def samples(self, rows: IntArray | slice) -> FloatArray:
        """Return samples in the coordinates of the models."""
        return self.frame.apply(take_rows(self.X, rows))

    def zero(self) -> MetricSum:
        """Return the sum over no samples."""
        zeros = np.zeros((self.n_features, self.n_features))
        return MetricSum(computed_like(zeros, self.X), 0.0, 0.0)
