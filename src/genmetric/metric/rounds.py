r"""Density-based combination of local metrics (Algorithm aDensity): M^KDE and M^GMM.

The local metrics stay those of the input space. Each round maps the rows by the metric so far,
estimates the density p of every row there, and averages the local metrics anew,

.. math:: M = \sum_i \alpha_i M_i, \qquad \alpha_i = p(z_i) / \sum_j p(z_j), \qquad z = Lx, \;
          L^T L = M,

until the metric stands still. What differs between the two combinations is the density alone:
:class:`KernelDensityWeights` or :class:`ClassMixtureWeights`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.validation import validate_data

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import codes_among, form_points
from genmetric.density.frame import Frame
from genmetric.density.gaussian import ClassGaussians, GaussianDensity
from genmetric.density.kernel_density import RateFit, fit_rate, kernel_sums
from genmetric.density.statistics import ClassStatistics, class_statistics
from genmetric.geometry.factor import symmetric_root
from genmetric.geometry.local import interpolate
from genmetric.geometry.summation import MetricSum
from genmetric.metric.fitting import MetricJob, combines_by_density, fit_class_gaussians

#: The rounds end where M changes by no more than this share of its Frobenius norm.
STILL = 1e-4

#: Distinct rows that carry kernels; where there are more, a random sample of so many does.
MAX_REFERENCES = 10_000

#: Neighbours among the held-out rows that give a row its label in M^GMM.
RELABEL_NEIGHBORS = 5


@dataclass(frozen=True)
class HeldOut:
    """Rows beside the training rows, as they came, and their labels where needed."""

    x: AnyArray
    labels: AnyArray | None


def check_held_out(estimator: Any, X_val: Any, y_val: Any) -> HeldOut | None:
    """Validated held-out rows, where there are any."""
    if X_val is None and y_val is None:
        return None
    if not combines_by_density(estimator):
        raise ValueError(
            'X_val and y_val are for combination="gmm" (and X_val for "kde"); got combination '
            f"{estimator.combination!r}. Leave them out."
        )
    if X_val is None or (y_val is None and estimator.combination == "gmm"):
        missing, given = ("X_val", "y_val") if X_val is None else ("y_val", "X_val")
        raise ValueError(f"{given} was given without {missing}. Pass both to fit.")
    if y_val is None:
        X_val = form_points(X_val, estimator.preprocessor, estimator)
        x = validate_data(estimator, X_val, dtype=[np.float64, np.float32], reset=False)
        return HeldOut(x, None)
    return HeldOut(*estimator._validate(X_val, y_val, reset=False))


def hold_out(
    rows: IntArray, labels: AnyArray, fraction: float, rng: np.random.RandomState
) -> tuple[IntArray, IntArray]:
    """Split rows into those to learn from and those held out, class by class.

    Parameters
    ----------
    rows : ndarray of int of shape (n_rows,)
        Rows to split.
    labels : ndarray of shape (n_samples,)
        Class labels.
    fraction : float
        The share of each class to hold out, rounded down.
    rng : RandomState
        Source of chance.

    Returns
    -------
    kept, held : ndarray of int
        Ascending.
    """
    _, codes = np.unique(labels[rows], return_inverse=True)
    order = rng.permutation(len(rows))
    held = np.zeros(len(rows), dtype=bool)
    for c in range(codes.max() + 1):
        mine = order[codes[order] == c]
        held[mine[: int(fraction * len(mine))]] = True
    if not held.any():
        raise ValueError(
            f"validation_fraction={fraction:g} holds out no row: every class has fewer than "
            f"{int(np.ceil(1 / fraction))} rows. Raise it, or pass X_val and y_val to fit."
        )
    return rows[~held], rows[held]


@dataclass(frozen=True)
class Rounds:
    """What the rounds of a density-based combination leave.

    Attributes
    ----------
    total : MetricSum
        Sum of the local metrics with the last weights.
    weights : ndarray of shape (n_samples,)
        The last weights, of sum one.
    changes : ndarray of shape (n_iter,)
        Change of M in each round, relative to its Frobenius norm; the first from the identity.
    stderr : float
        Relative standard error of the mean where it is over a sample of the rows.
    bandwidths : ndarray of shape (n_iter,) or None
        Kernel widths, in the units of the input.
    """

    total: MetricSum
    weights: FloatArray
    changes: FloatArray
    stderr: float = 0.0
    bandwidths: FloatArray | None = None


def density_rounds(
    log_density: Callable[[FloatArray], FloatArray],
    metric_sum: Callable[[FloatArray], MetricSum],
    n_features: int,
    *,
    frequency: FloatArray | None = None,
    interpolation: float = 1.0,
    max_iter: int = 20,
) -> Rounds:
    """Estimate densities and average local metrics in turns (Algorithm aDensity).

    Parameters
    ----------
    log_density : callable
        From a factor L to the log-density of every row in z = Lx, up to a constant.
    metric_sum : callable
        From weights of the rows to the sum of their local metrics.
    n_features : int
        Number of features.
    frequency : ndarray of shape (n_samples,), default=None
        How often each row counts in the average.
    interpolation : float, default=1.0
        Weight of the local metrics against the identity.
    max_iter : int, default=20
        Most rounds.

    Returns
    -------
    Rounds
        The last sum, its weights and the path of the change.
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
        if changes[-1] <= STILL or len(changes) == max_iter:
            return Rounds(total, weights, np.array(changes))


@dataclass
class KernelDensityWeights:
    r"""Kernel density of rows under a metric, the bandwidth by likelihood each time.

    Equal rows are one location that counts as often as it occurs, so that a row twice is a row of
    weight two. The bandwidth maximises the likelihood of each location under the kernels of all
    others (or that of `held_out` under all); the density itself has the location's own kernel in
    it, as the paper's sum does.

    With more than :data:`MAX_REFERENCES` locations a random sample of so many carries the kernels,
    and the sum over the others is scaled up: an unbiased estimate of the exact sum, at a cost
    linear in the number of rows.

    Parameters
    ----------
    x : ndarray of shape (n_samples, n_features)
        Rows.
    frequency : ndarray of shape (n_samples,) or None
        How often each row counts.
    rows : ndarray of int or None
        The rows whose density is wanted; ``None`` is all.
    held_out : ndarray of shape (n_held_out, n_features) or None
        Rows whose likelihood chooses the bandwidth.
    rate : float or None
        A given rate 1/sigma² in place of the choice.
    rng : RandomState
        Draws the sample.
    n_jobs : int or None
        Threads.
    """

    x: FloatArray
    frequency: FloatArray | None
    rows: IntArray | None
    held_out: FloatArray | None
    rate: float | None
    rng: np.random.RandomState
    n_jobs: int | None
    #: Rates of the rounds so far, and passes over all pairs of rows that they took.
    rates: list[float] = field(default_factory=list)
    n_passes: int = 0

    def __post_init__(self) -> None:
        self._places, inverse = np.unique(self.x, axis=0, return_inverse=True)
        self._counts = np.bincount(inverse.ravel(), self.frequency).astype(float)
        wanted = inverse.ravel() if self.rows is None else inverse.ravel()[self.rows]
        #: Locations whose density is wanted, and which of them each wanted row has.
        self._points, self._back = np.unique(wanted, return_inverse=True)
        n_places = len(self._places)
        self._references = np.arange(n_places)
        if n_places > MAX_REFERENCES:
            drawn = self.rng.choice(n_places, MAX_REFERENCES, replace=False)
            self._references = np.sort(drawn)

    def __call__(self, L: FloatArray) -> FloatArray:
        """Log-density of the wanted rows in z = Lx, up to a constant."""
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
        # The own kernel is one; the others stand for all rows that are elsewhere.
        here = self._counts[points]
        seen = counts.sum() - np.where(own[points] >= 0, here, 0.0)
        others = sums.log_sum + np.log((self._counts.sum() - here) / seen)
        return np.asarray(np.logaddexp(np.log(here), others)[self._back])

    def _fit_rate(self, z: FloatArray, counts: FloatArray, L: FloatArray) -> RateFit:
        """The rate for references z, by their own likelihood or by that of the held-out rows."""
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
class ClassMixtureWeights:
    """Density of one Gaussian a class, the classes re-assigned under a metric.

    A Gaussian density does not depend on the metric while the labels stay, so the rows take the
    label of most of their five nearest held-out rows in z = Lx, and the Gaussians are fitted anew.

    Parameters
    ----------
    x : ndarray of shape (n_samples, n_features)
        Rows.
    frequency : ndarray of shape (n_samples,) or None
        How often each row counts.
    rows : ndarray of int or None
        The rows whose density is wanted; ``None`` is all.
    held_out : ndarray of shape (n_held_out, n_features)
        Rows that give the labels.
    held_out_codes : ndarray of shape (n_held_out,)
        Their classes.
    n_classes : int
        Number of classes.
    gaussians : callable
        From rows, their classes, their frequencies and the moments of the classes to Gaussians.
    n_jobs : int or None
        Threads.
    """

    x: FloatArray
    frequency: FloatArray | None
    rows: IntArray | None
    held_out: FloatArray
    held_out_codes: IntArray
    n_classes: int
    gaussians: Callable[[FloatArray, IntArray, FloatArray | None, ClassStatistics], ClassGaussians]
    n_jobs: int | None

    def __call__(self, L: FloatArray) -> FloatArray:
        """Log-density of the wanted rows, up to a constant."""
        k = min(RELABEL_NEIGHBORS, len(self.held_out))
        voters = KNeighborsClassifier(k).fit(self.held_out @ L.T, self.held_out_codes)
        codes = voters.predict(self.x @ L.T)
        stats = class_statistics(
            self.x, codes, self.n_classes, sample_weight=self.frequency, n_jobs=self.n_jobs
        )
        # A class of one place has no Gaussian of its own; its rows get the density of the others.
        spread = np.trace(stats.covariances, axis1=1, axis2=2)
        kept = np.flatnonzero(spread > 1e-12 * np.trace(stats.total_covariance))
        x = self.x if self.rows is None else self.x[self.rows]
        if len(kept) == 0:
            return np.zeros(len(x))
        stats = stats.take(kept)
        inside = np.isin(codes, kept)
        weight = None if self.frequency is None else self.frequency[inside]
        codes = np.searchsorted(kept, codes[inside])
        gaussians = self.gaussians(self.x[inside], codes, weight, stats)
        mixture = GaussianDensity(gaussians, np.log(stats.count / stats.count.sum()))
        return mixture.log_density(x)


def weighted_stderr(
    metric_sum: Callable[[FloatArray], MetricSum], weights: FloatArray, population: float
) -> float:
    r"""Standard error of a weighted mean over sampled rows, relative to its Frobenius norm.

    .. math:: \mathrm{se}^2 = (1 - n/N) \sum_i \alpha_i^2 \|M_i - \bar M\|_F^2

    Parameters
    ----------
    metric_sum : callable
        From weights to the sum of the local metrics.
    weights : ndarray of shape (n_samples,)
        The weights alpha, of sum one.
    population : float
        The number N of rows the sample was drawn from.

    Returns
    -------
    float
        Zero when every row was used.
    """
    share = max(1 - len(weights) / population, 0.0)
    if share == 0:
        return 0.0
    mean, squared = metric_sum(weights).mean(), metric_sum(weights**2)
    norm2 = float(np.einsum("ij,ij->", mean, mean))
    cross = float(np.einsum("ij,ij->", squared.total, mean))
    variance = max(squared.square - 2 * cross + squared.weight * norm2, 0.0)
    return float(np.sqrt(share * variance / norm2))


def combine_by_density(
    estimator: Any,
    job: MetricJob,
    X: AnyArray,
    frequency: FloatArray | None,
    held_out: HeldOut | None,
    rows: IntArray | None,
) -> Rounds:
    """Combine the local metrics of a fit by the density of its rows (Algorithm aDensity).

    Parameters
    ----------
    estimator : GenerativeMetric
        Its `combination`, `bandwidth`, `max_iter`, `interpolation` and covariances say how.
    job : MetricJob
        Class models and solver.
    X : ndarray of shape (n_samples, n_features)
        Training rows as they came.
    frequency : ndarray of shape (n_samples,) or None
        How often each counts.
    held_out : HeldOut or None
        Rows beside them.
    rows : ndarray of int or None
        The rows to average over; ``None`` is all.

    Returns
    -------
    Rounds
        With weights of the rows averaged over.
    """
    frame, n_features = job.frame, X.shape[1]
    x = frame.inward(X)
    beside = None if held_out is None else frame.inward(held_out.x)
    density: KernelDensityWeights | ClassMixtureWeights
    if estimator.combination == "kde":
        given = estimator.bandwidth
        rate = None if given is None else float(frame.scale / given) ** 2
        density = KernelDensityWeights(x, frequency, rows, beside, rate, job.rng, job.n_jobs)
    else:
        if held_out is None or held_out.labels is None or beside is None:
            raise ValueError('combination="gmm" needs labelled rows beside the training rows.')
        known = Frame(np.zeros(n_features), 1.0)

        def gaussians(
            inside: FloatArray,
            codes: IntArray,
            weight: FloatArray | None,
            stats: ClassStatistics,
        ) -> ClassGaussians:
            return fit_class_gaussians(estimator, inside, codes, known, stats, None, weight)

        advice = "Leave such rows out of X_val and y_val."
        codes = codes_among(job.classes, held_out.labels, "y_val", advice)
        density = ClassMixtureWeights(
            x, frequency, rows, beside, codes, len(job.classes), gaussians, job.n_jobs
        )
    averaged = X if rows is None else X[rows]
    counts = frequency if frequency is None or rows is None else frequency[rows]
    metric_sum = job.repeated_sum(averaged, keep=estimator.solver != "resolvent")
    found = density_rounds(
        density,
        metric_sum,
        n_features,
        frequency=counts,
        interpolation=float(estimator.interpolation),
        max_iter=int(estimator.max_iter),
    )
    stderr = weighted_stderr(metric_sum, found.weights, len(X))
    widths = None
    if isinstance(density, KernelDensityWeights):
        widths = frame.scale / np.sqrt(density.rates)
    return replace(found, stderr=stderr, bandwidths=widths)
