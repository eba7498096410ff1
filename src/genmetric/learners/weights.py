r"""Weights of the local metrics in their average: a random subset, or the density of the samples.

Density weights are Algorithm 1 of the paper. The local metrics stay those of the input space. Each
iteration maps the samples by the current metric, estimates the density p of every sample there, and
averages the local metrics again,

.. math:: M = \sum_i \alpha_i M_i, \qquad \alpha_i = p(z_i) / \sum_j p(z_j), \qquad z = Lx, \;
          L^T L = M,

until the metric converges. The density is that of Gaussian kernels or of one Gaussian per class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement
from sklearn.utils.validation import validate_data

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import (
    FLOATS,
    Interval,
    ParameterRules,
    codes_among,
    form_points,
    labelled_samples,
)
from genmetric.density.gaussian import fit_gaussians
from genmetric.density.kernel import fit_rate, kernel_sums
from genmetric.density.models import GaussianDensity
from genmetric.density.statistics import class_statistics
from genmetric.geometry import MetricSum, interpolate, symmetric_root

#: From samples, and their weights or None for one each, to the sum of their local metrics.
SumMetrics: TypeAlias = Callable[[AnyArray, FloatArray | None], MetricSum]

#: From a factor L, and the kernel rate of the last iteration, to the log-density of every sample in
#: z = Lx, up to a constant, and the rate of this iteration.
LogDensity: TypeAlias = Callable[[FloatArray, float | None], tuple[FloatArray, float | None]]

#: Samples that are held out, and their labels, which may be None for "kde".
HeldOut: TypeAlias = tuple[AnyArray, Any]

#: Maximum number of distinct samples that carry kernels; of more samples a random subset does.
MAX_REFERENCES = 10_000


class KernelDensityWeights(BaseEstimator):
    """Weights proportional to a kernel density estimate under the learned metric.

    Pass it to :class:`GenerativeMetric` as ``combination`` to change the defaults of
    ``combination="kde"``. Samples in dense regions get larger weights. The density depends on the
    metric and the metric on the density, so they are updated alternately.

    Parameters
    ----------
    bandwidth : float, default=None
        Width sigma of the kernel exp(-d²/sigma²), in units of the learned distance. A large width
        makes all weights equal; a small one makes each weight depend on the nearest samples only.
        ``None`` selects the width with the largest leave-one-out likelihood in each iteration, or
        the largest likelihood of `X_val` if that is passed to ``fit``.
    max_iter : int, default=20
        Maximum number of iterations. They end earlier when the metric changes by less than 1e-4 of
        its Frobenius norm.

    See Also
    --------
    GaussianMixtureWeights : Weights by one Gaussian per class.

    Examples
    --------
    >>> from genmetric import GenerativeMetric, KernelDensityWeights
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = GenerativeMetric(KernelDensityWeights(bandwidth=0.5)).fit(X, y)
    >>> metric.weights_.shape, float(metric.bandwidths_[-1])
    ((150,), 0.5)
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "bandwidth": [None, Interval(float, 0, closed="neither")],
    }

    def __init__(self, *, bandwidth: float | None = None, max_iter: int = 20) -> None:
        self.bandwidth = bandwidth
        self.max_iter = max_iter

    def _log_density(
        self,
        metric: Any,
        X: AnyArray,
        frequency: FloatArray | None,
        rows: IntArray,
        held_out: HeldOut | None,
        rng: np.random.RandomState,
    ) -> LogDensity:
        """Return the kernel log-density of the samples `rows` as a function of the factor L.

        Equal samples are one location with their number as its weight: a repeated sample is a
        sample of weight two. The rate 1/sigma² maximises the likelihood of each location under the
        kernels of all others, or that of `held_out` under all. The density itself includes the
        kernel of the location itself, as in the paper. With many locations a random subset carries
        the kernels and the sum over the others is scaled up, an unbiased estimate at linear cost.
        """
        coordinates = metric._coordinates
        fixed_rate = None
        if self.bandwidth is not None:
            fixed_rate = _kernel_rate(self.bandwidth, coordinates.unit)
        aside = None if held_out is None else coordinates.apply(held_out[0])
        places, inverse = np.unique(coordinates.apply(X), axis=0, return_inverse=True)
        place_counts = np.bincount(inverse.ravel(), frequency).astype(float)
        points, back = np.unique(inverse.ravel()[rows], return_inverse=True)
        references = np.arange(len(places))
        if len(places) > MAX_REFERENCES:
            references = np.sort(rng.choice(len(places), MAX_REFERENCES, replace=False))
        counts = place_counts[references]
        own = np.full(len(places), -1)
        own[references] = np.arange(len(references))
        # The kernel of a location itself is one; the others represent all other samples.
        here = place_counts[points]
        seen = counts.sum() - np.where(own[points] >= 0, here, 0.0)

        def log_density(L: FloatArray, rate: float | None) -> tuple[FloatArray, float | None]:
            if len(references) < 2:
                return np.zeros(len(back)), rate
            z = places @ L.T
            sums, kernels = None, {"weights": counts, "n_jobs": metric.n_jobs}
            if fixed_rate is not None:
                rate = fixed_rate
            else:
                rate, sums = fit_rate(
                    z[references] if aside is None else aside @ L.T,
                    z[references],
                    point_weights=counts if aside is None else np.ones(len(aside)),
                    own=np.arange(len(references)) if aside is None else None,
                    start=rate,
                    **kernels,
                )
            if sums is None or aside is not None or not np.array_equal(points, references):
                sums = kernel_sums(z[points], z[references], rate, own=own[points], **kernels)
            others = sums.log_sum + np.log((place_counts.sum() - here) / seen)
            return np.asarray(np.logaddexp(np.log(here), others)[back]), rate

        return log_density


class GaussianMixtureWeights(BaseEstimator):
    """Weights proportional to the density of one Gaussian per class under the learned metric.

    Pass it to :class:`GenerativeMetric` as ``combination`` to change the defaults of
    ``combination="gmm"``. In each iteration every sample gets the class of the majority of its
    nearest held-out samples under the current metric, and the Gaussians are fitted to these
    classes.

    Parameters
    ----------
    validation_fraction : float, default=0.2
        Fraction of each class that is held out at random if no `X_val` is passed to ``fit``. A
        larger fraction makes the re-assigned classes more reliable and leaves fewer samples to
        learn from: held-out samples are used for nothing else.
    max_iter : int, default=20
        Maximum number of iterations. They end earlier when the metric changes by less than 1e-4 of
        its Frobenius norm.

    See Also
    --------
    KernelDensityWeights : Weights by a kernel density estimate.

    Examples
    --------
    >>> from genmetric import GaussianMixtureWeights, GenerativeMetric
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> weights = GaussianMixtureWeights(validation_fraction=0.3)
    >>> metric = GenerativeMetric(weights, random_state=0).fit(X, y)
    >>> int((metric.weights_ == 0).sum())  # the samples held out
    45
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "validation_fraction": [Interval(float, 0, 1, closed="neither")],
    }

    def __init__(self, *, validation_fraction: float = 0.2, max_iter: int = 20) -> None:
        self.validation_fraction = validation_fraction
        self.max_iter = max_iter

    def _log_density(
        self,
        metric: Any,
        X: AnyArray,
        frequency: FloatArray | None,
        rows: IntArray,
        held_out: HeldOut,
        rng: np.random.RandomState,
    ) -> LogDensity:
        """Return the log-density of one Gaussian per class as a function of the factor L.

        The density of a Gaussian does not depend on the metric as long as the labels stay the same.
        So the samples take the label of most of their five nearest held-out samples in z = Lx, and
        the Gaussians are fitted again.
        """
        x, aside = (metric._coordinates.apply(samples) for samples in (X, held_out[0]))
        advice = "Leave these samples out of X_val and y_val."
        aside_codes = codes_among(metric.classes_, held_out[1], "y_val", advice)

        def log_density(L: FloatArray, rate: float | None) -> tuple[FloatArray, float | None]:
            neighbors = KNeighborsClassifier(min(5, len(aside)))
            codes = neighbors.fit(aside @ L.T, aside_codes).predict(x @ L.T)
            stats = class_statistics(x, codes, len(metric.classes_), sample_weight=frequency)
            # A class in a single location has no Gaussian: its samples get that of the others.
            spread = np.trace(stats.covariances, axis1=1, axis2=2)
            kept = np.flatnonzero(spread > 1e-12 * np.trace(stats.total_covariance))
            if len(kept) == 0:
                return np.zeros(len(rows)), rate
            gaussians = fit_gaussians(stats.take(kept), shrinkage=metric._shrinkage)
            shares = np.log(stats.count[kept] / stats.count[kept].sum())
            return GaussianDensity(gaussians, shares).log_density(x[rows]), rate

        return log_density


DensityWeights: TypeAlias = KernelDensityWeights | GaussianMixtureWeights


def hold_out(
    metric: Any,
    combination: GaussianMixtureWeights,
    x: AnyArray,
    labels: AnyArray,
    rows: IntArray,
) -> tuple[IntArray, HeldOut]:
    """Draw samples of each class to hold out; return the indices of the others too."""
    fraction = combination.validation_fraction
    _, codes = np.unique(labels[rows], return_inverse=True)
    order = check_random_state(metric.random_state).permutation(len(rows))
    held = np.zeros(len(rows), dtype=bool)
    for c in range(codes.max() + 1):
        mine = order[codes[order] == c]
        held[mine[: int(fraction * len(mine))]] = True
    if not held.any():
        raise ValueError(
            f"validation_fraction={fraction:g} holds out no samples: every class has fewer than "
            f"{int(np.ceil(1 / fraction))} samples. Increase it, or pass X_val and y_val to fit."
        )
    return rows[~held], (x[rows[held]], labels[rows[held]])


def held_out_samples(metric: Any, combination: Any, X_val: Any, y_val: Any) -> HeldOut:
    """Validate the samples held out by the user."""
    if not isinstance(combination, DensityWeights):
        raise ValueError(
            'X_val and y_val require combination="gmm" (and X_val "kde"); got '
            f"combination={metric.combination!r}. Leave them out."
        )
    if X_val is None or (y_val is None and isinstance(combination, GaussianMixtureWeights)):
        missing, there = ("X_val", "y_val") if X_val is None else ("y_val", "X_val")
        raise ValueError(f"{there} was given without {missing}. Pass both to fit.")
    if y_val is not None:
        return labelled_samples(metric, X_val, y_val, reset=False)
    X_val = form_points(X_val, metric.preprocessor, metric)
    return validate_data(metric, X_val, dtype=FLOATS, reset=False), None


@np.errstate(under="ignore")
def average_by_density(
    log_density: LogDensity,
    metric_sum: Callable[[FloatArray], MetricSum],
    n_features: int,
    frequency: FloatArray | None,
    interpolation: float,
    max_iter: int,
) -> tuple[MetricSum, FloatArray, FloatArray, list[float]]:
    """Update densities and averages of local metrics alternately until the metric converges.

    `metric_sum` maps weights of the samples to the sum of their local metrics. Returns the last
    sum, its weights, the change in each iteration relative to the norm, and the kernel rates.
    """
    metric, rate = np.eye(n_features), None
    changes: list[float] = []
    rates: list[float] = []
    while True:
        log_weights, rate = log_density(symmetric_root(metric), rate)
        if rate is not None:
            rates.append(rate)
        if frequency is not None:
            log_weights = log_weights + np.log(frequency)
        weights = np.exp(log_weights - logsumexp(log_weights))
        weights /= weights.sum()
        total = metric_sum(weights)
        last, metric = metric, interpolate(total.mean(), interpolation)
        changes.append(float(np.linalg.norm(metric - last) / np.linalg.norm(metric)))
        if changes[-1] <= 1e-4 or len(changes) == max_iter:
            return total, weights, np.array(changes), rates


def weighted_stderr(
    metric_sum: Callable[[FloatArray], MetricSum], weights: FloatArray, population: float
) -> float:
    r"""Return the relative standard error of a weighted mean over drawn samples.

    .. math:: \mathrm{se}^2 = (1 - n/N) \sum_i \alpha_i^2 \|M_i - \bar M\|_F^2
    """
    share = max(1 - len(weights) / population, 0.0)
    if share == 0:
        return 0.0
    mean, squared = metric_sum(weights).mean(), metric_sum(weights**2)
    norm2 = float(np.einsum("ij,ij->", mean, mean))
    cross = float(np.einsum("ij,ij->", squared.total, mean))
    variance = max(squared.square - 2 * cross + squared.weight * norm2, 0.0)
    return float(np.sqrt(share * variance / norm2))


def _kernel_rate(bandwidth: float, unit: float) -> float:
    """Return the rate 1/sigma² of the kernel in coordinates of this unit."""
    ratio = bandwidth / unit
    if not 1e-100 <= ratio <= 1e100:
        raise ValueError(
            f"bandwidth={bandwidth:g} is {ratio:.2g} times the spread of X, {unit:.2g}. Use a "
            "bandwidth near the distance between neighbours, or None."
        )
    return float(ratio**-2)


def sum_of_draws(
    sum_metrics: SumMetrics,
    x: AnyArray,
    weights: FloatArray | None,
    n_draws: int,
    until_precise: bool,
    rng: np.random.RandomState,
) -> tuple[MetricSum, float]:
    """Sum the local metrics of random samples, or of fewer once their mean is precise to 1 %.

    With weights, samples are drawn with replacement in proportion to them: then the mean over the
    draws is unbiased and its standard error is that of independent draws. Returns this relative
    standard error too; zero if it takes all samples.
    """
    n_samples = len(x)
    population = n_samples if weights is None else np.inf
    if weights is not None:
        order = rng.choice(n_samples, n_draws, p=weights / weights.sum())
    elif until_precise:
        order = rng.permutation(n_samples)[:n_draws]
    else:
        # Unlike rng.choice it makes no permutation of all samples.
        order = sample_without_replacement(n_samples, n_draws, random_state=rng)
    stop = min(1024, n_draws) if until_precise else n_draws
    total = sum_metrics(x[np.sort(order[:stop])], None)
    while stop < n_draws and total.relative_stderr(population) > 0.01:
        start, stop = stop, min(2 * stop, n_draws)
        total = total.merge(sum_metrics(x[np.sort(order[start:stop])], None))
    stderr = total.relative_stderr(population)
    if until_precise and weights is not None and stop == n_samples and stderr > 0.01:
        return sum_metrics(x, weights), 0.0
    return total, stderr
