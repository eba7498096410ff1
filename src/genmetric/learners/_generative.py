"""GenerativeMetric: averages of generative local metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from genmetric._array_api import (
    as_numpy,
    dispatch_namespace,
    float_dtypes,
    host_array,
    take_rows,
)
from genmetric._chunks import one_blas_thread
from genmetric._labels import check_class_labels, warn_about_quantities
from genmetric._logging import log_progress
from genmetric._parameters import ParameterRules, check_parameters
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike
from genmetric._validation import check_weights, form_points, refuse_lazy
from genmetric.learners._averaging import average_metrics, plan_in_memory, select_samples
from genmetric.learners._density_weighting import HeldOut
from genmetric.learners._fitting import (
    arrays_like,
    fitted_attributes,
    set_attributes,
)
from genmetric.learners._local_geometry import LocalGeometryMixin
from genmetric.learners._mahalanobis import LinearMapMixin, MahalanobisMixin
from genmetric.learners._online import OnlineMixin
from genmetric.learners._specification import (
    DEFAULT_NORMALIZATION,
    METRIC_RULES,
    FitSpecification,
)
from genmetric.learners._streaming import (
    BatchSource,
    average_batches,
    plan_batches,
)


class GenerativeMetric(
    OnlineMixin, LocalGeometryMixin, LinearMapMixin, MahalanobisMixin, BaseEstimator
):
    r"""A Mahalanobis metric averaged from generative local metrics, in closed form.

    At each training sample :math:`x_i` the class densities determine the local metric :math:`M_i`
    that removes the first-order bias of the nearest-neighbour error. The learned metric is the
    average of the local metrics,

    .. math:: M = \frac1N \sum_i M_i = L^T L,

    and `transform` maps samples to z = Lx, where Euclidean distances are distances under M.

    Parameters
    ----------
    combination : {"uniform", "kde", "gmm"}, object or array-like, default="uniform"
        Weights of the local metrics in the average: equal, proportional to the density of the
        samples, or an array of shape (n_samples,). The density is estimated in the space of the
        metric, and metric and density are computed in turns: ``"kde"`` by Gaussian kernels,
        ``"gmm"`` by one Gaussian per class. Pass a :class:`KernelDensityWeights` or a
        :class:`GaussianMixtureWeights` to set their options.
    shrinkage : None, "auto" or float, default="auto"
        Shrinkage s of each class covariance S towards the base, (1-s)·S + s·(trace S/D)·I. Larger
        values make the classes rounder and the metric closer to the base. ``None`` is maximum
        likelihood, as in the paper, and ``"auto"`` the shrinkage of Ledoit and Wolf, which is
        larger with fewer samples. With ``base="pooled"`` classes with 2 to 9 samples share one
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
        Density of a class, cloned and fitted on each: :class:`GaussianModel` (the default, with
        `shrinkage`; its own `covariance_estimator` replaces the shrinkage),
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
        Smaller values are more accurate and slower: 1e-2 changes the metric by about 0.1 per cent,
        0 ignores no class, and 1 keeps two classes everywhere. With two classes it has no effect.
    max_samples : int, float or "auto", default=None
        Number or fraction of samples to average over, drawn at random. Larger values are more
        accurate and slower; see `metric_stderr_`. ``"auto"`` draws samples until `metric_stderr_`
        is 0.01, and ``None`` uses all. The class models always use all samples.
    priors : array-like of shape (n_classes,), default=None
        Class priors, in the order of `classes_`. A class with a larger prior has more influence on
        the local metrics. ``None`` is equal priors, as in the paper. With two classes they have no
        effect.
    preprocessor : array-like or callable, default=None
        Maps indices to samples, so that indices can be passed instead, as in metric-learn.
    n_jobs : int, default=None
        Number of threads; ``None`` is one, -1 uses all cores. The result is the same, bit for bit,
        for every number.
    random_state : int, RandomState instance or None, default=None
        Seed of the subset of `max_samples`, of the samples held out by "gmm", and of the samples
        that carry kernels in "kde" if there are more than ten thousand.
    verbose : int, default=0
        Whether to print a summary of the fit.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The factor L. With ``base="identity"`` and all dimensions it is the symmetric root of M.
    metric_ : ndarray of shape (n_features, n_features)
        The metric M = LᵀL.
    metric_stderr_ : float
        Standard error of the average over `max_samples` samples as an estimate of the average over
        all, relative to its Frobenius norm (in whitened coordinates with ``base="pooled"``). Zero
        if all samples were used.
    classes_ : ndarray of shape (n_classes,)
        Class names.
    means_ : ndarray of shape (n_classes, n_features)
        Class means.
    covariances_ : ndarray of shape (n_classes, n_features, n_features)
        Covariances of the class Gaussians, after shrinkage.
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

    _parameter_rules: ClassVar[ParameterRules] = METRIC_RULES

    def __init__(
        self,
        combination: Any = "uniform",
        *,
        shrinkage: Any = "auto",
        base: str = "identity",
        normalization: str = DEFAULT_NORMALIZATION,
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
        verbose: int = 0,
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
        self.verbose = verbose

    @restore_on_error
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
            Training samples, or indices of samples if there is a `preprocessor`. Arrays of other
            libraries, such as torch tensors, are supported if scikit-learn's
            ``array_api_dispatch`` is on: class models are fitted in NumPy, local metrics are
            computed by the dense solver in the library and on the device of X, and fitted
            attributes (except `classes_`) are arrays of that library. ``solver="auto"`` selects the
            dense solver then.
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
        spec, xp = self._specification(), dispatch_namespace(X)
        if xp is not None:
            spec = spec.on_arrays(xp.__name__)
        x, labels = self._labelled_samples(X, y, xp=xp)
        check_class_labels(labels, type(self).__name__)
        warn_about_quantities(labels, type(self).__name__)
        weight = sample_weight
        if weight is not None:
            weight = check_weights(host_array(weight), x.shape[0])
        held_out = self._held_out_samples(spec, X_val, y_val)
        samples = select_samples(spec, as_numpy(x), labels, weight, held_out, type(self).__name__)
        with one_blas_thread():
            # Class models in NumPy, local metrics in the library of X.
            plan = plan_in_memory(spec, samples)
            if xp is None:
                attributes = fitted_attributes(plan, average_metrics(plan, samples))
            else:
                rows = replace(samples, x=take_rows(x, samples.kept))
                average = average_metrics(plan.on_arrays(x), rows)
                attributes = arrays_like(fitted_attributes(plan, average), x)
            set_attributes(self, attributes)
        if self.verbose:
            sizes = f"{len(samples.x)} samples, {x.shape[1]} features, {len(plan.classes)} classes"
            rounds = f", {self.n_iter_} iterations" if spec.combination.by_density else ""
            log_progress("GenerativeMetric", f"{sizes}, solver {plan.solver}{rounds}")
        return self

    @restore_on_error
    def fit_batches(
        self, make_batches: Callable[[], Iterable[tuple[Any, Any]]]
    ) -> GenerativeMetric:
        """Fit on samples that do not fit in memory, in passes over batches.

        The first pass fits the Gaussians and the last averages the local metrics. With
        ``base="pooled"`` and ``shrinkage="auto"`` there is one more pass between them. The result
        is that of `fit` on all samples, up to rounding.

        Parameters
        ----------
        make_batches : callable
            Returns a new iterator of pairs (X, y) over the same samples each time it is called.
            Their order may change between calls; different values are an error.

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
        spec = self._specification()
        spec.check_streaming("fit_batches")
        if not callable(make_batches):
            raise TypeError(
                "make_batches must be a function that returns a new iterator of (X, y) each time; "
                f"got {type(make_batches).__name__}. The batches are read more than once."
            )
        source = BatchSource(self, make_batches, spec.n_jobs)
        with one_blas_thread():
            first = source.first_pass()
            plan, wanted = plan_batches(spec, first.tally, source.fourth_moments)
            total = source.metric_sum(plan, wanted, first.totals)
            average = average_batches(plan, total)
            set_attributes(self, fitted_attributes(plan, average))
        return self

    def _specification(self) -> FitSpecification:
        """Validate the parameters."""
        check_parameters(self)
        return FitSpecification.of(self.get_params(deep=False))

    def _labelled_samples(
        self, X: Any, y: Any, *, reset: bool = True, xp: Any = None
    ) -> tuple[Any, AnyArray]:
        """Validate samples and class labels; samples stay in the array namespace `xp`, if any."""
        refuse_lazy(y, "y")
        X = form_points(X if xp is not None else host_array(X), self.preprocessor, self)
        dtypes = float_dtypes(np if xp is None else xp)
        x, labels = validate_data(self, X, host_array(y), dtype=dtypes, reset=reset)
        return x, labels

    def _held_out_samples(self, spec: FitSpecification, X_val: Any, y_val: Any) -> HeldOut | None:
        """Validate the validation samples, if there are any."""
        if X_val is None and y_val is None:
            return None
        spec.check_validation(X_val, y_val, self.combination)
        if y_val is not None:
            x, labels = self._labelled_samples(X_val, y_val, reset=False)
            check_class_labels(labels, type(self).__name__)
            return HeldOut(x, labels)
        X_val = form_points(host_array(X_val), self.preprocessor, self)
        x = validate_data(self, X_val, dtype=[np.float64, np.float32], reset=False)
        return HeldOut(x, None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.array_api_support = True
        return tags
