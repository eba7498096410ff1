"""Training runs of MLKR: from a specification and samples to a factor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.utils import check_array, check_random_state

from genmetric._nadaraya_watson import kernel_regression
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._warnings import suppress_warnings
from genmetric.geometry._factor import rank_limited_factor, symmetric_root
from genmetric.learners._early_stopping import ValidationPath, left_out_folds, select_n_iter
from genmetric.learners._generative import GenerativeMetric
from genmetric.learners._lmnn.initial import check_factor, metric_coordinates, total_covariance
from genmetric.learners._mlkr_objective import best_bandwidth_scale, mlkr_objective
from genmetric.learners._regression_metric import GenerativeRegressionMetric
from genmetric.learners._slices import default_n_slices, quantile_edges, slice_targets

#: Multiples of the scale with the lowest leave-one-out error that are tried as starts of the plain
#: minimisation. A kernel that is narrower than the best one for the initial metric often leads to
#: a lower minimum.
_START_SCALES = (1.0, 2.0)
#: Number of iterations from each start, after which the one with the lowest error is selected.
_TRIAL_ITER = 50
#: Norm of the start in the units of L-BFGS, whose first step has length one.
_START_NORM = 4.0
#: Number of iterations that is kept unless another one is better by more than a standard error:
#: the closed form is a good metric, and on noisy targets every iteration makes it worse.
DEFAULT_N_ITER = 0
#: Standard deviation of the kernel of MLKR, whose bandwidth is part of L.
_BANDWIDTH = float(np.sqrt(0.5))

#: Called with the number of the iteration and L; a true result ends the run.
MLKRCallback = Callable[[int, FloatArray], Any]


@dataclass(frozen=True)
class MLKRSpecification:
    """Parameters of one training run.

    Attributes
    ----------
    n_components : int or None
        Number of rows of L; ``None`` keeps all dimensions.
    init : str or array-like
        The initial factor.
    early_stopping : bool
        Whether the run ends before the minimum. It then starts from the scale with the lowest
        error, without trial iterations from another one.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Decrease of the error per iteration, relative to the variance of y, that ends the run.
    n_jobs : int or None
        Number of threads.
    random_state : int, RandomState instance or None
        Seed of ``init="random"``.
    """

    n_components: int | None
    init: Any
    early_stopping: bool
    max_iter: int
    tol: float
    n_jobs: int | None
    random_state: Any


@dataclass(frozen=True)
class MLKRData:
    """Samples of one training run.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples in input coordinates.
    scaled : ndarray of shape (n_samples, n_features)
        Centred samples, divided by `scale`.
    scale : float
        Scale of the samples.
    y : ndarray of shape (n_samples,)
        Targets with mean zero and variance one.
    weights : ndarray of shape (n_samples,) or None
        Positive frequency weights.
    """

    X: AnyArray
    scaled: FloatArray
    scale: float
    y: FloatArray
    weights: FloatArray | None

    def subset(self, indices: IntArray) -> MLKRData:
        """Return the samples with the given indices."""
        weights = None if self.weights is None else self.weights[indices]
        return MLKRData(self.X[indices], self.scaled[indices], self.scale, self.y[indices], weights)


@dataclass(frozen=True)
class MLKRSolution:
    """Factor of a minimisation with its mean squared error and number of iterations."""

    L: FloatArray
    error: float
    n_iter: int
    converged: bool


def train_mlkr(
    data: MLKRData,
    specification: MLKRSpecification,
    *,
    callback: MLKRCallback | None = None,
    at_start: Callable[[FloatArray], Any] | None = None,
) -> MLKRSolution:
    """Compute the initial factor and minimise the leave-one-out error.

    Parameters
    ----------
    data : MLKRData
        Samples.
    specification : MLKRSpecification
        Parameters of the run.
    callback : callable, default=None
        Called after each iteration with its number and L; a true result ends the run.
    at_start : callable, default=None
        Called with the factor that the minimisation starts from.

    Returns
    -------
    MLKRSolution
        The factor, for scaled samples.
    """
    spec = specification
    L, coordinates = initial_factor(data, spec)
    if not isinstance(spec.init, str):
        start = L * data.scale
    else:
        scale = best_bandwidth_scale(L, data.scaled, data.y, data.weights)
        starts = [factor * scale * L for factor in _START_SCALES]
        start = starts[0]
        if not spec.early_stopping:
            n_iter = min(_TRIAL_ITER, spec.max_iter)
            trials = [_minimize(data, spec, coordinates, first, n_iter) for first in starts]
            start = starts[int(np.argmin([trial.error for trial in trials]))]
    if at_start is not None:
        at_start(start)
    return _minimize(data, spec, coordinates, start, spec.max_iter, callback)


def initial_factor(
    data: MLKRData, specification: MLKRSpecification
) -> tuple[FloatArray, FloatArray]:
    """Compute the factor that MLKR starts from, up to its scale.

    Parameters
    ----------
    data : MLKRData
        Samples.
    specification : MLKRSpecification
        Its `init` and `n_components`.

    Returns
    -------
    L : ndarray of shape (n_components, n_features)
        The initial factor.
    coordinates : ndarray of shape (n_features, n_features)
        Nonsingular factor of the full metric, in whose space the minimisation works.
    """
    spec, n_features = specification, data.X.shape[1]
    metric = np.eye(n_features)
    if not isinstance(spec.init, str):
        L = check_array(spec.init, dtype=np.float64, input_name="init")
        check_factor(L, n_features)
        if spec.n_components is not None and len(L) != spec.n_components:
            raise ValueError(
                f"init has {len(L)} rows, but n_components is {spec.n_components}. Make them agree, "
                "or leave n_components at None."
            )
        return L, metric
    if spec.init == "random":
        rng = check_random_state(spec.random_state)
        return rng.standard_normal((spec.n_components or n_features, n_features)), metric
    if spec.init == "identity":
        return np.eye(spec.n_components or n_features, n_features), metric
    if spec.init == "auto":
        closed_form: Any = GenerativeRegressionMetric(
            n_jobs=spec.n_jobs, random_state=spec.random_state
        )
        labels: AnyArray = data.y
        if ((labels == labels.min()) | (labels == labels.max())).all():
            closed_form, labels = GenerativeMetric(n_jobs=spec.n_jobs), labels == labels.max()
        with suppress_warnings(UserWarning, "Classes .* have a single"):
            metric = closed_form.fit(data.X, labels, sample_weight=data.weights).metric_
        metric = metric / np.abs(metric).max()
    coordinates = metric_coordinates(metric)
    if spec.n_components is None:
        return symmetric_root(metric), coordinates
    covariance = total_covariance(data.X, data.weights)
    return rank_limited_factor(metric, spec.n_components, covariance), coordinates


def _minimize(
    data: MLKRData,
    specification: MLKRSpecification,
    coordinates: FloatArray,
    start: FloatArray,
    max_iter: int,
    callback: MLKRCallback | None = None,
) -> MLKRSolution:
    """Minimise by L-BFGS over A with L = A·F, F the matrix `coordinates`."""
    inner = data.scaled @ coordinates.T
    first = start @ np.linalg.inv(coordinates)
    total = float(len(data.y) if data.weights is None else data.weights.sum())
    # The first step of L-BFGS has length one.
    unit = float(np.linalg.norm(first)) / _START_NORM
    n_iter = 0

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = mlkr_objective(
            unit * flat.reshape(start.shape),
            inner,
            data.y,
            sample_weight=data.weights,
            n_jobs=specification.n_jobs,
        )
        return value / total, gradient.ravel() * (unit / total)

    if max_iter == 0:
        return MLKRSolution(start, objective(first.ravel() / unit)[0], 0, True)

    def after_iteration(xk: FloatArray) -> None:
        nonlocal n_iter
        n_iter += 1
        L = unit * xk.reshape(start.shape) @ coordinates
        if callback is not None and callback(n_iter, L):
            raise StopIteration

    # ftol is relative to the larger of the value and one, and the variance of y is one.
    options: Any = {"maxiter": max_iter, "ftol": specification.tol, "gtol": 1e-8}
    found: Any = minimize(
        objective,
        first.ravel() / unit,
        method="L-BFGS-B",
        jac=True,
        callback=after_iteration,
        options=options,
    )
    L = unit * found.x.reshape(start.shape) @ coordinates
    return MLKRSolution(L, float(found.fun), n_iter, n_iter < max_iter or bool(found.success))


def validate_mlkr_n_iter(data: MLKRData, specification: MLKRSpecification) -> ValidationPath:
    """Select the number of iterations by the squared error of left-out samples.

    Parameters
    ----------
    data : MLKRData
        Samples.
    specification : MLKRSpecification
        Parameters of the runs; `max_iter` bounds the number of iterations.

    Returns
    -------
    ValidationPath
        The selected number of iterations and the errors, relative to the variance of y.
    """

    def run(indices: IntArray, after_iteration: Callable[[int, FloatArray], bool]) -> None:
        train_mlkr(
            data.subset(indices),
            specification,
            callback=after_iteration,
            at_start=lambda L: after_iteration(0, L),
        )

    def errors(L: FloatArray, train: IntArray, left_out: IntArray) -> FloatArray:
        Z, kept = data.scaled @ L.T, data.subset(train)
        predicted = kernel_regression(
            Z[left_out],
            Z[train],
            kept.y,
            _BANDWIDTH,
            sample_weight=kept.weights,
            n_jobs=specification.n_jobs,
        )
        return np.asarray((predicted - data.y[left_out]) ** 2)

    return select_n_iter(
        run,
        errors,
        _target_folds(data.y),
        data.weights,
        default_n_iter=DEFAULT_N_ITER,
        max_iter=specification.max_iter,
    )


def _target_folds(y: FloatArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield training and left-out samples, with equal fractions of every slice of the target."""
    codes = slice_targets(y, quantile_edges(y, default_n_slices(len(y))))
    for left_out in left_out_folds(codes):
        train = np.setdiff1d(np.arange(len(y)), left_out)
        if len(train) > 2 and np.ptp(y[train]) > 0:
            yield train, left_out
