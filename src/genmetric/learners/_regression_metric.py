"""GenerativeRegressionMetric: a closed-form metric for numeric targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from genmetric._chunks import map_chunks, one_blas_thread, row_chunks
from genmetric._parameters import InstanceOf, Interval, ParameterRules, check_parameters
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import (
    batch_targets,
    check_n_components,
    check_weights,
    form_points,
    numeric_targets,
)
from genmetric.density import GaussianMixtureModel, GaussianModel, JointDensity
from genmetric.density._scaling import Scaling
from genmetric.geometry import interpolate, regression_local_metrics
from genmetric.learners._generative import GenerativeMetric
from genmetric.learners._mahalanobis import LinearMapMixin, MahalanobisMixin, fitted_samples
from genmetric.learners._regression import (
    RegressionSpecification,
    learn_regression_metric,
    regression_factor,
    regression_training,
)
from genmetric.learners._reservoir import Reservoir
from genmetric.learners._slices import default_n_slices, quantile_edges, slice_targets
from genmetric.learners._specification import METRIC_RULES
from genmetric.learners._streaming import naming_batch

#: Targets that the first pass over batches keeps for the edges of the slices.
EDGE_SAMPLES = 100_000


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

    - ``"slices"``: the target is cut into quantile slices, and the local metric is that of
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
    verbose : int, default=0
        Whether to log progress.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Factor L of the metric, so that distances are Euclidean after ``X @ components_.T``.
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
        **{
            name: METRIC_RULES[name]
            for name in (
                *("shrinkage", "base", "normalization", "interpolation", "n_components"),
                *("solver", "class_tol", "max_samples", "n_jobs", "random_state", "verbose"),
            )
        },
    }

    #: Coordinates of `_slices` and `_density`; None if `_slices` has its own, after batches.
    _frame: Scaling | None
    _density: JointDensity | None
    _slices: GenerativeMetric | None
    #: Metric of the slices that `partial_fit` updates; None after `fit`.
    _stream_slices: GenerativeMetric | None

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
        verbose: int = 0,
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
        self.verbose = verbose

    @restore_on_error
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> GenerativeRegressionMetric:
        """Learn the metric from samples and numeric targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples, or indices of samples if there is a `preprocessor`.
        y : array-like of shape (n_samples,)
            Numeric targets with at least three distinct values.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: weight 2 equals repeating the sample.

        Returns
        -------
        self : GenerativeRegressionMetric
            The fitted estimator.
        """
        check_parameters(self)
        x, targets = numeric_targets(self, form_points(X, self.preprocessor, self), y)
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))
        if weight is not None:
            x, targets, weight = x[weight > 0], targets[weight > 0], weight[weight > 0]
        check_distinct(targets, type(self).__name__)
        spec = self._specification(x.shape[1])
        with one_blas_thread():
            data = regression_training(spec, x, targets, weight)
            parts = learn_regression_metric(spec, data)
            components = regression_factor(spec, data, parts.metric)
        self._frame, self._slices, self._density = data.frame, parts.slices, parts.density
        self._stream_slices = None
        self.slice_edges_ = data.edges
        self.components_ = components
        self.metric_ = components.T @ components
        self.metric_stderr_ = parts.stderr
        return self

    @available_if(_streams)  # type: ignore[untyped-decorator]
    @restore_on_error
    def fit_batches(
        self, make_batches: Callable[[], Iterable[tuple[Any, Any]]]
    ) -> GenerativeRegressionMetric:
        """Fit the metric of the slices on samples that do not fit in memory.

        The first pass takes all targets, or a random sample of 100000, for the edges of the slices;
        the others are those of :meth:`GenerativeMetric.fit_batches` with the slices as classes.

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
        if not callable(make_batches):
            raise TypeError(
                "make_batches must be a function that returns a new iterator of (X, y) each time; "
                f"got {type(make_batches).__name__}. The batches are read more than once."
            )
        reservoir = Reservoir(EDGE_SAMPLES, np.random.RandomState(0))
        for number, (_, y) in enumerate(make_batches()):
            with naming_batch(number):
                reservoir.add(batch_targets(self, y))
        n_samples, kept = reservoir.n_seen, reservoir.rows
        if kept is None or not n_samples:
            raise ValueError("make_batches() returned no samples.")
        check_distinct(kept, type(self).__name__)
        edges = quantile_edges(kept, self.n_slices or default_n_slices(n_samples))

        def sliced() -> Iterator[tuple[Any, AnyArray]]:
            for X, y in make_batches():
                yield X, slice_targets(batch_targets(self, y), edges)

        self._take_slices(self._slices_estimator().fit_batches(sliced), edges)
        self._stream_slices = None
        return self

    @available_if(_streams)  # type: ignore[untyped-decorator]
    @restore_on_error
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
        stream = getattr(self, "_stream_slices", None)
        if stream is None:
            _, targets = numeric_targets(self, form_points(X, self.preprocessor, self), y)
            check_distinct(targets, type(self).__name__)
            edges = quantile_edges(targets, self.n_slices or default_n_slices(len(targets)))
            stream = self._slices_estimator()
        else:
            targets, edges = batch_targets(self, y), self.slice_edges_
        codes = slice_targets(targets, edges)
        stream.partial_fit(X, codes, classes=np.arange(len(edges) + 1))
        self._take_slices(stream, edges)
        self._stream_slices = stream
        return self

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
        check_is_fitted(self, "components_")
        if self._frame is None:
            assert self._slices is not None
            return self._slices.local_metrics(X)
        frame = self._frame
        x = fitted_samples(self, X)
        n_features = x.shape[1]

        def of_chunk(rows: slice) -> FloatArray:
            z = frame.apply(x[rows])
            stacks = []
            if self._slices is not None:
                found = self._slices.local_metrics(z)
                traces = np.trace(found, axis1=1, axis2=2)
                stacks.append(found * (n_features / traces)[:, None, None])
            if self._density is not None:
                stacks.append(regression_local_metrics(*self._density.gradients(z)))
            mixed = interpolate(np.mean(stacks, axis=0), self.interpolation)
            return frame.restore_metrics(mixed)

        chunks = row_chunks(len(x), 64 * n_features**2)
        return np.concatenate(list(map_chunks(of_chunk, chunks, self.n_jobs)))

    def _specification(self, n_features: int) -> RegressionSpecification:
        """Build the specification from valid parameters."""
        return RegressionSpecification(
            self.method,  # type: ignore[arg-type]
            self.n_slices,
            self.density_model,
            self._slices_estimator().set_params(
                base="identity", interpolation=1.0, n_components=None, preprocessor=None
            ),
            self.base,  # type: ignore[arg-type]
            float(self.interpolation),
            check_n_components(self.n_components, n_features),
            self.shrinkage,
        )

    def _slices_estimator(self) -> GenerativeMetric:
        """Return the metric of the slices as classes, not fitted."""
        shared = (
            *("shrinkage", "base", "normalization", "interpolation", "n_components", "solver"),
            *("class_tol", "max_samples", "preprocessor", "n_jobs", "random_state", "verbose"),
        )
        parameters = {name: getattr(self, name) for name in shared}
        return GenerativeMetric(class_model=self.density_model, **parameters)

    def _take_slices(self, slices: GenerativeMetric, edges: FloatArray) -> None:
        """Take the fitted attributes of the metric of the slices."""
        self._frame, self._density, self._slices = None, None, slices
        self.slice_edges_ = edges
        self.components_, self.metric_ = slices.components_, slices.metric_
        self.metric_stderr_ = slices.metric_stderr_
        self.n_features_in_ = slices.n_features_in_
        if hasattr(slices, "feature_names_in_"):
            self.feature_names_in_ = slices.feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def check_distinct(targets: FloatArray, name: str) -> None:
    """Raise a ValueError if targets are constant or have two distinct values.

    Parameters
    ----------
    targets : ndarray of shape (n_samples,)
        Numeric targets.
    name : str
        Name of the estimator in the error.
    """
    low, high = targets.min(), targets.max()
    if low == high:
        raise ValueError(
            f"{name} expects targets that vary; all values of y are {low:g}. Check the target "
            "column."
        )
    if ((targets == low) | (targets == high)).all():
        raise ValueError(
            f"{name} expects a numeric target with at least 3 distinct values; y has only {low:g} "
            f"and {high:g}. Use genmetric.GenerativeMetric with these two values as classes."
        )
