"""Steps of a fit that are not arithmetic: which class models, which rows, which solver."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.random import sample_without_replacement

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import as_number, check_count, check_fraction
from genmetric.density.covariance import check_shrinkage, estimated_covariance
from genmetric.density.frame import Frame
from genmetric.density.gaussian import (
    ClassGaussians,
    GaussianModel,
    fit_gaussians,
    gaussians_of_covariances,
)
from genmetric.density.models import ClassModels, fit_class_models
from genmetric.density.statistics import ClassStatistics
from genmetric.geometry.packed import PackedMetrics, packed_local_metrics
from genmetric.geometry.summation import MetricSum, sum_local_metrics

#: Below so many features the variance of a local metric does not exist for practical purposes.
FEWEST_FEATURES = 5

#: Relative standard error at which max_samples="auto" stops, and the rows of its first look.
AUTO_STDERR, FIRST_LOOK = 0.01, 1024


def gaussian_parameters(estimator: Any) -> tuple[Any, Any]:
    """Shrinkage and covariance estimator of the Gaussians of a metric estimator.

    A `class_model` that is a plain :class:`GaussianModel` is the default model with its own
    parameters, so that everything the default can do (solvers, batches) it can do too.
    """
    if type(estimator.class_model) is GaussianModel:
        estimator = estimator.class_model
    elif estimator.class_model is not None:
        return "auto", None
    shrinkage = check_shrinkage(estimator.shrinkage, estimator.covariance_estimator)
    return shrinkage, estimator.covariance_estimator


def uses_gaussians(estimator: Any) -> bool:
    """Whether the class models of a metric estimator are plain Gaussians."""
    return estimator.class_model is None or type(estimator.class_model) is GaussianModel


def combines_by_density(estimator: Any) -> bool:
    """Whether the combination of a metric estimator takes rounds (Algorithm aDensity)."""
    combination = estimator.combination
    return isinstance(combination, str) and combination in ("kde", "gmm")


def check_parameters(estimator: Any) -> None:
    """Refuse parameters that cannot be used before any work is done."""
    check_fraction(estimator.interpolation, "interpolation")
    check_fraction(estimator.tol, "tol")
    check_max_samples(estimator.max_samples, 1)
    check_count(estimator.max_iter, "max_iter")
    gaussian_parameters(estimator)
    fraction, bandwidth = as_number(estimator.validation_fraction), as_number(estimator.bandwidth)
    if fraction is None or not 0 < fraction < 1:
        raise ValueError(
            "validation_fraction must be a number between 0 and 1; got "
            f"{estimator.validation_fraction!r}."
        )
    if estimator.bandwidth is not None and (bandwidth is None or not 0 < bandwidth < np.inf):
        raise ValueError(
            f"bandwidth must be None or a number above 0; got {estimator.bandwidth!r}."
        )
    if estimator.solver not in ("auto", "dense", "resolvent"):
        raise ValueError(
            f'solver must be "auto", "dense" or "resolvent"; got {estimator.solver!r}.'
        )
    if estimator.solver == "resolvent" and not uses_gaussians(estimator):
        raise ValueError(
            f'solver="resolvent" is for Gaussian class models; class_model={estimator.class_model!r} '
            'is none. Use solver="auto" or "dense".'
        )
    if combines_by_density(estimator) and isinstance(estimator.max_samples, str):
        raise ValueError(
            f'max_samples="auto" is for combination="uniform"; with {estimator.combination!r} give '
            "a number of rows or a share."
        )


def refuse_row_models(estimator: Any, method: str) -> None:
    """Refuse class models and combinations that need all rows at once."""
    combination = estimator.combination
    if not (isinstance(combination, str) and combination == "uniform"):
        raise ValueError(
            f'{method} sees the rows batch by batch and takes combination="uniform" alone; got '
            f"{combination!r}. Use fit."
        )
    _, covariance_estimator = gaussian_parameters(estimator)
    if covariance_estimator is not None or not uses_gaussians(estimator):
        name = "covariance_estimator" if covariance_estimator is not None else "class_model"
        raise ValueError(
            f"{method} sees the rows batch by batch, and {name}={getattr(estimator, name)!r} needs "
            f"all rows of a class at once. Use shrinkage instead, or fit."
        )


def fit_class_gaussians(
    estimator: Any,
    X: AnyArray,
    codes: IntArray,
    frame: Frame,
    stats: ClassStatistics,
    classes: AnyArray | None,
    sample_weight: FloatArray | None,
) -> ClassGaussians:
    """One Gaussian a class, as a metric estimator's parameters say; see :func:`fit_models`."""
    shrinkage, covariance_estimator = gaussian_parameters(estimator)
    if covariance_estimator is None:
        return fit_gaussians(stats, shrinkage=shrinkage, classes=classes)
    covariances = stats.covariances
    for c in range(len(covariances)):
        rows = codes == c
        if rows.sum() > 1:
            x = frame.inward(X[rows]) - stats.mean[c]
            weight = None if sample_weight is None else sample_weight[rows]
            covariances[c] = estimated_covariance(covariance_estimator, x, weight)
    return gaussians_of_covariances(stats, covariances, classes=classes)


def fit_models(
    estimator: Any,
    X: AnyArray,
    codes: IntArray,
    frame: Frame,
    stats: ClassStatistics,
    classes: AnyArray,
    sample_weight: FloatArray | None,
    rng: np.random.RandomState,
) -> tuple[ClassGaussians, ClassModels]:
    """Class models of a metric estimator, in the coordinates of the frame.

    Parameters
    ----------
    estimator : GenerativeMetric
        Its `shrinkage`, `covariance_estimator` and `class_model` say what to fit.
    X : ndarray of shape (n_samples, n_features)
        Rows as they came.
    codes : ndarray of shape (n_samples,)
        Class of each row.
    frame : Frame
        Coordinates.
    stats : ClassStatistics
        Moments of the classes, in the frame.
    classes : ndarray of shape (n_classes,)
        Class names.
    sample_weight : ndarray of shape (n_samples,) or None
        Frequencies.
    rng : RandomState
        Source of chance for class models that need one.

    Returns
    -------
    gaussians : ClassGaussians
        One Gaussian a class.
    models : ClassModels
        The class models; the Gaussians themselves unless a `class_model` says otherwise.
    """
    gaussians = fit_class_gaussians(estimator, X, codes, frame, stats, classes, sample_weight)
    if uses_gaussians(estimator):
        return gaussians, gaussians
    models = fit_class_models(
        estimator.class_model,
        frame.inward(X),
        codes,
        gaussians,
        sample_weight=sample_weight,
        classes=classes,
        rng=rng,
    )
    return gaussians, models


def check_max_samples(max_samples: Any, n_samples: int) -> int | None:
    """Return how many rows to draw out of `n_samples`, or None for all of them."""
    if max_samples is None or (isinstance(max_samples, str) and max_samples == "auto"):
        return None
    number = as_number(max_samples)
    if number is not None:
        if isinstance(max_samples, Integral) and number >= 1:
            return int(number)
        if not isinstance(max_samples, Integral) and 0 < number <= 1:
            return max(1, round(number * n_samples))
    raise ValueError(
        'max_samples must be None, "auto", a whole number of at least 1 or a share in (0, 1]; got '
        f"{max_samples!r}."
    )


def warn_few_features(n_features: int) -> None:
    """Warn where the metrics of single points have no variance for a standard error to rest on."""
    if n_features < FEWEST_FEATURES:
        warnings.warn(
            f"With {n_features} features the metrics of single points have tails too heavy for a "
            "variance: metric_stderr_ of a sample of rows is not to be relied on. Use all rows "
            "(max_samples=None); with so few features they are cheap.",
            UserWarning,
            stacklevel=3,
        )


def draw_rows(
    n_rows: int, n_draws: int | None, weights: FloatArray | None, rng: np.random.RandomState
) -> IntArray | None:
    """Rows that the average runs over, each counted once.

    Without weights rows are drawn without replacement. With weights they are drawn with
    replacement, each with probability proportional to its weight: then the mean over the draws is
    unbiased and its standard error is that of independent draws.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_draws : int or None
        How many to draw; ``None`` takes all.
    weights : ndarray of shape (n_rows,) or None
        Weights of the rows; ``None`` is equal weights.
    rng : RandomState
        Source of chance.

    Returns
    -------
    ndarray of int or None
        Rows, ascending; ``None`` for all rows with the weights they have.
    """
    if n_draws is None or n_draws >= n_rows:
        return None
    if weights is None:
        # Unlike rng.choice it makes no permutation of all rows, of which there may be a billion.
        return np.sort(sample_without_replacement(n_rows, n_draws, random_state=rng))
    return np.sort(rng.choice(n_rows, n_draws, p=weights / weights.sum()))


def sample_until_precise(
    metric_sum: Callable[..., MetricSum],
    X: AnyArray,
    weights: FloatArray | None,
    rng: np.random.RandomState,
) -> tuple[MetricSum, float]:
    """Add up local metrics of rows in random order until their mean is known to one per cent.

    Parameters
    ----------
    metric_sum : callable
        Sum of local metrics of rows, with weights or without.
    X : ndarray of shape (n_samples, n_features)
        Rows.
    weights : ndarray of shape (n_samples,) or None
        Weights of the rows: they are then drawn with replacement, as in :func:`draw_rows`.
    rng : RandomState
        Source of chance.

    Returns
    -------
    total : MetricSum
        Over the rows that were needed; twice as many after each look, to keep looks few.
    stderr : float
        Relative standard error of its mean; zero where all rows were needed.
    """
    n_rows = len(X)
    warn_few_features(X.shape[1])
    if weights is None:
        order, population = rng.permutation(n_rows), float(n_rows)
    else:
        order, population = rng.choice(n_rows, n_rows, p=weights / weights.sum()), np.inf
    total: MetricSum | None = None
    start, stop = 0, FIRST_LOOK
    while stop < n_rows:
        part = metric_sum(X[np.sort(order[start:stop])])
        total = part if total is None else total.merge(part)
        stderr = total.relative_stderr(population)
        if stderr <= AUTO_STDERR:
            return total, stderr
        start, stop = stop, 2 * stop
    if total is None or weights is not None:
        return metric_sum(X, weights), 0.0
    return total.merge(metric_sum(X[np.sort(order[start:])])), 0.0


@dataclass(frozen=True)
class MetricJob:
    """All that adding up local metrics needs, settled before the first row is added.

    Attributes
    ----------
    frame : Frame
        Coordinates of the models.
    stats : ClassStatistics
        Moments of the classes.
    classes : ndarray of shape (n_classes,)
        Class names.
    gaussians, models : ClassGaussians, ClassModels
        See :func:`fit_models`.
    log_priors : ndarray of shape (n_classes,) or None
        Logarithms of the class priors.
    solver : {"dense", "resolvent"}
        How the sum is made.
    tol : float
        See :func:`~genmetric.geometry.summation.sum_local_metrics`.
    n_rows : int
        Rows of the whole job.
    n_jobs : int or None
        Threads.
    rng : RandomState
        Source of chance.
    """

    frame: Frame
    stats: ClassStatistics
    classes: AnyArray
    gaussians: ClassGaussians
    models: ClassModels
    log_priors: FloatArray | None
    solver: str
    tol: float
    n_rows: int
    n_jobs: int | None
    rng: np.random.RandomState

    def metric_sum(self, X: AnyArray, weights: FloatArray | None = None) -> MetricSum:
        """Sum of the local metrics of rows, with weights or one each."""
        return sum_local_metrics(
            self.models,
            X,
            self.frame,
            weights=weights,
            log_priors=self.log_priors,
            solver=self.solver,
            tol=self.tol,
            n_total=self.n_rows,
            n_jobs=self.n_jobs,
        )

    def repeated_sum(self, X: AnyArray, keep: bool) -> Callable[[FloatArray], MetricSum]:
        """Sum of the local metrics of the same rows for one set of weights after another.

        With `keep` the metrics are computed once and kept, where they fit the memory for it.
        """
        if not (keep and PackedMetrics.fits(*X.shape)):
            return lambda weights: self.metric_sum(X, weights)
        packed = packed_local_metrics(
            self.models, X, self.frame, log_priors=self.log_priors, n_jobs=self.n_jobs
        )
        return packed.sum
