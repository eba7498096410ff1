"""KernelRegressor: Nadaraya-Watson regression in any learned metric, bandwidth by leave-one-out."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from genmetric._neighbors import fit_metric, metric_space, refuse_distant, squared_distances
from genmetric._parallel import map_chunks, row_chunks
from genmetric._typing import ArrayLike, FloatArray
from genmetric._validation import (
    HasMethods,
    Interval,
    ParameterRules,
    check_parameters,
    check_weights,
    numeric_targets,
    query_rows,
)
from genmetric.density import Coordinates


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
    }

    def __init__(
        self, metric: Any = None, *, bandwidth: float | None = None, n_jobs: int | None = None
    ) -> None:
        self.metric = metric
        self.bandwidth = bandwidth
        self.n_jobs = n_jobs

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
        given = None if sample_weight is None else check_weights(sample_weight, len(x))
        self.metric_estimator_ = fit_metric(self.metric, X, x, targets, given)
        z = metric_space(self.metric_estimator_, X, x)
        weight = np.ones(len(x)) if given is None else given
        z, targets, self._weight = (rows[weight > 0] for rows in (z, targets, weight))
        self._coordinates = Coordinates.of(z)
        self._samples = self._coordinates.apply(z)
        # Targets around zero: sums of kernel weights then cancel nothing.
        self._center = float(np.average(targets, weights=self._weight))
        self._residuals = targets - self._center
        self.__dict__.pop("loo_error_", None)  # of an earlier fit
        if self.bandwidth is None:
            training = (self._samples, self._residuals, self._weight)
            self._bandwidth, self.loo_error_ = _select_bandwidth(*training, self.n_jobs)
        else:
            self._bandwidth = float(self.bandwidth) / self._coordinates.scale
        self.bandwidth_ = self._bandwidth * self._coordinates.scale
        self.n_samples_fit_ = len(z)
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
        z = self._coordinates.apply(metric_space(self.metric_estimator_, X, x))
        refuse_distant(z, 1e150)  # squares overflow
        columns = np.column_stack([self._weight, self._weight * self._residuals])

        def of_chunk(rows: slice) -> FloatArray:
            distances = squared_distances(z[rows], self._samples)
            # The kernel of the nearest sample is one, so the sum is positive for every bandwidth.
            distances -= distances.min(axis=1, keepdims=True)
            total, weighted = (_gaussians(distances, self._bandwidth, distances) @ columns).T
            return np.asarray(weighted / total)

        parts = map_chunks(of_chunk, row_chunks(len(z), 24 * len(self._samples)), self.n_jobs)
        return np.asarray(self._center + np.concatenate(list(parts)))


@np.errstate(over="ignore", under="ignore")
def _gaussians(squared: FloatArray, bandwidth: float, out: FloatArray) -> FloatArray:
    """Compute exp(-d²/2h²), divided by h twice: the square of a very small h is zero."""
    np.divide(squared, -bandwidth, out=out)
    out /= 2 * bandwidth
    return np.exp(out, out=out)


def _select_bandwidth(
    samples: FloatArray, targets: FloatArray, weight: FloatArray, n_jobs: int | None
) -> tuple[float, float]:
    """Select the bandwidth with the smallest leave-one-out error, and return this error.

    The squares of a grid of 28 bandwidths halve, from the diameter of the samples down; steps of
    golden section refine the best of them.
    """
    # Around the weighted mean, so a sample of weight two gives the grid of the sample twice.
    samples = samples - np.average(samples, axis=0, weights=weight)
    radius = float(np.sqrt(np.einsum("ij,ij->i", samples, samples).max(initial=0.0)))
    if radius == 0 or weight.sum() <= 1:
        return 1.0, np.nan  # equal samples, or a single one: every bandwidth predicts the same
    grid = 2 * radius * 2.0 ** (-0.5 * np.arange(28))
    found = _leave_one_out_errors(samples, targets, weight, grid.tolist(), n_jobs)
    errors: dict[float, float] = dict(zip(grid.tolist(), found.tolist(), strict=True))

    def error(log_bandwidth: float) -> float:
        h = float(np.exp(log_bandwidth))
        if h not in errors:
            errors[h] = float(_leave_one_out_errors(samples, targets, weight, [h], n_jobs)[0])
        return errors[h]

    place = int(found.argmin())
    low, high = np.log(grid[min(place + 1, 27)]), np.log(grid[max(place - 1, 0)])
    golden = (np.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    for _ in range(11):
        if error(left) < error(right):
            high, right = right, left
            left = high - golden * (high - low)
        else:
            low, left = left, right
            right = low + golden * (high - low)
    # Of equal errors the larger bandwidth, the smoother function, is selected.
    best = min(errors, key=lambda h: (errors[h], -h))
    return best, errors[best]


def _leave_one_out_errors(
    samples: FloatArray, targets: FloatArray, weight: FloatArray, bandwidths: Any, n_jobs: Any
) -> FloatArray:
    """Compute the mean squared leave-one-out error for bandwidths; fast if their squares halve.

    A sample of frequency w is w copies: leaving one out keeps weight max(w - 1, 0) at the same
    place, and its error counts w times. At most 5000 evenly spaced samples are left out.
    """
    n_left_out = min(len(samples), 5000)
    left_out = np.linspace(0, len(samples) - 1, n_left_out).astype(np.intp)
    rest = np.maximum(weight - 1, 0)
    columns = np.column_stack([weight, weight * targets])

    def errors_of_chunk(chunk: slice) -> FloatArray:
        rows = left_out[chunk]
        local = np.arange(len(rows))
        distances = squared_distances(samples[rows], samples)
        distances[local, rows] = np.where(rest[rows] > 0, 0.0, np.inf)
        distances -= distances.min(axis=1, keepdims=True)
        errors, kernel, last = np.empty(len(bandwidths)), np.empty_like(distances), np.inf
        for i, h in enumerate(bandwidths):
            if np.isclose(last * last, 2 * h * h, rtol=1e-12, atol=0):
                kernel *= kernel  # the squared bandwidth halves
            else:
                _gaussians(distances, h, kernel)
            last = h
            total, weighted = (kernel @ columns).T
            # The sample itself entered with its full weight; one copy is left out.
            own = kernel[local, rows] * (weight[rows] - rest[rows])
            residual = (weighted - own * targets[rows]) / (total - own) - targets[rows]
            errors[i] = weight[rows] @ residual**2
        return errors

    chunks = row_chunks(len(left_out), 24 * len(samples))
    total = np.sum(list(map_chunks(errors_of_chunk, chunks, n_jobs)), axis=0)
    return np.asarray(total / weight[left_out].sum())
