r"""Density-weighted averages of local metrics, with weights by kernels or by class Gaussians.

The local metrics stay those of the input space. Each iteration maps the samples by the current
metric, estimates the density p of every sample there, and averages the local metrics again,

.. math:: M = \sum_i \alpha_i M_i, \qquad \alpha_i = p(z_i) / \sum_j p(z_j), \qquad z = Lx, \;
          L^T L = M,

until the metric converges (the density-weighting algorithm of the paper). The two combinations
differ in the density only: :class:`KernelLogDensity` or :class:`MixtureLogDensity`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import logsumexp
from sklearn.neighbors import KNeighborsClassifier

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import codes_among
from genmetric.density._gaussian import GaussianDensity
from genmetric.density._kernel_density import RateFit, fit_rate, kernel_sums
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import class_statistics
from genmetric.geometry._factor import symmetric_root
from genmetric.geometry._local import interpolate
from genmetric.geometry._summation import MetricSum
from genmetric.learners._class_models import ClassModelSpecification, fit_class_gaussians
from genmetric.learners._combination import GaussianMixtureWeights, KernelDensityWeights
from genmetric.learners._fitting import Average, MetricPlan

#: The iteration ends when M changes by at most this fraction of its Frobenius norm.
CONVERGENCE_RTOL = 1e-4

#: Maximum number of distinct samples that carry kernels; of more samples a random subset does.
MAX_REFERENCES = 10_000

#: Largest ratio of a bandwidth to the spread of the samples, in both directions; the squares of
#: larger ratios are outside the range of float64.
BANDWIDTH_RANGE = 1e100

#: Number of held-out neighbours that give a sample its class in the Gaussian mixture.
RELABEL_NEIGHBORS = 5


@dataclass(frozen=True)
class HeldOut:
    """Validation samples in input space and, for the Gaussian mixture, their labels."""

    x: AnyArray
    labels: AnyArray | None


def hold_out(
    rows: IntArray, labels: AnyArray, fraction: float, rng: np.random.RandomState
) -> tuple[IntArray, IntArray]:
    """Split samples into those to learn from and those held out, class by class.

    Parameters
    ----------
    rows : ndarray of int of shape (n_rows,)
        Indices of the samples to split.
    labels : ndarray of shape (n_samples,)
        Class labels.
    fraction : float
        Fraction of each class to hold out, rounded down to whole samples.
    rng : RandomState
        Random number generator.

    Returns
    -------
    kept, held : ndarray of int
        Indices, ascending.
    """
    _, codes = np.unique(labels[rows], return_inverse=True)
    order = rng.permutation(len(rows))
    held = np.zeros(len(rows), dtype=bool)
    for c in range(codes.max() + 1):
        mine = order[codes[order] == c]
        held[mine[: int(fraction * len(mine))]] = True
    if not held.any():
        raise ValueError(
            f"validation_fraction={fraction:g} holds out no samples: every class has fewer than "
            f"{int(np.ceil(1 / fraction))} samples. Increase it, or pass X_val and y_val to fit."
        )
    return rows[~held], rows[held]


@np.errstate(under="ignore")
def iterate_density(
    log_density: Callable[[FloatArray], FloatArray],
    metric_sum: Callable[[FloatArray], MetricSum],
    n_features: int,
    *,
    frequency: FloatArray | None = None,
    interpolation: float = 1.0,
    max_iter: int = 20,
) -> Average:
    """Estimate densities and average local metrics in turns until the metric converges.

    Parameters
    ----------
    log_density : callable
        From a factor L to the log-density of every sample in z = Lx, up to a constant.
    metric_sum : callable
        From weights of the samples to the sum of their local metrics.
    n_features : int
        Number of features.
    frequency : ndarray of shape (n_samples,), default=None
        Frequency of each sample in the average.
    interpolation : float, default=1.0
        Weight of the local metrics against the identity.
    max_iter : int, default=20
        Maximum number of iterations.

    Returns
    -------
    Average
        The last sum, its weights, and the change in each iteration; the first from the identity.
    """
    metric = np.eye(n_features)
    changes: list[float] = []
    while True:
        log_weights = log_density(symmetric_root(metric))
        if frequency is not None:
            log_weights = log_weights + np.log(frequency)
        weights = np.exp(log_weights - logsumexp(log_weights))
        weights /= weights.sum()
        total = metric_sum(weights)
        last, metric = metric, interpolate(total.mean(), interpolation)
        changes.append(float(np.linalg.norm(metric - last) / np.linalg.norm(metric)))
        if changes[-1] <= CONVERGENCE_RTOL or len(changes) == max_iter:
            return Average(total, weights=weights, changes=np.array(changes))


@dataclass
class KernelLogDensity:
    r"""Kernel density of samples under a metric, with the bandwidth selected by likelihood.

    Equal samples are one location with their number as its weight, so that a repeated sample is a
    sample of weight two. The bandwidth maximises the likelihood of each location under the kernels
    of all others (or the likelihood of `held_out` under all). The density itself includes the
    kernel of the location itself, as in the paper.

    With more than :data:`MAX_REFERENCES` locations a random subset of this size carries the
    kernels, and the sum over the others is scaled up: an unbiased estimate of the exact sum, at a
    cost linear in the number of samples.

    Parameters
    ----------
    x : ndarray of shape (n_samples, n_features)
        Samples.
    frequency : ndarray of shape (n_samples,) or None
        Frequency of each sample.
    rows : ndarray of int or None
        Samples whose density is needed; ``None`` for all.
    held_out : ndarray of shape (n_held_out, n_features) or None
        Samples whose likelihood selects the bandwidth.
    rate : float or None
        Fixed rate 1/sigma², which is then not selected.
    rng : RandomState
        Draws the subset of locations.
    n_jobs : int or None
        Number of threads.
    """

    x: FloatArray
    frequency: FloatArray | None
    rows: IntArray | None
    held_out: FloatArray | None
    rate: float | None
    rng: np.random.RandomState
    n_jobs: int | None
    #: Rate of each iteration so far, and the number of passes over all pairs of samples.
    rates: list[float] = field(default_factory=list)
    n_passes: int = 0

    def __post_init__(self) -> None:
        self._places, inverse = np.unique(self.x, axis=0, return_inverse=True)
        self._counts = np.bincount(inverse.ravel(), self.frequency).astype(float)
        wanted = inverse.ravel() if self.rows is None else inverse.ravel()[self.rows]
        #: Locations whose density is needed, and the location of each sample among them.
        self._points, self._back = np.unique(wanted, return_inverse=True)
        n_places = len(self._places)
        self._references = np.arange(n_places)
        if n_places > MAX_REFERENCES:
            drawn = self.rng.choice(n_places, MAX_REFERENCES, replace=False)
            self._references = np.sort(drawn)

    def __call__(self, L: FloatArray) -> FloatArray:
        """Return the log-density of the samples in z = Lx, up to a constant."""
        references, points = self._references, self._points
        if len(references) < 2:
            return np.zeros(len(self._back))
        z = self._places @ L.T
        counts = self._counts[references]
        own = np.full(len(z), -1)
        own[references] = np.arange(len(references))
        sums = None
        if self.rate is not None:
            self.rates.append(self.rate)
        else:
            fit = self._fit_rate(z[references], counts, L)
            self.rates.append(fit.rate)
            self.n_passes += fit.n_passes
            if self.held_out is None and np.array_equal(points, references):
                sums = fit.sums
        if sums is None:
            sums = kernel_sums(
                z[points],
                z[references],
                self.rates[-1],
                weights=counts,
                own=own[points],
                n_jobs=self.n_jobs,
            )
            self.n_passes += 1
        # The kernel of the location itself is one; the others represent all other samples.
        here = self._counts[points]
        seen = counts.sum() - np.where(own[points] >= 0, here, 0.0)
        others = sums.log_sum + np.log((self._counts.sum() - here) / seen)
        return np.asarray(np.logaddexp(np.log(here), others)[self._back])

    def _fit_rate(self, z: FloatArray, counts: FloatArray, L: FloatArray) -> RateFit:
        """Select the rate by the likelihood of the references z or of the held-out samples."""
        start = self.rates[-1] if self.rates else None
        own: IntArray | None = None
        if self.held_out is None:
            points, point_counts, own = z, counts, np.arange(len(z))
        else:
            points = self.held_out @ L.T
            point_counts = np.ones(len(points))
        return fit_rate(
            points,
            z,
            point_weights=point_counts,
            weights=counts,
            own=own,
            start=start,
            n_jobs=self.n_jobs,
        )


@dataclass
class MixtureLogDensity:
    """Density of one Gaussian per class, with the classes re-assigned under a metric.

    The density of a Gaussian does not depend on the metric as long as the labels stay the same. So
    the samples take the label of most of their five nearest held-out samples in z = Lx, and the
    Gaussians are fitted again.

    Parameters
    ----------
    x : ndarray of shape (n_samples, n_features)
        Samples.
    frequency : ndarray of shape (n_samples,) or None
        Frequency of each sample.
    rows : ndarray of int or None
        Samples whose density is needed; ``None`` for all.
    held_out : ndarray of shape (n_held_out, n_features)
        Samples that determine the labels.
    held_out_codes : ndarray of shape (n_held_out,)
        Classes of the held-out samples.
    n_classes : int
        Number of classes.
    class_models : ClassModelSpecification
        Covariances of the Gaussians.
    n_jobs : int or None
        Number of threads.
    """

    x: FloatArray
    frequency: FloatArray | None
    rows: IntArray | None
    held_out: FloatArray
    held_out_codes: IntArray
    n_classes: int
    class_models: ClassModelSpecification
    n_jobs: int | None

    def __call__(self, L: FloatArray) -> FloatArray:
        """Return the log-density of the samples, up to a constant."""
        k = min(RELABEL_NEIGHBORS, len(self.held_out))
        neighbors = KNeighborsClassifier(k).fit(self.held_out @ L.T, self.held_out_codes)
        codes = neighbors.predict(self.x @ L.T)
        stats = class_statistics(
            self.x, codes, self.n_classes, sample_weight=self.frequency, n_jobs=self.n_jobs
        )
        # A class in a single location has no Gaussian: its samples get the density of the others.
        spread = np.trace(stats.covariances, axis1=1, axis2=2)
        kept = np.flatnonzero(spread > 1e-12 * np.trace(stats.total_covariance))
        x = self.x if self.rows is None else self.x[self.rows]
        if len(kept) == 0:
            return np.zeros(len(x))
        stats = stats.take(kept)
        inside = np.isin(codes, kept)
        weight = None if self.frequency is None else self.frequency[inside]
        codes = np.searchsorted(kept, codes[inside])
        unscaled = Scaling(np.zeros(x.shape[1]), 1.0)
        gaussians = fit_class_gaussians(
            self.class_models, self.x[inside], codes, unscaled, stats, None, weight
        )
        mixture = GaussianDensity(gaussians, np.log(stats.count / stats.count.sum()))
        return mixture.log_density(x)


def weighted_stderr(
    metric_sum: Callable[[FloatArray], MetricSum], weights: FloatArray, population: float
) -> float:
    r"""Return the standard error of a weighted mean over drawn samples, relative to its norm.

    .. math:: \mathrm{se}^2 = (1 - n/N) \sum_i \alpha_i^2 \|M_i - \bar M\|_F^2

    Parameters
    ----------
    metric_sum : callable
        From weights to the sum of the local metrics.
    weights : ndarray of shape (n_samples,)
        Weights alpha with sum one.
    population : float
        Number N of samples from which they were drawn.

    Returns
    -------
    float
        Zero if every sample was used.
    """
    share = max(1 - len(weights) / population, 0.0)
    if share == 0:
        return 0.0
    mean, squared = metric_sum(weights).mean(), metric_sum(weights**2)
    norm2 = float(np.einsum("ij,ij->", mean, mean))
    cross = float(np.einsum("ij,ij->", squared.total, mean))
    variance = max(squared.square - 2 * cross + squared.weight * norm2, 0.0)
    return float(np.sqrt(share * variance / norm2))


def _kernel_rate(bandwidth: float | None, unit: float) -> float | None:
    """Return the rate 1/sigma² of the kernel in the coordinates of the fit, or None."""
    if bandwidth is None:
        return None
    ratio = bandwidth / unit
    if not 1 / BANDWIDTH_RANGE <= ratio <= BANDWIDTH_RANGE:
        raise ValueError(
            f"bandwidth={bandwidth:g} is {ratio:.2g} times the spread of X, {unit:.2g}; expected "
            f"between {1 / BANDWIDTH_RANGE:g} and {BANDWIDTH_RANGE:g} times. Use a bandwidth near "
            "the distance between neighbours, or None."
        )
    return float(ratio**-2)


def average_by_density(
    plan: MetricPlan,
    X: AnyArray,
    frequency: FloatArray | None,
    held_out: HeldOut | None,
    rows: IntArray | None,
) -> Average:
    """Average the local metrics of a fit with weights by the density of its samples.

    Parameters
    ----------
    plan : MetricPlan
        Class models, solver, and the combination.
    X : ndarray of shape (n_samples, n_features)
        Training samples in input space.
    frequency : ndarray of shape (n_samples,) or None
        Frequency of each sample.
    held_out : HeldOut or None
        Validation samples.
    rows : ndarray of int or None
        Samples to average over; ``None`` for all.

    Returns
    -------
    Average
        With weights of the samples averaged over.
    """
    spec, frame, combination = plan.spec, plan.frame, plan.spec.combination
    x = frame.apply(X)
    aside = None if held_out is None else frame.apply(held_out.x)
    density: KernelLogDensity | MixtureLogDensity
    if isinstance(combination, KernelDensityWeights):
        rate = _kernel_rate(combination.bandwidth, frame.unit)
        density = KernelLogDensity(x, frequency, rows, aside, rate, plan.rng, spec.n_jobs)
    else:
        assert isinstance(combination, GaussianMixtureWeights)
        if held_out is None or held_out.labels is None or aside is None:
            raise ValueError('combination="gmm" requires labelled validation samples.')
        advice = "Leave these samples out of X_val and y_val."
        codes = codes_among(plan.classes, held_out.labels, "y_val", advice)
        density = MixtureLogDensity(
            x, frequency, rows, aside, codes, len(plan.classes), spec.class_models, spec.n_jobs
        )
    metric_sum = plan.repeated_sum(X if rows is None else X[rows])
    average = iterate_density(
        density,
        metric_sum,
        X.shape[1],
        frequency=frequency if frequency is None or rows is None else frequency[rows],
        interpolation=spec.interpolation,
        max_iter=int(combination.max_iter),
    )
    assert average.weights is not None
    widths = None
    if isinstance(density, KernelLogDensity):
        widths = frame.unit / np.sqrt(density.rates)
    stderr = weighted_stderr(metric_sum, average.weights, len(X))
    return replace(average, stderr=stderr, bandwidths=widths)
