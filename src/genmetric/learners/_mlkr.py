"""MLKR: the metric that minimises the leave-one-out error of kernel regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from genmetric._chunks import check_n_jobs, one_blas_thread
from genmetric._logging import log_progress
from genmetric._parameters import (
    BOOLEAN,
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
from genmetric._typing import ArrayLike, FloatArray
from genmetric._validation import check_n_components, check_weights, form_points, numeric_targets
from genmetric._warnings import warn_user
from genmetric.density._scaling import Scaling
from genmetric.learners._early_stopping import ValidationPath
from genmetric.learners._mahalanobis import LinearMapMixin, MahalanobisMixin
from genmetric.learners._mlkr_training import (
    MLKRCallback,
    MLKRData,
    MLKRSpecification,
    train_mlkr,
    validate_mlkr_n_iter,
)


class MLKR(LinearMapMixin, MahalanobisMixin, BaseEstimator):
    r"""Metric learning for kernel regression, trained by L-BFGS.

    The metric M = LᵀL minimises the leave-one-out squared error of the Nadaraya-Watson estimator
    with the kernel :math:`e^{-\|L(x_i - x_j)\|^2}`: each target is predicted by the average of the
    other targets, weighted by the kernel. The bandwidth is part of L, so
    :class:`~genmetric.KernelRegressor` on transformed samples selects a bandwidth near
    :math:`1/\sqrt 2`.

    At the minimum the metric overfits if the target is noisy. By default the minimisation therefore
    starts from a metric in closed form, moves in the space of that metric, and stops after a number
    of iterations selected on left-out samples. ``early_stopping=False`` minimises the objective
    itself.

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

        All but the array are multiplied by the scale with the lowest leave-one-out error. Without
        early stopping they are multiplied by twice that scale if the error is lower after 50
        iterations from there.
    early_stopping : bool, default=True
        Whether to select the number of iterations by the error of left-out samples. Fifths of the
        samples are left out in turn until 1000 samples have been left out. ``False`` minimises the
        leave-one-out error until convergence.
    max_iter : int, default=1000
        Maximum number of iterations of L-BFGS, with or without early stopping.
    tol : float, default=1e-6
        The minimisation ends if an iteration lowers the error by less than this fraction of the
        variance of y, in [0, 1]. Larger values end it sooner.
    callback : callable, default=None
        Called after each iteration of the final minimisation as ``callback(components, n_iter)``
        with the flattened factor, like the callback of
        :class:`~sklearn.neighbors.NeighborhoodComponentsAnalysis`. A true return value ends the
        fit.
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
        Number of iterations of L-BFGS, at least one even if early stopping keeps the initial
        metric.
    validation_path_ : ndarray of shape (n_checkpoints, 2)
        Numbers of iterations and mean squared errors of the left-out samples after them, divided by
        the variance of y; without rows if ``early_stopping=False`` or if no sample could be left
        out.
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

    **Early stopping.** With few or noisy samples per feature the minimum overfits: the
    leave-one-out error of the training samples is low, but the metric predicts worse than the one
    it starts from. The minimisation works in the space of the initial metric, and the left-out
    samples are predicted by kernel regression from the others. The initial metric is replaced by
    the one after the number of iterations with the lowest left-out error only if that error is
    lower by more than its standard error. The left-out parts have equal fractions of every quantile
    slice of y and do not depend on sample weights, so weighted and repeated samples may select
    different numbers.

    **Start.** The objective is not convex, and the minimum found depends on the start. The
    bandwidth of the kernel is part of L, so the start has a scale. Without early stopping two
    scales are tried for 50 iterations each, and the minimisation runs from the one with the lower
    error.

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
        "early_stopping": [BOOLEAN],
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
        early_stopping: bool = True,
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
        self.early_stopping = early_stopping
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
            y_scaled = (targets - center) / spread
            data = MLKRData(x, scaling.apply(x), scaling.scale, y_scaled, weights)
            specification = self._specification(n_components)
            path = ValidationPath.without_samples(specification.max_iter)
            if self.early_stopping:
                path = validate_mlkr_n_iter(data, specification)
                specification = replace(specification, max_iter=path.n_iter)
            solution = train_mlkr(
                data, specification, callback=self._after_iteration(scaling.scale)
            )
        self.components_ = solution.L / scaling.scale
        self.metric_ = self.components_.T @ self.components_
        self.loo_error_ = solution.error * spread**2
        self.n_iter_ = max(1, solution.n_iter)  # scikit-learn's checks require one
        self.validation_path_ = path.table
        if not (solution.converged or self.early_stopping):
            warn_user(
                f"MLKR did not converge in max_iter={self.max_iter} iterations. Increase max_iter "
                "or tol.",
                ConvergenceWarning,
            )
        return self

    def _specification(self, n_components: int | None) -> MLKRSpecification:
        return MLKRSpecification(
            n_components=n_components,
            init=self.init,
            early_stopping=bool(self.early_stopping),
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )

    def _after_iteration(self, scale: float) -> MLKRCallback:
        """Return the function that prints the progress and calls the user's callback."""

        def after_iteration(n_iter: int, L: FloatArray) -> Any:
            if self.verbose:
                log_progress("MLKR", f"iteration {n_iter}")
            return self.callback is not None and self.callback((L / scale).ravel(), n_iter)

        return after_iteration

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
