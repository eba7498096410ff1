"""Steps of a fit: coordinates and class models, the sum of local metrics, the learned metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genmetric._array_api import computed_like, record_like
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import check_n_components, encode_classes
from genmetric._warnings import warn_user
from genmetric.density._covariance import EIGENVALUE_FLOOR
from genmetric.density._factored_statistics import (
    AnyStatistics,
    FactoredStatistics,
    Statistics,
)
from genmetric.density._low_rank import LowRankGaussians
from genmetric.density._models import ClassModels
from genmetric.density._scaling import Scaling
from genmetric.density._whitening import pooled_whitening
from genmetric.geometry._dense_solver import PackedMetrics, packed_local_metrics
from genmetric.geometry._factor import rank_limited_factor, symmetric_root
from genmetric.geometry._local import FLOOR, interpolate
from genmetric.geometry._summation import (
    MetricSum,
    estimated_seconds,
    select_solver,
    sum_local_metrics,
)
from genmetric.learners._class_models import AnyGaussians, fit_models, fit_statistics
from genmetric.learners._specification import FitSpecification

#: Ratio of the standard deviations of two features above which a fit suggests to scale them.
MAX_SCALE_RATIO = 100.0

#: Mean number of directions without curvature per sample above which a fit warns.
MAX_ZERO_CURVATURE = 0.05

#: If the low-rank solver is estimated to take more seconds than this, it averages over a subset of
#: the samples by default, of at least this size.
MAX_SECONDS, MIN_AVERAGED = 40.0, 1024


def base_coordinates(
    spec: FitSpecification,
    frame: Scaling,
    stats: Statistics,
    fourth: Callable[[Scaling, Statistics], FloatArray],
) -> tuple[Scaling, Statistics]:
    """Return the coordinates in which the base is the identity, and the class statistics there.

    Parameters
    ----------
    spec : FitSpecification
        Its `base` selects the coordinates.
    frame : Scaling
        Shift and scale of the samples.
    stats : ClassStatistics
        Moments of the classes, in the coordinates of `frame`.
    fourth : callable
        From coordinates and the statistics in them to the fourth moment of each class, as
        :func:`~genmetric.density._whitening.fourth_moments` computes it. Called only if
        ``spec.needs_fourth_moments``.

    Returns
    -------
    frame : Scaling
        Coordinates of the class models.
    stats : ClassStatistics
        Moments of the classes there.
    """
    if spec.base == "identity":
        return frame, stats
    whitening = pooled_whitening(stats, frame)
    stats = whitening.transform_statistics(stats)
    if spec.needs_fourth_moments:
        stats = replace(stats, fourth=fourth(whitening, stats))
    return whitening, stats


def warn_unscaled(spec: FitSpecification, stats: AnyStatistics) -> None:
    """Warn if the scales of the features differ so much that some dominate the regularisation."""
    if not spec.depends_on_units:
        return
    deviations = np.sqrt(np.diag(stats.total_covariance))
    # Below rounding a feature is constant.
    deviations = deviations[deviations > 1e-12 * deviations.max(initial=0.0)]
    ratio = deviations.max(initial=1.0) / deviations.min(initial=np.inf)
    if ratio > MAX_SCALE_RATIO:
        warn_user(
            f"The standard deviations of the features differ by a factor of {ratio:.2g}, and "
            "shrinkage and interpolation regularise towards the Euclidean metric in their units. "
            'Scale the features first, for example by StandardScaler, or use base="pooled".',
        )


def warn_zero_curvature(plan: MetricPlan, total: MetricSum) -> None:
    """Warn once if the floor of the sign rule changes the size of more than a few local metrics.

    Only the size of metrics of unit determinant depends on it. Directions in which no class has
    any scatter (constant or collinear features) do not count, and there is a warning already if
    classes took the pooled covariance.

    Parameters
    ----------
    plan : MetricPlan
        Class models and their statistics.
    total : MetricSum
        Sum of the local metrics.
    """
    mean = total.floored / total.weight
    few = mean <= MAX_ZERO_CURVATURE or (plan.stats.count < 2).any()
    if few or plan.spec.normalization == "trace":
        return
    variances = np.linalg.eigvalsh(plan.stats.pooled_covariance)
    beyond = mean - np.count_nonzero(variances <= EIGENVALUE_FLOOR * variances.mean())
    if beyond > MAX_ZERO_CURVATURE:
        warn_user(
            "The curvatures of the class densities differ by rounding errors only in "
            f"{beyond:.2g} of {len(variances)} directions, on average over the samples. Local "
            f"metrics get {FLOOR:g} of their largest eigenvalue there, and their size after scaling "
            'to unit determinant depends on this number. Use normalization="trace", or merge '
            "classes with equal covariances.",
        )


@dataclass(frozen=True)
class MetricPlan:
    """Class models, coordinates and solver of a fit, fixed before local metrics are summed.

    Attributes
    ----------
    spec : FitSpecification
        Parameters of the fit.
    frame : Scaling
        Coordinates of the models.
    stats : ClassStatistics
        Moments of the classes in these coordinates.
    classes : ndarray of shape (n_classes,)
        Class names.
    gaussians : ClassGaussians or LowRankGaussians
    models : ClassModels
        See :func:`~genmetric.learners._class_models.fit_models`.
    log_priors : ndarray of shape (n_classes,) or None
        Logarithms of the class priors.
    solver : {"dense", "resolvent"}
        Solver of the sum.
    n_samples : int
        Number of samples of the whole fit.
    rng : RandomState
        Random number generator of the fit.
    """

    spec: FitSpecification
    frame: Scaling
    stats: AnyStatistics
    classes: AnyArray
    gaussians: AnyGaussians
    models: ClassModels
    log_priors: FloatArray | None
    solver: str
    n_samples: int
    rng: np.random.RandomState

    def metric_sum(self, X: AnyArray, weights: FloatArray | None = None) -> MetricSum:
        """Return the sum of the local metrics of samples, with weights or one each."""
        return sum_local_metrics(
            self.models,
            X,
            self.frame,
            weights=weights,
            log_priors=self.log_priors,
            solver=self.solver,
            tol=self.spec.class_tol,
            n_total=self.n_samples,
            normalization=self.spec.normalization,
            n_jobs=self.spec.n_jobs,
        )

    def on_arrays(self, X: Any) -> MetricPlan:
        """Return the plan with coordinates and class models in the namespace and device of `X`."""
        log_priors = None if self.log_priors is None else computed_like(self.log_priors, X)
        return replace(
            self,
            frame=record_like(self.frame, X),
            models=record_like(self.models, X),
            log_priors=log_priors,
        )

    def default_limit(self, n_samples: int) -> int | None:
        """Return the number of samples to average over if all of them would take too long.

        With many classes the log-densities of a sample take a product with all samples, so that
        the time grows with the square of their number.
        """
        if self.spec.max_samples is not None or self.spec.combination.by_density:
            return None
        seconds = estimated_seconds(self.solver, self.models, n_samples, self.stats.mean.shape[1])
        if self.solver != "low-rank" or seconds is None or seconds <= MAX_SECONDS:
            return None
        return max(MIN_AVERAGED, int(n_samples * MAX_SECONDS / seconds))

    def repeated_sum(self, X: AnyArray) -> Callable[[FloatArray], MetricSum]:
        """Return a function from weights to the sum of the local metrics of the same samples.

        The local metrics are computed once and kept if they fit in memory, unless the solver is
        "resolvent".
        """
        if self.spec.solver == "resolvent" or not PackedMetrics.fits(*X.shape):
            return lambda weights: self.metric_sum(X, weights)
        packed = packed_local_metrics(
            self.models,
            X,
            self.frame,
            log_priors=self.log_priors,
            normalization=self.spec.normalization,
            n_jobs=self.spec.n_jobs,
        )
        return packed.sum


def plan_fit(
    spec: FitSpecification,
    frame: Scaling,
    stats: AnyStatistics,
    classes: AnyArray,
    n_samples: int,
    samples: tuple[AnyArray, IntArray, FloatArray | None] | None = None,
) -> MetricPlan:
    """Fit the class models and select the solver.

    Parameters
    ----------
    spec : FitSpecification
        Parameters of the fit.
    frame : Scaling
        Coordinates of the models, of :func:`base_coordinates`.
    stats : ClassStatistics
        Moments of the classes in these coordinates.
    classes : ndarray of shape (n_classes,)
        Class names.
    n_samples : int
        Number of samples to add up, over all batches.
    samples : tuple of ndarray, default=None
        Samples, their classes and their frequencies, if all are in memory.

    Returns
    -------
    MetricPlan
        The plan.
    """
    n_features = stats.mean.shape[1]
    check_n_components(spec.n_components, n_features)
    if len(classes) < 2:
        encode_classes(classes, "GenerativeMetric")  # raises the one error about a single class
    rng = spec.rng()
    # In the pooled base the pooled covariance is the identity.
    stand_in = np.eye(n_features) if spec.base == "pooled" else None
    gaussians: AnyGaussians
    models: ClassModels
    if samples is None or isinstance(stats, FactoredStatistics):
        gaussians = models = fit_statistics(spec.class_models.shrinkage, stats, classes, stand_in)
    else:
        x, codes, weight = samples
        gaussians, models = fit_models(
            spec.class_models, x, codes, frame, stats, classes, weight, rng, stand_in
        )
    solver: str = spec.solver
    if solver == "auto":
        solver = select_solver(models, n_samples, n_features)
    log_priors = spec.log_priors(len(classes))
    return MetricPlan(
        spec, frame, stats, classes, gaussians, models, log_priors, solver, n_samples, rng
    )


@dataclass(frozen=True)
class Average:
    """Average of local metrics.

    Attributes
    ----------
    total : MetricSum
        Sum of the local metrics with their weights.
    stderr : float
        Relative standard error of the mean; zero if it is over all samples.
    weights : ndarray of shape (n_samples,) or None
        Weights with sum one, if they are not equal.
    changes : ndarray of shape (n_iter,) or None
        Change of the metric in each iteration, relative to its Frobenius norm.
    bandwidths : ndarray of shape (n_iter,) or None
        Kernel width of each iteration, in units of the learned distance.
    """

    total: MetricSum
    stderr: float = 0.0
    weights: FloatArray | None = None
    changes: FloatArray | None = None
    bandwidths: FloatArray | None = None


def warn_limited(average: Average, n_samples: int) -> None:
    """Warn that an average is over some of the samples, because all would take too long."""
    warn_user(
        f"The local metrics of {int(average.total.weight)} of {n_samples} samples were averaged, "
        f"which leaves a relative standard error of {average.stderr:.2g}: all samples would take more "
        f"than {MAX_SECONDS:.0f} seconds. Set max_samples=1.0 to average over all of them, or another "
        "value to silence this warning.",
    )


def learned_factor(plan: MetricPlan, metric: FloatArray) -> FloatArray:
    """Return a factor L of a metric in the coordinates of the plan, with `n_components` rows."""
    if plan.spec.n_components is None:
        return symmetric_root(metric)
    covariance = plan.stats.total_covariance
    return rank_limited_factor(metric, plan.spec.n_components, covariance)


def fitted_attributes(plan: MetricPlan, average: Average) -> dict[str, Any]:
    """Return the attributes of a fitted :class:`GenerativeMetric`, by name.

    Parameters
    ----------
    plan : MetricPlan
        Coordinates and class models.
    average : Average
        Average of the local metrics in these coordinates.

    Returns
    -------
    dict
        Public attributes, and the private ones that its methods need.
    """
    spec, frame = plan.spec, plan.frame
    warn_zero_curvature(plan, average.total)
    mean = average.total.mean()
    inside = interpolate(mean, spec.interpolation)
    # The identity has no error: the mixture has the error of its part of the mean.
    share = spec.interpolation * float(np.linalg.norm(mean) / np.linalg.norm(inside))
    components = frame.restore_factor(learned_factor(plan, inside))
    whole = spec.n_components is None
    found: dict[str, Any] = {
        "_frame": frame,
        "_models": plan.models,
        "_log_priors": plan.log_priors,
        "_interpolation": spec.interpolation,
        "_normalization": spec.normalization,
        "_stream": None,
        "classes_": plan.classes,
        "means_": frame.restore(plan.gaussians.means),
        "covariances_": None
        if isinstance(plan.gaussians, LowRankGaussians)
        else frame.restore_covariances(plan.gaussians.covariances),
        "components_": components,
        "metric_": frame.restore_metrics(inside) if whole else components.T @ components,
        "metric_stderr_": average.stderr * share,
        "n_iter_": 1 if average.changes is None else len(average.changes),
        "weights_": average.weights,
        "metric_changes_": average.changes,
        "bandwidths_": average.bandwidths,
    }
    return {
        name: value for name, value in found.items() if name not in OPTIONAL or value is not None
    }


#: Attributes that only some fits set. Covariances of low-rank class models are computed on access.
OPTIONAL = ("weights_", "metric_changes_", "bandwidths_", "covariances_")

#: Attributes that all fits set and that depend on the average of local metrics or its coordinates.
COMPUTED = (
    *("_frame", "_models", "_log_priors", "_interpolation", "_normalization"),
    *("means_", "components_", "metric_", "metric_stderr_", "n_iter_"),
)


def set_attributes(estimator: object, attributes: dict[str, Any]) -> None:
    """Set fitted attributes, and remove those of an earlier fit."""
    clear_attributes(estimator)
    vars(estimator).update(attributes)


#: Attributes that are arrays of the library of X.
ARRAYS = ("means_", "covariances_", "components_", "metric_", "weights_")


def arrays_like(attributes: dict[str, Any], X: Any) -> dict[str, Any]:
    """Return fitted attributes with arrays in the namespace and device of `X`."""
    return {
        name: computed_like(value, X) if name in ARRAYS else value
        for name, value in attributes.items()
    }


def clear_attributes(estimator: object) -> None:
    """Remove the attributes of an earlier fit, and what is needed to compute them later."""
    for name in (*COMPUTED, *OPTIONAL, "_pending"):
        vars(estimator).pop(name, None)
