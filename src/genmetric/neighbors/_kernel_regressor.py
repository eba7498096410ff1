"""KernelRegressor: Nadaraya-Watson regression in any learned metric."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import has_fit_parameter

from genmetric._nadaraya_watson import kernel_regression
from genmetric._parameters import N_JOBS, HasMethods, Interval, ParameterRules, check_parameters
from genmetric._rollback import restore_on_error
from genmetric._typing import ArrayLike, FloatArray
from genmetric._validation import check_weights, numeric_targets, query_rows
from genmetric.density._scaling import Scaling
from genmetric.neighbors._kernel_regression import select_bandwidth
from genmetric.neighbors._metric_space import metric_space, with_names

#: Distance of a query, in units of the spread of the training samples, beyond which its squared
#: distances overflow.
FARTHEST = 1e150


class KernelRegressor(RegressorMixin, BaseEstimator):
    r"""Kernel regression (Nadaraya-Watson) with a Gaussian kernel in a learned metric.

    The prediction is the average of the training targets, weighted by a Gaussian of the distance:

    .. math:: \hat y(x) = \frac{\sum_i y_i \exp(-d(x, x_i)^2 / 2h^2)}
              {\sum_i \exp(-d(x, x_i)^2 / 2h^2)} .

    The bandwidth h is selected by the leave-one-out error, which is computed exactly.

    Parameters
    ----------
    metric : transformer, default=None
        Maps samples to a space where distances are Euclidean, for example
        :class:`~genmetric.GenerativeRegressionMetric`. It is cloned and fitted in `fit`. ``None``
        uses the samples as they are. Wrap a fitted transformer in
        :class:`sklearn.frozen.FrozenEstimator` to use it without refitting.
    bandwidth : float, default=None
        Standard deviation h of the kernel, in the units of the metric's space. Larger values give
        smoother predictions, closer to the mean of the targets; smaller values follow the nearest
        samples. ``None`` selects it by the leave-one-out error.
    n_jobs : int, default=None
        Number of threads over chunks of samples. The result is bit-identical for every value.

    Attributes
    ----------
    bandwidth_ : float
        The bandwidth.
    loo_error_ : float
        Mean squared leave-one-out error at this bandwidth; defined only if the bandwidth was
        selected. The metric is not refitted without each sample.
    metric_estimator_ : transformer or None
        The fitted metric.
    n_samples_fit_ : int
        Number of training samples with a positive weight.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    GenerativeRegressionMetric : Metric for numeric targets, in closed form.
    MLKR : Metric that minimises the leave-one-out error of this regressor.
    sklearn.neighbors.KNeighborsRegressor : Average of a fixed number of neighbours.

    Notes
    -----
    Memory is bounded: neither `fit` nor `predict` holds a matrix of all distances. With more than
    5000 training samples the leave-one-out error is averaged over 5000 evenly spaced ones.

    References
    ----------
    E. A. Nadaraya, On estimating regression, Theory of Probability and its Applications 9 (1964).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from genmetric import KernelRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRegressor().fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.3)
    True
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "metric": [None, HasMethods(("fit", "transform"))],
        "bandwidth": [None, Interval(float, 0, closed="neither")],
        "n_jobs": N_JOBS,
    }

    def __init__(
        self, metric: Any = None, *, bandwidth: float | None = None, n_jobs: int | None = None
    ) -> None:
        self.metric = metric
        self.bandwidth = bandwidth
        self.n_jobs = n_jobs

    @restore_on_error
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> KernelRegressor:
        """Fit the metric, store the samples and select the bandwidth.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Numeric targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: weight 2 equals repeating the sample.

        Returns
        -------
        self : KernelRegressor
            The fitted regressor.
        """
        check_parameters(self)
        x, targets = numeric_targets(self, X, y)
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))

        metric = None if self.metric is None else clone(self.metric)
        if metric is not None:
            weighted = weight is not None and has_fit_parameter(metric, "sample_weight")
            options = {"sample_weight": weight} if weighted else {}
            metric.fit(with_names(X, x), targets, **options)
        z = metric_space(metric, X, x)
        if weight is not None:
            z, targets, weight = z[weight > 0], targets[weight > 0], weight[weight > 0]
        scaling = Scaling.of(z)
        inside = scaling.apply(z)
        # Targets around zero: sums of kernel weights then cancel nothing.
        center = float(np.average(targets, weights=weight))
        residuals = targets - center
        if self.bandwidth is None:
            search = select_bandwidth(inside, residuals, sample_weight=weight, n_jobs=self.n_jobs)
            h = search.bandwidth
            self.loo_error_ = search.error
        else:
            h = float(self.bandwidth) / scaling.scale
            self.__dict__.pop("loo_error_", None)
        self._scaling, self._samples, self._residuals = scaling, inside, residuals
        self._weight, self._center, self._bandwidth = weight, center, h
        self.bandwidth_ = h * scaling.scale
        self.metric_estimator_, self.n_samples_fit_ = metric, len(inside)
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Predict targets.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries,)
            Predicted targets.
        """
        x = query_rows(self, X)
        z = self._scaling.apply(metric_space(self.metric_estimator_, X, x))
        far = float(np.abs(z).max(initial=0.0))
        if not far < FARTHEST:
            raise ValueError(
                f"A sample of X is {far:.1e} times the spread of the training samples away from "
                "them, where squared distances overflow float64. Check X for outliers."
            )
        predicted = kernel_regression(
            z,
            self._samples,
            self._residuals,
            self._bandwidth,
            sample_weight=self._weight,
            n_jobs=self.n_jobs,
        )
        return np.asarray(self._center + predicted)
