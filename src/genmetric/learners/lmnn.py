"""LMNN: the large-margin nearest-neighbour metric of Weinberger and Saul."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, clone
from sklearn.covariance import ledoit_wolf
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.validation import has_fit_parameter

from genmetric._neighbors import majority_votes, nearest_neighbors
from genmetric._parallel import one_blas_thread, row_chunks
from genmetric._typing import ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    BOOLEAN,
    HasMethods,
    Interval,
    ParameterRules,
    check_n_components,
    check_parameters,
    check_weights,
    encode_classes,
    labelled_samples,
    warn_user,
)
from genmetric._validation import ArrayLike as ArrayRule
from genmetric.density import Coordinates
from genmetric.geometry import symmetric_root
from genmetric.learners.early_stopping import (
    Samples,
    held_out_folds,
    lbfgs,
    positive_definite,
    start,
    train,
)
from genmetric.learners.generative import GenerativeMetric
from genmetric.learners.lmnn_loss import Loss, Objective, target_neighbors
from genmetric.learners.mahalanobis import LinearMapMixin, MahalanobisMixin

#: Closed forms that ``init="auto"`` selects from on held-out samples. The first one is used without
#: a selection, or if errors are equal.
CLOSED_FORMS = ("generative", "mixed", "pooled")
INIT_NAMES = ("auto", *CLOSED_FORMS, "identity", "pca", "lda", "random")


class LMNN(LinearMapMixin, MahalanobisMixin, BaseEstimator):
    r"""Large-margin nearest-neighbour metric, trained by L-BFGS.

    Each sample :math:`x_i` has target neighbours :math:`x_i^+`, the nearest samples of its own
    class under the initial metric. The metric M = LᵀL keeps them close and separates impostors
    :math:`x_l`, samples of other classes, from them by a margin of one. With squared distances
    :math:`d_{ij} = \|L(x_i - x_j)\|^2` it reduces

    .. math::
        (1 - \mu) \sum_i \sum_{j \in x_i^+} d_{ij}
        + \mu \sum_i \sum_{j \in x_i^+} \sum_{l:\, y_l \ne y_i} (1 + d_{ij} - d_{il})_+ .

    The minimum of this objective overfits if features are many or correlated. By default the
    minimisation therefore starts from a metric in closed form, moves in the space of that metric,
    and stops after a number of iterations; held-out samples select both the start and this number.
    ``early_stopping=False`` minimises the objective itself.

    Parameters
    ----------
    n_neighbors : int, default=3
        Number of target neighbours per sample, less than the number of samples. Larger values
        make classes compact as a whole, smaller values only locally. In a class of `n_neighbors`
        samples or fewer, samples have fewer targets, with a warning. A class of one sample has no
        targets and serves only as an impostor.
    n_components : int, default=None
        Output dimension, at most the number of features. ``None`` keeps the dimension of the
        initial metric, which is the number of features unless `init` is an array or an estimator
        with fewer components.
    init : str, array-like of shape (n_components, n_features) or estimator, default="auto"
        The initial metric. It selects the target neighbours and starts the minimisation.

        - ``"auto"``: for up to 50 classes the one of ``"generative"``, ``"mixed"`` and
          ``"pooled"`` with the lowest nearest-neighbour error of held-out samples, or
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
        the nearest-neighbour error of held-out samples, and to minimise in the space of the initial
        metric. Fifths of the samples are held out in turn until 1000 samples have been held out. If
        more than one fifth was held out, the result is the average of the metrics trained without
        them and of that of all samples. ``False`` minimises the objective until convergence.
    max_iter : int, default=200
        Maximum number of iterations of L-BFGS, with or without early stopping.
    tol : float, default=1e-6
        The minimisation ends if an iteration lowers the objective by less than this fraction of
        its initial value, in [0, 1]. Larger values end it sooner.
    preprocessor : array-like or callable, default=None
        Looks up samples if indices are passed to `fit`, as in metric-learn.
    n_jobs : int, default=None
        Number of threads; -1 uses all cores. The result is the same, bit for bit, for every
        number.
    random_state : int, RandomState instance or None, default=None
        Seed of the entries of ``init="random"``; no other step is random.
    verbose : int, default=0
        If positive, print one line per iteration.

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
        Numbers of iterations and error rates of the held-out samples after them, the mean over
        votes of 1, 3 and 5 neighbours; without rows if ``early_stopping=False`` or if no sample
        could be held out.
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
    sklearn.neighbors.NeighborhoodComponentsAnalysis : A different objective over L.

    Notes
    -----
    **Early stopping.** Along directions in which target neighbours hardly differ the metric can
    grow at no cost, and there the minimum of the objective fits the noise. Minimising in the space
    of the initial metric changes these directions last. The default of 11 iterations is replaced
    by the number with the lowest held-out error only if that error is lower by more than its
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
    samples and kept as an active set of pairs of at most 67 MB. The search is repeated after L has
    moved, and at the end: the minimisation is complete if no violated triplet is outside the set.
    If there are more pairs, each evaluation repeats the search, which takes longer but no extra
    memory. If there are more than 32 times as many at the start, `fit` raises an error: classes
    overlap too much. A search computes n_samples² inner products, which takes minutes beyond
    100,000 samples.

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
        "init": [*INIT_NAMES, ArrayRule("an array"), HasMethods(("fit",))],
        "push": [Interval(float, 0, 1)],
        "loss": ["hinge", "squared_hinge"],
        "early_stopping": [BOOLEAN],
        "tol": [Interval(float, 0, 1)],
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
        data, coordinates = self._validate(X, y, sample_weight)
        with one_blas_thread():
            folds = held_out_folds(data[1], data) if self.early_stopping else []
            init, inits = self._select_init(data, folds)
            objective, L, metric = self._start(data, init, coordinates)
            iterates = minimize(objective, L, metric, self.tol)
            runs = (
                (minimize(*self._start(part, own, coordinates), self.tol), part, held_out)
                for (part, held_out), own in zip(folds, inits, strict=True)
            )
            # Eleven iterations, unless another number is better by more than a standard error.
            L, self.n_iter_, self.validation_path_ = train(
                self, iterates, runs, vote_errors, data[0], default=11
            )
            objective(L, exact=True)
        self.components_ = L / coordinates.scale
        self.metric_ = self.components_.T @ self.components_
        self.objective_ = objective.value
        self.init_ = init if isinstance(init, str) else None
        return self

    def _validate(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Samples, Coordinates]:
        """Return the samples in order of their classes, and their coordinates."""
        check_parameters(self)
        x, labels = labelled_samples(self, X, y)
        check_n_components(self.n_components, x.shape[1])
        weights = np.ones(len(x))
        if sample_weight is not None:
            weights = check_weights(sample_weight, len(x))
            x, labels, weights = (a[weights > 0] for a in (x, labels, weights))
        self.classes_, codes = encode_classes(labels, type(self).__name__)
        sizes = np.bincount(codes)
        if self.n_neighbors >= len(x):
            raise ValueError(
                f"n_neighbors must be less than the number of samples, {len(x)}; got "
                f"{self.n_neighbors}. Use fewer neighbours."
            )
        if sizes.max() == 1:
            raise ValueError("Every class has a single sample. LMNN needs classes with at least 2.")
        small = sizes <= self.n_neighbors
        if small.any():
            names, numbers = (reprlib.repr(a[small].tolist()) for a in (self.classes_, sizes))
            warn_user(
                f"Classes {names} have {numbers} samples, too few for n_neighbors="
                f"{self.n_neighbors} targets each. Lower n_neighbors, or merge small classes."
            )
        order = np.argsort(codes, kind="stable")
        coordinates = Coordinates.of(x)
        data = coordinates.apply(x[order]), codes[order], weights[order] / weights.mean()
        return data, coordinates

    def _select_init(
        self, data: Samples, folds: list[tuple[Samples, Samples]]
    ) -> tuple[Any, list[Any]]:
        """Select the closed form of "auto" by the error of held-out samples, before any iteration.

        Returns `init` for all samples and for each fold. The selection helps with few samples; with
        a single fold it would take a third of the time of a fit.
        """
        init = self.init
        if isinstance(init, str) and init == "auto":
            # Covariances of many classes with few samples are poor, and take memory.
            init = "lda" if len(self.classes_) > 50 else CLOSED_FORMS[0]
            if init != "lda" and len(folds) > 1:
                inits = [closed_forms(part, self.n_jobs) for part, _ in folds]

                def error(name: str) -> float:
                    total = 0.0
                    for (part, held_out), factors in zip(folds, inits, strict=True):
                        L, _ = start(factors[name], part[0], part[2], self.n_components)
                        total += float(held_out[2] @ vote_errors(L, part, held_out))
                    return total

                init = min(CLOSED_FORMS, key=error)
                return init, [factors[init] for factors in inits]
        return init, [init] * len(folds)

    def _start(
        self, data: Samples, init: Any, coordinates: Coordinates
    ) -> tuple[Objective, FloatArray, FloatArray]:
        """Return the objective, its start L, and the metric in whose space the iterations move."""
        x, codes, weights = data
        if hasattr(init, "fit"):
            init = components_of(init, coordinates.restore(x), codes, weights)
        elif isinstance(init, str) and init in CLOSED_FORMS:
            init = closed_forms(data, self.n_jobs, init)[init]
        elif isinstance(init, str) and init == "lda":
            init = symmetric_root(whitening(x, codes, weights))
        L, metric = start(init, x, weights, self.n_components, self.random_state)
        k = min(int(self.n_neighbors), int(np.bincount(codes).max()) - 1)
        targets = target_neighbors(x @ L.T, codes, k)
        objective = Objective(x, codes, targets, weights, self.push, self.loss, self.n_jobs)
        if not self.early_stopping:
            # In this space the minimisation is fastest: the pull is the squared norm of A, L = A·F.
            metric = np.asarray(np.linalg.inv(positive_definite(objective.scatter, 1e-8)), float)
        return objective, L * best_scale(objective, L), metric


def minimize(
    objective: Objective, start: FloatArray, metric: FloatArray, tol: float
) -> Iterator[tuple[FloatArray, float]]:
    """Yield the start and the factor after each iteration, with the objective.

    L-BFGS runs on the active set of impostors. After it ends, all are searched, and it runs again
    if violated triplets were missing, or if it ended at a kink of a hinge after some progress.
    """
    L, unit = start, objective(start, exact=True)[0]
    yield L, objective.value
    if unit == 0:
        return
    value, decrease = unit, np.inf
    while True:
        before, believed = value, value
        for ahead, lower in lbfgs(objective, L, metric, tol, unit):
            L, decrease, believed = ahead, believed - lower, lower
            yield L, objective.value
        value = objective(L, exact=True)[0]
        if value - believed > max(0.1 * tol, 1e-12) * unit:
            objective.max_movement /= 2
        elif min(decrease, before - value) <= tol * unit:
            return


def vote_errors(L: FloatArray, part: Samples, held_out: Samples) -> FloatArray:
    """Return the fraction of wrong votes of 1, 3 and 5 neighbours for each held-out sample."""
    (x, codes, _), k = part, min(5, len(part[0]))
    found = nearest_neighbors(x @ L.T, k, queries=held_out[0] @ L.T)
    winners = majority_votes(codes[found.indices], int(codes[-1]) + 1)
    wrong = winners[:, [0, min(2, k - 1), k - 1]] != held_out[1][:, None]
    return np.asarray(wrong.mean(axis=1))


def closed_forms(data: Samples, n_jobs: int | None, only: str = "mixed") -> dict[str, FloatArray]:
    """Return factors of closed forms; "mixed" is the mean metric at equal mean squared distance."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # LMNN warns about small classes itself
        for name, base in {"generative": "identity", "pooled": "pooled"}.items():
            if only in (name, "mixed"):
                found[name] = GenerativeMetric(base=base, n_jobs=n_jobs).fit(*data).metric_
    if only == "mixed":
        C = np.atleast_2d(np.cov(data[0], rowvar=False, ddof=0, aweights=data[2]))
        # Without any variance distances vanish, and the metrics are added as they are.
        found["mixed"] = np.sum([M / (float(np.vdot(M, C)) or 1.0) for M in found.values()], axis=0)
    return {name: symmetric_root(metric) for name, metric in found.items()}


def whitening(x: FloatArray, codes: IntArray, weights: FloatArray) -> FloatArray:
    """Invert the pooled within-class covariance, shrunk by Ledoit and Wolf's rule.

    Memory does not grow with the number of classes. Without any scatter it is the identity.
    """
    indicator = csr_array((weights, codes, np.arange(len(x) + 1)))
    means = indicator.T @ x / indicator.sum(axis=0)[:, None]
    residuals = (x - means[codes]) * np.sqrt(weights / weights.mean())[:, None]
    pooled = ledoit_wolf(residuals, assume_centered=True)[0]
    return np.asarray(np.linalg.inv(positive_definite(pooled, 1e-8)))


def components_of(init: Any, X: FloatArray, codes: IntArray, weights: FloatArray) -> FloatArray:
    """Return `components_` of an estimator, fitted if necessary."""
    if not hasattr(init, "components_"):
        options = {"sample_weight": weights} if has_fit_parameter(init, "sample_weight") else {}
        init = clone(init).fit(X, codes, **options)
    if not hasattr(init, "components_"):
        raise ValueError(
            f"init={init!r} has no components_ after fit. Pass one that has, such as "
            "GenerativeMetric(), or the factor as an array."
        )
    return np.asarray(init.components_)


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
