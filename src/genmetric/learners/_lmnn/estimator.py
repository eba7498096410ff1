"""LMNN: the large-margin nearest-neighbour metric."""

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
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    check_n_components,
    check_weights,
    encode_classes,
    form_points,
    labelled_rows,
)
from genmetric._warnings import warn_user
from genmetric.density._scaling import Scaling
from genmetric.learners._early_stopping import ValidationPath
from genmetric.learners._lmnn.initial import candidates, check_init
from genmetric.learners._lmnn.objective import Evaluation, Loss
from genmetric.learners._lmnn.solver import IterationCallback, Solution
from genmetric.learners._lmnn.training import (
    Specification,
    TrainingData,
    ValidatedInit,
    train,
    validate_init,
    validate_n_iter,
)
from genmetric.learners._mahalanobis import LinearMapMixin, MahalanobisMixin

#: Number of samples beyond which a search for impostors takes minutes, so that a fit warns.
MANY_SAMPLES = 100_000
#: Warnings name the small classes up to this number and count them beyond it.
MAX_NAMED_CLASSES = 20


class LMNN(LinearMapMixin, MahalanobisMixin, BaseEstimator):
    r"""Large-margin nearest-neighbour metric, trained by L-BFGS.

    Each sample :math:`x_i` has target neighbours :math:`x_i^+`, the nearest samples of its own
    class under the initial metric. The metric M = LᵀL keeps them close and separates samples
    :math:`x_l` of other classes from them by a margin of one. With squared distances
    :math:`d_{ij} = \|L(x_i - x_j)\|^2` it reduces

    .. math::
        (1 - \mu) \sum_i \sum_{j \in x_i^+} d_{ij}
        + \mu \sum_i \sum_{j \in x_i^+} \sum_{l:\, y_l \ne y_i} (1 + d_{ij} - d_{il})_+ .

    The minimum of this objective overfits if features are many or correlated. By default the
    minimisation therefore starts from a metric in closed form, moves in the space of that metric,
    and stops after a number of iterations; left-out samples select both the start and this number.
    ``early_stopping=False`` minimises the objective itself.

    Parameters
    ----------
    n_neighbors : int, default=3
        Number of target neighbours per sample, less than the number of samples. Larger values
        make classes compact as a whole, smaller values only locally. Samples of a class with fewer
        other samples have fewer targets, which raises a warning; the only sample of a class has
        none and only acts as an impostor.
    n_components : int, default=None
        Output dimension, at most the number of features. ``None`` keeps the dimension of the
        initial metric, which is the number of features unless `init` is an array or an estimator
        with fewer components.
    init : str, array-like of shape (n_components, n_features) or estimator, default="auto"
        The initial metric. It selects the target neighbours and starts the minimisation.

        - ``"auto"``: for up to 50 classes the one of ``"generative"``, ``"mixed"`` and
          ``"pooled"`` with the lowest nearest-neighbour error of left-out samples, or
          ``"generative"`` if ``early_stopping=False`` or with more than about 5000 samples;
          ``"lda"`` for more classes;
        - ``"generative"``: :class:`GenerativeMetric` with its defaults;
        - ``"pooled"``: :class:`GenerativeMetric` with ``base="pooled"``, better if features are
          strongly correlated within classes and worse if many of them are noise;
        - ``"mixed"``: the mean of these two, scaled to the same mean squared distance;
        - ``"lda"``: the inverse of the pooled within-class covariance with Ledoit-Wolf shrinkage;
          with `n_components`, its leading linear discriminants. Memory does not grow with the
          number of classes;
        - ``"identity"``: the Euclidean metric, or the first `n_components` features;
        - ``"pca"``: the leading principal components;
        - ``"random"``: normally distributed entries;
        - an array: the factor L itself;
        - an estimator with `components_`: that factor. An estimator that is not fitted is cloned
          and fitted: ``LMNN(init=LMNN())`` selects the targets again under the metric of a first
          fit. Pass an estimator unfitted if it would be fitted on the same samples: otherwise it
          has seen the samples that early stopping leaves out.

        If the initial metric has more than `n_components` components, the leading principal
        components of the samples in its space are used.
    push : float, default=0.5
        Weight :math:`\mu` of the margin violations, in [0, 1]. Larger values separate classes more
        strongly, smaller values keep target neighbours closer.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a violated margin: the violation, as above, or its square, which penalises large
        violations more.
    early_stopping : bool, default=True
        Whether to select the number of iterations, and the initial metric of ``init="auto"``, by
        the nearest-neighbour error of left-out samples, and to minimise in the space of the initial
        metric. Fifths of the samples are left out in turn until 1000 samples have been left out. If
        more than one fifth was left out, the result is the average of the metrics trained without
        them and of that of all samples. ``False`` minimises the objective until convergence.
    max_iter : int, default=200
        Maximum number of iterations of L-BFGS, with or without early stopping.
    tol : float, default=1e-6
        The minimisation ends if an iteration lowers the objective by less than this fraction of
        its initial value, in [0, 1]. Larger values end it sooner.
    warm_start : bool, default=False
        Whether to start from the `components_` of the previous fit; needs
        ``early_stopping=False``. The targets are still selected by `init`, so a second fit on the
        same samples continues where the first one ended.
    callback : callable, default=None
        Called after each iteration of the minimisation on all samples as
        ``callback(components, n_iter)`` with the flattened factor, like the callback of
        :class:`~sklearn.neighbors.NeighborhoodComponentsAnalysis`. A true return value ends the
        fit.
    preprocessor : array-like or callable, default=None
        Looks up samples if indices are passed to `fit`, as in metric-learn.
    n_jobs : int, default=None
        Number of threads; -1 uses all cores. The result is the same, bit for bit, for every
        number.
    random_state : int, RandomState instance or None, default=None
        Seed of the entries of ``init="random"``; no other step is random.
    verbose : int, default=0
        Whether to print one line per iteration.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The factor L.
    metric_ : ndarray of shape (n_features, n_features)
        The metric M = LᵀL.
    objective_ : float
        The objective at L, evaluated over all triplets.
    n_iter_ : int
        Number of iterations of L-BFGS.
    init_ : str or None
        Name of the initial metric, which is selected if ``init="auto"``; None if `init` is an array
        or an estimator.
    validation_path_ : ndarray of shape (n_checkpoints, 2)
        Numbers of iterations and error rates of the left-out samples after them, the mean over
        votes of 1, 3 and 5 neighbours; without rows if ``early_stopping=False`` or if no sample
        could be left out.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during `fit`. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    GenerativeMetric : A metric in closed form.
    sklearn.neighbors.NeighborhoodComponentsAnalysis : Another objective over L.

    Notes
    -----
    **Early stopping.** Along directions in which target neighbours hardly differ the metric can
    grow at no cost, and there the minimum of the objective fits the noise. Minimising in the space
    of the initial metric changes these directions last. The default of 11 iterations is replaced
    by the number with the lowest left-out error only if that error is lower by more than its
    standard error. With few samples a metric varies with the samples it is trained on; the average
    with the metrics of the validation runs varies less. Its rank is reduced to `n_components` by
    the principal components of the samples in its space.

    **Scale.** The margin is one for every unit of the features: if L minimises the objective for
    samples X, then L/c does for samples cX, with the same value. The initial factor is multiplied
    by the number that minimises the objective, so its length does not matter. The relative scales
    of the features matter under ``"identity"`` and ``"pca"``, where they determine the targets.

    **Comparison with metric-learn.** With ``init="identity"``, ``early_stopping=False`` and
    ``push=1-regularization`` the objective equals that of metric-learn's LMNN.

    **Minimisation.** The problem is convex in M, and a square L reaches the same minimum from
    every start. L-BFGS works on hinges that are smoothed over 0.003 of the margin; `objective_`
    is computed with the plain hinge.

    **Memory.** Samples of other classes near a sample are found by matrix products over chunks of
    samples and kept as an active set of pairs of at most 67 MB. The search is repeated after L
    has moved, and at the end: the minimisation is complete if no violated triplet is outside the
    set. With more pairs every evaluation searches, which takes longer but no more memory, and if
    there are more than 16 times as many at the start, `fit` raises an error: classes that overlap
    so much have nothing to learn from single impostors. A search takes n_samples² products of
    vectors, minutes beyond 100,000 samples; a warning tells so.

    References
    ----------
    K. Q. Weinberger and L. K. Saul, Distance metric learning for large margin nearest neighbor
    classification, Journal of Machine Learning Research 10 (2009).

    Examples
    --------
    >>> from genmetric import LMNN
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_wine(return_X_y=True)
    >>> plain = cross_val_score(KNeighborsClassifier(), X, y).mean()
    >>> learned = make_pipeline(LMNN(), KNeighborsClassifier())
    >>> bool(cross_val_score(learned, X, y).mean() > plain + 0.2)
    True
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "n_neighbors": [Interval(int, 1)],
        "push": [Interval(float, 0, 1)],
        "loss": ["hinge", "squared_hinge"],
        "early_stopping": [BOOLEAN],
        "max_iter": [Interval(int, 1)],
        "tol": [Interval(float, 0, 1)],
        "warm_start": [BOOLEAN],
        "callback": [None, CALLABLE],
        "n_jobs": N_JOBS,
        "random_state": RANDOM_STATE,
        "verbose": VERBOSE,
    }

    def __init__(
        self,
        n_neighbors: int = 3,
        *,
        n_components: int | None = None,
        init: Any = "auto",
        push: float = 0.5,
        loss: Loss = "hinge",
        early_stopping: bool = True,
        max_iter: int = 200,
        tol: float = 1e-6,
        warm_start: bool = False,
        callback: Callable[[FloatArray, int], Any] | None = None,
        preprocessor: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_components = n_components
        self.init = init
        self.push = push
        self.loss = loss
        self.early_stopping = early_stopping
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.callback = callback
        self.preprocessor = preprocessor
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @restore_on_error
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> LMNN:
        """Select the target neighbours and train the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, or indices of samples with a `preprocessor`.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. The distances of a sample to its targets are multiplied by its weight,
            and margin violations by the product of the weights of the sample and the impostor.
            Weights do not affect which samples are targets, except that samples of weight zero
            are removed. Only ratios of weights matter.

        Returns
        -------
        self : LMNN
            The fitted estimator.
        """
        self._check_parameters()
        resume_from = None
        if self.warm_start and hasattr(self, "components_"):
            resume_from = self.components_
        points = form_points(X, self.preprocessor, self)
        x, labels, classes, codes = labelled_rows(self, points, y)
        weights = None
        if sample_weight is not None:
            weights = check_weights(sample_weight, len(x))
            if not weights.all():
                kept = weights > 0
                x, weights = x[kept], weights[kept]
                classes, codes = encode_classes(labels[kept], type(self).__name__)
            weights = None if np.ptp(weights) == 0 else weights / weights.mean()
        self._check_class_sizes(classes, codes)
        if len(x) > MANY_SAMPLES:
            warn_user(
                f"LMNN compares all pairs of samples in each search for impostors, here "
                f"{float(len(x)) ** 2:.1g}, which takes minutes, and searches several times. Fit on "
                f"at most {MANY_SAMPLES} samples, or use GenerativeMetric."
            )

        with one_blas_thread():
            scaling = Scaling.of(x)
            data = TrainingData(x, scaling, codes, weights)
            specification = self._specification(x.shape[1])
            start = ValidatedInit(candidates(self.init, codes)[0])
            path = ValidationPath.without_samples(specification.max_iter)
            if self.early_stopping:
                start = validate_init(data, specification)
                if self.verbose and start.metrics is not None:
                    log_progress("LMNN", f"initial metric {start.init!r}")
                path = validate_n_iter(data, specification, start)
                specification = replace(specification, init=start.init, max_iter=path.n_iter)
            solution = train(
                data,
                specification,
                resume_from=None if resume_from is None else resume_from * scaling.scale,
                average_with=path.metrics,
                callback=self._after_iteration(scaling.scale),
            )

        self.classes_ = classes
        self.components_ = solution.L / scaling.scale
        self.metric_ = self.components_.T @ self.components_
        self.objective_, self.n_iter_ = solution.value, solution.n_iter
        self.init_ = start.init if isinstance(start.init, str) else None
        self.validation_path_ = path.table
        self._report_end(solution)
        return self

    def _check_parameters(self) -> None:
        check_parameters(self)
        check_init(self.init)
        check_n_jobs(self.n_jobs)
        if self.warm_start and self.early_stopping:
            raise ValueError(
                "warm_start=True needs early_stopping=False: the number of iterations selected on "
                "left-out samples counts from the initial metric."
            )

    def _specification(self, n_features: int) -> Specification:
        return Specification(
            n_neighbors=int(self.n_neighbors),
            n_components=check_n_components(self.n_components, n_features),
            init=self.init,
            push=float(self.push),
            loss=self.loss,
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            stay_near_init=bool(self.early_stopping),
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )

    def _check_class_sizes(self, classes: AnyArray, codes: IntArray) -> None:
        """Raise if there are no targets, and warn about classes with fewer than requested."""
        if self.n_neighbors >= len(codes):
            raise ValueError(
                f"n_neighbors must be less than the number of samples, {len(codes)}; got "
                f"{self.n_neighbors}. Use fewer neighbors or more samples."
            )
        sizes = np.bincount(codes)
        if sizes.max() == 1:
            raise ValueError(
                "Every class has a single sample, so no sample has a target neighbour. LMNN needs "
                "classes with at least 2 samples."
            )
        small = np.flatnonzero(sizes <= self.n_neighbors)
        if len(small):
            named = f"Classes {classes[small].tolist()} have {sizes[small].tolist()} samples"
            if len(small) > MAX_NAMED_CLASSES:
                named = f"{len(small)} of {len(classes)} classes have {sizes[small].min()} to "
                named += f"{sizes[small].max()} samples"
            warn_user(
                f"{named}, too few for n_neighbors={self.n_neighbors} targets per sample: their "
                "samples have fewer targets. Lower n_neighbors, or merge small classes.",
            )

    def _after_iteration(self, scale: float) -> IterationCallback:
        """Return the function that prints the progress and calls the user's callback."""

        def after_iteration(n_iter: int, found: Evaluation, L: FloatArray) -> Any:
            if self.verbose:
                log_progress(
                    "LMNN",
                    f"iteration {n_iter}: objective {found.value:.6g}, "
                    f"{found.n_triplets} violated triplets",
                )
            return self.callback is not None and self.callback((L / scale).ravel(), n_iter)

        return after_iteration

    def _report_end(self, solution: Solution) -> None:
        """Warn if the minimisation did not converge, and print a summary."""
        reason = solution.reason
        if reason == "max_iter" and self.early_stopping:
            reason_text = "stopped early"
        else:
            reason_text = str(reason)
            if reason == "max_iter":
                warn_user(
                    f"LMNN did not converge in max_iter={self.max_iter} iterations. Increase "
                    "max_iter or tol, or continue with warm_start=True.",
                    ConvergenceWarning,
                )
        if self.verbose:
            log_progress(
                "LMNN",
                f"{reason_text}: objective {solution.value:.6g}, {solution.n_iter} "
                f"iterations, {solution.n_evaluations} evaluations, {solution.n_searches} searches",
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
