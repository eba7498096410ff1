"""MLKR: the metric that minimises the leave-one-out error of kernel regression."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state

from genmetric._chunks import check_n_jobs, one_blas_thread
from genmetric._logging import log_progress
from genmetric._parameters import (
    CALLABLE,
    N_JOBS,
    RANDOM_STATE,
    VERBOSE,
    Interval,
    ParameterRules,
    check_parameters,
)
from genmetric._parameters import (
    ArrayLike as ArrayRule,
)
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import check_n_components, check_weights, form_points, numeric_targets
from genmetric._warnings import suppress_warnings
from genmetric.density._scaling import Scaling
from genmetric.geometry._factor import rank_limited_factor, symmetric_root
from genmetric.metric._generative import GenerativeMetric
from genmetric.metric._lmnn.initial import check_factor, metric_coordinates, total_covariance
from genmetric.metric._mahalanobis import LinearMapMixin, MahalanobisMixin
from genmetric.metric._mlkr_objective import best_bandwidth_scale, mlkr_objective
from genmetric.metric._regression_metric import GenerativeRegressionMetric

#: Multiples of the scale with the lowest leave-one-out error that are tried as starts. A kernel that
#: is narrower than the best one for the initial metric often leads to a lower minimum.
_START_SCALES = (1.0, 2.0)
#: Number of iterations from each start, after which the one with the lowest error is selected.
_TRIAL_ITER = 15
#: Norm of the start in the units of L-BFGS, whose first step has length one.
_START_NORM = 4.0


@dataclass(frozen=True)
class _MLKRSolution:
    """Factor of a minimisation with its mean squared error and number of iterations."""

    L: FloatArray
    error: float
    n_iter: int
    converged: bool


@dataclass(frozen=True)
class _LeaveOneOutError:
    """Mean squared leave-one-out error of scaled samples and of targets with variance one.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Scaled samples.
    y : ndarray of shape (n_samples,)
        Standardised targets.
    weights : ndarray of shape (n_samples,) or None
        Positive frequency weights.
    coordinates : ndarray of shape (n_features, n_features)
        Nonsingular matrix F. The minimisation runs over A with L = A·F.
    n_jobs : int or None
        Number of threads.
    """

    X: FloatArray
    y: FloatArray
    weights: FloatArray | None
    coordinates: FloatArray
    n_jobs: int | None

    def minimize(
        self,
        start: FloatArray,
        max_iter: int,
        tol: float,
        callback: Callable[[int, FloatArray], Any] | None = None,
    ) -> _MLKRSolution:
        """Minimise by L-BFGS from the factor `start`.

        Parameters
        ----------
        start : ndarray of shape (n_components, n_features)
            Initial factor, for scaled samples.
        max_iter : int
            Maximum number of iterations.
        tol : float
            Decrease of the error per iteration, relative to the variance of y, that ends the run.
        callback : callable, default=None
            Called after each iteration with its number and the factor.

        Returns
        -------
        _MLKRSolution
            The factor, for scaled samples.
        """
        inner = self.X @ self.coordinates.T
        first = start @ np.linalg.inv(self.coordinates)
        total = float(len(self.y) if self.weights is None else self.weights.sum())
        # The first step of L-BFGS has length one.
        unit = float(np.linalg.norm(first)) / _START_NORM
        n_iter = 0

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = mlkr_objective(
                unit * flat.reshape(start.shape),
                inner,
                self.y,
                sample_weight=self.weights,
                n_jobs=self.n_jobs,
            )
            return value / total, gradient.ravel() * (unit / total)

        def after_iteration(xk: FloatArray) -> None:
            nonlocal n_iter
            n_iter += 1
            if callback is not None:
                callback(n_iter, unit * xk.reshape(start.shape) @ self.coordinates)

        # ftol is relative to the larger of the value and one, and the variance of y is one.
        options: Any = {"maxiter": max_iter, "ftol": tol, "gtol": 1e-8}
        found: Any = minimize(
            objective,
            first.ravel() / unit,
            method="L-BFGS-B",
            jac=True,
            callback=after_iteration,
            options=options,
        )
        L = unit * found.x.reshape(start.shape) @ self.coordinates
        return _MLKRSolution(L, float(found.fun), int(found.nit), bool(found.success))


class MLKR(LinearMapMixin, MahalanobisMixin, BaseEstimator):
    r"""Metric learning for kernel regression, trained by L-BFGS.

    The metric M = LᵀL minimises the leave-one-out squared error of the Nadaraya-Watson estimator
    with the kernel :math:`e^{-\|L(x_i - x_j)\|^2}`: each target is predicted by the average of the
    other targets, weighted by the kernel. The bandwidth is part of L, so
    :class:`~genmetric.KernelRegressor` on transformed samples selects a bandwidth near
    :math:`1/\sqrt 2`.

    Parameters
    ----------
    n_components : int, default=None
        Output dimension, at most the number of features. Smaller values give a projection, which
        regularises. ``None`` keeps all dimensions.
    init : {"auto", "identity", "pca", "random"} or array-like, default="auto"
        The initial factor.

        - ``"auto"``: :class:`~genmetric.GenerativeRegressionMetric` with its defaults, a closed
          form, or :class:`~genmetric.GenerativeMetric` if y has two distinct values;
        - ``"identity"``: the Euclidean metric, or the first `n_components` features;
        - ``"pca"``: the leading principal components;
        - ``"random"``: normally distributed entries;
        - an array of shape (n_components, n_features): the factor itself, with its scale.

        All but the array are multiplied by the scale with the lowest leave-one-out error, or by
        twice that scale if the error is lower after 15 iterations from there.
    max_iter : int, default=1000
        Maximum number of iterations of L-BFGS from the selected start. Smaller values keep the
        metric closer to the start, which regularises.
    tol : float, default=1e-6
        The minimisation ends if an iteration lowers the error by less than this fraction of the
        variance of y, in [0, 1]. Larger values end it sooner.
    callback : callable, default=None
        Called after each iteration from the selected start as ``callback(components, n_iter)`` with
        the flattened factor, like the callback of
        :class:`~sklearn.neighbors.NeighborhoodComponentsAnalysis`.
    preprocessor : array-like or callable, default=None
        Looks up samples if indices are passed to `fit`, as in metric-learn.
    n_jobs : int, default=None
        Number of threads; -1 uses all cores. The result is the same, bit for bit, for every
        number.
    random_state : int, RandomState instance or None, default=None
        Seed of the entries of ``init="random"``.
    verbose : int, default=0
        Whether to print one line per iteration.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The factor L.
    metric_ : ndarray of shape (n_features, n_features)
        The metric M = LᵀL.
    loo_error_ : float
        Weighted mean of the squared leave-one-out errors of the training samples.
    n_iter_ : int
        Number of iterations of L-BFGS from the selected start, at least one.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during `fit`. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    GenerativeRegressionMetric : A metric for numeric targets in closed form.
    KernelRegressor : Kernel regression in a learned metric.
    LMNN : The corresponding metric for classes.

    Notes
    -----
    One evaluation takes O(n_samples²·n_components) operations and a fixed memory budget.

    The objective is not convex, and the minimum found depends on the start. The bandwidth of the
    kernel is part of L, so the start has a scale. Two scales are tried for 15 iterations each, and
    the minimisation runs from the one with the lower error.

    With few or noisy samples per feature the minimum overfits: the leave-one-out error of the
    training samples is low, but the metric predicts worse than the one it starts from. Compare by
    cross-validation with :class:`GenerativeRegressionMetric`, or lower `max_iter`.

    References
    ----------
    K. Q. Weinberger and G. Tesauro, Metric learning for kernel regression, Artificial Intelligence
    and Statistics (2007).

    Examples
    --------
    >>> from genmetric import MLKR
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = make_friedman1(200, random_state=0)
    >>> plain = cross_val_score(KNeighborsRegressor(), X, y).mean()
    >>> learned = cross_val_score(make_pipeline(MLKR(), KNeighborsRegressor()), X, y).mean()
    >>> bool(learned > plain + 0.1)
    True
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "init": ["auto", "identity", "pca", "random", ArrayRule()],
        "max_iter": [Interval(int, 1)],
        "tol": [Interval(float, 0, 1)],
        "callback": [None, CALLABLE],
        "n_jobs": N_JOBS,
        "random_state": RANDOM_STATE,
        "verbose": VERBOSE,
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        init: Any = "auto",
        max_iter: int = 1000,
        tol: float = 1e-6,
        callback: Callable[[FloatArray, int], Any] | None = None,
        preprocessor: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.callback = callback
        self.preprocessor = preprocessor
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @restore_on_error
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> MLKR:
        """Minimise the leave-one-out error.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, or indices of samples with a `preprocessor`.
        y : array-like of shape (n_samples,)
            Numeric targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: weight 2 equals repeating the sample.

        Returns
        -------
        self : MLKR
            The fitted estimator.
        """
        check_parameters(self)
        check_n_jobs(self.n_jobs)
        x, targets = numeric_targets(self, form_points(X, self.preprocessor, self), y)
        weights = None if sample_weight is None else check_weights(sample_weight, len(x))
        if weights is not None and not weights.all():
            kept = weights > 0
            x, targets, weights = x[kept], targets[kept], weights[kept]
        n_components = check_n_components(self.n_components, x.shape[1])
        center = float(np.average(targets, weights=weights))
        spread = float(np.sqrt(np.average((targets - center) ** 2, weights=weights)))
        if len(x) < 3 or spread <= 1e-12 * max(1e-300, float(np.abs(targets).max())):
            raise ValueError(
                f"MLKR needs at least 3 samples and targets that vary; got {len(x)} samples with "
                f"targets of standard deviation {spread:.2g}. Check y."
            )
        with one_blas_thread():
            scaling = Scaling.of(x)
            L, coordinates = self._initial_factor(x, targets, weights, n_components)
            objective = _LeaveOneOutError(
                scaling.apply(x), (targets - center) / spread, weights, coordinates, self.n_jobs
            )
            start = self._select_start(L, objective, scaling.scale)
            solution = self._minimize(start, objective, scaling.scale)
        self.components_ = solution.L / scaling.scale
        self.metric_ = self.components_.T @ self.components_
        self.loo_error_ = solution.error * spread**2
        self.n_iter_ = max(1, solution.n_iter)
        return self

    def _initial_factor(
        self,
        x: AnyArray,
        targets: FloatArray,
        weights: FloatArray | None,
        n_components: int | None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the initial factor and the factor of the full metric that L-BFGS works in."""
        n_features = x.shape[1]
        metric = np.eye(n_features)
        if not isinstance(self.init, str):
            L = check_array(self.init, dtype=np.float64, input_name="init")
            check_factor(L, n_features)
            if n_components is not None and len(L) != n_components:
                raise ValueError(
                    f"init has {len(L)} rows, but n_components is {n_components}. Make them agree, "
                    "or leave n_components at None."
                )
            return L, metric
        if self.init == "random":
            rng = check_random_state(self.random_state)
            return rng.standard_normal((n_components or n_features, n_features)), metric
        if self.init == "identity":
            return np.eye(n_components or n_features, n_features), metric
        if self.init == "auto":
            closed_form: Any = GenerativeRegressionMetric(
                n_jobs=self.n_jobs, random_state=self.random_state
            )
            labels: AnyArray = targets
            if ((targets == targets.min()) | (targets == targets.max())).all():
                closed_form, labels = GenerativeMetric(n_jobs=self.n_jobs), targets == targets.max()
            with suppress_warnings(UserWarning, "Classes .* have a single"):
                metric = closed_form.fit(x, labels, sample_weight=weights).metric_
            metric = metric / np.abs(metric).max()
        coordinates = metric_coordinates(metric)
        if n_components is None:
            return symmetric_root(metric), coordinates
        return rank_limited_factor(metric, n_components, total_covariance(x, weights)), coordinates

    def _select_start(self, L: FloatArray, objective: _LeaveOneOutError, unit: float) -> FloatArray:
        """Multiply the initial factor by the scale from which the error falls furthest."""
        if not isinstance(self.init, str):
            return L * unit
        scale = best_bandwidth_scale(L, objective.X, objective.y, objective.weights)
        starts = [factor * scale * L for factor in _START_SCALES]
        n_iter = min(_TRIAL_ITER, int(self.max_iter))
        errors = [objective.minimize(start, n_iter, float(self.tol)).error for start in starts]
        return starts[int(np.argmin(errors))]

    def _minimize(
        self, start: FloatArray, objective: _LeaveOneOutError, unit: float
    ) -> _MLKRSolution:
        """Minimise from the selected start; report the progress and a lack of convergence."""

        def after_iteration(n_iter: int, L: FloatArray) -> None:
            if self.verbose:
                log_progress("MLKR", f"iteration {n_iter}")
            if self.callback is not None:
                self.callback((L / unit).ravel(), n_iter)

        solution = objective.minimize(start, int(self.max_iter), float(self.tol), after_iteration)
        if solution.n_iter >= self.max_iter and not solution.converged:
            warnings.warn(
                f"MLKR did not converge in max_iter={self.max_iter} iterations. Increase max_iter "
                "or tol.",
                ConvergenceWarning,
                stacklevel=5,
            )
        return solution

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
