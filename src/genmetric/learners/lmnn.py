"""LMNN: the large-margin nearest-neighbour metric of Weinberger and Saul."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, clone
from sklearn.covariance import ledoit_wolf
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import has_fit_parameter

from genmetric._neighbors import majority_votes, nearest_neighbors
from genmetric._parallel import one_blas_thread, row_chunks
from genmetric._text import print_progress
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    BOOLEAN,
    CALLABLE,
    N_JOBS,
    RANDOM_STATE,
    VERBOSE,
    Interval,
    ParameterRules,
    check_n_components,
    check_parameters,
    check_weights,
    encode_classes,
    form_points,
    labelled_rows,
    warn_user,
)
from genmetric.density.coordinates import Coordinates
from genmetric.geometry.factor import rank_limited_factor, symmetric_root
from genmetric.learners.early_stopping import held_out_folds, lbfgs, select_n_iter
from genmetric.learners.generative import GenerativeMetric
from genmetric.learners.lmnn_objective import Loss, Objective, target_neighbors
from genmetric.learners.mahalanobis import LinearMapMixin, MahalanobisMixin

#: Closed forms that ``init="auto"`` selects from on held-out samples. The first one is used without
#: a selection, or if errors are equal.
CLOSED_FORMS = ("generative", "mixed", "pooled")
INIT_NAMES = ("auto", *CLOSED_FORMS, "identity", "pca", "lda", "random")


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
        resume_from = getattr(self, "components_", None) if self.warm_start else None
        x, self.classes_, codes, weights = self._validate(X, y, sample_weight)
        coordinates = Coordinates.of(x)
        x = coordinates.apply(x)
        with one_blas_thread():
            folds = held_out_folds(codes) if self.early_stopping else []
            init, metrics = self._select_init(x, codes, weights, folds)
            n_iter, path, validated = int(self.max_iter), np.empty((0, 2)), []
            if self.early_stopping:
                runs = self._validation_runs(x, codes, weights, folds, init, metrics, coordinates)
                # Eleven iterations, unless another number is better by more than a standard error.
                n_iter, path, validated = select_n_iter(runs, 11, n_iter)
            L, metric = self._start(init, x, codes, weights, coordinates)
            objective = self._objective(x, codes, weights, L)
            L = L * best_scale(objective, L)
            if resume_from is not None:
                if resume_from.shape != L.shape:
                    raise ValueError(
                        f"warm_start continues from components_ of shape {resume_from.shape}, but "
                        f"this fit needs {L.shape}. Fit with warm_start=False first."
                    )
                L = resume_from * coordinates.scale
            L, self.n_iter_ = self._minimize(objective, L, metric, n_iter, coordinates.scale)
            if len(validated) > 1:
                L = _factor(np.mean([*validated, L.T @ L], axis=0), len(L), x)
                objective.exact(L)
        self.components_ = L / coordinates.scale
        self.metric_ = self.components_.T @ self.components_
        self.objective_ = objective.value
        self.init_ = init if isinstance(init, str) else None
        self.validation_path_ = path
        return self

    def _validate(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[AnyArray, AnyArray, IntArray, FloatArray | None]:
        """Return samples sorted by class, the classes, their codes and weights of mean one."""
        check_parameters(self)
        check_init(self.init)
        if self.warm_start and self.early_stopping:
            raise ValueError(
                "warm_start=True needs early_stopping=False: the number of iterations selected on "
                "held-out samples counts from the initial metric."
            )
        x, labels, classes, codes = labelled_rows(self, form_points(X, self.preprocessor, self), y)
        check_n_components(self.n_components, x.shape[1])
        weights = None
        if sample_weight is not None:
            weights = check_weights(sample_weight, len(x))
            x, labels, weights = (a[weights > 0] for a in (x, labels, weights))
            classes, codes = encode_classes(labels, type(self).__name__)
            weights = None if np.ptp(weights) == 0 else weights / weights.mean()
        self._check_class_sizes(classes, codes)
        if len(x) > 100_000:
            warn_user(
                f"LMNN compares all pairs of samples in each search for impostors, here "
                f"{float(len(x)) ** 2:.1g}, which takes minutes, and searches several times. Fit on "
                "at most 100000 samples, or use GenerativeMetric."
            )
        order = np.argsort(codes, kind="stable")
        return x[order], classes, codes[order], _at(weights, order)

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
            if len(small) > 20:
                named = f"{len(small)} of {len(classes)} classes have {sizes[small].min()} to "
                named += f"{sizes[small].max()} samples"
            warn_user(
                f"{named}, too few for n_neighbors={self.n_neighbors} targets per sample: their "
                "samples have fewer targets. Lower n_neighbors, or merge small classes.",
            )

    def _select_init(
        self,
        x: FloatArray,
        codes: IntArray,
        weights: FloatArray | None,
        folds: list[tuple[IntArray, IntArray]],
    ) -> tuple[Any, list[FloatArray]]:
        """Select the closed form of "auto" by the error of held-out samples, before any iteration.

        Returns `init` and its metrics of the folds, if they were computed. The selection helps with
        few samples only; with one fold it would take a third of the time of a fit.
        """
        if not (isinstance(self.init, str) and self.init == "auto"):
            return self.init, []
        if codes[-1] >= 50:  # class covariances of few samples are poor, and take memory
            return "lda", []
        if len(folds) < 2:
            return CLOSED_FORMS[0], []
        errors = dict.fromkeys(CLOSED_FORMS, 0.0)
        metrics: dict[str, list[FloatArray]] = {name: [] for name in CLOSED_FORMS}
        for train, held_out in folds:
            w = _at(weights, train)
            found = closed_forms(CLOSED_FORMS, x[train], codes[train], w, self.n_jobs)
            for name, metric in found.items():
                L = _factor(metric, self.n_components, x[train], w)
                wrong = vote_errors(L, x, codes, train, held_out, self.n_jobs)
                errors[name] += float(wrong.sum() if weights is None else weights[held_out] @ wrong)
                metrics[name].append(metric)
        best = min(CLOSED_FORMS, key=errors.__getitem__)
        if self.verbose:
            print_progress("LMNN", f"initial metric {best!r}")
        return best, metrics[best]

    def _validation_runs(
        self,
        x: FloatArray,
        codes: IntArray,
        weights: FloatArray | None,
        folds: list[tuple[IntArray, IntArray]],
        init: Any,
        metrics: list[FloatArray],
        coordinates: Coordinates,
    ) -> Iterator[tuple[Iterator[FloatArray], Callable[[FloatArray], FloatArray], FloatArray]]:
        """Yield the iterates of each fold, and the errors and weights of its held-out samples."""
        for number, (train, held_out) in enumerate(folds):
            part = x[train], codes[train], _at(weights, train)
            if metrics:
                L, metric = start_from(metrics[number], self.n_components, part[0], part[2])
            else:
                L, metric = self._start(init, *part, coordinates)
            objective = self._objective(*part, L)
            iterates = minimize(objective, L * best_scale(objective, L), metric, self.tol)
            errors = partial(
                vote_errors, x=x, codes=codes, train=train, held_out=held_out, n_jobs=self.n_jobs
            )
            yield iterates, errors, np.ones(len(held_out)) if weights is None else weights[held_out]

    def _start(
        self,
        init: Any,
        x: FloatArray,
        codes: IntArray,
        weights: FloatArray | None,
        coordinates: Coordinates,
    ) -> tuple[FloatArray, FloatArray]:
        """Compute the initial factor and the metric in whose space the minimisation moves."""
        n_components, n_features = self.n_components, x.shape[1]
        if isinstance(init, str) and init not in ("identity", "random"):
            if init in CLOSED_FORMS:
                metric = closed_forms((init,), x, codes, weights, self.n_jobs)[init]
            else:
                metric = np.eye(n_features) if init == "pca" else whitening(x, codes, weights)
            return start_from(metric, n_components, x, weights)
        if isinstance(init, str):
            shape = n_components or n_features, n_features
            rng = check_random_state(self.random_state)
            L = np.eye(*shape) if init == "identity" else rng.standard_normal(shape)
        elif hasattr(init, "fit"):
            L = _components_of(init, coordinates.restore(x), codes, weights, n_components)
        else:
            L = check_array(init, dtype=np.float64, input_name="init")
            if n_components is not None and len(L) != n_components:
                raise ValueError(
                    f"init has {len(L)} rows, but n_components is {n_components}. Make them agree, "
                    "or leave n_components at None."
                )
        check_factor(L, n_features)
        L = L / np.abs(L).max()
        return L, positive_definite(L.T @ L if len(L) == n_features else np.eye(n_features))

    def _objective(
        self, x: FloatArray, codes: IntArray, weights: FloatArray | None, L: FloatArray
    ) -> Objective:
        """Return the objective with the target neighbours under the initial metric."""
        k = min(int(self.n_neighbors), int(np.bincount(codes).max()) - 1)
        targets = target_neighbors(x @ L.T, codes, k)
        push, loss = float(self.push), self.loss
        return Objective(
            x, codes, targets, push=push, loss=loss, weights=weights, n_jobs=self.n_jobs
        )

    def _minimize(
        self,
        objective: Objective,
        start: FloatArray,
        metric: FloatArray,
        n_iter: int,
        scale: float,
    ) -> tuple[FloatArray, int]:
        """Run the iterations, report them, and return the factor and their number."""
        if not self.early_stopping:
            metric = inverse_scatter(objective.scatter)
        objective.exact(start)
        lowest, reason, L, done = objective.value, "converged", start, 0
        for done, L in enumerate(minimize(objective, start, metric, float(self.tol))):
            if done > 0 and self.verbose:
                print_progress(
                    "LMNN",
                    f"iteration {done}: objective {objective.value:.6g}, "
                    f"{objective.n_triplets} violated triplets",
                )
            if done > 0 and self.callback is not None and self.callback((L / scale).ravel(), done):
                reason = "ended by the callback"
                break
            if done == n_iter:
                reason = "stopped early" if self.early_stopping else "not converged"
                break
        objective.exact(L)
        if objective.value > lowest:  # the last active set underestimated the objective
            L = start
            objective.exact(L)
        if self.verbose:
            print_progress(
                "LMNN",
                f"{reason}: objective {objective.value:.6g}, {done} iterations, "
                f"{objective.n_calls} evaluations, {objective.n_searches} searches",
            )
        if reason == "not converged":
            warn_user(
                f"LMNN did not converge in max_iter={self.max_iter} iterations. Increase max_iter "
                "or tol, or continue with warm_start=True.",
                ConvergenceWarning,
            )
        return L, done

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def minimize(
    objective: Objective, L: FloatArray, metric: FloatArray, tol: float
) -> Iterator[FloatArray]:
    """Yield L and the factor after each iteration of L-BFGS in the space of a metric.

    L-BFGS runs on the active set of impostors. After it ends, all are searched, and it runs again
    if violated triplets were missing, or if it ended at a kink of a hinge after some progress.
    """
    yield L
    scale = value = objective.exact(L)
    if scale == 0:
        return

    def evaluate(L: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = objective(L)
        return value / scale, gradient / scale

    value, decrease = 1.0, np.inf
    while True:
        before, believed = value, value
        for L, ahead in lbfgs(evaluate, L, metric, tol):
            decrease, believed = believed - ahead, ahead
            yield L
        value = objective.exact(L) / scale
        if value - believed > max(0.1 * tol, 1e-12):
            objective.max_movement /= 2
        elif min(decrease, before - value) <= tol:
            return


def inverse_scatter(scatter: FloatArray) -> FloatArray:
    """Invert the target scatter: in the space of this metric the minimisation is fastest."""
    variance, U = np.linalg.eigh(scatter)
    mean = float(variance.mean())
    if not mean > 0:
        return np.eye(len(scatter))
    return np.asarray((U / np.maximum(variance / mean, 1e-8)) @ U.T)


def vote_errors(
    L: FloatArray,
    x: FloatArray,
    codes: IntArray,
    train: IntArray,
    held_out: IntArray,
    n_jobs: int | None = None,
) -> FloatArray:
    """Return the fraction of wrong votes of 1, 3 and 5 neighbours for each held-out sample."""
    k = min(5, len(train))
    found = nearest_neighbors(x[train] @ L.T, k, queries=x[held_out] @ L.T, n_jobs=n_jobs)
    winners = majority_votes(codes[train][found.indices], int(codes[-1]) + 1)
    wrong = winners[:, [0, min(2, k - 1), k - 1]] != codes[held_out, None]
    return np.asarray(wrong.mean(axis=1))


# Initial metrics


def check_init(init: Any) -> None:
    """Raise a ValueError if `init` is not a known name, a 2D array or an estimator."""
    if isinstance(init, str):
        known = init in INIT_NAMES
    elif hasattr(init, "fit"):
        known = not isinstance(init, type)
    else:
        known = init is not None and np.ndim(init) == 2
    if not known:
        raise ValueError(
            f"init must be one of {', '.join(map(repr, INIT_NAMES))}, an array of shape "
            f"(n_components, n_features), or a metric such as GenerativeMetric(); got {init!r}."
        )


def check_factor(L: FloatArray, n_features: int) -> None:
    """Raise a ValueError if a factor does not fit the features, or is zero or not finite."""
    if L.shape[1] != n_features:
        raise ValueError(
            f"init is for samples with {L.shape[1]} features, but X has {n_features} features."
        )
    if len(L) > n_features:
        raise ValueError(
            f"init has {len(L)} rows, more than the {n_features} features of X. Remove some rows."
        )
    size = np.abs(L).max()
    if not (np.isfinite(size) and size > 0):
        raise ValueError(f"init must be finite and not all zero; its largest entry is {size}.")


def closed_forms(
    names: Sequence[str],
    x: FloatArray,
    codes: IntArray,
    weights: FloatArray | None,
    n_jobs: int | None,
) -> dict[str, FloatArray]:
    """Compute metrics in closed form; "mixed" is the mean at equal mean squared distance."""
    bases = {"generative": "identity", "pooled": "pooled"}
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # LMNN warns about small classes itself
        for name, base in bases.items():
            if name in names or "mixed" in names:
                estimator = GenerativeMetric(base=base, n_jobs=n_jobs)
                found[name] = estimator.fit(x, codes, weights).metric_
    if "mixed" in names:
        C = covariance(x, weights)
        # Without any variance distances vanish, and the metrics are added as they are.
        found["mixed"] = np.sum([M / (float(np.vdot(M, C)) or 1.0) for M in found.values()], axis=0)
    return {name: found[name] for name in names}


def whitening(x: FloatArray, codes: IntArray, weights: FloatArray | None = None) -> FloatArray:
    """Invert the pooled within-class covariance, shrunk by Ledoit and Wolf's rule.

    Memory does not grow with the number of classes. Without any scatter it is the identity.
    """
    w = np.ones(len(x)) if weights is None else weights / weights.mean()
    indicator = csr_array((w, codes, np.arange(len(x) + 1)))
    means = indicator.T @ x / indicator.sum(axis=0)[:, None]
    residuals = x.copy()
    for rows in row_chunks(len(x), 16 * x.shape[1]):
        residuals[rows] -= means[codes[rows]]
        residuals[rows] *= np.sqrt(w[rows, None])
    variance, U = np.linalg.eigh(ledoit_wolf(residuals, assume_centered=True)[0])
    if not variance[-1] > 0:
        return np.eye(x.shape[1])
    return np.asarray((U * (variance.mean() / np.maximum(variance, 1e-8 * variance.mean()))) @ U.T)


def start_from(
    metric: FloatArray, n_components: int | None, x: FloatArray, weights: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return a factor of a metric whose largest entry is one, and the metric, positive definite."""
    L = _factor(metric, n_components, x, weights)
    check_factor(L, x.shape[1])
    return L / np.abs(L).max(), positive_definite(metric)


def positive_definite(metric: FloatArray) -> FloatArray:
    """Divide a metric by its largest entry and raise its eigenvalues if it is singular."""
    eigenvalues, U = np.linalg.eigh(metric / np.abs(metric).max())
    return np.asarray((U * np.maximum(eigenvalues, 1e-12 * eigenvalues[-1])) @ U.T)


def covariance(x: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Compute the weighted covariance of samples."""
    return np.atleast_2d(np.cov(x, rowvar=False, ddof=0, aweights=weights))


def _factor(
    metric: FloatArray, n_components: int | None, x: FloatArray, weights: FloatArray | None = None
) -> FloatArray:
    """Return the root of a metric, or its leading principal components of the samples."""
    if n_components is None or n_components == len(metric):
        return symmetric_root(metric)
    return rank_limited_factor(metric, n_components, covariance(x, weights))


def _components_of(
    init: Any,
    X: FloatArray,
    codes: IntArray,
    weights: FloatArray | None,
    n_components: int | None,
) -> FloatArray:
    """Return `components_` of an estimator, fitted if necessary, with its rank reduced."""
    fitted = init
    if not hasattr(init, "components_"):
        weighted = weights is not None and has_fit_parameter(init, "sample_weight")
        options = {"sample_weight": weights} if weighted else {}
        fitted = clone(init).fit(X, codes, **options)
    if not hasattr(fitted, "components_"):
        raise ValueError(
            f"init={init!r} has no components_ after fit. Pass a metric that has them, such as "
            "GenerativeMetric(), or the factor as an array."
        )
    L = check_array(fitted.components_, dtype=np.float64, input_name="init.components_")
    if n_components is None or len(L) == n_components or L.shape[1] != X.shape[1]:
        return np.asarray(L)
    if len(L) < n_components:
        raise ValueError(
            f"n_components is {n_components}, but components_ of init has {len(L)} rows. Pass at "
            "most this number."
        )
    L = L / np.abs(L).max()
    return rank_limited_factor(L.T @ L, n_components, covariance(X, weights))


def best_scale(objective: Objective, L: FloatArray) -> float:
    r"""Compute the number s that minimises the objective at s·L, without sample weights.

    With :math:`a = s^2` and the gaps :math:`u_{ijl} = d_{il} - d_{ij}` at L, the objective is

    .. math:: (1 - \mu)\, a \sum_{ij} d_{ij} + \mu \sum_{ijl} (1 - a\, u_{ijl})_+,

    convex and piecewise linear in a. Its slope vanishes where the sum of the positive gaps below
    1/a equals the pull plus the sum of the negative gaps, which sorting finds. At most 512 evenly
    spaced samples are used, with 512 impostors each.
    """
    Z, ends = objective.X @ L.T, objective.class_ends
    sample = np.unique(np.linspace(0, len(Z) - 1, min(512, len(Z))).astype(int))
    pull = objective.target_distances(Z)[sample]
    parts = []
    for part in row_chunks(len(sample), 24 * len(Z)):
        d = euclidean_distances(Z[sample[part]], Z, squared=True)
        d[ends[sample[part], None] == ends] = np.inf
        nearest = np.partition(d, 511, axis=1)[:, :512] if d.shape[1] > 512 else d
        gaps = nearest[:, None, :] - pull[part, :, None]
        parts.append(gaps[np.isfinite(gaps)])
    u, share = np.concatenate(parts), objective.push
    wanted = (1 - share) * float(pull[np.isfinite(pull)].sum()) - share * float(u[u < 0].sum())
    u = np.sort(u[u > 0])
    if not len(u):
        return 1.0
    # If the sum of all gaps is too small, the minimum is at zero, where the gradient vanishes.
    place = int(np.searchsorted(share * np.cumsum(u), wanted))
    return float(1 / np.sqrt(u[min(place, len(u) - 1)]))


def _at(weights: FloatArray | None, rows: IntArray) -> FloatArray | None:
    """Return the weights of some samples; None stands for equal weights."""
    return None if weights is None else weights[rows]
