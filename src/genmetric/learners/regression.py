"""Metrics for numeric targets: in closed form, and selected by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from genmetric._neighbors import N_NEIGHBORS, average_errors, nearest_neighbors
from genmetric._parallel import map_chunks, one_blas_thread, row_chunks
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    InstanceOf,
    Interval,
    ParameterRules,
    batch_targets,
    check_make_batches,
    check_n_components,
    check_parameters,
    check_weights,
    form_points,
    numeric_targets,
)
from genmetric.density import Coordinates, GaussianMixtureModel, GaussianModel, JointDensity
from genmetric.density.gaussian import pooled_whitening
from genmetric.density.statistics import class_statistics
from genmetric.geometry import (
    average_regression_metrics,
    interpolate,
    rank_limited_factor,
    regression_local_metrics,
    symmetric_root,
)
from genmetric.learners.candidates import (
    SEARCH_RULES,
    candidate_factors,
    given_splits,
    grid_values,
    neighbor_numbers,
    results_table,
    scorer_values,
    seeded_copy,
)
from genmetric.learners.generative import GenerativeMetric
from genmetric.learners.mahalanobis import LinearMapMixin, MahalanobisMixin, fitted_samples

#: Parameters that the metric of the slices shares with the metric for numeric targets.
SHARED = (
    *("shrinkage", "base", "normalization", "interpolation", "n_components", "solver"),
    *("class_tol", "max_samples", "n_jobs", "random_state"),
)


def default_n_slices(n_samples: int) -> int:
    """Return the number of slices for a number of samples: at least 40 each, from 2 to 6.

    Parameters
    ----------
    n_samples : int
        Number of training samples.

    Returns
    -------
    int
        Number of slices.

    Examples
    --------
    >>> from genmetric.learners import default_n_slices
    >>> [default_n_slices(n) for n in (50, 150, 1000)]
    [2, 3, 6]
    """
    return int(np.clip(n_samples // 40, 2, 6))


def quantile_edges(
    y: AnyArray, n_slices: int, sample_weight: FloatArray | None = None
) -> FloatArray:
    """Compute the inner edges of quantile slices of a target.

    Equal targets are in one slice. With many equal targets there are fewer edges than asked for,
    and at least one if the target is not constant.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Numeric targets.
    n_slices : int
        Number of slices with about equal numbers of samples.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequencies.

    Returns
    -------
    ndarray of shape (n_edges,)
        Ascending edges; a target belongs to the first slice whose edge is not smaller.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.learners import quantile_edges
    >>> quantile_edges(np.arange(9.0), 3)
    array([2., 5.])
    """
    values, inverse = np.unique(y, return_inverse=True)
    counts = np.bincount(inverse, sample_weight)
    reached = np.cumsum(counts) / counts.sum()
    wanted = np.arange(1, n_slices) / n_slices
    # The value whose cumulated frequency is nearest: ties of many samples go to one side.
    places = np.abs(reached[:, None] - wanted).argmin(axis=0)
    return np.asarray(values[np.unique(np.minimum(places, max(len(values) - 2, 0)))], float)


def slice_targets(y: Any, edges: FloatArray) -> IntArray:
    """Return the index of the slice of each target.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Numeric targets.
    edges : ndarray of shape (n_edges,)
        Inner edges, see :func:`quantile_edges`.

    Returns
    -------
    ndarray of shape (n_samples,)
        Indices from 0 to n_edges.

    Examples
    --------
    >>> from genmetric.learners import slice_targets
    >>> slice_targets([0.5, 2.0, 7.0], [2.0, 5.0])
    array([0, 0, 2])
    """
    return np.asarray(np.searchsorted(edges, np.asarray(y, float), side="left"))


def _streams(estimator: GenerativeRegressionMetric) -> bool:
    """Return True if the metric can be fitted on batches; raise an AttributeError otherwise."""
    if estimator.method != "slices":
        raise AttributeError(
            f'fit_batches and partial_fit require method="slices"; got {estimator.method!r}. The '
            "metric of kernel regression needs all samples at once: use fit, or a sample of the data."
        )
    return True


class GenerativeRegressionMetric(LinearMapMixin, MahalanobisMixin, BaseEstimator):
    r"""Mahalanobis metric for nearest-neighbour and kernel regression, in closed form.

    Two local metrics are available at every sample, both without iterative optimisation:

    - ``"slices"``: the target is cut into quantile slices, and the metric is
      :class:`GenerativeMetric` with the slices as classes.
    - ``"kernel"``: with the gradient g of the log-density and the gradient b of the regression
      function, both from a Gaussian model of samples and targets, the first-order bias of kernel
      regression is proportional to :math:`\mathrm{tr}(M^{-1}(b g^T + g b^T))`. It vanishes for
      :math:`M \propto \hat b \hat b^T + \hat g \hat g^T` with unit vectors
      :math:`\hat b, \hat g`.

    The learned metric is the average of the local metrics over the training samples.
    ``"combined"`` is the mean of both averages, each of trace `n_features`.

    Parameters
    ----------
    method : {"combined", "kernel", "slices"}, default="combined"
        Local metrics to average: those of the slices, those of kernel regression, or both.
    n_slices : int, default=None
        Number of quantile slices. More slices follow the target more closely but leave fewer
        samples for the covariance of each. ``None`` uses one slice per 40 samples, from 2 to 6.
    shrinkage : None, "auto" or float, default="auto"
        Shrinkage of the covariances, as in :class:`GenerativeMetric`: ``None`` for maximum
        likelihood, ``"auto"`` for Ledoit-Wolf, or a number in [0, 1]. Larger values pull towards
        the `base`.
    base : {"pooled", "identity"}, default="pooled"
        Metric towards which shrinkage and interpolation regularise: Mahalanobis distance under
        the pooled covariance within slices, which makes the result independent of the scales of
        the features, or Euclidean distance in the units of the data.
    normalization : {"determinant", "trace"}, default="trace"
        Scale of the local metrics of the slices before they are averaged. The local metrics of
        "kernel" have rank two and are always scaled to equal trace.
    density_model : GaussianModel or GaussianMixtureModel, default=None
        Density of each slice, and of samples and targets together for "kernel". ``None`` is one
        Gaussian with the given `shrinkage`. A mixture describes curved regression functions.
    interpolation : float, default=1.0
        Weight of the learned metric, in [0, 1], against the base. Smaller values regularise
        towards the base; 0 is the base itself.
    n_components : int, default=None
        Output dimension. If smaller than n_features, `components_` projects onto the leading
        principal components of the transformed training data. ``None`` keeps all dimensions.
    solver : {"auto", "dense", "resolvent"}, default="auto"
        Solver of the sum of local metrics of the slices, see :class:`GenerativeMetric`.
    class_tol : float, default=1e-2
        At each sample the resolvent solver ignores slices whose influence is at most this fraction
        of the largest. Smaller values are more accurate and slower; 0 ignores none.
    max_samples : int, float or "auto", default=None
        Number or fraction of the samples over which the local metrics of the slices are averaged,
        drawn at random. Larger values are more accurate and slower; ``None`` uses all.
    preprocessor : array-like or callable, default=None
        Maps indices to samples, as in metric-learn.
    n_jobs : int, default=None
        Number of threads. The result is bit-identical for every value.
    random_state : int, RandomState instance or None, default=None
        Seed of `max_samples` and of mixtures.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Factor L of the metric: distances are Euclidean after ``X @ components_.T``.
    metric_ : ndarray of shape (n_features, n_features)
        The matrix M = LᵀL.
    metric_stderr_ : float
        Relative standard error of the average of the local metrics.
    slice_edges_ : ndarray of shape (n_slices - 1,)
        Inner edges of the slices of the target.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    GenerativeMetric : The metric for class labels.
    KernelRegressor : Kernel regression in a learned metric.
    MLKR : Metric that minimises the error of kernel regression by gradient descent.

    References
    ----------
    Y.-K. Noh, M. Sugiyama, K.-E. Kim, F. C. Park and D. D. Lee, Generative local metric learning
    for kernel regression, NeurIPS 2017.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> from genmetric import GenerativeRegressionMetric
    >>> X, y = make_friedman1(600, random_state=0)
    >>> plain = KNeighborsRegressor().fit(X[:400], y[:400])
    >>> learned = make_pipeline(GenerativeRegressionMetric(), KNeighborsRegressor())
    >>> learned = learned.fit(X[:400], y[:400])
    >>> bool(learned.score(X[400:], y[400:]) > plain.score(X[400:], y[400:]) + 0.1)
    True
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "method": ["combined", "kernel", "slices"],
        "n_slices": [None, Interval(int, 2)],
        "density_model": [
            None,
            InstanceOf(GaussianModel, "a GaussianModel"),
            InstanceOf(GaussianMixtureModel, "a GaussianMixtureModel"),
        ],
        **{n: rules for n, rules in GenerativeMetric._parameter_rules.items() if n in SHARED},
    }

    #: Without a density, the metric of the slices is the whole metric.
    _density: Any
    _slices: Any

    def __init__(
        self,
        method: str = "combined",
        *,
        n_slices: int | None = None,
        shrinkage: Any = "auto",
        base: str = "pooled",
        normalization: str = "trace",
        density_model: Any = None,
        interpolation: float = 1.0,
        n_components: int | None = None,
        solver: str = "auto",
        class_tol: float = 1e-2,
        max_samples: Any = None,
        preprocessor: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.n_slices = n_slices
        self.shrinkage = shrinkage
        self.base = base
        self.normalization = normalization
        self.density_model = density_model
        self.interpolation = interpolation
        self.n_components = n_components
        self.solver = solver
        self.class_tol = class_tol
        self.max_samples = max_samples
        self.preprocessor = preprocessor
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> GenerativeRegressionMetric:
        """Learn the metric from samples and numeric targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples, or indices of samples if there is a `preprocessor`.
        y : array-like of shape (n_samples,)
            Numeric targets, not constant.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: weight 2 equals repeating the sample.

        Returns
        -------
        self : GenerativeRegressionMetric
            The fitted estimator.
        """
        check_parameters(self)
        x, targets = numeric_targets(self, form_points(X, self.preprocessor, self), y)
        check_n_components(self.n_components, x.shape[1])
        weight = None
        if sample_weight is not None:
            weight = check_weights(sample_weight, len(x))
            x, targets, weight = x[weight > 0], targets[weight > 0], weight[weight > 0]
        self._set_edges(targets, weight)
        codes = slice_targets(targets, self.slice_edges_)
        if self.method == "slices":
            return self._take_slices(self._slice_metric().fit(x, codes, weight))
        with one_blas_thread():
            # Coordinates in which the base is the identity.
            scaled, n_slices = Coordinates.of(x), len(self.slice_edges_) + 1
            stats = class_statistics(x, codes, n_slices, coordinates=scaled, sample_weight=weight)
            if self.base == "pooled":
                scaled, stats = pooled_whitening(stats, scaled)
            self._coordinates, covariance = scaled, stats.total_covariance
            z = scaled.apply(x)
            density = self._joint_density(z, targets, weight, covariance)
            metric, stderr = average_regression_metrics(*density.gradients(z), weight)
            self._density, self._slices = density, None
            if self.method == "combined":
                inside = {"base": "identity", "interpolation": 1.0, "n_components": None}
                self._slices = self._slice_metric().set_params(**inside).fit(z, codes, weight)
                sliced = _unit_trace(self._slices.metric_)
                error = stderr * np.linalg.norm(metric)
                slice_error = self._slices.metric_stderr_ * np.linalg.norm(sliced)
                metric = (metric + sliced) / 2
                stderr = float(np.hypot(error, slice_error) / 2 / np.linalg.norm(metric))
            metric = interpolate(metric, self.interpolation)
            factor = symmetric_root(metric)
            if self.n_components is not None:
                factor = rank_limited_factor(metric, self.n_components, covariance)
        self.components_ = self._coordinates.restore_factor(factor)
        self.metric_ = self.components_.T @ self.components_
        self.metric_stderr_ = stderr
        return self

    @available_if(_streams)  # type: ignore[untyped-decorator]
    def fit_batches(
        self, make_batches: Callable[[], Iterable[tuple[Any, Any]]]
    ) -> GenerativeRegressionMetric:
        """Fit the metric of the slices on samples that do not fit in memory.

        The first pass keeps the targets, for the edges of the slices; the others are those of
        :meth:`GenerativeMetric.fit_batches` with the slices as classes.

        Parameters
        ----------
        make_batches : callable
            Returns a new iterator of pairs (X, y) over the same samples each time it is called.

        Returns
        -------
        self : GenerativeRegressionMetric
            The fitted estimator.
        """
        check_parameters(self)
        check_make_batches(make_batches)
        targets = [np.empty(0)]
        for number, (_, y) in enumerate(make_batches()):
            try:
                targets.append(batch_targets(self, y))
            except ValueError as error:
                error.add_note(f"in batch {number} of make_batches()")
                raise
        if not any(map(len, targets)):
            raise ValueError(
                "make_batches() returned no samples. It must return a new iterator each time."
            )
        self._set_edges(np.concatenate(targets))

        def sliced() -> Iterator[tuple[Any, IntArray]]:
            for X, y in make_batches():
                yield X, slice_targets(batch_targets(self, y), self.slice_edges_)

        slices = self._slice_metric().set_params(preprocessor=self.preprocessor)
        return self._take_slices(slices.fit_batches(sliced))

    @available_if(_streams)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> GenerativeRegressionMetric:
        """Update the metric of the slices with more samples.

        The edges of the slices are those of the first batch. See
        :meth:`GenerativeMetric.partial_fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Numeric targets.

        Returns
        -------
        self : GenerativeRegressionMetric
            The estimator, fitted on all samples seen so far.
        """
        check_parameters(self)
        slices: Any = getattr(self, "_slices", None)
        if not hasattr(slices, "_stream"):
            _, targets = numeric_targets(self, form_points(X, self.preprocessor, self), y)
            self._set_edges(targets)
            slices = self._slice_metric().set_params(preprocessor=self.preprocessor)
        else:
            targets = batch_targets(self, y)
        codes = slice_targets(targets, self.slice_edges_)
        slices.partial_fit(X, codes, classes=np.arange(len(self.slice_edges_) + 1))
        return self._take_slices(slices)

    def local_metrics(self, X: ArrayLike) -> FloatArray:
        """Return the local metric at each sample, interpolated as in `fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            Local metrics in input space. With ``method="combined"`` the mean of both kinds, each
            of trace `n_features` in the coordinates of the base.
        """
        x, density, slices = fitted_samples(self, X), self._density, self._slices
        if density is None:
            return np.asarray(slices.local_metrics(x))

        def of_chunk(rows: slice) -> FloatArray:
            z = self._coordinates.apply(x[rows])
            metrics = regression_local_metrics(*density.gradients(z))
            if slices is not None:
                metrics = (metrics + _unit_trace(slices.local_metrics(z))) / 2
            return self._coordinates.restore_metrics(interpolate(metrics, self.interpolation))

        chunks = row_chunks(len(x), 64 * x.shape[1] ** 2)
        return np.concatenate(list(map_chunks(of_chunk, chunks, self.n_jobs)))

    def _slice_metric(self) -> GenerativeMetric:
        """Return the metric of the slices as classes, not fitted."""
        parameters = {name: getattr(self, name) for name in SHARED}
        return GenerativeMetric(class_model=self.density_model, **parameters)

    def _set_edges(self, targets: FloatArray, weight: FloatArray | None = None) -> None:
        """Set the edges of the slices."""
        if targets.min() == targets.max():
            raise ValueError(
                f"{type(self).__name__} expects targets that vary; all values of y are "
                f"{targets[0]:g}. Check the target column."
            )
        n_samples = len(targets) if weight is None else int(weight.sum())
        n_slices = self.n_slices or default_n_slices(n_samples)
        self.slice_edges_ = quantile_edges(targets, n_slices, weight)

    def _take_slices(self, slices: GenerativeMetric) -> GenerativeRegressionMetric:
        """Take the metric of the slices as it is."""
        self._slices, self._density = slices, None
        self.components_, self.metric_ = slices.components_, slices.metric_
        self.metric_stderr_ = slices.metric_stderr_
        self.n_features_in_ = slices.n_features_in_
        if hasattr(slices, "feature_names_in_"):
            self.feature_names_in_ = slices.feature_names_in_
        return self

    def _joint_density(
        self, z: FloatArray, targets: FloatArray, weight: FloatArray | None, covariance: FloatArray
    ) -> JointDensity:
        """Fit the density of samples and targets, which get the mean variance of the features."""
        t = targets - np.average(targets, weights=weight)
        t /= np.abs(t).max()
        t *= np.sqrt(np.trace(covariance) / len(covariance) / np.average(t**2, weights=weight))
        model = clone(self.density_model or GaussianModel(shrinkage=self.shrinkage))
        if isinstance(model, GaussianMixtureModel) and model.random_state is None:
            model.set_params(random_state=self.random_state)
        model.fit(np.column_stack([z, t]), sample_weight=weight)
        if isinstance(model, GaussianMixtureModel):
            return JointDensity.from_moments(
                model.means_, model.covariances_, model.mixing_weights_
            )
        return JointDensity.from_moments(model.mean_[None], model.covariance_[None])


def _unit_trace(metrics: FloatArray) -> FloatArray:
    """Scale metrics to the trace of the identity."""
    traces = np.trace(metrics, axis1=-2, axis2=-1)
    return np.asarray(metrics * (metrics.shape[-1] / traces)[..., None, None])


class GenerativeRegressionMetricCV(LinearMapMixin, MahalanobisMixin, BaseEstimator):
    """A :class:`GenerativeRegressionMetric` selected by the error of nearest neighbours.

    The candidates are all combinations of the grids; ``interpolation=0`` adds Euclidean distance
    and the pooled base. Each is fitted on the training part of every split, and the held-out
    targets are predicted by the mean of their k nearest neighbours there. Among the candidates
    whose score is within one standard error of the best, the one closest to the defaults of
    :class:`GenerativeRegressionMetric` is fitted on all samples. (Unlike the candidates of
    :class:`GenerativeMetricCV` they are not averaged: that has a larger error.)

    Parameters
    ----------
    metric : GenerativeRegressionMetric, default=None
        Metric whose other parameters all candidates share; ``None`` is
        ``GenerativeRegressionMetric()``.
    methods : str or list of str, default=("combined", "kernel", "slices")
        Local metrics to select from, see `method` of :class:`GenerativeRegressionMetric`.
    n_slices : None, int or list, default=(None, 3)
        Numbers of slices; ``None`` is the default number. They have no effect for
        ``method="kernel"``.
    bases : str or list of str, default=("identity", "pooled")
        Base metrics.
    interpolations : float or list of float, default=(0.0, 0.5, 0.8, 1.0)
        Weights of the learned metric; 0 is the base itself.
    n_neighbors : int or list of int, default=(1, 3, 5, 7, 9, 11, 15, 21)
        Numbers of neighbours k; those that exceed the number of samples are ignored.
    cv : int, scikit-learn splitter, iterable or None, default=5
        Number of folds, at least 2, or splits. More folds take longer and fit the candidates on
        more samples. ``None`` is 5.
    scoring : str or callable, default=None
        A scikit-learn scorer, called with a fitted
        :class:`~sklearn.neighbors.KNeighborsRegressor` for each k; ``None`` is R².
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, and of `metric` if it has no `random_state`.

    Attributes
    ----------
    n_neighbors_ : int
        Selected number of neighbours, for the regressor that follows.
    best_params_ : dict
        Selected `method`, `n_slices`, `base` and `interpolation`, and `n_neighbors_`.
    best_score_ : float
        Mean score of the selected candidate with the selected k; optimistic, as the best of many.
    best_index_ : int
        Index of the selected candidate in the arrays of `cv_results_`.
    best_estimator_ : GenerativeRegressionMetric
        The selected metric, fitted on all samples.
    cv_results_ : dict of ndarrays
        One entry per candidate: `params`, `param_method`, ..., `split0_test_score`, ... (mean over
        k), `mean_test_score`, `std_test_score`, `rank_test_score` and `within_one_standard_error`
        (whether the candidate counts as equally good as the best).
    components_, metric_, metric_stderr_, slice_edges_
        Attributes of `best_estimator_`.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    GenerativeRegressionMetric : The metric with fixed parameters.
    GenerativeMetricCV : An average of candidates, for class labels.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from genmetric import GenerativeRegressionMetricCV
    >>> X, y = make_friedman1(300, random_state=0)
    >>> metric = GenerativeRegressionMetricCV(random_state=0).fit(X, y)
    >>> bool(metric.best_params_["interpolation"] > 0)
    True
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "metric": [None, InstanceOf(GenerativeRegressionMetric, "a GenerativeRegressionMetric")],
        **SEARCH_RULES,
    }

    def __init__(
        self,
        metric: GenerativeRegressionMetric | None = None,
        *,
        methods: Any = ("combined", "kernel", "slices"),
        n_slices: Any = (None, 3),
        bases: Any = ("identity", "pooled"),
        interpolations: Any = (0.0, 0.5, 0.8, 1.0),
        n_neighbors: Any = N_NEIGHBORS,
        cv: Any = 5,
        scoring: Any = None,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.methods = methods
        self.n_slices = n_slices
        self.bases = bases
        self.interpolations = interpolations
        self.n_neighbors = n_neighbors
        self.cv = cv
        self.scoring = scoring
        self.random_state = random_state

    @property
    def preprocessor(self) -> Any:
        """Preprocessor of `metric`."""
        return None if self.metric is None else self.metric.preprocessor

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> GenerativeRegressionMetricCV:
        """Select the parameters, and fit the selected metric on all samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Numeric targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: weight 2 equals repeating the sample. Weights that are not integers
            count in the metrics and in the scores; in a mean of neighbours each counts once.

        Returns
        -------
        self : GenerativeRegressionMetricCV
            The fitted estimator.
        """
        check_parameters(self)
        rng = check_random_state(self.random_state)
        template = seeded_copy(self.metric or GenerativeRegressionMetric(), self.random_state, rng)
        x, targets = numeric_targets(self, form_points(X, self.preprocessor, self), y)
        weight = np.ones(len(x)) if sample_weight is None else check_weights(sample_weight, len(x))
        grid, cv, kept = self._grid(), self.cv, weight > 0
        if cv is None or isinstance(cv, int | np.integer):
            cv = KFold(min(int(cv or 5), kept.sum()), shuffle=True, random_state=rng)
        splits: list[Any] = given_splits(cv, x, targets, weight)
        x, targets, weight = x[kept], targets[kept], weight[kept]
        if (weight == np.floor(weight)).all():
            # Whole weights are repetitions, among the neighbours too.
            counts, weight = weight.astype(np.intp), np.ones(len(x))
            splits = [[np.repeat(part, counts[part]) for part in pair] for pair in splits]
        k = neighbor_numbers(self.n_neighbors, min(len(train) for train, _ in splits))
        scores = np.empty((len(grid), len(splits), len(k)))
        paired: list[list[FloatArray]] = [[] for _ in grid]
        with one_blas_thread(), warnings.catch_warnings():
            # The final fit emits the warnings, once.
            warnings.simplefilter("ignore", UserWarning)
            for s, (train, test) in enumerate(splits):
                factors = candidate_factors(
                    *(template, grid, x[train], targets[train], weight[train]),
                    base_options={"method": "kernel"},
                )
                for c, factor in enumerate(factors):
                    z = x @ factor.T
                    scores[c, s], each = self._score(z, targets, weight, (train, test), k)
                    paired[c].append(each)
        self.cv_results_ = results_table(grid, scores.mean(axis=2))
        self._select(grid, np.array([np.concatenate(parts) for parts in paired]))
        by_number = scores[self.best_index_].mean(axis=0)
        self.best_score_ = float(by_number.max())
        self.n_neighbors_ = int(k[by_number.argmax()])
        best = grid[self.best_index_]
        self.best_params_ = {**best, "n_neighbors": self.n_neighbors_}
        self.best_estimator_ = clone(template).set_params(**best).fit(X, y, sample_weight)
        self.components_ = self.best_estimator_.components_
        self.metric_ = self.best_estimator_.metric_
        self.metric_stderr_ = self.best_estimator_.metric_stderr_
        self.slice_edges_ = self.best_estimator_.slice_edges_
        return self

    def _grid(self) -> list[dict[str, Any]]:
        """Return the parameters of the candidates; those with one average are neighbours."""
        rules = GenerativeRegressionMetric._parameter_rules
        methods = grid_values(self.methods, "methods", rules["method"])
        slices = grid_values(self.n_slices, "n_slices", rules["n_slices"])
        bases = grid_values(self.bases, "bases", rules["base"])
        amounts = grid_values(self.interpolations, "interpolations", rules["interpolation"])
        learned = [float(value) for value in amounts if value > 0]
        found: list[tuple[Any, ...]] = []
        if 0 in amounts:
            found += list(product(methods[:1], slices[:1], bases, [0.0]))
        for base, method in product(bases, methods):
            numbers = slices[:1] if method == "kernel" else slices
            found += list(product([method], numbers, [base], learned))
        names = ("method", "n_slices", "base", "interpolation")
        return [dict(zip(names, values, strict=True)) for values in found]

    def _score(
        self, z: FloatArray, targets: FloatArray, weight: FloatArray, split: Any, k: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the score for each k, and scores of the test samples to compare candidates by."""
        train, test = split
        if self.scoring is not None:
            known, asked = (z[train], targets[train]), (z[test], targets[test])
            values = scorer_values(KNeighborsRegressor(), self.scoring, k, known, asked)
            return values, values.mean(keepdims=True)
        found = nearest_neighbors(z[train], int(k.max()), queries=z[test]).indices
        errors = average_errors(targets[train][found], targets[test], k)
        center = np.average(targets[test], weights=weight[test])
        variance = np.average((targets[test] - center) ** 2, weights=weight[test]) or 1.0
        score = 1 - np.average(errors, axis=0, weights=weight[test]) / variance
        return score, -errors.mean(axis=1) * weight[test] / variance

    def _select(self, grid: list[dict[str, Any]], paired: FloatArray) -> None:
        """Select the simplest candidate within one standard error of the best.

        The standard error is that of the mean difference on the same samples, which varies less
        than the scores themselves.
        """
        means = self.cv_results_["mean_test_score"]
        n_scores = paired.shape[1]
        difference = paired[means.argmax()] - paired
        error = difference.std(axis=1, ddof=1) / np.sqrt(n_scores) if n_scores > 1 else 0.0
        close = means >= means.max() - error - 1e-12
        self.cv_results_["within_one_standard_error"] = close

        def departure(c: int) -> tuple[float, ...]:
            """Return how far a candidate is from the defaults, which are best on average."""
            p = grid[c]
            choices = (p["interpolation"] == 0, p["method"] != "combined", p["base"] != "pooled")
            return (*choices, p["n_slices"] is not None, 1 - p["interpolation"], -means[c])

        self.best_index_ = min(np.flatnonzero(close).tolist(), key=departure)
