"""MLKR: the metric that minimises the leave-one-out error of kernel regression."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator

from genmetric._parallel import map_chunks, one_blas_thread, row_chunks
from genmetric._typing import ArrayLike, FloatArray
from genmetric._validation import (
    BOOLEAN,
    Interval,
    ParameterRules,
    check_n_components,
    check_parameters,
    check_weights,
    form_points,
    numeric_targets,
)
from genmetric._validation import ArrayLike as ArrayRule
from genmetric.density import Coordinates
from genmetric.geometry import symmetric_root
from genmetric.learners.early_stopping import Samples, held_out_folds, lbfgs, start, train
from genmetric.learners.generative import GenerativeMetric
from genmetric.learners.mahalanobis import LinearMapMixin, MahalanobisMixin
from genmetric.learners.regression import GenerativeRegressionMetric, default_n_slices


class MLKR(LinearMapMixin, MahalanobisMixin, BaseEstimator):
    r"""Metric learning for kernel regression, trained by L-BFGS.

    The metric M = LᵀL minimises the leave-one-out squared error of the Nadaraya-Watson estimator
    with the kernel :math:`e^{-\|L(x_i - x_j)\|^2}`: each target is predicted by the average of the
    other targets, weighted by the kernel. The bandwidth is part of L, so
    :class:`~genmetric.KernelRegressor` on transformed samples selects a bandwidth near
    :math:`1/\sqrt 2`.

    At the minimum the metric overfits if the target is noisy. By default the minimisation therefore
    starts from a metric in closed form, moves in the space of that metric, and stops after a number
    of iterations selected on held-out samples. ``early_stopping=False`` minimises the objective
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

        All but the array are multiplied by the scale with the lowest leave-one-out error, or,
        without early stopping, by 1.5 or 2 times that scale if the error is lower after 50
        iterations from there.
    early_stopping : bool, default=True
        Whether to select the number of iterations by the error of held-out samples. Fifths of the
        samples are held out in turn until 1000 samples have been held out. If more than one fifth
        was held out, the result is the average of the metrics trained without them and of that of
        all samples. ``False`` minimises the leave-one-out error until convergence.
    max_iter : int, default=1000
        Maximum number of iterations of L-BFGS, with or without early stopping.
    tol : float, default=1e-6
        The minimisation ends if an iteration lowers the error by less than this fraction of the
        variance of y, in [0, 1]. Larger values end it sooner.
    preprocessor : array-like or callable, default=None
        Looks up samples if indices are passed to `fit`, as in metric-learn.
    n_jobs : int, default=None
        Number of threads; -1 uses all cores. The result is the same, bit for bit, for every
        number.
    random_state : int, RandomState instance or None, default=None
        Seed of the entries of ``init="random"``.
    verbose : int, default=0
        If positive, print one line per iteration.

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
        Numbers of iterations and mean squared errors of the held-out samples after them, divided by
        the variance of y; without rows if ``early_stopping=False`` or if no sample could be held
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
    it starts from. The minimisation works in the space of the initial metric, and the held-out
    samples are predicted by kernel regression from the others. The number of iterations is the one
    with the lowest held-out error, averaged over adjacent numbers; it is zero on many noisy tables.
    The average with the metrics of the validation runs varies less than a single metric. The
    held-out parts have equal fractions of every quantile slice of y and do not depend on sample
    weights, so weighted and repeated samples may select different numbers.

    **Start.** The objective is not convex, and the minimum found depends on the start. The
    bandwidth of the kernel is part of L, so the start has a scale. Without early stopping three
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
        "tol": [Interval(float, 0, 1)],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        init: Any = "auto",
        early_stopping: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-6,
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
        self.preprocessor = preprocessor
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

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
        x, targets = numeric_targets(self, form_points(X, self.preprocessor, self), y)
        check_n_components(self.n_components, x.shape[1])
        weights = np.ones(len(x))
        if sample_weight is not None:
            weights = check_weights(sample_weight, len(x))
            x, targets, weights = (a[weights > 0] for a in (x, targets, weights))
        center = float(np.average(targets, weights=weights))
        spread = float(np.sqrt(np.average((targets - center) ** 2, weights=weights)))
        if len(x) < 3 or spread <= 1e-12 * max(1e-300, float(np.abs(targets).max())):
            raise ValueError(
                f"MLKR needs at least 3 samples and targets that vary; got {len(x)} samples with "
                f"targets of standard deviation {spread:.2g}. Check y."
            )
        coordinates = Coordinates.of(x)
        data: Samples = (coordinates.apply(x), (targets - center) / spread, weights)
        # Equal fractions of every slice of the target are held out.
        rank = np.argsort(np.argsort(data[1], kind="stable"))
        slices = rank * default_n_slices(len(x)) // len(x)
        with one_blas_thread():
            iterates = self._iterates(data, coordinates.scale)
            runs = (
                (self._iterates(part, coordinates.scale), part, held_out)
                for part, held_out in held_out_folds(slices, data)
                if np.ptp(part[1]) > 0
            )
            L, done, self.validation_path_ = train(self, iterates, runs, squared_errors, data[0])
            error, _ = mlkr_objective(L, *data[:2], sample_weight=weights, n_jobs=self.n_jobs)
        self.components_ = L / coordinates.scale
        self.metric_ = self.components_.T @ self.components_
        self.loo_error_ = error / weights.sum() * spread**2
        self.n_iter_ = max(1, done)  # scikit-learn's checks require one
        return self

    def _iterates(self, data: Samples, scale: float) -> Iterator[tuple[FloatArray, float]]:
        """Yield the start and the factor after each iteration, with the relative error."""
        x, y, weights = data
        init = self.init
        if isinstance(init, str) and init == "auto":
            init = symmetric_root(self._closed_form(data))
        L, metric = start(init, x, weights, self.n_components, self.random_state)

        def evaluate(L: FloatArray) -> tuple[float, FloatArray]:
            found = mlkr_objective(L, x, y, sample_weight=weights, n_jobs=self.n_jobs)
            return found[0] / weights.sum(), found[1] / weights.sum()

        if not isinstance(self.init, str):
            L = L * (scale * np.abs(self.init).max())
        else:
            L = L * best_bandwidth_scale(L, x, y, weights)
            if not self.early_stopping:
                # A kernel that is narrower at the start often leads to a lower minimum.
                starts = L, 1.5 * L, 2 * L
                trials = [islice(lbfgs(evaluate, start, metric, self.tol), 50) for start in starts]
                L = starts[int(np.argmin([min(value for _, value in trial) for trial in trials]))]
        yield L, evaluate(L)[0]
        yield from lbfgs(evaluate, L, metric, self.tol)

    def _closed_form(self, data: Samples) -> FloatArray:
        """Compute the metric in closed form, for two classes if y has two distinct values."""
        (x, y, weights), n_jobs = data, self.n_jobs
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Classes .* have a single", UserWarning)
            if ((y == y.min()) | (y == y.max())).all():
                return GenerativeMetric(n_jobs=n_jobs).fit(x, y == y.max(), weights).metric_
            closed = GenerativeRegressionMetric(n_jobs=n_jobs, random_state=self.random_state)
            return closed.fit(x, y, sample_weight=weights).metric_


@np.errstate(under="ignore")
def mlkr_objective(
    L: FloatArray,
    X: FloatArray,
    y: FloatArray,
    *,
    sample_weight: FloatArray | None = None,
    n_jobs: int | None = None,
) -> tuple[float, FloatArray]:
    r"""Compute the leave-one-out squared error of kernel regression and its gradient.

    With :math:`d_{ij} = \|L(x_i - x_j)\|^2` and sample weights w,

    .. math::
        E(L) = \sum_i w_i (\hat y_i - y_i)^2, \qquad
        \hat y_i = \sum_j s_{ij} y_j, \qquad
        s_{ij} \propto (w_j - \delta_{ij})_+ \, e^{-d_{ij}}, \quad \sum_j s_{ij} = 1 .

    A sample of weight 2 equals a repeated sample, whose copy is among the samples that predict it.
    The derivative with respect to :math:`d_{ij}` is
    :math:`a_{ij} = -2 w_i (\hat y_i - y_i) s_{ij} (y_j - \hat y_i)`. The rows of A sum to zero, so
    the gradient is :math:`2 L X^T (D - A - A^T) X` with D the diagonal matrix of the column sums
    of A. It is computed for chunks of samples; no array of n_samples² entries is held.

    Parameters
    ----------
    L : ndarray of shape (n_components, n_features)
        Factor of the metric.
    X : ndarray of shape (n_samples, n_features)
        Samples, centred near the origin.
    y : ndarray of shape (n_samples,)
        Targets.
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive frequency weights; ``None`` weights all samples by one.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    value : float
        The weighted sum of squared errors.
    gradient : ndarray of shape (n_components, n_features)
        Derivative of the value.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.learners import mlkr_objective
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> value, gradient = mlkr_objective(np.eye(1), X, np.array([0.0, 1.0, 1.0]))
    >>> round(value, 3)
    1.907
    """
    w = np.ones(len(X)) if sample_weight is None else sample_weight
    Z = X @ L.T
    norms = np.einsum("ij,ij->i", Z, Z)
    with np.errstate(divide="ignore"):
        log_w, log_copies = np.log(w), np.log(np.maximum(w - 1, 0.0))

    def of_chunk(rows: slice) -> tuple[float, FloatArray]:
        own, local = np.arange(rows.start, rows.stop), np.arange(rows.stop - rows.start)
        s = 2 * Z[rows] @ Z.T
        s -= norms
        s -= norms[rows, None]
        np.minimum(s, 0.0, out=s)
        s += log_w
        # Without copies the sample itself does not contribute.
        s[local, own] = log_copies[own]
        s -= s.max(axis=1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=1, keepdims=True)
        predicted = s @ y
        residuals = predicted - y[rows]
        s *= y - predicted[:, None]
        s *= (-2 * w[rows] * residuals)[:, None]
        s[local, own] = 0.0  # a distance of zero for every L
        gradient = (s.sum(axis=0)[:, None] * Z - s.T @ Z[rows]).T @ X
        gradient += (s.sum(axis=1)[:, None] * Z[rows] - s @ Z).T @ X[rows]
        return float(w[rows] @ residuals**2), 2 * gradient

    chunks = row_chunks(len(X), 40 * len(X))
    values, gradients = zip(*map_chunks(of_chunk, chunks, n_jobs), strict=True)
    return sum(values), np.sum(gradients, axis=0)


def best_bandwidth_scale(L: FloatArray, x: FloatArray, y: FloatArray, weights: FloatArray) -> float:
    """Select the number s with the lowest leave-one-out error of s·L, on at most 1000 samples."""
    kept = np.unique(np.linspace(0, len(x) - 1, min(1000, len(x))).astype(int))
    x, y, weights = x[kept], y[kept], weights[kept]
    Z = x @ L.T
    Z -= np.average(Z, axis=0, weights=weights)
    unit = 2 * float(np.average(np.einsum("ij,ij->i", Z, Z), weights=weights))
    scales = np.sqrt(2.0 ** np.arange(-2, 13) / (unit or 1.0))
    errors = [mlkr_objective(s * L, x, y, sample_weight=weights)[0] for s in scales]
    return float(scales[int(np.argmin(errors))])


def squared_errors(L: FloatArray, part: Samples, held_out: Samples) -> FloatArray:
    """Return the squared error of kernel regression from `part` for each held-out sample."""
    Z, queries = part[0] @ L.T, held_out[0] @ L.T
    offset = np.log(part[2]) - np.einsum("ij,ij->i", Z, Z)
    predicted = [
        softmax(2 * queries[rows] @ Z.T + offset, axis=1) @ part[1]
        for rows in row_chunks(len(queries), 32 * len(Z))
    ]
    return np.asarray((np.concatenate(predicted) - held_out[1]) ** 2)
