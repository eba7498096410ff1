"""GenerativeMetric: averages of generative local metrics."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from genmetric._parallel import map_chunks, one_blas_thread, row_chunks
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import ArrayLike as ArrayLikeRule
from genmetric._validation import (
    InstanceOf,
    Interval,
    ParameterRules,
    check_make_batches,
    check_n_components,
    check_parameters,
    check_priors,
    check_weights,
    encode_classes,
    labelled_samples,
    warn_unscaled,
    warn_user,
)
from genmetric.density import ClassModels, ClassStatistics, Coordinates, fit_gaussians
from genmetric.density.gaussian import SHRINKAGE_RULES, Gaussians, Shrinkage, pooled_whitening
from genmetric.density.models import GaussianModel, fit_models, gaussian_options
from genmetric.geometry import MetricSum, interpolate, phi, rank_limited_factor, symmetric_root
from genmetric.geometry.local import Normalization, dense_bytes_per_row, sample_metrics
from genmetric.geometry.risk import density_bias
from genmetric.geometry.sums import kept_metrics_sum, select_solver, sum_local_metrics
from genmetric.learners.mahalanobis import LinearMapMixin, MahalanobisMixin, fitted_samples
from genmetric.learners.streaming import (
    ClassStream,
    Reservoir,
    batch_fourth_moments,
    checked_batches,
    draw_rows,
    stream_of_batches,
    sum_of_batches,
)
from genmetric.learners.weights import (
    DensityWeights,
    GaussianMixtureWeights,
    KernelDensityWeights,
    average_by_density,
    held_out_samples,
    hold_out,
    sum_of_draws,
    weighted_stderr,
)

#: From nothing to batches (X, y) of the same samples, each time it is called.
MakeBatches: TypeAlias = Callable[[], Iterable[tuple[Any, Any]]]

#: A sum that is estimated to take more seconds than this is replaced by one over a random subset.
MAX_SECONDS = 40.0

#: Number of samples that `partial_fit` averages over, unless `max_samples` is an integer.
RESERVOIR_SIZE = 4096

#: The values of `combination` that are names.
COMBINATIONS = {"uniform": None, "kde": KernelDensityWeights(), "gmm": GaussianMixtureWeights()}


class GenerativeMetric(LinearMapMixin, MahalanobisMixin, BaseEstimator):
    r"""Mahalanobis metric for nearest neighbours, learned from class labels in closed form.

    At each training sample :math:`x_i` the class densities determine the local metric :math:`M_i`
    that removes the first-order bias of the nearest-neighbour error. The learned metric is the
    average of the local metrics,

    .. math:: M = \frac1N \sum_i M_i = L^T L,

    and `transform` maps samples to z = Lx, where Euclidean distances are distances under M.

    Parameters
    ----------
    combination : {"uniform", "kde", "gmm"}, object or array-like, default="uniform"
        Weights of the local metrics in the average: equal, proportional to the density of the
        samples, or an array of shape (n_samples,). The density is estimated after the learned map,
        and metric and density are updated alternately: ``"kde"`` by Gaussian kernels, ``"gmm"`` by
        one Gaussian per class. Pass a :class:`KernelDensityWeights` or a
        :class:`GaussianMixtureWeights` to set their options.
    shrinkage : None, "auto" or float, default="auto"
        Shrinkage s of each class covariance S towards the base, (1-s)·S + s·(trace S/D)·I. Larger
        values make the classes rounder and the metric closer to the base. ``None`` uses maximum
        likelihood, as in the paper; ``"auto"`` uses Ledoit-Wolf shrinkage, which is stronger with
        fewer samples. With ``base="pooled"`` classes with 2 to 9 samples share one
        shrinkage if there are many of them. Eigenvalues below 1e-8 of the mean pooled variance are
        raised to that level, with a warning if there are many of them.
    base : {"identity", "pooled"}, default="identity"
        Metric towards which `shrinkage` and `interpolation` regularise. ``"identity"`` is Euclidean
        distance in the units of the data, as in the paper: scale the features first. ``"pooled"``
        is Mahalanobis distance under the pooled within-class covariance: the metric is learned on
        whitened samples and mapped back, and does not depend on the scales of the features.
    normalization : {"determinant", "trace"}, default="trace"
        Scale of the local metrics before they are averaged: determinant one, as in the paper, or
        equal trace. With many or small classes a few local metrics of determinant one dominate the
        average; with equal trace they do not, and the error of nearest neighbours is lower
        on average over many datasets.
    class_model : estimator, default=None
        Model of a class density; a clone is fitted to each class: :class:`GaussianModel` (the
        default, with `shrinkage`; its own `covariance_estimator` replaces the shrinkage),
        :class:`GaussianMixtureModel`, or any object with ``fit``, ``log_density``, ``gradient`` and
        ``curvature``. `shrinkage` is ignored if a model is given.
    interpolation : float, default=1.0
        Weight lambda of each local metric against the base, (1-lambda)·I + lambda·M_i. Smaller
        values regularise towards the base metric; 0 is the base metric itself.
    n_components : int, default=None
        Output dimension. If smaller than `n_features`, L projects onto the leading principal
        components of the transformed training data. ``None`` keeps all dimensions.
    solver : {"auto", "dense", "resolvent"}, default="auto"
        ``"dense"`` computes one eigendecomposition per sample, O(D³); ``"resolvent"`` adds up local
        metrics of Gaussian class models in O(D²) per sample; ``"auto"`` selects the faster one by
        the numbers of samples, features and classes. For density weights, local metrics that fit
        into 512 MB are computed once and kept, unless the solver is ``"resolvent"``.
    class_tol : float, default=1e-2
        Accuracy of the resolvent solver with more than two classes. At each sample it ignores
        classes whose influence on the local metric is at most this fraction of the largest.
        Smaller values are more accurate and slower: 1e-2 changes the metric by 0.1 to 0.5 %, 0
        ignores no class, and 1 keeps two classes everywhere. With two classes it has no effect.
    max_samples : int, float or "auto", default=None
        Number or fraction of samples to average over, drawn at random. Larger values are more
        accurate and slower; see `metric_stderr_`. ``"auto"`` draws samples until `metric_stderr_`
        is 0.01. ``None`` uses all, unless that is estimated to take more than 40 seconds: then it
        is ``"auto"``, with a warning. The class models always use all samples.
    priors : array-like of shape (n_classes,), default=None
        Class priors, in the order of `classes_`. A class with a larger prior has more influence on
        the local metrics. ``None`` is equal priors, as in the paper. With two classes they have no
        effect.
    preprocessor : array-like or callable, default=None
        Maps indices to samples, which can then be passed as indices, as in metric-learn.
    n_jobs : int, default=None
        Number of threads; ``None`` is one, -1 uses all cores. The result is the same, bit for bit,
        for every number.
    random_state : int, RandomState instance or None, default=None
        Seed of the subset of `max_samples`, of the samples held out by "gmm", and of the samples
        that carry kernels in "kde" if there are more than ten thousand.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The factor L. With ``base="identity"`` and all dimensions it is the symmetric root of M.
    metric_ : ndarray of shape (n_features, n_features)
        The metric M = LᵀL.
    metric_stderr_ : float
        Standard error of the average over `max_samples` samples as an estimate of the average over
        all, relative to its Frobenius norm (in whitened coordinates with ``base="pooled"``). Zero
        if all samples were used. Unreliable with fewer than 5 features, whose local metrics are
        heavy-tailed.
    classes_ : ndarray of shape (n_classes,)
        Class names.
    means_ : ndarray of shape (n_classes, n_features)
        Class means.
    covariances_ : ndarray of shape (n_classes, n_features, n_features)
        Covariances of the class Gaussians, after shrinkage; computed when they are read.
    weights_ : ndarray of shape (n_samples,)
        Weight of each training sample's local metric, with sum one; only if `combination` is not
        "uniform". Zero for samples that were held out or not drawn by `max_samples`.
    n_iter_ : int
        Number of iterations; one unless `combination` weights by density.
    metric_changes_ : ndarray of shape (n_iter_,)
        Change of M in each iteration, relative to its Frobenius norm; only for density weights.
    bandwidths_ : ndarray of shape (n_iter_,)
        Kernel width sigma of each iteration, in units of the learned distance; only for "kde".
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during `fit`. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    GenerativeMetricCV : Selects the parameters by cross-validation.
    sklearn.neighbors.NeighborhoodComponentsAnalysis : Learns L by optimisation.

    Notes
    -----
    The local metric is the closed-form solution, equation (8) of the paper, of the problem in
    equation (7). The uniform average is equation (11); "kde" and "gmm" are Algorithm 1.

    References
    ----------
    Y. Shi, Y.-K. Noh, F. Sha and D. D. Lee, Learning Discriminative Metrics via Generative Models
    and Kernel Learning, arXiv:1109.3940v1 (2011).

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_wine(return_X_y=True)
    >>> euclidean = cross_val_score(KNeighborsClassifier(), X, y).mean()
    >>> learned = make_pipeline(GenerativeMetric(base="pooled"), KNeighborsClassifier())
    >>> bool(cross_val_score(learned, X, y).mean() > euclidean + 0.2)
    True

    Samples in dense regions get larger weights with ``combination="kde"``:

    >>> kde = GenerativeMetric("kde", base="pooled").fit(X, y)
    >>> kde.n_iter_ <= 20, bool(kde.metric_changes_[-1] < 1e-4), kde.weights_.shape
    (True, True, (178,))
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "combination": [
            *COMBINATIONS,
            InstanceOf(
                (KernelDensityWeights, GaussianMixtureWeights),
                "a KernelDensityWeights, a GaussianMixtureWeights",
            ),
            ArrayLikeRule("an array of one weight per sample"),
        ],
        "shrinkage": SHRINKAGE_RULES,
        "base": ["identity", "pooled"],
        "normalization": ["determinant", "trace"],
        "interpolation": [Interval(float, 0, 1)],
        "n_components": [None, Interval(int, 1)],
        "solver": ["auto", "dense", "resolvent"],
        "class_tol": [Interval(float, 0, 1)],
        "max_samples": [None, "auto", Interval(int, 1), Interval(float, 0, 1, closed="right")],
    }

    metric_stderr_: float
    _stream: ClassStream
    _reservoir: Reservoir

    def __init__(
        self,
        combination: Any = "uniform",
        *,
        shrinkage: Any = "auto",
        base: str = "identity",
        normalization: Normalization = "trace",
        class_model: Any = None,
        interpolation: float = 1.0,
        n_components: int | None = None,
        solver: str = "auto",
        class_tol: float = 1e-2,
        max_samples: Any = None,
        priors: ArrayLike | None = None,
        preprocessor: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.combination = combination
        self.shrinkage = shrinkage
        self.base = base
        self.normalization = normalization
        self.class_model = class_model
        self.interpolation = interpolation
        self.n_components = n_components
        self.solver = solver
        self.class_tol = class_tol
        self.max_samples = max_samples
        self.priors = priors
        self.preprocessor = preprocessor
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
    ) -> GenerativeMetric:
        """Fit the class models and average the local metrics of the samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples, or indices of samples if there is a `preprocessor`.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: weight 2 equals repeating the sample, and weight 0 leaving it out.
            Normalised weights (with sum one) are treated as a single sample by Ledoit-Wolf;
            rescale them to sum to n_samples.
        X_val : array-like of shape (n_validation, n_features), default=None
            Validation samples. With "gmm" they replace the samples held out by
            `validation_fraction`; with "kde" their likelihood selects the bandwidth.
        y_val : array-like of shape (n_validation,), default=None
            Class labels of the validation samples, for "gmm".

        Returns
        -------
        self : GenerativeMetric
            The fitted estimator.
        """
        combination = self._check_parameters()
        x, labels = labelled_samples(self, X, y)
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))
        n_passed, kept = len(x), np.arange(len(x)) if weight is None else np.flatnonzero(weight)
        held_out = None
        if X_val is not None or y_val is not None:
            held_out = held_out_samples(self, combination, X_val, y_val)
        elif isinstance(combination, GaussianMixtureWeights):
            kept, held_out = hold_out(self, combination, x, labels, kept)
        if len(kept) < n_passed:
            x, labels, weight = x[kept], labels[kept], None if weight is None else weight[kept]
        self.classes_, codes = encode_classes(labels, type(self).__name__)

        rng, weights = check_random_state(self.random_state), weight
        with one_blas_thread():
            coordinates, stats, gaussians, models = fit_models(
                *(x, codes, self.classes_, weight),
                class_model=self.class_model,
                shrinkage=self.shrinkage,
                base=self.base,
                allow_low_rank=self.solver == "auto",
                rng=rng,
                n_jobs=self.n_jobs,
            )
            self._set_models(coordinates, stats, gaussians, models)
            if isinstance(combination, DensityWeights):
                total, weights = self._average_by_density(combination, x, weight, held_out, rng)
            else:
                if combination is not None:
                    weights = check_weights(combination, n_passed, "combination")[kept]
                    weights = weights if weight is None else weights * weight
                    check_weights(weights, len(x), "The product of combination and sample_weight")
                n_draws, until_precise = self._n_draws(len(x)), self.max_samples in (None, "auto")
                if n_draws is None:
                    total = self._sum_metrics(x, weights)
                else:
                    sum_metrics = partial(self._sum_metrics, n_total=len(x))
                    total, self.metric_stderr_ = sum_of_draws(
                        sum_metrics, x, weights, n_draws, until_precise, rng
                    )
            self._set_metric(total.mean(), stats)
        if combination is not None and weights is not None:
            self.weights_ = np.zeros(n_passed)
            self.weights_[kept] = weights / weights.sum()
        return self

    def _set_models(
        self,
        coordinates: Coordinates,
        stats: ClassStatistics,
        gaussians: Gaussians,
        models: ClassModels,
    ) -> None:
        """Set the class models, and forget what an earlier fit found besides them."""
        for name in ("weights_", "metric_changes_", "bandwidths_", "_stream", "_reservoir"):
            self.__dict__.pop(name, None)
        check_n_components(self.n_components, gaussians.means.shape[1])
        self._log_priors = check_priors(self.priors, len(self.classes_))
        self._coordinates, self._gaussians, self._models = coordinates, gaussians, models
        self.means_ = coordinates.restore(gaussians.means)
        self.n_iter_, self.metric_stderr_ = 1, 0.0
        as_in_paper = self.normalization == "determinant" and self.interpolation == 1
        if self.base == "identity" and not (as_in_paper and self._shrinkage in (None, 0)):
            warn_unscaled(np.sqrt(np.diag(stats.total_covariance)))

    def _set_metric(self, mean: FloatArray, stats: ClassStatistics) -> None:
        """Set the metric and its factor from the mean of the local metrics."""
        metric = interpolate(mean, self.interpolation)
        if self.n_components is None:
            factor = symmetric_root(metric)
        else:
            factor = rank_limited_factor(metric, self.n_components, stats.total_covariance)
        self.components_ = self._coordinates.restore_factor(factor)
        self.metric_ = self.components_.T @ self.components_
        # The identity has no error: the mixture has the error of its part of the mean.
        share = self.interpolation * np.linalg.norm(mean) / np.linalg.norm(metric)
        self.metric_stderr_ = float(self.metric_stderr_ * share)

    @property
    def covariances_(self) -> FloatArray:
        """Covariances of the class Gaussians, shape (n_classes, n_features, n_features)."""
        return self._coordinates.restore_covariances(self._gaussians.covariances)

    @property
    def _shrinkage(self) -> Shrinkage:
        """Shrinkage of the class Gaussians."""
        return gaussian_options(self.shrinkage, self.class_model)["shrinkage"]  # type: ignore[no-any-return]

    # Averages of local metrics

    def _sum_metrics(
        self, x: AnyArray, weights: FloatArray | None = None, *, n_total: int | None = None
    ) -> MetricSum:
        """Sum the local metrics of samples, with the solver of a fit on `n_total` samples."""
        solver, _ = select_solver(self._models, n_total or len(x), x.shape[1], self.solver)
        return sum_local_metrics(
            *(self._models, x, self._coordinates),
            weights=weights,
            log_priors=self._log_priors,
            normalization=self.normalization,
            solver=solver,
            tol=self.class_tol,
            n_jobs=self.n_jobs,
        )

    def _n_draws(self, n_samples: int) -> int | None:
        """Return the number of samples to average over; None for all of them."""
        if self.max_samples == "auto":
            return n_samples
        if self.max_samples is not None:
            whole = isinstance(self.max_samples, int | np.integer)
            n_draws = self.max_samples if whole else max(1, round(self.max_samples * n_samples))
            return int(n_draws) if n_draws < n_samples else None
        _, seconds = select_solver(self._models, n_samples, self.means_.shape[1], self.solver)
        n_draws = max(1024, int(n_samples * MAX_SECONDS / max(seconds, MAX_SECONDS)))
        if n_draws >= n_samples:
            return None
        warn_user(
            f"Local metrics are averaged over a random subset of at most {n_draws} of {n_samples} "
            f"samples: all of them would take more than {MAX_SECONDS:.0f} seconds. metric_stderr_ "
            "has the standard error. Set max_samples=1.0 to use all samples, or another value to "
            "silence this warning."
        )
        return n_draws

    def _average_by_density(
        self,
        combination: DensityWeights,
        X: AnyArray,
        frequency: FloatArray | None,
        held_out: Any,
        rng: np.random.RandomState,
    ) -> tuple[MetricSum, FloatArray]:
        """Sum local metrics with weights by the density of the samples; return the weights too."""
        coordinates = self._coordinates
        rows = draw_rows(len(X), self._n_draws(len(X)), rng)
        density = combination._log_density(self, X, frequency, rows, held_out, rng)
        metric_sum: Callable[[FloatArray], MetricSum] = partial(self._sum_metrics, X[rows])
        if self.solver != "resolvent" and 8 * len(rows) * X.shape[1] ** 2 <= 2**29:
            models, scale = (self._models, self._log_priors), self.normalization
            metric_sum = kept_metrics_sum(*models, X[rows], coordinates, scale, self.n_jobs)
        total, drawn, self.metric_changes_, rates = average_by_density(
            *(density, metric_sum, X.shape[1]),
            None if frequency is None else frequency[rows],
            self.interpolation,
            combination.max_iter,
        )
        self.n_iter_ = len(self.metric_changes_)
        self.metric_stderr_ = weighted_stderr(metric_sum, drawn, len(X))
        if rates:
            self.bandwidths_ = coordinates.unit / np.sqrt(rates)
        weights = np.zeros(len(X))
        weights[rows] = drawn
        return total, weights

    # Samples in batches

    def fit_batches(self, make_batches: MakeBatches) -> GenerativeMetric:
        """Fit on samples that do not fit in memory, in passes over batches.

        The first pass fits the Gaussians and the last averages the local metrics. With
        ``base="pooled"`` and ``shrinkage="auto"`` there is one more pass between them. The result
        is that of `fit` on all samples, up to rounding.

        Parameters
        ----------
        make_batches : callable
            Returns a new iterator of pairs (X, y) over the same samples each time it is called.

        Returns
        -------
        self : GenerativeMetric
            The fitted estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from genmetric import GenerativeMetric
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> def batches():
        ...     for rows in np.array_split(np.arange(150), 4):
        ...         yield X[rows], y[rows]
        >>> streamed = GenerativeMetric().fit_batches(batches)
        >>> bool(np.allclose(streamed.metric_, GenerativeMetric().fit(X, y).metric_))
        True
        """
        self._check_parameters("fit_batches")
        check_make_batches(make_batches)
        batches = partial(checked_batches, self, make_batches)
        stream = stream_of_batches(batches(reset=True), self.n_jobs)

        def fourth(means: FloatArray, coordinates: Coordinates) -> FloatArray:
            advice = "make_batches() must return the same samples each time."
            classes, n_jobs = self.classes_, self.n_jobs
            parts = (
                batch_fourth_moments(x, labels, classes, means, coordinates, advice, n_jobs)
                for x, labels in batches()
            )
            return stream.add_fourth_moments(parts, advice)

        def total() -> MetricSum:
            sum_metrics = partial(self._sum_metrics, n_total=stream.n_samples)
            rng, n_draws = check_random_state(self.random_state), self._n_draws(stream.n_samples)
            return sum_of_batches(sum_metrics, batches(), stream.n_samples, n_draws, rng)

        return self._fit_stream(stream, fourth, total)

    def _fit_stream(
        self,
        stream: ClassStream,
        fourth: Callable[[FloatArray, Coordinates], FloatArray],
        total: Callable[[], MetricSum],
    ) -> GenerativeMetric:
        """Fit the Gaussians of a stream, and set the metric from a sum over its samples.

        `fourth` returns the fourth moments about given class means in whitened coordinates, and
        `total` the sum of the local metrics under the Gaussians.
        """
        seen, whitened = stream.seen(), self.base == "pooled"
        self.classes_, _ = encode_classes(seen.classes, type(self).__name__)
        coordinates, stats = seen.coordinates, seen.stats
        with one_blas_thread():
            if whitened:
                coordinates, stats = pooled_whitening(stats, coordinates)
            if whitened and self._shrinkage == "auto":
                stats = replace(stats, fourth=fourth(stats.mean, coordinates))
            gaussians = fit_gaussians(
                stats, shrinkage=self._shrinkage, classes=self.classes_, whitened=whitened
            )
            self._set_models(coordinates, stats, gaussians, gaussians)
            average = total()
            self.metric_stderr_ = average.relative_stderr(stream.n_samples)
            self._set_metric(average.mean(), stats)
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None
    ) -> GenerativeMetric:
        """Update the metric with more samples.

        The Gaussians are those of all samples seen so far, exactly. The local metrics are averaged
        over a uniform random sample of them, of `max_samples` samples if that is an integer and
        4096 otherwise; `metric_stderr_` is the standard error of that average. (With
        ``base="pooled"`` and ``shrinkage="auto"``, the amount of shrinkage is estimated from the
        same random sample.) Every call takes the time of a fit on that random sample, so large
        batches are faster than small ones. The first call, and a call after `fit`, discards
        earlier samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            All class names; used in the first call only. Without it, classes are added as they
            occur.

        Returns
        -------
        self : GenerativeMetric
            The estimator, fitted on all samples seen so far. The metric is Euclidean until samples
            of two classes have been seen.
        """
        self._check_parameters("partial_fit")
        stream: ClassStream | None = getattr(self, "_stream", None)
        x, labels = labelled_samples(self, X, y, reset=stream is None)
        if stream is None:
            size = self.max_samples if isinstance(self.max_samples, int) else RESERVOIR_SIZE
            self._rng = check_random_state(self.random_state)
            stream = ClassStream.of(x, labels, classes=classes, n_jobs=self.n_jobs)
            empty = Reservoir(size, np.empty(0), x[:0], labels[:0])
        else:
            empty, known = self._reservoir, stream.classes if stream.fixed else None
            part = ClassStream.of(
                *(x, labels), classes=known, coordinates=stream.coordinates, n_jobs=self.n_jobs
            )
            stream = stream.merge(part)
        batch = Reservoir(empty.size, self._rng.random_sample(len(x)), x, labels)
        return self._fit_seen(stream, empty.merge(batch))

    def merge(self, other: GenerativeMetric) -> GenerativeMetric:
        """Add the samples that another estimator has seen in its calls of `partial_fit`.

        Fit one estimator by `partial_fit` on each part of the data, on any machines, and merge them
        into one: the Gaussians are those of all samples, and the random samples join.

        Parameters
        ----------
        other : GenerativeMetric
            Estimator with the same parameters, fitted by `partial_fit`. It does not change.

        Returns
        -------
        self : GenerativeMetric
            The estimator, fitted on the samples of both.

        Examples
        --------
        >>> import numpy as np
        >>> from genmetric import GenerativeMetric
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> left, right = (GenerativeMetric().partial_fit(X[i::2], y[i::2]) for i in (0, 1))
        >>> merged = left.merge(right)
        >>> bool(np.allclose(merged.metric_, GenerativeMetric().fit(X, y).metric_))
        True
        """
        for estimator in (self, other):
            if not hasattr(estimator, "_stream"):
                raise ValueError(
                    "merge needs estimators that were fitted by partial_fit, which keeps what can "
                    f"be merged; got {estimator!r} without it. Call partial_fit instead of fit."
                )
        if self.n_features_in_ != other.n_features_in_:
            raise ValueError(
                f"The estimators have {self.n_features_in_} and {other.n_features_in_} features. "
                "Merge estimators of the same features."
            )
        reservoir = self._reservoir.merge(other._reservoir)
        return self._fit_seen(self._stream.merge(other._stream), reservoir)

    def _fit_seen(self, stream: ClassStream, reservoir: Reservoir) -> GenerativeMetric:
        """Fit the Gaussians of all samples seen, and average over a random sample of them."""
        self.classes_ = stream.seen().classes
        if len(self.classes_) < 2:
            self.metric_, self.metric_stderr_ = np.eye(stream.stats.mean.shape[1]), np.inf
            self.components_ = self.metric_[: self.n_components]
        else:
            self._fit_stream(
                stream,
                partial(reservoir.fourth_moments, stream),
                lambda: self._sum_metrics(reservoir.rows, n_total=stream.n_samples),
            )
        self._stream, self._reservoir = stream, reservoir
        return self

    # Local geometry

    def local_metrics(self, X: ArrayLike) -> FloatArray:
        """Return the local metric of each sample, interpolated as in `fit`.

        The local metric of a sample is the one under which the first-order bias of the
        nearest-neighbour error vanishes there. `metric_` is the average over the training samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            Local metrics. With ``interpolation=1`` and ``base="identity"`` they have determinant
            one or trace `n_features`, depending on `normalization`.
        """

        def of_chunk(x: FloatArray) -> FloatArray:
            metrics = sample_metrics(self._models, x, self._log_priors, self.normalization)
            return self._coordinates.restore_metrics(interpolate(metrics, self.interpolation))

        return self._map_samples(of_chunk, X)

    def curvature(self, X: ArrayLike) -> FloatArray:
        """Return the matrix Phi of each sample, up to scale and sign.

        Phi is the sum over classes of the Hessian of the class density, weighted by the densities
        of all classes. A neighbour at a small displacement d changes the expected error by a term
        proportional to dᵀ Phi d: eigenvectors with eigenvalues of opposite sign are directions in
        which a distant neighbour raises and lowers the error.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            Symmetric matrices.
        """
        return self._map_samples(
            lambda x: self._coordinates.restore_metrics(phi(self._models, x, self._log_priors)), X
        )

    def bias(self, X: ArrayLike) -> FloatArray:
        """Return the integrand of the finite-sample bias under the learned metric at each sample.

        The nearest neighbour among N samples lies at a distance, and its error differs from the
        error with infinitely many samples by an integral over this quantity, times a factor that
        depends on N. Large absolute values mark samples where the distance of the nearest neighbour
        matters most. The sum over many samples shows by how much a metric raises or lowers the
        error.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Positive if a neighbour at a distance raises the error. The unit is that of X to the
            power -(D + 2); an error is raised if the result is outside the range of float64.
        """

        def of_chunk(x: FloatArray) -> FloatArray:
            metric = self._coordinates.apply_metric(self.metric_)
            log_unit = self._coordinates.log_unit
            return density_bias(self._models, x, metric, self._log_priors, log_unit)

        return self._map_samples(of_chunk, X)

    def _map_samples(
        self, function: Callable[[FloatArray], FloatArray], X: ArrayLike
    ) -> FloatArray:
        """Apply a function to samples in the coordinates of the class models, in chunks."""
        x = fitted_samples(self, X)
        if len(self.classes_) < 2:
            raise ValueError(
                "Only samples of a single class have been seen so far, so there are no local "
                "metrics. Call partial_fit with samples of another class."
            )
        chunks = row_chunks(len(x), dense_bytes_per_row(x.shape[1], len(self.classes_)))
        parts = map_chunks(
            lambda rows: function(self._coordinates.apply(x[rows])), chunks, self.n_jobs
        )
        return np.concatenate(list(parts))

    # Validation

    def _check_parameters(self, method: str = "fit") -> Any:
        """Validate the parameters for `method`; return the combination as an object."""
        check_parameters(self)
        named = isinstance(self.combination, str)
        combination = COMBINATIONS[self.combination] if named else self.combination
        by_density = isinstance(combination, DensityWeights)
        if by_density:
            check_parameters(combination)
        if self.max_samples == "auto" and (by_density or method == "fit_batches"):
            raise ValueError(
                'max_samples="auto" draws samples from memory and requires fit and '
                'combination="uniform" or an array. Give a number or a fraction of samples.'
            )
        by_sums = isinstance(self.class_model, GaussianModel | None)
        by_sums &= getattr(self.class_model, "covariance_estimator", None) is None
        if method != "fit" and not (combination is None and by_sums):
            raise ValueError(
                f'{method} receives samples in batches and requires combination="uniform" and '
                "Gaussian class models without a covariance_estimator; got "
                f"combination={reprlib.repr(self.combination)}, class_model={self.class_model!r}. "
                "Use fit."
            )
        return combination
